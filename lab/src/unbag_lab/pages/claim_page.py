"""Makes the page of a claim in Markdown: predictions, arms, numbers by base, verdict and reasons.

All numbers are of the bases that count for the claim, so arms are compared on the same bases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from statistics import fmean

from unbag.reports.formatting import DASH, number_text
from unbag_lab.claims import LEAST_FIT, ArmKey, ArmsOfBase, Claim, Number
from unbag_lab.pages import table
from unbag_lab.pages.figures import MANY
from unbag_lab.results import BY_STEP, FEW_DROPOUT, ArmResult, in_order
from unbag_lab.verdict import (
    REPRODUCED,
    UNDECIDED,
    Tested,
    Verdict,
    absent,
    all_absent,
    by_base,
    difference_text,
    inequality,
    interpretation,
    points,
    reading_notes,
    reason,
    seen_text,
    sides,
)

PAIR, RELAXED = "pair", "relaxed"


def claim_page(
    verdict: Verdict, results: Sequence[ArmResult], *, together: int, note: str = ""
) -> str:
    """Return the page of a claim; `together` predictions of all claims are corrected together."""
    claim = verdict.claim
    is_named = not claim.paper or f"({claim.paper})" in claim.source
    paper = "" if is_named else f" ({claim.paper})"
    head = ("prediction", "as it is tested, in points")
    predicted = [
        (prediction.says, inequality(prediction, claim.experiment))
        for prediction in claim.predictions
    ]
    known_before = (
        f"{seen_text(claim)} They are left out of every effect below. A run of your own needs "
        f"`--seeds {claim.seeds}` for a verdict.\n"
    )
    parts = [
        f"# `{claim.name}`\n",
        f"{claim.statement}\n",
        f"Source: {claim.source}{paper}. [All claims](../index.md)\n",
        f"Verdict: **{verdict_with_reason(verdict, results)}**{_in_short(verdict)}\n",
        *(f"{note_text}\n" for note_text in reading_notes(claim, results)),
        f"## Predicted\n\n{table(head, predicted)}",
        known_before if claim.seen else "",
        _what_ran(claim, results),
        _readers(claim, by_base(results)),
        *(_numbers(verdict, results) if has_run(verdict) else []),
        _on_the_way(claim, results),
        _beside(claim, results),
        _verdict(verdict, results, together),
        f"## What to make of it\n\n{interpretation(verdict)}\n",
    ]
    return "\n".join(part for part in [*parts, note] if part)


def has_run(verdict: Verdict) -> bool:
    """Return whether any base counts for the claim and has results."""
    return any(tested.effects for tested in verdict.tested)


def verdict_with_reason(verdict: Verdict, results: Sequence[ArmResult]) -> str:
    """Return the verdict, and the reason if there are no effects."""
    why_none = all_absent(verdict, results)
    return f"{verdict.text}: {why_none}" if why_none else verdict.text


def _in_short(verdict: Verdict) -> str:
    """Return how many predictions are reproduced; empty if all are."""
    if not has_run(verdict) or verdict.word == REPRODUCED:
        return ""
    if verdict.word == UNDECIDED and (verdict.is_small or verdict.missing):
        return f" ({verdict.why})"
    return f" ({verdict.came_out})" if len(verdict.tested) > 1 else ""


def _what_ran(claim: Claim, results: Sequence[ArmResult]) -> str:
    rows = []
    for experiment, arm in (*claim.arms, *claim.arms_beside):
        arm_results = [
            result for result in results if (result.experiment, result.arm) == (experiment, arm)
        ]
        durations = [result.seconds for result in arm_results if result.seconds is not None]
        seconds = number_text(fmean(durations), is_rate=False, digits=0) if durations else DASH
        steps, batch = (
            span(getattr(result, field) for result in arm_results)
            for field in ("steps", "batch_size")
        )
        name = f"`{arm}`" if (experiment, arm) in claim.arms else f"`{arm}`, beside"
        rows.append((name, f"`{experiment}`", f"{len(arm_results)}", steps, batch, seconds))
    head = ("arm", "experiment", "bases", "steps", "batch", "seconds on a base")
    notes = {"Controls": claim.controls, "Settings and what else could matter": claim.knobs}
    lines = "".join(f"\n{name}: {text}.\n" for name, text in notes.items() if text)
    return f"## What was run\n\n{table(head, rows)}{lines}"


def _readers(claim: Claim, bases: Mapping[str, ArmsOfBase]) -> str:
    """Return a table of the train accuracy on fixed examples, by base."""
    if not claim.must_fit:
        return ""
    rows = []
    # The dropout with which readers fitted the fixed examples.
    dropout: dict[str, float] = {}
    for base in in_order(bases):
        arms = bases[base]
        reader_results = [arms.get((claim.experiment, name)) for name in claim.must_fit]
        if all(result is not None for result in reader_results):
            fits = [result.numbers.get("fit", {}) for result in reader_results if result]
            shares = [number_text(fit.get("few", 0.0)) for fit in fits]
            rows.append((base, *shares, "yes" if claim.counts(arms) else "no"))
            if dropouts := [fit[FEW_DROPOUT] for fit in fits if FEW_DROPOUT in fit]:
                dropout[base] = max(dropouts)
    if not rows:
        return ""
    head = ("base", *(f"`{name}`" for name in claim.must_fit), "counts")
    changed, before = "", ", ".join(base for base, share in dropout.items() if share)
    if dropout:
        changed = (
            "\nHow such readers fit the fixed examples was changed after results were seen, and "
            "bases count now that did not before: without dropout and at a higher learning rate "
            "([more](../index.md#what-to-keep-in-mind))."
            f"{f' Not so on {before}.' if before else ''}\n"
        )
    return (
        "## Could the readers learn?\n\nTrain accuracy of each reader on a few fixed examples, "
        f"in percent; a base counts if all have at least {number_text(LEAST_FIT)}"
        f"{' and it was not seen before' if claim.seen else ''}.\n\n"
        f"{table(head, rows)}{changed}"
    )


def _numbers(verdict: Verdict, results: Sequence[ArmResult]) -> list[str]:
    name, bases = verdict.claim.name, by_base(results)
    parts = [f"## Found\n\n![Effects by base](../images/claims/{name}.svg)\n"]
    if len(verdict.tested) > MANY:
        return [*parts, _effects_table(verdict)]
    return parts + [
        _base_table(tested, verdict.claim, bases) for tested in verdict.tested if tested.effects
    ]


def _base_table(tested: Tested, claim: Claim, bases: Mapping[str, ArmsOfBase]) -> str:
    number, control = tested.prediction.number, tested.prediction.control
    rows = []
    for base, effect in tested.effects.items():
        value = number.of(bases[base], claim.experiment)
        other = (
            control.of(bases[base], claim.experiment) if isinstance(control, Number) else control
        )
        values = (number_text(v) for v in (value, other) if v is not None)
        rows.append((base, *values, points(effect)))
    rows.append(("**mean [95 %]**", "", "", f"**{difference_text(tested)}**"))
    shared, first, second = sides(tested.prediction, claim.experiment)
    head = ("base", first, second, "difference")
    name = f"{shared}, " if shared else ""
    return f"{name}{tested.prediction.says}:\n\n{table(head, rows)}"


def _effects_table(verdict: Verdict) -> str:
    """Return a table of the differences only, for claims with many predictions."""
    bases = in_order(base for tested in verdict.tested for base in tested.effects)
    rows = []
    for tested in verdict.tested:
        effects = {base: points(effect) for base, effect in tested.effects.items()}
        if effects:
            effect_texts = ", ".join(effects.get(base, DASH) for base in bases)
            rows.append((tested.prediction.says, difference_text(tested), effect_texts))
    head = ("prediction", "mean [95 %]", f"by base: {', '.join(bases)}")
    return f"Differences in points:\n\n{table(head, rows)}"


def _on_the_way(claim: Claim, results: Sequence[ArmResult]) -> str:
    """Return tables of the metrics of its arms during training."""
    bases = {base: arms for base, arms in by_base(results).items() if claim.counts(arms)}
    tables = []
    for key in claim.arms:
        numbers_by_base = {base: arms[key].numbers for base, arms in bases.items() if key in arms}
        for curve in dict.fromkeys(
            n for numbers in numbers_by_base.values() for n in numbers if BY_STEP in n
        ):
            shares = {
                base: numbers_by_base[base][curve]
                for base in in_order(numbers_by_base)
                if curve in numbers_by_base[base]
            }
            steps = sorted(
                {step for shares_by_step in shares.values() for step in shares_by_step}, key=int
            )
            rows = [
                (
                    f"{int(step):,}",
                    *(number_text(share_by_step.get(step)) for share_by_step in shares.values()),
                )
                for step in steps
            ]
            name = f"`{curve.removesuffix(BY_STEP)}` of {arm_name(key, claim)}"
            tables.append(f"{name}:\n\n{table(('steps', *shares), rows)}")
    if not tables:
        return ""
    first = "## On the way\n\nAccuracy while arms were trained, in percent. It decides nothing.\n"
    return "\n".join([first, *tables])


def _beside(claim: Claim, results: Sequence[ArmResult]) -> str:
    """Return a table of all metrics of all arms; empty if no control was run."""
    metrics = numbers_beside(claim, results)
    if not metrics:
        return ""
    keys = [
        key
        for key in (*claim.arms, *claim.arms_beside)
        if any(key in metric.values for metric in metrics)
    ]
    rows = [
        (f"`{metric.benchmark}` `{metric.metric}`", *map(metric.text, keys)) for metric in metrics
    ]
    head = ("number", *(arm_name(key, claim) for key in keys))
    return (
        "## Beside it\n\nMeans in points, with the number of bases. What no prediction names "
        f"decides nothing.\n\n{table(head, rows)}"
    )


def _verdict(verdict: Verdict, results: Sequence[ArmResult], together: int) -> str:
    small = "A small run decides nothing.\n\n" if verdict.is_small else ""
    rows = []
    for tested in verdict.tested:
        why_none = absent(tested.prediction, verdict.claim, results)
        why = reason(tested, together=together, why_none=why_none)
        rows.append((tested.prediction.says, verdict.about(tested.word), why))
    return f"## Verdict and why\n\n{small}{table(('prediction', 'verdict', 'why'), rows)}"


def numbers_beside(claim: Claim, results: Sequence[ArmResult]) -> tuple[Beside, ...]:
    """Return every metric of a claim for every arm that has it; empty if no control was run.

    Each strict pair metric is followed by the relaxed one, which does not rise merely because
    vectors are less similar.
    """
    bases = [arms for arms in by_base(results).values() if claim.counts(arms)]
    tested = [number for prediction in claim.predictions for number in prediction.numbers]
    pairs = [
        replace(number, metric=RELAXED)
        for number in (*tested, *claim.beside)
        if number.metric == PAIR
    ]
    numbers = (*claim.beside, *pairs)
    if not any(
        number.of(arms, claim.experiment) is not None for number in numbers for arms in bases
    ):
        return ()
    metrics = []
    for benchmark, metric in dict.fromkeys(
        (number.benchmark, number.metric) for number in (*tested, *numbers)
    ):
        values = {}
        for key in (*claim.arms, *claim.arms_beside):
            values_or_none = [
                arms[key].numbers.get(benchmark, {}).get(metric) for arms in bases if key in arms
            ]
            if finite_values := tuple(
                value for value in values_or_none if value is not None and isfinite(value)
            ):
                values[key] = finite_values
        metrics.append(Beside(benchmark, metric, values))
    return tuple(value for value in metrics if value.values)


@dataclass(frozen=True)
class Beside:
    """One metric for all arms that have it."""

    benchmark: str
    metric: str
    values: Mapping[ArmKey, tuple[float, ...]]
    """One value for each base."""

    def text(self, key: ArmKey) -> str:
        """Return the mean in points, with the number of bases."""
        values = self.values.get(key)
        return f"{number_text(fmean(values))} ({len(values)})" if values else DASH


def arm_name(key: ArmKey, claim: Claim) -> str:
    """Return the name of an arm, with its experiment if it is not that of the claim."""
    experiment, arm = key
    return f"`{arm}`" if experiment == claim.experiment else f"`{arm}` of `{experiment}`"


def span(values: Iterable[int]) -> str:
    """Return the unique values, sorted."""
    distinct = sorted(set(values))
    return ", ".join(f"{value:,}" for value in distinct) or DASH
