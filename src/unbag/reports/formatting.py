"""Results of one model under several prompts come in; their mean, lowest and highest go out.

Published tables often show the best of several prompts, chosen on the test set itself. A fixed set
with its spread says what a model does and how much of it is the wording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from unbag.types import Comparison, Estimate, Result, RunContents


def value_text(estimate: Estimate) -> str:
    """The value alone: percent with one decimal for a rate."""
    return estimate.show(estimate.value)


def interval_text(estimate: Estimate) -> str:
    """The interval in brackets, or nothing where there is none."""
    if estimate.low != estimate.low or estimate.high != estimate.high:
        return ""
    return f"[{estimate.show(estimate.low)}, {estimate.show(estimate.high)}]"


def chance_levels(estimate: Estimate) -> tuple[float, ...]:
    """The chance level, and the second one where random scores can mean two things."""
    both = (estimate.chance, estimate.chance_independent)
    return tuple(dict.fromkeys(level for level in both if level is not None and level == level))


def chance_text(estimate: Estimate | None) -> str:
    """Chance as people read it; both levels where there are two; a dash where there is none."""
    levels = chance_levels(estimate) if estimate else ()
    return "/".join(estimate.show(level) for level in levels) if estimate and levels else "–"


def count_text(count: int, noun: str) -> str:
    """As `1 tie` or `3 ties`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def trouble_text(estimate: Estimate) -> str:
    """Ties, invalid and unparsed units, where there are any."""
    parts = [count_text(estimate.ties, "tie")] if estimate.ties else []
    parts += [f"{estimate.invalid:,} invalid"] if estimate.invalid else []
    parts += [f"{estimate.unparsed:,} unparsed"] if estimate.unparsed else []
    return ", ".join(parts)


def p_text(p: float | None) -> str:
    """A p-value to three decimals, never shown as zero."""
    if p is None or p != p:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def difference_text(value: float, *, is_rate: bool) -> str:
    """A signed difference: in points of percent for a rate."""
    if value != value:
        return "–"
    return f"{100 * value:+.1f}" if is_rate else f"{value:+.3f}"


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


def and_list(parts: Sequence[str]) -> str:
    """As `a, b and c`."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


PUBLISHED = "published"


@dataclass(frozen=True)
class OverPrompts:
    """One metric of one model on one benchmark, prompt by prompt."""

    benchmark: str
    aggregate: str
    scorer: str
    metric: str
    protocol: str
    """Without the prompt."""
    values: tuple[tuple[str, Estimate], ...]
    """Prompt and number, the published prompt first."""

    @property
    def mean(self) -> Estimate:
        """The mean of the numbers, to be shown; it has no interval of its own."""
        numbers = [estimate.value for _, estimate in self.values]
        nothing = float("nan")
        value = sum(numbers) / len(numbers)
        return replace(self.values[0][1], value=value, low=nothing, high=nothing)

    @property
    def lowest(self) -> tuple[str, Estimate]:
        """The prompt with the smallest number."""
        return min(self.values, key=lambda pair: pair[1].value)

    @property
    def highest(self) -> tuple[str, Estimate]:
        """The prompt with the largest number."""
        return max(self.values, key=lambda pair: pair[1].value)

    @property
    def sentence(self) -> str:
        """For the terminal."""
        (worst, low), (best, high) = self.lowest, self.highest
        said = (
            f"{self.scorer} on {self.benchmark}, {self.metric} over {len(self.values)} prompts: "
            f"mean {value_text(self.mean)}, from {value_text(low)} ({worst}) to {value_text(high)} "
            f"({best})"
        )
        first, published = self.values[0]
        return said + (f"; {first} {value_text(published)}" if first == PUBLISHED else "")


def model_name(result: Result) -> str:
    """The scorer without its prompt, which stands in brackets after all but the published one."""
    return result.scorer.removesuffix(f" ({result.protocol.prompt})")


def over_prompts(results: Sequence[Result]) -> tuple[OverPrompts, ...]:
    """The headline of every model that was run with several prompts, by its first protocol."""
    groups: dict[tuple[str, str, str, str], list[Result]] = {}
    for result in results:
        if result.protocol.prompt and result.headline in result.overall:
            rest = replace(result.protocol, prompt="").key
            place = (result.benchmark, model_name(result), result.aggregate, rest)
            groups.setdefault(place, []).append(result)
    found: dict[tuple[str, str, str], OverPrompts] = {}
    for (benchmark, scorer, aggregate, protocol), some in groups.items():
        pairs = [(r.protocol.prompt, r.overall[r.headline]) for r in some]
        known = [(prompt, one) for prompt, one in pairs if one.n]
        if len({prompt for prompt, _ in known}) < 2:
            continue
        known.sort(key=lambda pair: pair[0] != PUBLISHED)
        made = OverPrompts(benchmark, aggregate, scorer, some[0].headline, protocol, tuple(known))
        found.setdefault((benchmark, scorer, some[0].protocol.scoring), made)
    return tuple(found.values())


def prompt_lines(run: RunContents) -> list[str]:
    """A sentence for each, for under the table."""
    return [one.sentence for one in over_prompts(run.results)]


def published_only(run: RunContents) -> RunContents:
    """The same run with one column a model: other prompts stand in a section of their own.

    A model that was run with other prompts only keeps them.
    """
    has_published = {
        (r.benchmark, model_name(r)) for r in run.results if r.protocol.prompt == PUBLISHED
    }
    return replace(
        run,
        results=tuple(
            result
            for result in run.results
            if result.protocol.prompt in ("", PUBLISHED)
            or (result.benchmark, model_name(result)) not in has_published
        ),
    )
