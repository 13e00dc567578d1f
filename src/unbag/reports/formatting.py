"""Format numbers as text: values, intervals, differences, p-values, counts, sizes, durations.

Every printed number of the package and of the study is formatted here. `Estimate.show` decides the
digits and signs of estimates (rounding half to even), `number_text` those of plain numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite, isnan

from unbag.types import Comparison, Estimate

DASH = "–"
"""Shown in place of a missing number."""


def number_text(
    value: float | None, *, is_rate: bool = True, signed: bool = False, digits: int | None = None
) -> str:
    """Format a rate as percent with one decimal, other numbers with three; never as -0."""
    if value is None or not isfinite(value):
        return DASH
    number = 100 * value if is_rate else value
    digits = digits if digits is not None else 1 if is_rate else 3
    return f"{number:+.{digits}f}" if signed else f"{round(number, digits) + 0.0:.{digits}f}"


def between(low: float, high: float, text: Callable[[float], str] = number_text) -> str:
    """Format an interval in brackets, with both ends formatted by `text`."""
    return f"[{text(low)}, {text(high)}]"


def with_interval(
    value: float, low: float, high: float, text: Callable[[float], str] = number_text
) -> str:
    """Format a value with its interval, as `93.8 [92.1, 95.0]`."""
    return f"{text(value)} {between(low, high, text)}"


def signed_text(value: float) -> str:
    """Format a signed difference in percentage points."""
    return number_text(value, signed=True)


def value_text(estimate: Estimate) -> str:
    """Format the value: percent with one decimal for a rate."""
    return estimate.show(estimate.value)


def interval_text(estimate: Estimate) -> str:
    """Format the interval in brackets; empty if there is none."""
    if isnan(estimate.low) or isnan(estimate.high):
        return ""
    return between(estimate.low, estimate.high, estimate.show)


def estimate_text(estimate: Estimate, *, with_unit: bool = False) -> str:
    """Format as `93.8 [92.1, 95.0]`, or with its unit as `93.8 % [92.1, 95.0]`."""
    unit = " %" if with_unit and estimate.is_rate and not isnan(estimate.value) else ""
    return f"{value_text(estimate)}{unit} {interval_text(estimate)}".strip()


def share_text(share: float, count: int, *, unit: str = " %") -> str:
    """Format a share of `count` with its 95 % Wilson interval, as `77.0 % [71.3, 81.9]`."""
    from unbag.metrics.intervals import wilson

    interval = wilson(share * count, count)
    return f"{number_text(share)}{unit} {between(interval.low, interval.high)}"


def percent_text(part: float, whole: float, *, digits: int = 1) -> str:
    """Format a share as `12.5 %`; empty if the whole is 0."""
    return f"{100 * part / whole:.{digits}f} %" if whole else ""


def chance_text(estimate: Estimate | None) -> str:
    """Format the chance level, or both levels if there are two; a dash if there is none."""
    levels = chance_levels(estimate) if estimate else ()
    return "/".join(estimate.show(level) for level in levels) if estimate and levels else DASH


def chance_levels(estimate: Estimate) -> tuple[float, ...]:
    """Return the chance level, and the second one where random scores can mean two things."""
    both = (estimate.chance, estimate.chance_independent)
    return tuple(dict.fromkeys(level for level in both if level is not None and level == level))


def difference_text(value: float, *, is_rate: bool) -> str:
    """Format a signed difference, in percentage points for a rate."""
    return number_text(value, is_rate=is_rate, signed=True)


def difference_interval(comparison: Comparison, *, is_rate: bool) -> str:
    """Format the interval of a paired difference, as `[+1.0, +3.2]`."""
    return between(
        comparison.low, comparison.high, lambda value: difference_text(value, is_rate=is_rate)
    )


def change_text(comparison: Comparison, *, is_rate: bool) -> str:
    """Format a paired difference, as `+2.1 [+1.0, +3.2]` or without an interval as `+2.1`."""
    text = difference_text(comparison.difference, is_rate=is_rate)
    if not (isfinite(comparison.low) and isfinite(comparison.high)):
        return text
    return f"{text} {difference_interval(comparison, is_rate=is_rate)}"


def p_text(p: float | None) -> str:
    """Format a p-value with three decimals, never as zero."""
    if p is None or p != p:
        return DASH
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def score_text(score: float, others: Sequence[float] = ()) -> str:
    """Format a score with as many decimals as distinguish all of `others`.

    Without others it has four decimals, or more for small scores, since probabilities can be tiny.
    """
    if not isfinite(score):
        return "no score"
    if not others:
        return f"{score:.4f}" if score == 0 or abs(score) >= 0.1 else f"{score:#.4g}"
    different = len(set(others))
    for decimals in range(3, 10):
        if len({f"{other:.{decimals}f}" for other in others}) == different:
            return f"{score:.{decimals}f}"
    return f"{score!r}"


def comparison_sentence(comparison: Comparison, *, is_rate: bool) -> str:
    """State a comparison in words; 'no difference shown' if the interval contains zero."""
    first, second = comparison.first, comparison.second
    if comparison.difference != comparison.difference:
        return f"{second} and {first} share no units"
    size = number_text(abs(comparison.difference), is_rate=is_rate)
    unit = " points" if is_rate else ""
    if comparison.low <= 0 <= comparison.high:
        return f"no difference shown between {second} and {first}"
    word = "above" if comparison.difference > 0 else "below"
    return f"{second} is {size}{unit} {word} {first}"


def trouble_text(estimate: Estimate) -> str:
    """List ties, invalid and unparsed units; empty if there are none."""
    parts = [count_text(estimate.ties, "tie")] if estimate.ties else []
    parts += [f"{estimate.invalid:,} invalid"] if estimate.invalid else []
    parts += [f"{estimate.unparsed:,} unparsed"] if estimate.unparsed else []
    return ", ".join(parts)


def count_text(count: float, noun: str) -> str:
    """Format a count with its noun, as `1 tie`, `3 ties` or `0.5 points`."""
    number = f"{count:,}" if isinstance(count, int) else f"{count:g}"
    return f"{number} {noun}" if count == 1 else f"{number} {noun}s"


def and_list(parts: Sequence[str]) -> str:
    """Join as `a, b and c`."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def duration_text(seconds: float, *, to_seconds: bool = False) -> str:
    """Format as `45 s`, `12 min` or `2 h 5 min`; with `to_seconds` as `0 min 45 s`."""
    if to_seconds:
        hours, rest = divmod(round(seconds), 3600)
        return f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def speed_text(speed: float) -> str:
    """Format steps per second, or seconds per step if that is below one."""
    return f"{speed:,.0f}/s" if speed >= 1 else f"{1 / speed:,.1f} s each"
