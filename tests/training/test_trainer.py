"""Failures of a run: messages, what stays in the folder, and resuming."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from unbag.cli import main
from unbag.errors import UnbagError
from unbag.runs import checkpoint
from unbag.runs.checkpoint import BEST, LAST, PREVIOUS
from unbag.runs.files import RUN_FILE, TRAINING, read_run
from unbag.training.fine_tuning import TrainJob, train
from unbag.training.logging import Log
from unbag.training.losses import contrastive
from unbag.training.objective import Objective, Term
from unbag.training.recipes import Recipe
from unbag.training.repair import repair
from unbag.training.trainer import Task, load_weights
from unbag.types import Embedded

from .small_runs import column, fast, job_of, one_line, same, weights
from .small_world import SWAP, small


def spoilt(at: int, act: Callable[[Tensor], Tensor]) -> Recipe:
    """A second loss does something else at one step, counted from 0 over all starts; -1: never."""
    calls: list[int] = []

    def loss(embedded: Embedded) -> Tensor:
        calls.append(0)
        value = contrastive(embedded)
        return act(value) if len(calls) == at + 1 else value

    terms = (Term("contrastive", 1.0, contrastive), Term("spoilt", 0.5, loss))
    return replace(fast(), objective=Objective(terms))


def becomes_nan(value: Tensor) -> Tensor:
    return value * float("nan")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an undisturbed run, which no test changes."""
    folder = tmp_path_factory.mktemp("finished")
    train(job_of(folder))
    return folder


