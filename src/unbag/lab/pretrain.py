"""Plain contrastive training of a tiny dual encoder on the world: knobs and a seed in, weights out.

    python -m unbag.lab.pretrain --seed 0 --out tiny-base.safetensors

Scenes are made on the fly and never repeat. There is no augmentation of any kind: a flip or a crop
would make captions about sides false. About four minutes on one large GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

from unbag.lab.pretrain_kept import Kept
from unbag.losses.contrastive import contrastive
from unbag.models.tiny import untrained, write
from unbag.models.tiny_towers import TinyConfig, TinyTowers
from unbag.models.tiny_words import WordTokenizer
from unbag.train.optimise import decay_groups, share_of_rate
from unbag.types import Embedded
from unbag.world.incentive import describe
from unbag.world.knobs import Knobs
from unbag.world.parse import words
from unbag.world.sprites import Packed, draw_batch, pack, sprite_table
from unbag.world.stream import batch, split_seed
from unbag.world.truth import (
    CaptionCodes,
    SceneCodes,
    captions_on,
    encode_captions,
    encode_scenes,
    holds_codes,
    scenes_on,
)
from unbag.world.words import WORLDS


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


@dataclass(frozen=True, eq=False)
class Step:
    """One batch as arrays, made by a worker."""

    packed: Packed
    token_NL: Tensor
    end_N: Tensor
    scenes: SceneCodes[Tensor]
    captions: CaptionCodes[Tensor]


class Steps(Dataset[Step]):
    """The batch of step i depends on the seed and i alone, so workers may come and go."""

    def __init__(self, settings: Settings, config: TinyConfig) -> None:
        self.settings = settings
        self.tokenize = WordTokenizer(config.words, context=config.context)

    def __len__(self) -> int:
        """As many as there are steps."""
        return self.settings.steps

    def __getitem__(self, step: int) -> Step:
        """Sample, say, encode; drawing is left to the device."""
        s = self.settings
        samples = batch(
            WORLDS[s.world], s.knobs, seed=split_seed("train", s.seed), step=step, size=s.batch
        )
        scenes = [sample.scene for sample in samples]
        token_NL, end_N = self.tokenize([sample.caption for sample in samples])
        return Step(
            pack(scenes),
            torch.from_numpy(token_NL),
            torch.from_numpy(end_N),
            scenes_on(encode_scenes(scenes), "cpu"),
            captions_on(encode_captions([sample.ast for sample in samples]), "cpu"),
        )


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
    towers = untrained(config, seed=settings.seed).to(device).train()
    optimiser = torch.optim.AdamW(
        decay_groups(dict(towers.named_parameters()), settings.weight_decay),
        lr=settings.learning_rate,
        betas=settings.betas,
    )
    noise = torch.Generator(device=device).manual_seed(settings.seed)
    table = torch.from_numpy(sprite_table(WORLDS[settings.world])).to(device)
    first = kept.restore(towers, optimiser, noise) if kept else 0
    say(_describe(settings) + (f"; goes on from step {first}" if first else ""))
    start = time.monotonic()
    steps = _load(settings, config, first=first, workers=workers)
    for number, step in enumerate(steps, start=first):
        for group in optimiser.param_groups:
            group["lr"] = settings.learning_rate * schedule(number, settings)
        with torch.autocast(device.split(":")[0], torch.bfloat16, enabled=device != "cpu"):
            embedded = _embed(towers, step, table, noise, settings, device)
        loss = contrastive(embedded)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        towers.clamp_scale()
        is_due = kept is not None and kept.is_due()
        if number % 250 == 0 or number == settings.steps - 1 or is_due:
            rate = (number + 1 - first) / (time.monotonic() - start)
            left = (settings.steps - number - 1) / rate
            say(f"step {number:5d}  loss {loss.item():.4f}  {rate:.3g} steps/s  {left:.0f} s left")
        if kept and is_due:
            kept.save(number + 1, towers, optimiser, noise)
    return towers.eval()


def schedule(step: int, settings: Settings) -> float:
    """Share of the learning rate."""
    return share_of_rate(step, steps=settings.steps, warm_up=settings.warm_up)


def _embed(
    towers: TinyTowers,
    step: Step,
    table: Tensor,
    noise: torch.Generator,
    settings: Settings,
    device: str,
) -> Embedded:
    pixels = draw_batch(table, step.packed, pixels=towers.config.pixels, generator=noise)
    also_true = None
    if settings.mask_also_true:
        captions = CaptionCodes(*(v.to(device) for v in vars(step.captions).values()))
        scenes = SceneCodes(*(v.to(device) for v in vars(step.scenes).values()))
        also_true = holds_codes(captions, scenes)
    return Embedded(
        picture_BD=towers.embed_pictures(2 * pixels - 1).float(),
        caption_BD=towers.embed_captions(step.token_NL.to(device), step.end_N.to(device)).float(),
        scale=towers.log_scale.exp(),
        bias=torch.zeros((), device=device),
        also_true_BB=also_true,
    )


def _load(
    settings: Settings, config: TinyConfig, *, workers: int, first: int = 0
) -> Iterator[Step]:
    return iter(
        DataLoader(
            Subset(Steps(settings, config), range(first, settings.steps)),
            batch_size=None,
            num_workers=workers,
            prefetch_factor=4 if workers else None,
        )
    )


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
    main()
