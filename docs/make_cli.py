"""Write the tables of options in docs/cli.md from the parsers: python docs/make_cli.py."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from unbag.cli.main import make_parser
from unbag.cli.options import HelpText
from unbag.registry import plugin_commands

PAGE = Path(__file__).with_name("cli.md")
BLOCK = re.compile(r"(<!-- options of (unbag [a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def updated(page: str) -> str:
    """The page with the tables of the parsers as they are."""
    tables = {parser.prog: table(parser) for parser in parsers(make_parser(plugin_commands()))}
    return BLOCK.sub(lambda found: found[1] + tables[found[2]] + found[3], page)


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Of all commands and actions with options."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from parsers(one)
    if parser.prog != "unbag" and shown(parser):
        yield parser


def shown(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """What gets a row."""
    left_out = (argparse._SubParsersAction, argparse._HelpAction)
    return [one for one in parser._actions if not isinstance(one, left_out)]


def table(parser: argparse.ArgumentParser) -> str:
    """A row for each option, in the order of --help."""
    formatter = HelpText(parser.prog)
    rows = ["| option | meaning |", "|---|---|"]
    for action in shown(parser):
        values = formatter._format_args(action, formatter._get_default_metavar_for_optional(action))
        if action.choices is not None and action.metavar is None:
            values = "|".join(map(str, action.choices))
        if action.option_strings:
            name = f"{max(action.option_strings, key=len)} {values}".strip()
        else:
            name = values
        text = formatter._expand_help(action)
        text = text.replace("~/.cache/unbag", "`~/.cache/unbag`").replace("$XDG", "`$XDG")
        text = text.replace("HOME/unbag or", "HOME/unbag` or")
        rows.append("| `{}` | {} |".format(name.replace("|", "\\|"), text.replace("|", "\\|")))
    return "\n{}\n\n".format("\n".join(rows)) if len(rows) > 2 else "\n"


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
