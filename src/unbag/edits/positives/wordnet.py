"""A hard positive: a word is replaced by its WordNet synonym, if both are nearly unambiguous.

The two words must share the most common sense of both, that sense must have nearly all uses of both
in tagged text, and it must be a thing, a person, an animal or a quality. Verbs and adverbs are
skipped: their WordNet synonyms differ in usage. Word vectors do not help: those of en_core_web_md
give "couch" and "sofa" a cosine of 0.18, and "fence" and "fencing" one of 0.86.
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
"""Minimum share of the uses of each word for the shared sense."""
_USES = 4
"""Minimum uses of both words in tagged text, except of old words with a single sense."""
_MAX_SENSES = 5
_MAX_SENSES_OF_NEW = 3
_JUDGED_WRONG = word_lists("wordnet").words("judged_wrong")
_AGES = word_lists("wordnet").words("ages")


@dataclass(frozen=True, eq=False)
class ByWordNet:
    """An editor that looks up every noun and adjective in WordNet."""

    wordnet: WordNet
    _cache: dict[tuple[str, Pos], tuple[str, ...]] = field(default_factory=dict, repr=False)

    def __call__(
        self, captions: Sequence[Parsed], draws: Sequence[Draw]
    ) -> list[Sequence[Changes]]:
        """Return all synonyms in random order."""
        return ByRule(self.changes)(captions, draws)

    def changes(self, parsed: Parsed) -> list[Changes]:
        """Replace each word that has a synonym."""
        edits: list[Changes] = []
        for i, word in enumerate(parsed.words):
            pos = _POS.get(word.tag)
            if pos is None or not _is_alone(parsed, i, word):
                continue
            is_said_once = parsed.lower.count(parsed.lower[i]) == 1 and is_whole(parsed, i, i)
            for new in self.synonyms(word.lemma.lower(), pos) if is_said_once else ():
                # "Young youngsters" is redundant.
                is_twice = new.startswith("young") and parsed.lower_at(i - 1) in _AGES
                if new not in parsed.lower and not is_twice:
                    form = inflected(new, word.tag) if word.tag == "NNS" else new
                    edits.append((parsed.change(i, i, form),))
        return edits

    def synonyms(self, lemma: str, pos: Pos) -> tuple[str, ...]:
        """Words with nearly always the same meaning, in alphabetical order."""
        key = (lemma, pos)
        if key not in self._cache:
            self._cache[key] = tuple(self._find_synonyms(lemma, pos))
        return self._cache[key]

    def _find_synonyms(self, lemma: str, pos: Pos) -> Iterator[str]:
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
            if new in _JUDGED_WRONG or len(other) > _MAX_SENSES_OF_NEW:
                continue
            # A single word of another stem (not "fencing") and, of nouns, no plural.
            is_plain = new.isalpha() and new[:4] != lemma[:4]
            is_plural = pos == "n" and (new.endswith("s") or new == "oxen")
            if is_common and self._is_clear(new, pos) and is_plain and not is_plural:
                yield new

    def _is_clear(self, lemma: str, pos: Pos) -> bool:
        """Whether the first sense has nearly all uses."""
        senses = self.wordnet.senses(lemma, pos)
        uses = self.wordnet.uses(lemma, pos)
        if len(senses) > _MAX_SENSES:
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


def _is_alone(parsed: Parsed, i: int, word: Word) -> bool:
    """Whether the word is no part of a compound, no name, and was parsed plausibly."""
    if i in parsed.bound or not word.text.islower() or not word.text.isalpha():
        return False
    before = parsed.words[i - 1].tag if i else ""
    after = parsed.words[i + 1].tag if i + 1 < len(parsed.words) else ""
    if word.tag in ("NN", "NNS"):
        is_part = before in NOUN_TAGS or after in NOUN_TAGS or word.dep == "compound"
        # A real plural: it differs from the lemma, and no "a" precedes.
        has_form = word.text.lower() != word.lemma.lower()
        is_one = any(parsed.lower[child] in ("a", "an") for child in parsed.children[i])
        is_clear = word.tag == "NN" or (has_form and not is_one)
        return is_clear and not is_part and after != "POS" and before != "HYPH"
    return word.dep == "amod" and after in NOUN_TAGS and not word.text.endswith("ed")
