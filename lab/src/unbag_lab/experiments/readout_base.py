"""What all arms of the experiment `readouts` share: settings, and a frozen base with its features.

All arms of a base are trained on the same rows: images, captions and hard negatives that the repair
experiments draw (`unbag_lab.experiments.repair_training`).

Dimensions: N images or captions.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from unbag.models.features import View, stacked
from unbag.models.loading import load_model
from unbag.models.tiny import Tiny, read, untrained
from unbag.readouts.data import Pool, WorldRows, world_pool, world_rows
from unbag.readouts.decoder.lessons import DecoderSettings
from unbag.readouts.decoder.training import DecoderData, of_world
from unbag.runs.progress import Silent
from unbag.types import DualEncoder, TokenFeatures
from unbag_lab.plan import Say
from unbag_lab.questions import Questions
from unbag_lab.results import FEW_DROPOUT, FEW_RATE, FEW_STEPS, ArmResult, Size, write_result

if TYPE_CHECKING:
    from unbag_lab.experiments.readers import ReaderArm

EXPERIMENT = "readouts"
BATCH = 256
"""Also said of arms that are not trained."""
_CAPTIONS = 4_096
_MAP_FIT = 2_400


@dataclass(frozen=True)
class ReadoutSettings:
    """Everything about the experiment besides bases and arms; the defaults are those of readers.

    Results that ship were made with these and `FOR_DECODERS`, and a test compares them: what is
    run today can be judged together with them. Only `fit_steps` was 800 for some of them.
    """

    scenes: int = 60_000
    steps: int = 5_000
    map_steps: int = 3_000
    """Of readers of maps, of which a step costs three times as much."""
    long_steps: int = 20_000
    """Of arms that are taught for long, whatever they read."""
    fit_rows: int = 2_048
    """Fixed examples that a reader must be able to learn."""
    fit_steps: int = 4_000
    """In which they are learned; readers of maps learn them in `_MAP_FIT`, or not at all."""
    vector_steps: int = 1_200
    """Of VLM2Vec."""
    seed: int = 0
    times: int = 3
    device: str = "cpu"
    workers: int = 0
    text: str = "minilm"
    """Another text tower, by name or folder, for the arms that read captions with it."""
    size: Size = "full"

    def seed_of(self, base: Path) -> int:
        """Another one for each base, by its place among bases: tiny-0, tiny-1 ..."""
        digits = "".join(c for c in base.stem if c.isdigit()) or "0"
        return self.seed + 1_000 + int(digits)

    def steps_of(self, arm: ReaderArm) -> int:
        """Of a reader."""
        if arm.is_long:
            return self.long_steps
        return self.map_steps if arm.reads_maps else self.steps

    def fit_steps_of(self, arm: ReaderArm) -> int:
        """Of a reader that learns by heart."""
        return min(self.fit_steps, _MAP_FIT) if arm.reads_maps else self.fit_steps


FOR_DECODERS = ReadoutSettings(scenes=40_000, steps=6_000, fit_rows=512, fit_steps=1_500)
"""Also for VLM2Vec, which goes on from a decoder."""


class Base:
    """A frozen base, its rows, and pools of its parts by view."""

    def __init__(self, path: Path, questions: Questions, settings: ReadoutSettings) -> None:
        self.path, self.questions, self.settings = path, questions, settings
        self.seed = settings.seed_of(path)
        self._key = ""
        self._kept: tuple[Pool, TokenFeatures, TokenFeatures] | None = None
        self._looked: tuple[tuple[str, ...], DecoderData] | None = None

    # Nothing touches a GPU before it is asked for: processes that share the rows are forked.

    @cached_property
    def encoder(self) -> Tiny:
        """Frozen."""
        return read(self.path, name=self.path.stem, device=self.settings.device)

    @cached_property
    def random(self) -> Tiny:
        """The same network before any training."""
        twin = untrained(self.encoder.config, seed=self.seed)
        return Tiny(twin, name=f"{self.path.stem}-random", device=self.settings.device)

    @cached_property
    def joined(self) -> DualEncoder:
        """The picture tower with another text model."""
        spec = f"joined:tiny:{self.path}+{self.settings.text}"
        found = load_model(spec, device=self.settings.device)
        assert isinstance(found, DualEncoder)
        return found

    @cached_property
    def rows(self) -> list[WorldRows]:
        """What all arms are taught with."""
        return world_rows(self.settings.scenes, seed=self.seed, workers=self.settings.workers)

    def make_rows(self, whose: str, say: Say) -> None:
        """Now, so that processes that are forked later share them."""
        # A base that is not there, or is none, is told before that.
        read(self.path, name=self.path.stem, device="cpu")
        count = sum(len(one.captions) for one in self.rows)
        say(f"{self.path.stem}: {count:,} scenes for {whose}")

    def forget(self) -> None:
        """Features that were kept for the next arm."""
        self._kept = self._looked = None

    def _encoder(self, arm: ReaderArm) -> DualEncoder:
        if arm.text:
            return self.joined
        return self.random if arm.is_random else self.encoder

    def parts(self, arm: ReaderArm, view: View) -> tuple[Pool, TokenFeatures, TokenFeatures]:
        """The pool, and parts of the questions' pictures and captions; one view at a time."""
        encoder = self._encoder(arm)
        key = f"{encoder.name} {view.name}"
        if self._kept is None or key != self._key:
            self._kept = None
            device = self.settings.device
            pool = world_pool(encoder, view, self.rows, device=device)
            pictures = [
                view.encode_images(encoder, pixels.to(device).float() / 127.5 - 1.0).to(
                    device, torch.float16
                )
                for pixels in self.questions.pixels
            ]
            texts = self.questions.captions
            captions = [
                view.encode_texts(encoder, texts[at : at + _CAPTIONS]).to(device, torch.float16)
                for at in range(0, len(texts), _CAPTIONS)
            ]
            self._key, self._kept = key, (pool, stacked(pictures), stacked(captions))
        return self._kept

    def material(self, settings: DecoderSettings) -> DecoderData:
        """What decoders see of the rows' pictures; one view at a time is kept."""
        key = (settings.sees, settings.layer, settings.keeps)
        if self._looked is None or self._looked[0] != key:
            self._looked = None
            device = self.settings.device
            found = of_world(self.encoder, self.rows, settings, device=device, progress=Silent())
            self._looked = key, found
        return self._looked[1]

    def result(
        self,
        arm: str,
        numbers: dict[str, dict[str, float]],
        *,
        steps: int = 0,
        batch: int = BATCH,
        loss: float | None = None,
        precision: str = "float32",
    ) -> ArmResult:
        """What an arm on this base came to; its seconds are not known yet."""
        return ArmResult(
            experiment=EXPERIMENT,
            base=self.path.stem,
            fingerprint=self.encoder.fingerprint,
            arm=arm,
            steps=steps,
            batch=batch,
            seed=self.seed,
            times=self.settings.times,
            precision=precision,
            loss=loss,
            numbers=numbers,
            size=self.settings.size,
        )


