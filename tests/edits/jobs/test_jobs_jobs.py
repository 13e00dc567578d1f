"""Jobs that are stopped, go on, meet trouble, or are there already: nothing done is lost."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from unbag.data.captions import Chunk, Source
from unbag.data.readers import entries
from unbag.edits.jobs.chunks import JobFolder
from unbag.edits.jobs.run import EditJob, EditSummary, run_edit
from unbag.edits.jobs.workers import EditedChunk, EditSettings, InProcess, Runner
from unbag.edits.kinds import EditParts
from unbag.edits.quality import sampled
from unbag.errors import UnbagError
from unbag.runs.progress import Silent
from unbag.types.json import to_json

from .swapper import edited, edits, make

HERE = InProcess(make)


@pytest.fixture
def job(tmp_path: Path) -> EditJob:
    """Twenty captions in ten chunks."""
    path = tmp_path / "a.jsonl"
    said = [{"image": f"{at}.jpg", "caption": f"a dog sees {at} cats"} for at in range(20)]
    path.write_text("".join(json.dumps(one) + "\n" for one in said))
    source = Source(str(path), "jsonl")
    return EditJob(source, tmp_path / "b.jsonl", kinds=("swap_nouns",), chunk=2)


def whole(job: EditJob, tmp_path: Path) -> bytes:
    """What the job gives when nothing gets in its way."""
    out = tmp_path / "whole.jsonl"
    run_edit(replace(job, out=out), runner=HERE)
    return out.read_bytes()


def dying_after(count: int, error: BaseException) -> Runner:
    def runner(chunks: Iterator[Chunk], settings: EditSettings) -> Iterator[EditedChunk]:
        for done, finished in enumerate(HERE(chunks, settings)):
            if done == count:
                raise error
            yield finished

    return runner


def backwards(chunks: Iterator[Chunk], settings: EditSettings) -> Iterator[EditedChunk]:
    yield from sorted(HERE(chunks, settings), key=lambda one: -one.index)


def test_chunks_and_their_order_do_not_matter(job: EditJob, tmp_path: Path) -> None:
    expected = whole(job, tmp_path)
    run_edit(job, runner=backwards)
    assert job.out.read_bytes() == expected
    other = replace(job, out=tmp_path / "c.jsonl", chunk=7)
    run_edit(other, runner=HERE)
    assert other.out.read_bytes() == expected
    assert not JobFolder.of(job.out).folder.exists()


def test_a_stopped_job_goes_on(job: EditJob, tmp_path: Path) -> None:
    progress = Silent()
    with pytest.raises(KeyboardInterrupt):
        run_edit(job, progress=progress, runner=dying_after(4, KeyboardInterrupt()))
    folder = JobFolder.of(job.out).folder
    assert progress.said[-1] == f"stopped; the same command goes on with what is in {folder}"
    assert not job.out.exists()
    asked: list[int] = []

    def rest(chunks: Iterator[Chunk], settings: EditSettings) -> Iterator[EditedChunk]:
        for finished in HERE(chunks, settings):
            asked.append(finished.index)
            yield finished

    progress = Silent()
    run_edit(job, progress=progress, runner=rest)
    assert progress.said[0] == "going on: 8 of 20 captions are done"
    assert asked == [4, 5, 6, 7, 8, 9]
    assert job.out.read_bytes() == whole(job, tmp_path)


def test_a_finished_job_is_not_done_again(job: EditJob) -> None:
    first = run_edit(job, runner=HERE)
    progress = Silent()
    second = run_edit(job, progress=progress, runner=dying_after(0, AssertionError()))
    assert progress.said == [f"{job.out} is done already; nothing was computed"]
    assert to_json(second.tally) == to_json(first.tally)


def test_another_job_is_refused_in_words(job: EditJob) -> None:
    run_edit(job, runner=HERE)
    with pytest.raises(UnbagError, match="exists already: seed: 0 before, 1 now") as caught:
        run_edit(replace(job, seed=1), runner=HERE)
    assert "--out" in caught.value.hint
    EditSummary.path(job.out).unlink()
    with pytest.raises(UnbagError, match="exists already: nothing says how it was made"):
        run_edit(job, runner=HERE)


def test_parts_of_another_job_are_refused(job: EditJob) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_edit(job, runner=dying_after(1, KeyboardInterrupt()))
    with pytest.raises(UnbagError, match="another edit job: per_kind: 1 before, 2 now") as caught:
        run_edit(replace(job, per_kind=2), runner=HERE)
    assert "the old settings" in caught.value.hint
    with Path(job.source.path).open("a") as file:
        file.write('{"caption": "one more"}\n')
    with pytest.raises(UnbagError, match="another edit job: captions: "):
        run_edit(job, runner=HERE)


@pytest.mark.parametrize("identity", [None, [], "seed"])
def test_a_record_without_an_identity_is_refused(job: EditJob, identity: object) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_edit(job, runner=dying_after(1, KeyboardInterrupt()))
    place = JobFolder.of(job.out).folder / "run.json"
    found = json.loads(place.read_text())
    place.write_text(json.dumps(found | {"identity": identity}))
    with pytest.raises(UnbagError, match=r"holds a run\.json without kind or identity") as caught:
        run_edit(job, runner=HERE)
    assert "the edit job, written by this version of unbag" in caught.value.expected
    place.write_text("{")
    with pytest.raises(UnbagError, match=r"run\.json cannot be read") as caught:
        run_edit(job, runner=HERE)
    assert caught.value.expected == "the record of the edit job"


@pytest.mark.parametrize("line", ["head", "caption", "digest", "cut", "empty"])
def test_a_damaged_chunk_is_named_and_made_anew(job: EditJob, tmp_path: Path, line: str) -> None:
    """Each stays JSON that can be read, but for the last."""
    with pytest.raises(KeyboardInterrupt):
        run_edit(job, runner=dying_after(4, KeyboardInterrupt()))
    chunk = JobFolder.of(job.out).folder / "000002.jsonl"
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
    assert caught.value.hint.startswith("delete it and give the same command again")
    assert not job.out.exists()
    chunk.unlink()
    run_edit(job, runner=HERE)
    assert job.out.read_bytes() == whole(job, tmp_path)


def test_captions_may_hold_odd_ends_of_lines(job: EditJob) -> None:
    """JSON writes them as they are, and Python would end a line there."""
    said = "a dog\u2028sees\x85cats"
    Path(job.source.path).write_text(json.dumps({"caption": said, "id": "\u2028"}) + "\n")
    assert run_edit(job, runner=HERE).tally.captions == 1
    assert json.loads(job.out.read_text(encoding="utf-8"))["id"] == "\u2028"


def test_a_full_disk_keeps_what_is_done(
    job: EditJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: JobFolder, finished: EditedChunk) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(KeyboardInterrupt):
        run_edit(job, runner=dying_after(3, KeyboardInterrupt()))
    with monkeypatch.context() as patch:
        patch.setattr(JobFolder, "save", full)
        with pytest.raises(UnbagError, match="no room is left") as caught:
            run_edit(job, runner=HERE)
    assert "after the last chunk that was saved" in caught.value.hint
    assert len(JobFolder.of(job.out).done()) == 3
    run_edit(job, runner=HERE)
    assert job.out.read_bytes() == whole(job, tmp_path)


@pytest.mark.parametrize(("size", "kept"), [("16k", "some"), ("48k", "all")])
def test_a_disk_that_is_really_full(job: EditJob, tmp_path: Path, size: str, kept: str) -> None:
    """Too small for the chunks; then large enough for them, but not for the output."""
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
        assert done == 10 if kept == "all" else 0 < done < 10
        assert "make room" in caught.value.hint
        assert not small.out.exists()
        subprocess.run([*mount[:4], "remount,size=1m", *mount[5:]], check=True)
        run_edit(small, runner=dying_after(10 - done, AssertionError()))
        assert small.out.read_bytes() == whole(job, tmp_path)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_caption_that_fails_costs_itself_only(job: EditJob) -> None:
    captions = [f"a dog sees {at} cats" for at in range(40)]
    captions[17] = "a big boom"
    said = "".join(json.dumps({"caption": one}) + "\n" for one in captions)
    Path(job.source.path).write_text(said)
    summary = run_edit(replace(job, chunk=512), runner=HERE)
    assert summary.tally.captions == 40
    assert summary.tally.edited == 39
    assert summary.tally.skipped == {"the editor failed: ValueError": 1}
    assert summary.failures_named == ("'18': ValueError: boom!\nall over",)
    lines = [json.loads(line) for line in job.out.read_text().splitlines()]
    assert lines[17]["skipped"] == "the editor failed: ValueError"
    assert [len(line["edits"]) for line in lines] == [2] * 17 + [0] + [2] * 22


def test_an_editor_that_always_fails_ends_the_job(job: EditJob) -> None:
    said = "".join(json.dumps({"caption": f"a boom of {at}"}) + "\n" for at in range(20))
    Path(job.source.path).write_text(said)
    with pytest.raises(UnbagError, match="the editor failed on all captions of chunk 0") as caught:
        run_edit(replace(job, chunk=512), runner=HERE)
    assert "first on '1': ValueError: boom!" in caught.value.message


def test_what_is_asked_is_checked_first(job: EditJob, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnbagError, match="unknown kind of edit 'swap_nowns'"):
        run_edit(replace(job, kinds=("swap_nowns",)), runner=HERE)
    with pytest.raises(UnbagError, match="per_kind 0"):
        run_edit(replace(job, per_kind=0), runner=HERE)
    monkeypatch.setattr("unbag.edits.parsing.find_installed", lambda: None)
    with pytest.raises(UnbagError, match="no spaCy pipeline was found") as caught:
        run_edit(job, runner=HERE)
    assert "python -m spacy download en_core_web_sm" in caught.value.hint
    assert not JobFolder.of(job.out).folder.exists()


def test_broken_captions_leave_nothing_behind(job: EditJob) -> None:
    Path(job.source.path).write_text("{")
    with pytest.raises(UnbagError, match="line 1 is not JSON"):
        run_edit(job, runner=HERE)
    assert [path.name for path in job.out.parent.iterdir()] == ["a.jsonl"]


def test_a_place_that_cannot_be_written(job: EditJob, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnbagError, match="cannot write to the folder"):
        run_edit(replace(job, out=tmp_path / "file" / "b.jsonl"), runner=HERE)


def test_what_does_not_decide_the_output_is_not_asked(job: EditJob) -> None:
    same = replace(job, workers=3, parts=EditParts(cache="x", concurrency=2, budget=5))
    assert same.asked() == job.asked()
    assert replace(job, parts=EditParts(fill="x")).asked() != job.asked()


def test_the_sample_for_the_leak_depends_on_ids_alone(job: EditJob) -> None:
    parts = [part for entry in entries(job.source) for part in entry.given()]
    given = [one for part in parts for one in part]
    found, _ = edits(given)
    pairs = sampled(found, 5)
    assert len(pairs) == 10
    assert {pair.kind for pair in pairs} == {"first_words", "indeed"}
    assert sampled(reversed(found), 5) == pairs
    assert sampled([edited(given[0])], 5)[0].original == given[0].text


class _Lengths:
    def of(self, captions: Sequence[str]) -> list[float]:
        """Shorter is likelier."""
        return [-float(len(caption)) for caption in captions]


def test_the_leak_of_each_kind_is_in_the_summary(
    job: EditJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def load(path: str, *, device: str) -> _Lengths:
        asked.append(path)
        return _Lengths()

    monkeypatch.setattr("unbag.models.baselines.load_likelihood", load)
    summary = run_edit(replace(job, leak="model"), runner=HERE)
    assert asked == ["model"]
    # Exchanged words keep the length, "indeed" adds to it.
    assert summary.leaks["first_words"].preferred == 0.5
    assert summary.leaks["indeed"].preferred == 1.0
    read = EditSummary.read(job.out)
    assert read
    assert read.leaks == summary.leaks
