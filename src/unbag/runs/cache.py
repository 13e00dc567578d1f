"""A cache of tensors by key: vectors, tokens and layers of a model, each computed once.

A folder holds small immutable files, each one batch of rows, named by the hash of what it holds. No
locks are needed: two processes that compute the same batch write the same file, and a file appears
whole or not at all. It works on network disks and can be deleted at any time; a run that needs a
deleted file once more ends and says so.

Dimensions: N rows; a tensor of a row may have any.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import weakref
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from unbag.errors import UnbagError, said_by
from unbag.runs.files import (
    explain_full_disk,
    make_folder,
    remove_leftovers,
    write_atomically,
)
from unbag.runs.progress import Progress

if TYPE_CHECKING:
    from torch import Tensor

Vectors = NDArray[np.float32]
Tensors: TypeAlias = "Mapping[str, Tensor]"
"""By name, each with a row for every input."""
VECTOR = "vector"
"""Name of the tensor where a row is one vector."""
_VERSION = "rows-1"
_ENDING = f".{_VERSION}.safetensors"
_READERS = 8
"""Files that are read and checked at once."""
_ABANDONED_HOURS = 24
"""A half-written file that is older belongs to a process that was killed."""
_RESUMES = "what is in the cache is not computed again; --cache names another place"


class TensorCache:
    """Rows of one or several tensors by key, in memory and in files."""

    def __init__(
        self,
        folder: Path | None,
        *,
        progress: Progress,
        max_bytes: int | None = None,
        padded: Collection[str] = (),
    ) -> None:
        """Reads the keys of every file, not yet the tensors.

        Args:
            folder: Where files are; None keeps rows in memory, and those that leave it in a
                temporary folder.
            progress: Shows which files cannot be used.
            max_bytes: Of rows in memory. The batches that were not used for longest leave first.
            padded: Tensors whose rows differ in length: batches are padded with zeros to the
                longest when they are put together.
        """
        self._folder, self._progress = folder, progress
        self._max_bytes = math.inf if max_bytes is None else max_bytes
        self._padded = frozenset(padded)
        self._place_of: dict[str, tuple[_Batch, int]] = {}
        self._in_memory: OrderedDict[_Batch, None] = OrderedDict()
        self._bytes = 0
        if folder is not None:
            make_folder(
                folder, what="cache folder", hint="choose another with --cache, or --no-cache"
            )
            remove_leftovers(folder, hours=_ABANDONED_HOURS)
            for path in sorted(folder.glob(f"*{_ENDING}")):
                try:
                    batch = _Batch(_keys_in(path), path)
                except Exception as error:
                    self._report(path, error)
                else:
                    self._place_of.update((key, (batch, at)) for at, key in enumerate(batch.keys))

    def __contains__(self, key: str) -> bool:
        """True if the row is known, before its file was checked."""
        return key in self._place_of

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Keys without a row, in their order; damaged files are reported and forgotten."""
        keys = list(keys)
        batches = {self._place_of[key][0] for key in keys if key in self._place_of}
        todo = [batch for batch in batches if not batch.is_checked]
        todo.sort(key=lambda batch: str(batch.path))
        if todo:
            # Disks and checksums need no interpreter; some at a time, since memory is bounded.
            with ThreadPoolExecutor(_READERS) as pool:
                for start in range(0, len(todo), _READERS):
                    some = todo[start : start + _READERS]
                    found = [pool.submit(batch.read, checks=True) for batch in some]
                    for batch, one in zip(some, found, strict=True):
                        try:
                            self._remember(batch, one.result())
                        except Exception as error:
                            for key in batch.keys:
                                if self._place_of[key][0] is batch:
                                    del self._place_of[key]
                            assert batch.path is not None
                            self._report(batch.path, error)
        return [key for key in keys if key not in self._place_of]

    def put(self, keys: Sequence[str], tensors: Tensors) -> None:
        """Add a batch of rows, written to one file if there is a folder."""
        whole = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        for value in whole.values():
            if len(value) != len(keys):
                raise UnbagError(
                    f"{len(value)} rows of features for {len(keys)} inputs",
                    expected="a row for each",
                )
        batch = _Batch(keys)
        if self._folder is not None:
            with explain_full_disk(self._folder, resumes=_RESUMES):
                # Somebody may have deleted it.
                self._folder.mkdir(parents=True, exist_ok=True)
                batch.write(whole, self._folder)
        self._place_of.update((key, (batch, at)) for at, key in enumerate(keys))
        self._remember(batch, whole)

    def get(self, keys: Sequence[str]) -> dict[str, Tensor]:
        """The rows of these keys, in their order, all of which must be known."""
        import torch

        places: dict[_Batch, list[int]] = {}
        for at, key in enumerate(keys):
            places.setdefault(self._place_of[key][0], []).append(at)
        found: list[dict[str, Tensor]] = []
        for batch, some in places.items():
            row_M = torch.tensor([self._place_of[keys[at]][1] for at in some])
            found.append({name: v[row_M] for name, v in self._load(batch).items()})
        rows = concatenated(found, padded=self._padded)
        order = [at for some in places.values() for at in some]
        if order == list(range(len(keys))):
            return rows
        back_N = torch.argsort(torch.tensor(order))
        return {name: value[back_N] for name, value in rows.items()}

    def table(self, keys: Iterable[str], device: str) -> FeatureTable | None:
        """The rows of these keys on a device; None where they are too large, or there are none.

        A batch leaves memory when its rows were copied, so that nothing is there twice.
        """
        import torch

        places: dict[_Batch, list[str]] = {}
        for key in dict.fromkeys(keys):
            places.setdefault(self._place_of[key][0], []).append(key)
        count = sum(map(len, places.values()))
        largest = min(self._max_bytes, _free_bytes(device))
        if not count or count * max(batch.row_bytes for batch in places) > largest:
            return None
        tensors: dict[str, Tensor] = {}
        row_of: dict[str, int] = {}
        for batch, some in places.items():
            # In the order of the file, so that a whole file is copied as it is.
            some.sort(key=lambda key: self._place_of[key][1])
            rows = self._load(batch)
            at_M = torch.tensor([self._place_of[key][1] for key in some])
            start, stop = len(row_of), len(row_of) + len(some)
            for name, value in rows.items():
                if name not in tensors:
                    shape = [count, *value.shape[1:]]
                    if name in self._padded:
                        shape[1] = max(one.length_of[name] for one in places)
                    tensors[name] = value.new_zeros(shape, device=device)
                value = value if len(some) == len(value) else value[at_M]
                whole = tensors[name][start:stop]
                (whole[:, : value.shape[1]] if name in self._padded else whole).copy_(value)
            row_of |= {key: start + n for n, key in enumerate(some)}
            self._drop(batch)
        return FeatureTable(row_of, tensors)

    def _load(self, batch: _Batch) -> dict[str, Tensor]:
        if batch.tensors is None:
            try:
                tensors = batch.read(checks=not batch.is_checked)
            except Exception as error:
                assert batch.path is not None
                raise UnbagError(
                    f"the cache file {batch.path} went away or was damaged while it was in use: "
                    f"{said_by(error)}",
                    expected="a cache that is left alone while something runs",
                    hint="give the same command again: what is missing is computed again",
                ) from error
            self._remember(batch, tensors)
        else:
            self._in_memory.move_to_end(batch)
        assert batch.tensors is not None
        return batch.tensors

    def _remember(self, batch: _Batch, tensors: dict[str, Tensor]) -> None:
        batch.tensors, batch.is_checked = tensors, True
        batch.length_of = {name: v.shape[1] for name, v in tensors.items() if name in self._padded}
        rows = max(map(len, tensors.values()), default=0)
        batch.row_bytes = batch.nbytes // max(1, rows)
        self._in_memory[batch] = None
        self._bytes += batch.nbytes
        while self._bytes > self._max_bytes and len(self._in_memory) > 1:
            self._drop(next(iter(self._in_memory)))

    def _drop(self, batch: _Batch) -> None:
        """Out of memory; into a temporary file if it has none."""
        if batch.tensors is None:
            return
        if batch.path is None:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="unbag-features-"))
                weakref.finalize(self, rmtree, self._folder, ignore_errors=True)
            batch.write(batch.tensors, self._folder)
        del self._in_memory[batch]
        self._bytes -= batch.nbytes
        batch.tensors = None

    def _report(self, path: Path, error: Exception) -> None:
        """A file that cannot be used is computed again; a damaged one is deleted."""
        self._progress.say(f"cache file {path.name} cannot be used ({error}); computing it again")
        # What is wrong with the file is wrong for good; a disk that did not answer is not.
        if not isinstance(error, OSError | MemoryError):
            path.unlink(missing_ok=True)


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Rows in one tensor of each name, on one device, and which of them is whose."""

    row_of: Mapping[str, int]
    tensors: Tensors
    damaged: Mapping[str, str] = field(default_factory=dict)
    """Inputs that could not be read, with the reason."""

    @property
    def vectors(self) -> Tensor:
        """The only tensor, where a row is one vector."""
        return self.tensors[VECTOR]

    def to(self, device: str) -> FeatureTable:
        """The same on another device."""
        tensors = {name: value.to(device) for name, value in self.tensors.items()}
        return FeatureTable(self.row_of, tensors, self.damaged)


def concatenated(every: Sequence[Tensors], *, padded: Collection[str]) -> dict[str, Tensor]:
    """Batches one after the other; those of the names in `padded` with zeros to the longest."""
    import torch
    from torch.nn.functional import pad

    found = {}
    for name in every[0] if every else ():
        tensors = [batch[name] for batch in every]
        if name in padded:
            longest = max(one.shape[1] for one in tensors)
            rest = [longest - one.shape[1] for one in tensors]
            tensors = [
                pad(one, (*(0, 0) * (one.ndim - 2), 0, more)) if more else one
                for one, more in zip(tensors, rest, strict=True)
            ]
        found[name] = torch.cat(tensors)
    return found


def default_cache() -> Path:
    """The folder of the cache unless the user names another."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unbag"
    except RuntimeError:
        # A container may run as a user without a home.
        return Path(tempfile.gettempdir()) / "unbag"