def missing(arms: Sequence[str], folder: Path) -> list[str]:
    """Those whose result the folder does not have yet."""
    return [name for name in arms if not (folder / f"{name}.json").exists()]


_NO_SHARES = (FEW_STEPS, FEW_DROPOUT, FEW_RATE)
_SHOWN = (("world-relation", "original"), ("world-pairs-a", "pair"))


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


def add_options(parser: argparse.ArgumentParser, default: ReadoutSettings) -> None:
    """Those that every script of the experiment has."""
    parser.add_argument("--bases", type=Path, nargs="+", required=True, help=".safetensors files")
    parser.add_argument("--out", type=Path, required=True, help="folder for results and weights")
    parser.add_argument("--scenes", type=int, default=default.scenes)
    parser.add_argument("--steps", type=int, default=default.steps)
    text = "steps of readers of maps"
    parser.add_argument("--map-steps", type=int, default=default.map_steps, help=text)
    text = "steps of arms that are taught for long"
    parser.add_argument("--long-steps", type=int, default=default.long_steps, help=text)
    parser.add_argument("--fit-rows", type=int, default=default.fit_rows)
    parser.add_argument("--fit-steps", type=int, default=default.fit_steps)
    text = "steps of VLM2Vec"
    parser.add_argument("--vector-steps", type=int, default=default.vector_steps, help=text)
    parser.add_argument("--times", type=int, default=default.times)
    parser.add_argument("--bench", nargs="+", help="benchmarks of the world; all if none is named")
    text = "text model of the arms with a stronger text tower: a name or a folder"
    parser.add_argument("--text", default=default.text, help=text)
    # Asking whether there is a GPU would forbid processes to fork.
    parser.add_argument("--device", default="cpu")
    text = "processes in which the arms of a base are run side by side"
    parser.add_argument("--processes", type=int, default=1, help=text)
    parser.add_argument("--workers", type=int, default=min(6, os.cpu_count() or 1))


def settings_of(options: argparse.Namespace) -> ReadoutSettings:
    """As they were asked for."""
    return ReadoutSettings(
        scenes=options.scenes,
        steps=options.steps,
        map_steps=options.map_steps,
        long_steps=options.long_steps,
        fit_rows=options.fit_rows,
        fit_steps=options.fit_steps,
        vector_steps=options.vector_steps,
        times=options.times,
        device=options.device,
        workers=options.workers,
        text=options.text,
    )
