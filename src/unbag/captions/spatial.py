"""A parsed caption comes in; the same with left and right, or front and behind, exchanged goes out.

Only where the word names a place: not in "left the room", "right now", "on his back". A caption
that names both sides is mirrored as a whole, so that it contradicts the original and not itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from unbag.captions.kinds import Changes, Kind, by_rule
from unbag.captions.parsed import NOUN_TAGS, Parsed
from unbag.captions.spatial_words import (
    BACK_PARTS_OF,
    FRONT_OBJECTS,
    FRONT_PARTS,
    NOT_BEHIND,
    NOT_BEHIND_OBJECTS,
    NOT_BEHIND_VERBS,
    OWNERS,
    SIDE_PARTS,
    TURNING,
)
from unbag.types import Change

_SIDES = {"left": "right", "right": "left", "leftmost": "rightmost", "rightmost": "leftmost"}
_FAR = frozenset(("far", "extreme", "very", "top", "bottom", "upper", "lower", "front", "back"))
_MUTUAL = frozenset(("other", "another"))
"""Where one thing is behind another, another is in front of one."""
_DEPTHS = {"background": "foreground", "foreground": "background"}
_FRONT = {
    "in front of": "behind",
    "in the front of": "in the back of",
    "in the back of": "in the front of",
    "in back of": "in front of",
    "at the front of": "at the back of",
    "at the back of": "at the front of",
    "to the rear of": "in front of",
    "in the front": "in the back",
    "in the back": "in the front",
    "in front": "in back",
}
_FRONT_WORDS = frozenset(
    ("front", "back", "rear", "hind", "behind", "background", "foreground", "backyard")
)


def left_right(parsed: Parsed) -> list[Changes]:
    """Left becomes right and the reverse."""
    if _SIDES.keys().isdisjoint(parsed.lower):
        return []
    places = [at for at, word in enumerate(parsed.lower) if word in _SIDES and _is_side(parsed, at)]
    changes = [parsed.change(at, at, _SIDES[parsed.lower[at]]) for at in places]
    if len({parsed.lower[at] for at in places}) < 2:
        return [(change,) for change in changes]
    if any(b - a <= 4 for a, b in pairwise(places)):
        # "from left to right", "on the left and right": mirrored, it says the same.
        return []
    return [tuple(changes)]


def front_behind(parsed: Parsed) -> list[Changes]:
    """In front of, behind, foreground, background, front and back parts."""
    if _FRONT_WORDS.isdisjoint(parsed.lower):
        return []
    found = [*_front_expressions(parsed), *_behind(parsed), *_depths(parsed), *_parts(parsed)]
    depths = [one for one in found if one.new in _DEPTHS]
    if len({one.new for one in depths}) == 2:
        return [tuple(sorted(depths))]
    return [(change,) for change in found]


def object_of(parsed: Parsed, preposition: int) -> int | None:
    """The noun or pronoun after a preposition."""
    children = parsed.children[preposition]
    return next((at for at in children if parsed.words[at].dep == "pobj"), None)


def word_at(parsed: Parsed, at: int) -> str:
    """In lower case; empty before the first and after the last."""
    return parsed.lower[at] if 0 <= at < len(parsed.words) else ""


def _is_side(parsed: Parsed, at: int) -> bool:
    before, after = word_at(parsed, at - 1), word_at(parsed, at + 1)
    if parsed.lower[at].endswith("most"):
        return True
    if after == "-":
        return word_at(parsed, at + 2) in ("hand", "handed", "side", "facing")
    if after in SIDE_PARTS:
        return before not in ("have", "has", "had") and word_at(parsed, at + 2) not in ("up", "man")
    if after == "of":
        return before not in ("what", "all", "'s", "that", "is", "are")
    if before in OWNERS or (before in _FAR and word_at(parsed, at - 2) in OWNERS):
        return _is_bare(parsed, at + 1)
    return _is_direction(parsed, at)


def _is_bare(parsed: Parsed, at: int) -> bool:
    """Whether no noun or adjective goes on here."""
    if at >= len(parsed.words):
        return True
    word = parsed.words[at]
    return word.tag not in NOUN_TAGS and word.pos not in ("ADJ", "NUM") and word.text != "over"


def _is_direction(parsed: Parsed, at: int) -> bool:
    """As in "turning left"; often "right" only stresses what follows ("right into the lens")."""
    before, after = parsed.words[at - 1] if at else None, word_at(parsed, at + 1)
    if before is None or before.lemma not in TURNING:
        return False
    return after in ("", ".", ",", ";", "and", "while", "as", "on", "onto")


def _front_expressions(parsed: Parsed) -> Iterator[Change]:
    for first, last in parsed.expressions:
        text = parsed.text_of(first, last).lower()
        new = _FRONT.get(text)
        if text == "on the back of":
            thing = object_of(parsed, last)
            if thing is not None and parsed.words[thing].lemma in FRONT_OBJECTS:
                yield parsed.change(first, last, "on the front of")
        elif new is not None and _has_front(parsed, text, last):
            yield parsed.change(first, last, new)


def _has_front(parsed: Parsed, text: str, last: int) -> bool:
    if not text.endswith("of"):
        return word_at(parsed, last + 1) not in ("seat", "row", "yard", "door", "ground")
    thing = object_of(parsed, last)
    if thing is None or parsed.words[thing].lemma in NOT_BEHIND | _MUTUAL:
        return False
    is_part = text in ("in the front of", "in the back of")
    return not is_part or parsed.words[thing].lemma in FRONT_OBJECTS


def _behind(parsed: Parsed) -> Iterator[Change]:
    for at, word in enumerate(parsed.words):
        if parsed.lower[at] != "behind" or word_at(parsed, at - 1) in ("from", "left", "and"):
            continue
        thing = object_of(parsed, at)
        holder = parsed.words[word.head]
        if thing is None or parsed.words[thing].lemma in NOT_BEHIND_OBJECTS | _MUTUAL:
            continue
        if holder.lemma not in NOT_BEHIND_VERBS and holder.lemma not in NOT_BEHIND:
            yield parsed.change(at, at, "in front of")


def _depths(parsed: Parsed) -> Iterator[Change]:
    for at, word in enumerate(parsed.lower):
        if word in _DEPTHS and _is_in_picture(parsed, at):
            yield parsed.change(at, at, _DEPTHS[word])


def _is_in_picture(parsed: Parsed, at: int) -> bool:
    """As in "in the background", "in background"; but no sky comes to the foreground."""
    start = next((i for i in (at - 1, at - 2, at - 3) if word_at(parsed, i) in ("in", "int")), 0)
    if not start:
        return word_at(parsed, 0) == "in" and at <= 3
    between = parsed.lower[start + 1 : at]
    is_place = all(one in OWNERS or one in ("far", "immediate", "teh") for one in between)
    return is_place and parsed.words[start - 1].lemma not in NOT_BEHIND


def _parts(parsed: Parsed) -> Iterator[Change]:
    """As in "front wheel", "hind legs", "backyard"."""
    for at, word in enumerate(parsed.lower):
        after = parsed.words[at + 1].lemma if at + 1 < len(parsed.words) else ""
        if word == "front" and after in FRONT_PARTS:
            yield parsed.change(at, at, "back")
        elif after in BACK_PARTS_OF.get(word, ()):
            yield parsed.change(at, at, "front")
        elif word == "backyard" and word_at(parsed, at + 1) not in ("pool", "fence"):
            yield parsed.change(at, at, "front yard")


LEFT_RIGHT = Kind(
    name="left_right",
    keeps_meaning=False,
    about="left becomes right: a cup on the left of a plate -> a cup on the right of a plate",
    source="Kamath et al. 2023 and others",
    editor=by_rule(left_right),
)
FRONT_BEHIND = Kind(
    name="front_behind",
    keeps_meaning=False,
    about="in front becomes behind: a dog behind a fence -> a dog in front of a fence",
    source="ours",
    editor=by_rule(front_behind),
)
