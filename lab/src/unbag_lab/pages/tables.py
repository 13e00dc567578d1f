"""Results of read-outs come in; the tables of the docs go out: means, differences, every base.

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
from unbag_lab.experiments.repair import Column, ask_for_table
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
from unbag_lab.verdict import Tested, Verdict, effect_text, interval, judge_claims


def overview(verdicts: Sequence[Verdict]) -> str:
    """A table in Markdown, a row for each prediction."""
    lines = [
        "| claim | prediction | effect [95 %], bases | verdict |",
        "| --- | --- | --- | --- |",
    ]
    for verdict in verdicts:
        for place, one in enumerate(verdict.tested):
            name = f"`{verdict.claim.name}`" if place == 0 else ""
            why = f" ({verdict.why})" if verdict.why and place == 0 else ""
            word = f"{verdict.said}{why}" if place == 0 else ""
            lines.append(f"| {name} | {one.prediction.says} | {_effect(one)} | {word} |")
    return "\n".join(lines)


def _effect(one: Tested) -> str:
    return f"{effect_text(one)}, {len(one.effects)}" if one.effects else effect_text(one)


def overview_script() -> None:
    """Print the overview of the documentation: every claim with its verdict and numbers."""
    parser = argparse.ArgumentParser(description=overview_script.__doc__)
    text = "folders or files with results; those that ship with the package if none is named"
    parser.add_argument("found", type=Path, nargs="*", help=text)
    options = parser.parse_args()
    named = [result for path in options.found for result in results_in(path)]
    results = named if options.found else shipped_results()
    print(overview(judge_claims(all_claims(), results)))


CONTROL = BEFORE
"""Cosine of the same frozen base: what every read-out is compared with."""
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
BY_HEART = Column("learned by heart", "fit", ("few",))
COLUMNS: tuple[Column, ...] = (
    BY_HEART,
    Column("held out", "fit", ("held",)),
    Column("swap orig / aug", "world-swap", ("original", "augmented")),
    Column("replace orig / aug", "world-replace", ("original", "augmented")),
    Column(
        "relation orig / aug / brittle",
        "world-relation",
        ("original", "augmented", "brittleness"),
    ),
    Column("pairs-a strict / relaxed", "world-pairs-a", ("pair", "relaxed")),
    Column("pairs-b strict / relaxed", "world-pairs-b", ("pair", "relaxed")),
    Column("R@1 text, image", "world-retrieval", ("text_to_image@1", "image_to_text@1")),
)
COMPARED: tuple[Column, ...] = (
    Column("swap orig", "world-swap", ("original",)),
    Column("replace orig", "world-replace", ("original",)),
    Column("relation orig", "world-relation", ("original",)),
    Column("pairs-a strict", "world-pairs-a", ("pair",)),
    Column("pairs-a relaxed", "world-pairs-a", ("relaxed",)),
    Column("pairs-b strict", "world-pairs-b", ("pair",)),
    Column("R@1 text", "world-retrieval", ("text_to_image@1",)),
)


def table(results: Sequence[ArmResult]) -> str:
    """Means over bases, differences to cosine within bases, and every base, in Markdown."""
    known = {result.arm for result in results}
    arms = [arm for arm in ORDER if arm in known]
    arms += sorted(known - set(ORDER))
    bases = in_order(result.base for result in results)
    on = {arm: numbers([one.base for one in _of(arm, results)]) for arm in arms}
    return "\n\n".join(
        (
            f"Means over bases (by their numbers: of {', '.join(bases)}).",
            _rows(
                COLUMNS,
                [(arm, [_mean(c, _of(arm, results)) for c in COLUMNS]) for arm in arms],
                on,
            ),
            "Difference to the cosine of the same base, paired within bases: mean [95 % t interval "
            "over bases].",
            _rows(
                COMPARED,
                [
                    (arm, [_apart(c, arm, results) for c in COMPARED])
                    for arm in arms
                    if arm != CONTROL
                ],
                on,
            ),
            f"Every base ({', '.join(bases)}):",
            _rows(
                COMPARED,
                [(arm, [_each(c, _of(arm, results)) for c in COMPARED]) for arm in arms],
                on,
            ),
        )
    )


def _of(arm: str, results: Sequence[ArmResult]) -> list[ArmResult]:
    return sorted((one for one in results if one.arm == arm), key=lambda one: place(one.base))


def _mean(column: Column, results: Sequence[ArmResult]) -> str:
    if column is BY_HEART:
        # As readers learn now, where some did: with dropout they were kept from it.
        now = [one for one in results if not one.numbers.get("fit", {}).get(FEW_DROPOUT)]
        results = now or results
    rows = [column.values(result) for result in results]
    return " / ".join(column.shown(fmean(values)) for values in zip(*rows, strict=True))


def _each(column: Column, results: Sequence[ArmResult]) -> str:
    return ", ".join(column.shown(column.values(result)[0]) for result in results)


def _apart(column: Column, arm: str, results: Sequence[ArmResult]) -> str:
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


def _rows(
    columns: Sequence[Column],
    rows: Sequence[tuple[str, Sequence[str]]],
    on: Mapping[str, str],
) -> str:
    titles = ["arm", "bases", *(column.title for column in columns)]
    lines = [titles, ["---"] * len(titles)]
    lines += [[f"`{arm}`", on[arm], *cells] for arm, cells in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def readout_table_script() -> None:
    """Print the tables of the read-out experiment: means, differences, every base."""
    ask_for_table(table, readout_table_script.__doc__ or "")
