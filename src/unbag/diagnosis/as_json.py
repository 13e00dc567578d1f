"""A diagnosis comes in; everything that it holds goes out as strict JSON, fractions as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isfinite

from unbag.diagnosis.answers import Answer, Diagnosis, Examined
from unbag.probes.finding import Finding, Quantity
from unbag.probes.plots import Plot
from unbag.probes.probe import Verdict
from unbag.types import Comparison
from unbag.version import __version__

KIND = "unbag diagnosis"
"""Says what a file is, so that no other folder is written over."""


def to_json(found: Diagnosis) -> str:
    """One object; null for what is not a finite number."""
    content = {
        "kind": KIND,
        "unbag": __version__,
        "is_whole": found.is_whole,
        "model": _examined(found.model),
        "against": _examined(found.other),
        "twin": _examined(found.twin),
        "material": found.material,
        "seed": found.options.seed,
        "options": asdict(found.options),
        "answers": [_answer(answer) for answer in found.answers],
        "maps": [_plot(one) for one in found.maps],
        "notes": list(found.notes),
        "record": {
            "command": found.command,
            "started": found.started,
            "device": found.device,
            "seconds": found.seconds,
            "versions": dict(found.versions),
        },
    }
    return json.dumps(_strict(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _examined(one: Examined | None) -> dict[str, object] | None:
    return None if one is None else asdict(one)


def _answer(answer: Answer) -> dict[str, object]:
    return {
        "probe": answer.probe,
        "question": answer.question,
        "about": answer.about,
        "skipped": answer.finding.skipped or None,
        "verdict": _verdict(answer.verdict),
        "against_verdict": _verdict(answer.other_verdict),
        "headline": answer.finding.headline or None,
        "quantities": [_quantity(one, answer) for one in answer.finding.quantities],
        "only_against": _only_other(answer),
        "plots": [_plot(one) for one in answer.finding.plots],
        "against_plots": [_plot(one) for one in answer.other.plots] if answer.other else [],
        "notes": list(answer.finding.notes),
        "against_notes": _notes(answer.other),
        "twin_notes": _notes(answer.twin),
        "seconds": answer.seconds,
    }


def _notes(finding: Finding | None) -> list[str]:
    """A question that could not be put to the other, or to the twin, says so here."""
    if finding is None:
        return []
    return [*([f"skipped: {finding.skipped}"] if finding.skipped else []), *finding.notes]


def _verdict(verdict: Verdict | None) -> dict[str, object] | None:
    return None if verdict is None else asdict(verdict)


def _quantity(mine: Quantity, answer: Answer) -> dict[str, object]:
    theirs = answer.other.get(mine.name) if answer.other else None
    twin = answer.twin.get(mine.name) if answer.twin else None
    made = difference_of(answer, mine.name)
    return {
        "name": mine.name,
        "about": mine.about,
        **_estimate(mine),
        "better": mine.better,
        "bag": mine.known.bag,
        "perfect": mine.known.perfect,
        "chance": mine.known.chance,
        "twin": None if twin is None else _estimate(twin),
        "against": None if theirs is None else _estimate(theirs),
        "difference": None if made is None else _difference(made),
    }


def _only_other(answer: Answer) -> list[dict[str, object]]:
    """What was measured of the other model alone."""
    rest = answer.other.quantities if answer.other else ()
    return [
        {"name": one.name, "about": one.about, **_estimate(one)}
        for one in rest
        if answer.finding.get(one.name) is None
    ]


def _estimate(quantity: Quantity) -> dict[str, object]:
    found = quantity.estimate
    return {
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "n": found.n,
        "invalid": found.invalid,
        "unparsed": found.unparsed,
        "interval": found.interval,
        "is_rate": found.is_rate,
    }


def difference_of(answer: Answer, name: str) -> Comparison | None:
    """The paired difference of one quantity, where there is one."""
    return next((one for one in answer.differences if one.metric == name), None)


def _difference(made: Comparison) -> dict[str, object]:
    return {
        "value": made.difference,
        "low": made.low,
        "high": made.high,
        "n": made.n,
        "p": made.p_value,
        "p_holm": made.p_holm,
        "test": made.test or None,
    }


def _plot(plot: Plot) -> dict[str, object]:
    return {"kind": type(plot).__name__.lower(), **asdict(plot)}


def _strict(value: object) -> object:
    """The same without numbers that JSON does not know."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _strict(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_strict(one) for one in value]
    return value
