"""Parts of pictures or captions come in; files of one batch each, and rows of them, go out.

A file is named by what it holds and written once, as in the cache of vectors. Only some files are
in memory; or all rows that a run wants lie one after the other on the device, if they fit.

Dimensions: N pictures or captions, L patches or words, W width.
"""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from unbag.engine.atomic import make_folder, write_atomically
from unbag.engine.progress import Progress
from unbag.errors import UserError
from unbag.readouts.parts import Parts, stacked

if TYPE_CHECKING:
    from torch import Tensor

_VERSION = "parts-2"
_READERS = 8
"""Files that are read and checked at once."""


@dataclass(frozen=True, eq=False)
class Laid:
    """Rows in one array of each kind, and which of them is whose."""

    parts: Parts
    row_of: Mapping[str, int]
    """By key."""


class _Size(NamedTuple):
    """Of a row."""

    length: int
    nbytes: int


class PartsShelf:
    """Files of parts, of which the last used are in memory."""

    def __init__(self, folder: Path, progress: Progress, most_bytes: int) -> None:
        self._folder, self._progress, self._most = folder, progress, most_bytes
        make_folder(folder, what="cache folder", way_out="choose another with --cache")
        self._place_of: dict[str, tuple[Path, int]] = {}
        self._open: OrderedDict[Path, Parts] = OrderedDict()
        self._bytes = 0
        self._size_of: dict[Path, _Size] = {}
        """Of each file that was found sound."""
        for path in sorted(folder.glob("*.safetensors")):
            self._index(path)

    def __contains__(self, key: str) -> bool:
        return key in self._place_of

    def put(self, keys: Sequence[str], parts: Parts) -> None:
        """Write a batch, and keep it in memory for a while."""
        from safetensors.torch import save_file

        if len(parts) != len(keys):
            raise UserError(
                f"{len(parts)} rows of parts for {len(keys)} inputs", expected="a row for each"
            )
        tensors = {"part": parts.part_NLW, "mask": parts.mask_NL, "pooled": parts.pooled_NW}
        if parts.mark_NL is not None:
            tensors["mark"] = parts.mark_NL
        whole = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        path = self._folder / f"{_digest(keys, whole)}.safetensors"
        header = {"keys": json.dumps(list(keys))}
        write_atomically(path, lambda to: save_file(whole, to, metadata=header))
        self._place_of.update((key, (path, at)) for at, key in enumerate(keys))
        self._remember(
            path, Parts(whole["part"], whole["mask"], whole["pooled"], whole.get("mark"))
        )

    def get(self, keys: Sequence[str]) -> Parts:
        """Rows in the order of the keys; each file is opened once."""
        import torch

        wanted: dict[Path, list[int]] = {}
        for at, key in enumerate(keys):
            wanted.setdefault(self._place_of[key][0], []).append(at)
        found, order = [], []
        for path, places in wanted.items():
            rows = torch.tensor([self._place_of[keys[at]][1] for at in places])
            found.append(self._load(path).rows(rows))
            order += places
        every = stacked(found)
        return every.rows(torch.argsort(torch.tensor(order)))

    def laid(self, keys: Sequence[str], device: str) -> Laid | None:
        """Rows of these keys on a device, file after file; None where they are too large.

        A file leaves memory when its rows were copied, so that nothing lies there twice.
        """
        import torch

        wanted: dict[Path, list[str]] = {}
        for key in dict.fromkeys(keys):
            wanted.setdefault(self._place_of[key][0], []).append(key)
        count = sum(map(len, wanted.values()))
        most = min(self._most, _room(device))
        if not count or count * max(self._size_of[path].nbytes for path in wanted) > most:
            return None
        longest = max(self._size_of[path].length for path in wanted)
        table = _blank(self._load(next(iter(wanted))), count, longest, device)
        row_of: dict[str, int] = {}
        for path, some in wanted.items():
            # In the order of the file, so that a whole file is copied as it is.
            some.sort(key=lambda key: self._place_of[key][1])
            parts = self._load(path)
            if len(some) < len(parts):
                parts = parts.rows(torch.tensor([self._place_of[key][1] for key in some]))
            _fill(table, len(row_of), parts)
            row_of |= {key: len(row_of) + n for n, key in enumerate(some)}
            self._drop(path)
        return Laid(table, row_of)

    def _index(self, path: Path) -> None:
        from safetensors import safe_open

        try:
            with safe_open(path, framework="pt") as file:
                keys = json.loads(file.metadata()["keys"])
        except Exception as error:
            self._forget(path, error)
            return
        self._place_of.update((key, (path, at)) for at, key in enumerate(keys))

    def sound(self, keys: Sequence[str]) -> None:
        """Check files of these keys that were not checked yet; damaged ones are forgotten."""
        known = {self._place_of[key][0] for key in keys if key in self._place_of}
        todo = sorted(known - self._size_of.keys())
        if not todo:
            return
        # Disks and checksums need no interpreter; some at a time, since memory is bounded.
        with ThreadPoolExecutor(_READERS) as pool:
            for start in range(0, len(todo), _READERS):
                some = todo[start : start + _READERS]
                found = [pool.submit(_read, path, checks=True) for path in some]
                for path, one in zip(some, found, strict=True):
                    try:
                        self._remember(path, one.result())
                    except Exception as error:
                        self._forget(path, error)

    def _forget(self, path: Path, error: Exception) -> None:
        self._progress.say(f"cache file {path.name} cannot be used ({error}); computing it again")
        self._place_of = {key: at for key, at in self._place_of.items() if at[0] != path}
        # What is wrong with the file is wrong for good; a disk that did not answer is not.
        if not isinstance(error, OSError | MemoryError):
            path.unlink(missing_ok=True)

    def _load(self, path: Path) -> Parts:
        if path in self._open:
            self._open.move_to_end(path)
            return self._open[path]
        parts = _read(path, checks=False)
        self._remember(path, parts)
        return parts

    def _remember(self, path: Path, parts: Parts) -> None:
        self._size_of[path] = _Size(parts.part_NLW.shape[1], parts.nbytes // max(1, len(parts)))
        if path in self._open:
            return
        self._open[path] = parts
        self._bytes += parts.nbytes
        while self._bytes > self._most and len(self._open) > 1:
            self._bytes -= self._open.popitem(last=False)[1].nbytes

    def _drop(self, path: Path) -> None:
        parts = self._open.pop(path, None)
        self._bytes -= 0 if parts is None else parts.nbytes


def _read(path: Path, *, checks: bool) -> Parts:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        keys = json.loads(file.metadata()["keys"])
        whole = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if checks and _digest(keys, whole) != path.stem:
        raise ValueError("its content does not match its name")
    return Parts(whole["part"], whole["mask"], whole["pooled"], whole.get("mark"))


def _room(device: str) -> float:
    """For one of two tables, beside a model that works."""
    import torch

    return torch.cuda.mem_get_info(device)[0] / 4 if device.startswith("cuda") else math.inf


def _blank(like: Parts, count: int, longest: int, device: str) -> Parts:
    def empty(tensor: Tensor, *shape: int) -> Tensor:
        return tensor.new_empty((count, *shape), device=device)

    return Parts(
        empty(like.part_NLW, longest, like.part_NLW.shape[2]),
        empty(like.mask_NL, longest),
        empty(like.pooled_NW, like.pooled_NW.shape[1]),
        None if like.mark_NL is None else empty(like.mark_NL, longest),
    )


def _fill(table: Parts, start: int, parts: Parts) -> None:
    """Rows from `start` on; zeros behind those that are shorter than the table."""
    rows, length = slice(start, start + len(parts)), parts.part_NLW.shape[1]
    pairs = [(table.part_NLW, parts.part_NLW), (table.mask_NL, parts.mask_NL)]
    if table.mark_NL is not None and parts.mark_NL is not None:
        pairs.append((table.mark_NL, parts.mark_NL))
    for whole, some in pairs:
        whole[rows, :length] = some
        whole[rows, length:] = 0
    table.pooled_NW[rows] = parts.pooled_NW


def _digest(keys: Sequence[str], tensors: Mapping[str, Tensor]) -> str:
    """Of the keys, and a checksum of the numbers: a disk that fails is feared here, and no forger.

    A hash of all numbers would take longer than to read them.
    """
    digest = blake2b(json.dumps([_VERSION, list(keys)]).encode(), digest_size=16)
    for name, value in sorted(tensors.items()):
        number = crc32(value.contiguous().numpy().data)
        digest.update(f"{name} {tuple(value.shape)} {value.dtype} {number}".encode())
    return digest.hexdigest()
