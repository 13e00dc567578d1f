"""Files of captions that are broken: what is said of each, and what is left out if asked."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unbag.data.captions import Bad, Source
from unbag.data.readers import check_written, form_of
from unbag.edits.jobs.chunks import surveyed
from unbag.errors import UnbagError

from .made import CAT, CUP, DOG, shard, source


def refusal(path: Path, **more: str | bool | int) -> UnbagError:
    with pytest.raises(UnbagError) as caught:
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
    ],
)
def test_a_broken_line_is_named_or_left_out_and_counted(
    tmp_path: Path, line: bytes, found: str
) -> None:
    path = tmp_path / "a.jsonl"
    good = json.dumps({"caption": DOG}).encode()
    path.write_bytes(b"\n".join([good, line, good]))
    error = refusal(path)
    assert error.message.startswith(found)
    assert error.expected
    assert error.hint == "fix it, or skip such lines with --bad-lines skip"
    survey = surveyed(source(path, skips_bad=True))
    assert (survey.captions, survey.bad) == (2, 1)
    assert survey.bad_named[0].startswith(found)


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (b"only one", "a.tsv, line 3 has 1 columns"),
        (b"\xff\tx", "a.tsv, line 3 is not UTF-8"),
        (b'"a dog\nand more"\tx\ty', "a.tsv, line 3 has 1 columns"),
    ],
)
def test_a_broken_row_is_named_or_left_out(tmp_path: Path, row: bytes, found: str) -> None:
    path = tmp_path / "a.tsv"
    good = f"{DOG}\tx".encode()
    path.write_bytes(b"\n".join([b"caption\timage", good, row, good]) + b"\n")
    assert refusal(path).message == found
    survey = surveyed(source(path, skips_bad=True))
    assert (survey.captions, survey.bad) == (2, row.count(b"\n") + 1)


def test_an_open_quote_names_all_the_lines_it_swallowed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f'caption,image\n"{DOG},x\n{CAT},x\n')
    assert refusal(path).message == "a.csv, lines 2 to 3: unexpected end of data"
    path.write_text('caption,image\n"a" dog,x\n')
    assert refusal(path).message == "a.csv, line 2: ',' expected after '\"'"


@pytest.mark.parametrize("name", ["a.jsonl", "a.tsv", "a.csv"])
def test_an_empty_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    wanted = "holds no captions" if name == "a.jsonl" else "is empty"
    assert refusal(tmp_path / name).message == f"{name} {wanted}"
    if name != "a.jsonl":
        (tmp_path / name).write_text("caption\n")
        assert refusal(tmp_path / name).message == f"{name} holds no captions"


def test_a_file_of_broken_lines_only(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{\n{\n")
    error = refusal(tmp_path / "a.jsonl", skips_bad=True)
    assert error.message.startswith("a.jsonl holds no captions, only 2 broken lines, first a.jsonl")


def test_tables_without_captions(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("name,photo\nx,y\n")
    error = refusal(path)
    assert error.message == "a.csv has no column of captions, only name, photo"
    assert error.expected == "a column caption, title or text"
    assert "--caption-column" in error.hint
    found = refusal(path, caption_column="said").message
    assert found == "a.csv has no column 'said', only name, photo"
    path.write_text("caption,edits\nx,y\n")
    assert refusal(path).message == "a.csv holds edits already"
    path.write_bytes("caption\n".encode("utf-16"))
    assert refusal(path).message == "a.csv, line 1 is not UTF-8"


def test_parquet_that_is_none_or_holds_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 and nothing more")
    assert refusal(path).message.startswith("a.parquet is not a complete Parquet file: ")
    pq.write_table(pa.table({"caption": [1, 2]}), path)
    assert refusal(path).message == "a.parquet: the column 'caption' holds int64"
    pq.write_table(pa.table({"name": ["x"]}), path)
    assert refusal(path).message == "a.parquet has no column of captions, only name"
    bad = pa.array([DOG.encode(), b"\xff"]).view(pa.string())
    pq.write_table(pa.table({"caption": bad}), path)
    assert refusal(path).message == "a.parquet, row 1 is not UTF-8"
    assert surveyed(source(path, skips_bad=True)).captions == 1


def test_json_that_holds_no_captions(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("3")
    assert refusal(path).message == "a.json is not a caption file"
    path.write_text('{"caption": "x"}\n{"caption": "y"}\n')
    assert "--captions-format jsonl" in refusal(path).hint
    path.write_text(json.dumps({"images": [], "annotations": [{"image_id": 1, "caption": "x"}]}))
    assert refusal(path).message == (
        "a.json, annotation 0: image_id is 1, which is not among the images"
    )


def test_shards_that_are_none_or_lack_a_caption(tmp_path: Path) -> None:
    path = tmp_path / "s.tar"
    path.write_bytes(b"no tar at all")
    assert "is not a complete shard: " in refusal(path).message
    shard(path, {"a.jpg": b"1"})
    assert refusal(path).message == "s.tar, sample 'a' has no caption, only a.jpg"
    shard(path, {"a.txt": b"\xff\xfe"})
    assert refusal(path).message.startswith("s.tar, sample 'a' is not UTF-8")
    shard(path, {"a.txt": DOG.encode(), "b.jpg": b"1" * 2_000})
    path.write_bytes(path.read_bytes()[:2_500])
    assert "is not a complete shard: unexpected end of data" in refusal(path).message
    assert refusal(tmp_path / "s-{0..1}.tar").message == f"there is no file {tmp_path / 's-0.tar'}"


def test_an_id_that_comes_twice_names_both_places(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [("k", DOG), ("m", CAT), ("k", CUP)]
    path.write_text("".join(json.dumps({"id": i, "caption": c}) + "\n" for i, c in rows))
    error = refusal(path)
    assert error.message == "two captions have the id 'k': a.jsonl, line 1 and a.jsonl, line 3"
    assert error.expected == "an id for each caption"


def test_captions_with_edits_are_not_edited_again(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"caption": "x", "edits": []}\n')
    error = refusal(path)
    assert error.message == "a.jsonl, line 1 holds edits already"
    assert error.hint == "start from the original captions, or remove the field or column edits"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    memory = Source("/proc/self/mem", "jsonl")
    if not memory.file.exists():
        pytest.skip("a file of which the first bytes cannot be read is wanted")
    with pytest.raises(UnbagError, match="cannot read /proc/self/mem: Input/output error"):
        surveyed(memory)
    with pytest.raises(OSError, match="mine"), source(_some(tmp_path)).opened():
        raise OSError("mine")


def _some(folder: Path) -> Path:
    (folder / "a.jsonl").write_text(json.dumps({"caption": DOG}))
    return folder / "a.jsonl"


def test_a_folder_without_shards(tmp_path: Path) -> None:
    error = refusal(tmp_path)
    assert error.message == f"the folder {tmp_path} contains no shards"
    assert error.hint == "give the caption file itself, or check the folder"


def test_files_that_are_not_there_or_have_no_form(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.jsonl").message == f"there is no file {tmp_path / 'none.jsonl'}"
    with pytest.raises(UnbagError, match="is not that of a known format") as caught:
        form_of("captions.txt", "--captions-format")
    assert "--captions-format" in caught.value.hint
    (tmp_path / "a.jsonl").touch()
    (tmp_path / "b.jsonl").touch()
    assert refusal(tmp_path / "*.jsonl").message == f"{tmp_path / '*.jsonl'} matches 2 files"
    with pytest.raises(UnbagError, match="cannot be written as webdataset shards"):
        check_written(source(tmp_path / "a.jsonl"), "shards")


def test_only_the_first_broken_lines_are_named() -> None:
    bad = Bad(skips=True)
    for number in range(9):
        bad(UnbagError(f"line {number}"))
    assert bad.count == 9
    assert bad.named == [f"line {number}" for number in range(5)]
