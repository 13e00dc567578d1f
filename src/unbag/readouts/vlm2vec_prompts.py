"""An item or a caption comes in; the words that stand behind the picture in VLM2Vec go out.

The question is the item's own, or one about the relation that its captions state. It names the same
things and the same relations whichever caption is true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from unbag.models.caption_only import text_of
from unbag.scorers.questions import BETWEEN, SAYS_PLACE, is_turned, says_relation
from unbag.types import Item
from unbag.world.words import INVERSE, RELATIONS

WITH_QUESTION = "Represent the given image with the following question: {question}"
WITHOUT = "Represent the given image"
TEXT_ONLY = "Find the text that can answer the given query: {question}"
VERSION = "1"
"""Of all that is below: part of a scorer's fingerprint."""
_PHRASES = tuple(dict.fromkeys(relation.phrase for relation in BETWEEN.values()))
"""The order in which a question lists them."""
_KNOWN: Mapping[str, str] = MappingProxyType(
    {form: relation.phrase for form, relation in BETWEEN.items()}
    | {rare: BETWEEN[name].phrase for name, (_, rare) in RELATIONS.items()}
)
"""Relations as captions write them, and as a question does."""
OPPOSITE: Mapping[str, str] = MappingProxyType(
    {BETWEEN[name].phrase: BETWEEN[other].phrase for name, other in INVERSE.items()}
)
_PLACE_PAIRS = (("left", "right"), ("top", "bottom"))
_BETWEEN = says_relation(_KNOWN)


@dataclass(frozen=True)
class Stated:
    """What a caption says of two things, or of one and its place in the picture."""

    first: str
    relation: str
    second: str = ""

    @property
    def things(self) -> frozenset[str]:
        """Whichever comes first."""
        return frozenset({self.first, self.second})

    def seen_from(self, first: str) -> str:
        """The relation, if this thing is named first."""
        return self.relation if first == self.first else OPPOSITE[self.relation]


def instruction(question: str | None) -> str:
    """What stands behind a picture."""
    return WITHOUT if question is None else WITH_QUESTION.replace("{question}", question)


def text_instruction(question: str) -> str:
    """What a query says that has a question and no picture: all that is known without looking."""
    return TEXT_ONLY.replace("{question}", question)


def question_of(item: Item) -> str | None:
    """The question about every picture of an item; None where there is nothing to ask."""
    if item.question is not None:
        return item.question.text
    captions = [text_of(caption) for caption in item.captions]
    return about_relation(captions, is_turned=is_turned(item.id))


def about_relation(captions: Sequence[str], *, is_turned: bool) -> str | None:
    """The question about captions that say how the same things stand; None if they do not.

    `is_turned` decides which thing is named first where the captions do not agree about it.
    """
    found = [stated(caption) for caption in captions]
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found) or len({one.things for one in known}) > 1:
        return None
    if not known[0].second:
        return _about_place(known)
    firsts = sorted({one.first for one in known})
    first = firsts[-1 if is_turned else 0]
    (second,) = known[0].things - {first} or {first}
    said = {one.seen_from(first) for one in known}
    if len(said) == 1:
        said |= {OPPOSITE[relation] for relation in said}
    return f"Is the {first} {_or([p for p in _PHRASES if p in said])} the {second}?"


def about_caption(caption: str, *, is_turned: bool) -> str | None:
    """The question that a caption answers; `is_turned` names its second thing first."""
    found = stated(caption)
    if found is None or not found.second:
        return None if found is None else _about_place([found])
    first, second = (found.second, found.first) if is_turned else (found.first, found.second)
    pair = {found.seen_from(first), OPPOSITE[found.seen_from(first)]}
    return f"Is the {first} {_or([p for p in _PHRASES if p in pair])} the {second}?"


def stated(caption: str) -> Stated | None:
    """How two things stand, such as "a cup left of a plate", or where one is."""
    place = SAYS_PLACE.fullmatch(caption.strip())
    if place:
        return Stated(place["first"].lower(), place["relation"].lower())
    found = _BETWEEN.fullmatch(caption.strip())
    if not found:
        return None
    return Stated(
        found["first"].lower(), _KNOWN[found["relation"].lower()], found["second"].lower()
    )


def _about_place(known: Sequence[Stated]) -> str:
    said = {one.relation for one in known}
    shown = [place for pair in _PLACE_PAIRS if said & set(pair) for place in pair]
    return f"Is the {known[0].first} {_or([f'on the {place}' for place in shown])}?"


def _or(phrases: Sequence[str]) -> str:
    *others, last = phrases
    return f"{', '.join(others)} or {last}" if others else last
