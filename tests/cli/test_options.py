"""Options: help texts, renamed and misspelt options, recipes and read-outs."""

import argparse
import re
from collections.abc import Iterator

import pytest
from syrupy.assertion import SnapshotAssertion

from unbag.cli import main
from unbag.cli.main import COMMANDS, make_parser
from unbag.cli.options import RENAMED


def leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    inner = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    for action in inner:
        for child in action.choices.values():
            yield from leaves(child)
    if not inner:
        yield parser


PARSERS = {parser.prog.removeprefix("unbag "): parser for parser in leaves(make_parser([]))}
OLD = [(command, old, new) for command, each in RENAMED.items() for old, new in each.items()]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert not printed.out
    return printed.err


@pytest.mark.parametrize(("command", "old", "new"), OLD, ids=lambda option: option.strip("-"))
def test_the_error_for_a_renamed_option_gives_its_new_name(
    command: str, old: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = f"unbag {command}: error: {old} is now {new}\nSee `unbag {command} --help`.\n"
    assert refused(capsys, *command.split(), old, "3") == printed
    assert refused(capsys, *command.split(), f"{old}=3") == printed
    known = PARSERS[command]._option_string_actions
    assert old not in known
    assert new.split()[0] in known


def test_options_cannot_be_abbreviated(capsys: pytest.CaptureFixture[str]) -> None:
    printed = refused(capsys, "run", "--mod", "tiny:base")
    assert printed.startswith("unbag run: error: there is no option --mod; did you mean --model?\n")
    printed = refused(capsys, "run", "--data-dir", "data")
    assert "there is no option --data-dir; did you mean --data?" in printed
    printed = refused(capsys, "run", "--qqq")
    assert printed.startswith("unbag run: error: there is no option --qqq\n")


def test_the_data_of_a_diagnosis_is_given_with_on(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["diagnose", "--model", "tiny:base", "--data", "photos.jsonl"]
    assert main(words) == 1
    printed = capsys.readouterr().err
    assert "--data photos.jsonl was given without --on" in printed
    assert "to probe on photos.jsonl itself: --on photos.jsonl" in printed


def test_help(monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion) -> None:
    """All help texts. The usage lines are left out: Python versions format them differently."""
    monkeypatch.setenv("COLUMNS", "100")
    root = make_parser([])
    texts = {"unbag": re.sub(r"    lab .*\n", "", root.format_help().partition("\n\n")[2])}
    for command, parser in PARSERS.items():
        assert all(action.help for action in parser._actions), command
        if command.split()[0] in COMMANDS:
            texts[command] = parser.format_help().partition("\n\n")[2]
    assert "\n".join(f"=== {command}\n{text}" for command, text in texts.items()) == snapshot


TRAIN = ("train", "--model", "tiny:base", "--pairs", "world", "--out", "x")


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (("--recipe", "dcsm"), "--recipe dcsm: 'dcsm' is a read-out, not", "--readout dcsm"),
        (("--readout", "clip_ft"), "'clip_ft' is a recipe, not a read-out", "--recipe clip_ft"),
        (
            ("--recipe", "unbag.readouts.pacl:PACL"),
            "is a read-out, not a recipe",
            "--readout unbag.readouts.pacl:PACL",
        ),
        (
            ("--readout", "unbag.training.recipes:clip_ft"),
            "is a recipe, not a read-out",
            "--recipe unbag.training.recipes:clip_ft",
        ),
        (("--recipe", "clip_fit"), "unknown recipe 'clip_fit'", "`unbag list recipes`"),
        (("--readout", "pakl"), "unknown readout 'pakl'", "`unbag list readouts`"),
    ],
)
def test_a_recipe_given_as_a_readout_or_the_reverse(
    words: tuple[str, ...], message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*TRAIN, *words]) == 1
    printed = capsys.readouterr().err
    assert message in printed
    assert hint in printed.partition("hint:")[2]


def test_exactly_one_of_recipe_and_readout(capsys: pytest.CaptureFixture[str]) -> None:
    assert "one of the arguments --recipe --readout is required" in refused(capsys, *TRAIN)
    both = refused(capsys, *TRAIN, "--recipe", "clip_ft", "--readout", "dcsm")
    assert "argument --readout: not allowed with argument --recipe" in both


def test_list_without_a_kind_shows_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "benchmarks"
    assert lines[lines.index("readouts") - 1] == ""
    assert any(line.startswith("  world-swap ") for line in lines)
    assert any(line.startswith("  hard_positive ") for line in lines)
    assert "no taggers" in lines[-1]
