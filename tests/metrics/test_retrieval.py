from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from unbag.errors import UnbagError
from unbag.metrics import Recall, Retention, hit_chance, hits, rank, rank_blocks
from unbag.types import Case, FloatArray, Item, Metric, Outcomes, Ranks, Scores, Sparse, TieRule

Make = Callable[..., Case]
SCORES = np.array([[0.9, 0.1, 0.8, 0.2], [0.3, 0.7, 0.6, 0.1]])
TRUE = np.array([[1, 0, 1, 0], [0, 1, 0, 1]], dtype=bool)
NAN = np.nan


def outcomes_of(metric: Metric, cases: list[Case], ties: TieRule = "wrong") -> dict[str, Outcomes]:
    return {outcome.metric: outcome for outcome in metric(cases, ties=ties, tie_eps=0.0)}


def test_worked_example(case: Make) -> None:
    result = outcomes_of(Recall(), [case(SCORES, TRUE, name="g")])
    assert result["text_to_image@1"].value_U.tolist() == [1, 1, 1, 0]
    assert result["image_to_text@1"].value_U.tolist() == [1, 1]
    assert list(result) == [
        f"{d}@{k}" for d in ("text_to_image", "image_to_text") for k in (1, 5, 10)
    ]
    assert result["text_to_image@1"].chance_U.tolist() == [0.5] * 4
    # Two of four captions are true: 1 - C(2,1)/C(4,1).
    assert result["image_to_text@1"].chance_U.tolist() == [0.5] * 2
    assert result["image_to_text@5"].chance_U.tolist() == [1.0] * 2


def test_captions_of_one_image_are_one_cluster(case: Make) -> None:
    result = outcomes_of(Recall((1,)), [case(SCORES, TRUE, name="g")])
    text = result["text_to_image@1"]
    assert text.clusters == ("g/picture 0", "g/picture 1", "g/picture 0", "g/picture 1")
    assert result["image_to_text@1"].clusters == ("g/picture 0", "g/picture 1")
    assert len(set(text.units)) == 4


def test_a_collapsed_model_finds_nothing(case: Make) -> None:
    flat = [case(np.zeros((4, 4)), np.eye(4))]
    assert outcomes_of(Recall((1, 3)), flat)["text_to_image@1"].value_U.tolist() == [0] * 4
    half = outcomes_of(Recall((1, 3)), flat, "half")
    assert half["text_to_image@1"].value_U == pytest.approx([1 / 4] * 4)
    assert half["image_to_text@3"].value_U == pytest.approx([3 / 4] * 4)
    assert outcomes_of(Recall((1,)), flat, "right")["text_to_image@1"].value_U.tolist() == [1] * 4
    assert half["text_to_image@1"].tie_U.all()
    # Four candidates are all among the first four: here a tie decides nothing.
    assert not outcomes_of(Recall((4,)), flat)["text_to_image@4"].tie_U.any()


def test_ranks_of_a_gallery_with_ties() -> None:
    text, image = rank(np.array([[0.5, 0.9], [0.5, 0.9], [0.7, 0.1]]), np.eye(3, 2, dtype=bool))
    assert text.greater_Q.tolist() == [1, 0]
    assert text.equal_Q.tolist() == [1, 1]
    assert text.true_Q.tolist() == [1, 1]
    assert text.gallery == 3
    assert text.top_QK.tolist() == [[2, 0, 1], [0, 1, 2]]
    assert text.top_score_QK[0].tolist() == [0.7, 0.5, 0.5]
    # The third image has no caption and is no query.
    assert image.greater_Q.tolist() == [1, 0, -1]


def test_tie_eps_reaches_the_ranks() -> None:
    text, _ = rank(np.array([[0.50], [0.51], [0.60]]), np.array([[1], [0], [0]]) > 0, tie_eps=0.02)
    assert (text.greater_Q[0], text.equal_Q[0]) == (1, 1)


