"""Scorers that compare images and captions with a trained reader.

Dimensions: N queries, P images, C captions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from unbag.evaluation.scoring import unknown_to
from unbag.models.features import FeatureStore
from unbag.readouts.reader import Reader, reader_fingerprint
from unbag.runs.cache import FeatureTable
from unbag.runs.progress import Progress
from unbag.types import Caption, DualEncoder, ImageSource, Item, Query, Scores, TokenFeatures
from unbag.types.items import prompts_of

ROWS, COLUMNS = 32, 1_024
"""Block size of a matrix of scores."""
PAIRS, PAIRS_ON_CPU = 1_024, 128
"""Maximum number of pairs per call; on a CPU, more would not fit into its cache."""
MOST_BYTES = 256 << 20
"""Maximum size of the image features that are gathered on the device at once."""
ITEMS = 1_024
"""Items that are scored together: their features are ready, and small calls leave a GPU idle."""


class ReaderScorer:
    """Scores pairs with a reader; every input is encoded once and its features are stored."""

    is_blind = False
    items_at_once = ITEMS

    def __init__(self, encoder: DualEncoder, reader: Reader, *, name: str = "") -> None:
        """Move the reader to the device of the encoder."""
        self.read_from = encoder
        self.reader = reader.to(encoder.device).eval()
        self.name = name or f"{encoder.name}+{reader.name}"
        self.scoring = reader.name
        self.fingerprint = reader_fingerprint(reader, encoder)
        max_tokens = reader.max_tokens
        self.context = encoder.context if max_tokens is None else min(max_tokens, encoder.context)
        self._store: FeatureStore | None = None
        self._image_table: _ImageTable | None = None
        self._text_table: FeatureTable | None = None
        # A GPU searches for a fast kernel for every new number of pairs.
        self._is_rounded = encoder.device.startswith("cuda") and not reader.depends_on_call

    @property
    def store(self) -> FeatureStore:
        """Return the store of features; temporary files unless `precompute` got a cache."""
        if self._store is None:
            self._store = FeatureStore(self.read_from, self.reader.view)
        return self._store

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Count tokens as the encoder does, before truncation."""
        return self.read_from.count_tokens(captions)

    def unknown_words(self, captions: Sequence[str]) -> list[str]:
        """Return words that are not in the vocabulary of an encoder that reads whole words."""
        return unknown_to(self.read_from, captions)

    def precompute(
        self,
        images: Sequence[ImageSource],
        captions: Sequence[str],
        *,
        cache: Path | None,
        progress: Progress,
    ) -> None:
        """Encode all inputs in large batches before the first score.

        If their features fit on the device, they are moved there, in one array each.
        """
        device = self.read_from.device
        store = FeatureStore(self.read_from, self.reader.view, cache=cache, progress=progress)
        # Free the previous features first.
        self._store, self._image_table, self._text_table = store, None, None
        self._text_table = store.text_table(captions, device)
        table = store.image_table(images, device)
        self._image_table = None if table is None else _ImageTable(table, images)

    def score(self, queries: Sequence[Query]) -> Tensor:
        """Return one score per query; a caption of several prompts gets their mean."""
        if not queries:
            return torch.zeros(0, dtype=torch.float64)
        pairs = [(q.image, prompt) for q in queries for prompt in prompts_of(q.caption)]
        counts = [len(prompts_of(query.caption)) for query in queries]
        scores = [
            value_N
            for start in range(0, len(pairs), PAIRS)
            for value_N in self._score_pairs(pairs[start : start + PAIRS])
        ]
        value_M = torch.cat(scores).double().cpu()
        if len(value_M) == len(queries):
            return value_M
        return torch.stack([part.mean() for part in torch.split(value_M, counts)])

    @torch.inference_mode()
    def _score_pairs(self, pairs: Sequence[tuple[ImageSource, str]]) -> Iterator[Tensor]:
        images, image_M = self._find_images([image for image, _ in pairs])
        captions, caption_M = self._find_captions([caption for _, caption in pairs])
        captions = self._on_device(captions)
        at_once = _images_that_fit(images)
        if self.read_from.device == "cpu" and not self.reader.depends_on_call:
            at_once = min(PAIRS_ON_CPU, at_once)
        for pair_M in torch.split(torch.arange(len(pairs)), at_once):
            count = len(pair_M)
            if self._is_rounded:
                # Pad to the next power of two by repeating the first pair.
                pair_M = functional.pad(
                    pair_M, (0, (1 << (count - 1).bit_length()) - count), value=0
                )
            image_part = self._on_device(images.rows(image_M[pair_M].to(images.device)))
            caption_part = captions.rows(caption_M[pair_M].to(captions.device))
            yield self.reader.compare(image_part, caption_part)[:count]

    def _find_images(self, images: Sequence[ImageSource]) -> tuple[TokenFeatures, Tensor]:
        """Return features that include those of the images, and the rows of the images."""
        if self._image_table is not None:
            rows = [self._image_table.row(image) for image in images]
            if None not in rows:
                return TokenFeatures(**self._image_table.table.tensors), torch.tensor(rows)
        # By identity, since computing a key may hash all pixels.
        image_of_id = {id(image): image for image in images}
        row_of = {key: i for i, key in enumerate(image_of_id)}
        rows = [row_of[id(image)] for image in images]
        return self.store.images(list(image_of_id.values())), torch.tensor(rows)

    def _find_captions(self, captions: Sequence[str]) -> tuple[TokenFeatures, Tensor]:
        """Return features that include those of the captions, and the rows of the captions."""
        if self._text_table is not None and all(c in self._text_table.row_of for c in captions):
            row_M = torch.tensor([self._text_table.row_of[caption] for caption in captions])
            return TokenFeatures(**self._text_table.tensors), row_M
        row_of = {caption: i for i, caption in enumerate(dict.fromkeys(captions))}
        return self.store.texts(list(row_of)), torch.tensor([row_of[c] for c in captions])

    @torch.inference_mode()
    def score_matrix(self, images: Sequence[ImageSource], captions: Sequence[Caption]) -> Tensor:
        """Score all images with all captions, [P, C]."""
        prompts = [prompt for caption in captions for prompt in prompts_of(caption)]
        counts = [len(prompts_of(caption)) for caption in captions]
        score_PM = torch.empty((len(images), len(prompts)), dtype=torch.float64)
        start = 0
        while start < len(images):
            # The size of the first images determines how many fit.
            image_part, _ = self._find_images(images[start : start + ROWS])
            stop = min(start + _images_that_fit(image_part), len(images))
            image_part = self._gather(*self._find_images(images[start:stop]))
            for first in range(0, len(prompts), COLUMNS):
                caption_part = self._gather(*self._find_captions(prompts[first : first + COLUMNS]))
                score_PM[start:stop, first : first + len(caption_part)] = self._block(
                    image_part, caption_part
                )
            start = stop
        if all(count == 1 for count in counts):
            return score_PM
        return torch.stack(
            [part.mean(dim=1) for part in torch.split(score_PM, counts, dim=1)], dim=1
        )

    def _block(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        if self.reader.depends_on_call:
            return self.reader.compare_all(image, caption).double().cpu()
        rows = (image.rows(slice(start, start + ROWS)) for start in range(0, len(image), ROWS))
        return torch.cat([self.reader.compare_all(part, caption) for part in rows]).double().cpu()

    def _gather(self, features: TokenFeatures, row_N: Tensor) -> TokenFeatures:
        return self._on_device(features.rows(row_N.to(features.device)))

    def _on_device(self, features: TokenFeatures) -> TokenFeatures:
        return features.to(self.read_from.device)


class ItemReaderScorer(ReaderScorer):
    """For readers whose scores depend on the call: an item's candidates are one call."""

    @torch.inference_mode()
    def score_items(self, items: Sequence[Item]) -> list[Scores]:
        """Score item by item, as the released code of such a reader does."""
        return [
            Scores(item.id, self.score_matrix(item.images, item.captions).numpy()) for item in items
        ]


class _ImageTable:
    """A table of image features with rows by identity, which avoids computing keys."""

    def __init__(self, table: FeatureTable, images: Sequence[ImageSource]) -> None:
        # Referenced, so that their ids are not reused.
        self._images = tuple(images)
        rows = [(image, table.row_of.get(image.key)) for image in self._images]
        self._row_of = {id(image): row for image, row in rows if row is not None}
        self.table = table

    def row(self, image: ImageSource) -> int | None:
        """Return the row of an image; None if it is not in the table or damaged."""
        row = self._row_of.get(id(image))
        return self.table.row_of.get(image.key) if row is None else row


def _images_that_fit(image: TokenFeatures) -> int:
    """Return how many images of this size may be on the device at once."""
    size = max(1, image.vector_NLW[0].nbytes)
    return max(1, min(PAIRS, MOST_BYTES // size))
