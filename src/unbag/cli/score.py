"""`unbag score`: score captions for images with one or more models.

Dimensions: C captions.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import isfinite, isnan
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.cli.options import add_command, add_device, add_dtype
from unbag.errors import UnbagError

if TYPE_CHECKING:
    from unbag.registry import Commands
    from unbag.reports.table import Table
    from unbag.types import FloatArray, Scorer


_ABOUT = """\
Score captions for one or more images and print a table, best caption first. Arguments are image
files, followed by captions.
"""

_EXAMPLES = """\
examples:
  unbag score cat.jpg "a cat on a mat" "a mat on a cat" --model tiny:base
  unbag score cat.jpg "a cat" "a dog" --model hf:models/clip hf:models/blip-itm --json
  unbag score cat.jpg dog.jpg "a cat" "a dog" --model hf:models/clip
  unbag score cat.jpg "a cat on a mat" "a mat on a cat" --model tiny:base --scorer pacl@runs/pacl
"""

_BEST, _TIED = "*", "="

_LONGEST = 80
"""Largest number of characters of a caption or an answer in the table."""


def add(commands: Commands) -> None:
    """Add the options: images, captions and models."""
    text = "score captions for an image"
    score = add_command(commands, "score", text=text, about=_ABOUT, examples=_EXAMPLES)
    score.add_argument("image", type=Path, metavar="IMAGE", help="an image file; more may follow")
    score.add_argument("captions", nargs="+", metavar="CAPTION", help="a caption, in quotes")
    text = "models to score with (`unbag list models`)"
    score.add_argument("--model", nargs="+", required=True, metavar="M", help=text)
    text = (
        "scoring method (`unbag list scorers`), or NAME@FOLDER for a trained read-out (default: "
        "cosine for dual encoders, yes for chat models)"
    )
    score.add_argument("--scorer", metavar="S", help=text)
    score.add_argument("--json", action="store_true", help="print JSON instead of a table")
    machine = score.add_argument_group("machine")
    add_device(machine)
    add_dtype(machine)


def start(options: argparse.Namespace) -> int:
    """Score with every model, one after the other."""
    from unbag.api import make_scorers
    from unbag.cli.console import output
    from unbag.data import FileImage
    from unbag.evaluation.scoring import check_opens
    from unbag.models.loading import Placement, choose_device, load_model, needs_device
    from unbag.scorers.prompts import PUBLISHED

    images, captions = _split(options.image, options.captions)
    # Checked before loading models, which can take minutes.
    for image in images:
        check_opens(FileImage(image, turn_upright=True))
    is_needed = any(map(needs_device, options.model))
    device = choose_device(options.device, is_needed=is_needed)
    placement = Placement(device, options.dtype)
    columns: list[list[ScoreColumn]] = [[] for _ in images]
    for name in options.model:
        model = load_model(name, placement=placement)
        for scorer in make_scorers(model, options.scorer, PUBLISHED):
            for image, image_columns in zip(images, columns, strict=True):
                image_columns.append(ask(image, captions, scorer))
    if options.json:
        print(_json(images, captions, columns))
        return 0
    for at, (image, image_columns) in enumerate(zip(images, columns, strict=True)):
        if len(images) > 1:
            print(f"{'' if at == 0 else chr(10)}{image}")
        output().print(_table(captions, image_columns))
        print(_legend(image_columns))
        for column in image_columns:
            for answer in column.answers:
                print(f"{column.name} answered: {_short(answer)!r}")
            for note in column.notes:
                print(f"note: {note}")
    for note in [note for column in columns[0] for note in column.caption_notes]:
        print(f"note: {note}")
    return 0


def _split(first: Path, rest: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Split the arguments into images, which are the leading files, and captions."""
    from PIL.Image import registered_extensions

    image_count = len(list(takewhile(_is_file, rest)))
    images, captions = [first, *map(Path, rest[:image_count])], list(rest[image_count:])
    if not captions:
        raise UnbagError(
            f"{len(images)} images and no caption: {', '.join(map(str, images))}",
            expected="image files, then at least one caption",
            hint='add a caption in quotes: "a dog"',
        )
    for caption in captions:
        if _is_file(caption):
            raise UnbagError(
                f"the file {caption} comes after the caption {captions[0]!r}",
                expected="all images first, then the captions",
                hint="move it before the captions; if it is a caption, end it with a full stop",
            )
        if " " not in caption and Path(caption).suffix.lower() in registered_extensions():
            raise UnbagError(
                f"there is no image {caption}, and it does not look like a caption",
                expected="existing image files, then captions",
                hint="check the path",
            )
    return images, captions


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        # The caption is longer than a file name can be.
        return False


