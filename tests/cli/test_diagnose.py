"""`unbag diagnose`, with a model of few parameters and small probes."""

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
    printed = capsys.readouterr()
    assert "Is it positive?" in printed.out
    assert "It is " in printed.out
    assert "i fact" in printed.out
    assert "skipped: Is it anything? it is not to be asked" in printed.out
    out = Path("unbag-diagnosis", "tiny-old.safetensors-on-few_probes-SWAP")
    assert f"page:    {out / 'diagnosis.html'}" in printed.out
    assert f"numbers: {out / 'diagnosis.json'}" in printed.out
    assert "few: done (" in printed.err
    assert "never: skipped (" in printed.err
    diagnosis = json.loads((out / "diagnosis.json").read_text(encoding="utf-8"))
    assert diagnosis["is_whole"] is True
    assert diagnosis["seed"] == 3
    assert diagnosis["answers"][0]["notes"] == ["(-2, 1)"]
    assert diagnosis["random_init"] is not None
    assert diagnosis["material"] == "few-swap"
    assert "--layers -2 1" in diagnosis["record"]["command"]
    assert "Why does" in (out / "diagnosis.html").read_text(encoding="utf-8")


def test_maps_can_be_skipped(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert diagnose("--no-random-init", "--json", "--out", "o") == 0
    assert json.loads(capsys.readouterr().out)["maps"]
    assert diagnose("--no-random-init", "--no-maps", "--json", "--out", "p") == 0
    diagnosis = json.loads(capsys.readouterr().out)
    assert diagnosis["maps"] == []
    assert not any("no map" in note for note in diagnosis["notes"])


def test_two_models_without_the_random_control(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        diagnose("--against", "tiny:new.safetensors", "--no-random-init", "--json", "--out", "o")
        == 0
    )
    diagnosis = json.loads(capsys.readouterr().out)
    assert diagnosis["random_init"] is None
    assert diagnosis["against"]["name"] == "tiny:new"
    quantity = diagnosis["answers"][0]["quantities"][0]
    assert quantity["difference"]["value"] == pytest.approx(
        quantity["value"] - quantity["against"]["value"]
    )
    assert quantity["random_init"] is None


def test_a_diagnosis_of_another_model_is_not_replaced(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is printed before a question is put; the same one may be asked more."""
    assert diagnose("--no-random-init", "--out", "o") == 0
    before = {path.name: path.read_bytes() for path in Path("o").iterdir()}
    probes = ("few_probes:STOP",)
    assert diagnose("--model", "tiny:new.safetensors", "--out", "o", probes=probes) == 1
    printed = capsys.readouterr().err
    assert (
        "the folder o holds another diagnosis: model.name: tiny:old before, tiny:new now" in printed
    )
    assert "name another folder with --out" in printed
    assert diagnose("--against", "tiny:new.safetensors", "--out", "o", probes=probes) == 1
    assert "against: nothing before, " in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in Path("o").iterdir()} == before
    assert diagnose("--out", "o", probes=("few_probes:FEW", "few_probes:NEVER")) == 0


def test_ctrl_c_saves_the_answers_so_far(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    probes = ("few_probes:FEW", "few_probes:STOP")
    assert diagnose("--out", "half", probes=probes) == 130
    page = Path("half", "diagnosis.html")
    printed = capsys.readouterr().err
    assert f"stopped; the results of 1 probe are in {page}" in printed
    assert json.loads(Path("half", "diagnosis.json").read_text())["is_whole"] is False
    assert "not finished: 1 question so far" in page.read_text(encoding="utf-8")
    assert diagnose("--out", "none", probes=("few_probes:STOP",)) == 130
    assert "stopped before the first probe was done; nothing was written" in (
        capsys.readouterr().err
    )
    assert not Path("none").exists()
    # The same folder may be filled again.
    assert diagnose("--out", "half") == 0


def test_without_any_answer_the_exit_code_is_1(folder: Path) -> None:
    assert diagnose("--out", "o", probes=("few_probes:NEVER",)) == 1
    assert "No probe could run on" in Path("o", "diagnosis.html").read_text(encoding="utf-8")


def test_mistakes_are_reported_before_anything_is_computed(
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


def test_a_full_disk(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(written, "write_text", full)
    assert diagnose("--out", "o") == 1
    assert "no room is left on the disk of o" in capsys.readouterr().err


def test_maps_of_a_read_out_and_of_the_model(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = load_tiny(str(folder / "old.safetensors"))
    sizes = Sizes(4, CONFIG.picture_width, CONFIG.joint)
    settings = PaclSettings()
    head = ReaderHeader("pacl", asdict(settings), sizes, model.name, model.fingerprint)
    save_head(PACL.fresh(settings, sizes, seed=0), folder / FILE, head)
    assert diagnose("--scorer", f"pacl@{folder}", "--no-random-init", "--json") == 0
    diagnosis = json.loads(capsys.readouterr().out)
    out = Path("unbag-diagnosis", "tiny-old.safetensors+pacl-on-few_probes-SWAP", "diagnosis.json")
    assert json.loads(out.read_text(encoding="utf-8")) == diagnosis
    assert diagnosis["model"]["name"] == "tiny:old+pacl"
    titles = [entry["title"] for entry in diagnosis["maps"]]
    assert titles == sorted(titles)
    assert set(titles) == {"tiny:old", "tiny:old+pacl"}
    assert diagnosis["maps"][-1]["maps"][0]["word"] == "(the whole caption)"
    assert diagnose("--scorer", "pacl@nowhere") == 1
    assert "nowhere/reader.safetensors is not a reader" in capsys.readouterr().err
