"""Edit jobs: checks before they start, interruptions, full disks, damage, and finished outputs.

What all resumable jobs have in common is tested in `tests/contracts/test_resumable_jobs.py`.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unbag.data.captions import Chunk, Source
from unbag.edits.jobs.chunks import JobFolder
from unbag.edits.jobs.run import EditJob, EditSummary, run_edit
from unbag.edits.jobs.workers import EditedChunk, EditSettings, InProcess, Runner
from unbag.edits.kinds import EditParts
from unbag.errors import UnbagError
from unbag.runs.progress import Silent
from unbag.types.json import to_json

from .made import CAT, DOG, json_lines
from .swapper import make, make_nothing

HERE = InProcess(make)


@pytest.fixture
def job(tmp_path: Path) -> EditJob:
    """Twenty captions in ten chunks."""
    records = [{"image": f"{i}.jpg", "caption": f"a dog sees {i} cats"} for i in range(20)]
    path = json_lines(tmp_path / "a.jsonl", *records)
    source = Source(str(path), "jsonl")
    return EditJob(source, tmp_path / "b.jsonl", kinds=("swap_nouns",), chunk=2)


def write_captions(job: EditJob, captions: Sequence[str]) -> None:
    json_lines(Path(job.source.path), *({"caption": caption} for caption in captions))


def expected(job: EditJob, tmp_path: Path) -> bytes:
    """The output of the job without interruption."""
    out = tmp_path / "expected.jsonl"
    run_edit(replace(job, out=out), runner=HERE)
    return out.read_bytes()


def dying_after(count: int, error: BaseException) -> Runner:
    def runner(chunks: Iterator[Chunk], settings: EditSettings) -> Iterator[EditedChunk]:
        for number, finished in enumerate(HERE(chunks, settings)):
            if number == count:
                raise error
            yield finished

    return runner


def never(chunks: Iterator[Chunk], settings: EditSettings) -> Iterator[EditedChunk]:
    raise AssertionError(chunks, settings)


def interrupt(job: EditJob, *, after: int) -> Path:
    """Interrupt the job after some chunks; returns its folder."""
    with pytest.raises(KeyboardInterrupt):
        run_edit(job, runner=dying_after(after, KeyboardInterrupt()))
    return JobFolder.of(job.out).folder


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kinds": ("swap_nowns",)}, "unknown kind of edit 'swap_nowns'"),
        ({"per_kind": 0}, "chunk 2, per_kind 0"),
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
def test_mistakes_are_reported_before_captions_are_read(
    job: EditJob,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, object],
    message: str,
    workers: int,
) -> None:
    def survey_source(source: Source) -> None:
        raise AssertionError(source)

    monkeypatch.setattr("unbag.edits.jobs.run.survey_source", survey_source)
    wrong = replace(job, workers=workers, **settings)  # type: ignore[arg-type]
    with pytest.raises(UnbagError) as caught:
        run_edit(wrong)
    assert caught.value.message.startswith(message)
    assert caught.value.hint or caught.value.expected
    if "neighbours" in settings:
        assert "--neighbours" in caught.value.hint
    assert [path.name for path in job.out.parent.iterdir()] == ["a.jsonl"]


def test_a_missing_pipeline(job: EditJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unbag.edits.parsing.find_installed", lambda: None)
    with pytest.raises(UnbagError, match="no spaCy pipeline was found"):
        run_edit(job, runner=HERE)
    assert not JobFolder.of(job.out).folder.exists()


def test_malformed_captions_leave_nothing_behind(job: EditJob) -> None:
    Path(job.source.path).write_text("{")
    with pytest.raises(UnbagError, match="line 1 is not JSON"):
        run_edit(job, runner=HERE)
    assert [path.name for path in job.out.parent.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize("form", ["jsonl", "shards"])
def test_an_output_that_is_a_folder(job: EditJob, tmp_path: Path, form: str) -> None:
    """For a folder the command line uses the form `shards`."""
    (tmp_path / "there").mkdir()
    with pytest.raises(UnbagError, match="there is a folder") as caught:
        run_edit(replace(job, out=tmp_path / "there", form=form), runner=never)
    assert caught.value.expected == "a file for the edits"
    assert caught.value.hint.endswith("there/edits.jsonl")
    (tmp_path / "file").touch()
    with pytest.raises(UnbagError, match="cannot write to the folder"):
        run_edit(replace(job, out=tmp_path / "file" / "b.jsonl"), runner=HERE)


def test_a_job_without_chunks_does_not_block_another(job: EditJob) -> None:
    with pytest.raises(UnbagError, match="no pipeline"):
        run_edit(job, runner=InProcess(make_nothing))
    assert (JobFolder.of(job.out).folder / "run.json").exists()
    run_edit(replace(job, seed=1), runner=HERE)
    assert job.out.exists()


def test_the_output_does_not_depend_on_chunks(job: EditJob, tmp_path: Path) -> None:
    def backwards(chunks: Iterator[Chunk], settings: EditSettings) -> Iterator[EditedChunk]:
        yield from sorted(HERE(chunks, settings), key=lambda chunk: -chunk.index)

    output = expected(job, tmp_path)
    run_edit(job, runner=backwards)
    assert job.out.read_bytes() == output
    assert not JobFolder.of(job.out).folder.exists()
    other = replace(job, out=tmp_path / "c.jsonl", chunk=7)
    run_edit(other, runner=HERE)
    assert other.out.read_bytes() == output


def test_a_resumed_job_edits_the_missing_chunks_only(job: EditJob, tmp_path: Path) -> None:
    progress = Silent()
    with pytest.raises(KeyboardInterrupt):
        run_edit(job, progress=progress, runner=dying_after(4, KeyboardInterrupt()))
    folder = JobFolder.of(job.out).folder
    assert progress.said[-1] == f"stopped; the same command resumes from {folder}"
    assert not job.out.exists()
    edited: list[int] = []

    def rest(chunks: Iterator[Chunk], settings: EditSettings) -> Iterator[EditedChunk]:
        for finished in HERE(chunks, settings):
            edited.append(finished.index)
            yield finished

    progress = Silent()
    run_edit(job, progress=progress, runner=rest)
    assert progress.said[0] == "resuming: 8 of 20 captions are done"
    assert edited == [4, 5, 6, 7, 8, 9]
    assert job.out.read_bytes() == expected(job, tmp_path)


def test_changed_captions_are_refused(job: EditJob) -> None:
    interrupt(job, after=1)
    with Path(job.source.path).open("a") as file:
        file.write('{"caption": "one more"}\n')
    with pytest.raises(UnbagError, match="another edit job: captions: "):
        run_edit(job, runner=HERE)


@pytest.mark.parametrize("identity", [None, [], "seed"])
def test_a_record_without_an_identity_is_refused(job: EditJob, identity: object) -> None:
    path = interrupt(job, after=1) / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"identity": identity}))
    with pytest.raises(UnbagError, match=r"holds a run\.json without kind or identity"):
        run_edit(job, runner=HERE)
    path.write_text("{")
    with pytest.raises(UnbagError, match=r"run\.json cannot be read"):
        run_edit(job, runner=HERE)


@pytest.mark.parametrize("line", ["head", "caption", "digest", "cut", "empty"])
def test_a_damaged_chunk_is_named(job: EditJob, tmp_path: Path, line: str) -> None:
    """All but the last remain valid JSON."""
    chunk = interrupt(job, after=4) / "000002.jsonl"
    text = chunk.read_text()
    damaged = {
        "head": text.replace('"captions": 2', '"captions": 3'),
        "caption": text.replace("cats", "bats", 1),
        "digest": ("1" if text[0] == "0" else "0") + text[1:],
        "cut": text[: text.rindex("\n", 0, -1) + 1],
        "empty": "",
    }[line]
    assert damaged != text
    chunk.write_text(damaged)
    with pytest.raises(UnbagError, match=r"000002\.jsonl is damaged") as caught:
        run_edit(job, runner=HERE)
    assert caught.value.hint.startswith("delete it")
    assert not job.out.exists()
    chunk.unlink()
    run_edit(job, runner=HERE)
    assert job.out.read_bytes() == expected(job, tmp_path)


def test_captions_may_contain_other_line_separators(job: EditJob) -> None:
    """JSON keeps them, and `str.splitlines` would split there."""
    record = {"caption": "a dog\u2028sees\x85cats", "id": "\u2028"}
    Path(job.source.path).write_text(json.dumps(record) + "\n")
    assert run_edit(job, runner=HERE).tally.captions == 1
    assert json.loads(job.out.read_text(encoding="utf-8"))["id"] == "\u2028"


@pytest.mark.parametrize(("size", "saved"), [("16k", "some"), ("48k", "all")])
def test_a_full_disk(job: EditJob, tmp_path: Path, size: str, saved: str) -> None:
    """A real one: too small for the chunks, or large enough for them but not for the output."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a file system can be mounted by root only")
    try:
        small = replace(job, out=disk / "b.jsonl")
        with pytest.raises(UnbagError, match="no room is left on the disk") as caught:
            run_edit(small, runner=HERE)
        done = len(JobFolder.of(small.out).done())
        assert done == 10 if saved == "all" else 0 < done < 10
        assert "make room" in caught.value.hint
        assert "after the last chunk that was saved" in caught.value.hint
        assert not small.out.exists()
        subprocess.run([*mount[:4], "remount,size=1m", *mount[5:]], check=True)
        run_edit(small, runner=dying_after(10 - done, AssertionError()))
        assert small.out.read_bytes() == expected(job, tmp_path)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_a_full_disk_is_not_blamed_on_the_captions(
    job: EditJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The output is written while the captions are read again."""

    def full(self: pq.ParquetWriter, table: pa.Table) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    pq.write_table(pa.table({"caption": [DOG, CAT]}), tmp_path / "a.parquet")
    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    source = Source(str(tmp_path / name), name.partition(".")[2])
    with pytest.raises(UnbagError, match="no room is left on the disk"):
        run_edit(replace(job, source=source, form="parquet"), runner=HERE)


def test_a_failing_caption_is_skipped(job: EditJob) -> None:
    captions = [f"a dog sees {i} cats" for i in range(40)]
    captions[17] = "a big boom"
    write_captions(job, captions)
    summary = run_edit(replace(job, chunk=512), runner=HERE)
    assert (summary.tally.captions, summary.tally.edited) == (40, 39)
    assert summary.tally.skipped == {"the editor failed: ValueError": 1}
    assert summary.failures_named == ("'18': ValueError: boom!\nall over",)
    lines = [json.loads(line) for line in job.out.read_text().splitlines()]
    assert lines[17]["skipped"] == "the editor failed: ValueError"
    assert [len(line["edits"]) for line in lines] == [2] * 17 + [0] + [2] * 22


def test_an_editor_that_always_fails_ends_the_job(job: EditJob) -> None:
    write_captions(job, [f"a boom of {i}" for i in range(20)])
    with pytest.raises(UnbagError, match="the editor failed on all captions of chunk 0") as caught:
        run_edit(replace(job, chunk=512), runner=HERE)
    assert "first on '1': ValueError: boom!" in caught.value.message


def test_a_finished_job_is_not_repeated(job: EditJob) -> None:
    first = run_edit(job, runner=HERE)
    progress = Silent()
    second = run_edit(job, progress=progress, runner=never)
    assert progress.said == [f"{job.out} is done already; nothing was computed"]
    assert to_json(second.tally) == to_json(first.tally)
    for changed, message in (
        (replace(job, seed=1), "seed: 0 before, 1 now"),
        (replace(job, leak="gpt2"), "its leak was not measured with gpt2"),
    ):
        with pytest.raises(UnbagError, match=f"exists already: {message}") as caught:
            run_edit(changed, runner=never)
        assert "--out" in caught.value.hint
    EditSummary.path(job.out).unlink()
    with pytest.raises(UnbagError, match="exists already: its summary is missing or unreadable"):
        run_edit(job, runner=never)


@pytest.mark.parametrize("seed", [0, 1])
def test_another_process_finishes_while_this_one_loads(
    job: EditJob, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """After the first check and before the lock."""

    def loads(loading: EditJob) -> Runner:
        run_edit(replace(job, seed=seed), runner=HERE)
        return never

    monkeypatch.setattr("unbag.edits.jobs.run._runner", loads)
    if seed:
        with pytest.raises(UnbagError, match=r"b\.jsonl exists already: seed: 1 before, 0 now"):
            run_edit(job)
    else:
        summary = run_edit(job)
        assert (summary.out, summary.tally.captions) == (job.out, 20)
    assert not JobFolder.of(job.out).folder.exists()


class _Lengths:
    def of(self, captions: Sequence[str]) -> list[float]:
        """Shorter is likelier."""
        return [-float(len(caption)) for caption in captions]


def test_the_leak_of_each_kind_is_in_the_summary(
    job: EditJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    def load(path: str, *, device: str) -> _Lengths:
        loaded.append(path)
        return _Lengths()

    monkeypatch.setattr("unbag.models.baselines.load_likelihood", load)
    summary = run_edit(replace(job, leak="model"), runner=HERE)
    assert loaded == ["model"]
    # Exchanged words keep the length, "indeed" adds to it.
    assert summary.leaks["first_words"].preferred == 0.5
    assert summary.leaks["indeed"].preferred == 1.0
    read = EditSummary.read(job.out)
    assert read
    assert read.leaks == summary.leaks


def test_a_leak_that_fails_does_not_lose_the_edits(
    job: EditJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise UnbagError("no such model")

    with monkeypatch.context() as patch:
        patch.setattr("unbag.edits.jobs.run.leaks", fails)
        with pytest.raises(UnbagError, match="no such model"):
            run_edit(replace(job, leak="wrong"), runner=HERE)
    assert len(JobFolder.of(job.out).done()) == 10
    monkeypatch.setattr("unbag.edits.jobs.run.leaks", lambda *_, **__: {})
    run_edit(replace(job, leak="right"), runner=lambda chunks, _: iter(()))
    summary = EditSummary.read(job.out)
    assert summary
    assert summary.identity["leak"] == "right"


def test_the_identity_of_a_job(
    job: EditJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It contains what "auto" finds, and nothing that does not change the output."""
    same = replace(job, workers=3, parts=EditParts(cache="x", concurrency=2, budget=5))
    assert same.identity() == job.identity()
    assert replace(job, parts=EditParts(fill="x")).identity() != job.identity()
    for version in ("1.0", "2.0"):
        (tmp_path / version).mkdir()
        meta = {"lang": "en", "name": "own", "version": version}
        (tmp_path / version / "meta.json").write_text(json.dumps(meta))
    monkeypatch.setattr("unbag.edits.wordnet.described", lambda choice: f"{choice} found")
    found = {}
    for version in ("1.0", "2.0"):
        place = str(tmp_path / version)
        monkeypatch.setattr("unbag.edits.parsing.find_installed", lambda place=place: place)
        found[version] = job.identity()
        assert found[version]["pipeline"] == f"en_own {version}"
        assert found[version]["wordnet"] == "auto found"
    assert found["2.0"] | {"pipeline": "en_own 1.0"} == found["1.0"]
