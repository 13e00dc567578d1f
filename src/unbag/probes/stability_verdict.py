"""How firm preferences are comes in; one sentence goes out, decided by intervals."""

from __future__ import annotations

from unbag.probes.finding import Finding
from unbag.probes.probe import Verdict
from unbag.probes.saying import shown

SAME_WORDS, PICTURES = ", same words", ", pictures"
FIRM, FRAGILE = 0.1, 0.25
"""Share of right preferences that noise of 10 % turns: surely below, surely above."""
UNSURE = 0.75
"""Half way from chance to all right: an interval from chance to above it decides nothing."""
_BETWEEN = {
    SAME_WORDS: "two captions of the same words",
    "": "two captions",
    PICTURES: "two pictures",
}


def say(finding: Finding) -> Verdict:
    """Of the group of the headline: chance and ties fail, then what noise of 10 % turns decides."""
    suffix = finding.headline.removeprefix("angle")
    between = _BETWEEN[suffix]
    right, angle = finding[f"right{suffix}"].estimate, finding[f"angle{suffix}"].estimate
    flipped = finding[f"flipped at 10 %{suffix}"].estimate
    if not right.n:
        return Verdict("Not known: no preference between vectors that are numbers.", "told")
    if not right.value and angle.value != 0 and right.high > UNSURE:
        told = f"none of {right.n:,} preferences between {between} is right, too few to say more"
        return Verdict(f"Not decided: {told}.", "mixed")
    if not right.value:
        ties = "ties" if angle.value == 0 else "ties or wrong"
        at = (
            ""
            if angle.n == 0 or angle.value != angle.value
            else f", {shown(angle, 'degrees', digits=1)}"
        )
        return Verdict(
            f"Nothing holds them: all preferences between {between} are {ties}{at}.", "fails"
        )
    told = (
        f"{shown(right)} of preferences between {between} are right; a rotation of "
        f"{shown(angle, 'degrees', digits=1)} takes the middle one of these away, and noise of "
        f"10 % turns {shown(flipped)} of them{_against(finding, suffix)}"
    )
    if right.low <= 0.5 and right.high > UNSURE:
        return Verdict(f"Not decided: {told}.", "mixed")
    if right.low <= 0.5:
        return Verdict(f"It decides no better than chance: {told}.", "fails")
    if flipped.low > FRAGILE:
        return Verdict(f"Very little: {told}.", "fails")
    if flipped.high < FIRM:
        return Verdict(f"Much is needed: {told}.", "holds")
    return Verdict(f"Some noise is enough: {told}.", "mixed")


def _against(finding: Finding, suffix: str) -> str:
    """What the cosine of the two has to do with it, where the interval leaves 0 out."""
    side = PICTURES if suffix == PICTURES else ""
    found = finding.get(f"angle against cosine{side}")
    if found is None or not (found.estimate.low > 0 or found.estimate.high < 0):
        return ""
    how = "less" if found.estimate.high < 0 else "more"
    return f"; over all kinds, the more alike the two the {how} it takes ({shown(found.estimate)})"
