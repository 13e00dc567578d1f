"""`unbag score`: images, captions, and every kind of model."""

import json
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Images

import unbag as ub
from unbag.api import score
from unbag.cli import main
from unbag.data import PixelImage
from unbag.models.tiny import load as load_tiny
from unbag.readouts.pooled import POOLED, PooledSettings
from unbag.readouts.reader import FILE, ReaderHeader, Sizes, save_head
from unbag.types import Query

HfFolder = Callable[[str], Path]
CAPTIONS = ["a red cube and a blue ball", "a blue cube", "a"]
MODELS = """
import warnings
import numpy as np
from unbag.types import Scores
class Broken:
    name, fingerprint, scoring, is_blind = "broken", "broken-1", "odd", False
    def score(self, queries):
        return [float("nan") for query in queries]
BROKEN = Broken()

class Small:
    name, fingerprint, scoring, is_blind = "small", "small-1", "odd", False
    def score(self, queries):
        known = {"a": 0.00013, "b": 0.00009, "c": 12.5, "d": float("nan")}
        return [known[query.caption] for query in queries]
SMALL = Small()

def warned():
    warnings.warn("the weights are odd", stacklevel=1)
    return SMALL

class Talker(Small):
    name = "talker"
    def __init__(self, answer, unparsed):
        self.answer, self.unparsed = answer, unparsed
    def score_items(self, items):
        return [
            Scores(i.id, np.where(i.truth, 0, 0.5), answers=(self.answer,), unparsed=self.unparsed)
            for i in items
        ]
MUMBLES, SPEAKS = Talker("It is hard\\nto say.", 1), Talker("b", 0)

class Twice:
    name = "twice"
    def scorers(self, model, folder):
        return [SMALL, BROKEN] if str(folder) == "both" else [SMALL]
TWICE = Twice()
"""


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    noise = np.random.default_rng(0).integers(0, 256, (40, 30, 3), dtype=np.uint8)
    Images.fromarray(noise).save(tmp_path / "noise.png")
    (tmp_path / "cli_score_models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "noise.png"


def test_a_table_with_a_column_a_model(
    image: Path, hf_folder: HfFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [f"hf:{hf_folder(kind)}" for kind in ("clip", "siglip", "blip")]
    assert main(["score", str(image), *CAPTIONS, "--model", *folders, "caption:long"]) == 0
    names, how, *rows, legend = capsys.readouterr().out.splitlines()
    assert names.split() == ["tiny-clip", "tiny-siglip", "tiny-blip", "caption:long"]
    assert how.split() == ["caption", "cosine", "cosine", "match", "caption", "only,", "blind"]
    assert legend == "* best"
    expected = ub.score(image, CAPTIONS, ub.load_scorer(folders[0]))
    order = np.argsort(-expected)
    for row, at in zip(rows, order, strict=True):
        assert row.startswith(CAPTIONS[at] + "  ")
        assert f"{expected[at]:.4f}" in row
    assert "* " + f"{expected.max():.4f}" in rows[0]
    # Columns of numbers end at the same place, marked or not.
    assert len({len(row.rstrip()) for row in rows}) == 1


def test_json(image: Path, hf_folder: HfFolder, capsys: pytest.CaptureFixture[str]) -> None:
    model = f"hf:{hf_folder('blip')}"
    options = ["--model", model, "--scorer", "cosine", "--json"]
    assert main(["score", str(image), *CAPTIONS, *options]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["image"] == str(image)
    assert found["captions"] == CAPTIONS
    (entry,) = found["models"]
    assert (entry["name"], entry["scoring"], entry["is_blind"]) == ("tiny-blip", "cosine", False)
    expected = ub.score(image, CAPTIONS, ub.load_scorer(model, "cosine"))
    assert entry["scores"] == pytest.approx(expected.tolist())
    assert entry["best"] == [CAPTIONS[int(expected.argmax())]]


def test_a_tie_has_no_winner(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", str(image), "a", "b", "--model", "caption:constant"]) == 0
    *_, first, second, legend = capsys.readouterr().out.splitlines()
    assert first.split() == ["a", "=", "0.0000"]
    assert second.split() == ["b", "=", "0.0000"]
    assert legend == "= tied for best"


def test_missing_scores(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = ["--model", "cli_score_models:BROKEN"]
    assert main(["score", str(image), "a", "b", *model]) == 0
    *_, second, legend, note = capsys.readouterr().out.splitlines()
    assert (second.split(), legend) == (["b", "not", "a", "number"], "")
    assert note == "note: broken gave no number for 2 of 2 captions"
    assert main(["score", str(image), "a", "b", *model, "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["models"]
    assert (entry["scores"], entry["best"]) == ([None, None], [])
    assert entry["notes"] == ["broken gave no number for 2 of 2 captions"]


def test_small_probabilities_differ(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    captions = ["a", "b", "c", "d"]
    assert main(["score", str(image), *captions, "--model", "cli_score_models:SMALL"]) == 0
    *_, c, a, b, d, _, note = capsys.readouterr().out.splitlines()
    assert (c.split(), a.split(), b.split()) == (
        ["c", "*", "12.5000"],
        ["a", "0.0001300"],
        ["b", "9.000e-05"],
    )
    assert d.split() == ["d", "not", "a", "number"]
    assert note == "note: small gave no number for 1 of 4 captions"


def test_an_answer_is_shown_as_it_was_given(
    image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ["--model", "cli_score_models:MUMBLES"]
    assert main(["score", str(image), "a", "b", *model]) == 0
    *_, first, second, legend, answer, note = capsys.readouterr().out.splitlines()
    assert first.split() == ["a", "not", "a", "number"]
    assert second.split() == ["b", "not", "a", "number"]
    assert legend == ""
    assert answer == r"talker answered: 'It is hard\nto say.'"
    assert note == ("note: talker: the answer names no caption, so no caption has a score")
    assert main(["score", str(image), "a", "b", *model, "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["models"]
    assert entry["answers"] == ["It is hard\nto say."]
    assert main(["score", str(image), "a", "b", "--model", "cli_score_models:SPEAKS"]) == 0
    assert capsys.readouterr().out.endswith("tied for best\ntalker answered: 'b'\n")


@pytest.mark.parametrize("kind", ["clip", "blip"])
def test_a_truncated_caption_is_noted(
    kind: str, image: Path, hf_folder: HfFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "a red cube " * 200
    options = ["--model", f"hf:{hf_folder(kind)}"]
    assert main(["score", str(image), "a", long, *options]) == 0
    out = capsys.readouterr().out
    assert f"note: tiny-{kind} cut 1 caption to its context length" in out
    assert max(map(len, out.splitlines())) < 120
    assert "a red cube a red cube" in out
    assert main(["score", str(image), "a", *options]) == 0
    assert "note" not in capsys.readouterr().out


def test_half_a_surrogate_pair_is_refused(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", str(image), "a", "b\ud800", "--model", "tiny:base"]) == 1
    message = capsys.readouterr().err
    assert r"the caption 'b\ud800' holds half a character" in message
    assert "type the caption again" in message


@pytest.mark.filterwarnings("default")
def test_a_warning_is_one_line(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = warnings.showwarning
    assert main(["score", str(image), "a", "--model", "cli_score_models:warned"]) == 0
    assert capsys.readouterr().err == "unbag: the weights are odd\n"
    assert warnings.showwarning is shown


def test_captions_are_not_markup(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    caption = "[red]a cube[/red] :cat:"
    assert main(["score", str(image), caption, "--model", "caption:short"]) == 0
    assert caption in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing.png", "nothing.png cannot be opened: there is no such file"),
        ("cli_score_models.py", "bytes in a format unknown to Pillow"),
        (".", "cannot be opened: IsADirectoryError"),
    ],
)
def test_an_image_that_cannot_be_opened(
    name: str, message: str, image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Told before the model is looked for.
    assert main(["score", name, "a", "--model", "no-such-model"]) == 1
    assert message in capsys.readouterr().err


def test_captions_and_model_are_needed(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for missing in ([str(image), "--model", "tiny:base"], [str(image), "a"]):
        with pytest.raises(SystemExit):
            main(["score", *missing])
        assert "the following arguments are required" in capsys.readouterr().err


def test_score_in_python() -> None:
    grey = PixelImage(np.full((8, 8, 3), 99, dtype=np.uint8))
    scorer = ub.load_scorer("tiny:base")
    found = score(grey, CAPTIONS, scorer)
    pairs = scorer.score([Query(grey, caption) for caption in CAPTIONS])
    assert found.tolist() == pytest.approx(list(map(float, pairs)), abs=1e-6)
    with pytest.raises(ub.UnbagError, match="captions are 'a cube'"):
        score(grey, "a cube", scorer)
    with pytest.raises(ub.UnbagError, match="a list of at least one caption"):
        score(grey, [], scorer)


def test_a_trained_read_out(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = load_tiny("base")
    sizes = Sizes(0, model.config.picture_width, model.config.caption_width)
    settings = PooledSettings(width=8)
    head = ReaderHeader("pooled", asdict(settings), sizes, model.name, model.fingerprint)
    save_head(POOLED.fresh(settings, sizes, seed=0), image.parent / FILE, head)
    name = f"pooled@{image.parent}"
    options = ["--model", "tiny:base", "--scorer", name]
    assert main(["score", str(image), *CAPTIONS, *options, "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["models"]
    assert (entry["name"], entry["scoring"]) == ("tiny:base+pooled", "pooled")
    expected = ub.score(image, CAPTIONS, ub.load_scorer("tiny:base", name))
    assert entry["scores"] == pytest.approx(expected.tolist(), abs=1e-6)
    assert len(set(entry["scores"])) == 3
    options[1] = "tiny:hard_negative"
    assert main(["score", str(image), *CAPTIONS, *options]) == 1
    assert f"was trained for tiny:base (fingerprint {model.fingerprint})" in capsys.readouterr().err


def test_a_read_out_with_several_scorers_has_a_column_each(
    image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "cli_score_models:TWICE@both"
    options = ["--model", "cli_score_models:SMALL", "--scorer", name]
    assert main(["score", str(image), "a", "b", *options]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["small", "broken"]
    with pytest.raises(ub.UnbagError, match="TWICE@both' makes 2 scorers") as error:
        ub.load_scorer("cli_score_models:SMALL", name)
    assert error.value.hint == "`unbag run` and `unbag score` take several"
    one = ub.load_scorer("cli_score_models:SMALL", "cli_score_models:TWICE@one")
    assert one.name == "small"


def test_several_images_have_a_block_each(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grey = image.parent / "grey.png"
    Images.new("RGB", (32, 32), "grey").save(grey)
    captions = ["a red ring", "a blue ring"]
    words = ["score", str(image), "grey.png", *captions, "--model", "tiny:base"]
    assert main(words) == 0
    first, second = capsys.readouterr().out.split("\n\n")
    for block, one in ((first, image), (second, grey)):
        name, _, _, *rows, legend = block.strip().splitlines()
        assert Path(name).name == one.name
        assert legend == "* best"
        expected = ub.score(one, captions, ub.load_scorer("tiny:base"))
        best = int(expected.argmax())
        assert rows[0].startswith(captions[best])
        assert float(rows[0].split()[-1]) == pytest.approx(expected[best], rel=1e-3)
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [entry["image"] for entry in found] == [str(image), "grey.png"]
    assert all(entry["captions"] == captions for entry in found)
    scores = [entry["models"][0]["scores"] for entry in found]
    expected = ub.score(grey, captions, ub.load_scorer("tiny:base"))
    assert scores[1] == pytest.approx(expected.tolist(), abs=1e-6)
    assert scores[0] != scores[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["noise.png"], "2 images and no caption: noise.png, noise.png"),
        (["a cube", "noise.png"], "the file noise.png comes after the caption 'a cube'"),
        (["nosie.png", "a cube"], "there is no image nosie.png, and it does not look like a"),
    ],
)
def test_an_image_is_not_taken_for_a_caption(
    words: list[str], message: str, image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Told before the model is looked for.
    assert main(["score", "noise.png", *words, "--model", "no-such-model"]) == 1
    assert message in capsys.readouterr().err


def test_unknown_words_are_noted_once(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    captions = ["a dog left of a cat", "a cat left of a dog"]
    words = ["score", str(image), str(image), *captions, "--model", "tiny:base"]
    note = "tiny:base does not know: dog, cat: unknown words are all one token to it"
    assert main(words) == 0
    out = capsys.readouterr().out
    assert out.count("does not know") == 1
    assert out.endswith(f"note: {note}\n")
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [entry["models"][0]["notes"] for entry in found] == [[note], [note]]
    assert main(["score", str(image), "a red ring", "--model", "tiny:base"]) == 0
    assert "note" not in capsys.readouterr().out


def test_a_caption_may_begin_with_dashes(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", str(image), "-- a dog", "a cat", "--model", "tiny:base"]) == 0
    assert "-- a dog" in capsys.readouterr().out
