"""What probes look at: captions with their edits, pairs of pictures, and a gallery."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from unbag.types import IntArray, Picture


@dataclass(frozen=True)
class Row:
    """A picture, a caption that is true of it, and edits of that caption."""

    id: str
    picture: Picture
    caption: str
    negative: str | None = None
    """False of the picture."""
    positive: str | None = None
    """True too, in other words."""
    kind: str = ""
    """Of the edit that leads to the negative."""
    cluster: str = ""
    """Rows of one cluster share scenes or captions and are resampled together."""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PicturePair:
    """Two different pictures that a model should tell apart, and a caption for each."""

    id: str
    first: Picture
    second: Picture
    relation: str
    """What they differ in: left/right, colour swap, count ..."""
    captions: tuple[str, str] | None = None
    """True of the first only, true of the second only."""
    cluster: str = ""


@dataclass(frozen=True, eq=False)
class Gallery:
    """Pictures and captions to search among; truth is the cells (row, column) that belong."""

    pictures: tuple[Picture, ...]
    captions: tuple[str, ...]
    picture_T: IntArray
    caption_T: IntArray


@dataclass(frozen=True, eq=False)
class Material:
    """Everything that is looked at. Probes on scenes of the world draw their own beside it."""

    about: str
    """In words: "the world's benchmarks"."""
    rows: tuple[Row, ...] = ()
    pairs: tuple[PicturePair, ...] = ()
    gallery: Gallery | None = None
    is_world: bool = False
    """Pictures are scenes, so probes that draw scenes of their own apply as well."""
    notes: tuple[str, ...] = ()
    """What was left out and why."""
    pictures: tuple[Picture, ...] = ()
    """Of a user without pairs: the nearest of them, for a model, are pairs to tell apart."""
