"""A seed and a size come in; the base model that every claim shares goes out, as a file.

Beside the weights of a base stands how it was made. The first one of full size is `tiny:base`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from hashlib import blake2b
from importlib.resources import as_file, files
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

from unbag.errors import UserError, unknown_name
from unbag.models.tiny import TinyConfig, TinyTowers, WordTokenizer, read, untrained, write
from unbag.runs.files import paused_collector, write_atomically, write_text
from unbag.training.checkpoint import moments_of, put_moments
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
from unbag.version import __version__
from unbag.world.grammar import Rel, words
from unbag.world.rendering import Packed, draw_batch, pack, sprite_table
from unbag.world.stream import (
    Knobs,
    Mixture,
    Sample,
    batch,
    collision_rate,
    describe,
    incentive,
    split_seed,
)
from unbag.world.truth import CaptionCodes, SceneCodes, encode_captions, encode_scenes, holds_codes
from unbag.world.vocabulary import DEFAULT, WORLDS
from unbag_lab.plan import Say
from unbag_lab.results import Size, base_path, named

# NOTE lab.pretrain_kept
# Where plain training of a tiny model stands, to one file and back: weights, moments, noise.
#
# One safetensors file, written under another name and renamed: a kill finds the old one or the new.

_WEIGHT, _MOMENT, _NOISE = "weight.", "moment.", "noise"


@dataclass(eq=False)
class PretrainCheckpoint:
    """A file in which training is kept now and then, and from which it goes on."""

    path: Path
    settings: str
    """Of the training; a file of others is not gone on from."""
    every: float = 60.0
    """Seconds between two savings."""
    saved: float = field(default_factory=time.monotonic)

    def is_due(self) -> bool:
        """Whether much would be lost by now."""
        return time.monotonic() - self.saved >= self.every

    def save(
        self,
        step: int,
        towers: TinyTowers,
        optimiser: torch.optim.Optimizer,
        noise: torch.Generator,
    ) -> None:
        """After so many steps."""
        tensors = {_WEIGHT + name: value for name, value in towers.state_dict().items()}
        moments = moments_of(dict(towers.named_parameters()), optimiser)
        tensors |= {_MOMENT + name: value for name, value in moments.items()}
        tensors[_NOISE] = noise.get_state()
        apart = {name: value.detach().cpu().clone() for name, value in tensors.items()}
        header = {"step": str(step), "settings": self.settings}
        write_atomically(self.path, partial(save_file, apart, metadata=header))
        self.saved = time.monotonic()

    def restore(
        self, towers: TinyTowers, optimiser: torch.optim.Optimizer, noise: torch.Generator
    ) -> int:
        """How many steps were taken; 0 where there is nothing to go on from."""
        if not self.path.exists():
            return 0
        with safe_open(self.path, framework="pt") as file:
            header = file.metadata() or {}
            if header.get("settings") != self.settings:
                return 0
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        towers.load_state_dict({name: tensors[_WEIGHT + name] for name in towers.state_dict()})
        moments = {n.removeprefix(_MOMENT): t for n, t in tensors.items() if n.startswith(_MOMENT)}
        put_moments(dict(towers.named_parameters()), optimiser, moments)
        noise.set_state(tensors[_NOISE])
        return int(header["step"])


# NOTE lab.pretraining_arms
# Names of arms come in; what each trains from scratch goes out: a size, a stream, a mask.
#
# Arms with the same knobs are shown the same batches. A stream with collisions has more captions
# that
# bind or relate than one without; `without_collisions` gives a stream with as many of each kind in
# which captions meet their own words by chance alone, so that the two differ in nothing else.


@dataclass(frozen=True)
class PretrainingArm:
    """One model trained from scratch."""

    about: str
    config: TinyConfig
    knobs: Knobs
    masks: bool = True
    """Whether pairs off the diagonal that are true as well are left out of the loss."""


def without_collisions(knobs: Knobs) -> Knobs:
    """As many captions of each kind, on average, each drawn for itself.

    With chance q a draw gives two partners and else one sample, so that 2q / (1 + q) of all
    samples are partners; these bind or relate, and none of them denies.
    """
    partners = 2 * knobs.collision / (1 + knobs.collision)
    alone = 1 - partners
    one_thing, counted = alone * knobs.one_thing, alone * knobs.counted
    two_alone = alone * (1 - knobs.one_thing - knobs.counted)
    mixture = _joined(knobs.mixture, two_alone * (1 - knobs.negated), partners)
    unsaid = two_alone * (1 - knobs.mixture.relation)
    return replace(
        knobs,
        mixture=mixture,
        one_thing=one_thing,
        counted=counted,
        negated=alone * (1 - knobs.counted) * knobs.negated / (1 - counted),
        related=knobs.related * unsaid / ((two_alone + partners) * (1 - mixture.relation)),
        collision=0.0,
    )


def _joined(mixture: Mixture, alone: float, partners: float) -> Mixture:
    """Captions of two things that come alone, and partners, which only bind or relate."""
    composed = ("both_bound", "relation")
    of_composed = sum(getattr(mixture, kind) for kind in composed)
    found = {}
    for field in fields(mixture):
        share = getattr(mixture, field.name)
        joined = partners * share / of_composed if field.name in composed else 0.0
        found[field.name] = alone * share + joined
    total = sum(found.values())
    return Mixture(**{kind: share / total for kind, share in found.items()})


_PLAIN = Knobs(withheld_combinations=0.2)
"""The stream of `tiny:base`: a fifth of the shape-colour combinations is never shown."""
_COLLIDE = replace(_PLAIN, collision=0.5)
_RELATE = replace(_COLLIDE, mixture=Mixture(two_plain=0.02, relation=0.40))
_BASE = TinyConfig(words=words())
_SMALL = replace(
    _BASE, picture_width=128, picture_depth=4, caption_width=128, caption_depth=3, joint=128
)
_LARGE = replace(
    _BASE, picture_width=256, picture_depth=6, caption_width=256, caption_depth=4, joint=256
)

ARMS: Mapping[str, PretrainingArm] = MappingProxyType(
    {
        "small": PretrainingArm("1.5 million weights", _SMALL, _PLAIN),
        "base": PretrainingArm("the size of tiny:base, 3 million weights", _BASE, _PLAIN),
        "large": PretrainingArm("8 million weights", _LARGE, _PLAIN),
        "collide": PretrainingArm("half of all draws are two captions of the same words", _BASE, _COLLIDE),
        "mixed": PretrainingArm(
            "as many captions of each kind, drawn alone", _BASE, without_collisions(_COLLIDE)
        ),
        "relations_collide": PretrainingArm("collisions, most of them of relations", _BASE, _RELATE),
        "relations": PretrainingArm("as many relations, drawn alone", _BASE, without_collisions(_RELATE)),
        "unmasked": PretrainingArm(
            "as base; pairs that are true as well are negatives", _BASE, _PLAIN, masks=False
        ),
    }
)
"""In the order in which tables show them."""


def find_arm(name: str) -> PretrainingArm:
    """By name."""
    if name not in ARMS:
        raise unknown_name("arm of pretraining", name, ARMS)
    return ARMS[name]


def smaller(arm: PretrainingArm) -> PretrainingArm:
    """The same arm with a few thousand weights, for a run that only shows that the code works."""
    width = arm.config.picture_width // 16
    return replace(
        arm,
        config=replace(
            arm.config,
            patch=16,
            picture_width=width,
            picture_depth=1,
            caption_width=width,
            caption_depth=1,
            joint=width,
            heads=2,
        ),
    )


# NOTE lab.pretraining_steps
# Arms come in; all of them, trained side by side on shared batches, go out.
#
# Scenes are made by workers, once for each stream; pictures are drawn and accidental truths found
# on
# the device, once for each stream, however many arms are shown them.
#
# Dimensions: B batch, L tokens of a caption.

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
class SceneBatch:
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


class Streams(Dataset[tuple[SceneBatch, ...]]):
    """The batches of step i, one for each stream; they depend on the seed and i alone."""

    def __init__(self, streams: Sequence[Knobs], schedule: Schedule, arm: PretrainingArm) -> None:
        """`arm` has the vocabulary, which all share."""
        self._streams = tuple(streams)
        self._schedule = schedule
        self._tokenize = WordTokenizer(arm.config.words, context=arm.config.context)

    def __len__(self) -> int:
        """As many as there are steps."""
        return self._schedule.steps

    @paused_collector()
    def __getitem__(self, step: int) -> tuple[SceneBatch, ...]:
        """Sample, say, encode; drawing is left to the device."""
        return tuple(self._shown(knobs, step) for knobs in self._streams)

    def _shown(self, knobs: Knobs, step: int) -> SceneBatch:
        seed, size = split_seed("train", self._schedule.seed), self._schedule.batch
        samples = batch(DEFAULT, knobs, seed=seed, step=step, size=size)
        return show(samples, self._tokenize)


def show(samples: Sequence[Sample], tokenize: WordTokenizer) -> SceneBatch:
    """As arrays; drawing is left to the device."""
    scenes = [sample.scene for sample in samples]
    token_BL, end_B = tokenize([sample.caption for sample in samples])
    captions = encode_captions([sample.ast for sample in samples])
    return SceneBatch(pack(scenes), token_BL, end_B, encode_scenes(scenes), captions)


class Training:
    """One arm and its optimiser."""

    def __init__(
        self, arm: PretrainingArm, schedule: Schedule, device: str, *, memory: Memory | None = None
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
    arms: Mapping[str, PretrainingArm],
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
    shown: SceneBatch, table: Tensor, noise: torch.Generator, *, pixels: int = DEFAULT.pixels
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


# NOTE lab.pretrain
# Plain contrastive training of a tiny dual encoder on the world: knobs and a seed in, weights out.
#
#     python -m unbag_lab pretrain --seed 0 --out tiny-base.safetensors
#
# Scenes are made on the fly and never repeat. There is no augmentation of any kind: a flip or a
# crop
# would make captions about sides false. About two minutes on one large GPU.


@dataclass(frozen=True)
class PretrainSettings:
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


class Steps(Dataset[SceneBatch]):
    """The batch of step i depends on the seed and i alone, so workers may come and go."""

    def __init__(self, settings: PretrainSettings, config: TinyConfig) -> None:
        self.settings = settings
        self.tokenize = WordTokenizer(config.words, context=config.context)

    def __len__(self) -> int:
        """As many as there are steps."""
        return self.settings.steps

    @paused_collector()
    def __getitem__(self, step: int) -> SceneBatch:
        """Sample, say, encode; drawing is left to the device."""
        s = self.settings
        seed = split_seed("train", s.seed)
        samples = batch(WORLDS[s.world], s.knobs, seed=seed, step=step, size=s.batch)
        return show(samples, self.tokenize)


def pretrain(
    settings: PretrainSettings,
    config: TinyConfig,
    *,
    device: str,
    workers: int = 0,
    kept: PretrainCheckpoint | None = None,
    say: Callable[[str], None] = print,
) -> TinyTowers:
    """Train from scratch; the same settings on the same kind of machine give the same model.

    With `kept` it goes on after a stop, on a CPU with the same bits.
    """
    arm = PretrainingArm("a base", config, settings.knobs, masks=settings.mask_also_true)
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
    settings: PretrainSettings, config: TinyConfig, *, workers: int, first: int = 0
) -> Iterator[SceneBatch]:
    return load(Subset(Steps(settings, config), range(first, settings.steps)), workers=workers)


def _describe(settings: PretrainSettings) -> str:
    """What the first batch asks of a model: its collision rate and incentive, measured."""
    world = WORLDS[settings.world]
    seed = split_seed("train", settings.seed)
    return describe(batch(world, settings.knobs, seed=seed, step=0, size=settings.batch))


def pretrain_script() -> None:
    """Train a tiny dual encoder on the world by plain contrastive learning."""
    parser = argparse.ArgumentParser(description=pretrain_script.__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the .safetensors file to write")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=PretrainSettings.steps)
    parser.add_argument("--batch", type=int, default=PretrainSettings.batch)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    settings = PretrainSettings(seed=options.seed, steps=options.steps, batch=options.batch)
    config = TinyConfig(words=words())
    print(json.dumps({"settings": asdict(settings), "torch": torch.__version__}, default=str))
    towers = pretrain(settings, config, device=options.device, workers=options.workers)
    write(towers, options.out)
    print(f"weights: {options.out} ({options.out.stat().st_size / 1e6:.1f} MB)")


# NOTE lab.bases

_SECONDS = 100.0
"""That one base takes on one H200."""


@dataclass(frozen=True)
class BaseRecord:
    """How a base was made."""

    settings: Mapping[str, object]
    """Of its network and training, flat, by dotted name."""
    fingerprint: str
    """Of its weights."""
    version: str
    """Of the package that made it; for people."""


def base_names(seeds: int) -> tuple[str, ...]:
    """As many as there are seeds."""
    return tuple(map(named, range(seeds)))


def seed_of(base: Path) -> int:
    """The number at the end of a base's name, for experiments that read nothing else of it."""
    found = re.search(r"(\d+)$", base.stem)
    if found is None:
        raise UserError(
            f"the base {base.stem!r} names no seed",
            expected="a number at the end, as in tiny-0",
            way_out="nothing else is read of a base here: tiny-0, tiny-1 ... will do",
        )
    return int(found[1])


