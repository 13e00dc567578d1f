"""Which captions of a batch are equal, and which negatives equal another caption."""

from hypothesis import given
from hypothesis import strategies as st

from unbag.losses.masks import equal_captions, negative_equal, same_pictures

CAPTIONS = ["A dog on a sofa.", "a cat on a mat", "a  dog on a sofa", "a dog on a sofa ."]


def test_case_spaces_and_a_final_stop_make_no_difference() -> None:
    assert equal_captions(CAPTIONS).tolist() == [
        [True, False, True, True],
        [False, True, False, False],
        [True, False, True, True],
        [True, False, True, True],
    ]


def test_words_order_and_stops_inside_make_a_difference() -> None:
    captions = ["a dog on a cat", "a cat on a dog", "a dog. on a cat", "a dogon a cat"]
    assert equal_captions(captions).int().sum() == len(captions)


def test_rows_of_one_picture() -> None:
    assert same_pictures(["1.jpg", "2.jpg", "1.jpg"]).int().tolist() == [
        [1, 0, 1],
        [0, 1, 0],
        [1, 0, 1],
    ]
    assert not same_pictures(["A.jpg", "a.jpg"])[0, 1]


def test_a_negative_that_is_the_caption_of_another_picture() -> None:
    captions = ["a dog on a cat", "a cat on a dog", "a bird"]
    negatives: list[list[str | None]] = [
        ["A cat on a dog.", None],
        [None, "a dog on a hat"],
        ["a bird", "a dog on a cat"],
    ]
    equal = negative_equal(captions, negatives)
    assert equal.shape == (3, 3, 2)
    # Caption 1 is negative 0 of caption 0; caption 0 is negative 1 of caption 2. An edit that gives
    # its own caption back (negative 0 of caption 2) is the editor's error, not a matter of batches.
    assert equal.nonzero().tolist() == [[0, 2, 1], [1, 0, 0]]


def test_captions_without_negatives_have_a_mask_without_columns() -> None:
    assert negative_equal(["a", "b"], [[], []]).shape == (2, 2, 0)


@given(st.lists(st.sampled_from(["a", "A", "b", "b.", "c d", " c  d"]), min_size=1, max_size=6))
def test_equal_captions_is_an_equivalence(captions: list[str]) -> None:
    equal = equal_captions(captions)
    assert equal.diagonal().all()
    assert (equal == equal.T).all()
    reached = (equal.int() @ equal.int()) > 0
    assert (reached == equal).all()
