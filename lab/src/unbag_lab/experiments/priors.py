"""The experiment `priors`: decoders taught with and without an answer prior, scored with M3ID.

Two decoders on frozen patches learn where things are from the same images and as many questions.
For one of them 70 of 100 answers are left, above, on or in front of; for the other 50. Each is
scored plainly and with M3ID.

Every relation can be asked from either of its things: "Is the cup to the left of or to the right of
the plate?" is answered by left where the question about the plate is answered by right. Which one
is asked decides how often an answer is right, and changes neither images nor the number of lessons.

Dimensions: N images, L patches, V width of features, M cells, B rows, A tokens of an answer, U
vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from unbag.errors import UnbagError, unknown_name
from unbag.metrics.pairs import TWO_WAY
from unbag.models.huggingface.chat_runner import M3ID
from unbag.readouts.decoder.lessons import (
    NOTHING,
    DecoderFact,
    DecoderSettings,
    Lesson,
    LessonBatch,
    Words,
    make_lessons,
    question_between,
    words_of,
)
from unbag.readouts.decoder.model import DecoderNet
from unbag.readouts.decoder.saving import read_decoder
from unbag.readouts.vlm2vec.data import OPPOSITE, parse_relation
from unbag.scorers import prompts as sets
from unbag.scorers.prompts import filled
from unbag.scorers.questions import BETWEEN
from unbag.types import FloatArray, IntArray, Item
from unbag.world.benchmarks import set_items
from unbag_lab.claims import ArmKey
from unbag_lab.experiments.decoders import (
    DECODERS,
    TaughtDecoder,
    keep,
    question_features,
    shrunk,
    teach,
)
from unbag_lab.experiments.readers import FOR_DECODERS, Base, ReadoutSettings, finish
from unbag_lab.plan import Order, Say, arms_left
from unbag_lab.questions import Questions, Score
from unbag_lab.results import Extent, Size, result_path
from unbag_lab.scheduler import each_apart, shares
from unbag_lab.training import precision_of

M3ID_ENDING = "-m3id"
SHARES: Mapping[str, float] = MappingProxyType({"even": 0.5, "prior": 0.7})
"""Decoders, and how many of their answers are frequent ones."""
BENCHMARKS = ("world-pairs-a", "world-pairs-b")
"""Sets of images whose captions are such relations, opposite ones beside each other."""
SMALL_EVERY = 10
_SECONDS = 70.0


@dataclass(frozen=True)
class PriorExperiment:
    """Two decoders, two ways to score each."""

    name: str = "priors"
    reads_bases: bool = True
    on_processor: bool = False
    most_processes: int = 2
    about: str = "decoders on frozen patches, taught with and without an answer prior; M3ID"
    arms: tuple[str, ...] = tuple(
        f"{taught}{ending}" for taught in SHARES for ending in ("", M3ID_ENDING)
    )

    def needs(self, arm: str) -> tuple[ArmKey, ...]:
        """M3ID is another way to score a decoder."""
        if arm not in self.arms:
            raise unknown_name("arm", arm, self.arms)
        taught = arm.removesuffix(M3ID_ENDING)
        return () if arm == taught else ((self.name, taught),)

    def seconds(self, arm: str) -> float:
        """Nothing is trained for M3ID."""
        return 5.0 if self.needs(arm) else _SECONDS

    def extent(self, arm: str, *, size: Size) -> Extent:
        """That of the other decoders; nothing is trained for M3ID."""
        settings = sized(size)
        taught = decoder_settings(settings.steps, size)
        return Extent(0 if self.needs(arm) else taught.steps, taught.batch_size, settings.times)

    def run(self, order: Order, *, say: Say = print) -> None:
        """Run what is missing; the same order goes on after a stop."""
        for arm in order.arms:
            self.needs(arm)
        settings = replace(sized(order.size), device=order.device, workers=order.workers)
        every = 1 if order.size == "full" else SMALL_EVERY
        questions = Questions(BENCHMARKS, times=settings.times, every=every)
        for path in order.bases:
            base = Base(path, questions, settings)
            arms = arms_left(order, self, path, seed=base.seed)
            if not arms:
                continue
            if any(arm in SHARES for arm in arms):
                base.make_rows("decoders", say)
            # An arm that takes another's weights follows it in the same process.
            groups = [[arm for arm in arms if arm.startswith(taught)] for taught in SHARES]
            run = partial(_run_arms, base, self.name, order, say)
            # One base after the other, the two decoders of a base side by side.
            groups = [group for group in groups if group] if order.processes > 1 else [arms]
            each_apart(shares(run, groups), processes=order.processes, say=say)


PRIORS = PriorExperiment()


def sized(size: Size) -> ReadoutSettings:
    """Those of the other decoders, so that features and steps are the same."""
    if size == "full":
        return FOR_DECODERS
    return ReadoutSettings(scenes=128, steps=2, fit_rows=16, fit_steps=2, times=1, size="small")


def decoder_settings(steps: int, size: Size) -> DecoderSettings:
    """The decoder on patches, asked about relations only: few of its questions are."""
    own = replace(DECODERS["decoder"], steps=steps, yes=0.0, letters=0.0, describe=0.0, answer=1.0)
    return own if size == "full" else shrunk(own)


_SHOWN = (
    ("prior", "blind"),
    (BENCHMARKS[0], "pair"),
    (BENCHMARKS[0], "relaxed"),
    (BENCHMARKS[0], "same_answer"),
)


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
            if not weights.is_dir():
                raise UnbagError(
                    f"there is no {weights}, the decoder that M3ID is to score",
                    expected="weights beside the result of the arm that was taught",
                    hint=f"remove {weights.name}.json beside it and run that arm again",
                )
            made = read_decoder(weights).made
            net, words = made.net.to(base.settings.device), made.words
        numbers = lab.measured(net, words, m3id=None if arm in SHARES else M3ID())
        result = base.result(
            arm,
            {**numbers, **fit},
            steps=lab.settings.steps if arm in SHARES else 0,
            batch_size=lab.settings.batch_size,
            loss=loss,
            precision=precision_of(base.settings.device),
        )
        finish(replace(result, experiment=experiment), folder, began, say, shown=_SHOWN)


_BLIND_SETS = 100


@dataclass(frozen=True, eq=False)
class _Lab:
    """What the arms of one base share."""

    base: Base
    settings: DecoderSettings

    @cached_property
    def asked(self) -> Tensor:
        """Features of the images that are asked about, [N, L, V]."""
        found = question_features(self.base, self.settings)
        assert found is not None
        return found

    def taught(self, share: float) -> tuple[TaughtDecoder, Words]:
        """A decoder for which so many answers are frequent ones."""
        base = self.base
        material = base.material(self.settings)
        every = relation_lessons(material.facts, share=share, seed=base.seed)
        fair = relation_lessons(material.facts, share=0.5, seed=base.seed)
        first = material.count - material.held_out
        trained = [one for one in every if one.image < first]
        said = [text for one in (*every, *fair) for text in (one.prompt, one.answer)]
        words = words_of([*said, *texts_asked(), *base.questions.captions])
        found = teach(
            base,
            words,
            self.settings,
            few=trained[: base.settings.fit_rows],
            lessons=trained,
            # Without a prior for every arm, so that shares can be compared.
            held=[one for one in fair if one.image >= first],
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


FREQUENT = frozenset(BETWEEN[name].phrase for name in ("left of", "above", "on", "in front of"))
"""One of each two opposite relations: what a prior is for."""
_KIND = "answer"


def relation_lessons(facts: Sequence[DecoderFact], *, share: float, seed: int) -> list[Lesson]:
    """One for each caption that states a relation; `share` of the answers are frequent ones."""
    lessons = []
    for fact in facts:
        found = parse_relation(fact.caption)
        if found is None or not found.second:
            continue
        rng = np.random.default_rng((seed, 11, fact.image))
        # The same draw for every share, so that two arms differ in as few questions as they must.
        is_frequent, is_turned = bool(rng.random() < share), bool(rng.integers(2))
        as_said = (found.relation in FREQUENT) == is_frequent
        first, second = (found.first, found.second) if as_said else (found.second, found.first)
        own = found.relation if as_said else OPPOSITE[found.relation]
        phrases = (own, OPPOSITE[own]) if is_turned else (OPPOSITE[own], own)
        asked = question_between([f"the {first} {one} the {second}" for one in phrases], images=2)
        answer = asked.keywords[phrases.index(own)][0]
        lessons.append(Lesson(fact.image, _KIND, _prompt(asked.text), answer))
    return lessons


def item_lessons(items: Sequence[Item]) -> list[Lesson]:
    """For each caption of each item the question between it and its opposite, and its answer."""
    found = []
    for item in items:
        captions = [str(caption) for caption in item.captions]
        for at in range(0, len(captions), 2):
            asked = question_between(captions[at : at + 2], images=2)
            found += [Lesson(0, _KIND, _prompt(asked.text), words[0]) for words in asked.keywords]
    return found


def texts_asked() -> list[str]:
    """All that is asked and answered besides the things themselves."""
    found = []
    for phrase in sorted(FREQUENT):
        captions = [f"the thing {one} the thing" for one in (phrase, OPPOSITE[phrase])]
        asked = question_between(captions, images=2)
        found += [_prompt(asked.text), *(words[0] for words in asked.keywords)]
    return found


def _prompt(question: str) -> str:
    published = next(one for one in sets.ANSWER if one.is_published)
    return filled(published.caption, question=question)


_ROWS = 2_048


def score_answers(
    net: DecoderNet, words: Words, seen_NLV: Tensor, *, context: int, m3id: M3ID | None, device: str
) -> Score:
    """Of each caption of an item: its answer to the question between it and its opposite."""
    net.eval()

    def score(image_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        lessons = make_lessons(item_lessons(items), words, context=context).to(device)
        # Cells stand image by image, lessons caption by caption.
        found, first = [], 0
        for item in items:
            own = np.arange(first, first + len(item.captions))
            found.append(np.tile(own, len(item.images)))
            first += len(item.captions)
        lesson_M = np.concatenate(found)
        value_M = np.empty(len(lesson_M))
        for start in range(0, len(lesson_M), _ROWS):
            some = slice(start, start + _ROWS)
            batch = lessons.batch(lesson_M[some])
            seen_BLV = seen_NLV[torch.from_numpy(image_M[some]).to(seen_NLV.device)]
            said_B = answer_log(net, seen_BLV, batch, end=words.end, m3id=m3id)
            value_M[some] = said_B.cpu().numpy()
        return value_M

    return score


def blind_share(
    net: DecoderNet, words: Words, items: Sequence[Item], *, context: int, device: str
) -> float:
    """What the language prior gives the frequent one of two answers, without any image."""
    lessons = make_lessons(item_lessons(items), words, context=context).to(device)
    batch = lessons.batch(np.arange(len(lessons)))
    said_M = answer_log(net, None, batch, end=words.end, m3id=None)
    # The frequent caption of every two comes first in the sets of the world.
    return float(said_M.reshape(-1, 2).softmax(dim=1)[:, 0].mean())


@torch.inference_mode()
def answer_log(
    net: DecoderNet,
    seen_BLV: Tensor | None,
    batch: LessonBatch,
    *,
    end: int,
    m3id: M3ID | None,
) -> Tensor:
    """Sum over the words of an answer, as a search for the best one would add them up, [B]."""
    # In single precision, whatever trained it: bfloat16 makes ties, which count as misses.
    log_BAU = net.answered(seen_BLV, batch).float().log_softmax(dim=-1)
    if m3id is not None:
        prior_BAU = net.answered(None, batch).float().log_softmax(dim=-1)
        steps = range(log_BAU.shape[1])
        log_BAU = torch.stack([m3id(log_BAU[:, t], prior_BAU[:, t], t) for t in steps], dim=1)
    is_word_BA = (batch.target_BA != NOTHING) & (batch.target_BA != end)
    own_BA = log_BAU.gather(2, batch.target_BA.clamp(min=0)[..., None])[..., 0]
    return own_BA.masked_fill(~is_word_BA, 0.0).double().sum(dim=1)
