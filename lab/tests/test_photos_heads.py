"""Captions of photographs beside their shuffles: what is asked, and who is right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unbag.data.pairs import Pair
from unbag.edits.shuffles import Tagged
from unbag_lab.experiments.photos_heads import ORDER_METRICS, Ordered, make_ordered, order_right

NOUNS = {"dog", "cat", "ball"}


@dataclass(frozen=True)
class Words:
    """A tagger that knows three nouns."""

    name: str = "words"

    def __call__(self, captions: Sequence[str]) -> Iterable[Tagged]:
        for caption in captions:
            yield [(word, "NN" if word in NOUNS else "X") for word in caption.split()]


def pair(name: str, *captions: str) -> Pair:
    image: Any = None
    return Pair(name, image, captions, ((),) * len(captions))


def test_the_caption_comes_first_and_shuffles_keep_its_words() -> None:
    pairs = [pair("a", "A dog chases a cat ."), pair("b", "dog", "the ball of the dog")]
    asked = make_ordered(pairs, Words())
    assert [one.photograph for one in asked] == [0, 1], "one word has no other order"
    assert asked[0].texts[0] == "a dog chases a cat"
    assert asked[0].kinds[0] == "original"
    for one in asked:
        assert len(set(one.texts)) == len(one.texts)
        assert {tuple(sorted(text.split())) for text in one.texts} == {
            tuple(sorted(one.texts[0].split()))
        }
        assert one.chance == 1 / len(one.texts)
    nouns = asked[0].texts[asked[0].kinds.index("nouns_and_adjectives")]
    assert nouns == "a cat chases a dog"
    assert make_ordered(pairs, Words()) == asked


def test_a_tie_is_wrong_and_a_shuffle_that_is_not_there_is_unknown() -> None:
    four = ("original", "nouns_and_adjectives", "trigrams")
    asked = [Ordered(n, ("own", "nouns", "blocks"), four) for n in range(3)]
    scores = {0: (3.0, 2.0, 1.0), 1: (2.0, 2.0, 1.0), 2: (1.0, 0.0, 2.0)}
    found = order_right(asked, lambda photograph, texts: scores[photograph])
    assert tuple(found) == ORDER_METRICS
    assert found["order: precision"].tolist() == [1.0, 0.0, 0.0]
    assert found["order: nouns_and_adjectives"].tolist() == [1.0, 0.0, 1.0]
    assert found["order: trigrams"].tolist() == [1.0, 1.0, 0.0]
    assert bool(np.isnan(found["order: within_trigrams"]).all())
