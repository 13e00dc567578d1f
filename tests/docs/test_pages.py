"""Every code block of README and documentation runs and prints what the page shows.

The blocks of a page run in order, in one empty folder and one Python namespace. `console` blocks
hold `$ command` lines, each followed by its output; `python` blocks may be followed by a `text`
block with their output; blocks with a `title` are saved under that name. In an output, `...` stands
for anything, and spaces and line breaks do not matter. A block after `<!-- not run: reason -->` is
only checked: Python compiles, and commands of unbag have options, models and names that exist.
"""

from __future__ import annotations

import doctest
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from unbag.cli import main
from unbag.cli.main import make_parser
from unbag.registry import Kind, names, plugin_commands

ROOT = Path(__file__).parents[2]
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "```" in page.read_text(encoding="utf-8")
]
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n+)?"
    r"^(?P<indent> *)```(?P<kind>\w*)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<body>.*?)^ *```$",
    re.M | re.S,
)
DATA = ("json", "jsonl", "yaml", "toml", "csv", "tsv")
ALIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
NAMED: dict[str, Kind] = {
    "--bench": "benchmark",
    "--recipe": "recipe",
    "--readout": "readout",
    "--probes": "probe",
}
"""Options whose values are names of the registry."""


class Block(NamedTuple):
    """A fenced block of a page."""

    kind: str
    title: str
    body: str
    is_run: bool
    line: int


class Step(NamedTuple):
    """Code or a command, and the output that the page shows; None where it shows none."""

    kind: str
    code: str
    output: str | None
    title: str
    is_run: bool
    line: int


def blocks_of(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    blocks = []
    for match in BLOCK.finditer(page):
        indent = len(match["indent"])
        body = "".join(line[indent:] for line in match["body"].splitlines(keepends=True))
        line = page.count("\n", 0, match.start("kind")) + 1
        blocks.append(
            Block(match["kind"], match["title"] or "", body, match["reason"] is None, line)
        )
    return blocks


def steps_of(page: str) -> Iterator[Step]:
    """Commands and Python code, each with the output shown after it."""
    blocks = blocks_of(page)
    for number, block in enumerate(blocks):
        kind, title, body, is_run, line = block
        if kind == "console":
            for command, output in commands_of(body):
                yield Step(kind, command, output, title, is_run, line)
        elif kind == "python":
            following = blocks[number + 1] if number + 1 < len(blocks) else None
            output = None
            if following is not None and following.kind == "text" and following.is_run:
                output = following.body
            yield Step(kind, body, output, title, is_run, line)
        elif kind in DATA:
            yield Step(kind, body, None, title, is_run, line)
        elif kind != "text" and is_run:
            raise AssertionError(f"line {line}: a block of kind {kind!r} is not run")


def commands_of(body: str) -> list[tuple[str, str | None]]:
    """The `$ ` lines of a console block, each with the lines after it."""
    parts = re.split(r"^\$ ", body.replace("\\\n", " "), flags=re.M)
    assert not parts[0].strip(), f"output without a command: {parts[0]}"
    commands = (part.partition("\n") for part in parts[1:])
    return [(command, output if output.strip() else None) for command, _, output in commands]


def is_alike(shown: str, printed: str) -> bool:
    """Whether the page shows what was printed."""
    return doctest.OutputChecker().check_output(shown, printed, ALIKE)


@pytest.mark.filterwarnings("default")  # as for a user: a warning is no error
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_of_a_page_runs(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    modules = set(sys.modules)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for step in steps_of(page.read_text(encoding="utf-8")):
        where = f"{page.name}, line {step.line}: {step.code}"
        if step.title:
            file = tmp_path / step.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(step.code, encoding="utf-8")
        if step.kind in DATA:
            parse(step.kind, step.code)
            continue
        if not step.is_run:
            check(step)
            continue
        if step.kind == "python":
            exec(compile(step.code, where, "exec", dont_inherit=True), namespace)
            printed = capsys.readouterr().out
        else:
            code, printed = run_command(step.code, capsys)
            is_error = (step.output or "").startswith("unbag: ")
            assert (code != 0) == is_error, f"{where}\nends with {code}:\n{printed}"
        if step.output is not None:
            assert is_alike(step.output, printed), f"{where}\nprints\n{printed}"
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def run_command(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit status and output; errors where it failed."""
    program, *arguments = shlex.split(line)
    if program != "unbag":
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout if not done.returncode else done.stderr
    try:
        code = main(arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    printed = capsys.readouterr()
    return code, printed.err if code else printed.out


def check(step: Step) -> None:
    """Look at code that cannot run here."""
    if step.kind == "python":
        compile(step.code, f"line {step.line}", "exec")
        return
    for command in re.findall(r"(?:^|&& |\| )unbag ([^|&>]*)", step.code):
        arguments = shlex.split(command, comments=True)
        make_parser(plugin_commands()).parse_args(arguments)
        option = ""
        for word in arguments:
            option = word if word.startswith("-") else option
            if option in NAMED and word != option and ":" not in word and "." not in word:
                assert word in {*names(NAMED[option]), "world", "none", "all"}, command


def parse(kind: str, text: str) -> None:
    """Data of a page is well-formed."""
    if kind == "json":
        json.loads(text)
    elif kind == "jsonl":
        for line in text.splitlines():
            json.loads(line)
    elif kind == "toml":
        tomllib.loads(text)


def test_another_number_would_be_seen() -> None:
    shown = "original  98.0\n...\nreport: x\n"
    assert is_alike(shown, "  original 98.0  \nwhatever\n report: x\n".lstrip())
    assert not is_alike(shown, "original 98.1\nwhatever\nreport: x\n")
    assert not is_alike(shown, "original 98.0\nwhatever\n")


def test_blocks_are_read_in_order() -> None:
    page = (
        '```console\n$ unbag run \\\n    --out x\nso\n$ unbag list\n```\n\n```python title="a.py"\n'
        "1\n```\n\n```text\n2\n```\n\n<!-- not run: a network -->\n```console\n$ unbag x\n```\n"
    )
    assert list(steps_of(page)) == [
        Step("console", "unbag run      --out x", "so\n", "", True, 1),
        Step("console", "unbag list", None, "", True, 1),
        Step("python", "1\n", "2\n", "a.py", True, 8),
        Step("console", "unbag x", None, "", False, 17),
    ]
    with pytest.raises(AssertionError, match="'bash' is not run"):
        list(steps_of("```bash\nls\n```\n"))
