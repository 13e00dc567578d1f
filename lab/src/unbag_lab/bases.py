"""Base models of the study: tiny dual encoders trained on the world, one for each seed.

    python -m unbag_lab pretrain --seed 0 --out tiny-base.safetensors

Training is plain contrastive learning. Scenes are generated on the fly and never repeat; nothing is
augmented, because a flip or a crop would make captions about sides false. A base takes about two
minutes on one large GPU. A record of its settings is saved next to its weights; the first base of
full size ships as `tiny:base`.

Dimensions: B batch, L tokens of a caption.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from hashlib import blake2b
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unbag.errors import UnbagError
from unbag.models.tiny import TinyConfig, TinyNetwork, WordTokenizer, read, untrained, write
from unbag.runs.files import RunFolder, paused_collector, write_atomically, write_text
from unbag.runs.identity import RunIdentity
from unbag.training.data.loader import load
from unbag.training.losses import contrastive
from unbag.training.optim import OptimizerSettings, compile_layers
from unbag.training.trainer import Task, Trainer
from unbag.types import Embedded, IntArray
from unbag.version import __version__
from unbag.world.grammar import words
from unbag.world.rendering import Packed, draw_batch, pack, sprite_table
from unbag.world.stream import Knobs, Sample, batch, describe, split_seed
from unbag.world.truth import CaptionCodes, SceneCodes, encode_scenes, encode_texts, holds_codes
from unbag.world.vocabulary import DEFAULT, WORLDS
from unbag_lab.plan import Say
from unbag_lab.results import Size, base_path, named
from unbag_lab.training import SaysLines, precision_of, run_to_end, training_folder

_SECONDS = 100.0
"""Seconds to train one base on one H200."""


def make_base(
    out: Path, name: str, *, size: Size, device: str, workers: int, say: Say = print
) -> None:
    """Train a base, or copy the shipped one; the file of weights is written last and atomically."""
    path = base_path(out, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    settings, config = _wanted(name, size)

    def fill(temporary: Path) -> None:
        if is_shipped(name, size=size):
            with as_file(files("unbag.models") / "weights" / "tiny-base.safetensors") as shipped:
                shutil.copyfile(shipped, temporary)
        else:
            network = pretrain(
                settings, config, device=device, workers=workers, folder=folder, say=say
            )
            write(network, temporary)
        settings_by_name = flat(settings, config)
        record = BaseRecord(settings_by_name, read(temporary, name=name).fingerprint, __version__)
        write_text(path.with_suffix(".json"), json.dumps(asdict(record), indent=1))

    # Deeper than the folders where results are searched.
    with training_folder(path.parent / "training" / name) as folder:
        write_atomically(path, fill)


def base_names(seeds: int) -> tuple[str, ...]:
    """Return the names of the first bases, one for each seed."""
    return tuple(map(named, range(seeds)))


def seed_of(base: Path) -> int:
    """Return the number at the end of a base's name, for experiments that use only this number."""
    match = re.search(r"(\d+)$", base.stem)
    if match is None:
        raise UnbagError(
            f"the base {base.stem!r} names no seed",
            expected="a number at the end, as in tiny-0",
            hint="nothing else is read of a base here: tiny-0, tiny-1 ... will do",
        )
    return int(match[1])


def missing_bases(out: Path, names: Sequence[str], *, size: Size) -> dict[str, float]:
    """Return missing bases with seconds on one H200; raises UnbagError for other settings."""
    existing = [name for name in names if base_path(out, name).exists()]
    for name in existing:
        _check(base_path(out, name), size=size)
    return {
        name: 0.0 if size == "small" or is_shipped(name, size=size) else _SECONDS
        for name in names
        if name not in existing
    }


def is_shipped(name: str, *, size: Size) -> bool:
    """Return whether the base ships with the package, as `tiny:base`."""
    return size == "full" and name == "tiny-0"


