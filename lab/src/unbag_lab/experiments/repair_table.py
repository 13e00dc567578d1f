"""Tables of the repair experiments: means, differences to plain fine-tuning, every base.

    python -m unbag_lab repair-table runs/repair --out arms.json

Verdicts are about the built-in world and no more. An interval is over bases (Student's t), which
are few; items are the same for all. An arm that has only begun is named and stands in no table.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path
from statistics import fmean

from unbag_lab.experiments.repair_training import ARMS, CONTROL, EXPERIMENTS, LOCKED, VARIANTS
from unbag_lab.pages import table
from unbag_lab.questions import PAIR_COSINE
from unbag_lab.results import (
    BEFORE,
    UNTRAINED,
    ArmResult,
    in_order,
    numbers,
    read_results,
    write_results,
)
from unbag_lab.verdict import interval

_TRAINED = (*ARMS, *VARIANTS)
_TRIPLE = ("original", "augmented", "brittleness")
_MEANS = ("mean_original", "mean_negative", "mean_positive")
FEWEST = 3
"""Bases that an arm of a table has, unless no trained arm has as many.

With two, an interval is thirteen times as wide as its standard error and says nothing.
"""


def repair_table_script() -> None:
    """Print the tables of the repair experiment: means, differences, every base."""
    ask_for_table(repair_tables, repair_table_script.__doc__ or "")


def ask_for_table(make: Callable[[Sequence[ArmResult]], str], about: str) -> None:
    """The command line of a script that prints the tables of an experiment."""
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("found", type=Path, nargs="+", help="folders or files with results")
    parser.add_argument("--out", type=Path, help="one .json file for all of them")
    options = parser.parse_args()
    results = [result for path in options.found for result in read_results(path)]
    if options.out:
        write_results(options.out, results)
    print(make(results))


def repair_tables(results: Sequence[ArmResult]) -> str:
    """Three tables for each experiment, in Markdown."""
    found = []
    for name in EXPERIMENTS:
        chosen = [result for result in results if result.experiment == name]
        if chosen:
            found.append(_experiment(name, chosen))
    return "\n\n".join(found)


def _experiment(name: str, results: Sequence[ArmResult]) -> str:
    known = {arm: in_order(_of(arm, results)) for arm in (UNTRAINED, BEFORE, *_TRAINED)}
    on = {arm: bases for arm, bases in known.items() if bases}
    # A base and its untrained twin are asked before any arm is trained, so they say nothing here.
    fewest = min(FEWEST, max((len(on[arm]) for arm in on if arm in _TRAINED), default=1))
    arms = [arm for arm, bases in on.items() if len(bases) >= fewest]
    begun = [f"`{arm}` ({len(bases)})" for arm, bases in on.items() if len(bases) < fewest]
    shown = in_order(base for arm in arms for base in on[arm])
    trained = next((result for result in results if result.arm in _TRAINED), results[0])
    compared = {
        arm: [base for base in on[arm] if base in on.get(_control(arm), ())]
        for arm in arms
        if arm in _TRAINED and arm != _control(arm)
    }
    parts = [
        f"### {name}: {EXPERIMENTS[name].about}",
        f"On the world: {trained.steps} steps of {trained.batch}, {len(shown)} bases "
        f"({', '.join(shown)}), {trained.times} x the registered items. Means over the bases of "
        "each arm, which the second column has by their numbers.",
        _rows(COLUMNS, {arm: on[arm] for arm in arms}, lambda c, arm: _mean(c, arm, results)),
        f"Difference to {CONTROL} with the same lock on the same captions, paired within each "
        "base that both have: mean [95 % t interval over these bases].",
        _rows(COMPARED, compared, lambda column, arm: _difference(column, arm, results)),
        "Every base:",
        _rows(COMPARED, {arm: on[arm] for arm in arms}, lambda c, arm: _each(c, arm, results)),
    ]
    if begun:
        parts.append(
            f"On fewer than {fewest} bases so far, and so in no table (how many, in brackets): "
            f"{', '.join(begun)}."
        )
    return "\n\n".join(parts)


def _control(arm: str) -> str:
    """The arm with CLIP's own loss and the same lock."""
    return CONTROL + LOCKED if arm.endswith(LOCKED) else CONTROL


