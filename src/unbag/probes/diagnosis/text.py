"""A diagnosis in words: a table for the terminal, sentences for its page, and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from typing import TYPE_CHECKING

from unbag.probes.base import Plot, ProbeResult, Quantity, Verdict
from unbag.probes.diagnosis.diagnose import Answer, Diagnosis, Examined
from unbag.probes.extract import NO_LAYERS, NO_SUCH_LAYER
from unbag.reports.formatting import and_list, change_text, count_text
from unbag.reports.table import Cell, Column, Span, Table
from unbag.types import Comparison
from unbag.version import __version__

if TYPE_CHECKING:
    from rich.console import Console


KIND = "unbag diagnosis"
"""Identifies the file, so that no other folder is overwritten."""
TONES: Mapping[str, tuple[str, str]] = {
    "fails": ("✗", "fails"),
    "holds": ("✓", "holds"),
    "mixed": ("≈", "mixed"),
    "told": ("i", "fact"),
}
"""A sign and a word for each tone, readable without colour."""
MEANING: Mapping[str, str] = {
    "fails": "like a bag of words",
    "holds": "as desired",
    "mixed": "in between, or not decided by the interval",
    "told": "a fact that is neither good nor bad",
}
STYLES = {"fails": "red", "holds": "green", "mixed": "yellow", "told": ""}


def print_diagnosis(diagnosis: Diagnosis, console: Console | None = None) -> None:
    """Print the table and the lines below it."""
    from rich.console import Console

    console = console or Console()
    console.print(diagnosis_table(diagnosis))
    for line in lines_below(diagnosis):
        console.print(line, highlight=False, markup=False)


def diagnosis_table(diagnosis: Diagnosis) -> Table:
    """Return a table with one row per question and model."""
    model_columns = () if diagnosis.other is None else (Column("model"),)
    columns = (Column("question", ratio=3), *model_columns, Column("answer", ratio=6), Column())
    rows: list[Sequence[Cell]] = []
    for answer in diagnosis.answered:
        for number, (name, sentence, tone) in enumerate(_rows(diagnosis, answer)):
            sign = Span(" ".join(TONES[tone]), STYLES[tone]) if tone else ""
            question = "" if number else answer.question
            rows.append((question, *([name] if diagnosis.other else []), sentence, sign))
    return Table(columns, rows, look="spaced")


def _rows(diagnosis: Diagnosis, answer: Answer) -> list[tuple[str, str, str]]:
    assert answer.verdict is not None
    rows = [(diagnosis.model.name, answer.verdict.sentence, str(answer.verdict.tone))]
    if answer.other_verdict is not None and diagnosis.other is not None:
        verdict = answer.other_verdict
        rows.append((diagnosis.other.name, verdict.sentence, str(verdict.tone)))
    return rows


def lines_below(diagnosis: Diagnosis) -> list[str]:
    """Return the lines below the table: skipped probes, notes, and progress if it was stopped."""
    lines = [
        f"skipped: {answer.question} {first_line(answer.finding.skipped)}"
        for answer in diagnosis.skipped
    ]
    # Requested layers that do not exist; image and text encoder may have different depths.
    missing_layers = [
        f"{answer.probe}: {note}"
        for answer in diagnosis.answered
        for note in answer.finding.notes
        if note.startswith((NO_SUCH_LAYER, NO_LAYERS)) and diagnosis.options.layers
    ]
    lines += [f"note: {note}" for note in (*missing_layers, *diagnosis.notes)]
    lines += [] if diagnosis.is_whole else [standing(diagnosis)]
    return lines


def to_json(diagnosis: Diagnosis) -> str:
    """Serialise as one object, with null for numbers that are not finite."""
    content = {
        "kind": KIND,
        "unbag": __version__,
        "is_whole": diagnosis.is_whole,
        "model": _examined(diagnosis.model),
        "against": _examined(diagnosis.other),
        "random_init": _examined(diagnosis.random_init),
        "material": diagnosis.material,
        "seed": diagnosis.options.seed,
        "options": asdict(diagnosis.options),
        "answers": [_answer(answer) for answer in diagnosis.answers],
        "maps": [_plot(maps) for maps in diagnosis.maps],
        "notes": list(diagnosis.notes),
        "record": {
            "command": diagnosis.command,
            "started": diagnosis.started,
            "device": diagnosis.device,
            "seconds": diagnosis.seconds,
            "versions": dict(diagnosis.versions),
        },
    }
    return json.dumps(_strict(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _examined(model: Examined | None) -> dict[str, object] | None:
    return None if model is None else asdict(model)


def _answer(answer: Answer) -> dict[str, object]:
    return {
        "probe": answer.probe,
        "question": answer.question,
        "about": answer.about,
        "skipped": answer.finding.skipped or None,
        "verdict": _verdict(answer.verdict),
        "against_verdict": _verdict(answer.other_verdict),
        "headline": answer.finding.headline or None,
        "quantities": [_quantity(item, answer) for item in answer.finding.quantities],
        "only_against": _only_other(answer),
        "plots": [_plot(item) for item in answer.finding.plots],
        "against_plots": [_plot(item) for item in answer.other.plots] if answer.other else [],
        "notes": list(answer.finding.notes),
        "against_notes": _notes(answer.other),
        "twin_notes": _notes(answer.random_init),
        "seconds": answer.seconds,
    }


def _notes(result: ProbeResult | None) -> list[str]:
    """Return the notes of a result, with the reason if it is skipped."""
    if result is None:
        return []
    return [*([f"skipped: {result.skipped}"] if result.skipped else []), *result.notes]


def _verdict(verdict: Verdict | None) -> dict[str, object] | None:
    return None if verdict is None else {"sentence": verdict.sentence, "tone": verdict.tone}


def _quantity(quantity: Quantity, answer: Answer) -> dict[str, object]:
    other_quantity = answer.other.get(quantity.name) if answer.other else None
    random_quantity = answer.random_init.get(quantity.name) if answer.random_init else None
    difference = difference_of(answer, quantity.name)
    return {
        "name": quantity.name,
        "about": quantity.about,
        **_estimate(quantity),
        "better": quantity.better,
        "bag": quantity.known.bag,
        "perfect": quantity.known.perfect,
        "chance": quantity.known.chance,
        "random_init": None if random_quantity is None else _estimate(random_quantity),
        "against": None if other_quantity is None else _estimate(other_quantity),
        "difference": None if difference is None else _difference(difference),
    }


def _only_other(answer: Answer) -> list[dict[str, object]]:
    """Return the quantities that only the other model has."""
    quantities = answer.other.quantities if answer.other else ()
    return [
        {"name": quantity.name, "about": quantity.about, **_estimate(quantity)}
        for quantity in quantities
        if answer.finding.get(quantity.name) is None
    ]


def _estimate(quantity: Quantity) -> dict[str, object]:
    estimate = quantity.estimate
    return {
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
        "invalid": estimate.invalid,
        "unparsed": estimate.unparsed,
        "interval": estimate.interval,
        "is_rate": estimate.is_rate,
    }


def _difference(difference: Comparison) -> dict[str, object]:
    return {
        "value": difference.difference,
        "low": difference.low,
        "high": difference.high,
        "n": difference.n,
        "p": difference.p_value,
        "p_holm": difference.p_holm,
        "test": difference.test or None,
    }


def _plot(plot: Plot) -> dict[str, object]:
    return {"kind": type(plot).__name__.lower(), **asdict(plot)}


def _strict(value: object) -> object:
    """Replace numbers that are not finite by None, recursively."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _strict(element) for key, element in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_strict(element) for element in value]
    return value


