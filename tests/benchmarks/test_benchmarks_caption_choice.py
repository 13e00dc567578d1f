"""What holds for every benchmark of captions and hard negatives, on small files of its schema."""

import csv
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbag.benchmarks.crepe import SOURCES as CREPE_SOURCES
from unbag.benchmarks.sugarcrepe import KINDS
from unbag.benchmarks.sugarcrepe_pp import KINDS as PP_KINDS
from unbag.benchmarks.valse import INSTRUMENTS
from unbag.benchmarks.vl_checklist import SOURCES
from unbag.edits.shuffles import SHUFFLES
from unbag.errors import UnbagError
from unbag.registry import find
from unbag.types import Benchmark, Estimate

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def sugarcrepe(root: Path) -> None:
    row = {"filename": "1.jpg", "caption": "a cat", "negative_caption": "a dog"}
    for kind in KINDS:
        write(root / f"{kind}.json", {str(2 * i): row for i in range(30)})


def sugarcrepe_pp(root: Path) -> None:
    row = {"filename": "1.jpg", "caption": "a", "caption2": "b", "negative_caption": "c"}
    for kind in PP_KINDS:
        write(root / f"{kind}.json", [{"id": i, **row} for i in range(60)])


def valse(root: Path) -> None:
    row = {"image_file": "1.jpg", "caption": "a", "foil": "b", "mturk": {"caption": 2}}
    for instrument in INSTRUMENTS:
        write(root / f"{instrument}.json", {f"id{i}": row for i in range(30)})


def vl_checklist(root: Path) -> None:
    for source in SOURCES:
        write(root / source.file, [["1.jpg", {"POS": ["a"], "NEG": ["b"]}]] * 12)


def hard_positives(*names: str) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        for name in names:
            row = {"image_id": "1", "image_path": "data/1.jpg", "false_caption": "c"}
            write(root / "data" / name, [{**row, "true_caption": "a"}] * 150)
            write(root / "swapped_data" / name, [{**row, "true_caption": "b"}] * 150)

    return make


def aro(name: str) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        box = {"bbox_x": 2, "bbox_y": 3, "bbox_w": 20, "bbox_h": 10}
        row = {"image_path": "1.jpg", "true_caption": "a", "false_caption": "b", **box}
        write(root / name, [{**row, "relation_name": "on", "attributes": ["red", "wet"]}] * 300)

    return make


def order(name: str) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        captions = ["a b c d", "e f g h"]
        shuffles = [{kind: f"{kind} {caption}" for kind in SHUFFLES} for caption in captions]
        row = {"image": "1.jpg", "caption": captions, "shuffles": shuffles}
        write(root / name, [row] * 200)

    return make


def crepe(root: Path) -> None:
    for source in CREPE_SOURCES:
        path = root / source.file
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            columns = ["image_id", "caption", "x", "y", "width", "height", *source.columns]
            table = csv.writer(file)
            table.writerow(columns)
            negatives = [repr(["b", "c", "d", "e", "f"])] * len(source.columns)
            table.writerows([["1", "a", "1", "2", "20", "30.0", *negatives]] * 12)


@dataclass(frozen=True)
class Small:
    """How to write a small folder of a benchmark, and what it must give."""

    make: Callable[[Path], None]
    file: str
    """One to break."""
    items: int
    images: str
    chance: float
    constant: float = 0.0
    """Of a scorer that says the same of everything, under the official tie rule."""


RELATIONS, ATTRIBUTION = "visual_genome_relation.json", "visual_genome_attribution.json"
REPLACED = tuple(f"vl_checklist_{subset}.json" for subset in ("attributes", "relations"))
COCO, FLICKR = "coco_karpathy_test.json", "flickr30k_test.json"
SMALL = {
    "sugarcrepe": Small(sugarcrepe, "swap_obj.json", 210, "val2017", 1 / 2),
    "sugarcrepe_pp": Small(sugarcrepe_pp, "swap_obj.json", 300, "../coco/val2017", 1 / 3),
    "valse": Small(valse, "plurals.json", 330, "images", 1 / 2),
    "vl_checklist": Small(vl_checklist, "Relation/vg/spatial.json", 672, "vg swig hake", 1 / 2),
    "hard_positive_replace": Small(
        hard_positives(*REPLACED), f"data/{REPLACED[0]}", 300, "data data/VG_100K", 1 / 3
    ),
    "hard_positive_swap": Small(
        hard_positives(ATTRIBUTION), f"data/{ATTRIBUTION}", 150, "data/images", 1 / 3
    ),
    "aro_relation": Small(aro(RELATIONS), RELATIONS, 300, "images", 1 / 2),
    "aro_attribution": Small(aro(ATTRIBUTION), ATTRIBUTION, 300, "../aro/images", 1 / 2),
    "aro_order_coco": Small(order(COCO), COCO, 400, "../coco ../coco/val2014", 1 / 5, 1.0),
    "aro_order_flickr30k": Small(order(FLICKR), FLICKR, 400, ". flickr30k-images", 1 / 5, 1.0),
    "crepe": Small(crepe, CREPE_SOURCES[0].file, 27 * 12 + 6 * 24, "VG_100K", 1 / 6),
}
JSON = [name for name in SMALL if name != "crepe"]


def benchmark_of(name: str) -> Benchmark:
    found = find("benchmark", name)
    assert isinstance(found, Benchmark)
    return found


@pytest.fixture(params=SMALL)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(name: str, tmp_path: Path, photo: Callable[[Path], None]) -> Path:
    """The small folder of a benchmark, with images of the world in one of its places."""
    root = tmp_path / name
    root.mkdir()
    SMALL[name].make(root)
    for place in SMALL[name].images.split():
        photo(root / place / "1.jpg")
    return root


