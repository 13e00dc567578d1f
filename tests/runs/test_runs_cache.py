"""Embeddings on disk: whole or absent, shared between processes, mended when damaged."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from unbag.errors import UserError
from unbag.runs.cache import Shelf, default_cache, open_shelf
from unbag.runs.progress import Silent

VECTORS = np.arange(12, dtype=np.float32).reshape(3, 4)
KEYS = ["a", "b", "c"]


def shelf(folder: Path | None, progress: Silent | None = None) -> Shelf:
    return Shelf(folder, progress=progress or Silent())


def test_what_is_put_comes_back_in_another_process(tmp_path: Path) -> None:
    shelf(tmp_path).put(KEYS, VECTORS)
    again = shelf(tmp_path)
    found = again.get(["c", "a", "unknown"])
    assert set(found) == {"a", "c"}
    assert np.array_equal(found["c"], VECTORS[2])
    assert "b" in again
    assert "unknown" not in again


def test_without_a_folder_nothing_is_written(tmp_path: Path) -> None:
    memory = open_shelf(None, "model", "captions", progress=Silent())
    memory.put(KEYS, VECTORS)
    assert np.array_equal(memory.get(["b"])["b"], VECTORS[1])
    assert list(tmp_path.iterdir()) == []


def test_models_and_kinds_do_not_meet(tmp_path: Path) -> None:
    open_shelf(tmp_path, "model-1", "captions", progress=Silent()).put(KEYS, VECTORS)
    for model, kind in (("model-2", "captions"), ("model-1", "pictures")):
        assert "a" not in open_shelf(tmp_path, model, kind, progress=Silent())


@pytest.mark.parametrize("damage", ["cut", "flip", "junk", "empty"])
def test_a_damaged_file_is_said_and_forgotten(tmp_path: Path, damage: str) -> None:
    shelf(tmp_path).put(KEYS, VECTORS)
    (path,) = tmp_path.glob("*.safetensors")
    whole = path.read_bytes()
    flipped = whole[:-1] + bytes([whole[-1] ^ 1])
    path.write_bytes({"cut": whole[:-5], "flip": flipped, "junk": b"junk", "empty": b""}[damage])
    progress = Silent()
    again = shelf(tmp_path, progress)
    assert again.get(KEYS) == {}
    assert f"cache file {path.name} cannot be used" in progress.said[0]
    assert "computing it again" in progress.said[0]
    again.put(KEYS, VECTORS)
    assert np.array_equal(shelf(tmp_path).get(["b"])["b"], VECTORS[1])


def test_two_processes_write_the_same_shelf_at_once(tmp_path: Path) -> None:
    script = f"""
import sys
from pathlib import Path
import numpy as np
from unbag.runs.cache import Shelf
from unbag.runs.progress import Silent
who = int(sys.argv[1])
shelf = Shelf(Path({str(tmp_path)!r}), progress=Silent())
for i in range(60):
    shelf.put([f"shared-{{i}}"], np.full((1, 8), i, dtype=np.float32))
    shelf.put([f"own-{{who}}-{{i}}"], np.full((1, 8), 100 * who + i, dtype=np.float32))
"""
    running = [subprocess.Popen([sys.executable, "-c", script, str(who)]) for who in (1, 2)]
    assert [process.wait(timeout=120) for process in running] == [0, 0]
    progress = Silent()
    found = shelf(tmp_path, progress)
    expected = {f"shared-{i}": i for i in range(60)}
    expected |= {f"own-{who}-{i}": 100 * who + i for who in (1, 2) for i in range(60)}
    got = found.get(expected)
    assert {key: float(vector[0]) for key, vector in got.items()} == expected
    assert progress.said == []
    assert not list(tmp_path.glob(".*.part"))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="cannot write to the cache folder") as error:
        shelf(tmp_path / "file" / "cache")
    assert "--cache" in str(error.value)


def test_the_default_place_follows_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_cache() == Path("/somewhere/unbag")


def test_keys_are_kept_as_they_are(tmp_path: Path) -> None:
    odd = ["é", 'quote"', "new\nline"]
    shelf(tmp_path).put(odd, VECTORS)
    assert json.dumps(sorted(shelf(tmp_path).get(odd))) == json.dumps(sorted(odd))
