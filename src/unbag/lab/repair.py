"""Repair of tiny models on the world: bases come in; all arms, trained and asked, go out.

    python -m unbag.lab.repair --bases tiny-0.safetensors tiny-1.safetensors --out runs/repair

Each arm takes the steps of `unbag train`. The same command goes on after a stop: arms in training
from their last checkpoint; an arm whose weights are in the folder is only asked, and one whose
result is there is left alone. The weights of all arms are written before the first is asked.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from unbag.engine.atomic import write_atomically
from unbag.lab.arm_result import (
    BEFORE,
    UNTRAINED,
    ArmResult,
    check_same,
    read_results,
    write_result,
)
from unbag.lab.questions import Questions
from unbag.lab.repair_arms import ARMS, EXPERIMENTS
from unbag.lab.repair_table import table
from unbag.lab.repair_training import Say, Settings, checkpoint_of, seed_of, train_arms
from unbag.models.tiny import Tiny, read, untrained, write
from unbag.train.tiny_trainable import TinyTrainable


def repair(
    base: Path, out: Path, questions: Questions, settings: Settings, *, say: Say = print
) -> None:
    """Train and ask all arms of one base that the folder does not have yet."""
    encoder = read(base, name=base.stem)
    nothing = _nothing(base, encoder, settings)
    folder = out / settings.experiment / base.stem
    folder.mkdir(parents=True, exist_ok=True)
    known = {BEFORE: encoder, UNTRAINED: _untrained(encoder, nothing.seed)}
    for name, tiny in known.items():
        one = replace(nothing, arm=name)
        if _found(one, folder / f"{name}.json") is None:
            _ask(tiny, one, folder, questions, settings)
    wanted = [replace(nothing, arm=arm, steps=settings.steps) for arm in settings.arms]
    missing = [one for one in wanted if _found(one, folder / f"{one.arm}.json") is None]
    if not missing:
        say(f"{base.stem}: every arm is in {folder}")
        return
    for one in _trained(base, missing, folder, settings, say=say):
        # The file is asked, not the model it was written from: it has half the digits.
        tiny = read(folder / f"{one.arm}.safetensors", name=one.arm)
        _ask(tiny, one, folder, questions, settings)
        _state(folder, one.arm).unlink(missing_ok=True)
        say(f"{base.stem}: {one.arm} asked")


def _nothing(base: Path, encoder: Tiny, settings: Settings) -> ArmResult:
    return ArmResult(
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


def _untrained(encoder: Tiny, seed: int) -> Tiny:
    """The null of every pair number: pictures that are alike have vectors that are alike."""
    return Tiny(untrained(encoder.config, seed=seed), name=UNTRAINED)


def _found(wanted: ArmResult, path: Path) -> ArmResult | None:
    """What a file says, unless it is not there; refused if it is of other settings."""
    if not path.exists():
        return None
    found = read_results(path)[0]
    check_same(found, wanted, path=path)
    return found


def _state(folder: Path, arm: str) -> Path:
    """An arm before it is asked, with its loss once it is trained; no result, so not .json."""
    return folder / f"{arm}.state"


def _trained(
    base: Path, wanted: Sequence[ArmResult], folder: Path, settings: Settings, *, say: Say
) -> list[ArmResult]:
    """With their losses; those that are not trained yet are, and all weights are written."""
    states = [_found(one, _state(folder, one.arm)) for one in wanted]
    rest = [
        one for one, state in zip(wanted, states, strict=True) if not state or state.loss is None
    ]
    for one in rest:
        if not _state(folder, one.arm).exists():
            # A checkpoint without a state is of settings that nobody knows.
            checkpoint_of(folder, one.arm).unlink(missing_ok=True)
            write_result(_state(folder, one.arm), one)
    if rest:
        arms = train_arms(base, [one.arm for one in rest], settings, folder=folder, say=say)
        for one in rest:
            arm = arms[one.arm]
            path = folder / f"{one.arm}.safetensors"
            write_atomically(path, partial(write, arm.trainable.module))
            write_result(_state(folder, one.arm), replace(one, loss=arm.loss.item()))
            checkpoint_of(folder, one.arm).unlink(missing_ok=True)
    found = [_found(one, _state(folder, one.arm)) for one in wanted]
    return [one for one in found if one is not None]


def _ask(
    encoder: Tiny, result: ArmResult, folder: Path, questions: Questions, settings: Settings
) -> None:
    """Ask a model everything and keep the answers."""
    trainable = TinyTrainable(encoder, device=settings.device)
    trainable.module.eval()
    numbers = questions.answers(trainable, device=settings.device)
    write_result(folder / f"{result.arm}.json", replace(result, numbers=numbers))


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
