"""Estimates of the timed runs in cost.md are those of the plan."""

from __future__ import annotations

import runpy
from collections.abc import Iterable
from pathlib import Path

from unbag_lab.bases import missing_bases
from unbag_lab.claims import ArmKey, all_claims
from unbag_lab.experiments.photos import split_photo_claims
from unbag_lab.experiments.readers import READERS
from unbag_lab.plan import find_experiment, find_request

DOCS = Path(__file__).parents[1] / "docs"
LONG = {"decoder-long": 6, "decoder-cls-long": 8, "vlm2vec-long": 1, "pooled-long": 5, "base": 3,
        "dcsm_fixed-long": 3, "dcsm_fixed-shuffled-long": 3}  # fmt: skip
"""Arms of a timed run, with the number of bases."""
MAPS = ("base", "dcsm_fixed-long", "dcsm_fixed-shuffled-long")


def test_the_table_has_the_sums_and_shares_of_the_file() -> None:
    rows = runpy.run_path(str(DOCS / "make_lab.py"))["timed_table"]().splitlines()[2:]
    *runs, total = ([cell.strip() for cell in row.strip("|").split("|")[1:]] for row in rows)
    for column in range(3):
        assert f"{sum(float(run[column]) for run in runs):g}" == total[column]
    for _, estimate, took, share in (*runs, total):
        assert share == f"{100 * float(took) / float(estimate):.0f} %"


def test_estimates_are_those_of_the_plan() -> None:
    """Of the last four runs; the first two were made by an earlier script."""
    all_arms = arms_of_a_base()
    long = [("readouts", arm) for arm, count in LONG.items() for _ in range(count)]
    without_text = [
        (name, arm) for name, arm in all_arms if name != "readouts" or not has_text(arm)
    ]
    without_readouts = [(name, arm) for name, arm in all_arms if name != "readouts"]
    maps = 4 * [("readouts", arm) for arm in MAPS]
    assert listed() == [
        estimated(long, "tiny-9", "tiny-10", "tiny-11"),
        estimated(without_text, "tiny-12"),
        estimated(without_readouts, "tiny-14"),
        estimated(maps, "tiny-15", "tiny-16", "tiny-17", "tiny-18"),
    ]


def test_claims_asked_again_need_more_bases() -> None:
    assert sorted(claim.seeds for claim in all_claims() if claim.seen) == [8, 10]


def listed() -> list[tuple[str, str]]:
    """Results and estimate of the last four runs."""
    lines = (DOCS / "timed_runs.tsv").read_text(encoding="utf-8").splitlines()[-4:]
    return [(results, estimate) for _, results, estimate, _ in (line.split("\t") for line in lines)]


def estimated(arms: Iterable[ArmKey], *bases: str) -> tuple[str, str]:
    """Results, and minutes of one H200 with the bases."""
    arms = list(arms)
    seconds = sum(
        find_experiment(name).seconds(arm)
        for name, arm in arms
        if not find_experiment(name).on_processor
    )
    seconds += sum(missing_bases(Path("none"), bases, size="full").values())
    return f"{len(arms)}", f"{seconds / 60:.1f}"


def arms_of_a_base() -> tuple[ArmKey, ...]:
    """All that claims about the world need."""
    wish = find_request(["all"], find=find_experiment)
    return tuple(split_photo_claims(wish, ["all"])[0].arms)


def has_text(arm: str) -> bool:
    return arm in READERS and READERS[arm].text
