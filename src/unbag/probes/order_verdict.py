"""What was found out about order comes in; bars and one sentence go out.

The verdict is about the headline: order precision on swaps, else on a shuffle.
"""

from __future__ import annotations

from collections.abc import Sequence

from unbag.probes.finding import Finding, Quantity
from unbag.probes.plots import Bars, Plot
from unbag.probes.probe import Verdict
from unbag.probes.saying import bars_of, shown
from unbag.probes.vectors import TIE

PRECISION, SIMILARITY = "order precision, ", "similarity, "
SWAPS, OTHER = "swaps", "another caption"
KEPT, WHOLE = "retention, all_words, text to image", "R@1, original, text to image"
LEAST = 20
"""Queries that must be answered as they are before it makes sense to say how many still are, and
captions of a kind of swap before it is named: the interval of one right answer holds chance."""
SEES = 0.9
"""Order precision above which, by its interval, order is seen."""
UNSURE = 0.75
"""Half way from chance to all: an interval from chance to above it decides nothing."""
ALIKE = 0.95
"""Cosine above which captions of other words are all alike."""


def say(finding: Finding) -> Verdict:
    """No where precision is about chance or less, yes where it is surely above 90 % on swaps.

    A kind of swap that may be chance makes it a part only, if there are enough of it to say.
    """
    label = finding.headline.removeprefix(PRECISION)
    found, similar = finding[finding.headline].estimate, finding[SIMILARITY + label].estimate
    is_swap = label == SWAPS
    other = "another sentence of the same words" if is_swap else "the same words shuffled"
    if found.n == 0:
        return Verdict("Not known: no caption and picture have vectors that are numbers.", "told")
    if similar.value >= 1 - TIE:
        return Verdict(
            f"No: a caption and {other} have the same vector (cosine {shown(similar)}), and the "
            f"picture prefers the caption in {shown(found)} of cases{_retained(finding)}.",
            "fails",
        )
    told = (
        f"the picture prefers a caption to {other} in {shown(found)} of cases, where 50 % is "
        f"chance; their vectors have cosine {shown(similar)}{_beside(finding)}{_retained(finding)}"
    )
    if found.low <= 0.5:
        if found.high > UNSURE:
            return Verdict(f"Not decided: {told}.", "mixed")
        return Verdict(f"No: {told}.", "fails")
    if not is_swap:
        return Verdict(f"Perhaps, since language alone tells nonsense: {told}.", "mixed")
    worst = min(_by_kind(finding), key=lambda one: one.estimate.low, default=None)
    if worst is not None and worst.estimate.low <= 0.5:
        kind = worst.name.removeprefix(f"{PRECISION}{SWAPS}: ")
        return Verdict(f"In part ({kind}: {shown(worst.estimate)}): {told}.", "mixed")
    if found.low < SEES:
        return Verdict(f"In part: {told}.", "mixed")
    return Verdict(f"Yes: {told}.", "holds")


def _by_kind(finding: Finding) -> list[Quantity]:
    begin = f"{PRECISION}{SWAPS}: "
    every = [one for one in finding.quantities if one.name.startswith(begin)]
    return [one for one in every if one.estimate.n >= LEAST]


def _beside(finding: Finding) -> str:
    other = finding.get(SIMILARITY + OTHER)
    if other is None or not other.estimate.n:
        return ""
    alike = " (all captions are alike)" if other.estimate.value > ALIKE else ""
    return f", those of unrelated captions {other.estimate.show(other.estimate.value)}{alike}"


def _retained(finding: Finding) -> str:
    kept, whole = (finding.get(name) for name in (KEPT, WHOLE))
    if kept is None or whole is None or not whole.estimate.value * whole.estimate.n >= LEAST:
        return ""
    return f"; {shown(kept.estimate)} of retrieval is left with all words shuffled"


def plots(quantities: Sequence[Quantity]) -> tuple[Plot, ...]:
    """What is retained, what is preferred and how near shuffles are."""
    found = (
        Bars(
            "R@1 left without order",
            bars_of(quantities, "retention, ", ", text to image"),
            about="Captions, or pictures, are shuffled in the whole gallery; 100 % lost nothing.",
        ),
        Bars(
            "Order precision",
            bars_of(quantities, PRECISION),
            about="How often a picture prefers its caption to the same words in another order.",
        ),
        Bars(
            "Similarity to itself in another order",
            bars_of(quantities, SIMILARITY),
            is_rate=False,
            about="Mean cosine; 1 is blind to order.",
        ),
    )
    return tuple(one for one in found if one.bars)
