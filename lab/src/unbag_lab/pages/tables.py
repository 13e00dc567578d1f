"""Tables of the pages: the overview of all claims, and means and differences of read-outs.

    python -m unbag_lab overview
    python -m unbag_lab readout-table runs/arms/readouts --out readouts.json

Intervals are over bases (Student's t), which are few. `few` is the share of fixed examples that an
arm learned by heart: an arm that could not says nothing about the features it reads.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from statistics import fmean

from unbag_lab.claims import all_claims
from unbag_lab.experiments.repair_table import ResultColumn, ask_for_table
from unbag_lab.pages import table
from unbag_lab.results import (
    BEFORE,
    FEW_DROPOUT,
    ArmResult,
    in_order,
    numbers,
    place,
    results_in,
    shipped_results,
)
from unbag_lab.verdict import Verdict, effect_text, interval, judge_claims

CONTROL = BEFORE
"""Cosine of the same frozen base: what every read-out is compared with."""
BY_HEART = ResultColumn("learned by heart", "fit", ("few",))
ORDER = (
    BEFORE,
    "pooled",
    "pooled-text",
    "dcsm",
    "dcsm_fixed",
    "dcsm_fixed-shuffled",
    "dcsm_fixed-cls_eos",
    "dcsm_fixed-random",
    "pacl",
    "pacl_uniform",
    "pacl_fixed",
    "pacl_rotary",
    "pacl_fixed-rotary",
    "pacl_fixed-rotary-2d",
    "pacl_fixed-rotary-2d-fast",
    "pacl_fixed-rotary-2d-text",
    "sparc",
    "sparc_fixed",
    "sparc_fixed-fast",
    "pooled-long",
    "dcsm_fixed-long",
    "dcsm_fixed-mlp-long",
    "dcsm_fixed-mlp-shuffled-long",
    "pacl_fixed-rotary-2d-long",
    "pacl_fixed-rotary-2d-text-long",
    "sparc_fixed-long",
    "pooled-relations",
    "dcsm_fixed-relations",
    "pacl_fixed-rotary-2d-relations",
    "sparc_fixed-relations",
    "vlm2vec",
    "vlm2vec-plain",
    "decoder",
    "decoder-long",
    "decoder-cls",
    "decoder-nothing",
    "decoder-no_question",
)
COLUMNS: tuple[ResultColumn, ...] = (
    BY_HEART,
    ResultColumn("held out", "fit", ("held",)),
    ResultColumn("swap orig / aug", "world-swap", ("original", "augmented")),
    ResultColumn("replace orig / aug", "world-replace", ("original", "augmented")),
    ResultColumn(
        "relation orig / aug / brittle",
        "world-relation",
        ("original", "augmented", "brittleness"),
    ),
    ResultColumn("pairs-a strict / relaxed", "world-pairs-a", ("pair", "relaxed")),
    ResultColumn("pairs-b strict / relaxed", "world-pairs-b", ("pair", "relaxed")),
    ResultColumn("R@1 text, image", "world-retrieval", ("text_to_image@1", "image_to_text@1")),
)
COMPARED: tuple[ResultColumn, ...] = (
    ResultColumn("swap orig", "world-swap", ("original",)),
    ResultColumn("replace orig", "world-replace", ("original",)),
    ResultColumn("relation orig", "world-relation", ("original",)),
    ResultColumn("pairs-a strict", "world-pairs-a", ("pair",)),
    ResultColumn("pairs-a relaxed", "world-pairs-a", ("relaxed",)),
    ResultColumn("pairs-b strict", "world-pairs-b", ("pair",)),
    ResultColumn("R@1 text", "world-retrieval", ("text_to_image@1",)),
)


def overview_script() -> None:
    """Print the overview of the documentation: every claim with its verdict and numbers."""
    parser = argparse.ArgumentParser(description=overview_script.__doc__)
    text = "folders or files with results; those that ship with the package if none is named"
    parser.add_argument("found", type=Path, nargs="*", help=text)
    options = parser.parse_args()
    named = [result for path in options.found for result in results_in(path)]
    results = named if options.found else shipped_results()
    print(overview(judge_claims(all_claims(), results)))


def overview(verdicts: Sequence[Verdict]) -> str:
    """A table in Markdown, a row for each prediction."""
    rows = []
    for verdict in verdicts:
        name, word = f"`{verdict.claim.name}`", verdict.said
        if verdict.why:
            word += f" ({verdict.why})"
        for one in verdict.tested:
            effect = effect_text(one)
            if one.effects:
                effect += f", {len(one.effects)}"
            rows.append((name, one.prediction.says, effect, word))
            name = word = ""
    return table(("claim", "prediction", "effect [95 %], bases", "verdict"), rows).rstrip("\n")


def readout_table_script() -> None:
    """Print the tables of the read-out experiment: means, differences, every base."""
    ask_for_table(readout_tables, readout_table_script.__doc__ or "")


def readout_tables(results: Sequence[ArmResult]) -> str:
    """Means over bases, differences to cosine within bases, and every base, in Markdown."""
    known = {result.arm for result in results}
    arms = [arm for arm in ORDER if arm in known]
    arms += sorted(known - set(ORDER))
    bases = in_order(result.base for result in results)
    on = {arm: numbers([one.base for one in _of(arm, results)]) for arm in arms}

    def rows(columns: Sequence[ResultColumn], cells: Mapping[str, Sequence[str]]) -> str:
        head = ("arm", "bases", *(column.title for column in columns))
        shown = [(f"`{arm}`", on[arm], *some) for arm, some in cells.items()]
        return table(head, shown).rstrip("\n")

    means = {arm: [_mean(c, _of(arm, results)) for c in COLUMNS] for arm in arms}
    apart = {arm: [_apart(c, arm, results) for c in COMPARED] for arm in arms if arm != CONTROL}
    each = {arm: [_each(c, _of(arm, results)) for c in COMPARED] for arm in arms}
    return "\n\n".join(
        (
            f"Means over bases (by their numbers: of {', '.join(bases)}).",
            rows(COLUMNS, means),
            "Difference to the cosine of the same base, paired within bases: mean [95 % t interval "
            "over bases].",
            rows(COMPARED, apart),
            f"Every base ({', '.join(bases)}):",
            rows(COMPARED, each),
        )
    )


def _of(arm: str, results: Sequence[ArmResult]) -> list[ArmResult]:
    return sorted((one for one in results if one.arm == arm), key=lambda one: place(one.base))


def _mean(column: ResultColumn, results: Sequence[ArmResult]) -> str:
    if column is BY_HEART:
        # As readers learn now, where some did: with dropout they were kept from it.
        now = [one for one in results if not one.numbers.get("fit", {}).get(FEW_DROPOUT)]
        results = now or results
    rows = [column.values(result) for result in results]
    return " / ".join(column.shown(fmean(values)) for values in zip(*rows, strict=True))


def _apart(column: ResultColumn, arm: str, results: Sequence[ArmResult]) -> str:
    control = {one.base: one for one in _of(CONTROL, results)}
    apart = [
        column.values(one)[0] - column.values(control[one.base])[0]
        for one in _of(arm, results)
        if one.base in control
    ]
    apart = [value for value in apart if isfinite(value)]
    if not apart:
        return "–"
    middle, half = interval(apart)
    shown = column.shown(middle, signed=True)
    low, high = (column.shown(value, signed=True) for value in (middle - half, middle + half))
    return shown if len(apart) == 1 else f"{shown} [{low}, {high}]"


def _each(column: ResultColumn, results: Sequence[ArmResult]) -> str:
    return ", ".join(column.shown(column.values(result)[0]) for result in results)
