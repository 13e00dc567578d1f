"""Whatever stands in a file: items or a UnbagError, never another exception."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unbag.data.images import FileImage
from unbag.errors import UnbagError
from unbag.evaluation.loading import absent_images
from unbag.evaluation.plan import check_items, make_plan
from unbag.models.baselines import load
from unbag.registry import find
from unbag.types import Benchmark, Item, Query

# The fields of each benchmark, so that fuzzed records often get past the first check.
FIELDS = {
    "whatsup_a": ("image_path", "caption_options"),
    "whatsup_b": ("image_path", "caption_options"),
    "coco_spatial": (),
    "gqa_spatial": (),
    "naturalbench": (),
    "winoground": ("id", "image_0", "image_1", "caption_0", "caption_1", "tag", "collapsed_tag"),
    "vsr": ("image", "image_link", "caption", "label", "relation"),
    "colorswap": (
        "id",
        "caption_1",
        "caption_2",
        "image_1",
        "image_2",
        "image_source",
        "caption_source",
    ),
    "cola": (),
    "eqben": ("image0", "image1", "caption0", "caption1"),
    "naturalbench_retrieval": ("index", "image_0", "image_1", "caption_0", "caption_1"),
    "coco_retrieval": ("image", "caption"),
    "flickr30k_retrieval": ("image", "caption"),
}
TABLES = {
    "mmvp": ("Question", "Options", "Correct Answer"),
    "mmvp_vlm": ("Question ID", "Type", "Statement"),
    "svo_probes": (
        "sentence",
        "pos_image_id",
        "neg_image_id",
        "subj_neg",
        "verb_neg",
        "obj_neg",
    ),
}
TABBED = ("flickr8k", "flickr8k_crowd")
NO_TEXT = ("bivlc",)
EVERY = (*FIELDS, *TABLES, *TABBED, *NO_TEXT)
WORDS = st.sampled_from(
    [
        "mug_on_plate.jpeg",
        "Yes",
        "A",
        "yes_no",
        "(a)",
        "(a) x (b) y",
        "True",
        "1",
        "a/val2017/b",
        "",
        "half a \ud800 character",
        "a\0b.jpg",
        "long" * 70 + ".jpg",
    ]
)
LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | WORDS
ANYTHING = st.recursive(
    LEAF,
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
QUIET = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def benchmark(name: str) -> Benchmark:
    found = find("benchmark", name)
    assert isinstance(found, Benchmark)
    return found


def fill(root: Path, name: str, text: str) -> None:
    for file in benchmark(name).files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text, encoding="utf-8", errors="replace")


def survives(root: Path, name: str) -> None:
    """What loads can also be looked for on disk, known by its content and scored blind."""
    try:
        items = benchmark(name).load(root)
        check_items(name, items)
    except UnbagError:
        return
    assert all(isinstance(item, Item) for item in items)
    images = [image for item in items for image in item.images]
    assert all(image.key for image in images)
    assert absent_images(items) <= {p.path for p in images if isinstance(p, FileImage)}
    queries = [Query(i.images[0], c, i.question) for i in items for c in i.captions]
    for blind in ("random", "short"):
        assert np.isfinite(load(blind).score(queries)).all()
    assert make_plan({name: items}).fingerprints[name]


@pytest.mark.parametrize("name", FIELDS)
@QUIET
@given(data=st.data())
def test_any_json(name: str, data: st.DataObject, tmp_path: Path) -> None:
    record = st.fixed_dictionaries(dict.fromkeys(FIELDS[name], ANYTHING)) if FIELDS[name] else LEAF
    row = st.lists(LEAF, min_size=3, max_size=4)
    records = st.lists(record | row, max_size=4)
    content = data.draw(ANYTHING | records)
    many = content if isinstance(content, list) else [content]
    in_lines = benchmark(name).files[0].endswith(".jsonl")
    fill(tmp_path, name, "\n".join(map(json.dumps, many)) if in_lines else json.dumps(content))
    survives(tmp_path, name)


@pytest.mark.parametrize("name", TABLES)
@QUIET
@given(data=st.data())
def test_any_table(name: str, data: st.DataObject, tmp_path: Path) -> None:
    cell = WORDS | st.text(max_size=6)
    rows = data.draw(st.lists(st.lists(cell, max_size=7), max_size=4))
    lines = [",".join(TABLES[name]), *(",".join(row) for row in rows)]
    fill(tmp_path, name, "\n".join(lines))
    survives(tmp_path, name)


@pytest.mark.parametrize("name", TABBED)
@QUIET
@given(data=st.data())
def test_any_lines_with_tabs(name: str, data: st.DataObject, tmp_path: Path) -> None:
    cell = st.sampled_from(["a.jpg", "a.jpg#0", "1", "0.5", "2", "nan", "", " "]) | WORDS
    for file in benchmark(name).files:
        width = 2 if "token" in file else 5
        row = st.lists(cell, min_size=width, max_size=width) | st.lists(cell, max_size=6)
        rows = data.draw(st.lists(row, max_size=4))
        text = "\n".join("\t".join(cells) for cells in rows)
        (tmp_path / file).write_text(text, encoding="utf-8", errors="replace")
    survives(tmp_path, name)


@pytest.mark.parametrize("name", EVERY)
@QUIET
@given(text=st.text(max_size=30))
def test_any_text(name: str, text: str, tmp_path: Path) -> None:
    fill(tmp_path, name, text)
    survives(tmp_path, name)


@pytest.mark.parametrize("name", EVERY)
def test_bytes_that_are_no_text(name: str, tmp_path: Path) -> None:
    for file in benchmark(name).files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(b"\xff\x00\xfe")
    with pytest.raises(UnbagError, match="cannot be read"):
        benchmark(name).load(tmp_path)
