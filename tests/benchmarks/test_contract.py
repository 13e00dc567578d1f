"""What holds for every benchmark that is read from files, on small ones in its official schema.

The files are written by the tests of each benchmark; BUILDERS says how, and a test names every
registered benchmark that is not in it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.metrics.cases import true_cells
from unbag.models.baselines import ALL, load
from unbag.registry import find, names
from unbag.types import Benchmark, Estimate, EvalProtocol, FloatArray, Item, Query, Scorer, Sparse

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]
WITH_FILES = [name for name in names("benchmark") if not name.startswith("world-")]


@cache
def beside(name: str) -> ModuleType:
    """Another test file of this folder; tests are no package, so they cannot import each other."""
    path = Path(__file__).with_name(f"test_benchmarks_{name}.py")
    spec = spec_from_file_location(f"contract_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def benchmark_of(name: str) -> Benchmark:
    found = find("benchmark", name)
    assert isinstance(found, Benchmark)
    return found


@dataclass(frozen=True)
class Small:
    """How to write a small folder of a benchmark, and what known scorers get on it."""

    tests: str
    """The test file that knows the schema."""
    build: Callable[[Any, Path], object]
    """Takes that file as a module, and the folder."""
    official: float | None = 0.0
    """A constant scorer's headline under the official tie rule; None: the share of items whose
    first caption is true, which is what argmax takes."""
    ours: float = 0.0
    """The same under our rule, by which a tie is wrong."""
    perfect: float = 1.0
    """The least that the truth itself scores."""


def choice(name: str, *, official: float = 0.0) -> Small:
    return Small("caption_choice", lambda t, root: t.SMALL[name].make(root), official)


def whatsup(letter: str) -> Small:
    def build(t: Any, root: Path) -> None:
        subset = getattr(t, letter)
        t.write(root, subset, t.rows(subset, sets=100))

    return Small("whatsup", build, 1.0)


def spatial(name: str) -> Small:
    def build(t: Any, root: Path) -> None:
        t.write(root, benchmark_of(name), t.ONE * 300, t.TWO * 100)

    return Small("spatial", build, 1.0)


def rows_of(tests: str, name: str, rows: str, n: int) -> Small:
    """Files that a function of so many rows and `write` make."""
    return Small(tests, lambda t, root: t.write(root, benchmark_of(name), getattr(t, rows)(n)))


def retrieval(name: str, n: int) -> Small:
    gallery = benchmark_of(name.replace("order_free", "retrieval"))
    return Small("retrieval", lambda t, root: t.write(root, gallery, t.rows(gallery, n)))


def vsr(t: Any, root: Path) -> None:
    rows = [t.line(n, n % 2) for n in range(800)]
    t.write(root, rows[:400], rows[400:])


def class_set(name: str) -> Small:
    return Small("class_sets", lambda t, root: t.LAYOUTS[name][0](root), None)


FOLDERS = Small(
    "classes", lambda t, root: t.lay_out(root, {f"class {c}": 40 for c in range(10)}), None
)
JUDGED = Small("flickr8k", lambda t, root: t.write(root, **t.many(300)), perfect=0.9)
BUILDERS: Mapping[str, Small] = {
    "sugarcrepe": choice("sugarcrepe"),
    "sugarcrepe_pp": choice("sugarcrepe_pp"),
    "valse": choice("valse"),
    "vl_checklist": choice("vl_checklist"),
    "hard_positive_replace": choice("hard_positive_replace"),
    "hard_positive_swap": choice("hard_positive_swap"),
    "aro_relation": choice("aro_relation"),
    "aro_attribution": choice("aro_attribution"),
    "aro_order_coco": choice("aro_order_coco", official=1.0),
    "aro_order_flickr30k": choice("aro_order_flickr30k", official=1.0),
    "crepe": choice("crepe"),
    "whatsup_a": whatsup("A"),
    "whatsup_b": whatsup("B"),
    "coco_spatial": spatial("coco_spatial"),
    "gqa_spatial": spatial("gqa_spatial"),
    "mmvp": Small("mmvp", lambda t, root: t.write(root, t.QUESTIONS, t.questions(600))),
    "mmvp_vlm": Small("mmvp", lambda t, root: t.write(root, t.STATEMENTS, t.statements(9, 40))),
    "winoground": rows_of("winoground", "winoground", "winoground", 400),
    "colorswap": rows_of("winoground", "colorswap", "colorswap", 400),
    "eqben": rows_of("two_by_two", "eqben", "eqben", 400),
    "cola": rows_of("two_by_two", "cola", "cola", 400),
    "naturalbench_retrieval": rows_of("two_by_two", "naturalbench_retrieval", "naturalbench", 400),
    "bivlc": Small("bivlc", lambda t, root: t.write(root, t.columns(0, 250))),
    "naturalbench": Small(
        "naturalbench",
        lambda t, root: t.write(root, [row for n in range(300) for row in t.group(n)]),
    ),
    # One answer for all statements, of which half are true: no tie is involved.
    "vsr": Small("vsr", vsr, 0.5, 0.5),
    "svo_probes": Small(
        "svo_probes",
        lambda t, root: t.write(root, [t.row(n, n % 3, f"Sentence {n}.") for n in range(400)]),
    ),
    "coco_retrieval": retrieval("coco_retrieval", 60),
    "flickr30k_retrieval": retrieval("flickr30k_retrieval", 60),
    "coco_order_free": retrieval("coco_order_free", 12),
    "flickr30k_order_free": retrieval("flickr30k_order_free", 12),
    "flickr8k": JUDGED,
    "flickr8k_crowd": JUDGED,
    **dict.fromkeys(("imagenet1k", "cifar10", "cifar100"), FOLDERS),
    **{
        name: class_set(name)
        for name in (
            *("caltech101", "food101", "flowers102", "pets", "cars", "aircraft", "dtd", "sun397"),
            *("stl10", "mnist", "svhn", "gtsrb", "eurosat", "resisc45", "country211"),
            *("rendered_sst2", "fer2013", "pcam"),
        )
    },
}
# Two of the shuffles need a tagger, and short captions have no other order; both are said.
pytestmark = pytest.mark.filterwarnings("ignore:.*no tagger", "ignore:captions that have no other")


def test_every_benchmark_has_a_builder() -> None:
    assert sorted(set(WITH_FILES) - set(BUILDERS)) == []
    assert sorted(set(BUILDERS) - set(WITH_FILES)) == []


@pytest.fixture(params=[name for name in WITH_FILES if name in BUILDERS])
def benchmark(request: pytest.FixtureRequest) -> Benchmark:
    return benchmark_of(request.param)


@pytest.fixture
def root(benchmark: Benchmark, tmp_path: Path) -> Path:
    """The folder of the benchmark, without images."""
    root = tmp_path / benchmark.place
    root.mkdir(parents=True)
    small = BUILDERS[benchmark.name]
    small.build(beside(small.tests), root)
    return root


def plain(item: Item) -> tuple[object, ...]:
    """All that an item says, in values that can be compared."""
    truth = item.truth
    if isinstance(truth, Sparse):
        cells: object = (truth.shape, truth.row_T.tolist(), truth.column_T.tolist())
    else:
        cells = (truth.dtype, truth.tolist())
    images = [image.name for image in item.images]
    told = (item.question, item.group, dict(item.tags), item.kinds)
    return item.id, images, item.captions, cells, *told


def test_loading_is_repeatable_looks_at_no_image_and_names_each_item_once(
    benchmark: Benchmark, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked(*_: object) -> object:
        raise AssertionError("an image was looked at")

    monkeypatch.setattr("unbag.data.images.FileImage.open", looked)
    monkeypatch.setattr("unbag.data.images.FileImage.key", property(looked))
    monkeypatch.setattr("PIL.Image.open", looked)
    first, second = benchmark.load(root), benchmark.load(root)
    assert len({item.id for item in first}) == len(first) > 0
    assert [plain(item) for item in first] == [plain(item) for item in second]


def headline(benchmark: Benchmark, found: Mapping[str, Mapping[str, Estimate]]) -> Estimate:
    return found[benchmark.aggregates[0].name][benchmark.headline]


def oracle(item: Item) -> FloatArray:
    """The truth itself: ratings where there are some."""
    is_rated = not isinstance(item.truth, Sparse) and item.truth.dtype != np.bool_
    return np.asarray(item.truth) if is_rated else true_cells(item.truth, item.id).astype(float)


def test_the_truth_is_right_and_a_constant_is_not(
    benchmark: Benchmark, root: Path, numbers: Numbers
) -> None:
    items, small = benchmark.load(root), BUILDERS[benchmark.name]
    best = headline(benchmark, numbers(benchmark, items, oracle)).value
    assert small.perfect <= best + 1e-12 <= 1 + 1e-9
    assert headline(benchmark, numbers(benchmark, items, "constant")).value == small.ours
    official = numbers(benchmark, items, "constant", ties=benchmark.official_ties or "wrong")
    expected = small.official
    if expected is None:
        expected = float(np.mean([np.asarray(item.truth)[0, 0] for item in items]))
    assert headline(benchmark, official).value == pytest.approx(expected)


def test_a_random_scorer_is_at_chance(benchmark: Benchmark, root: Path, numbers: Numbers) -> None:
    items = benchmark.load(root)

    def drawn(seed: int) -> Estimate:
        def score(item: Item) -> FloatArray:
            rng = np.random.default_rng([seed, *item.id.encode()])
            return rng.standard_normal(item.truth.shape)

        return headline(benchmark, numbers(benchmark, items, score))

    first = drawn(0)
    chance = first.chance
    assert chance is not None
    # The files of some are tiny: drawn often enough for 300 units at least.
    found = [first, *(drawn(seed) for seed in range(1, 300 // first.n + 1))]
    units = sum(estimate.n for estimate in found)
    # Of a share; for a rank correlation, whose chance is 0, that of Kendall's tau.
    spread = np.sqrt(chance * (1 - chance) / units) if chance else np.sqrt(4 / 9 / units)
    mean = np.mean([estimate.value for estimate in found])
    assert mean == pytest.approx(chance, abs=4 * spread)


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
        found = first[name].overall[benchmark.headline]
        assert first[name].is_blind
        assert (found.value, found.n) == (expected.value, expected.n)
