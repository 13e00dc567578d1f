"""PACL under its names: as released, scored without weights, trained as tested, with places."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.readouts.head import FILE, Sizes, load_reader, read_head
from unbag.readouts.pacl import PATCHES, Pacl, PaclSettings
from unbag.readouts.parts import View
from unbag.readouts.reader_readout import ReaderReadout, encoder_of
from unbag.readouts.scorer import ReaderScorer
from unbag.types import Scorer

if TYPE_CHECKING:
    from unbag.scorers.resolve import Model


def _view(settings: PaclSettings) -> View:
    return PATCHES


def _named(name: str, settings: PaclSettings) -> ReaderReadout:
    return ReaderReadout(name, settings, _view, partial(Pacl, name=name))


@dataclass(frozen=True)
class UniformReadout(ReaderReadout):
    """Scores without weights whatever PACL was trained: the other of two numbers to report."""

    def scorers(self, model: Model, folder: Path | None) -> list[Scorer]:
        """One, from a folder of its own or of any PACL."""
        if folder is None:
            return super().scorers(model, folder)
        encoder = encoder_of(model, self.name)
        head, _ = read_head(folder if folder.is_file() else folder / FILE)
        known = head.readout if head.readout in NAMES else self.name
        reader, _ = load_reader(
            folder, encoder, readout=known, settings=PaclSettings, build=self._evenly
        )
        return [ReaderScorer(encoder, reader, name=f"{encoder.name}+{self.name}")]

    def _evenly(self, settings: PaclSettings, sizes: Sizes) -> Pacl:
        return Pacl(replace(settings, pool="uniform"), sizes, name=self.name)


PACL = _named("pacl", PaclSettings())
PACL_UNIFORM = UniformReadout(
    "pacl_uniform", PaclSettings(pool="uniform"), _view, partial(Pacl, name="pacl_uniform")
)
PACL_FIXED = _named("pacl_fixed", PaclSettings(taught="each"))
PACL_ROTARY = _named("pacl_rotary", PaclSettings(rope="1d"))
NAMES = tuple(one.name for one in (PACL, PACL_UNIFORM, PACL_FIXED, PACL_ROTARY))
