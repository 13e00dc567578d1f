"""Commands of plug-ins: listed without an import, imported when called, missed with a hint."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from unbag import registry
from unbag.cli import main

PLUGIN = """
def add(commands):
    commands.add_parser("count", help="x").add_argument("numbers", nargs="+", type=int)

def start(options):
    print(sum(options.numbers))
    return 3
"""


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """The only entry points there are."""
    there: list[EntryPoint] = []

    def find(*, group: str, name: str | None = None) -> list[EntryPoint]:
        return [one for one in there if one.group == group and name in (None, one.name)]

    monkeypatch.setattr(registry, "entry_points", find)
    registry.plugin_commands.cache_clear()
    yield there
    registry.plugin_commands.cache_clear()


def test_the_study_that_is_not_installed_says_what_to_install(
    points: list[EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "show", "cone"]) == 1
    assert "pip install ./lab" in capsys.readouterr().err
    assert main([]) == 0
    assert "\n    lab " in capsys.readouterr().out


def test_a_plug_in_adds_a_command(
    points: list[EntryPoint],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "counting_plugin.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    points.append(EntryPoint("count", "counting_plugin", "unbag.commands"))
    assert main([]) == 0
    assert "counting_plugin" not in sys.modules
    assert "\n    count " in capsys.readouterr().out
    assert main(["count", "2", "5"]) == 3
    assert capsys.readouterr().out == "7\n"


def test_a_plug_in_cannot_replace_a_command(
    points: list[EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    points.append(EntryPoint("run", "nowhere", "unbag.commands"))
    assert main(["list", "models"]) == 1
    assert "registers the command 'run'" in capsys.readouterr().err


def test_help_does_not_import_the_study() -> None:
    code = "import sys; from unbag.cli import main; main([]); sys.exit('unbag_lab' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0


def test_a_plug_in_that_cannot_run_is_named(
    points: list[EntryPoint],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "half_plugin.py").write_text("def add(commands): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    points += [
        EntryPoint("gone", "no_such_plugin.cli", "unbag.commands"),
        EntryPoint("half", "half_plugin", "unbag.commands"),
    ]
    assert main(["gone"]) == 1
    assert "the command 'gone' of a plug-in cannot be imported" in capsys.readouterr().err
    assert main(["half"]) == 1
    assert "half_plugin has no start()" in capsys.readouterr().err


def test_two_plug_ins_with_one_command_are_refused(
    points: list[EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    points += [EntryPoint("count", place, "unbag.commands") for place in ("one", "two")]
    assert main(["list", "models"]) == 1
    assert "registers the command 'count'" in capsys.readouterr().err
