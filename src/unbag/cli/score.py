"""`unbag score`: a picture and captions in, a table or JSON with a column for each model out.

Dimensions: C captions.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.table import Table
from rich.text import Text

from unbag.cli.show import output
from unbag.engine.bounds import count_bounded, said_bounded
from unbag.engine.cutting import count_cut, said_cut
from unbag.engine.one_picture import answered, opened
from unbag.pictures import FilePicture
from unbag.scorers import Placement, choose_device, load_model, make_scorers, needs_device
from unbag.scorers.prompts import PUBLISHED
from unbag.types import FloatArray, Scorer

BEST, TIED = "*", "="
_LONGEST = 80
"""Characters of a caption or an answer in the table."""


@dataclass(frozen=True, eq=False)
class Column:
    """What one model said."""

    name: str
    scoring: str
    is_blind: bool
    score_C: FloatArray
    answers: tuple[str, ...] = ()
    """Raw answers of a chat model, where the scorer has them."""
    notes: tuple[str, ...] = ()
    """What a reader of the numbers must know."""

    @property
    def best(self) -> tuple[int, ...]:
        """Captions with the highest score; several are a tie, none if there is no score."""
        if np.isnan(self.score_C).all():
            return ()
        return tuple(np.flatnonzero(self.score_C == np.nanmax(self.score_C)).tolist())

    def mark(self, caption: int) -> str:
        """Of a caption: best, tied for it, or neither."""
        if caption not in self.best:
            return " "
        return BEST if len(self.best) == 1 else TIED


def score_command(options: argparse.Namespace) -> int:
    """Ask every model, one after the other."""
    # Before any model is loaded, which can take minutes.
    opened(FilePicture(options.picture, turn_upright=True))
    is_needed = any(map(needs_device, options.model))
    device = choose_device(options.device, is_needed=is_needed)
    placement = Placement(device, options.dtype)
    columns: list[Column] = []
    for name in options.model:
        model = load_model(name, placement=placement)
        for scorer in make_scorers(model, options.scorer, PUBLISHED):
            columns.append(ask(options.picture, options.captions, scorer))
    if options.json:
        print(as_json(str(options.picture), options.captions, columns))
        return 0
    output().print(as_table(options.captions, columns))
    print(_legend(columns))
    for line in [line for column in columns for line in _below(column)]:
        print(line)
    return 0


def ask(picture: Path, captions: Sequence[str], scorer: Scorer) -> Column:
    """One model, with notes on all that its numbers do not say."""
    found = answered(picture, captions, scorer)
    assert found.values is not None
    score_C, notes = found.values[0], []
    if cut := count_cut(scorer, captions):
        notes.append(said_cut(scorer, cut))
    if bounded := count_bounded(scorer):
        notes.append(said_bounded(scorer.name, bounded))
    if found.unparsed:
        notes.append(
            f"{scorer.name}: no caption could be read from the answer, so none has a score"
        )
    elif missing := int(np.isnan(score_C).sum()):
        notes.append(f"{scorer.name} gave no number for {missing} of {len(captions)} captions")
    about = (scorer.name, scorer.scoring, scorer.is_blind)
    return Column(*about, score_C, found.answers, tuple(notes))


def as_table(captions: Sequence[str], columns: Sequence[Column]) -> Table:
    """A row a caption, in the order of the first model."""
    table = Table(box=None, header_style="", pad_edge=False, padding=(0, 2))
    table.add_column(Text("caption"))
    for column in columns:
        how = f"{column.scoring}, blind" if column.is_blind else column.scoring
        table.add_column(Text(f"{column.name}\n{how}"), justify="right")
    # NaN sorts last, as infinity does; equal scores keep the order they were typed in.
    for at in np.argsort(-columns[0].score_C, kind="stable"):
        cells = [f"{column.mark(int(at))} {_number(column.score_C[at])}" for column in columns]
        # As Text: a caption is data, and "[red]" is no colour.
        table.add_row(Text(_short(captions[at])), *map(Text, cells))
    return table


def as_json(picture: str, captions: Sequence[str], columns: Sequence[Column]) -> str:
    """Scores in the order of the captions; null where there is none."""
    found = {
        "picture": picture,
        "captions": list(captions),
        "models": [
            {
                "name": column.name,
                "scoring": column.scoring,
                "is_blind": column.is_blind,
                "scores": [None if np.isnan(s) else float(s) for s in column.score_C],
                "best": [captions[i] for i in column.best],
                "answers": list(column.answers),
                "notes": list(column.notes),
            }
            for column in columns
        ],
    }
    return json.dumps(found, indent=2, ensure_ascii=False)


def _legend(columns: Sequence[Column]) -> str:
    marks = {column.mark(i) for column in columns for i in column.best}
    said = {BEST: f"{BEST} best", TIED: f"{TIED} best, but no better than another"}
    return "; ".join(said[mark] for mark in (BEST, TIED) if mark in marks)


def _below(column: Column) -> list[str]:
    """Answers as they were given, then the notes."""
    said = [f"{column.name} answered: {_short(answer)!r}" for answer in column.answers]
    return [*said, *(f"note: {note}" for note in column.notes)]


def _number(score: float) -> str:
    """Four decimals, or more where they would all be zeros: probabilities can be tiny."""
    if np.isnan(score):
        return "not a number"
    return f"{score:.4f}" if score == 0 or abs(score) >= 0.1 else f"{score:#.4g}"


def _short(text: str) -> str:
    """The middle goes first: captions of one picture often begin and end in their own way."""
    half = (_LONGEST - 5) // 2
    return text if len(text) <= _LONGEST else f"{text[:half]} ... {text[-half:]}"
