"""Whatever is in a file: items, or an UnbagError that names file and record."""

import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unbag.benchmarks.flickr8k import CROWD, EXPERTS, TOKENS
from unbag.data.images import FileImage
from unbag.errors import UnbagError
from unbag.evaluation.loading import absent_images
from unbag.evaluation.plan import check_items, make_plan
from unbag.models.baselines import load
from unbag.types import Item, Query, Sparse

from .small import SMALL, benchmark_of, group, write_rows

WITH_ROWS = [n for n, s in SMALL.items() if s.make is None and "order_free" not in n]
JSON = [n for n in WITH_ROWS if benchmark_of(n).files[0].endswith(("json", "jsonl"))]
FEW = 8
"""Rows of the files to spoil."""
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*no tagger", "ignore:.*absent", "ignore:.*of (its|their) set", "ignore:captions that"
)


def rows_of(name: str, file: str = "") -> tuple[str, Any]:
    """A file of a benchmark with few rows, copied so that they can be changed."""
    files = SMALL[name].files(FEW)
    file = file or benchmark_of(name).files[0]
    rows = files[file]
    if file.endswith((".json", ".jsonl")):
        return file, json.loads(json.dumps(rows))
    return file, [dict(row) if isinstance(row, dict) else list(row) for row in rows]


def load_spoiled(root: Path, name: str, file: str, rows: Any) -> list[Item]:
    if not any(root.iterdir()):
        SMALL[name].build(root, FEW)
    write_rows(root / file, rows)
    return list(benchmark_of(name).load(root))


