"""What is trained on: pictures with true captions and, where they were made before, their edits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from unbag.types import Edit, Picture


@dataclass(frozen=True, eq=False)
class Pair:
    """One picture."""

    id: str
    picture: Picture
    captions: tuple[str, ...]
    """At least one; each epoch draws one."""
    edits: tuple[tuple[Edit, ...], ...]
    """For each caption."""
    nearest: tuple[int, ...] = ()
    """Places of the pictures most like it, for NegCLIP's hard pictures."""


class Pairs(Protocol):
    """A collection with a place for each picture. Opened pictures are the caller's to close."""

    @property
    def about(self) -> str:
        """For people: form, file name, how many pictures and captions, licence if it says one."""

    @property
    def fingerprint(self) -> str:
        """Of the files: names, sizes, times or content."""

    @property
    def has_edits(self) -> bool:
        """Whether edits were made before."""

    def __len__(self) -> int:
        """Pictures."""

    def __getitem__(self, place: int) -> Pair:
        """Reads captions and edits; the picture is opened later. Same place, same pair."""
