"""The question that a chat model is asked about the images of an item, and reading its answer.

An item may bring its own question. Captions that differ in one relation make a question about that
relation, in the words of the papers (What'sUp, COCO-spatial, GQA-spatial). All others become a
choice between the captions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from string import ascii_uppercase
from types import MappingProxyType

from unbag.errors import UnbagError
from unbag.types import Caption, Item, Question
from unbag.types.items import text_of

VERSION = "1"
"""Of all that is below: part of a scorer's fingerprint."""
CLOSED = ("Yes", "No")


@dataclass(frozen=True)
class AskedQuestion:
    """A question with what is needed to read its answer, caption by caption."""

    text: str
    keywords: tuple[tuple[str, ...], ...]
    labels: tuple[str, ...] = ()
    is_statement: bool = False
    """One caption, true or false: the readings are yes and no."""


def asked_of(item: Item) -> AskedQuestion:
    """The question about every image of an item."""
    captions = [text_of(caption) for caption in item.captions]
    if item.question is not None:
        return _own(item.question, captions)
    if len(captions) == 1:
        text = f'Does this figure show "{captions[0]}"? Please answer yes or no.'
        return AskedQuestion(text, (("yes",), ("no",)), is_statement=True)
    return _about_relation(item, captions) or _choice(item, captions)


def _own(question: Question, captions: Sequence[str]) -> AskedQuestion:
    if is_closed(captions):
        labels = () if captions[0] in CLOSED else tuple(captions)
        return AskedQuestion(question.text, tuple((caption,) for caption in captions), labels)
    options = [option_of(question, caption) for caption in captions]
    found = [re.match(r"\((\w)\) ", option) for option in options]
    labels = tuple(match[1] for match in found if match)
    return AskedQuestion(
        f"{question.text} {' '.join(options)}",
        tuple((caption,) for caption in captions),
        labels if len(labels) == len(captions) else (),
    )


def _about_relation(item: Item, captions: Sequence[str]) -> AskedQuestion | None:
    """Captions of the same things that differ in their relation only."""
    for pattern, known in ((SAYS_PLACE, PLACES), (_BETWEEN, BETWEEN)):
        found = [pattern.fullmatch(caption.strip()) for caption in captions]
        parts = [match.groupdict() for match in found if match]
        things = {(p["first"].lower(), p.get("second", "").lower()) for p in parts}
        if len(parts) < len(captions) or len(things) != 1:
            continue
        relations = [known[p["relation"].lower()] for p in parts]
        if len({r.phrase for r in relations}) < max(len(relations), 2):
            continue
        words = tuple(r.keywords for r in relations)
        return AskedQuestion(_relation_text(item, relations, *things.pop()), words)
    return None


def _relation_text(
    item: Item, relations: Sequence[CaptionRelation], first: str, second: str
) -> str:
    phrases = [r.phrase for r in relations]
    if len(item.images) == 1 and is_turned(item.id):
        # The first caption of such items is the true one; the papers toss a coin here.
        phrases.reverse()
    if not second:
        listed = [f"on the {phrase}" for phrase in phrases]
        return f"Is the {first} {joined_by_or(listed)}? {_SHORT}"
    ending = ENDINGS.get(frozenset(phrases)) if len(item.images) > 1 else _SHORT
    count = _COUNTS.get(len(phrases), str(len(phrases)))
    ending = ending or _MANY.replace("{count}", count)
    return f"Is the {first} {joined_by_or(phrases)} the {second}? {ending}"


def _choice(item: Item, captions: Sequence[str]) -> AskedQuestion:
    """Which caption? In an order that does not give the true one away."""
    order = list(range(len(captions)))
    if is_turned(item.id):
        order.reverse()
    shown = lettered([captions[n] for n in order])
    letter = {n: ascii_uppercase[place] for place, n in enumerate(order)}
    return AskedQuestion(
        f"Which caption fits the picture?\n{shown}\nAnswer with the letter.",
        tuple((caption,) for caption in captions),
        tuple(letter[n] for n in range(len(captions))),
    )


def joined_by_or(phrases: Sequence[str]) -> str:
    """Phrases with commas, and an or before the last."""
    *others, last = phrases
    return f"{', '.join(others)} or {last}" if others else last


def is_turned(name: str) -> bool:
    """A fair coin made from the id of an item, the same in every run."""
    return bool(blake2b(name.encode(), digest_size=1).digest()[0] & 1)


def lettered(texts: Sequence[str]) -> str:
    """Options under one another, each with its letter."""
    if len(texts) > len(ascii_uppercase):
        raise UnbagError(
            f"{len(texts)} options to choose from",
            expected=f"at most {len(ascii_uppercase)}, one a letter",
            hint="score this benchmark with --scorer yes",
        )
    return "\n".join(f"{ascii_uppercase[n]}. {text}" for n, text in enumerate(texts))


def is_closed(captions: Sequence[Caption]) -> bool:
    """The captions are Yes and No, or letters: the question itself says what they mean."""
    texts = [text_of(caption).strip() for caption in captions]
    return all(text in CLOSED or re.fullmatch("[A-Z]", text) for text in texts)


