"""The relaxed verdict on pairs of any make-up, and how often a choice changes with the order."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from unbag.metrics import Choice, Flips, Pairs, Relaxed
from unbag.metrics.pairs import in_form
from unbag.types import Case, Outcomes

Make = Callable[..., Case]
EYE = [[1, 0], [0, 1]]


def judge(metric: Relaxed | Flips, *cases: Case) -> Outcomes:
    (found,) = metric(cases, ties="wrong", tie_eps=0.0)
    return found


def test_the_worked_example_in_both_forms(case: Make) -> None:
    # Log-probabilities of perplexities 2, 3 and 2.5, 3: image 2 alone prefers caption 1.
    perplexity = np.array([[2.0, 3.0], [2.5, 3.0]])
    assert judge(Relaxed(), case(-np.log(perplexity), EYE)).value_U.tolist() == [1.0]
    assert judge(Relaxed("ratio"), case(1 / perplexity, EYE)).value_U.tolist() == [1.0]
    cosine = [[0.25, 0.24], [0.26, 0.245]]
    for metric in (Relaxed(), Relaxed("ratio")):
        assert judge(metric, case(cosine, EYE)).value_U.tolist() == [0.0]


def test_two_questions_of_a_group_are_a_pair(case: Make) -> None:
    first = case([0.6, 0.4], [1, 0], name="q1", group="pair/1", tags={"a": "b", "c": "1"})
    second = case([0.55, 0.45], [0, 1], name="q2", group="pair/1", tags={"a": "b", "c": "2"})
    found = judge(Relaxed(), first, second)
    assert found.units == ("pair/1",)
    assert found.value_U.tolist() == [1.0]
    assert found.chance_U.tolist() == [0.5]
    assert found.tags == ({"a": "b"},)
    swapped = case([0.65, 0.35], [0, 1], name="q2", group="pair/1")
    assert judge(Relaxed(), first, swapped).value_U.tolist() == [0.0]


@pytest.mark.parametrize(
    "other",
    [
        {"true": [1, 0]},
        {"true": [0, 1], "captions": ("x", "y")},
        {"true": [0, 1], "group": "pair/2"},
    ],
)
def test_what_is_no_pair_is_left_out(case: Make, other: dict[str, object]) -> None:
    first = case([0.6, 0.4], [1, 0], name="q1", group="pair/1")
    second = case([0.5, 0.4], **{"name": "q2", "group": "pair/1", **other})
    assert judge(Relaxed(), first, second).units == ()


def test_truth_may_stand_crosswise_and_damage_is_invalid(case: Make) -> None:
    crossed = case([[0.1, 0.9], [0.8, 0.2]], [[0, 1], [1, 0]])
    assert judge(Relaxed(), crossed).value_U.tolist() == [1.0]
    damaged = case([[0.1, np.nan], [0.8, 0.2]], EYE)
    assert np.isnan(judge(Relaxed(), damaged).value_U).all()
    assert judge(Relaxed(), case(np.zeros((2, 2)), EYE)).tie_U.tolist() == [True]
    assert judge(Relaxed(), case(np.zeros((2, 2)), EYE)).value_U.tolist() == [0.0]


def test_only_metrics_with_a_form_change_it() -> None:
    found = in_form([Choice(), Pairs(), Relaxed()], "ratio")
    assert found == (Choice(), Pairs(form="ratio"), Relaxed("ratio"))


def test_a_choice_that_follows_the_letter_flips(case: Make) -> None:
    made = case(np.zeros((2, 2)), EYE, name="set")
    # Image 0 picks caption 0 in both orders; image 1 whatever stands first.
    orders = ((-0.1, -2.0), (-0.2, -1.0), (-0.1, -2.0), (-3.0, -0.5))
    found = judge(Flips(), Case(made.item, replace(made.scores, order_logprobs=orders)))
    assert found.units == ("set/picture 0", "set/picture 1")
    assert found.value_U.tolist() == [0.0, 1.0]
    assert np.isnan(found.chance_U).all()


def test_a_tie_chooses_nothing_and_no_order_asks_nothing(case: Make) -> None:
    made = case([0.1, 0.2], [1, 0])
    level = Case(made.item, replace(made.scores, order_logprobs=((-1.0, -1.0), (-1.0, -2.0))))
    found = judge(Flips(), made, level)
    assert found.value_U.tolist() == [1.0]
    assert found.tie_U.tolist() == [True]
    lost = Case(made.item, replace(made.scores, order_logprobs=((np.nan, -1.0), (-1.0, -2.0))))
    assert np.isnan(judge(Flips(), lost).value_U).all()
