"""Files of captions as people have them: what is read from each form."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unbag.data.captions import MOST_TOGETHER, CaptionAt, Entry, chunks, together
from unbag.data.readers import entries
from unbag.edits.jobs.chunks import survey_source

from .made import CAT, CUP, DOG, run, shard, source


def short(found: list[Entry]) -> list[tuple[str, list[tuple[str, str]]]]:
    return [(e.image, [(c.id, c.text) for c in e.captions]) for e in found]


def read(path: Path, **more: str | bool | int) -> list[tuple[str, list[tuple[str, str]]]]:
    return short(list(entries(source(path, **more))))


def test_json_lines_hold_one_caption_or_several(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [
        {"id": 7, "image": "x.jpg", "captions": [DOG, CAT], "split": "val"},
        {"caption": CUP},
        {"id": "own", "caption": CUP, "image": "y.jpg"},
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    assert read(path) == [
        ("x.jpg", [("7#0", DOG), ("7#1", CAT)]),
        ("", [("2", CUP)]),
        ("y.jpg", [("own", CUP)]),
    ]


def test_lines_of_one_image_stand_together(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [("x", DOG), ("x", CAT), ("y", CUP), ("x", CUP)]
    path.write_text("".join(json.dumps({"image": i, "caption": c}) + "\n" for i, c in rows))
    found = list(entries(source(path)))
    assert short(found) == [
        ("x", [("1", DOG), ("2", CAT)]),
        ("y", [("3", CUP)]),
        ("x", [("4", CUP)]),
    ]
    [given] = found[0].given()
    assert [one.others for one in given] == [(CAT,), (DOG,)]
    assert survey_source(source(path)).come_back == 1


def test_a_constant_column_does_not_join_a_whole_file() -> None:
    rows = (Entry("x", (CaptionAt(str(at), DOG, ""),)) for at in range(2 * MOST_TOGETHER + 1))
    sizes = [len(entry.captions) for entry in together(rows)]
    assert sizes == [MOST_TOGETHER, MOST_TOGETHER, 1]


@pytest.mark.parametrize("is_line", [True, False])
def test_very_many_captions_of_one_image_are_parted(tmp_path: Path, is_line: bool) -> None:
    """In one line, or in a list of records that all name one image."""
    number = 2 * MOST_TOGETHER + 1
    said = [f"a dog sees {at} cats" for at in range(number)]
    path = tmp_path / ("a.jsonl" if is_line else "a.json")
    records = [{"image": "x", "caption": one} for one in said]
    path.write_text(json.dumps({"image": "x", "captions": said} if is_line else records))
    found = list(chunks(entries(source(path)), 10))
    assert [len(chunk.given) for chunk in found] == [MOST_TOGETHER, MOST_TOGETHER, 1]
    assert [len(chunk.given[0].others) for chunk in found] == [MOST_TOGETHER - 1] * 2 + [0]
    assert [one.text for chunk in found for one in chunk.given] == said
    assert survey_source(source(path)).come_back == 0
    out = tmp_path / f"b{path.suffix}"
    run(path, out)
    if is_line:
        texts = [json.loads(line)["caption"] for line in out.read_text().splitlines()]
    else:
        texts = [one["caption"] for one in json.loads(out.read_text()) if len(one["edits"]) == 2]
    assert texts == said


@pytest.mark.parametrize(("ending", "tab"), [("tsv", "\t"), ("csv", ",")])
def test_tables_by_their_usual_columns(tmp_path: Path, ending: str, tab: str) -> None:
    path = tmp_path / f"a.{ending}"
    rows = [["", "title", "filepath"], ["0", DOG, "x.jpg"], ["1", f'"{CAT}{tab}again"', "x.jpg"]]
    path.write_text("\ufeff" + "".join(tab.join(row) + "\r\n" for row in rows), newline="")
    assert read(path) == [("x.jpg", [("2", DOG), ("3", f"{CAT}{tab}again")])]


def test_cells_of_a_csv_may_span_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f'title,filepath\n"{CAT}\nagain",x.jpg\n')
    assert read(path) == [("x.jpg", [("3", f"{CAT}\nagain")])]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ('"a dog', '"a dog'),
        ('"a" dog', '"a" dog'),
        ('a "dog"', 'a "dog"'),
        ('"yes" and "no"', '"yes" and "no"'),
        ('"a dog"', "a dog"),
        ('"a ""big"" dog"', 'a "big" dog'),
        ('"', '"'),
        ('""""', '"'),
        ('""', ""),
    ],
)
def test_quotes_in_a_tsv_are_those_of_its_writer_or_of_a_caption(
    tmp_path: Path, cell: str, text: str
) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(f"url\tcaption\nu\t{cell}\nv\t{DOG}\n")
    assert read(path) == [("u", [("2", text)]), ("v", [("3", DOG)])]


