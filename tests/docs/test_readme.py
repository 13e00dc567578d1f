"""The table of the demo in the README has the numbers that the models get."""

import re
from pathlib import Path

import pytest

from unbag.cli import main

README = Path(__file__).parents[2] / "README.md"


def test_the_table_of_the_demo_is_what_the_models_get(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = re.search(r"```text\n( +caption:short\n.*?)```", README.read_text("utf-8"), re.S)
    assert table
    benchmarks = re.findall(r"^ (world-\w+)", table[1], flags=re.M)
    models = ["tiny:base", "tiny:hard_negative", "tiny:random"]
    out = ["--out", str(tmp_path / "run")]
    assert main(["run", "--model", *models, "--bench", *benchmarks, *out]) == 0
    printed = capsys.readouterr().out
    rows = rows_of(table[1])
    assert len(rows) == 6
    assert set(rows) <= set(rows_of(printed))


def rows_of(table: str) -> list[tuple[str, ...]]:
    """The rows of numbers, each after the name of its benchmark."""
    rows, benchmark = [], ""
    for line in table.splitlines():
        if name := re.match(r" (world-\w+)", line):
            benchmark = name[1]
        elif re.match(r"   \w", line) and "[" in line:
            rows.append((benchmark, *line.split()))
    return rows
