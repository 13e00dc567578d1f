"""A parsed caption comes in; the same with inside and outside, or near and far, goes out."""

from __future__ import annotations

from collections.abc import Iterator

from unbag.captions.kinds import Changes, Kind, by_rule
from unbag.captions.parsed import Parsed
from unbag.captions.spatial import object_of, word_at
from unbag.captions.spatial_words import DRY, ENTERED, ENTERING, NOT_FAR, TOWARDS
from unbag.types import Change

_INSIDE = {"inside": "outside", "outside": "inside"}
_ALONE = {
    "indoors": "outdoors",
    "outdoors": "indoors",
    "indoor": "outdoor",
    "outdoor": "indoor",
}
_INSIDE_WORDS = frozenset(("into", "out", *_INSIDE, *_ALONE))
_NEAR_WORDS = frozenset(("near", "beside", "next", "close", "far", "toward", "towards", "away"))


def inside_outside(parsed: Parsed) -> list[Changes]:
    """Inside, outside, into, out of, indoors, outdoors."""
    if _INSIDE_WORDS.isdisjoint(parsed.lower):
        return []
    found = [*_inside(parsed), *_ways(parsed)]
    return [(change,) for change in found]


def near_far(parsed: Parsed) -> list[Changes]:
    """Near and next to become far from; towards becomes away from; and the reverse."""
    if _NEAR_WORDS.isdisjoint(parsed.lower):
        return []
    return [(change,) for change in (*_near(parsed), *_towards(parsed))]


def _inside(parsed: Parsed) -> Iterator[Change]:
    for at, word in enumerate(parsed.lower):
        if word in _ALONE:
            yield parsed.change(at, at, _ALONE[word])
        elif word in _INSIDE and _has_inside(parsed, at):
            yield parsed.change(at, at, _INSIDE[word])


def _has_inside(parsed: Parsed, at: int) -> bool:
    before, after = word_at(parsed, at - 1), word_at(parsed, at + 1)
    if before in ("the", "an", "from"):
        return False
    if after in ("", ".", ","):
        return parsed.words[at].tag == "RB"
    thing = object_of(parsed, at + 1 if after == "of" else at)
    return thing is not None and parsed.words[thing].lemma in DRY


def _ways(parsed: Parsed) -> Iterator[Change]:
    """As in "jumping into the pool", "jumping out of the pool"."""
    for at, word in enumerate(parsed.lower):
        last = at + 1 if word == "out" and word_at(parsed, at + 1) == "of" else at
        if word != "into" and last == at:
            continue
        thing, verb = object_of(parsed, last), parsed.words[at - 1] if at else None
        if thing is None or parsed.words[thing].lemma not in ENTERED or verb is None:
            continue
        if verb.lemma in ENTERING and verb.pos == "VERB":
            yield parsed.change(at, last, "out of" if word == "into" else "into")


def _near(parsed: Parsed) -> Iterator[Change]:
    for at, word in enumerate(parsed.lower):
        after = word_at(parsed, at + 1)
        if word in ("near", "beside") and _has_object(parsed, at):
            yield parsed.change(at, at, "far from")
        elif word in ("next", "close") and after == "to" and _has_object(parsed, at + 1):
            if word_at(parsed, at - 1) not in ("right", "very", "so", "too", "up", "directly"):
                yield parsed.change(at, at + 1, "far away from" if word == "next" else "far from")
        elif word == "far" and _far_end(parsed, at) and word_at(parsed, at - 1) != "not":
            yield parsed.change(at, _far_end(parsed, at), "close to")


def _has_object(parsed: Parsed, at: int) -> bool:
    thing = object_of(parsed, at)
    return thing is not None and parsed.words[thing].lemma not in NOT_FAR


def _far_end(parsed: Parsed, at: int) -> int:
    """Last word of "far from" or "far away from"; 0 for neither."""
    last = at + 2 if word_at(parsed, at + 1) == "away" else at + 1
    return last if word_at(parsed, last) == "from" else 0


def _towards(parsed: Parsed) -> Iterator[Change]:
    for at, word in enumerate(parsed.lower):
        is_away = word == "away" and word_at(parsed, at + 1) == "from"
        if word not in ("toward", "towards") and not is_away:
            continue
        last = at + is_away
        holder = parsed.words[parsed.words[at].head]
        before = word_at(parsed, at - 1)
        if not _has_object(parsed, last) or before in ("far", "back", "up", "down", "out"):
            continue
        if holder.lemma in TOWARDS and holder.pos == "VERB":
            yield parsed.change(at, last, "towards" if is_away else "away from")


INSIDE_OUTSIDE = Kind(
    name="inside_outside",
    keeps_meaning=False,
    about="inside becomes outside, into out of: a dog jumps into a pool -> out of a pool",
    source="ours",
    editor=by_rule(inside_outside),
)
NEAR_FAR = Kind(
    name="near_far",
    keeps_meaning=False,
    about="near becomes far from: a bench near a lake -> a bench far from a lake",
    source="ours",
    editor=by_rule(near_far),
)
