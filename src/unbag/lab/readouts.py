"""Read-outs on the world: bases come in; readers, trained on frozen parts and asked, go out.

    python -m unbag.lab.readouts --bases tiny-0.safetensors tiny-1.safetensors --out runs/readouts

The same command goes on after a stop: an arm whose result is there is left alone. Every reader is
first taught a few thousand fixed examples and asked these: one that cannot fit them says nothing
about the features it reads.

Dimensions: N pictures or captions, M pairs.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from unbag.lab.readout_arms import READERS, ReaderArm, find_arm
from unbag.lab.repair_questions import Questions, Score
from unbag.lab.repair_results import BEFORE, ArmResult, read_results, write_result
from unbag.models.tiny import Tiny, read, untrained
from unbag.readouts.fit import Fit, Taken, share_told_apart
from unbag.readouts.head import Head, save_head
from unbag.readouts.parts import Parts, View, stacked
from unbag.readouts.pool import Pool
from unbag.readouts.pool_world import WorldRows, world_pool, world_rows
from unbag.readouts.reader import Reader
from unbag.readouts.reader_training import held_rows, sizes_of
from unbag.scorers.resolve import load_model
from unbag.train.tiny_trainable import TinyTrainable
from unbag.types import DualEncoder, FloatArray, IntArray, Item

EXPERIMENT = "readouts"
_PAIRS = 4_096
_CAPTIONS = 4_096


@dataclass(frozen=True)
class Settings:
    """Everything about the experiment besides bases and arms."""

    scenes: int = 100_000
    steps: int = 8_000
    fit_rows: int = 2_048
    """Fixed examples that a reader must be able to learn."""
    fit_steps: int = 2_000
    seed: int = 0
    times: int = 3
    device: str = "cpu"
    workers: int = 0
    text: str = "minilm"
    """Another text tower, by name or folder, for the arms that read captions with it."""

    def seed_of(self, base: Path) -> int:
        """Another one for each base, by its place among bases: tiny-0, tiny-1 ..."""
        digits = "".join(c for c in base.stem if c.isdigit()) or "0"
        return self.seed + 1_000 + int(digits)


class Base:
    """A frozen base, its rows, and pools of its parts by view."""

    def __init__(self, path: Path, questions: Questions, settings: Settings) -> None:
        self.path, self.questions, self.settings = path, questions, settings
        self.seed = settings.seed_of(path)
        self.encoder = read(path, name=path.stem, device=settings.device)
        twin = untrained(self.encoder.config, seed=self.seed)
        self.random = Tiny(twin, name=f"{path.stem}-random", device=settings.device)
        self._joined: DualEncoder | None = None
        self._rows: list[WorldRows] | None = None
        self._key = ""
        self._kept: tuple[Pool, Parts, Parts] | None = None

    @property
    def rows(self) -> list[WorldRows]:
        """What all arms are taught with."""
        if self._rows is None:
            self._rows = world_rows(
                self.settings.scenes, seed=self.seed, workers=self.settings.workers
            )
        return self._rows

    def _encoder(self, arm: ReaderArm) -> DualEncoder:
        if arm.text:
            if self._joined is None:
                spec = f"joined:tiny:{self.path}+{self.settings.text}"
                found = load_model(spec, device=self.settings.device)
                assert isinstance(found, DualEncoder)
                self._joined = found
            return self._joined
        return self.random if arm.is_random else self.encoder

    def parts(self, arm: ReaderArm, view: View) -> tuple[Pool, Parts, Parts]:
        """The pool, and parts of the questions' pictures and captions; one view at a time."""
        encoder = self._encoder(arm)
        key = f"{encoder.name} {view.name}"
        if self._kept is None or key != self._key:
            self._kept = None
            device = self.settings.device
            pool = world_pool(encoder, view, self.rows, device=device)
            pictures = [
                view.look(encoder, pixels.to(device).float() / 127.5 - 1.0).to(
                    device, torch.float16
                )
                for pixels in self.questions.pixels
            ]
            texts = self.questions.captions
            captions = [
                view.read(encoder, texts[at : at + _CAPTIONS]).to(device, torch.float16)
                for at in range(0, len(texts), _CAPTIONS)
            ]
            self._key, self._kept = key, (pool, stacked(pictures), stacked(captions))
        return self._kept


