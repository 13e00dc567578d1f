"""Training pairs from every format, with edits from a real run of the editor."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from unbag.data.captions import Source
from unbag.data.pairs import PackedPairs, Pairs
from unbag.data.readers import form_of, open_pairs
from unbag.edits.editor import make_editor
from unbag.edits.jobs.run import EditJob, run_edit
from unbag.edits.jobs.workers import InProcess, Worker
from unbag.errors import UnbagError

from ..training.pair_files import (  # noqa: TID252
    DOG,
    MAN,
    image,
    lines,
    negative,
    said,
    two_images,
    two_lines,
)

KINDS = ("swap_nouns", "article")
Edit = Callable[[Path, Path], Path]


@pytest.fixture(scope="module")
def edit() -> Edit:
    """Runs `unbag edit`'s job from a file to a file."""
    pytest.importorskip("spacy")
    editor = make_editor(KINDS)

    def run(path: Path, out: Path) -> Path:
        source = Source(str(path), form_of(str(path), ""))
        job = EditJob(
            source, out, form=form_of(str(out), "") if out.suffix else "shards", kinds=KINDS
        )
        run_edit(job, runner=InProcess(lambda settings: Worker(editor)))
        return out

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return two_images(tmp_path)


def shade(pairs: Pairs, place: int) -> int:
    pixel = pairs[place].image.open().getpixel((0, 0))
    assert isinstance(pixel, tuple)
    return int(pixel[0])


def check_edited(pairs: Pairs) -> None:
    assert pairs.has_edits
    [(_, x, x_edits), (_, y, y_edits)] = said(pairs)
    assert (x, y) == ((DOG, "two"), (MAN,))
    assert [edit[:2] for edit in x_edits[0]] == [
        ("a sofa on a dog", "swap_nouns"),
        (x_edits[0][1][0], "article"),
    ]
    assert [edit[2] for edit in x_edits[0]] == [False, True]
    assert x_edits[1] == []
    assert y_edits[0][0] == ("a horse on a man", "swap_nouns", False)
    assert [shade(pairs, place) for place in (0, 1)] == [10, 20]


def test_json_lines_without_edits(folder: Path) -> None:
    pairs = open_pairs(str(two_lines(folder)))
    assert not pairs.has_edits
    assert said(pairs) == [
        ("x.png", (DOG, "two"), [[], []]),
        ("in/y.png", (MAN,), [[]]),
    ]
    assert pairs.about == "JSON lines a.jsonl: 2 images, 3 captions"
    assert [shade(pairs, place) for place in (0, 1)] == [10, 20]


@pytest.mark.parametrize("ending", ["jsonl", "tsv", "csv", "parquet"])
def test_edited_lines_and_tables(folder: Path, edit: Edit, ending: str) -> None:
    pairs = open_pairs(str(edit(two_lines(folder), folder / f"edited.{ending}")))
    check_edited(pairs)
    assert pairs[0].id == "x.png"


def write_parquet(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = {"image": ["x.png", "in/y.png"], "caption": [[DOG, "two"], [MAN]]}
    pq.write_table(pa.table(table), path)


COCO = {
    "images": [{"id": 1, "file_name": "x.png"}, {"id": 2, "file_name": "in/y.png"}],
    "annotations": [
        {"id": 7, "image_id": 1, "caption": DOG},
        {"id": 8, "image_id": 2, "caption": MAN},
        {"id": 9, "image_id": 1, "caption": "two"},
    ],
}
KARPATHY = {
    "images": [
        {"filename": "x.png", "sentences": [{"raw": DOG}, {"raw": "two"}]},
        {"filename": "in/y.png", "sentences": [{"raw": MAN}]},
    ]
}
TABLE = f"image,caption\nx.png,{DOG}\nx.png,two\nin/y.png,{MAN}\n"


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("t.csv", lambda path: path.write_text(TABLE)),
        ("t.parquet", write_parquet),
        ("coco.json", lambda path: path.write_text(json.dumps(COCO))),
        ("karpathy.json", lambda path: path.write_text(json.dumps(KARPATHY))),
    ],
)
def test_a_file_edited_in_its_own_format(
    folder: Path, edit: Edit, name: str, write: Callable[[Path], None]
) -> None:
    notes = folder / "notes"
    notes.mkdir()
    write(notes / name)
    assert not open_pairs(str(notes / name), images=folder).has_edits
    edited = edit(notes / name, notes / f"edited{Path(name).suffix}")
    check_edited(open_pairs(str(edited), images=folder))


