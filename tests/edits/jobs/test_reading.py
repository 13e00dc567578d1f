"""Files of captions: what is read from each form, and how malformed ones are reported."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unbag.data.captions import MOST_TOGETHER, Bad, CaptionAt, Entry, Source, chunks, together
from unbag.data.readers import check_written, entries, form_of
from unbag.edits.jobs.chunks import survey_source
from unbag.errors import UnbagError

from .made import CAT, CUP, DOG, json_lines, run, shard, source

Contents = list[tuple[str, list[tuple[str, str]]]]
"""Images, each with ids and captions."""


def read(path: Path, **more: str | bool | int) -> Contents:
    found = entries(source(path, **more))
    return [(entry.image, [(c.id, c.text) for c in entry.captions]) for entry in found]


COCO = {
    "images": [{"id": 1, "file_name": "x.jpg"}, {"id": 2, "file_name": "y.jpg"}],
    "annotations": [
        {"id": 10, "image_id": 1, "caption": DOG},
        {"id": 11, "image_id": 2, "caption": CUP},
        {"id": 12, "image_id": 1, "caption": CAT},
    ],
}
KARPATHY = {
    "images": [
        {"filename": "x.jpg", "sentences": [{"raw": DOG, "sentid": 3}, {"raw": CAT, "sentid": 4}]}
    ]
}
RECORDS = [{"image": "x.jpg", "caption": DOG}, {"image": "y.jpg", "caption": [CAT, CUP]}]


@pytest.mark.parametrize(
    ("content", "contents"),
    [
        (COCO, [("x.jpg", [("10", DOG), ("12", CAT)]), ("y.jpg", [("11", CUP)])]),
        (KARPATHY, [("x.jpg", [("3", DOG), ("4", CAT)])]),
        (RECORDS, [("x.jpg", [("0", DOG)]), ("y.jpg", [("1#0", CAT), ("1#1", CUP)])]),
    ],
    ids=["COCO", "Karpathy", "records"],
)
def test_json(tmp_path: Path, content: object, contents: Contents) -> None:
    (tmp_path / "a.json").write_text(json.dumps(content))
    assert read(tmp_path / "a.json") == contents


def test_json_lines(tmp_path: Path) -> None:
    path = json_lines(
        tmp_path / "a.jsonl",
        {"id": 7, "image": "x.jpg", "captions": [DOG, CAT], "split": "val"},
        {"caption": CUP},
        {"id": "own", "caption": CUP, "image": "y.jpg"},
    )
    path.write_text(path.read_text() + "\n")
    assert read(path) == [
        ("x.jpg", [("7#0", DOG), ("7#1", CAT)]),
        ("", [("2", CUP)]),
        ("y.jpg", [("own", CUP)]),
    ]


def test_consecutive_lines_of_one_image_are_an_entry(tmp_path: Path) -> None:
    rows = [("x", DOG), ("x", CAT), ("y", CUP), ("x", CUP)]
    path = json_lines(tmp_path / "a.jsonl", *({"image": i, "caption": c} for i, c in rows))
    assert read(path) == [
        ("x", [("1", DOG), ("2", CAT)]),
        ("y", [("3", CUP)]),
        ("x", [("4", CUP)]),
    ]
    [given] = next(iter(entries(source(path)))).given()
    assert [caption.others for caption in given] == [(CAT,), (DOG,)]
    assert survey_source(source(path)).come_back == 1


def test_a_constant_column_does_not_join_a_whole_file() -> None:
    rows = (Entry("x", (CaptionAt(str(i), DOG, ""),)) for i in range(2 * MOST_TOGETHER + 1))
    sizes = [len(entry.captions) for entry in together(rows)]
    assert sizes == [MOST_TOGETHER, MOST_TOGETHER, 1]


@pytest.mark.parametrize("is_line", [True, False])
def test_very_many_captions_of_one_image_are_split(tmp_path: Path, is_line: bool) -> None:
    """In one line, or in a list of records that all name one image."""
    captions = [f"a dog sees {i} cats" for i in range(2 * MOST_TOGETHER + 1)]
    path = tmp_path / ("a.jsonl" if is_line else "a.json")
    records = [{"image": "x", "caption": caption} for caption in captions]
    path.write_text(json.dumps({"image": "x", "captions": captions} if is_line else records))
    found = list(chunks(entries(source(path)), 10))
    assert [len(chunk.given) for chunk in found] == [MOST_TOGETHER, MOST_TOGETHER, 1]
    assert [len(chunk.given[0].others) for chunk in found] == [MOST_TOGETHER - 1] * 2 + [0]
    assert [caption.text for chunk in found for caption in chunk.given] == captions
    assert survey_source(source(path)).come_back == 0
    out = tmp_path / f"b{path.suffix}"
    run(path, out)
    if is_line:
        texts = [json.loads(line)["caption"] for line in out.read_text().splitlines()]
    else:
        edited = json.loads(out.read_text())
        texts = [record["caption"] for record in edited if len(record["edits"]) == 2]
    assert texts == captions


@pytest.mark.parametrize(("ending", "separator"), [("tsv", "\t"), ("csv", ",")])
def test_tables_with_common_columns(tmp_path: Path, ending: str, separator: str) -> None:
    path = tmp_path / f"a.{ending}"
    caption = f"{CAT}{separator}again"
    rows = [["", "title", "filepath"], ["0", DOG, "x.jpg"], ["1", f'"{caption}"', "x.jpg"]]
    text = "".join(separator.join(row) + "\r\n" for row in rows)
    path.write_text("\ufeff" + text, newline="")
    assert read(path) == [("x.jpg", [("2", DOG), ("3", caption)])]


def test_cells_of_a_csv_may_span_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f'title,filepath\n"{CAT}\nagain",x.jpg\n')
    assert read(tmp_path / "a.csv") == [("x.jpg", [("3", f"{CAT}\nagain")])]


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
def test_quotes_in_a_tsv(tmp_path: Path, cell: str, text: str) -> None:
    """They come from the writer of the file or belong to the caption."""
    path = tmp_path / "a.tsv"
    path.write_text(f"url\tcaption\nu\t{cell}\nv\t{DOG}\n")
    assert read(path) == [("u", [("2", text)]), ("v", [("3", DOG)])]


def test_a_tsv_by_the_csv_module(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    captions = ['a "big" dog', '"', "a\tb", "['x', \"y's\"]", ""]
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter="\t").writerows([("", "caption"), *enumerate(captions)])
    assert [c.text for entry in entries(source(path)) for c in entry.captions] == captions


def test_columns_by_name_or_number(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(f"id\tsaid\tphoto\nk\t{DOG}\tx.jpg\n")
    assert read(path, caption_column="said", image_column="photo") == [("x.jpg", [("k", DOG)])]
    path.write_text(f"http://x\t{DOG}\nhttp://y\t{CAT}\n")
    found = read(path, caption_column="2", image_column="1")
    assert found == [("http://x", [("1", DOG)]), ("http://y", [("2", CAT)])]


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    photo = [{"bytes": b"1", "path": "x.jpg"}, {"bytes": b"2", "path": None}]
    pq.write_table(pa.table({"caption": [[DOG, CAT], [CUP]], "image": photo}), path)
    assert read(path) == [("x.jpg", [("0#0", DOG), ("0#1", CAT)]), ("", [("1#0", CUP)])]
    pq.write_table(pa.table({"id": [5, 6], "text": [DOG, None], "url": ["u", "u"]}), path)
    assert read(path) == [("u", [("5", DOG), ("6", "")])]


def test_shards_by_folder_pattern_and_range(tmp_path: Path) -> None:
    shard(tmp_path / "s-000.tar", {"a.jpg": b"1", "a.txt": DOG.encode(), "b.txt": CAT.encode()})
    record = json.dumps({"caption": CUP}).encode()
    shard(tmp_path / "s-001.tar", {"in/a.PNG": b"1", "in/a.json": record})
    contents = [
        ("a.jpg", [("s-000/a", DOG)]),
        ("", [("s-000/b", CAT)]),
        ("in/a.PNG", [("s-001/in/a", CUP)]),
    ]
    for name in ("", "s-{000..001}.tar", "s-*.tar"):
        assert read(tmp_path / name) == contents
    assert read(tmp_path / "s-000.tar") == contents[:2]


def test_chunks_and_limits_end_between_images(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "a.jsonl", *[{"captions": [DOG, CAT, CUP]}] * 5)
    found = list(chunks(entries(source(path)), 4))
    assert [len(chunk.given) for chunk in found] == [6, 6, 3]
    assert [chunk.index for chunk in found] == [0, 1, 2]
    assert len(read(path, limit=4)) == 2
    assert str(found[0]) == "chunk 0 (captions '1#0' to '2#2')"


def refusal(path: Path, **more: str | bool | int) -> UnbagError:
    with pytest.raises(UnbagError) as caught:
        survey_source(source(path, **more))
    return caught.value


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"caption": ', "a.jsonl, line 2 is not JSON: Expecting value"),
        (b"[1]", "a.jsonl, line 2 holds list instead of an object"),
        (b'{"text": "x"}', "a.jsonl, line 2 has neither caption nor captions, only text"),
        (b'{"caption": 3}', "a.jsonl, line 2: caption is 3"),
        (b'{"captions": []}', "a.jsonl, line 2: captions is an empty list"),
        (b'{"caption": "x", "id": [1]}', "a.jsonl, line 2: id is [1]"),
        (b'{"caption": "caf\xe9"}', "a.jsonl, line 2 is not UTF-8: byte 0xe9 at position 16"),
        (b'{"caption": "\\ud83d"}', "a.jsonl, line 2 holds half of a character"),
    ],
)
def test_a_malformed_line_is_named_or_skipped(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "a.jsonl"
    good = json.dumps({"caption": DOG}).encode()
    path.write_bytes(b"\n".join([good, line, good]))
    error = refusal(path)
    assert error.message.startswith(message)
    assert error.expected
    assert "--bad-lines skip" in error.hint
    survey = survey_source(source(path, skips_bad=True))
    assert (survey.captions, survey.bad) == (2, 1)
    assert survey.bad_named[0].startswith(message)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"only one", "a.tsv, line 3 has 1 columns"),
        (b"\xff\tx", "a.tsv, line 3 is not UTF-8"),
        (b'"a dog\nand more"\tx\ty', "a.tsv, line 3 has 1 columns"),
    ],
)
def test_a_malformed_row_is_named_or_skipped(tmp_path: Path, row: bytes, message: str) -> None:
    path = tmp_path / "a.tsv"
    good = f"{DOG}\tx".encode()
    path.write_bytes(b"\n".join([b"caption\timage", good, row, good]) + b"\n")
    assert refusal(path).message == message
    survey = survey_source(source(path, skips_bad=True))
    assert (survey.captions, survey.bad) == (2, row.count(b"\n") + 1)


NO_UTF8 = pa.array([DOG.encode(), b"\xff"]).view(pa.string())
CUT_SHARD = {"a.txt": DOG.encode(), "b.jpg": b"1" * 2_000}


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.jsonl", "", {}, "a.jsonl holds no captions"),
        ("a.tsv", "", {}, "a.tsv is empty"),
        ("a.csv", "", {}, "a.csv is empty"),
        ("a.tsv", "caption\n", {}, "a.tsv holds no captions"),
        ("a.csv", "caption\n", {}, "a.csv holds no captions"),
        (
            "a.jsonl",
            "{\n{\n",
            {"skips_bad": True},
            "a.jsonl holds no captions, only 2 malformed lines, first a.jsonl...",
        ),
        ("a.jsonl", '{"caption": "x", "edits": []}', {}, "a.jsonl, line 1 holds edits already"),
        (
            "a.jsonl",
            "".join(json.dumps({"id": i, "caption": DOG}) + "\n" for i in "kmk"),
            {},
            "two captions have the id 'k': a.jsonl, line 1 and a.jsonl, line 3",
        ),
        (
            "a.csv",
            f'caption,image\n"{DOG},x\n{CAT},x\n',
            {},
            "a.csv, lines 2 to 3: unexpected end of data",
        ),
        ("a.csv", 'caption,image\n"a" dog,x\n', {}, "a.csv, line 2: ',' expected after '\"'"),
        ("a.csv", "name,photo\nx,y\n", {}, "a.csv has no column of captions, only name, photo"),
        (
            "a.csv",
            "name,photo\nx,y\n",
            {"caption_column": "said"},
            "a.csv has no column 'said', only name, photo",
        ),
        ("a.csv", "caption,edits\nx,y\n", {}, "a.csv holds edits already"),
        ("a.csv", "caption\n".encode("utf-16"), {}, "a.csv, line 1 is not UTF-8"),
        ("a.json", "3", {}, "a.json is not a caption file"),
        ("a.json", '{"caption": "x"}\n{"caption": "y"}\n', {}, "a.json..."),
        (
            "a.json",
            json.dumps({"images": [], "annotations": [{"image_id": 1, "caption": "x"}]}),
            {},
            "a.json, annotation 0: image_id is 1, which is not among the images",
        ),
        (
            "a.parquet",
            b"PAR1 and nothing more",
            {},
            "a.parquet is not a complete Parquet file: ...",
        ),
        ("a.parquet", {"caption": [1, 2]}, {}, "a.parquet: the column 'caption' holds int64"),
        ("a.parquet", {"name": ["x"]}, {}, "a.parquet has no column of captions, only name"),
        ("a.parquet", {"caption": NO_UTF8}, {}, "a.parquet, row 1 is not UTF-8"),
        ("s.tar", b"no tar at all", {}, "s.tar is not a complete shard: ..."),
        ("s.tar", {"a.jpg": b"1"}, {}, "s.tar, sample 'a' has no caption, only a.jpg"),
        ("s.tar", {"a.txt": b"\xff\xfe"}, {}, "s.tar, sample 'a' is not UTF-8..."),
        ("cut.tar", CUT_SHARD, {}, "cut.tar is not a complete shard: unexpected end of data..."),
    ],
)
def test_malformed_files(
    tmp_path: Path, name: str, content: Any, options: dict[str, Any], message: str
) -> None:
    path = tmp_path / name
    if isinstance(content, dict) and name.endswith(".tar"):
        shard(path, content)
        if name == "cut.tar":
            path.write_bytes(path.read_bytes()[:2_500])
    elif isinstance(content, dict):
        pq.write_table(pa.table(content), path)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    error = refusal(path, **options)
    found = error.message.replace(f"{tmp_path}/", "")
    # Dots stand for the words of another library.
    assert found == message or (message[-3:] == "..." and found.startswith(message[:-3]))
    assert error.expected or error.hint


def test_hints_name_options(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,photo\nx,y\n")
    assert "--caption-column" in refusal(tmp_path / "a.csv").hint
    (tmp_path / "a.json").write_text('{"caption": "x"}\n{"caption": "y"}\n')
    assert "--captions-format jsonl" in refusal(tmp_path / "a.json").hint


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for name in ("none.jsonl", "s-{0..1}.tar"):
        missing = tmp_path / name.replace("{0..1}", "0")
        assert refusal(tmp_path / name).message == f"there is no file {missing}"
    assert refusal(tmp_path).message == f"the folder {tmp_path} contains no shards"
    for name in ("a.jsonl", "b.jsonl"):
        json_lines(tmp_path / name, {"caption": DOG})
    assert refusal(tmp_path / "*.jsonl").message == f"{tmp_path / '*.jsonl'} matches 2 files"
    with pytest.raises(UnbagError, match="is not that of a known format") as caught:
        form_of("captions.txt", "--captions-format")
    assert "--captions-format" in caught.value.hint
    with pytest.raises(UnbagError, match="cannot be written as webdataset shards"):
        check_written(source(tmp_path / "a.jsonl"), "shards")
    with pytest.raises(OSError, match="mine"), source(tmp_path / "a.jsonl").opened():
        raise OSError("mine")
    memory = Source("/proc/self/mem", "jsonl")
    if memory.file.exists():
        with pytest.raises(UnbagError, match="cannot read /proc/self/mem: Input/output error"):
            survey_source(memory)


def test_only_the_first_malformed_lines_are_listed() -> None:
    bad = Bad(skips=True)
    for number in range(9):
        bad(UnbagError(f"line {number}"))
    assert bad.count == 9
    assert bad.named == [f"line {number}" for number in range(5)]
