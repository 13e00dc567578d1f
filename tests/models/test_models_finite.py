"""Weights with NaN or infinity among them are refused by name, whoever reads them."""

import math
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from unbag.errors import UnbagError
from unbag.models.huggingface.loading import load
from unbag.models.tiny import load as load_tiny
from unbag.models.tiny import write
from unbag.models.weights import check_finite

HfFolder = Callable[[str], Path]
ODD = (math.nan, math.inf, -math.inf)
KINDS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


@given(st.integers(1, 300), st.data(), st.sampled_from(ODD), st.sampled_from(KINDS))
def test_one_odd_number_anywhere_is_found(
    size: int, data: st.DataObject, odd: float, kind: torch.dtype
) -> None:
    tensor = torch.linspace(-3, 3, size).to(kind)
    check_finite({"fine": tensor}, source="x.pt")
    tensor[data.draw(st.integers(0, size - 1))] = odd
    with pytest.raises(UnbagError, match=r"1 of the 2 tensors of x\.pt hold NaN or infinity: bad"):
        check_finite({"fine": torch.zeros(2), "bad": tensor}, source="x.pt")


def test_what_holds_no_fractions_is_fine_and_many_names_are_cut() -> None:
    check_finite({"empty": torch.zeros(0), "whole": torch.arange(3)}, source="x.pt")
    check_finite({"eighths": torch.ones(3).to(torch.float8_e4m3fn)}, source="x.pt")
    bad = {f"t{n}": torch.tensor(math.nan) for n in range(5)}
    with pytest.raises(UnbagError, match=r"5 of the 5 .*: t0, t1, t2 and 2 more") as error:
        check_finite(bad, source="x.pt")
    assert "take an earlier checkpoint" in error.value.hint


def test_a_model_of_transformers(hf_folder: HfFolder, tmp_path: Path) -> None:
    folder = Path(copytree(hf_folder("clip"), tmp_path / "clip"))
    state = load_file(folder / "model.safetensors")
    state["visual_projection.weight"][0, 0] = math.nan
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UnbagError, match=r"hold NaN or infinity: visual_projection\.weight"):
        load(str(folder))


def test_a_tiny_model(tmp_path: Path) -> None:
    model = load_tiny("random")
    with torch.no_grad():
        model.network.log_scale.fill_(math.inf)
    write(model.network, tmp_path / "mine.safetensors")
    with pytest.raises(UnbagError, match="hold NaN or infinity: log_scale"):
        load_tiny(str(tmp_path / "mine.safetensors"))
