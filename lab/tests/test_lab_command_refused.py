"""`unbag lab run` on a device that is not here, and in a folder that it did not begin."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from unbag.cli import main
from unbag_lab.scheduler import can_fork


def run(out: Path, *more: str) -> int:
    return main(["lab", "run", "negatives_open", "--size", "small", "--out", str(out), *more])


@pytest.mark.skipif(not can_fork(), reason="no processes apart on this system")
@pytest.mark.parametrize("device", ["mps", "cuda:77", "xpu"])
def test_a_device_that_is_not_here_is_told_by_a_process_apart(
    tmp_path: Path,
    device: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A process that asked for a GPU could not fork others that use one."""
    first = os.getpid()

    def asked() -> bool:
        assert os.getpid() != first
        return False

    monkeypatch.setattr(torch.cuda, "is_available", asked)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert run(tmp_path, "--device", device) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith(f"unbag: the device {device!r} cannot be used: ")
    assert said[1:] == [
        "  expected: cpu or auto (all that is here)",
        "  hint:     --device auto takes the best one at hand",
    ]
    assert len(said[0]) < 150
    assert not list(tmp_path.iterdir())
