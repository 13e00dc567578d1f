"""Makes tables for the pages: means and differences of repairs and of read-outs.

    python -m unbag_lab tables runs/lab/default runs/lab/readouts

Intervals are over bases (Student's t), which are few; items are the same for all. `few` is the
train accuracy on a few fixed examples: an arm that cannot fit them shows nothing about the features
it reads.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite, nan
from pathlib import Path
from statistics import fmean

from unbag.reports.formatting import DASH, number_text, with_interval
from unbag_lab.experiments.readers import EXPERIMENT as READOUTS
from unbag_lab.experiments.repair_training import ARMS, CONTROL, EXPERIMENTS, LOCKED, VARIANTS
from unbag_lab.pages import table
from unbag_lab.questions import PAIR_COSINE
from unbag_lab.results import (
    BEFORE,
    FEW_DROPOUT,
    UNTRAINED,
    ArmResult,
    in_order,
    numbers,
    place,
    read_results,
)
from unbag_lab.verdict import interval


def tables_script() -> None:
    """Print the tables of repairs and of read-outs: means, differences, every base."""
    parser = argparse.ArgumentParser(description=tables_script.__doc__)
    parser.add_argument("found", type=Path, nargs="+", help="folders or files with results")
    results = [result for path in parser.parse_args().found for result in read_results(path)]
    read_out = [result for result in results if result.experiment == READOUTS]
    parts = (repair_tables(results), readout_tables(read_out) if read_out else "")
    print("\n\n".join(filter(None, parts)))


@dataclass(frozen=True)
class ResultColumn:
    """A column of a table: some metrics of one benchmark."""

    title: str
    benchmark: str
    metrics: tuple[str, ...]
    is_percent: bool = True

    def values(self, result: ArmResult) -> list[float]:
        """Return the metrics of one arm on one base; NaN if not measured."""
        metrics = result.numbers.get(self.benchmark, {})
        return [metrics.get(metric, nan) for metric in self.metrics]

    def shown(self, value: float, *, signed: bool = False) -> str:
        """Format a value: percent with one digit, cosines with three."""
        return number_text(value, is_rate=self.is_percent, signed=signed)

    def mean(self, results: Mapping[str, ArmResult]) -> str:
        """Return the mean of each metric over the bases of an arm."""
        counted = list(results.values())
        if self is FIXED_EXAMPLES:
            # Prefer fits without dropout, which prevented readers from fitting the examples.
            counted = [
                result for result in counted if not result.numbers.get("fit", {}).get(FEW_DROPOUT)
            ] or counted
        rows = [self.values(result) for result in counted]
        return " / ".join(self.shown(fmean(values)) for values in zip(*rows, strict=True))

    def each(self, results: Mapping[str, ArmResult]) -> str:
        """Return the first metric on every base of an arm."""
        return ", ".join(self.shown(self.values(result)[0]) for result in results.values())

    def difference(self, results: Mapping[str, ArmResult], control: Mapping[str, ArmResult]) -> str:
        """Return the paired difference of the first metric to a control, with its interval."""
        differences = [
            self.values(result)[0] - self.values(control[base])[0]
            for base, result in results.items()
            if base in control
        ]
        differences = [value for value in differences if isfinite(value)]
        if not differences:
            return DASH
        middle, half = interval(differences)
        text = partial(self.shown, signed=True)
        if len(differences) == 1:
            return text(middle)
        return with_interval(middle, middle - half, middle + half, text)


def _by_base(arm: str, results: Sequence[ArmResult]) -> dict[str, ArmResult]:
    """Return the results of an arm by base, sorted."""
    arm_results = [result for result in results if result.arm == arm]
    return {
        result.base: result for result in sorted(arm_results, key=lambda result: place(result.base))
    }


def _rows(
    columns: Sequence[ResultColumn],
    bases: Mapping[str, Sequence[str]],
    cell: Callable[[ResultColumn, str], str],
    name: Callable[[str], str] = str,
) -> str:
    """Return a table with a row for each arm."""
    rows = [
        [name(arm), numbers(arm_bases) or DASH, *(cell(column, arm) for column in columns)]
        for arm, arm_bases in bases.items()
    ]
    return table(["arm", "bases", *(column.title for column in columns)], rows).rstrip("\n")


_TRAINED = (*ARMS, *VARIANTS)
_TRIPLE = ("original", "augmented", "brittleness")
_MEANS = ("mean_original", "mean_negative", "mean_positive")
_RECALLS = ("text_to_image@1", "image_to_text@1")
FEWEST = 3
"""Bases that an arm in a table must have, unless no trained arm has as many.

