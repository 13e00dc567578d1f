"""Trains the decoders and VLM2Vec of the experiment `readouts`, on frozen patches of bases.

A decoder scores by the probability of Yes; a decoder without questions by that of the caption. From
the decoder on patches, VLM2Vec is trained twice: with and without the question in the prompt. Every
decoder is first trained on a few hundred fixed lessons and measured on them: one that cannot fit
them shows nothing about the features. An interrupted run resumes arm by arm.

Dimensions: N images, L patches, V width of features, M pairs or lessons, B rows of a batch or
queries, T targets, A tokens of an answer, W width of the language model.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from unbag.models.weights import seeded
from unbag.readouts.decoder.language import lean, scratch_language
from unbag.readouts.decoder.lessons import (
    NOTHING,
    DecoderSettings,
    Lesson,
    LessonBatch,
    Words,
    lessons_of,
    make_lessons,
    prompt_texts,
    words_of,
)
from unbag.readouts.decoder.model import DecoderNet, DecoderParts, image_tokens, view_of
from unbag.readouts.decoder.saving import DecoderOrigin, read_decoder, save_decoder
from unbag.readouts.decoder.training import DecoderTask, fits, of_world, share_right
from unbag.readouts.vlm2vec.data import about_caption, instruction, question_of
from unbag.readouts.vlm2vec.model import unit
from unbag.readouts.vlm2vec.training import contrast
from unbag.runs.progress import Silent
from unbag.scorers import prompts as sets
from unbag.scorers.prompts import filled
from unbag.training.data.world import FindWorldTruth
from unbag.training.optim import OptimizerSettings
from unbag.training.trainer import Task, Trainer, TrainState, autocast
from unbag.types import FloatArray, IntArray, Item
from unbag_lab.experiments.readers import (
    Base,
    ReadoutSettings,
    families,
    finish,
)
from unbag_lab.plan import Say
from unbag_lab.questions import Score
from unbag_lab.results import BY_STEP, FEW_STEPS, ArmResult
from unbag_lab.training import precision_of, run_to_end

DECODERS: dict[str, DecoderSettings] = {
    "decoder": DecoderSettings(keeps="float16"),
    "decoder-cls": DecoderSettings(keeps="float16", sees="cls"),
    "decoder-nothing": DecoderSettings(keeps="float16", sees="nothing"),
    "decoder-no_question": DecoderSettings(keeps="float16", asks=False),
    "decoder-long": DecoderSettings(keeps="float16"),
    "decoder-cls-long": DecoderSettings(keeps="float16", sees="cls"),
}


@dataclass(frozen=True)
class VectorArm:
    """An arm of VLM2Vec: its decoder, and whether the question is in the prompt."""

    decoder: str = "decoder"
    asks: bool = True


VECTOR_ARMS: Mapping[str, VectorArm] = MappingProxyType(
    {
        "vlm2vec": VectorArm(),
        "vlm2vec-plain": VectorArm(asks=False),
        "vlm2vec-long": VectorArm("decoder-long"),
        "vlm2vec-plain-long": VectorArm("decoder-long", asks=False),
    }
)
"""The arms of VLM2Vec."""
ARMS = (*DECODERS, *VECTOR_ARMS)
RELATION = "world-relation"
CURVE = f"{RELATION}{BY_STEP}"
"""Name in results for the accuracy of a decoder during a long training."""


def run_decoders(base: Base, folder: Path, arms: Sequence[str], *, say: Say = print) -> None:
    """Run arms in order; results and weights go to the folder."""
    words = _vocabulary(base)
    nets: dict[str, DecoderNet] = {}
    for name in arms:
        began = time.perf_counter()
        if name in DECODERS:
            result, nets[name] = _train_decoder(name, base, words, folder)
        else:
            decoder = VECTOR_ARMS[name].decoder
            net = nets.get(decoder) or read_decoder(folder / decoder).made.net
            result, net = run_vectors(name, base, net, words)
            settings = taught_with(decoder, base.settings)
            keep(net, words, base, settings, folder / name, embeds=True)
        finish(result, folder, began, say)
    base.forget()


def decoder_groups(arms: Sequence[str], *, processes: int) -> list[list[str]]:
    """Return groups of arms that can run in parallel; VLM2Vec is in the group of its decoder."""

    def decoder(name: str) -> str:
        return VECTOR_ARMS[name].decoder if name in VECTOR_ARMS else name

    return families(arms, decoder, processes=processes)


def _vocabulary(base: Base) -> Words:
    """Return the vocabulary of all texts for decoders of this base."""
    nothing = DECODERS["decoder-nothing"]
    material = of_world(base.encoder, base.rows, nothing, progress=Silent())
    texts = [text for fact in material.facts for text in (fact.caption, *fact.negatives)]
    lessons = lessons_of(material.facts[:5_000], nothing, seed=base.seed)
    questions = [about_caption(text, is_turned=False) for text in texts[:5_000]]
    instructions = [instruction(question) for question in dict.fromkeys(questions)]
    return words_of(
        [
            *dict.fromkeys(texts),
            *base.questions.captions,
            *(text for question in lessons for text in (question.prompt, question.answer)),
            *prompt_texts(),
            *instructions,
        ]
    )


def _train_decoder(
    name: str, base: Base, words: Words, folder: Path
) -> tuple[ArmResult, DecoderNet]:
    settings = taught_with(name, base.settings)
    if not settings.asks:
        words = replace(words, asks=False)
    material = base.material(settings)
    first = material.count - material.held_out
    trained = [fact for fact in material.facts if fact.image < first]
    held_out = [fact for fact in material.facts if fact.image >= first]

    def ask_relations(net: DecoderNet) -> float:
        score = _score_decoder(net, words, base, settings)
        return base.questions.measured_on(RELATION, score)["original"]

    decoder = teach(
        base,
        words,
        settings,
        few=lessons_of(trained[: base.settings.fit_rows], settings, seed=base.seed),
        lessons=lessons_of(trained, settings, seed=base.seed),
        held=lessons_of(held_out, settings, seed=base.seed),
        look=ask_relations if is_long(name) and RELATION in base.questions.names else None,
    )
    keep(decoder.net, words, base, settings, folder / name)
    numbers = base.questions.measured(_score_decoder(decoder.net, words, base, settings))
    curve = {f"{step}": share for step, share in decoder.curve.items()}
    result = base.result(
        name,
        {**numbers, "fit": decoder.fit, **({CURVE: curve} if curve else {})},
        steps=settings.steps,
        batch_size=settings.batch_size,
        loss=decoder.loss,
        precision=precision_of(base.settings.device),
    )
    return result, decoder.net


def is_long(name: str) -> bool:
    """Return whether a decoder is trained for long."""
    return name.endswith("-long")


def taught_with(name: str, settings: ReadoutSettings) -> DecoderSettings:
    """Return the settings of a decoder."""
    steps = settings.long_steps if is_long(name) else settings.steps
    arm_settings = replace(DECODERS[name], steps=steps, scenes=settings.scenes)
    return arm_settings if settings.size == "full" else shrunk(arm_settings)


def keep(
    net: DecoderNet,
    words: Words,
    base: Base,
    settings: DecoderSettings,
    folder: Path,
    *,
    embeds: bool = False,
) -> None:
    """Save a folder for `--model decoder:FOLDER`, or for `--scorer vlm2vec@FOLDER` if it embeds."""
    folder.mkdir(parents=True, exist_ok=True)
    config = base.encoder.config
    patches = (config.pixels // config.patch) ** 2 if settings.sees == "patches" else 1
    places = 0 if settings.sees == "nothing" else patches
    decoder = DecoderParts(net, words, settings, places, places + settings.context, embeds)
    name = base.encoder.name
    save_decoder(folder, decoder, DecoderOrigin(f"tiny:{name}", name, base.encoder.fingerprint))


def question_features(base: Base, settings: DecoderSettings) -> Tensor | None:
    """Return the image tokens of a decoder for the images of the benchmarks."""
    if settings.sees == "nothing":
        return None
    return image_tokens(base.question_images(base.encoder, view_of(settings)), settings)


_PAIRS = 2_048


def _score_decoder(net: DecoderNet, words: Words, base: Base, settings: DecoderSettings) -> Score:
    """Score by the mean log-probability of Yes, or of the caption if there is no question."""
    device = base.settings.device
    seen_NLV = question_features(base, settings)
    prompt = next(prompt_set for prompt_set in sets.YES if prompt_set.is_published).caption
    caption_lessons = [
        Lesson(0, "yes", filled(prompt, text=text), "Yes")
        if settings.asks
        else Lesson(0, "describe", "", text)
        for text in base.questions.captions
    ]
    lessons = make_lessons(caption_lessons, words, context=settings.context).to(device)
    if len(lessons) < len(caption_lessons):
        raise ValueError(
            f"{len(caption_lessons) - len(lessons)} captions of the questions are too long"
        )
    net.eval()

    @torch.inference_mode()
    def score(image_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        # Batch captions of similar length, so that there is little padding.
        order_M = np.argsort(lessons.length_M[caption_M], kind="stable")
        value_M = np.empty(len(order_M))
        for start in range(0, len(order_M), _PAIRS):
            at = order_M[start : start + _PAIRS]
            batch = lessons.batch(caption_M[at])
            row_B = torch.from_numpy(image_M[at]).to(device)
            # In single precision: in bfloat16, captions of similar probability would tie, and a tie
            # counts as wrong.
            logit = net.answered(None if seen_NLV is None else seen_NLV[row_B], batch)
            value_M[at] = _said(logit.float(), batch, end=words.end).cpu().numpy()
        return value_M

    return score


def _said(logit_BAV: Tensor, batch: LessonBatch, *, end: int) -> Tensor:
    """Return the mean log-probability of the answer, without its end token."""
    is_word_BA = (batch.target_BA != NOTHING) & (batch.target_BA != end)
    target_BA1 = batch.target_BA.clamp(min=0)[..., None]
    log_BA = logit_BAV.log_softmax(dim=-1).gather(2, target_BA1)[..., 0]
    return (log_BA * is_word_BA).sum(dim=1).double() / is_word_BA.sum(dim=1)


@dataclass(frozen=True, eq=False)
class TaughtDecoder:
    """A decoder after its last step."""

    net: DecoderNet
    fit: dict[str, float]
    """Accuracy on lessons."""
    loss: float | None
    curve: dict[int, float]
    """Numbers measured during training, by steps; empty without `look`."""


def teach(
    base: Base,
    words: Words,
    settings: DecoderSettings,
    *,
    few: Sequence[Lesson],
    lessons: Sequence[Lesson],
    held: Sequence[Lesson],
    look: Callable[[DecoderNet], float] | None = None,
) -> TaughtDecoder:
    """Train a decoder on a few fixed lessons to test whether it fits them, then another on all.

    Args:
        base: The base with the features.
        words: The vocabulary.
        settings: Settings of the decoder.
        few: The fixed lessons.
        lessons: All lessons.
        held: Lessons about held-out images.
        look: Measures the decoder ten times during training.
    """
    device, seed, seen_NLV = base.settings.device, base.seed, base.material(settings).seen_NLV
    precision, fit_steps = precision_of(device), base.settings.fit_steps
    few_batches, all_batches, held_batches = (
        make_lessons(lesson_list, words, context=settings.context)
        for lesson_list in (few, lessons, held)
    )
    by_heart = replace(settings, steps=fit_steps, blind=0.0)
    net = fresh(settings, words, seen_NLV, seed=seed)
    can_fit = fits(
        net, seen_NLV, few_batches, by_heart, device=device, precision=precision, seed=seed
    )
    net = fresh(settings, words, seen_NLV, seed=seed)
    task = DecoderTask(
        net, seen_NLV, all_batches, settings, device=device, precision=precision, seed=seed
    )
    trainer, look_steps = Trainer(task), 0 if look is None else max(1, settings.steps // 10)
    last: list[Tensor] = []

    def on_step(state: TrainState, numbers: Mapping[str, Tensor]) -> bool:
        last[:] = [numbers["loss"]]
        return look_steps > 0 and state.step % look_steps == 0

    curve: dict[int, float] = {}
    while not trainer.is_done:
        # Measure between two runs, so that the state of the training does not change.
        step = trainer.run(on_step=on_step).step
        if look is not None and step % look_steps == 0:
            curve[step] = look(task.net)
    held_batches = held_batches.to(device)
    held_out = share_right(
        task.net, task.seen_NLV, held_batches, device=device, precision=precision
    )
    by_kind = {f"held {kind}": share for kind, share in held_out.by_kind.items()}
    fit = {"few": can_fit.share, FEW_STEPS: float(fit_steps), "held": held_out.share, **by_kind}
    return TaughtDecoder(task.net, fit, float(last[0]) if last else None, curve)


def fresh(
    settings: DecoderSettings, words: Words, seen_NLV: Tensor | None, *, seed: int
) -> DecoderNet:
    """Return a randomly initialized decoder."""
    places, width = (0, 1) if seen_NLV is None else (seen_NLV.shape[1], seen_NLV.shape[2])
    with seeded(seed):
        return DecoderNet(scratch_language(settings, words, places=places), width=width)


def shrunk(settings: DecoderSettings) -> DecoderSettings:
    """Return settings of a very small decoder, for trial runs."""
    return replace(settings, width=16, depth=1, heads=2, batch_size=16, warmup_steps=1)


VECTOR_BATCH, _RATE, _WARM_UP = 256, 3e-4, 100
_AT_ONCE = 1_024


def run_vectors(
    name: str, base: Base, decoder: DecoderNet, words: Words
) -> tuple[ArmResult, DecoderNet]:
    """Train VLM2Vec contrastively, from query to target, with in-batch and hard negatives."""
    asks, settings = VECTOR_ARMS[name].asks, base.settings
    texts, material = _Texts(words, settings.device), base.material(DECODERS["decoder"])
    assert material.seen_NLV is not None
    code = {
        key: torch.cat([rows.code[key] for rows in base.rows]).to(settings.device)
        for key in base.rows[0].code
    }
    lesson = _Lessons(
        [caption for rows in base.rows for caption in rows.captions],
        [negatives for rows in base.rows for negatives in rows.negatives],
        code,
        asks=asks,
        seed=base.seed,
    )
    count = material.count - material.held_out
    few_rows = min(settings.fit_rows, count)
    task_of = partial(_VectorTask, decoder, material.seen_NLV, lesson, texts, seed=base.seed)
    fit_steps = min(settings.fit_steps, max(1, settings.vector_steps // 3))
    by_heart = task_of(rows=few_rows, steps=fit_steps)
    Trainer(by_heart).run()
    few_share = by_heart.share_right(np.arange(few_rows), among_own=True)
    fit = {"few": few_share, FEW_STEPS: float(fit_steps)}
    task = task_of(rows=count, steps=settings.vector_steps)
    loss = run_to_end(Trainer(task))
    held = np.arange(count, material.count)
    for part, rows in (("learned", np.arange(min(count, len(held)))), ("held", held)):
        if len(rows):
            fit[part] = task.share_right(rows)
    seen_NLV = question_features(base, DECODERS["decoder"])
    assert seen_NLV is not None
    numbers = base.questions.measured(_score_vectors(task.net, seen_NLV, texts, base, asks=asks))
    result = base.result(
        name,
        {**numbers, "fit": fit},
        steps=settings.vector_steps,
        batch_size=VECTOR_BATCH,
        loss=loss,
        precision=precision_of(settings.device),
    )
    return result, task.net


class _VectorTask(Task[IntArray]):
    """Trains a copy of a decoder to embed the first rows."""

    name = "vlm2vec"

    def __init__(
        self,
        decoder: DecoderNet,
        seen_NLV: Tensor,
        lesson: _Lessons,
        texts: _Texts,
        *,
        rows: int,
        steps: int,
        seed: int,
    ) -> None:
        self._seen_NLV, self._lesson, self._texts, self._rows = seen_NLV, lesson, texts, rows
        self.device, self.seed = texts.device, seed
        # A decoder read from a folder has a frozen language model.
        self.net = copy.deepcopy(decoder).to(texts.device).requires_grad_(True)
        self.net.look = None
        self.module = self.net
        self.optimizer = OptimizerSettings(
            steps=steps,
            learning_rate=_RATE,
            warmup_steps=min(_WARM_UP, steps),
            schedule="linear",
            clip_norm=1.0,
        )

    def batch(self, step: int) -> IntArray:
        """Return random rows for a step."""
        rng = np.random.default_rng((self.seed, step))
        return rng.choice(self._rows, min(VECTOR_BATCH, self._rows), replace=False)

    def loss(self, batch: IntArray, step: int) -> Tensor:
        """Return the contrastive loss from query to target."""
        query_BW, target_TW, masked_BT = self._vectors(batch)
        return contrast(query_BW, target_TW, masked_BT=masked_BT)

    def running(self) -> AbstractContextManager[object]:
        """Use the language model's lean layers on a GPU."""
        return nullcontext() if self.device == "cpu" else lean(self.net)

    def _vectors(self, row_B: IntArray) -> tuple[Tensor, Tensor, Tensor]:
        """Return vectors of queries and targets, and which targets are also true."""
        target_texts, masked_BT = self._lesson.targets(row_B)
        prompts = [self._lesson.prompt(int(row)) for row in row_B]
        at = torch.from_numpy(row_B).to(self.device)
        with autocast(self.device, precision_of(self.device)):
            query_BW = _embed(self.net, self._seen_NLV[at], *self._texts(prompts))
            target_TW = _embed(self.net, None, *self._texts(target_texts))
        return query_BW, target_TW, masked_BT

    @torch.inference_mode()
    def share_right(self, row_N: IntArray, *, among_own: bool = False) -> float:
        """Return how often the own caption is nearest among captions and negatives of its batch.

        With `among_own`, only among its own negatives; rows without negatives are left out.
        """
        right_parts = []
        for row_B in np.split(row_N, range(VECTOR_BATCH, len(row_N), VECTOR_BATCH)):
            query_BW, target_TW, masked_BT = self._vectors(row_B)
            if among_own:
                owner_T = self._lesson.owners(row_B).to(self.device)
                own_B1 = torch.arange(len(row_B), device=self.device)[:, None]
                masked_BT = masked_BT | (owner_T != own_B1)
            cosine_BT = (unit(query_BW) @ unit(target_TW).T).masked_fill(masked_BT, -torch.inf)
            own_B = cosine_BT.diagonal().clone()
            cosine_BT.fill_diagonal_(-torch.inf)
            best_B = cosine_BT.amax(dim=1)
            right_parts.append((own_B > best_B)[best_B.isfinite()])
        return float(torch.cat(right_parts).float().mean())


