"""Decoders and VLM2Vec of the experiment `readouts`, on the frozen patches of bases.

A decoder is asked for the probability of Yes; one without questions for that of the caption. From
the decoder on patches, VLM2Vec is trained twice: with the question in the prompt and without. Every
decoder is first trained on a few hundred fixed lessons and measured on these: one that cannot fit
them says nothing about the features. A stopped run resumes arm by arm.

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
    """Which decoder on patches it goes on from, and whether the question stands in the prompt."""

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
"""Of VLM2Vec."""
ARMS = (*DECODERS, *VECTOR_ARMS)
RELATION = "world-relation"
CURVE = f"{RELATION}{BY_STEP}"
"""Under which results keep what a decoder that is taught for long answered on the way."""


def run_decoders(base: Base, folder: Path, arms: Sequence[str], *, say: Say = print) -> None:
    """One after the other; results and weights go to the folder."""
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
    """Those that may be run apart; VLM2Vec goes on from a decoder, and so comes after it."""

    def decoder(name: str) -> str:
        return VECTOR_ARMS[name].decoder if name in VECTOR_ARMS else name

    return families(arms, decoder, processes=processes)


def _vocabulary(base: Base) -> Words:
    """A vocabulary of everything that any decoder of this base is told or asked."""
    nothing = DECODERS["decoder-nothing"]
    material = of_world(base.encoder, base.rows, nothing, progress=Silent())
    texts = [text for fact in material.facts for text in (fact.caption, *fact.negatives)]
    asked = lessons_of(material.facts[:5_000], nothing, seed=base.seed)
    questions = [about_caption(text, is_turned=False) for text in texts[:5_000]]
    instructions = [instruction(one) for one in dict.fromkeys(questions)]
    return words_of(
        [
            *dict.fromkeys(texts),
            *base.questions.captions,
            *(text for one in asked for text in (one.prompt, one.answer)),
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
    held = [fact for fact in material.facts if fact.image >= first]

    def ask_relations(net: DecoderNet) -> float:
        score = _score_decoder(net, words, base, settings)
        return base.questions.measured_on(RELATION, score)["original"]

    found = teach(
        base,
        words,
        settings,
        few=lessons_of(trained[: base.settings.fit_rows], settings, seed=base.seed),
        lessons=lessons_of(trained, settings, seed=base.seed),
        held=lessons_of(held, settings, seed=base.seed),
        look=ask_relations if is_long(name) and RELATION in base.questions.names else None,
    )
    keep(found.net, words, base, settings, folder / name)
    numbers = base.questions.measured(_score_decoder(found.net, words, base, settings))
    curve = {f"{step}": share for step, share in found.curve.items()}
    result = base.result(
        name,
        {**numbers, "fit": found.fit, **({CURVE: curve} if curve else {})},
        steps=settings.steps,
        batch_size=settings.batch_size,
        loss=found.loss,
        precision=precision_of(base.settings.device),
    )
    return result, found.net


def is_long(name: str) -> bool:
    """Whether a decoder is taught for long."""
    return name.endswith("-long")


def taught_with(name: str, settings: ReadoutSettings) -> DecoderSettings:
    """How a decoder is built and taught."""
    steps = settings.long_steps if is_long(name) else settings.steps
    wanted = replace(DECODERS[name], steps=steps, scenes=settings.scenes)
    return wanted if settings.size == "full" else shrunk(wanted)


def keep(
    net: DecoderNet,
    words: Words,
    base: Base,
    settings: DecoderSettings,
    folder: Path,
    *,
    embeds: bool = False,
) -> None:
    """As a folder for `--model decoder:FOLDER`, or for `--scorer vlm2vec@FOLDER` if it embeds."""
    folder.mkdir(parents=True, exist_ok=True)
    config = base.encoder.config
    patches = (config.pixels // config.patch) ** 2 if settings.sees == "patches" else 1
    places = 0 if settings.sees == "nothing" else patches
    made = DecoderParts(net, words, settings, places, places + settings.context, embeds)
    name = base.encoder.name
    save_decoder(folder, made, DecoderOrigin(f"tiny:{name}", name, base.encoder.fingerprint))


def question_features(base: Base, settings: DecoderSettings) -> Tensor | None:
    """What a decoder sees of the questions' images."""
    if settings.sees == "nothing":
        return None
    return image_tokens(base.question_images(base.encoder, view_of(settings)), settings)


