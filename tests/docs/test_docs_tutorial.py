"""Every cell of the tutorial runs in one fresh folder, and prints what the page shows.

`...` on the page stands for what is left out; spaces and line breaks do not matter, everything else
does.
"""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from unbag.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(?P<kind>\w*)\n(?P<body>.*?)^```$", re.M | re.S)
ALIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Cell(NamedTuple):
    """Code or a command, and what it prints."""

    kind: str
    code: str
    printed: str


def cells(page: str) -> list[Cell]:
    """In order; a block of text belongs to the Python before it."""
    found: list[Cell] = []
    for block in BLOCK.finditer(page):
        kind, body = block["kind"], block["body"]
        if kind == "console":
            command, _, printed = body.replace("\\\n", " ").partition("\n")
            found.append(Cell(kind, command, printed))
        elif kind == "python":
            found.append(Cell(kind, body, ""))
        else:
            assert kind == "text", f"a block of kind {kind!r} is not run"
            assert found[-1].kind == "python"
            found[-1] = found[-1]._replace(printed=body)
    return found


def is_alike(shown: str, printed: str) -> bool:
    """Whether the page shows what was printed."""
    return doctest.OutputChecker().check_output(shown, printed, ALIKE)


CELLS = cells(PAGE.read_text(encoding="utf-8"))


def test_the_page_shows_what_its_cells_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    names: dict[str, object] = {}
    for cell in CELLS:
        if cell.kind == "python":
            exec(compile(cell.code, "tutorial", "exec"), names)
        else:
            program, *arguments = shlex.split(cell.code.removeprefix("$ "))
            assert program == "unbag"
            assert main(arguments) == 0, cell.code
        printed = capsys.readouterr().out
        assert is_alike(cell.printed, printed), f"{cell.code}\nprints\n{printed}"


def test_every_cell_shows_something_and_every_subject_is_there() -> None:
    assert all(cell.printed.replace("...", "").strip() for cell in CELLS)
    commands = {cell.code.split()[2] for cell in CELLS if cell.kind == "console"}
    assert commands == {"score", "run", "diagnose", "train", "lab"}
    said = PAGE.read_text(encoding="utf-8").lower()
    for subject in ("bag of words", "swap against replace", "retrieval does not notice",
                    "hard negative", "hard positive", "brittleness", "read-out", "cost",
                    "checkpoint", "lab"):  # fmt: skip
        assert subject in said


def test_another_number_would_be_seen() -> None:
    shown = "original  98.0\n...\nreport: x\n"
    assert is_alike(shown, "\n  original 98.0  \nwhatever\n report: x\n".lstrip())
    assert not is_alike(shown, "original 98.1\nwhatever\nreport: x\n")
    assert not is_alike(shown, "original 98.0\nwhatever\n")


def test_commands_may_go_over_several_lines() -> None:
    page = (
        "```console\n$ unbag run \\\n    --out x\nso\n```\n\n```python\n1\n```\n\n```text\n2\n```\n"
    )
    assert cells(page) == [
        Cell("console", "$ unbag run      --out x", "so\n"),
        Cell("python", "1\n", "2\n"),
    ]
