"""A parsed caption comes in; it with another noun of the same sort goes out (CREPE's replace).

What may stand for what is our own table of picturable nouns; WordNet has the last word: nothing is
replaced by what it calls a synonym, a kind or a more general word of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from unbag.captions.agreement import inflected
from unbag.captions.kinds import Changes, Editor, Kind, Parts, by_rule
from unbag.captions.parsed import Parsed, Phrase
from unbag.captions.picturable import (
    FEMININE,
    GENDERED,
    GROUPS_OF,
    HERDED,
    HERDS,
    IN_GAMES,
    MASCULINE,
    MEASURES,
    MEN,
    NAMED_BY,
    PLACES,
    SUBJECTS,
    Group,
)
from unbag.captions.word_lists import ALIVE
from unbag.captions.wordnet import WordNet, find_wordnet

_OBJECT_DEPS = frozenset(("nsubj", "nsubjpass", "dobj", "ROOT", "attr"))
_ROLES = _OBJECT_DEPS | {"pobj"}
_WEARING = frozenset(("wear", "don", "sport"))
_HIS = {"he": "she", "his": "her", "him": "her", "himself": "herself"}
_HERS = {"she": "he", "hers": "his", "herself": "himself"}


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
            for group in GROUPS_OF.get(name, ()):
                if _fits(parsed, noun, name, group, lemmas):
                    found += self._replaced(parsed, noun, name, group, lemmas)
        return found

    def _replaced(
        self, parsed: Parsed, noun: Phrase, name: str, group: Group, lemmas: frozenset[str]
    ) -> Iterator[Changes]:
        is_herd = _measure_of(parsed, noun) in HERDS
        for new in self._unrelated(name, group):
            if lemmas.issuperset(new.split()) or (is_herd and new not in HERDED):
                continue
            yield (parsed.change(noun.first, noun.last, _in_number(parsed, noun, new)),)

    def _unrelated(self, name: str, group: Group) -> tuple[str, ...]:
        key = (name, group.name)
        if key not in self._others:
            self._others[key] = tuple(
                new for new in group.others(name) if not self.wordnet.are_related(name, new, "n")
            )
        return self._others[key]


def _name(parsed: Parsed, noun: Phrase) -> str:
    """Its words in lower case, the last as lemma."""
    last = parsed.words[noun.head].lemma.lower()
    if noun.first == noun.last:
        return last
    return " ".join((*parsed.lower[noun.first : noun.last], last))


def _in_number(parsed: Parsed, noun: Phrase, new: str) -> str:
    """The new noun in the singular or plural, as the old one stood."""
    is_plural = parsed.words[noun.head].tag in ("NNS", "NNPS") and _name(parsed, noun) != "wood"
    is_plural |= parsed.lower[noun.head] in ("people", "sheep", "cattle") and _is_many(parsed, noun)
    if not is_plural:
        return new
    *first, last = new.split()
    return " ".join((*first, inflected(last, "NNS")))


def _is_many(parsed: Parsed, noun: Phrase) -> bool:
    """Whether no "a" stands before a noun that looks the same in the plural."""
    return not any(
        parsed.lower[at] in ("a", "an", "one", "this") for at in parsed.children[noun.head]
    )


def _may_change(parsed: Parsed, noun: Phrase) -> bool:
    """No name, said once, and not what a word of measure fixes."""
    word = parsed.words[noun.head]
    if word.tag in ("NNP", "NNPS") or word.dep not in _ROLES:
        return False
    if noun.first and parsed.lower[noun.first - 1] in NAMED_BY:
        return False
    if sum(other.lemma.lower() == word.lemma.lower() for other in parsed.words) > 1:
        return False
    after = parsed.lower[noun.last + 1 : noun.last + 2]
    return after not in (("-",), ("'s",), ("'",)) and _measure_of(parsed, noun) not in MEASURES


def _measure_of(parsed: Parsed, noun: Phrase) -> str:
    """The word of measure it stands after: "herd" in "a herd of cows"."""
    word = parsed.words[noun.head]
    if word.dep != "pobj" or parsed.lower[word.head] != "of":
        return ""
    return parsed.words[parsed.words[word.head].head].lemma


def _fits(parsed: Parsed, noun: Phrase, name: str, group: Group, lemmas: frozenset[str]) -> bool:
    """Whether a noun of the group can be another here; `lemmas` are those of the caption."""
    if group.name == "toys" and not lemmas.isdisjoint(IN_GAMES):
        return False
    if group.name == "vessels" and parsed.lower[noun.head] == "glasses":
        # Those one looks through.
        return False
    if group.name == "held" and "read" in lemmas:
        return False
    if group.name == "ages":
        before = parsed.lower[noun.first - 1] if noun.first else ""
        return name not in GENDERED and before not in ("young", "little", "small")
    return _is_place(parsed, noun, group)


def _is_place(parsed: Parsed, noun: Phrase, group: Group) -> bool:
    """Whether things of the group exclude each other where the noun stands."""
    word = parsed.words[noun.head]
    if group.place == "worn" and word.dep == "dobj":
        return parsed.words[word.head].lemma in _WEARING
    if word.dep in _OBJECT_DEPS:
        return group.place in SUBJECTS and not _has_place(parsed, word.head, word.dep)
    if word.dep != "pobj" or group.place == "subject":
        return False
    places = PLACES[group.place]
    preposition = parsed.lower[word.head]
    if word.head in parsed.bound:
        return not places
    return preposition != "like" and (not places or preposition in places)


def _has_place(parsed: Parsed, verb: int, dep: str) -> bool:
    """Whether the verb only says that it is there as well: "a table has a fork"."""
    return dep == "dobj" and parsed.words[verb].lemma in ("have", "contain", "include", "show")


def _other_sex(
    parsed: Parsed, noun: Phrase, name: str, lemmas: frozenset[str]
) -> Iterator[Changes]:
    """Man for woman and the like, with "his" for "her" where nobody else can be meant."""
    pronouns = [at for at, text in enumerate(parsed.lower) if text in MASCULINE | FEMININE]
    people = [one for one in parsed.nouns if _name(parsed, one) in GENDERED]
    if pronouns and (len(people) > 1 or not _are_of(parsed, noun, name, pronouns)):
        return
    mended = [parsed.change(at, at, _other_pronoun(parsed, at)) for at in pronouns]
    for new in GENDERED[name]:
        if new not in lemmas:
            changed = parsed.change(noun.first, noun.last, _in_number(parsed, noun, new))
            yield tuple(sorted([changed, *mended]))


def _are_of(parsed: Parsed, noun: Phrase, name: str, pronouns: Sequence[int]) -> bool:
    """Whether the pronouns are of the noun's sex, and nobody else stands nearer to them."""
    is_he = name in MEN
    if any((parsed.lower[at] in MASCULINE) != is_he for at in pronouns):
        return False
    others = [
        one.head
        for one in parsed.nouns
        if one.head != noun.head and parsed.words[one.head].lemma.lower() in ALIVE
    ]
    return not any(noun.head < other < at for at in pronouns for other in others)


def _other_pronoun(parsed: Parsed, at: int) -> str:
    text = parsed.lower[at]
    if text == "her":
        return "his" if parsed.words[at].tag == "PRP$" else "him"
    return _HIS.get(text) or _HERS[text]


def _noun_editor(parts: Parts) -> Editor:
    return by_rule(NounRule(find_wordnet(parts.wordnet)))(parts)


REPLACE_NOUN = Kind(
    name="replace_noun",
    keeps_meaning=False,
    about="another thing of the same sort: a dog on a sofa -> a cat on a sofa",
    source="CREPE",
    editor=_noun_editor,
)
