"""Batches of pictures come in; their prepared pixels go out, stacked, ahead of the model.

Three things run beside each other: threads open and prepare pictures, one thread stacks a batch and
copies it to the device, and the caller's thread runs the model on the batch before.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from unbag.models.fitting import is_out_of_memory
from unbag.models.ragged import even
from unbag.models.returned import of_one_size
from unbag.types import DualEncoder, Picture

if TYPE_CHECKING:
    from torch import Tensor

READERS = 8
"""Threads that open pictures. Decoding gives up the interpreter's lock, the rest does not: on 16
cores, 16 threads read a tenth fewer pictures a second than 8."""
_AHEAD = 2
"""Batches that are read or stacked before the model asks for them."""
_HEAD_START = 0.05
"""Seconds for which no thread begins a picture once a GPU's turn has begun. A forward pass asks for
the interpreter's lock hundreds of times: it takes 0.01 seconds alone, and under a profiler beside
eight readers it took 0.8."""
Taken = TypeVar("Taken")
Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Batch:
    """Pictures that were read together."""

    keys: Sequence[str]
    """Of the pictures that could be opened."""
    pixels: Tensor | None
    """A row a key; None if there is none."""
    damaged: Mapping[str, str]
    """The other keys, with the reason."""


@contextmanager
def reading(
    encoder: DualEncoder,
    picture_of: Mapping[str, Picture],
    todo: Iterable[Sequence[str]],
    *,
    turn: Turn,
) -> Iterator[Iterator[Batch]]:
    """The pictures of all batches; reading begins at once, before the first batch is asked for."""
    carry = Carrier(encoder.device)
    pool = ThreadPoolExecutor(min(READERS, os.cpu_count() or 1))

    def read(key: str) -> Tensor | str:
        turn.wait()
        try:
            return encoder.prepare(picture_of[key].open())
        except (OSError, ValueError) as error:
            return f"{type(error).__name__}: {error}"

    def gather(waiting: Mapping[str, Future[Tensor | str]]) -> Batch:
        found = {key: future.result() for key, future in waiting.items()}
        damaged = {key: one for key, one in found.items() if isinstance(one, str)}
        whole = {key: one for key, one in found.items() if not isinstance(one, str)}
        prepared = of_one_size(list(whole.values()), model=encoder.name)
        return Batch(list(whole), carry(prepared) if whole else None, damaged)

    asked = ({key: pool.submit(read, key) for key in keys} for keys in todo)
    try:
        with ahead(gather, asked) as batches:
            yield batches
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def ahead(make: Callable[[Taken], Made], inputs: Iterable[Taken]) -> Iterator[Iterator[Made]]:
    """`make` of each input in order, in a thread of its own that stays a little ahead."""
    worker, left = ThreadPoolExecutor(1), iter(inputs)
    waiting = deque(worker.submit(make, one) for one in islice(left, _AHEAD))

    def made() -> Iterator[Made]:
        while waiting:
            found = waiting.popleft().result()
            waiting.extend(worker.submit(make, one) for one in islice(left, 1))
            yield found

    try:
        yield made()
    finally:
        worker.shutdown(cancel_futures=True)


class Turn:
    """The model's turn, in a with statement: readers wait until it is over or well begun."""

    def __init__(self, device: str) -> None:
        """A model on the processor needs no head start: its passes take seconds."""
        self._seconds = 0.0 if device == "cpu" else _HEAD_START
        self._until = 0.0
        self._over = Event()

    def __enter__(self) -> None:
        """Begin."""
        self._over.clear()
        self._until = monotonic() + self._seconds

    def __exit__(self, *error: object) -> None:
        """Let the readers go on."""
        self._until = 0.0
        self._over.set()

    def wait(self) -> None:
        """Called by readers before each picture."""
        left = self._until - monotonic()
        if left > 0:
            self._over.wait(left)


class Carrier:
    """Stacks prepared pictures and, for a GPU, copies them there beside its other work."""

    def __init__(self, device: str) -> None:
        """Made where the model is run: a thread may have another current GPU."""
        import torch

        make: Any = torch.cuda.Stream
        self._stream = make(device) if device.startswith("cuda") else None

    def __call__(self, prepared: Sequence[Tensor]) -> Tensor:
        """As one batch; it stays on the processor where the GPU has no room for all of it.

        The copy is over when this returns. The caller must have used the batch before it lets go of
        it, since its memory then belongs to the next copy; asking for vectors on the CPU is enough.
        """
        import torch

        prepared = even(prepared)
        if self._stream is None:
            return torch.stack(list(prepared))
        shape = (len(prepared), *prepared[0].shape)
        # Memory that the GPU can fetch from by itself; PyTorch keeps it for the next batch.
        pinned = torch.empty(shape, dtype=prepared[0].dtype, pin_memory=True)
        if pinned.dtype == torch.bfloat16:
            torch.stack(list(prepared), out=pinned)
        else:
            # PyTorch would copy with threads of its own, which is slower beside a running model.
            np.stack([one.numpy() for one in prepared], out=pinned.numpy())
        try:
            with torch.cuda.stream(self._stream):
                placed = pinned.to(self._stream.device, non_blocking=True)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            return pinned
        self._stream.synchronize()
        return placed
