"""`unbag run`: blind baselines, linear probes, taggers, and models that fail."""

import json
from pathlib import Path

import pytest

from unbag.benchmarks.classification.datasets import CIFAR10
from unbag.benchmarks.sugarcrepe import KINDS
from unbag.cli import main
from unbag.cli.run import blind_names
from unbag.errors import UnbagError
from unbag.models.baselines import ALL
from unbag.world.benchmarks import triple_items


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
def test_blind_names(asked: list[str], expected: list[str]) -> None:
    assert blind_names(asked, models=["tiny:base"]) == expected


def test_a_baseline_that_is_a_model_runs_once() -> None:
    assert blind_names(["all"], models=["caption:random"]) == [ALL[0], *ALL[2:]]


def test_none_with_others_is_refused() -> None:
    with pytest.raises(UnbagError, match="--blind none caption:long") as error:
        blind_names(["none", "caption:long"], models=[])
    assert "`--blind all` runs caption:constant" in str(error.value)


@pytest.fixture
def blind_run(tmp_path: Path) -> list[str]:
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


def test_all_baselines_from_annotations_alone(blind_run: list[str], tmp_path: Path) -> None:
    assert main([*blind_run, "--model", "caption:short", "--blind", "all"]) == 0
    results = json.loads((tmp_path / "run/results.json").read_text())
    accuracy = {
        r["scorer"]: r["overall"]["accuracy"]["value"] for r in results if r["aggregate"] == "micro"
    }
    coin = accuracy.pop("caption:random")
    assert accuracy == {"caption:short": 1, "caption:constant": 0, "caption:long": 0}
    # 20 images stand in seven files: the same 20 throws seven times.
    assert 0.2 < coin < 0.8


def test_a_model_that_sees_needs_the_images(
    blind_run: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*blind_run, "--model", "tiny:base"]) == 1
    assert "20 images of 'sugarcrepe' are missing" in capsys.readouterr().err
    assert main([*blind_run, "--model", "caption:short", "--missing", "skip"]) == 1
    assert "140 of 140 items are left out" in capsys.readouterr().err


def lay_out(root: Path, split: str, images: int) -> None:
    """Two classes of images of the world, told apart by nothing: only the road is tested."""
    items = triple_items(["swap"], n=1)
    for name in ("cat", "dog"):
        folder = root / "cifar10" / split / name
        folder.mkdir(parents=True)
        for i in range(images):
            items[4 * i % 8].images[0].open().save(folder / f"{i}.png")


def probe(root: Path, *more: str) -> int:
    shared = ["--data", str(root), "--out", str(root / "out"), "--no-cache", "--device", "cpu"]
    return main(["run", "--model", "tiny:base", "--scorer", "linear-probe", *shared, *more])


def test_a_probe_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lay_out(tmp_path, "train", 4)
    lay_out(tmp_path, "test", 2)
    assert probe(tmp_path, "--bench", "cifar10", "--blind", "none") == 0
    printed = capsys.readouterr()
    assert "linear probe of tiny:base: fitted on 8 images of 2 classes" in printed.err
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
def test_what_a_probe_cannot_do(
    bench: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lay_out(tmp_path, "test", 1)
    assert probe(tmp_path, "--bench", *bench) == 1
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
    printed = capsys.readouterr().err
    about = json.loads((tmp_path / "out" / "results.json").read_text())[0]["about"]
    is_tagged = tagger != "none"
    assert ("part-of-speech tagger: all nouns 1" in printed) == is_tagged
    assert ("Parts of speech: all nouns 1." in about) == is_tagged
    assert ("no tagger" in " ".join(printed.split())) != is_tagged
    result = json.loads((tmp_path / "out" / "results.json").read_text())[0]
    assert result["overall"]["accuracy"]["chance"] == 1 / options


MODELS = """
import os
class Good:
    name, fingerprint, scoring, is_blind = "good", "good-1", "odd", False
    def score(self, queries):
        print("asked", self.name)
        return [float(len(q.caption)) for q in queries]
class Raise(Good):
    name, fingerprint, batches = "raise", "raise-1", 0
    def score(self, queries):
        self.batches += 1
        if self.batches == 2 and not os.path.exists("mended"):
            raise RuntimeError("the second batch is too much for me")
        return super().score(queries)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A researcher's own folder with two models in it."""
    (tmp_path / "cli_test_night.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_model_that_fails_does_not_stop_the_others(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "--model", "cli_test_night:Raise", "cli_test_night:Good"]
    words += ["--bench", "world-swap", "--no-cache", "--out", "x"]
    assert main(words) == 1
    printed = capsys.readouterr()
    failure = (
        "raise on world-swap: it failed with RuntimeError: the second batch is too much for me; "
        "its traceback is in x/tracebacks.txt, and the same command again tries only what is "
        "missing"
    )
    assert f"unbag: {failure}\n" in printed.err
    assert "Traceback" not in printed.err
    assert "report:  x/report.html" in printed.out
    assert 'raise RuntimeError("the second batch' in (here / "x/tracebacks.txt").read_text()
    assert json.loads((here / "x/problems.json").read_text()) == [failure]
    assert json.loads((here / "x/run.json").read_text())["state"] == "failed"
    results = json.loads((here / "x/results.json").read_text())
    assert {r["scorer"] for r in results} == {"good", "caption:short"}
    assert "it failed with RuntimeError" in (here / "x/report.html").read_text()
    assert main(["report", "x"]) == 0

    (here / "mended").touch()
    capsys.readouterr()
    assert main(words) == 0
    printed = capsys.readouterr()
    assert printed.out.count("asked good") == 0
    # Of 13 chunks the first is saved.
    assert printed.out.count("asked raise") == 12
    assert json.loads((here / "x/run.json").read_text())["state"] == "done"
    assert json.loads((here / "x/problems.json").read_text()) == []
    assert not (here / "x/tracebacks.txt").exists()


def test_two_models_of_one_name_are_named_as_typed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "cli_test_other.py").write_text("from cli_test_night import Good\n")
    words = ["run", "--model", "cli_test_night:Good", "cli_test_other:Good"]
    assert main([*words, "--bench", "world-swap", "--no-cache", "--out", "x"]) == 1
    printed = capsys.readouterr().err
    assert "cli_test_night:Good and cli_test_other:Good are both called 'good'" in printed
    assert "rename or copy the folder of one of them" in printed
    words = ["run", "--model", "cli_test_night:Good", "cli_test_night:Good"]
    assert main([*words, "--bench", "world-swap", "--no-cache", "--out", "x"]) == 1
    printed = capsys.readouterr().err
    assert "the model 'good' was given twice" in printed
    assert "leave one of them out" in printed
