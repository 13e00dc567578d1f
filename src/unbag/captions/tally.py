"""What an editing job counts: captions, places, edits kept, and rejections by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unbag.types import Edited


@dataclass(eq=False)
class KindTally:
    """Of one kind."""

    places: int = 0
    """Captions in which the kind found a place."""
    captions: int = 0
    """Captions that got an edit of it."""
    edits: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    """Proposals, by the reason of the filter."""


@dataclass(eq=False)
class Tally:
    """Of all captions of a job, or of a part of it."""

    captions: int = 0
    edited: int = 0
    """Captions with at least one edit."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Captions that were not tried, by reason."""
    kinds: dict[str, KindTally] = field(default_factory=dict)

    @property
    def without_edit(self) -> int:
        """Captions that were tried in vain."""
        return self.captions - self.edited - self.skipped.total()

    def count_places(self, kind: str, has_place: bool) -> None:
        """A caption was looked at by a kind."""
        self._of(kind).places += has_place

    def count_rejected(self, kind: str, reason: str) -> None:
        """A proposal did not pass."""
        self._of(kind).rejected[reason] += 1

    def count_captions(self, found: Iterable[Edited]) -> None:
        """Captions are done."""
        for one in found:
            self.captions += 1
            self.edited += bool(one.edits)
            if one.skipped:
                self.skipped[one.skipped] += 1
            by_kind = Counter(edit.kind for edit in one.edits)
            for kind, edits in by_kind.items():
                self._of(kind).captions += 1
                self._of(kind).edits += edits

    def add(self, other: Tally) -> None:
        """Count another part as well."""
        self.captions += other.captions
        self.edited += other.edited
        self.skipped.update(other.skipped)
        for name, of in other.kinds.items():
            mine = self._of(name)
            mine.places += of.places
            mine.captions += of.captions
            mine.edits += of.edits
            mine.rejected.update(of.rejected)

    def as_json(self) -> dict[str, object]:
        """Plain numbers, largest reasons first."""
        return {
            "captions": self.captions,
            "edited": self.edited,
            "without_edit": self.without_edit,
            "skipped": dict(self.skipped.most_common()),
            "kinds": {
                name: {
                    "places": of.places,
                    "captions": of.captions,
                    "edits": of.edits,
                    "rejected": dict(of.rejected.most_common()),
                }
                for name, of in self.kinds.items()
            },
        }

    @staticmethod
    def from_json(said: Mapping[str, Any]) -> Tally:
        """What `as_json` wrote."""
        kinds = {
            name: KindTally(of["places"], of["captions"], of["edits"], Counter(of["rejected"]))
            for name, of in said["kinds"].items()
        }
        return Tally(said["captions"], said["edited"], Counter(said["skipped"]), kinds)

    def _of(self, kind: str) -> KindTally:
        found = self.kinds.get(kind)
        if found is None:
            found = self.kinds[kind] = KindTally()
        return found
