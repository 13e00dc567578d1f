"""Two test processes share two cores: each computes with one thread, its subprocesses too."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")


@pytest.fixture(scope="session")
def hf_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A tiny model of transformers by the name of its kind, saved to disk when first asked for."""
    pytest.importorskip("transformers")
    root = tmp_path_factory.mktemp("hf")

    def get(kind: str) -> Path:
        from .models.tiny_hf import save

        folder = root / f"tiny-{kind}"
        if not folder.exists():
            save(kind, folder)
        return folder

    return get


@pytest.fixture(autouse=True)
def _no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of pytest-xdist have a width of their own, which would cut tables."""
    monkeypatch.delenv("COLUMNS", raising=False)
