"""What a reader without images is told, and what stands in the price table for it."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import Tensor

from unbag.data.readers import open_pairs
from unbag.training.before_after import (
    Contrast,
    before_after_markdown,
    before_after_table,
    blind_reader,
    compare_before_after,
    differences,
    fit_reader,
)
from unbag.training.data.pairs import PairBatches
from unbag.types import Query

from .pair_files import Bytes, numbered, recipe
from .small_world import CONFIG, FIND, SWAP, small

SAID = {word for item in SWAP.load(None) for text in item.captions for word in str(text).split()}
READS = replace(CONFIG, words=tuple(sorted(SAID | {"dog", "mat", "on", "under"})))


def lengths(texts: list[str]) -> Tensor:
    """Two numbers a text: its length, and how many e it has."""
    return torch.tensor([[float(len(text)), float(text.count("e"))] for text in texts])


def test_differences_are_caption_minus_negative() -> None:
    rows = [Contrast(0, "a tree", "trees"), Contrast(1, "one", "a tree")]
    assert differences(lengths, rows).tolist() == [[1.0, 0.0], [-3.0, -1.0]]  # type: ignore[arg-type]


def test_a_number_that_never_moves_decides_nothing() -> None:
    apart = torch.randn(200, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    apart[:, 1] = 0.0
    apart[:, 2] = apart[:, 2].abs()
    weight = fit_reader(apart, list(range(200)))
    assert bool(torch.isfinite(weight).all())
    assert int(weight.argmax()) == 2


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory) -> PairBatches:
    pairs = open_pairs(str(numbered(tmp_path_factory.mktemp("pairs"), 120)))
    return PairBatches(pairs, recipe(), Bytes(), 0)


def test_it_is_told_of_what_training_draws_and_sees_no_image(batches: PairBatches) -> None:
    reader = blind_reader(small(0), batches)
    assert reader is not None
    assert (reader.is_blind, reader.scoring) == (True, "caption only")
    assert "trained on 120 of the same edits" in reader.about
    again = blind_reader(small(0), batches)
    assert again is not None
    assert again.fingerprint == reader.fingerprint
    other = blind_reader(small(1), batches)
    assert other is not None
    assert other.fingerprint != reader.fingerprint
    first, second = SWAP.load(None)[0], SWAP.load(None)[-1]
    queries = [Query(item.images[0], first.captions[0]) for item in (first, second)]
    one, two = reader.score(queries)
    assert one == two
    assert not reader.score_matrix(first.images, first.captions).any()


def test_too_few_edits_or_none_at_all_give_no_reader(batches: PairBatches, tmp_path: Path) -> None:
    few = PairBatches(open_pairs(str(numbered(tmp_path, 99))), recipe(), Bytes(), 0)
    assert blind_reader(small(0), few) is None
    plain = PairBatches(batches.pairs, recipe(negatives=()), Bytes(), 0)
    assert blind_reader(small(0), plain) is None


def test_it_stands_in_the_table_where_it_can_be_asked(batches: PairBatches, tmp_path: Path) -> None:
    reader = blind_reader(small(0, config=READS), batches)
    assert reader is not None
    out = tmp_path / "run"
    found = compare_before_after(
        small(0), small(1), out=out, benchmarks=[SWAP, FIND], reader=reader
    )
    # In the world what is false of one image is true of its mirror.
    blind = {row.metric: row.blind.value for row in found.rows if row.blind is not None}
    assert blind.keys() == {"original", "augmented"}
    assert blind["original"] == pytest.approx(0.5)
    assert reader.about in found.notes
    console = Console(file=StringIO(), width=200)
    console.print(before_after_table(found))
    assert isinstance(console.file, StringIO)
    assert re.search(r"difference +n +blind", console.file.getvalue())
    lines = before_after_markdown(found).splitlines()
    assert lines[2] == "|  | benchmark | metric | before | after | difference | n | blind |"
    assert {line.count("|") for line in lines if line.startswith("|")} == {9}
    assert any(re.fullmatch(r"\| retrieval .* \| 12 \|  \|", line) for line in lines)
    without = replace(found, rows=tuple(replace(row, blind=None) for row in found.rows))
    assert "blind" not in before_after_markdown(without).splitlines()[2]
