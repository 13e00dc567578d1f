"""`ub.train`, `ub.export` and `ub.merge`: names and objects, settings, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import unbag as ub
from unbag.metrics.triples import Triples
from unbag.training.data.world import DEFAULT_PRESET, find_preset
from unbag.training.recipes import make_recipe
from unbag.training.repair import DataConfig
from unbag.types import Benchmark
from unbag.world.benchmarks import triple_items
from unbag.world.rendering import draw
from unbag.world.stream import batch
from unbag.world.vocabulary import DEFAULT

FEW = Benchmark("few", "a", lambda root: triple_items(["swap"], n=2), (Triples(),), "original")
SETTINGS = {"batch_size": 4, "epochs": 1, "warmup_steps": 1, "learning_rate": 1e-4}
WORDS = [f"{key}={value}" for key, value in SETTINGS.items()]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Eight drawings with their captions, in a folder of their own."""
    (tmp_path / "images").mkdir()
    lines = []
    samples = batch(DEFAULT, find_preset(DEFAULT_PRESET), seed=5, step=0, size=8)
    for at, sample in enumerate(samples):
        Image.fromarray(draw(sample.scene)).save(tmp_path / f"images/{at}.png")
        lines.append(json.dumps({"image": f"{at}.png", "caption": sample.caption}))
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    return tmp_path / "pairs.jsonl"


def said(call: Any) -> str:
    with pytest.raises(ub.UnbagError) as caught:
        call()
    return str(caught.value)


def test_a_recipe_by_name_and_as_an_object_train_the_same_weights(pairs: Path) -> None:
    folder, data = pairs.parent, DataConfig(str(pairs), images=pairs.parent / "images")
    first = ub.train(
        "tiny:base", pairs=data, recipe="clip_ft", settings=SETTINGS, benchmarks=FEW,
        out=folder / "a", device="cpu", while_training=False,
    )  # fmt: skip
    assert first.is_done
    assert first.comparison is not None
    assert {row.benchmark for row in first.comparison.rows} == {"few"}
    second = ub.train(
        ub.load_model("tiny:base"), pairs=data, recipe=make_recipe("clip_ft", WORDS),
        benchmarks=[FEW], out=folder / "b", device="cpu", while_training=False,
    )  # fmt: skip
    # The folder of a run is a model.
    models = [ub.load_model(str(run.folder)) for run in (first, second)]
    assert models[0].fingerprint == models[1].fingerprint
    assert models[0].fingerprint != ub.load_model("tiny:base").fingerprint
    exported = ub.export(run=first.folder, out=folder / "last")
    assert exported.fingerprint == models[0].fingerprint
    again = ub.train(
        "tiny:base", pairs=data, recipe="clip_ft", settings=WORDS, benchmarks=FEW,
        out=folder / "a", device="cpu", while_training=False,
    )  # fmt: skip
    assert again.is_done
    assert again.trained.state.step == first.trained.state.step
    assert "learning_rate" in said(
        lambda: ub.train(
            "tiny:base",
            pairs=data,
            recipe="clip_ft",
            out=folder / "a",
            device="cpu",
            settings=[*WORDS, "learning_rate=1e-5"],
            benchmarks=FEW,
        )
    )


def test_train_takes_a_recipe_or_a_read_out(tmp_path: Path) -> None:
    anything: Any = ub.train

    def ask(**other: Any) -> str:
        return said(lambda: anything("tiny:base", pairs="world", out=tmp_path / "x", **other))

    assert ask().startswith("train was called without a recipe and a read-out")
    assert "'a' and the read-out 'b'" in ask(recipe="a", readout="b")
    assert "write readout='pooled'" in ask(recipe="pooled")
    assert "write recipe='clip_ft'" in ask(readout="clip_ft")
    assert "unknown recipe 'clip_fd'" in ask(recipe="clip_fd")
    assert "unknown readout 'pooold'" in ask(readout="pooold")
    message = ask(readout="pooled", benchmarks="world", data_dir="data")
    assert message.startswith("benchmarks, data_dir with the read-out 'pooled'")
    assert "scorer='pooled@" in message
    assert "unknown setting 'epoch'" in ask(recipe="clip_ft", settings=["epoch=2"])
    assert "settings epochs=2 with a recipe that is an object" in ask(
        recipe=make_recipe("clip_ft"), settings="epochs=2"
    )
    assert "'caption:short' has no vectors of images and captions" in said(
        lambda: ub.train("caption:short", pairs="world", recipe="clip_ft", out=tmp_path / "x")
    )
    assert not (tmp_path / "x").exists()


def test_export_takes_a_model_or_a_run(tmp_path: Path) -> None:
    found = ub.export(ub.load_model("tiny:base"), out=tmp_path / "base")
    assert found.name == "tiny:base"
    assert "no model" in said(lambda: ub.export(out=tmp_path / "x"))
    assert "a model and a run" in said(
        lambda: ub.export("tiny:base", run=tmp_path, out=tmp_path / "x")
    )
    assert "weights='best' was given with a model" in said(
        lambda: ub.export("tiny:base", weights="best", out=tmp_path / "x")
    )
    assert "so it cannot be exported" in said(
        lambda: ub.export("caption:short", out=tmp_path / "x")
    )


def test_merge_measures_every_mix_and_exports_one(tmp_path: Path) -> None:
    def merged(**other: Any) -> Any:
        return ub.merge(
            "tiny:base", "tiny:hard_negative", out=tmp_path / "merged", weights=[0, 1],
            composition=FEW, seed=3, **other,
        )  # fmt: skip

    assert "no recognition benchmark among few" in said(merged)
    found = merged(pick=1)
    assert [point.weight for point in found.curve.points] == [0, 1]
    assert found.model == tmp_path / "merged/weight-1"
    tuned = ub.load_model("tiny:hard_negative")
    assert ub.load_model(found.model).fingerprint == tuned.fingerprint
    assert (found.curve.base, found.curve.tuned) == ("tiny:base", "tiny:hard_negative")
    assert "weight 1 is chosen: given with --pick" in str(found)
    assert {"curve.json", "curve.csv", "curve.html", "run"} <= {
        path.name for path in (tmp_path / "merged").iterdir()
    }
    assert merged(pick=1).curve == found.curve
    assert "few is named as composition and as recognition" in said(lambda: merged(recognition=FEW))
    assert "the weight 2" in said(lambda: merged(pick=2))
