"""Files that appear whole, with the mode that any other new file has."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from unbag.runs.files import remove_leftovers, write_atomically, write_text


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
@pytest.mark.parametrize(
    "write",
    [lambda to: save_file({"a": np.zeros(2)}, to), lambda to: to.write_text("x")],
    ids=["safetensors", "text"],
)
def test_a_file_has_the_mode_of_any_new_file(
    tmp_path: Path, write: Callable[[Path], None], umask: int, mode: int
) -> None:
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "a", write)
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == mode
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "old")

    def fails(to: Path) -> None:
        to.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_atomically(tmp_path / "a", fails)
    assert (tmp_path / "a").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_files_and_folders_that_a_killed_process_left_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".export.1234abcd.part" / "open_clip").mkdir(parents=True)
    (tmp_path / ".export.1234abcd.part" / "open_clip" / "half").write_text("x")
    others = {"kept", ".download.part", ".movie.12345678.mp4.part"}
    for name in (".a.0123cdef.part", ".write-01234567", *others):
        (tmp_path / name).write_text("x")
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == others
