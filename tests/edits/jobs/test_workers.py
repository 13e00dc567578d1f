"""Several processes give the bytes of one, even if some of them die."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from unbag.data.captions import Chunk, Source
from unbag.edits.jobs.run import EditJob, run_edit
from unbag.edits.jobs.workers import EditSettings, InProcess, Processes
from unbag.errors import UnbagError
from unbag.types import Given

from .made import json_lines


@pytest.fixture
def swapper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The editor of the other tests, under a name that new processes can import."""
    shutil.copy(Path(__file__).with_name("swapper.py"), tmp_path / "corpus_swapper.py")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "corpus_swapper", raising=False)
    monkeypatch.chdir(tmp_path)
    return import_module("corpus_swapper")


def job_of(tmp_path: Path, captions: list[str]) -> EditJob:
    path = json_lines(tmp_path / "a.jsonl", *({"caption": caption} for caption in captions))
    source = Source(str(path), "jsonl")
    return EditJob(source, tmp_path / "b.jsonl", kinds=("swap_nouns",), chunk=3)


CAPTIONS = [f"a dog sees {i} cats" for i in range(30)]


def expected(job: EditJob, swapper: ModuleType) -> bytes:
    out = job.out.with_name("one.jsonl")
    run_edit(replace(job, out=out), runner=InProcess(swapper.make))
    return out.read_bytes()


def test_two_processes_give_the_bytes_of_one(tmp_path: Path, swapper: ModuleType) -> None:
    """One of them dies."""
    job = job_of(tmp_path, [*CAPTIONS[:10], "this dies once", *CAPTIONS[10:], "a boom", "🙂"])
    before = dict(os.environ)
    run_edit(job, runner=Processes(2, swapper.make))
    assert (tmp_path / "died-once").exists()
    assert job.out.read_bytes() == expected(job, swapper)
    assert dict(os.environ) == before


def test_no_more_chunks_are_taken_than_are_worked_on(swapper: ModuleType) -> None:
    taken: list[int] = []

    def flow() -> Iterator[Chunk]:
        for index in range(40):
            taken.append(index)
            yield Chunk(index, (Given(str(index), "a dog sees cats"),))

    for number, finished in enumerate(Processes(1, swapper.make)(flow(), EditSettings())):
        assert finished.captions == 1
        assert len(taken) <= number + 3


def test_a_caption_that_kills_every_process_is_named(tmp_path: Path, swapper: ModuleType) -> None:
    captions = [*CAPTIONS[:10], "this is murder", *CAPTIONS[10:]]
    job = job_of(tmp_path, captions)
    with pytest.raises(UnbagError, match=r"edits chunk 3 \(captions '10' to '12'\) died 3 times"):
        run_edit(job, runner=Processes(2, swapper.make))
    # The chunks before it are saved.
    assert (tmp_path / "b.jsonl.parts" / "000000.jsonl").exists()
    assert not (tmp_path / "b.jsonl.parts" / "000003.jsonl").exists()


def test_errors_for_the_user_are_passed_on(tmp_path: Path, swapper: ModuleType) -> None:
    job = job_of(tmp_path, CAPTIONS)
    with pytest.raises(UnbagError) as caught:
        run_edit(job, runner=Processes(2, swapper.make_nothing))
    assert str(caught.value) == "no pipeline\n  expected: one\n  hint:     install it"


SCRIPT = """
import sys, time
from pathlib import Path
from unbag.types import Given
from unbag.data.captions import Chunk
from unbag.edits.jobs.workers import EditSettings, Processes
import corpus_slow
def flow():
    for index in range(1000):
        yield Chunk(index, (Given(str(index), "a dog sees cats"),))
if __name__ == "__main__":
    for finished in Processes(2, corpus_slow.make)(flow(), EditSettings()):
        print(finished.index, flush=True)
"""
SLOW = """
import os, time
from pathlib import Path
import corpus_swapper
from unbag.edits.jobs.workers import Worker
def slow(given):
    Path(f"pid-{os.getpid()}").touch()
    time.sleep(0.05)
    return corpus_swapper.edits(given)
def make(settings):
    return Worker(slow)
"""


def test_processes_end_with_a_parent_that_was_killed(tmp_path: Path, swapper: ModuleType) -> None:
    (tmp_path / "corpus_slow.py").write_text(SLOW)
    (tmp_path / "main.py").write_text(SCRIPT)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path}
    with subprocess.Popen(
        [sys.executable, "main.py"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout
        parent.stdout.readline()
        parent.send_signal(signal.SIGKILL)
    pids = [int(path.name.removeprefix("pid-")) for path in tmp_path.glob("pid-*")]
    assert pids
    deadline = time.monotonic() + 30
    while any(_is_alive(pid) for pid in pids):
        assert time.monotonic() < deadline, "processes outlive their parent"
        time.sleep(0.05)


def _is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