@pytest.fixture(scope="module")
def unspoilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with the second loss."""
    folder = tmp_path_factory.mktemp("unspoilt")
    train(job_of(folder, spoilt(-1, becomes_nan)))
    return folder


@pytest.mark.parametrize("at", [0, 4, 5])
def test_a_loss_that_becomes_nan(tmp_path: Path, unspoilt: Path, at: int) -> None:
    """The checkpoint of step 3, the end of the first epoch, is there after step 3 and stays."""
    with pytest.raises(UnbagError) as caught:
        train(job_of(tmp_path, spoilt(at, becomes_nan)))
    earlier = f"the checkpoint of step 3 is whole: {tmp_path / LAST}"
    earlier = earlier if at else "no checkpoint was saved before"
    assert caught.value.message == f"'spoilt' of clip_ft became nan at step {at}; {earlier}"
    assert "--set learning_rate=0.001" in caught.value.hint
    assert (read_run(tmp_path, TRAINING) or {})["state"] == "stopped"
    assert (tmp_path / LAST).exists() == bool(at)
    if at:
        assert checkpoint.load_checkpoint(tmp_path / LAST).header["step"] == 3
        assert all(value.isfinite().all() for value in weights(tmp_path).values())
        # The same command repeats the steps, this time without NaN.
        train(job_of(tmp_path, spoilt(-1, becomes_nan)))
        assert same(weights(tmp_path), weights(unspoilt))
        assert column(tmp_path, "step") == [0, 1, 2, 3, 4, 5]


def test_nan_is_not_measured_as_the_best(tmp_path: Path) -> None:
    job = replace(job_of(tmp_path, spoilt(1, becomes_nan)), benchmarks=(SWAP,), evaluate_every=2)
    with pytest.raises(UnbagError, match="'spoilt' of clip_ft became nan at step 1"):
        train(job)
    assert not (tmp_path / BEST).exists()
    assert not (tmp_path / "evaluations").exists()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda out: job_of(out, fast("clip_ft", "batch_size=8")), "recipe.batch_size: 4 before"),
        (lambda out: job_of(out, fast("siglip_hn")), "recipe.name: clip_ft before, siglip_hn now"),
        (lambda out: job_of(out, seed=1), "seed: 0 before, 1 now; data_fingerprint: world-"),
        (lambda out: job_of(out, per_epoch=4), "data_fingerprint: world-"),
        (lambda out: replace(job_of(out), micro_batch_size=2), "micro: nothing before, 2 now"),
        (lambda out: replace(job_of(out), precision="bfloat16"), "precision: float32 before"),
        (lambda out: replace(job_of(out), benchmarks=(SWAP,)), "benchmarks"),
        (lambda out: replace(job_of(out), evaluate_every=2), "evaluate_every: nothing before, 2"),
        (lambda out: job_of(out, model=2), "model: tiny:1 before, tiny:2 now; model_fingerprint"),
    ],
)  # fmt: skip
def test_another_run_in_the_same_folder(
    finished: Path, change: Callable[[Path], TrainJob], named: str
) -> None:
    before = {path.name: path.read_bytes() for path in finished.iterdir() if path.is_file()}
    with pytest.raises(UnbagError) as caught:
        train(change(finished))
    message = one_line(caught.value)
    assert message.startswith(f"the folder {finished} holds another training run: ")
    assert all(part in message for part in named.split("; ")), message
    assert "name another folder with --out" in message
    after = {path.name: path.read_bytes() for path in finished.iterdir() if path.is_file()}
    assert after == before


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{", "cannot be read"),
        ("[]", "without kind or identity"),
        ('{"state": "running", "identity": {}}', "without kind or identity"),
        ('{"kind": "training run", "version": "0.1"}', "without kind or identity"),
        ('{"kind": "training run", "identity": null}', "without kind or identity"),
        ('{"kind": "evaluation", "identity": {}}', "holds a run of the kind 'evaluation'"),
    ],
)
def test_a_record_of_something_else(tmp_path: Path, text: str, named: str) -> None:
    (tmp_path / RUN_FILE).write_text(text)
    with pytest.raises(UnbagError, match=named) as caught:
        train(job_of(tmp_path))
    assert "name another folder with --out" in one_line(caught.value)
    assert (tmp_path / RUN_FILE).read_text() == text


def test_a_damaged_checkpoint(tmp_path: Path, finished: Path) -> None:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    whole = (tmp_path / LAST).read_bytes()
    flipped = bytearray(whole)
    flipped[-100] ^= 4
    renamed = whole.replace(b"unbag_checkpoint", b"someone_else_sav")
    for broken in (b"", whole[:1000], renamed, bytes(flipped)):
        (tmp_path / LAST).write_bytes(broken)
        with pytest.raises(UnbagError, match="is not a checkpoint that can be used") as caught:
            train(job_of(tmp_path))
        assert f"delete {tmp_path / LAST} to start again" in one_line(caught.value)


def test_weights_without_optimizer_state_are_not_resumed(tmp_path: Path) -> None:
    """Such as the best ones, renamed by somebody who wants to go on from there."""
    job = replace(job_of(tmp_path), benchmarks=(SWAP,), evaluate_every=2)
    train(job)
    (tmp_path / BEST).replace(tmp_path / LAST)
    with pytest.raises(UnbagError, match="holds no optimizer state") as caught:
        train(replace(job_of(tmp_path), benchmarks=(SWAP,), evaluate_every=2))
    assert caught.value.hint.startswith(f"delete {tmp_path / LAST}")


@pytest.mark.parametrize("during", ["loss", "update"])
def test_too_little_memory_in_the_middle_of_a_run(
    during: str, tmp_path: Path, unspoilt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps before it are saved, unless some weights were changed already and others were not."""

    def out_of_memory(*_: object, **__: object) -> Tensor:
        raise torch.OutOfMemoryError

    job = job_of(tmp_path, spoilt(4 if during == "loss" else -1, out_of_memory))
    if during == "update":
        step, steps = torch.optim.AdamW.step, []

        def update(self: torch.optim.AdamW) -> None:
            steps.append(step(self))
            if len(steps) == 5:
                raise torch.OutOfMemoryError

        monkeypatch.setattr(torch.optim.AdamW, "step", update)
    with pytest.raises(UnbagError, match="too little memory for 4 images and their") as caught:
        train(job)
    assert "--micro-batch-size 2 in a new folder" in caught.value.hint
    monkeypatch.undo()
    saved = checkpoint.load_checkpoint(tmp_path / LAST).header["step"]
    assert saved == (4 if during == "loss" else 3)
    train(job_of(tmp_path, spoilt(-1, out_of_memory)))
    assert same(weights(tmp_path), weights(unspoilt))


def test_two_damaged_checkpoints_are_both_named(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="became nan at step 5"):
        train(replace(job_of(tmp_path, spoilt(5, becomes_nan)), save_minutes=0))
    (tmp_path / LAST).write_bytes((tmp_path / LAST).read_bytes()[:-100])
    (tmp_path / PREVIOUS).write_bytes(b"")
    with pytest.raises(UnbagError, match="is not a checkpoint that can be used") as caught:
        train(job_of(tmp_path, spoilt(-1, becomes_nan)))
    assert "which is damaged too" in one_line(caught.value)


