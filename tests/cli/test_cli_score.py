"""`unbag score`: one picture, a few captions, every kind of model."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Images

import unbag as ub
from unbag.cli import main
from unbag.engine.one_picture import score
from unbag.pictures import PixelPicture
from unbag.types import Query

HfFolder = Callable[[str], Path]
CAPTIONS = ["a red cube and a blue ball", "a blue cube", "a"]
MODELS = """
class Broken:
    name, fingerprint, scoring, is_blind = "broken", "broken-1", "odd", False
    def score(self, queries):
        return [float("nan") for query in queries]
BROKEN = Broken()
"""


@pytest.fixture
def picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    noise = np.random.default_rng(0).integers(0, 256, (40, 30, 3), dtype=np.uint8)
    Images.fromarray(noise).save(tmp_path / "noise.png")
    (tmp_path / "cli_score_models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "noise.png"


def test_a_table_with_a_column_a_model(
    picture: Path, hf_folder: HfFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [f"hf:{hf_folder(kind)}" for kind in ("clip", "siglip", "blip")]
    assert main(["score", str(picture), *CAPTIONS, "--model", *folders, "caption:long"]) == 0
    names, how, *rows, legend = capsys.readouterr().out.splitlines()
    assert names.split() == ["tiny-clip", "tiny-siglip", "tiny-blip", "caption:long"]
    assert how.split() == ["caption", "cosine", "cosine", "match", "caption", "only,", "blind"]
    assert legend == "* best"
    expected = ub.score(picture, CAPTIONS, ub.scorer(folders[0]))
    order = np.argsort(-expected)
    for row, at in zip(rows, order, strict=True):
        assert row.startswith(CAPTIONS[at] + "  ")
        assert f"{expected[at]:.4f}" in row
    assert "* " + f"{expected.max():.4f}" in rows[0]
    # Columns of numbers end at the same place, marked or not.
    assert len({len(row.rstrip()) for row in rows}) == 1


def test_json(picture: Path, hf_folder: HfFolder, capsys: pytest.CaptureFixture[str]) -> None:
    model = f"hf:{hf_folder('blip')}"
    options = ["--model", model, "--scorer", "cosine", "--json"]
    assert main(["score", str(picture), *CAPTIONS, *options]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["picture"] == str(picture)
    assert found["captions"] == CAPTIONS
    (one,) = found["models"]
    assert (one["name"], one["scoring"], one["is_blind"]) == ("tiny-blip", "cosine", False)
    expected = ub.score(picture, CAPTIONS, ub.scorer(model, scoring="cosine"))
    assert one["scores"] == pytest.approx(expected.tolist())
    assert one["best"] == [CAPTIONS[int(expected.argmax())]]


def test_a_tie_has_no_winner(picture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", str(picture), "a", "b", "--model", "caption:constant"]) == 0
    *_, first, second, legend = capsys.readouterr().out.splitlines()
    assert first.split() == ["a", "=", "0.0000"]
    assert second.split() == ["b", "=", "0.0000"]
    assert legend == "= best, but no better than another"


def test_no_score_is_no_number(picture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = ["--model", "cli_score_models:BROKEN"]
    assert main(["score", str(picture), "a", "b", *model]) == 0
    *_, second, legend = capsys.readouterr().out.splitlines()
    assert (second.split(), legend) == (["b", "nan"], "")
    assert main(["score", str(picture), "a", "b", *model, "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["models"]
    assert (one["scores"], one["best"]) == ([None, None], [])


def test_captions_are_data(picture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    caption = "[red]a cube[/red] :cat:"
    assert main(["score", str(picture), caption, "--model", "caption:short"]) == 0
    assert caption in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing.png", "nothing.png cannot be opened: there is no such file"),
        ("cli_score_models.py", "bytes in no format that Pillow knows"),
        (".", "cannot be opened: IsADirectoryError"),
    ],
)
def test_a_picture_that_cannot_be_opened(
    name: str, said: str, picture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Told before the model is looked for.
    assert main(["score", name, "a", "--model", "no-such-model"]) == 1
    assert said in capsys.readouterr().err


def test_captions_and_model_are_needed(picture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for missing in ([str(picture), "--model", "tiny:base"], [str(picture), "a"]):
        with pytest.raises(SystemExit):
            main(["score", *missing])
        assert "the following arguments are required" in capsys.readouterr().err


def test_in_python_any_picture_will_do() -> None:
    grey = PixelPicture(np.full((8, 8, 3), 99, dtype=np.uint8))
    scorer = ub.scorer("tiny:base")
    found = score(grey, CAPTIONS, scorer)
    pairs = scorer.score([Query(grey, caption) for caption in CAPTIONS])
    assert found.tolist() == pytest.approx(list(map(float, pairs)), abs=1e-6)
    with pytest.raises(ub.UserError, match="captions are 'a cube'"):
        score(grey, "a cube", scorer)
    with pytest.raises(ub.UserError, match="a list of at least one caption"):
        score(grey, [], scorer)
