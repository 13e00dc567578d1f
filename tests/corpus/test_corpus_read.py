"""Files of captions as people have them: what is read from each form, and what is refused."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unbag.corpus.entries import MOST_TOGETHER, Caption, Entry, chunks, together
from unbag.corpus.forms import check_written, entries, form_of
from unbag.corpus.source import Bad, Source
from unbag.corpus.survey import surveyed
from unbag.errors import UserError

DOG, CAT, CUP = "a dog on a sofa", "a cat on a mat", "a cup by a plate"


def source(path: Path, **more: str | bool | int) -> Source:
    form = str(more.pop("form", "")) or form_of(str(path), "--captions-format")
    return Source(str(path), form, **more)  # type: ignore[arg-type]


def short(found: list[Entry]) -> list[tuple[str, list[tuple[str, str]]]]:
    return [(e.picture, [(c.id, c.text) for c in e.captions]) for e in found]


def read(path: Path, **more: str | bool | int) -> list[tuple[str, list[tuple[str, str]]]]:
    return short(list(entries(source(path, **more))))


def shard(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(content), 1_000
            tar.addfile(info, io.BytesIO(content))
    return path


# Forms


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


def test_lines_of_one_picture_stand_together(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [("x", DOG), ("x", CAT), ("y", CUP), ("x", CUP)]
    path.write_text("".join(json.dumps({"image": i, "caption": c}) + "\n" for i, c in rows))
    found = list(entries(source(path)))
    assert short(found) == [
        ("x", [("1", DOG), ("2", CAT)]),
        ("y", [("3", CUP)]),
        ("x", [("4", CUP)]),
    ]
    assert [one.others for one in found[0].given()] == [(CAT,), (DOG,)]
    assert surveyed(source(path)).come_back == 1


def test_a_constant_column_does_not_join_a_whole_file() -> None:
    rows = (Entry("x", (Caption(str(at), DOG, ""),)) for at in range(2 * MOST_TOGETHER + 1))
    sizes = [len(entry.captions) for entry in together(rows)]
    assert sizes == [MOST_TOGETHER, MOST_TOGETHER, 1]


@pytest.mark.parametrize(("ending", "tab"), [("tsv", "\t"), ("csv", ",")])
def test_tables_by_their_usual_columns(tmp_path: Path, ending: str, tab: str) -> None:
    path = tmp_path / f"a.{ending}"
    rows = [["", "title", "filepath"], ["0", DOG, "x.jpg"], ["1", f'"{CAT}\nagain"', "x.jpg"]]
    path.write_text("\ufeff" + "".join(tab.join(row) + "\r\n" for row in rows), newline="")
    assert read(path) == [("x.jpg", [("2", DOG), ("4", f"{CAT}\nagain")])]


def test_columns_can_be_named_or_numbered(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(f"id\tsaid\tphoto\nk\t{DOG}\tx.jpg\n")
    assert read(path, caption_column="said", picture_column="photo") == [("x.jpg", [("k", DOG)])]
    path.write_text(f"http://x\t{DOG}\nhttp://y\t{CAT}\n")
    found = read(path, caption_column="2", picture_column="1")
    assert found == [("http://x", [("1", DOG)]), ("http://y", [("2", CAT)])]


def test_parquet_of_text_lists_and_pictures_inside(tmp_path: Path) -> None:
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


def test_chunks_never_part_a_picture_and_limits_keep_the_last_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"captions": [DOG, CAT, CUP]}) + "\n" for _ in range(5)))
    found = list(chunks(entries(source(path)), 4))
    assert [len(chunk.given) for chunk in found] == [6, 6, 3]
    assert [chunk.index for chunk in found] == [0, 1, 2]
    assert len(read(path, limit=4)) == 2
    assert str(found[0]) == "chunk 0 (captions '1#0' to '2#2')"


# What is refused


def refusal(path: Path, **more: str | bool | int) -> UserError:
    with pytest.raises(UserError) as caught:
        surveyed(source(path, **more))
    return caught.value


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b'{"caption": ', "a.jsonl, line 2 is not JSON: Expecting value"),
        (b"[1]", "a.jsonl, line 2 holds list instead of an object"),
        (b'{"text": "x"}', "a.jsonl, line 2 has neither caption nor captions, only text"),
        (b'{"caption": 3}', "a.jsonl, line 2: caption is 3"),
        (b'{"captions": []}', "a.jsonl, line 2: captions is an empty list"),
        (b'{"caption": "x", "id": [1]}', "a.jsonl, line 2: id is [1]"),
        (b'{"caption": "caf\xe9"}', "a.jsonl, line 2 is not UTF-8: byte 0xe9 at position 16"),
        (b'{"caption": "\\ud83d"}', "a.jsonl, line 2 holds half of a character"),
        (b'{"caption": "x", "edits": []}', "a.jsonl, line 2 holds edits already"),
    ],
)
def test_a_broken_line_is_named_or_left_out_and_counted(
    tmp_path: Path, line: bytes, found: str
) -> None:
    path = tmp_path / "a.jsonl"
    good = json.dumps({"caption": DOG}).encode()
    path.write_bytes(b"\n".join([good, line, good]))
    error = refusal(path)
    assert error.found.startswith(found)
    assert error.expected
    assert error.way_out == "mend it, or leave such lines out with --bad-lines skip"
    survey = surveyed(source(path, skips_bad=True))
    assert (survey.captions, survey.bad) == (2, 1)
    assert survey.bad_named[0].startswith(found)


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (b"only one", "a.tsv, line 3 has 1 columns"),
        (b"\xff\tx", "a.tsv, line 3 is not UTF-8"),
        (b'"a" dog\tx', "a.tsv, line 3: '\t' expected after '\"'"),
    ],
)
def test_a_broken_row_is_named_or_left_out(tmp_path: Path, row: bytes, found: str) -> None:
    path = tmp_path / "a.tsv"
    good = f"{DOG}\tx".encode()
    path.write_bytes(b"\n".join([b"caption\timage", good, row, good]) + b"\n")
    assert refusal(path).found == found
    survey = surveyed(source(path, skips_bad=True))
    assert (survey.captions, survey.bad) == (2, 1)


def test_an_open_quote_names_all_the_lines_it_swallowed(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(f'caption\timage\n"{DOG}\tx\n{CAT}\tx\n')
    assert refusal(path).found == "a.tsv, lines 2 to 3: unexpected end of data"


@pytest.mark.parametrize("name", ["a.jsonl", "a.tsv", "a.csv"])
def test_an_empty_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    wanted = "holds no captions" if name == "a.jsonl" else "is empty"
    assert refusal(tmp_path / name).found == f"{name} {wanted}"
    if name != "a.jsonl":
        (tmp_path / name).write_text("caption\n")
        assert refusal(tmp_path / name).found == f"{name} holds no captions"


def test_a_file_of_broken_lines_only(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{\n{\n")
    error = refusal(tmp_path / "a.jsonl", skips_bad=True)
    assert error.found.startswith("a.jsonl holds no captions, only 2 broken lines, first a.jsonl")


def test_tables_without_captions(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("name,photo\nx,y\n")
    error = refusal(path)
    assert error.found == "a.csv has no column of captions, only name, photo"
    assert error.expected == "a column caption, title or text"
    assert "--caption-column" in error.way_out
    found = refusal(path, caption_column="said").found
    assert found == "a.csv has no column 'said', only name, photo"
    path.write_text("caption,edits\nx,y\n")
    assert refusal(path).found == "a.csv holds edits already"
    path.write_bytes("caption\n".encode("utf-16"))
    assert refusal(path).found == "a.csv, line 1 is not UTF-8"


def test_parquet_that_is_none_or_holds_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 and nothing more")
    assert refusal(path).found.startswith("a.parquet is no whole Parquet file: ")
    pq.write_table(pa.table({"caption": [1, 2]}), path)
    assert refusal(path).found == "a.parquet: the column 'caption' holds int64"
    pq.write_table(pa.table({"name": ["x"]}), path)
    assert refusal(path).found == "a.parquet has no column of captions, only name"
    bad = pa.array([DOG.encode(), b"\xff"]).view(pa.string())
    pq.write_table(pa.table({"caption": bad}), path)
    assert refusal(path).found == "a.parquet, row 1 is not UTF-8"
    assert surveyed(source(path, skips_bad=True)).captions == 1


def test_json_that_holds_no_captions(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("3")
    assert refusal(path).found == "a.json is no collection of captions"
    path.write_text('{"caption": "x"}\n{"caption": "y"}\n')
    assert "--captions-format jsonl" in refusal(path).way_out
    path.write_text(json.dumps({"images": [], "annotations": [{"image_id": 1, "caption": "x"}]}))
    assert refusal(path).found == (
        "a.json, annotation 0: image_id is 1, which is not among the images"
    )


def test_shards_that_are_none_or_lack_a_caption(tmp_path: Path) -> None:
    path = tmp_path / "s.tar"
    path.write_bytes(b"no tar at all")
    assert "is no whole shard: " in refusal(path).found
    shard(path, {"a.jpg": b"1"})
    assert refusal(path).found == "s.tar, sample 'a' has no caption, only a.jpg"
    shard(path, {"a.txt": b"\xff\xfe"})
    assert refusal(path).found.startswith("s.tar, sample 'a' is not UTF-8")
    shard(path, {"a.txt": DOG.encode(), "b.jpg": b"1" * 2_000})
    path.write_bytes(path.read_bytes()[:2_500])
    assert "is no whole shard: unexpected end of data" in refusal(path).found
    assert refusal(tmp_path / "s-{0..1}.tar").found == f"there is no file {tmp_path / 's-0.tar'}"


def test_an_id_that_comes_twice_names_both_places(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [("k", DOG), ("m", CAT), ("k", CUP)]
    path.write_text("".join(json.dumps({"id": i, "caption": c}) + "\n" for i, c in rows))
    error = refusal(path)
    assert error.found == "two captions have the id 'k': a.jsonl, line 1 and a.jsonl, line 3"
    assert error.expected == "an id for each caption"


def test_files_that_are_not_there_or_have_no_form(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.jsonl").found == f"there is no file {tmp_path / 'none.jsonl'}"
    with pytest.raises(UserError, match="says nothing about its form") as caught:
        form_of("captions.txt", "--captions-format")
    assert "--captions-format" in caught.value.way_out
    (tmp_path / "a.jsonl").touch()
    (tmp_path / "b.jsonl").touch()
    assert refusal(tmp_path / "*.jsonl").found == f"{tmp_path / '*.jsonl'} names 2 files"
    with pytest.raises(UserError, match="cannot be written as webdataset shards"):
        check_written(source(tmp_path / "a.jsonl"), "shards")


def test_only_the_first_broken_lines_are_named() -> None:
    bad = Bad(skips=True)
    for number in range(9):
        bad(UserError(f"line {number}"))
    assert bad.count == 9
    assert bad.named == [f"line {number}" for number in range(5)]
