"""Scorers whose numbers are known without any model or world (methods.md 12.7)."""

from collections.abc import Callable

import numpy as np
import pytest

from unbag.metrics import Choice, Pairs, Triples
from unbag.types import Case, Metric, TieRule

Make = Callable[..., Case]
N = 2_000
EYE2 = np.eye(2)


def means(metric: Metric, cases: list[Case], ties: TieRule = "wrong") -> dict[str, float]:
    result = metric(cases, ties=ties, tie_eps=0.0)
    return {outcome.metric: float(outcome.value_U.mean()) for outcome in result}


def triples(case: Make, scores: Callable[[int], list[float]], n: int = 10) -> list[Case]:
    return [case(scores(i), [1, 0, 1], name=f"t{i}") for i in range(n)]


def test_semantic_oracle(case: Make) -> None:
    result = means(Triples(), triples(case, lambda i: [1, 0, 1]))
    assert (result["original"], result["augmented"], result["brittleness"]) == (1, 1, 0)
    pairs = [case(EYE2, EYE2, name=f"p{i}") for i in range(10)]
    assert means(Pairs(), pairs)["pair"] == 1


def test_bag_of_words_oracle(case: Make) -> None:
    swapped = [case([1.0, 1.0], [1, 0], name=f"s{i}") for i in range(10)]
    assert means(Choice(), swapped)["accuracy"] == 0
    assert means(Choice(), swapped, "half")["accuracy"] == 0.5
    replaced = [case([1.0, 0.75], [1, 0], name=f"r{i}") for i in range(10)]
    assert means(Choice(), replaced)["accuracy"] == 1


def test_perturbation_detector(case: Make) -> None:
    result = means(Triples(), triples(case, lambda i: [1, 0, 0]))
    assert (result["original"], result["augmented"], result["brittleness"]) == (1, 0, 0)
    assert result["share_tie"] == 1
    noise = np.random.default_rng(0).normal(0, 1e-6, (N, 3))
    result = means(Triples(), triples(case, lambda i: (noise[i] + [1, 0, 0]).tolist(), N))
    assert result["original"] == 1
    assert result["augmented"] == pytest.approx(0.5, abs=0.04)
    assert result["brittleness"] == pytest.approx(0.5, abs=0.04)


def test_position_blind_oracle(case: Make) -> None:
    liking = np.random.default_rng(0).random((50, 2))
    cases = [case([row, row], EYE2, name=f"b{i}") for i, row in enumerate(liking.tolist())]
    result = means(Pairs(), cases)
    assert result == {"individual": 0.5, "pair": 0.0, "same_answer": 1.0, "relaxed": 0.0}


def test_constant_scorer(case: Make) -> None:
    result = means(Triples(), triples(case, lambda i: [0.5, 0.5, 0.5]))
    assert (result["original"], result["augmented"], result["brittleness"]) == (0, 0, 0)
    order = [case([0.5] * 5, [1, 0, 0, 0, 0], name=f"o{i}") for i in range(5)]
    assert means(Choice(), order)["accuracy"] == 0
    assert means(Choice(), order, "argmax_first")["accuracy"] == 1
    assert means(Choice(), order, "half")["accuracy"] == pytest.approx(0.2)