def ask(image: Path, captions: Sequence[str], scorer: Scorer) -> ScoreColumn:
    """Score one image with one model, and collect notes that qualify the scores."""
    import numpy as np

    from unbag.evaluation.scoring import (
        bounds_message,
        count_bounded,
        count_truncated,
        score_image,
        truncation_message,
        unknown_words,
        unknown_words_message,
    )

    before = count_bounded(scorer)
    scores = score_image(image, captions, scorer)
    assert scores.values is not None
    score_C, notes, caption_notes = scores.values[0], [], []
    if cut := count_truncated(scorer, captions):
        caption_notes.append(truncation_message(scorer, cut))
    if words := unknown_words(scorer, captions):
        caption_notes.append(unknown_words_message(scorer.name, words))
    if bounded := count_bounded(scorer) - before:
        notes.append(bounds_message(scorer.name, bounded))
    if scores.unparsed:
        notes.append(f"{scorer.name}: the answer names no caption, so no caption has a score")
    elif missing := int(np.isnan(score_C).sum()):
        notes.append(f"{scorer.name} gave no number for {missing} of {len(captions)} captions")
    about = (scorer.name, scorer.scoring, scorer.is_blind)
    return ScoreColumn(*about, score_C, scores.answers, tuple(notes), tuple(caption_notes))


@dataclass(frozen=True, eq=False)
class ScoreColumn:
    """Scores of one model for one image."""

    name: str
    scoring: str
    is_blind: bool
    score_C: FloatArray
    answers: tuple[str, ...] = ()
    """Raw answers of a chat model, where the scorer has them."""
    notes: tuple[str, ...] = ()
    """Notes that qualify the scores."""
    caption_notes: tuple[str, ...] = ()
    """Notes about the captions, the same for every image."""

    @property
    def best(self) -> tuple[int, ...]:
        """Indices of the captions with the highest score: several if tied, none without scores."""
        import numpy as np

        if np.isnan(self.score_C).all():
            return ()
        return tuple(np.flatnonzero(self.score_C == np.nanmax(self.score_C)).tolist())

    def mark(self, caption: int) -> str:
        """Return the mark of a caption: best, tied for best, or neither."""
        if caption not in self.best:
            return " "
        return _BEST if len(self.best) == 1 else _TIED


def _table(captions: Sequence[str], columns: Sequence[ScoreColumn]) -> Table:
    """Return a table with one row per caption, sorted by the first model."""
    import numpy as np

    from unbag.reports.formatting import score_text
    from unbag.reports.table import Column, Table

    heads = [Column("caption")]
    for column in columns:
        scoring = f"{column.scoring}, blind" if column.is_blind else column.scoring
        heads.append(Column(f"{column.name}\n{scoring}", "right"))
    rows = []
    # NaN sorts last, as infinity does; equal scores stay in the order of the arguments.
    for at in np.argsort(-columns[0].score_C, kind="stable"):
        cells = []
        for column in columns:
            score = float(column.score_C[at])
            text = score_text(score) if isfinite(score) else f"{score}"
            cells.append(f"{column.mark(int(at))} {'not a number' if isnan(score) else text}")
        rows.append([_short(captions[at]), *cells])
    return Table(tuple(heads), rows, look="plain")


def _short(text: str) -> str:
    """Shorten a text in the middle, since captions often differ at the start or end."""
    half = (_LONGEST - 5) // 2
    return text if len(text) <= _LONGEST else f"{text[:half]} ... {text[-half:]}"


def _legend(columns: Sequence[ScoreColumn]) -> str:
    marks = {column.mark(i) for column in columns for i in column.best}
    meanings = {_BEST: f"{_BEST} best", _TIED: f"{_TIED} tied for best"}
    return "; ".join(meanings[mark] for mark in (_BEST, _TIED) if mark in marks)


def _json(
    images: Sequence[Path], captions: Sequence[str], columns: Sequence[Sequence[ScoreColumn]]
) -> str:
    """Return an object per image, in a list for several images; missing scores are null."""
    import numpy as np

    entries = [
        {
            "image": str(image),
            "captions": list(captions),
            "models": [
                {
                    "name": column.name,
                    "scoring": column.scoring,
                    "is_blind": column.is_blind,
                    "scores": [None if np.isnan(s) else float(s) for s in column.score_C],
                    "best": [captions[i] for i in column.best],
                    "answers": list(column.answers),
                    "notes": [*column.caption_notes, *column.notes],
                }
                for column in image_columns
            ],
        }
        for image, image_columns in zip(images, columns, strict=True)
    ]
    return json.dumps(entries if len(entries) > 1 else entries[0], indent=2, ensure_ascii=False)
