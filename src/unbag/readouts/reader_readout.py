"""A name, settings and a way to build a reader come in; a read-out that can be trained goes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbag.engine.progress import Progress
from unbag.errors import UserError
from unbag.models.seeded import seeded
from unbag.readouts.choose import choose
from unbag.readouts.fit import Effort
from unbag.readouts.head import Sizes, load_reader
from unbag.readouts.parts import View
from unbag.readouts.reader import Reader
from unbag.readouts.reader_training import train_reader
from unbag.readouts.readout import ReadoutJob, ReadoutTrained
from unbag.readouts.scorer import ItemReaderScorer, ReaderScorer
from unbag.readouts.shipped import shipped_reader
from unbag.types import DualEncoder, Scorer

if TYPE_CHECKING:
    from unbag.scorers.resolve import Model


@dataclass(frozen=True)
class ReaderReadout:
    """A reader under its name."""

    name: str
    settings: Effort
    """The defaults; their fields are what --set can change."""
    view: Callable[[Any], View]
    """How a reader with these settings looks at an encoder."""
    build: Callable[[Any, Sizes], Reader]
    """A fresh reader for settings and sizes, its first weights drawn from torch's generator."""

    def train(self, job: ReadoutJob, *, progress: Progress) -> ReadoutTrained:
        """On frozen parts that are computed once; the same job goes on where it stopped."""
        settings = choose(self.settings, job.settings, readout=self.name)
        encoder = encoder_of(job.model, self.name)
        view = self.view(settings)

        def fresh(sizes: Sizes) -> Reader:
            return self.fresh(settings, sizes, seed=job.seed)

        return train_reader(
            self.name, job, settings, encoder, view=view, fresh=fresh, progress=progress
        )

    def scorers(self, model: Model, folder: Path | None) -> list[Scorer]:
        """One, of a folder; without a folder the one that is shipped for the model, if any is."""
        encoder = encoder_of(model, self.name)
        place = folder or shipped_reader(self.name, encoder)
        if place is None:
            raise UserError(
                f"the read-out {self.name!r} scores with a trained reader, and none is named",
                expected=f"--scorer {self.name}@FOLDER",
                way_out=f"`unbag train --recipe {self.name} ...` makes one: docs/readouts.md",
            )
        reader, _ = load_reader(
            place, encoder, readout=self.name, settings=type(self.settings), build=self.build
        )
        kind = ItemReaderScorer if reader.depends_on_call else ReaderScorer
        return [kind(encoder, reader, name=named(encoder, self.name, folder))]

    def fresh(self, settings: Effort, sizes: Sizes, *, seed: int) -> Reader:
        """With first weights of a seed."""
        with seeded(seed):
            return self.build(settings, sizes)


def named(encoder: DualEncoder, readout: str, folder: Path | None) -> str:
    """As tables show it: whoever forgets the folder sees that it is not their own reader."""
    return f"{encoder.name}+{readout}{'' if folder else ' (shipped)'}"


def encoder_of(model: Model, name: str) -> DualEncoder:
    """The dual encoder whose parts are read."""
    if isinstance(model, DualEncoder):
        return model
    inner = getattr(model, "encoder", None)
    if isinstance(inner, DualEncoder):
        return inner
    raise UserError(
        f"the read-out {name!r} reads patches and words, and {model.name!r} shows none",
        expected="a dual encoder: tiny:, open_clip:, hf: or photo:",
        way_out="name another with --model",
    )
