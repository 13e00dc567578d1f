"""A reader as a scorer: pairs and matrices agree, features are encoded once, runs resume."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from unbag.data import PixelImage
from unbag.evaluation.loading import Job
from unbag.evaluation.plan import make_plan
from unbag.evaluation.run import Work, run
from unbag.evaluation.scoring import CHUNK, QueryScoring, in_chunks
from unbag.metrics.choice import Choice
from unbag.metrics.retrieval import Recall
from unbag.models.features import JOINT
from unbag.models.tiny import untrained
from unbag.readouts import scorer as module
from unbag.readouts.reader import Reader
from unbag.readouts.scorer import ItemReaderScorer, ReaderScorer
from unbag.runs import cache as cache_module
from unbag.runs.distributed import Distributed
from unbag.runs.progress import Silent
from unbag.types import Benchmark, Ensemble, ImageSource, Item, Query, Scorer, Sparse, TokenFeatures

from .core_encoder import CONFIG, Broken, Counting, rows, small


class Best(Reader):
    """The cosine of the patch and the word that fit best, times a weight."""

    name, view = "best", JOINT

    def __init__(self) -> None:
        super().__init__()
        self.settings = None
        self.weight = nn.Parameter(torch.tensor(2.0))
        self.calls: list[int] = []

    def compare(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        self.calls.append(len(image))
        map_NLT = image.vector_NLW @ caption.vector_NLW.transpose(1, 2)
        map_NLT = map_NLT.masked_fill(~caption.mask_NL[:, None], -2)
        return self.weight * map_NLT.flatten(1).amax(dim=1)


def scorer(
    encoder: Counting | None = None, kind: type[ReaderScorer] = ReaderScorer
) -> ReaderScorer:
    return kind(encoder or small(), Best())


@pytest.fixture(autouse=True)
def settings_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "reader_fingerprint", lambda reader, encoder: "best-1")


IMAGES: list[ImageSource] = [row.image for row in rows()]
CAPTIONS = [row.caption for row in rows()] + ["white"]
QUERIES = [Query(image, caption) for image in IMAGES for caption in CAPTIONS]


def by_hand(image: ImageSource, caption: str) -> float:
    encoder = small()
    seen = JOINT.encode_images(encoder, encoder.prepare(image.open())[None])
    return float(
        2 * (seen.vector_NLW[0] @ JOINT.encode_texts(encoder, [caption]).vector_NLW[0].T).max()
    )


def test_pairs_and_matrices_are_the_same_and_as_by_hand() -> None:
    matrix_PC = scorer().score_matrix(IMAGES, CAPTIONS)
    assert matrix_PC.shape == (12, 13)
    assert torch.allclose(scorer().score(QUERIES).view(12, 13), matrix_PC, atol=1e-6)
    for at, place in ((0, 0), (3, 12), (11, 5)):
        wanted = by_hand(IMAGES[at], CAPTIONS[place])
        assert float(matrix_PC[at, place]) == pytest.approx(wanted, abs=1e-6)
    assert matrix_PC.dtype == torch.float64


def test_small_blocks_and_little_memory_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = scorer().score_matrix(IMAGES, CAPTIONS)
    for name, value in (("ROWS", 5), ("COLUMNS", 4), ("PAIRS", 7), ("MOST_BYTES", 300)):
        monkeypatch.setattr(module, name, value)
    assert torch.allclose(scorer().score_matrix(IMAGES, CAPTIONS), wanted, atol=1e-6)
    assert torch.allclose(scorer().score(QUERIES).view(12, 13), wanted, atol=1e-6)
    column = scorer().score([Query(p, CAPTIONS[2]) for p in IMAGES])
    assert torch.allclose(column, wanted[:, 2], atol=1e-6)


def test_a_caption_of_several_prompts_gets_their_mean() -> None:
    both = Ensemble("two ways", ("red left of blue", "white"))
    one = scorer()
    (found,) = one.score([Query(IMAGES[0], both)])
    apart = one.score([Query(IMAGES[0], prompt) for prompt in both.prompts])
    assert float(found) == pytest.approx(float(apart.mean()))
    row = one.score_matrix(IMAGES[:1], ["red", both])
    assert row.shape == (1, 2)
    assert float(row[0, 1]) == pytest.approx(float(apart.mean()))


def test_batch_mates_do_not_matter_and_nothing_asked_is_nothing() -> None:
    one = scorer()
    (alone,) = one.score([Query(IMAGES[4], "red")])
    among = one.score([Query(p, c) for p in IMAGES for c in ("red", "blue left of white")])
    assert float(among[8]) == pytest.approx(float(alone), abs=1e-7)
    assert one.score([]).shape == (0,)


def test_every_input_is_encoded_once_whoever_asks() -> None:
    encoder = small()
    one = scorer(encoder)
    one.precompute(IMAGES, CAPTIONS, cache=None, progress=Silent())
    one.score(QUERIES)
    one.score_matrix(IMAGES, CAPTIONS)
    assert (encoder.images_seen, encoder.captions_read) == (12, 13)


def items(images: Sequence[ImageSource] = IMAGES) -> tuple[Item, ...]:
    found = [
        Item(f"{at:02}", (image,), (*row.negatives, row.caption), np.array([[False, True]]))  # type: ignore[arg-type]
        for at, (image, row) in enumerate(zip(images, rows(), strict=True))
    ]
    return tuple(found)


def toy(images: Sequence[ImageSource] = IMAGES) -> Benchmark:
    return Benchmark("toy", "Order.", lambda root: items(images), (Choice(),), "accuracy")


def values(folder: Path) -> dict[str, list[float]]:
    import pyarrow.parquet as pq

    return {r["item"]: r["values"] for r in pq.read_table(folder / "scores.parquet").to_pylist()}


def test_a_run_marks_a_damaged_image_and_scores_the_others(tmp_path: Path) -> None:
    images = [*IMAGES[:3], Broken(), *IMAGES[4:]]
    job = Job([scorer()], [toy(images)], tmp_path / "run", allow_invalid=True)
    finished = run(job)
    assert finished.contents.record.damaged == ("torn.jpg",)
    found = values(tmp_path / "run")
    assert np.isnan(found["03"]).all()
    whole = values(run(Job([scorer()], [toy()], tmp_path / "whole")).folder.path)
    assert all(found[key] == pytest.approx(whole[key], abs=1e-6) for key in whole if key != "03")


class Picky(Counting):
    """Opens every image and cannot take a white one."""

    def prepare(self, image: object) -> Tensor:
        found: Tensor = super().prepare(image)  # type: ignore[arg-type]
        if float(found.mean()) == 1.0:
            raise ValueError("it is all white")
        return found


def test_an_image_that_the_model_cannot_take_is_damaged_in_pairs_and_in_rankings(
    tmp_path: Path,
) -> None:
    encoder = Picky(untrained(CONFIG, seed=0), name="tiny:picky")
    white = PixelImage(np.full((32, 32, 3), 255, dtype=np.uint8))
    images = (*IMAGES[:3], white)
    at = np.arange(4)
    gallery = Item("all", images, tuple(CAPTIONS[:4]), Sparse((4, 4), at, at))
    find = Benchmark("find", "", lambda root: (gallery,), (Recall((1,)),), "text_to_image@1")
    benchmarks = [toy([*images, *IMAGES[4:]]), find]
    job = Job([ReaderScorer(encoder, Best())], benchmarks, tmp_path / "run", allow_invalid=True)
    finished = run(job)
    assert finished.contents.record.damaged == (white.name,)
    assert np.isnan(values(tmp_path / "run")["03"]).all()
    asking = QueryScoring(ReaderScorer(encoder, Best()))
    (ranked,) = asking.chunk([gallery])
    assert asking.damaged == {white.name: f"{white.name}: ValueError: it is all white"}
    assert ranked.image_to_text is not None


def test_a_run_that_was_stopped_goes_on_from_its_scores_and_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReaderScorer, "items_at_once", 4)
    encoder = small()
    whole = values(run(Job([scorer()], [toy()], tmp_path / "whole")).folder.path)
    first, asked = scorer(encoder), 0
    real = first.score

    def dies(queries: Sequence[Query]) -> Tensor:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise KeyboardInterrupt
        return real(queries)

    monkeypatch.setattr(first, "score", dies)
    out, cache = tmp_path / "run", tmp_path / "cache"
    with pytest.raises(KeyboardInterrupt):
        run(Job([first], [toy()], out, cache=cache, save_seconds=0))
    assert json.loads((out / "run.json").read_text())["state"] == "stopped"
    counted = small()
    second = scorer(counted)
    run(Job([second], [toy()], out, cache=cache))
    assert values(out) == whole
    assert (counted.images_seen, counted.captions_read) == (0, 0)


def test_a_reader_that_depends_on_the_call_is_asked_item_by_item(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []

    class Centred(Best):
        name = "centred"

        @property
        def depends_on_call(self) -> bool:
            return True

        def compare_all(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
            calls.append((len(image), len(caption)))
            score_PC = super().compare_all(image, caption)
            return score_PC - score_PC.mean()

    run(Job([ItemReaderScorer(small(), Centred())], [toy()], tmp_path / "run"))
    assert calls == [(1, 2)] * 12
    assert all(
        sum(pair) == pytest.approx(0, abs=1e-6) for pair in values(tmp_path / "run").values()
    )


class Pair(Distributed):
    """Two processes that never wait."""

    def wait(self) -> None:
        pass


def test_processes_encode_their_share_and_find_the_rest_in_the_cache(tmp_path: Path) -> None:
    plan, encoders = make_plan({"toy": items()}), [small(), small()]
    scorers = [scorer(encoder) for encoder in encoders]
    shown = [
        SimpleNamespace(
            plan=plan, team=Pair(rank, 2), job=SimpleNamespace(cache=None), progress=Silent(),
            folder=SimpleNamespace(vectors=tmp_path),
        )
        for rank in (0, 1)
    ]  # fmt: skip
    # The second is done with its share when the first goes on from its own.
    mine = shown[1].team.mine
    scorers[1].precompute(mine(plan.images), mine(plan.prompts), cache=tmp_path, progress=Silent())
    for one, asked in zip(shown, scorers, strict=True):
        Work._precompute(cast("Work", one), asked)
    assert [encoder.images_seen for encoder in encoders] == [6, 6]
    assert sum(encoder.captions_read for encoder in encoders) == len(plan.prompts)


@pytest.fixture
def best() -> ReaderScorer:
    return scorer()


def refuses(name: str) -> Callable[..., TokenFeatures]:
    def asked(*_: object) -> TokenFeatures:
        raise AssertionError(f"the files of {name} were asked")

    return asked


def test_what_was_precomputed_is_scored_without_its_files_and_alike(
    best: ReaderScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = best.score(QUERIES)
    best.precompute(IMAGES, CAPTIONS, cache=None, progress=Silent())
    for name in ("images", "texts"):
        monkeypatch.setattr(best.store, name, refuses(name))
    assert torch.allclose(best.score(QUERIES), wanted, atol=1e-6)
    matrix = best.score_matrix(IMAGES, CAPTIONS)
    assert torch.allclose(matrix.flatten(), wanted, atol=1e-6)
    # Another object of the same pixels is the same image.
    pixels = cast("PixelImage", IMAGES[2]).pixels
    same = best.score([Query(PixelImage(pixels.copy()), CAPTIONS[0])])
    assert float(same) == pytest.approx(float(wanted[2 * len(CAPTIONS)]), abs=1e-6)


def test_what_was_not_precomputed_or_does_not_fit_is_scored_from_files(
    best: ReaderScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = best.score(QUERIES)
    best.precompute(IMAGES[:5], CAPTIONS[:5], cache=None, progress=Silent())
    assert torch.allclose(best.score(QUERIES), wanted, atol=1e-6)
    monkeypatch.setattr(cache_module, "_free_bytes", lambda device: 0)
    best.precompute(IMAGES, CAPTIONS, cache=None, progress=Silent())
    assert best._image_table is None
    assert best._text_table is None
    assert torch.allclose(best.score(QUERIES), wanted, atol=1e-6)


def test_a_damaged_image_among_those_precomputed_is_told_and_spares_the_others(
    best: ReaderScorer,
) -> None:
    images = (*IMAGES[:2], Broken())
    best.precompute(images, CAPTIONS[:2], cache=None, progress=Silent())
    truth = np.array([[True, False]])
    items = [Item(str(n), (p,), tuple(CAPTIONS[:2]), truth) for n, p in enumerate(images)]
    asking = QueryScoring(best)
    found = {scores.item: scores.values for scores in asking.chunk(items)}
    assert asking.damaged == {"torn.jpg": "OSError: the file ends too early"}
    assert [np.isnan(cast("np.ndarray", found[str(n)])).all() for n in range(3)] == [0, 0, 1]


def test_on_a_gpu_numbers_of_pairs_are_round_and_scores_the_same(
    best: ReaderScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAIRS_ON_CPU", 100)
    reader = cast("Best", best.reader)
    wanted = best.score(QUERIES)
    assert reader.calls == [100, 56]
    best._is_rounded = True
    reader.calls.clear()
    assert torch.allclose(best.score(QUERIES), wanted, atol=1e-6)
    assert reader.calls == [128, 64]
    for count, rounded in ((1, 1), (2, 2), (3, 4), (4, 4), (5, 8)):
        reader.calls.clear()
        assert torch.allclose(best.score(QUERIES[:count]), wanted[:count], atol=1e-6)
        assert reader.calls == [rounded]


def test_a_scorer_that_is_quick_gets_many_items_at_once(best: ReaderScorer) -> None:
    items = [cast("Item", SimpleNamespace(id=n)) for n in range(2_500)]
    assert [len(chunk) for chunk in in_chunks(items, best)] == [1_024, 1_024, 452]
    slow = cast("Scorer", SimpleNamespace(name="slow"))
    assert {len(chunk) for chunk in in_chunks(items[: 2 * CHUNK], slow)} == {CHUNK}


def test_pixels_are_hashed_once() -> None:
    image = PixelImage(np.zeros((2, 2, 3), dtype=np.uint8))
    assert image.key is image.key
    assert image.key != PixelImage(np.ones((2, 2, 3), dtype=np.uint8)).key
