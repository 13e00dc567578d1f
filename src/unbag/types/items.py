"""Test items with their images, captions and questions, and edits of captions.

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
    """One test item: images, captions, and which of them match."""

    id: str
    images: tuple[ImageSource, ...]
    captions: tuple[Caption, ...]
    truth: Truth
    """[P, C]: bool, or float ratings, or Sparse. By convention the original caption comes first,
    and any further true caption of a one-image item is a hard positive."""
    question: Question | None = None
    group: str = ""
    """Items with the same group are measured together (NaturalBench) and resampled together."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Categories that results are broken down by, such as {"relation": "left of"}."""
    kinds: tuple[str, ...] = ()
    """Kind of each caption ("original", "swap_attributes", "synonym"); empty if unknown."""

    def __post_init__(self) -> None:
        captions: object = self.captions
        if isinstance(captions, str):
            raise UnbagError(
                f"item {self.id!r}: captions is one text",
                expected="a tuple of captions",
                hint=f"write ({captions!r},)",
            )
        raw_truth: object = self.truth
        is_ready = isinstance(raw_truth, Sparse) or getattr(raw_truth, "dtype", None) == np.bool_
        if not is_ready:
            truth = np.asarray(raw_truth)
            if truth.dtype != np.bool_:
                truth = truth.astype(np.float64)
            object.__setattr__(self, "truth", truth)
        expected = (len(self.images), len(self.captions))
        shape = tuple(self.truth.shape)
        if shape != expected or 0 in expected:
            raise UnbagError(
                f"item {self.id!r}: truth has shape {shape}",
                expected=f"images x captions = {expected}, neither empty",
                hint="check the loader of this benchmark",
            )
        if self.kinds and len(self.kinds) != len(self.captions):
            raise UnbagError(
                f"item {self.id!r}: {len(self.kinds)} kinds for {len(self.captions)} captions",
                expected="one kind per caption, or none at all",
            )


@runtime_checkable
class ImageSource(Protocol):
    """An image that is opened on demand."""

    @property
    def key(self) -> str:
        """Cache key of the content: equal keys mean equal pixels."""

    @property
    def name(self) -> str:
        """Name for messages: a path, or the place in the world it comes from."""

    def open(self) -> Image:
        """Decode to RGB. Raises OSError or ValueError when the image is damaged."""


@dataclass(frozen=True)
class Ensemble:
    """A caption that is the average of several prompts, such as a class name with templates."""

    name: str
    prompts: tuple[str, ...]

    def __post_init__(self) -> None:
        prompts: object = self.prompts
        if isinstance(prompts, str) or not prompts:
            raise UnbagError(
                f"ensemble {self.name!r} has no prompts",
                expected="at least one prompt",
                hint="give at least one template, such as 'a photo of a {}.'",
            )


Caption: TypeAlias = str | Ensemble


def prompts_of(caption: Caption) -> tuple[str, ...]:
    """Return the texts of a caption: itself, or the prompts of an ensemble."""
    return caption.prompts if isinstance(caption, Ensemble) else (caption,)


def text_of(caption: Caption) -> str:
    """Return a caption as one string: an ensemble by its name."""
    return caption.name if isinstance(caption, Ensemble) else caption


@dataclass(frozen=True)
class Question:
    """A question about the image for a chat model; the item's captions are the answers."""

    text: str
    options: tuple[str, ...] = ()
    """The options as shown (letters, phrases); empty for a yes/no or open question."""


@dataclass(frozen=True, eq=False)
class Sparse:
    """Truth of a large item as the row and column indices of its true cells."""

    shape: tuple[int, int]
    row_T: IntArray
    column_T: IntArray


Truth: TypeAlias = BoolArray | FloatArray | Sparse


class Query(NamedTuple):
    """An image and a caption to score."""

    image: ImageSource
    caption: Caption
    question: Question | None = None


@dataclass(frozen=True)
class Given:
    """A caption to edit."""

    id: str
    """Decides the random choices, together with the seed."""
    text: str
    others: tuple[str, ...] = ()
    """Other captions of the same image; a text among them is no hard negative."""


@dataclass(frozen=True)
class Edited:
    """A caption with its edits."""

    id: str
    text: str
    """The text that was edited, on one line with single spaces; `Change` indexes its characters."""
    edits: tuple[Edit, ...] = ()
    skipped: str = ""
    """Why the caption was not tried; empty if it was, even if no edit was possible."""


@dataclass(frozen=True)
class Edit:
    """A changed caption: a hard negative, or a hard positive if it keeps the meaning."""

    text: str
    kind: str
    is_positive: bool
    span: tuple[int, int] = (0, 0)
    """Range of changed characters in the original caption. Not written to files, since it follows
    from `changes`."""
    changes: tuple[Change, ...] = ()
    """Changes from left to right that turn the original into `text`. Empty if the caption was
    generated anew, as in the world."""


class Change(NamedTuple):
    """A replacement of characters start to end of a caption; start == end inserts."""

    start: int
    end: int
    new: str
