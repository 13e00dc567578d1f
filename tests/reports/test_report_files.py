"""One file from results or run folders: what it takes, and what it never writes over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import unbag as ub
from unbag.cli import main
from unbag.reports.exports import FORMS
from unbag.types import RunContents

FORM = pytest.mark.parametrize("form", FORMS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    out = tmp_path_factory.mktemp("runs") / "first"
    words = ["run", "--model", "caption:short", "--bench", "world-order", "--no-cache"]
    assert main([*words, "--out", str(out)]) == 0
    return out


@FORM
def test_a_report_is_written_anew(run: RunContents, tmp_path: Path, form: str) -> None:
    path = tmp_path / f"x{form}"
    ub.report(run.results[:1], path)
    short = path.stat().st_size
    assert ub.report(run, path).stat().st_size > short


@FORM
@pytest.mark.parametrize("content", ["", "image,caption\na.jpg,a cup\n", '{"results": []}', "\xff"])
def test_another_file_is_not_written_over(
    run: RunContents, tmp_path: Path, form: str, content: str
) -> None:
    path = tmp_path / f"cap{form}"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(ub.UnbagError) as caught:
        ub.report(run, path)
    assert caught.value.message == f"{path} exists and is not a report of unbag"
    assert caught.value.hint == "choose another name, or delete it"
    assert path.read_text(encoding="latin-1") == content
    assert list(tmp_path.iterdir()) == [path]


def test_the_command_refuses_before_it_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cap.csv"
    path.write_text("image,caption\n")
    assert main(["report", "no/such/run", "--out", str(path)]) == 1
    assert f"unbag: {path} exists and is not a report of unbag\n" in capsys.readouterr().err


def test_run_folders_are_taken_as_the_command_takes_them(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = str(folder.with_name("second"))
    words = ["run", "--model", "caption:short", "--bench", "world-order", "--ties", "half"]
    assert main([*words, "--no-cache", "--out", other]) == 0
    assert main(["report", str(folder), other, "--out", str(tmp_path / "both.json")]) == 0
    both = (tmp_path / "both.json").read_text()
    assert other in both
    several: list[str | Path] = [folder, other]
    assert ub.report(several, tmp_path / "a.json").read_text() == both
    one = ub.report(folder, tmp_path / "one.json").read_text()
    assert ub.report(str(folder), tmp_path / "two.json").read_text() == one
    assert [len(json.loads(text)["results"]) for text in (one, both)] == [1, 2]


def test_one_result_needs_no_list(run: RunContents, tmp_path: Path) -> None:
    first: Any = run.results[0]
    one = ub.report(first, tmp_path / "one.csv").read_text()
    assert one == ub.report([first], tmp_path / "two.csv").read_text()


def test_what_is_no_result_is_named(run: RunContents, folder: Path, tmp_path: Path) -> None:
    mixed: Any = [run.results[0], str(folder)]
    wrong: Any = 3
    for given, found in ((mixed, "a report of Result, str"), (wrong, "a report of int")):
        with pytest.raises(ub.UnbagError) as caught:
            ub.report(given, tmp_path / "x.html")
        assert caught.value.message == found
        assert 'ub.report("runs/first", path)' in caught.value.hint
    assert not list(tmp_path.iterdir())


def test_the_run_below_a_training_folder_is_named(folder: Path, tmp_path: Path) -> None:
    trained = tmp_path / "trained"
    (trained / "before_after").mkdir(parents=True)
    with pytest.raises(ub.UnbagError, match=r"has no run\.json") as caught:
        ub.report(trained, tmp_path / "x.html")
    assert caught.value.hint == "check the path; `unbag run --out` makes such folders"
    (trained / "run.json").write_text('{"kind": "training run", "identity": {}}')
    (trained / "before_after" / "run.json").write_bytes((folder / "run.json").read_bytes())
    with pytest.raises(ub.UnbagError, match=r"has no results\.json") as caught:
        ub.report(trained, tmp_path / "x.html")
    assert caught.value.hint == f"give a run below it: {trained / 'before_after'}"
