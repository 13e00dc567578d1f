"""Edits on a real Ray cluster on this machine, with a worker that is killed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from unbag.data.captions import Chunk
from unbag.edits.jobs import ray as ray_runner
from unbag.edits.jobs.ray import RayRunner
from unbag.edits.jobs.workers import EditSettings, make_worker
from unbag.edits.kinds import EditParts
from unbag.errors import UnbagError
from unbag.types import Given

psutil = pytest.importorskip("psutil", reason="finds the worker to kill")
pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="the extra unbag[cluster] is not there"),
    # Ray leaves sockets and log files of its processes open.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
SETTINGS = EditSettings(kinds=("swap_nouns",))
THINGS = ("dog", "cup", "bench", "umbrella", "kite")


def chunks(number: int) -> list[Chunk]:
    def caption(n: int, k: int) -> Given:
        text = f"a {THINGS[k % 5]} lies under a {THINGS[(k + n) % 4]} near a wall"
        return Given(f"{n}-{k}", text)

    return [Chunk(n, tuple(caption(n, k) for k in range(40))) for n in range(number)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with ray_runner._connected("local", 2):
        yield


def kill_a_worker() -> None:
    """As the kernel does when memory is full."""
    workers = [
        process
        for process in psutil.Process().children(recursive=True)
        if "ray::MapWorker" in " ".join(process.cmdline())
    ]
    assert len(workers) == 2
    workers[0].kill()


def test_a_killed_worker_changes_nothing(cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """In two windows of ten chunks and one: each window takes only its own chunks."""
    monkeypatch.setattr(ray_runner, "WINDOW", 5)
    given = chunks(11)
    worker = make_worker(SETTINGS)
    expected = {chunk.index: worker(chunk) for chunk in given}
    taken: list[int] = []

    def flow() -> Iterator[Chunk]:
        for chunk in given:
            taken.append(chunk.index)
            yield chunk

    edited = {}
    for finished in RayRunner("local", 2)(flow(), SETTINGS):
        edited[finished.index] = finished
        if len(edited) == 1:
            assert taken == list(range(10))
            kill_a_worker()
    assert edited == expected


def test_errors_for_the_user_are_passed_on(cluster: None, tmp_path: Path) -> None:
    settings = EditSettings(kinds=("swap_nouns",), parts=EditParts(pipeline=str(tmp_path)))
    with pytest.raises(UnbagError, match="cannot be loaded") as error:
        list(RayRunner("local", 2)(iter(chunks(1)), settings))
    assert "spacy download" in error.value.hint


def test_ray_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_runner, "find_spec", lambda name: None)
    with pytest.raises(UnbagError, match="needs Ray, which is not installed") as error:
        list(RayRunner("auto", 2)(iter(chunks(1)), SETTINGS))
    assert "unbag[cluster]" in error.value.hint
    assert "--workers" in error.value.hint


def test_no_cluster_at_the_address() -> None:
    with pytest.raises(UnbagError, match="the Ray cluster 'nowhere'") as error:
        ray_runner._connect("nowhere", 1)
    assert "ray status" in error.value.hint
