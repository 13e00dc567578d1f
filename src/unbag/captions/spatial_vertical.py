"""A parsed caption comes in; it with above and below, top and bottom, up and down goes out."""

from __future__ import annotations

from collections.abc import Iterator

from unbag.captions.kinds import Changes, Kind, by_rule
from unbag.captions.parsed import Parsed
from unbag.captions.spatial import object_of, word_at
from unbag.captions.spatial_words import (
    GROUND,
    HIGH,
    LEVELS,
    MOTION,
    NOT_UNDER,
    NOT_UNDER_WORDS,
    OVER_NOT_THINGS,
    OVER_VERBS,
    SLOPES,
    STANDABLE,
    UP_VERBS,
)
from unbag.types import Change

_UNDER = frozenset(("under", "underneath", "beneath", "below"))
_LEVELS = {"top": "bottom", "bottom": "top", "upper": "lower", "lower": "upper"}
_ALONE = {
    "uphill": "downhill",
    "downhill": "uphill",
    "upstairs": "downstairs",
    "downstairs": "upstairs",
    "upward": "downward",
    "downward": "upward",
    "upwards": "downwards",
    "downwards": "upwards",
}
_UP = {"up": "down", "down": "up"}
_TOPS = {"at the top of": "at the bottom of", "at the bottom of": "at the top of"}
_FLAT = frozenset(("water", "ground", "sea", "ocean"))
_WORDS = frozenset(("above", "over", *_UNDER, *_LEVELS, *_UP, *_ALONE))
_LOOKING = frozenset(("look", "gaze", "stare", "glance"))


def above_below(parsed: Parsed) -> list[Changes]:
    """Every word for high and low that names a place or a way."""
    if _WORDS.isdisjoint(parsed.lower):
        return []
    found: list[Change] = [*_tops(parsed)]
    for at, word in enumerate(parsed.lower):
        if word not in _WORDS or at in parsed.bound:
            continue
        change = _changed(parsed, at, word)
        if change is not None:
            found.append(change)
    return [(change,) for change in found]


def _changed(parsed: Parsed, at: int, word: str) -> Change | None:
    if word == "above":
        return _above(parsed, at)
    if word == "over":
        return _over(parsed, at)
    if word in _UNDER:
        return _under(parsed, at)
    if word in _LEVELS:
        return _level(parsed, at)
    if word in _UP:
        return _up(parsed, at)
    return parsed.change(at, at, _ALONE[word])


def _lemma(parsed: Parsed, at: int | None) -> str:
    return "" if at is None else parsed.words[at].lemma.lower()


def _above(parsed: Parsed, at: int) -> Change | None:
    thing = object_of(parsed, at)
    if thing is None or _lemma(parsed, thing) == "average" or _is_part(parsed, thing):
        return None
    if _lemma(parsed, thing) in _FLAT:
        return parsed.change(at, at, "under")
    return None if _lemma(parsed, thing) in GROUND else parsed.change(at, at, "below")


def _over(parsed: Parsed, at: int) -> Change | None:
    thing = object_of(parsed, at)
    word = parsed.words[at]
    holder = parsed.words[word.head]
    if thing is None or word.dep != "prep" or _lemma(parsed, thing) in NOT_UNDER:
        return None
    if _is_part(parsed, thing) or word_at(parsed, at - 1) in ("all", "bent", "out", "hand"):
        return None
    if holder.pos == "NOUN" and holder.lemma not in OVER_NOT_THINGS:
        return parsed.change(at, at, "under")
    return parsed.change(at, at, "under") if holder.lemma in OVER_VERBS else None


def _under(parsed: Parsed, at: int) -> Change | None:
    thing = object_of(parsed, at)
    if thing is None or _lemma(parsed, thing) in NOT_UNDER_WORDS or _is_part(parsed, thing):
        return None
    if word_at(parsed, at + 1) == "neath":
        return None
    if parsed.words[thing].tag == "NN" and not parsed.children[thing]:
        # "under repair", "under shelter"
        return None
    holder = parsed.words[parsed.words[at].head]
    if holder.lemma in MOTION:
        return parsed.change(at, at, "over")
    return parsed.change(at, at, "on top of" if _lemma(parsed, thing) in STANDABLE else "above")


def _is_part(parsed: Parsed, thing: int) -> bool:
    """Of a body or what it wears: "over his shoulder" is no place."""
    owned = any(parsed.words[at].tag == "PRP$" for at in parsed.children[thing])
    return owned or _lemma(parsed, thing) in ("head", "shoulder", "arm", "face", "eye", "another")


def _tops(parsed: Parsed) -> Iterator[Change]:
    for first, last in parsed.expressions:
        text = parsed.text_of(first, last).lower()
        thing = object_of(parsed, last)
        if thing is None:
            continue
        if text in _TOPS:
            yield parsed.change(first, last, _TOPS[text])
        elif text in ("on top of", "on the top of") and _lemma(parsed, thing) not in GROUND:
            if _lemma(parsed, thing) in HIGH:
                yield parsed.change(first, last, "at the bottom of")
            elif text == "on top of" and word_at(parsed, thing) not in ("it", "each", "other"):
                yield parsed.change(first, last, "underneath")
        elif text == "on the bottom of":
            yield parsed.change(first, last, "on the top of")


def _level(parsed: Parsed, at: int) -> Change | None:
    """As in "the top shelf", "the bottom of the page"."""
    word, after = parsed.lower[at], word_at(parsed, at + 1)
    if after in LEVELS and parsed.words[at].pos in ("ADJ", "NOUN"):
        return parsed.change(at, at, _LEVELS[word])
    is_end = word in ("top", "bottom") and word_at(parsed, at - 1) == "the" and after == "of"
    return parsed.change(at, at, _LEVELS[word]) if is_end else None


def _up(parsed: Parsed, at: int) -> Change | None:
    word = parsed.words[at]
    before = parsed.words[at - 1] if at else None
    holder = parsed.words[word.head]
    if before is None or before.text.lower() in ("upside", "close"):
        return None
    after = word_at(parsed, at + 1)
    if before.lemma in _LOOKING and before.pos == "VERB" and after in ("at", "", "."):
        return parsed.change(at, at, _UP[parsed.lower[at]])
    if not (holder.lemma in UP_VERBS and holder.pos == "VERB"):
        return None
    thing = object_of(parsed, at)
    if thing is None:
        thing = _object_after(parsed, at)
    if _lemma(parsed, thing) not in SLOPES:
        return None
    return parsed.change(at, at, _UP[parsed.lower[at]])


def _object_after(parsed: Parsed, at: int) -> int | None:
    """The noun of the phrase that begins right after, where the parser took "up" as a particle."""
    return next((one.head for one in parsed.chunks if one.first == at + 1), None)


ABOVE_BELOW = Kind(
    name="above_below",
    keeps_meaning=False,
    about="above becomes below, top bottom, up down: a cat under a table -> on top of a table",
    source="ours",
    editor=by_rule(above_below),
)
