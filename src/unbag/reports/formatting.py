"""Numbers as people read them: values, intervals, differences, p-values, counts, sizes, durations.

Every printed number of the package and of the study comes from here. Digits and signs are decided
by `Estimate.show` for estimates (half to even on the written fraction) and by `number_text` for
plain numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite, isnan

from unbag.types import Comparison, Estimate

DASH = "–"
"""Where there is no number."""


def number_text(
    value: float | None, *, is_rate: bool = True, signed: bool = False, digits: int | None = None
) -> str:
    """Percent with one digit for a rate, else three digits; without a sign also no minus zero."""
    if value is None or not isfinite(value):
        return DASH
    shown = 100 * value if is_rate else value
    digits = digits if digits is not None else 1 if is_rate else 3
    return f"{shown:+.{digits}f}" if signed else f"{round(shown, digits) + 0.0:.{digits}f}"


def between(low: float, high: float, text: Callable[[float], str] = number_text) -> str:
    """An interval in brackets, both ends as `text` shows a number."""
    return f"[{text(low)}, {text(high)}]"


def with_interval(
    value: float, low: float, high: float, text: Callable[[float], str] = number_text
) -> str:
    """As `93.8 [92.1, 95.0]`."""
    return f"{text(value)} {between(low, high, text)}"


def signed_text(value: float) -> str:
    """A signed difference in points of percent."""
    return number_text(value, signed=True)


def value_text(estimate: Estimate) -> str:
    """The value alone: percent with one decimal for a rate."""
    return estimate.show(estimate.value)


def interval_text(estimate: Estimate) -> str:
    """The interval in brackets, or nothing where there is none."""
    if isnan(estimate.low) or isnan(estimate.high):
        return ""
    return between(estimate.low, estimate.high, estimate.show)


def estimate_text(estimate: Estimate, *, with_unit: bool = False) -> str:
    """As `93.8 [92.1, 95.0]`, with its unit as `93.8 % [92.1, 95.0]`."""
    unit = " %" if with_unit and estimate.is_rate and not isnan(estimate.value) else ""
    return f"{value_text(estimate)}{unit} {interval_text(estimate)}".strip()


def share_text(share: float, count: int, *, unit: str = " %") -> str:
    """A share of so many as `77.0 % [71.3, 81.9]`, with a 95 % interval by Wilson's formula."""
    from unbag.metrics.intervals import wilson

    found = wilson(share * count, count)
    return f"{number_text(share)}{unit} {between(found.low, found.high)}"


def percent_text(part: float, whole: float, *, digits: int = 1) -> str:
    """As `12.5 %`; nothing of nothing."""
    return f"{100 * part / whole:.{digits}f} %" if whole else ""


def chance_text(estimate: Estimate | None) -> str:
    """Chance as people read it; both levels where there are two; a dash where there is none."""
    levels = chance_levels(estimate) if estimate else ()
    return "/".join(estimate.show(level) for level in levels) if estimate and levels else DASH


def chance_levels(estimate: Estimate) -> tuple[float, ...]:
    """The chance level, and the second one where random scores can mean two things."""
    both = (estimate.chance, estimate.chance_independent)
    return tuple(dict.fromkeys(level for level in both if level is not None and level == level))


def difference_text(value: float, *, is_rate: bool) -> str:
    """A signed difference: in points of percent for a rate."""
    return number_text(value, is_rate=is_rate, signed=True)


def difference_interval(made: Comparison, *, is_rate: bool) -> str:
    """The interval of a paired difference, as `[+1.0, +3.2]`."""
    return between(made.low, made.high, lambda value: difference_text(value, is_rate=is_rate))


def change_text(made: Comparison, *, is_rate: bool) -> str:
    """A paired difference as `+2.1 [+1.0, +3.2]`, without the interval where there is none."""
    shown = difference_text(made.difference, is_rate=is_rate)
    if not (isfinite(made.low) and isfinite(made.high)):
        return shown
    return f"{shown} {difference_interval(made, is_rate=is_rate)}"


def p_text(p: float | None) -> str:
    """A p-value to three decimals, never shown as zero."""
    if p is None or p != p:
        return DASH
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def score_text(score: float, others: Sequence[float] = ()) -> str:
    """A score with as many decimals as it takes to tell the others apart.

    Without others it has four decimals, or more where they would all be zeros: probabilities can
    be tiny.
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
    """The comparison in plain words; 'no difference shown' where the interval holds zero."""
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
    """Ties, invalid and unparsed units, where there are any."""
    parts = [count_text(estimate.ties, "tie")] if estimate.ties else []
    parts += [f"{estimate.invalid:,} invalid"] if estimate.invalid else []
    parts += [f"{estimate.unparsed:,} unparsed"] if estimate.unparsed else []
    return ", ".join(parts)


def count_text(count: float, noun: str) -> str:
    """As `1 tie`, `3 ties` or `0.5 points`."""
    number = f"{count:,}" if isinstance(count, int) else f"{count:g}"
    return f"{number} {noun}" if count == 1 else f"{number} {noun}s"


def and_list(parts: Sequence[str]) -> str:
    """As `a, b and c`."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def duration_text(seconds: float, *, to_seconds: bool = False) -> str:
    """As `45 s`, `12 min` or `2 h 5 min`; with `to_seconds` as `0 min 45 s` below an hour."""
    if to_seconds:
        hours, rest = divmod(round(seconds), 3600)
        return f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def speed_text(speed: float) -> str:
    """Steps a second; slow ones the other way round, since `0/s` says nothing."""
    return f"{speed:,.0f}/s" if speed >= 1 else f"{1 / speed:,.1f} s each"