def _rows(
    columns: Sequence[ResultColumn],
    on: Mapping[str, Sequence[str]],
    cell: Callable[[ResultColumn, str], str],
) -> str:
    rows = [
        [arm, numbers(bases) or "–", *(cell(column, arm) for column in columns)]
        for arm, bases in on.items()
    ]
    return table(["arm", "bases", *(column.title for column in columns)], rows).rstrip()


def _of(arm: str, results: Iterable[ArmResult]) -> dict[str, ArmResult]:
    return {result.base: result for result in results if result.arm == arm}


def _mean(column: ResultColumn, arm: str, results: Sequence[ArmResult]) -> str:
    rows = [column.values(result) for result in _of(arm, results).values()]
    return " / ".join(column.shown(fmean(values)) for values in zip(*rows, strict=True))


def _each(column: ResultColumn, arm: str, results: Sequence[ArmResult]) -> str:
    found = _of(arm, results)
    return ", ".join(column.shown(column.values(found[base])[0]) for base in in_order(found))


def _difference(column: ResultColumn, arm: str, results: Sequence[ArmResult]) -> str:
    control = _of(_control(arm), results)
    both = [
        column.values(result)[0] - column.values(control[base])[0]
        for base, result in _of(arm, results).items()
        if base in control
    ]
    apart = [value for value in both if isfinite(value)]
    if not apart:
        return "–"
    middle, half = interval(apart)
    low, high = (column.shown(value, signed=True) for value in (middle - half, middle + half))
    shown = column.shown(middle, signed=True)
    return shown if len(apart) == 1 else f"{shown} [{low}, {high}]"


@dataclass(frozen=True)
class ResultColumn:
    """Some numbers of one benchmark, shown together."""

    title: str
    benchmark: str
    metrics: tuple[str, ...]
    is_percent: bool = True

    def values(self, result: ArmResult) -> list[float]:
        """Of one arm on one base; NaN where it was not asked."""
        found = result.numbers.get(self.benchmark, {})
        return [found.get(metric, nan) for metric in self.metrics]

    def shown(self, value: float, *, signed: bool = False) -> str:
        """Percent with one digit, cosines with three."""
        if not isfinite(value):
            return "–"
        sign = "+" if signed else ""
        return f"{100 * value:{sign}.1f}" if self.is_percent else f"{value:{sign}.3f}"


COLUMNS: tuple[ResultColumn, ...] = (
    ResultColumn("swap orig / aug / brittle", "world-swap", _TRIPLE),
    ResultColumn("replace orig / aug / brittle", "world-replace", _TRIPLE),
    ResultColumn("relation orig / aug / brittle", "world-relation", _TRIPLE),
    ResultColumn("relation mean c / n / p", "world-relation", _MEANS, is_percent=False),
    ResultColumn("pairs-a indiv / pair", "world-pairs-a", ("individual", "pair")),
    ResultColumn("pairs-b indiv / pair", "world-pairs-b", ("individual", "pair")),
    ResultColumn("pair cosine", "world-pairs-a", (PAIR_COSINE,), is_percent=False),
    ResultColumn("order", "world-order", ("accuracy",)),
    ResultColumn("binding group", "world-binding", ("group",)),
    ResultColumn("count group", "world-count", ("group",)),
    ResultColumn("negation group", "world-negation", ("group",)),
    ResultColumn("R@1 text, image", "world-retrieval", ("text_to_image@1", "image_to_text@1")),
    ResultColumn("retention", "world-retrieval", ("retention",)),
)
COMPARED: tuple[ResultColumn, ...] = (
    ResultColumn("swap orig", "world-swap", ("original",)),
    ResultColumn("swap brittle", "world-swap", ("brittleness",)),
    ResultColumn("replace orig", "world-replace", ("original",)),
    ResultColumn("replace brittle", "world-replace", ("brittleness",)),
    ResultColumn("relation orig", "world-relation", ("original",)),
    ResultColumn("relation aug", "world-relation", ("augmented",)),
    ResultColumn("relation brittle", "world-relation", ("brittleness",)),
    ResultColumn("relation mean c", "world-relation", ("mean_original",), is_percent=False),
    ResultColumn("pairs-a pair", "world-pairs-a", ("pair",)),
    ResultColumn("pairs-b pair", "world-pairs-b", ("pair",)),
    ResultColumn("count group", "world-count", ("group",)),
    ResultColumn("R@1 text", "world-retrieval", ("text_to_image@1",)),
)
