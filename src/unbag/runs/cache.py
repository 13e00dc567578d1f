"""A cache of tensors by key: vectors, tokens and layers of a model, each computed once.

A folder holds small immutable files. Each holds one batch of rows and is named by the hash of its
content. No locks are needed: two processes that compute the same batch write the same file, and
files are written atomically. The cache works on network disks and can be deleted at any time; a run
that still needs a deleted file ends with an error.

Dimensions: N rows, M rows of one batch; the tensor of a row may have any shape.
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
"""Tensors by name, each with one row per input."""
VECTOR = "vector"
"""Name of the tensor when each row is a single vector."""
_VERSION = "rows-1"
_ENDING = f".{_VERSION}.safetensors"
_READERS = 8
"""Number of files that are read and checked in parallel."""
_ABANDONED_HOURS = 24
"""Age after which a temporary file is assumed to be left by a killed process."""
_RESUMES = "what is in the cache is not computed again; --cache names another folder"


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
        """Read the keys of every file, not yet the tensors.

        Args:
            folder: Folder of the cache files. None keeps rows in memory and evicts them to a
                temporary folder.
            progress: Reports files that cannot be used.
            max_bytes: Memory limit of the rows; the least recently used batches are evicted first.
            padded: Names of tensors whose rows differ in length: when batches are joined, they are
                padded with zeros to the longest.
        """
        self._folder, self._progress = folder, progress
        self._max_bytes = math.inf if max_bytes is None else max_bytes
        self._padded = frozenset(padded)
        self._location_of: dict[str, tuple[_Batch, int]] = {}
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
                    self._add_keys(batch)

    def __contains__(self, key: str) -> bool:
        """Return whether the row is cached; its file may not have been checked yet."""
        return key in self._location_of

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Return keys without a row, in order; damaged files are reported and dropped."""
        keys = list(keys)
        batches = {self._location_of[key][0] for key in keys if key in self._location_of}
        unchecked = [batch for batch in batches if not batch.is_checked]
        unchecked.sort(key=lambda batch: str(batch.path))
        if unchecked:
            # Reading and checksums release the GIL; a few files at a time, since memory is bounded.
            with ThreadPoolExecutor(_READERS) as pool:
                for start in range(0, len(unchecked), _READERS):
                    group = unchecked[start : start + _READERS]
                    futures = [pool.submit(batch.read, checks=True) for batch in group]
                    for batch, future in zip(group, futures, strict=True):
                        try:
                            self._remember(batch, future.result())
                        except Exception as error:
                            for key in batch.keys:
                                if self._location_of[key][0] is batch:
                                    del self._location_of[key]
                            assert batch.path is not None
                            self._report(batch.path, error)
        return [key for key in keys if key not in self._location_of]

    def put(self, keys: Sequence[str], tensors: Tensors) -> None:
        """Add a batch of rows; it is written to one file if there is a folder."""
        on_cpu = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        for value in on_cpu.values():
            if len(value) != len(keys):
                raise UnbagError(
                    f"{len(value)} rows of features for {len(keys)} inputs",
                    expected="a row for each",
                )
        batch = _Batch(keys)
        if self._folder is not None:
            with explain_full_disk(self._folder, resumes=_RESUMES):
                # The user may have deleted it meanwhile.
                self._folder.mkdir(parents=True, exist_ok=True)
                batch.write(on_cpu, self._folder)
        self._add_keys(batch)
        self._remember(batch, on_cpu)

    def get(self, keys: Sequence[str]) -> dict[str, Tensor]:
        """Return the rows of these keys, in order; all must be cached."""
        import torch

        positions: dict[_Batch, list[int]] = {}
        for i, key in enumerate(keys):
            positions.setdefault(self._location_of[key][0], []).append(i)
        parts: list[dict[str, Tensor]] = []
        for batch, batch_positions in positions.items():
            row_M = torch.tensor([self._location_of[keys[i]][1] for i in batch_positions])
            parts.append({name: v[row_M] for name, v in self._load(batch).items()})
        rows = concatenated(parts, padded=self._padded)
        order = [i for batch_positions in positions.values() for i in batch_positions]
        if order == list(range(len(keys))):
            return rows
        back_N = torch.argsort(torch.tensor(order))
        return {name: value[back_N] for name, value in rows.items()}

    def table(self, keys: Iterable[str], device: str) -> FeatureTable | None:
        """Copy the rows of these keys to a device; None if they are too large or there are none.

        Each batch is evicted once its rows are copied, so that no row is in memory twice.
        """
        import torch

        keys_of: dict[_Batch, list[str]] = {}
        for key in dict.fromkeys(keys):
            keys_of.setdefault(self._location_of[key][0], []).append(key)
        count = sum(map(len, keys_of.values()))
        limit = min(self._max_bytes, _free_bytes(device))
        if not count or count * max(batch.row_bytes for batch in keys_of) > limit:
            return None
        tensors: dict[str, Tensor] = {}
        row_of: dict[str, int] = {}
        for batch, batch_keys in keys_of.items():
            # In the order of the file, so that a complete file is copied without indexing.
            batch_keys.sort(key=lambda key: self._location_of[key][1])
            rows = self._load(batch)
            row_M = torch.tensor([self._location_of[key][1] for key in batch_keys])
            start, stop = len(row_of), len(row_of) + len(batch_keys)
            for name, value in rows.items():
                if name not in tensors:
                    shape = [count, *value.shape[1:]]
                    if name in self._padded:
                        shape[1] = max(other.length_of[name] for other in keys_of)
                    tensors[name] = value.new_zeros(shape, device=device)
                value = value if len(batch_keys) == len(value) else value[row_M]
                target = tensors[name][start:stop]
                (target[:, : value.shape[1]] if name in self._padded else target).copy_(value)
            row_of |= {key: start + i for i, key in enumerate(batch_keys)}
            self._drop(batch)
        return FeatureTable(row_of, tensors)

    def _add_keys(self, batch: _Batch) -> None:
        self._location_of.update((key, (batch, row)) for row, key in enumerate(batch.keys))

    def _load(self, batch: _Batch) -> dict[str, Tensor]:
        if batch.tensors is None:
            try:
                tensors = batch.read(checks=not batch.is_checked)
            except Exception as error:
                assert batch.path is not None
                raise UnbagError(
                    f"the cache file {batch.path} was deleted or damaged while it was in use: "
                    f"{said_by(error)}",
                    expected="a cache that does not change during a run",
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
        """Evict a batch from memory, to a temporary file if it has no file."""
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
        """Report a file that cannot be used, and delete it if it is damaged."""
        self._progress.say(f"cache file {path.name} cannot be used ({error}); computing it again")
        # A damaged file stays damaged; a disk that did not answer may answer later.
        if not isinstance(error, OSError | MemoryError):
            path.unlink(missing_ok=True)


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Tensors by name on one device, and the row of each key."""

    row_of: Mapping[str, int]
    tensors: Tensors
    damaged: Mapping[str, str] = field(default_factory=dict)
    """Reason for each input that could not be read."""

    @property
    def vectors(self) -> Tensor:
        """The tensor of single vectors."""
        return self.tensors[VECTOR]

    def to(self, device: str) -> FeatureTable:
        """Copy the table to another device."""
        tensors = {name: value.to(device) for name, value in self.tensors.items()}
        return FeatureTable(self.row_of, tensors, self.damaged)


def concatenated(batches: Sequence[Tensors], *, padded: Collection[str]) -> dict[str, Tensor]:
    """Concatenate batches; tensors named in `padded` are padded with zeros to the longest."""
    import torch
    from torch.nn.functional import pad

    joined = {}
    for name in batches[0] if batches else ():
        tensors = [batch[name] for batch in batches]
        if name in padded:
            longest = max(tensor.shape[1] for tensor in tensors)
            gaps = [longest - tensor.shape[1] for tensor in tensors]
            tensors = [
                pad(tensor, (*(0, 0) * (tensor.ndim - 2), 0, missing)) if missing else tensor
                for tensor, missing in zip(tensors, gaps, strict=True)
            ]
        joined[name] = torch.cat(tensors)
    return joined


def default_cache() -> Path:
    """Return the default folder of the cache."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unbag"
    except RuntimeError:
        # A container may run as a user without a home folder.
        return Path(tempfile.gettempdir()) / "unbag"


@dataclass(eq=False)
class _Batch:
    """Rows that were added together, in a file, in memory, or both."""

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
        """Read the tensors; ValueError if the content does not match the file name."""
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
    """Hash the keys and a checksum of the numbers, to detect failing disks, not tampering.

    A cryptographic hash of all numbers would take longer than reading them.
    """
    digest = blake2b(json.dumps([_VERSION, list(keys)]).encode(), digest_size=16)
    for name, value in sorted(tensors.items()):
        checksum = crc32(value.contiguous().numpy().data)
        digest.update(f"{name} {tuple(value.shape)} {value.dtype} {checksum}".encode())
    return digest.hexdigest()


def _free_bytes(device: str) -> float:
    """Return the memory limit of one of two tables beside a running model."""
    if not device.startswith("cuda"):
        return math.inf
    import torch

    return torch.cuda.mem_get_info(device)[0] / 4
