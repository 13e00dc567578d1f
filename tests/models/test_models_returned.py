"""What models of users return: tensors, arrays, and what makes no batch."""

import numpy as np
import pytest
import torch

from unbag.errors import UnbagError
from unbag.models.batching import Fitting, as_tensor, of_one_size


def test_arrays_are_taken_as_tensors() -> None:
    array = np.arange(6.0).reshape(2, 3)
    assert as_tensor(array[::-1], model="m").tolist() == [[3, 4, 5], [0, 1, 2]]
    array.flags.writeable = False
    assert as_tensor(array, model="m").dtype == torch.float64
    tensor = torch.zeros(2)
    assert as_tensor(tensor, model="m") is tensor


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        ([[1.0]], "model 'm' returned a list"),
        (None, "model 'm' returned a NoneType"),
        (np.array(["a"]), "model 'm' returned an array of <U1"),
    ],
)
def test_anything_else_is_refused(returned: object, found: str) -> None:
    with pytest.raises(UnbagError) as caught:
        as_tensor(returned, model="m")
    assert caught.value.message == found
    assert "encode_captions of this model" in caught.value.hint


def test_batches_that_come_as_arrays_are_joined() -> None:
    def encode(inputs: torch.Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return inputs.numpy() * 2

    fitting = Fitting("m", lambda text: None, most=2)
    assert fitting(encode, torch.arange(5.0)).tolist() == [0, 2, 4, 6, 8]  # type: ignore[arg-type]


def test_images_of_different_sizes_are_named_with_both() -> None:
    prepared = [torch.zeros(3, 4, 4), torch.zeros(3, 4, 4), torch.zeros(3, 4, 6)]
    assert len(of_one_size(prepared[:2], model="m")) == 2
    with pytest.raises(UnbagError) as caught:
        of_one_size(prepared, model="m")
    assert caught.value.message == (
        "model 'm' prepared images of different sizes: (3, 4, 4) and (3, 4, 6)"
    )
    assert caught.value.hint.startswith("resize and crop to one size in prepare of this model")


def test_flat_ones_may_differ_in_length() -> None:
    assert [len(one) for one in of_one_size([torch.zeros(3), np.zeros(5)], model="m")] == [3, 5]
