"""Hard negatives of position: left and right, front and behind, inside and outside, near, above.

A word is replaced only where it is spatial: not in "left the room", "right now", "on his back". A
caption with both sides is mirrored as a whole, so that it contradicts the original, not itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from types import MappingProxyType

from unbag.edits.kinds import Changes, rule_kind
from unbag.edits.lexicon import word_lists
from unbag.edits.parsed import NOUN_TAGS, Parsed
from unbag.types import Change

_LISTS = word_lists("spatial")
_OWNERS = _LISTS.words("owners")

# Word lists of left_right.
_SIDES = _LISTS.replacements("sides")
_SIDE_PARTS = _LISTS.words("side_parts")
_TURNING = _LISTS.words("turning")
_FAR = _LISTS.words("far")

# Word lists of front_behind.
_FRONT_WORDS = _LISTS.words("front_words")
_FRONTS = _LISTS.replacements("fronts")
_FRONT_OBJECTS = _LISTS.words("front_objects")
_FRONT_PARTS = _LISTS.words("front_parts")
_BACK_PARTS = _FRONT_PARTS - {"foot", "end"}
_BACK_PARTS_OF = MappingProxyType(
    {"back": _BACK_PARTS, "rear": _BACK_PARTS, "hind": frozenset(("leg", "paw", "foot"))}
)
_NOT_BEHIND = _LISTS.words("not_behind")
_NOT_BEHIND_OBJECTS = _LISTS.words("not_behind_objects") | _NOT_BEHIND
_NOT_BEHIND_VERBS = _LISTS.words("not_behind_verbs")
_MUTUAL = frozenset(("other", "another"))
"""Objects of symmetric relations: "behind each other" is also "in front of each other"."""
_DEPTHS = _LISTS.replacements("depths")

# Word lists of inside_outside and near_far.
_INSIDE = _LISTS.replacements("inside")
_DOORS = _LISTS.replacements("doors")
_INSIDE_WORDS = frozenset(("into", "out", *_INSIDE, *_DOORS))
_DRY = _LISTS.words("dry")
_ENTERED = _DRY | _LISTS.words("entered")
_ENTERING = _LISTS.words("entering")
_NEAR_WORDS = _LISTS.words("near_words")
_TOWARDS = _LISTS.words("towards")
_NOT_FAR = _LISTS.words("not_far")

# Word lists of above_below.
_UNDER = frozenset(("under", "underneath", "beneath", "below"))
_OTHER_LEVEL = _LISTS.replacements("other_level")
_UP = _LISTS.replacements("up")
_UPWARD = _LISTS.replacements("upward")
_VERTICAL_WORDS = frozenset(("above", "over", *_UNDER, *_OTHER_LEVEL, *_UP, *_UPWARD))
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


def left_right(parsed: Parsed) -> list[Changes]:
    """Replace left by right and the reverse."""
    if _SIDES.keys().isdisjoint(parsed.lower):
        return []
    places = [i for i, word in enumerate(parsed.lower) if word in _SIDES and _is_side(parsed, i)]
    changes = [parsed.change(i, i, _SIDES[parsed.lower[i]]) for i in places]
    if len({parsed.lower[i] for i in places}) < 2:
        return [(change,) for change in changes]
    if any(b - a <= 4 for a, b in pairwise(places)):
        # "from left to right", "on the left and right": mirrored, the meaning stays.
        return []
    return [tuple(changes)]


LEFT_RIGHT = rule_kind(
    left_right,
    "left becomes right: a cup on the left of a plate -> a cup on the right of a plate",
    "Kamath et al. 2023 and others",
)


def front_behind(parsed: Parsed) -> list[Changes]:
    """Replace in front of, behind, foreground, background, and front and back parts."""
    if _FRONT_WORDS.isdisjoint(parsed.lower):
        return []
    depths = [
        parsed.change(i, i, _DEPTHS[word])
        for i, word in enumerate(parsed.lower)
        if word in _DEPTHS and _is_in_image(parsed, i)
    ]
    if len({change.new for change in depths}) == 2:
        return [tuple(depths)]
    changes = [*_front_expressions(parsed), *_behind(parsed), *depths, *_parts(parsed)]
    return [(change,) for change in changes]


FRONT_BEHIND = rule_kind(
    front_behind,
    "in front becomes behind: a dog behind a fence -> a dog in front of a fence",
    "ours",
)


def inside_outside(parsed: Parsed) -> list[Changes]:
    """Replace inside, outside, into, out of, indoors and outdoors by their opposites."""
    if _INSIDE_WORDS.isdisjoint(parsed.lower):
        return []
    edits: list[Changes] = []
    for i, word in enumerate(parsed.lower):
        if word in _DOORS:
            edits.append((parsed.change(i, i, _DOORS[word]),))
        elif word in _INSIDE and _has_inside(parsed, i):
            edits.append((parsed.change(i, i, _INSIDE[word]),))
    return [*edits, *((change,) for change in _ways(parsed))]


INSIDE_OUTSIDE = rule_kind(
    inside_outside,
    "inside becomes outside, into out of: a dog jumps into a pool -> out of a pool",
    "ours",
)


def near_far(parsed: Parsed) -> list[Changes]:
    """Replace near and next to by far from, towards by away from, and the reverse."""
    if _NEAR_WORDS.isdisjoint(parsed.lower):
        return []
    return [(change,) for change in (*_near(parsed), *_towards(parsed))]


NEAR_FAR = rule_kind(
    near_far, "near becomes far from: a bench near a lake -> a bench far from a lake", "ours"
)


def above_below(parsed: Parsed) -> list[Changes]:
    """Replace words for high and low positions and directions."""
    if _VERTICAL_WORDS.isdisjoint(parsed.lower):
        return []
    edits = [(change,) for change in _tops(parsed)]
    for i, word in enumerate(parsed.lower):
        if word in _VERTICAL_WORDS and i not in parsed.bound:
            new = _other_height(parsed, i, word)
            edits += [(parsed.change(i, i, new),)] if new else []
    return [*edits]


ABOVE_BELOW = rule_kind(
    above_below,
    "above becomes below, top bottom, up down: a cat under a table -> on top of a table",
    "ours",
)


def _is_side(parsed: Parsed, i: int) -> bool:
    before, after = parsed.lower_at(i - 1), parsed.lower_at(i + 1)
    if parsed.lower[i].endswith("most"):
        return True
    if after == "-":
        return parsed.lower_at(i + 2) in ("hand", "handed", "side", "facing")
    if after in _SIDE_PARTS:
        is_verb = before in ("have", "has", "had")
        return not is_verb and parsed.lower_at(i + 2) not in ("up", "man")
    if after == "of":
        return before not in ("what", "all", "'s", "that", "is", "are")
    if before in _OWNERS or (before in _FAR and parsed.lower_at(i - 2) in _OWNERS):
        # No noun or adjective may follow.
        next_word = parsed.words[i + 1] if after else None
        return next_word is None or (
            next_word.tag not in NOUN_TAGS
            and next_word.pos not in ("ADJ", "NUM")
            and next_word.text != "over"
        )
    # As in "turning left"; "right" is often only emphasis ("right into the lens").
    is_turn = i > 0 and parsed.words[i - 1].lemma in _TURNING
    return is_turn and after in ("", ".", ",", ";", "and", "while", "as", "on", "onto")


def _front_expressions(parsed: Parsed) -> Iterator[Change]:
    for first, last in parsed.expressions:
        text = parsed.text_of(first, last).lower()
        if text == "on the back of":
            thing = parsed.child(last, "pobj")
            if thing is not None and parsed.words[thing].lemma in _FRONT_OBJECTS:
                yield parsed.change(first, last, "on the front of")
        elif text in _FRONTS and _has_front(parsed, text, last):
            yield parsed.change(first, last, _FRONTS[text])


def _has_front(parsed: Parsed, text: str, last: int) -> bool:
    if not text.endswith("of"):
        return parsed.lower_at(last + 1) not in ("seat", "row", "yard", "door", "ground")
    thing = parsed.child(last, "pobj")
    if thing is None or parsed.words[thing].lemma in _NOT_BEHIND | _MUTUAL:
        return False
    is_part = text in ("in the front of", "in the back of")
    return not is_part or parsed.words[thing].lemma in _FRONT_OBJECTS


def _behind(parsed: Parsed) -> Iterator[Change]:
    for i, word in enumerate(parsed.words):
        if parsed.lower[i] != "behind" or parsed.lower_at(i - 1) in ("from", "left", "and"):
            continue
        thing = parsed.child(i, "pobj")
        holder = parsed.words[word.head]
        if thing is None or parsed.words[thing].lemma in _NOT_BEHIND_OBJECTS | _MUTUAL:
            continue
        if holder.lemma not in _NOT_BEHIND_VERBS and holder.lemma not in _NOT_BEHIND:
            yield parsed.change(i, i, "in front of")


def _is_in_image(parsed: Parsed, word: int) -> bool:
    """Whether it is as in "in the background"; not of things such as the sky."""
    start = next(
        (i for i in (word - 1, word - 2, word - 3) if parsed.lower_at(i) in ("in", "int")), 0
    )
    if not start:
        return parsed.lower_at(0) == "in" and word <= 3
    between = parsed.lower[start + 1 : word]
    is_place = all(text in _OWNERS or text in ("far", "immediate", "teh") for text in between)
    return is_place and parsed.words[start - 1].lemma not in _NOT_BEHIND


def _parts(parsed: Parsed) -> Iterator[Change]:
    """Replace parts such as "front wheel", "hind legs", "backyard"."""
    for i, word in enumerate(parsed.lower):
        after = parsed.words[i + 1].lemma if i + 1 < len(parsed.words) else ""
        if word == "front" and after in _FRONT_PARTS:
            yield parsed.change(i, i, "back")
        elif after in _BACK_PARTS_OF.get(word, ()):
            yield parsed.change(i, i, "front")
        elif word == "backyard" and parsed.lower_at(i + 1) not in ("pool", "fence"):
            yield parsed.change(i, i, "front yard")


def _has_inside(parsed: Parsed, i: int) -> bool:
    after = parsed.lower_at(i + 1)
    if parsed.lower_at(i - 1) in ("the", "an", "from"):
        return False
    if after in ("", ".", ","):
        return parsed.words[i].tag == "RB"
    thing = parsed.child(i + 1 if after == "of" else i, "pobj")
    return thing is not None and parsed.words[thing].lemma in _DRY


def _ways(parsed: Parsed) -> Iterator[Change]:
    """Exchange "into" and "out of", as in "jumping into the pool"."""
    for i, word in enumerate(parsed.lower):
        last = i + 1 if word == "out" and parsed.lower_at(i + 1) == "of" else i
        if word != "into" and last == i:
            continue
        thing, verb = parsed.child(last, "pobj"), parsed.words[i - 1] if i else None
        if thing is None or parsed.words[thing].lemma not in _ENTERED or verb is None:
            continue
        if verb.lemma in _ENTERING and verb.pos == "VERB":
            yield parsed.change(i, last, "out of" if word == "into" else "into")


def _near(parsed: Parsed) -> Iterator[Change]:
    for i, word in enumerate(parsed.lower):
        before, after = parsed.lower_at(i - 1), parsed.lower_at(i + 1)
        if word in ("near", "beside") and _has_object(parsed, i):
            yield parsed.change(i, i, "far from")
        elif word in ("next", "close") and after == "to" and _has_object(parsed, i + 1):
            if before not in ("right", "very", "so", "too", "up", "directly"):
                yield parsed.change(i, i + 1, "far away from" if word == "next" else "far from")
        elif word == "far" and before != "not":
            # "far from" or "far away from"
            last = i + 2 if after == "away" else i + 1
            if parsed.lower_at(last) == "from":
                yield parsed.change(i, last, "close to")


def _has_object(parsed: Parsed, i: int) -> bool:
    thing = parsed.child(i, "pobj")
    return thing is not None and parsed.words[thing].lemma not in _NOT_FAR


def _towards(parsed: Parsed) -> Iterator[Change]:
    for i, word in enumerate(parsed.lower):
        is_away = word == "away" and parsed.lower_at(i + 1) == "from"
        if word not in ("toward", "towards") and not is_away:
            continue
        last = i + is_away
        holder = parsed.words[parsed.words[i].head]
        before = parsed.lower_at(i - 1)
        if not _has_object(parsed, last) or before in ("far", "back", "up", "down", "out"):
            continue
        if holder.lemma in _TOWARDS and holder.pos == "VERB":
            yield parsed.change(i, last, "towards" if is_away else "away from")


def _tops(parsed: Parsed) -> Iterator[Change]:
    for first, last in parsed.expressions:
        text = parsed.text_of(first, last).lower()
        thing = parsed.child(last, "pobj")
        if thing is None:
            continue
        if text in ("at the top of", "at the bottom of"):
            other = _OTHER_LEVEL[parsed.lower[last - 1]]
            yield parsed.change(first, last, f"at the {other} of")
        elif text in ("on top of", "on the top of") and parsed.lemma_at(thing) not in _GROUND:
            if parsed.lemma_at(thing) in _HIGH:
                yield parsed.change(first, last, "at the bottom of")
            elif text == "on top of" and parsed.lower_at(thing) not in ("it", "each", "other"):
                yield parsed.change(first, last, "underneath")
        elif text == "on the bottom of":
            yield parsed.change(first, last, "on the top of")


def _other_height(parsed: Parsed, i: int, word: str) -> str | None:
    """The replacement of a word for high or low; None where it is not spatial."""
    if word in _UPWARD:
        return _UPWARD[word]
    if word in _OTHER_LEVEL:
        return _OTHER_LEVEL[word] if _is_level(parsed, i) else None
    if word in _UP:
        return _UP[word] if _is_way(parsed, i) else None
    thing = parsed.child(i, "pobj")
    if thing is None or _is_part(parsed, thing):
        return None
    if word == "above":
        return _instead_of_above(parsed.lemma_at(thing))
    if word == "over":
        return "under" if _is_over(parsed, i, thing) else None
    return _instead_of_under(parsed, i, thing)


def _is_part(parsed: Parsed, thing: int) -> bool:
    """Whether it is a body part or worn: "over his shoulder" is not a position."""
    owned = any(parsed.words[i].tag == "PRP$" for i in parsed.children[thing])
    return owned or parsed.lemma_at(thing) in ("head", "shoulder", "arm", "face", "eye", "another")


def _instead_of_above(thing: str) -> str | None:
    if thing in ("water", "ground", "sea", "ocean"):
        return "under"
    return None if thing in _GROUND or thing == "average" else "below"


def _is_over(parsed: Parsed, i: int, thing: int) -> bool:
    holder = parsed.words[parsed.words[i].head]
    if parsed.words[i].dep != "prep" or parsed.lemma_at(thing) in _NOT_UNDER:
        return False
    if parsed.lower_at(i - 1) in ("all", "bent", "out", "hand"):
        return False
    is_thing = holder.pos == "NOUN" and holder.lemma not in _OVER_NOT_THINGS
    return is_thing or holder.lemma in _OVER_VERBS


def _instead_of_under(parsed: Parsed, i: int, thing: int) -> str | None:
    if parsed.lemma_at(thing) in _NOT_UNDER_WORDS or parsed.lower_at(i + 1) == "neath":
        return None
    if parsed.words[thing].tag == "NN" and not parsed.children[thing]:
        # "under repair", "under shelter"
        return None
    if parsed.words[parsed.words[i].head].lemma in _MOTION:
        return "over"
    return "on top of" if parsed.lemma_at(thing) in _STANDABLE else "above"


def _is_level(parsed: Parsed, i: int) -> bool:
    """Whether it is as in "the top shelf" or "the bottom of the page"."""
    after = parsed.lower_at(i + 1)
    if after in _LEVELS and parsed.words[i].pos in ("ADJ", "NOUN"):
        return True
    is_end = parsed.lower[i] in ("top", "bottom")
    return is_end and parsed.lower_at(i - 1) == "the" and after == "of"


def _is_way(parsed: Parsed, i: int) -> bool:
    """Whether it is as in "looks up" or "climbs up the hill"."""
    before = parsed.words[i - 1] if i else None
    if before is None or before.text.lower() in ("upside", "close"):
        return False
    is_look = before.lemma in ("look", "gaze", "stare", "glance") and before.pos == "VERB"
    if is_look and parsed.lower_at(i + 1) in ("at", "", "."):
        return True
    holder = parsed.words[parsed.words[i].head]
    if not (holder.lemma in _UP_VERBS and holder.pos == "VERB"):
        return False
    thing = parsed.child(i, "pobj")
    if thing is None:
        # The noun of the phrase right after, where the parser took "up" as a particle.
        thing = next((chunk.head for chunk in parsed.chunks if chunk.first == i + 1), None)
    return parsed.lemma_at(thing) in _SLOPES