With two bases, the half width of an interval is thirteen times its standard error.
"""
REPAIR_COLUMNS: tuple[ResultColumn, ...] = (
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
    ResultColumn("R@1 text, image", "world-retrieval", _RECALLS),
    ResultColumn("retention", "world-retrieval", ("retention",)),
)
REPAIRS_COMPARED: tuple[ResultColumn, ...] = (
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


def repair_tables(results: Sequence[ArmResult]) -> str:
    """Return three tables for each experiment, in Markdown; unfinished arms are listed below."""
    parts = []
    for name in EXPERIMENTS:
        chosen = [result for result in results if result.experiment == name]
        if chosen:
            parts.append(_repair_tables_of(name, chosen))
    return "\n\n".join(parts)


def _repair_tables_of(name: str, results: Sequence[ArmResult]) -> str:
    results_by_arm = {arm: _by_base(arm, results) for arm in (UNTRAINED, BEFORE, *_TRAINED)}
    bases_by_arm = {
        arm: in_order(arm_results) for arm, arm_results in results_by_arm.items() if arm_results
    }
    # The base and the random network are measured first, so they do not count here.
    fewest = min(
        FEWEST, max((len(bases_by_arm[arm]) for arm in bases_by_arm if arm in _TRAINED), default=1)
    )
    arms = {arm: bases for arm, bases in bases_by_arm.items() if len(bases) >= fewest}
    unfinished = [
        f"`{arm}` ({len(bases)})" for arm, bases in bases_by_arm.items() if len(bases) < fewest
    ]
    all_bases = in_order(base for bases in arms.values() for base in bases)
    trained = next((result for result in results if result.arm in _TRAINED), results[0])
    controls = {arm: CONTROL + LOCKED if arm.endswith(LOCKED) else CONTROL for arm in _TRAINED}
    compared = {
        arm: [base for base in bases if base in bases_by_arm.get(controls[arm], ())]
        for arm, bases in arms.items()
        if arm in _TRAINED and arm != controls[arm]
    }
    parts = [
        f"### {name}: {EXPERIMENTS[name].about}",
        f"On the world: {trained.steps} steps of {trained.batch_size}, {len(all_bases)} bases "
        f"({', '.join(all_bases)}), {trained.times} x the registered items. Means over the bases "
        "of each arm, which the second column has by their numbers.",
        _rows(REPAIR_COLUMNS, arms, lambda column, arm: column.mean(results_by_arm[arm])),
        f"Difference to {CONTROL} with the same encoders frozen, on the same captions, paired "
        "within each base that both have: mean [95 % t interval over these bases].",
        _rows(
            REPAIRS_COMPARED,
            compared,
            lambda column, arm: column.difference(
                results_by_arm[arm], results_by_arm[controls[arm]]
            ),
        ),
        "Every base:",
        _rows(REPAIRS_COMPARED, arms, lambda column, arm: column.each(results_by_arm[arm])),
    ]
    if unfinished:
        parts.append(
            f"On fewer than {fewest} bases so far, and so in no table (how many, in brackets): "
            f"{', '.join(unfinished)}."
        )
    return "\n\n".join(parts)


FIXED_EXAMPLES = ResultColumn("fixed examples", "fit", ("few",))
READOUT_ORDER = (
    BEFORE, "pooled", "pooled-text", "dcsm", "dcsm_fixed", "dcsm_fixed-shuffled",
    "dcsm_fixed-cls_eos", "dcsm_fixed-random", "pacl", "pacl_uniform", "pacl_fixed", "pacl_rotary",
    "pacl_fixed-rotary", "pacl_fixed-rotary-2d", "pacl_fixed-rotary-2d-fast",
    "pacl_fixed-rotary-2d-text", "sparc", "sparc_fixed", "sparc_fixed-fast", "pooled-long",
    "dcsm_fixed-long", "dcsm_fixed-mlp-long", "dcsm_fixed-mlp-shuffled-long",
    "pacl_fixed-rotary-2d-long", "pacl_fixed-rotary-2d-text-long", "sparc_fixed-long",
    "pooled-relations", "dcsm_fixed-relations", "pacl_fixed-rotary-2d-relations",
    "sparc_fixed-relations", "vlm2vec", "vlm2vec-plain", "decoder", "decoder-long", "decoder-cls",
    "decoder-nothing", "decoder-no_question",
)  # fmt: skip
"""Order of arms; other arms come after these, by name."""
READOUT_COLUMNS: tuple[ResultColumn, ...] = (
    FIXED_EXAMPLES,
    ResultColumn("held out", "fit", ("held",)),
    ResultColumn("swap orig / aug", "world-swap", ("original", "augmented")),
    ResultColumn("replace orig / aug", "world-replace", ("original", "augmented")),
    ResultColumn("relation orig / aug / brittle", "world-relation", _TRIPLE),
    ResultColumn("pairs-a strict / relaxed", "world-pairs-a", ("pair", "relaxed")),
    ResultColumn("pairs-b strict / relaxed", "world-pairs-b", ("pair", "relaxed")),
    ResultColumn("R@1 text, image", "world-retrieval", _RECALLS),
)
READOUTS_COMPARED: tuple[ResultColumn, ...] = (
    ResultColumn("swap orig", "world-swap", ("original",)),
    ResultColumn("replace orig", "world-replace", ("original",)),
    ResultColumn("relation orig", "world-relation", ("original",)),
    ResultColumn("pairs-a strict", "world-pairs-a", ("pair",)),
    ResultColumn("pairs-a relaxed", "world-pairs-a", ("relaxed",)),
    ResultColumn("pairs-b strict", "world-pairs-b", ("pair",)),
    ResultColumn("R@1 text", "world-retrieval", ("text_to_image@1",)),
)


def readout_tables(results: Sequence[ArmResult]) -> str:
    """Return tables of means, of differences to the cosine of the base, and of every base."""
    named = {result.arm for result in results}
    arms = [arm for arm in READOUT_ORDER if arm in named]
    arms += sorted(named - set(READOUT_ORDER))
    results_by_arm = {arm: _by_base(arm, results) for arm in arms}
    bases_by_arm = {arm: list(arm_results) for arm, arm_results in results_by_arm.items()}
    bases = ", ".join(in_order(result.base for result in results))
    control = results_by_arm.get(BEFORE, {})
    compared = {arm: arm_results for arm, arm_results in bases_by_arm.items() if arm != BEFORE}
    return "\n\n".join(
        (
            f"Means over bases (by their numbers: of {bases}).",
            _rows(
                READOUT_COLUMNS,
                bases_by_arm,
                lambda column, arm: column.mean(results_by_arm[arm]),
                _code,
            ),
            "Difference to the cosine of the same base, paired within bases: mean [95 % t interval "
            "over bases].",
            _rows(
                READOUTS_COMPARED,
                compared,
                lambda column, arm: column.difference(results_by_arm[arm], control),
                _code,
            ),
            f"Every base ({bases}):",
            _rows(
                READOUTS_COMPARED,
                bases_by_arm,
                lambda column, arm: column.each(results_by_arm[arm]),
                _code,
            ),
        )
    )


def _code(name: str) -> str:
    return f"`{name}`"
