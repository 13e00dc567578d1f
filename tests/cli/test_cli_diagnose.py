"""`unbag diagnose` from the command line, with a model of a few numbers and probes of our own."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from unbag.cli import main
from unbag.models.tiny import TinyConfig, untrained, write
from unbag.models.tiny import load as load_tiny
from unbag.probes.diagnosis import page as written
from unbag.readouts.pacl import PACL, PaclSettings
from unbag.readouts.reader import FILE, ReaderHeader, Sizes, save_head

CONFIG = TinyConfig(
    pixels=32, patch=16, picture_width=8, picture_depth=1, caption_width=8, caption_depth=1,
    joint=8, heads=2, context=16, words=("a", "red", "star", "and", "blue"),
)  # fmt: skip
PROBES = """
import numpy as np
from unbag.metrics.triples import Triples
from unbag.probes.base import ProbeResult, Known, mean
from unbag.probes.base import Probe, Verdict
from unbag.types import Benchmark
from unbag.world.benchmarks import triple_items

def ask(subject, material, options, progress):
    found = np.array([subject.space.images([row.image])[0, 0] > 0 for row in material.rows])
    share = mean("share", found.astype(float), about="a sign", options=options, is_rate=True,
                 known=Known(chance=0.5))
    return ProbeResult("few", (share,), headline="share", notes=(str(options.layers),))

def stop(*_):
    raise KeyboardInterrupt

def say(finding):
    return Verdict("told", "It is {share:.2f}.", {"share": finding["share"].estimate.value})

FEW = Probe("few", "Is it positive?", "A sign.", ask, say)
NEVER = Probe("never", "Is it anything?", "Nothing.",
              lambda *_: ProbeResult("never", skipped="it is not to be asked"), say)
STOP = Probe("stop", "Does it stop?", "It does.", stop, say)

def swaps(root):
    return triple_items(["swap"], n=2)

SWAP = Benchmark("few-swap", "a", swaps, (Triples(),), "original")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "few_probes.py").write_text(PROBES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("old", "new")):
        write(untrained(CONFIG, seed=seed), tmp_path / f"{name}.safetensors")
    return tmp_path


def diagnose(*more: str, probes: tuple[str, ...] = ("few_probes:FEW",)) -> int:
    words = ["diagnose", "--model", "tiny:old.safetensors", "--on", "few_probes:SWAP"]
    return main([*words, "--probes", *probes, "--device", "cpu", "--no-cache", *more])


def test_a_table_a_page_and_numbers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    probes = ("few_probes:FEW", "few_probes:NEVER")
    assert diagnose("--layers", "-2", "1", "--seed", "3", probes=probes) == 0
    said = capsys.readouterr()
    assert "Is it positive?" in said.out
    assert "It is " in said.out
    assert "i fact" in said.out
    assert "skipped: Is it anything? it is not to be asked" in said.out
    out = Path("unbag-diagnosis", "tiny-old.safetensors-on-few_probes-SWAP")
    assert f"page:    {out / 'diagnosis.html'}" in said.out
    assert f"numbers: {out / 'diagnosis.json'}" in said.out
    assert "few: done (" in said.err
    assert "never: skipped (" in said.err
    found = json.loads((out / "diagnosis.json").read_text(encoding="utf-8"))
    assert found["is_whole"] is True
    assert found["seed"] == 3
    assert found["answers"][0]["notes"] == ["(-2, 1)"]
    assert found["random_init"] is not None
    assert found["material"] == "few-swap"
    assert "--layers -2 1" in found["record"]["command"]
    assert "Why does" in (out / "diagnosis.html").read_text(encoding="utf-8")


def test_maps_are_drawn_unless_they_are_not_wanted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert diagnose("--no-random-init", "--json", "--out", "o") == 0
    assert json.loads(capsys.readouterr().out)["maps"]
    assert diagnose("--no-random-init", "--no-maps", "--json", "--out", "p") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["maps"] == []
    assert not any("no map" in note for note in found["notes"])


