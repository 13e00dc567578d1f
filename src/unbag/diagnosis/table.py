"""A diagnosis comes in; a table of questions and sentences for the terminal goes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unbag.diagnosis.answers import Answer, Diagnosis
from unbag.diagnosis.wording import first_line, sign_of, standing, tone_text
from unbag.probes.extract_places import NO_LAYERS, NO_SUCH_LAYER

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

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
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_lines=False)
    table.add_column("question", ratio=3)
    if found.other is not None:
        table.add_column("model", overflow="fold")
    table.add_column("answer", ratio=6)
    table.add_column("")
    for answer in found.answered:
        for at, (name, sentence, tone) in enumerate(_rows(found, answer)):
            question = Text("" if at else answer.question)
            names = [Text(name)] if found.other is not None else []
            sign = Text(f"{sign_of(tone)} {tone_text(tone)}" if tone else "", STYLES.get(tone, ""))
            table.add_row(question, *names, Text(sentence), sign, end_section=True)
    return table


def _rows(found: Diagnosis, answer: Answer) -> list[tuple[str, str, str]]:
    assert answer.verdict is not None
    rows = [(found.model.name, answer.verdict.sentence, str(answer.verdict.tone))]
    if answer.other_verdict is not None and found.other is not None:
        verdict = answer.other_verdict
        rows.append((found.other.name, verdict.sentence, str(verdict.tone)))
    return rows


def _not_there(found: Diagnosis) -> list[str]:
    """Layers that were asked for in vain; a tower of pictures and one of captions may differ."""
    return [
        f"{answer.probe}: {note}"
        for answer in found.answered
        for note in answer.finding.notes
        if note.startswith((NO_SUCH_LAYER, NO_LAYERS)) and found.options.layers
    ]


def said_under(found: Diagnosis) -> list[str]:
    """What was not asked and why, notes, and how it stands if it was stopped."""
    lines = [
        f"not asked: {one.question} {first_line(one.finding.skipped)}" for one in found.skipped
    ]
    lines += [f"note: {note}" for note in (*_not_there(found), *found.notes)]
    lines += [] if found.is_whole else [standing(found)]
    return lines
