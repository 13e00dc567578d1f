"""Scripts of the lab tell their users what to mend, as the command line does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from unbag.errors import UnbagError
from unbag_lab.__main__ import SCRIPTS, main, run_script
from unbag_lab.results import results_in


def _raise(error: BaseException) -> None:
    raise error


def test_what_a_user_can_mend_is_told_without_a_traceback(tmp_path: Path) -> None:
    asked = [sys.executable, "-m", "unbag_lab", "join", str(tmp_path / "none"), "--into", "results"]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"unbag: no results in {tmp_path / 'none'}")
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr


def test_codes_are_those_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run_script(lambda: _raise(UnbagError("a cat", expected="a dog")))
    assert ended.value.code == "unbag: a cat\n  expected: a dog"
    with pytest.raises(SystemExit) as ended:
        run_script(lambda: _raise(KeyboardInterrupt()))
    assert ended.value.code == 130
    assert capsys.readouterr().err == "unbag: stopped\n"
    # What no user can mend keeps its traceback.
    with pytest.raises(KeyError):
        run_script(lambda: _raise(KeyError("a")))


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_says_what_it_does(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", sys.argv)
        with pytest.raises(SystemExit) as ended:
            main([name, "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith(f"usage: python -m unbag_lab {name} ")


def test_a_script_that_nobody_wrote_is_refused() -> None:
    with pytest.raises(UnbagError, match="unknown script 'pretran'"):
        main(["pretran"])


def test_arms_on_a_base_of_ones_own_are_run_and_shown_in_tables(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a folder of the lab: of one size, whoever began it, and resumed."""
    monkeypatch.setattr(sys, "argv", sys.argv)
    out = tmp_path / "own"
    words = ["arms", "ordered", "--bases", str(base), "--device", "cpu", "--out", str(out)]
    small = [*words, "--size", "small", "--arms"]
    main([*small, "hard_negative", "clip_ft"])
    assert {one.arm for one in results_in(out)} == {"random", "base", "clip_ft", "hard_negative"}
    capsys.readouterr()
    main([*small, "clip_ft"])
    assert f"small: every arm is in {out / 'ordered' / 'small'}" in capsys.readouterr().err
    main(["tables", str(out / "ordered")])
    assert "### ordered: things are named in one order" in capsys.readouterr().out
    with pytest.raises(UnbagError, match="size: small before, full now"):
        main(words)
    with pytest.raises(UnbagError, match="unknown arm 'hard_negatve'"):
        main([*small, "hard_negatve"])
