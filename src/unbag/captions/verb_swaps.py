"""A parsed caption comes in; the same caption with two verbs or two adverbs exchanged goes out.

Verbs of one form and one frame: both with an object or both without, and those without take each
other's prepositions.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from types import MappingProxyType

from unbag.captions.facts import doer
from unbag.captions.filters import LEAVES_MARKED_WORDS
from unbag.captions.kinds import Changes, Kind, by_rule
from unbag.captions.parsed import Parsed
from unbag.captions.swaps import exchanged
from unbag.captions.verb_forms import verb_lemma
from unbag.captions.word_lists import ALIVE, both_ways, word_set

_FREE = word_set(
    """
    climb crawl crouch dance float fly hop jump kneel lay leap lie perch play rest run sit skate ski
    sleep stand surf swim walk
    """
)
"""Go with any preposition of place."""
_SAME_VERBS = both_ways(
    """
    sit: seat perch rest relax lounge lie lay
    stand: pose wait rest
    rest: lie lay relax perch sleep lounge
    lie: lay sleep relax lounge
    lay: sleep relax lounge
    walk: stroll wander step hike move travel
    run: race sprint jog chase dash
    jump: leap hop
    climb: scale
    swim: wade float
    look: stare gaze watch see view observe
    hold: carry grip grab grasp have use
    carry: bring take
    wear: have don
    ride: drive
    throw: toss pitch
    hit: swing
    eat: graze chew feed
    play: enjoy
    fill: cover pack
    top: cover
    show: display
    talk: speak chat
    """
)
_BEFORE_NOUNS = frozenset(("of", "by", "into", "for", "from", "with", "before"))
_DEPENDENT = frozenset(("prt", "xcomp", "ccomp", "dative", "oprd", "acomp", "neg"))
_ADVERBS: Mapping[str, str] = MappingProxyType(
    {
        word: name
        for name, words in (
            ("direction", "up down away back forward backward backwards sideways ahead"),
            ("place", "inside outside indoors outdoors upstairs downstairs overhead below nearby"),
            (
                "manner",
                "slowly quickly happily sadly carefully gently playfully neatly quietly loudly "
                "intently fast peacefully closely tightly loosely brightly heavily elegantly "
                "casually formally warmly nicely beautifully colorfully lightly barely fully "
                "partially partly mostly completely freshly newly recently alone together",
            ),
        )
        for word in words.split()
    }
)


def swap_verbs(parsed: Parsed) -> list[Changes]:
    """Two verbs of the same form."""
    if len(parsed.verbs) < 2:
        return []
    return [
        exchanged(parsed, (one, one), (other, other))
        for one, other in combinations(parsed.verbs, 2)
        if parsed.words[one].tag == parsed.words[other].tag
        and not _are_near(parsed, one, other)
        and _fit(parsed, one, other)
    ]


def swap_adverbs(parsed: Parsed) -> list[Changes]:
    """Two adverbs of one kind that belong to different words."""
    found = [
        at for at, text in enumerate(parsed.lower) if text in _ADVERBS and _is_free(parsed, at)
    ]
    return [
        exchanged(parsed, (one, one), (other, other))
        for one, other in combinations(found, 2)
        if parsed.lower[one] != parsed.lower[other]
        and _ADVERBS[parsed.lower[one]] == _ADVERBS[parsed.lower[other]]
        and parsed.words[one].head != parsed.words[other].head
        and parsed.words[one].dep == parsed.words[other].dep
    ]


def _is_free(parsed: Parsed, at: int) -> bool:
    """Whether it is an adverb and no part of "up and down" or "inside of"."""
    word = parsed.words[at]
    return word.dep in ("advmod", "prt") and at not in parsed.bound and not parsed.children[at]


def _are_near(parsed: Parsed, one: int, other: int) -> bool:
    a, b = verb_lemma(parsed, one), verb_lemma(parsed, other)
    return a == b or (a, b) in _SAME_VERBS


def _fit(parsed: Parsed, one: int, other: int) -> bool:
    """Whether each can stand where the other stands, and says something else there."""
    if any(_has(parsed, at, _DEPENDENT) or _is_noun_like(parsed, at) for at in (one, other)):
        return False
    objects = [_child(parsed, at, ("dobj",)) for at in (one, other)]
    doers = [doer(parsed, one), doer(parsed, other)]
    if objects[0] is not None and objects[1] is not None:
        # "holding a cup and pointing it" is one cup.
        if doers[0] == doers[1] and any(parsed.words[at].tag == "PRP" for at in objects if at):
            return False
        return _lemma(parsed, objects[0]) != _lemma(parsed, objects[1]) or doers[0] != doers[1]
    if objects[0] is not None or objects[1] is not None or None in doers:
        return False
    if _lemma(parsed, doers[0]) == _lemma(parsed, doers[1]):
        return False
    return _take_same_places(parsed, one, other)


def _is_noun_like(parsed: Parsed, verb: int) -> bool:
    """Whether it stands before a noun or as one: "of smiling people", "by shaking"."""
    before = verb - 1
    if before < 0 or parsed.words[verb].tag not in ("VBG", "VBN"):
        return False
    return parsed.words[before].tag in ("DT", "JJ", "CD") or parsed.lower[before] in _BEFORE_NOUNS


def _take_same_places(parsed: Parsed, one: int, other: int) -> bool:
    """Whether both go with any preposition, or with the same one."""
    lemmas = verb_lemma(parsed, one), verb_lemma(parsed, other)
    if lemmas[0] in _FREE and lemmas[1] in _FREE:
        return _alive(parsed, one) and _alive(parsed, other)
    links = [_child(parsed, at, ("prep",)) for at in (one, other)]
    if links[0] is None or links[1] is None:
        return False
    return parsed.lower[links[0]] == parsed.lower[links[1]]


def _alive(parsed: Parsed, verb: int) -> bool:
    subject = doer(parsed, verb)
    return subject is not None and parsed.words[subject].lemma in ALIVE


def _lemma(parsed: Parsed, at: int | None) -> str:
    return "" if at is None else parsed.words[at].lemma


def _child(parsed: Parsed, at: int, deps: tuple[str, ...]) -> int | None:
    return next((c for c in parsed.children[at] if parsed.words[c].dep in deps), None)


def _has(parsed: Parsed, at: int, deps: frozenset[str]) -> bool:
    return any(parsed.words[child].dep in deps for child in parsed.children[at])


SWAP_VERBS = Kind(
    name="swap_verbs",
    keeps_meaning=False,
    about="two verbs: a man holding a cup and reading a book -> reading a cup and holding a book",
    source="NegCLIP",
    editor=by_rule(swap_verbs),
    keeps_words=True,
    filters=(LEAVES_MARKED_WORDS,),
)
SWAP_ADVERBS = Kind(
    name="swap_adverbs",
    keeps_meaning=False,
    about="two adverbs: a cat outside while a dog sits inside -> a cat inside, a dog outside",
    source="NegCLIP",
    editor=by_rule(swap_adverbs),
    keeps_words=True,
    filters=(LEAVES_MARKED_WORDS,),
    # Too rare in captions to be judged: one in thousands.
    is_default=False,
)