def test_damaged_images_leave_the_gallery(case: Make) -> None:
    score_PC = np.array([[0.9, 0.1, 0.2], [NAN, NAN, NAN], [0.1, 0.2, 0.9]])
    text, image = rank(score_PC, np.eye(3, dtype=bool))
    assert text.gallery == 2
    assert text.greater_Q.tolist() == [0, -1, 0]
    assert image.greater_Q.tolist() == [0, -1, 0]
    result = outcomes_of(Recall((1,)), [case(score_PC, np.eye(3))])
    assert result["text_to_image@1"].chance_U[0] == 1 / 2
    assert np.isnan(result["text_to_image@1"].value_U).tolist() == [False, True, False]
    assert text.top_QK[0].tolist() == [0, 2, -1]
    assert np.isnan(text.top_score_QK[0, 2])


def test_damaged_captions_leave_theirs() -> None:
    score_PC = np.array([[0.9, NAN, 0.2], [0.1, NAN, 0.3], [0.1, NAN, 0.9]])
    text, image = rank(score_PC, np.eye(3, dtype=bool))
    assert text.greater_Q.tolist() == [0, -1, 0]
    assert image.greater_Q.tolist() == [0, -1, 0]
    assert image.gallery == 2


def test_any_other_gap_makes_its_queries_invalid() -> None:
    score_PC = np.array([[0.9, np.inf, 0.2], [0.1, 0.5, 0.3], [0.1, 0.2, 0.9]])
    text, image = rank(score_PC, np.eye(3, dtype=bool))
    assert text.greater_Q.tolist() == [0, -1, 0]
    assert image.greater_Q.tolist() == [-1, 0, 0]


def test_everything_damaged() -> None:
    text, image = rank(np.full((2, 2), NAN), np.eye(2, dtype=bool))
    assert text.gallery == image.gallery == 0
    assert np.isnan(hits(text, 1)[0]).all()
    assert hit_chance(0, text.true_Q, 1).tolist() == [0, 0]


def test_bad_shapes() -> None:
    with pytest.raises(UnbagError, match=r"scores of shape \(2, 3\)"):
        rank(np.zeros((2, 3)), np.eye(2, dtype=bool))
    with pytest.raises(UnbagError, match=r"a block of scores has shape \(1, 2\)"):
        rank_blocks(lambda start, stop: np.zeros((1, 2)), np.eye(2, dtype=bool))


galleries = st.tuples(st.integers(1, 6), st.integers(1, 6)).flatmap(
    lambda shape: st.tuples(
        hnp.arrays(np.float64, shape, elements=st.sampled_from([0.0, 0.1, 0.2, 0.3, NAN])),
        hnp.arrays(np.bool_, shape),
    )
)


@given(galleries, st.integers(1, 4))
def test_blocks_and_sparse_truth_change_nothing(
    gallery: tuple[FloatArray, np.ndarray], rows: int
) -> None:
    score_PC, true_PC = gallery
    row_T, column_T = np.nonzero(true_PC)
    order_T = np.random.default_rng(0).permutation(len(row_T))
    sparse = Sparse(true_PC.shape, row_T[order_T], column_T[order_T])
    whole = rank(score_PC, true_PC, keep=3)
    parts = rank_blocks(lambda a, b: score_PC[a:b], sparse, rows=rows, keep=3)
    for outcome, other in zip(whole, parts, strict=True):
        for field in ("greater_Q", "equal_Q", "true_equal_Q", "true_Q", "top_QK", "top_score_QK"):
            np.testing.assert_array_equal(getattr(outcome, field), getattr(other, field))
        assert outcome.gallery == other.gallery


@given(galleries)
def test_ranks_agree_with_a_plain_loop(gallery: tuple[FloatArray, np.ndarray]) -> None:
    score_PC, true_PC = gallery
    alive_P = [p for p in range(len(score_PC)) if np.isfinite(score_PC[p]).any()]
    text, _ = rank(score_PC, true_PC)
    for query in range(score_PC.shape[1]):
        column = {p: score_PC[p, query] for p in alive_P}
        true = [p for p in alive_P if true_PC[p, query]]
        if not true or not column or not np.isfinite(list(column.values())).all():
            assert text.greater_Q[query] == -1
            continue
        best = max(column[p] for p in true)
        false = [column[p] for p in alive_P if p not in true]
        assert text.greater_Q[query] == sum(s > best for s in false)
        assert text.equal_Q[query] == sum(s == best for s in false)
        assert text.true_equal_Q[query] == sum(column[p] == best for p in true)
        assert text.true_Q[query] == len(true)
        assert text.top_score_QK[query, 0] == max(column.values())


