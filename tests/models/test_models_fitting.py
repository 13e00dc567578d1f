"""Batches that shrink until they fit, and fingerprints that change with any bit."""

import pytest
import torch
from torch import Tensor

from unbag.errors import UnbagError
from unbag.models.batching import Fitting, is_out_of_memory
from unbag.models.weights import fingerprint


class Small:
    """Holds at most `room` inputs, as a small device would."""

    def __init__(self, room: int) -> None:
        self.room, self.sizes = room, [0][:0]

    def __call__(self, inputs: Tensor) -> Tensor:
        if len(inputs) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        self.sizes.append(len(inputs))
        return inputs * 2


def test_a_batch_is_halved_until_it_fits_and_that_is_remembered() -> None:
    said: list[str] = []
    fitting, small = Fitting("m", said.append), Small(3)
    inputs = torch.arange(10.0)
    assert fitting(small, inputs).tolist() == (inputs * 2).tolist()
    assert small.sizes == [2, 2, 2, 2, 2]
    assert said == [
        "m: out of memory with 10 inputs at once, going on with 5",
        "m: out of memory with 5 inputs at once, going on with 2",
    ]
    fitting(small, inputs[:3])
    assert small.sizes[5:] == [2, 1]
    assert len(said) == 2


def test_one_input_that_does_not_fit_is_explained() -> None:
    with pytest.raises(UnbagError, match="m does not fit into memory with one input") as error:
        Fitting("m", lambda text: None)(Small(0), torch.zeros(2))
    assert "--dtype bfloat16" in str(error.value)


def test_other_errors_pass() -> None:
    def broken(inputs: Tensor) -> Tensor:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes"):
        Fitting("m", lambda text: None)(broken, torch.zeros(2))
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"))


def test_a_fingerprint_changes_with_every_bit_name_shape_and_word() -> None:
    weight = torch.arange(6.0)
    first = fingerprint("clip", {"a": weight}, "config")
    other = weight.clone()
    other[3] = torch.nextafter(other[3], torch.tensor(9.0))
    different = [
        fingerprint("clip", {"a": other}, "config"),
        fingerprint("clip", {"b": weight}, "config"),
        fingerprint("clip", {"a": weight.reshape(2, 3)}, "config"),
        fingerprint("clip", {"a": weight.bfloat16()}, "config"),
        fingerprint("clip", {"a": weight}, "confi", "g"),
        fingerprint("clip", {"a": weight, "c": torch.zeros(0)}, "config"),
    ]
    assert len({first, *different}) == 7
    assert first == fingerprint("clip", {"a": weight.clone()}, "config")
    assert first.startswith("clip-")
