"""`--blind`: which baselines run, and that they need no images."""

import json
from pathlib import Path

import pytest

from unbag.benchmarks.sugarcrepe import KINDS
from unbag.cli import main
from unbag.cli.run import blind_names
from unbag.errors import UnbagError
from unbag.models.baselines import ALL


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (["none"], []),
        (["caption:long"], ["caption:long"]),
        (["all"], list(ALL)),
        (["caption:long", "all"], ["caption:long", *ALL[:3]]),
        (["caption:short", "caption:short"], ["caption:short"]),
    ],
)
def test_names(asked: list[str], expected: list[str]) -> None:
    assert blind_names(asked, models=["tiny:base"]) == expected


def test_a_baseline_that_is_a_model_runs_once() -> None:
    assert blind_names(["all"], models=["caption:random"]) == [ALL[0], *ALL[2:]]


def test_none_beside_others_is_refused() -> None:
    with pytest.raises(UnbagError, match="--blind none caption:long") as error:
        blind_names(["none", "caption:long"], models=[])
    assert "`--blind all` runs caption:constant" in str(error.value)


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """A run on a SugarCrepe whose annotations are there and whose images are not."""
    (tmp_path / "sugarcrepe").mkdir()
    for kind in KINDS:
        rows = {
            str(n): {"filename": f"{n}.jpg", "caption": "a cat", "negative_caption": "a large cat"}
            for n in range(20)
        }
        (tmp_path / f"sugarcrepe/{kind}.json").write_text(json.dumps(rows))
    places = ["--data", str(tmp_path), "--out", str(tmp_path / "run"), "--no-cache"]
    return ["run", "--bench", "sugarcrepe", "--device", "cpu", *places]


def test_all_baselines_from_annotations_alone(words: list[str], tmp_path: Path) -> None:
    assert main([*words, "--model", "caption:short", "--blind", "all"]) == 0
    results = json.loads((tmp_path / "run/results.json").read_text())
    found = {
        r["scorer"]: r["overall"]["accuracy"]["value"] for r in results if r["aggregate"] == "micro"
    }
    coin = found.pop("caption:random")
    assert found == {"caption:short": 1, "caption:constant": 0, "caption:long": 0}
    # 20 images stand in seven files: the same 20 throws seven times.
    assert 0.2 < coin < 0.8


def test_a_model_that_sees_still_needs_them(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--model", "tiny:base"]) == 1
    assert "20 images of 'sugarcrepe' are missing" in capsys.readouterr().err
    assert main([*words, "--model", "caption:short", "--missing", "skip"]) == 1
    assert "140 of 140 items are left out" in capsys.readouterr().err