def _wanted(name: str, size: Size) -> tuple[PretrainSettings, TinyConfig]:
    seed = seed_of(Path(name))
    if size == "full":
        return PretrainSettings(seed=seed), TinyConfig(words=words())
    return PretrainSettings(seed=seed, steps=4, batch_size=64, warmup_steps=1), small_config()


def small_config() -> TinyConfig:
    """Return the config of very small encoders, for trial runs."""
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
    """Settings of its network and training, flat, by dotted name."""
    fingerprint: str
    """Fingerprint of its weights."""
    version: str
    """Version of the package that made it; informative only."""


def flat(settings: PretrainSettings, config: TinyConfig) -> dict[str, object]:
    """Return every setting by its dotted name, as JSON values; the vocabulary as a hash."""
    settings_json = json.loads(json.dumps(asdict(settings)))
    vocabulary = blake2b(" ".join(config.words).encode(), digest_size=6).hexdigest()
    network = asdict(config) | {"words": vocabulary}
    return dict(_leaves({**settings_json, "network": network}, ""))


def _leaves(tree: Mapping[str, object], start: str) -> list[tuple[str, object]]:
    leaves: list[tuple[str, object]] = []
    for key, value in tree.items():
        if isinstance(value, Mapping):
            leaves += _leaves(value, f"{start}{key}.")
        else:
            leaves.append((start + key, value))
    return leaves


