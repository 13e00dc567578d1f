"""Bases come in; results of decoders that were taught with an answer prior go out, arm by arm.

Dimensions: N pictures, L patches, V width of features.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import torch
from torch import Tensor

from unbag.errors import UserError
from unbag.lab.arm_result import Size, result_path
from unbag.lab.arms_left import arms_left
from unbag.lab.at_once import each_apart, shares
from unbag.lab.decoder_taught import Course, Taught, shrunk, teach
from unbag.lab.experiment import Experiment, Order, Say
from unbag.lab.prior_experiment import M3ID_ENDING, SHARES
from unbag.lab.prior_lessons import BENCHMARKS, relation_lessons, texts_asked
from unbag.lab.prior_scores import blind_share, score_answers
from unbag.lab.questions import Questions
from unbag.lab.readout_base import FOR_DECODERS, Base, Settings
from unbag.lab.readout_decoders import DECODERS, keep, question_features
from unbag.lab.readout_vectors import precision_of
from unbag.lab.readouts import finish
from unbag.metrics.pairs import TWO_WAY
from unbag.models.huggingface.chat_runner import M3ID
from unbag.readouts.decoder.lessons import DecoderSettings, Words, words_of
from unbag.readouts.decoder.model import DecoderNet
from unbag.readouts.decoder.saving import read_decoder
from unbag.world.benchmarks import set_items

_BLIND_SETS = 100
SMALL_EVERY = 10
_SHOWN = (
    ("prior", "blind"),
    (BENCHMARKS[0], "pair"),
    (BENCHMARKS[0], "relaxed"),
    (BENCHMARKS[0], "same_answer"),
)


def run_priors(order: Order, experiment: Experiment, *, say: Say) -> None:
    """Base by base; the two decoders of a base side by side, if more processes are allowed."""
    settings = replace(sized(order.size), device=order.device, workers=order.workers)
    every = 1 if order.size == "full" else SMALL_EVERY
    questions = Questions(BENCHMARKS, times=settings.times, every=every)
    for path in order.bases:
        base = Base(path, questions, settings)
        arms = arms_left(order, experiment, path, seed=base.seed)
        if not arms:
            continue
        if any(arm in SHARES for arm in arms):
            base.make_rows("decoders", say)
        # An arm that takes another's weights follows it in the same process.
        groups = [[arm for arm in arms if arm.startswith(taught)] for taught in SHARES]
        run = partial(_run_arms, base, experiment.name, order, say)
        groups = [group for group in groups if group] if order.processes > 1 else [arms]
        each_apart(shares(run, groups), processes=order.processes, say=say)


def sized(size: Size) -> Settings:
    """Those of the other decoders, so that features and steps are the same."""
    if size == "full":
        return FOR_DECODERS
    return Settings(scenes=128, steps=2, fit_rows=16, fit_steps=2, times=1, size="small")


def decoder_settings(steps: int, size: Size) -> DecoderSettings:
    """The decoder on patches, asked about relations only: few of its questions are."""
    own = replace(DECODERS["decoder"], steps=steps, yes=0.0, letters=0.0, describe=0.0, answer=1.0)
    return own if size == "full" else shrunk(own)


@dataclass(frozen=True, eq=False)
class _Lab:
    """What the arms of one base share."""

    base: Base
    settings: DecoderSettings

    @cached_property
    def asked(self) -> Tensor:
        """Features of the pictures that are asked about, [N, L, V]."""
        found = question_features(self.base, self.settings)
        assert found is not None
        return found

    def taught(self, share: float) -> tuple[Taught, Words]:
        """A decoder for which so many answers are frequent ones."""
        base = self.base
        material = base.material(self.settings)
        every = relation_lessons(material.facts, share=share, seed=base.seed)
        fair = relation_lessons(material.facts, share=0.5, seed=base.seed)
        first = material.count - material.held
        trained = [one for one in every if one.picture < first]
        course = Course(
            material.seen_NLV,
            trained[: base.settings.fit_rows],
            trained,
            # Without a prior for every arm, so that shares can be compared.
            [one for one in fair if one.picture >= first],
        )
        said = [text for one in (*every, *fair) for text in (one.prompt, one.answer)]
        words = words_of([*said, *texts_asked(), *base.questions.captions])
        found = teach(
            course,
            words,
            self.settings,
            fit_steps=base.settings.fit_steps,
            device=base.settings.device,
            seed=base.seed,
        )
        return found, words

    def measured(
        self, net: DecoderNet, words: Words, *, m3id: M3ID | None
    ) -> dict[str, dict[str, float]]:
        """Two captions compete at a time, so that numbers of four would mean nothing."""
        device, context = self.base.settings.device, self.settings.context
        score = score_answers(net, words, self.asked, context=context, m3id=m3id, device=device)
        found = {
            name: {metric: value for metric, value in numbers.items() if metric in TWO_WAY}
            for name, numbers in self.base.questions.measured(score).items()
        }
        items = set_items("a", n=_BLIND_SETS)
        share = blind_share(net, words, items, context=context, device=device)
        return {**found, "prior": {"blind": share}}


def _run_arms(base: Base, experiment: str, order: Order, say: Say, arms: Sequence[str]) -> None:
    lab = _Lab(base, decoder_settings(base.settings.steps, order.size))
    if base.settings.device != "cpu":
        torch.set_float32_matmul_precision("high")
    folder = result_path(order.out, experiment, base.path.stem, arms[0]).parent
    folder.mkdir(parents=True, exist_ok=True)
    for arm in arms:
        began = time.perf_counter()
        weights = folder / arm.removesuffix(M3ID_ENDING)
        fit, loss = {}, None
        if arm in SHARES:
            found, words = lab.taught(SHARES[arm])
            net, loss, fit = found.net, found.loss, {"fit": found.fit}
            keep(net, words, base, lab.settings, weights)
        else:
            net, words = _read(lab, weights)
        numbers = lab.measured(net, words, m3id=None if arm in SHARES else M3ID())
        result = base.result(
            arm,
            {**numbers, **fit},
            steps=lab.settings.steps if arm in SHARES else 0,
            batch=lab.settings.batch,
            loss=loss,
            precision=precision_of(base.settings.device),
        )
        finish(replace(result, experiment=experiment), folder, began, say, shown=_SHOWN)


def _read(lab: _Lab, folder: Path) -> tuple[DecoderNet, Words]:
    """A decoder that an arm left beside its result."""
    if not folder.is_dir():
        raise UserError(
            f"there is no {folder}, the decoder that M3ID is to score",
            expected="weights beside the result of the arm that was taught",
            way_out=f"remove {folder.name}.json beside it and run that arm again",
        )
    made = read_decoder(folder).made
    return made.net.to(lab.base.settings.device), made.words
