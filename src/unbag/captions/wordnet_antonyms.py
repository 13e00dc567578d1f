"""A parsed caption comes in; it with an adjective, verb or adverb turned to its contrary goes out.

The contrary is WordNet's, of a common sense of the word. Both words must be among those that we
checked on captions: many antonyms of WordNet are rare ("grassless"), of another sense ("light" and
"heavy") or not to be seen. Words of place are left to the kinds of place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from unbag.captions.agreement import inflected
from unbag.captions.attribute_lists import is_fixed
from unbag.captions.kinds import Changes, Editor, Kind, Parts, by_rule
from unbag.captions.parsed import VERB_TAGS, Parsed
from unbag.captions.relations import subject_of
from unbag.captions.verb_forms import verb_lemma
from unbag.captions.word_lists import ALIVE, ANIMALS, GROUPINGS, NO_THINGS
from unbag.captions.wordnet import WordNet, find_wordnet
from unbag.captions.wordnet_files import Pos

_CHECKED = {
    "a": """
    young old new large small big little long short tall open closed dark light full empty wet dry
    shallow deep dirty clean curly straight paved unpaved urban rural narrow wide alive dead thick
    thin fat asleep awake hot cold male female indoor outdoor round square fast slow happy unhappy
    rough smooth visible invisible seated standing curved
    """,
    "v": """
    sit stand lie pull push laugh cry raise lower ascend descend open close enter exit
    sell buy fold unfold lock unlock float sink hit miss have lack win lose
    """,
    "r": """
    quickly slowly happily unhappily forward backward forwards backwards
    """,
}
_WORDS = {pos: frozenset(text.split()) for pos, text in _CHECKED.items()}
_ANY = frozenset().union(*_WORDS.values()) | {"lay", "lain"}
_AFTER_BE = frozenset(("alive", "asleep", "awake"))
"""Never before a noun."""
_POSITIONS = frozenset(("sit", "stand", "lie"))
"""What only a body does so that one excludes the others: a clock stands or sits on a shelf."""
_YOUNG_WORDS = """
boy girl child kid baby toddler infant one brother sister league adult lady family couple
"""
_YOUNG = frozenset(_YOUNG_WORDS.split())
_TALL_WORDS = """
boy building fence giraffe girl grass man person player pole skyscraper statue structure tower tree
wall woman hair
"""
_NOT_LONG = frozenset(_TALL_WORDS.split()) - {"hair"}
_SEEN = ("noun.artifact", "noun.animal", "noun.plant", "noun.body", "noun.object", "noun.person")
"""What a thing can have or lack to the eye; nobody lacks a picnic."""
_COUNTING_WORDS = """
no its his her their some two three four many several both only few most all
"""
_COUNTING = frozenset(_COUNTING_WORDS.split())
_NOT_HAD = frozenset(("look", "drink", "party", "lunch", "dinner", "meal", "hand", "view", "side"))


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
            if lemma not in _ANY or at in parsed.bound:
                continue
            if word.pos == "ADJ" and lemma in _WORDS["a"]:
                found += self._of_adjective(parsed, at)
            elif word.tag in VERB_TAGS and word.pos == "VERB":
                found += self._of_verb(parsed, at)
            elif word.pos == "ADV" and lemma in _WORDS["r"]:
                found += [(parsed.change(at, at, new),) for new in self._antonyms(lemma, "r")]
        return found

    def _antonyms(self, lemma: str, pos: Pos) -> tuple[str, ...]:
        key = (lemma, pos)
        if key not in self._known:
            found = self.wordnet.antonyms(lemma, pos)
            self._known[key] = tuple(new for new in found if new in _WORDS[pos])
        return self._known[key]

    def _of_adjective(self, parsed: Parsed, at: int) -> Iterator[Changes]:
        word = parsed.words[at]
        noun = _described(parsed, at)
        if noun is None or _is_name(parsed, at, noun):
            return
        for new in self._antonyms(word.lemma.lower(), "a"):
            if word.dep == "amod" and (new in _AFTER_BE or (new, word.tag) == ("little", "JJR")):
                continue
            if _fits(parsed, word.lemma.lower(), new, noun) and new not in parsed.lower:
                form = new if word.tag == "JJ" else inflected(new, word.tag)
                yield (parsed.change(at, at, form),)

    def _of_verb(self, parsed: Parsed, at: int) -> Iterator[Changes]:
        lemma = verb_lemma(parsed, at)
        if lemma not in _WORDS["v"] or word_has_particle(parsed, at):
            return
        if lemma in _POSITIONS and not _is_body(parsed, at):
            return
        if at and parsed.lower[at - 1] == "to":
            # What somebody is about to do is not seen.
            return
        if lemma == "have" and not self._has_thing(parsed, at):
            return
        for new in self._antonyms(lemma, "v"):
            if {lemma, new} != {"sit", "lie"} or not _is_animal(parsed, at):
                yield (parsed.change(at, at, inflected(new, parsed.words[at].tag)),)

    def _has_thing(self, parsed: Parsed, at: int) -> bool:
        """Whether "has" is followed by a thing that one may lack."""
        if parsed.words[at].tag not in ("VBZ", "VBP"):
            return False
        things = [child for child in parsed.children[at] if parsed.words[child].dep == "dobj"]
        if len(things) != 1 or any(parsed.words[c].dep == "xcomp" for c in parsed.children[at]):
            return False
        if any(_is_put_on(parsed, c) for of in (at, *things) for c in parsed.children[of]):
            return False
        lemma = parsed.words[things[0]].lemma.lower()
        is_seen = self.wordnet.field_of(lemma, "n") in _SEEN
        before = {parsed.lower[child] for child in parsed.children[things[0]]}
        return is_seen and lemma not in _NOT_HAD and before.isdisjoint(_COUNTING)


def word_has_particle(parsed: Parsed, verb: int) -> bool:
    """Whether "up", "down" or "out" belongs to the verb."""
    particles = ("up", "down", "out", "off", "over", "back")
    after = parsed.lower[verb + 1 : verb + 2]
    return bool(after) and after[0] in particles


def _is_put_on(parsed: Parsed, at: int) -> bool:
    """The last word of "has a hat on": nobody lacks a hat on."""
    return parsed.lower[at] == "on" and not parsed.children[at]


def _is_name(parsed: Parsed, at: int, noun: int) -> bool:
    """Whether it is part of a name: "hot air" of a balloon too."""
    beside = (*parsed.lower[at + 1 : at + 2], parsed.lower[noun])
    return any(is_fixed(parsed.lower[at], other) for other in beside)


def _described(parsed: Parsed, at: int) -> int | None:
    """The noun an adjective tells about, before it or by "is"."""
    word = parsed.words[at]
    after = parsed.lower[at + 1 : at + 2]
    if after == ("-",) or (
        at and parsed.lower[at - 1] in ("-", "very", "too", "so", "half", "fast")
    ):
        return None
    if word.dep == "amod" and word.head > at and parsed.words[word.head].pos == "NOUN":
        return word.head
    if word.dep == "acomp" and parsed.lower[word.head] in ("is", "are", "was", "were"):
        children = parsed.children[word.head]
        return next((c for c in children if parsed.words[c].dep == "nsubj"), None)
    return None


def _fits(parsed: Parsed, old: str, new: str, noun: int) -> bool:
    """Whether the contrary is one for this noun: old men are not new, short hair is not tall."""
    lemma = parsed.words[noun].lemma.lower()
    is_alive = lemma in ALIVE
    if lemma in GROUPINGS:
        return False
    if {old, new} == {"old", "new"}:
        return not is_alive
    if {old, new} & {"young", "little"}:
        return (is_alive or "little" in (old, new)) and lemma not in _YOUNG
    if {old, new} == {"long", "short"}:
        return not is_alive and lemma not in _NOT_LONG
    if {old, new} == {"thick", "thin"}:
        return not is_alive
    if {old, new} & {"small", "short"}:
        return lemma not in _YOUNG
    if {old, new} == {"rough", "smooth"}:
        return lemma not in NO_THINGS
    if {old, new} <= {"light", "dark", "hot", "cold"} and is_alive:
        return False
    if {old, new} == {"light", "dark"}:
        return parsed.lower[noun - 1] in ("light", "dark", "blue", "brown", "green", "grey", "gray")
    return {old, new} != {"open", "closed"} or lemma not in ("field", "area", "space", "air")


def _is_animal(parsed: Parsed, verb: int) -> bool:
    """A cat that sits is soon said to lie."""
    subject = subject_of(parsed, verb)
    return subject is not None and parsed.words[subject.head].lemma.lower() in ANIMALS


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


def _editor(parts: Parts) -> Editor:
    return by_rule(AntonymRule(find_wordnet(parts.wordnet)))(parts)


ANTONYM = Kind(
    name="antonym",
    keeps_meaning=False,
    about="the contrary, by WordNet: a man pulls a cart -> a man pushes a cart",
    source="WordNet",
    editor=_editor,
)