class _Lessons:
    """Queries, targets and the masks of targets that are also true, by rows."""

    def __init__(
        self,
        captions: Sequence[str],
        negatives: Sequence[Sequence[str | None]],
        code: dict[str, Tensor],
        *,
        asks: bool,
        seed: int,
    ) -> None:
        self.captions, self.negatives, self.code, self.asks = captions, negatives, code, asks
        self._seed, self._truth = seed, FindWorldTruth()
        self._prompts: dict[int, str] = {}

    def prompt(self, row: int) -> str:
        """Return the prompt of a row; cached, since a row is drawn several times."""
        if row not in self._prompts:
            question = None
            if self.asks:
                # The order of the things must not give the answer away.
                is_turned = bool(np.random.default_rng((self._seed, 7, row)).integers(2))
                question = about_caption(self.captions[row], is_turned=is_turned)
            self._prompts[row] = instruction(question)
        return self._prompts[row]

    def targets(self, row_B: IntArray) -> tuple[list[str], Tensor]:
        """Return captions, then negatives, and which of them are true of each image, [B, T]."""
        at = torch.from_numpy(row_B).to(next(iter(self.code.values())).device)
        truth = self._truth({key: value[at] for key, value in self.code.items()})
        texts = [self.captions[row] for row in row_B]
        masked = [truth.also_true_BB]
        flat = [text for row in row_B for text in self.negatives[row]]
        keep = [place for place, text in enumerate(flat) if text is not None]
        if keep and truth.negative_true_BBK is not None:
            texts += [flat[place] or "" for place in keep]
            column_K = torch.tensor(keep, device=at.device)
            masked.append(truth.negative_true_BBK.flatten(1)[:, column_K])
        return texts, torch.cat(masked, dim=1)

    def owners(self, row_B: IntArray) -> Tensor:
        """Return the row in the batch that each target belongs to, [T]."""
        owner_rows = [
            at for at, row in enumerate(row_B) for negative in self.negatives[row] if negative
        ]
        return torch.tensor([*range(len(row_B)), *owner_rows])


