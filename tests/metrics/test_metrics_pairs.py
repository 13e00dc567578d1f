from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from unbag.metrics import (
    Groups,
    Pairs,
    additive_margin,
    group_outcomes,
    pair_outcomes,
    perplexity_margin,
    printed_perplexity_margin,
    ratio_margin,
)
from unbag.types import Case, FloatArray, Metric, Outcomes, TieRule

Make = Callable[..., Case]
EYE2, EYE4 = np.eye(2, dtype=bool), np.eye(4, dtype=bool)
NAMED = Pairs({"left/right": (0, 1), "on/under": (2, 3)})
WINOGROUND = [
    [[0.9, 0.2], [0.3, 0.8]],
    [[0.6, 0.5], [0.7, 0.8]],
    [[0.5, 0.5], [0.4, 0.9]],
    [[0.8, 0.3], [0.1, 0.05]],
]


def judge(metric: Metric, cases: list[Case], ties: TieRule = "wrong") -> dict[str, Outcomes]:
    return {one.metric: one for one in metric(cases, ties=ties, tie_eps=0.0)}


def means(metric: Metric, cases: list[Case], ties: TieRule = "wrong") -> dict[str, float]:
    return {name: float(one.value_U.mean()) for name, one in judge(metric, cases, ties).items()}


def whatsup(right: list[int]) -> FloatArray:
    """Scores of a set in which exactly these images prefer their own caption, over all others."""
    score_PC = np.full((4, 4), 0.1)
    for image, is_right in enumerate(right):
        opposite = image ^ 1
        score_PC[image, image if is_right else opposite] = 0.9
    return score_PC


def test_winoground_worked_example(case: Make) -> None:
    cases = [case(scores, EYE2, name=f"w{i}") for i, scores in enumerate(WINOGROUND)]
    found = judge(Groups(), cases)
    assert found["text"].value_U.tolist() == [1, 1, 0, 0]
    assert found["image"].value_U.tolist() == [1, 0, 1, 0]
    assert found["group"].value_U.tolist() == [1, 0, 0, 0]
    assert found["text"].tie_U.tolist() == [False, False, True, False]
    assert [found[name].chance_U[0] for name in found] == [1 / 4, 1 / 4, 1 / 6]


def test_groups_follow_truth_and_tie_rule(case: Make) -> None:
    crossed = [case(np.array(s)[:, ::-1], ~EYE2, name=f"w{i}") for i, s in enumerate(WINOGROUND)]
    assert means(Groups(), crossed) == {"text": 0.5, "image": 0.5, "group": 0.25}
    flat = [case(np.zeros((2, 2)), EYE2)]
    assert means(Groups(), flat) == {"text": 0, "image": 0, "group": 0}
    assert means(Groups(), flat, "half") == {"text": 1 / 4, "image": 1 / 4, "group": 1 / 16}
    assert means(Groups(), flat, "right") == {"text": 1, "image": 1, "group": 1}


@pytest.mark.parametrize("metric", [Groups(), Pairs()])
def test_nan_and_equal_captions_are_invalid(case: Make, metric: Metric) -> None:
    damaged = np.array(WINOGROUND[0])
    damaged[1, 0] = np.nan
    cases = [
        case(damaged, EYE2, name="damaged"),
        case(WINOGROUND[0], EYE2, name="alike", captions=["same", "same"]),
    ]
    for one in judge(metric, cases).values():
        assert np.isnan(one.value_U).all()
        assert not one.tie_U.any()
    assert all(len(one.units) == 0 for one in judge(metric, []).values())


@pytest.mark.parametrize("metric", [Groups(), Pairs()])
def test_items_without_one_caption_each_are_left_out(case: Make, metric: Metric) -> None:
    both_true = case(WINOGROUND[0], [[1, 1], [0, 1]])
    assert all(len(one.units) == 0 for one in judge(metric, [both_true]).values())


def test_whatsup_worked_example(case: Make) -> None:
    sets = ([1, 1, 1, 0], [1, 0, 1, 1], [1, 1, 1, 1])
    cases = [case(whatsup(right), EYE4, name=f"s{i}") for i, right in enumerate(sets)]
    found = means(NAMED, cases)
    assert found["individual4"] == pytest.approx(10 / 12)
    assert found["pair4"] == pytest.approx(4 / 6)
    assert found["set"] == pytest.approx(1 / 3)
    # Every wrong image chose its opposite, so two-way judges the same.
    assert found["individual"] == pytest.approx(10 / 12)
    assert found["pair"] == pytest.approx(4 / 6)
    assert found["same_answer"] == pytest.approx(2 / 6)


def test_whatsup_units_clusters_and_relations(case: Make) -> None:
    found = judge(NAMED, [case(whatsup([1, 1, 0, 1]), EYE4, name="s", tags={"subset": "A"})])
    counts = {name: len(one.units) for name, one in found.items()}
    assert counts == {
        "individual": 4,
        "pair": 2,
        "same_answer": 2,
        "relaxed": 2,
        "individual4": 4,
        "pair4": 2,
        "set": 1,
    }
    assert all(set(one.clusters) == {"s"} for one in found.values())
    pair = found["pair"]
    assert dict(zip((t["relation"] for t in pair.tags), pair.value_U, strict=True)) == {
        "left/right": 1,
        "on/under": 0,
    }
    assert found["individual"].tags[0] == {"subset": "A", "relation": "left/right"}
    assert found["set"].tags == ({"subset": "A"},)
    chances = {name: one.chance_U[0] for name, one in found.items()}
    assert (chances["individual"], chances["pair"]) == (1 / 2, 1 / 4)
    assert (chances["individual4"], chances["pair4"], chances["set"]) == (1 / 4, 1 / 16, 1 / 256)


