"""True captions and hard negatives of pictures come in; questions with their answers go out.

The questions are those that the protocols of chat models ask (`unbag.scorers.prompts`), so that a
decoder is asked what it was taught. Yes and No, A and B are equally often right: each negative
makes two questions of a kind, one for each answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from unbag.readouts.decoder_settings import KINDS, DecoderSettings
from unbag.scorers import prompts as sets
from unbag.scorers.prompts import Prompt, filled
from unbag.scorers.questions import CLOSED, Asked, asked_of, lettered
from unbag.types import Item

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Fact:
    """What is said of one picture."""

    picture: int
    """Row among the pictures."""
    caption: str
    negatives: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lesson:
    """One question about one picture, with its answer."""

    picture: int
    kind: str
    prompt: str
    answer: str


@dataclass(frozen=True)
class _Nothing:
    """Stands for a picture where only the words of a question are wanted."""

    key: str = ""
    name: str = ""

    def open(self) -> Image:
        raise NotImplementedError


def lessons_of(facts: Sequence[Fact], settings: DecoderSettings, *, seed: int) -> list[Lesson]:
    """Of every kind with a share, in the order of the facts."""
    wanted = {k for k, share in zip(KINDS, settings.shares, strict=True) if share}
    return [
        lesson
        for fact in facts
        for lesson in _of_one(fact, settings.prompts, seed)
        if lesson.kind in wanted
    ]


def words_asked() -> list[str]:
    """Every fixed prompt and answer, so that a vocabulary knows their words."""
    every = [prompt for some in sets.PROMPTS.values() for prompt in some]
    texts = [text for prompt in every for text in (prompt.caption, prompt.question)]
    plain = [filled(text, text="", options="", question="") for text in texts]
    return [*plain, *CLOSED, lettered(["", ""]), "Answer with the letter."]


def _of_one(fact: Fact, wording: str, seed: int) -> Iterator[Lesson]:
    def worded(prompts: Sequence[Prompt], *what: object) -> Prompt:
        some = [p for p in prompts if wording == "all" or p.is_published]
        return some[_number(len(some), seed, fact.picture, fact.caption, *what)]

    def lesson(kind: str, prompt: str, answer: str) -> Lesson:
        return Lesson(fact.picture, kind, prompt, answer)

    describe = worded(sets.OPTIONS, "describe").caption
    yield lesson("describe", describe, fact.caption)
    for negative in fact.negatives:
        for text, answer in ((fact.caption, "Yes"), (negative, "No")):
            prompt = worded(sets.YES, "yes", negative, answer)
            yield lesson("yes", filled(prompt.caption, text=text), answer)
        for letter, pair in (("A", (fact.caption, negative)), ("B", (negative, fact.caption))):
            prompt = worded(sets.LETTERS, "letters", negative, letter)
            yield lesson("letters", filled(prompt.caption, options=lettered(pair)), letter)
        for turned in (False, True):
            beside = 1 + _number(2, seed, fact.picture, negative, turned)
            asked, answer = _freely(fact.caption, negative, turned, beside)
            prompt = worded(sets.ANSWER, "answer", negative, turned)
            yield lesson("answer", filled(prompt.caption, question=asked), answer)


def _freely(caption: str, negative: str, is_turned: bool, pictures: int) -> tuple[str, str]:
    """As `unbag run --scorer answer` asks: by the relation in which they differ, or a choice.

    A question about an item of two pictures ends otherwise than one about a single picture.
    """
    captions = (negative, caption) if is_turned else (caption, negative)
    own = captions.index(caption)
    asked = asked_between(captions, pictures=pictures)
    return asked.text, asked.labels[own] if asked.labels else asked.keywords[own][0]


def asked_between(captions: Sequence[str], *, pictures: int) -> Asked:
    """The question about captions, as about an item of so many pictures."""
    truth = np.zeros((pictures, len(captions)), dtype=np.bool_)
    return asked_of(Item("", (_Nothing(),) * pictures, tuple(captions), truth))


def _number(below: int, *what: object) -> int:
    said = "\0".join(map(str, what))
    return int.from_bytes(blake2b(said.encode(), digest_size=8).digest(), "big") % below
