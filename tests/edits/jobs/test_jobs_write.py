"""Collections go out in the form they came in, or in another: nothing is lost, edits are added."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis.strategies import characters, lists, sampled_from, text

from unbag.data.captions import Source
from unbag.data.readers import entries
from unbag.edits.editor import cleaned
from unbag.edits.jobs.run import EditJob, run_edit
from unbag.edits.jobs.workers import InProcess
from unbag.edits.kinds import apply
from unbag.types import Change

from .made import CUP, DOG, KINDS, json_lines, run, source
from .swapper import NEGATIVE, POSITIVE, make

CAT = "a cat  on\na mat"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def texts(edits: list[dict[str, Any]]) -> list[str]:
    return [edit["text"] for edit in edits]


def test_json_lines_out_say_what_was_done(tmp_path: Path) -> None:
    records: list[dict[str, object]] = [
        {"image": "x.jpg", "captions": [DOG, CAT], "split": "val"},
        {"id": "é", "caption": "🙂"},
    ]
    json_lines(tmp_path / "a.jsonl", *records)
    run(tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    found = lines(tmp_path / "b.jsonl")
    assert [one["id"] for one in found] == ["1#0", "1#1", "é"]
    assert found[0] == {
        "id": "1#0",
        "image": "x.jpg",
        "caption": DOG,
        "edits": [
            {
                "text": "dog a on a sofa",
                "kind": NEGATIVE,
                "is_positive": False,
                "changes": [[0, 5, "dog a"]],
            },
            {
                "text": f"{DOG} indeed",
                "kind": POSITIVE,
                "is_positive": True,
                "changes": [[15, 15, " indeed"]],
            },
        ],
        "split": "val",
    }
    assert found[1]["caption"] == "a cat on a mat"
    for one in found:
        for edit in one["edits"]:
            changes = [Change(*change) for change in edit["changes"]]
            assert apply(one["caption"], changes) == edit["text"]
    assert found[2] == {"id": "é", "caption": "🙂", "edits": [], "skipped": "no letters"}


def test_tables_keep_their_rows_and_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f'n,title,filepath\n0,{DOG},x\n1,"{CAT}",x\n2,,y\n')
    run(path, tmp_path / "b.csv")
    with (tmp_path / "b.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["n", "title", "filepath", "edits", "skipped"]
    assert [row[:3] for row in rows] == [["0", DOG, "x"], ["1", CAT, "x"], ["2", "", "y"]]
    assert texts(json.loads(rows[1][3])) == ["cat a on a mat", "a cat on a mat indeed"]
    assert [row[4] for row in rows] == ["", "", "empty"]


def test_a_table_without_a_header_stays_without_one(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(f"http://x\t{DOG}\n")
    source = Source(str(tmp_path / "a.tsv"), "tsv", caption_column="2", image_column="1")
    job = EditJob(source, tmp_path / "b.tsv", form="tsv", kinds=KINDS)
    run_edit(job, runner=InProcess(make))
    [row] = csv.reader((tmp_path / "b.tsv").read_text().splitlines(), delimiter="\t")
    assert row[:2] == ["http://x", DOG]
    assert len(json.loads(row[2])) == 2


def test_parquet_keeps_rows_groups_and_what_the_hub_knows(tmp_path: Path) -> None:
    features = {"info": {"features": {"caption": {"dtype": "string", "_type": "Value"}}}}
    table = pa.table({"caption": [DOG, None, CUP], "image": [b"1", b"2", b"3"]})
    table = table.replace_schema_metadata({"huggingface": json.dumps(features)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    run(tmp_path / "a.parquet", tmp_path / "b.parquet")
    found = pq.ParquetFile(tmp_path / "b.parquet")
    assert found.num_row_groups == 2
    said = found.read().to_pydict()
    assert said["caption"] == [DOG, None, CUP]
    assert said["image"] == [b"1", b"2", b"3"]
    assert texts(json.loads(said["edits"][2])) == ["cup a by a plate", f"{CUP} indeed"]
    assert said["skipped"] == [None, "empty", None]
    metadata = json.loads(found.schema_arrow.metadata[b"huggingface"])
    assert set(metadata["info"]["features"]) == {"caption", "edits", "skipped"}


def test_parquet_of_lists_with_a_limit_and_a_broken_row(tmp_path: Path) -> None:
    pq.write_table(pa.table({"caption": [[DOG, CAT], [], [CUP]]}), tmp_path / "a.parquet")
    run(tmp_path / "a.parquet", tmp_path / "b.parquet")
    said = pq.read_table(tmp_path / "b.parquet").to_pydict()
    assert [len(edits) for edits in json.loads(said["edits"][0])] == [2, 2]
    assert said["edits"][1] is None
    run(tmp_path / "a.parquet", tmp_path / "c.parquet", limit=1)
    assert pq.read_table(tmp_path / "c.parquet").num_rows == 1
    bad = pa.array([DOG.encode(), b"\xff", CUP.encode()]).view(pa.string())
    pq.write_table(pa.table({"caption": bad}), tmp_path / "d.parquet")
    summary = run(tmp_path / "d.parquet", tmp_path / "e.parquet", skips_bad=True)
    edits = pq.read_table(tmp_path / "e.parquet", columns=["edits"]).to_pydict()["edits"]
    assert [one is None for one in edits] == [False, True, False]
    assert (summary.bad, summary.bad_named) == (1, ("d.parquet, row 1 is not UTF-8",))


@pytest.mark.parametrize("name", ["b.tsv", "b.csv", "b.parquet"])
def test_any_form_can_become_a_table(tmp_path: Path, name: str) -> None:
    json_lines(tmp_path / "a.jsonl", {"image": "x", "captions": [DOG, CAT]})
    out = tmp_path / name
    run(tmp_path / "a.jsonl", out)
    if name == "b.parquet":
        [first, second] = pq.read_table(out).to_pylist()
    else:
        separator = "\t" if name == "b.tsv" else ","
        with out.open(newline="") as file:
            [first, second] = csv.DictReader(file, delimiter=separator)
    assert (first["id"], first["image"], first["caption"]) == ("1#0", "x", DOG)
    assert texts(json.loads(second["edits"]))[0] == "cat a on a mat"
    assert not second["skipped"]


def test_json_of_coco_keeps_everything(tmp_path: Path) -> None:
    coco: dict[str, Any] = {
        "info": {"year": 2014},
        "images": [{"id": 1, "file_name": "x.jpg", "license": 3}],
        "annotations": [
            {"id": 10, "image_id": 1, "caption": DOG, "extra": True},
            {"id": 11, "image_id": 1, "caption": "one"},
        ],
    }
    (tmp_path / "a.json").write_text(json.dumps(coco))
    run(tmp_path / "a.json", tmp_path / "b.json")
    found = json.loads((tmp_path / "b.json").read_text())
    added = [annotation.pop("edits") for annotation in found["annotations"]]
    assert texts(added[0]) == ["dog a on a sofa", f"{DOG} indeed"]
    assert added[1] == []
    assert found["annotations"][1].pop("skipped") == "one word"
    assert found == coco


def test_json_of_sentences_and_lists(tmp_path: Path) -> None:
    sentences = [{"raw": DOG, "tokens": ["a"]}, {"raw": CUP}]
    document = {"images": [{"filename": "x.jpg", "sentences": sentences}], "dataset": "ours"}
    (tmp_path / "a.json").write_text(json.dumps(document))
    run(tmp_path / "a.json", tmp_path / "b.json")
    found = json.loads((tmp_path / "b.json").read_text())
    assert found["dataset"] == "ours"
    firsts = [texts(one["edits"])[0] for one in found["images"][0]["sentences"]]
    assert firsts == ["dog a on a sofa", "cup a by a plate"]
    (tmp_path / "c.json").write_text(json.dumps([{"caption": [DOG, "one"]}, {"caption": CUP}]))
    run(tmp_path / "c.json", tmp_path / "d.json")
    many, single = json.loads((tmp_path / "d.json").read_text())
    assert [len(edits) for edits in many["edits"]] == [2, 0]
    assert many["skipped"] == ["", "one word"]
    assert len(single["edits"]) == 2


def test_shards_carry_every_member_through(tmp_path: Path) -> None:
    contents = {"a.jpg": b"\x00picture", "a.txt": DOG.encode(), "b.json": b'{"caption": "x y"}'}
    (tmp_path / "in").mkdir()
    for name in ("s-0.tar", "s-1.tar"):
        with tarfile.open(tmp_path / "in" / name, "w") as tar:
            folder = tarfile.TarInfo("folder")
            folder.type = tarfile.DIRTYPE
            tar.addfile(folder)
            for member, content in contents.items():
                info = tarfile.TarInfo(member)
                info.size, info.mtime, info.mode = len(content), 1_234, 0o600
                tar.addfile(info, io.BytesIO(content))
    run(tmp_path / "in", tmp_path / "out", form="shards")
    for name in ("s-0.tar", "s-1.tar"):
        with tarfile.open(tmp_path / "out" / name) as tar:
            names = tar.getnames()
            assert names == ["folder", "a.jpg", "a.txt", "a.edits.json", "b.json", "b.edits.json"]
            for member, content in contents.items():
                file = tar.extractfile(member)
                assert file
                assert file.read() == content
            assert tar.getmember("a.jpg").mode == 0o600
            file = tar.extractfile("a.edits.json")
            assert file
            [said] = json.load(file)
        assert said["id"] == f"{name[:-4]}/a"
        assert texts(said["edits"])[0] == "dog a on a sofa"


@settings(max_examples=15, deadline=None)
@given(
    captions=lists(text(characters(exclude_categories=["Cs"])), min_size=1, max_size=6),
    name=sampled_from(["jsonl", "tsv", "csv", "parquet"]),
)
def test_whatever_stands_in_a_caption_comes_back(captions: list[str], name: str) -> None:
    """From JSON lines to another form, and that form again to itself."""
    with TemporaryDirectory() as folder:
        first, second, third = (Path(folder, f"{at}.{name}") for at in "abc")
        lines_in = first.with_suffix(".in.jsonl")
        json_lines(lines_in, *({"caption": one} for one in captions))
        run(lines_in, first)
        found = list(entries(source(lines_in)))
        assert [one.text for entry in found for one in entry.captions] == captions
        _without_edits(first, second)
        again = [one for entry in entries(source(second)) for one in entry.captions]
        assert [one.text for one in again] == [cleaned(one) for one in captions]
        assert [one.id for one in again] == [str(at + 1) for at in range(len(captions))]
        tally = run(second, third).tally
        assert tally.captions == len(captions)


def _without_edits(path: Path, new: Path) -> None:
    """A copy in the same form without what was added."""
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        pq.write_table(table.drop_columns(["edits", "skipped"]), new)
    elif path.suffix == ".jsonl":
        kept = [{k: v for k, v in one.items() if k in ("id", "caption")} for one in lines(path)]
        json_lines(new, *kept)
    else:
        separator = "\t" if path.suffix == ".tsv" else ","
        with path.open(newline="") as file, new.open("w", newline="") as copy:
            rows = [row[:-2] for row in csv.reader(file, delimiter=separator)]
            csv.writer(copy, delimiter=separator).writerows(rows)
