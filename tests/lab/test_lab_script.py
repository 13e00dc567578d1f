"""Scripts of the lab tell their users what to mend, as the command line does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import unbag.lab
from unbag.errors import UserError
from unbag.lab.script import run_script

SCRIPTS = [
    path
    for path in sorted(Path(unbag.lab.__path__[0]).glob("*.py"))
    if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
]


def _raise(error: BaseException) -> None:
    raise error


def test_what_a_user_can_mend_is_told_without_a_traceback(tmp_path: Path) -> None:
    asked = [sys.executable, "-m", "unbag.lab.join", str(tmp_path / "none"), "--into", "results"]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"unbag: no results in {tmp_path / 'none'}")
    assert "way out:" in done.stderr
    assert "Traceback" not in done.stderr


def test_codes_are_those_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run_script(lambda: _raise(UserError("a cat", expected="a dog")))
    assert ended.value.code == "unbag: a cat\n  expected: a dog"
    with pytest.raises(SystemExit) as ended:
        run_script(lambda: _raise(KeyboardInterrupt()))
    assert ended.value.code == 130
    assert capsys.readouterr().err == "unbag: stopped\n"
    # What no user can mend keeps its traceback.
    with pytest.raises(KeyError):
        run_script(lambda: _raise(KeyError("a")))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_is_run_so(path: Path) -> None:
    assert path.read_text(encoding="utf-8").endswith(
        '\n\nif __name__ == "__main__":\n    run_script(main)\n'
    )
