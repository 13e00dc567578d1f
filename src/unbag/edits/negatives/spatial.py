"""A parsed caption comes in; the same with left and right, or front and behind, exchanged goes out.

Only where the word names a place: not in "left the room", "right now", "on his back". A caption
that names both sides is mirrored as a whole, so that it contradicts the original and not itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from unbag.edits.kinds import Changes, Kind, by_rule
from unbag.edits.lexicon import (
    BACK_PARTS_OF,
    DRY,
    ENTERED,
    ENTERING,
    FRONT_OBJECTS,
    FRONT_PARTS,
    GROUND,
    HIGH,
    LEVELS,
    MOTION,
    NOT_BEHIND,
    NOT_BEHIND_OBJECTS,
    NOT_BEHIND_VERBS,
    NOT_FAR,
    NOT_UNDER,
    NOT_UNDER_WORDS,
    OVER_NOT_THINGS,
    OVER_VERBS,
    OWNERS,
    SIDE_PARTS,
    SLOPES,
    STANDABLE,
    TOWARDS,
    TURNING,
    UP_VERBS,
)
from unbag.edits.parsed import NOUN_TAGS, Parsed
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

_INSIDE = {"inside": "outside", "outside": "inside"}
_SPATIAL_RANGE_ALONE = {
    "indoors": "outdoors",
    "outdoors": "indoors",
    "indoor": "outdoor",
    "outdoor": "indoor",
}
_INSIDE_WORDS = frozenset(("into", "out", *_INSIDE, *_SPATIAL_RANGE_ALONE))
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
        if word in _SPATIAL_RANGE_ALONE:
            yield parsed.change(at, at, _SPATIAL_RANGE_ALONE[word])
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

_UNDER = frozenset(("under", "underneath", "beneath", "below"))
_LEVELS = {"top": "bottom", "bottom": "top", "upper": "lower", "lower": "upper"}
_SPATIAL_VERTICAL_ALONE = {
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
_WORDS = frozenset(("above", "over", *_UNDER, *_LEVELS, *_UP, *_SPATIAL_VERTICAL_ALONE))
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
    return parsed.change(at, at, _SPATIAL_VERTICAL_ALONE[word])


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
