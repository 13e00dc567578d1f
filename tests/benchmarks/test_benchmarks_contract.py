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

from unbag.engine.job import Job
from unbag.engine.run import run
from unbag.models.caption_only import ALL, load
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
    """How to write a small folder of a benchmark, and what a constant scorer gets on it."""

    build: Callable[[Path], Any]
    official: float = 0.0
    """A constant scorer's headline under the official tie rule."""
    ours: float = 0.0
    """The same under our rule, by which a tie is wrong."""


def caption_choice(name: str) -> Small:
    def build(root: Path) -> None:
        beside("caption_choice").SMALL[name].make(root)

    return Small(build, 1.0 if "order" in name else 0.0)


def whatsup(letter: str) -> Small:
    def build(root: Path) -> None:
        tests = beside("whatsup")
        subset = getattr(tests, letter)
        tests.write(root, subset, tests.rows(subset, sets=100))

    return Small(build, 1.0)


def spatial(name: str) -> Small:
    def build(root: Path) -> None:
        tests = beside("spatial")
        tests.write(root, benchmark_of(name), tests.ONE * 300, tests.TWO * 100)

    return Small(build, 1.0)


def two_by_two(name: str) -> Small:
    def build(root: Path) -> None:
        tests = beside("winoground")
        tests.write(root, benchmark_of(name), getattr(tests, name)(400))

    return Small(build)


def retrieval(name: str) -> Small:
    def build(root: Path) -> None:
        tests = beside("retrieval")
        tests.write(root, benchmark_of(name), tests.rows(benchmark_of(name), 60))

    return Small(build)


def classes(root: Path) -> None:
    beside("classes").lay_out(root, {f"class {c}": 40 for c in range(10)})


def mmvp(root: Path) -> None:
    tests = beside("mmvp")
    tests.write(root, tests.QUESTIONS, tests.questions(600))


def mmvp_vlm(root: Path) -> None:
    tests = beside("mmvp")
    tests.write(root, tests.STATEMENTS, tests.statements(9, 40))


def naturalbench(root: Path) -> None:
    tests = beside("naturalbench")
    tests.write(root, [row for n in range(300) for row in tests.group(n)])


def vsr(root: Path) -> None:
    tests = beside("vsr")
    rows = [tests.line(n, n % 2) for n in range(800)]
    tests.write(root, rows[:400], rows[400:])


def svo_probes(root: Path) -> None:
    tests = beside("svo_probes")
    tests.write(root, [tests.row(n, n % 3, f"Sentence {n}.") for n in range(400)])


BUILDERS: Mapping[str, Small] = {
    **{
        name: caption_choice(name)
        for name in (
            *("sugarcrepe", "sugarcrepe_pp", "valse", "vl_checklist", "hard_positive_replace"),
            *("hard_positive_swap", "aro_relation", "aro_attribution", "aro_order_coco"),
            *("aro_order_flickr30k", "crepe"),
        )
    },
    "whatsup_a": whatsup("A"),
    "whatsup_b": whatsup("B"),
    "coco_spatial": spatial("coco_spatial"),
    "gqa_spatial": spatial("gqa_spatial"),
    "mmvp": Small(mmvp),
    "mmvp_vlm": Small(mmvp_vlm),
    "winoground": two_by_two("winoground"),
    "colorswap": two_by_two("colorswap"),
    "naturalbench": Small(naturalbench),
    # One answer for all statements, of which half are true: no tie is involved.
    "vsr": Small(vsr, 0.5, 0.5),
    "svo_probes": Small(svo_probes),
    "coco_retrieval": retrieval("coco_retrieval"),
    "flickr30k_retrieval": retrieval("flickr30k_retrieval"),
    **{name: Small(classes, 0.1) for name in ("imagenet1k", "cifar10", "cifar100")},
}


def test_every_benchmark_has_a_builder() -> None:
    assert sorted(set(WITH_FILES) - set(BUILDERS)) == []
    assert sorted(set(BUILDERS) - set(WITH_FILES)) == []


@pytest.fixture(params=[name for name in WITH_FILES if name in BUILDERS])
def benchmark(request: pytest.FixtureRequest) -> Benchmark:
    return benchmark_of(request.param)


@pytest.fixture
def root(benchmark: Benchmark, tmp_path: Path) -> Path:
    """The folder of the benchmark, without pictures."""
    root = tmp_path / (benchmark.folder or benchmark.name)
    root.mkdir()
    BUILDERS[benchmark.name].build(root)
    return root


def plain(item: Item) -> tuple[object, ...]:
    """All that an item says, in values that can be compared."""
    truth = item.truth
    if isinstance(truth, Sparse):
        cells: object = (truth.shape, truth.row_T.tolist(), truth.column_T.tolist())
    else:
        cells = (truth.dtype, truth.tolist())
    pictures = [picture.name for picture in item.pictures]
    told = (item.question, item.group, dict(item.tags), item.kinds)
    return item.id, pictures, item.captions, cells, *told


def test_loading_is_repeatable_looks_at_no_picture_and_names_each_item_once(
    benchmark: Benchmark, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked(*_: object) -> object:
        raise AssertionError("a picture was looked at")

    monkeypatch.setattr("unbag.pictures.files.FilePicture.open", looked)
    monkeypatch.setattr("unbag.pictures.files.FilePicture.key", property(looked))
    monkeypatch.setattr("PIL.Image.open", looked)
    first, second = benchmark.load(root), benchmark.load(root)
    assert len({item.id for item in first}) == len(first) > 0
    assert [plain(item) for item in first] == [plain(item) for item in second]


def headline(benchmark: Benchmark, found: Mapping[str, Mapping[str, Estimate]]) -> Estimate:
    return found[benchmark.aggregates[0].name][benchmark.headline]


def test_known_scorers_get_known_numbers(
    benchmark: Benchmark, root: Path, numbers: Numbers
) -> None:
    items = benchmark.load(root)
    assert headline(benchmark, numbers(benchmark, items, "perfect")).value == pytest.approx(1)
    small = BUILDERS[benchmark.name]
    assert headline(benchmark, numbers(benchmark, items, "constant")).value == small.ours
    official = numbers(benchmark, items, "constant", ties=benchmark.official_ties or "wrong")
    assert headline(benchmark, official).value == pytest.approx(small.official)
    found = headline(benchmark, numbers(benchmark, items, "random"))
    assert found.chance is not None
    # Four standard errors of as many fair draws.
    spread = np.sqrt(found.chance * (1 - found.chance) / found.n)
    assert found.value == pytest.approx(found.chance, abs=4 * spread + 0.01)


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
            queries = [Query(p, c, item.question) for p in item.pictures for c in item.captions]
            return np.reshape(np.asarray(scorer.score(queries)), item.truth.shape)

        expected = headline(benchmark, numbers(benchmark, items, direct))
        found = first[name].overall[benchmark.headline]
        assert first[name].is_blind
        assert (found.value, found.n) == (expected.value, expected.n)
