"""What `repair` and `unbag train` refuse before the first step."""

from pathlib import Path

import pytest

from unbag.benchmarks.sugarcrepe import SUGARCREPE
from unbag.cli.main import main
from unbag.errors import UnbagError
from unbag.training.recipes import make_recipe
from unbag.training.repair import repair

from .small_world import small

SOON = ["batch_size=2", "epochs=1"]


def test_benchmarks_whose_files_are_missing(tmp_path: Path) -> None:
    """Not after the first epoch, which may take hours."""
    wanted = (SUGARCREPE,)
    asked = make_recipe("clip_ft", SOON)
    with pytest.raises(UnbagError, match="benchmark 'sugarcrepe' is read from files"):
        repair(small(1), "world", asked, tmp_path / "run", benchmarks=wanted)
    with pytest.raises(UnbagError, match=r"there is no folder .*sugarcrepe"):
        repair(small(1), "world", asked, tmp_path / "run", benchmarks=wanted, data=tmp_path)
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