def test_a_tsv_as_csv_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    said = ['a "big" dog', '"', "a\tb", "['x', \"y's\"]", ""]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerows([("", "caption"), *enumerate(said)])
    assert [c.text for entry in entries(source(path)) for c in entry.captions] == said


def test_columns_can_be_named_or_numbered(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(f"id\tsaid\tphoto\nk\t{DOG}\tx.jpg\n")
    assert read(path, caption_column="said", image_column="photo") == [("x.jpg", [("k", DOG)])]
    path.write_text(f"http://x\t{DOG}\nhttp://y\t{CAT}\n")
    found = read(path, caption_column="2", image_column="1")
    assert found == [("http://x", [("1", DOG)]), ("http://y", [("2", CAT)])]


def test_parquet_of_text_lists_and_images_inside(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    photo = [{"bytes": b"1", "path": "x.jpg"}, {"bytes": b"2", "path": None}]
    pq.write_table(pa.table({"caption": [[DOG, CAT], [CUP]], "image": photo}), path)
    assert read(path) == [("x.jpg", [("0#0", DOG), ("0#1", CAT)]), ("", [("1#0", CUP)])]
    pq.write_table(pa.table({"id": [5, 6], "text": [DOG, None], "url": ["u", "u"]}), path)
    assert read(path) == [("u", [("5", DOG), ("6", "")])]


def test_json_of_coco_karpathy_and_lists(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    coco = {
        "images": [{"id": 1, "file_name": "x.jpg"}, {"id": 2, "file_name": "y.jpg"}],
        "annotations": [
            {"id": 10, "image_id": 1, "caption": DOG},
            {"id": 11, "image_id": 2, "caption": CUP},
            {"id": 12, "image_id": 1, "caption": CAT},
        ],
    }
    path.write_text(json.dumps(coco))
    joined = [("x.jpg", [("10", DOG), ("12", CAT)]), ("y.jpg", [("11", CUP)])]
    assert read(path) == joined
    sentences = [{"raw": DOG, "sentid": 3}, {"raw": CAT, "sentid": 4}]
    path.write_text(json.dumps({"images": [{"filename": "x.jpg", "sentences": sentences}]}))
    assert read(path) == [("x.jpg", [("3", DOG), ("4", CAT)])]
    records = [{"image": "x.jpg", "caption": DOG}, {"image": "y.jpg", "caption": [CAT, CUP]}]
    path.write_text(json.dumps(records))
    assert read(path) == [("x.jpg", [("0", DOG)]), ("y.jpg", [("1#0", CAT), ("1#1", CUP)])]


def test_shards_by_folder_pattern_and_range(tmp_path: Path) -> None:
    shard(tmp_path / "s-000.tar", {"a.jpg": b"1", "a.txt": DOG.encode(), "b.txt": CAT.encode()})
    said = json.dumps({"caption": CUP}).encode()
    shard(tmp_path / "s-001.tar", {"in/a.PNG": b"1", "in/a.json": said})
    wanted = [
        ("a.jpg", [("s-000/a", DOG)]),
        ("", [("s-000/b", CAT)]),
        ("in/a.PNG", [("s-001/in/a", CUP)]),
    ]
    assert read(tmp_path) == wanted
    assert read(tmp_path / "s-{000..001}.tar") == wanted
    assert read(tmp_path / "s-*.tar") == wanted
    assert read(tmp_path / "s-000.tar") == wanted[:2]


def test_chunks_never_part_an_image_and_limits_keep_the_last_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"captions": [DOG, CAT, CUP]}) + "\n" for _ in range(5)))
    found = list(chunks(entries(source(path)), 4))
    assert [len(chunk.given) for chunk in found] == [6, 6, 3]
    assert [chunk.index for chunk in found] == [0, 1, 2]
    assert len(read(path, limit=4)) == 2
    assert str(found[0]) == "chunk 0 (captions '1#0' to '2#2')"