def run_base(
    path: Path,
    arms: Sequence[str],
    out: Path,
    questions: Questions,
    settings: Settings,
    *,
    say: Callable[[str], None] = print,
) -> None:
    """All arms of one base that the folder does not have yet, grouped by what they look at."""
    folder = out / path.stem
    folder.mkdir(parents=True, exist_ok=True)
    base = Base(path, questions, settings)
    if not (folder / f"{BEFORE}.json").exists():
        trainable = TinyTrainable(base.encoder, device=settings.device)
        trainable.module.eval()
        numbers = questions.answers(trainable, device=settings.device)
        write_result(folder / f"{BEFORE}.json", _result(base, BEFORE, 0, None, numbers))
    missing = [name for name in arms if not (folder / f"{name}.json").exists()]
    missing.sort(key=_order)
    for name in missing:
        began = time.perf_counter()
        result = _run_arm(name, base, folder)
        write_result(folder / f"{name}.json", result)
        found = result.numbers
        say(
            f"{path.stem} {name}: {time.perf_counter() - began:.0f} s, loss {result.loss}, "
            f"fit {found['fit']}, relation {found['world-relation']['original']:.3f}, "
            f"pair {found['world-pairs-a']['pair']:.3f}"
        )


def _order(name: str) -> tuple[bool, bool, str]:
    """Arms that look at the same features stand together."""
    arm = find_arm(name)
    return arm.is_random, arm.text, _view(arm).name


def _view(arm: ReaderArm) -> View:
    return arm.found().view(arm.effort(1))


def _run_arm(name: str, base: Base, folder: Path) -> ArmResult:
    arm, settings = find_arm(name), base.settings
    effort = arm.effort(settings.steps)
    pool, pictures, captions = base.parts(arm, _view(arm))
    sizes, held = sizes_of(pool), held_rows(pool)
    device = settings.device
    if arm.taught_as:
        reader = arm.found().fresh(effort, sizes, seed=base.seed).to(device)
        reader.load_state_dict(torch.load(folder / f"{arm.taught_as}.pt", weights_only=True))
        fit_numbers, loss = _fit_numbers(reader, pool, held, device), None
    else:
        few = pool.rows(0, settings.fit_rows)
        small = arm.found().fresh(effort, sizes, seed=base.seed)
        Fit(
            small, few, replace(effort, steps=settings.fit_steps), device=device, seed=base.seed
        ).run()
        can_fit = share_told_apart(small, few, device=device)
        reader = arm.found().fresh(effort, sizes, seed=base.seed)
        fit = Fit(reader, pool.rows(0, len(pool) - held), effort, device=device, seed=base.seed)
        loss = _run(fit)
        fit_numbers = {"few": can_fit, **_fit_numbers(reader, pool, held, device)}
        torch.save(reader.state_dict(), folder / f"{name}.pt")
        head = Head(arm.readout, asdict(effort), sizes, base.encoder.name, base.encoder.fingerprint)
        save_head(reader, folder / f"{name}.safetensors", head)
    reader.eval()
    numbers = base.questions.measured(_score(reader, pictures, captions))
    return _result(base, name, effort.steps, loss, {**numbers, "fit": fit_numbers})


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
    rest = pool.rows(len(pool) - held, len(pool))
    seen = pool.rows(0, held)
    return {
        "learned": share_told_apart(reader, seen, device=device),
        "held": share_told_apart(reader, rest, device=device),
    }


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


def _result(
    base: Base, arm: str, steps: int, loss: float | None, numbers: dict[str, dict[str, float]]
) -> ArmResult:
    return ArmResult(
        experiment=EXPERIMENT,
        base=base.path.stem,
        fingerprint=base.encoder.fingerprint,
        arm=arm,
        steps=steps,
        batch=256,
        seed=base.seed,
        times=base.settings.times,
        precision="float32",
        loss=loss,
        numbers=numbers,
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those that every script of the experiment has."""
    parser.add_argument("--bases", type=Path, nargs="+", required=True, help=".safetensors files")
    parser.add_argument("--out", type=Path, required=True, help="folder for results and weights")
    parser.add_argument("--scenes", type=int, default=Settings.scenes)
    parser.add_argument("--steps", type=int, default=Settings.steps)
    parser.add_argument("--fit-rows", type=int, default=Settings.fit_rows)
    parser.add_argument("--fit-steps", type=int, default=Settings.fit_steps)
    parser.add_argument("--times", type=int, default=Settings.times)
    parser.add_argument("--bench", nargs="+", help="benchmarks of the world; all if none is named")
    text = "text model of the arms with a stronger text tower: a name or a folder"
    parser.add_argument("--text", default=Settings.text, help=text)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, default=min(6, os.cpu_count() or 1))


def settings_of(options: argparse.Namespace) -> Settings:
    """As they were asked for."""
    return Settings(
        scenes=options.scenes,
        steps=options.steps,
        fit_rows=options.fit_rows,
        fit_steps=options.fit_steps,
        times=options.times,
        device=options.device,
        workers=options.workers,
        text=options.text,
    )


def main() -> None:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    add_options(parser)
    parser.add_argument("--arms", nargs="+", choices=tuple(READERS), default=tuple(READERS))
    options = parser.parse_args()
    settings = settings_of(options)
    questions = Questions(options.bench, times=settings.times)
    for base in options.bases:
        run_base(base, options.arms, options.out, questions, settings)
    print(f"{len(read_results(options.out))} results in {options.out}")


if __name__ == "__main__":
    main()
