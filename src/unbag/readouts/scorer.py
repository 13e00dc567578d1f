"""Scorers that compare images and captions by a trained reader of their parts.

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
"""Of a matrix of scores that are filled at once."""
QUERIES, QUERIES_ON_CPU = 1_024, 128
"""Pairs at most that are compared at once; a processor's cache holds no more."""
MOST_BYTES = 256 << 20
"""Of images' parts that are gathered on the device at once."""
ITEMS = 1_024
"""Scored together: what they need lies ready, and a GPU that is asked for little waits."""


class ReaderScorer:
    """Scores pairs by a reader; every input is encoded once, and its parts are kept."""

    is_blind = False
    items_at_once = ITEMS

    def __init__(self, encoder: DualEncoder, reader: Reader, *, name: str = "") -> None:
        """The reader is moved to where the encoder computes."""
        self.read_from = encoder
        self.reader = reader.to(encoder.device).eval()
        self.name = name or f"{encoder.name}+{reader.name}"
        self.scoring = reader.name
        self.fingerprint = reader_fingerprint(reader, encoder)
        longest = reader.most_tokens
        self.context = encoder.context if longest is None else min(longest, encoder.context)
        self._store: FeatureStore | None = None
        self._seen: _Known | None = None
        self._said: FeatureTable | None = None
        # A GPU looks for a quick kernel for every number of pairs that it meets.
        self._is_rounded = encoder.device.startswith("cuda") and not reader.depends_on_call

    @property
    def store(self) -> FeatureStore:
        """Where parts are kept; temporary files unless `precompute` named a cache."""
        if self._store is None:
            self._store = FeatureStore(self.read_from, self.reader.view)
        return self._store

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """As the encoder counts them, before cutting."""
        return self.read_from.count_tokens(captions)

    def unknown_words(self, captions: Sequence[str]) -> list[str]:
        """To the encoder, if it reads word by word."""
        return unknown_to(self.read_from, captions)

    def precompute(
        self,
        images: Sequence[ImageSource],
        captions: Sequence[str],
        *,
        cache: Path | None,
        progress: Progress,
    ) -> None:
        """Encode all that will be asked for, in large batches, before the first question.

        Their parts then lie on the device, in one array each, if they fit there.
        """
        device = self.read_from.device
        store = FeatureStore(self.read_from, self.reader.view, cache=cache, progress=progress)
        # What was there before leaves the memory first.
        self._store, self._seen, self._said = store, None, None
        self._said = store.text_table(captions, device)
        table = store.image_table(images, device)
        self._seen = None if table is None else _Known(table, images)

    def score(self, queries: Sequence[Query]) -> Tensor:
        """One number a query; a caption of several prompts gets their mean."""
        if not queries:
            return torch.zeros(0, dtype=torch.float64)
        pairs = [(q.image, prompt) for q in queries for prompt in prompts_of(q.caption)]
        counts = [len(prompts_of(query.caption)) for query in queries]
        found = [
            value_N
            for start in range(0, len(pairs), QUERIES)
            for value_N in self._pairs(pairs[start : start + QUERIES])
        ]
        value_M = torch.cat(found).double().cpu()
        if len(value_M) == len(queries):
            return value_M
        return torch.stack([part.mean() for part in torch.split(value_M, counts)])

    @torch.inference_mode()
    def _pairs(self, pairs: Sequence[tuple[ImageSource, str]]) -> Iterator[Tensor]:
        seen, image_M = self._find_images([image for image, _ in pairs])
        said, caption_M = self._find_captions([caption for _, caption in pairs])
        said = self._on_device(said)
        at_once = _that_fit(seen)
        if self.read_from.device == "cpu" and not self.reader.depends_on_call:
            at_once = min(QUERIES_ON_CPU, at_once)
        for at in torch.split(torch.arange(len(pairs)), at_once):
            count = len(at)
            if self._is_rounded:
                # To the next power of two: the first is repeated.
                at = functional.pad(at, (0, (1 << (count - 1).bit_length()) - count), value=0)
            shown = self._on_device(seen.rows(image_M[at].to(seen.device)))
            told = said.rows(caption_M[at].to(said.device))
            yield self.reader.compare(shown, told)[:count]

    def _find_images(self, images: Sequence[ImageSource]) -> tuple[TokenFeatures, Tensor]:
        """Parts among which those of the images are, and in which rows."""
        if self._seen is not None:
            rows = [self._seen.row(image) for image in images]
            if None not in rows:
                return TokenFeatures(**self._seen.table.tensors), torch.tensor(rows)
        # By identity, since a key may be the hash of all pixels.
        different = {id(image): image for image in images}
        row_of = {one: at for at, one in enumerate(different)}
        rows = [row_of[id(image)] for image in images]
        return self.store.images(list(different.values())), torch.tensor(rows)

    def _find_captions(self, captions: Sequence[str]) -> tuple[TokenFeatures, Tensor]:
        """Parts among which those of the captions are, and in which rows."""
        if self._said is not None and all(c in self._said.row_of for c in captions):
            row_M = torch.tensor([self._said.row_of[caption] for caption in captions])
            return TokenFeatures(**self._said.tensors), row_M
        row_of = {caption: at for at, caption in enumerate(dict.fromkeys(captions))}
        return self.store.texts(list(row_of)), torch.tensor([row_of[c] for c in captions])

    @torch.inference_mode()
    def score_matrix(self, images: Sequence[ImageSource], captions: Sequence[Caption]) -> Tensor:
        """Scores of all images with all captions, [P, C]."""
        prompts = [prompt for caption in captions for prompt in prompts_of(caption)]
        counts = [len(prompts_of(caption)) for caption in captions]
        score_PM = torch.empty((len(images), len(prompts)), dtype=torch.float64)
        start = 0
        while start < len(images):
            # The first tell how many fit.
            seen, _ = self._find_images(images[start : start + ROWS])
            stop = min(start + _that_fit(seen), len(images))
            seen = self._gathered(*self._find_images(images[start:stop]))
            for first in range(0, len(prompts), COLUMNS):
                said = self._gathered(*self._find_captions(prompts[first : first + COLUMNS]))
                score_PM[start:stop, first : first + len(said)] = self._block(seen, said)
            start = stop
        if all(count == 1 for count in counts):
            return score_PM
        return torch.stack(
            [part.mean(dim=1) for part in torch.split(score_PM, counts, dim=1)], dim=1
        )

    def _block(self, seen: TokenFeatures, said: TokenFeatures) -> Tensor:
        if self.reader.depends_on_call:
            return self.reader.compare_all(seen, said).double().cpu()
        rows = (seen.rows(slice(at, at + ROWS)) for at in range(0, len(seen), ROWS))
        return torch.cat([self.reader.compare_all(some, said) for some in rows]).double().cpu()

    def _gathered(self, parts: TokenFeatures, row_N: Tensor) -> TokenFeatures:
        return self._on_device(parts.rows(row_N.to(parts.device)))

    def _on_device(self, parts: TokenFeatures) -> TokenFeatures:
        return parts.to(self.read_from.device)


class ItemReaderScorer(ReaderScorer):
    """For a reader whose scores depend on the call: the candidates of an item are one call."""

    @torch.inference_mode()
    def score_items(self, items: Sequence[Item]) -> list[Scores]:
        """Item by item, as the released code of such a reader is run."""
        return [
            Scores(item.id, self.score_matrix(item.images, item.captions).numpy()) for item in items
        ]


class _Known:
    """Images of a table, found by identity before their key is asked for."""

    def __init__(self, table: FeatureTable, images: Sequence[ImageSource]) -> None:
        # Kept, so that their identities stay taken.
        self._images = tuple(images)
        rows = [(image, table.row_of.get(image.key)) for image in self._images]
        self._row_of = {id(image): row for image, row in rows if row is not None}
        self.table = table

    def row(self, image: ImageSource) -> int | None:
        """None for one that is not in the table, or cannot be used."""
        at = self._row_of.get(id(image))
        return self.table.row_of.get(image.key) if at is None else at


def _that_fit(seen: TokenFeatures) -> int:
    """Images of such parts that may lie on the device at once."""
    each = max(1, seen.vector_NLW[0].nbytes)
    return max(1, min(QUERIES, MOST_BYTES // each))
