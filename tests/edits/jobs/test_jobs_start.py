"""Jobs that are wrong from their start: told before anything is read, no bar to a mended one."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unbag.data.captions import Chunk, Source
from unbag.edits import parsing as pipelines
from unbag.edits import wordnet
from unbag.edits.jobs.chunks import JobFolder
from unbag.edits.jobs.run import EditJob, EditSummary, run_edit
from unbag.edits.jobs.workers import EditedChunk, EditSettings, InProcess, Runner
from unbag.edits.kinds import EditParts
from unbag.errors import UnbagError

from .made import CAT, DOG, json_lines
from .swapper import make, make_nothing

HERE = InProcess(make)


@pytest.fixture
def job(tmp_path: Path) -> EditJob:
    """Two captions in two chunks."""
    path = json_lines(tmp_path / "a.jsonl", {"caption": DOG}, {"caption": CAT})
    return EditJob(Source(str(path), "jsonl"), tmp_path / "b.jsonl", kinds=("negate",), chunk=1)


def never(chunks: Iterator[Chunk], settings: EditSettings) -> Iterator[EditedChunk]:
    raise AssertionError(chunks, settings)


def test_a_job_without_a_chunk_does_not_bar_another(job: EditJob) -> None:
    with pytest.raises(UnbagError, match="no pipeline"):
        run_edit(job, runner=InProcess(make_nothing))
    assert (JobFolder.of(job.out).folder / "run.json").exists()
    run_edit(replace(job, seed=1), runner=HERE)
    assert job.out.exists()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({"kinds": ("fill_object",)}, "fills need a language model, and none was named"),
        ({"kinds": ("rewrite_swap",)}, "rewriting needs a chat model"),
        ({"filters": ("fluensy",)}, "unknown filter 'fluensy'"),
        ({"filters": ("fluency:/no/such",)}, "there is no language model at '/no/such'"),
        ({"leak": "/no/such"}, "there is no language model at '/no/such'"),
        ({"parts": EditParts(fill="/no/such")}, "there is no language model at '/no/such'"),
        ({"parts": EditParts(rewrite="hf:/no/such")}, "there is no language model at '/no/such'"),
        ({"parts": EditParts(device="cudaa")}, "the device 'cudaa' cannot be used"),
        (
            {"leak": "owner/gpt", "parts": EditParts(device="cuda:99")},
            "the device 'cuda:99' cannot be used",
        ),
        ({"parts": EditParts(pipeline="no_such")}, "the parser 'no_such' cannot be loaded"),
        (
            {"kinds": ("antonym",), "parts": EditParts(wordnet="/no/such")},
            "there is no WordNet in '/no/such'",
        ),
        ({"form": "negclip", "neighbours": Path("/no/such")}, "there is no file /no/such"),
    ],
)
def test_mistakes_are_told_before_anything_is_read(
    job: EditJob, monkeypatch: pytest.MonkeyPatch, more: dict[str, object], found: str, workers: int
) -> None:
    def survey_source(source: Source) -> None:
        raise AssertionError(source)

    monkeypatch.setattr("unbag.edits.jobs.run.survey_source", survey_source)
    wrong = replace(job, workers=workers, **more)  # type: ignore[arg-type]
    with pytest.raises(UnbagError) as caught:
        run_edit(wrong)
    assert caught.value.message.startswith(found)
    assert caught.value.hint or caught.value.expected
    assert [path.name for path in job.out.parent.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize("form", ["jsonl", "shards"])
def test_an_output_that_is_a_folder(job: EditJob, tmp_path: Path, form: str) -> None:
    """`shards` is the form that the command line takes a folder for."""
    (tmp_path / "there").mkdir()
    with pytest.raises(UnbagError, match="there is a folder") as caught:
        run_edit(replace(job, out=tmp_path / "there", form=form), runner=never)
    assert caught.value.expected == "a file for the edits"
    assert caught.value.hint.endswith("there/edits.jsonl")


def test_a_missing_file_of_neighbours_names_its_own_option(job: EditJob) -> None:
    with pytest.raises(UnbagError) as caught:
        run_edit(replace(job, form="negclip", neighbours=Path("/no/such")))
    assert caught.value.hint == (
        "check the path given with --neighbours; `unbag nearest` makes such a file"
    )


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_a_disk_that_is_full_is_not_blamed_on_the_captions(
    job: EditJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The output is written while the captions are read once more."""

    def full(self: pq.ParquetWriter, table: pa.Table) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    pq.write_table(pa.table({"caption": [DOG, CAT]}), tmp_path / "a.parquet")
    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    source = Source(str(tmp_path / name), name.partition(".")[2])
    with pytest.raises(UnbagError, match="no room is left on the disk"):
        run_edit(replace(job, source=source, form="parquet"), runner=HERE)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_job_that_another_process_ended_meanwhile_is_not_done_again(
    job: EditJob, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """It ends while this one loads its models, after the first look and before the lock."""
    other = replace(job, seed=seed)

    def loads(job: EditJob) -> Runner:
        run_edit(other, runner=HERE)
        return never

    monkeypatch.setattr("unbag.edits.jobs.run._runner", loads)
    if seed:
        with pytest.raises(UnbagError, match=r"b\.jsonl exists already: seed: 1 before, 0 now"):
            run_edit(job)
    else:
        found = run_edit(job)
        assert (found.out, found.tally.captions) == (job.out, 2)
    assert not JobFolder.of(job.out).folder.exists()


def test_a_leak_that_fails_keeps_the_edits(job: EditJob, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise UnbagError("no such model")

    with monkeypatch.context() as patch:
        patch.setattr("unbag.edits.jobs.run.leaks", fails)
        with pytest.raises(UnbagError, match="no such model"):
            run_edit(replace(job, leak="wrong"), runner=HERE)
    assert len(JobFolder.of(job.out).done()) == 2
    monkeypatch.setattr("unbag.edits.jobs.run.leaks", lambda *_, **__: {})
    run_edit(replace(job, leak="right"), runner=lambda chunks, _: iter(()))
    found = EditSummary.read(job.out)
    assert found
    assert found.identity["leak"] == "right"


def test_a_leak_is_not_measured_of_a_finished_output(job: EditJob) -> None:
    run_edit(job, runner=HERE)
    with pytest.raises(UnbagError, match="its leak was not measured with gpt2") as caught:
        run_edit(replace(job, leak="gpt2"), runner=never)
    assert caught.value.hint == "delete it, or choose another place with --out"
    run_edit(job, runner=never)


def test_what_auto_found_decides(
    job: EditJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("1.0", "2.0"):
        folder = tmp_path / version
        folder.mkdir()
        meta = {"lang": "en", "name": "own", "version": version}
        (folder / "meta.json").write_text(json.dumps(meta))
    monkeypatch.setattr("unbag.edits.parsing.find_installed", lambda: str(tmp_path / "1.0"))
    monkeypatch.setattr("unbag.edits.wordnet.described", lambda choice: f"{choice} found")
    before = job.identity()
    assert (before["pipeline"], before["wordnet"]) == ("en_own 1.0", "auto found")
    monkeypatch.setattr("unbag.edits.parsing.find_installed", lambda: str(tmp_path / "2.0"))
    assert job.identity()["pipeline"] == "en_own 2.0"
    assert job.identity() | {"pipeline": "en_own 1.0"} == before


def test_parts_are_described_without_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pipelines.described("no_such") == "no_such"
    assert pipelines.described("numpy").startswith("numpy ")
    monkeypatch.setattr("unbag.edits.parsing.find_installed", lambda: None)
    assert pipelines.described("auto") == "auto"
    assert wordnet.described("/no/such") == "none"
    assert wordnet.described() == wordnet.find_wordnet().database.place
