"""One contract for every resumable job: kills, other folders, full disks, damage."""

from __future__ import annotations

import json
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from unbag.runs.checkpoint import LAST, PREVIOUS
from unbag.runs.files import RUN_FILE, open_run_folder

from .jobs import JOBS, WRITES, ResumableJob, make_folder, said, small_disk, snapshot, start


@dataclass(frozen=True)
class Whole:
    """A run of a job that nothing disturbed."""

    job: ResumableJob
    folder: Path
    result: object
    written: tuple[str, ...]
    """Temporary names of the files that it wrote, in order."""

    def write(self, share: float) -> int:
        """The number of a write, counted from 1."""
        return max(1, round(share * len(self.written)))


@pytest.fixture(scope="module", params=JOBS, ids=lambda job: job.name)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    job: ResumableJob = request.param
    for package in job.needs:
        pytest.importorskip(package)
    folder = make_folder(tmp_path_factory.mktemp("whole"), job)
    assert start(folder, job.command()) == 0, said(folder)
    written = (folder / WRITES).read_text().splitlines()
    return Whole(job, folder, job.result(folder), tuple(written))


def resume(folder: Path, whole: Whole, *, below: str = ".") -> None:
    """The same command gives the result of a run that nothing disturbed, without left-overs."""
    assert start(folder, whole.job.command(below=below)) == 0, said(folder)
    assert whole.job.result(folder / below) == whole.result
    place = folder / below / whole.job.folder
    assert not [*place.rglob(".*.part"), *place.rglob(".write-*")]
    # Others may read what one may: safetensors makes files for nobody else.
    files = [path for path in place.rglob("*") if path.is_file() and path.name != ".lock"]
    assert len({path.stat().st_mode for path in files}) <= 1


def stopped(folder: Path, whole: Whole, at: int, by: signal.Signals = signal.SIGKILL) -> Path:
    """A working folder in which the job was stopped at a write."""
    make_folder(folder, whole.job)
    code = start(folder, whole.job.command(), stopped_at=at, by=by)
    assert code == (-by if by is signal.SIGKILL else 130), said(folder)
    return folder


@pytest.mark.parametrize("share", [0.0, 1.0], ids=["first", "last"])
def test_killed_and_resumed(whole: Whole, share: float, tmp_path: Path) -> None:
    """While the first and the last of its files is written."""
    resume(stopped(tmp_path, whole, whole.write(share)), whole)


def test_killed_in_the_middle_and_asked_for_something_else(whole: Whole, tmp_path: Path) -> None:
    """Changed settings are named, and change nothing."""
    folder = stopped(tmp_path, whole, whole.write(0.6))
    job = whole.job
    before = snapshot(folder / job.folder)
    assert start(folder, job.command(*job.change)) == 1
    assert f"holds another {job.kind}: " in said(folder)
    assert job.named in said(folder)
    assert "the old settings" in said(folder)
    assert snapshot(folder / job.folder) == before
    resume(folder, whole)


def test_interrupted_and_resumed(whole: Whole, tmp_path: Path) -> None:
    """As by Ctrl-C, of trainings while a step is saved."""
    saves = [n for n, name in enumerate(whole.written, 1) if LAST in name]
    at = saves[1] if whole.job.damaged == LAST else whole.write(0.4)
    folder = stopped(tmp_path, whole, at, by=signal.SIGINT)
    assert whole.job.interrupted in said(folder)
    assert "Traceback" not in said(folder)
    resume(folder, whole)


def test_given_again_after_the_end(whole: Whole, tmp_path: Path) -> None:
    """Results are written again, and those of a training are not trained again."""
    folder, job = tmp_path / "again", whole.job
    shutil.copytree(whole.folder, folder)
    place = folder / job.folder
    card = place / "README.md"
    before = card.read_text() if card.exists() else ""
    for name in job.written_again:
        (place / name).unlink()
    resume(folder, whole)
    assert all((place / name).exists() for name in job.written_again)
    assert not before or card.read_text() == before


def test_another_job_in_the_folder(whole: Whole, tmp_path: Path) -> None:
    place = make_folder(tmp_path, whole.job) / whole.job.folder
    place.mkdir()
    (place / RUN_FILE).write_text(json.dumps({"kind": "pilgrimage", "identity": {}}))
    before = snapshot(place)
    assert start(tmp_path, whole.job.command()) == 1
    assert "a run of the kind 'pilgrimage'" in said(tmp_path)
    assert "--out" in said(tmp_path)
    assert snapshot(place) == before


def test_files_of_somebody_else(whole: Whole, tmp_path: Path) -> None:
    place = make_folder(tmp_path, whole.job) / whole.job.folder
    place.mkdir()
    (place / "thesis.txt").write_text("precious")
    assert start(tmp_path, whole.job.command()) == 1
    assert f"is not empty and holds no {whole.job.kind}" in said(tmp_path)
    assert snapshot(place) == {"thesis.txt": b"precious"}


def test_a_folder_that_cannot_be_written_or_is_in_use(whole: Whole, tmp_path: Path) -> None:
    place = make_folder(tmp_path, whole.job) / whole.job.folder
    place.mkdir()
    place.chmod(0o555)
    assert start(tmp_path, whole.job.command(), without_rights=True) == 1
    assert f"cannot write to the folder of the {whole.job.kind}" in said(tmp_path)
    assert "Permission denied" in said(tmp_path)
    place.chmod(0o755)
    with open_run_folder(place, whole.job.kind):
        assert start(tmp_path, whole.job.command()) == 1
        assert "another process is writing to" in said(tmp_path)
    assert snapshot(place) == {}


def test_a_disk_that_is_full(whole: Whole, tmp_path: Path) -> None:
    """Really: two pages of memory are its disk."""
    with small_disk(tmp_path / "disk", "8k") as enlarge:
        make_folder(tmp_path, whole.job)
        assert start(tmp_path, whole.job.command(below="disk")) == 1
        assert "room" in said(tmp_path)
        assert "the same command again" in said(tmp_path)
        assert "Traceback" not in said(tmp_path)
        enlarge("1g")
        resume(tmp_path, whole, below="disk")


def test_a_damaged_file(whole: Whole, tmp_path: Path) -> None:
    """It is named, with the checkpoint before it where there is one, and what to do helps."""
    job = whole.job
    if not job.damaged:
        pytest.skip("it begins anew and reads no file")
    path = Path(job.folder, job.damaged)
    times = [n for n, name in enumerate(whole.written, 1) if path.name in name]
    # Right after it was written the last time: of checkpoints two are there then.
    folder = stopped(tmp_path, whole, times[-1] + 1)
    path = folder / path
    content = bytearray(path.read_bytes())
    # Among the data: a Parquet file begins with it, and ends with a large description of it.
    content[len(content) // 4] ^= 0x04
    path.write_bytes(content)
    assert start(folder, job.command()) == 1, said(folder)
    assert path.name in said(folder)
    assert "Traceback" not in said(folder)
    if job.damaged == LAST:
        assert f"resumes from {PREVIOUS}, the checkpoint of step" in said(folder)
    path.unlink()
    resume(folder, whole)
