"""Numbers as people read them: values, intervals, chance, counts, p-values and differences."""

from __future__ import annotations

from collections.abc import Sequence

from unbag.types import Comparison, Estimate


def value_text(estimate: Estimate) -> str:
    """The value alone: percent with one decimal for a rate."""
    return estimate.show(estimate.value)


def interval_text(estimate: Estimate) -> str:
    """The interval in brackets, or nothing where there is none."""
    if estimate.low != estimate.low or estimate.high != estimate.high:
        return ""
    return f"[{estimate.show(estimate.low)}, {estimate.show(estimate.high)}]"


def chance_text(estimate: Estimate | None) -> str:
    """Chance as people read it; both levels where there are two; a dash where there is none."""
    levels = chance_levels(estimate) if estimate else ()
    return "/".join(estimate.show(level) for level in levels) if estimate and levels else "–"


def chance_levels(estimate: Estimate) -> tuple[float, ...]:
    """The chance level, and the second one where random scores can mean two things."""
    both = (estimate.chance, estimate.chance_independent)
    return tuple(dict.fromkeys(level for level in both if level is not None and level == level))


def difference_text(value: float, *, is_rate: bool) -> str:
    """A signed difference: in points of percent for a rate."""
    if value != value:
        return "–"
    return f"{100 * value:+.1f}" if is_rate else f"{value:+.3f}"


def p_text(p: float | None) -> str:
    """A p-value to three decimals, never shown as zero."""
    if p is None or p != p:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def comparison_sentence(comparison: Comparison, *, is_rate: bool) -> str:
    """The comparison in plain words; 'no difference shown' where the interval holds zero."""
    first, second = comparison.first, comparison.second
    if comparison.difference != comparison.difference:
        return f"{second} and {first} share no units"
    size = difference_text(abs(comparison.difference), is_rate=is_rate).lstrip("+")
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


def count_text(count: int, noun: str) -> str:
    """As `1 tie` or `3 ties`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def and_list(parts: Sequence[str]) -> str:
    """As `a, b and c`."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