DROP = object()
"""In place of a value: the field is missing; in place of a field: the whole row is replaced."""
Change = Callable[[Any], object]
BOX = "x, y, width, height are not a box"
BAD: list[tuple[str, int, object, object, str]] = [
    # benchmark, row, field, value, what the message says after the file
    ("aro_attribution", 0, "bbox_w", 0, "record 0: a box of 0 x 10 pixels"),
    ("aro_attribution", 0, "bbox_x", True, r"record 0\.bbox_x is True"),
    ("aro_attribution", 0, "bbox_y", "1", r"record 0\.bbox_y is '1'"),
    ("aro_attribution", 0, "attributes", ["red"], "record 0: 1 attributes"),
    ("aro_order_coco", 0, "caption", [], "record 0 has no captions"),
    ("aro_order_coco", 0, "caption", ["a", " . "], "record 0: caption 1 is empty"),
    ("aro_order_coco", 0, "shuffles", [], "record 0: shuffles 0 for 2 captions"),
    ("aro_order_coco", 0, "shuffles", [{"all": "a"}, {}], r"shuffles \['all'\] for 2"),
    ("aro_order_coco", 0, "shuffles", [{"trigrams": 1}], r"record 0\.shuffles\[0\]\.trigrams is 1"),
    ("cola", 0, 0, "", "record 0: image_1 is empty"),
    ("cola", 0, 2, 3, r"record 0\.image_2 is 3"),
    ("cola", 0, DROP, ["a.jpg", "x", "b.jpg"], "record 0 is a list of 3"),
    ("coco_spatial", 0, 0, 1.5, r"record 0\.image_id is 1\.5"),
    ("coco_spatial", 0, 0, True, r"record 0\.image_id is True"),
    ("coco_spatial", 0, 0, "../x", r"record 0\.image_id is '\.\./x'"),
    ("coco_spatial", 0, DROP, [1, "a left"], "record 0 is a list of 2"),
    ("coco_spatial", 0, DROP, {"a": 1}, "record 0 is dict"),
    ("coco_spatial", 0, DROP, "../../x", "record 0 is str"),
    ("crepe", 0, "hard_negs", "['b'", r"row 1: hard_negs is \"\['b'\""),
    ("crepe", 0, "hard_negs", "[]", r"row 1: hard_negs is '\[\]'"),
    ("crepe", 0, "hard_negs", "[1]", "row 1: hard_negs is"),
    ("crepe", 0, "hard_negs", "__import__('os')", "row 1: hard_negs is"),
    ("crepe", 0, "width", "x", f"row 1: {BOX}"),
    ("crepe", 0, "width", "nan", f"row 1: {BOX}"),
    ("crepe", 0, "width", "inf", f"row 1: {BOX}"),
    ("eqben", 0, DROP, "x", "record 0 is 'x'"),
    ("flickr8k", 0, DROP, ["0_a.jpg", "1_a.jpg#2", 1, 2], "line 1 .*4 cells"),
    ("flickr8k", 0, 4, 5, "line 1: '5' is not a rating"),
    ("flickr8k", 1, 3, "x", "line 2: 'x' is not a rating"),
    ("flickr8k", 0, 1, "9_a.jpg#2", "line 1: there is no caption '9_a.jpg#2'"),
    ("flickr8k", 0, 0, "../x", "'../x' is not an image name"),
    ("flickr8k_crowd", 0, 2, 0.7, "line 1: a share of 0.7 with . yes and . no"),
    ("flickr8k_crowd", 0, DROP, ["a", "0_a.jpg#2", 0, 0, 0], "share of 0 with 0 yes and 0 no"),
    ("flickr8k_crowd", 0, 2, -1, "line 1: '-1' is not a rating"),
    ("mmvp", 0, "Options", "(a) Yes", "row 1: Options is '\\(a\\) Yes'"),
    ("mmvp", 0, "Options", "(a) Yes (b) ", "row 1: Options is"),
    ("mmvp", 0, "Correct Answer", "(c)", "row 1: Correct Answer is '\\(c\\)'"),
    ("mmvp_vlm", 0, "Question ID", 3, "have ids 3 and 2"),
    ("mmvp_vlm", 0, "Question ID", "x", "row 1: Question ID is 'x'"),
    ("mmvp_vlm", 1, "Type", "B", "types 'Pattern 0' and 'B'"),
    ("naturalbench", 5, 2, "Maybe", "record 5: answer 'Maybe' of a question of type 'yes_no'"),
    ("naturalbench", 5, 3, "free", "record 5: answer 'No' of a question of type 'free'"),
    ("naturalbench", 4, 1, 3, r"record 4\.image is 3"),
    ("naturalbench", 4, DROP, ["q", "i", "Yes"], "record 4 is a list of 3"),
    ("naturalbench", 1, DROP, group(0)[0], "record 0 and the next three are not a group"),
    ("naturalbench_retrieval", 0, "index", 1, "record 0: index is 1"),
    ("coco_retrieval", 0, "caption", [], r"record 0: caption is \[\]"),
    ("coco_retrieval", 0, "caption", ["a", " "], "record 0: caption is"),
    ("coco_retrieval", 0, "caption", "a", r"record 0\.caption is 'a'"),
    ("coco_retrieval", 0, DROP, ["a"], "record 0 is a list"),
    (
        "coco_retrieval",
        2,
        "image",
        "val2014//0.jpg",
        r"record 2: its image is also that of .*_test\.json, record 0: 0\.jpg",
    ),
    (
        "svo_probes",
        0,
        "verb_neg",
        "True",
        "row 1: subj_neg, verb_neg, obj_neg are 'True', 'True', 'False'",
    ),
    (
        "svo_probes",
        0,
        "subj_neg",
        "1",
        "row 1: subj_neg, verb_neg, obj_neg are '1', 'False', 'False'",
    ),
    ("valse", 0, "mturk", {"caption": "two"}, r"record 'id0'\.mturk\.caption is 'two'"),
    ("vl_checklist", 0, DROP, ["1.jpg"], "record 0 is not a pair"),
    ("vl_checklist", 0, DROP, {"POS": ["a"]}, "record 0 is not a pair"),
    ("vl_checklist", 0, 1, {"POS": ["a"]}, r"record 0\.NEG is missing"),
    ("vl_checklist", 0, 1, {"POS": [], "NEG": ["b"]}, "record 0: POS is empty"),
    ("vl_checklist", 0, 1, {"POS": ["a"], "NEG": [" "]}, "record 0: NEG is empty"),
    ("vl_checklist", 0, 0, "../1.jpg", "is not an image name"),
    ("vl_checklist", 0, 0, 1, "record 0, image is 1"),
    ("vsr", 0, "label", 2, r"line 1\.label is 2"),
    ("vsr", 0, "label", True, r"line 1\.label is True"),
    ("vsr", 0, "label", "1", r"line 1\.label is '1'"),
    ("vsr", 0, "image_link", "x.jpg", "line 1: image_link is 'x.jpg'"),
    ("whatsup_a", 4, "image_path", "mug_left_of_plate.jpeg", "record 4: a second image of 'mug_p"),
    ("whatsup_a", 2, "image_path", "cup_on_plate.jpeg", "the set 'mug_plate' has no image on"),
    ("whatsup_a", 1, "image_path", "mug_near_plate.jpeg", "record 1: image name"),
    ("whatsup_a", 1, "caption_options", ["a", "b"], "record 1: caption_options is"),
    ("whatsup_a", 1, "caption_options", ["a", " ", "b", "c"], "record 1: caption_options is"),
    ("whatsup_a", 1, DROP, 7, "record 1 is 7"),
    ("winoground", 1, "id", "0", r"line 2\.id is '0'"),
    ("winoground", 1, "image_0", "", "line 2: image_0 is empty"),
    ("winoground", 1, "image_0", "/etc/x", "is not an image name"),
]


