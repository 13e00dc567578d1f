"""Accuracies by cause come in; a sentence with the best, the worst and a confusion goes out."""

from __future__ import annotations

from collections.abc import Sequence

from unbag.probes.finding import Finding, Quantity
from unbag.probes.probe import Tone, Verdict
from unbag.probes.saying import shown
from unbag.types import Estimate
from unbag.world.words import INVERSE, Relation

RELATIONS = "relations"
BINDING = "binding"
KNOWN = 0.9
"""Share above which a model is said to know, by the low end of its interval."""
_PARTS = ("relation ", "distance ", "size ", "objects ", "combination ")


def taken(relation: Relation) -> str:
    """Name of the confusion of a relation with its opposite."""
    return f"{relation} taken for {INVERSE[relation]}"


def parts_of(quantities: Sequence[Quantity]) -> list[str]:
    """Names of the breakdowns of both questions."""
    ours = (*_PARTS, *(f"{BINDING}, {part}" for part in _PARTS))
    return [one.name for one in quantities if one.name.startswith(ours)]


def say(finding: Finding) -> Verdict:
    """Relations first, then bindings; where neither is above chance, which relation is mistaken."""
    both = [finding[name].estimate for name in (RELATIONS, BINDING)]
    parts = [finding[name] for name in parts_of(finding.quantities)]
    if not any(one.n for one in both):
        return Verdict("Nothing could be measured: no picture and caption have a score.", "told")
    if not any(one.value for one in both):
        told = " and ".join(map(_share, (RELATIONS, "bindings"), both))
        return Verdict(f"As of a bag of words, every caption ties or loses: {told}.", "fails")
    if not any(one.low > 0.5 for one in (*both, *(part.estimate for part in parts))):
        told = " and ".join(map(_share, (RELATIONS, "bindings"), both))
        return Verdict(f"Chance everywhere: {told}; {_confused(finding)}.", "fails")
    is_binding = [part.name.startswith(BINDING) for part in parts]
    of = [
        [p for p, is_b in zip(parts, is_binding, strict=True) if is_b == b] for b in (False, True)
    ]
    told = "; ".join(map(_told, ("Relations", "bindings"), both, of))
    if min(one.low for one in both) >= KNOWN:
        return Verdict(f"{told}.", "holds")
    tone: Tone = "mixed" if any(one.low > 0.5 for one in both) else "fails"
    return Verdict(f"{told}; {_confused(finding)}.", tone)


def _share(name: str, found: Estimate) -> str:
    return f"{shown(found)} of {name}"


def _told(name: str, found: Estimate, parts: Sequence[Quantity]) -> str:
    """The share, and between which parts it varies."""
    if not found.low > 0.5:
        return f"{name} are at chance, {shown(found)}"
    ordered = sorted(parts, key=lambda one: (one.estimate.value, one.name))
    worst, best = ordered[0], ordered[-1]
    if worst.estimate.value == best.estimate.value:
        return f"{name} are right in {shown(found)}"
    ends = [
        f"{one.estimate.show(one.estimate.value)} % ({one.name.removeprefix(f'{BINDING}, ')})"
        for one in (worst, best)
    ]
    return f"{name} are right in {shown(found)}, from {ends[0]} to {ends[1]}"


def _confused(finding: Finding) -> str:
    """The relation that is most often taken for its opposite."""
    found = [finding[taken(relation)] for relation in INVERSE]
    most = max(found, key=lambda one: (one.estimate.value, one.name))
    share = most.estimate.show(most.estimate.value)
    return f"of eight captions, {most.name.replace(' taken ', ' is taken ')} in {share} %"
