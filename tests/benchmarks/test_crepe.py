"""CREPE: lists in cells, the two halves of Visual Genome, and absent files."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from unbag.benchmarks.crepe import CREPE, FILES, load
from unbag.errors import UnbagError
from unbag.types import Estimate, FloatArray, Item

ATOM = "prod_hard_negatives/atom/prod_vg_hard_negs_atom_complexity_4.csv"
SYST = "syst_hard_negatives/syst_vg_hard_negs_unseen_compounds_in_laion.csv"
HEAD = "image_id,caption,x,y,width,height"


def write(root: Path, file: str, *lines: str) -> None:
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text("\n".join(lines) + "\n")


pytestmark = pytest.mark.filterwarnings("ignore:.*files are absent")


def test_the_release_has_27_and_6_files() -> None:
    assert len(FILES) == len(set(FILES)) == 33
    assert {ATOM, SYST} <= set(FILES)


def test_absent_files_are_said(tmp_path: Path) -> None:
    write(tmp_path, ATOM, f"{HEAD},hard_negs", '7,a cat,1,2,3,4,"[\'a dog\', ""a cow\'s""]"')
    with pytest.warns(UserWarning, match="32 of 33 files are absent"):
        (item,) = load(tmp_path)
    assert item.captions == ("a cat", "a dog", "a cow's")
    assert item.images[0].name == f"{tmp_path}/VG_100K/7.jpg[1, 2, 3, 4]"
    assert item.tags == {"part": "productivity", "complexity": "4", "negatives": "atom"}


def test_an_image_is_found_in_either_half(tmp_path: Path) -> None:
    for half in ("VG_100K", "VG_100K_2"):
        (tmp_path / half).mkdir()
    (tmp_path / "VG_100K_2" / "8.jpg").touch()
    write(tmp_path, ATOM, f"{HEAD},hard_negs", *(f"{i},a,1,2,3,4,\"['b']\"" for i in (7, 8)))
    names = [item.images[0].name.removesuffix("[1, 2, 3, 4]") for item in load(tmp_path)]
    assert names == [f"{tmp_path}/VG_100K/7.jpg", f"{tmp_path}/VG_100K_2/8.jpg"]


def test_systematicity_asks_twice_a_row(
    tmp_path: Path, numbers: Callable[..., Mapping[str, Mapping[str, Estimate]]]
) -> None:
    head = f"{HEAD},valid_hard_negs_atom,valid_hard_negs_comp"
    write(tmp_path, SYST, head, "7,a,1,2,3,4,\"['b', 'c']\",\"['d']\"")
    items = load(tmp_path)
    assert [item.captions for item in items] == [("a", "b", "c"), ("a", "d")]

    def score(item: Item) -> FloatArray:
        return np.array([[1.0, 0.0, 2.0][: len(item.captions)]])

    results = numbers(CREPE, items, score)
    assert results["systematicity laion"]["accuracy"].value == pytest.approx(1 / 2)
    assert not results["productivity"]


def test_no_file_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="none of its 33 files is in"):
        load(tmp_path)
