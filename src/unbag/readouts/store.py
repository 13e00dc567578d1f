"""Pictures and captions come in; their parts go out, each computed once by a frozen encoder.

Parts are a hundred times the size of one vector, so they lie in files of one batch each and only
some of these are in memory. Without a cache folder the files are temporary.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from unbag.engine.embed import shelf_name
from unbag.engine.progress import Progress, Silent
from unbag.engine.reading import Turn, reading
from unbag.errors import PictureError
from unbag.models.fitting import Fitting
from unbag.readouts.parts import Parts, View, stacked
from unbag.readouts.shelf import Laid, PartsShelf
from unbag.types import DualEncoder, Picture

if TYPE_CHECKING:
    from torch import Tensor

PICTURES, CAPTIONS = 32, 256
"""Whose parts are computed and written together."""
MOST_BYTES = 2 << 30
"""Of parts that are kept in memory."""


class PartsStore:
    """The parts of one encoder as one view shows them."""

    def __init__(
        self,
        encoder: DualEncoder,
        view: View,
        *,
        cache: Path | None = None,
        progress: Progress | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """Opens what the cache has; nothing is computed yet."""
        self.encoder, self.view = encoder, view
        self.damaged: dict[str, str] = {}
        """Key of each picture that could not be opened, with the reason."""
        self._progress = progress or Silent()
        if cache is None:
            folder = Path(mkdtemp(prefix="unbag-parts-"))
            weakref.finalize(self, rmtree, folder, ignore_errors=True)
        else:
            folder = cache / shelf_name(encoder)
        self._pictures, self._captions = (
            PartsShelf(folder / f"{view.name}-{kind}", self._progress, most_bytes // 2)
            for kind in ("pictures", "captions")
        )

    def meet(self, pictures: Sequence[Picture], captions: Sequence[str]) -> None:
        """Compute the parts of all that are not known yet, with a progress bar each."""
        self._meet_captions(_keys(captions))
        self._meet_pictures({picture.key: picture for picture in pictures})

    def laid_pictures(self, pictures: Sequence[Picture], device: str) -> Laid | None:
        """Met, and all that can be used on the device; None where memory is not for so many."""
        picture_of = {picture.key: picture for picture in pictures}
        self._meet_pictures(picture_of)
        return self._pictures.laid([k for k in picture_of if k not in self.damaged], device)

    def laid_captions(self, captions: Sequence[str], device: str) -> Laid | None:
        """Likewise; rows are found by the captions themselves."""
        key_of = _keys(captions)
        self._meet_captions(key_of)
        laid = self._captions.laid(list(key_of.values()), device)
        return laid and Laid(laid.parts, {c: laid.row_of[key] for c, key in key_of.items()})

    def pictures(self, pictures: Sequence[Picture]) -> Parts:
        """Their parts, in their order; raises PictureError for one that cannot be used."""
        keys = [picture.key for picture in pictures]
        self._meet_pictures(dict(zip(keys, pictures, strict=True)))
        for key, picture in zip(keys, pictures, strict=True):
            if key in self.damaged:
                raise PictureError(
                    key,
                    f"{picture.name}: {self.damaged[key]}",
                    expected="a picture that can be opened",
                )
        return self._pictures.get(keys)

    def captions(self, captions: Sequence[str]) -> Parts:
        """Their parts, in their order, padded to the most words."""
        key_of = _keys(captions)
        self._meet_captions(key_of)
        return self._captions.get([key_of[caption] for caption in captions])

    def _meet_pictures(self, picture_of: Mapping[str, Picture]) -> None:
        self._pictures.sound(list(picture_of))
        missing = [k for k in picture_of if k not in self._pictures and k not in self.damaged]
        if not missing:
            return
        encoder, turn = self.encoder, Turn(self.encoder.device)
        todo = [missing[at : at + PICTURES] for at in range(0, len(missing), PICTURES)]
        fitting = Fitting(encoder.name, self._progress.say)
        with (
            self._progress.task(f"{encoder.name}: patches", len(missing)) as advance,
            reading(encoder, picture_of, todo, turn=turn) as batches,
        ):
            for batch in batches:
                self.damaged.update(batch.damaged)
                if batch.pixels is not None:
                    with turn:
                        found = looked(self.view, encoder, batch.pixels, fitting)
                    self._pictures.put(batch.keys, found)
                advance(len(batch.keys) + len(batch.damaged))

    def _meet_captions(self, key_of: Mapping[str, str]) -> None:
        self._captions.sound(list(key_of.values()))
        missing = [c for c, key in key_of.items() if key not in self._captions]
        if not missing:
            return
        counts = dict(zip(missing, self.encoder.count_tokens(missing), strict=True))
        with self._progress.task(f"{self.encoder.name}: words", len(missing)) as advance:
            for some in _of_one_length(counts):
                self._captions.put([key_of[c] for c in some], self.view.read(self.encoder, some))
                advance(len(some))


def looked(view: View, encoder: DualEncoder, pixels: Tensor, fitting: Fitting) -> Parts:
    """Parts of prepared pictures, as many at once as memory holds."""
    found: list[Parts] = []

    def look(some: Tensor) -> Tensor:
        parts = view.look(encoder, some)
        found.append(parts)
        return parts.pooled_NW

    fitting(look, pixels)
    # A try that did not fit into memory left nothing behind.
    return stacked(found)


def _of_one_length(counts: Mapping[str, int]) -> Iterator[list[str]]:
    """Captions of as many tokens each, so that none is padded."""
    order = sorted(counts, key=lambda caption: (counts[caption], caption))
    for _, some in groupby(order, key=counts.__getitem__):
        every = list(some)
        yield from (every[at : at + CAPTIONS] for at in range(0, len(every), CAPTIONS))


def _keys(captions: Sequence[str]) -> dict[str, str]:
    return {c: blake2b(c.encode(), digest_size=16).hexdigest() for c in captions}
