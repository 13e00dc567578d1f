"""Comparison before and after training, and the blind reader."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console
from syrupy.assertion import SnapshotAssertion
from torch import Tensor

from unbag.benchmarks.names import benchmark
from unbag.data.readers import open_pairs
from unbag.errors import UnbagError
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.evaluation.store import read_contents
from unbag.models.tiny import Tiny, untrained
from unbag.scorers import Cosine
from unbag.training.before_after import (
    DEFAULT,
    BeforeAfter,
    BeforeAfterRow,
    Contrast,
    before_after_markdown,
    before_after_table,
    blind_reader,
    choose_and_fit,
    compare_before_after,
    differences,
    fit_preference,
    fit_reader,
    kind_of,
    side_of,
)
from unbag.training.data.pairs import PairBatches
from unbag.types import Query

from .pair_files import Bytes, numbered, recipe
from .small_world import CONFIG, FIND, SWAP, small


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> BeforeAfter:
    out = tmp_path_factory.mktemp("price") / "run"
    return compare_before_after(small(0), small(1), out=out, benchmarks=[SWAP, FIND], seed=5)


def shown(comparison: BeforeAfter, width: int = 200) -> str:
    console = Console(file=StringIO(), width=width)
    console.print(before_after_table(comparison))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def with_round_numbers(comparison: BeforeAfter) -> BeforeAfter:
    """The same rows with numbers that do not depend on the machine."""

    def changed(row: BeforeAfterRow) -> BeforeAfterRow:
        before = replace(row.before, value=0.5, low=0.25, high=0.75)
        return replace(
            row,
            before=before,
            after=replace(row.after, value=0.625, low=0.5, high=0.75),
            change=replace(row.change, difference=0.125, low=0.05, high=0.2),
            blind=row.blind and before,
        )

    return replace(comparison, rows=tuple(map(changed, comparison.rows)))


def test_rows_are_the_numbers_of_a_plain_run(comparison: BeforeAfter, tmp_path: Path) -> None:
    job = Job(
        scorers=[Cosine(small(0)), Cosine(small(1))],
        benchmarks=[SWAP, FIND],
        out=tmp_path / "plain",
        seed=5,
    )
    plain = run(job).contents
    for change in plain.comparisons:
        (row,) = [
            row
            for row in comparison.rows
            if (row.benchmark, row.metric) == (change.benchmark, change.metric)
        ]
        # Holm's correction is over more comparisons here.
        assert row.change == replace(change, p_holm=row.change.p_holm)
    for row in comparison.rows:
        difference = row.after.value - row.before.value
        assert row.change.difference == pytest.approx(difference, abs=1e-12)
        assert row.change.n == (24 if row.benchmark == "small-swap" else 12)
    for result in plain.results:
        for row in comparison.rows:
            if row.benchmark == result.benchmark:
                estimate = row.before if result.scorer == "tiny:0" else row.after
                assert estimate == result.overall[row.metric]
    assert {(r.benchmark, r.metric) for r in comparison.rows} == {
        *(("small-swap", m) for m in ("original", "augmented", "brittleness")),
        *(("small-swap", f"mean_{m}") for m in ("original", "positive", "negative")),
        ("small-find", "text_to_image@1"),
        ("small-find", "image_to_text@1"),
    }


def test_sections_and_what_is_missing(comparison: BeforeAfter) -> None:
    assert [row.metric for row in comparison.of("composition")] == ["original", "augmented"]
    assert [row.metric for row in comparison.of("brittleness")] == ["brittleness"]
    assert len(comparison.of("mean caption scores")) == 3
    assert [row.metric for row in comparison.of("retrieval")] == [
        "text_to_image@1",
        "image_to_text@1",
    ]
    assert comparison.notes == ("no classification benchmark was measured",)


def test_the_folder_is_that_of_an_ordinary_run(comparison: BeforeAfter) -> None:
    assert (comparison.folder / "report.html").exists()
    assert {r.scorer for r in read_contents(comparison.folder).results} == {"tiny:0", "tiny:1"}
    again = compare_before_after(
        small(0), small(1), out=comparison.folder, benchmarks=[SWAP, FIND], seed=5
    )
    assert again == comparison


def test_the_tables(comparison: BeforeAfter, snapshot: SnapshotAssertion) -> None:
    """On a terminal and in a model card."""
    assert shown(with_round_numbers(comparison)) == snapshot(name="terminal")
    assert before_after_markdown(with_round_numbers(comparison)) == snapshot(name="card")


def test_names_in_brackets_are_no_markup(comparison: BeforeAfter) -> None:
    rows = tuple(replace(r, change=replace(r.change, aggregate="[red]")) for r in comparison.rows)
    assert "original, [red]" in shown(replace(comparison, rows=rows))


def test_without_hard_positives_or_retrieval_it_is_said(tmp_path: Path) -> None:
    compared = compare_before_after(small(0), small(1), out=tmp_path / "run", benchmarks=[FIND])
    assert compared.notes == (
        "no composition benchmark was measured",
        "no benchmark with hard positives was measured",
        "no classification benchmark was measured",
    )


def test_nothing_to_compare_is_an_error(tmp_path: Path) -> None:
    class Broken(Tiny):
        def encode_images(self, pixels: Tensor) -> Tensor:
            return torch.full((len(pixels), 8), float("nan"))

    broken = Broken(untrained(CONFIG, seed=0), name="broken")
    with pytest.raises(UnbagError, match="nothing could be compared: ") as caught:
        compare_before_after(small(0), broken, out=tmp_path / "run", benchmarks=[SWAP])
    assert "at least one benchmark on which both models can be measured" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "kind", "side"),
    [
        ("world-swap", "composition", "composition"),
        ("world-replace", "words", "recognition"),
        ("world-retrieval", "retrieval", "recognition"),
        ("coco_order_free", "retrieval", "recognition"),
        ("cifar10", "classification", "recognition"),
        ("winoground", "composition", "composition"),
        ("sugarcrepe_pp", "composition", "composition"),
        ("flickr8k", "agreement", "neither"),
    ],
)
def test_what_benchmarks_measure(name: str, kind: str, side: str) -> None:
    assert (kind_of(benchmark(name)), side_of(benchmark(name))) == (kind, side)


def test_the_default_has_both_sides_and_needs_no_files() -> None:
    assert {side_of(one) for one in DEFAULT} == {"composition", "recognition"}
    assert not any(one.files for one in DEFAULT)


SAID = {word for item in SWAP.load(None) for text in item.captions for word in str(text).split()}
READS = replace(CONFIG, words=tuple(sorted(SAID | {"dog", "mat", "on", "under"})))


def lengths(texts: list[str]) -> Tensor:
    """Two numbers a text: its length, and how many e it has."""
    return torch.tensor([[float(len(text)), float(text.count("e"))] for text in texts])


def test_differences_are_caption_minus_negative() -> None:
    rows = [Contrast(0, "a tree", "trees"), Contrast(1, "one", "a tree")]
    assert differences(lengths, rows).tolist() == [[1.0, 0.0], [-3.0, -1.0]]  # type: ignore[arg-type]


def test_a_constant_feature_decides_nothing() -> None:
    diff_ND = torch.randn(200, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    diff_ND[:, 1] = 0.0
    diff_ND[:, 2] = diff_ND[:, 2].abs()
    weight = fit_reader(diff_ND, list(range(200)))
    assert bool(torch.isfinite(weight).all())
    assert int(weight.argmax()) == 2


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory) -> PairBatches:
    pairs = open_pairs(str(numbered(tmp_path_factory.mktemp("pairs"), 120)))
    return PairBatches(pairs, recipe(), Bytes(), 0)


def test_the_reader_learns_from_drawn_edits_and_sees_no_image(batches: PairBatches) -> None:
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


def test_the_blind_reader_in_the_tables(
    batches: PairBatches, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    reader = blind_reader(small(0, config=READS), batches)
    assert reader is not None
    out = tmp_path / "run"
    compared = compare_before_after(
        small(0), small(1), out=out, benchmarks=[SWAP, FIND], reader=reader
    )
    # In the world what is false of one image is true of its mirror.
    blind = {row.metric: row.blind.value for row in compared.rows if row.blind is not None}
    assert blind.keys() == {"original", "augmented"}
    assert blind["original"] == pytest.approx(0.5)
    assert reader.about in compared.notes
    assert shown(with_round_numbers(compared)) == snapshot(name="terminal")
    assert before_after_markdown(with_round_numbers(compared)) == snapshot(name="card")
    without = replace(compared, rows=tuple(replace(row, blind=None) for row in compared.rows))
    assert "blind" not in before_after_markdown(without).splitlines()[2]


def test_it_finds_the_feature_that_gives_edits_away() -> None:
    diff_ND = torch.randn(400, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    diff_ND[:, 2] = diff_ND[:, 2].abs() + 0.1
    weight = choose_and_fit(diff_ND, [at // 4 for at in range(400)])
    assert int(weight.argmax()) == 2
    assert bool((diff_ND @ weight > 0).double().mean() > 0.95)


def test_the_slope_is_nothing_where_it_stops() -> None:
    diff_ND = torch.randn(300, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    weight = fit_preference(diff_ND, 1e-2).requires_grad_()
    loss = torch.nn.functional.softplus(-(diff_ND @ weight)).mean() + 5e-3 * weight @ weight
    [slope] = torch.autograd.grad(loss, weight)
    assert float(slope.abs().max()) < 1e-9
