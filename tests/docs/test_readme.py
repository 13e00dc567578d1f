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
    sections = dict(zip(*[iter(re.split(r"^ (world-\w+).*$", printed, flags=re.M)[1:])] * 2))  # noqa: B905
    rows = 0
    for name, section in zip(*[iter(re.split(r"^ (world-\w+).*$", table[1], flags=re.M)[1:])] * 2):  # noqa: B905
        for line in section.strip("\n").splitlines():
            if "[" in line and "interval" not in line:
                rows += 1
                assert line.split() in [shown.split() for shown in sections[name].splitlines()]
    assert rows == 6
