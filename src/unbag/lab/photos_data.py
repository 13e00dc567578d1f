"""Photographs with captions and edits come in; what arms are trained on and asked goes out.

Pixels and features of all photographs lie on the device, so that an epoch of five thousand opens no
file. Dimensions: N photographs, Q captions, T triples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import functional

from unbag.data.pairs import Pair, Pairs
from unbag.models.photo import Photo
from unbag.training.towers.adapters import PhotoReads, PhotoTrainable
from unbag.training.towers.base import Trainable
from unbag.types import Edit, Picture

if TYPE_CHECKING:
    from torch import Tensor

_AT_ONCE = 512
WHOLE_PART = 18
"""Layers of the picture tower before its head."""


def opened(pairs: Pairs, *, limit: int | None = None) -> tuple[Pair, ...]:
    """All pairs, or the first of them; a few thousand fit in memory unpacked."""
    return tuple(pairs[at] for at in range(min(len(pairs), limit or len(pairs))))


class Store:
    """All photographs of some collections, prepared, on the device."""

    def __init__(self, pairs: Sequence[Pair], reads: PhotoReads, *, device: str) -> None:
        pictures = [pair.picture for pair in pairs]
        self.place = {picture.name: at for at, picture in enumerate(pictures)}
        with ThreadPoolExecutor(16) as pool:
            prepared = list(pool.map(lambda one: reads.prepare(one.open()), pictures))
        self.pixels = torch.stack(prepared).to(device)
        self.feature: Tensor | None = None

    def look(self, encoder: Photo) -> None:
        """Features of the part as it is installed, for arms that leave it so."""
        parts = [
            encoder.picture_features((self.pixels[at : at + _AT_ONCE].float() - 127.0) / 128.0)
            for at in range(0, len(self.pixels), _AT_ONCE)
        ]
        self.feature = torch.cat(parts).to(self.pixels.device)


class StoredReads(PhotoReads):
    """A picture is its place in the store."""

    def __init__(self, tokenizer: Any, place: dict[str, int]) -> None:
        super().__init__(tokenizer)
        self._place = place

    def kept(self, picture: Picture) -> Tensor:
        """Nothing is opened."""
        return torch.tensor(self._place[picture.name])


class StoredPhoto(PhotoTrainable):
    """Towers that take places of a store; with `is_part_locked` they start from its features."""

    def __init__(self, encoder: Photo, store: Store, *, device: str, is_part_locked: bool) -> None:
        super().__init__(encoder, device=device)
        self.store = store
        self.is_part_locked = is_part_locked
        self.reads = StoredReads(encoder.tokenizer, store.place)

    def embed_pictures(self, pixels: Tensor) -> Tensor:
        """Places [N] to unit vectors [N, D]."""
        if self.is_part_locked:
            assert self.store.feature is not None
            vector_ND = self.module.picture.head(self.store.feature[pixels])
            return functional.normalize(vector_ND.float(), dim=-1)
        return super().embed_pictures(self.store.pixels[pixels])


@dataclass(frozen=True, eq=False)
class Questions:
    """What is asked of every arm: all captions of all photographs, and their edits."""

    place_N: Tensor
    texts: tuple[str, ...]
    """Every caption and edit once."""
    caption_Q: Tensor
    """Texts that are captions, and whose."""
    owner_Q: Tensor
    triple_T4: Tensor
    """Photograph, caption, negative, positive, as rows; -1 where there is no positive."""
    kinds: tuple[tuple[str, str], ...]
    """Of the negative and the positive of each triple."""


def make_questions(pairs: Sequence[Pair], place: Mapping[str, int]) -> Questions:
    """A triple for every negative of a caption, with the positive that a hash chooses."""
    row: dict[str, int] = {}
    captions, triples, kinds = [], [], []
    for at, pair in enumerate(pairs):
        for caption, edits in zip(pair.captions, pair.edits, strict=True):
            number = row.setdefault(caption, len(row))
            captions.append((number, at))
            kept = [edit for edit in edits if edit.keeps_meaning]
            for edit in edits:
                if edit.keeps_meaning:
                    continue
                other = _chosen(kept, edit.text)
                positive = row.setdefault(other.text, len(row)) if other else -1
                triples.append((at, number, row.setdefault(edit.text, len(row)), positive))
                kinds.append((edit.kind, other.kind if other else ""))
    said = torch.tensor(captions)
    place_N = torch.tensor([place[pair.picture.name] for pair in pairs])
    return Questions(
        place_N, tuple(row), said[:, 0], said[:, 1], torch.tensor(triples), tuple(kinds)
    )


def _chosen(edits: Sequence[Edit], text: str) -> Edit | None:
    if not edits:
        return None
    return edits[int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") % len(edits)]


@torch.inference_mode()
def answers(trainable: Trainable, asked: Questions, *, device: str) -> dict[str, Any]:
    """Ranks of both directions and scores of every triple, as arrays of a few bytes each."""
    trainable.module.eval()
    picture_ND = trainable.embed_pictures(asked.place_N.to(device)).float()
    parts = []
    for at in range(0, len(asked.texts), _AT_ONCE):
        inputs = trainable.reads.tokenize(asked.texts[at : at + _AT_ONCE])
        parts.append(trainable.embed_captions({k: v.to(device) for k, v in inputs.items()}))
    text_ND = torch.cat(parts).float()
    score_QN = text_ND[asked.caption_Q.to(device)] @ picture_ND.T
    own_Q = score_QN.gather(1, asked.owner_Q.to(device)[:, None])
    rank_Q = (score_QN > own_Q).sum(dim=1)
    is_own_QN = asked.owner_Q.to(device)[:, None] == torch.arange(len(picture_ND), device=device)
    best_N = torch.where(is_own_QN, score_QN, -torch.inf).max(dim=0).values
    rank_N = ((score_QN > best_N) & ~is_own_QN).sum(dim=0)
    t = asked.triple_T4.to(device)
    scores = [
        torch.where(t[:, k] < 0, torch.nan, (picture_ND[t[:, 0]] * text_ND[t[:, k]]).sum(dim=1))
        for k in (1, 2, 3)
    ]
    return {
        "caption_rank": rank_Q.cpu().numpy().astype(np.int16),
        "picture_rank": rank_N.cpu().numpy().astype(np.int16),
        "scores": torch.stack(scores, dim=1).cpu().numpy().astype(np.float32),
    }
