"""A hard positive: a word or phrase is replaced by a synonym of our table.

A line of the table is `old > new`, or `old = new` for both directions, followed by conditions
separated by bars. These conditions restrict the inflected forms:

- plural: the nouns are written in the plural; adjectives before plurals only;
- singular: nouns in the singular only; adjectives before singulars only;
- active: verbs without past forms; passive: the past participle only.

The other conditions restrict the caption; some take words as arguments:

- c / m: a noun may precede / follow the noun;
- det, bare: the noun has an article or owner / no adjective;
- end, early: it is the last word / among the first seven;
- followed, preceded: by one of these words; notfollowed, notpreceded: by none of them;
- then, notthen: the next noun phrase has (does not have) this noun, or starts with this word;
- with, without: one (none) of these words is in the caption;
- object: the noun is the object of one of these verbs;
- obj, noobj, notobj: the verb has an object (one of these), none, or none of these;
- by: the verb has a subject (one of these);
- of, notof: the noun that the adjective or preposition belongs to is (not) one of these;
- on, noton: the verb that governs it is (not) one of these;
- prep, adv, clause: used as a preposition, as an adverb, before a clause with a subject that
  belongs to a verb;
- acl, predicate, attributive: right after its noun / not before a noun / before a noun;
- plain: a present verb of a plural subject;
- worn: "in" between a person and clothes;
- nns: the next noun phrase is plural.

The table excludes words that mean the same only sometimes: road for street, canine for dog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from unbag.edits.inflection import inflected
from unbag.edits.kinds import Changes, rule_kind
from unbag.edits.lexicon import WORD_GROUPS, is_fixed, word_lists
from unbag.edits.parsed import NOUN_TAGS, VERB_TAGS, Parsed, Phrase, subject_of

WordClass: TypeAlias = Literal["noun", "verb", "adjective", "phrase"]
_ENTRIES: Mapping[WordClass, str] = MappingProxyType(
    {"noun": "nouns", "verb": "verbs", "adjective": "adjectives", "phrase": "phrases"}
)
"""The entries of lexicon/synonyms.toml."""
_VERB_TAGS = ("VB", "VBP", "VBZ", "VBG", "VBD", "VBN")
_ACTIVE_TAGS = ("VB", "VBP", "VBZ", "VBG")
_WITHOUT_WORDS = frozenset(("c", "m", "det", "bare", "singular", "plural", "end", "early"))
_EARLY = 7
_PLURALS = frozenset(("NNS", "NNPS"))
_LITTLE = word_lists("synonyms").words("little")
_JOINED = frozenset("-‐–/&@#_")
_COMMON_NOUNS = frozenset(("NN", "NNS"))


def synonym(parsed: Parsed) -> list[Changes]:
    """Replace each word and phrase of the table for which all conditions hold."""
    table = synonyms()
    return [
        (parsed.change(i, i + len(entry.old) - 1, entry.new),)
        for i, text in enumerate(parsed.lower)
        if text in table
        for entry in table[text]
        if _fits(parsed, i, entry)
    ]


SYNONYM = rule_kind(
    synonym,
    "a word by a synonym of our table: a cat under a sofa -> a cat beneath a sofa",
    "REPLACE of the hard positives, with a table of our own",
    is_positive=True,
)


def is_whole(parsed: Parsed, first: int, last: int) -> bool:
    """Whether words are not part of a hyphenated word, a quotation or a fixed name."""
    start, end = parsed.words[first].start, parsed.words[last].end
    text = parsed.text
    if (start and text[start - 1] in _JOINED) or (end < len(text) and text[end] in _JOINED):
        return False
    if text.count('"', 0, start) % 2:
        return False
    before = parsed.lower_at(first - 1)
    after = parsed.lower_at(last + 1)
    return not is_fixed(before, parsed.lower[first]) and not is_fixed(parsed.lower[last], after)


def _fits(parsed: Parsed, first: int, entry: Synonym) -> bool:
    last = first + len(entry.old) - 1
    if len(entry.old) > 1 and parsed.lower[first : last + 1] != entry.old:
        return False
    # The last word of a noun is inflected, and the first of a verb.
    inflected = last if entry.word_class == "noun" else first
    if entry.tag and parsed.words[inflected].tag != entry.tag:
        return False
    if not _is_class(parsed, first, last, entry) or not is_whole(parsed, first, last):
        return False
    place = SynonymPlace(parsed, first, last)
    if not all(CHECKS[name](place, words) for name, words in entry.conditions):
        return False
    # New words, except function words, must not be in the caption already.
    return not any(
        word in parsed.lower
        for word in entry.new.split()
        if word not in _LITTLE and word not in entry.old
    )


def _is_class(parsed: Parsed, first: int, last: int, entry: Synonym) -> bool:
    word = parsed.words[last]
    if entry.word_class == "noun":
        return _is_noun(parsed, first, last, {condition.name for condition in entry.conditions})
    if entry.word_class == "adjective":
        return word.dep == "amod" and word.head > last and parsed.words[word.head].tag in NOUN_TAGS
    if entry.word_class == "verb":
        dep = parsed.words[first].dep
        return first not in parsed.bound and dep not in ("amod", "compound", "aux", "auxpass")
    return True


def _is_noun(parsed: Parsed, first: int, last: int, flags: set[str]) -> bool:
    """Whether it is a common noun outside compounds."""
    word = parsed.words[last]
    if word.tag not in _COMMON_NOUNS or last in parsed.bound:
        return False
    if first and parsed.words[first - 1].tag in NOUN_TAGS and "c" not in flags:
        return False
    if last + 1 == len(parsed.words):
        return True
    after = parsed.words[last + 1]
    if after.tag == "POS" and word.tag == "NNS":
        return False
    return "m" in flags or (after.tag not in NOUN_TAGS and word.dep != "compound")


class SynonymCondition(NamedTuple):
    """A condition of an entry."""

    name: str
    words: frozenset[str]


class Synonym(NamedTuple):
    """A replacement of words in one inflected form."""

    old: tuple[str, ...]
    """In lower case, as in the caption."""
    new: str
    word_class: WordClass
    tag: str
    """The tag that the inflected word of `old` must have; empty for any."""
    conditions: tuple[SynonymCondition, ...]


class SynonymLine(NamedTuple):
    """An entry of the table."""

    old: str
    new: str
    conditions: tuple[SynonymCondition, ...]


@cache
def synonyms() -> Mapping[str, tuple[Synonym, ...]]:
    """All forms of all entries, by their first word."""
    by_word: dict[str, list[Synonym]] = {}
    for word_class, key in _ENTRIES.items():
        for line in lines_of(word_lists("synonyms").lines(key)):
            for form in _forms(line, word_class):
                if " ".join(form.old) != form.new:
                    by_word.setdefault(form.old[0], []).append(form)
    return MappingProxyType({first: tuple(forms) for first, forms in by_word.items()})


def lines_of(lines: Iterable[str]) -> Iterator[SynonymLine]:
    """Parse lines of the table; a line for both directions gives two entries."""
    for line in lines:
        pair, *rest = (part.strip() for part in line.split("|"))
        conditions = tuple(condition for part in rest for condition in _conditions(part))
        if " = " in pair:
            left, right = pair.split(" = ")
            yield SynonymLine(left, right, conditions)
            yield SynonymLine(right, left, conditions)
        else:
            old, new = pair.split(" > ")
            yield SynonymLine(old, new, conditions)


def _conditions(part: str) -> list[SynonymCondition]:
    """Parse one condition with its words, or several without words."""
    name, *words = part.split()
    if _WITHOUT_WORDS.issuperset((name, *words)):
        return [SynonymCondition(flag, frozenset()) for flag in (name, *words)]
    groups = (WORD_GROUPS.get(word, frozenset((word,))) for word in words)
    return [SynonymCondition(name, frozenset().union(*groups))]


def _forms(line: SynonymLine, word_class: WordClass) -> Iterator[Synonym]:
    names, old, new = {c.name for c in line.conditions}, line.old, line.new
    if word_class == "verb":
        tags: tuple[str, ...] = ("VBN",) if "passive" in names else _VERB_TAGS
        tags = _ACTIVE_TAGS if "active" in names else tags
        forms = [(tag, _verb(old, tag), _verb(new, tag)) for tag in tags]
    elif word_class == "noun":
        forms = [("NNS" if "plural" in names else "NN", old, new)]
        if names.isdisjoint(("plural", "singular")):
            forms.append(("NNS", _plural(old), _plural(new)))
    else:
        forms = [("", old, new)]
    for tag, old_form, new_form in forms:
        yield Synonym(tuple(old_form.split()), new_form, word_class, tag, line.conditions)


def _plural(noun: str) -> str:
    *before, last = noun.split()
    return " ".join((*before, inflected(last, "NNS")))


def _verb(verb: str, tag: str) -> str:
    first, *after = verb.split()
    return " ".join((inflected(first, tag), *after))


class SynonymPlace(NamedTuple):
    """Words of a caption that may be replaced."""

    parsed: Parsed
    first: int
    last: int

    def after(self, step: int = 1) -> str:
        """A word after them in lower case; empty at the end."""
        return self.parsed.lower_at(self.last + step)

    def before(self) -> str:
        """The word before them in lower case; empty at the start."""
        return self.parsed.lower_at(self.first - 1)

    def is_any_of(self, i: int | None, words: frozenset[str]) -> bool:
        """Whether the word or its lemma is one of these."""
        return i is not None and (self.parsed.lower[i] in words or self.parsed.lemma_at(i) in words)

    def noun_tag(self) -> str:
        """The tag of `noun()`."""
        return self.parsed.words[self.noun()].tag

    def noun(self) -> int:
        """The last word if it is a noun, else its head."""
        word = self.parsed.words[self.last]
        return self.last if word.tag in NOUN_TAGS else word.head


Check: TypeAlias = Callable[[SynonymPlace, frozenset[str]], bool]


def _next_phrase(place: SynonymPlace) -> Phrase | None:
    """The noun phrase right after the words, or after an "of"."""
    start = place.last + 1 + (place.after() == "of")
    chunks = (chunk for chunk in place.parsed.chunks if chunk.head >= start)
    chunk = next(chunks, None)
    return chunk if chunk is not None and chunk.first <= start else None


def _then(place: SynonymPlace, words: frozenset[str]) -> bool:
    phrase = _next_phrase(place)
    if phrase is None:
        return False
    start = place.last + 1 + (place.after() == "of")
    return place.is_any_of(phrase.head, words) or place.parsed.lower[start] in words


def _of(place: SynonymPlace, words: frozenset[str]) -> bool:
    """Check the noun of an adjective or a preposition."""
    thing = place.parsed.child(place.last, "pobj")
    if thing is not None or place.parsed.words[place.last].dep == "prep":
        return place.is_any_of(thing, words)
    head = place.parsed.words[place.first].head
    return place.parsed.words[head].tag in NOUN_TAGS and place.is_any_of(head, words)


def _object(place: SynonymPlace) -> int | None:
    return place.parsed.child(place.first, "dobj")


def _obj(place: SynonymPlace, words: frozenset[str]) -> bool:
    noun = _object(place)
    return noun is not None and (not words or place.is_any_of(noun, words))


def _by(place: SynonymPlace, words: frozenset[str]) -> bool:
    subject = subject_of(place.parsed, place.first)
    return subject is not None and (not words or place.is_any_of(subject.head, words))


def _is_object(place: SynonymPlace, words: frozenset[str]) -> bool:
    word = place.parsed.words[place.last]
    return word.dep == "dobj" and place.is_any_of(word.head, words)


def _on(place: SynonymPlace, words: frozenset[str]) -> bool:
    return place.is_any_of(place.parsed.words[place.first].head, words)


def _adv(place: SynonymPlace, words: frozenset[str]) -> bool:
    word = place.parsed.words[place.first]
    after = place.last + 1
    is_before_noun = after < len(place.parsed.words) and (
        place.parsed.words[after].tag in NOUN_TAGS or place.parsed.words[after].pos == "ADP"
    )
    return word.dep == "advmod" and not place.parsed.children[place.first] and not is_before_noun


def _clause(place: SynonymPlace, words: frozenset[str]) -> bool:
    word = place.parsed.words[place.first]
    verb = place.parsed.words[word.head]
    is_told = verb.dep == "advcl" and place.parsed.words[verb.head].tag in VERB_TAGS
    return word.dep == "mark" and is_told and place.parsed.child(word.head, "nsubj") is not None


def _acl(place: SynonymPlace, words: frozenset[str]) -> bool:
    word = place.parsed.words[place.first]
    return word.dep == "acl" and word.head == place.first - 1


def _nns(place: SynonymPlace, words: frozenset[str]) -> bool:
    phrase = _next_phrase(place)
    return phrase is not None and place.parsed.words[phrase.head].tag in _PLURALS


def _predicate(place: SynonymPlace, words: frozenset[str]) -> bool:
    word = place.parsed.words[place.first]
    is_bound = word.dep in ("amod", "compound", "pcomp", "nsubj", "conj")
    return word.tag in ("VBG", "VBN") and not is_bound and _object(place) is None


def _worn(place: SynonymPlace, words: frozenset[str]) -> bool:
    word, garment = place.parsed.words[place.first], place.parsed.child(place.first, "pobj")
    if garment is None or word.head != place.first - 1:
        return False
    is_worn = place.is_any_of(garment, WORD_GROUPS["@clothes"])
    return is_worn and place.is_any_of(word.head, WORD_GROUPS["@people"])


CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        # Handled by the rule itself, or when forms are made.
        "c": lambda place, words: True,
        "m": lambda place, words: True,
        "active": lambda place, words: True,
        "passive": lambda place, words: _object(place) is None,
        "plural": lambda place, words: place.noun_tag() in _PLURALS,
        "singular": lambda place, words: place.noun_tag() == "NN",
        "det": lambda place, words: place.parsed.child(place.noun(), "det", "poss") is not None,
        "bare": lambda place, words: place.parsed.child(place.last, "amod", "compound") is None,
        "end": lambda place, words: place.after() in ("", "."),
        "early": lambda place, words: place.first < _EARLY,
        "followed": lambda place, words: place.after() in words,
        "notfollowed": lambda place, words: place.after() not in words,
        "preceded": lambda place, words: place.before() in words,
        "notpreceded": lambda place, words: place.before() not in words,
        "then": _then,
        "notthen": lambda place, words: not _then(place, words),
        "with": lambda place, words: not words.isdisjoint(place.parsed.lower),
        "without": lambda place, words: words.isdisjoint(place.parsed.lower),
        "object": _is_object,
        "obj": _obj,
        "noobj": lambda place, words: _object(place) is None,
        "notobj": lambda place, words: not _obj(place, words),
        "by": _by,
        "of": _of,
        "notof": lambda place, words: not _of(place, words),
        "on": _on,
        "noton": lambda place, words: not _on(place, words),
        "prep": lambda place, words: (place.parsed.child(place.last, "pobj") or 0) > place.last,
        "adv": _adv,
        "clause": _clause,
        "acl": _acl,
        "predicate": _predicate,
        "plain": lambda place, words: place.parsed.words[place.first].tag == "VBP",
        "worn": _worn,
        "nns": _nns,
        "attributive": lambda place, words: place.parsed.words[place.last].dep == "amod",
    }
)
