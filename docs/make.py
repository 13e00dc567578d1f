"""Write the generated blocks of README and documentation from code and data: python docs/make.py.

A block stands between `<!-- generated: NAME -->` and `<!-- end -->`. Tables of measured numbers are
made from files in docs/data, which other scripts write; a test compares every block.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import cast

import make_diagnosis
import tables_repair

import unbag as ub
from unbag.cli.main import make_parser
from unbag.cli.options import HelpText
from unbag.probes.base import Probe
from unbag.published.lookup import Flag, flags
from unbag.registry import find, names, plugin_commands
from unbag.types import Benchmark
from unbag_lab.pages import table

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
BLOCK = re.compile(r"(<!-- generated: ([^>]+) -->\n).*?(<!-- end -->)", re.DOTALL)
CONTRADICTION = " has two values"
"""How the flag of a contradiction between two sources ends."""


def updated(page: str) -> str:
    """The page with its generated blocks as they are now."""

    def renew(match: re.Match[str]) -> str:
        if match[2] not in BLOCKS:
            raise SystemExit(f"unknown block {match[2]!r}; known: {', '.join(BLOCKS)}")
        return f"{match[1]}\n{BLOCKS[match[2]]().strip()}\n\n{match[3]}"

    return BLOCK.sub(renew, page)


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of all commands and actions that have options."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from parsers(child)
    if parser.prog != "unbag" and options_of(parser):
        yield parser


def options_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The options and arguments that get a row."""
    left_out = (argparse._SubParsersAction, argparse._HelpAction)
    return [action for action in parser._actions if not isinstance(action, left_out)]


def option_table(parser: argparse.ArgumentParser) -> str:
    """A row for each option, in the order of --help."""
    formatter = HelpText(parser.prog)
    rows = []
    for action in options_of(parser):
        values = formatter._format_args(action, formatter._get_default_metavar_for_optional(action))
        if action.choices is not None and action.metavar is None:
            values = "|".join(map(str, action.choices))
        name = values
        if action.option_strings:
            name = f"{max(action.option_strings, key=len)} {values}".strip()
        text = formatter._expand_help(action)
        text = text.replace("~/.cache/unbag", "`~/.cache/unbag`").replace("$XDG", "`$XDG")
        text = text.replace("HOME/unbag or", "HOME/unbag` or")
        rows.append([f"`{name}`", text])
    return table(["option", "meaning"], rows) if rows else ""


def doubts() -> str:
    """Numbers of papers that cannot be right, found by code."""
    rows = [
        (flag.source, flag.model, flag.what, flag.found, flag.expected)
        for flag in flags()
        if not _is_contradiction(flag)
    ]
    return table(["source", "model", "what", "printed", "instead"], rows)


def contradictions() -> str:
    """Two papers with two numbers for the same thing, counted by model."""
    differences: dict[tuple[str, str, str, str], list[float]] = {}
    for flag in flags():
        if _is_contradiction(flag):
            first, second = flag.concerns
            benchmark = flag.what.removesuffix(CONTRADICTION).rpartition(" of ")[2]
            papers = (first.source.partition(", ")[0], second.source.partition(", ")[0])
            difference = 100 * abs(first.value - second.value)
            differences.setdefault((benchmark, first.model, *papers), []).append(difference)
    head = ["benchmark", "model", "source", "other source", "numbers that differ", "by up to"]
    rows = [(*key, str(len(some)), f"{max(some):.1f}") for key, some in differences.items()]
    return table(head, rows)


def _is_contradiction(flag: Flag) -> bool:
    """Two papers with two numbers, rather than one paper with itself."""
    if not flag.what.endswith(CONTRADICTION):
        return False
    first, second = flag.concerns
    return first.source.partition(", ")[0] != second.source.partition(", ")[0]


def benchmark_table() -> str:
    """What benchmarks of files ask, and how they are measured."""
    rows = [
        (
            f"`{benchmark.name}`",
            f"{benchmark.about} *{benchmark.cite}*",
            f"`{benchmark.headline}`, {benchmark.aggregates[0].name}",
            benchmark.official_ties or "not stated",
        )
        for benchmark in _benchmarks()
    ]
    return table(["name", "asks", "headline and average", "official ties"], rows)


def benchmark_files() -> str:
    """Where the files of benchmarks lie, and their licence."""
    rows = [
        (
            f"`{benchmark.name}`",
            f"`{benchmark.folder or benchmark.name}/`",
            ", ".join(benchmark.sources),
            benchmark.licence,
        )
        for benchmark in _benchmarks()
    ]
    return table(["name", "folder", "images", "licence"], rows)


def _benchmarks() -> list[Benchmark]:
    benchmarks = map(ub.load_benchmark, names("benchmark"))
    return [benchmark for benchmark in benchmarks if benchmark.files]


def question(probe: Probe) -> str:
    """What a probe asks."""
    return f"**{probe.question}**"


def thresholds(probe: Probe) -> str:
    """The numbers that a verdict compares with."""
    rows = [(f"`{one.name}`", f"{float(one):g}", one.reason) for one in probe.thresholds]
    return table(["threshold", "value", "decides"], rows)


def data_table(name: str) -> str:
    """A table from a file of tab-separated values, whose cells are Markdown."""
    with (DOCS / "data" / name).open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    return table(head, rows)


def _blocks() -> dict[str, Callable[[], str]]:
    commands = {
        f"options of {parser.prog}": (lambda parser=parser: option_table(parser))
        for parser in parsers(make_parser(plugin_commands()))
    }
    probes = [cast(Probe, find("probe", name)) for name in names("probe")]
    return {
        **commands,
        **{f"question of {probe.name}": partial(question, probe) for probe in probes},
        **{f"thresholds of {probe.name}": partial(thresholds, probe) for probe in probes},
        "doubts": doubts,
        "contradictions": contradictions,
        "diagnosis models": make_diagnosis.models_table,
        "diagnosis parts": make_diagnosis.parts_table,
        "benchmarks": benchmark_table,
        "benchmark files": benchmark_files,
        "blind scores": lambda: data_table("blind_scores.tsv"),
        "speed": lambda: data_table("speed.tsv"),
        "map points": lambda: data_table("map_points.tsv"),
        **tables_repair.GENERATED,
    }


BLOCKS: Mapping[str, Callable[[], str]] = _blocks()


def main() -> int:
    """Write the pages whose blocks changed."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        new = updated(text)
        if new != text:
            page.write_text(new, encoding="utf-8")
            print(page.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