_PAIRS = 2_048


def _score_decoder(net: DecoderNet, words: Words, base: Base, settings: DecoderSettings) -> Score:
    """Mean log-probability of the answer's tokens: of Yes, or of the caption without a question."""
    device = base.settings.device
    seen_NLV = question_features(base, settings)
    prompt = next(one for one in sets.YES if one.is_published).caption
    asked = [
        Lesson(0, "yes", filled(prompt, text=text), "Yes")
        if settings.asks
        else Lesson(0, "describe", "", text)
        for text in base.questions.captions
    ]
    lessons = make_lessons(asked, words, context=settings.context).to(device)
    if len(lessons) < len(asked):
        raise ValueError(f"{len(asked) - len(lessons)} captions of the questions are too long")
    net.eval()

    @torch.inference_mode()
    def score(image_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        # Of like length together, so that little is padded.
        order_M = np.argsort(lessons.length_M[caption_M], kind="stable")
        value_M = np.empty(len(order_M))
        for start in range(0, len(order_M), _PAIRS):
            at = order_M[start : start + _PAIRS]
            batch = lessons.batch(caption_M[at])
            row_B = torch.from_numpy(image_M[at]).to(device)
            # In single precision, whatever trained it: bfloat16 gives captions that are nearly as
            # probable the same number, and a tie counts as a miss.
            logit = net.answered(None if seen_NLV is None else seen_NLV[row_B], batch)
            value_M[at] = _said(logit.float(), batch, end=words.end).cpu().numpy()
        return value_M

    return score


def _said(logit_BAV: Tensor, batch: LessonBatch, *, end: int) -> Tensor:
    """Mean log-probability of the answer, its end left out."""
    is_word_BA = (batch.target_BA != NOTHING) & (batch.target_BA != end)
    target_BA1 = batch.target_BA.clamp(min=0)[..., None]
    log_BA = logit_BAV.log_softmax(dim=-1).gather(2, target_BA1)[..., 0]
    return (log_BA * is_word_BA).sum(dim=1).double() / is_word_BA.sum(dim=1)


@dataclass(frozen=True, eq=False)
class TaughtDecoder:
    """A decoder after its last step."""

    net: DecoderNet
    fit: dict[str, float]
    """Shares of lessons that it answers right."""
    loss: float | None
    curve: dict[int, float]
    """What was asked in between, by steps; empty without a look."""


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
    """Train on a few fixed lessons to see whether they can be learned, then another on all.

    Args:
        base: Whose features are seen.
        words: The vocabulary.
        settings: Of the decoder.
        few: Lessons to learn by heart.
        lessons: All lessons.
        held: Lessons about images that no step sees.
        look: A number that is asked of the decoder ten times on the way.
    """
    device, seed, seen_NLV = base.settings.device, base.seed, base.material(settings).seen_NLV
    precision, fit_steps = precision_of(device), base.settings.fit_steps
    few_made, made, held_made = (
        make_lessons(some, words, context=settings.context) for some in (few, lessons, held)
    )
    by_heart = replace(settings, steps=fit_steps, blind=0.0)
    net = fresh(settings, words, seen_NLV, seed=seed)
    can_fit = fits(net, seen_NLV, few_made, by_heart, device=device, precision=precision, seed=seed)
    net = fresh(settings, words, seen_NLV, seed=seed)
    task = DecoderTask(net, seen_NLV, made, settings, device=device, precision=precision, seed=seed)
    trainer, every = Trainer(task), 0 if look is None else max(1, settings.steps // 10)
    last: list[Tensor] = []

    def on_step(state: TrainState, numbers: Mapping[str, Tensor]) -> bool:
        last[:] = [numbers["loss"]]
        return every > 0 and state.step % every == 0

    curve: dict[int, float] = {}
    while not trainer.is_done:
        # Asked between two runs: what a step depends on is not touched.
        step = trainer.run(on_step=on_step).step
        if look is not None and step % every == 0:
            curve[step] = look(task.net)
    held_made = held_made.to(device)
    kept = share_right(task.net, task.seen_NLV, held_made, device=device, precision=precision)
    by_kind = {f"held {kind}": share for kind, share in kept.by_kind.items()}
    fit = {"few": can_fit.share, FEW_STEPS: float(fit_steps), "held": kept.share, **by_kind}
    return TaughtDecoder(task.net, fit, float(last[0]) if last else None, curve)


def fresh(
    settings: DecoderSettings, words: Words, seen_NLV: Tensor | None, *, seed: int
) -> DecoderNet:
    """Before any step; the same for the same seed."""
    places, width = (0, 1) if seen_NLV is None else (seen_NLV.shape[1], seen_NLV.shape[2])
    with seeded(seed):
        return DecoderNet(scratch_language(settings, words, places=places), width=width)


def shrunk(settings: DecoderSettings) -> DecoderSettings:
    """For small runs, which show that the code runs."""
    return replace(settings, width=16, depth=1, heads=2, batch_size=16, warmup_steps=1)


VECTOR_BATCH, _RATE, _WARM_UP = 256, 3e-4, 100
_AT_ONCE = 1_024


def run_vectors(
    name: str, base: Base, decoder: DecoderNet, words: Words
) -> tuple[ArmResult, DecoderNet]:
    """Contrastive, from query to target, over captions and hard negatives of the batch."""
    asks, settings = VECTOR_ARMS[name].asks, base.settings
    texts, material = _Texts(words, settings.device), base.material(DECODERS["decoder"])
    assert material.seen_NLV is not None
    code = {
        key: torch.cat([some.code[key] for some in base.rows]).to(settings.device)
        for key in base.rows[0].code
    }
    lesson = _Lessons(
        [caption for some in base.rows for caption in some.captions],
        [negatives for some in base.rows for negatives in some.negatives],
        code,
        asks=asks,
        seed=base.seed,
    )
    count = material.count - material.held_out
    few = min(settings.fit_rows, count)
    task_of = partial(_VectorTask, decoder, material.seen_NLV, lesson, texts, seed=base.seed)
    fit_steps = min(settings.fit_steps, max(1, settings.vector_steps // 3))
    by_heart = task_of(rows=few, steps=fit_steps)
    Trainer(by_heart).run()
    share = by_heart.share_right(np.arange(few), among_own=True)
    fit = {"few": share, FEW_STEPS: float(fit_steps)}
    trained = task_of(rows=count, steps=settings.vector_steps)
    loss = run_to_end(Trainer(trained))
    held = np.arange(count, material.count)
    for what, rows in (("learned", np.arange(min(count, len(held)))), ("held", held)):
        if len(rows):
            fit[what] = trained.share_right(rows)
    seen_NLV = question_features(base, DECODERS["decoder"])
    assert seen_NLV is not None
    numbers = base.questions.measured(_score_vectors(trained.net, seen_NLV, texts, base, asks=asks))
    result = base.result(
        name,
        {**numbers, "fit": fit},
        steps=settings.vector_steps,
        batch_size=VECTOR_BATCH,
        loss=loss,
        precision=precision_of(settings.device),
    )
    return result, trained.net


class _VectorTask(Task[IntArray]):
    """A copy of a decoder learns to embed the first rows."""

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
        # One that was read from a folder has a frozen language model.
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
        """Rows, drawn anew for each step."""
        rng = np.random.default_rng((self.seed, step))
        return rng.choice(self._rows, min(VECTOR_BATCH, self._rows), replace=False)

    def loss(self, batch: IntArray, step: int) -> Tensor:
        """Contrastive, from query to target."""
        query_BW, target_TW, masked_BT = self._vectors(batch)
        return contrast(query_BW, target_TW, masked_BT=masked_BT)

    def running(self) -> AbstractContextManager[object]:
        """On a GPU with the language model's lean layers."""
        return nullcontext() if self.device == "cpu" else lean(self.net)

    def _vectors(self, row_B: IntArray) -> tuple[Tensor, Tensor, Tensor]:
        """Of queries and targets, and which targets also fit."""
        said, masked_BT = self._lesson.targets(row_B)
        prompts = [self._lesson.prompt(int(row)) for row in row_B]
        at = torch.from_numpy(row_B).to(self.device)
        with autocast(self.device, precision_of(self.device)):
            query_BW = _embed(self.net, self._seen_NLV[at], *self._texts(prompts))
            target_TW = _embed(self.net, None, *self._texts(said))
        return query_BW, target_TW, masked_BT

    @torch.inference_mode()
    def share_right(self, row_N: IntArray, *, among_own: bool = False) -> float:
        """How often the own caption is nearest among all of its batch and their negatives.

        Among its own negatives only, where asked for; rows without anything beside are left out.
        """
        found = []
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
            found.append((own_B > best_B)[best_B.isfinite()])
        return float(torch.cat(found).float().mean())


class _Lessons:
    """Queries, targets and what also fits, by rows."""

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
        """Made once: a row is drawn several times."""
        if row not in self._prompts:
            question = None
            if self.asks:
                # Which thing is named first must not tell the answer.
                is_turned = bool(np.random.default_rng((self._seed, 7, row)).integers(2))
                question = about_caption(self.captions[row], is_turned=is_turned)
            self._prompts[row] = instruction(question)
        return self._prompts[row]

    def targets(self, row_B: IntArray) -> tuple[list[str], Tensor]:
        """Captions, then negatives; and which of them also fit each image, [B, T]."""
        at = torch.from_numpy(row_B).to(next(iter(self.code.values())).device)
        truth = self._truth({key: value[at] for key, value in self.code.items()})
        texts = [self.captions[row] for row in row_B]
        masked = [truth.also_true_BB]
        flat = [text for row in row_B for text in self.negatives[row]]
        keep = [place for place, text in enumerate(flat) if text is not None]
        if keep and truth.negative_true_BBK is not None:
            texts += [flat[place] or "" for place in keep]
            kept = torch.tensor(keep, device=at.device)
            masked.append(truth.negative_true_BBK.flatten(1)[:, kept])
        return texts, torch.cat(masked, dim=1)

    def owners(self, row_B: IntArray) -> Tensor:
        """Of each target, the place in the batch whose caption or negative it is, [T]."""
        every = [at for at, row in enumerate(row_B) for one in self.negatives[row] if one]
        return torch.tensor([*range(len(row_B)), *every])


class _Texts:
    """Tokens of texts, each made once."""

    def __init__(self, words: Words, device: str) -> None:
        self._words, self.device = words, device
        self._known: dict[str, list[int]] = {}

    def __call__(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """[N, T] padded on the right, and the place of the last token of each."""
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
    def embedded(rows: IntArray | None, said: Sequence[str]) -> Tensor:
        found = []
        for start in range(0, len(said), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            seen = None if rows is None else seen_NLV[torch.from_numpy(rows[some]).to(texts.device)]
            with autocast(texts.device, precision):
                found.append(unit(_embed(net, seen, *texts(said[some]))).cpu())
        return torch.cat(found).double()

    caption_CW = embedded(None, base.questions.captions)

    def score(image_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        asked = [
            said
            for item in items
            for said in [instruction(question_of(item) if asks else None)]
            * (len(item.images) * len(item.captions))
        ]
        place: dict[tuple[int, str], int] = {}
        keys = zip(image_M.tolist(), asked, strict=True)
        at_M = np.array([place.setdefault(key, len(place)) for key in keys])
        query = embedded(np.array([row for row, _ in place]), [text for _, text in place])
        value_M: FloatArray = (query[at_M] * caption_CW[caption_M]).sum(dim=-1).numpy()
        return value_M

    return score
