"""An editor without a parser: it exchanges the first two words, and fails where a caption says so.

Processes import it by name, so tests copy this file to a folder of their own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from unbag.edits.editor import EditTally, cleaned, skip_reason
from unbag.edits.jobs.workers import EditSettings, Worker
from unbag.errors import UnbagError
from unbag.types import Change, Edit, Edited, Given

NEGATIVE, POSITIVE = "first_words", "indeed"


def edited(one: Given) -> Edited:
    """Both edits of a caption, or why there are none."""
    text = cleaned(one.text)
    if reason := skip_reason(text):
        return Edited(one.id, text, (), reason)
    if "boom" in text:
        raise ValueError("boom!\nall over")
    if "murder" in text:
        os._exit(9)
    if "once" in text and not (marker := Path("died-once")).exists():
        marker.touch()
        os._exit(9)
    if "stop here" in text:
        raise UnbagError("nothing goes on", expected="something else", hint="mend it")
    first, second, *_ = text.split()
    end = len(first) + 1 + len(second)
    swap = f"{second} {first}"
    changes = (Change(0, end, swap),)
    negative = Edit(swap + text[end:], NEGATIVE, False, (0, end), changes)
    more = (Change(len(text), len(text), " indeed"),)
    positive = Edit(f"{text} indeed", POSITIVE, True, (len(text), len(text)), more)
    return Edited(one.id, text, (negative, positive))


def edits(given: Sequence[Given]) -> tuple[list[Edited], EditTally]:
    """All of them, counted."""
    tally = EditTally()
    found = [edited(one) for one in given]
    tally.count_captions(found)
    return found, tally


def make(settings: EditSettings) -> Worker:
    """As `unbag.edits.jobs.workers.make_worker`."""
    return Worker(edits)


def make_nothing(settings: EditSettings) -> Worker:
    """As if the pipeline were missing."""
    raise UnbagError("no pipeline", expected="one", hint="install it")
