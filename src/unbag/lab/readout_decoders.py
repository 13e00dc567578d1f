"""Decoders on frozen patches, on the world: bases come in; decoders, taught and asked, go out.

    python -m unbag.lab.readout_decoders --bases tiny-0.safetensors --out runs/readouts

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

from unbag.engine.progress import Silent
from unbag.lab.arm_result import ArmResult, write_result
from unbag.lab.questions import Questions, Score
from unbag.lab.readout_base import Base, add_options, settings_of, side_by_side
from unbag.lab.readout_vectors import VECTOR_ARMS, precision_of, run_vectors
from unbag.lab.readouts import missing
from unbag.readouts.decoder_data import Material, of_world
from unbag.readouts.decoder_language import scratch_language
from unbag.readouts.decoder_lessons import NOTHING, LessonBatch, Lessons, make_lessons
from unbag.readouts.decoder_model import view_of
from unbag.readouts.decoder_net import DecoderNet, picture_tokens
from unbag.readouts.decoder_questions import Fact, Lesson, lessons_of, words_asked
from unbag.readouts.decoder_settings import DecoderSettings
from unbag.readouts.decoder_teach import Teaching, autocast, fits, share_right
from unbag.readouts.decoder_words import Words, words_of
from unbag.readouts.parts import stacked
from unbag.readouts.vlm2vec_prompts import about_caption, instruction
from unbag.scorers import prompts as sets
from unbag.scorers.prompts import filled
from unbag.types import FloatArray, IntArray, Item

DECODERS: dict[str, DecoderSettings] = {
    "decoder": DecoderSettings(keeps="float16"),
    "decoder-cls": DecoderSettings(keeps="float16", sees="cls"),
    "decoder-nothing": DecoderSettings(keeps="float16", sees="nothing"),
    "decoder-no_question": DecoderSettings(keeps="float16", asks=False),
}
ARMS = (*DECODERS, *VECTOR_ARMS)
_PAIRS = 2_048


def run_decoders(
    base: Base, folder: Path, arms: Sequence[str], *, steps: int, vector_steps: int
) -> None:
    """Those that the folder does not have yet; VLM2Vec needs the decoder on patches."""
    words = _words(base)
    nets: dict[str, DecoderNet] = {}
    for name in arms:
        path = folder / f"{name}.json"
        if path.exists():
            continue
        began = time.perf_counter()
        if name in DECODERS:
            result, nets[name] = _decoder(name, base, words, folder, steps=steps)
        else:
            net = nets.get("decoder") or _read(base, words, folder / "decoder.pt")
            result = run_vectors(name, base, net, words, steps=vector_steps)
        write_result(path, result)
        found = result.numbers
        print(
            f"{base.path.stem} {name}: {time.perf_counter() - began:.0f} s, fit {found['fit']}, "
            f"relation {found['world-relation']['original']:.3f}, "
            f"pair {found['world-pairs-a']['pair']:.3f}",
            flush=True,
        )


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


def _decoder(
    name: str, base: Base, words: Words, folder: Path, *, steps: int
) -> tuple[ArmResult, DecoderNet]:
    settings, device = replace(DECODERS[name], steps=steps), base.settings.device
    if not settings.asks:
        words = replace(words, asks=False)  # type: ignore[type-var]
    material = of_world(base.encoder, base.rows, settings, device=device, progress=Silent())
    first = material.count - material.held
    trained = [fact for fact in material.facts if fact.picture < first]
    held = [fact for fact in material.facts if fact.picture >= first]
    precision = precision_of(device)
    few = _lessons(trained[: base.settings.fit_rows], words, settings, base.seed)
    brief = replace(settings, steps=base.settings.fit_steps, blind=0.0)
    can_fit = fits(
        _fresh(settings, words, material, base.seed),
        material.seen_NLV,
        few,
        brief,
        device=device,
        precision=precision,
        seed=base.seed,
    )
    net = _fresh(settings, words, material, base.seed)
    lessons = _lessons(trained, words, settings, base.seed)
    Teaching(
        net,
        material.seen_NLV,
        lessons,
        settings,
        device=device,
        precision=precision,
        seed=base.seed,
    ).run()
    rest = _lessons(held, words, settings, base.seed).to(device)
    kept = share_right(net, material.seen_NLV, rest, device=device, precision=precision)
    torch.save(net.state_dict(), folder / f"{name}.pt")
    score = _score(net, words, base, settings)
    by_kind = {f"held {kind}": share for kind, share in kept.by_kind.items()}
    fit = {"few": can_fit.share, "held": kept.share, **by_kind}
    numbers = {**base.questions.measured(score), "fit": fit}
    result = base.result(name, numbers, steps=settings.steps, precision=precision)
    return result, net


def _lessons(facts: Sequence[Fact], words: Words, settings: DecoderSettings, seed: int) -> Lessons:
    return make_lessons(lessons_of(facts, settings, seed=seed), words, context=settings.context)


def _fresh(settings: DecoderSettings, words: Words, material: Material, seed: int) -> DecoderNet:
    seen = material.seen_NLV
    places, width = (0, 1) if seen is None else (seen.shape[1], seen.shape[2])
    with torch.random.fork_rng(devices=[]):
        # `torch.manual_seed` would also seed generators of GPUs.
        torch.default_generator.manual_seed(seed)
        return DecoderNet(scratch_language(settings, words, places=places), width=width)


def _read(base: Base, words: Words, path: Path) -> DecoderNet:
    """The decoder on patches that an earlier run taught."""
    settings = DECODERS["decoder"]
    material = of_world(base.encoder, base.rows[:1], settings, progress=Silent())
    net = _fresh(settings, words, material, base.seed).to(base.settings.device)
    net.load_state_dict(torch.load(path, weights_only=True, map_location=base.settings.device))
    return net.eval()


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
    precision = precision_of(device)
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
            with autocast(device, precision):
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
    add_options(parser)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS)
    parser.add_argument("--vector-steps", type=int, default=2_000, help="of VLM2Vec")
    options = parser.parse_args()
    settings = settings_of(options)
    questions = Questions(options.bench, times=settings.times)
    for path in options.bases:
        base, folder = Base(path, questions, settings), options.out / path.stem
        folder.mkdir(parents=True, exist_ok=True)
        arms = missing(options.arms, folder)
        print(f"{path.stem}: {len(base.rows)} steps of scenes, {len(arms)} arms", flush=True)
        # VLM2Vec goes on from the decoder on patches, in the same process.
        first = [name for name in arms if name == "decoder" or name in VECTOR_ARMS]
        rest = [name for name in arms if name not in first]
        run = partial(
            run_decoders, base, folder, steps=settings.steps, vector_steps=options.vector_steps
        )
        side_by_side(run, [first, rest] if options.processes > 1 else [arms])


if __name__ == "__main__":
    main()
