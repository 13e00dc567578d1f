"""What holds for every benchmark that is read from files, on small ones in its official layout."""

from collections.abc import Callable, Mapping
from os.path import relpath
from pathlib import Path

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from unbag.data.images import FileImage
from unbag.errors import UnbagError
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.metrics.cases import true_cells
from unbag.models.baselines import ALL, load
from unbag.registry import names
from unbag.types import Benchmark, Estimate, EvalProtocol, FloatArray, Item, Query, Scorer, Sparse

from .small import SMALL, Small, benchmark_of

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]
WITH_FILES = [name for name in names("benchmark") if not name.startswith("world-")]
# Two of the shuffles need a tagger, and short captions have no other order; both are warned of.
pytestmark = pytest.mark.filterwarnings("ignore:.*no tagger", "ignore:captions that have no other")


def test_every_benchmark_has_a_small_folder() -> None:
    assert sorted(WITH_FILES) == sorted(SMALL)


@pytest.fixture(params=SMALL)
def benchmark(request: pytest.FixtureRequest) -> Benchmark:
    return benchmark_of(request.param)


@pytest.fixture
def small(benchmark: Benchmark) -> Small:
    return SMALL[benchmark.name]


@pytest.fixture
def root(benchmark: Benchmark, small: Small, tmp_path: Path) -> Path:
    """The folder of the benchmark, without images."""
    root = tmp_path / benchmark.place
    root.mkdir(parents=True)
    return small.build(root)


def plain(item: Item) -> tuple[object, ...]:
    """All that an item says, in values that can be compared."""
    truth = item.truth
    if isinstance(truth, Sparse):
        cells: object = (truth.shape, truth.row_T.tolist(), truth.column_T.tolist())
    else:
        cells = (truth.dtype, truth.tolist())
    images = [image.name for image in item.images]
    rest = (item.question, item.group, dict(item.tags), item.kinds)
    return item.id, images, item.captions, cells, *rest


def test_loading_is_repeatable_opens_no_image_and_gives_unique_ids(
    benchmark: Benchmark, small: Small, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*_: object) -> object:
        raise AssertionError("an image was opened")

    monkeypatch.setattr("unbag.data.images.FileImage.open", opened)
    monkeypatch.setattr("unbag.data.images.FileImage.key", property(opened))
    monkeypatch.setattr("PIL.Image.open", opened)
    first, second = benchmark.load(root), benchmark.load(root)
    assert len({item.id for item in first}) == len(first) == small.items
    assert [plain(item) for item in first] == [plain(item) for item in second]
    # Items share the objects of their images.
    images = [image for item in first for image in item.images if isinstance(image, FileImage)]
    assert len({id(image) for image in images}) == len(set(images))


def described(item: Item, root: Path) -> str:
    """An item in lines of text."""
    truth = item.truth
    if isinstance(truth, Sparse):
        cells = [*zip(truth.row_T.tolist(), truth.column_T.tolist(), strict=True)]
    else:
        cells = [(int(row), int(column)) for row, column in np.argwhere(truth)]
    true = [f"{row}-{column}" for row, column in cells[:8]]
    ratings = [] if isinstance(truth, Sparse) else truth.ravel().tolist()
    lines = {
        "images": [relpath(image.name, root) for image in item.images[:4]],
        "captions": [c if isinstance(c, str) else c.prompts[:2] for c in item.captions[:6]],
        "truth": true if isinstance(truth, Sparse) or truth.dtype == np.bool_ else ratings,
        "question": item.question,
        "group": item.group,
        "tags": dict(item.tags),
        "kinds": item.kinds[:6],
    }
    return "\n".join([item.id, *(f"  {name}: {value}" for name, value in lines.items() if value)])


def test_the_first_and_the_last_items(
    benchmark: Benchmark, root: Path, snapshot: SnapshotAssertion
) -> None:
    items = benchmark.load(root)
    chosen = dict.fromkeys((0, 1 % len(items), len(items) - 1))
    assert "\n".join(described(items[i], root) for i in chosen) == snapshot


# BiVLC and the classification sets have images of their own, which their tests open.
@pytest.mark.parametrize("benchmark", [n for n in SMALL if SMALL[n].images], indirect=True)
def test_images_are_found_in_their_official_folder_or_a_shared_one(
    benchmark: Benchmark, small: Small, root: Path, photo: Callable[[Path], None]
) -> None:
    paths = {(root / image).resolve() for image in small.images.split(", ")}
    for path in paths:
        photo(path)
    images = {image for item in benchmark.load(root) for image in item.images}
    present = {p.path.resolve(): p for p in images if isinstance(p, FileImage) and p.path.is_file()}
    assert set(present) == paths
    assert all(image.open().mode == "RGB" for image in present.values())


def headline(benchmark: Benchmark, results: Mapping[str, Mapping[str, Estimate]]) -> Estimate:
    return results[benchmark.aggregates[0].name][benchmark.headline]


