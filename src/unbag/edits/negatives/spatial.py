"""Hard negatives of place: left and right, front and behind, inside and outside, near, above.

Only where the word names a place: not in "left the room", "right now", "on his back". A caption
that names both sides is mirrored as a whole, so that it contradicts the original and not itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from types import MappingProxyType

from unbag.edits.kinds import Changes, Kind, by_rule
from unbag.edits.lexicon import word_lists
from unbag.edits.parsed import NOUN_TAGS, Parsed
from unbag.types import Change

_LISTS = word_lists("spatial")
_OWNERS = _LISTS.words("owners")
_SIDE_PARTS = _LISTS.words("side_parts")
_TURNING = _LISTS.words("turning")

# What left_right looks up.
_SIDES = {"left": "right", "right": "left", "leftmost": "rightmost", "rightmost": "leftmost"}
_FAR = frozenset(("far", "extreme", "very", "top", "bottom", "upper", "lower", "front", "back"))

# What front_behind looks up.
_FRONT_OBJECTS = _LISTS.words("front_objects")
_FRONT_PARTS = _LISTS.words("front_parts")
_NOT_BEHIND = _LISTS.words("not_behind")
_NOT_BEHIND_OBJECTS = _LISTS.words("not_behind_objects") | _NOT_BEHIND
_NOT_BEHIND_VERBS = _LISTS.words("not_behind_verbs")
_BACK_PARTS = _FRONT_PARTS - {"foot", "end"}
_BACK_PARTS_OF = MappingProxyType(
    {"back": _BACK_PARTS, "rear": _BACK_PARTS, "hind": frozenset(("leg", "paw", "foot"))}
)
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

# What inside_outside and near_far look up.
_DRY = _LISTS.words("dry")
_ENTERED = _DRY | _LISTS.words("entered")
_ENTERING = _LISTS.words("entering")
_TOWARDS = _LISTS.words("towards")
_NOT_FAR = _LISTS.words("not_far")
_INSIDE = {"inside": "outside", "outside": "inside"}
_DOORS = {
    "indoors": "outdoors",
    "outdoors": "indoors",
    "indoor": "outdoor",
    "outdoor": "indoor",
}
_INSIDE_WORDS = frozenset(("into", "out", *_INSIDE, *_DOORS))
_NEAR_WORDS = frozenset(("near", "beside", "next", "close", "far", "toward", "towards", "away"))

# What above_below looks up.
_HIGH = _LISTS.words("high")
_GROUND = _LISTS.words("ground")
_LEVELS = _LISTS.words("levels")
_NOT_UNDER = _LISTS.words("not_under")
_NOT_UNDER_WORDS = _LISTS.words("not_under_words")
_OVER_VERBS = _LISTS.words("over_verbs")
_OVER_NOT_THINGS = _LISTS.words("over_not_things")
_STANDABLE = _LISTS.words("standable")
_MOTION = _LISTS.words("motion")
_SLOPES = _LISTS.words("slopes")
_UP_VERBS = _LISTS.words("up_verbs")
_UNDER = frozenset(("under", "underneath", "beneath", "below"))
_OTHER_LEVEL = {"top": "bottom", "bottom": "top", "upper": "lower", "lower": "upper"}
_UPWARD = {
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
_VERTICAL_WORDS = frozenset(("above", "over", *_UNDER, *_OTHER_LEVEL, *_UP, *_UPWARD))
_LOOKING = frozenset(("look", "gaze", "stare", "glance"))


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


LEFT_RIGHT = Kind(
    name="left_right",
    keeps_meaning=False,
    about="left becomes right: a cup on the left of a plate -> a cup on the right of a plate",
    source="Kamath et al. 2023 and others",
    editor=by_rule(left_right),
)


def front_behind(parsed: Parsed) -> list[Changes]:
    """In front of, behind, foreground, background, front and back parts."""
    if _FRONT_WORDS.isdisjoint(parsed.lower):
        return []
    found = [*_front_expressions(parsed), *_behind(parsed), *_depths(parsed), *_parts(parsed)]
    depths = [one for one in found if one.new in _DEPTHS]
    if len({one.new for one in depths}) == 2:
        return [tuple(sorted(depths))]
    return [(change,) for change in found]


FRONT_BEHIND = Kind(
    name="front_behind",
    keeps_meaning=False,
    about="in front becomes behind: a dog behind a fence -> a dog in front of a fence",
    source="ours",
    editor=by_rule(front_behind),
)


def inside_outside(parsed: Parsed) -> list[Changes]:
    """Inside, outside, into, out of, indoors, outdoors."""
    if _INSIDE_WORDS.isdisjoint(parsed.lower):
        return []
    found = [*_inside(parsed), *_ways(parsed)]
    return [(change,) for change in found]


INSIDE_OUTSIDE = Kind(
    name="inside_outside",
    keeps_meaning=False,
    about="inside becomes outside, into out of: a dog jumps into a pool -> out of a pool",
    source="ours",
    editor=by_rule(inside_outside),
)


def near_far(parsed: Parsed) -> list[Changes]:
    """Near and next to become far from; towards becomes away from; and the reverse."""
    if _NEAR_WORDS.isdisjoint(parsed.lower):
        return []
    return [(change,) for change in (*_near(parsed), *_towards(parsed))]


NEAR_FAR = Kind(
    name="near_far",
    keeps_meaning=False,
    about="near becomes far from: a bench near a lake -> a bench far from a lake",
    source="ours",
    editor=by_rule(near_far),
)


def above_below(parsed: Parsed) -> list[Changes]:
    """Every word for high and low that names a place or a way."""
    if _VERTICAL_WORDS.isdisjoint(parsed.lower):
        return []
    found: list[Change] = [*_tops(parsed)]
    for at, word in enumerate(parsed.lower):
        if word not in _VERTICAL_WORDS or at in parsed.bound:
            continue
        change = _changed(parsed, at, word)
        if change is not None:
            found.append(change)
    return [(change,) for change in found]


ABOVE_BELOW = Kind(
    name="above_below",
    keeps_meaning=False,
    about="above becomes below, top bottom, up down: a cat under a table -> on top of a table",
    source="ours",
    editor=by_rule(above_below),
)


def _is_side(parsed: Parsed, at: int) -> bool:
    before, after = parsed.lower_at(at - 1), parsed.lower_at(at + 1)
    if parsed.lower[at].endswith("most"):
        return True
    if after == "-":
        return parsed.lower_at(at + 2) in ("hand", "handed", "side", "facing")
    if after in _SIDE_PARTS:
        return before not in ("have", "has", "had") and parsed.lower_at(at + 2) not in (
            "up",
            "man",
        )
    if after == "of":
        return before not in ("what", "all", "'s", "that", "is", "are")
    if before in _OWNERS or (before in _FAR and parsed.lower_at(at - 2) in _OWNERS):
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
    before, after = parsed.words[at - 1] if at else None, parsed.lower_at(at + 1)
    if before is None or before.lemma not in _TURNING:
        return False
    return after in ("", ".", ",", ";", "and", "while", "as", "on", "onto")


def _front_expressions(parsed: Parsed) -> Iterator[Change]:
    for first, last in parsed.expressions:
        text = parsed.text_of(first, last).lower()
        new = _FRONT.get(text)
        if text == "on the back of":
            thing = parsed.child(last, "pobj")
            if thing is not None and parsed.words[thing].lemma in _FRONT_OBJECTS:
                yield parsed.change(first, last, "on the front of")
        elif new is not None and _has_front(parsed, text, last):
            yield parsed.change(first, last, new)


def _has_front(parsed: Parsed, text: str, last: int) -> bool:
    if not text.endswith("of"):
        return parsed.lower_at(last + 1) not in ("seat", "row", "yard", "door", "ground")
    thing = parsed.child(last, "pobj")
    if thing is None or parsed.words[thing].lemma in _NOT_BEHIND | _MUTUAL:
        return False
    is_part = text in ("in the front of", "in the back of")
    return not is_part or parsed.words[thing].lemma in _FRONT_OBJECTS


def _behind(parsed: Parsed) -> Iterator[Change]:
    for at, word in enumerate(parsed.words):
        if parsed.lower[at] != "behind" or parsed.lower_at(at - 1) in ("from", "left", "and"):
            continue
        thing = parsed.child(at, "pobj")
        holder = parsed.words[word.head]
        if thing is None or parsed.words[thing].lemma in _NOT_BEHIND_OBJECTS | _MUTUAL:
            continue
        if holder.lemma not in _NOT_BEHIND_VERBS and holder.lemma not in _NOT_BEHIND:
            yield parsed.change(at, at, "in front of")


def _depths(parsed: Parsed) -> Iterator[Change]:
    for at, word in enumerate(parsed.lower):
        if word in _DEPTHS and _is_in_picture(parsed, at):
            yield parsed.change(at, at, _DEPTHS[word])


def _is_in_picture(parsed: Parsed, at: int) -> bool:
    """As in "in the background", "in background"; but no sky comes to the foreground."""
    start = next((i for i in (at - 1, at - 2, at - 3) if parsed.lower_at(i) in ("in", "int")), 0)
    if not start:
        return parsed.lower_at(0) == "in" and at <= 3
    between = parsed.lower[start + 1 : at]
    is_place = all(one in _OWNERS or one in ("far", "immediate", "teh") for one in between)
    return is_place and parsed.words[start - 1].lemma not in _NOT_BEHIND


def _parts(parsed: Parsed) -> Iterator[Change]:
    """As in "front wheel", "hind legs", "backyard"."""
    for at, word in enumerate(parsed.lower):
        after = parsed.words[at + 1].lemma if at + 1 < len(parsed.words) else ""
        if word == "front" and after in _FRONT_PARTS:
            yield parsed.change(at, at, "back")
        elif after in _BACK_PARTS_OF.get(word, ()):
            yield parsed.change(at, at, "front")
        elif word == "backyard" and parsed.lower_at(at + 1) not in ("pool", "fence"):
            yield parsed.change(at, at, "front yard")


def _inside(parsed: Parsed) -> Iterator[Change]:
    for at, word in enumerate(parsed.lower):
        if word in _DOORS:
            yield parsed.change(at, at, _DOORS[word])
        elif word in _INSIDE and _has_inside(parsed, at):
            yield parsed.change(at, at, _INSIDE[word])


def _has_inside(parsed: Parsed, at: int) -> bool:
    before, after = parsed.lower_at(at - 1), parsed.lower_at(at + 1)
    if before in ("the", "an", "from"):
        return False
    if after in ("", ".", ","):
        return parsed.words[at].tag == "RB"
    thing = parsed.child(at + 1 if after == "of" else at, "pobj")
    return thing is not None and parsed.words[thing].lemma in _DRY


def _ways(parsed: Parsed) -> Iterator[Change]:
    """As in "jumping into the pool", "jumping out of the pool"."""
    for at, word in enumerate(parsed.lower):
        last = at + 1 if word == "out" and parsed.lower_at(at + 1) == "of" else at
        if word != "into" and last == at:
            continue
        thing, verb = parsed.child(last, "pobj"), parsed.words[at - 1] if at else None
        if thing is None or parsed.words[thing].lemma not in _ENTERED or verb is None:
            continue
        if verb.lemma in _ENTERING and verb.pos == "VERB":
            yield parsed.change(at, last, "out of" if word == "into" else "into")


def _near(parsed: Parsed) -> Iterator[Change]:
    for at, word in enumerate(parsed.lower):
        after = parsed.lower_at(at + 1)
        if word in ("near", "beside") and _has_object(parsed, at):
            yield parsed.change(at, at, "far from")
        elif word in ("next", "close") and after == "to" and _has_object(parsed, at + 1):
            if parsed.lower_at(at - 1) not in ("right", "very", "so", "too", "up", "directly"):
                yield parsed.change(at, at + 1, "far away from" if word == "next" else "far from")
        elif word == "far" and _far_end(parsed, at) and parsed.lower_at(at - 1) != "not":
            yield parsed.change(at, _far_end(parsed, at), "close to")


def _has_object(parsed: Parsed, at: int) -> bool:
    thing = parsed.child(at, "pobj")
    return thing is not None and parsed.words[thing].lemma not in _NOT_FAR


def _far_end(parsed: Parsed, at: int) -> int:
    """Last word of "far from" or "far away from"; 0 for neither."""
    last = at + 2 if parsed.lower_at(at + 1) == "away" else at + 1
    return last if parsed.lower_at(last) == "from" else 0


def _towards(parsed: Parsed) -> Iterator[Change]:
    for at, word in enumerate(parsed.lower):
        is_away = word == "away" and parsed.lower_at(at + 1) == "from"
        if word not in ("toward", "towards") and not is_away:
            continue
        last = at + is_away
        holder = parsed.words[parsed.words[at].head]
        before = parsed.lower_at(at - 1)
        if not _has_object(parsed, last) or before in ("far", "back", "up", "down", "out"):
            continue
        if holder.lemma in _TOWARDS and holder.pos == "VERB":
            yield parsed.change(at, last, "towards" if is_away else "away from")


def _changed(parsed: Parsed, at: int, word: str) -> Change | None:
    if word == "above":
        return _above(parsed, at)
    if word == "over":
        return _over(parsed, at)
    if word in _UNDER:
        return _under(parsed, at)
    if word in _OTHER_LEVEL:
        return _level(parsed, at)
    if word in _UP:
        return _up(parsed, at)
    return parsed.change(at, at, _UPWARD[word])


def _above(parsed: Parsed, at: int) -> Change | None:
    thing = parsed.child(at, "pobj")
    if thing is None or parsed.lemma_at(thing) == "average" or _is_part(parsed, thing):
        return None
    if parsed.lemma_at(thing) in _FLAT:
        return parsed.change(at, at, "under")
    return None if parsed.lemma_at(thing) in _GROUND else parsed.change(at, at, "below")


def _over(parsed: Parsed, at: int) -> Change | None:
    thing = parsed.child(at, "pobj")
    word = parsed.words[at]
    holder = parsed.words[word.head]
    if thing is None or word.dep != "prep" or parsed.lemma_at(thing) in _NOT_UNDER:
        return None
    if _is_part(parsed, thing) or parsed.lower_at(at - 1) in ("all", "bent", "out", "hand"):
        return None
    if holder.pos == "NOUN" and holder.lemma not in _OVER_NOT_THINGS:
        return parsed.change(at, at, "under")
    return parsed.change(at, at, "under") if holder.lemma in _OVER_VERBS else None


def _under(parsed: Parsed, at: int) -> Change | None:
    thing = parsed.child(at, "pobj")
    if thing is None or parsed.lemma_at(thing) in _NOT_UNDER_WORDS or _is_part(parsed, thing):
        return None
    if parsed.lower_at(at + 1) == "neath":
        return None
    if parsed.words[thing].tag == "NN" and not parsed.children[thing]:
        # "under repair", "under shelter"
        return None
    holder = parsed.words[parsed.words[at].head]
    if holder.lemma in _MOTION:
        return parsed.change(at, at, "over")
    return parsed.change(at, at, "on top of" if parsed.lemma_at(thing) in _STANDABLE else "above")


def _is_part(parsed: Parsed, thing: int) -> bool:
    """Of a body or what it wears: "over his shoulder" is no place."""
    owned = any(parsed.words[at].tag == "PRP$" for at in parsed.children[thing])
    return owned or parsed.lemma_at(thing) in ("head", "shoulder", "arm", "face", "eye", "another")


def _tops(parsed: Parsed) -> Iterator[Change]:
    for first, last in parsed.expressions:
        text = parsed.text_of(first, last).lower()
        thing = parsed.child(last, "pobj")
        if thing is None:
            continue
        if text in _TOPS:
            yield parsed.change(first, last, _TOPS[text])
        elif text in ("on top of", "on the top of") and parsed.lemma_at(thing) not in _GROUND:
            if parsed.lemma_at(thing) in _HIGH:
                yield parsed.change(first, last, "at the bottom of")
            elif text == "on top of" and parsed.lower_at(thing) not in ("it", "each", "other"):
                yield parsed.change(first, last, "underneath")
        elif text == "on the bottom of":
            yield parsed.change(first, last, "on the top of")


def _level(parsed: Parsed, at: int) -> Change | None:
    """As in "the top shelf", "the bottom of the page"."""
    word, after = parsed.lower[at], parsed.lower_at(at + 1)
    if after in _LEVELS and parsed.words[at].pos in ("ADJ", "NOUN"):
        return parsed.change(at, at, _OTHER_LEVEL[word])
    is_end = word in ("top", "bottom") and parsed.lower_at(at - 1) == "the" and after == "of"
    return parsed.change(at, at, _OTHER_LEVEL[word]) if is_end else None


def _up(parsed: Parsed, at: int) -> Change | None:
    word = parsed.words[at]
    before = parsed.words[at - 1] if at else None
    holder = parsed.words[word.head]
    if before is None or before.text.lower() in ("upside", "close"):
        return None
    after = parsed.lower_at(at + 1)
    if before.lemma in _LOOKING and before.pos == "VERB" and after in ("at", "", "."):
        return parsed.change(at, at, _UP[parsed.lower[at]])
    if not (holder.lemma in _UP_VERBS and holder.pos == "VERB"):
        return None
    thing = parsed.child(at, "pobj")
    if thing is None:
        thing = _object_after(parsed, at)
    if parsed.lemma_at(thing) not in _SLOPES:
        return None
    return parsed.change(at, at, _UP[parsed.lower[at]])


def _object_after(parsed: Parsed, at: int) -> int | None:
    """The noun of the phrase that begins right after, where the parser took "up" as a particle."""
    return next((one.head for one in parsed.chunks if one.first == at + 1), None)
