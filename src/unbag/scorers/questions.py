"""Questions that chat models answer about the images of an item, and parsing of their answers.

An item may have its own question. If its captions differ in one relation, the question is about
that relation, in the words of the papers (What'sUp, COCO-spatial, GQA-spatial). Otherwise the
question is a choice between the captions.
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
"""Version of the rules in this module: part of a scorer's fingerprint."""
CLOSED = ("Yes", "No")


@dataclass(frozen=True)
class AskedQuestion:
    """A question, with the keywords and labels by which its answer is parsed for each caption."""

    text: str
    keywords: tuple[tuple[str, ...], ...]
    labels: tuple[str, ...] = ()
    is_statement: bool = False
    """One caption that is true or false: the answers are yes and no."""


def question_for(item: Item) -> AskedQuestion:
    """Return the question about the images of an item."""
    captions = [text_of(caption) for caption in item.captions]
    if item.question is not None:
        return _own_question(item.question, captions)
    if len(captions) == 1:
        text = f'Does this figure show "{captions[0]}"? Please answer yes or no.'
        return AskedQuestion(text, (("yes",), ("no",)), is_statement=True)
    return _relation_question(item, captions) or _choice_question(item, captions)


def _own_question(question: Question, captions: Sequence[str]) -> AskedQuestion:
    if is_closed(captions):
        labels = () if captions[0] in CLOSED else tuple(captions)
        return AskedQuestion(question.text, tuple((caption,) for caption in captions), labels)
    options = [option_of(question, caption) for caption in captions]
    matches = [re.match(r"\((\w)\) ", option) for option in options]
    labels = tuple(match[1] for match in matches if match)
    return AskedQuestion(
        f"{question.text} {' '.join(options)}",
        tuple((caption,) for caption in captions),
        labels if len(labels) == len(captions) else (),
    )


def _relation_question(item: Item, captions: Sequence[str]) -> AskedQuestion | None:
    """Return a question about the relation if the captions differ in nothing else."""
    for pattern, relation_of in ((SAYS_PLACE, PLACES), (_BETWEEN, BETWEEN)):
        matches = [pattern.fullmatch(caption.strip()) for caption in captions]
        parts = [match.groupdict() for match in matches if match]
        subjects = {(part["first"].lower(), part.get("second", "").lower()) for part in parts}
        if len(parts) < len(captions) or len(subjects) != 1:
            continue
        relations = [relation_of[part["relation"].lower()] for part in parts]
        if len({relation.phrase for relation in relations}) < max(len(relations), 2):
            continue
        words = tuple(relation.keywords for relation in relations)
        return AskedQuestion(_relation_text(item, relations, *subjects.pop()), words)
    return None


def _relation_text(
    item: Item, relations: Sequence[CaptionRelation], first: str, second: str
) -> str:
    phrases = [relation.phrase for relation in relations]
    if len(item.images) == 1 and is_turned(item.id):
        # The first caption of such items is the true one; the papers draw the order at random.
        phrases.reverse()
    if not second:
        places = [f"on the {phrase}" for phrase in phrases]
        return f"Is the {first} {joined_by_or(places)}? {_SHORT}"
    ending = ENDINGS.get(frozenset(phrases)) if len(item.images) > 1 else _SHORT
    count = _COUNTS.get(len(phrases), str(len(phrases)))
    ending = ending or _MANY.replace("{count}", count)
    return f"Is the {first} {joined_by_or(phrases)} the {second}? {ending}"


def _choice_question(item: Item, captions: Sequence[str]) -> AskedQuestion:
    """Return a choice between the captions, in an order that does not reveal the true one."""
    order = list(range(len(captions)))
    if is_turned(item.id):
        order.reverse()
    options = lettered([captions[i] for i in order])
    letter_of = {i: ascii_uppercase[rank] for rank, i in enumerate(order)}
    return AskedQuestion(
        f"Which caption fits the picture?\n{options}\nAnswer with the letter.",
        tuple((caption,) for caption in captions),
        tuple(letter_of[i] for i in range(len(captions))),
    )


def joined_by_or(phrases: Sequence[str]) -> str:
    """Join phrases with commas and "or"."""
    *others, last = phrases
    return f"{', '.join(others)} or {last}" if others else last


def is_turned(name: str) -> bool:
    """Return a fair coin flip that depends on the id of an item alone."""
    return bool(blake2b(name.encode(), digest_size=1).digest()[0] & 1)