@pytest.mark.parametrize(("name", "row", "field", "value", "message"), BAD)
def test_a_bad_value_is_named(
    name: str, row: int, field: Any, value: Any, message: str, tmp_path: Path
) -> None:
    places = {"flickr8k": EXPERTS, "flickr8k_crowd": CROWD}
    file, rows = rows_of(name, places.get(name, ""))
    key = list(rows)[row] if isinstance(rows, dict) else row
    if field is DROP:
        rows[key] = value
    else:
        rows[key][field] = value
    with pytest.raises(UnbagError, match=message) as error:
        load_spoiled(tmp_path, name, file, rows)
    assert Path(file).name in str(error.value) or "mug_plate" in message


@pytest.mark.parametrize(
    ("name", "file", "change", "message"),
    [
        ("naturalbench", "", lambda rows: rows.pop(), "has 31 rows"),
        ("mmvp_vlm", "", lambda rows: rows.pop(), "has 143 rows"),
        (
            "sugarcrepe",
            "",
            lambda rows: rows.update({"\ud800": rows["0"]}),
            "sugarcrepe cannot be read: the key .* holds half a character",
        ),
        ("flickr8k", TOKENS, lambda rows: rows[0].pop(), r"Flickr8k\.token\.txt, line 1 .*1 cells"),
        ("flickr8k", TOKENS, lambda rows: rows.append(rows[0]), "'0_a.jpg#0' stands twice"),
    ],
)
def test_bad_rows_are_named(
    name: str, file: str, change: Change, message: str, tmp_path: Path
) -> None:
    file, rows = rows_of(name, file)
    change(rows)
    with pytest.raises(UnbagError, match=message):
        load_spoiled(tmp_path, name, file, rows)


UNUSED = {
    "hard_positive_replace": ("image_id",),
    "hard_positive_swap": ("image_id",),
    "aro_order_coco": ("shuffles",),
    "aro_order_flickr30k": ("shuffles",),
    "mmvp": ("Index",),
    "svo_probes": ("pos_url",),
}
TEXTS = {"cola": (1, 3), "coco_spatial": (1, 2), "gqa_spatial": (1, 2), "naturalbench": (0,)}


@pytest.mark.parametrize("name", [n for n in WITH_ROWS if "flickr8k" not in n])
def test_every_missing_null_or_blank_field_is_named_with_its_record(
    name: str, tmp_path: Path
) -> None:
    file, rows = rows_of(name)
    at = 3 if len(rows) > 3 else 0
    key = list(rows)[at] if isinstance(rows, dict) else at
    good: Any = rows[key]
    is_table = file.endswith("csv")
    place = rf"(record '?{key}|(line|row) {at + 1})\b"
    fields: list[Any] = list(good) if isinstance(good, dict) else list(range(len(good)))
    for field in [f for f in fields if f not in UNUSED.get(name, ())]:
        is_text = field in TEXTS.get(name, ()) or str(field).rstrip("012") in (
            *("caption", "caption_", "negative_caption", "true_caption", "false_caption", "foil"),
            *("sentence", "Statement", "Question"),
        )
        values = [*([] if is_table else [None]), *([" "] if is_text else [])]
        bad = [good | {field: v} if isinstance(good, dict) else
               [v if f == field else good[f] for f in fields] for v in values]  # fmt: skip
        if isinstance(good, dict) and not is_table:
            bad.append({f: good[f] for f in fields if f != field})
        for row in bad:
            rows[key] = row
            with pytest.raises(UnbagError, match=place):
                load_spoiled(tmp_path, name, file, rows)
    if is_table:
        # A row may end early, and a table may lack a column.
        rows[key] = {f: good[f] for f in fields[:1]}
        with pytest.raises(UnbagError, match=place):
            load_spoiled(tmp_path, name, file, rows)
        used = [f for f in fields if f not in UNUSED.get(name, ())]
        lacking = [{f: row[f] for f in fields if f in row and f != used[-1]} for row in rows]
        with pytest.raises(UnbagError, match=f"has no column '{used[-1]}'"):
            load_spoiled(tmp_path, name, file, lacking)


