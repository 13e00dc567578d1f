"""`unbag edit`, with a real parser and real files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unbag.cli import main

DOG = "A brown dog sleeps beside a small child."
ODD = {
    "": "empty",
    "dog": "one word",
    "🙂 🎉": "no letters",
    "word " * 300: "more than 80 words",
    "Ein Hund und eine Katze schlafen zusammen unter dem Tisch": "not English",
    "<b>a dog</b> and a cat": "markup or web address",
}
KINDS = ["--kinds", "swap_nouns", "left_right"]


@pytest.fixture
def captions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Captions of all sorts, two of them with edits."""
    monkeypatch.chdir(tmp_path)
    good = [DOG, "A CUP STANDS TO THE LEFT\nOF A PLATE"]
    lines = [{"image": f"{i}.jpg", "caption": c} for i, c in enumerate([*good, *ODD])]
    Path("a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def test_a_collection_with_captions_of_all_sorts(
    captions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["edit", "--captions", "a.jsonl", "--out", "b.jsonl", *KINDS]) == 0
    printed = capsys.readouterr().out
    assert "8 captions: 2 edited (25.0 %), 0 without edits, 6 skipped" in printed
    lines = [json.loads(line) for line in Path("b.jsonl").read_text().splitlines()]
    assert [line.get("skipped", "") for line in lines] == ["", "", *ODD.values()]
    assert all(f"skipped: {reason}: 1" in printed for reason in ODD.values())
    texts = {edit["kind"]: edit["text"] for edit in lines[1]["edits"]}
    assert texts["left_right"] == "A CUP STANDS TO THE RIGHT OF A PLATE"
    assert lines[1]["caption"] == "A CUP STANDS TO THE LEFT OF A PLATE"
    rows = {line.split()[0]: line.split() for line in printed.splitlines() if line.strip()}
    assert rows["kind"] == ["kind", "places", "captions", "share", "edits", "rejected"]
    assert rows["left_right"][:7] == ["left_right", "-", "1", "1", "12.5", "%", "1"]
    assert "edits: b.jsonl\nsummary: b.jsonl.summary.json" in printed
    summary = json.loads(Path("b.jsonl.summary.json").read_text())
    assert (summary["captions"], summary["edited"], summary["without_edit"]) == (8, 2, 0)
    assert summary["skipped"] == dict.fromkeys(ODD.values(), 1)
    assert summary["kinds"]["left_right"]["edits"] == 1


def test_two_workers_give_the_same_bytes(captions: Path) -> None:
    for name, workers in (("b.jsonl", "1"), ("c.jsonl", "2")):
        arguments = ["edit", "--captions", "a.jsonl", "--out", name, "--workers", workers]
        assert main([*arguments, *KINDS]) == 0
    assert Path("b.jsonl").read_bytes() == Path("c.jsonl").read_bytes()


def test_one_caption(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["edit", "--try", "a cup to the left of a plate", *KINDS]) == 0
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert ["-", "left_right", "a cup to the right of a plate"] in [
        [cell.strip() for cell in line] for line in lines
    ]
    assert main(["edit", "--try", "a cup", "--kinds", "left_right"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "no edits of kind: left_right"
    assert main(["edit", "--try", "cup"]) == 0
    assert capsys.readouterr().out == "cup\nskipped: one word\n"
    assert main(["edit", "--try", "a cup", "--device", "cudaa"]) == 1
    assert "the device 'cudaa' cannot be used" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ([], "--captions and --out were not both given"),
        (["--captions", "a.jsonl", "--out", "b.txt"], "the extension of b.txt is not that"),
        (["--captions", "no.jsonl", "--out", "b.jsonl"], "there is no file no.jsonl"),
        (["--kinds", "left_rihgt"], "did you mean 'left_right'"),
        (["--pipeline", "no_such_pipeline"], "the parser 'no_such_pipeline' cannot be loaded"),
        (["--kinds", "antonym", "--wordnet", "no/such"], "there is no WordNet in 'no/such'"),
        (["--filters", "fluensy"], "unknown filter 'fluensy'"),
        (["--device", "cudaa"], "the device 'cudaa' cannot be used"),
        (["--leak", "/no/such"], "there is no language model at '/no/such'"),
        (["--caption-column", "said"], "line 1 has no field 'said', only image, caption"),
        (["--out", "b.tar"], "cannot be written as webdataset shards"),
    ],
)
def test_mistakes_are_reported_with_a_hint(
    captions: Path, capsys: pytest.CaptureFixture[str], more: list[str], found: str
) -> None:
    usual = ["--captions", "a.jsonl", "--out", "b.jsonl"] if more else []
    assert main(["edit", *usual, *KINDS, *more]) == 1
    printed = capsys.readouterr().err
    assert found in printed
    assert "hint:" in printed or "expected:" in printed
    assert not Path("b.jsonl.parts").exists()


@pytest.mark.parametrize(
    ("more", "flags"),
    [
        (["--out", "x.jsonl"], "--out"),
        (["--captions", "a.jsonl", "--out", "x.jsonl"], "--captions, --out"),
        (["--workers", "1"], "--workers"),
        (["--bad-lines", "error"], "--bad-lines"),
        (["--format", "tsv", "--limit", "3", "--ray", "auto"], "--format, --limit, --ray"),
        (["--captions-format", "csv", "--leak", "gpt2"], "--captions-format, --leak"),
        (["--caption-column", "a", "--image-column", "b"], "--caption-column, --image-column"),
        (["--neighbours", "n.jsonl"], "--neighbours"),
    ],
)
def test_options_of_files_are_refused_for_one_caption(
    captions: Path, capsys: pytest.CaptureFixture[str], more: list[str], flags: str
) -> None:
    assert main(["edit", "--try", "a cup on a plate", *more]) == 1
    assert f"unbag: --try was given with {flags}\n" in capsys.readouterr().err
    assert [path.name for path in captions.iterdir()] == ["a.jsonl"]


def test_malformed_lines_are_skipped_on_request(
    captions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("a.jsonl").open("ab") as file:
        file.write(b'{"caption": "caf\xe9 and table"}\n')
    arguments = ["edit", "--captions", "a.jsonl", "--out", "b.jsonl", *KINDS]
    assert main(arguments) == 1
    assert "a.jsonl, line 9 is not UTF-8: byte 0xe9" in capsys.readouterr().err
    assert main([*arguments, "--bad-lines", "skip"]) == 0
    assert "malformed: a.jsonl, line 9 is not UTF-8" in capsys.readouterr().out


def test_the_same_command_again(captions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["edit", "--captions", "a.jsonl", "--out", "b.jsonl", "--kinds", "left_right"]
    assert main(arguments) == 0
    first = capsys.readouterr().out
    assert main(arguments) == 0
    again = capsys.readouterr()
    assert again.out == first
    assert "b.jsonl is done already" in again.err
    assert main([*arguments, "--seed", "1"]) == 1
    assert "b.jsonl exists already: seed: 0 before, 1 now" in capsys.readouterr().err


def test_the_list_of_edits_describes_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "edits"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("left_right ") and "[negative] " in line for line in lines)
    assert any("[positive" in line for line in lines)