def ranks(greater: int, equal: int, true_equal: int) -> Ranks:
    return Ranks(
        greater_Q=np.array([greater]),
        equal_Q=np.array([equal]),
        true_equal_Q=np.array([true_equal]),
        true_Q=np.array([true_equal]),
        gallery=9,
        top_QK=np.zeros((1, 0), dtype=np.int64),
        top_score_QK=np.zeros((1, 0)),
    )


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_half_is_the_mean_over_all_ways_to_break_ties(k: int) -> None:
    tied = ["false"] * 3 + ["true"] * 2
    ways = [order[: max(0, k - 1)] for order in permutations(tied)]
    expected = sum("true" in first for first in ways) / len(ways)
    assert hits(ranks(1, 3, 2), k, ties="half")[0][0] == pytest.approx(expected)


def test_hit_chance_formula() -> None:
    assert hit_chance(1000, np.array([1]), 5)[0] == pytest.approx(5 / 1000)
    # 1 - C(20,5)/C(25,5) = 1 - 15504/53130
    assert hit_chance(25, np.array([5]), 5)[0] == pytest.approx(1 - 15504 / 53130)
    assert hit_chance(3, np.array([1]), 10)[0] == 1.0


def pair(case: Make, original: FloatArray, shuffled: FloatArray) -> list[Case]:
    return [
        case(original, np.eye(len(original)), name="k", group="g", tags={"order": "kept"}),
        case(shuffled, np.eye(len(original)), name="s", group="g", tags={"order": "shuffled"}),
    ]


def test_retention(case: Make) -> None:
    original = np.eye(4)
    shuffled = np.eye(4)[[0, 1, 3, 2]]
    (result,) = Retention()(pair(case, original, shuffled), ties="wrong", tie_eps=0.0)
    assert result.metric == "retention"
    assert result.value_U.tolist() == [1, 1, 0, 0]
    assert result.weight_U.tolist() == [1, 1, 1, 1]
    assert np.isnan(result.chance_U).all()
    assert result.tags[0] == {"order": "kept"}
    original[0, 0] = -1.0
    (result,) = Retention()(pair(case, original, shuffled), ties="wrong", tie_eps=0.0)
    assert result.value_U.sum() / result.weight_U.sum() == pytest.approx(2 / 3)


def test_retention_nan_and_empty(case: Make) -> None:
    damaged = np.eye(3)
    damaged[1] = NAN
    (result,) = Retention()(pair(case, np.eye(3), damaged), ties="wrong", tie_eps=0.0)
    assert np.isnan(result.value_U).tolist() == [False, True, False]
    assert outcomes_of(Retention(), [])["retention"].units == ()


def test_retention_needs_partners_of_one_size(case: Make) -> None:
    original, shuffled = pair(case, np.eye(3), np.eye(3))
    with pytest.raises(
        UnbagError, match="item 's' has order=shuffled, but its group has no original"
    ):
        Retention()([shuffled], ties="wrong", tie_eps=0.0)
    other = pair(case, np.eye(4), np.eye(4))[1]
    with pytest.raises(UnbagError, match="items 'k' and 's' cannot be compared"):
        Retention()([original, other], ties="wrong", tie_eps=0.0)


def test_kept_ranks_give_the_same_as_scores(case: Make) -> None:
    whole = case(SCORES, TRUE, name="g")
    row_T, column_T = np.nonzero(TRUE)
    item = Item("g", whole.item.images, whole.item.captions, Sparse(TRUE.shape, row_T, column_T))
    text, image = rank(SCORES, item.truth)
    lean = Case(item, Scores("g", None, text_to_image=text, image_to_text=image))
    expected = outcomes_of(Recall(), [whole])
    for name, result in outcomes_of(Recall(), [lean]).items():
        assert result.units == expected[name].units
        assert result.clusters == expected[name].clusters
        np.testing.assert_array_equal(result.value_U, expected[name].value_U)
        np.testing.assert_array_equal(result.chance_U, expected[name].chance_U)
    one_way = Case(item, Scores("g", None, text_to_image=text))
    assert outcomes_of(Recall(), [one_way])["image_to_text@1"].units == ()
    assert outcomes_of(Recall(), [])["text_to_image@1"].units == ()
