"""A cache of embeddings on disk, by model and by the content that was embedded.

A shelf is a folder of small immutable files, each one batch, named by the hash of what it holds.
No locks are needed: two processes that compute the same batch write the same file, and a file
appears whole or not at all. It works on network disks and can be deleted at any time.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unbag.runs.files import make_folder, write_atomically
from unbag.runs.progress import Progress

Vectors = NDArray[np.float32]


class Shelf:
    """The cached vectors of one model and one kind of input; in memory only if folder is None."""

    def __init__(self, folder: Path | None, *, progress: Progress) -> None:
        """Reads the list of keys of every batch file, not yet the vectors."""
        self._folder = folder
        self._progress = progress
        self._file_of: dict[str, Path] = {}
        self._vector_of: dict[str, Vectors] = {}
        if folder is not None:
            make_folder(
                folder, what="cache folder", way_out="choose another with --cache, or --no-cache"
            )
            for path in sorted(folder.glob("*.safetensors")):
                self._index(path)

    def __contains__(self, key: str) -> bool:
        """True if the vector is known, before its file was checked."""
        return key in self._vector_of or key in self._file_of

    def get(self, keys: Iterable[str]) -> dict[str, Vectors]:
        """The vectors of those keys that are known; a damaged file is reported and left out."""
        wanted = [key for key in keys if key in self]
        for path in sorted({self._file_of[key] for key in wanted if key not in self._vector_of}):
            self._load(path)
        return {key: self._vector_of[key] for key in wanted if key in self._vector_of}

    def put(self, keys: Sequence[str], vector_ND: Vectors) -> None:
        """Store a batch of vectors, on disk too if there is a folder."""
        vector_ND = np.ascontiguousarray(vector_ND, dtype=np.float32)
        self._vector_of.update(zip(keys, vector_ND, strict=True))
        if self._folder is None:
            return
        from safetensors.numpy import save_file

        path = self._folder / f"{_digest(keys, vector_ND)}.safetensors"
        header = {"keys": json.dumps(list(keys))}
        write_atomically(path, lambda to: save_file({"vectors": vector_ND}, to, metadata=header))

    def _index(self, path: Path) -> None:
        from safetensors import safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                keys = json.loads(file.metadata()["keys"])
        except Exception as error:
            self._forget(path, error)
            return
        self._file_of.update(dict.fromkeys(keys, path))

    def _load(self, path: Path) -> None:
        from safetensors import safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                keys = json.loads(file.metadata()["keys"])
                vector_ND = file.get_tensor("vectors")
            if _digest(keys, vector_ND) != path.stem:
                raise ValueError("its content does not match its name")
        except Exception as error:
            self._forget(path, error)
            return
        # A key may stand in two files; the one it was indexed under counts.
        self._vector_of.update(
            (key, vector)
            for key, vector in zip(keys, vector_ND, strict=True)
            if self._file_of.get(key) == path
        )

    def _forget(self, path: Path, error: Exception) -> None:
        self._progress.say(f"cache file {path.name} cannot be used ({error}); computing it again")
        self._file_of = {key: at for key, at in self._file_of.items() if at != path}
        # What is wrong with the file is wrong for good; a disk that did not answer is not.
        if not isinstance(error, OSError | MemoryError):
            path.unlink(missing_ok=True)


def open_shelf(cache: Path | None, fingerprint: str, kind: str, *, progress: Progress) -> Shelf:
    """The shelf of a model's pictures or captions; memory only when there is no cache folder."""
    return Shelf(cache / fingerprint / kind if cache else None, progress=progress)


def default_cache() -> Path:
    """The folder of the cache unless the user names another."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unbag"
    except RuntimeError:
        # A container may run as a user without a home.
        return Path(tempfile.gettempdir()) / "unbag"


def _digest(keys: Sequence[str], vector_ND: Vectors) -> str:
    digest = blake2b(json.dumps(list(keys)).encode(), digest_size=16)
    digest.update(repr(vector_ND.shape).encode())
    digest.update(vector_ND.tobytes())
    return digest.hexdigest()
