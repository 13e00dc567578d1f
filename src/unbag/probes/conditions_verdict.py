"""A finding about the conditions of an ideal space comes in; one plain sentence goes out."""

from __future__ import annotations

from typing import Literal

from unbag.probes.conditions import CONDITIONS
from unbag.probes.finding import Finding, Quantity
from unbag.probes.probe import Tone, Verdict
from unbag.probes.saying import shown

HOLDS = 0.9
"""A condition holds if it does in at least this share of cases."""
EVEN = 0.5
"""A condition fails if nothing says that it holds in more than half of the cases."""
BEYOND = ("2.3", "3.1", "3.2", "3.3")
"""What tells pictures of the same words apart: no bag of words can, a perfect space must."""
UNDECIDED = ("4.1",)
"""Reported, and decides nothing: a caption and its negation share a topic."""

State = Literal["holds", "in part", "fails", "unknown"]


def state(rate: Quantity) -> State:
    """What is said of one condition."""
    found = rate.estimate
    if not found.n:
        return "unknown"
    if found.value >= HOLDS and found.low > EVEN:
        return "holds"
    return "fails" if found.low <= EVEN and found.high < HOLDS else "in part"


def say(finding: Finding) -> Verdict:
    """How many conditions hold, and in words which do not."""
    rates = [finding[name] for name in CONDITIONS if name not in UNDECIDED]
    known = [one for one in rates if state(one) != "unknown"]
    if not known:
        return Verdict("Nothing could be measured: no picture or caption has a direction.", "told")
    held = [one for one in known if state(one) == "holds"]
    head = finding[finding.headline].estimate
    sentence = (
        f"{len(held)} of {len(known)} conditions of an ideal space hold; those that no bag of "
        f"words can meet hold in {shown(head)} of cases."
    )
    for which, word in (("fails", "Fail"), ("in part", "In part")):
        told = [_told(one) for one in known if state(one) == which]
        if which == "fails" and len(told) == len(known):
            return Verdict(sentence, "fails")
        sentence += f" {word}: {'; '.join(told)}." if told else ""
    return Verdict(sentence, _tone(known))


def _told(rate: Quantity) -> str:
    found = rate.estimate
    return f"{rate.name}, {CONDITIONS[rate.name].plain}: {found.show(found.value)} %"


def _tone(known: list[Quantity]) -> Tone:
    """Like a bag of words where nothing holds that none can meet."""
    if all(state(one) == "holds" for one in known):
        return "holds"
    beyond = [one for one in known if one.name in BEYOND]
    return "mixed" if any(state(one) == "holds" for one in beyond) else "fails"
