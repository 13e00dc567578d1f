"""Repair of tiny models on the world: bases come in; all arms, trained and asked, go out.

    python -m unbag.lab.repair --bases tiny-0.safetensors tiny-1.safetensors --out runs/repair

Each arm takes the steps of `unbag train`. The same command goes on after a stop: arms in training
from their last checkpoint; an arm whose weights are in the folder is only asked, and one whose
result is there is left alone. The weights of all arms are written before the first is asked.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from unbag.lab.apart import apart, one_thread
from unbag.lab.arm_result import BEFORE, UNTRAINED, ArmResult, find_same, read_results, write_result
from unbag.lab.questions import Questions
from unbag.lab.repair_arms import ARMS, EXPERIMENTS, VARIANTS, make_recipe
from unbag.lab.repair_curve import curve_numbers
from unbag.lab.repair_leak import BLIND, LEAK, STEPS, leak_of
from unbag.lab.repair_table import table
from unbag.lab.repair_training import Say, Settings, checkpoint_of, curve_of, seed_of, train_arms
from unbag.lab.script import run_script
from unbag.models.loading import choose_device
from unbag.models.tiny import Tiny, read, untrained, write
from unbag.runs.files import write_atomically
from unbag.training.data.world import WorldBatches
from unbag.training.towers.adapters import TinyTrainable


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
        if settings.asks_base and find_same(one, folder / f"{name}.json") is None:
            _ask(tiny, one, folder, questions, settings)
    if BLIND in settings.arms:
        _read_blindly(replace(nothing, arm=BLIND), encoder, folder, settings)
    trained = [arm for arm in settings.arms if arm not in (BEFORE, UNTRAINED, BLIND)]
    wanted = [replace(nothing, arm=arm, steps=settings.steps) for arm in trained]
    missing = [one for one in wanted if find_same(one, folder / f"{one.arm}.json") is None]
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
        size=settings.size,
    )


def _untrained(encoder: Tiny, seed: int) -> Tiny:
    """The null of every pair number: pictures that are alike have vectors that are alike."""
    return Tiny(untrained(encoder.config, seed=seed), name=UNTRAINED)


def _state(folder: Path, arm: str) -> Path:
    """An arm before it is asked, with its loss once it is trained; no result, so not .json."""
    return folder / f"{arm}.state"


def _trained(
    base: Path, wanted: Sequence[ArmResult], folder: Path, settings: Settings, *, say: Say
) -> list[ArmResult]:
    """With their losses; those that are not trained yet are, and all weights are written."""
    states = [find_same(one, _state(folder, one.arm)) for one in wanted]
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
            done = replace(
                one, loss=arm.loss.item(), numbers=curve_numbers(arm), seconds=arm.seconds
            )
            write_result(_state(folder, one.arm), done)
            checkpoint = checkpoint_of(folder, one.arm)
            for left in (checkpoint, curve_of(checkpoint)):
                left.unlink(missing_ok=True)
    found = [find_same(one, _state(folder, one.arm)) for one in wanted]
    return [one for one in found if one is not None]


def _ask(
    encoder: Tiny, result: ArmResult, folder: Path, questions: Questions, settings: Settings
) -> None:
    """Ask a model everything and keep the answers, beside what training said."""
    start = time.monotonic()
    trainable = TinyTrainable(encoder, device=settings.device)
    trainable.module.eval()
    numbers = {**result.numbers, **questions.answers(trainable, device=settings.device)}
    # A model that was not trained took no time to train; one that went on took nobody knows what.
    trained = 0.0 if result.loss is None else result.seconds
    seconds = None if trained is None else trained + time.monotonic() - start
    write_result(folder / f"{result.arm}.json", replace(result, numbers=numbers, seconds=seconds))


def _read_blindly(wanted: ArmResult, encoder: Tiny, folder: Path, settings: Settings) -> None:
    """How far the captions of a base's own scenes give their edits away."""
    path = folder / f"{wanted.arm}.json"
    if find_same(wanted, path) is not None:
        return
    start, experiment = time.monotonic(), EXPERIMENTS[settings.experiment]
    batches = WorldBatches(
        recipe=make_recipe(ARMS[0], experiment, batch=settings.batch),
        reads=TinyTrainable(encoder, device="cpu").reads,
        seed=wanted.seed,
        preset=experiment.preset,
        per_epoch=max(settings.steps, 2 * STEPS),
    )
    found = leak_of(batches)
    seconds = time.monotonic() - start
    write_result(path, replace(wanted, numbers={LEAK: found}, seconds=seconds))


def main() -> None:
    """The command line of this script."""
    from unbag.lab.repair_bases import repair_bases

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--bases", type=Path, nargs="+", required=True, help=".safetensors files")
    parser.add_argument("--out", type=Path, required=True, help="folder for results and weights")
    parser.add_argument("--experiment", choices=tuple(EXPERIMENTS), default=Settings.experiment)
    every = (BLIND, *ARMS, *VARIANTS)
    parser.add_argument("--arms", nargs="+", choices=every, default=ARMS)
    parser.add_argument("--steps", type=int, default=Settings.steps)
    parser.add_argument("--batch", type=int, default=Settings.batch)
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument(
        "--times", type=int, default=Settings.times, help="test items, in multiples"
    )
    parser.add_argument("--bench", nargs="+", help="benchmarks of the world; all if none is named")
    parser.add_argument("--device", default="auto")
    text = "processes that make scenes, for each that trains"
    parser.add_argument("--workers", type=int, default=min(6, os.cpu_count() or 1), help=text)
    text = "side by side on one device: bases, then parts of their arms"
    parser.add_argument("--processes", type=int, default=1, help=text)
    options = parser.parse_args()
    # Asked in a process of its own: one that has touched a GPU cannot fork others that use it.
    device = apart(partial(choose_device, options.device), device=options.device)
    settings = Settings(
        experiment=options.experiment,
        arms=tuple(options.arms),
        steps=options.steps,
        batch=options.batch,
        seed=options.seed,
        times=options.times,
        device=device,
        workers=options.workers,
    )
    with one_thread(options.processes > 1):
        repair_bases(
            options.bases, options.out, settings, bench=options.bench, processes=options.processes
        )
    print(table(read_results(options.out)))


if __name__ == "__main__":
    run_script(main)
