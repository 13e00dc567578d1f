"""A chunk of captions comes in, the chunk with edits goes out; a failing caption costs itself only.

This is what a worker does, in this process, in another, or on another machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from unbag.captions.edit import make_editor
from unbag.captions.filters_named import make_filters
from unbag.captions.screen import cleaned
from unbag.captions.tally import Tally
from unbag.corpus.entries import Chunk
from unbag.corpus.runner import Finished, Settings
from unbag.corpus.saved import as_text
from unbag.engine.collector import paused_collector
from unbag.errors import UserError
from unbag.types import Edited, Given

Edits = Callable[[Sequence[Given]], tuple[list[Edited], Tally]]
"""A `CaptionEditor`, or whatever does the same."""
FAILED = "the editor failed"
_MANY = 16
"""From so many captions on, a chunk in which all of them fail means that the editor is broken."""


@dataclass(frozen=True, eq=False)
class Worker:
    """Edits chunks with an editor that was made once."""

    edits: Edits

    def __call__(self, chunk: Chunk) -> Finished:
        """The chunk as it is saved."""
        found = _Found()
        # Edits make many small objects beside the large ones of a pipeline; looking through all of
        # them for cycles again and again takes a third of the time.
        with paused_collector():
            self._edit(chunk.given, found)
        tried = sum(not one.skipped for one in found.edited) + len(found.failures)
        if len(found.failures) == tried >= _MANY:
            raise UserError(
                f"the editor failed on all captions of {chunk}, first on {found.failures[0]}",
                expected="an editor that fails on some captions at most",
                way_out="what was done is kept: mend the cause and give the same command again",
            )
        text = as_text(found.edited, found.tally, found.failures)
        return Finished(chunk.index, len(chunk.given), text)

    def _edit(self, given: Sequence[Given], found: _Found) -> None:
        """All at once; if that fails by halves, until the captions that fail stand alone."""
        try:
            edited, tally = self.edits(given)
        except UserError:
            raise
        except Exception as error:
            if len(given) == 1:
                found.add_failure(given[0], error)
                return
            half = len(given) // 2
            self._edit(given[:half], found)
            self._edit(given[half:], found)
            return
        found.edited += edited
        found.tally.add(tally)


def make_worker(settings: Settings) -> Worker:
    """Load everything that the settings name."""
    return Worker(
        make_editor(
            settings.kinds,
            parts=settings.parts,
            filters=make_filters(settings.filters, device=settings.parts.device),
            seed=settings.seed,
            per_kind=settings.per_kind,
        )
    )


@dataclass(eq=False)
class _Found:
    edited: list[Edited] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    failures: list[str] = field(default_factory=list)
    """Of captions that the editor failed on: id and error."""

    def add_failure(self, given: Given, error: Exception) -> None:
        name = type(error).__name__
        one = Edited(given.id, cleaned(given.text), (), f"{FAILED}: {name}")
        self.edited.append(one)
        self.tally.count_captions([one])
        self.failures.append(f"{given.id!r}: {name}: {error}"[:300])
