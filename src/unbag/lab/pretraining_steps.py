"""Arms come in; all of them, trained side by side on shared batches, go out.

Scenes are made by workers, once for each stream; pictures are drawn and accidental truths found on
the device, once for each stream, however many arms are shown them.

Dimensions: B batch, L tokens of a caption.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from unbag.lab.pretraining_arms import Arm
from unbag.models.tiny import TinyTowers, WordTokenizer, untrained
from unbag.runs.files import paused_collector
from unbag.training.losses import contrastive
from unbag.training.optim import (
    Memory,
    Recorded,
    compile_layers,
    decay_groups,
    put_rate,
    share_of_rate,
    shared_memory,
)
from unbag.types import Embedded, IntArray
from unbag.world.grammar import Rel
from unbag.world.rendering import Packed, draw_batch, pack, sprite_table
from unbag.world.stream import Knobs, Sample, batch, collision_rate, incentive, split_seed
from unbag.world.truth import CaptionCodes, SceneCodes, encode_captions, encode_scenes, holds_codes
from unbag.world.vocabulary import DEFAULT

T = TypeVar("T")
_SAID_EVERY = 100
_MEASURED = 4
"""Batches over which a stream is measured."""


@dataclass(frozen=True)
class Schedule:
    """What all arms of a seed share; but for steps and batch, the values that made `tiny:base`."""

    seed: int
    steps: int = 2_000
    batch: int = 512
    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.05
    warm_up: int = 100

    def rate(self, step: int) -> float:
        """Of a step, counted from 0."""
        share = share_of_rate(step, steps=self.steps, warm_up=self.warm_up)
        return self.learning_rate * share


@dataclass(frozen=True, eq=False)
class Shown:
    """One batch of one stream, made by a worker.

    Arrays, not tensors: each tensor of a worker holds a file open, and there are many.
    """

    packed: Packed
    token_BL: IntArray
    end_B: IntArray
    scenes: SceneCodes[IntArray]
    captions: CaptionCodes[IntArray]


@dataclass(frozen=True, eq=False)
class OnDevice:
    """The same where it is trained on, with its pictures drawn."""

    pixels: Tensor
    token_BL: Tensor
    end_B: Tensor
    also_true_BB: Tensor

    def copied_to(self, place: OnDevice | None, *, context: int) -> OnDevice:
        """Into one place, where a recorded step finds it, with room for the longest captions.

        Tokens behind the end of a caption may be old ones: text towers are causal.
        """
        if place is None:
            token_BL = self.token_BL.new_zeros((len(self.token_BL), context))
            others = (self.pixels, self.end_B, self.also_true_BB)
            pixels, end_B, also_true_BB = map(torch.empty_like, others)
            place = OnDevice(pixels, token_BL, end_B, also_true_BB)
        place.pixels.copy_(self.pixels)
        place.token_BL[:, : self.token_BL.shape[1]].copy_(self.token_BL)
        place.end_B.copy_(self.end_B)
        place.also_true_BB.copy_(self.also_true_BB)
        return place


class Streams(Dataset[tuple[Shown, ...]]):
    """The batches of step i, one for each stream; they depend on the seed and i alone."""

    def __init__(self, streams: Sequence[Knobs], schedule: Schedule, arm: Arm) -> None:
        """`arm` has the vocabulary, which all share."""
        self._streams = tuple(streams)
        self._schedule = schedule
        self._tokenize = WordTokenizer(arm.config.words, context=arm.config.context)

    def __len__(self) -> int:
        """As many as there are steps."""
        return self._schedule.steps

    @paused_collector()
    def __getitem__(self, step: int) -> tuple[Shown, ...]:
        """Sample, say, encode; drawing is left to the device."""
        return tuple(self._shown(knobs, step) for knobs in self._streams)

    def _shown(self, knobs: Knobs, step: int) -> Shown:
        seed, size = split_seed("train", self._schedule.seed), self._schedule.batch
        samples = batch(DEFAULT, knobs, seed=seed, step=step, size=size)
        return show(samples, self._tokenize)


def show(samples: Sequence[Sample], tokenize: WordTokenizer) -> Shown:
    """As arrays; drawing is left to the device."""
    scenes = [sample.scene for sample in samples]
    token_BL, end_B = tokenize([sample.caption for sample in samples])
    captions = encode_captions([sample.ast for sample in samples])
    return Shown(pack(scenes), token_BL, end_B, encode_scenes(scenes), captions)


class Training:
    """One arm and its optimiser."""

    def __init__(
        self, arm: Arm, schedule: Schedule, device: str, *, memory: Memory | None = None
    ) -> None:
        """As untrained as its seed says: arms of one size begin alike."""
        self._memory = memory
        self.masks = arm.masks
        self.towers: TinyTowers = untrained(arm.config, seed=schedule.seed).to(device).train()
        self.loss = torch.zeros((), device=device)
        """Of the last step."""
        self._device = device
        self.is_recorded = device.startswith("cuda")
        """Whether steps are replayed: then batches must stay in one place."""
        for tower in (self.towers.picture, self.towers.caption):
            compile_layers(tower.blocks, device=device)
        rate = schedule.learning_rate
        self.optimiser = torch.optim.AdamW(
            decay_groups(dict(self.towers.named_parameters()), schedule.weight_decay),
            lr=torch.tensor(rate, device=device) if self.is_recorded else rate,
            betas=schedule.betas,
            fused=self.is_recorded,
            capturable=self.is_recorded,
        )
        self._recorded: Recorded | None = None

    def step(self, shown: OnDevice, rate: float) -> None:
        """One step; the device is not waited for."""
        put_rate(self.optimiser, rate)
        if not self.is_recorded:
            self.loss = self._learn(shown)
            return
        if self._recorded is None:
            self._recorded = Recorded(
                lambda: self._learn(shown),
                self.optimiser,
                device=self._device,
                memory=self._memory,
            )
        self.loss = self._recorded()

    def _learn(self, shown: OnDevice) -> Tensor:
        kind = self._device.partition(":")[0]
        with torch.autocast(kind, torch.bfloat16, enabled=kind != "cpu"):
            picture_BD = self.towers.embed_pictures(shown.pixels).float()
            caption_BD = self.towers.embed_captions(shown.token_BL, shown.end_B).float()
        embedded = Embedded(
            picture_BD,
            caption_BD,
            scale=self.towers.log_scale.exp(),
            bias=picture_BD.new_zeros(()),
            also_true_BB=shown.also_true_BB if self.masks else None,
        )
        loss = contrastive(embedded)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.towers.clamp_scale()
        return loss.detach()


def train_side_by_side(
    arms: Mapping[str, Arm],
    schedule: Schedule,
    *,
    device: str,
    workers: int,
    say: Callable[[str], None],
) -> dict[str, Training]:
    """From scratch; the same arms on the same kind of machine come to the same weights."""
    streams = list(dict.fromkeys(arm.knobs for arm in arms.values()))
    batches = load(Streams(streams, schedule, next(iter(arms.values()))), workers=workers)
    # Workers are forked by now; only from here on may the device be touched.
    table = torch.from_numpy(sprite_table(DEFAULT)).to(device)
    # One for each stream: noise must not depend on which other arms are trained.
    noise = [torch.Generator(device=device).manual_seed(schedule.seed) for _ in streams]
    memory = shared_memory() if device.startswith("cuda") else None
    found = {name: Training(arm, schedule, device, memory=memory) for name, arm in arms.items()}
    shown_to = [[found[n] for n, arm in arms.items() if arm.knobs == knobs] for knobs in streams]
    places: list[OnDevice | None] = [None] * len(streams)
    context = next(iter(arms.values())).config.context
    start = time.monotonic()
    for number, step in enumerate(batches):
        for at, (shown, trainings, own) in enumerate(zip(step, shown_to, noise, strict=True)):
            there = put_on(shown, table, own)
            if trainings[0].is_recorded:
                there = places[at] = there.copied_to(places[at], context=context)
            for training in trainings:
                training.step(there, schedule.rate(number))
        if (number + 1) % _SAID_EVERY == 0:
            losses = "  ".join(f"{name} {one.loss.item():.3f}" for name, one in found.items())
            rate = (number + 1) / (time.monotonic() - start)
            left = (schedule.steps - number - 1) / rate
            say(f"step {number + 1}: {losses}; {rate:.1f} steps/s, {left:.0f} s left")
    return found


def put_on(
    shown: Shown, table: Tensor, noise: torch.Generator, *, pixels: int = DEFAULT.pixels
) -> OnDevice:
    """Copy a batch to the device of the table, draw it, and find what else is true."""
    device = table.device

    def put(values: IntArray) -> Tensor:
        found = torch.from_numpy(values)
        if device.type == "cuda":
            return found.pin_memory().to(device, non_blocking=True)
        return found.to(device)

    captions = CaptionCodes(*(put(values) for values in vars(shown.captions).values()))
    scenes = SceneCodes(*(put(values) for values in vars(shown.scenes).values()))
    drawn = draw_batch(table, shown.packed, pixels=pixels, generator=noise)
    return OnDevice(
        2 * drawn - 1, put(shown.token_BL), put(shown.end_B), holds_codes(captions, scenes)
    )


def measure(knobs: Knobs, schedule: Schedule) -> dict[str, float]:
    """What the first batches of a stream ask of a model."""
    seed = split_seed("train", schedule.seed)
    found = [
        batch(DEFAULT, knobs, seed=seed, step=step, size=schedule.batch)
        for step in range(_MEASURED)
    ]
    return {
        "collision": float(np.mean([collision_rate(one) for one in found])),
        "incentive": float(np.mean([incentive(one) for one in found])),
        "relations": float(np.mean([isinstance(s.ast, Rel) for one in found for s in one])),
    }


def load(steps: Dataset[T], *, workers: int) -> Iterator[T]:
    """In order; workers are forked at once."""
    return iter(
        DataLoader(
            steps,
            batch_size=None,
            num_workers=workers,
            prefetch_factor=4 if workers else None,
        )
    )
