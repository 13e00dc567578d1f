"""Train heads on features of locked parts, which are computed once and cached.

What a locked part makes of a picture never changes, so it is computed once and cached by the
part's fingerprint and the picture's content, and the heads are trained on it: those of a photo
model, the connector of a joined one.

Every pass has the same shape: pictures in slices of one size, captions in slices of one size and
one length, the last filled up. So a row does not depend on what was computed beside it, and a run
that finds some of its features in the cache has the bits of one that found none.

Dimensions: N pictures or captions, C features of a part, D joint space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import torch

from unbag.data.pairs import Pair, Pairs
from unbag.errors import UserError
from unbag.evaluation.embedding import Turn, reading
from unbag.models.joined import JoinedEncoder
from unbag.models.layers import unit_rows
from unbag.models.photo import WIDE, WORDS_WIDE, Photo, PhotoHeads, parts_said
from unbag.models.text_encoders import TextTable
from unbag.models.weights import fingerprint
from unbag.runs.cache import Shelf, Vectors, open_shelf
from unbag.runs.progress import Progress
from unbag.training.data.pairs import columns_of, readable_pairs
from unbag.training.recipes import Recipe
from unbag.training.towers.adapters import (
    JoinedTrainable,
    PhotoReads,
    PhotoTrainable,
    make_trainable,
)
from unbag.training.towers.base import (
    Reads,
    Trainable,
    is_part_locked,
    is_tower_locked,
)
from unbag.types import Picture

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    from unbag.training.data.batch import Inputs


SLICE, SLICE_CUDA = 16, 256
"""Inputs of a pass."""
PICTURES, CAPTIONS = 128, 1_024
"""Whose features are written together; a run that is stopped loses no more."""
MOST = 1 << 30
"""Numbers that are kept in memory: four gigabytes, 800,000 pictures or 2.7 million captions."""
_VERSION = "features-1"


def keep_features(
    model: object,
    trainable: Trainable,
    pairs: Pairs,
    recipe: Recipe,
    *,
    cache: Path | None,
    progress: Progress,
) -> Trainable:
    """The towers as they are, or on kept features where the recipe locks all before a head.

    Captions are kept if all that can be drawn is known: their edits were made before, or there are
    none. Without a cache folder features are kept in memory only.
    """
    if not isinstance(model, Photo | JoinedEncoder):
        return trainable
    # Of any picture tower its vectors can be kept, of our own also what its head is given.
    is_locked = is_part_locked if isinstance(model, Photo) else is_tower_locked
    sees = is_locked(trainable, "picture", recipe.locks)
    reads = is_part_locked(trainable, "caption", recipe.locks) and not _is_table(model)
    kinds = frozenset(columns_of(recipe).kinds)
    reads = reads and (pairs.has_edits or not kinds)
    if not sees and not reads:
        return trainable
    found = list(readable_pairs(pairs, range(len(pairs))))
    texts = _texts(found, kinds) if reads else ()
    wide, words_wide = _widths(model)
    numbers = len(found) * wide * sees + len(texts) * words_wide
    if numbers > MOST:
        progress.say(
            f"features of {len(found):,} pictures and {len(texts):,} captions are too many to keep "
            "in memory; locked parts are run at every step"
        )
        return trainable
    pictures = [pair.picture for pair in found]
    seen = picture_table(model, pictures, cache, progress) if sees else None
    read = caption_table(model, texts, cache, progress) if reads else None
    if isinstance(model, Photo):
        return KeptPhoto(model, device=model.device, pictures=seen, captions=read)
    assert isinstance(trainable, JoinedTrainable)
    return KeptJoined(trainable, pictures=seen, captions=read)


def _is_table(model: Photo | JoinedEncoder) -> bool:
    """Whether its text vectors are kept in a file already."""
    return isinstance(model, JoinedEncoder) and isinstance(model.text, TextTable)


def _widths(model: Photo | JoinedEncoder) -> tuple[int, int]:
    """Numbers of a picture and of a caption."""
    if isinstance(model, Photo):
        return WIDE, WORDS_WIDE
    return model.connector.sizes[1], model.text.width


def _texts(pairs: Sequence[Pair], kinds: frozenset[str]) -> tuple[str, ...]:
    """Every string that a step may draw."""
    found: dict[str, None] = {}
    for pair in pairs:
        found.update(dict.fromkeys(pair.captions))
        for edits in pair.edits:
            found.update((edit.text, None) for edit in edits if edit.kind in kinds)
    return tuple(found)


class KeptPhoto(PhotoTrainable):
    """Photo towers of which one or both are run from their head on.

    Where features of everything are kept, heads alone will do: no part has to be loaded.
    """

    def __init__(
        self,
        encoder: Photo | PhotoHeads,
        *,
        device: str,
        pictures: FeatureTable | None,
        captions: FeatureTable | None,
    ) -> None:
        """Copy the towers of an encoder; features must be those of its parts."""
        super().__init__(encoder, device=device)
        plain = PhotoReads(encoder.tokenizer) if isinstance(encoder, Photo) else None
        if plain is None and (pictures is None or captions is None):
            raise ValueError("heads without parts need features of pictures and of captions")
        self._kept = (pictures, captions)
        self._pictures, self._captions = (
            None if one is None else one.vector_NC.to(device) for one in self._kept
        )
        self.reads: Reads = FeatureReads(plain, pictures, captions)

    def embed_pictures(self, pixels: Tensor) -> Tensor:
        """Places [N], or pixels, to unit vectors [N, D]."""
        if self._pictures is None:
            return super().embed_pictures(pixels)
        return unit_rows(self.module.picture.head(self._pictures[pixels]))

    def embed_captions(self, inputs: Inputs) -> Tensor:
        """Places, or tokens, to unit vectors [N, D]."""
        if self._captions is None:
            return super().embed_captions(inputs)
        return unit_rows(self.module.caption.head(self._captions[inputs["place_N"]]))

    def beside(self, encoder: Photo) -> KeptPhoto:
        """Another model on the same features, for losses that compare with the start."""
        pictures, captions = self._kept
        return KeptPhoto(encoder, device=self._device, pictures=pictures, captions=captions)


class KeptJoined(JoinedTrainable):
    """A locked picture tower is its vectors, a locked text part what the connector is given."""

    def __init__(
        self,
        towers: JoinedTrainable,
        *,
        pictures: FeatureTable | None,
        captions: FeatureTable | None,
    ) -> None:
        """Take towers over, without copying them; features must be those of their encoder."""
        self.__dict__.update(towers.__dict__)
        self._kept = (pictures, captions)
        self._seen, self._read = (
            None if one is None else one.vector_NC.to(self._device) for one in self._kept
        )
        self.reads: Reads = FeatureReads(towers.reads, pictures, captions)

    def embed_pictures(self, pixels: Tensor) -> Tensor:
        """Places [N], or pixels, to unit vectors [N, D]."""
        return super().embed_pictures(pixels) if self._seen is None else self._seen[pixels]

    def embed_captions(self, inputs: Inputs) -> Tensor:
        """Places, or tokens, to unit vectors [N, D]."""
        if self._read is None:
            return super().embed_captions(inputs)
        return self.connected(self._read[inputs["place_N"]])

    def beside(self, encoder: JoinedEncoder) -> KeptJoined:
        """Another model on the same features, for losses that compare with the start."""
        towers = make_trainable(encoder, device=self._device)
        assert isinstance(towers, JoinedTrainable)
        pictures, captions = self._kept
        return KeptJoined(towers, pictures=pictures, captions=captions)


class FeatureReads:
    """A picture or a caption is its place among kept features, where they are kept."""

    def __init__(
        self, plain: Reads | None, pictures: FeatureTable | None, captions: FeatureTable | None
    ) -> None:
        """Places only: features stay with the towers and are sent to no worker.

        `plain` prepares what has no features; None where everything has some.
        """
        self._plain = plain
        self._pictures = None if pictures is None else pictures.place_of
        self._damaged = {} if pictures is None else pictures.damaged
        self._captions = None if captions is None else captions.place_of

    def prepare(self, image: Image) -> Tensor:
        """As the towers want pixels."""
        assert self._plain is not None
        return self._plain.prepare(image)

    def kept(self, picture: Picture) -> Tensor:
        """A place, or pixels where the picture tower is trained."""
        if self._pictures is None:
            return self.prepare(picture.open())
        place = self._pictures.get(picture.name)
        if place is None:
            why = self._damaged.get(picture.name, "it is not in the collection")
            raise ValueError(f"no features of {picture.name} are kept: {why}")
        return torch.tensor(place)

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        """Places, or tokens where the caption tower is trained."""
        if self._captions is None:
            assert self._plain is not None
            return self._plain.tokenize(captions)
        return {"place_N": torch.tensor([self._captions[one] for one in captions])}

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Before cutting, special ones included."""
        if self._plain is None:
            # A place each: whatever was too long was cut when its features were made.
            return [1] * len(captions)
        return self._plain.count_tokens(captions)


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Features of all pictures or captions, which a head is trained on."""

    place_of: Mapping[str, int]
    """Rows by name of the picture, or by caption."""
    vector_NC: Tensor
    damaged: Mapping[str, str] = field(default_factory=dict)
    """Names of pictures that could not be opened, with the reason."""


@runtime_checkable
class OnFeatures(Protocol):
    """Towers whose locked parts are replaced by cached features."""

    def beside(self, encoder: Any) -> Trainable:
        """Another model on the same features, for losses that compare with the start."""


def picture_table(
    model: Photo | JoinedEncoder,
    pictures: Sequence[Picture],
    cache: Path | None,
    progress: Progress,
) -> FeatureTable:
    """What the picture part makes of each, by name; computed where the cache does not have it."""
    key_of = {picture.name: picture.key for picture in pictures}
    picture_of = {key_of[picture.name]: picture for picture in pictures}
    shelf = _shelf(model, "picture", cache, progress)
    have = shelf.get(picture_of)
    missing = [key for key in picture_of if key not in have]
    damaged: dict[str, str] = {}
    todo = [missing[at : at + PICTURES] for at in range(0, len(missing), PICTURES)]
    with (
        progress.task("features of pictures", len(missing)) as advance,
        reading(model, picture_of, todo, turn=Turn(model.device)) as blocks,
    ):
        for block in blocks:
            damaged.update(block.damaged)
            if block.pixels is not None:
                shelf.put(block.keys, _sliced(block.pixels, model.picture_features, model.device))
            advance(len(block.keys) + len(block.damaged))
    said = {name: damaged[key] for name, key in key_of.items() if key in damaged}
    names = {name: key for name, key in key_of.items() if name not in said}
    return _table(names, shelf, said)


def caption_table(
    model: Photo | JoinedEncoder, texts: Sequence[str], cache: Path | None, progress: Progress
) -> FeatureTable:
    """What the caption part makes of each; computed where the cache does not have it."""
    key_of = {text: blake2b(text.encode(), digest_size=16).hexdigest() for text in texts}
    shelf = _shelf(model, "caption", cache, progress)
    have = shelf.get(key_of.values())
    missing = [text for text, key in key_of.items() if key not in have]
    with progress.task("features of captions", len(missing)) as advance:
        for some in _by_length(model, missing):
            vector_NC = _sliced(some, model.caption_features, model.device)
            shelf.put([key_of[text] for text in some], vector_NC)
            advance(len(some))
    return _table(key_of, shelf)


def _by_length(model: Photo | JoinedEncoder, texts: Sequence[str]) -> Iterator[list[str]]:
    """Captions of as many tokens each, so that none is padded."""
    count_of = dict(zip(texts, model.count_tokens(texts), strict=True))
    lengths = {text: min(count, model.context) for text, count in count_of.items()}
    for _, some in groupby(sorted(texts, key=lambda text: (lengths[text], text)), lengths.get):
        every = list(some)
        yield from (every[at : at + CAPTIONS] for at in range(0, len(every), CAPTIONS))


def _sliced(inputs: Tensor | list[str], run: Callable[..., Tensor], device: str) -> Vectors:
    """Rows of all inputs, from passes of one size; the last repeats its last input."""
    size = SLICE if device == "cpu" else SLICE_CUDA
    found = []
    for at in range(0, len(inputs), size):
        part = inputs[at : at + size]
        rest = size - len(part)
        if isinstance(part, list):
            found.append(run([*part, *part[-1:] * rest])[: len(part)])
        else:
            filled = torch.cat([part, part[-1:].expand(rest, *part.shape[1:])])
            found.append(run(filled)[: len(part)])
    vector_NC: Vectors = torch.cat(found).numpy()
    return vector_NC


def _table(
    key_of: Mapping[str, str], shelf: Shelf, damaged: Mapping[str, str] | None = None
) -> FeatureTable:
    """Rows in the order of the names; two names of one content share a row."""
    keys = list(dict.fromkeys(key_of.values()))
    have = shelf.get(keys)
    if not keys:
        raise UserError("no picture can be opened", expected="at least one, to train on")
    row_of = {key: row for row, key in enumerate(keys)}
    vector_NC = torch.from_numpy(np.stack([have[key] for key in keys]))
    places = {name: row_of[key] for name, key in key_of.items()}
    return FeatureTable(places, vector_NC, damaged or {})


def _shelf(
    model: Photo | JoinedEncoder, tower: str, cache: Path | None, progress: Progress
) -> Shelf:
    if isinstance(model, JoinedEncoder):
        name = model.part_fingerprint(tower)
    else:
        part = getattr(model.towers, tower).part
        name = fingerprint("photo-part", part.state_dict(), parts_said(), _VERSION)
    return open_shelf(cache, f"{name}-{model.device.partition(':')[0]}", tower, progress=progress)
