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
"""Says what a file is, so that no other folder is written over."""
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
STYLES = {"fails": "red", "holds": "green", "mixed": "yellow", "told": ""}


def print_diagnosis(found: Diagnosis, console: Console | None = None) -> None:
    """Print the table, and what was left out."""
    from rich.console import Console

    console = console or Console()
    console.print(diagnosis_table(found))
    for line in said_under(found):
        console.print(line, highlight=False, markup=False)


def diagnosis_table(found: Diagnosis) -> Table:
    """A row a question; with a second model, a row for each of them."""
    names = () if found.other is None else (Column("model"),)
    columns = (Column("question", ratio=3), *names, Column("answer", ratio=6), Column())
    rows: list[Sequence[Cell]] = []
    for answer in found.answered:
        for at, (name, sentence, tone) in enumerate(_rows(found, answer)):
            sign = Span(" ".join(TONES[tone]), STYLES[tone]) if tone else ""
            question = "" if at else answer.question
            rows.append((question, *([name] if found.other else []), sentence, sign))
    return Table(columns, rows, look="spaced")


def _rows(found: Diagnosis, answer: Answer) -> list[tuple[str, str, str]]:
    assert answer.verdict is not None
    rows = [(found.model.name, answer.verdict.sentence, str(answer.verdict.tone))]
    if answer.other_verdict is not None and found.other is not None:
        verdict = answer.other_verdict
        rows.append((found.other.name, verdict.sentence, str(verdict.tone)))
    return rows


def said_under(found: Diagnosis) -> list[str]:
    """What was not asked and why, notes, and how it stands if it was stopped."""
    lines = [
        f"not asked: {one.question} {first_line(one.finding.skipped)}" for one in found.skipped
    ]
    # Layers that were asked for in vain; an encoder of images and one of captions may differ.
    not_there = [
        f"{answer.probe}: {note}"
        for answer in found.answered
        for note in answer.finding.notes
        if note.startswith((NO_SUCH_LAYER, NO_LAYERS)) and found.options.layers
    ]
    lines += [f"note: {note}" for note in (*not_there, *found.notes)]
    lines += [] if found.is_whole else [standing(found)]
    return lines


def to_json(found: Diagnosis) -> str:
    """One object; null for what is not a finite number."""
    content = {
        "kind": KIND,
        "unbag": __version__,
        "is_whole": found.is_whole,
        "model": _examined(found.model),
        "against": _examined(found.other),
        "random_init": _examined(found.random_init),
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
        "twin_notes": _notes(answer.random_init),
        "seconds": answer.seconds,
    }


def _notes(finding: ProbeResult | None) -> list[str]:
    """A question that could not be put to the other, or to the random-init model, says so here."""
    if finding is None:
        return []
    return [*([f"skipped: {finding.skipped}"] if finding.skipped else []), *finding.notes]


def _verdict(verdict: Verdict | None) -> dict[str, object] | None:
    return None if verdict is None else {"sentence": verdict.sentence, "tone": verdict.tone}


def _quantity(mine: Quantity, answer: Answer) -> dict[str, object]:
    theirs = answer.other.get(mine.name) if answer.other else None
    random_model = answer.random_init.get(mine.name) if answer.random_init else None
    made = difference_of(answer, mine.name)
    return {
        "name": mine.name,
        "about": mine.about,
        **_estimate(mine),
        "better": mine.better,
        "bag": mine.known.bag,
        "perfect": mine.known.perfect,
        "chance": mine.known.chance,
        "random_init": None if random_model is None else _estimate(random_model),
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


def first_line(error: str) -> str:
    """What was found, without what was expected and the hint."""
    return error.partition("\n")[0]


def gap_sentence(answer: Answer, made: Comparison) -> str:
    """The paired difference of the headline, in words; only a clear one is called one."""
    quantity = answer.headline
    assert quantity is not None
    is_rate = quantity.estimate.is_rate
    shown = change_text(made, is_rate=is_rate)
    unit = " points" if is_rate else ""
    if not (made.low > 0 or made.high < 0):
        return f"No difference is shown between the two models: {shown}{unit}."
    up = made.difference > 0
    word = {"higher": "better", "lower": "worse"}.get(quantity.better, "")
    if word and not up:
        word = {"better": "worse", "worse": "better"}[word]
    side = f"{'above' if up else 'below'} {made.first}"
    return f"{made.second} is {side} by {shown}{unit}{f', which is {word}' if word else ''}."


def difference_of(answer: Answer, name: str) -> Comparison | None:
    """The paired difference of one quantity, where there is one."""
    return next((one for one in answer.differences if one.metric == name), None)


def counted(answers: Sequence[Answer]) -> str:
    """How many questions have which tone: "3 fail, 2 hold and 1 is a fact"."""
    words = {"fails": ("fails", "fail"), "holds": ("holds", "hold")}
    words |= {"mixed": ("is mixed", "are mixed"), "told": ("is a fact", "are facts")}
    tones = [answer.verdict.tone for answer in answers if answer.verdict is not None]
    counts = [(tones.count(tone), both) for tone, both in words.items() if tone in tones]
    return and_list([f"{count} {both[count > 1]}" for count, both in counts])


def standing(found: Diagnosis) -> str:
    """Of one that was stopped, or is still running."""
    return f"not finished: {count_text(len(found.answers), 'question')} put so far"
