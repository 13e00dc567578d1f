"""A stopped repair experiment goes on: from checkpoints, and without training what was trained."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from unbag.errors import UnbagError
from unbag.models.tiny import Tiny, read
from unbag.training.data.batch import Batch
from unbag.training.encoders.adapters import TinyTrainable
from unbag.training.trainer import Trainer
from unbag_lab import training
from unbag_lab.experiments.repair import repair
from unbag_lab.experiments.repair_training import (
    LockedTiny,
    RepairArm,
    RepairSettings,
    checkpoint_of,
    train_arms,
)
from unbag_lab.questions import Questions
from unbag_lab.results import read_results

ARMS = ("clip_ft", "ce_clip_fixed", "hard_positive-locked", "hard_negative-locked")
SHORT = RepairSettings(steps=7, batch_size=12, times=1, arms=ARMS, save_every=3)


class Killed(BaseException):
    """As if the process had ended."""


@pytest.fixture(scope="module")
def whole(base: Path, questions: Questions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nobody stopped."""
    out = tmp_path_factory.mktemp("whole")
    repair(base, out, questions, SHORT, say=silent)
    return out / "default" / "small"


def silent(line: str) -> None:
    pass


def is_same(one: Path, two: Path) -> bool:
    """Results but for the time they took, weights, and nothing else."""
    names = [sorted(path.name for path in folder.iterdir()) for folder in (one, two)]
    weights = [name for name in names[0] if not name.endswith(".json")]
    results = [[replace(r, seconds=None) for r in read_results(f)] for f in (one, two)]
    return (
        names[0] == names[1]
        and results[0] == results[1]
        and all((one / name).read_bytes() == (two / name).read_bytes() for name in weights)
    )


def test_a_run_that_ends_leaves_results_and_weights_alone(whole: Path) -> None:
    wanted = [f"{arm}{end}" for arm in ARMS for end in (".json", ".safetensors")]
    assert sorted(p.name for p in whole.iterdir()) == sorted(["base.json", "random.json", *wanted])


@pytest.mark.parametrize(("at", "first"), [(2, 0), (3, 3), (6, 6)])
def test_a_killed_run_goes_on_from_its_checkpoints_with_the_same_bits(
    at: int,
    first: int,
    base: Path,
    questions: Questions,
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gradient = RepairArm.gradient
    said: list[str] = []
    taken: list[tuple[str, int]] = []

    def dies(arm: RepairArm, batch: Batch, step: int) -> dict[str, Tensor]:
        if step == at and arm.recipe.name == ARMS[1]:
            raise Killed
        return gradient(arm, batch, step)

    def counts(arm: RepairArm, batch: Batch, step: int) -> dict[str, Tensor]:
        taken.append((arm.recipe.name, step))
        return gradient(arm, batch, step)

    monkeypatch.setattr(RepairArm, "gradient", dies)
    with pytest.raises(Killed):
        repair(base, tmp_path, questions, SHORT, say=silent)
    monkeypatch.setattr(RepairArm, "gradient", counts)
    repair(base, tmp_path, questions, SHORT, say=said.append)
    assert taken == [(arm, step) for step in range(first, 7) for arm in ARMS]
    assert said[0].endswith(f"; from step {first}") == (first > 0)
    assert is_same(whole, tmp_path / "default" / "small")


def test_an_arm_that_was_saved_before_the_kill_waits_for_the_others(
    base: Path,
    questions: Questions,
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save = Trainer.save

    def dies(trainer: Trainer[Batch], path: Path) -> None:
        if trainer.state.step == 6 and path.stem == ARMS[1]:
            raise Killed
        save(trainer, path)

    monkeypatch.setattr(Trainer, "save", dies)
    with pytest.raises(Killed):
        repair(base, tmp_path, questions, SHORT, say=silent)
    monkeypatch.setattr(Trainer, "save", save)
    repair(base, tmp_path, questions, SHORT, say=silent)
    assert is_same(whole, tmp_path / "default" / "small")


def test_all_weights_are_there_before_an_arm_is_asked_and_are_not_trained_again(
    base: Path,
    questions: Questions,
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def dies(path: Path, *, name: str) -> Tiny:
        if name == ARMS[1]:
            raise Killed
        return read(path, name=name)

    def refuses(trainer: Trainer[Batch], batch: Batch) -> dict[str, Tensor]:
        raise AssertionError("trained again")

    monkeypatch.setattr(training, "read", dies)
    with pytest.raises(Killed):
        repair(base, tmp_path, questions, SHORT, say=silent)
    folder = tmp_path / "default" / "small"
    assert {path.stem for path in folder.glob("*.safetensors")} == set(ARMS)
    assert {one.arm for one in read_results(tmp_path)} == {"base", "random", ARMS[0]}
    monkeypatch.setattr(training, "read", read)
    monkeypatch.setattr(Trainer, "train_step", refuses)
    told = r"another ce_clip_fixed.state: steps: 7 before, 9 now"
    with pytest.raises(UnbagError, match=told):
        repair(base, tmp_path, questions, replace(SHORT, arms=ARMS[1:], steps=9), say=silent)
    repair(base, tmp_path, questions, SHORT, say=silent)
    assert is_same(whole, folder)


def test_a_checkpoint_of_other_settings_is_refused_with_both(
    base: Path, questions: Questions, tmp_path: Path
) -> None:
    folder = tmp_path / "default" / "small"
    folder.mkdir(parents=True)
    other = replace(SHORT, seed=1, steps=4, arms=ARMS[:1])
    train_arms(base, other.arms, other, folder=folder, say=silent)
    assert checkpoint_of(folder, ARMS[0]).exists()
    with pytest.raises(UnbagError, match=r"steps: 4 before, 7 now"):
        repair(base, tmp_path, questions, SHORT, say=silent)


def test_locked_arms_share_the_vectors_of_a_batch(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[type] = []
    embed = TinyTrainable.embed_images

    def counts(self: TinyTrainable, pixels: torch.Tensor) -> torch.Tensor:
        runs.append(type(self))
        return embed(self, pixels)

    monkeypatch.setattr(TinyTrainable, "embed_images", counts)
    arms = train_arms(base, ARMS, replace(SHORT, steps=2), say=silent)
    assert runs == 2 * [TinyTrainable, TinyTrainable, LockedTiny]
    both = [arms[name].trainable.module.state_dict() for name in ARMS[2:]]
    assert all(torch.equal(both[0][key], both[1][key]) for key in both[0] if "picture" in key)
    assert not torch.equal(both[0]["caption.project.weight"], both[1]["caption.project.weight"])
