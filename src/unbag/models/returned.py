"""What a model returned comes in; tensors for a batch go out, or what to mend in the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unbag.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor


def as_tensor(returned: object, *, model: str) -> Tensor:
    """A tensor as it is, an array as a tensor; anything else is refused."""
    import torch

    if isinstance(returned, torch.Tensor):
        return returned
    if isinstance(returned, np.ndarray) and returned.dtype.kind in "fiub":
        # A copy: torch takes neither turned arrays nor, without a warning, those of other owners.
        return torch.from_numpy(np.array(returned))
    kind = f"an array of {returned.dtype}" if isinstance(returned, np.ndarray) else ""
    raise UserError(
        f"model {model!r} returned {kind or f'a {type(returned).__name__}'}",
        expected="a tensor, or an array of numbers",
        way_out="mend prepare, encode_pictures or encode_captions of this model",
    )


def of_one_size(prepared: Sequence[object], *, model: str) -> list[Tensor]:
    """Prepared pictures as tensors, if they make a batch; flat ones may differ in length."""
    found = [as_tensor(one, model=model) for one in prepared]
    other = next((one for one in found if one.shape != found[0].shape), None)
    if other is not None and any(one.ndim != 1 for one in found):
        raise UserError(
            f"model {model!r} prepared pictures of different sizes: {tuple(found[0].shape)} and "
            f"{tuple(other.shape)}",
            expected="one size for all pictures, so that they make a batch",
            way_out="resize and crop to one size in prepare of this model; flat tensors may "
            "differ in length and are filled up with zeros",
        )
    return found
