"""Read-outs on the world: bases come in; readers, trained on frozen parts and asked, go out.

    python -m unbag.lab.readouts --bases tiny-0.safetensors tiny-1.safetensors --out runs/arms

The same command goes on after a stop: an arm whose result is there is left alone. Every reader is
first taught a few thousand fixed examples and asked these: one that cannot fit them says nothing
about the features it reads.

Dimensions: N pictures or captions, M pairs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from unbag.errors import UserError
from unbag.lab.arm_result import (
    BEFORE,
    FEW_DROPOUT,
    FEW_RATE,
    FEW_STEPS,
    ArmResult,
    result_path,
    write_result,
)
from unbag.lab.at_once import each_apart, shares
from unbag.lab.experiment import Say
from unbag.lab.questions import Questions, Score
from unbag.lab.readout_arms import READERS, ReaderArm, find_arm
from unbag.lab.readout_base import EXPERIMENT, Base, Settings, add_options, settings_of
from unbag.lab.script import run_script
from unbag.readouts.data import RELATION, Pool
from unbag.readouts.features import Parts, View
from unbag.readouts.reader import Head, Reader, save_head
from unbag.readouts.training import Fit, Taken, held_rows, share_told_apart, sizes_of
from unbag.training.towers.adapters import TinyTrainable
from unbag.types import FloatArray, IntArray, Item

_PAIRS = 4_096
_NO_SHARES = (FEW_STEPS, FEW_DROPOUT, FEW_RATE)
_SHOWN = (("world-relation", "original"), ("world-pairs-a", "pair"))


def run_base(base: Base, folder: Path, arms: Sequence[str], *, say: Say = print) -> None:
    """The arms, one after the other; results and weights go to the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if base.settings.device != "cpu":
        torch.set_float32_matmul_precision("high")
    for name in arms:
        began = time.perf_counter()
        result = _before(base) if name == BEFORE else _run_arm(name, base, folder)
        finish(result, folder, began, say)
    base.forget()


def finish(
    result: ArmResult,
    folder: Path,
    began: float,
    say: Say,
    *,
    shown: Sequence[tuple[str, str]] = _SHOWN,
) -> None:
    """Write it with its seconds, and say the numbers that are looked at first."""
    seconds = time.perf_counter() - began
    write_result(folder / f"{result.arm}.json", replace(result, seconds=seconds))
    found = result.numbers
    fit = found.get("fit", {})
    told = [f"{name} {share:.3f}" for name, share in fit.items() if name not in _NO_SHARES]
    told += [f"{name} {metric} {found[name][metric]:.3f}" for name, metric in shown
             if name in found]  # fmt: skip
    say(f"{result.base} {result.arm}: {seconds:.0f} s, {', '.join(told)}")


def _before(base: Base) -> ArmResult:
    """The cosine that everything else is read against."""
    trainable = TinyTrainable(base.encoder, device=base.settings.device)
    trainable.module.eval()
    return base.result(BEFORE, base.questions.answers(trainable, device=base.settings.device))


def _weights(path: Path) -> dict[str, Tensor]:
    """What the arm that was taught left beside its result."""
    if not path.is_file():
        raise UserError(
            f"there is no {path}, the weights of another arm",
            expected="weights beside the result of the arm that was taught",
            way_out=f"remove {path.with_suffix('.json').name} beside it and run that arm again",
        )
    found: dict[str, Tensor] = torch.load(path, weights_only=True)
    return found


def missing(arms: Sequence[str], folder: Path) -> list[str]:
    """Those whose result the folder does not have yet."""
    return [name for name in arms if not (folder / f"{name}.json").exists()]


def reader_groups(arms: Sequence[str], *, processes: int) -> list[list[str]]:
    """Those that may be run apart: all in one, if there is one process, else as many as can be.

    In one, arms that look at the same features stand together; the base itself comes first. An arm
    that takes another's weights follows it.
    """
    ordered = sorted(arms, key=_order)
    if processes <= 1:
        return [ordered]
    families: dict[str, list[str]] = {}
    for name in ordered:
        families.setdefault(_teacher(name), []).append(name)
    return list(families.values())


def _teacher(name: str) -> str:
    """The arm that is taught: itself, or the one whose weights it takes."""
    return name if name == BEFORE else find_arm(name).taught_as or name


def _order(name: str) -> tuple[bool, bool, str, bool]:
    teacher = _teacher(name)
    if teacher == BEFORE:
        return False, False, "", False
    arm = find_arm(teacher)
    return arm.is_random, arm.text, _view(arm).name, name != teacher


def _view(arm: ReaderArm) -> View:
    return arm.found().view(arm.effort(1))


