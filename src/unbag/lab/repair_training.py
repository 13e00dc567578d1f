"""Names of arms come in; models trained side by side on the same batches go out.

A batch is made once, drawn once and given to every arm. What an arm becomes does not depend on the
arms beside it, nor on stops: every arm has a checkpoint of its own and goes on from there, on a CPU
with the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from zlib import crc32

import torch
from torch import Tensor

from unbag.lab.arm_result import Size
from unbag.lab.fixed_batch import FixedViews
from unbag.lab.repair_arms import ARMS, EXPERIMENTS, make_recipe, view_of
from unbag.lab.repair_batches import Known, RepairBatches, views_on_device
from unbag.lab.repair_locked import LockedTiny, SharedPictures
from unbag.models.tiny import read
from unbag.runs.distributed import Team
from unbag.runs.files import write_atomically
from unbag.training import checkpoint
from unbag.training.data.batch import Batch
from unbag.training.data.loader import Waiting
from unbag.training.optim import (
    Memory,
    Recorded,
    apply_gradient,
    compile_layers,
    make_optimiser,
    set_rate,
    shared_memory,
)
from unbag.training.recipes import Precision, Recipe
from unbag.training.step import Plan, add_gradient
from unbag.training.towers.adapters import TinyTrainable
from unbag.training.towers.base import apply_locks

Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """Everything about the experiment besides the bases; the defaults are those of pilot C."""

    experiment: str = "default"
    arms: tuple[str, ...] = ARMS
    steps: int = 1_250
    batch: int = 512
    seed: int = 0
    """With the name of a base it gives the seed of its scenes."""
    times: int = 5
    """Items in the number of the registered benchmarks."""
    device: str = "cpu"
    workers: int = 0
    save_every: int = 250
    """Steps between checkpoints."""
    size: Size = "full"
    asks_base: bool = True
    """Whether the base itself and its untrained twin are asked too."""

    @property
    def precision(self) -> Precision:
        """As in pre-training."""
        return "float32" if self.device == "cpu" else "bfloat16"


WAITS = ("ce_clip",)
"""Arms whose loss asks the device for something in every step, so that it cannot be recorded."""


class Arm:
    """One model in training."""

    def __init__(
        self, base: Path, recipe: Recipe, settings: Settings, shared: SharedPictures
    ) -> None:
        self.recipe = recipe
        self.step = 0
        """Steps that were taken."""
        self.loss = torch.zeros(())
        self.seconds: float | None = None
        """Its share of the time of all arms beside it; None where it went on after a stop."""
        self._shared = shared
        self._is_recorded = False
        self._recorded: dict[Batch, Recorded] = {}
        self._memory: Memory | None = None
        encoder = read(base, name=recipe.name, device=settings.device)
        self.trainable = (
            LockedTiny(encoder, shared, device=settings.device)
            if recipe.locks.picture == "all"
            else TinyTrainable(encoder, device=settings.device)
        )
        apply_locks(self.trainable, recipe.locks)
        self.optimiser = make_optimiser(self.trainable, recipe)
        self.plan = Plan(
            recipe=recipe,
            team=Team(),
            device=settings.device,
            precision=settings.precision,
            find_truth=Known(),
        )
        rule = recipe.objective.threshold
        self.threshold_K: Tensor | None = None
        self.curve_SK = torch.zeros(settings.steps, len(recipe.negatives), device=settings.device)
        """Thresholds after each step; stays on the device, where no step waits for it."""
        if rule is not None:
            self.threshold_K = rule.first(len(recipe.negatives)).to(settings.device)

    def record(self, device: str, memory: Memory | None) -> None:
        """Take steps as a GPU replays them, from now on; a batch of a size stays in one place."""
        self._memory = memory
        self.plan = replace(self.plan, is_seeded=False)
        rate = torch.tensor(self.recipe.learning_rate, device=device)
        for group in self.optimiser.param_groups:
            group["lr"], group["capturable"], group["fused"] = rate, True, True
        for moments in self.optimiser.state.values():
            # What a checkpoint gave back.
            moments["step"] = moments["step"].to(device)
        towers = self.trainable.module
        if self.recipe.locks.picture != "all":
            compile_layers(towers.picture.blocks, device=device)
        compile_layers(towers.caption.blocks, device=device, varies=True)
        self._is_recorded = True

    def take_step(self, batch: Batch, step: int, *, steps: int) -> None:
        """The next step; the loss stays on the device."""
        self._shared.look_at(batch)
        set_rate(self.optimiser, self.recipe, step=step, steps=steps)
        if not self._is_recorded:
            self.loss = self._learn(batch, step)
        else:
            if batch not in self._recorded:
                self._recorded[batch] = Recorded(
                    lambda: self._learn(batch, 0),
                    self.optimiser,
                    device=self.plan.device,
                    beside=() if self.threshold_K is None else (self.threshold_K,),
                    memory=self._memory,
                )
            self.loss = self._recorded[batch]()
        if self.threshold_K is not None:
            self.curve_SK[step] = self.threshold_K
        self.step = step + 1

    def _learn(self, batch: Batch, step: int) -> Tensor:
        taken = add_gradient(
            self.trainable, batch, self.plan, step=step, threshold_K=self.threshold_K
        )
        if self.threshold_K is not None and taken.threshold_K is not None:
            self.threshold_K.copy_(taken.threshold_K)
        apply_gradient(self.trainable, self.optimiser, self.recipe)
        return taken.losses.total.detach()

    def save(self, path: Path) -> None:
        """All that the next step needs, and the curve so far: it may be ahead, never behind."""
        if self.threshold_K is not None:
            curve = self.curve_SK.cpu()
            write_atomically(curve_of(path), partial(torch.save, curve))
        standing = checkpoint.Standing(step=self.step)
        checkpoint.save(
            path,
            self.trainable,
            standing,
            optimiser=self.optimiser,
            threshold_K=self.threshold_K,
        )

    def go_back_to(self, path: Path) -> None:
        """Where `save` left it."""
        found = checkpoint.load(path)
        checkpoint.restore(found, self.trainable, self.optimiser)
        self.step = found.standing.step
        if found.threshold_K is not None:
            self.threshold_K = found.threshold_K.to(self.plan.device)
            self.curve_SK.copy_(torch.load(curve_of(path), weights_only=True))


def seed_of(base: Path, settings: Settings) -> int:
    """Each base has scenes of its own, in whatever order or process the bases are taken."""
    return crc32(f"{settings.seed}/{base.stem}".encode()) & 0x7FFF_FFFF


def checkpoint_of(folder: Path, arm: str) -> Path:
    """Where an arm in training is kept."""
    return folder / f"{arm}.checkpoint"


def curve_of(path: Path) -> Path:
    """Where the thresholds of a checkpoint are kept."""
    return path.with_suffix(".curve")


def train_arms(
    base: Path, names: Sequence[str], settings: Settings, *, folder: Path | None = None, say: Say
) -> dict[str, Arm]:
    """Arms side by side on the same batches; with a folder they are saved and go on from there."""
    shared, experiment = SharedPictures(), EXPERIMENTS[settings.experiment]
    recipes = [make_recipe(name, experiment, batch=settings.batch) for name in names]
    arms = {recipe.name: Arm(base, recipe, settings, shared) for recipe in recipes}
    for name, arm in arms.items():
        if folder is not None and (path := checkpoint_of(folder, name)).exists():
            arm.go_back_to(path)
    batches = make_batches(base, list(arms.values()), settings)
    # A stop while checkpoints were written leaves some arms behind the others.
    first = min(arm.step for arm in arms.values())
    went_on = f"; from step {first}" if first else ""
    say(f"{base.stem}: {', '.join(names)}; {batches.about}{went_on}")
    clock = _Clock(base.stem, first, settings.steps, Waiting())
    flow = views_on_device(
        batches,
        first=first,
        workers=settings.workers,
        device=settings.device,
        waiting=clock.waiting,
    )
    fixed = _fixed(arms, shared, settings.device)
    for step, views in enumerate(flow, start=first):
        placed = views if fixed is None else fixed.fill(views)
        for name, arm in arms.items():
            if step >= arm.step:
                place = views if name in WAITS else placed
                arm.take_step(place[view_of(name)], step, steps=settings.steps)
        if step % 100 == 99 or step + 1 == settings.steps:
            say(clock.line(step + 1, arms))
        # After the last step the weights are written at once, and need no checkpoint.
        is_due = (step + 1) % settings.save_every == 0 and step + 1 < settings.steps
        if folder is not None and is_due:
            for name, arm in arms.items():
                arm.save(checkpoint_of(folder, name))
    for arm in arms.values():
        # The last line of the clock has waited for the device.
        arm.seconds = None if first else clock.taken / len(arms)
    return arms


def _fixed(arms: Mapping[str, Arm], shared: SharedPictures, device: str) -> FixedViews | None:
    """Where recorded arms find their batches; None on a CPU, which replays nothing."""
    if not device.startswith("cuda"):
        return None
    shared.is_shared, memory = False, shared_memory()
    for name, arm in arms.items():
        if name not in WAITS:
            arm.record(device, memory)
    return FixedViews(next(iter(arms.values())).trainable.module.config.context)


class _Clock:
    """How long steps take."""

    def __init__(self, name: str, first: int, steps: int, waiting: Waiting) -> None:
        self.name, self.first, self.steps, self.waiting = name, first, steps, waiting
        self.started = time.monotonic()

    @property
    def taken(self) -> float:
        """Seconds so far."""
        return time.monotonic() - self.started

    def line(self, step: int, arms: Mapping[str, Arm]) -> str:
        """After so many steps."""
        taken = self.taken
        each = taken / (step - self.first)
        shown = "  ".join(f"{name} {arm.loss.item():.3f}" for name, arm in arms.items())
        return (
            f"{self.name}: step {step}, {1000 * each:.0f} ms each, "
            f"{100 * self.waiting.seconds / taken:.0f} % waiting, "
            f"{each * (self.steps - step):.0f} s left  {shown}"
        )


def make_batches(base: Path, arms: Sequence[Arm], settings: Settings) -> RepairBatches:
    """What all arms of a base are trained on; the recipe of any arm says the same of it."""
    return RepairBatches(
        recipe=arms[0].recipe,
        reads=arms[0].trainable.reads,
        seed=seed_of(base, settings),
        preset=EXPERIMENTS[settings.experiment].preset,
        per_epoch=settings.steps,
        views=frozenset({"all", *(view_of(arm.recipe.name) for arm in arms)}),
    )