def first_line(error: str) -> str:
    """Return the message of an error, without the expected value and the hint."""
    return error.partition("\n")[0]


def gap_sentence(answer: Answer, difference: Comparison) -> str:
    """Describe the paired difference of the headline, if its interval excludes 0."""
    quantity = answer.headline
    assert quantity is not None
    is_rate = quantity.estimate.is_rate
    change = change_text(difference, is_rate=is_rate)
    unit = " points" if is_rate else ""
    if not (difference.low > 0 or difference.high < 0):
        return f"No significant difference between the two models: {change}{unit}."
    is_higher = difference.difference > 0
    word = {"higher": "better", "lower": "worse"}.get(quantity.better, "")
    if word and not is_higher:
        word = {"better": "worse", "worse": "better"}[word]
    position = f"{'above' if is_higher else 'below'} {difference.first}"
    meaning = f", which is {word}" if word else ""
    return f"{difference.second} is {position} by {change}{unit}{meaning}."


def difference_of(answer: Answer, name: str) -> Comparison | None:
    """Return the paired difference of one quantity, or None."""
    return next(
        (comparison for comparison in answer.differences if comparison.metric == name), None
    )


def counted(answers: Sequence[Answer]) -> str:
    """Count verdicts by tone: "3 fail, 2 hold and 1 is a fact"."""
    words = {"fails": ("fails", "fail"), "holds": ("holds", "hold")}
    words |= {"mixed": ("is mixed", "are mixed"), "told": ("is a fact", "are facts")}
    tones = [answer.verdict.tone for answer in answers if answer.verdict is not None]
    counts = [(tones.count(tone), forms) for tone, forms in words.items() if tone in tones]
    return and_list([f"{count} {forms[count > 1]}" for count, forms in counts])


def standing(diagnosis: Diagnosis) -> str:
    """Describe the progress of a diagnosis that was stopped or is still running."""
    return f"not finished: {count_text(len(diagnosis.answers), 'question')} so far"
