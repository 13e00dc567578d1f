"""`unbag score` with several images, files among captions, and words that nobody taught."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Images

import unbag as ub
from unbag.cli import main


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    noise = np.random.default_rng(0).integers(0, 256, (40, 30, 3), dtype=np.uint8)
    Images.fromarray(noise).save(tmp_path / "noise.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "noise.png"


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
    assert [one["image"] for one in found] == [str(image), "grey.png"]
    assert all(one["captions"] == captions for one in found)
    scores = [one["models"][0]["scores"] for one in found]
    expected = ub.score(grey, captions, ub.load_scorer("tiny:base"))
    assert scores[1] == pytest.approx(expected.tolist(), abs=1e-6)
    assert scores[0] != scores[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["noise.png"], "2 images and no caption: noise.png, noise.png"),
        (["a cube", "noise.png"], "the file noise.png comes after the caption 'a cube'"),
        (["nosie.png", "a cube"], "there is no image nosie.png, and it does not look like a"),
    ],
)
def test_an_image_is_not_taken_for_a_caption(
    words: list[str], said: str, image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Told before the model is looked for.
    assert main(["score", "noise.png", *words, "--model", "no-such-model"]) == 1
    assert said in capsys.readouterr().err


def test_words_that_a_model_does_not_know_are_noted_once(
    image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    captions = ["a dog left of a cat", "a cat left of a dog"]
    words = ["score", str(image), str(image), *captions, "--model", "tiny:base"]
    note = "tiny:base does not know: dog, cat: unknown words are all one token to it"
    assert main(words) == 0
    out = capsys.readouterr().out
    assert out.count("does not know") == 1
    assert out.endswith(f"note: {note}\n")
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["models"][0]["notes"] for one in found] == [[note], [note]]
    assert main(["score", str(image), "a red ring", "--model", "tiny:base"]) == 0
    assert "note" not in capsys.readouterr().out
