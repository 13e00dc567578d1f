"""A hard positive: a word becomes its synonym by WordNet, where nearly no other sense is meant.

A word is replaced only where the two share the commonest sense of both, that sense has nearly all
uses of both in tagged text, and it is a thing, a person, an animal or a quality. Verbs and adverbs
are left alone: what WordNet calls synonyms differ in what they go with. Vectors of spaCy are not
asked: those of en_core_web_md give "couch" and "sofa" a cosine of 0.18, "fence" and "fencing" one
of 0.86.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from unbag.edits.inflection import inflected
from unbag.edits.kinds import ByRule, Changes, Draw, Kind
from unbag.edits.lexicon import COLOUR_NAMES, word_lists
from unbag.edits.parsed import NOUN_TAGS, Parsed, Word
from unbag.edits.positives.synonyms import is_whole
from unbag.edits.truth_filter import KEEPS_TRUTH
from unbag.edits.wordnet import Pos, WordNet, find_wordnet

_POS: dict[str, Pos] = {"NN": "n", "NNS": "n", "JJ": "a"}
_FIELDS = frozenset(
    ("noun.artifact", "noun.animal", "noun.person", "noun.food", "noun.plant", "noun.object")
)
_SHARE = 0.8
"""Of its uses that the shared sense has at least, for both words."""
_USES = 4
"""Of both words in tagged text, so that nothing rare comes in; words with one sense need none."""
_MOST_SENSES = 5
_MOST_SENSES_OF_NEW = 3
_JUDGED_WRONG = word_lists("wordnet").words("judged_wrong")
_AGES = word_lists("wordnet").words("ages")


@dataclass(frozen=True, eq=False)
class ByWordNet:
    """An editor that asks WordNet for every noun and adjective."""

    wordnet: WordNet
    _known: dict[tuple[str, Pos], tuple[str, ...]] = field(default_factory=dict, repr=False)

    def __call__(
        self, captions: Sequence[Parsed], draws: Sequence[Draw]
    ) -> list[Sequence[Changes]]:
        """All synonyms, in a drawn order."""
        return ByRule(self.changes)(captions, draws)

    def changes(self, parsed: Parsed) -> list[Changes]:
        """Every word that WordNet has a synonym for."""
        found: list[Changes] = []
        for at, word in enumerate(parsed.words):
            pos = _POS.get(word.tag)
            if pos is None or not _is_alone(parsed, at, word):
                continue
            is_said_once = parsed.lower.count(parsed.lower[at]) == 1 and is_whole(parsed, at, at)
            for new in self.synonyms(word.lemma.lower(), pos) if is_said_once else ():
                # "Young youngsters" says it twice.
                is_twice = new.startswith("young") and parsed.lower_at(at - 1) in _AGES
                if new not in parsed.lower and not is_twice:
                    form = inflected(new, word.tag) if word.tag == "NNS" else new
                    found.append((parsed.change(at, at, form),))
        return found

    def synonyms(self, lemma: str, pos: Pos) -> tuple[str, ...]:
        """Words that mean the same nearly always, in order of the alphabet."""
        key = (lemma, pos)
        if key not in self._known:
            self._known[key] = tuple(self._found(lemma, pos))
        return self._known[key]

    def _found(self, lemma: str, pos: Pos) -> Iterator[str]:
        senses = self.wordnet.senses(lemma, pos)
        if not senses or not self._is_clear(lemma, pos) or lemma in COLOUR_NAMES:
            return
        first = senses[0]
        if pos == "n" and first.field not in _FIELDS:
            return
        for new in sorted(first.words - {lemma}):
            other = self.wordnet.senses(new, pos)
            is_shared = bool(other) and other[0].place == first.place
            is_common = is_shared and self.wordnet.uses(new, pos) >= _USES
            if new in _JUDGED_WRONG or len(other) > _MOST_SENSES_OF_NEW:
                continue
            # A single word that is not the same stem ("fencing") and, of nouns, no plural.
            is_plain = new.isalpha() and new[:4] != lemma[:4]
            is_plural = pos == "n" and (new.endswith("s") or new == "oxen")
            if is_common and self._is_clear(new, pos) and is_plain and not is_plural:
                yield new

    def _is_clear(self, lemma: str, pos: Pos) -> bool:
        """Whether the first sense is meant nearly always."""
        senses = self.wordnet.senses(lemma, pos)
        uses = self.wordnet.uses(lemma, pos)
        if len(senses) > _MOST_SENSES:
            return False
        return len(senses) == 1 or (uses >= _USES and senses[0].uses >= _SHARE * uses)


SYNONYM_WORDNET = Kind(
    name="synonym_wordnet",
    is_positive=True,
    about="a word by a synonym of WordNet: a woman on a staircase -> a woman on a stairway",
    source="ours, with WordNet",
    editor=lambda parts: ByWordNet(find_wordnet(parts.wordnet)),
    filters=(KEEPS_TRUTH,),
)


def _is_alone(parsed: Parsed, at: int, word: Word) -> bool:
    """No part of a compound, no name, nothing that the parser took for another word."""
    if at in parsed.bound or not word.text.islower() or not word.text.isalpha():
        return False
    before = parsed.words[at - 1].tag if at else ""
    after = parsed.words[at + 1].tag if at + 1 < len(parsed.words) else ""
    if word.tag in ("NN", "NNS"):
        is_part = before in NOUN_TAGS or after in NOUN_TAGS or word.dep == "compound"
        # The plural that the parser saw is one: it has the form, and no "a" before it.
        has_form = word.text.lower() != word.lemma.lower()
        is_one = any(parsed.lower[child] in ("a", "an") for child in parsed.children[at])
        is_clear = word.tag == "NN" or (has_form and not is_one)
        return is_clear and not is_part and after != "POS" and before != "HYPH"
    return word.dep == "amod" and after in NOUN_TAGS and not word.text.endswith("ed")