def test_a_checkpoint_of_other_encoders(tmp_path: Path, finished: Path) -> None:
    saved_checkpoint = checkpoint.load_checkpoint(finished / LAST)
    wrong = {n: value for n, value in saved_checkpoint.group("weights").items() if n != "log_scale"}
    module = job_of(tmp_path).trainable.module
    with pytest.raises(UnbagError, match="in the checkpoint do not match those of tiny:1"):
        load_weights(module, replace(saved_checkpoint, groups={"weights": wrong}), name="tiny:1")


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_keeps_the_checkpoint_before(
    tmp_path: Path, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = save_file
    saved: list[int] = []

    def fills_up(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
        saved.append(0)
        if len(saved) > 1:
            path.write_bytes(b"half of it")
            full()
        real(tensors, path, metadata=metadata)

    monkeypatch.setattr(checkpoint, "save_file", fills_up)
    with pytest.raises(UnbagError) as caught:
        train(job_of(tmp_path))
    assert caught.value.message == (
        "cannot save the checkpoint of step 6: [Errno 28] No space left on device; the "
        f"checkpoint before it ({tmp_path / LAST}) is whole"
    )
    assert "give the same command again" in caught.value.hint
    assert checkpoint.load_checkpoint(tmp_path / LAST).header["step"] == 3
    assert not list(tmp_path.glob(".*.part"))
    monkeypatch.undo()
    train(job_of(tmp_path))
    assert same(weights(tmp_path), weights(finished))


def test_a_full_disk_at_the_best_does_not_claim_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = save_file

    def fills_up(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
        if BEST in path.name:
            full()
        real(tensors, path, metadata=metadata)

    monkeypatch.setattr(checkpoint, "save_file", fills_up)
    job = replace(job_of(tmp_path), benchmarks=(SWAP,), evaluate_every=2)
    with pytest.raises(UnbagError, match="cannot save the checkpoint of step 2"):
        train(job)
    assert checkpoint.load_checkpoint(tmp_path / LAST).header["state"]["best"] is None


@pytest.mark.parametrize(
    "name",
    [
        "unbag.runs.files.write_text",
        "unbag.training.trainer.open_log",
        "unbag.training.fine_tuning.run",
    ],
)
def test_a_disk_that_is_full_for_everything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(name, full)
    job = replace(job_of(tmp_path), benchmarks=(SWAP,))
    with pytest.raises(UnbagError, match=f"no room is left on the disk of {tmp_path}"):
        train(job)

    def other(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "not yours")

    monkeypatch.setattr(name, other)
    with pytest.raises(PermissionError):
        train(replace(job, out=tmp_path / "other"))


def test_a_log_that_cannot_be_written_saves_no_checkpoint_either(
    tmp_path: Path, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the steps of that checkpoint would be missing in the log for ever."""
    real, calls = Log._write, [0]

    def fills_up(log: Log, rows: list[tuple[int, dict[str, float]]]) -> None:
        calls[0] += 1
        if calls[0] == 2:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Path, "open", full)
                real(log, rows)
        real(log, rows)

    monkeypatch.setattr(Log, "_write", fills_up)
    with pytest.raises(UnbagError, match=r"cannot write .*log.jsonl: .Errno 28. No space left"):
        train(replace(job_of(tmp_path)))
    monkeypatch.undo()
    train(job_of(tmp_path))
    assert column(tmp_path, "step") == [0, 1, 2, 3, 4, 5]
    assert same(weights(tmp_path), weights(finished))


def test_a_folder_with_other_files_is_refused_before_anything_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"an image")
    message = f"the folder {tmp_path} is not empty and holds no training run"
    with pytest.raises(UnbagError, match=message) as caught:
        train(job_of(tmp_path))
    assert "--out" in caught.value.hint
    # Before encoders are copied, and on the command line before a model is loaded.
    monkeypatch.delattr("unbag.training.repair.make_trainable")
    with pytest.raises(UnbagError, match=message):
        repair(small(1), "world", fast(), tmp_path)
    words = ["train", "--recipe", "clip_ft", "--pairs", "world", "--out", str(tmp_path)]
    assert main([*words, "--model", "tiny:nobody"]) == 1
    assert "is not empty and holds no training run" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["holiday.jpg"]
    # A run of an older unbag has another record and another format of checkpoints.
    (tmp_path / "holiday.jpg").rename(tmp_path / "training.json")
    with pytest.raises(UnbagError, match="is not empty and holds no training run"):
        train(job_of(tmp_path))


def test_the_hint_for_a_batch_that_does_not_fit_names_an_existing_setting() -> None:
    task: Task[None] = Task()
    task.name = "a task"
    hint = task.out_of_memory(None).hint
    assert "--set batch_size=" in hint
