"""`unbag score`: a picture and captions in, a table or JSON with a column for each model out.

Dimensions: C captions.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.table import Table
from rich.text import Text

from unbag.cli.show import output
from unbag.engine.one_picture import opened, score
from unbag.pictures import FilePicture
from unbag.scorers import Placement, choose_device, load_model, make_scorer
from unbag.types import FloatArray

BEST, TIED = "*", "="


@dataclass(frozen=True, eq=False)
class Column:
    """What one model said."""

    name: str
    scoring: str
    is_blind: bool
    score_C: FloatArray

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
    opened(FilePicture(options.picture))
    placement = Placement(choose_device(options.device), options.dtype)
    columns: list[Column] = []
    for name in options.model:
        scorer = make_scorer(load_model(name, placement=placement), options.scorer)
        found = score(options.picture, options.captions, scorer)
        columns.append(Column(scorer.name, scorer.scoring, scorer.is_blind, found))
    if options.json:
        print(as_json(str(options.picture), options.captions, columns))
        return 0
    output().print(as_table(options.captions, columns))
    print(_legend(columns))
    return 0


def as_table(captions: Sequence[str], columns: Sequence[Column]) -> Table:
    """A row a caption, in the order of the first model."""
    table = Table(box=None, header_style="", pad_edge=False, padding=(0, 2))
    table.add_column(Text("caption"))
    for column in columns:
        how = f"{column.scoring}, blind" if column.is_blind else column.scoring
        table.add_column(Text(f"{column.name}\n{how}"), justify="right")
    # NaN sorts last, as infinity does; equal scores keep the order they were typed in.
    for at in np.argsort(-columns[0].score_C, kind="stable"):
        cells = [f"{column.mark(int(at))} {column.score_C[at]:.4f}" for column in columns]
        # As Text: a caption is data, and "[red]" is no colour.
        table.add_row(Text(captions[at]), *map(Text, cells))
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
            }
            for column in columns
        ],
    }
    return json.dumps(found, indent=2, ensure_ascii=False)


def _legend(columns: Sequence[Column]) -> str:
    marks = {column.mark(i) for column in columns for i in column.best}
    said = {BEST: f"{BEST} best", TIED: f"{TIED} best, but no better than another"}
    return "; ".join(said[mark] for mark in (BEST, TIED) if mark in marks)
