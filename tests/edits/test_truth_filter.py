"""KeepsTruth passes rewrites with the same meaning and rejects others."""

from __future__ import annotations

import pytest

from unbag.edits.filters import Proposal
from unbag.edits.kinds import Kind, by_rule
from unbag.edits.parsing import Parser
from unbag.edits.truth_filter import KeepsTruth, keeps_truth
from unbag.types import Edit

SAME = [
    ("A dog is not on the sofa.", "A dog isn't on the couch."),
    ("a man without a hat", "a man with no hat"),
    ("two dogs on a grey sofa", "2 dogs on a gray couch"),
    ("two dogs and a cat", "a pair of dogs and a cat"),
    ("one dog near a red car", "a dog close to a red car"),
    ("a plane over a city", "an airplane above a city"),
    ("a cat under a table", "a cat beneath a table"),
    ("the cup left of the plate", "the plate right of the cup"),
    ("a boy in front of a big house", "a big house behind a boy"),
    ("the dog is bigger than the cat", "the cat is smaller than the dog"),
    ("a lamp above a wooden desk", "a wooden desk under a lamp"),
    ("a ball on top of a box", "a box underneath a ball"),
    ("a colorful bus on top of a hill", "a brightly colored bus on a hill"),
    ("two kids slide down a slide", "two kids are sliding down a slide"),
    ("a black cell phone", "a black cellphone"),
    ("a large dog next to a small cat", "a big dog beside a little cat"),
    ("a red and blue kite", "a blue and red kite"),
    ("a red cup and a blue plate", "a blue plate and a red cup"),
    ("two red cups and three plates", "three plates and two red cups"),
    ("a cat sitting right next to a bowl", "a cat seated next to a bowl"),
    ("a woman in a white shirt", "a woman wearing a white shirt"),
    ("the kite is red and big", "a big red kite"),
]

CHANGED = [
    ("a dog is on the sofa", "a dog is not on the sofa"),
    ("a man without a hat", "a man with a hat"),
    ("a dog that can't swim", "a dog that swims"),
    ("two dogs on a sofa", "three dogs on a sofa"),
    ("two dogs on a sofa", "dogs on a sofa"),
    ("dogs on a sofa", "4 dogs on a sofa"),
    ("a red car", "a blue car"),
    ("a red car", "a car"),
    ("a car near a house", "a red car near a house"),
    ("a red car", "a crimson car"),
    ("the cup left of the plate", "the cup right of the plate"),
    ("the cup to the left of the plate", "the cup next to the plate"),
    ("a lamp above a desk", "a lamp below a desk"),
    ("a ball on top of a box", "a ball underneath a box"),
    ("a boy in front of a house", "a boy behind a house"),
    ("a tall man with an open book", "a short man with an open book"),
    ("a tall man with an open book", "a tall man with a closed book"),
    ("a man on a bench", "a woman on a bench"),
    ("a red cup and a blue plate", "a blue cup and a red plate"),
    ("two cups and three plates", "three cups and two plates"),
    ("the dog is bigger than the cat", "the dog is smaller than the cat"),
    ("a man standing near a wall", "a man sitting near a wall"),
]


@pytest.mark.parametrize(
    ("caption", "rewritten", "is_same"),
    [*((*pair, True) for pair in SAME), *((*pair, False) for pair in CHANGED)],
)
def test_the_truth_of_rewrites(parser: Parser, caption: str, rewritten: str, is_same: bool) -> None:
    [original, other] = parser([caption, rewritten])
    assert keeps_truth(original, rewritten) is is_same
    assert keeps_truth(original, caption)
    assert keeps_truth(other, rewritten.upper())


def test_hard_negatives_pass(parser: Parser) -> None:
    [parsed] = parser(["a red car"])
    verdicts = []
    for is_positive in (True, False):
        kind = Kind("own", is_positive, about="", source="ours", editor=by_rule(lambda p: []))
        edit = Edit("a blue car", "own", is_positive, (2, 5), ())
        verdicts += KeepsTruth()([Proposal(parsed, edit, kind, ())])
    assert verdicts == [False, True]
