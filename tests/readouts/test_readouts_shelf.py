"""Parts that were met lie in one array each: the same rows, in bounded memory, asked in many."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from unbag.data import PixelPicture
from unbag.evaluation.scoring import CHUNK, QueryScoring, in_chunks
from unbag.readouts import features as shelf_module
from unbag.readouts import scorer as module
from unbag.readouts.features import JOINT, Parts, PartsShelf
from unbag.readouts.reader import Reader
from unbag.readouts.scorer import ReaderScorer
from unbag.runs.progress import Silent
from unbag.types import Item, Picture, Query, Scorer

from .core_encoder import Broken, rows, small

PICTURES: list[Picture] = [row.picture for row in rows()]
CAPTIONS = [row.caption for row in rows()] + ["white"]


def parts(count: int, length: int, seed: int, marked: bool = True) -> Parts:
    drawn = torch.Generator().manual_seed(seed)
    mark_NL = torch.randint(1, 9, (count, length), generator=drawn) if marked else None
    return Parts(
        torch.randn((count, length, 4), generator=drawn),
        torch.ones((count, length), dtype=torch.bool),
        torch.randn((count, 4), generator=drawn),
        mark_NL,
    )


def filled(folder: Path, *, most: int = 1 << 20, marked: bool = True) -> PartsShelf:
    made = PartsShelf(folder, Silent(), most)
    made.put(["a", "b", "c"], parts(3, 2, 0, marked))
    made.put(["d", "e"], parts(2, 5, 1, marked))
    return made


def equal(found: Parts, wanted: Parts) -> bool:
    pairs = [
        (found.part_NLW, wanted.part_NLW),
        (found.mask_NL, wanted.mask_NL),
        (found.pooled_NW, wanted.pooled_NW),
    ]
    if found.mark_NL is not None and wanted.mark_NL is not None:
        pairs.append((found.mark_NL, wanted.mark_NL))
    return all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize("keys", [["e", "b", "a", "d", "c"], ["c", "e", "a", "c"]])
@pytest.mark.parametrize("marked", [True, False])
def test_laid_rows_are_those_of_the_files_padded_with_zeros(
    tmp_path: Path, keys: list[str], marked: bool
) -> None:
    filled(tmp_path, marked=marked)
    again = PartsShelf(tmp_path, Silent(), 1 << 20)
    again.sound(keys)
    laid = again.laid(keys, "cpu")
    assert laid is not None
    assert len(laid.parts) == len(set(keys)) == len(laid.row_of)
    at = torch.tensor([laid.row_of[key] for key in keys])
    assert equal(laid.parts.rows(at), again.get(keys))
    short = laid.parts.rows(at[keys.index("a")][None])
    assert short.part_NLW[0, 2:].abs().sum() == 0
    assert short.mask_NL.tolist() == [[True, True, False, False, False]]
    assert (short.mark_NL is None) is not marked


def test_what_was_laid_lies_in_memory_once_and_what_is_too_large_is_not_laid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = filled(tmp_path)
    assert (len(shelf._open), shelf._bytes) == (2, sum(p.nbytes for p in shelf._open.values()))
    assert shelf.laid(["a", "d"], "cpu") is not None
    assert (len(shelf._open), shelf._bytes) == (0, 0)
    # A row of five: 20 numbers of 4 bytes and 4 more, 5 of 1 byte, 5 of 8.
    assert filled(tmp_path / "fits", most=5 * 141).laid(list("abcde"), "cpu") is not None
    assert filled(tmp_path / "not", most=5 * 141 - 1).laid(list("abcde"), "cpu") is None
    assert shelf.laid([], "cpu") is None
    monkeypatch.setattr(shelf_module, "_room", lambda device: 5 * 141 - 1)
    assert shelf.laid(list("abcde"), "cpu") is None


def test_one_changed_bit_of_any_number_is_found(tmp_path: Path) -> None:
    filled(tmp_path)
    for path in tmp_path.glob("*.safetensors"):
        content = bytearray(path.read_bytes())
        content[-30] ^= 4
        path.write_bytes(content)
    progress = Silent()
    again = PartsShelf(tmp_path, progress, 1 << 20)
    again.sound(list("abcde"))
    assert not any(key in again for key in "abcde")
    assert len(progress.said) == 2
    assert all("its content does not match its name" in said for said in progress.said)


def test_parts_without_parts_can_be_kept_and_laid(tmp_path: Path) -> None:
    shelf = PartsShelf(tmp_path, Silent(), 1 << 20)
    shelf.put(["a", "b"], parts(2, 0, 0, marked=False))
    laid = PartsShelf(tmp_path, Silent(), 1 << 20)
    laid.sound(["a", "b"])
    found = laid.laid(["b", "a"], "cpu")
    assert found is not None
    assert found.parts.part_NLW.shape == (2, 0, 4)


class Mean(Reader):
    """The cosine of mean patch and mean word."""

    name, view = "mean", JOINT

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(3.0))
        self.calls: list[int] = []

    def compare(self, picture: Parts, caption: Parts) -> Tensor:
        self.calls.append(len(picture))
        told_NW = caption.part_NLW.sum(dim=1) / caption.mask_NL.sum(dim=1, keepdim=True)
        return self.weight * (picture.part_NLW.mean(dim=1) * told_NW).sum(dim=1)


@pytest.fixture
def scorer(monkeypatch: pytest.MonkeyPatch) -> ReaderScorer:
    monkeypatch.setattr(module, "reader_fingerprint", lambda reader, encoder: "mean-1")
    return ReaderScorer(small(), Mean())


QUERIES = [Query(picture, caption) for picture in PICTURES for caption in CAPTIONS]


def refuses(name: str) -> Callable[..., Parts]:
    def asked(*_: object) -> Parts:
        raise AssertionError(f"the files of {name} were asked")

    return asked


def test_what_was_met_is_scored_without_its_files_and_alike(
    scorer: ReaderScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = scorer.score(QUERIES)
    scorer.meet(PICTURES, CAPTIONS, cache=None, progress=Silent())
    for name in ("pictures", "captions"):
        monkeypatch.setattr(scorer.store, name, refuses(name))
    assert torch.allclose(scorer.score(QUERIES), wanted, atol=1e-6)
    matrix = scorer.score_matrix(PICTURES, CAPTIONS)
    assert torch.allclose(matrix.flatten(), wanted, atol=1e-6)
    # Another object of the same pixels is the same picture.
    pixels = cast("PixelPicture", PICTURES[2]).pixels
    same = scorer.score([Query(PixelPicture(pixels.copy()), CAPTIONS[0])])
    assert float(same) == pytest.approx(float(wanted[2 * len(CAPTIONS)]), abs=1e-6)


def test_what_was_not_met_or_does_not_fit_is_scored_from_files(
    scorer: ReaderScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = scorer.score(QUERIES)
    scorer.meet(PICTURES[:5], CAPTIONS[:5], cache=None, progress=Silent())
    assert torch.allclose(scorer.score(QUERIES), wanted, atol=1e-6)
    monkeypatch.setattr(shelf_module, "_room", lambda device: 0)
    scorer.meet(PICTURES, CAPTIONS, cache=None, progress=Silent())
    assert scorer._seen is None
    assert scorer._said is None
    assert torch.allclose(scorer.score(QUERIES), wanted, atol=1e-6)


def test_a_damaged_picture_among_those_met_is_told_and_spares_the_others(
    scorer: ReaderScorer,
) -> None:
    pictures = (*PICTURES[:2], Broken())
    scorer.meet(pictures, CAPTIONS[:2], cache=None, progress=Silent())
    truth = np.array([[True, False]])
    items = [Item(str(n), (p,), tuple(CAPTIONS[:2]), truth) for n, p in enumerate(pictures)]
    asking = QueryScoring(scorer)
    found = {scores.item: scores.values for scores in asking.chunk(items)}
    assert asking.damaged == {"torn.jpg": "OSError: the file ends too early"}
    assert [np.isnan(cast("np.ndarray", found[str(n)])).all() for n in range(3)] == [0, 0, 1]


def test_on_a_gpu_numbers_of_pairs_are_round_and_scores_the_same(
    scorer: ReaderScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUERIES_ON_CPU", 100)
    reader = cast("Mean", scorer.reader)
    wanted = scorer.score(QUERIES)
    assert reader.calls == [100, 56]
    scorer._is_rounded = True
    reader.calls.clear()
    assert torch.allclose(scorer.score(QUERIES), wanted, atol=1e-6)
    assert reader.calls == [128, 64]
    assert [len(module._rounded(torch.arange(n))) for n in (1, 2, 3, 4, 5, 1_024)] == [
        1, 2, 4, 4, 8, 1_024,
    ]  # fmt: skip
    assert module._rounded(torch.tensor([7, 8, 9])).tolist() == [7, 8, 9, 0]


def test_a_scorer_that_is_quick_gets_many_items_at_once(scorer: ReaderScorer) -> None:
    items = [cast("Item", SimpleNamespace(id=n)) for n in range(2_500)]
    assert [len(chunk) for chunk in in_chunks(items, scorer)] == [1_024, 1_024, 452]
    slow = cast("Scorer", SimpleNamespace(name="slow"))
    assert {len(chunk) for chunk in in_chunks(items[: 2 * CHUNK], slow)} == {CHUNK}


def test_pixels_are_hashed_once() -> None:
    picture = PixelPicture(np.zeros((2, 2, 3), dtype=np.uint8))
    assert picture.key is picture.key
    assert picture.key != PixelPicture(np.ones((2, 2, 3), dtype=np.uint8)).key
