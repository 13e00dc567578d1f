from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from unbag.metrics import (
    Choice,
    Groups,
    Joined,
    JoinedPairs,
    Pairs,
    Relaxed,
    additive_margin,
    group_outcomes,
    pair_outcomes,
    perplexity_margin,
    printed_perplexity_margin,
    ratio_margin,
)
from unbag.metrics.pairs import in_form
from unbag.types import Case, FloatArray, Metric, Outcomes, Question, TieRule

Make = Callable[..., Case]
EYE2, EYE4 = np.eye(2, dtype=bool), np.eye(4, dtype=bool)
NAMED = Pairs({"left/right": (0, 1), "on/under": (2, 3)})
WINOGROUND = [
    [[0.9, 0.2], [0.3, 0.8]],
    [[0.6, 0.5], [0.7, 0.8]],
    [[0.5, 0.5], [0.4, 0.9]],
    [[0.8, 0.3], [0.1, 0.05]],
]


def outcomes_of(metric: Metric, cases: list[Case], ties: TieRule = "wrong") -> dict[str, Outcomes]:
    return {outcome.metric: outcome for outcome in metric(cases, ties=ties, tie_eps=0.0)}


def means(metric: Metric, cases: list[Case], ties: TieRule = "wrong") -> dict[str, float]:
    return {
        name: float(outcome.value_U.mean())
        for name, outcome in outcomes_of(metric, cases, ties).items()
    }


def whatsup(right: list[int]) -> FloatArray:
    """Scores of a set in which exactly these images prefer their own caption, over all others."""
    score_PC = np.full((4, 4), 0.1)
    for image, is_right in enumerate(right):
        opposite = image ^ 1
        score_PC[image, image if is_right else opposite] = 0.9
    return score_PC


def test_winoground_worked_example(case: Make) -> None:
    cases = [case(scores, EYE2, name=f"w{i}") for i, scores in enumerate(WINOGROUND)]
    result = outcomes_of(Groups(), cases)
    assert result["text"].value_U.tolist() == [1, 1, 0, 0]
    assert result["image"].value_U.tolist() == [1, 0, 1, 0]
    assert result["group"].value_U.tolist() == [1, 0, 0, 0]
    assert result["text"].tie_U.tolist() == [False, False, True, False]
    assert [result[name].chance_U[0] for name in result] == [1 / 4, 1 / 4, 1 / 6]


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
    for outcome in outcomes_of(metric, cases).values():
        assert np.isnan(outcome.value_U).all()
        assert not outcome.tie_U.any()
    assert all(len(outcome.units) == 0 for outcome in outcomes_of(metric, []).values())


@pytest.mark.parametrize("metric", [Groups(), Pairs()])
def test_items_without_one_caption_each_are_left_out(case: Make, metric: Metric) -> None:
    both_true = case(WINOGROUND[0], [[1, 1], [0, 1]])
    assert all(len(outcome.units) == 0 for outcome in outcomes_of(metric, [both_true]).values())


def test_whatsup_worked_example(case: Make) -> None:
    sets = ([1, 1, 1, 0], [1, 0, 1, 1], [1, 1, 1, 1])
    cases = [case(whatsup(right), EYE4, name=f"s{i}") for i, right in enumerate(sets)]
    result = means(NAMED, cases)
    assert result["individual4"] == pytest.approx(10 / 12)
    assert result["pair4"] == pytest.approx(4 / 6)
    assert result["set"] == pytest.approx(1 / 3)
    # Every wrong image chose its opposite, so two-way judges the same.
    assert result["individual"] == pytest.approx(10 / 12)
    assert result["pair"] == pytest.approx(4 / 6)
    assert result["same_answer"] == pytest.approx(2 / 6)


def test_whatsup_units_clusters_and_relations(case: Make) -> None:
    result = outcomes_of(NAMED, [case(whatsup([1, 1, 0, 1]), EYE4, name="s", tags={"subset": "A"})])
    counts = {name: len(outcome.units) for name, outcome in result.items()}
    assert counts == {
        "individual": 4,
        "pair": 2,
        "same_answer": 2,
        "relaxed": 2,
        "individual4": 4,
        "pair4": 2,
        "set": 1,
    }
    assert all(set(outcome.clusters) == {"s"} for outcome in result.values())
    pair = result["pair"]
    assert dict(zip((t["relation"] for t in pair.tags), pair.value_U, strict=True)) == {
        "left/right": 1,
        "on/under": 0,
    }
    assert result["individual"].tags[0] == {"subset": "A", "relation": "left/right"}
    assert result["set"].tags == ({"subset": "A"},)
    chances = {name: outcome.chance_U[0] for name, outcome in result.items()}
    assert (chances["individual"], chances["pair"]) == (1 / 2, 1 / 4)
    assert (chances["individual4"], chances["pair4"], chances["set"]) == (1 / 4, 1 / 16, 1 / 256)


