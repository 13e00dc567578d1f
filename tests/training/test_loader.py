"""Worker processes that load batches, and images that cannot be read."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from time import sleep

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset, get_worker_info

from unbag.errors import UnbagError
from unbag.runs import checkpoint
from unbag.runs.checkpoint import LAST
from unbag.runs.files import TRAINING, open_run_folder
from unbag.training.data.batch import Batch
from unbag.training.data.loader import MAX_NAMES, add_names, left_out_lines, load
from unbag.training.data.world import WorldBatches
from unbag.training.fine_tuning import TrainJob, train

from .small_runs import column, job_of, one_line, same, weights


@dataclass(frozen=True)
class Broken(WorldBatches):
    """Step 4 cannot be read while a file is there."""

    marker: Path = Path()
    dies: bool = False

    def __getitem__(self, step: int) -> Batch:
        """As the world, unless it breaks."""
        if step == 4 and self.marker.exists():
            if self.dies:
                assert get_worker_info() is not None, "not the process of the test"
                os.kill(os.getpid(), signal.SIGKILL)
            raise UnbagError("4.png is broken", hint="mend it")
        return super().__getitem__(step)


def broken_job(out: Path, *, dies: bool, workers: int) -> TrainJob:
    job = job_of(out / "run")
    out.mkdir(exist_ok=True)
    batches = Broken(job.recipe, job.trainable.reads, per_epoch=3, marker=out / "marker", dies=dies)
    return replace(job, batches=batches, workers=workers)


def test_workers_change_nothing(tmp_path: Path) -> None:
    train(replace(job_of(tmp_path / "two"), workers=2))
    train(job_of(tmp_path / "none"))
    assert same(weights(tmp_path / "two"), weights(tmp_path / "none"))
    assert column(tmp_path / "two", "loss") == column(tmp_path / "none", "loss")


def test_a_worker_that_dies(tmp_path: Path) -> None:
    # A loader used before leaves PyTorch's handler behind, which would raise within a step.
    list(DataLoader(TensorDataset(torch.zeros(2)), num_workers=1))
    (tmp_path / "marker").touch()
    with pytest.raises(UnbagError) as caught:
        train(broken_job(tmp_path, dies=True, workers=1))
    message = one_line(caught.value)
    assert message.startswith("a process that read data died: ")
    assert "too little memory kills them" in message
    assert "give the same command again, with fewer --workers" in message
    # Data was made ahead, so it is not known how far the run came; what it did is kept.
    assert 1 <= checkpoint.load_checkpoint(tmp_path / "run" / LAST).header["step"] <= 4
    (tmp_path / "marker").unlink()
    assert train(broken_job(tmp_path, dies=True, workers=0)).is_done
    train(job_of(tmp_path / "whole"))
    assert same(weights(tmp_path / "run"), weights(tmp_path / "whole"))
    assert column(tmp_path / "run", "step") == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("workers", [0, 1])
def test_data_that_cannot_be_read_loses_no_step(tmp_path: Path, workers: int) -> None:
    """The message is the data's own, without a traceback of a worker around it."""
    (tmp_path / "marker").touch()
    with pytest.raises(UnbagError) as caught:
        train(broken_job(tmp_path, dies=False, workers=workers))
    assert one_line(caught.value) == "4.png is broken; hint:     mend it"
    assert checkpoint.load_checkpoint(tmp_path / "run" / LAST).header["step"] == 4
    assert column(tmp_path / "run", "step") == [0, 1, 2, 3]
    (tmp_path / "marker").unlink()
    train(broken_job(tmp_path, dies=False, workers=workers))
    train(job_of(tmp_path / "whole"))
    assert same(weights(tmp_path / "run"), weights(tmp_path / "whole"))


class Odd(Broken):
    """Raises what is no UnbagError, with words that PyTorch uses too."""

    def __getitem__(self, step: int) -> Batch:
        raise RuntimeError("no DataLoader worker died")


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_the_data_is_not_taken_for_a_death(tmp_path: Path, workers: int) -> None:
    job = broken_job(tmp_path, dies=False, workers=workers)
    odd = Odd(job.recipe, job.trainable.reads, per_epoch=3)
    with pytest.raises(RuntimeError, match="no DataLoader worker died"):
        train(replace(job, batches=odd))


def _live(is_alive: Event) -> None:
    is_alive.set()
    sleep(60)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_worker_that_outlives_its_run_does_not_lock_the_folder(tmp_path: Path) -> None:
    """After kill -9 workers live on for seconds; the same command must not wait for them."""
    context = get_context("fork")
    is_alive = context.Event()
    worker = context.Process(target=_live, args=(is_alive,))
    with open_run_folder(tmp_path, TRAINING):
        worker.start()
        assert is_alive.wait(60)
        with (
            pytest.raises(UnbagError, match="another process is writing"),
            open_run_folder(tmp_path, TRAINING),
        ):
            pass
    try:
        with open_run_folder(tmp_path, TRAINING):
            assert worker.is_alive()
    finally:
        worker.kill()
        worker.join()


def test_the_random_generator_of_the_caller_stays_as_it_was(tmp_path: Path) -> None:
    before = torch.get_rng_state()
    batches = job_of(tmp_path).batches
    assert len(list(load(batches, first=0, workers=0, device="cpu"))) == len(batches)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_first_are_named_and_the_others_counted() -> None:
    assert left_out_lines({}) == []
    assert left_out_lines({"a.png": "it is empty"}) == [
        "1 image cannot be read and is left out",
        "  left out: a.png: it is empty",
    ]
    seven = {f"{n}.png": "no image" for n in range(7)}
    head, *named, last = left_out_lines(seven)
    assert head == "7 images cannot be read and are left out"
    assert named == [f"  left out: {n}.png: no image" for n in range(5)]
    assert last == "  and 2 more"
    assert left_out_lines(seven, is_all=False)[-1] == "  and at least 2 more"
    assert left_out_lines(seven, is_all=False)[0].startswith("at least 7 images")


def test_an_image_is_kept_once_and_no_more_than_a_hundred_are() -> None:
    names = add_names({"a": "first"}, {"a": "again", "b": "first"})
    assert list(names) == ["a", "b"]
    many = add_names(names, {str(n): "" for n in range(2 * MAX_NAMES)})
    assert len(many) == MAX_NAMES
    assert list(many)[:2] == ["a", "b"]
    assert add_names(many, {"c": ""}) == many
