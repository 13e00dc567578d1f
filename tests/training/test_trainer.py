"""Failures of a run: messages, what stays in the folder, and resuming."""

from __future__ import annotations

import errno
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
from unbag.training.trainer import load_weights
from unbag.types import Embedded

from .small_runs import column, fast, job_of, said, same, weights
from .small_world import SWAP, small


class Spoilt:
    """A loss that does something else at one step, counted from 0 over all starts."""

    def __init__(self, at: int, act: Callable[[Tensor], Tensor]) -> None:
        self.at, self.act, self.calls = at, act, 0

    def __call__(self, embedded: Embedded) -> Tensor:
        found = contrastive(embedded)
        self.calls += 1
        return self.act(found) if self.calls == self.at + 1 else found


def spoilt(at: int, act: Callable[[Tensor], Tensor]) -> Recipe:
    terms = (Term("contrastive", 1.0, contrastive), Term("spoilt", 0.5, Spoilt(at, act)))
    return replace(fast(), objective=Objective(terms))


def no_number(value: Tensor) -> Tensor:
    return value * float("nan")


@pytest.mark.parametrize("at", [0, 4])
def test_a_loss_that_becomes_nan(tmp_path: Path, at: int) -> None:
    """At step 4 the checkpoint of step 3, the end of the first epoch, is there and stays."""
    with pytest.raises(UnbagError) as caught:
        train(job_of(tmp_path, spoilt(at, no_number)))
    kept = f"the checkpoint of step 3 is whole: {tmp_path / LAST}"
    kept = kept if at else "no checkpoint was saved before"
    assert said(caught.value) == (
        f"'spoilt' of clip_ft became nan at step {at}; {kept}; expected: finite numbers; "
        "hint:     start again in another folder with a smaller learning rate "
        "(--set learning_rate=0.001) or in --precision float32"
    )
    record = read_run(tmp_path, TRAINING)
    assert record
    assert record["state"] == "stopped"
    assert (tmp_path / LAST).exists() == bool(at)
    if at:
        assert checkpoint.load_checkpoint(tmp_path / LAST).header["step"] == 3
        assert all(value.isfinite().all() for value in weights(tmp_path).values())
        # The same command takes the steps again; this time nothing is spoilt.
        train(job_of(tmp_path, spoilt(-1, no_number)))
        train(job_of(tmp_path / "whole", spoilt(-1, no_number)))
        assert same(weights(tmp_path), weights(tmp_path / "whole"))
        assert column(tmp_path, "step") == [0, 1, 2, 3, 4, 5]


def test_nan_in_the_last_steps_is_not_saved(tmp_path: Path) -> None:
    """Fewer steps than the log holds back before it reads: the end must look too."""
    with pytest.raises(UnbagError, match="'spoilt' of clip_ft became nan at step 5"):
        train(job_of(tmp_path, spoilt(5, no_number)))
    assert checkpoint.load_checkpoint(tmp_path / LAST).header["step"] == 3


def test_nan_is_not_measured_as_the_best(tmp_path: Path) -> None:
    job = replace(job_of(tmp_path, spoilt(1, no_number)), benchmarks=(SWAP,), evaluate_every=2)
    with pytest.raises(UnbagError, match="'spoilt' of clip_ft became nan at step 1"):
        train(job)
    assert not (tmp_path / BEST).exists()
    assert not (tmp_path / "evaluations").exists()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            lambda out: job_of(out, fast("clip_ft", "batch_size=8")),
            ["recipe.batch_size: 4 before, 8 now"],
        ),
        (
            lambda out: job_of(out, fast("siglip_hn")),
            ["recipe.name: clip_ft before, siglip_hn now"],
        ),
        (lambda out: job_of(out, seed=1), ["seed: 0 before, 1 now", "data_fingerprint: world-"]),
        (lambda out: job_of(out, per_epoch=4), ["data_fingerprint: world-"]),
        (lambda out: replace(job_of(out), micro_batch_size=2), ["micro: nothing before, 2 now"]),
        (lambda out: replace(job_of(out), precision="bfloat16"), ["precision: float32 before"]),
        (
            lambda out: replace(job_of(out), benchmarks=(SWAP,), evaluate_every=2),
            ["benchmarks", "evaluate_every: nothing before, 2 now"],
        ),
        (
            lambda out: job_of(out, model=2),
            ["model: tiny:1 before, tiny:2 now", "model_fingerprint"],
        ),
    ],
)
def test_another_run_in_the_same_folder(
    tmp_path: Path, change: Callable[[Path], TrainJob], named: list[str]
) -> None:
    train(job_of(tmp_path))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    with pytest.raises(UnbagError) as caught:
        train(change(tmp_path))
    shown = said(caught.value)
    assert shown.startswith(f"the folder {tmp_path} holds another training run: ")
    assert all(one in shown for one in named), shown
    assert "name another folder with --out" in shown
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
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
    assert "name another folder with --out" in said(caught.value)
    assert (tmp_path / RUN_FILE).read_text() == text


def test_a_checkpoint_that_is_none(tmp_path: Path) -> None:
    train(job_of(tmp_path))
    whole = (tmp_path / LAST).read_bytes()
    flipped = bytearray(whole)
    flipped[-100] ^= 4
    renamed = whole.replace(b"unbag_checkpoint", b"someone_else_sav")
    for broken in (b"", whole[:1000], renamed, bytes(flipped)):
        (tmp_path / LAST).write_bytes(broken)
        with pytest.raises(UnbagError, match="is not a checkpoint that can be used") as caught:
            train(job_of(tmp_path))
        assert f"delete {tmp_path / LAST} to start again" in said(caught.value)


