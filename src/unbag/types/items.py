"""Test items and what they are made of (images, captions, questions), and edits of captions.

Dimensions: P images, C captions, T true cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from unbag.errors import UnbagError

if TYPE_CHECKING:
    from PIL.Image import Image


FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Item:
    """One test question: images, captions, and which belong together."""

    id: str
    images: tuple[ImageSource, ...]
    captions: tuple[Caption, ...]
    truth: Truth
    """[P, C]: bool, or float ratings, or Sparse. By convention the original caption comes first,
    and any further true caption of a one-picture item is a hard positive."""
    question: Question | None = None
    group: str = ""
    """Items with the same group are judged together (NaturalBench) and resampled together."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """What results are broken down by, such as {"relation": "left of"}."""
    kinds: tuple[str, ...] = ()
    """What each caption is ("original", "swap_attributes", "synonym"); empty when not known."""

    def __post_init__(self) -> None:
        captions: object = self.captions
        if isinstance(captions, str):
            raise UnbagError(
                f"item {self.id!r}: captions is one text",
                expected="a tuple of captions",
                hint=f"write ({captions!r},)",
            )
        given: object = self.truth
        is_ready = isinstance(given, Sparse) or getattr(given, "dtype", None) == np.bool_
        if not is_ready:
            truth = np.asarray(given)
            if truth.dtype != np.bool_:
                truth = truth.astype(np.float64)
            object.__setattr__(self, "truth", truth)
        expected = (len(self.images), len(self.captions))
        found = tuple(self.truth.shape)
        if found != expected or 0 in expected:
            raise UnbagError(
                f"item {self.id!r}: truth has shape {found}",
                expected=f"images x captions = {expected}, neither empty",
                hint="check the loader of this benchmark",
            )
        if self.kinds and len(self.kinds) != len(self.captions):
            raise UnbagError(
                f"item {self.id!r}: {len(self.kinds)} kinds for {len(self.captions)} captions",
                expected="one kind a caption, or none at all",
            )


@runtime_checkable
class ImageSource(Protocol):
    """An image not yet opened."""

    @property
    def key(self) -> str:
        """Identity of the content, for caching: equal keys mean equal pixels."""

    @property
    def name(self) -> str:
        """What to call it in a message: a path, or where in the world it comes from."""

    def open(self) -> Image:
        """Decode to RGB. Raises OSError or ValueError when the image is damaged."""


@dataclass(frozen=True)
class Ensemble:
    """A caption that is the average of several prompts, as class names with templates are."""

    name: str
    prompts: tuple[str, ...]

    def __post_init__(self) -> None:
        given: object = self.prompts
        if isinstance(given, str) or not given:
            raise UnbagError(
                f"ensemble {self.name!r} has no prompts",
                expected="at least one prompt",
                hint="give at least one template, such as 'a photo of a {}.'",
            )


Caption: TypeAlias = str | Ensemble


def prompts_of(caption: Caption) -> tuple[str, ...]:
    """The texts of a caption: one, or the prompts of an ensemble."""
    return caption.prompts if isinstance(caption, Ensemble) else (caption,)


def text_of(caption: Caption) -> str:
    """A caption as one string; an ensemble is known by its name."""
    return caption.name if isinstance(caption, Ensemble) else caption


@dataclass(frozen=True)
class Question:
    """What a chat model is asked about the image; the item's captions are then the answers."""

    text: str
    options: tuple[str, ...] = ()
    """The choices as they are shown (letters, phrases); empty for a yes/no or free question."""


@dataclass(frozen=True, eq=False)
class Sparse:
    """Truth of a large item: only the cells that are true (or rated), as row and column indices."""

    shape: tuple[int, int]
    row_T: IntArray
    column_T: IntArray


Truth: TypeAlias = BoolArray | FloatArray | Sparse


class Query(NamedTuple):
    """One thing to score."""

    image: ImageSource
    caption: Caption
    question: Question | None = None


@dataclass(frozen=True)
class Given:
    """A caption to edit."""

    id: str
    """With the seed it decides what is drawn."""
    text: str
    others: tuple[str, ...] = ()
    """Other captions of the same image: what they say is no hard negative."""


@dataclass(frozen=True)
class Edited:
    """A caption with its edits."""

    id: str
    text: str
    """As it was edited: in one line, with single spaces. Changes count its characters."""
    edits: tuple[Edit, ...] = ()
    skipped: str = ""
    """Why it was not edited at all; empty if it was, even without success."""


@dataclass(frozen=True)
class Edit:
    """A changed caption: a hard negative, or a hard positive if it keeps the meaning."""

    text: str
    kind: str
    is_positive: bool
    span: tuple[int, int] = (0, 0)
    """Characters of the original caption from the first to the last that were changed; not written
    to files, where `changes` say it."""
    changes: tuple[Change, ...] = ()
    """What was done to the original, from left to right: applied to it they give `text`.
    Empty where the caption was said anew, as in the world."""


class Change(NamedTuple):
    """Characters of a caption and what stands there instead; start == end inserts."""

    start: int
    end: int
    new: str
