from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from unbag.errors import UnbagError
from unbag.metrics import (
    Choice,
    Classify,
    Flips,
    PickImage,
    class_weights,
)
from unbag.types import Case, Ensemble, Item, Outcomes, Scores, TieRule

Make = Callable[..., Case]


def accuracy(cases: list[Case], ties: TieRule = "wrong") -> Outcomes:
    (result,) = Choice()(cases, ties=ties, tie_eps=0.0)
    assert result.metric == "accuracy"
    return result


PRC = ([0.5, 0.4, 0.45, 0.5, 0.3], [0.4, 0.5, 0.3, 0.2, 0.1], [0.6, 0.5, 0.4, 0.3, 0.2])


def test_order_precision_worked_example(case: Make) -> None:
    cases = [case(row, [1, 0, 0, 0, 0], name=f"i{i}") for i, row in enumerate(PRC)]
    assert accuracy(cases, "argmax_first").value_U.mean() == pytest.approx(2 / 3)
    strict = accuracy(cases)
    assert strict.value_U.mean() == pytest.approx(1 / 3)
    assert strict.tie_U.tolist() == [True, False, False]
    assert strict.chance_U.tolist() == [0.2] * 3


def test_chance_follows_the_options_that_remain(case: Make) -> None:
    cases = [case([0.5, 0.4], [1, 0], name="a"), case([0.5, 0.4, 0.1, 0.2], [1, 0, 0, 0], name="b")]
    assert accuracy(cases).chance_U.mean() == pytest.approx((1 / 2 + 1 / 4) / 2)


def test_units_carry_tags_clusters_and_unread_answers(case: Make) -> None:
    result = accuracy(
        [
            case([0.5, 0.4], [1, 0], name="a", image="x", tags={"kind": "swap"}, unparsed=2),
            case([0.4, 0.5], [1, 0], name="b", image="x"),
            case([0.5, 0.4], [1, 0], name="c", group="g"),
        ]
    )
    assert result.units == ("a", "b", "c")
    assert result.clusters == ("x:0", "x:0", "g")
    assert result.tags[0] == {"kind": "swap"}
    assert result.unparsed_U.tolist() == [2, 0, 0]
    assert result.weight_U.tolist() == [1, 1, 1]


def test_items_that_ask_nothing_are_left_out(case: Make) -> None:
    result = accuracy(
        [
            case([0.5], [1], name="no false one left"),
            case([[0.5, 0.4], [0.1, 0.2]], [[1, 0], [0, 1]], name="two images"),
            case([0.5, 0.4], [1, 0], name="kept"),
        ]
    )
    assert result.units == ("kept",)


def test_nan_is_invalid_and_empty_is_empty(case: Make) -> None:
    result = accuracy([case([0.5, np.nan], [1, 0])])
    assert np.isnan(result.value_U[0])
    assert accuracy([]).value_U.shape == (0,)


def test_ratings_are_refused(case: Make) -> None:
    base = case([0.5, 0.4], [1, 0], name="rated")
    rated = Item("rated", base.item.images, base.item.captions, np.array([[0.5, 3.0]]))
    with pytest.raises(UnbagError, match="item 'rated' has ratings, not true and false") as error:
        accuracy([Case(rated, base.scores)])
    assert "set a threshold in the loader" in str(error.value)


@pytest.mark.parametrize("values", [None, np.zeros((1, 3))])
def test_scores_must_be_a_full_matrix(case: Make, values: np.ndarray | None) -> None:
    base = case([0.5, 0.4], [1, 0], name="odd")
    with pytest.raises(UnbagError, match=r"item 'odd' comes with .*(only ranks|\(1, 3\))") as error:
        accuracy([Case(base.item, Scores("odd", values))])
    assert "expected: scores of shape (1, 2)" in str(error.value)


def test_class_weights_worked_example() -> None:
    prompts = [np.array([[1, 0], [0.8, 0.6]]), np.array([[0, 1], [0.6, 0.8]])]
    weight_CD = class_weights(["first", "second"], prompts)
    expected = [[0.948683, 0.316228], [0.316228, 0.948683]]
    np.testing.assert_allclose(weight_CD, expected, atol=1e-6)
    np.testing.assert_allclose(weight_CD @ [0.6, 0.8], [0.822192, 0.948683], atol=1e-6)


def test_class_weights_ignore_the_length_of_prompt_vectors() -> None:
    scaled = [np.array([[5.0, 0], [0.8, 0.6]])]
    np.testing.assert_allclose(class_weights(["one"], scaled)[0], [0.948683, 0.316228], atol=1e-6)
    assert np.isnan(class_weights(["one"], [np.zeros((1, 2))])).all()