def test_two_way_ignores_the_other_captions(case: Make) -> None:
    score_PC = whatsup([1, 1, 1, 1])
    score_PC[0, 2] = 1.0
    found = judge(NAMED, [case(score_PC, EYE4)])
    assert found["individual"].value_U.tolist() == [1, 1, 1, 1]
    assert found["individual4"].value_U.tolist() == [0, 1, 1, 1]
    assert found["set"].value_U.tolist() == [0]


def test_images_find_their_captions_through_truth(case: Make) -> None:
    order = [2, 0, 3, 1]
    moved = case(whatsup([1, 0, 1, 1])[:, order], EYE4[:, order])
    assert means(NAMED, [moved]) == means(NAMED, [case(whatsup([1, 0, 1, 1]), EYE4)])


def test_unread_answers_are_counted_once(case: Make) -> None:
    found = judge(NAMED, [case(whatsup([1, 1, 1, 1]), EYE4, unparsed=3)])
    assert {int(one.unparsed_U.sum()) for one in found.values()} == {3}


def test_two_by_two_has_no_four_way_metrics(case: Make) -> None:
    found = judge(Pairs(), [case(WINOGROUND[3], EYE2, name="w")])
    assert list(found) == ["individual", "pair", "same_answer", "relaxed"]
    assert found["individual"].value_U.tolist() == [1, 0]
    assert found["pair"].value_U.tolist() == [0]
    assert found["same_answer"].value_U.tolist() == [1]
    assert found["pair"].tags == ({},)


def test_position_blind_scores(case: Make) -> None:
    blind = [case([[0.3, 0.2], [0.3, 0.2]], EYE2, name=f"b{i}") for i in range(10)]
    expected = {"individual": 0.5, "pair": 0.0, "same_answer": 1.0, "relaxed": 0.0}
    assert means(Pairs(), blind) == expected


def test_pair_ties(case: Make) -> None:
    flat = [case(np.zeros((2, 2)), EYE2)]
    rules: dict[TieRule, tuple[float, float, float, float]] = {
        "wrong": (0, 0, 0, 0),
        "half": (0.5, 0.25, 0.5, 0.5),
        "right": (1, 1, 0, 1),
        "argmax_first": (0.5, 0, 1, 1),
    }
    for ties, expected in rules.items():
        assert tuple(means(Pairs(), flat, ties).values()) == expected, ties


def test_relaxed_worked_examples() -> None:
    perplexity = np.array([[[2.0, 3.0], [2.5, 3.0]]])
    assert ratio_margin(perplexity)[0] == pytest.approx(0.4 - 0.4545454545)
    assert perplexity_margin(perplexity)[0] > 0
    assert printed_perplexity_margin(perplexity)[0] < 0
    strict = pair_outcomes(-perplexity, np.array([[0, 1]]), (0, 1))["pair"]
    assert strict.credit_N[0] == 0
    cosine = np.array([[[0.25, 0.24], [0.26, 0.245]]])
    assert ratio_margin(cosine)[0] == pytest.approx(0.510204 - 0.514851, abs=1e-6)
    assert additive_margin(cosine)[0] == pytest.approx(-0.005)


def test_relaxed_forgives_a_prior_for_one_caption(case: Make) -> None:
    prior = [case([[0.5, 0.4], [0.5, 0.45]], EYE2)]
    assert means(Pairs(), prior) == {"individual": 0.5, "pair": 0, "same_answer": 1, "relaxed": 1}


def test_the_ratio_form_needs_positive_scores(case: Make) -> None:
    negative = [case([[0.5, -0.1], [0.1, 0.4]], EYE2)]
    found = judge(Pairs(form="ratio"), negative)
    assert np.isnan(found["relaxed"].value_U[0])
    assert found["pair"].value_U[0] == 1
    positive = [case([[0.5, 0.1], [0.1, 0.4]], EYE2)]
    assert means(Pairs(form="ratio"), positive)["relaxed"] == 1


square = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 10), st.just(2), st.just(2)),
    elements=st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1e-300, 1.0]),
)
RULES = st.sampled_from(["wrong", "half", "right", "argmax_first"])


@given(square, RULES)
def test_group_is_at_most_text_and_image(score_NPC: FloatArray, ties: TieRule) -> None:
    true_NPC = np.tile(EYE2, (len(score_NPC), 1, 1))
    found = group_outcomes(score_NPC, true_NPC, ties=ties)
    least_N = np.minimum(found["text"].credit_N, found["image"].credit_N)
    assert (found["group"].credit_N <= least_N).all()


@given(square, RULES)
def test_pair_is_at_most_individual_and_relaxed(score_NPC: FloatArray, ties: TieRule) -> None:
    own_NP = np.tile([0, 1], (len(score_NPC), 1))
    found = {n: c.credit_N for n, c in pair_outcomes(score_NPC, own_NP, (0, 1), ties=ties).items()}
    assert (found["pair"] <= (found["first"] + found["second"]) / 2).all()
    assert (found["relaxed"] >= found["pair"]).all()
    assert (found["same_answer"] + found["pair"] <= 1).all()


sets = hnp.arrays(np.float64, (4, 4), elements=st.floats(-1, 1) | st.sampled_from([0.0, 0.5]))


@given(sets, st.sampled_from(["wrong", "half", "right"]))
def test_set_is_at_most_pair_is_at_most_individual(
    case: Make, score_PC: FloatArray, ties: TieRule
) -> None:
    found = means(NAMED, [case(score_PC, EYE4)], ties)
    assert found["set"] <= found["pair4"] <= found["individual4"] + 1e-12
    assert found["individual4"] <= found["individual"] + 1e-12
    assert found["pair4"] <= found["pair"] + 1e-12
