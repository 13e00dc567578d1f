"""Tables and progress in a terminal, a pipe and a log file."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from unbag.cli.console import TerminalProgress, output
from unbag.reports.formatting import speed_text


def test_a_pipe_is_never_cut_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    line = "word " * 300 + "end"
    output().print(line)
    assert capsys.readouterr().out == f"{line}\n"
    monkeypatch.setenv("COLUMNS", "80")
    assert output().width == 80


@pytest.mark.parametrize(
    ("speed", "text"), [(1234.4, "1,234/s"), (1.0, "1/s"), (0.25, "4.0 s each")]
)
def test_speeds(speed: float, text: str) -> None:
    assert speed_text(speed) == text


def test_a_log_gets_one_line_when_work_is_done() -> None:
    file = io.StringIO()
    with TerminalProgress(Console(file=file, width=80)).task("measuring", 4) as advance:
        advance(4)
    assert file.getvalue().startswith("  measuring: 4 in 0.0 s (")


def test_a_log_shows_long_and_interrupted_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr("unbag.cli.console.time.monotonic", lambda: clock[0])
    file = io.StringIO()
    with TerminalProgress(Console(file=file, width=200)).task("training", 400) as advance:
        clock[0] = 30.0
        advance(50)
        clock[0] = 90.0
        advance(130)
        clock[0] = 100.0
    assert file.getvalue().splitlines() == [
        "  training: 180 of 400 (2/s), about 2 min left",
        "  training: 180 in 100.0 s (2/s)",
    ]
