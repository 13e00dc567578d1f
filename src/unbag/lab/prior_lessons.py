"""What is true of pictures comes in; questions about relations go out, answered with a prior.

Every relation can be asked from either of its things: "Is the cup to the left of or to the right of
the plate?" is answered by left where the question about the plate is answered by right. Which one
is asked decides how often an answer is right, and changes neither pictures nor the number of
lessons.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unbag.readouts.decoder.lessons import Fact, Lesson, asked_between
from unbag.readouts.vlm2vec.data import OPPOSITE, stated
from unbag.scorers import prompts as sets
from unbag.scorers.prompts import filled
from unbag.scorers.questions import BETWEEN
from unbag.types import Item

BENCHMARKS = ("world-pairs-a", "world-pairs-b")
"""Sets of pictures whose captions are such relations, opposite ones beside each other."""
FREQUENT = frozenset(BETWEEN[name].phrase for name in ("left of", "above", "on", "in front of"))
"""One of each two opposite relations: what a prior is for."""
_KIND = "answer"


def relation_lessons(facts: Sequence[Fact], *, share: float, seed: int) -> list[Lesson]:
    """One for each caption that states a relation; `share` of the answers are frequent ones."""
    return [lesson for fact in facts if (lesson := _lesson(fact, share, seed)) is not None]


def _lesson(fact: Fact, share: float, seed: int) -> Lesson | None:
    found = stated(fact.caption)
    if found is None or not found.second:
        return None
    rng = np.random.default_rng((seed, 11, fact.picture))
    # The same draw for every share, so that two arms differ in as few questions as they must.
    is_frequent, is_turned = bool(rng.random() < share), bool(rng.integers(2))
    as_said = (found.relation in FREQUENT) == is_frequent
    first, second = (found.first, found.second) if as_said else (found.second, found.first)
    own = found.relation if as_said else OPPOSITE[found.relation]
    phrases = (own, OPPOSITE[own]) if is_turned else (OPPOSITE[own], own)
    asked = asked_between([f"the {first} {one} the {second}" for one in phrases], pictures=2)
    return Lesson(fact.picture, _KIND, _prompt(asked.text), asked.keywords[phrases.index(own)][0])


def item_lessons(items: Sequence[Item]) -> list[Lesson]:
    """For each caption of each item the question between it and its opposite, and its answer."""
    found = []
    for item in items:
        captions = [str(caption) for caption in item.captions]
        for at in range(0, len(captions), 2):
            asked = asked_between(captions[at : at + 2], pictures=2)
            found += [Lesson(0, _KIND, _prompt(asked.text), words[0]) for words in asked.keywords]
    return found


def texts_asked() -> list[str]:
    """All that is asked and answered besides the things themselves."""
    found = []
    for phrase in sorted(FREQUENT):
        captions = [f"the thing {one} the thing" for one in (phrase, OPPOSITE[phrase])]
        asked = asked_between(captions, pictures=2)
        found += [_prompt(asked.text), *(words[0] for words in asked.keywords)]
    return found


def _prompt(question: str) -> str:
    published = next(one for one in sets.ANSWER if one.is_published)
    return filled(published.caption, question=question)
