"""The experiment `priors`: decoders trained with and without an answer prior, scored with M3ID.

Two decoders on frozen patches learn relations from the same images and the same number of
questions. For one of them 70 % of the answers are "left", "above", "on" or "in front of"; for the
other 50 %. Each is scored with and without M3ID.

Every relation can be asked from either of its things: the answer to "Is the cup to the left of or
to the right of the plate?" is "left" where the answer to the question about the plate is "right".
The choice sets how frequent an answer is, without changing images or the number of lessons.

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
from unbag_lab.scheduler import run_shares, shares
from unbag_lab.training import precision_of

M3ID_ENDING = "-m3id"
SHARES: Mapping[str, float] = MappingProxyType({"even": 0.5, "prior": 0.7})
"""Decoders, with the share of frequent answers in their training."""
BENCHMARKS = ("world-pairs-a", "world-pairs-b")
"""Benchmarks with sets of images whose captions are relations, opposite ones in pairs."""
SMALL_EVERY = 10
_SECONDS = 70.0


@dataclass(frozen=True)
class PriorExperiment:
    """Two decoders, each scored with and without M3ID; see `unbag_lab.plan.Experiment`."""

    name: str = "priors"
    reads_bases: bool = True
    on_processor: bool = False
    most_processes: int = 2
    about: str = "decoders on frozen patches, taught with and without an answer prior; M3ID"
    arms: tuple[str, ...] = tuple(
        f"{taught}{ending}" for taught in SHARES for ending in ("", M3ID_ENDING)
    )

    def needs(self, arm: str) -> tuple[ArmKey, ...]:
        """Return the decoder that an arm of M3ID scores."""
        if arm not in self.arms:
            raise unknown_name("arm", arm, self.arms)
        taught = arm.removesuffix(M3ID_ENDING)
        return () if arm == taught else ((self.name, taught),)

    def seconds(self, arm: str) -> float:
        """Estimate the seconds; M3ID needs no training."""
        return 5.0 if self.needs(arm) else _SECONDS

    def extent(self, arm: str, *, size: Size) -> Extent:
        """Return the extent of the other decoders; M3ID takes no steps."""
        settings = sized(size)
        taught = decoder_settings(settings.steps, size)
        return Extent(0 if self.needs(arm) else taught.steps, taught.batch_size, settings.times)

    def run(self, order: Order, *, say: Say = print) -> None:
        """Run what is missing; the same order resumes an interrupted run."""
        for arm in order.arms:
            self.needs(arm)
        settings = replace(sized(order.size), device=order.device, workers=order.workers)
        step = 1 if order.size == "full" else SMALL_EVERY
        questions = Questions(BENCHMARKS, times=settings.times, every=step)
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
            # Run bases in order, and the two decoders of a base in parallel.
            groups = [group for group in groups if group] if order.processes > 1 else [arms]
            run_shares(shares(run, groups), processes=order.processes, say=say)


PRIORS = PriorExperiment()


def sized(size: Size) -> ReadoutSettings:
    """Return the settings of the other decoders, so that features and steps are the same."""
    if size == "full":
        return FOR_DECODERS
    return ReadoutSettings(scenes=128, steps=2, fit_rows=16, fit_steps=2, times=1, size="small")


def decoder_settings(steps: int, size: Size) -> DecoderSettings:
    """Return the settings of the decoder on patches, trained on relations only."""
    settings = replace(
        DECODERS["decoder"], steps=steps, yes=0.0, letters=0.0, describe=0.0, answer=1.0
    )
    return settings if size == "full" else shrunk(settings)


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
            decoder, words = lab.taught(SHARES[arm])
            net, loss, fit = decoder.net, decoder.loss, {"fit": decoder.fit}
            keep(net, words, base, lab.settings, weights)
        else:
            if not weights.is_dir():
                raise UnbagError(
                    f"the decoder {weights} is missing, which M3ID scores",
                    expected="weights next to the result of the trained arm",
                    hint=f"remove {weights.name}.json next to it and run that arm again",
                )
            saved = read_decoder(weights).made
            net, words = saved.net.to(base.settings.device), saved.words
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
    """The data that the arms of one base share."""

    base: Base
    settings: DecoderSettings

    @cached_property
    def asked(self) -> Tensor:
        """Features of the images of the benchmarks, [N, L, V]."""
        image_tokens = question_features(self.base, self.settings)
        assert image_tokens is not None
        return image_tokens

    def taught(self, share: float) -> tuple[TaughtDecoder, Words]:
        """Train a decoder with this share of frequent answers."""
        base = self.base
        material = base.material(self.settings)
        lessons = relation_lessons(material.facts, share=share, seed=base.seed)
        fair = relation_lessons(material.facts, share=0.5, seed=base.seed)
        first = material.count - material.held_out
        trained = [lesson for lesson in lessons if lesson.image < first]
        texts = [text for lesson in (*lessons, *fair) for text in (lesson.prompt, lesson.answer)]
        words = words_of([*texts, *texts_asked(), *base.questions.captions])
        decoder = teach(
            base,
            words,
            self.settings,
            few=trained[: base.settings.fit_rows],
            lessons=trained,
            # Held-out lessons have no prior in any arm, so that arms can be compared.
            held=[lesson for lesson in fair if lesson.image >= first],
        )
        return decoder, words

    def measured(
        self, net: DecoderNet, words: Words, *, m3id: M3ID | None
    ) -> dict[str, dict[str, float]]:
        """Return two-way metrics; captions compete in pairs, so four-way metrics mean nothing."""
        device, context = self.base.settings.device, self.settings.context
        score = score_answers(net, words, self.asked, context=context, m3id=m3id, device=device)
        numbers = {
            name: {metric: value for metric, value in numbers.items() if metric in TWO_WAY}
            for name, numbers in self.base.questions.measured(score).items()
        }
        items = set_items("a", n=_BLIND_SETS)
        share = blind_share(net, words, items, context=context, device=device)
        return {**numbers, "prior": {"blind": share}}


FREQUENT = frozenset(BETWEEN[name].phrase for name in ("left of", "above", "on", "in front of"))
"""One of each two opposite relations, the frequent answers."""
_KIND = "answer"


def relation_lessons(facts: Sequence[DecoderFact], *, share: float, seed: int) -> list[Lesson]:
    """Make a lesson for each caption with a relation; `share` of the answers are frequent."""
    lessons = []
    for fact in facts:
        statement = parse_relation(fact.caption)
        if statement is None or not statement.second:
            continue
        rng = np.random.default_rng((seed, 11, fact.image))
        # The same draw for every share, so that two arms differ in as few questions as possible.
        is_frequent, is_turned = bool(rng.random() < share), bool(rng.integers(2))
        as_said = (statement.relation in FREQUENT) == is_frequent
        first, second = (
            (statement.first, statement.second) if as_said else (statement.second, statement.first)
        )
        relation = statement.relation if as_said else OPPOSITE[statement.relation]
        phrases = (relation, OPPOSITE[relation]) if is_turned else (OPPOSITE[relation], relation)
        question = question_between(
            [f"the {first} {between} the {second}" for between in phrases], images=2
        )
        answer = question.keywords[phrases.index(relation)][0]
        lessons.append(Lesson(fact.image, _KIND, _prompt(question.text), answer))
    return lessons


def item_lessons(items: Sequence[Item]) -> list[Lesson]:
    """Make a lesson for each caption of each item: the question between it and its opposite."""
    lessons = []
    for item in items:
        captions = [str(caption) for caption in item.captions]
        for at in range(0, len(captions), 2):
            question = question_between(captions[at : at + 2], images=2)
            lessons += [
                Lesson(0, _KIND, _prompt(question.text), words[0]) for words in question.keywords
            ]
    return lessons


def texts_asked() -> list[str]:
    """Return all questions and answers, with a placeholder for things."""
    texts = []
    for phrase in sorted(FREQUENT):
        captions = [f"the thing {between} the thing" for between in (phrase, OPPOSITE[phrase])]
        question = question_between(captions, images=2)
        texts += [_prompt(question.text), *(words[0] for words in question.keywords)]
    return texts


def _prompt(question: str) -> str:
    published = next(prompt_set for prompt_set in sets.ANSWER if prompt_set.is_published)
    return filled(published.caption, question=question)


_ROWS = 2_048


def score_answers(
    net: DecoderNet, words: Words, seen_NLV: Tensor, *, context: int, m3id: M3ID | None, device: str
) -> Score:
    """Score each caption by its answer to the question between it and its opposite."""
    net.eval()

    def score(image_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        lessons = make_lessons(item_lessons(items), words, context=context).to(device)
        # Cells are ordered image by image, lessons caption by caption.
        parts, first = [], 0
        for item in items:
            lesson_N = np.arange(first, first + len(item.captions))
            parts.append(np.tile(lesson_N, len(item.images)))
            first += len(item.captions)
        lesson_M = np.concatenate(parts)
        value_M = np.empty(len(lesson_M))
        for start in range(0, len(lesson_M), _ROWS):
            chunk = slice(start, start + _ROWS)
            batch = lessons.batch(lesson_M[chunk])
            seen_BLV = seen_NLV[torch.from_numpy(image_M[chunk]).to(seen_NLV.device)]
            log_B = answer_log(net, seen_BLV, batch, end=words.end, m3id=m3id)
            value_M[chunk] = log_B.cpu().numpy()
        return value_M

    return score


def blind_share(
    net: DecoderNet, words: Words, items: Sequence[Item], *, context: int, device: str
) -> float:
    """Return the mean probability of the frequent one of two answers, without any image."""
    lessons = make_lessons(item_lessons(items), words, context=context).to(device)
    batch = lessons.batch(np.arange(len(lessons)))
    log_M = answer_log(net, None, batch, end=words.end, m3id=None)
    # The frequent caption of every two comes first in the sets of the world.
    return float(log_M.reshape(-1, 2).softmax(dim=1)[:, 0].mean())


@torch.inference_mode()
def answer_log(
    net: DecoderNet,
    seen_BLV: Tensor | None,
    batch: LessonBatch,
    *,
    end: int,
    m3id: M3ID | None,
) -> Tensor:
    """Return the sum of the log-probabilities of the words of each answer, [B]."""
    # In single precision: bfloat16 makes ties, which count as wrong.
    log_BAU = net.answered(seen_BLV, batch).float().log_softmax(dim=-1)
    if m3id is not None:
        prior_BAU = net.answered(None, batch).float().log_softmax(dim=-1)
        steps = range(log_BAU.shape[1])
        log_BAU = torch.stack([m3id(log_BAU[:, t], prior_BAU[:, t], t) for t in steps], dim=1)
    is_word_BA = (batch.target_BA != NOTHING) & (batch.target_BA != end)
    own_BA = log_BAU.gather(2, batch.target_BA.clamp(min=0)[..., None])[..., 0]
    return own_BA.masked_fill(~is_word_BA, 0.0).double().sum(dim=1)
