"""A frozen encoder and a reader of its parts come in; a scorer goes out.

Dimensions: N queries, P pictures, C captions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from unbag.engine.progress import Progress
from unbag.readouts.head import reader_fingerprint
from unbag.readouts.parts import Parts
from unbag.readouts.store import PartsStore
from unbag.types import Caption, DualEncoder, Item, Picture, Query, Scores

if TYPE_CHECKING:
    from torch import Tensor

    from unbag.readouts.reader import Reader

ROWS, COLUMNS = 32, 1_024
"""Of a matrix that are filled at once."""
QUERIES = 1_024
"""Pairs at most that are compared at once."""
MOST_BYTES = 256 << 20
"""Of pictures' parts that lie on the device at once."""


class ReaderScorer:
    """Scores pairs by a reader; every input is encoded once, and its parts are kept."""

    is_blind = False

    def __init__(self, encoder: DualEncoder, reader: Reader, *, name: str = "") -> None:
        """The reader is moved to where the encoder computes."""
        self.read_from = encoder
        self.reader = reader.to(encoder.device).eval()
        self.name = name or f"{encoder.name}+{reader.name}"
        self.scoring = reader.name
        self.fingerprint = reader_fingerprint(reader, encoder)
        longest = reader.most_tokens
        self.context = encoder.context if longest is None else min(longest, encoder.context)
        self._store: PartsStore | None = None

    @property
    def store(self) -> PartsStore:
        """Where parts are kept; temporary files unless `meet` named a cache."""
        if self._store is None:
            self._store = PartsStore(self.read_from, self.reader.view)
        return self._store

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """As the encoder counts them, before cutting."""
        return self.read_from.count_tokens(captions)

    def meet(
        self,
        pictures: Sequence[Picture],
        captions: Sequence[str],
        *,
        cache: Path | None,
        progress: Progress,
    ) -> None:
        """Encode all that will be asked for, in large batches, before the first question."""
        self._store = PartsStore(self.read_from, self.reader.view, cache=cache, progress=progress)
        self._store.meet(pictures, captions)

    def score(self, queries: Sequence[Query]) -> Tensor:
        """One number a query; a caption of several prompts gets their mean."""
        if not queries:
            return torch.zeros(0, dtype=torch.float64)
        pairs = [(q.picture, prompt) for q in queries for prompt in _prompts(q.caption)]
        counts = [len(_prompts(query.caption)) for query in queries]
        value_M = torch.cat(
            [self._pairs(pairs[start : start + QUERIES]) for start in range(0, len(pairs), QUERIES)]
        )
        if len(value_M) == len(queries):
            return value_M
        return torch.stack([part.mean() for part in torch.split(value_M, counts)])

    @torch.inference_mode()
    def _pairs(self, pairs: Sequence[tuple[Picture, str]]) -> Tensor:
        # By identity, since a key may be the hash of all pixels.
        pictures = {id(picture): picture for picture, _ in pairs}
        row_of = {one: at for at, one in enumerate(pictures)}
        captions = {caption: at for at, caption in enumerate(dict.fromkeys(c for _, c in pairs))}
        seen = self.store.pictures(list(pictures.values()))
        said = self._on_device(self.store.captions(list(captions)))
        picture_M = torch.tensor([row_of[id(picture)] for picture, _ in pairs])
        caption_M = torch.tensor([captions[caption] for _, caption in pairs])
        found = []
        for at in torch.split(torch.arange(len(pairs)), _that_fit(seen)):
            shown = self._on_device(seen.rows(picture_M[at]))
            found.append(self.reader.compare(shown, said.rows(caption_M[at].to(said.device))))
        return torch.cat(found).double().cpu()

    @torch.inference_mode()
    def score_matrix(self, pictures: Sequence[Picture], captions: Sequence[Caption]) -> Tensor:
        """[P, C]."""
        prompts = [prompt for caption in captions for prompt in _prompts(caption)]
        counts = [len(_prompts(caption)) for caption in captions]
        score_PM = torch.empty((len(pictures), len(prompts)), dtype=torch.float64)
        start = 0
        while start < len(pictures):
            # The first tell how many fit.
            seen = self.store.pictures(pictures[start : start + ROWS])
            stop = min(start + _that_fit(seen), len(pictures))
            seen = self._on_device(self.store.pictures(pictures[start:stop]))
            for first in range(0, len(prompts), COLUMNS):
                said = self._on_device(self.store.captions(prompts[first : first + COLUMNS]))
                score_PM[start:stop, first : first + len(said)] = self._block(seen, said)
            start = stop
        if all(count == 1 for count in counts):
            return score_PM
        return torch.stack(
            [part.mean(dim=1) for part in torch.split(score_PM, counts, dim=1)], dim=1
        )

    def _block(self, seen: Parts, said: Parts) -> Tensor:
        if self.reader.depends_on_call:
            return self.reader.compare_all(seen, said).double().cpu()
        rows = (seen.rows(slice(at, at + ROWS)) for at in range(0, len(seen), ROWS))
        return torch.cat([self.reader.compare_all(some, said) for some in rows]).double().cpu()

    def _on_device(self, parts: Parts) -> Parts:
        return parts.to(self.read_from.device)


class ItemReaderScorer(ReaderScorer):
    """For a reader whose scores depend on the call: the candidates of an item are one call."""

    @torch.inference_mode()
    def score_items(self, items: Sequence[Item]) -> list[Scores]:
        """Item by item, as the released code of such a reader is run."""
        return [
            Scores(item.id, self.score_matrix(item.pictures, item.captions).numpy())
            for item in items
        ]


def _that_fit(seen: Parts) -> int:
    """Pictures of such parts that may lie on the device at once."""
    each = max(1, seen.part_NLW[0].nbytes)
    return max(1, min(QUERIES, MOST_BYTES // each))


def _prompts(caption: Caption) -> tuple[str, ...]:
    return (caption,) if isinstance(caption, str) else caption.prompts
