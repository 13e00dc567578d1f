"""Features that were precomputed are in one table each: the same scores, from memory or files."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from unbag.data import PixelImage
from unbag.evaluation.scoring import CHUNK, QueryScoring, in_chunks
from unbag.models.features import JOINT
from unbag.readouts import scorer as module
from unbag.readouts.reader import Reader
from unbag.readouts.scorer import ReaderScorer
from unbag.runs import cache as cache_module
from unbag.runs.progress import Silent
from unbag.types import ImageSource, Item, Query, Scorer, TokenFeatures

from .core_encoder import Broken, rows, small

IMAGES: list[ImageSource] = [row.image for row in rows()]
CAPTIONS = [row.caption for row in rows()] + ["white"]


class Mean(Reader):
    """The cosine of mean patch and mean word."""

    name, view = "mean", JOINT

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(3.0))
        self.calls: list[int] = []

    def compare(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        self.calls.append(len(image))
        told_NW = caption.vector_NLW.sum(dim=1) / caption.mask_NL.sum(dim=1, keepdim=True)
        return self.weight * (image.vector_NLW.mean(dim=1) * told_NW).sum(dim=1)


@pytest.fixture
def scorer(monkeypatch: pytest.MonkeyPatch) -> ReaderScorer:
    monkeypatch.setattr(module, "reader_fingerprint", lambda reader, encoder: "mean-1")
    return ReaderScorer(small(), Mean())


QUERIES = [Query(image, caption) for image in IMAGES for caption in CAPTIONS]


def refuses(name: str) -> Callable[..., TokenFeatures]:
    def asked(*_: object) -> TokenFeatures:
        raise AssertionError(f"the files of {name} were asked")

    return asked


def test_what_was_precomputed_is_scored_without_its_files_and_alike(
    scorer: ReaderScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = scorer.score(QUERIES)
    scorer.precompute(IMAGES, CAPTIONS, cache=None, progress=Silent())
    for name in ("images", "texts"):
        monkeypatch.setattr(scorer.store, name, refuses(name))
    assert torch.allclose(scorer.score(QUERIES), wanted, atol=1e-6)
    matrix = scorer.score_matrix(IMAGES, CAPTIONS)
    assert torch.allclose(matrix.flatten(), wanted, atol=1e-6)
    # Another object of the same pixels is the same image.
    pixels = cast("PixelImage", IMAGES[2]).pixels
    same = scorer.score([Query(PixelImage(pixels.copy()), CAPTIONS[0])])
    assert float(same) == pytest.approx(float(wanted[2 * len(CAPTIONS)]), abs=1e-6)


def test_what_was_not_precomputed_or_does_not_fit_is_scored_from_files(
    scorer: ReaderScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = scorer.score(QUERIES)
    scorer.precompute(IMAGES[:5], CAPTIONS[:5], cache=None, progress=Silent())
    assert torch.allclose(scorer.score(QUERIES), wanted, atol=1e-6)
    monkeypatch.setattr(cache_module, "_free_bytes", lambda device: 0)
    scorer.precompute(IMAGES, CAPTIONS, cache=None, progress=Silent())
    assert scorer._image_table is None
    assert scorer._text_table is None
    assert torch.allclose(scorer.score(QUERIES), wanted, atol=1e-6)


def test_a_damaged_image_among_those_precomputed_is_told_and_spares_the_others(
    scorer: ReaderScorer,
) -> None:
    images = (*IMAGES[:2], Broken())
    scorer.precompute(images, CAPTIONS[:2], cache=None, progress=Silent())
    truth = np.array([[True, False]])
    items = [Item(str(n), (p,), tuple(CAPTIONS[:2]), truth) for n, p in enumerate(images)]
    asking = QueryScoring(scorer)
    found = {scores.item: scores.values for scores in asking.chunk(items)}
    assert asking.damaged == {"torn.jpg": "OSError: the file ends too early"}
    assert [np.isnan(cast("np.ndarray", found[str(n)])).all() for n in range(3)] == [0, 0, 1]


def test_on_a_gpu_numbers_of_pairs_are_round_and_scores_the_same(
    scorer: ReaderScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAIRS_ON_CPU", 100)
    reader = cast("Mean", scorer.reader)
    wanted = scorer.score(QUERIES)
    assert reader.calls == [100, 56]
    scorer._is_rounded = True
    reader.calls.clear()
    assert torch.allclose(scorer.score(QUERIES), wanted, atol=1e-6)
    assert reader.calls == [128, 64]
    for count, rounded in ((1, 1), (2, 2), (3, 4), (4, 4), (5, 8)):
        reader.calls.clear()
        assert torch.allclose(scorer.score(QUERIES[:count]), wanted[:count], atol=1e-6)
        assert reader.calls == [rounded]


def test_a_scorer_that_is_quick_gets_many_items_at_once(scorer: ReaderScorer) -> None:
    items = [cast("Item", SimpleNamespace(id=n)) for n in range(2_500)]
    assert [len(chunk) for chunk in in_chunks(items, scorer)] == [1_024, 1_024, 452]
    slow = cast("Scorer", SimpleNamespace(name="slow"))
    assert {len(chunk) for chunk in in_chunks(items[: 2 * CHUNK], slow)} == {CHUNK}


def test_pixels_are_hashed_once() -> None:
    image = PixelImage(np.zeros((2, 2, 3), dtype=np.uint8))
    assert image.key is image.key
    assert image.key != PixelImage(np.ones((2, 2, 3), dtype=np.uint8)).key
