"""The tensor cache: damage, parallel processes and kills, memory limits, tables."""

import gc
import itertools
import os
import shutil
import signal
from functools import partial
from pathlib import Path
from time import time
from typing import Any

import pytest
import torch
from tests.contracts.jobs import ended, forked, small_disk

from unbag.errors import UnbagError
from unbag.runs import cache as module
from unbag.runs import files
from unbag.runs.cache import TensorCache, default_cache
from unbag.runs.files import is_full
from unbag.runs.progress import Silent

VECTORS = torch.arange(12.0).reshape(3, 4)
KEYS = ["é", 'quote"', "new\nline"]


PADDED = ("token", "mask", "mark")


def opened(folder: Path | None, progress: Silent | None = None, **options: Any) -> TensorCache:
    return TensorCache(folder, progress=progress or Silent(), **options)


def filled(folder: Path | None) -> TensorCache:
    cache = opened(folder)
    cache.put(KEYS, {"vector": VECTORS})
    return cache


@pytest.mark.parametrize("has_folder", [True, False])
def test_round_trip(tmp_path: Path, has_folder: bool) -> None:
    cache = filled(tmp_path if has_folder else None)
    again = opened(tmp_path) if has_folder else cache
    first, second, last = KEYS
    assert again.missing([last, first, "unknown"]) == ["unknown"]
    assert torch.equal(again.get([last, first])["vector"], VECTORS[[2, 0]])
    assert second in again
    assert "unknown" not in again
    assert again.get([]) == {}
    assert sorted(again._location_of) == sorted(KEYS)
    assert len(list(tmp_path.iterdir())) == has_folder


@pytest.mark.parametrize("damage", ["cut", "flip", "junk", "empty"])
def test_damaged_file_is_reported_and_computed_again(tmp_path: Path, damage: str) -> None:
    filled(tmp_path)
    (path,) = tmp_path.glob("*.safetensors")
    content = path.read_bytes()
    flipped = content[:-1] + bytes([content[-1] ^ 1])
    path.write_bytes({"cut": content[:-5], "flip": flipped, "junk": b"junk", "empty": b""}[damage])
    progress = Silent()
    again = opened(tmp_path, progress)
    assert again.missing(KEYS) == KEYS
    assert f"cache file {path.name} cannot be used" in progress.said[0]
    assert "computing it again" in progress.said[0]
    assert not path.exists()
    again.put(KEYS, {"vector": VECTORS})
    assert torch.equal(opened(tmp_path).get(KEYS[1:2])["vector"], VECTORS[1:2])


def test_files_of_another_version_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "old.safetensors").write_bytes(b"vectors of an older version")
    progress = Silent()
    filled(tmp_path)
    assert opened(tmp_path, progress).missing(KEYS) == []
    assert progress.said == []
    assert (tmp_path / "old.safetensors").exists()


def write_rows(folder: str, who: int, *, killed_at: int | None = None) -> None:
    """Batches that others write too, and some of its own."""
    if killed_at is not None:
        real, count = files.settle, itertools.count()

        def settle(path: Path, mode: int) -> None:
            real(path, mode)
            if next(count) == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)

        files.settle = settle
    cache = opened(Path(folder))
    for i in range(40):
        cache.put([f"shared-{i}"], {"vector": torch.full((1, 8), float(i))})
        cache.put([f"own-{who}-{i}"], {"vector": torch.full((1, 8), 100.0 * who + i)})


def test_parallel_processes_and_a_kill(tmp_path: Path) -> None:
    running = [forked(write_rows, str(tmp_path), who) for who in (1, 2)]
    # In the middle of writing a row of its own.
    running.append(forked(partial(write_rows, killed_at=21), str(tmp_path), 3))
    assert [ended(process) for process in running] == [0, 0, -signal.SIGKILL]
    progress = Silent()
    found = opened(tmp_path, progress)
    expected = {f"shared-{i}": i for i in range(40)}
    expected |= {f"own-{who}-{i}": 100 * who + i for who in (1, 2) for i in range(40)}
    expected |= {f"own-3-{i}": 300 + i for i in range(10)}
    assert found.missing(expected) == []
    assert found.missing(["own-3-10"]) == ["own-3-10"]
    assert found.get(list(expected))["vector"][:, 0].tolist() == list(expected.values())
    assert progress.said == []
    # What was half written may be of a process that still writes, until it is old.
    (left,) = tmp_path.glob(".*.part")
    os.utime(left, (0, time() - 25 * 3600))
    opened(tmp_path)
    assert not left.exists()


def test_file_deleted_while_in_use(tmp_path: Path) -> None:
    cache = several(tmp_path / "cache", max_bytes=1)
    assert cache.missing("abcde") == []
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(UnbagError, match="was deleted or damaged while it was in use") as error:
        cache.get(list("abcde"))
    assert error.value.hint.startswith("give the same command again")
    cache.put(["f"], tokens(1, 2, 2))
    assert opened(tmp_path / "cache").missing("ef") == ["e"]


