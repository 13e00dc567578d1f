"""Decoders on frozen patches, on the world: bases come in; decoders, taught and asked, go out.

    python -m unbag.lab.readout_decoders --bases tiny-0.safetensors --out runs/arms

A decoder is asked for the probability of Yes; one without questions for that of the caption. From
the decoder on patches, VLM2Vec is trained twice: with the question in the prompt and without.
The same command goes on after a stop, arm by arm.

Dimensions: N pictures, L patches, V width of features, M pairs, B rows of a batch, T targets.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unbag.lab.arm_result import BY_STEP, ArmResult, result_path
from unbag.lab.at_once import each_apart, shares
from unbag.lab.decoder_taught import Course, Look, shrunk, teach
from unbag.lab.experiment import Say
from unbag.lab.questions import Questions, Score
from unbag.lab.readout_arms import VECTOR_ARMS
from unbag.lab.readout_base import (
    EXPERIMENT,
    FOR_DECODERS,
    Base,
    Settings,
    add_options,
    settings_of,
)
from unbag.lab.readout_vectors import precision_of, run_vectors
from unbag.lab.readouts import finish, missing
from unbag.lab.script import run_script
from unbag.readouts.decoder.lessons import (
    NOTHING,
    DecoderSettings,
    Lesson,
    LessonBatch,
    Words,
    lessons_of,
    make_lessons,
    words_asked,
    words_of,
)
from unbag.readouts.decoder.model import DecoderNet, Made, picture_tokens, view_of
from unbag.readouts.decoder.saving import Origin, read_decoder, save_decoder
from unbag.readouts.decoder.training import of_world
from unbag.readouts.features import stacked
from unbag.readouts.vlm2vec.data import about_caption, instruction
from unbag.runs.progress import Silent
from unbag.scorers import prompts as sets
from unbag.scorers.prompts import filled
from unbag.types import FloatArray, IntArray, Item

DECODERS: dict[str, DecoderSettings] = {
    "decoder": DecoderSettings(keeps="float16"),
    "decoder-cls": DecoderSettings(keeps="float16", sees="cls"),
    "decoder-nothing": DecoderSettings(keeps="float16", sees="nothing"),
    "decoder-no_question": DecoderSettings(keeps="float16", asks=False),
    "decoder-long": DecoderSettings(keeps="float16"),
    "decoder-cls-long": DecoderSettings(keeps="float16", sees="cls"),
}
ARMS = (*DECODERS, *VECTOR_ARMS)
_PAIRS = 2_048
RELATION = "world-relation"
CURVE = f"{RELATION}{BY_STEP}"
"""Under which results keep what a decoder that is taught for long answered on the way."""


def decoder_groups(arms: Sequence[str], *, processes: int) -> list[list[str]]:
    """Those that may be run apart: all in one, if there is one process, else each decoder.

    VLM2Vec goes on from a decoder, and so comes after it in the same process.
    """
    if processes <= 1:
        return [list(arms)]
    families: dict[str, list[str]] = {}
    for name in arms:
        decoder = VECTOR_ARMS[name].decoder if name in VECTOR_ARMS else name
        families.setdefault(decoder, []).append(name)
    return list(families.values())


def run_decoders(base: Base, folder: Path, arms: Sequence[str], *, say: Say = print) -> None:
    """One after the other; results and weights go to the folder."""
    words = _words(base)
    nets: dict[str, DecoderNet] = {}
    for name in arms:
        began = time.perf_counter()
        if name in DECODERS:
            result, nets[name] = _decoder(name, base, words, folder)
        else:
            decoder = VECTOR_ARMS[name].decoder
            net = nets.get(decoder) or read_decoder(folder / decoder).made.net
            result, net = run_vectors(name, base, net, words)
            settings = taught_with(decoder, base.settings)
            keep(net, words, base, settings, folder / name, embeds=True)
        finish(result, folder, began, say)
    base.forget()


def _words(base: Base) -> Words:
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
            *words_asked(),
            *instructions,
        ]
    )


def _decoder(name: str, base: Base, words: Words, folder: Path) -> tuple[ArmResult, DecoderNet]:
    settings = taught_with(name, base.settings)
    if not settings.asks:
        words = replace(words, asks=False)  # type: ignore[type-var]
    material = base.material(settings)
    first = material.count - material.held
    trained = [fact for fact in material.facts if fact.picture < first]
    held = [fact for fact in material.facts if fact.picture >= first]
    course = Course(
        material.seen_NLV,
        lessons_of(trained[: base.settings.fit_rows], settings, seed=base.seed),
        lessons_of(trained, settings, seed=base.seed),
        lessons_of(held, settings, seed=base.seed),
    )
    found = teach(
        course,
        words,
        settings,
        fit_steps=base.settings.fit_steps,
        device=base.settings.device,
        seed=base.seed,
        look=_look(base, words, settings) if is_long(name) else None,
    )
    keep(found.net, words, base, settings, folder / name)
    numbers = base.questions.measured(_score(found.net, words, base, settings))
    curve = {f"{step}": share for step, share in found.curve.items()}
    result = base.result(
        name,
        {**numbers, "fit": found.fit, **({CURVE: curve} if curve else {})},
        steps=settings.steps,
        batch=settings.batch,
        loss=found.loss,
        precision=precision_of(base.settings.device),
    )
    return result, found.net


def _look(base: Base, words: Words, settings: DecoderSettings) -> Look | None:
    """Relations, ten times on the way, if they are asked at all."""
    if RELATION not in base.questions.names:
        return None

    def ask(net: DecoderNet) -> float:
        score = _score(net, words, base, settings)
        return base.questions.measured_on(RELATION, score)["original"]

    return Look(max(1, settings.steps // 10), ask)


def is_long(name: str) -> bool:
    """Whether a decoder is taught for long."""
    return name.endswith("-long")


def taught_with(name: str, settings: Settings) -> DecoderSettings:
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
    made = Made(net, words, settings, places, places + settings.context, embeds)
    name = base.encoder.name
    save_decoder(folder, made, Origin(f"tiny:{name}", name, base.encoder.fingerprint))


def question_features(base: Base, settings: DecoderSettings) -> Tensor | None:
    """What a decoder sees of the questions' pictures."""
    if settings.sees == "nothing":
        return None
    device, view = base.settings.device, view_of(settings)
    found = [
        view.look(base.encoder, pixels.to(device).float() / 127.5 - 1.0).to(device)
        for pixels in base.questions.pixels
    ]
    return picture_tokens(stacked(found), settings)


def _score(net: DecoderNet, words: Words, base: Base, settings: DecoderSettings) -> Score:
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
    def score(picture_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        # Of like length together, so that little is padded.
        order_M = np.argsort(lessons.length_M[caption_M], kind="stable")
        value_M = np.empty(len(order_M))
        for start in range(0, len(order_M), _PAIRS):
            at = order_M[start : start + _PAIRS]
            batch = lessons.batch(caption_M[at])
            row_B = torch.from_numpy(picture_M[at]).to(device)
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


def main() -> None:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    add_options(parser, FOR_DECODERS)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS)
    options = parser.parse_args()
    settings, say = settings_of(options), partial(print, flush=True)
    questions = Questions(options.bench, times=settings.times)
    for path in options.bases:
        base = Base(path, questions, settings)
        folder = result_path(options.out, EXPERIMENT, path.stem, "decoder").parent
        if arms := missing(options.arms, folder):
            base.make_rows("decoders", say)
            run = partial(run_decoders, base, folder, say=say)
            groups = decoder_groups(arms, processes=options.processes)
            each_apart(shares(run, groups), processes=options.processes, say=say)


if __name__ == "__main__":
    run_script(main)
