"""A frozen encoder comes in; a pool of freshly drawn scenes of the world goes out.

Scenes are drawn where the encoder computes and none repeats; they are those that `unbag train`
draws for the same seed and recipe.

Dimensions: N scenes, K negatives of a caption.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from unbag.engine.collector import paused_collector
from unbag.engine.progress import Progress, Silent
from unbag.models.fitting import Fitting
from unbag.readouts.parts import Parts, View, stacked
from unbag.readouts.pool import Pool, kept
from unbag.readouts.store import looked
from unbag.train.batch import Inputs
from unbag.train.config import Recipe, Slot
from unbag.train.recipes import hard_negative
from unbag.train.world_batches import FindWorldTruth, WorldBatches, encode
from unbag.train.world_captions import DEFAULT_PRESET
from unbag.train.world_pixels import DrawnPixels, drawn
from unbag.types import DualEncoder
from unbag.world.draw import ScenePicture
from unbag.world.scene import Scene

NEGATIVES: tuple[Slot, ...] = (
    Slot("swap", ("swap_attributes", "swap_arguments")),
    Slot("relation", ("replace_relation",)),
    Slot("attribute", ("replace_colour", "replace_size", "replace_texture")),
    Slot("object", ("replace_shape",)),
)
"""Those of the repair experiment too (`unbag.lab.repair_arms`). Counting and negation are left out,
so that their benchmarks show what carries over."""
RELATION = [slot.name for slot in NEGATIVES].index("relation")
"""Where the opposite of a stated relation stands among them."""
STEP = 512
"""Scenes that are made together."""
PICTURES = (512, 64)
"""That go through the tower at once, on a GPU and on a processor, whose cache holds no more."""
CAPTIONS = (4_096, 256)
"""Likewise."""


@dataclass(frozen=True, eq=False)
class WorldRows:
    """Scenes and what is said of them, one step after the other."""

    scenes: tuple[Scene, ...]
    captions: tuple[str, ...]
    negatives: tuple[tuple[str | None, ...], ...]
    pixels: DrawnPixels
    code: dict[str, Tensor]


def world_rows(
    count: int,
    *,
    seed: int = 0,
    slots: Sequence[Slot] = NEGATIVES,
    preset: str = DEFAULT_PRESET,
    workers: int = 0,
    progress: Progress | None = None,
) -> list[WorldRows]:
    """`count` scenes, in steps; the same whatever the number of workers."""
    recipe = _recipe(count, slots)
    batches = WorldBatches(recipe, _NoReads(), seed=seed, preset=preset, per_epoch=_steps(count))
    loader: DataLoader[WorldRows] = DataLoader(
        _Steps(batches), batch_size=None, num_workers=workers
    )
    found: list[WorldRows] = []
    with (progress or Silent()).task("scenes", count) as advance:
        for rows in loader:
            some = _first(rows, count - STEP * len(found))
            found.append(some)
            advance(len(some.captions))
    return found


def _first(rows: WorldRows, count: int) -> WorldRows:
    """At most so many, in memory of our own: tensors of a worker hold an open file each."""
    return WorldRows(
        rows.scenes[:count],
        rows.captions[:count],
        rows.negatives[:count],
        rows.pixels[:count],
        {name: value[:count].clone() for name, value in rows.code.items()},
    )


def world_pool(
    encoder: DualEncoder,
    view: View,
    rows: Sequence[WorldRows],
    *,
    dtype: torch.dtype = torch.float16,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Pool:
    """The parts of all scenes and strings, by a frozen encoder; kept on `device` in `dtype`."""
    progress = progress or Silent()
    place: dict[str, int] = {}
    caption_N = torch.tensor([place.setdefault(c, len(place)) for r in rows for c in r.captions])
    negative_NK = torch.tensor(
        [
            [-1 if one is None else place.setdefault(one, len(place)) for one in row]
            for r in rows
            for row in r.negatives
        ],
        dtype=torch.int64,
    ).reshape(len(caption_N), -1)
    is_plain = _is_plain(encoder, rows[0].scenes[0])
    fitting, pictures = Fitting(encoder.name, progress.say), []
    with progress.task(f"{encoder.name}: patches", len(caption_N)) as advance:
        for some in rows:
            pixels = _pixels(encoder, some, is_plain=is_plain)
            for part in torch.split(pixels, PICTURES[encoder.device == "cpu"]):
                pictures.append(kept(looked(view, encoder, part, fitting), device, dtype))
                advance(len(part))
    code = {name: torch.cat([r.code[name] for r in rows]) for name in rows[0].code}
    # Whether a negative holds in another picture is never asked: it is told from its own alone.
    code["negative_BK6"] = code["negative_BK6"][:, :0].clone()
    said = repr((view.name, encoder.fingerprint, str(dtype), list(place)))
    digest = blake2b(said.encode(), digest_size=12)
    digest.update(caption_N.numpy().tobytes() + negative_NK.numpy().tobytes())
    return Pool(
        picture=stacked(pictures),
        caption=_captions(encoder, view, list(place), dtype, device, progress),
        picture_N=torch.arange(len(caption_N), device=device),
        caption_N=caption_N.to(device),
        negative_NK=negative_NK.to(device),
        code={name: value.to(device) for name, value in code.items()},
        find_truth=FindWorldTruth(),
        about=f"{len(caption_N):,} scenes of the built-in world, {len(place):,} different captions "
        "and hard negatives",
        fingerprint=f"pool-{digest.hexdigest()}",
    )


def _captions(
    encoder: DualEncoder,
    view: View,
    strings: Sequence[str],
    dtype: torch.dtype,
    device: str,
    progress: Progress,
) -> Parts:
    length_M = torch.tensor(encoder.count_tokens(strings))
    order_M = torch.argsort(length_M, stable=True)
    found = []
    with progress.task(f"{encoder.name}: words", len(strings)) as advance:
        for at in torch.split(order_M, CAPTIONS[encoder.device == "cpu"]):
            some = [strings[i] for i in at.tolist()]
            found.append(kept(view.read(encoder, some), device, dtype))
            advance(len(some))
    return stacked(found).rows(torch.argsort(order_M).to(device))


def _pixels(encoder: DualEncoder, rows: WorldRows, *, is_plain: bool) -> Tensor:
    if is_plain:
        return _levels(rows.pixels.to(encoder.device))
    return torch.stack([encoder.prepare(ScenePicture(s, "").open()) for s in rows.scenes])


def _levels(byte_N3HW: Tensor) -> Tensor:
    return byte_N3HW.float() / 127.5 - 1.0


def _is_plain(encoder: DualEncoder, scene: Scene) -> bool:
    """Whether a model takes drawings as `tiny:` does; tried, not believed."""
    found = encoder.prepare(ScenePicture(scene, "").open())
    wanted = _levels(drawn([scene]).to("cpu"))[0]
    return found.shape == wanted.shape and torch.allclose(found, wanted, atol=1e-6)


def _steps(count: int) -> int:
    return -(-count // STEP)


def _recipe(count: int, slots: Sequence[Slot]) -> Recipe:
    return replace(
        hard_negative(), negatives=tuple(slots), positives=(), epochs=1, batch=min(STEP, count)
    )


class _Steps(Dataset[WorldRows]):
    """Steps as a data set, so that workers can make them."""

    def __init__(self, batches: WorldBatches) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    @paused_collector()
    def __getitem__(self, step: int) -> WorldRows:
        samples, told = self._batches.told(step)
        scenes = tuple(sample.scene for sample in samples)
        return WorldRows(
            scenes,
            tuple(one.caption.text for one in told),
            tuple(tuple(None if n is None else n.text for n in one.negatives) for one in told),
            drawn(scenes),
            encode(scenes, told),
        )


class _NoReads:
    """Stands where a model's preparation would: scenes and texts are made without one."""

    def prepare(self, image: object) -> Tensor:
        raise AssertionError("no picture is prepared here")

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        raise AssertionError("no caption is read here")

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        raise AssertionError("no caption is read here")
