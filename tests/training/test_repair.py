"""What a repair refuses before training, and loading the model of a run."""

import json
from pathlib import Path

import pytest
import torch

from unbag.benchmarks.sugarcrepe import SUGARCREPE
from unbag.cli.main import main
from unbag.errors import UnbagError
from unbag.models.loading import load_model
from unbag.runs.checkpoint import LAST, PREVIOUS
from unbag.runs.files import RUN_FILE
from unbag.training.data.world import WorldBatches
from unbag.training.encoders.adapters import make_trainable
from unbag.training.encoders.base import Trainable
from unbag.training.fine_tuning import TrainJob, train
from unbag.training.recipes import make_recipe
from unbag.training.repair import read_trained, repair
from unbag.types import DualEncoder

from .export_models import open_clip_config, save_clip, save_open_clip
from .small_world import small

SOON = ["batch_size=2", "epochs=1"]


def test_benchmarks_whose_files_are_missing(tmp_path: Path) -> None:
    """Not after the first epoch, which may take hours."""
    benchmarks = (SUGARCREPE,)
    recipe = make_recipe("clip_ft", SOON)
    with pytest.raises(UnbagError, match="benchmark 'sugarcrepe' is read from files"):
        repair(small(1), "world", recipe, tmp_path / "run", benchmarks=benchmarks)
    with pytest.raises(UnbagError, match=r"there is no folder .*sugarcrepe"):
        repair(small(1), "world", recipe, tmp_path / "run", benchmarks=benchmarks, data=tmp_path)
    assert not (tmp_path / "run").exists()


def test_nothing_left_to_train(tmp_path: Path) -> None:
    freeze = ["freeze.image=all", "freeze.text=all", "freeze.scale=true"]
    with pytest.raises(UnbagError, match="and the temperature are frozen") as caught:
        repair(small(1), "world", make_recipe("clip_ft", [*SOON, *freeze]), tmp_path / "run")
    assert caught.value.expected == "at least one trainable parameter"
    assert caught.value.hint == "freeze less, as with --set freeze.text=0"


def test_a_negative_number_of_workers(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(
            [
                "train",
                "--model",
                "m",
                "--recipe",
                "r",
                "--pairs",
                "p",
                "--out",
                "o",
                "--workers",
                "-1",
            ]
        )
    assert "'-1' is not a whole number, 0 or more" in capsys.readouterr().err


def test_the_sigmoid_loss_needs_a_bias(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="has no bias, which the sigmoid loss of siglip_hn needs"):
        repair(small(1), "world", make_recipe("siglip_hn", ["batch_size=4", "epochs=1"]), tmp_path)


SAID = ["a red star", "a small cup to the left of a tree"]


def trained(model: str, out: Path, name: str, *settings: str) -> Trainable:
    """Two steps of two scenes; the model's own name is not the one that loads it."""
    encoder = load_model(model)
    assert isinstance(encoder, DualEncoder)
    assert encoder.name != model
    recipe = make_recipe(name, ["batch_size=2", "epochs=1", "learning_rate=0.01", *settings])
    trainable = make_trainable(encoder, device="cpu")
    batches = WorldBatches(recipe, trainable.reads, per_epoch=2)
    train(TrainJob(trainable, batches, recipe, out, base=model))
    return trainable


def saved(library: str, folder: Path) -> str:
    if library == "transformers":
        return save_clip(folder)
    return save_open_clip(folder, open_clip_config())


@pytest.mark.parametrize(
    ("library", "recipe", "settings"),
    [
        ("open_clip", "clip_ft", ()),
        ("open_clip", "svlc", ("freeze.image=all", "lora.rank=2")),
        ("transformers", "svlc", ("freeze.text=2",)),
    ],
)
def test_a_run_is_read_again_as_it_ended(
    library: str, recipe: str, settings: tuple[str, ...], tmp_path: Path
) -> None:
    model = saved(library, tmp_path / "model")
    before = load_model(model)
    assert isinstance(before, DualEncoder)
    ended = trained(model, tmp_path / "run", recipe, *settings).encoder("ended")
    loaded, card = read_trained(tmp_path / "run")
    assert torch.equal(loaded.encode_texts(SAID), ended.encode_texts(SAID))
    assert not torch.allclose(loaded.encode_texts(SAID), before.encode_texts(SAID), atol=1e-4)
    assert loaded.scale == ended.scale
    assert card.base == model
    # As after a kill between the two renames of a checkpoint.
    (tmp_path / "run" / LAST).replace(tmp_path / "run" / PREVIOUS)
    loaded, _ = read_trained(tmp_path / "run")
    assert torch.equal(loaded.encode_texts(SAID), ended.encode_texts(SAID))


def test_a_run_whose_model_has_changed_is_refused(tmp_path: Path) -> None:
    model = save_open_clip(tmp_path / "model", open_clip_config())
    trained(model, tmp_path / "run", "clip_ft")
    path = tmp_path / "run" / RUN_FILE
    record = json.loads(path.read_text())
    record["identity"]["model_fingerprint"] = "open_clip-of-yesterday"
    path.write_text(json.dumps(record))
    with pytest.raises(
        UnbagError, match=r"is not the model that the run .*run started from"
    ) as caught:
        read_trained(tmp_path / "run")
    assert caught.value.expected == "weights with the fingerprint open_clip-of-yesterday"


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match=r"holds no best\.safetensors"):
        read_trained(tmp_path, weights="best")