def test_two_models_and_no_twin(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        diagnose("--against", "tiny:new.safetensors", "--no-random-init", "--json", "--out", "o")
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["random_init"] is None
    assert found["against"]["name"] == "tiny:new"
    quantity = found["answers"][0]["quantities"][0]
    assert quantity["difference"]["value"] == pytest.approx(
        quantity["value"] - quantity["against"]["value"]
    )
    assert quantity["random_init"] is None


def test_a_diagnosis_of_another_model_is_not_replaced(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said before a question is put; the same one may be asked more."""
    assert diagnose("--no-random-init", "--out", "o") == 0
    before = {path.name: path.read_bytes() for path in Path("o").iterdir()}
    asked = ("few_probes:STOP",)
    assert diagnose("--model", "tiny:new.safetensors", "--out", "o", probes=asked) == 1
    said = capsys.readouterr().err
    assert "the folder o holds another diagnosis: model.name: tiny:old before, tiny:new now" in said
    assert "name another folder with --out" in said
    assert diagnose("--against", "tiny:new.safetensors", "--out", "o", probes=asked) == 1
    assert "against: nothing before, " in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in Path("o").iterdir()} == before
    assert diagnose("--out", "o", probes=("few_probes:FEW", "few_probes:NEVER")) == 0


def test_a_stop_keeps_what_there_is_and_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    probes = ("few_probes:FEW", "few_probes:STOP")
    assert diagnose("--out", "half", probes=probes) == 130
    page = Path("half", "diagnosis.html")
    said = capsys.readouterr().err
    assert f"stopped; the results of 1 probe are in {page}" in said
    assert json.loads(Path("half", "diagnosis.json").read_text())["is_whole"] is False
    assert "not finished: 1 question so far" in page.read_text(encoding="utf-8")
    assert diagnose("--out", "none", probes=("few_probes:STOP",)) == 130
    assert "stopped before the first probe was done; nothing was written" in (
        capsys.readouterr().err
    )
    assert not Path("none").exists()
    # The same folder may be filled again.
    assert diagnose("--out", "half") == 0


def test_nothing_that_could_be_asked_is_no_success(folder: Path) -> None:
    assert diagnose("--out", "o", probes=("few_probes:NEVER",)) == 1
    assert "No question could be put to" in Path("o", "diagnosis.html").read_text(encoding="utf-8")


def test_wrong_names_are_said_before_anything_is_computed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert diagnose(probes=("agremeent",)) == 1
    assert "did you mean 'agreement'?" in capsys.readouterr().err
    assert diagnose("--on", "no/such/folder") == 1
    assert "there is no file or folder no/such/folder" in capsys.readouterr().err
    assert diagnose("--against", "tiny:old.safetensors") == 1
    assert "both models are called" in capsys.readouterr().err
    assert diagnose("--dtype", "bfloat16") == 1
    assert "cannot compute in bfloat16" in capsys.readouterr().err
    assert not Path("unbag-diagnosis").exists()


def test_a_full_disk_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(written, "write_text", full)
    assert diagnose("--out", "o") == 1
    assert "no room is left on the disk of o" in capsys.readouterr().err


def test_a_read_out_is_drawn_beside_the_model(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = load_tiny(str(folder / "old.safetensors"))
    sizes = Sizes(4, CONFIG.picture_width, CONFIG.joint)
    settings = PaclSettings()
    head = ReaderHeader("pacl", asdict(settings), sizes, model.name, model.fingerprint)
    save_head(PACL.fresh(settings, sizes, seed=0), folder / FILE, head)
    assert diagnose("--scorer", f"pacl@{folder}", "--no-random-init", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    out = Path("unbag-diagnosis", "tiny-old.safetensors+pacl-on-few_probes-SWAP", "diagnosis.json")
    assert json.loads(out.read_text(encoding="utf-8")) == said
    assert said["model"]["name"] == "tiny:old+pacl"
    titles = [one["title"] for one in said["maps"]]
    assert titles == sorted(titles)
    assert set(titles) == {"tiny:old", "tiny:old+pacl"}
    assert said["maps"][-1]["maps"][0]["word"] == "(the whole caption)"
    assert diagnose("--scorer", "pacl@nowhere") == 1
    assert "nowhere/reader.safetensors is not a reader" in capsys.readouterr().err
