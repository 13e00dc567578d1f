"""Shipped weights: the tool's own, those of installed packages, and what is said where none is."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from unbag import registry
from unbag.errors import UnbagError
from unbag.models.loading import load_model
from unbag.models.shipped import WEIGHTS, find_shipped, more_ships, shipped_like
from unbag.models.tiny import OF_THE_STUDY


@pytest.fixture
def without_study(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda **_: ())


def test_both_distributions_are_looked_through() -> None:
    names = [path.name for path in shipped_like("tiny-*.safetensors")]
    assert names == sorted(names)
    assert {"tiny-base.safetensors", "tiny-hard_positive.safetensors"} <= set(names)
    assert find_shipped("tiny-base.safetensors") == WEIGHTS / "tiny-base.safetensors"
    assert find_shipped("tiny-nothing.safetensors") is None
    assert more_ships() == ""


@pytest.mark.usefixtures("without_study")
@pytest.mark.parametrize("name", OF_THE_STUDY)
def test_a_model_of_the_study_says_what_to_install(name: str) -> None:
    with pytest.raises(UnbagError, match=r"pip install ./lab"):
        load_model(f"tiny:{name}")
    assert "pip install ./lab" in more_ships()


@pytest.mark.usefixtures("without_study")
def test_the_tool_has_its_own_without_the_study() -> None:
    assert {path.name for path in shipped_like("tiny-*.safetensors")} == {
        "tiny-base.safetensors",
        "tiny-base.dcsm_fixed.reader.safetensors",
        "tiny-hard_negative.safetensors",
    }
    with pytest.raises(UnbagError, match="unknown model 'tiny:bse'") as raised:
        load_model("tiny:bse")
    assert "tiny:base" in str(raised.value)


def test_a_package_adds_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_weights").mkdir()
    file = tmp_path / "their_weights" / "tiny-theirs.safetensors"
    file.write_bytes((WEIGHTS / "tiny-base.safetensors").read_bytes())
    monkeypatch.syspath_prepend(str(tmp_path))
    point = EntryPoint("theirs", "their_weights", "unbag.weights")
    monkeypatch.setattr(registry, "entry_points", lambda **_: (point,))
    assert find_shipped(file.name) == file
    assert load_model("tiny:theirs").name == "tiny:theirs"


def test_a_package_whose_weights_are_gone_costs_only_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    point = EntryPoint("theirs", "no_such_package.weights", "unbag.weights")
    monkeypatch.setattr(registry, "entry_points", lambda **_: (point,))
    with pytest.warns(UserWarning, match=r"no_such_package\.weights"):
        assert load_model("tiny:base").name == "tiny:base"
