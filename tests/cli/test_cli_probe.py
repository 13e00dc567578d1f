"""`unbag run --scorer linear-probe` and `--tagger`, from folders to a table."""

import json
from pathlib import Path

import pytest

from unbag.benchmarks.classification.datasets import CIFAR10
from unbag.cli import main
from unbag.errors import UnbagError
from unbag.world.benchmarks import triple_items


def lay_out(root: Path, split: str, images: int) -> None:
    """Two classes of images of the world, told apart by nothing: only the road is tested."""
    items = triple_items(["swap"], n=1)
    for name in ("cat", "dog"):
        folder = root / "cifar10" / split / name
        folder.mkdir(parents=True)
        for i in range(images):
            items[4 * i % 8].images[0].open().save(folder / f"{i}.png")


def run(root: Path, *more: str) -> int:
    shared = ["--data", str(root), "--out", str(root / "out"), "--no-cache", "--device", "cpu"]
    return main(["run", "--model", "tiny:base", "--scorer", "linear-probe", *shared, *more])


def test_a_probe_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lay_out(tmp_path, "train", 4)
    lay_out(tmp_path, "test", 2)
    assert run(tmp_path, "--bench", "cifar10", "--blind", "none") == 0
    said = capsys.readouterr()
    assert "linear probe of tiny:base: fitted on 8 images of 2 classes" in said.err
    (result, *_) = json.loads((tmp_path / "out" / "results.json").read_text())
    assert result["protocol"]["scoring"] == "linear probe"
    assert result["overall"]["accuracy"]["n"] == 4


@pytest.mark.parametrize(
    ("bench", "message"),
    [
        (["world-swap"], "the benchmark 'world-swap' has no training split"),
        (["cifar10", "cifar100"], "--scorer linear-probe with 2 benchmarks"),
        (["cifar10"], "cifar10 has no folder train"),
    ],
)
def test_what_a_probe_cannot_do_is_said(
    bench: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lay_out(tmp_path, "test", 1)
    assert run(tmp_path, "--bench", *bench) == 1
    assert message in capsys.readouterr().err


def test_a_model_without_vectors_cannot_be_probed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lay_out(tmp_path, "train", 1)
    out = ["--data", str(tmp_path), "--out", str(tmp_path / "out")]
    model = ["--model", "caption:short", "--scorer", "linear-probe"]
    assert main(["run", *model, "--bench", "cifar10", *out]) == 1
    assert "needs image embeddings, and 'caption:short' has none" in capsys.readouterr().err


def test_training_items_share_the_classes_of_the_test_split(tmp_path: Path) -> None:
    lay_out(tmp_path, "train", 2)
    lay_out(tmp_path, "test", 1)
    assert CIFAR10.load_training is not None
    train = CIFAR10.load_training(tmp_path / "cifar10")
    test = CIFAR10.load(tmp_path / "cifar10")
    assert (len(train), len(test)) == (4, 2)
    assert train[0].captions == test[0].captions
    assert {item.images[0].name for item in train}.isdisjoint(
        {item.images[0].name for item in test}
    )
    with pytest.raises(UnbagError, match="has no folder train"):
        CIFAR10.load_training(tmp_path / "cifar10" / "test")


TAGGER = """\
class Nouns:
    name = "all nouns 1"
    def __call__(self, captions):
        return [[(word, "NN") for word in caption.split()] for caption in captions]
NOUNS = Nouns()
"""


@pytest.mark.parametrize(("tagger", "options"), [("cli_nouns:NOUNS", 4), ("none", 3)])
def test_a_tagger_is_chosen_and_named(
    tagger: str,
    options: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "cli_nouns.py").write_text(TAGGER)
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = tmp_path / "aro_order_coco"
    (folder / "val2014").mkdir(parents=True)
    triple_items(["swap"], n=1)[0].images[0].open().save(folder / "val2014" / "1.png")
    rows = [{"image": "val2014/1.png", "caption": ["two dogs sleep below the old tree"]}]
    (folder / "coco_karpathy_test.json").write_text(json.dumps(rows))
    shared = ["--data", str(tmp_path), "--out", str(tmp_path / "out"), "--no-cache"]
    command = ["run", "--model", "tiny:base", "--bench", "aro_order_coco", "--blind", "none"]
    assert main([*command, "--tagger", tagger, *shared]) == 0
    said = capsys.readouterr().err
    about = json.loads((tmp_path / "out" / "results.json").read_text())[0]["about"]
    is_tagged = tagger != "none"
    assert ("part-of-speech tagger: all nouns 1" in said) == is_tagged
    assert ("Parts of speech: all nouns 1." in about) == is_tagged
    assert ("no tagger" in " ".join(said.split())) != is_tagged
    result = json.loads((tmp_path / "out" / "results.json").read_text())[0]
    assert result["overall"]["accuracy"]["chance"] == 1 / options
