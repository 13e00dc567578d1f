"""Base models of the study: tiny dual encoders trained on the world, one for each seed.

    python -m unbag_lab pretrain --seed 0 --out tiny-base.safetensors

Training is plain contrastive learning. Scenes are generated on the fly and never repeat; nothing is
augmented, because a flip or a crop would make captions about sides false. A base takes about two
minutes on one large GPU. Beside its weights lies a record of how it was made; the first base of
full size ships as `tiny:base`.

Dimensions: B batch, L tokens of a caption.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from hashlib import blake2b
from importlib.resources import as_file, files
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

from unbag.errors import UserError
from unbag.models.tiny import TinyConfig, TinyTowers, WordTokenizer, read, untrained, write
from unbag.runs.checkpoint import load_optimizer_state, optimizer_state
from unbag.runs.files import paused_collector, write_atomically, write_text
from unbag.training.losses import contrastive
from unbag.training.optim import (
    Memory,
    Recorded,
    compile_layers,
    decay_groups,
    lr_factor,
    set_lr,
)
from unbag.types import Embedded, IntArray
from unbag.version import __version__
from unbag.world.grammar import words
from unbag.world.rendering import Packed, draw_batch, pack, sprite_table
from unbag.world.stream import Knobs, Sample, batch, describe, split_seed
from unbag.world.truth import CaptionCodes, SceneCodes, encode_captions, encode_scenes, holds_codes
from unbag.world.vocabulary import DEFAULT, WORLDS
from unbag_lab.plan import Say
from unbag_lab.results import Size, base_path, named

_SECONDS = 100.0
"""That one base takes on one H200."""


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


@dataclass(frozen=True)
class BaseRecord:
    """How a base was made."""

    settings: Mapping[str, object]
    """Of its network and training, flat, by dotted name."""
    fingerprint: str
    """Of its weights."""
    version: str
    """Of the package that made it; for people."""


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


def pretrain(
    settings: PretrainSettings,
    config: TinyConfig,
    *,
    device: str,
    workers: int = 0,
    kept: PretrainCheckpoint | None = None,
    say: Say = print,
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


def _describe(settings: PretrainSettings) -> str:
    """What the first batch asks of a model: its collision rate and incentive, measured."""
    world = WORLDS[settings.world]
    seed = split_seed("train", settings.seed)
    return describe(batch(world, settings.knobs, seed=seed, step=0, size=settings.batch))


@dataclass(frozen=True)
class PretrainingArm:
    """One model trained from scratch."""

    about: str
    config: TinyConfig
    knobs: Knobs
    masks: bool = True
    """Whether pairs off the diagonal that are true as well are left out of the loss."""


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
        share = lr_factor(step, steps=self.steps, warmup_steps=self.warm_up)
        return self.learning_rate * share


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
        set_lr(self.optimiser, rate)
        if not self.is_recorded:
            self.loss = self._learn(shown)
            return
        if self._recorded is None:
            self._recorded = Recorded(
                lambda: {"loss": self._learn(shown)},
                self.optimiser,
                device=self._device,
                memory=self._memory,
            )
        self.loss = self._recorded()["loss"]

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


def show(samples: Sequence[Sample], tokenize: WordTokenizer) -> SceneBatch:
    """As arrays; drawing is left to the device."""
    scenes = [sample.scene for sample in samples]
    token_BL, end_B = tokenize([sample.caption for sample in samples])
    captions = encode_captions([sample.ast for sample in samples])
    return SceneBatch(pack(scenes), token_BL, end_B, encode_scenes(scenes), captions)


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


def _load(
    settings: PretrainSettings, config: TinyConfig, *, workers: int, first: int = 0
) -> Iterator[SceneBatch]:
    return load(Subset(Steps(settings, config), range(first, settings.steps)), workers=workers)


T = TypeVar("T")


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
        moments = optimizer_state(dict(towers.named_parameters()), optimiser)
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
        load_optimizer_state(dict(towers.named_parameters()), optimiser, moments)
        noise.set_state(tensors[_NOISE])
        return int(header["step"])
