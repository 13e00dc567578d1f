"""`unbag completion`: bash completes with the script; nothing of it slows other commands."""

import shutil
import subprocess
import sys

import pytest

from unbag.cli import main

COMPLETE = """
source /dev/stdin
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
$(complete -p unbag | sed 's/.*-F \\([^ ]*\\) .*/\\1/') unbag "${{COMP_WORDS[COMP_CWORD]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def script() -> str:
    done = subprocess.run(
        [sys.executable, "-m", "unbag", "completion", "bash"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("unbag di", {"diagnose"}),
        ("unbag run --batch", {"--batch-size"}),
        ("unbag train --re", {"--recipe", "--readout"}),
        ("unbag train --recipe hard_p", {"hard_positive"}),
        ("unbag run --model tiny:base --bench world-swap world-re", None),
        ("unbag list re", {"recipes", "readouts"}),
        ("unbag data ge", {"get"}),
        ("unbag run --ties argmax", {"argmax_first", "argmax_last"}),
    ],
)
def test_bash_completes(script: str, words: str, found: set[str] | None) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    done = subprocess.run(
        [bash, "--norc", "-c", COMPLETE.format(words=words)],
        input=script,
        capture_output=True,
        text=True,
    )
    offered = set(done.stdout.split())
    if found is None:
        assert {"world-relation", "world-replace", "world-retrieval"} <= offered
    else:
        assert offered == found, done.stderr


@pytest.mark.parametrize(("shell", "first"), [("zsh", "#compdef unbag"), ("fish", "#")])
def test_other_shells(shell: str, first: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(first)
    assert "micro-batch-size" in printed
    assert "hard_positive" in printed


def test_an_unknown_shell(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["completion", "cmd"])
    assert "invalid choice: 'cmd'" in capsys.readouterr().err
