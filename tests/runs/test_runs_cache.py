"""Rows on disk: whole or absent, shared by processes, bounded in memory, mended when damaged."""

import gc
import itertools
import json
import os
import shutil
import signal
from functools import partial
from pathlib import Path
from time import time

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
KEYS = ["a", "b", "c"]


def opened(folder: Path | None, progress: Silent | None = None) -> TensorCache:
    return TensorCache(folder, progress=progress or Silent())


def filled(folder: Path | None) -> TensorCache:
    cache = opened(folder)
    cache.put(KEYS, {"vector": VECTORS})
    return cache


def test_what_is_put_comes_back_in_another_process(tmp_path: Path) -> None:
    filled(tmp_path)
    again = opened(tmp_path)
    assert again.missing(["c", "a", "unknown"]) == ["unknown"]
    assert torch.equal(again.get(["c", "a"])["vector"], VECTORS[[2, 0]])
    assert "b" in again
    assert "unknown" not in again
    assert again.get([]) == {}


def test_without_a_folder_nothing_is_written(tmp_path: Path) -> None:
    memory = filled(None)
    assert torch.equal(memory.get(["b"])["vector"], VECTORS[1:2])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["cut", "flip", "junk", "empty"])
def test_a_damaged_file_is_said_and_forgotten(tmp_path: Path, damage: str) -> None:
    filled(tmp_path)
    (path,) = tmp_path.glob("*.safetensors")
    whole = path.read_bytes()
    flipped = whole[:-1] + bytes([whole[-1] ^ 1])
    path.write_bytes({"cut": whole[:-5], "flip": flipped, "junk": b"junk", "empty": b""}[damage])
    progress = Silent()
    again = opened(tmp_path, progress)
    assert again.missing(KEYS) == KEYS
    assert f"cache file {path.name} cannot be used" in progress.said[0]
    assert "computing it again" in progress.said[0]
    assert not path.exists()
    again.put(KEYS, {"vector": VECTORS})
    assert torch.equal(opened(tmp_path).get(["b"])["vector"], VECTORS[1:2])


def test_files_of_another_layout_are_left_alone(tmp_path: Path) -> None:
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


def test_processes_write_the_same_cache_at_once_and_one_is_killed(tmp_path: Path) -> None:
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


def test_a_file_that_goes_away_while_it_is_in_use_is_named(tmp_path: Path) -> None:
    cache = several(tmp_path / "cache", max_bytes=1)
    assert cache.missing("abcde") == []
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(UnbagError, match="went away or was damaged while it was in use") as error:
        cache.get(list("abcde"))
    assert error.value.hint.startswith("give the same command again")
    cache.put(["f"], tokens(1, 2, 2))
    assert opened(tmp_path / "cache").missing("ef") == ["e"]


def test_a_full_disk_of_the_cache_is_named(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "8k") as enlarge:
        cache = opened(tmp_path / "disk")
        rows = torch.zeros((3, 8_192))
        with pytest.raises(UnbagError, match=r"no room is left on the disk of .*/disk") as error:
            cache.put(KEYS, {"vector": rows})
        assert is_full(error.value)
        assert "--cache names another place" in error.value.hint
        assert not list((tmp_path / "disk").iterdir())
        enlarge("1m")
        cache.put(KEYS, {"vector": rows})
        assert opened(tmp_path / "disk").missing(KEYS) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UnbagError, match="cannot write to the cache folder") as error:
        opened(tmp_path / "file" / "cache")
    assert "--cache" in str(error.value)


def test_the_default_place_follows_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_cache() == Path("/somewhere/unbag")


def test_keys_are_kept_as_they_are(tmp_path: Path) -> None:
    odd = ["é", 'quote"', "new\nline"]
    opened(tmp_path).put(odd, {"vector": VECTORS})
    again = opened(tmp_path)
    assert again.missing(odd) == []
    assert json.dumps(sorted(again._location_of)) == json.dumps(sorted(odd))


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
    made = TensorCache(
        folder, progress=Silent(), max_bytes=max_bytes, padded=("token", "mask", "mark")
    )
    made.put(["a", "b", "c"], tokens(3, 2, 0, marked))
    made.put(["d", "e"], tokens(2, 5, 1, marked))
    return made


@pytest.mark.parametrize("keys", [["e", "b", "a", "d", "c"], ["c", "e", "a", "c"]])
@pytest.mark.parametrize("marked", [True, False])
def test_rows_of_a_table_are_those_of_the_files_padded_with_zeros(
    tmp_path: Path, keys: list[str], marked: bool
) -> None:
    several(tmp_path, marked=marked)
    again = TensorCache(
        tmp_path, progress=Silent(), max_bytes=1 << 20, padded=("token", "mask", "mark")
    )
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


def test_a_table_is_in_memory_once_and_what_is_too_large_gets_none(
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


def test_one_changed_bit_of_any_number_is_found(tmp_path: Path) -> None:
    several(tmp_path)
    for path in tmp_path.glob("*.safetensors"):
        content = bytearray(path.read_bytes())
        content[-30] ^= 4
        path.write_bytes(content)
    progress = Silent()
    again = TensorCache(tmp_path, progress=progress)
    assert again.missing("abcde") == list("abcde")
    assert len(progress.said) == 2
    assert all("its content does not match its name" in said for said in progress.said)


def test_rows_without_tokens_can_be_kept_and_tabled(tmp_path: Path) -> None:
    cache = TensorCache(tmp_path, progress=Silent(), padded=("token", "mask"))
    cache.put(["a", "b"], tokens(2, 0, 0, marked=False))
    again = TensorCache(tmp_path, progress=Silent(), padded=("token", "mask"))
    assert again.missing(["a", "b"]) == []
    found = again.table(["b", "a"], "cpu")
    assert found is not None
    assert found.tensors["token"].shape == (2, 0, 4)


def test_what_leaves_memory_without_a_folder_goes_to_temporary_files() -> None:
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
