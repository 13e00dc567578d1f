"""Plain contrastive training of a tiny dual encoder on the world: knobs and a seed in, weights out.

    python -m unbag.lab.pretrain --seed 0 --out tiny-base.safetensors

Scenes are made on the fly and never repeat. There is no augmentation of any kind: a flip or a crop
would make captions about sides false. About two minutes on one large GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import torch
from torch.utils.data import Dataset, Subset

from unbag.lab.pretrain_kept import Kept
from unbag.lab.pretraining_arms import Arm
from unbag.lab.pretraining_steps import OnDevice, Schedule, Shown, Training, load, put_on, show
from unbag.lab.script import run_script
from unbag.models.tiny import TinyConfig, TinyTowers, WordTokenizer, write
from unbag.runs.files import paused_collector
from unbag.world.grammar import words
from unbag.world.rendering import sprite_table
from unbag.world.stream import Knobs, batch, describe, split_seed
from unbag.world.vocabulary import WORLDS


@dataclass(frozen=True)
class Settings:
    """Everything about a training run; the defaults made `tiny:base` (pilot C of the spec)."""

    seed: int = 0
    steps: int = 5_000
    batch: int = 1_024
    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.05
    warm_up: int = 100
    mask_also_true: bool = True
    """Leave out off-diagonal pairs whose caption holds in the other picture."""
    world: str = "default"
    knobs: Knobs = field(default_factory=lambda: Knobs(withheld_combinations=0.2))
    """A fifth of the shape-colour combinations is never shown, so unseen ones can be tested."""

    @property
    def schedule(self) -> Schedule:
        """What decides steps, whatever they are shown."""
        return Schedule(**{one.name: getattr(self, one.name) for one in fields(Schedule)})


class Steps(Dataset[Shown]):
    """The batch of step i depends on the seed and i alone, so workers may come and go."""

    def __init__(self, settings: Settings, config: TinyConfig) -> None:
        self.settings = settings
        self.tokenize = WordTokenizer(config.words, context=config.context)

    def __len__(self) -> int:
        """As many as there are steps."""
        return self.settings.steps

    @paused_collector()
    def __getitem__(self, step: int) -> Shown:
        """Sample, say, encode; drawing is left to the device."""
        s = self.settings
        seed = split_seed("train", s.seed)
        samples = batch(WORLDS[s.world], s.knobs, seed=seed, step=step, size=s.batch)
        return show(samples, self.tokenize)


def pretrain(
    settings: Settings,
    config: TinyConfig,
    *,
    device: str,
    workers: int = 0,
    kept: Kept | None = None,
    say: Callable[[str], None] = print,
) -> TinyTowers:
    """Train from scratch; the same settings on the same kind of machine give the same model.

    With `kept` it goes on after a stop, on a CPU with the same bits.
    """
    arm = Arm("a base", config, settings.knobs, masks=settings.mask_also_true)
    schedule = settings.schedule
    training = Training(arm, schedule, device)
    towers, optimiser = training.towers, training.optimiser
    noise = torch.Generator(device=device).manual_seed(settings.seed)
    table = torch.from_numpy(sprite_table(WORLDS[settings.world])).to(device)
    first = kept.restore(towers, optimiser, noise) if kept else 0
    say(_describe(settings) + (f"; goes on from step {first}" if first else ""))
    start = time.monotonic()
    steps = _load(settings, config, first=first, workers=workers)
    place: OnDevice | None = None
    for number, step in enumerate(steps, start=first):
        shown = put_on(step, table, noise, pixels=config.pixels)
        if training.is_recorded:
            shown = place = shown.copied_to(place, context=config.context)
        training.step(shown, schedule.rate(number))
        is_due = kept is not None and kept.is_due()
        if number % 250 == 0 or number == settings.steps - 1 or is_due:
            loss = training.loss.item()
            rate = (number + 1 - first) / (time.monotonic() - start)
            left = (settings.steps - number - 1) / rate
            say(f"step {number:5d}  loss {loss:.4f}  {rate:.3g} steps/s  {left:.0f} s left")
        if kept and is_due:
            kept.save(number + 1, towers, optimiser, noise)
    return towers.eval()


def _load(
    settings: Settings, config: TinyConfig, *, workers: int, first: int = 0
) -> Iterator[Shown]:
    return load(Subset(Steps(settings, config), range(first, settings.steps)), workers=workers)


def _describe(settings: Settings) -> str:
    """What the first batch asks of a model: its collision rate and incentive, measured."""
    world = WORLDS[settings.world]
    seed = split_seed("train", settings.seed)
    return describe(batch(world, settings.knobs, seed=seed, step=0, size=settings.batch))


def main() -> None:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True, help="the .safetensors file to write")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=Settings.steps)
    parser.add_argument("--batch", type=int, default=Settings.batch)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    settings = Settings(seed=options.seed, steps=options.steps, batch=options.batch)
    config = TinyConfig(words=words())
    print(json.dumps({"settings": asdict(settings), "torch": torch.__version__}, default=str))
    towers = pretrain(settings, config, device=options.device, workers=options.workers)
    write(towers, options.out)
    print(f"weights: {options.out} ({options.out.stat().st_size / 1e6:.1f} MB)")


if __name__ == "__main__":
    run_script(main)
