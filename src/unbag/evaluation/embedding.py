"""Encode the unique pictures and captions of a run, each once, with a cache on disk.

Three things run beside each other: threads open and prepare pictures, one thread stacks a batch and
copies it to the device, and the caller's thread runs the model on the batch before.
Dimensions: N inputs, D joint space.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from unbag.errors import UserError
from unbag.evaluation.plan import Plan
from unbag.models.batching import Fitting, even, is_out_of_memory, of_one_size
from unbag.runs.cache import Shelf, Vectors, open_shelf
from unbag.runs.distributed import ALONE, Team
from unbag.runs.progress import Progress
from unbag.types import DualEncoder, Ensemble, Picture

if TYPE_CHECKING:
    from torch import Tensor

Grid = list[list[str]]
"""Batches of cache keys. Made once for a run and kept in its folder, so that a continued run
computes whole batches of the same make-up and gets the same bits."""
READERS = 8
"""Threads that open pictures. Decoding gives up the interpreter's lock, the rest does not: on 16
cores, 16 threads read a tenth fewer pictures a second than 8."""
_AHEAD = 2
"""Batches that are read or stacked before the model asks for them."""
_HEAD_START = 0.05
"""Seconds for which no thread begins a picture once a GPU's turn has begun. A forward pass asks for
the interpreter's lock hundreds of times: it takes 0.01 seconds alone, and under a profiler beside
eight readers it took 0.8."""
_CAPTIONS_ON_GPU = 4
"""Caption batches in picture batches: a caption of 15 tokens is little work, and a batch of 256
ends on a GPU before the next has been asked for."""


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The vectors of a plan, in its order."""

    picture_ND: Vectors
    """NaN rows for pictures that could not be opened."""
    caption_ND: Vectors
    damaged: Mapping[str, str]
    """Name of each picture that could not be opened, with the reason."""
    truncated: int
    """Prompts longer than the model's context."""


def embed(
    encoder: DualEncoder,
    plan: Plan,
    *,
    cache: Path | None,
    batch: int,
    progress: Progress,
    grids: dict[str, Grid] | None = None,
    save_grids: Callable[[], None] = lambda: None,
    team: Team = ALONE,
    compare: Callable[[Tensor, Tensor], object] | None = None,
) -> Embeddings:
    """Encode what the cache does not hold; `grids` is filled on the first run, obeyed later.

    Without `grids` nothing is continued: the batches are planned anew.

    A team shares the batches out; then each process has the vectors of all, from the cache.
    `compare` is tried on a picture of each batch, so that vectors which do not go together are told
    of before the rest is encoded.
    """
    grids = {} if grids is None else grids
    tokens = dict(zip(plan.prompts, encoder.count_tokens(plan.prompts), strict=True))
    # Sorted by length, so that a batch runs at its real length instead of the longest caption's.
    prompts = sorted(plan.prompts, key=lambda prompt: (tokens[prompt], prompt))
    prompt_of = {_text_key(prompt): prompt for prompt in prompts}
    picture_of = dict(zip(plan.picture_keys, plan.pictures, strict=True))

    shelves = {
        kind: open_shelf(cache, shelf_name(encoder), kind, progress=progress)
        for kind in ("captions", "pictures")
    }
    for kind, keys in (("captions", prompt_of), ("pictures", picture_of)):
        name = f"{shelf_name(encoder)}/{kind}"
        size = caption_batch(encoder.device, batch) if kind == "captions" else batch
        grids.setdefault(name, make_grid(list(keys), shelves[kind], size))
    if team.is_leader:
        save_grids()
    grids.update(team.gather(grids)[0])
    todo = {
        kind: team.mine(_todo(grids[f"{shelf_name(encoder)}/{kind}"], keys, shelves[kind]))
        for kind, keys in (("captions", prompt_of), ("pictures", picture_of))
    }
    # Nobody writes before everybody knows what is his.
    team.wait()
    _embed_prompts(encoder, prompt_of, shelves["captions"], todo["captions"], progress)
    known = next(iter(shelves["captions"].get(prompt_of).values()), None)

    def try_out(picture_ND: Vectors) -> None:
        import torch

        if compare is not None and known is not None:
            compare(torch.from_numpy(picture_ND[:1]), torch.from_numpy(known[None]))

    found = _embed_pictures(
        encoder, picture_of, shelves["pictures"], todo["pictures"], progress, try_out
    )
    damaged = {key: why for one in team.gather(found) for key, why in one.items()}
    if team.size > 1:
        shelves = {
            kind: open_shelf(cache, shelf_name(encoder), kind, progress=progress)
            for kind in shelves
        }
    vector_of = shelves["captions"].get(prompt_of)
    rows = [_caption_vector(caption, vector_of) for caption in plan.captions]
    return Embeddings(
        picture_ND=_stack(shelves["pictures"], plan.picture_keys, damaged),
        caption_ND=np.stack(rows) if rows else np.zeros((0, 0), np.float32),
        damaged={picture_of[key].name: reason for key, reason in damaged.items()},
        truncated=sum(count > encoder.context for count in tokens.values()),
    )


def shelf_name(encoder: DualEncoder) -> str:
    """What cached vectors depend on: the model and the kind of device, which rounds its way."""
    return f"{encoder.fingerprint}-{encoder.device.partition(':')[0]}"


def caption_batch(device: str, batch: int) -> int:
    """Captions encoded together where `batch` pictures are."""
    return batch * (_CAPTIONS_ON_GPU if device.startswith("cuda") else 1)