def test_weights_without_optimizer_state_are_not_resumed(tmp_path: Path) -> None:
    """Such as the best ones, renamed by somebody who wants to go on from there."""
    job = replace(job_of(tmp_path), benchmarks=(SWAP,), evaluate_every=2)
    train(job)
    (tmp_path / BEST).replace(tmp_path / LAST)
    with pytest.raises(UnbagError, match="holds no optimizer state") as caught:
        train(replace(job_of(tmp_path), benchmarks=(SWAP,), evaluate_every=2))
    assert caught.value.hint.startswith(f"delete {tmp_path / LAST}")


@pytest.mark.parametrize("during", ["loss", "update"])
def test_no_room_in_the_middle_of_a_run(
    during: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps before it are saved, unless some weights were changed already and others were not."""

    def no_room(*_: object, **__: object) -> Tensor:
        raise torch.OutOfMemoryError

    job = job_of(tmp_path, spoilt(4 if during == "loss" else -1, no_room))
    if during == "update":
        step, steps = torch.optim.AdamW.step, []

        def update(self: torch.optim.AdamW) -> None:
            steps.append(step(self))
            if len(steps) == 5:
                raise torch.OutOfMemoryError

        monkeypatch.setattr(torch.optim.AdamW, "step", update)
    with pytest.raises(UnbagError, match="has too little memory for"):
        train(job)
    monkeypatch.undo()
    saved = checkpoint.load_checkpoint(tmp_path / LAST).header["step"]
    assert saved == (4 if during == "loss" else 3)
    train(job_of(tmp_path, spoilt(-1, no_room)))
    train(job_of(tmp_path / "whole", spoilt(-1, no_room)))
    assert same(weights(tmp_path), weights(tmp_path / "whole"))


def test_two_damaged_checkpoints_are_both_named(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="became nan at step 5"):
        train(replace(job_of(tmp_path, spoilt(5, no_number)), save_minutes=0))
    (tmp_path / LAST).write_bytes((tmp_path / LAST).read_bytes()[:-100])
    (tmp_path / PREVIOUS).write_bytes(b"")
    with pytest.raises(UnbagError, match="is not a checkpoint that can be used") as caught:
        train(job_of(tmp_path, spoilt(-1, no_number)))
    assert "which is damaged too" in said(caught.value)


def test_a_checkpoint_of_other_encoders(tmp_path: Path) -> None:
    """Somebody copied it there, with or without its record."""
    train(job_of(tmp_path / "a", fast("clip_ft", "freeze.image=all")))
    (tmp_path / "b").mkdir()
    found = checkpoint.load_checkpoint(tmp_path / "a" / LAST)
    kept = found.group("weights")
    wrong = {name: value for name, value in kept.items() if name != "log_scale"}
    module = job_of(tmp_path / "b").trainable.module
    with pytest.raises(
        UnbagError, match="the weights in the checkpoint do not match those of tiny:1"
    ):
        load_weights(module, replace(found, groups={"weights": wrong}), name="tiny:1")


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_keeps_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    assert said(caught.value) == (
        "cannot save the checkpoint of step 6: [Errno 28] No space left on device; the "
        f"checkpoint before it ({tmp_path / LAST}) is whole; expected: room for the weights "
        "and twice as much for the optimizer state; hint:     make room, then give the same "
        "command again: it resumes from there"
    )
    assert checkpoint.load_checkpoint(tmp_path / LAST).header["step"] == 3
    assert not list(tmp_path.glob(".*.part"))
    monkeypatch.undo()
    train(job_of(tmp_path))
    train(job_of(tmp_path / "whole"))
    assert same(weights(tmp_path), weights(tmp_path / "whole"))


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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    train(job_of(tmp_path / "whole"))
    assert same(weights(tmp_path), weights(tmp_path / "whole"))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_of_photographs_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"an image")
    with pytest.raises(UnbagError) as caught:
        train(job_of(tmp_path))
    assert caught.value.message == f"the folder {tmp_path} is not empty and holds no training run"
    assert "--out" in str(caught.value.hint)
    # Before encoders are copied, and on the command line before a model is loaded.
    monkeypatch.delattr("unbag.training.repair.make_trainable")
    with pytest.raises(UnbagError, match="is not empty and holds no training run"):
        repair(small(1), "world", fast(), tmp_path)
    words = ["train", "--recipe", "clip_ft", "--pairs", "world", "--out", str(tmp_path)]
    assert main([*words, "--model", "tiny:nobody"]) == 1
    assert "is not empty and holds no training run" in capsys.readouterr().err
    assert names(tmp_path) == ["holiday.jpg"]


def test_a_run_of_an_older_unbag_is_refused_for_what_it_is(tmp_path: Path) -> None:
    """Its checkpoint has another format, and its record another name."""
    (tmp_path / "training.json").write_text('{"version": "0.1", "asked": {}}')
    (tmp_path / "last.safetensors").write_bytes(b"weights")
    with pytest.raises(UnbagError, match="is not empty and holds no training run") as caught:
        train(job_of(tmp_path))
    assert "--out" in str(caught.value.hint)
