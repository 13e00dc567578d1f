"""Images cut into cells that change places."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbag.data import PixelImage
from unbag.data.images import GRIDS, ShuffledImage, rearranged
from unbag.errors import UnbagError
from unbag.types import ImageSource

KINDS = st.sampled_from(list(GRIDS))


def image(height: int, width: int, seed: int = 0) -> PixelImage:
    shape = (height, width, 3)
    return PixelImage(np.random.default_rng(seed).integers(256, size=shape, dtype=np.uint8))


def test_rows_as_in_the_example() -> None:
    numbers = np.arange(16, dtype=np.uint8).reshape(4, 4)
    assert rearranged(numbers, (4, 1), [2, 0, 3, 1]).tolist() == [
        [8, 9, 10, 11],
        [0, 1, 2, 3],
        [12, 13, 14, 15],
        [4, 5, 6, 7],
    ]
    assert rearranged(numbers, (1, 4), [3, 0, 1, 2])[0].tolist() == [3, 0, 1, 2]


def test_patches_are_counted_row_by_row_and_the_remainder_is_cropped() -> None:
    numbers = np.arange(20, dtype=np.uint8).reshape(4, 5)
    found = rearranged(numbers, (3, 3), [8, 0, 1, 2, 3, 4, 5, 6, 7])
    assert found.tolist() == [[12, 0, 1], [2, 5, 6], [7, 10, 11]]


@given(KINDS, st.integers(4, 12), st.integers(4, 12), st.integers(0, 5))
def test_pixels_stay_and_places_do_not(kind: str, height: int, width: int, seed: int) -> None:
    down, across = GRIDS[kind]
    whole = image(height, width)
    shuffled = np.asarray(ShuffledImage(whole, kind, seed).open())
    cropped = whole.pixels[: height - height % down, : width - width % across]
    assert shuffled.shape == cropped.shape
    assert sorted(shuffled.reshape(-1, 3).tolist()) == sorted(cropped.reshape(-1, 3).tolist())
    order = ShuffledImage(whole, kind, seed).order()
    assert sorted(order) == list(range(down * across))
    assert order != sorted(order)


def test_the_order_depends_on_seed_kind_and_content_only() -> None:
    one, other = image(8, 8), image(8, 8, seed=1)
    orders = {
        tuple(ShuffledImage(p, "patches_9", seed).order())
        for p in (one, other)
        for seed in range(5)
    }
    assert len(orders) == 10
    again = PixelImage(one.pixels.copy(), name="again")
    assert ShuffledImage(again, "rows_4", 3).order() == ShuffledImage(one, "rows_4", 3).order()


def test_keys_and_names_tell_shuffles_apart() -> None:
    whole = image(8, 8)
    made = [ShuffledImage(whole, kind, seed) for kind in GRIDS for seed in (0, 1)]
    assert len({one.key for one in made} | {whole.key}) == 7
    assert made[1].name == "pixels (rows_4, seed 1)"
    assert isinstance(made[0], ImageSource)


def test_an_image_smaller_than_its_cells_is_damaged_not_silently_whole() -> None:
    with pytest.raises(ValueError, match="2 x 9 pixels cannot be cut into 3 x 3 cells"):
        ShuffledImage(image(9, 2), "patches_9").open()


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(UnbagError, match="shuffle 'rows_5' is not known") as error:
        ShuffledImage(image(8, 8), "rows_5")
    assert error.value.expected == "one of rows_4, columns_4, patches_9"
