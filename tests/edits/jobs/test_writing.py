"""Collections are written in any form: nothing is lost, edits are added."""

from __future__ import annotations

import ast
import csv
import json
import tarfile
from importlib import import_module
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
from unbag.errors import UnbagError
from unbag.types import Change

from .made import CUP, DOG, KINDS, json_lines, run, shard, source
from .swapper import NEGATIVE, POSITIVE, make

CAT = "a cat  on\na mat"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def texts(edits: list[dict[str, Any]]) -> list[str]:
    return [edit["text"] for edit in edits]


def test_json_lines_describe_the_edits(tmp_path: Path) -> None:
    records: list[dict[str, object]] = [
        {"image": "x.jpg", "captions": [DOG, CAT], "split": "val"},
        {"id": "é", "caption": "🙂"},
    ]
    json_lines(tmp_path / "a.jsonl", *records)
    run(tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    found = lines(tmp_path / "b.jsonl")
    assert [record["id"] for record in found] == ["1#0", "1#1", "é"]
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
    for record in found:
        for edit in record["edits"]:
            changes = [Change(*change) for change in edit["changes"]]
            assert apply(record["caption"], changes) == edit["text"]
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


def test_parquet_keeps_row_groups_and_metadata(tmp_path: Path) -> None:
    features = {"info": {"features": {"caption": {"dtype": "string", "_type": "Value"}}}}
    table = pa.table({"caption": [DOG, None, CUP], "image": [b"1", b"2", b"3"]})
    table = table.replace_schema_metadata({"huggingface": json.dumps(features)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    run(tmp_path / "a.parquet", tmp_path / "b.parquet")
    found = pq.ParquetFile(tmp_path / "b.parquet")
    assert found.num_row_groups == 2
    table_out = found.read().to_pydict()
    assert table_out["caption"] == [DOG, None, CUP]
    assert table_out["image"] == [b"1", b"2", b"3"]
    assert texts(json.loads(table_out["edits"][2])) == ["cup a by a plate", f"{CUP} indeed"]
    assert table_out["skipped"] == [None, "empty", None]
    metadata = json.loads(found.schema_arrow.metadata[b"huggingface"])
    assert set(metadata["info"]["features"]) == {"caption", "edits", "skipped"}


def test_parquet_of_lists_with_a_limit_and_a_broken_row(tmp_path: Path) -> None:
    pq.write_table(pa.table({"caption": [[DOG, CAT], [], [CUP]]}), tmp_path / "a.parquet")
    run(tmp_path / "a.parquet", tmp_path / "b.parquet")
    table = pq.read_table(tmp_path / "b.parquet").to_pydict()
    assert [len(edits) for edits in json.loads(table["edits"][0])] == [2, 2]
    assert table["edits"][1] is None
    run(tmp_path / "a.parquet", tmp_path / "c.parquet", limit=1)
    assert pq.read_table(tmp_path / "c.parquet").num_rows == 1
    bad = pa.array([DOG.encode(), b"\xff", CUP.encode()]).view(pa.string())
    pq.write_table(pa.table({"caption": bad}), tmp_path / "d.parquet")
    summary = run(tmp_path / "d.parquet", tmp_path / "e.parquet", skips_bad=True)
    edits = pq.read_table(tmp_path / "e.parquet", columns=["edits"]).to_pydict()["edits"]
    assert [cell is None for cell in edits] == [False, True, False]
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
    firsts = [texts(s["edits"])[0] for s in found["images"][0]["sentences"]]
    assert firsts == ["dog a on a sofa", "cup a by a plate"]
    (tmp_path / "c.json").write_text(json.dumps([{"caption": [DOG, "one"]}, {"caption": CUP}]))
    run(tmp_path / "c.json", tmp_path / "d.json")
    many, single = json.loads((tmp_path / "d.json").read_text())
    assert [len(edits) for edits in many["edits"]] == [2, 0]
    assert many["skipped"] == ["", "one word"]
    assert len(single["edits"]) == 2


def test_shards_keep_every_member(tmp_path: Path) -> None:
    contents = {"a.jpg": b"\x00picture", "a.txt": DOG.encode(), "b.json": b'{"caption": "x y"}'}
    (tmp_path / "in").mkdir()
    for name in ("s-0.tar", "s-1.tar"):
        shard(tmp_path / "in" / name, contents, folder="folder")
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
            [record] = json.load(file)
        assert record["id"] == f"{name[:-4]}/a"
        assert texts(record["edits"])[0] == "dog a on a sofa"


@settings(max_examples=15, deadline=None)
@given(
    captions=lists(text(characters(exclude_categories=["Cs"])), min_size=1, max_size=6),
    name=sampled_from(["jsonl", "tsv", "csv", "parquet"]),
)
def test_any_caption_survives(captions: list[str], name: str) -> None:
    """From JSON lines to another form, and that form again to itself."""
    with TemporaryDirectory() as folder:
        first, second, third = (Path(folder, f"{letter}.{name}") for letter in "abc")
        lines_in = first.with_suffix(".in.jsonl")
        json_lines(lines_in, *({"caption": caption} for caption in captions))
        run(lines_in, first)
        found = list(entries(source(lines_in)))
        assert [c.text for entry in found for c in entry.captions] == captions
        _without_edits(first, second)
        again = [c for entry in entries(source(second)) for c in entry.captions]
        assert [c.text for c in again] == [cleaned(caption) for caption in captions]
        assert [c.id for c in again] == [str(i + 1) for i in range(len(captions))]
        tally = run(second, third).tally
        assert tally.captions == len(captions)


def _without_edits(path: Path, new: Path) -> None:
    """A copy in the same form without what was added."""
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        pq.write_table(table.drop_columns(["edits", "skipped"]), new)
    elif path.suffix == ".jsonl":
        json_lines(new, *({key: line[key] for key in ("id", "caption")} for line in lines(path)))
    else:
        separator = "\t" if path.suffix == ".tsv" else ","
        with path.open(newline="") as file, new.open("w", newline="") as copy:
            rows = [row[:-2] for row in csv.reader(file, delimiter=separator)]
            csv.writer(copy, delimiter=separator).writerows(rows)


def negclip_rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file, delimiter="\t"))


def test_the_tsv_of_negclip(tmp_path: Path) -> None:
    json_lines(
        tmp_path / "a.jsonl",
        {"image": "x.jpg", "captions": [DOG, "one", 'it\'s "two" words']},
        {"image": "none.jpg", "caption": "one"},
        {"image": "y.jpg", "caption": CUP},
    )
    near = tmp_path / "near.jsonl"
    json_lines(
        near,
        {"image": "x.jpg", "neighbours": ["none.jpg", "x.jpg", "y.jpg"]},
        {"image": "y.jpg", "neighbours": ["x.jpg"]},
    )
    summary = run(tmp_path / "a.jsonl", tmp_path / "b.tsv", form="negclip", neighbours=near)
    header, *rows = negclip_rows(tmp_path / "b.tsv")
    assert header == ["", "title", "filepath", "neg_caption", "neg_image"]
    assert [row[:3] for row in rows] == [
        ["0", DOG, "x.jpg"],
        ["1", 'it\'s "two" words', "x.jpg"],
        ["2", CUP, "y.jpg"],
    ]
    assert [ast.literal_eval(row[3]) for row in rows] == [
        ["dog a on a sofa"],
        ['"two" it\'s words'],
        ["cup a by a plate"],
    ]
    # Row 1 has no second caption of y to meet; row 2 meets the first of x.
    assert [ast.literal_eval(row[4]) for row in rows] == [[2], [2], [0]]
    assert not summary.notes


def test_the_tsv_of_negclip_as_its_trainer_reads_it(tmp_path: Path) -> None:
    """With pandas and a converter for the two lists, as in the public copies of that code."""
    pytest.importorskip("pandas")
    pandas: Any = import_module("pandas")
    caption = 'a "red" dog\'s\tbowl, and a\\b'
    json_lines(tmp_path / "a.jsonl", {"image": "x.jpg", "captions": [caption, DOG]})
    run(tmp_path / "a.jsonl", tmp_path / "b.tsv", form="negclip")
    lists = {"neg_caption": ast.literal_eval, "neg_image": ast.literal_eval}
    found = pandas.read_csv(tmp_path / "b.tsv", sep="\t", converters=lists)
    assert found["title"].tolist() == ['a "red" dog\'s bowl, and a\\b', DOG]
    assert found["filepath"].tolist() == ["x.jpg", "x.jpg"]
    assert found["neg_caption"].tolist() == [
        ['"red" a dog\'s bowl, and a\\b'],
        ["dog a on a sofa"],
    ]
    assert found["neg_image"].tolist() == [[], []]


def test_the_tsv_of_negclip_without_near_images_says_so(tmp_path: Path) -> None:
    json_lines(tmp_path / "a.jsonl", {"image": "x.jpg", "caption": DOG})
    summary = run(tmp_path / "a.jsonl", tmp_path / "b.tsv", form="negclip")
    assert negclip_rows(tmp_path / "b.tsv")[1][4] == "[]"
    [note] = summary.notes
    assert note.startswith("neg_image is empty in 1 rows; NegCLIP's public training code draws")
    assert note.endswith("give the nearest images with --neighbours")
    near = json_lines(tmp_path / "near.jsonl", {"image": "x.jpg", "neighbours": ["z.jpg"]})
    summary = run(tmp_path / "a.jsonl", tmp_path / "c.tsv", form="negclip", neighbours=near)
    assert summary.notes[0].endswith("has a row: give more neighbours per image")


def test_negclip_needs_images_and_neighbours_need_negclip(tmp_path: Path) -> None:
    json_lines(tmp_path / "a.jsonl", {"caption": DOG})
    with pytest.raises(UnbagError, match=r"1 of 1 captions of .* have no image") as caught:
        run(tmp_path / "a.jsonl", tmp_path / "b.tsv", form="negclip")
    assert "--image-column" in caught.value.hint
    near = json_lines(tmp_path / "near.jsonl", {"image": "x.jpg", "neighbours": []})
    with pytest.raises(UnbagError, match="neighbours are given, but the form is tsv"):
        run(tmp_path / "a.jsonl", tmp_path / "b.tsv", neighbours=near)
    json_lines(tmp_path / "c.jsonl", {"caption": DOG, "image": "x"})
    near.write_text("")
    with pytest.raises(UnbagError, match="contains no neighbours"):
        run(tmp_path / "c.jsonl", tmp_path / "d.tsv", form="negclip", neighbours=near)