def test_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "8k") as enlarge:
        cache = opened(tmp_path / "disk")
        rows = torch.zeros((3, 8_192))
        with pytest.raises(UnbagError, match=r"no room is left on the disk of .*/disk") as error:
            cache.put(KEYS, {"vector": rows})
        assert is_full(error.value)
        assert "--cache names another folder" in error.value.hint
        assert not list((tmp_path / "disk").iterdir())
        enlarge("1m")
        cache.put(KEYS, {"vector": rows})
        assert opened(tmp_path / "disk").missing(KEYS) == []


def test_folder_that_is_not_writable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UnbagError, match="cannot write to the cache folder") as error:
        opened(tmp_path / "file" / "cache")
    assert "--cache" in str(error.value)


def test_default_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_cache() == Path("/somewhere/unbag")


def tokens(count: int, length: int, seed: int, marked: bool = True) -> dict[str, torch.Tensor]:
    drawn = torch.Generator().manual_seed(seed)
    found = {
        "token": torch.randn((count, length, 4), generator=drawn),
        "mask": torch.ones((count, length), dtype=torch.bool),
        "pooled": torch.randn((count, 4), generator=drawn),
    }
    if marked:
        found["mark"] = torch.randint(1, 9, (count, length), generator=drawn)
    return found


def several(folder: Path | None, *, max_bytes: int = 1 << 20, marked: bool = True) -> TensorCache:
    cache = opened(folder, max_bytes=max_bytes, padded=PADDED)
    cache.put(["a", "b", "c"], tokens(3, 2, 0, marked))
    cache.put(["d", "e"], tokens(2, 5, 1, marked))
    return cache


@pytest.mark.parametrize("keys", [["e", "b", "a", "d", "c"], ["c", "e", "a", "c"]])
@pytest.mark.parametrize("marked", [True, False])
def test_table_has_the_rows_of_the_files_padded_with_zeros(
    tmp_path: Path, keys: list[str], marked: bool
) -> None:
    several(tmp_path, marked=marked)
    again = opened(tmp_path, max_bytes=1 << 20, padded=PADDED)
    assert again.missing(keys) == []
    table = again.table(keys, "cpu")
    assert table is not None
    assert len(table.row_of) == len(set(keys)) == len(table.tensors["mask"])
    at = torch.tensor([table.row_of[key] for key in keys])
    rows = again.get(keys)
    assert rows.keys() == table.tensors.keys()
    assert all(torch.equal(value[at], rows[name]) for name, value in table.tensors.items())
    short = {name: value[at[keys.index("a")]] for name, value in table.tensors.items()}
    assert torch.equal(short["token"][:2], tokens(3, 2, 0, marked)["token"][0])
    assert short["token"][2:].abs().sum() == 0
    assert short["mask"].tolist() == [True, True, False, False, False]
    assert ("mark" in short) is marked


def test_table_is_in_memory_once_and_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = several(tmp_path)
    assert (len(cache._in_memory), cache._bytes) == (2, sum(b.nbytes for b in cache._in_memory))
    assert cache.table(["a", "d"], "cpu") is not None
    assert (len(cache._in_memory), cache._bytes) == (0, 0)
    # A row of five: 20 numbers of 4 bytes and 4 more, 5 of 1 byte, 5 of 8.
    assert several(tmp_path / "fits", max_bytes=5 * 141).table(list("abcde"), "cpu") is not None
    assert several(tmp_path / "not", max_bytes=5 * 141 - 1).table(list("abcde"), "cpu") is None
    assert cache.table([], "cpu") is None
    monkeypatch.setattr(module, "_free_bytes", lambda device: 5 * 141 - 1)
    assert cache.table(list("abcde"), "cpu") is None


def test_one_changed_bit_is_found(tmp_path: Path) -> None:
    several(tmp_path)
    for path in tmp_path.glob("*.safetensors"):
        content = bytearray(path.read_bytes())
        content[-30] ^= 4
        path.write_bytes(content)
    progress = Silent()
    again = opened(tmp_path, progress)
    assert again.missing("abcde") == list("abcde")
    assert len(progress.said) == 2
    assert all("its content does not match its name" in said for said in progress.said)


def test_rows_without_tokens(tmp_path: Path) -> None:
    opened(tmp_path, padded=PADDED).put(["a", "b"], tokens(2, 0, 0, marked=False))
    again = opened(tmp_path, padded=PADDED)
    assert again.missing(["a", "b"]) == []
    found = again.table(["b", "a"], "cpu")
    assert found is not None
    assert found.tensors["token"].shape == (2, 0, 4)


def test_eviction_to_temporary_files() -> None:
    cache = several(None, max_bytes=2)
    folder = cache._folder
    assert folder is not None
    assert len(cache._in_memory) == 1
    assert torch.equal(cache.get(["b"])["pooled"], tokens(3, 2, 0)["pooled"][1:2])
    assert torch.equal(cache.get(["e"])["mark"], tokens(2, 5, 1)["mark"][1:2])
    assert len(list(folder.iterdir())) == 2
    del cache
    gc.collect()
    assert not folder.exists()