@dataclass(eq=False)
class _Batch:
    """Rows that were added together: in a file, in memory, or both."""

    keys: Sequence[str]
    path: Path | None = None
    tensors: dict[str, Tensor] | None = None
    is_checked: bool = False
    row_bytes: int = 0
    length_of: dict[str, int] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        return sum(value.nbytes for value in (self.tensors or {}).values())

    def read(self, *, checks: bool = False) -> dict[str, Tensor]:
        """Tensors of the file; ValueError where its content does not match its name."""
        from safetensors import safe_open

        assert self.path is not None
        with safe_open(self.path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if checks and f"{_digest(self.keys, tensors)}{_ENDING}" != self.path.name:
            raise ValueError("its content does not match its name")
        return tensors

    def write(self, tensors: dict[str, Tensor], folder: Path) -> None:
        from safetensors.torch import save_file

        self.path = folder / f"{_digest(self.keys, tensors)}{_ENDING}"
        header = {"keys": json.dumps(list(self.keys))}
        write_atomically(self.path, lambda to: save_file(tensors, to, metadata=header))


def _keys_in(path: Path) -> list[str]:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        keys: list[str] = json.loads(file.metadata()["keys"])
    return keys


def _digest(keys: Sequence[str], tensors: Tensors) -> str:
    """Of the keys, and a checksum of the numbers: a disk that fails is feared here, and no forger.

    A hash of all numbers would take longer than to read them.
    """
    digest = blake2b(json.dumps([_VERSION, list(keys)]).encode(), digest_size=16)
    for name, value in sorted(tensors.items()):
        number = crc32(value.contiguous().numpy().data)
        digest.update(f"{name} {tuple(value.shape)} {value.dtype} {number}".encode())
    return digest.hexdigest()


def _free_bytes(device: str) -> float:
    """For one of two tables, beside a model that computes."""
    if not device.startswith("cuda"):
        return math.inf
    import torch

    return torch.cuda.mem_get_info(device)[0] / 4