def make_grid(keys: Sequence[str], shelf: Shelf, batch: int) -> Grid:
    """Batches over the keys that are not on the shelf yet, in the order given."""
    missing = [key for key in keys if key not in shelf]
    return [missing[i : i + batch] for i in range(0, len(missing), batch)]


def _todo(grid: Grid, known: Mapping[str, object], shelf: Shelf) -> Grid:
    """Batches with a vector that is missing or was found damaged, and batches for the unplanned.

    A planned batch is done again whole if any of it is missing; see Grid.
    """
    have = shelf.get(known)
    planned = {key for batch in grid for key in batch}
    todo = [batch for batch in grid if any(key in known and key not in have for key in batch)]
    todo = [[key for key in batch if key in known] for batch in todo]
    stray = [key for key in known if key not in have and key not in planned]
    size = max((len(batch) for batch in grid), default=256)
    return todo + [stray[i : i + size] for i in range(0, len(stray), size)]


def _embed_prompts(
    encoder: DualEncoder,
    prompt_of: Mapping[str, str],
    shelf: Shelf,
    todo: Grid,
    progress: Progress,
) -> None:
    fitting = Fitting(encoder.name, progress.say)
    with progress.task(f"{encoder.name}: captions", sum(map(len, todo))) as advance:
        for keys in todo:
            vectors = fitting(encoder.encode_captions, [prompt_of[key] for key in keys])
            shelf.put(keys, _checked(vectors, len(keys), encoder.name))
            advance(len(keys))


def _embed_pictures(
    encoder: DualEncoder,
    picture_of: Mapping[str, Picture],
    shelf: Shelf,
    todo: Grid,
    progress: Progress,
    try_out: Callable[[Vectors], None],
) -> dict[str, str]:
    damaged: dict[str, str] = {}
    fitting, turn = Fitting(encoder.name, progress.say), Turn(encoder.device)
    with (
        progress.task(f"{encoder.name}: pictures", sum(map(len, todo))) as advance,
        reading(encoder, picture_of, todo, turn=turn) as batches,
    ):
        for batch in batches:
            damaged.update(batch.damaged)
            if batch.pixels is not None:
                with turn:
                    vectors = fitting(encoder.encode_pictures, batch.pixels)
                vector_ND = _checked(vectors, len(batch.keys), encoder.name)
                try_out(vector_ND)
                shelf.put(batch.keys, vector_ND)
            advance(len(batch.keys) + len(batch.damaged))
    return damaged


def _checked(vectors: Tensor, expected: int, name: str) -> Vectors:
    array = vectors.detach().float().cpu().numpy().copy()
    if array.ndim != 2 or len(array) != expected:
        raise UserError(
            f"model {name!r} returned vectors of shape {array.shape} for {expected} inputs",
            expected=f"({expected}, D)",
            way_out="mend encode_pictures / encode_captions of this model",
        )
    norm_N = np.linalg.norm(array, axis=1)
    # A vector of zeros has no direction: its scores are invalid, not equal.
    array[norm_N == 0] = np.nan
    wrong = norm_N[(norm_N > 0) & (np.abs(norm_N - 1) > 1e-3)]
    if len(wrong):
        raise UserError(
            f"model {name!r} returned a vector of norm {wrong[0]:.4g}",
            expected="unit vectors (see unbag.types.DualEncoder)",
            way_out="divide each vector by its norm in encode_pictures / encode_captions",
        )
    return array


def _caption_vector(caption: str | Ensemble, vector_of: Mapping[str, Vectors]) -> Vectors:
    if isinstance(caption, str):
        return vector_of[_text_key(caption)]
    mean: Vectors = np.mean([vector_of[_text_key(p)] for p in caption.prompts], axis=0)
    return mean / np.linalg.norm(mean)


def _stack(shelf: Shelf, keys: Sequence[str], damaged: Mapping[str, str]) -> Vectors:
    if not keys:
        return np.zeros((0, 0), np.float32)
    have = shelf.get(keys)
    width = len(next(iter(have.values()))) if have else 1
    empty = np.full(width, np.nan, dtype=np.float32)
    return np.stack([empty if key in damaged else have[key] for key in keys])


def _text_key(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, eq=False)
class ReadBatch:
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
) -> Iterator[Iterator[ReadBatch]]:
    """The pictures of all batches; reading begins at once, before the first batch is asked for."""
    carry = Carrier(encoder.device)
    pool = ThreadPoolExecutor(min(READERS, os.cpu_count() or 1))

    def read(key: str) -> Tensor | str:
        turn.wait()
        try:
            return encoder.prepare(picture_of[key].open())
        except (OSError, ValueError) as error:
            return f"{type(error).__name__}: {error}"

    def gather(waiting: Mapping[str, Future[Tensor | str]]) -> ReadBatch:
        found = {key: future.result() for key, future in waiting.items()}
        damaged = {key: one for key, one in found.items() if isinstance(one, str)}
        whole = {key: one for key, one in found.items() if not isinstance(one, str)}
        prepared = of_one_size(list(whole.values()), model=encoder.name)
        return ReadBatch(list(whole), carry(prepared) if whole else None, damaged)

    asked = ({key: pool.submit(read, key) for key in keys} for keys in todo)
    try:
        with ahead(gather, asked) as batches:
            yield batches
    finally:
        pool.shutdown(cancel_futures=True)


Taken = TypeVar("Taken")
Made = TypeVar("Made")


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