def test_class_weights_refuse_bad_classes() -> None:
    with pytest.raises(UnbagError, match="class names given more than once: crane") as error:
        class_weights(["crane", "crane"], [np.ones((1, 2))] * 2)
    assert "'crane (bird)'" in str(error.value)
    with pytest.raises(UnbagError, match="class 'dog' has no prompts"):
        class_weights(["dog"], [np.zeros((0, 2))])


def test_classification(case: Make) -> None:
    row = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
    cases = [case(row, np.arange(6) == t, name=f"p{t}", tags={"class": str(t)}) for t in range(6)]
    top1, top5 = Classify()(cases, ties="wrong", tie_eps=0.0)
    assert (top1.metric, top5.metric) == ("accuracy", "top5")
    assert top1.value_U.tolist() == [1, 0, 0, 0, 0, 0]
    assert top5.value_U.tolist() == [1, 1, 1, 1, 1, 0]
    assert top1.chance_U[0] == pytest.approx(1 / 6)
    assert top5.chance_U[0] == pytest.approx(5 / 6)
    assert top5.tags[2] == {"class": "2"}


def test_top5_ties(case: Make) -> None:
    tied = case([0.5] * 10, np.arange(10) == 3)
    for ties, expected in (("wrong", 0.0), ("half", 0.5), ("right", 1.0)):
        _, top5 = Classify()([tied], ties=ties, tie_eps=0.0)  # type: ignore[arg-type]
        assert top5.value_U[0] == pytest.approx(expected)
        assert top5.tie_U[0]


def test_top5_says_nothing_about_five_classes(case: Make) -> None:
    result = Classify()([case([0.5, 0.4, 0.3, 0.2, 0.1], [1, 0, 0, 0, 0])], ties="wrong", tie_eps=0)
    assert [outcome.metric for outcome in result] == ["accuracy"]


def test_classification_nan_empty_and_repeated_names(case: Make) -> None:
    result = Classify()([case([np.nan] * 6, [1, 0, 0, 0, 0, 0])], ties="wrong", tie_eps=0.0)
    assert all(np.isnan(outcome.value_U[0]) for outcome in result)
    assert len(Classify()([], ties="wrong", tie_eps=0.0)[0].units) == 0
    base = case([0.5, 0.4], [1, 0])
    captions = (Ensemble("crane", ("a crane",)), Ensemble("crane", ("a photo of a crane",)))
    item = Item("twice", base.item.images, captions, base.item.truth)
    with pytest.raises(UnbagError, match="more than once: crane"):
        Classify()([Case(item, base.scores)], ties="wrong", tie_eps=0.0)


def test_picking_an_image(case: Make) -> None:
    cases = [
        case([[0.3], [0.2]], [[1], [0]], name="right"),
        case([[0.3], [0.4]], [[1], [0]], name="wrong"),
        case([[0.3], [0.3], [0.1]], [[1], [0], [0]], name="tied"),
        case([[0.3], [0.1]], [[1], [1]], name="nothing to pick"),
        case([0.3, 0.1], [1, 0], name="another shape"),
    ]
    (result,) = PickImage()(cases, ties="wrong", tie_eps=0)
    assert result.units == ("right", "wrong", "tied")
    assert result.value_U.tolist() == [1, 0, 0]
    assert result.tie_U.tolist() == [False, False, True]
    assert result.chance_U.tolist() == [1 / 2, 1 / 2, 1 / 3]


def flips(case: Case) -> Outcomes:
    (outcomes,) = Flips()([case], ties="wrong", tie_eps=0.0)
    return outcomes


def test_a_choice_that_follows_the_letter_flips(case: Make) -> None:
    items = case(np.zeros((2, 2)), np.eye(2), name="set")
    # Image 0 picks caption 0 in both orders; image 1 whatever stands first.
    orders = ((-0.1, -2.0), (-0.2, -1.0), (-0.1, -2.0), (-3.0, -0.5))
    result = flips(Case(items.item, replace(items.scores, order_logprobs=orders)))
    assert result.units == ("set/picture 0", "set/picture 1")
    assert result.value_U.tolist() == [0.0, 1.0]
    assert np.isnan(result.chance_U).all()


def test_a_tie_chooses_nothing_and_no_order_asks_nothing(case: Make) -> None:
    items = case([0.1, 0.2], [1, 0])
    level = Case(items.item, replace(items.scores, order_logprobs=((-1.0, -1.0), (-1.0, -2.0))))
    result = flips(level)
    assert result.value_U.tolist() == [1.0]
    assert result.tie_U.tolist() == [True]
    lost = Case(items.item, replace(items.scores, order_logprobs=((np.nan, -1.0), (-1.0, -2.0))))
    assert np.isnan(flips(lost).value_U).all()
