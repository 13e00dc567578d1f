"""A finding about sums of vectors comes in; one plain sentence and a plot go out."""

from __future__ import annotations

from collections.abc import Sequence

from unbag.probes.finding import Finding, Quantity
from unbag.probes.plots import Bar, Bars
from unbag.probes.probe import Verdict
from unbag.probes.saying import shown

MARGIN = 0.1
"""The claim is supported if the own sum is nearer than another pair's by surely more than this."""
MERGED = 0.95
"""Pictures above this cosine are taken for the same, as by the probe of agreement."""
_SHOWN = (
    "sum, centred",
    "other pair, centred",
    "pair elsewhere, centred",
    "sum",
    "other pair",
    "pair elsewhere",
    "colours exchanged",
)


def say(finding: Finding) -> Verdict:
    """Whether pairs are sums, and what becomes of colours that are exchanged."""
    above = finding["sum above other pair, centred"].estimate
    if not above.n:
        return Verdict(
            "Nothing could be measured: around their mean, the vectors have no direction.", "told"
        )
    own, other, exchanged = (
        finding[name].estimate
        for name in ("sum, centred", "other pair, centred", "colours exchanged")
    )
    is_sum = above.low > MARGIN
    how = "close to" if is_sum else "perhaps close to" if above.high > MARGIN else "not close to"
    sentence = (
        f"The vector of a picture of two things is {how} the sum of theirs: around the mean, "
        f"cosine {shown(own)}, and {shown(other)} for the sum of two other things in the same "
        f"colours. With their colours exchanged, pictures have cosine {shown(exchanged)}"
    )
    if not is_sum:
        return Verdict(f"{sentence}.", "told")
    if exchanged.low > MERGED:
        return Verdict(f"{sentence}: a sum forgets what belongs to what.", "fails")
    if exchanged.high > MERGED:
        return Verdict(f"{sentence}: whether that is one picture is not decided.", "mixed")
    return Verdict(f"{sentence}: what belongs to what is there beside the sum.", "told")


def bars(quantities: Sequence[Quantity]) -> Bars:
    """The cosines that the claim is about."""
    known = {one.name: one for one in quantities}
    chosen = [known[name] for name in _SHOWN if name in known]
    return Bars(
        "A picture of two things and sums of single things",
        tuple(
            Bar(one.name, one.estimate.value, one.estimate.low, one.estimate.high, note=one.about)
            for one in chosen
        ),
        is_rate=False,
        about="Cosines, around the mean of all single things (centred) and as they are.",
    )