def missing_bases(out: Path, names: Sequence[str], *, size: Size) -> dict[str, float]:
    """Those still to be made, with seconds on one H200; one that was made otherwise is refused."""
    there = [name for name in names if base_path(out, name).exists()]
    for name in there:
        _check(base_path(out, name), size=size)
    return {
        name: 0.0 if size == "small" or is_shipped(name, size=size) else _SECONDS
        for name in names
        if name not in there
    }


def is_shipped(name: str, *, size: Size) -> bool:
    """Whether it comes with the package, as `tiny:base`."""
    return size == "full" and name == "tiny-0"


def make_base(
    out: Path, name: str, *, size: Size, device: str, workers: int, say: Say = print
) -> None:
    """Train it, or copy the one that ships; the weights appear last and whole."""
    path = base_path(out, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    settings, config = _wanted(name, size)
    kept = PretrainCheckpoint(path.with_suffix(".kept"), json.dumps(_flat(name, size)))

    def fill(temporary: Path) -> None:
        if is_shipped(name, size=size):
            with as_file(files("unbag.models") / "weights" / "tiny-base.safetensors") as shipped:
                shutil.copyfile(shipped, temporary)
        else:
            towers = pretrain(settings, config, device=device, workers=workers, kept=kept, say=say)
            write(towers, temporary)
        made = BaseRecord(_flat(name, size), read(temporary, name=name).fingerprint, __version__)
        write_text(path.with_suffix(".json"), json.dumps(asdict(made), indent=1))

    write_atomically(path, fill)
    kept.path.unlink(missing_ok=True)


def _wanted(name: str, size: Size) -> tuple[PretrainSettings, TinyConfig]:
    seed = seed_of(Path(name))
    if size == "full":
        return PretrainSettings(seed=seed), TinyConfig(words=words())
    return PretrainSettings(seed=seed, steps=4, batch=64, warm_up=1), small_config()


def small_config() -> TinyConfig:
    """Of towers that are enough to show that code runs, and no more."""
    return TinyConfig(
        patch=16,
        picture_width=16,
        picture_depth=1,
        caption_width=16,
        caption_depth=1,
        joint=16,
        heads=2,
        words=words(),
    )


def _flat(name: str, size: Size) -> dict[str, object]:
    """Every setting by its name, as JSON would give it back; the vocabulary by its hash."""
    settings, config = _wanted(name, size)
    said = json.loads(json.dumps(asdict(settings)))
    vocabulary = blake2b(" ".join(config.words).encode(), digest_size=6).hexdigest()
    network = config.as_json() | {"words": vocabulary}
    return dict(_leaves({**said, "network": network}, ""))


def _leaves(said: Mapping[str, object], start: str) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for key, value in said.items():
        if isinstance(value, Mapping):
            found += _leaves(value, f"{start}{key}.")
        else:
            found.append((start + key, value))
    return found


def _check(path: Path, *, size: Size) -> None:
    """Refuse a base of other settings, with both, or one that is not what its record says."""
    made, wanted = _record_of(path), _flat(path.stem, size)
    apart = [
        f"{key} {made.settings.get(key)}, not {wanted.get(key)}"
        for key in sorted({*made.settings, *wanted})
        if made.settings.get(key) != wanted.get(key)
    ]
    if apart:
        raise UserError(
            f"the base {path} was made with other settings: {'; '.join(apart)}",
            expected=f"those of this unbag ({__version__}); the base is of {made.version}",
            way_out="name another folder with --out: a base with new settings needs new results",
        )
    if (found := _fingerprint(path)) != made.fingerprint:
        raise UserError(
            f"the base {path} has the fingerprint {found}",
            expected=f"{made.fingerprint}, as {path.with_suffix('.json').name} beside it says",
            way_out="put the file back that belongs there, or name another folder with --out",
        )


def _fingerprint(path: Path) -> str:
    try:
        return read(path, name=path.stem).fingerprint
    except UserError as error:
        raise UserError(
            error.found,
            expected="the base that `unbag lab run` made there",
            way_out="move it away to have it made again, or name another folder with --out",
        ) from error


def _record_of(path: Path) -> BaseRecord:
    record = path.with_suffix(".json")
    try:
        return BaseRecord(**json.loads(record.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"how the base {path} was made is not known: {record} cannot be read ({error})",
            expected="the record that `unbag lab run` writes beside each base",
            way_out="move the base away to have it made again, or name another folder with --out",
        ) from error
