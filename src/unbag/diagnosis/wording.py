"""Answers come in; the words, signs and numbers in which a page and a table show them go out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unbag.diagnosis.answers import Answer, Diagnosis
from unbag.probes.finding import Quantity
from unbag.reports.wording import and_list, count_text, difference_text, interval_text, value_text
from unbag.types import Comparison, Estimate

TONES: Mapping[str, tuple[str, str]] = {
    "fails": ("✗", "fails"),
    "holds": ("✓", "holds"),
    "mixed": ("≈", "mixed"),
    "told": ("i", "fact"),
}
"""A sign and a word, so that no colour is needed."""
MEANING: Mapping[str, str] = {
    "fails": "like a bag of words",
    "holds": "as one would wish",
    "mixed": "between the two, or not decided by the interval",
    "told": "a fact that is neither good nor bad",
}


def sign_of(tone: str) -> str:
    """One letter."""
    return TONES[tone][0]


def tone_text(tone: str) -> str:
    """One word."""
    return TONES[tone][1]


def first_line(error: str) -> str:
    """What was found, without what was expected and the way out."""
    return error.partition("\n")[0]


def estimate_text(found: Estimate) -> str:
    """As `74.1 % [73.1, 75.1]`."""
    unit = " %" if found.is_rate and found.value == found.value else ""
    return f"{value_text(found)}{unit} {interval_text(found)}".strip()


def known_text(quantity: Quantity, value: float | None) -> str:
    """A reference as the quantity shows its numbers; a dash where nothing follows."""
    return "–" if value is None else quantity.estimate.show(value)


def gap_text(made: Comparison, *, is_rate: bool) -> str:
    """As `+4.1 [+2.0, +6.2]`."""
    ends = [difference_text(end, is_rate=is_rate) for end in (made.low, made.high)]
    shown = difference_text(made.difference, is_rate=is_rate)
    return shown if "–" in ends else f"{shown} [{', '.join(ends)}]"


def gap_sentence(answer: Answer, made: Comparison) -> str:
    """The paired difference of the headline, in words; only a clear one is called one."""
    quantity = answer.headline
    assert quantity is not None
    is_rate = quantity.estimate.is_rate
    shown = gap_text(made, is_rate=is_rate)
    unit = " points" if is_rate else ""
    if not (made.low > 0 or made.high < 0):
        return f"No difference is shown between the two models: {shown}{unit}."
    up = made.difference > 0
    word = {"higher": "better", "lower": "worse"}.get(quantity.better, "")
    if word and not up:
        word = {"better": "worse", "worse": "better"}[word]
    side = f"{'above' if up else 'below'} {made.first}"
    return f"{made.second} is {side} by {shown}{unit}{f', which is {word}' if word else ''}."


def counted(answers: Sequence[Answer]) -> str:
    """How many questions have which tone: "3 fail, 2 hold and 1 is a fact"."""
    words = {"fails": ("fails", "fail"), "holds": ("holds", "hold")}
    words |= {"mixed": ("is mixed", "are mixed"), "told": ("is a fact", "are facts")}
    tones = [answer.verdict.tone for answer in answers if answer.verdict is not None]
    counts = [(tones.count(tone), both) for tone, both in words.items() if tone in tones]
    return and_list([f"{count} {both[count > 1]}" for count, both in counts])


def standing(found: Diagnosis) -> str:
    """Of one that was stopped, or still goes on."""
    return f"not finished: {count_text(len(found.answers), 'question')} put so far"