@pytest.mark.parametrize("name", SMALL)
def test_missing_files_are_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match=f"{name.replace('order_free', 'retrieval')}.*( has no f"
                       r"|none of its|class folders)"):  # fmt: skip
        benchmark_of(name).load(tmp_path)


@pytest.mark.parametrize("name", JSON)
def test_a_truncated_file_is_named(name: str, tmp_path: Path) -> None:
    SMALL[name].build(tmp_path, FEW)
    path = tmp_path / benchmark_of(name).files[0]
    path.write_text(path.read_text()[:-5])
    with pytest.raises(UnbagError, match=f"{path.name}(, line .*)? of {name} cannot be read"):
        benchmark_of(name).load(tmp_path)


@pytest.mark.parametrize("content", ["[]", "{}", "3", '"text"'])
def test_a_file_without_records_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "test.json").write_text(content)
    with pytest.raises(UnbagError, match=r"test\.json of colorswap (has no records|holds a)"):
        benchmark_of("colorswap").load(tmp_path)


def fill(root: Path, name: str, content: bytes) -> None:
    for file in benchmark_of(name).files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(content)


@pytest.mark.parametrize("name", WITH_ROWS)
def test_bytes_that_are_no_text_are_named(name: str, tmp_path: Path) -> None:
    fill(tmp_path, name, b"\xff\x00\xfe")
    with pytest.raises(UnbagError, match=f"of {name} cannot be read"):
        benchmark_of(name).load(tmp_path)


def survives(root: Path, name: str) -> None:
    """What loads can also be looked for on disk, known by its content and scored blind."""
    try:
        items = benchmark_of(name).load(root)
        check_items(name, items)
    except UnbagError:
        return
    assert all(isinstance(item, Item) for item in items)
    images = [image for item in items for image in item.images]
    assert all(image.key for image in images)
    assert absent_images(items) <= {p.path for p in images if isinstance(p, FileImage)}
    queries = [Query(i.images[0], c, i.question) for i in items for c in i.captions]
    for blind in ("random", "short"):
        assert np.isfinite(load(blind).score(queries[:100])).all()
    if not isinstance(items[0].truth, Sparse):
        assert make_plan({name: items}).fingerprints[name]


WORDS = st.sampled_from(
    [
        *("mug_on_plate.jpeg", "Yes", "A", "yes_no", "(a)", "(a) x (b) y", "True", "1", "nan", ""),
        *("a/val2017/b", "half a \ud800 character", "a\0b.jpg", "long" * 70 + ".jpg", " ", "a.jpg"),
    ]
)
LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | WORDS
KEYS = st.sampled_from(["caption", "image", "POS", "0"]) | st.text(max_size=5)
ANYTHING = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
QUIET = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def spots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place inside a value of JSON, as container and key."""
    if isinstance(value, list | dict):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from spots(value[key])


@pytest.mark.parametrize("name", WITH_ROWS)
@QUIET
@given(content=ANYTHING, word=WORDS | st.text(max_size=6), at=st.integers(0, 40))
def test_anything_in_one_place(
    name: str, content: object, word: str, at: int, tmp_path: Path
) -> None:
    file, rows = rows_of(name)
    container, key = next(islice(spots(rows), at, None), (rows, 0))
    is_row = container is rows and not file.endswith((".json", ".jsonl"))
    if is_row:
        del rows[key]
    else:
        container[key] = content if name in JSON else word.encode(errors="replace").decode()
    if not any(tmp_path.iterdir()):
        SMALL[name].build(tmp_path, 1 if name == "vl_checklist" else FEW)
    write_rows(tmp_path / file, rows)
    survives(tmp_path, name)


@pytest.mark.parametrize("name", SMALL)
@QUIET
@given(
    content=st.binary(max_size=200)
    | st.text(max_size=60).map(str.encode)
    | (ANYTHING | st.lists(st.lists(LEAF, min_size=3, max_size=4), max_size=4))
    .map(json.dumps)
    .map(str.encode)
)
def test_anything_in_all_files(name: str, content: bytes, tmp_path: Path) -> None:
    if "*" not in benchmark_of(name).files[0]:
        fill(tmp_path, name, content)
        survives(tmp_path, name)


@pytest.mark.parametrize("name", ["crepe", "mmvp", "mmvp_vlm", "svo_probes"])
@QUIET
@given(text=st.text(st.sampled_from("a1,\"'[]\n\0 é"), max_size=60))
def test_anything_below_the_head_of_a_table(name: str, text: str, tmp_path: Path) -> None:
    file, rows = rows_of(name)
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(",".join(rows[0]) + "\n" + text, encoding="utf-8")
    survives(tmp_path, name)
