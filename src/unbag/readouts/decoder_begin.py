"""Features and facts come in; a decoder that is about to be taught goes out, with its lessons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unbag.errors import UserError
from unbag.models.seeded import seeded
from unbag.readouts.decoder_data import Material
from unbag.readouts.decoder_language import (
    Language,
    add_lora,
    read_language,
    scratch_language,
)
from unbag.readouts.decoder_lessons import Lessons, make_lessons
from unbag.readouts.decoder_model import Made
from unbag.readouts.decoder_net import DecoderNet
from unbag.readouts.decoder_questions import Lesson, lessons_of, words_asked
from unbag.readouts.decoder_settings import DecoderSettings
from unbag.readouts.decoder_teach import Teaching
from unbag.readouts.decoder_words import Words, words_of
from unbag.train.config import Precision


@dataclass(frozen=True, eq=False)
class Begun:
    """A decoder with everything that is needed to teach it, and to ask it afterwards."""

    made: Made
    teaching: Teaching
    held: Lessons | None
    """Questions about pictures that no step sees, if there are any."""


def begin(
    material: Material,
    settings: DecoderSettings,
    *,
    device: str = "cpu",
    precision: Precision = "float32",
    seed: int = 0,
    language: Language | None = None,
) -> Begun:
    """Tokens of all questions, first weights, and features on the device.

    `language` is that of the settings, where it was read before; it is changed by teaching.
    """
    every = lessons_of(material.facts, settings, seed=seed)
    if language is None and not settings.is_scratch:
        language = read_language(settings.language, asks=settings.asks)
    words: Words = _vocabulary(every, settings) if language is None else language.words
    first = material.count - material.held
    trained = [lesson for lesson in every if lesson.picture < first]
    held = [lesson for lesson in every if lesson.picture >= first]
    lessons = make_lessons(trained, words, context=settings.context)
    seen_NLV = material.seen_NLV
    places, width = (0, 1) if seen_NLV is None else (seen_NLV.shape[1], seen_NLV.shape[2])
    net = _net(settings, words, language, places=places, width=width, seed=seed)
    context = getattr(net.language.config, "max_position_embeddings", None)
    made = Made(net, words, settings, places, context or places + settings.context)
    if made.context < places + settings.context:
        raise UserError(
            f"{places} tokens of a picture and {settings.context} of text",
            expected=f"at most {made.context}, the context of the language model",
            way_out=f"--set context={max(1, made.context - places)}",
        )
    teaching = Teaching(
        net, seen_NLV, lessons, settings, device=device, precision=precision, seed=seed
    )
    apart = make_lessons(held, words, context=settings.context) if held else None
    return Begun(made, teaching, apart)


def _vocabulary(lessons: Sequence[Lesson], settings: DecoderSettings) -> Words:
    """All words of the questions, of their answers and of fixed prompts."""
    texts = {text for one in lessons for text in (one.prompt, one.answer)}
    return words_of([*texts, *words_asked()], asks=settings.asks)


def _net(
    settings: DecoderSettings,
    words: Words,
    language: Language | None,
    *,
    places: int,
    width: int,
    seed: int,
) -> DecoderNet:
    """Connector and language model before training, the same for the same seed."""
    with seeded(seed):
        if language is None:
            return DecoderNet(scratch_language(settings, words, places=places), width=width)
        if settings.lora:
            add_lora(language.model, settings.lora)
        return DecoderNet(language.model, width=width)