def _check(path: Path, *, size: Size) -> None:
    """Raise UnbagError if a base has other settings, or if its weights do not match its record."""
    record, expected = path.with_suffix(".json"), flat(*_wanted(path.stem, size))
    try:
        base_record = BaseRecord(**json.loads(record.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise UnbagError(
            f"the record of the base {path} cannot be read: {record} ({error})",
            expected="the record that `unbag lab run` writes beside each base",
            hint="remove the base so that it is trained again, or name another folder with --out",
        ) from error
    earlier = RunIdentity.of_json(base_record.settings)
    RunIdentity.of_json(expected).require_same(
        earlier, folder=path.parent, kind=f"base {path.stem}"
    )
    try:
        fingerprint = read(path, name=path.stem).fingerprint
    except UnbagError as error:
        raise UnbagError(
            error.message,
            expected="the base that `unbag lab run` made there",
            hint="remove it so that it is trained again, or name another folder with --out",
        ) from error
    if fingerprint != base_record.fingerprint:
        raise UnbagError(
            f"the base {path} has the fingerprint {fingerprint}",
            expected=f"{base_record.fingerprint}, as {record.name} beside it says",
            hint="restore the original file, or name another folder with --out",
        )


def pretrain_script() -> None:
    """Train a tiny dual encoder on the world by plain contrastive learning."""
    parser = argparse.ArgumentParser(description=pretrain_script.__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the .safetensors file to write")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=PretrainSettings.steps)
    parser.add_argument("--batch-size", type=int, default=PretrainSettings.batch_size)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    settings = PretrainSettings(
        seed=options.seed, steps=options.steps, batch_size=options.batch_size
    )
    config = TinyConfig(words=words())
    print(json.dumps({"settings": asdict(settings), "torch": torch.__version__}, default=str))
    with training_folder(options.out.parent / "training" / options.out.stem) as folder:
        network = pretrain(
            settings, config, device=options.device, workers=options.workers, folder=folder
        )
        write_atomically(options.out, partial(write, network))
    print(f"weights: {options.out} ({options.out.stat().st_size / 1e6:.1f} MB)")


@dataclass(frozen=True)
class PretrainSettings:
    """Settings of a training run; the defaults made `tiny:base` (pilot C of the spec)."""

    seed: int = 0
    steps: int = 5_000
    batch_size: int = 1_024
    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.05
    warmup_steps: int = 100
    mask_also_true: bool = True
    """Exclude off-diagonal pairs whose caption is true of the other image from the loss."""
    world: str = "default"
    knobs: Knobs = field(default_factory=lambda: Knobs(withheld_combinations=0.2))
    """A fifth of the shape-colour combinations never occurs, so that they can be tested unseen."""

    def samples(self, step: int) -> tuple[Sample, ...]:
        """Return scenes with captions of a step; they depend only on the seed and the step."""
        seed = split_seed("train", self.seed)
        return batch(WORLDS[self.world], self.knobs, seed=seed, step=step, size=self.batch_size)


@dataclass(frozen=True, eq=False)
class SceneBatch:
    """One batch of one stream, made by a worker.

    Arrays instead of tensors, since each tensor sent by a worker keeps a file open.
    """

    packed: Packed
    token_BL: IntArray
    end_B: IntArray
    scenes: SceneCodes[IntArray]
    captions: CaptionCodes[IntArray]


@dataclass(frozen=True, eq=False)
class OnDevice:
    """A batch on the training device, with its images drawn."""

    pixels: Tensor
    token_BL: Tensor
    end_B: Tensor
    also_true_BB: Tensor

    def copied_to(self, place: OnDevice | None, *, context: int) -> OnDevice:
        """Copy into fixed tensors for a recorded step, with room for the longest captions.

        Tokens after the end of a caption may be stale: text encoders are causal.
        """
        if place is None:
            token_BL = self.token_BL.new_zeros((len(self.token_BL), context))
            tensors = (self.pixels, self.end_B, self.also_true_BB)
            pixels, end_B, also_true_BB = map(torch.empty_like, tensors)
            place = OnDevice(pixels, token_BL, end_B, also_true_BB)
        place.pixels.copy_(self.pixels)
        place.token_BL[:, : self.token_BL.shape[1]].copy_(self.token_BL)
        place.end_B.copy_(self.end_B)
        place.also_true_BB.copy_(self.also_true_BB)
        return place


def show(samples: Sequence[Sample], tokenize: WordTokenizer) -> SceneBatch:
    """Convert samples to arrays; the device draws the images."""
    scenes = [sample.scene for sample in samples]
    token_BL, end_B = tokenize([sample.caption for sample in samples])
    captions = encode_texts([sample.ast for sample in samples])
    return SceneBatch(pack(scenes), token_BL, end_B, encode_scenes(scenes), captions)


def put_on(
    batch: SceneBatch, table: Tensor, noise: torch.Generator, *, pixels: int = DEFAULT.pixels
) -> OnDevice:
    """Copy a batch to the device of the table, draw it, and find which captions are also true."""
    device = table.device

    def put(values: IntArray) -> Tensor:
        tensor = torch.from_numpy(values)
        if device.type == "cuda":
            return tensor.pin_memory().to(device, non_blocking=True)
        return tensor.to(device)

    captions = CaptionCodes(*(put(values) for values in vars(batch.captions).values()))
    scenes = SceneCodes(*(put(values) for values in vars(batch.scenes).values()))
    level = draw_batch(table, batch.packed, pixels=pixels, generator=noise)
    return OnDevice(
        2 * level - 1, put(batch.token_BL), put(batch.end_B), holds_codes(captions, scenes)
    )


def pretrain(
    settings: PretrainSettings,
    config: TinyConfig,
    *,
    device: str,
    workers: int = 0,
    folder: RunFolder | None = None,
    save_minutes: float = 1.0,
    say: Say = print,
) -> TinyNetwork:
    """Train from scratch; the same settings on the same kind of machine give the same model.

    With a folder an interrupted run resumes; on a CPU the result is bit-identical.
    """
    task = Pretraining(settings, config, device=device, workers=workers)
    trainer = Trainer(task, progress=SaysLines(say), save_minutes=save_minutes)
    # The collision rate and the incentive of the first batch.
    say(describe(settings.samples(0)))
    run_to_end(trainer, folder, say=say)
    return task.module


class Pretraining(Task[OnDevice]):
    """A tiny dual encoder, trained from scratch by plain contrastive learning."""

    module: TinyNetwork
    name = "a tiny dual encoder"

    def __init__(
        self, settings: PretrainSettings, config: TinyConfig, *, device: str, workers: int = 0
    ) -> None:
        """Initialize the encoders from the seed; arms of the same size start equal."""
        self.settings, self.config, self.device, self._workers = settings, config, device, workers
        self.seed = settings.seed
        self.precision = precision_of(device)
        self.is_recorded = device.startswith("cuda")
        self.module = untrained(config, seed=settings.seed).to(device)
        for encoder in (self.module.picture, self.module.caption):
            compile_layers(encoder.blocks, device=device)
        self.optimizer = OptimizerSettings(
            steps=settings.steps,
            learning_rate=settings.learning_rate,
            warmup_steps=settings.warmup_steps,
            betas=settings.betas,
            weight_decay=settings.weight_decay,
        )
        self._place: OnDevice | None = None

    def identity(self) -> dict[str, object]:
        """All settings, flat."""
        return {"settings": flat(self.settings, self.config)}

    def batches(self, first: int) -> Iterator[OnDevice]:
        """Scenes from workers, drawn on the device."""
        steps = Steps([self.settings], self.config)
        flow = load(steps, first=first, workers=self._workers, device=self.device)
        for (scenes,) in flow:
            yield self.drawn(scenes)

    def drawn(self, scenes: SceneBatch) -> OnDevice:
        """Draw a batch on the device; for recorded steps always into the same tensors."""
        batch = put_on(scenes, self._table, self._noise, pixels=self.config.pixels)
        if self.is_recorded:
            batch = self._place = batch.copied_to(self._place, context=self.config.context)
        return batch

    def static_batch(self, batch: OnDevice) -> tuple[Hashable, OnDevice]:
        """Return the batch: its tensors are fixed already."""
        return None, batch

    def loss(self, batch: OnDevice, step: int) -> Tensor:
        """Return the contrastive loss of both directions, without pairs that are also true."""
        network = self.module
        image_BD = network.embed_images(batch.pixels).float()
        caption_BD = network.embed_texts(batch.token_BL, batch.end_B).float()
        with torch.autocast(self.device.partition(":")[0], enabled=False):
            return contrastive(
                Embedded(
                    image_BD,
                    caption_BD,
                    scale=network.log_scale.exp(),
                    bias=image_BD.new_zeros(()),
                    also_true_BB=batch.also_true_BB if self.settings.mask_also_true else None,
                )
            )

    def after_update(self) -> dict[str, Tensor]:
        """Clamp the logit scale, as CLIP does."""
        self.module.clamp_scale()
        return {}

    def extra_state(self) -> dict[str, Any]:
        """Return the state of the generator of image noise."""
        return {"noise": self._noise.get_state()}

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restore the generator of image noise."""
        self._noise.set_state(state["noise"])

    @cached_property
    def _noise(self) -> torch.Generator:
        return torch.Generator(device=self.device).manual_seed(self.seed)

    @cached_property
    def _table(self) -> Tensor:
        return torch.from_numpy(sprite_table(WORLDS[self.settings.world])).to(self.device)


class Steps:
    """Dataset of steps: item i holds one batch for each stream."""

    def __init__(self, streams: Sequence[PretrainSettings], config: TinyConfig) -> None:
        """Take the streams and the config with their shared vocabulary."""
        self._streams = tuple(streams)
        self._tokenize = WordTokenizer(config.words, context=config.context)

    def __len__(self) -> int:
        """Return the number of steps."""
        return self._streams[0].steps

    @paused_collector()
    def __getitem__(self, step: int) -> tuple[SceneBatch, ...]:
        """Sample scenes and encode their captions; the device draws the images."""
        return tuple(show(stream.samples(step), self._tokenize) for stream in self._streams)