def lettered(texts: Sequence[str]) -> str:
    """Return the options one per line, each with its letter."""
    if len(texts) > len(ascii_uppercase):
        raise UnbagError(
            f"{len(texts)} options to choose from",
            expected=f"at most {len(ascii_uppercase)}, one per letter",
            hint="score this benchmark with --scorer yes",
        )
    return "\n".join(f"{ascii_uppercase[i]}. {text}" for i, text in enumerate(texts))


def is_closed(captions: Sequence[Caption]) -> bool:
    """Return whether all captions are Yes, No or letters, which the question itself explains."""
    texts = [text_of(caption).strip() for caption in captions]
    return all(text in CLOSED or re.fullmatch("[A-Z]", text) for text in texts)


def alternatives(question: Question, caption: str) -> tuple[str, ...]:
    """Return the possible answers of a closed question, the caption among them."""
    return CLOSED if caption in CLOSED else (question.options or (caption,))


def option_of(question: Question, caption: str) -> str:
    """Return the caption as the question lists it, such as "(a) Open"."""
    matching = (o for o in question.options if o == caption or o.endswith(f" {caption}"))
    return next(matching, caption)


def read_answer(
    answer: str, keywords: Sequence[Sequence[str]], *, labels: Sequence[str] = ()
) -> int | None:
    """Return the index of the option that an answer names; None if it cannot be parsed.

    Labels such as (a) are tried first, then keywords; the first rule with a match decides. An
    answer cannot be parsed if that rule matches two options, or if no rule matches.
    """
    for matches in (_find_labels(answer, labels), _find_keywords(answer, keywords)):
        if matches:
            return next(iter(matches)) if len(matches) == 1 else None
    return None


def _find_labels(answer: str, labels: Sequence[str]) -> set[int]:
    """Find labels: letters alone, in brackets, or before a bracket, full stop or colon.

    Otherwise "A dog" would be option A.
    """
    matches = set()
    for i, label in enumerate(labels):
        letter = re.escape(label)
        patterns = (rf"^\W*{letter}\W*$", rf"(?<!\w){letter}[).:](?!\w)", rf"\({letter}\)",
                 rf"\b(?:answer|option)(?: is)?:? {letter}\b")  # fmt: skip
        if any(re.search(pattern, answer, flags=re.IGNORECASE) for pattern in patterns):
            matches.add(i)
    return matches


def _find_keywords(answer: str, keywords: Sequence[Sequence[str]]) -> set[int]:
    """Find whole words in any case, longer ones first: "on the left" must not match "on"."""
    rest = " ".join(answer.casefold().split())
    pairs = [(word.casefold(), i) for i, words in enumerate(keywords) for word in words if word]
    matches = set()
    for word, i in sorted(pairs, key=lambda pair: -len(pair[0])):
        pattern = rf"(?<!\w){re.escape(' '.join(word.split()))}(?!\w)"
        rest, count = re.subn(pattern, "|", rest)
        if count:
            matches.add(i)
    return matches


@dataclass(frozen=True)
class CaptionRelation:
    """A relation in the words of questions and of answers."""

    phrase: str
    """Words of a question about two things; for a place in the image, the words after "on the"."""
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
"""Relations of two things by their words in captions."""
PLACES: Mapping[str, CaptionRelation] = MappingProxyType(
    {
        "left": CaptionRelation("left", _LEFT.keywords),
        "right": CaptionRelation("right", _RIGHT.keywords),
        "top": CaptionRelation("top", ("top", "upper")),
        "bottom": CaptionRelation("bottom", ("bottom", "lower")),
    }
)
"""Places of one thing by their words in captions after "on the"."""
ENDINGS: Mapping[frozenset[str], str] = MappingProxyType(
    {
        frozenset({_LEFT.phrase, _RIGHT.phrase}): "Answer left or right.",
        frozenset({_ON.phrase, _UNDER.phrase}): "Choose from the two options.",
        frozenset({_FRONT.phrase, _BEHIND.phrase}): "Answer front or behind.",
    }
)
"""Ending of the published question about a pair of relations, for items of two images."""
_SHORT = "Give a short answer."
_MANY = "Choose from the {count} options."
_COUNTS = {2: "two", 3: "three", 4: "four"}


def says_relation(forms: Iterable[str]) -> re.Pattern[str]:
    """Return the pattern of captions such as "a cup left of a plate", for these relation words."""
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