def test_shards(folder: Path, edit: Edit) -> None:
    (folder / "shards").mkdir()
    for name, sample in (
        (
            "a",
            {
                "x.png": (folder / "x.png").read_bytes(),
                "x.json": json.dumps({"captions": [DOG, "two"]}).encode(),
            },
        ),
        ("b", {"y.png": (folder / "in" / "y.png").read_bytes(), "y.txt": MAN.encode()}),
    ):
        with tarfile.open(folder / "shards" / f"{name}.tar", "w") as tar:
            for member, content in sample.items():
                info = tarfile.TarInfo(member)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    pairs = open_pairs(str(folder / "shards"))
    assert said(pairs) == [("a/x.png", (DOG, "two"), [[], []]), ("b/y.png", (MAN,), [[]])]
    check_edited(open_pairs(str(edit(folder / "shards", folder / "edited"))))


def test_class_folders(tmp_path: Path) -> None:
    image(tmp_path / "tiger_cat" / "2.png", 30)
    image(tmp_path / "tiger_cat" / "1.png", 20)
    image(tmp_path / "ant" / "b.png", 10)
    (tmp_path / "ant" / "notes.txt").write_text("no image")
    pairs = open_pairs(str(tmp_path))
    assert said(pairs) == [
        ("ant/b.png", ("a photo of a ant.",), [[]]),
        ("tiger_cat/1.png", ("a photo of a tiger cat.",), [[]]),
        ("tiger_cat/2.png", ("a photo of a tiger cat.",), [[]]),
    ]
    assert [shade(pairs, place) for place in range(3)] == [10, 20, 30]
    (tmp_path / "bee").mkdir()
    with pytest.raises(UnbagError, match=r"the class folder .*bee contains no images"):
        open_pairs(str(tmp_path))
    with pytest.raises(UnbagError, match="contains neither shards nor class folders"):
        open_pairs(str(tmp_path / "bee"))


def test_the_fingerprint_follows_the_content_not_the_time(folder: Path) -> None:
    first = open_pairs(str(two_lines(folder))).fingerprint
    assert open_pairs(str(two_lines(folder))).fingerprint == first
    near = lines(folder / "near.jsonl", {"image": "x.png", "neighbours": ["in/y.png"]})
    assert open_pairs(str(two_lines(folder)), neighbours=near).fingerprint != first
    (folder / "a.jsonl").write_text(json.dumps({"image": "x.png", "caption": MAN}))
    assert open_pairs(str(folder / "a.jsonl")).fingerprint != first


def test_pairs_are_stored_in_few_bytes(folder: Path) -> None:
    captions = [f"a man in a red shirt rides a brown horse number {n}" for n in range(5)]
    edits = [[negative(text.replace("man", f"man{n}")) for n in range(10)] for text in captions]
    record = {"image": "x.png", "captions": captions, "edits": edits}
    pairs = open_pairs(str(lines(folder / "a.jsonl", record, record | {"image": "in/y.png"})))
    assert isinstance(pairs, PackedPairs)
    assert len(pairs.rows) / 2 < 5 * 11 * len(captions[0]) / 4


def test_fields_of_earlier_versions_are_read(tmp_path: Path) -> None:
    image(tmp_path / "a.png", 1)
    image(tmp_path / "b.png", 2)
    edit = {"text": "a cat chases a dog", "kind": "swap_nouns", "keeps_meaning": False}
    rows = [
        {"image": f"{name}.png", "caption": "a dog chases a cat", "edits": [edit]} for name in "ab"
    ]
    path = lines(tmp_path / "pairs.jsonl", *rows)
    near = lines(tmp_path / "near.jsonl", {"picture": "a.png", "neighbours": ["b.png"]})
    pairs = open_pairs(str(path), neighbours=near)
    assert [edit.is_positive for edit in pairs[0].edits[0]] == [False]
    assert pairs[0].nearest == (1,)
