"""Choices and thresholds of chat models, worked by hand."""

from math import nan

import numpy as np
import pytest

from unbag.probes.chat import (
    StatementScores,
    first_letter,
    right_at_threshold,
    right_choice,
    same_choice,
)


def test_same_choice_by_hand() -> None:
    log_NOC = np.log([[[0.7, 0.3], [0.6, 0.4]], [[0.7, 0.3], [0.4, 0.6]], [[0.5, 0.5], [0.2, 0.8]]])
    blind_NOC = np.log([[[0.9, 0.1], [0.4, 0.6]], [[0.1, 0.9], [0.9, 0.1]], [[0.1, 0.9]] * 2])
    assert same_choice(log_NOC, blind_NOC).tolist() == [0.5, 0.0, 0.75]
    assert same_choice(log_NOC, log_NOC * np.nan).tolist() == pytest.approx([nan] * 3, nan_ok=True)
    # In the second order the second caption is option A.
    assert first_letter(log_NOC).tolist() == [0.5, 1.0, 0.75]
    true_NC = np.array([[True, False], [False, True], [True, False]])
    # Sums of logs: .42 > .12; .28 > .18; .1 < .4.
    assert right_choice(log_NOC, true_NC).tolist() == [1.0, 0.0, 0.0]


def test_a_threshold_never_sees_what_it_judges() -> None:
    yes_N = np.array([0.9, 0.6, 0.4, 0.1, nan])
    true_N = np.array([True, False, True, False, True])
    found = right_at_threshold(
        StatementScores(yes_N, true_N, tuple("12345"), ("a", "a", "b", "b", "b"))
    )
    # That of b is .25, which calls both of a true; that of a is .75, which calls both of b false.
    assert found.tolist() == pytest.approx([1, 0, 0, 1, nan], nan_ok=True)


def test_a_threshold_needs_two_halves() -> None:
    of = StatementScores(np.array([0.9, 0.1]), np.array([True, False]), ("1", "2"), ("a", "a"))
    assert np.isnan(right_at_threshold(of)).all()