def test_two_way_ignores_the_other_captions(case: Make) -> None:
    score_PC = whatsup([1, 1, 1, 1])
    score_PC[0, 2] = 1.0
    result = outcomes_of(NAMED, [case(score_PC, EYE4)])
    assert result["individual"].value_U.tolist() == [1, 1, 1, 1]
    assert result["individual4"].value_U.tolist() == [0, 1, 1, 1]
    assert result["set"].value_U.tolist() == [0]


def test_images_find_their_captions_through_truth(case: Make) -> None:
    order = [2, 0, 3, 1]
    moved = case(whatsup([1, 0, 1, 1])[:, order], EYE4[:, order])
    assert means(NAMED, [moved]) == means(NAMED, [case(whatsup([1, 0, 1, 1]), EYE4)])


def test_unread_answers_are_counted_once(case: Make) -> None:
    result = outcomes_of(NAMED, [case(whatsup([1, 1, 1, 1]), EYE4, unparsed=3)])
    assert {int(outcome.unparsed_U.sum()) for outcome in result.values()} == {3}


def test_two_by_two_has_no_four_way_metrics(case: Make) -> None:
    result = outcomes_of(Pairs(), [case(WINOGROUND[3], EYE2, name="w")])
    assert list(result) == ["individual", "pair", "same_answer", "relaxed"]
    assert result["individual"].value_U.tolist() == [1, 0]
    assert result["pair"].value_U.tolist() == [0]
    assert result["same_answer"].value_U.tolist() == [1]
    assert result["pair"].tags == ({},)


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
    result = outcomes_of(Pairs(form="ratio"), negative)
    assert np.isnan(result["relaxed"].value_U[0])
    assert result["pair"].value_U[0] == 1
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
    result = group_outcomes(score_NPC, true_NPC, ties=ties)
    least_N = np.minimum(result["text"].credit_N, result["image"].credit_N)
    assert (result["group"].credit_N <= least_N).all()


@given(square, RULES)
def test_pair_is_at_most_individual_and_relaxed(score_NPC: FloatArray, ties: TieRule) -> None:
    own_NP = np.tile([0, 1], (len(score_NPC), 1))
    result = {n: c.credit_N for n, c in pair_outcomes(score_NPC, own_NP, (0, 1), ties=ties).items()}
    assert (result["pair"] <= (result["first"] + result["second"]) / 2).all()
    assert (result["relaxed"] >= result["pair"]).all()
    assert (result["same_answer"] + result["pair"] <= 1).all()


sets = hnp.arrays(np.float64, (4, 4), elements=st.floats(-1, 1) | st.sampled_from([0.0, 0.5]))


@given(sets, st.sampled_from(["wrong", "half", "right"]))
def test_set_is_at_most_pair_is_at_most_individual(
    case: Make, score_PC: FloatArray, ties: TieRule
) -> None:
    result = means(NAMED, [case(score_PC, EYE4)], ties)
    assert result["set"] <= result["pair4"] <= result["individual4"] + 1e-12
    assert result["individual4"] <= result["individual"] + 1e-12
    assert result["pair4"] <= result["pair"] + 1e-12


def group(case: Make, right: Sequence[Sequence[object]], *, name: str = "g") -> list[Case]:
    """right[q][i]: is question q answered right about image i; None is no score at all."""
    result = []
    for q, row in enumerate(right):
        for i, is_right in enumerate(row):
            scores = [np.nan, 0.0] if is_right is None else [float(bool(is_right)), 0.5]
            base = case(scores, [1, 0], name=f"{name}/{q}{i}", image=f"{name} {i}", group=name)
            question = Question(f"question {q}?")
            result.append(Case(replace(base.item, question=question), base.scores))
    return result


def values(result: Sequence[Outcomes], metric: str) -> list[float]:
    outcomes = {outcome.metric: outcome for outcome in result}
    return list(outcomes[metric].value_U)


def test_a_group_of_four_by_hand(case: Make) -> None:
    result = Joined()(group(case, [[1, 1], [1, 0]]), ties="wrong", tie_eps=0)
    assert values(result, "question_pair") == [1, 0]
    assert values(result, "image_pair") == [1, 0]
    assert values(result, "all_four") == [0]
    assert [o.clusters for o in result] == [("g", "g"), ("g", "g"), ("g",)]
    complete = Joined()(group(case, [[1, 1], [1, 1]]), ties="wrong", tie_eps=0)
    assert all(o.value_U.all() for o in complete)