def oracle(item: Item) -> FloatArray:
    """The truth itself: ratings where there are some."""
    is_rated = not isinstance(item.truth, Sparse) and item.truth.dtype != np.bool_
    return np.asarray(item.truth) if is_rated else true_cells(item.truth, item.id).astype(float)


LOW = ("brittleness", "same_answer", "share_neg", "share_hp", "share_both", "share_tie")
"""Metrics that are 0 for the truth."""


def test_the_truth_is_right_and_a_constant_is_not(
    benchmark: Benchmark, small: Small, root: Path, numbers: Numbers
) -> None:
    items = benchmark.load(root)
    best = numbers(benchmark, items, oracle)
    assert small.perfect <= headline(benchmark, best).value + 1e-12 <= 1 + 1e-9
    for metrics in best.values():
        rates = {name: e.value for name, e in metrics.items() if e.is_rate}
        assert rates == pytest.approx({name: float(not name.startswith(LOW)) for name in rates})
    assert headline(benchmark, numbers(benchmark, items, "constant")).value == small.ours
    official = numbers(benchmark, items, "constant", ties=benchmark.official_ties or "wrong")
    expected = small.official
    if expected is None:
        expected = float(np.mean([np.asarray(item.truth)[0, 0] for item in items]))
    assert headline(benchmark, official).value == pytest.approx(expected)


def test_a_random_scorer_is_at_chance(benchmark: Benchmark, root: Path, numbers: Numbers) -> None:
    items = benchmark.load(root)

    def drawn(seed: int) -> Mapping[str, Estimate]:
        def score(item: Item) -> FloatArray:
            rng = np.random.default_rng([seed, *item.id.encode()])
            return rng.standard_normal(item.truth.shape)

        return numbers(benchmark, items, score)[benchmark.aggregates[0].name]

    first = drawn(0)
    assert first[benchmark.headline].chance is not None
    # The files of some are tiny: drawn often enough for 300 units at least.
    draws = [first, *(drawn(seed) for seed in range(1, 300 // first[benchmark.headline].n + 1))]
    for metric, estimate in first.items():
        chance, units = estimate.chance, sum(results[metric].n for results in draws)
        if chance is None:
            continue
        # Of a share; for a rank correlation, whose chance is 0, that of Kendall's tau.
        spread = np.sqrt(chance * (1 - chance) / units) if chance else np.sqrt(4 / 9 / units)
        mean = np.mean([results[metric].value for results in draws])
        assert mean == pytest.approx(chance, abs=4 * spread + 1e-12), metric


def test_published_numbers_have_a_rule_of_the_benchmark(benchmark: Benchmark, root: Path) -> None:
    tags = {f"{tag}={value}" for i in benchmark.load(root) for tag, value in i.tags.items()}
    rules = {rule.name for rule in benchmark.aggregates} | {f"micro[{tag}]" for tag in tags} | {""}
    published = {row.aggregate for row in benchmark.published}
    if benchmark.name in ("whatsup_a", "whatsup_b", "mmvp_vlm"):
        # Tags of units, and patterns that only the official files have.
        published = {rule for rule in published if not rule.startswith("micro[")}
    assert published <= rules
    assert all(abs(row.value) <= 1 for row in benchmark.published)
    cells = [
        (row.model, row.metric, row.aggregate, row.scoring, row.has_errata, row.source)
        for row in benchmark.published
    ]
    assert len(set(cells)) == len(cells)


def test_blind_baselines_run_on_the_annotations_alone(
    benchmark: Benchmark, root: Path, tmp_path: Path, numbers: Numbers
) -> None:
    scorers = {name: load(name.removeprefix("caption:")) for name in ALL}
    job = Job(
        scorers=list(scorers.values()),
        benchmarks=[benchmark],
        out=tmp_path / "run",
        data=tmp_path,
        protocol=EvalProtocol(resamples=20),
    )
    results = [r for r in run(job).contents.results if r.protocol.ties == "wrong"]
    first = {result.scorer: result for result in reversed(results)}
    assert set(first) == set(ALL)
    items = benchmark.load(root)
    for name, scorer in scorers.items():

        def direct(item: Item, scorer: Scorer = scorer) -> FloatArray:
            queries = [Query(p, c, item.question) for p in item.images for c in item.captions]
            return np.reshape(np.asarray(scorer.score(queries)), item.truth.shape)

        expected = headline(benchmark, numbers(benchmark, items, direct))
        estimate = first[name].overall[benchmark.headline]
        assert first[name].is_blind
        assert (estimate.value, estimate.n) == (expected.value, expected.n)


def test_no_folder_is_an_error(benchmark: Benchmark) -> None:
    with pytest.raises(UnbagError, match=f"benchmark '{benchmark.name}|is read from files"):
        benchmark.load(None)
