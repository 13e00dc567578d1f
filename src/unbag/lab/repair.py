"""Repair of tiny models on the world: bases come in; all arms, trained side by side, go out.

    python -m unbag.lab.repair --bases tiny-0.safetensors tiny-1.safetensors --out runs/repair

A batch is made once, drawn once and given to every arm, so arms are paired and the work of making
scenes is shared. Each arm takes the steps of `unbag train`; what an arm becomes does not depend on
the arms beside it. An arm whose result is in the folder is not trained again, so the same command
goes on after a stop, arm by arm.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import torch
from torch import Tensor

from unbag.engine.atomic import write_atomically
from unbag.engine.team import Team
from unbag.lab.repair_arms import ARMS, EXPERIMENTS, make_recipe
from unbag.lab.repair_questions import Questions
from unbag.lab.repair_results import (
    BEFORE,
    UNTRAINED,
    ArmResult,
    check_same,
    read_results,
    write_result,
)
from unbag.lab.repair_table import table
from unbag.models.tiny import Tiny, read, untrained, write
from unbag.train.batch import Batch, Group, Truth
from unbag.train.config import Precision, Recipe
from unbag.train.load import Waiting, load
from unbag.train.locks import apply_locks
from unbag.train.optimise import change_weights, make_optimiser
from unbag.train.step import Plan, add_gradient
from unbag.train.tiny_trainable import TinyTrainable
from unbag.train.world_batches import WorldBatches

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

    @property
    def precision(self) -> Precision:
        """As in pre-training."""
        return "float32" if self.device == "cpu" else "bfloat16"


class Arm:
    """One model in training."""

    def __init__(self, base: Path, recipe: Recipe, settings: Settings) -> None:
        self.recipe = recipe
        encoder = read(base, name=recipe.name, device=settings.device)
        self.trainable = TinyTrainable(encoder, device=settings.device)
        apply_locks(self.trainable, recipe.locks)
        self.optimiser = make_optimiser(self.trainable, recipe)
        self.plan = Plan(
            recipe=recipe,
            team=Team(),
            device=settings.device,
            precision=settings.precision,
            find_truth=_Known(),
        )
        rule = recipe.objective.threshold
        self.threshold_K: Tensor | None = None
        if rule is not None:
            self.threshold_K = rule.first(len(recipe.negatives)).to(settings.device)

    def take_step(self, batch: Batch, step: int, *, steps: int) -> Tensor:
        """Gives the loss."""
        taken = add_gradient(
            self.trainable, batch, self.plan, step=step, threshold_K=self.threshold_K
        )
        self.threshold_K = taken.threshold_K
        change_weights(self.trainable, self.optimiser, self.recipe, step=step, steps=steps)
        return taken.losses.total.detach()


@dataclass(frozen=True)
class _Known:
    """The truth of a batch that stands in it: it was found once, for all arms."""

    def __call__(self, code: Mapping[str, Tensor], /) -> Truth:
        return Truth(code["also_true_BB"], code["negative_true_BBK"])


def repair(
    base: Path, out: Path, questions: Questions, settings: Settings, *, say: Say = print
) -> None:
    """Train and ask all arms of one base that the folder does not have yet."""
    encoder = read(base, name=base.stem)
    nothing = ArmResult(
        experiment=settings.experiment,
        base=base.stem,
        fingerprint=encoder.fingerprint,
        arm=BEFORE,
        steps=0,
        batch=settings.batch,
        seed=seed_of(base, settings),
        times=settings.times,
        precision=settings.precision,
        loss=None,
        numbers={},
    )
    folder = out / settings.experiment / base.stem
    folder.mkdir(parents=True, exist_ok=True)
    known = {BEFORE: encoder, UNTRAINED: _untrained(encoder, nothing.seed)}
    for name, tiny in known.items():
        one = replace(nothing, arm=name)
        if not _is_there(one, folder):
            _ask(tiny, one, folder, questions, settings)
    wanted = [replace(nothing, arm=arm, steps=settings.steps) for arm in settings.arms]
    missing = [one for one in wanted if not _is_there(one, folder)]
    if not missing:
        say(f"{base.stem}: every arm is in {folder}")
        return
    arms, loss_of = train_arms(base, [one.arm for one in missing], settings, say=say)
    for one in missing:
        path = folder / f"{one.arm}.safetensors"
        _write(arms[one.arm], path)
        # The file is asked, not the model it was written from: it has half the digits.
        found = replace(one, loss=loss_of[one.arm])
        _ask(read(path, name=one.arm), found, folder, questions, settings)


def _untrained(encoder: Tiny, seed: int) -> Tiny:
    """The null of every pair number: pictures that are alike have vectors that are alike."""
    return Tiny(untrained(encoder.config, seed=seed), name=UNTRAINED)


def seed_of(base: Path, settings: Settings) -> int:
    """Each base has scenes of its own, in whatever order or process the bases are taken."""
    return crc32(f"{settings.seed}/{base.stem}".encode()) & 0x7FFF_FFFF


def _is_there(wanted: ArmResult, folder: Path) -> bool:
    path = folder / f"{wanted.arm}.json"
    if not path.exists():
        return False
    check_same(read_results(path)[0], wanted, path=path)
    return True


def _write(arm: Arm, path: Path) -> None:
    write_atomically(path, lambda to: write(arm.trainable.module, to))


def _ask(
    encoder: Tiny, result: ArmResult, folder: Path, questions: Questions, settings: Settings
) -> None:
    """Ask a model everything and keep the answers."""
    trainable = TinyTrainable(encoder, device=settings.device)
    trainable.module.eval()
    numbers = questions.answers(trainable, device=settings.device)
    write_result(folder / f"{result.arm}.json", replace(result, numbers=numbers))


def train_arms(
    base: Path, names: Sequence[str], settings: Settings, *, say: Say
) -> tuple[dict[str, Arm], dict[str, float]]:
    """Arms side by side on the same batches; gives them with the loss of their last step."""
    recipes = [
        make_recipe(name, EXPERIMENTS[settings.experiment], batch=settings.batch) for name in names
    ]
    arms = {recipe.name: Arm(base, recipe, settings) for recipe in recipes}
    batches = make_batches(base, arms[names[0]], settings)
    say(f"{base.stem}: {', '.join(names)}; {batches.about}")
    started, waiting = time.monotonic(), Waiting()
    losses: dict[str, Tensor] = {}
    for step, batch in enumerate(_on_device(batches, settings, waiting)):
        for name, arm in arms.items():
            losses[name] = arm.take_step(batch, step, steps=settings.steps)
        if step % 100 == 99 or step + 1 == settings.steps:
            taken = time.monotonic() - started
            left = taken / (step + 1) * (settings.steps - step - 1)
            shown = "  ".join(f"{name} {loss.item():.3f}" for name, loss in losses.items())
            say(
                f"{base.stem}: step {step + 1}, {1000 * taken / (step + 1):.0f} ms each, "
                f"{100 * waiting.seconds / taken:.0f} % waiting, {left:.0f} s left  {shown}"
            )
    return arms, {name: loss.item() for name, loss in losses.items()}


def make_batches(base: Path, arm: Arm, settings: Settings) -> WorldBatches:
    """What all arms of a base are trained on; the recipe of any arm says the same of it."""
    return WorldBatches(
        recipe=arm.recipe,
        reads=arm.trainable.reads,
        seed=seed_of(base, settings),
        preset=EXPERIMENTS[settings.experiment].preset,
        per_epoch=settings.steps,
    )


def _on_device(batches: WorldBatches, settings: Settings, waiting: Waiting) -> Iterator[Batch]:
    find_truth = batches.find_truth
    assert find_truth is not None
    flow = load(batches, first=0, workers=settings.workers, device=settings.device, waiting=waiting)
    for batch in flow:
        truth = find_truth({k: v.to(settings.device) for k, v in batch.code.items()})
        assert truth.negative_true_BBK is not None
        yield replace(
            batch,
            pixels=batch.pixels.to(settings.device),
            groups=tuple(_placed(group, settings.device) for group in batch.groups),
            code={
                "also_true_BB": truth.also_true_BB,
                "negative_true_BBK": truth.negative_true_BBK,
            },
        )


def _placed(group: Group, device: str) -> Group:
    """Once for all arms."""
    return Group(group.row_G, {name: one.to(device) for name, one in group.inputs.items()})


def main() -> None:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--bases", type=Path, nargs="+", required=True, help=".safetensors files")
    parser.add_argument("--out", type=Path, required=True, help="folder for results and weights")
    parser.add_argument("--experiment", choices=tuple(EXPERIMENTS), default=Settings.experiment)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS)
    parser.add_argument("--steps", type=int, default=Settings.steps)
    parser.add_argument("--batch", type=int, default=Settings.batch)
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument(
        "--times", type=int, default=Settings.times, help="test items, in multiples"
    )
    parser.add_argument("--bench", nargs="+", help="benchmarks of the world; all if none is named")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, default=min(6, os.cpu_count() or 1))
    options = parser.parse_args()
    settings = Settings(
        experiment=options.experiment,
        arms=tuple(options.arms),
        steps=options.steps,
        batch=options.batch,
        seed=options.seed,
        times=options.times,
        device=options.device,
        workers=options.workers,
    )
    questions = Questions(options.bench, times=settings.times)
    for base in options.bases:
        repair(base, options.out, questions, settings)
    print(table(read_results(options.out)))


if __name__ == "__main__":
    main()
