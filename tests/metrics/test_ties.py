from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbag.metrics import credit
from unbag.types import TieRule

RULES: tuple[TieRule, ...] = get_args(TieRule)
NAN = float("nan")


def outcome(scores: list[float], true: list[bool], ties: TieRule, eps: float = 0.0) -> float:
    result = credit(np.array([scores]), np.array([true]), ties=ties, tie_eps=eps)
    return float(result.credit_N[0])


@pytest.mark.parametrize(
    ("ties", "expected"),
    [
        ("wrong", 0.0),
        ("half", 1 / 3),
        ("right", 1.0),
        ("argmax_first", 0.0),
        ("argmax_last", 1.0),
    ],
)
def test_three_way_tie_at_the_top(ties: TieRule, expected: float) -> None:
    # False, false and true share the top; the fourth is far below.
    assert outcome([0.5, 0.5, 0.5, 0.1], [False, False, True, False], ties) == expected


@pytest.mark.parametrize("ties", RULES)
def test_clear_scores_do_not_depend_on_the_rule(ties: TieRule) -> None:
    assert outcome([0.2, 0.9, 0.9], [False, True, True], ties) == 1.0
    assert outcome([0.2, 0.1, 0.2], [False, True, False], ties) == 0.0


def test_half_counts_every_true_one_among_the_top() -> None:
    assert outcome([0.5, 0.5, 0.5], [True, True, False], "half") == 2 / 3


@pytest.mark.parametrize("ties", RULES)
@pytest.mark.parametrize("bad", [NAN, np.inf, -np.inf])
def test_a_non_finite_score_is_invalid_and_no_tie(ties: TieRule, bad: float) -> None:
    result = credit(np.array([[0.5, bad]]), np.array([[True, False]]), ties=ties)
    assert np.isnan(result.credit_N[0])
    assert not result.tie_N[0]


@pytest.mark.parametrize("true", [[True, True], [False, False]])
def test_nothing_to_choose_is_invalid(true: list[bool]) -> None:
    assert np.isnan(outcome([0.1, 0.2], true, "right"))


def test_tie_eps_widens_the_tie() -> None:
    assert outcome([0.50, 0.49], [True, False], "wrong") == 1.0
    assert outcome([0.50, 0.49], [True, False], "wrong", eps=0.02) == 0.0
    assert outcome([0.49, 0.50], [True, False], "right", eps=0.02) == 1.0
    assert outcome([0.49, 0.50], [False, True], "argmax_first", eps=0.02) == 0.0
    assert outcome([0.40, 0.50], [True, False], "right", eps=0.02) == 0.0


def test_no_rows() -> None:
    result = credit(np.zeros((0, 3)), np.zeros((0, 3), dtype=np.bool_))
    assert result.credit_N.shape == result.tie_N.shape == (0,)


rows = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=2, max_size=6)


@given(rows)
def test_rules_are_ordered_and_argmax_is_numpys(row: list[tuple[int, bool]]) -> None:
    scores, true = [float(s) for s, _ in row], [t for _, t in row]
    if all(true) or not any(true):
        return
    worth = {ties: outcome(scores, true, ties) for ties in RULES}
    assert worth["wrong"] <= worth["half"] <= worth["right"]
    assert worth["argmax_first"] == true[int(np.argmax(scores))]
    assert worth["argmax_last"] == true[len(true) - 1 - int(np.argmax(scores[::-1]))]
    top = [t for s, t in zip(scores, true, strict=True) if s == max(scores)]
    assert worth["half"] == pytest.approx(sum(top) / len(top))
