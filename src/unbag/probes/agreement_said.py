"""A finding about merged pictures comes in; one plain sentence goes out; its interval decides."""

from __future__ import annotations

from unbag.probes.agreement import ABOVE
from unbag.probes.finding import Finding, Quantity
from unbag.probes.material_pairs import NEAREST
from unbag.probes.probe import Tone, Verdict
from unbag.probes.saying import shown
from unbag.types import Estimate

ALL, SAME, OTHER = "all pairs", "same things", "other things"
"""Groups of pairs besides relations; same things: a bag of words cannot tell the two apart."""
RATE = "merged, "
SELDOM, MOSTLY = 0.1, 0.5
"""Pairs are kept apart if surely less than this share is merged, merged if surely more."""
WORDS = {
    "left/right": "who is left and who is right",
    "on/under": "what stands on what",
    "front/behind": "what is in front of what",
    "swap_attributes": "which thing has which colour",
    "replace_count": "how many there are",
    "replace_texture": "the texture of a thing",
    "negate": "one of the things",
}
"""What pictures of a relation differ in, on the world; other relations are said as they are."""
CHANGED = {
    "left/right": "places",
    "on/under": "places",
    "front/behind": "places",
    "swap_attributes": "colours",
    "replace_count": "number",
}
"""What things have changed that a bag of words does not see."""


def merged(group: str) -> str:
    """Name of the rate of a group of pairs."""
    return f"{RATE}{group}"


def say(finding: Finding) -> Verdict:
    """What it does with most pairs; which relations stand out; whether it merges everything."""
    head = finding[finding.headline]
    found = head.estimate
    if not found.n:
        return Verdict("Nothing could be measured: no pair of pictures has two directions.", "told")
    if finding.get(merged(NEAREST)):
        return Verdict(_nearest(found), "told")
    which = _which(finding)
    tone = _tone(found)
    begin = {
        "fails": f"It takes {which} for the same",
        "holds": f"It keeps {which} apart",
        "mixed": f"It takes some {which} for the same",
        "told": f"There are too few pairs to say whether it takes {which} for the same",
    }[tone]
    return Verdict(f"{begin}: {_number(head)}.{_further(finding)}", tone)


def _nearest(found: Estimate) -> str:
    """Chosen as the nearest, they are no sample of others: a count, without an interval."""
    count = round(found.value * found.n)
    have = "has" if count == 1 else "have"
    return (
        f"Of the {found.n:,} pairs of these pictures that lie nearest to each other, "
        f"{count:,} {have} a cosine above {ABOVE}; the plot names them, and "
        "whether they show the same is for you to say."
    )


def _tone(found: Estimate) -> Tone:
    if found.low > MOSTLY:
        return "fails"
    if found.high < SELDOM:
        return "holds"
    return "told" if found.low < SELDOM and found.high > MOSTLY else "mixed"


def _which(finding: Finding) -> str:
    if finding.headline == merged(ALL):
        return "different pictures"
    groups = [one for one in _relations(finding) if one.known.bag == 1.0]
    if len(groups) == 1:
        return f"pictures that differ only in {_words(groups[0])}"
    names = [one.name.removeprefix(RATE) for one in groups]
    changed = list(dict.fromkeys(CHANGED[name] for name in names if name in CHANGED))
    if not changed or not all(name in CHANGED for name in names):
        return "pictures of the same things"
    told = " or ".join(filter(None, (", ".join(changed[:-1]), changed[-1])))
    return f"pictures whose things have only changed {told}"


def _number(head: Quantity) -> str:
    found, known = head.estimate, head.known
    both = ("a bag of words", known.bag), ("a perfect model", known.perfect)
    beside = [f"{name} {found.show(value)} %" for name, value in both if value is not None]
    over = f"have a cosine above {ABOVE} ({', '.join(beside)})"
    return f"{shown(found)} of {found.n:,} such pairs {over}"


def _further(finding: Finding) -> str:
    """What must be known with it: other things are merged too, or relations fare differently."""
    other = finding.get(merged(OTHER))
    if other is not None and other.estimate.n and other.estimate.low > MOSTLY:
        return (
            f" It does so with pictures of other things too ({shown(other.estimate)}): it merges "
            "whatever it sees."
        )
    rates = [one for one in _relations(finding) if one.estimate.n]
    # The sentence is about relations that a bag of words cannot tell, or about all.
    about = [one for one in rates if finding.headline == merged(ALL) or one.known.bag == 1.0]
    return _spread(about) + _besides([one for one in rates if one not in about])


def _spread(rates: list[Quantity]) -> str:
    """The two ends, where their intervals are apart."""
    if len(rates) < 2:
        return ""
    most = max(rates, key=lambda one: one.estimate.value)
    least = min(rates, key=lambda one: one.estimate.value)
    if most.estimate.low <= least.estimate.high:
        return ""
    return (
        f" Most often those that differ in {_words(most)} ({shown(most.estimate)}), least often "
        f"in {_words(least)} ({shown(least.estimate)})."
    )


def _besides(rates: list[Quantity]) -> str:
    """What even a bag of words could tell."""
    found = [one for one in rates if one.known.bag == 0.0 and one.estimate.low > MOSTLY]
    told = " and ".join(f"{_words(one)} ({shown(one.estimate)})" for one in found)
    return f" It also merges what a bag of words tells apart: {told}." if found else ""


def _relations(finding: Finding) -> list[Quantity]:
    groups = [merged(group) for group in (ALL, SAME, OTHER)]
    rates = [one for one in finding.quantities if one.name.startswith(RATE)]
    return [one for one in rates if one.name not in groups]


def _words(rate: Quantity) -> str:
    relation = rate.name.removeprefix(RATE)
    return WORDS.get(relation, relation)