def test_loads_with_unique_ids_and_images_that_open(name: str, root: Path) -> None:
    items = benchmark_of(name).load(root)
    assert len(items) == len({item.id for item in items}) == SMALL[name].items
    assert len({id(image) for item in items for image in item.images}) <= 3
    for image in {image for item in items for image in item.images}:
        assert image.open().mode == "RGB"


@pytest.mark.parametrize("ties", ["wrong", "official"])
def test_known_scorers_get_known_numbers(
    name: str, root: Path, ties: str, numbers: Numbers
) -> None:
    benchmark = benchmark_of(name)
    items = benchmark.load(root)
    rule = (benchmark.official_ties if ties == "official" else None) or "wrong"
    for score, expected, margin in (
        ("perfect", 1.0, 0.0),
        ("constant", SMALL[name].constant if ties == "official" else 0.0, 0.0),
        ("random", SMALL[name].chance, 0.08),
    ):
        found = numbers(benchmark, items, score, ties=rule)
        headline = next(iter(found.values()))[benchmark.headline]
        assert headline.value == pytest.approx(expected, abs=margin + 1e-12)
        assert headline.chance == pytest.approx(SMALL[name].chance)


def test_names_of_published_rules_exist(name: str, root: Path) -> None:
    benchmark = benchmark_of(name)
    tags = {f"{tag}={value}" for i in benchmark.load(root) for tag, value in i.tags.items()}
    known = {rule.name for rule in benchmark.aggregates} | {f"micro[{tag}]" for tag in tags} | {""}
    assert {row.aggregate for row in benchmark.published} <= known
    assert all(0 <= row.value <= 1 for row in benchmark.published)
    cells = [(row.model, row.metric, row.aggregate, row.source) for row in benchmark.published]
    assert len(set(cells)) == len(cells)


def test_no_folder_and_a_missing_file_are_named(name: str, root: Path) -> None:
    with pytest.raises(UnbagError, match="is read from files"):
        benchmark_of(name).load(None)
    if name not in ("vl_checklist", "crepe"):
        (root / SMALL[name].file).unlink()
        with pytest.raises(UnbagError, match=f"{name} has no file .*{SMALL[name].file}"):
            benchmark_of(name).load(root)


@pytest.mark.parametrize("name", JSON)
def test_a_cut_file_is_named(name: str, root: Path) -> None:
    path = root / SMALL[name].file
    path.write_text(path.read_text()[:-5])
    with pytest.raises(UnbagError, match=f"{SMALL[name].file} of {name} cannot be read"):
        benchmark_of(name).load(root)


@pytest.mark.parametrize("name", [name for name in JSON if name != "vl_checklist"])
def test_every_missing_or_blank_field_is_named_with_its_record(name: str, root: Path) -> None:
    path = root / SMALL[name].file
    rows = json.loads(path.read_text())
    key = list(rows)[7] if isinstance(rows, dict) else 7
    good = dict(rows[key])
    # Nobody reads image_id; shuffles and attributes of the other half may be left out.
    free = {"image_id", "shuffles", "attributes" if "relation" in name else "relation_name"}
    for field in set(good) - free:
        rows[key] = {k: v for k, v in good.items() if k != field}
        path.write_text(json.dumps(rows))
        with pytest.raises(UnbagError, match=f"{SMALL[name].file}, record .*7|record '14'|id7"):
            benchmark_of(name).load(root)
        rows[key] = {**good, field: " " if "caption" in field or field == "foil" else None}
        path.write_text(json.dumps(rows))
        with pytest.raises(UnbagError, match="record"):
            benchmark_of(name).load(root)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["filename", "caption", "image", "image_path", "true_caption", "POS", "0"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("name", JSON)
@given(content=JSON_VALUES)
@settings(max_examples=15, deadline=None)
def test_any_json_gives_items_or_a_user_error(name: str, content: object) -> None:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root = Path(folder)
        for file in benchmark_of(name).files:
            write(root / file, content)
        with suppress(UnbagError):
            assert isinstance(benchmark_of(name).load(root), list)


def spots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place inside a JSON value, as container and key."""
    if isinstance(value, list | dict):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from spots(value[key])


@pytest.mark.parametrize("name", JSON)
@given(content=JSON_VALUES, at=st.integers(0, 40))
@settings(max_examples=15, deadline=None)
def test_any_json_in_one_place_gives_items_or_a_user_error(
    name: str, content: object, at: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root, file = Path(folder), SMALL[name].file
        if name == "vl_checklist":
            write(root / file, [["1.jpg", {"POS": ["a"], "NEG": ["b"]}]])
        else:
            SMALL[name].make(root)
        whole = json.loads((root / file).read_text())
        container, key = next(islice(spots(whole), at, None), (whole, 0))
        container[key] = content
        write(root / file, whole)
        with suppress(UnbagError):
            assert isinstance(benchmark_of(name).load(root), list)


@given(st.text(st.sampled_from("a1,\"'[]\n\0 é"), max_size=60))
@settings(max_examples=60, deadline=None)
def test_any_table_gives_items_or_a_user_error(text: str) -> None:
    file = SMALL["crepe"].file
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / file
        path.parent.mkdir(parents=True)
        path.write_text("image_id,caption,x,y,width,height,hard_negs\n" + text, encoding="utf-8")
        with suppress(UnbagError):
            assert isinstance(benchmark_of("crepe").load(Path(folder)), list)
