"""A CPU's stand-in for a recorded step: what a GPU would replay, operation by operation.

As a CUDA graph it knows tensors by where they lie, keeps every Python number of the step that was
recorded, runs no Python of it again, and refuses to ask a tensor for a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from unbag.training.optim import Memory, Snapshot

_ASKS = ("_local_scalar_dense", "nonzero", "masked_select", "equal")
"""Operations that wait for the device: no graph can hold them."""


class _Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Operations as they were run, with the tensors they were run on."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.taken: list[tuple[Any, Sequence[Any], Mapping[str, Any], list[Tensor]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func.overloadpacket.__name__ not in _ASKS, f"{func} asks the device"
        found = func(*args, **(kwargs or {}))
        self.taken.append((func, args, kwargs or {}, _tensors(found)))
        return found

    def play(self) -> None:
        with torch.no_grad():
            for func, args, kwargs, before in self.taken:
                given = {_place(one) for one in _tensors((args, kwargs))}
                for own, value in zip(before, _tensors(func(*args, **kwargs)), strict=True):
                    # A view, or what was changed in place, is there already.
                    if _place(own) not in given:
                        own.copy_(value)


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _place(one: Tensor) -> int:
    return one.untyped_storage().data_ptr()


class Replayed:
    """As `unbag.training.optim.Recorded`, for any device."""

    made = 0
    """How many there have been: a test that replays nothing shows nothing."""

    def __init__(
        self,
        step: Callable[[], Mapping[str, Tensor]],
        optimizer: torch.optim.Optimizer,
        *,
        device: str,
        other_tensors: Sequence[Tensor] = (),
        memory: Memory | None = None,
    ) -> None:
        weights = [w for group in optimizer.param_groups for w in group["params"]]
        before = Snapshot([*weights, *other_tensors], optimizer)
        for _ in range(3):
            step()
        optimizer.zero_grad(set_to_none=True)
        self._tape = _Tape()
        # Libraries look at it, and ask for nothing then.
        with patch.object(torch.cuda, "is_current_stream_capturing", return_value=True), self._tape:
            self._numbers = step()
        before.restore()
        Replayed.made += 1

    def __call__(self) -> dict[str, Tensor]:
        self._tape.play()
        return {name: value.clone() for name, value in self._numbers.items()}


def on_the_device(optimizer: torch.optim.AdamW) -> torch.optim.AdamW:
    """The same with its rate and count of steps in tensors, as it is on a GPU."""
    first = optimizer.param_groups[0]
    groups = [
        {"params": group["params"], "weight_decay": group["weight_decay"]}
        for group in optimizer.param_groups
    ]
    rate = torch.tensor(first["lr"])
    return torch.optim.AdamW(groups, lr=rate, betas=first["betas"], eps=first["eps"], fused=True)
