"""Names of options: one spelling each, old ones answered with the new, whole help texts."""

import argparse
from collections.abc import Iterator

import pytest

from unbag.cli import main
from unbag.cli.main import COMMANDS, make_parser
from unbag.cli.options import RENAMED


def leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    inner = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    for action in inner:
        for one in action.choices.values():
            yield from leaves(one)
    if not inner:
        yield parser


PARSERS = {one.prog.removeprefix("unbag "): one for one in leaves(make_parser([]))}
OLD = [(command, old, new) for command, each in RENAMED.items() for old, new in each.items()]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert not said.out
    return said.err


@pytest.mark.parametrize(("command", "old", "new"), OLD, ids=lambda one: one.strip("-"))
def test_an_old_option_is_answered_with_the_new_one(
    command: str, old: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = f"unbag {command}: error: {old} is now {new}\nSee `unbag {command} --help`.\n"
    assert refused(capsys, *command.split(), old, "3") == said
    assert refused(capsys, *command.split(), f"{old}=3") == said
    known = PARSERS[command]._option_string_actions
    assert old not in known
    assert new.split()[0] in known


def test_options_cannot_be_abbreviated(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "run", "--mod", "tiny:base")
    assert said.startswith("unbag run: error: there is no option --mod; did you mean --model?\n")
    said = refused(capsys, "run", "--data-dir", "data")
    assert "there is no option --data-dir; did you mean --data?" in said
    said = refused(capsys, "run", "--qqq")
    assert said.startswith("unbag run: error: there is no option --qqq\n")


def test_a_caption_may_begin_with_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "nowhere.png", "-- a dog", "--model", "tiny:base"]) == 1
    assert "nowhere.png" in capsys.readouterr().err


def test_data_is_a_folder_of_benchmarks_everywhere() -> None:
    texts = {
        parser._option_string_actions["--data"].help
        for command, parser in PARSERS.items()
        if "--data" in parser._option_string_actions and not command.startswith("data")
    }
    assert len(texts) == 1


def test_what_was_data_in_a_diagnosis_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["diagnose", "--model", "tiny:base", "--data", "photos.jsonl"]
    assert main(words) == 1
    said = capsys.readouterr().err
    assert "--data photos.jsonl was given without --on" in said
    assert "if the probes are to look at photos.jsonl: --on photos.jsonl" in said


@pytest.mark.parametrize("command", PARSERS)
def test_every_option_has_a_help_text(command: str) -> None:
    if command in COMMANDS or " " in command:
        assert PARSERS[command].description
    for action in PARSERS[command]._actions:
        assert action.help, action.option_strings


def test_defaults_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "batch size (inputs per forward pass) (default: 256)" in shown
    assert "names, all, or none (default: caption:short)" in shown
    assert "more than 1 % of the scores are NaN --seed" in shown
    assert "default: ==SUPPRESS==" not in shown


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
def test_recipes_and_readouts_are_told_apart(
    words: tuple[str, ...], message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*TRAIN, *words]) == 1
    said = capsys.readouterr().err
    assert message in said
    assert hint in said.partition("hint:")[2]


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
