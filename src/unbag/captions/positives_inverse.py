"""A parsed caption comes in; the same relation told from its other end goes out.

Only whole captions of two noun phrases and a relation are turned: "the cup is left of the plate"
becomes "the plate is right of the cup". Where the first thing does something ("a cat sleeping
under a table"), the second one comes first: "a table with a cat sleeping under it".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from unbag.captions.agreement import in_number, inflected
from unbag.captions.conjunct_words import LOOKING_BACK
from unbag.captions.kinds import Changes, Kind, by_rule
from unbag.captions.parsed import Parsed, Phrase
from unbag.captions.word_lists import PEOPLE, word_set

_INVERSES = """
next to = next to
beside = beside
near = near
close to = close to
alongside = alongside
adjacent to = adjacent to
opposite = opposite
left of = right of
to the left of = to the right of
on the left of = on the right of
on the left side of = on the right side of
above = below
below = above
over = under
under = over
beneath = above
underneath = above
on top of = underneath
in front of = behind
behind = in front of
in back of = in front of
bigger than = smaller than
larger than = smaller than
taller than = shorter than
older than = younger than
higher than = lower than
longer than = shorter than
wider than = narrower than
heavier than = lighter than
thicker than = thinner than
faster than = slower than
"""
_GROUNDS = word_set("""
    hill mountain slope snow field grass water wave ocean building road ground street beach sand
    floor hillside roof cliff runway lake river area house city world tower
    """)
_BEHIND_SOMEBODY = word_set("""
    building house wall fence tree car truck bus mountain window door store sign church barn train
    bush flag fireplace curtain bookshelf brick tower bridge statue plane airplane shop garage van
    gate castle temple
    """)
"""What is behind somebody in front of it; a mirror or a table is not."""
_OVER = word_set("""
    bridge plane airplane bird helicopter kite lamp light umbrella balloon sign clock moon cloud
    jet sky seagull rainbow
    """)
_IDIOMS = frozenset(("wheel", "bar", "plate", "counter", "construction", "control", "repair"))
_POSTURES = word_set("sit stand lie lay sleep rest perch lean park graze wait hang float")
_PLACED = word_set(
    "on in next_to beside near behind in_front_of under beneath underneath on_top_of"
)
_BE = frozenset(("is", "are", "was", "were"))
_NO_WITH = PEOPLE | word_set("""
    air midair front back top side middle corner edge background distance grass snow water dirt
    sand shade rain sun dark line row way lap position group pair couple picture
    """)


def _table(text: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for line in text.strip().splitlines():
        one, two = line.split(" = ")
        found[one] = two
        found.setdefault(two, one)
    return MappingProxyType(found)


INVERSES = _table(_INVERSES)
"""Relations and what they are from the other end."""


class _Clause(NamedTuple):
    """A whole caption: first phrase, verb, relation, second phrase."""

    one: Phrase
    verb: int | None
    """A form of "be", or what the first thing does; a "be" before that is left out."""
    link: tuple[int, int]
    relation: str
    two: Phrase


def relation_inverse(parsed: Parsed) -> list[Changes]:
    """The caption from its other end, if it is one relation and nothing else."""
    clause = _clause(parsed)
    if clause is None:
        return []
    if clause.verb is not None and parsed.lower[clause.verb] not in _BE:
        return _with_second_first(parsed, clause)
    if clause.relation not in INVERSES or not _is_true_turned(parsed, clause):
        return []
    one, two = clause.one, clause.two
    changes = [
        parsed.change(one.first, one.last, parsed.text_of(two.first, two.last)),
        parsed.change(*clause.link, INVERSES[clause.relation]),
        parsed.change(two.first, two.last, parsed.text_of(one.first, one.last)),
    ]
    if clause.verb is not None:
        is_plural = parsed.words[two.head].tag == "NNS"
        new = in_number(parsed, clause.verb, is_plural=is_plural)
        changes.insert(1, parsed.change(clause.verb, clause.verb, new))
    return [tuple(changes)]


def _clause(parsed: Parsed) -> _Clause | None:
    phrases = [chunk for chunk in parsed.chunks if chunk.head not in parsed.bound]
    if len(phrases) not in (2, 3):
        return None
    there = len(phrases) == 3 and parsed.lower[0] == "there"
    if len(phrases) == 3 and not there:
        return None
    one, two = phrases[-2:]
    start = 2 if there and parsed.lower[1] in _BE else 0
    end = len(parsed.words) - (parsed.lower[-1] == ".")
    if one.first != start or two.last + 1 != end or not _are_plain(parsed, one, two):
        return None
    first = one.last + 1
    verb = first if parsed.words[first].tag in ("VBZ", "VBP", "VBG") else None
    if verb is not None and parsed.lower[verb] in _BE and parsed.words[verb + 1].tag == "VBG":
        verb += 1
    if there and verb is not None:
        return None
    link = (first if verb is None else verb + 1, two.first - 1)
    if link[0] > link[1]:
        return None
    relation = " ".join(parsed.lower[link[0] : link[1] + 1])
    return _Clause(one, 1 if there else verb, link, relation, two)


def _are_plain(parsed: Parsed, one: Phrase, two: Phrase) -> bool:
    """Two different things with articles, numbers or plurals, none told by the other."""
    said = parsed.lower[one.first : one.last + 1], parsed.lower[two.first : two.last + 1]
    if LOOKING_BACK & {*said[0], *said[1]} or parsed.lower[one.head] == parsed.lower[two.head]:
        return False
    if any(joining in part for part in said for joining in ("and", "or", ",")):
        return False
    return one.head == one.last and two.head == two.last and _tags_fit(parsed, one, two)


def _tags_fit(parsed: Parsed, one: Phrase, two: Phrase) -> bool:
    nouns = ("NN", "NNS")
    inside = [at for p in (one, two) for at in range(p.first + 1, p.last + 1)]
    # "A room holding remotes" and "a dog sprints" are taken for noun phrases now and then.
    is_nominal = not any(
        (parsed.lower[at].endswith("ing") and parsed.words[at - 1].tag in nouns)
        or parsed.words[at].tag in ("POS", "IN", "RP")
        for at in inside
    )
    is_nominal &= not any(_is_at_odds(parsed, phrase) for phrase in (one, two))
    is_noun = parsed.words[one.head].tag in nouns and parsed.words[two.head].tag in nouns
    return is_noun and is_nominal


def _is_at_odds(parsed: Parsed, phrase: Phrase) -> bool:
    """A plural after "a": a verb, or a slip."""
    return parsed.lower[phrase.first] in ("a", "an") and parsed.words[phrase.head].tag == "NNS"


def _is_true_turned(parsed: Parsed, clause: _Clause) -> bool:
    one, two = (parsed.words[p.head].lemma for p in (clause.one, clause.two))
    if clause.relation == "in front of":
        return two in _BEHIND_SOMEBODY
    if clause.relation == "on top of":
        return two not in _GROUNDS
    if clause.relation == "over":
        return one in _OVER
    # "Behind the wheel", "behind bars", "behind the plate", "under construction".
    return clause.relation not in ("behind", "under") or two not in _IDIOMS


def _with_second_first(parsed: Parsed, clause: _Clause) -> list[Changes]:
    """The second thing first, where the first does something."""
    verb, two = clause.verb, clause.two
    noun = parsed.words[two.head]
    if verb is None or not _is_placed(parsed, clause):
        return []
    first = parsed.text_of(clause.one.first, clause.one.last)
    if parsed.words[0].pos != "PROPN" and not parsed.is_upper:
        first = first[:1].lower() + first[1:]
    doing = inflected(parsed.words[verb].lemma, "VBG")
    pronoun = "them" if noun.tag == "NNS" else "it"
    second = parsed.text_of(two.first, two.last)
    new = f"{second} with {first} {doing} {parsed.text_of(*clause.link)} {pronoun}"
    if verb > clause.one.last + 1 or parsed.words[verb].tag != "VBG":
        new = f"there {'are' if noun.tag == 'NNS' else 'is'} {new}"
    return [(parsed.change(clause.one.first, two.last, new),)]


def _is_placed(parsed: Parsed, clause: _Clause) -> bool:
    """Whether it says where something sits, stands or lies, next to a new thing."""
    verb, two = clause.verb, clause.two
    if verb is None or parsed.words[verb].lemma not in _POSTURES:
        return False
    is_placed = clause.relation.replace(" ", "_") in _PLACED
    is_new = parsed.words[two.first].tag in ("DT", "CD") and parsed.lower[two.first] != "the"
    return (
        is_placed
        and is_new
        and _is_told(parsed, clause.one)
        and (parsed.words[two.head].lemma not in _NO_WITH)
    )


def _is_told(parsed: Parsed, phrase: Phrase) -> bool:
    """Whether it can stand in the middle: not "the cap", which is known, nor a bare "dog"."""
    is_bare = parsed.words[phrase.first].tag not in ("DT", "CD")
    is_one = parsed.words[phrase.head].tag == "NN"
    return parsed.lower[phrase.first] != "the" and not (is_bare and is_one)


RELATION_INVERSE = Kind(
    name="relation_inverse",
    keeps_meaning=True,
    about="a relation from its other end: a lamp above a desk -> a desk below a lamp",
    source="ours",
    editor=by_rule(relation_inverse),
)
