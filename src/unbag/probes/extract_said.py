"""What readers found comes in; a sentence on where the answer is and where it is lost goes out.

Something counts as read where the interval of the accuracy lies above chance, that of the
selectivity above 0, and the accuracy goes at least a tenth of the way from chance to 1, since
intervals leave out the luck of the folds; clearly, where the interval also lies above the middle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from unbag.probes.extract_readings import QUARTERS, RANDOM, SELECTIVITY, Side
from unbag.probes.finding import Finding, Quantity
from unbag.probes.probe import Tone, Verdict
from unbag.probes.saying import shown

OWN = "own score"
LEAST = 0.1
"""Of the way from chance to 1."""
READERS = ("linear", "mlp", "attentive")
COMPARED = "the vector that is compared"
WORDS = {
    "left/right": "left or right",
    "above/below": "above or below",
    "binding": "which thing has which colour",
    "count": "how many things there are",
    "presence": "whether a thing is there",
    "order": "which thing is named first",
    "negation": "which thing is denied",
    "relation": "which thing is said to be on the left",
}
"""What each label is, in a sentence."""


class Found(NamedTuple):
    """The best reader of one place."""

    quantity: Quantity
    is_read: bool
    is_clear: bool

    @property
    def shown(self) -> str:
        """Its accuracy."""
        return shown(self.quantity.estimate)

    @property
    def can(self) -> str:
        """How well it can be read."""
        return "can be read" if self.is_clear else "can in part be read"


def best(finding: Finding, label: str, place: str) -> Found | None:
    """None where this place was not read from."""
    named = [finding.get(f"{label}, {place}, {reader}") for reader in READERS]
    rows = [_judged(finding, one) for one in named if one is not None and one.estimate.n]
    return max(rows, key=_rank, default=None)


def _rank(found: Found) -> tuple[bool, float]:
    return found.is_read, found.quantity.estimate.value


def _judged(finding: Finding, quantity: Quantity) -> Found:
    found, chance = quantity.estimate, quantity.known.chance or 0.0
    low = found.low
    selectivity = finding.get(f"{quantity.name}, {SELECTIVITY}")
    is_beyond = selectivity is None or selectivity.estimate.low > 0
    is_beyond &= found.value >= chance + LEAST * (1 - chance)
    return Found(quantity, is_beyond and low > chance, is_beyond and low > (1 + chance) / 2)


def say_of(finding: Finding, labels: Sequence[str], side: Side) -> Verdict:
    """One sentence on the labels, the first first; fails or holds where all of them do."""
    told = [_said(finding, label, side) for label in labels]
    tones = {tone for _, tone in told}
    sentence = "; ".join(words for words, _ in told)
    tone: Tone = told[0][1] if len(tones) == 1 else "mixed"
    return Verdict(f"{sentence[0].upper()}{sentence[1:]}.", tone)


def _said(finding: Finding, label: str, side: Side) -> tuple[str, Tone]:
    """Where one label can be read, and where it is lost."""
    what = WORDS.get(label, label)
    compared = best(finding, label, "projected")
    if compared is None:
        return f"{what} could not be read, since no vector is finite", "told"
    if compared.is_read or _is_used(finding, label):
        return _kept(finding, label, what, compared)
    projected = f"{COMPARED} ({compared.shown})"
    unprojected = best(finding, label, "unprojected")
    parts = [best(finding, label, place) for place in (side.whole, QUARTERS, side.mean)]
    inner = max((one for one in parts if one), key=_rank, default=None)
    if unprojected is None and inner is None:
        return f"{what} cannot be read from {projected}", "fails"
    if unprojected is not None and unprojected.is_read:
        where = f"the vector before the projection ({unprojected.shown})"
        lost = "the projection loses it"
        return f"{what} {unprojected.can} from {where} but not from {projected}: {lost}", "fails"
    if inner is not None and inner.is_read:
        where = f"the {side.many} ({inner.shown})"
        lost = "it is there, and the read-out loses it"
        return f"{what} {inner.can} from {where} but not from {projected}: {lost}", "fails"
    deeper = f"the {side.many} ({inner.shown})" if inner else "what stands before it"
    return f"{what} can be read neither from {projected} nor from {deeper}", "fails"


def _is_used(finding: Finding, label: str) -> bool:
    """Whether the model's own score clearly decides by it: then it is there, readers or not."""
    own = finding.get(f"{label}, {OWN}")
    return own is not None and own.estimate.low > (1 + (own.known.chance or 0.0)) / 2


def _kept(finding: Finding, label: str, what: str, compared: Found) -> tuple[str, Tone]:
    """In the vector that is compared; whether the model's own score uses it."""
    words = f"{what} {compared.can} from {COMPARED} ({compared.shown})"
    own = finding.get(f"{label}, {OWN}")
    if own is None:
        return _beside_random(finding, label, words, compared)
    used = f"its score uses it ({shown(own.estimate)})"
    if _is_used(finding, label):
        if compared.is_clear:
            return f"{words} and {used}", "holds"
        weak = f"readers find it in {compared.shown} of unseen pairs"
        return f"{what} is in {COMPARED}, for {used}, though {weak}", "holds"
    if own.estimate.low > (own.known.chance or 0.0):
        return f"{words} and in part {used}", "mixed"
    return f"{words}, but its score does not use it ({shown(own.estimate)})", "mixed"


def _beside_random(finding: Finding, label: str, words: str, compared: Found) -> tuple[str, Tone]:
    """Without a score to judge by: what any network of that build gives is no merit."""
    named = [finding.get(f"{label}, projected, {reader}, {RANDOM}") for reader in READERS]
    known = [one.estimate for one in named if one is not None and one.estimate.n]
    if not known:
        return words, "holds" if compared.is_clear else "mixed"
    random, found = max(known, key=lambda one: one.value), compared.quantity.estimate
    if found.high < random.value:
        return f"{words}, less than with random weights ({shown(random)})", "mixed"
    if found.low <= random.value:
        return f"{words}, no more than with random weights ({shown(random)})", "told"
    more = f"{words}, more than with random weights ({shown(random)})"
    return more, "holds" if compared.is_clear else "mixed"
