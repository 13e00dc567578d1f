"""Weights come in; an error goes out if a number among them is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from unbag.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

_SHOWN = 3
"""Names of tensors in a message."""


def check_finite(state: Mapping[str, Tensor], *, source: str) -> None:
    """Raise if a tensor holds NaN or infinity: every score would be NaN, or wrong in silence."""
    bad = [name for name, tensor in state.items() if not _is_finite(tensor)]
    if not bad:
        return
    more = f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
    raise UserError(
        f"{len(bad)} of the {len(state)} tensors of {source} hold NaN or infinity: "
        f"{', '.join(bad[:_SHOWN])}{more}",
        expected="finite weights",
        way_out="take an earlier checkpoint: this training diverged, or the file is damaged",
    )


def _is_finite(tensor: Tensor) -> bool:
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    if tensor.dtype.itemsize == 1:
        tensor = tensor.float()
    # One pass without a copy: NaN is both the least and the largest, infinity one of them.
    return all(bool(value.isfinite()) for value in tensor.detach().aminmax())
