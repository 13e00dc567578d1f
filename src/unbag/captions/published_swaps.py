"""A parsed caption comes in; two words of one class exchanged go out, as NegCLIP published it.

For parity with NegCLIP's training data only: nothing checks that the caption becomes false
("a man and a woman" gives "a woman and a man") or stays English. The kinds of `swaps` do.
"""

from __future__ import annotations

from itertools import combinations

from unbag.captions.kinds import Changes, Kind, by_rule
from unbag.captions.parsed import ADJECTIVE_TAGS, NOUN_TAGS, VERB_TAGS, Parsed
from unbag.captions.swaps import exchanged

_ADVERB_TAGS = frozenset(("RB", "RBR", "RBS"))
_CLASSES = (NOUN_TAGS, ADJECTIVE_TAGS, VERB_TAGS, _ADVERB_TAGS)


def neg_clip_swap(parsed: Parsed) -> list[Changes]:
    """Two nouns, two adjectives, two verbs, two adverbs, or two noun phrases."""
    found: list[Changes] = []
    for tags in _CLASSES:
        words = [at for at, word in enumerate(parsed.words) if word.tag in tags]
        found += [
            exchanged(parsed, (one, one), (other, other))
            for one, other in combinations(words, 2)
            if parsed.lower[one] != parsed.lower[other]
        ]
    found += [
        exchanged(parsed, one[:2], other[:2])
        for one, other in combinations(parsed.chunks, 2)
        if parsed.text_of(*one[:2]).lower() != parsed.text_of(*other[:2]).lower()
    ]
    return found


NEG_CLIP_SWAP = Kind(
    name="neg_clip_swap",
    keeps_meaning=False,
    about="any two of a class, unchecked, as published: a zebra by a rock -> a rock by a zebra",
    source="NegCLIP",
    editor=by_rule(neg_clip_swap),
    keeps_words=True,
    is_default=False,
    is_published=True,
)
