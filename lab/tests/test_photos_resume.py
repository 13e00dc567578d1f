"""Trainings on photographs are resumed, and their scripts write into folders of their own."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from tests.training.pair_files import negative
from torch import Tensor

from unbag.errors import UnbagError
from unbag.models import photo
from unbag.training.data.batch import Batch
from unbag_lab.__main__ import main
from unbag_lab.experiments import photos_heads, photos_training
from unbag_lab.experiments.photos import PHOTOS
from unbag_lab.experiments.photos_training import PhotosTask
from unbag_lab.plan import Order
from unbag_lab.results import ArmResult, read_results, result_path

BASE = Path("tiny-3")


def run(out: Path, *arms: str) -> tuple[list[ArmResult], list[bytes]]:
    PHOTOS.run(Order((BASE,), arms, out, size="small"), say=lambda line: None)
    paths = [result_path(out, "photos", BASE.stem, arm) for arm in arms]
    assert not (paths[0].parent / "training").exists()
    results = [replace(one, seconds=None) for path in paths for one in read_results(path)]
    return results, [path.with_suffix(".safetensors").read_bytes() for path in paths]


def test_a_stopped_arm_goes_on_with_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the second of three steps; then a kill when all were taken, before the weights."""
    arms = ("heads", "ce_clip_fixed")
    whole = run(tmp_path / "whole", *arms)
    taken: list[int] = []
    gradient = PhotosTask.gradient

    def counted(task: PhotosTask, batch: Batch, step: int) -> dict[str, Tensor]:
        taken.append(step)
        if len(taken) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return gradient(task, batch, step)

    def killed(*given: object, **options: object) -> None:
        raise SystemError

    out = tmp_path / "stopped"
    monkeypatch.setattr(PhotosTask, "gradient", counted)
    with pytest.raises(KeyboardInterrupt):
        run(out, *arms)
    monkeypatch.setattr(photos_training, "write", killed)
    with pytest.raises(SystemError):
        run(out, *arms)
    monkeypatch.setattr(photos_training, "write", photo.write)
    assert run(out, *arms) == whole
    assert taken == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(
    ("words", "kind", "module"),
    [
        (("photos", "build"), "run of arms on photographs", photos_training),
        (("photos-heads",), "run of heads on photographs", photos_heads),
    ],
)
def test_scripts_refuse_folders_of_others_and_of_other_photographs(
    words: tuple[str, ...], kind: str, module: object, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(sys, "argv", sys.argv)
    Image.new("RGB", (8, 8)).save(tmp_path / "1.png")
    for name in ("one", "other"):
        edit = negative(f"no {name} dog", "negate")
        row = {"image": "1.png", "captions": [f"{name} dog"], "edits": [[edit]]}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")

    def start(name: str, out: str) -> None:
        pairs = str(tmp_path / f"{name}.jsonl")
        more = ["--numbers", str(tmp_path / "n.json")] if len(words) == 1 else []
        main([*words, "--train", pairs, "--val", pairs, "--out", str(tmp_path / out), *more])

    def stopped(*given: object, **options: object) -> None:
        raise KeyboardInterrupt

    # Before anything is loaded or computed.
    monkeypatch.setattr(module, "opened", stopped)
    with pytest.raises(KeyboardInterrupt):
        start("one", "out")
    assert json.loads((tmp_path / "out" / "run.json").read_text())["kind"] == kind
    with pytest.raises(UnbagError, match=f"another {kind}: train: .* before, .* now"):
        start("other", "out")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").touch()
    with pytest.raises(UnbagError, match=f"is not empty and holds no {kind}"):
        start("one", "precious")
