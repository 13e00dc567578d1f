"""DCSM under the names by which it is trained and scored."""

from __future__ import annotations

from functools import partial

from unbag.readouts.dcsm import Dcsm, DcsmSettings
from unbag.readouts.dcsm_view import MapCaptions
from unbag.readouts.parts import View
from unbag.readouts.reader_readout import ReaderReadout


def _view(settings: DcsmSettings) -> View:
    return MapCaptions(settings.align, settings.length, settings.padding).view


DCSM = ReaderReadout(
    "dcsm", DcsmSettings(align="word_index", norm="batch"), _view, partial(Dcsm, name="dcsm")
)
"""As released: a word marks the column of its number, maps of a call are standardised together."""
DCSM_FIXED = ReaderReadout("dcsm_fixed", DcsmSettings(), _view, partial(Dcsm, name="dcsm_fixed"))
"""A word marks its own tokens, each map is standardised by itself."""
