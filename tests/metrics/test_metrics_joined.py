"""Groups of items, one caption with several images, and statements: answers worked by hand."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbag.errors import UnbagError
from unbag.metrics import (
    CHANCE,
    Joined,
    JoinedPairs,
    PickImage,
    Statements,
    area_values,
    best_threshold,
    estimate,
)
from unbag.types import Case, EvalProtocol, Outcomes, Question

Make = Callable[..., Case]


def group(case: Make, right: Sequence[Sequence[object]], *, name: str = "g") -> list[Case]:
    """right[q][i]: is question q answered right about image i; None is no score at all."""
    found = []
    for q, row in enumerate(right):
        for i, is_right in enumerate(row):
            scores = [np.nan, 0.0] if is_right is None else [float(bool(is_right)), 0.5]
            made = case(scores, [1, 0], name=f"{name}/{q}{i}", image=f"{name} {i}", group=name)
            question = Question(f"question {q}?")
            found.append(Case(replace(made.item, question=question), made.scores))
    return found


def values(found: Sequence[Outcomes], metric: str) -> list[float]:
    outcomes = {one.metric: one for one in found}
    return list(outcomes[metric].value_U)


def test_a_group_of_four_by_hand(case: Make) -> None:
    found = Joined()(group(case, [[1, 1], [1, 0]]), ties="wrong", tie_eps=0)
    assert values(found, "question_pair") == [1, 0]
    assert values(found, "image_pair") == [1, 0]
    assert values(found, "all_four") == [0]
    assert [o.clusters for o in found] == [("g", "g"), ("g", "g"), ("g",)]
    complete = Joined()(group(case, [[1, 1], [1, 1]]), ties="wrong", tie_eps=0)
    assert all(o.value_U.all() for o in complete)


def test_a_missing_or_invalid_item_makes_its_units_invalid(case: Make) -> None:
    for cases in (group(case, [[1, 1], [1, None]]), group(case, [[1, 1], [1, 0]])[:3]):
        found = Joined()(cases, ties="wrong", tie_eps=0)
        np.testing.assert_equal(values(found, "question_pair"), [1, np.nan])
        np.testing.assert_equal(values(found, "image_pair"), [1, np.nan])
        np.testing.assert_equal(values(found, "all_four"), [np.nan])


def test_items_without_a_group_are_not_joined(case: Make) -> None:
    alone = case([1.0, 0.0], [1, 0])
    assert not Joined()([alone], ties="wrong", tie_eps=0)[0].units


def test_ties_follow_the_rule_and_are_counted_once_a_unit(case: Make) -> None:
    cases = [case([0.5, 0.5], [1, 0], name=f"i{n}", group="g") for n in range(2)]
    for rule, worth in (("wrong", 0.0), ("half", 0.25), ("right", 1.0)):
        (found,) = JoinedPairs()(cases, ties=rule, tie_eps=0)  # type: ignore[arg-type]
        assert (found.value_U.tolist(), found.tie_U.tolist()) == ([worth], [True])


def test_random_answers_meet_the_chance_levels(case: Make) -> None:
    rng = np.random.default_rng(0)
    cases = [
        one
        for n in range(4000)
        for one in group(case, rng.integers(0, 2, (2, 2)).tolist(), name=f"g{n}")
    ]
    for found in Joined()(cases, ties="wrong", tie_eps=0):
        assert found.value_U.mean() == pytest.approx(CHANCE[found.metric], abs=0.02)


def test_units_keep_the_tags_that_all_their_items_share(case: Make) -> None:
    cases = [
        case([1.0, 0.0], [1, 0], name=f"i{n}", group="g", tags={"type": "yes_no", "n": str(n)})
        for n in range(2)
    ]
    (found,) = JoinedPairs()(cases, ties="wrong", tie_eps=0)
    assert found.tags == ({"type": "yes_no"},)


def test_picking_an_image(case: Make) -> None:
    cases = [
        case([[0.3], [0.2]], [[1], [0]], name="right"),
        case([[0.3], [0.4]], [[1], [0]], name="wrong"),
        case([[0.3], [0.3], [0.1]], [[1], [0], [0]], name="tied"),
        case([[0.3], [0.1]], [[1], [1]], name="nothing to pick"),
        case([0.3, 0.1], [1, 0], name="another shape"),
    ]
    (found,) = PickImage()(cases, ties="wrong", tie_eps=0)
    assert found.units == ("right", "wrong", "tied")
    assert found.value_U.tolist() == [1, 0, 0]
    assert found.tie_U.tolist() == [False, False, True]
    assert found.chance_U.tolist() == [1 / 2, 1 / 2, 1 / 3]


def statements(case: Make, scores: Sequence[float], true: Sequence[int], split: str) -> list[Case]:
    return [
        case([s], [t], name=f"{split}/{i}", tags={"split": split, "relation": "on"})
        for i, (s, t) in enumerate(zip(scores, true, strict=True))
    ]


def test_statements_by_hand(case: Make, protocol: EvalProtocol) -> None:
    test = statements(case, [0.4, 0.3, 0.35, 0.2], [1, 1, 0, 0], "test")
    dev = statements(case, [0.4, 0.3, 0.2], [1, 1, 0], "dev")
    area, decided = Statements()([*test, *dev], ties="wrong", tie_eps=0)
    assert estimate(area, protocol=protocol, seed=0).value == pytest.approx(0.75)
    assert decided.value_U.tolist() == [1, 1, 0, 1]
    assert area.tags == ({},) * 4
    assert decided.tags[0]["relation"] == "on"


def test_a_threshold_needs_the_development_split(case: Make) -> None:
    with pytest.raises(UnbagError, match="no statement with split=dev"):
        Statements()(statements(case, [0.1], [1], "test"), ties="wrong", tie_eps=0)


def test_thresholds() -> None:
    true = np.array([True, True, False, False])
    assert best_threshold(np.array([0.4, 0.3, 0.2, 0.1]), true) == pytest.approx(0.25)
    assert best_threshold(np.array([0.1, 0.2, 0.3, 0.4]), true) == -np.inf
    assert best_threshold(np.array([0.5, 0.5, 0.5]), true[1:]) == np.inf
    assert best_threshold(np.array([0.4, np.nan, 0.2]), true[:3]) == pytest.approx(0.3)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=30),
    st.sampled_from(["wrong", "half", "right"]),
)
def test_the_area_is_the_share_of_pairs(rows: list[tuple[int, bool]], ties: str) -> None:
    score = np.array([s for s, _ in rows], dtype=np.float64)
    true = np.array([t for _, t in rows])
    found = area_values(score, true, ties=ties)  # type: ignore[arg-type]
    worth = {"wrong": 0.0, "half": 0.5, "right": 1.0}[ties]
    pairs = [(t > f) + worth * (t == f) for t in score[true] for f in score[~true]]
    if not pairs:
        assert np.isnan(found.credit_N).all()
        return
    assert found.credit_N.mean() == pytest.approx(np.mean(pairs))


def test_the_interval_of_the_area_spreads_as_resampling_both_kinds_does() -> None:
    rng = np.random.default_rng(1)
    score, true = rng.standard_normal(300), rng.random(300) < 0.3
    score[true] += 1.0
    unit = area_values(score, true).credit_N
    linear = unit.std() / np.sqrt(len(unit))
    t, f = score[true], score[~true]
    drawn = [
        np.mean(rng.choice(t, len(t))[:, None] > rng.choice(f, len(f))[None, :])
        for _ in range(2000)
    ]
    assert linear == pytest.approx(np.std(drawn), rel=0.1)


def test_a_score_that_is_no_number_is_left_out_of_the_area() -> None:
    found = area_values(np.array([0.4, np.nan, 0.2]), np.array([True, True, False]))
    np.testing.assert_equal(found.credit_N, [1.0, np.nan, 1.0])
