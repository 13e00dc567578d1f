"""Write the tables of the page on repairs from the shipped results.

python lab/docs/make_repairs.py
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from unbag.reports.formatting import number_text
from unbag_lab.experiments.repair import EXCHANGED
from unbag_lab.experiments.repair_training import ARMS, LOCKED
from unbag_lab.pages import renewed, table
from unbag_lab.pages.tables import repair_tables
from unbag_lab.results import RESULTS, ArmResult, in_order, read_results

PAGE = Path(__file__).parent / "repair-on-the-world.md"
EXPERIMENTS = ("default", "ordered", "held_out")
SYNONYMS = (
    ("no", "none", "ordered", "clip_ft"),
    ("yes", "none", "ordered", "hard_negative"),
    ("yes", "synonyms", "held_out", "hard_positive"),
    ("yes", "the other order, synonyms", "ordered", "hard_positive"),
)
"""Negatives, positives, experiment and arm."""
TRIPLE = ("original", "augmented", "brittleness")


def made(results: Sequence[ArmResult]) -> dict[str, str]:
    """Tables by the name of their marks."""
    of = {name: [one for one in results if one.experiment == name] for name in EXPERIMENTS}
    return {
        **{name: f"{repair_tables(of[name])}\n" for name in ("default", "ordered")},
        "synonyms": synonyms_table(results),
        "losses": losses_table(of["default"]),
    }


def synonyms_table(results: Sequence[ArmResult]) -> str:
    """Means on the bases that all arms have."""
    arms = {
        key: {one.base: one for one in results if (one.experiment, one.arm) == key}
        for *_, experiment, arm in SYNONYMS
        if (key := (experiment, arm))
    }
    bases = set.intersection(*(set(some) for some in arms.values()))
    rows = []
    for negatives, positives, experiment, arm in SYNONYMS:
        own = [arms[experiment, arm][base].numbers for base in sorted(bases)]
        cells = [
            " / ".join(number_text(fmean(one[bench][metric] for one in own)) for metric in TRIPLE)
            for bench in ("world-swap", "world-relation", EXCHANGED)
        ]
        denials = number_text(fmean(one["world-negation"]["group"] for one in own))
        rows.append([negatives, positives, f"`{arm}` of `{experiment}`", *cells, denials])
    titles = (f"{name} orig / aug / brittle" for name in ("swap", "relation", "exchanged"))
    return table(["negatives", "positives", "arm", *titles, "negation group"], rows)


def losses_table(results: Sequence[ArmResult]) -> str:
    """Training loss of the last step on every base."""
    rows = [
        [f"`{arm}`", _losses(results, arm), _losses(results, arm + LOCKED)]
        for arm in ARMS
        if not arm.endswith(LOCKED)
    ]
    return table(["arm", "trainable image encoder", "frozen"], rows)


def _losses(results: Sequence[ArmResult], arm: str) -> str:
    found = {one.base: one.loss for one in results if one.arm == arm}
    losses = (found[base] for base in in_order(found))
    return ", ".join(f"{loss:.3f}" for loss in losses if loss is not None)


if __name__ == "__main__":
    results = [one for name in EXPERIMENTS for one in read_results(RESULTS / f"{name}.json")]
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), made(results)), encoding="utf-8")