def alternatives(question: Question, caption: str) -> tuple[str, ...]:
    """What a closed question could be answered instead, the caption among it."""
    return CLOSED if caption in CLOSED else (question.options or (caption,))


def option_of(question: Question, caption: str) -> str:
    """The caption as the question lists it, such as "(a) Open"."""
    fits = (o for o in question.options if o == caption or o.endswith(f" {caption}"))
    return next(fits, caption)


def read_answer(
    answer: str, keywords: Sequence[Sequence[str]], *, labels: Sequence[str] = ()
) -> int | None:
    """Number of the option that an answer means; None if it cannot be said.

    Rules are tried in order and the first that finds anything decides: a label such as (a), then
    keywords. An answer in which a rule finds two options, or no rule any, cannot be read.
    """
    for found in (_labels(answer, labels), _keywords(answer, keywords)):
        if found:
            return next(iter(found)) if len(found) == 1 else None
    return None


def _labels(answer: str, labels: Sequence[str]) -> set[int]:
    """A letter counts alone, in brackets, or before a bracket, full stop or colon.

    Else "A dog" would be option A.
    """
    found = set()
    for number, label in enumerate(labels):
        letter = re.escape(label)
        forms = (rf"^\W*{letter}\W*$", rf"(?<!\w){letter}[).:](?!\w)", rf"\({letter}\)",
                 rf"\b(?:answer|option)(?: is)?:? {letter}\b")  # fmt: skip
        if any(re.search(form, answer, flags=re.IGNORECASE) for form in forms):
            found.add(number)
    return found


def _keywords(answer: str, keywords: Sequence[Sequence[str]]) -> set[int]:
    """Whole words in any case. Longer ones first, so that "on the left" is not taken for "on"."""
    rest = " ".join(answer.casefold().split())
    pairs = [(word.casefold(), n) for n, words in enumerate(keywords) for word in words if word]
    found = set()
    for word, number in sorted(pairs, key=lambda pair: -len(pair[0])):
        pattern = rf"(?<!\w){re.escape(' '.join(word.split()))}(?!\w)"
        rest, times = re.subn(pattern, "|", rest)
        if times:
            found.add(number)
    return found


@dataclass(frozen=True)
class CaptionRelation:
    """A relation as a question and as an answer says it."""

    phrase: str
    """In a question between two things; for a place in the image, after "on the"."""
    keywords: tuple[str, ...]


_LEFT = CaptionRelation("to the left of", ("to the left", "on the left", "left of", "left"))
_RIGHT = CaptionRelation("to the right of", ("to the right", "on the right", "right of", "right"))
_ON = CaptionRelation("on", ("on top of", "on"))
_UNDER = CaptionRelation("under", ("under", "underneath", "beneath", "below"))
_FRONT = CaptionRelation("in front of", ("in front of", "in front", "front"))
_BEHIND = CaptionRelation("behind", ("behind", "in the back of", "in back of"))
_ABOVE = CaptionRelation("above", ("above", "over", "on top of"))
_BELOW = CaptionRelation("below", ("below", "under", "underneath", "beneath"))
BETWEEN: Mapping[str, CaptionRelation] = MappingProxyType(
    {
        "to the left of": _LEFT, "left of": _LEFT, "to the right of": _RIGHT, "right of": _RIGHT,
        "on": _ON, "under": _UNDER, "in front of": _FRONT, "behind": _BEHIND, "above": _ABOVE,
        "below": _BELOW,
    }
)  # fmt: skip
"""Relations of two things, as captions write them."""
PLACES: Mapping[str, CaptionRelation] = MappingProxyType(
    {
        "left": CaptionRelation("left", _LEFT.keywords),
        "right": CaptionRelation("right", _RIGHT.keywords),
        "top": CaptionRelation("top", ("top", "upper")),
        "bottom": CaptionRelation("bottom", ("bottom", "lower")),
    }
)
"""Places of one thing, as captions write them after "on the"."""
ENDINGS: Mapping[frozenset[str], str] = MappingProxyType(
    {
        frozenset({_LEFT.phrase, _RIGHT.phrase}): "Answer left or right.",
        frozenset({_ON.phrase, _UNDER.phrase}): "Choose from the two options.",
        frozenset({_FRONT.phrase, _BEHIND.phrase}): "Answer front or behind.",
    }
)
"""How the published question about a pair of relations ends, with its two images."""
_SHORT = "Give a short answer."
_MANY = "Choose from the {count} options."
_COUNTS = {2: "two", 3: "three", 4: "four"}


def says_relation(forms: Iterable[str]) -> re.Pattern[str]:
    """Captions such as "a cup left of a plate", by the forms a relation is written in."""
    return re.compile(
        r"(?:a photo of )?(?:an?|the) (?P<first>.+?) (?:is )?"
        rf"(?P<relation>{'|'.join(sorted(forms, key=len, reverse=True))}) "
        r"(?:an?|the) (?P<second>.+?)\.?",
        flags=re.IGNORECASE,
    )


_BETWEEN = says_relation(BETWEEN)
SAYS_PLACE = re.compile(
    rf"(?:a photo of )?(?:an?|the) (?P<first>.+?) on the (?P<relation>{'|'.join(PLACES)})\.?",
    flags=re.IGNORECASE,
)
