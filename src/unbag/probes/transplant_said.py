"""What parts bring and lose comes in; a sentence that names the part that was repaired goes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from unbag.probes.finding import Finding
from unbag.probes.probe import Verdict
from unbag.probes.transplant import Choice, Source
from unbag.reports.wording import difference_text
from unbag.types import Estimate

EVERY = "all kinds"
DIFFERENCE = "difference"
SUFFICES = 0.8
"""Share of a difference that a part must bring alone to be named as its place."""
NEEDED = 0.5
"""Share that must be lost without a part for it to be called needed."""


class Part(NamedTuple):
    """A part of a model."""

    field: Literal["picture", "text", "read_out"]
    name: str


PARTS = (
    Part("picture", "picture tower"),
    Part("text", "text tower"),
    Part("read_out", "read-out"),
)


def with_part(choice: Choice, part: Part, source: Source) -> Choice:
    """The same but for one part."""
    return Choice(
        source if part.field == "picture" else choice.picture,
        source if part.field == "text" else choice.text,
        source if part.field == "read_out" else choice.read_out,
    )


def label(choice: Choice) -> str:
    """The parts that come from the model under examination."""
    taken = [part.name for part in PARTS if getattr(choice, part.field) == "other"]
    whole = len([source for source in choice if source])
    return {0: "none", whole: "all"}.get(len(taken), " + ".join(taken))


def alone(part: Part) -> str:
    """Name of what it brings by itself."""
    return f"{part.name} alone"


def lost(part: Part) -> str:
    """Name of what goes with it."""
    return f"lost without {part.name}"


def say(finding: Finding) -> Verdict:
    """Of the kind on which the two models differ most."""
    scope = finding.headline.removesuffix(f": {DIFFERENCE}")
    whole = finding[finding.headline].estimate
    where = "over all kinds" if scope == EVERY else f"on {scope}"
    size = (
        f"{difference_text(whole.value, is_rate=True)} points "
        f"[{difference_text(whole.low, is_rate=True)}, {difference_text(whole.high, is_rate=True)}]"
    )
    # Written so that an interval that could not be found reads as undecided.
    if not (whole.low > 0 or whole.high < 0):
        return Verdict(f"The two models do not differ {where} ({size}): no part to name.", "told")
    parts = [part for part in PARTS if finding.get(f"{scope}: {alone(part)}")]
    brought = [finding[f"{scope}: {alone(part)}"].estimate for part in parts]
    gone = [finding[f"{scope}: {lost(part)}"].estimate for part in parts]
    told = ", ".join(
        f"the {part.name} {'alone brings ' if part is parts[0] else ''}"
        f"{difference_text(one.value, is_rate=True)}"
        for part, one in zip(parts, brought, strict=True)
    )
    place = _place(
        [part.name for part in parts],
        [_has(one, whole, SUFFICES) for one in brought],
        [_has(one, whole, NEEDED) for one in gone],
    )
    return Verdict(f"Of {size} from the other model to this one {where}, {told}: {place}.", "told")


def _has(one: Estimate, whole: Estimate, share: float) -> bool | None:
    """Whether a part has this share of the difference; None where it may as well have nothing."""
    if not one.value / whole.value >= share:
        return False
    return True if (one.low > 0 if whole.value > 0 else one.high < 0) else None


def _place(
    names: Sequence[str], brought: Sequence[bool | None], gone: Sequence[bool | None]
) -> str:
    enough = [name for name, has in zip(names, brought, strict=True) if has]
    needed = [name for name, has in zip(names, gone, strict=True) if has]
    if len(enough) == 1:
        return f"it sits in the {enough[0]}"
    if enough:
        return f"the {' or the '.join(enough)} suffices"
    if len(needed) == len(names):
        return "all parts are needed together"
    if len(needed) > 1:
        return f"the {' and the '.join(needed)} are needed together"
    if needed:
        return f"the {needed[0]} is needed, but does not suffice"
    if None in (*brought, *gone):
        return "so few rows do not say which part it sits in"
    return "it is spread over the parts"
