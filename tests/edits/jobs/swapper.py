"""An editor without a parser: it exchanges the first two words, and fails on marked captions.

Processes import it by name, so tests copy this file to their own folders.
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


def edited(caption: Given) -> Edited:
    """The two edits of a caption, or the reason why there are none."""
    text = cleaned(caption.text)
    if reason := skip_reason(text):
        return Edited(caption.id, text, (), reason)
    if "boom" in text:
        raise ValueError("boom!\nall over")
    if "murder" in text:
        os._exit(9)
    if "once" in text and not (marker := Path("died-once")).exists():
        marker.touch()
        os._exit(9)
    if "stop here" in text:
        raise UnbagError("nothing continues", expected="something else", hint="fix it")
    first, second, *_ = text.split()
    end = len(first) + 1 + len(second)
    swap = f"{second} {first}"
    changes = (Change(0, end, swap),)
    negative = Edit(swap + text[end:], NEGATIVE, False, (0, end), changes)
    added = (Change(len(text), len(text), " indeed"),)
    positive = Edit(f"{text} indeed", POSITIVE, True, (len(text), len(text)), added)
    return Edited(caption.id, text, (negative, positive))


def edits(given: Sequence[Given]) -> tuple[list[Edited], EditTally]:
    """Edit all captions and count them."""
    tally = EditTally()
    results = [edited(caption) for caption in given]
    tally.count_captions(results)
    return results, tally


def make(settings: EditSettings) -> Worker:
    """Like `unbag.edits.jobs.workers.make_worker`."""
    return Worker(edits)


def make_nothing(settings: EditSettings) -> Worker:
    """Fail as if the pipeline were missing."""
    raise UnbagError("no pipeline", expected="one", hint="install it")
