"""Hard negatives checked with WordNet: the antonym of a word, and another noun of the same group.

Antonyms are those of WordNet for a common sense, if both words were checked on captions: many
antonyms of WordNet are rare ("grassless"), of another sense ("light" and "heavy") or not visible.
Spatial words are handled in `unbag.edits.negatives.spatial`. Nouns are replaced within our own
table of visible things (CREPE's replace), but never by a WordNet synonym, hyponym or hypernym.
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

# Word lists of AntonymRule.
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
"""Adjectives that are never used before a noun."""
_POSITIONS = frozenset(("sit", "stand", "lie"))
"""Verbs that exclude each other for people and animals only: a clock stands or sits on a shelf."""
_YOUNG = _WORDNET.words("young")
_TALL = _WORDNET.words("tall")
_SEEN = ("noun.artifact", "noun.animal", "noun.plant", "noun.body", "noun.object", "noun.person")
"""Lexical files of what a thing can visibly have or lack."""
_COUNTING = _WORDNET.words("counting")
_NOT_HAD = _WORDNET.words("not_had")
_PARTICLES = _WORDNET.words("particles")

# Word lists of NounRule.
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
"""Words for men and women, with words that exclude them."""
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
"""For each place, the prepositions after which things of a group exclude each other; empty: any."""
_SUBJECTS = frozenset(("any", "things", "subject"))
"""Places of groups whose nouns are also replaced as subjects and objects."""


class NounGroup(NamedTuple):
    """Things of one sort that exclude each other in a place."""

    name: str
    place: str
    """A key of PLACES."""
    kinds: tuple[tuple[str, ...], ...]
    """The words of each kind, with spaces. The first is the replacement of other kinds."""
    sources: frozenset[int]
    """Indices of kinds that are replaced but are not replacements."""

    def others(self, word: str) -> tuple[str, ...]:
        """The replacements of a word: the first words of kinds that it is not in."""
        return tuple(
            kind[0]
            for i, kind in enumerate(self.kinds)
            if word not in kind and i not in self.sources
        )


def _group(line: str) -> NounGroup:
    name, place, rest = (part.strip() for part in line.split("|"))
    kinds = rest.split()
    return NounGroup(
        name,
        place,
        tuple(tuple(kind.lstrip("-").replace("_", " ").split("/")) for kind in kinds),
        frozenset(i for i, kind in enumerate(kinds) if kind.startswith("-")),
    )


NOUN_GROUPS: tuple[NounGroup, ...] = tuple(map(_group, _NOUNS.lines("groups")))
GROUPS_OF: Mapping[str, tuple[NounGroup, ...]] = MappingProxyType(
    {
        word: tuple(group for group in NOUN_GROUPS if any(word in kind for kind in group.kinds))
        for word in {word for group in NOUN_GROUPS for kind in group.kinds for word in kind}
    }
)
"""The groups of each lemma."""


@dataclass(frozen=True, eq=False)
class AntonymRule:
    """Replaces checked words by their WordNet antonyms."""

    wordnet: WordNet
    _cache: dict[tuple[str, Pos], tuple[str, ...]] = field(default_factory=dict, repr=False)

    def __call__(self, parsed: Parsed) -> list[Changes]:
        """Replace each word by each of its antonyms."""
        edits: list[Changes] = []
        for i, word in enumerate(parsed.words):
            lemma = word.lemma.lower()
            if lemma not in _ANY_CHECKED or i in parsed.bound:
                continue
            if word.pos == "ADJ" and lemma in _CHECKED["a"]:
                edits += self._replace_adjective(parsed, i)
            elif word.tag in VERB_TAGS and word.pos == "VERB":
                edits += self._replace_verb(parsed, i)
            elif word.pos == "ADV" and lemma in _CHECKED["r"]:
                edits += [(parsed.change(i, i, new),) for new in self._antonyms(lemma, "r")]
        return edits

    def _antonyms(self, lemma: str, pos: Pos) -> tuple[str, ...]:
        key = (lemma, pos)
        if key not in self._cache:
            antonyms = self.wordnet.antonyms(lemma, pos)
            self._cache[key] = tuple(new for new in antonyms if new in _CHECKED[pos])
        return self._cache[key]

    def _replace_adjective(self, parsed: Parsed, i: int) -> Iterator[Changes]:
        word = parsed.words[i]
        noun = _described_noun(parsed, i)
        # "Hot air" of a balloon is also a fixed name.
        neighbours = () if noun is None else (parsed.lower_at(i + 1), parsed.lower[noun])
        if noun is None or any(is_fixed(parsed.lower[i], other) for other in neighbours):
            return
        for new in self._antonyms(word.lemma.lower(), "a"):
            if word.dep == "amod" and (new in _AFTER_BE or (new, word.tag) == ("little", "JJR")):
                continue
            if _is_antonym_for(parsed, word.lemma.lower(), new, noun) and new not in parsed.lower:
                form = new if word.tag == "JJ" else inflected(new, word.tag)
                yield (parsed.change(i, i, form),)

    def _replace_verb(self, parsed: Parsed, i: int) -> Iterator[Changes]:
        lemma = verb_lemma(parsed, i)
        if lemma not in _CHECKED["v"] or parsed.lower_at(i + 1) in _PARTICLES:
            return
        if lemma in _POSITIONS and not _is_posture_of_body(parsed, i):
            return
        # A future action is not visible.
        if parsed.lower_at(i - 1) == "to" or (lemma == "have" and not self._has_thing(parsed, i)):
            return
        subject = subject_of(parsed, i)
        is_animal = subject is not None and parsed.lemma_at(subject.head) in ANIMALS
        for new in self._antonyms(lemma, "v"):
            # A sitting cat may also be described as lying.
            if {lemma, new} != {"sit", "lie"} or not is_animal:
                yield (parsed.change(i, i, inflected(new, parsed.words[i].tag)),)

    def _has_thing(self, parsed: Parsed, i: int) -> bool:
        """Whether "has" is followed by a thing that can be absent."""
        if parsed.words[i].tag not in ("VBZ", "VBP"):
            return False
        things = [child for child in parsed.children[i] if parsed.words[child].dep == "dobj"]
        if len(things) != 1 or parsed.child(i, "xcomp") is not None:
            return False
        # "has a hat on" cannot become "lacks a hat on".
        below = (child for parent in (i, *things) for child in parsed.children[parent])
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
    """Replaces nouns by others of their group that are unrelated in WordNet."""

    wordnet: WordNet
    _others: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict, repr=False)

    def __call__(self, parsed: Parsed) -> list[Changes]:
        """Replace each noun in the table by each allowed replacement."""
        edits: list[Changes] = []
        lemmas = frozenset(word.lemma.lower() for word in parsed.words)
        for noun in parsed.nouns:
            name = _name(parsed, noun)
            if not (name in GENDERED or name in GROUPS_OF) or not _may_change(parsed, noun):
                continue
            if name in GENDERED:
                edits += _other_sex(parsed, noun, name, lemmas)
            is_herd = _measure_of(parsed, noun) in _HERDS
            edits += [
                (parsed.change(noun.first, noun.last, _in_number(parsed, noun, new)),)
                for group in GROUPS_OF.get(name, ())
                if _fits(parsed, noun, name, group, lemmas)
                for new in self._unrelated(name, group)
                if not lemmas.issuperset(new.split()) and (new in _HERDED or not is_herd)
            ]
        return edits

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


def _described_noun(parsed: Parsed, i: int) -> int | None:
    """The noun that an adjective describes, before it or with "is"."""
    word, before = parsed.words[i], parsed.lower_at(i - 1)
    if parsed.lower_at(i + 1) == "-" or before in ("-", "very", "too", "so", "half", "fast"):
        return None
    if word.dep == "amod" and word.head > i and parsed.words[word.head].pos == "NOUN":
        return word.head
    if word.dep == "acomp" and parsed.lower[word.head] in BE:
        return parsed.child(word.head, "nsubj")
    return None


def _is_antonym_for(parsed: Parsed, old: str, new: str, noun: int) -> bool:
    """Whether the antonym fits the noun: old men are not new, short hair is not tall."""
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


def _is_posture_of_body(parsed: Parsed, verb: int) -> bool:
    """Whether the subject is alive, and no other verb of position is in the caption."""
    subject = subject_of(parsed, verb)
    others = {word.lemma for word in parsed.words if word.pos == "VERB"} & (_POSITIONS | {"lay"})
    if subject is None or len(others) > 1:
        return False
    head = parsed.words[subject.head]
    if head.lemma in GROUPINGS:
        prepositions = [i for i in parsed.children[subject.head] if parsed.lower[i] == "of"]
        heads = [i for preposition in prepositions for i in parsed.children[preposition]]
        return any(parsed.words[i].lemma.lower() in ALIVE for i in heads)
    return head.lemma.lower() in ALIVE


def _name(parsed: Parsed, noun: Phrase) -> str:
    """The words of a noun in lower case, the last as lemma."""
    last = parsed.words[noun.head].lemma.lower()
    if noun.first == noun.last:
        return last
    return " ".join((*parsed.lower[noun.first : noun.last], last))


def _in_number(parsed: Parsed, noun: Phrase, new: str) -> str:
    """The new noun in the number of the old one."""
    is_plural = parsed.words[noun.head].tag in ("NNS", "NNPS") and _name(parsed, noun) != "wood"
    if parsed.lower[noun.head] in ("people", "sheep", "cattle"):
        # Looks the same in the plural.
        before = {parsed.lower[i] for i in parsed.children[noun.head]}
        is_plural |= before.isdisjoint(("a", "an", "one", "this"))
    if not is_plural:
        return new
    *first, last = new.split()
    return " ".join((*first, inflected(last, "NNS")))


def _may_change(parsed: Parsed, noun: Phrase) -> bool:
    """Whether a noun is no name, occurs once and is not fixed by a measure word."""
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
    """The measure word of a noun: "herd" in "a herd of cows"."""
    word = parsed.words[noun.head]
    if word.dep != "pobj" or parsed.lower[word.head] != "of":
        return ""
    return parsed.words[parsed.words[word.head].head].lemma


def _fits(
    parsed: Parsed, noun: Phrase, name: str, group: NounGroup, lemmas: frozenset[str]
) -> bool:
    """Whether the things of the group exclude each other here; `lemmas` are of the caption."""
    if group.name == "toys" and not lemmas.isdisjoint(_GAMES):
        return False
    if group.name == "vessels" and parsed.lower[noun.head] == "glasses":
        # Eyeglasses.
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
        # These verbs only state presence, which excludes nothing: "a table has a fork".
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
    """Replace man by woman and the like, with matching pronouns if they are unambiguous."""
    pronouns = [i for i, text in enumerate(parsed.lower) if text in _OTHER_PRONOUN]
    people = [phrase for phrase in parsed.nouns if _name(parsed, phrase) in GENDERED]
    if pronouns and (len(people) > 1 or not _refer_to(parsed, noun, name, pronouns)):
        return
    corrections = []
    for i in pronouns:
        is_her_own = parsed.lower[i] == "her" and parsed.words[i].tag == "PRP$"
        other = "his" if is_her_own else _OTHER_PRONOUN[parsed.lower[i]]
        corrections.append(parsed.change(i, i, other))
    for new in GENDERED[name]:
        if new not in lemmas:
            changed = parsed.change(noun.first, noun.last, _in_number(parsed, noun, new))
            yield tuple(sorted([changed, *corrections]))


def _refer_to(parsed: Parsed, noun: Phrase, name: str, pronouns: Sequence[int]) -> bool:
    """Whether the pronouns match the noun's gender, and no person or animal is nearer."""
    is_he = name in _MEN
    if any((parsed.lower[i] in _MASCULINE) != is_he for i in pronouns):
        return False
    others = [
        phrase.head
        for phrase in parsed.nouns
        if phrase.head != noun.head and parsed.words[phrase.head].lemma.lower() in ALIVE
    ]
    return not any(noun.head < other < i for i in pronouns for other in others)