class _Texts:
    """Tokenizes texts, with a cache."""

    def __init__(self, words: Words, device: str) -> None:
        self._words, self.device = words, device
        self._known: dict[str, list[int]] = {}

    def __call__(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return tokens [N, T] padded on the right, and the position of each last token."""
        for text in texts:
            if text not in self._known:
                self._known[text] = self._words.ask(text)
        rows = [self._known[text] for text in texts]
        token = np.full((len(rows), max(map(len, rows))), self._words.pad, dtype=np.int64)
        for n, row in enumerate(rows):
            token[n, : len(row)] = row
        last = np.array([len(row) - 1 for row in rows])
        return torch.from_numpy(token).to(self.device), torch.from_numpy(last).to(self.device)


def _embed(net: DecoderNet, seen_BLV: Tensor | None, token: Tensor, last: Tensor) -> Tensor:
    hidden_BTW = net.hidden(seen_BLV, token)
    return hidden_BTW[torch.arange(len(last), device=last.device), last]


def _score_vectors(
    net: DecoderNet, seen_NLV: Tensor, texts: _Texts, base: Base, *, asks: bool
) -> Score:
    precision = precision_of(texts.device)

    @torch.inference_mode()
    def embedded(rows: IntArray | None, prompts: Sequence[str]) -> Tensor:
        parts = []
        for start in range(0, len(prompts), _AT_ONCE):
            chunk = slice(start, start + _AT_ONCE)
            seen_BLV = (
                None if rows is None else seen_NLV[torch.from_numpy(rows[chunk]).to(texts.device)]
            )
            with autocast(texts.device, precision):
                parts.append(unit(_embed(net, seen_BLV, *texts(prompts[chunk]))).cpu())
        return torch.cat(parts).double()

    caption_CW = embedded(None, base.questions.captions)

    def score(image_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        prompts = [
            prompt
            for item in items
            for prompt in [instruction(question_of(item) if asks else None)]
            * (len(item.images) * len(item.captions))
        ]
        place: dict[tuple[int, str], int] = {}
        keys = zip(image_M.tolist(), prompts, strict=True)
        at_M = np.array([place.setdefault(key, len(place)) for key in keys])
        query = embedded(np.array([row for row, _ in place]), [text for _, text in place])
        value_M: FloatArray = (query[at_M] * caption_CW[caption_M]).sum(dim=-1).numpy()
        return value_M

    return score
