"""What edits cost comes in; bars and one sentence go out, decided by intervals."""

from __future__ import annotations

from typing import Literal

from unbag.metrics.intervals import FEW
from unbag.probes.finding import Finding
from unbag.probes.plots import Bars, Plot
from unbag.probes.probe import Verdict
from unbag.probes.saying import bar, shown
from unbag.probes.vectors import TIE
from unbag.types import Outcomes

SAME_WORDS, OTHER_WORDS, SAME_DISTANCE = "same words", "other words", "same distance"
SHOWN = 4
"""Kinds that a sentence names."""
TELLS = 0.9
"""auc above which, by its interval, edits that matter are told from those that do not."""
CHEAP = 0.25
"""rho below which, by its interval, a positive costs next to nothing."""
UNSURE = 0.75
"""Half way from a detector to meaning: an auc that may be 0.5 and above this decides nothing."""

State = Literal["blind", "detector", "unsure", "semantic", "partly", "noticed"]
"""blind: the gap may be 0. detector: there is a gap, and auc may be 0.5. unsure: a gap, and auc may
be either. semantic: auc above `TELLS` and rho below `CHEAP`. noticed: a gap, and no positives to
compare."""
_WHAT = {f", {SAME_WORDS}": "exchanged words", f", {OTHER_WORDS}": "replaced words", "": "edits"}


def headline(finding: Finding) -> str:
    """The test on exchanged words where there are any, else on what there is."""
    for suffix in _groups(finding):
        for stem in ("auc", "gap", "gap_hp"):
            if finding.get(stem + suffix) is not None:
                return stem + suffix
    return finding.quantities[0].name if finding.quantities else ""


def _groups(finding: Finding) -> list[str]:
    """Those of one type of edit; all rows where no row has edits of one type."""
    typed = [suffix for suffix in _WHAT if suffix and finding.get(f"gap{suffix}") is not None]
    return typed or [""]


def state(finding: Finding, suffix: str) -> State | None:
    """What intervals say of one group of edits; None if too little was measured."""
    gap, auc, rho = (finding.get(stem + suffix) for stem in ("gap", "auc", "rho"))
    if gap is None or gap.outcomes is None or _clusters(gap.outcomes) < FEW:
        return None
    if not gap.estimate.low > TIE:
        return "blind"
    if auc is None:
        return "noticed"
    if not auc.estimate.low > 0.5:
        return "detector" if auc.estimate.high <= UNSURE else "unsure"
    is_cheap = rho is not None and rho.estimate.high < CHEAP
    return "semantic" if auc.estimate.low > TELLS and is_cheap else "partly"


def _clusters(outcomes: Outcomes) -> int:
    """Those with a unit that has a number."""
    there = zip(outcomes.clusters, outcomes.value_U, strict=True)
    return len({cluster for cluster, value in there if value == value})


def say(finding: Finding) -> Verdict:
    """One clause for each type of edit; any failure decides."""
    states = {suffix: state(finding, suffix) for suffix in _groups(finding)}
    known = {suffix: found for suffix, found in states.items() if found is not None}
    if not known:
        return Verdict(
            f"Not known: fewer than {FEW} independent rows have hard negatives and vectors.", "told"
        )
    told = "; ".join(_clause(finding, suffix, found) for suffix, found in known.items())
    told += _unnoticed(finding)
    found = set(known.values())
    if found == {"semantic"} and _blind_kinds(finding):
        return Verdict(f"In part: {told}.", "mixed")
    if found == {"semantic"}:
        return Verdict(f"Meaning: {told}.", "holds")
    if found == {"blind"}:
        return Verdict(f"Neither: {told}.", "fails")
    if "detector" in found:
        return Verdict(f"Only to notice edits: {told}.", "fails")
    if "blind" in found:
        return Verdict(f"Some words, not all that is said: {told}.", "fails")
    if "unsure" in found:
        return Verdict(f"Not decided: {told}.", "mixed")
    if found == {"noticed"}:
        return Verdict(f"It notices edits: {told}.", "told")
    return Verdict(f"In part: {told}.", "mixed")


def _blind_kinds(finding: Finding) -> list[str]:
    """Kinds of edit whose gap may be 0."""
    every = [
        one.name.removeprefix("gap, ") for one in finding.quantities if one.name.startswith("gap, ")
    ]
    kinds = [name for name in every if name not in (SAME_WORDS, OTHER_WORDS, SAME_DISTANCE)]
    return [kind for kind in kinds if state(finding, f", {kind}") == "blind"]


def _unnoticed(finding: Finding) -> str:
    kinds = _blind_kinds(finding)
    more = f" and {len(kinds) - SHOWN} more" if len(kinds) > SHOWN else ""
    return f"; by kind, unnoticed are {', '.join(kinds[:SHOWN])}{more}" if kinds else ""


def _clause(finding: Finding, suffix: str, found: State) -> str:
    what, gap = _WHAT[suffix], finding[f"gap{suffix}"].estimate
    if found == "blind":
        return f"{what} go unnoticed, a hard negative costs {shown(gap, digits=4)}"
    if found == "noticed":
        return (
            f"a hard negative ({what}) costs {shown(gap, digits=4)}; without hard positives it is "
            "not known whether any edit would"
        )
    how = {
        "detector": "are noticed but not understood",
        "unsure": "are noticed, whether they are understood is open",
        "semantic": "are understood",
        "partly": "are understood in part",
    }[found]
    auc, rho = finding[f"auc{suffix}"].estimate, finding.get(f"rho{suffix}")
    ratio = "" if rho is None else f" (ratio of costs, positive to negative: {shown(rho.estimate)})"
    return f"{what} {how}, a negative costs more than a positive with chance {shown(auc)}{ratio}"


def plots(finding: Finding) -> tuple[Plot, ...]:
    """What both edits cost, and the test, kind by kind."""
    every = [one for one in finding.quantities if "," in one.name]
    costs = [bar(one, one.name) for one in every if one.name.startswith(("gap,", "gap_hp,"))]
    tests = [bar(one, one.name.removeprefix("auc, ")) for one in every if one.name[:4] == "auc,"]
    found = (
        Bars(
            "What an edit costs",
            tuple(costs),
            is_rate=False,
            about="Cosine with the picture lost: gap to negatives, gap_hp to positives.",
        ),
        Bars(
            "Does a negative cost more than a positive?",
            tuple(tests),
            is_rate=False,
            about="0.5 only notices edits, 1 knows which of them matter.",
        ),
    )
    return tuple(one for one in found if one.bars)