def test_a_missing_or_invalid_item_makes_its_units_invalid(case: Make) -> None:
    for cases in (group(case, [[1, 1], [1, None]]), group(case, [[1, 1], [1, 0]])[:3]):
        result = Joined()(cases, ties="wrong", tie_eps=0)
        np.testing.assert_equal(values(result, "question_pair"), [1, np.nan])
        np.testing.assert_equal(values(result, "image_pair"), [1, np.nan])
        np.testing.assert_equal(values(result, "all_four"), [np.nan])


def test_items_without_a_group_are_not_joined(case: Make) -> None:
    alone = case([1.0, 0.0], [1, 0])
    assert not Joined()([alone], ties="wrong", tie_eps=0)[0].units


def test_ties_follow_the_rule_and_are_counted_once_a_unit(case: Make) -> None:
    cases = [case([0.5, 0.5], [1, 0], name=f"i{n}", group="g") for n in range(2)]
    for rule, worth in (("wrong", 0.0), ("half", 0.25), ("right", 1.0)):
        (result,) = JoinedPairs()(cases, ties=rule, tie_eps=0)  # type: ignore[arg-type]
        assert (result.value_U.tolist(), result.tie_U.tolist()) == ([worth], [True])


def test_units_keep_the_tags_that_all_their_items_share(case: Make) -> None:
    cases = [
        case([1.0, 0.0], [1, 0], name=f"i{n}", group="g", tags={"type": "yes_no", "n": str(n)})
        for n in range(2)
    ]
    (result,) = JoinedPairs()(cases, ties="wrong", tie_eps=0)
    assert result.tags == ({"type": "yes_no"},)


def only_outcome(metric: Relaxed, *cases: Case) -> Outcomes:
    (result,) = metric(cases, ties="wrong", tie_eps=0.0)
    return result


def test_the_worked_example_in_both_forms(case: Make) -> None:
    # Log-probabilities of perplexities 2, 3 and 2.5, 3: image 2 alone prefers caption 1.
    perplexity = np.array([[2.0, 3.0], [2.5, 3.0]])
    assert only_outcome(Relaxed(), case(-np.log(perplexity), EYE2)).value_U.tolist() == [1.0]
    assert only_outcome(Relaxed("ratio"), case(1 / perplexity, EYE2)).value_U.tolist() == [1.0]
    cosine = [[0.25, 0.24], [0.26, 0.245]]
    for metric in (Relaxed(), Relaxed("ratio")):
        assert only_outcome(metric, case(cosine, EYE2)).value_U.tolist() == [0.0]


def test_two_questions_of_a_group_are_a_pair(case: Make) -> None:
    first = case([0.6, 0.4], [1, 0], name="q1", group="pair/1", tags={"a": "b", "c": "1"})
    second = case([0.55, 0.45], [0, 1], name="q2", group="pair/1", tags={"a": "b", "c": "2"})
    result = only_outcome(Relaxed(), first, second)
    assert result.units == ("pair/1",)
    assert result.value_U.tolist() == [1.0]
    assert result.chance_U.tolist() == [0.5]
    assert result.tags == ({"a": "b"},)
    swapped = case([0.65, 0.35], [0, 1], name="q2", group="pair/1")
    assert only_outcome(Relaxed(), first, swapped).value_U.tolist() == [0.0]


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
    assert only_outcome(Relaxed(), first, second).units == ()


def test_truth_may_stand_crosswise_and_damage_is_invalid(case: Make) -> None:
    crossed = case([[0.1, 0.9], [0.8, 0.2]], [[0, 1], [1, 0]])
    assert only_outcome(Relaxed(), crossed).value_U.tolist() == [1.0]
    damaged = case([[0.1, np.nan], [0.8, 0.2]], EYE2)
    assert np.isnan(only_outcome(Relaxed(), damaged).value_U).all()
    assert only_outcome(Relaxed(), case(np.zeros((2, 2)), EYE2)).tie_U.tolist() == [True]
    assert only_outcome(Relaxed(), case(np.zeros((2, 2)), EYE2)).value_U.tolist() == [0.0]


def test_only_metrics_with_a_form_change_it() -> None:
    result = in_form([Choice(), Pairs(), Relaxed()], "ratio")
    assert result == (Choice(), Pairs(form="ratio"), Relaxed("ratio"))
