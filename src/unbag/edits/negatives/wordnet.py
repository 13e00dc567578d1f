"""Hard negatives that WordNet confirms: the contrary of a word, and another noun of the same sort.

A contrary is WordNet's, of a common sense of the word, and both words are among those that were
checked on captions: many antonyms of WordNet are rare ("grassless"), of another sense ("light" and
"heavy") or not to be seen. Words of place are left to the kinds of place. What noun may stand for
what is our own table of picturable nouns (CREPE's replace); WordNet has the last word: nothing is
replaced by what it calls a synonym, a kind or a more general word of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from unbag.edits.inflection import inflected, verb_lemma
from unbag.edits.kinds import ByRule, Changes, Kind
from unbag.edits.lexicon import ALIVE, ANIMALS, GROUPINGS, NO_THINGS, is_fixed, word_lists
from unbag.edits.parsed import BE, VERB_TAGS, Parsed, Phrase, subject_of
from unbag.edits.wordnet import Pos, WordNet, find_wordnet

# What AntonymRule looks up.
_WORDNET = word_lists("wordnet")
_CHECKED: Mapping[Pos, frozenset[str]] = MappingProxyType(
    {
        "a": _WORDNET.words("antonym_adjectives"),
        "v": _WORDNET.words("antonym_verbs"),
        "r": _WORDNET.words("antonym_adverbs"),
    }
)
"""Words whose antonyms were checked on captions."""
_ANY_CHECKED = frozenset().union(*_CHECKED.values()) | {"lay", "lain"}
_AFTER_BE = frozenset(("alive", "asleep", "awake"))
"""Never before a noun."""
_POSITIONS = frozenset(("sit", "stand", "lie"))
"""What only a body does so that one excludes the others: a clock stands or sits on a shelf."""
_YOUNG = _WORDNET.words("young")
_TALL = _WORDNET.words("tall")
_SEEN = ("noun.artifact", "noun.animal", "noun.plant", "noun.body", "noun.object", "noun.person")
"""What a thing can have or lack to the eye; nobody lacks a picnic."""
_COUNTING = _WORDNET.words("counting")
_NOT_HAD = _WORDNET.words("not_had")
_PARTICLES = _WORDNET.words("particles")

# What NounRule looks up.
_NOUNS = word_lists("nouns")
_MEN = _NOUNS.words("men")
_MASCULINE = _NOUNS.replacements("masculine")
_OTHER_PRONOUN = {**_MASCULINE, **_NOUNS.replacements("feminine")}
_GAMES = _NOUNS.words("games")
_HERDS = frozenset(("herd", "flock"))
_HERDED = _NOUNS.words("herded")
_MEASURES = _NOUNS.words("measures")
_NAMED_BY = _NOUNS.words("named_by")
_OBJECT_DEPS = frozenset(("nsubj", "nsubjpass", "dobj", "ROOT", "attr"))
_ROLES = _OBJECT_DEPS | {"pobj"}
_WEARING = frozenset(("wear", "don", "sport"))
GENDERED = _NOUNS.table("genders")
"""People by sex, with what excludes them."""
PLACES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "any": frozenset(),
        "things": frozenset(("on", "in", "with", "of", "into", "onto", "inside", "for", "at")),
        "subject": frozenset(),
        "on": frozenset(("on", "onto")),
        "in": frozenset(("in", "through", "inside", "into", "across")),
        "in_on": frozenset(("in", "on", "through", "across")),
        "worn": frozenset(("in", "with")),
    }
)
"""Prepositions after which two things of a group exclude each other; none means any."""
_SUBJECTS = frozenset(("any", "things", "subject"))
"""Groups whose nouns are also replaced as subjects and objects."""


class NounGroup(NamedTuple):
    """Things of one sort that exclude each other in one place."""

    name: str
    place: str
    """Where: a key of PLACES."""
    kinds: tuple[tuple[str, ...], ...]
    """Words of each kind, with spaces; the first is what others are replaced by."""
    sources: frozenset[int]
    """Kinds that are replaced only."""

    def others(self, word: str) -> tuple[str, ...]:
        """What the word may be replaced by: the first words of kinds that it is not in."""
        return tuple(
            kind[0]
            for at, kind in enumerate(self.kinds)
            if word not in kind and at not in self.sources
        )


def _group(line: str) -> NounGroup:
    name, place, rest = (part.strip() for part in line.split("|"))
    kinds = rest.split()
    return NounGroup(
        name,
        place,
        tuple(tuple(kind.lstrip("-").replace("_", " ").split("/")) for kind in kinds),
        frozenset(at for at, kind in enumerate(kinds) if kind.startswith("-")),
    )


NOUN_GROUPS: tuple[NounGroup, ...] = tuple(map(_group, _NOUNS.lines("groups")))
GROUPS_OF: Mapping[str, tuple[NounGroup, ...]] = MappingProxyType(
    {
        word: tuple(group for group in NOUN_GROUPS if any(word in kind for kind in group.kinds))
        for word in {word for group in NOUN_GROUPS for kind in group.kinds for word in kind}
    }
)
"""By lemma: every group the word is in."""


@dataclass(frozen=True, eq=False)
class AntonymRule:
    """Contraries by WordNet between checked words."""

    wordnet: WordNet
    _known: dict[tuple[str, Pos], tuple[str, ...]] = field(default_factory=dict, repr=False)

    def __call__(self, parsed: Parsed) -> list[Changes]:
        """Each word with each contrary."""
        found: list[Changes] = []
        for at, word in enumerate(parsed.words):
            lemma = word.lemma.lower()
            if lemma not in _ANY_CHECKED or at in parsed.bound:
                continue
            if word.pos == "ADJ" and lemma in _CHECKED["a"]:
                found += self._of_adjective(parsed, at)
            elif word.tag in VERB_TAGS and word.pos == "VERB":
                found += self._of_verb(parsed, at)
            elif word.pos == "ADV" and lemma in _CHECKED["r"]:
                found += [(parsed.change(at, at, new),) for new in self._antonyms(lemma, "r")]
        return found

    def _antonyms(self, lemma: str, pos: Pos) -> tuple[str, ...]:
        key = (lemma, pos)
        if key not in self._known:
            found = self.wordnet.antonyms(lemma, pos)
            self._known[key] = tuple(new for new in found if new in _CHECKED[pos])
        return self._known[key]

    def _of_adjective(self, parsed: Parsed, at: int) -> Iterator[Changes]:
        word = parsed.words[at]
        noun = _described(parsed, at)
        # "Hot air" of a balloon is a name too.
        beside = () if noun is None else (parsed.lower_at(at + 1), parsed.lower[noun])
        if noun is None or any(is_fixed(parsed.lower[at], other) for other in beside):
            return
        for new in self._antonyms(word.lemma.lower(), "a"):
            if word.dep == "amod" and (new in _AFTER_BE or (new, word.tag) == ("little", "JJR")):
                continue
            if _is_contrary_for(parsed, word.lemma.lower(), new, noun) and new not in parsed.lower:
                form = new if word.tag == "JJ" else inflected(new, word.tag)
                yield (parsed.change(at, at, form),)

    def _of_verb(self, parsed: Parsed, at: int) -> Iterator[Changes]:
        lemma = verb_lemma(parsed, at)
        if lemma not in _CHECKED["v"] or parsed.lower_at(at + 1) in _PARTICLES:
            return
        if lemma in _POSITIONS and not _is_body(parsed, at):
            return
        # What somebody is about to do is not seen.
        if parsed.lower_at(at - 1) == "to" or (lemma == "have" and not self._has_thing(parsed, at)):
            return
        subject = subject_of(parsed, at)
        is_animal = subject is not None and parsed.lemma_at(subject.head) in ANIMALS
        for new in self._antonyms(lemma, "v"):
            # A cat that sits is soon said to lie.
            if {lemma, new} != {"sit", "lie"} or not is_animal:
                yield (parsed.change(at, at, inflected(new, parsed.words[at].tag)),)

    def _has_thing(self, parsed: Parsed, at: int) -> bool:
        """Whether "has" is followed by a thing that one may lack."""
        if parsed.words[at].tag not in ("VBZ", "VBP"):
            return False
        things = [child for child in parsed.children[at] if parsed.words[child].dep == "dobj"]
        if len(things) != 1 or parsed.child(at, "xcomp") is not None:
            return False
        # The last word of "has a hat on": nobody lacks a hat on.
        below = (child for of in (at, *things) for child in parsed.children[of])
        if any(parsed.lower[child] == "on" and not parsed.children[child] for child in below):
            return False
        lemma = parsed.lemma_at(things[0])
        is_seen = self.wordnet.field_of(lemma, "n") in _SEEN
        before = {parsed.lower[child] for child in parsed.children[things[0]]}
        return is_seen and lemma not in _NOT_HAD and before.isdisjoint(_COUNTING)


ANTONYM = Kind(
    name="antonym",
    is_positive=False,
    about="the contrary, by WordNet: a man pulls a cart -> a man pushes a cart",
    source="WordNet",
    editor=lambda parts: ByRule(AntonymRule(find_wordnet(parts.wordnet))),
)


@dataclass(frozen=True, eq=False)
class NounRule:
    """Replaces nouns by others of their group that WordNet does not relate to them."""

    wordnet: WordNet
    _others: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict, repr=False)

    def __call__(self, parsed: Parsed) -> list[Changes]:
        """Every noun of the table, with everything that may stand for it."""
        found: list[Changes] = []
        lemmas = frozenset(word.lemma.lower() for word in parsed.words)
        for noun in parsed.nouns:
            name = _name(parsed, noun)
            if not (name in GENDERED or name in GROUPS_OF) or not _may_change(parsed, noun):
                continue
            if name in GENDERED:
                found += _other_sex(parsed, noun, name, lemmas)
            is_herd = _measure_of(parsed, noun) in _HERDS
            found += [
                (parsed.change(noun.first, noun.last, _in_number(parsed, noun, new)),)
                for group in GROUPS_OF.get(name, ())
                if _fits(parsed, noun, name, group, lemmas)
                for new in self._unrelated(name, group)
                if not lemmas.issuperset(new.split()) and (new in _HERDED or not is_herd)
            ]
        return found

    def _unrelated(self, name: str, group: NounGroup) -> tuple[str, ...]:
        key = (name, group.name)
        if key not in self._others:
            self._others[key] = tuple(
                new for new in group.others(name) if not self.wordnet.are_related(name, new, "n")
            )
        return self._others[key]


REPLACE_NOUN = Kind(
    name="replace_noun",
    is_positive=False,
    about="another thing of the same sort: a dog on a sofa -> a cat on a sofa",
    source="CREPE",
    editor=lambda parts: ByRule(NounRule(find_wordnet(parts.wordnet))),
)


def _described(parsed: Parsed, at: int) -> int | None:
    """The noun an adjective tells about, before it or by "is"."""
    word, before = parsed.words[at], parsed.lower_at(at - 1)
    if parsed.lower_at(at + 1) == "-" or before in ("-", "very", "too", "so", "half", "fast"):
        return None
    if word.dep == "amod" and word.head > at and parsed.words[word.head].pos == "NOUN":
        return word.head
    if word.dep == "acomp" and parsed.lower[word.head] in BE:
        return parsed.child(word.head, "nsubj")
    return None


def _is_contrary_for(parsed: Parsed, old: str, new: str, noun: int) -> bool:
    """Whether the contrary is one for this noun: old men are not new, short hair is not tall."""
    lemma = parsed.words[noun].lemma.lower()
    is_alive = lemma in ALIVE
    if lemma in GROUPINGS:
        return False
    pair = {old, new}
    if pair in ({"old", "new"}, {"thick", "thin"}):
        return not is_alive
    if pair & {"young", "little"}:
        return (is_alive or "little" in pair) and lemma not in _YOUNG
    if pair == {"long", "short"}:
        return not is_alive and lemma not in _TALL
    if pair & {"small", "short"}:
        return lemma not in _YOUNG
    if pair == {"rough", "smooth"}:
        return lemma not in NO_THINGS
    if pair <= {"light", "dark", "hot", "cold"} and is_alive:
        return False
    if pair == {"light", "dark"}:
        return parsed.lower[noun - 1] in ("light", "dark", "blue", "brown", "green", "grey", "gray")
    return pair != {"open", "closed"} or lemma not in ("field", "area", "space", "air")


def _is_body(parsed: Parsed, verb: int) -> bool:
    """Whether people or animals do it, and nobody else in the caption is in another position."""
    subject = subject_of(parsed, verb)
    others = {word.lemma for word in parsed.words if word.pos == "VERB"} & (_POSITIONS | {"lay"})
    if subject is None or len(others) > 1:
        return False
    head = parsed.words[subject.head]
    if head.lemma in GROUPINGS:
        ofs = [at for at in parsed.children[subject.head] if parsed.lower[at] == "of"]
        heads = [at for of in ofs for at in parsed.children[of]]
        return any(parsed.words[at].lemma.lower() in ALIVE for at in heads)
    return head.lemma.lower() in ALIVE


def _name(parsed: Parsed, noun: Phrase) -> str:
    """Its words in lower case, the last as lemma."""
    last = parsed.words[noun.head].lemma.lower()
    if noun.first == noun.last:
        return last
    return " ".join((*parsed.lower[noun.first : noun.last], last))


def _in_number(parsed: Parsed, noun: Phrase, new: str) -> str:
    """The new noun in the singular or plural, as the old one stood."""
    is_plural = parsed.words[noun.head].tag in ("NNS", "NNPS") and _name(parsed, noun) != "wood"
    if parsed.lower[noun.head] in ("people", "sheep", "cattle"):
        # Looks the same in the plural.
        before = {parsed.lower[at] for at in parsed.children[noun.head]}
        is_plural |= before.isdisjoint(("a", "an", "one", "this"))
    if not is_plural:
        return new
    *first, last = new.split()
    return " ".join((*first, inflected(last, "NNS")))


def _may_change(parsed: Parsed, noun: Phrase) -> bool:
    """No name, said once, and not what a word of measure fixes."""
    word = parsed.words[noun.head]
    if word.tag in ("NNP", "NNPS") or word.dep not in _ROLES:
        return False
    if parsed.lower_at(noun.first - 1) in _NAMED_BY:
        return False
    if sum(other.lemma.lower() == word.lemma.lower() for other in parsed.words) > 1:
        return False
    after = parsed.lower_at(noun.last + 1)
    return after not in ("-", "'s", "'") and _measure_of(parsed, noun) not in _MEASURES


def _measure_of(parsed: Parsed, noun: Phrase) -> str:
    """The word of measure it stands after: "herd" in "a herd of cows"."""
    word = parsed.words[noun.head]
    if word.dep != "pobj" or parsed.lower[word.head] != "of":
        return ""
    return parsed.words[parsed.words[word.head].head].lemma


def _fits(
    parsed: Parsed, noun: Phrase, name: str, group: NounGroup, lemmas: frozenset[str]
) -> bool:
    """Whether a noun of the group can be another here; `lemmas` are those of the caption."""
    if group.name == "toys" and not lemmas.isdisjoint(_GAMES):
        return False
    if group.name == "vessels" and parsed.lower[noun.head] == "glasses":
        # Those one looks through.
        return False
    if group.name == "held" and "read" in lemmas:
        return False
    if group.name == "ages":
        before = parsed.lower_at(noun.first - 1)
        return name not in GENDERED and before not in ("young", "little", "small")
    # Things of the group must exclude each other where the noun stands.
    word = parsed.words[noun.head]
    if group.place == "worn" and word.dep == "dobj":
        return parsed.words[word.head].lemma in _WEARING
    if word.dep in _OBJECT_DEPS:
        # These verbs only say that it is there as well: "a table has a fork".
        is_there = parsed.words[word.head].lemma in ("have", "contain", "include", "show")
        return group.place in _SUBJECTS and not (word.dep == "dobj" and is_there)
    if word.dep != "pobj" or group.place == "subject":
        return False
    places = PLACES[group.place]
    preposition = parsed.lower[word.head]
    if word.head in parsed.bound:
        return not places
    return preposition != "like" and (not places or preposition in places)


def _other_sex(
    parsed: Parsed, noun: Phrase, name: str, lemmas: frozenset[str]
) -> Iterator[Changes]:
    """Man for woman and the like, with "his" for "her" where nobody else can be meant."""
    pronouns = [at for at, text in enumerate(parsed.lower) if text in _OTHER_PRONOUN]
    people = [one for one in parsed.nouns if _name(parsed, one) in GENDERED]
    if pronouns and (len(people) > 1 or not _are_of(parsed, noun, name, pronouns)):
        return
    mended = []
    for at in pronouns:
        is_her_own = parsed.lower[at] == "her" and parsed.words[at].tag == "PRP$"
        other = "his" if is_her_own else _OTHER_PRONOUN[parsed.lower[at]]
        mended.append(parsed.change(at, at, other))
    for new in GENDERED[name]:
        if new not in lemmas:
            changed = parsed.change(noun.first, noun.last, _in_number(parsed, noun, new))
            yield tuple(sorted([changed, *mended]))


def _are_of(parsed: Parsed, noun: Phrase, name: str, pronouns: Sequence[int]) -> bool:
    """Whether the pronouns are of the noun's sex, and nobody else stands nearer to them."""
    is_he = name in _MEN
    if any((parsed.lower[at] in _MASCULINE) != is_he for at in pronouns):
        return False
    others = [
        one.head
        for one in parsed.nouns
        if one.head != noun.head and parsed.words[one.head].lemma.lower() in ALIVE
    ]
    return not any(noun.head < other < at for at in pronouns for other in others)
