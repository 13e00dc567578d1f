"""What an export wrote and what it left out: records for the card, the screen and unbag.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from unbag.scorers.named import name_of_form

Library = Literal["open_clip", "transformers", "tiny", "photo", "joined"]


@dataclass(frozen=True)
class Agreement:
    """How far the vectors of a folder, read again by its library, are from the model's."""

    vectors: float
    """Largest difference of a number of unit vectors, from the same pixels and captions."""
    levels: float = 0.0
    """Largest difference of a prepared pixel from the model's own preparation, in levels of 255."""
    cosine: float = 1.0
    """Smallest cosine of a picture prepared by this library with the model's own vector."""


@dataclass(frozen=True)
class Folder:
    """One library's form of the model."""

    library: Library
    place: str
    """Below the export: a folder, for an encoder of our own a file."""
    agreement: Agreement
    weights: tuple[tuple[str, str], ...]
    """Files of weights, below the export, with their sha256."""
    kind: str = "AutoModel"
    """The class of transformers that reads it."""

    def load_line(self, out: Path | str = "DIR") -> str:
        """Python that loads it."""
        at = f"{out}/{self.place}"
        if self.library == "open_clip":
            return f'open_clip.create_model_and_transforms("local-dir:{at}")'
        if self.library == "transformers":
            return f'transformers.{self.kind}.from_pretrained("{at}")'
        return f'{self.module}.load("{at}")'

    @property
    def module(self) -> str:
        """Ours that reads it, where the library is unbag."""
        return f"unbag.models.{'joined_names' if self.library == 'joined' else self.library}"

    def model_name(self, out: Path | str = "DIR") -> str:
        """As `unbag run --model` takes it."""
        return name_of_form(self.library, f"{out}/{self.place}")


@dataclass(frozen=True)
class LeftOut:
    """A form that was not written."""

    library: Library
    why: str


@dataclass(frozen=True)
class Exported:
    """All of it."""

    path: Path
    name: str
    """Of the model."""
    fingerprint: str
    """Of the model, as it was before it was written."""
    scale: float
    bias: float
    folders: tuple[Folder, ...]
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    """What differs between the forms, in whole sentences."""

    def as_json(self) -> Mapping[str, Any]:
        """For unbag.json; without the place, so that the folder can be moved."""
        return {
            "model": self.name,
            "fingerprint": self.fingerprint,
            "scale": self.scale,
            "bias": self.bias,
            "folders": {
                one.place: {
                    "library": one.library,
                    "weights": dict(one.weights),
                    "largest_difference": one.agreement.vectors,
                    "pixel_levels": one.agreement.levels,
                    "smallest_cosine": one.agreement.cosine,
                }
                for one in self.folders
            },
            "left_out": {one.library: one.why for one in self.left_out},
            "notes": list(self.notes),
        }