def _run_arm(name: str, base: Base, folder: Path) -> ArmResult:
    arm, settings = find_arm(name), base.settings
    effort = arm.effort(settings.steps_of(arm))
    pool, pictures, captions = base.parts(arm, _view(arm))
    if arm.only_relations:
        pool = pool.only(RELATION)
    sizes, held = sizes_of(pool), held_rows(pool)
    device = settings.device
    if arm.taught_as:
        reader = arm.found().fresh(effort, sizes, seed=base.seed).to(device)
        reader.load_state_dict(_weights(folder / f"{arm.taught_as}.pt"))
        fit_numbers, loss = _fit_numbers(reader, pool, held, device), None
    else:
        few = pool.rows(0, settings.fit_rows)
        by_heart = arm.by_heart(settings.fit_steps_of(arm))
        small = arm.found().fresh(by_heart, sizes, seed=base.seed)
        Fit(small, few, by_heart, device=device, seed=base.seed).run()
        can_fit = _shares("few", small, few, device)
        reader = arm.found().fresh(effort, sizes, seed=base.seed)
        fit = Fit(reader, pool.rows(0, len(pool) - held), effort, device=device, seed=base.seed)
        loss = _run(fit)
        fit_numbers = {
            **can_fit,
            FEW_STEPS: float(by_heart.steps),
            FEW_RATE: by_heart.learning_rate,
            **({FEW_DROPOUT: asdict(by_heart)["dropout"]} if arm.reads_patches else {}),
            **_fit_numbers(reader, pool, held, device),
        }
        torch.save(reader.state_dict(), folder / f"{name}.pt")
        head = Head(arm.readout, asdict(effort), sizes, base.encoder.name, base.encoder.fingerprint)
        save_head(reader, folder / f"{name}.safetensors", head)
    reader.eval()
    numbers = base.questions.measured(_score(reader, pictures, captions))
    return base.result(name, {**numbers, "fit": fit_numbers}, steps=effort.steps, loss=loss)


def _run(fit: Fit) -> float | None:
    """To the end; gives the last loss that was read."""
    found: list[float] = []

    def on_step(taken: Taken) -> bool:
        if taken.loss is not None:
            found.append(taken.loss)
        return False

    fit.run(on_step)
    return found[-1] if found else None


def _fit_numbers(reader: Reader, pool: Pool, held: int, device: str) -> dict[str, float]:
    seen, rest = pool.rows(0, held), pool.rows(len(pool) - held, len(pool))
    return {
        **_shares("learned", reader, seen, device),
        **_shares("held", reader, rest, device),
    }


def _shares(name: str, reader: Reader, rows: Pool, device: str) -> dict[str, float]:
    """Told from all negatives; and, where rows have several, relations from their opposites."""
    found = {name: share_told_apart(reader, rows, device=device)}
    if rows.negative_NK.shape[1] > 1 and len(stated := rows.only(RELATION)):
        found[f"{name} relation"] = share_told_apart(reader, stated, device=device)
    return found


def _score(reader: Reader, pictures: Parts, captions: Parts) -> Score:
    """By its parts; one whose scores depend on the call is asked item by item."""
    device = pictures.part_NLW.device

    @torch.inference_mode()
    def by_item(picture_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        found, end = [], 0
        for item in items:
            rows, columns = len(item.pictures), len(item.captions)
            start, end = end, end + rows * columns
            at_P = torch.from_numpy(picture_M[start:end:columns]).to(device)
            at_C = torch.from_numpy(caption_M[start : start + columns]).to(device)
            cells = reader.compare_all(_float(pictures.rows(at_P)), _float(captions.rows(at_C)))
            found.append(cells.flatten())
        value_M: FloatArray = torch.cat(found).double().cpu().numpy()
        return value_M

    @torch.inference_mode()
    def score(picture_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        both = (torch.from_numpy(picture_M).to(device), torch.from_numpy(caption_M).to(device))
        found: list[Tensor] = [
            reader.compare(_float(pictures.rows(p)), _float(captions.rows(c)))
            for p, c in zip(*(torch.split(one, _PAIRS) for one in both), strict=True)
        ]
        value_M: FloatArray = torch.cat(found).double().cpu().numpy()
        return value_M

    return by_item if reader.depends_on_call else score


def _float(parts: Parts) -> Parts:
    return parts.to(str(parts.part_NLW.device), torch.float32)


def main() -> None:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    add_options(parser, Settings())
    every = (BEFORE, *READERS)
    parser.add_argument("--arms", nargs="+", choices=every, default=every)
    options = parser.parse_args()
    settings, say = settings_of(options), partial(print, flush=True)
    questions = Questions(options.bench, times=settings.times)
    for path in options.bases:
        base = Base(path, questions, settings)
        folder = result_path(options.out, EXPERIMENT, path.stem, BEFORE).parent
        if arms := missing(options.arms, folder):
            base.make_rows("readers", say)
            run = partial(run_base, base, folder, say=say)
            groups = reader_groups(arms, processes=options.processes)
            each_apart(shares(run, groups), processes=options.processes, say=say)


if __name__ == "__main__":
    run_script(main)
