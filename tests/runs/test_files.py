"""Atomic writes, leftovers of killed processes, and the pause of the garbage collector."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from unbag.runs.files import paused_collector, remove_leftovers, write_atomically, write_text


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
@pytest.mark.parametrize(
    "write",
    [lambda to: save_file({"a": np.zeros(2)}, to), lambda to: to.write_text("x")],
    ids=["safetensors", "text"],
)
def test_mode_follows_the_umask(
    tmp_path: Path, write: Callable[[Path], None], umask: int, mode: int
) -> None:
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "a", write)
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == mode
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "old")

    def fails(to: Path) -> None:
        to.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_atomically(tmp_path / "a", fails)
    assert (tmp_path / "a").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_remove_leftovers(tmp_path: Path) -> None:
    (tmp_path / ".export.1234abcd.part" / "open_clip").mkdir(parents=True)
    (tmp_path / ".export.1234abcd.part" / "open_clip" / "half").write_text("x")
    others = {"kept", ".download.part", ".movie.12345678.mp4.part"}
    for name in (".a.0123cdef.part", ".write-01234567", *others):
        (tmp_path / name).write_text("x")
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == others


def fail_while_paused() -> None:
    with paused_collector():
        assert not gc.isenabled()
        raise KeyError


@pytest.mark.parametrize("is_enabled", [True, False])
def test_paused_collector_restores_the_state_after_an_error(is_enabled: bool) -> None:
    if not is_enabled:
        gc.disable()
    try:
        with pytest.raises(KeyError):
            fail_while_paused()
        assert gc.isenabled() == is_enabled
    finally:
        gc.enable()
