"""Pools: the training data of readers, as features of a frozen encoder in memory.

`pool_of` makes a pool of pairs in files, `world_pool` of scenes of the world. A pool is computed
once and moved to the device if it fits there. A training step then needs neither the encoder nor
the disk, and only draws row indices.

Dimensions: N rows, M some of them, K negatives of a caption, B rows of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from unbag.data.composites import pair_name
from unbag.data.pairs import Pair, Pairs
from unbag.edits.kinds import normalised
from unbag.errors import ImageError, UnbagError
from unbag.metrics.intervals import generator
from unbag.models.batching import Fitting
from unbag.models.features import FeatureStore, View, stacked
from unbag.readouts.reader import ReaderBatch
from unbag.reports.formatting import count_text
from unbag.runs.files import paused_collector
from unbag.runs.progress import Progress, Silent
from unbag.training.data.batch import CaptionTexts, FindTruth, Inputs, code_of, find_equal
from unbag.training.data.loader import left_out_lines
from unbag.training.data.world import (
    DEFAULT_PRESET,
    DrawnPixels,
    FindWorldTruth,
    WorldBatches,
    drawn,
    encode,
)
from unbag.training.recipes import Slot, hard_negative
from unbag.types import DualEncoder, ImageSource, TokenFeatures
from unbag.world.rendering import SceneImage
from unbag.world.scenes import Scene

NEGATIVES_PER_CAPTION = 4
"""Hard negatives per caption of a pair, of different kinds if there are enough."""
WORLD_NEGATIVES: tuple[Slot, ...] = (
    Slot("swap", ("swap_attributes", "swap_arguments")),
    Slot("relation", ("replace_relation",)),
    Slot("attribute", ("replace_colour", "replace_size", "replace_texture")),
    Slot("object", ("replace_shape",)),
)
"""Hard negatives of scenes. Counting and negation are left out, so that their benchmarks show what
carries over; the repair experiment (`unbag_lab.experiments`) uses the same."""
RELATION = [slot.name for slot in WORLD_NEGATIVES].index("relation")
"""Index of the relation among these slots."""
STEP = 512
"""Scenes per block."""
IMAGES = (512, 64)
"""Scenes per forward pass on a GPU and on a CPU, whose cache holds no more."""
CAPTIONS = (4_096, 256)
"""Captions per forward pass on a GPU and on a CPU."""
MOST_BYTES = 12 << 30
"""Maximum size of the features of pairs in memory, in half precision."""
_HELD_OUT, _MOST_HELD_OUT = 0.1, 2_000
"""Share of held-out rows or images, and their maximum number."""
_Input = TypeVar("_Input")
_AT_ONCE = 512
"""Images or captions of pairs that are read from the store at once."""


@dataclass(frozen=True, eq=False)
class Pool:
    """Features of images and captions, and rows that pair them: the training data of a reader."""

    image: TokenFeatures
    """Features of the distinct images."""
    caption: TokenFeatures
    """Features of the distinct texts: captions and negatives."""
    image_N: Tensor
    """Image of each row."""
    caption_N: Tensor
    """Caption of each row among the texts."""
    negative_NK: Tensor
    """Negatives of each row among the texts; -1 for none."""
    code: Mapping[str, Tensor] = field(default_factory=dict)
    """Integers per row from which the truth of a batch is computed."""
    find_truth: FindTruth | None = None
    group: int = 1
    """Rows that are always drawn together: 2 if each row is followed by its opposite."""
    about: str = ""
    fingerprint: str = ""

    def __len__(self) -> int:
        """Return the number of rows, each an image with a caption."""
        return len(self.caption_N)

    def to(self, device: str, dtype: torch.dtype | None = None) -> Pool:
        """Return the pool on a device, with features in `dtype`."""
        return replace(
            self,
            image=self.image.to(device, dtype),
            caption=self.caption.to(device, dtype),
            image_N=self.image_N.to(device),
            caption_N=self.caption_N.to(device),
            negative_NK=self.negative_NK.to(device),
            code={name: value.to(device) for name, value in self.code.items()},
        )

    @property
    def nbytes(self) -> int:
        """Return the size of the features in bytes."""
        return self.image.nbytes + self.caption.nbytes

    def near(self, device: str) -> Pool:
        """Return the pool on the device if half of its free memory is enough, else unchanged.

        Otherwise each batch is copied at its step, which is slower with the same result.
        """
        if device.startswith("cuda") and self.nbytes > torch.cuda.mem_get_info(device)[0] // 2:
            return self
        return self.to(device)

    def rows(self, start: int, stop: int) -> Pool:
        """Return a range of rows with all images and texts, without copying."""
        return self._select(slice(start, stop))

    def only(self, place: int) -> Pool:
        """Return the rows with a negative in slot `place`, without their other negatives."""
        row_M = (self.negative_NK[:, place] >= 0).nonzero().flatten()
        selected = self._select(row_M)
        return replace(selected, negative_NK=selected.negative_NK[:, place : place + 1])

    def _select(self, index: slice | Tensor) -> Pool:
        return replace(
            self,
            image_N=self.image_N[index],
            caption_N=self.caption_N[index],
            negative_NK=self.negative_NK[index],
            code={name: value[index] for name, value in self.code.items()},
        )

    @cached_property
    def held_out(self) -> int:
        """Return the number of held-out rows at the end, without splitting groups or opposites."""
        return held_out(len(self), self._are_together, group=self.group)

    def _are_together(self, row: int, other: int) -> bool:
        """Return whether two rows share an image, or their captions are edits of each other."""
        before, after = (self.image_N == self.image_N[at] for at in (row, other))
        if before[other]:
            return True
        return all(
            bool(torch.isin(self.caption_N[own], self.negative_NK[rest]).any())
            for own, rest in ((before, after), (after, before))
        )

    def batch(self, row_B: Tensor, *, device: str, with_negatives: bool = True) -> ReaderBatch:
        """Return a batch of rows in float32 on the device."""
        row_B = row_B.to(self.caption_N.device)
        negative_BK = self.negative_NK[row_B]
        if not with_negatives:
            negative_BK = negative_BK[:, :0]
        mask_BK = negative_BK >= 0
        negative = None
        if negative_BK.shape[1]:
            negative = self.caption.rows(negative_BK.clamp(min=0).flatten()).to(
                device, torch.float32
            )
        # Captions of the batch that fit an image besides its own.
        also_true_BB = torch.zeros((len(row_B), len(row_B)), dtype=torch.bool, device=row_B.device)
        if self.find_truth is not None:
            truth = self.find_truth({name: value[row_B] for name, value in self.code.items()})
            also_true_BB = truth.also_true_BB.clone()
            also_true_BB.fill_diagonal_(False)
        return ReaderBatch(
            image=self.image.rows(self.image_N[row_B]).to(device, torch.float32),
            caption=self.caption.rows(self.caption_N[row_B]).to(device, torch.float32),
            negative=negative,
            negative_mask_BK=mask_BK.to(device),
            also_true_BB=also_true_BB.to(device),
        )


def held_out(count: int, are_together: Callable[[int, int], bool], *, group: int = 1) -> int:
    """Return how many of `count` inputs, at their end, are held out from training.

    A tenth, in whole groups; fewer where the cut would separate neighbours that belong together.
    """
    size = min(_MOST_HELD_OUT, int(_HELD_OUT * count))
    cut = count - (size - size % group)
    while 0 < cut < count and are_together(cut - 1, cut):
        cut += group
    return max(0, count - cut)


class RowOrder:
    """Rows of each step: every group once per epoch, in an order that depends on (seed, epoch)."""

    def __init__(self, pool: Pool, *, batch_size: int, seed: int) -> None:
        self._groups, self._group_size = len(pool) // pool.group, pool.group
        self._batch = max(1, min(batch_size // pool.group, self._groups))
        self._seed = seed
        # On the device of the pool, so that a step copies no row indices.
        self._device = pool.caption_N.device
        self._epoch, self._order = -1, torch.zeros(0, dtype=torch.int64)

    @property
    def per_epoch(self) -> int:
        """Return the number of batches in an epoch."""
        return self._groups // self._batch

    def __call__(self, step: int) -> Tensor:
        """Return the rows [B] of a step."""
        epoch, position = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            rng = generator(self._seed, "order of a pool", str(epoch))
            order = torch.from_numpy(rng.permutation(self._groups))
            self._epoch, self._order = epoch, order.to(self._device)
        groups = self._order[position * self._batch : (position + 1) * self._batch]
        within = torch.arange(self._group_size, device=self._device)
        return (groups[:, None] * self._group_size + within).flatten()


def cast_finite(features: TokenFeatures, device: str, dtype: torch.dtype) -> TokenFeatures:
    """Move features to a device and precision; raise UnbagError if they overflow `dtype`."""
    cast = features.to(device, dtype)
    if not (cast.vector_NLW.isfinite().all() and cast.pooled.isfinite().all()):
        largest = max(
            float(values.abs().max())
            for values in (features.vector_NLW, features.pooled)
            if values.numel()
        )
        raise UnbagError(
            f"features of up to {largest:g}",
            expected=f"finite values of at most {torch.finfo(dtype).max:g}, the precision of pools",
            hint="use a reader of the joint space, such as dcsm_fixed, or correct the model",
        )
    return cast


def pool_of(
    rows: Sequence[PoolRow],
    encoder: DualEncoder,
    view: View,
    *,
    cache: Path | None,
    progress: Progress,
    about: str,
    code: Mapping[str, Tensor] | None = None,
    find_truth: FindTruth | None = None,
    group: int = 1,
) -> Pool:
    """Make a pool of rows; without `code`, equal captions and images are recognised by content."""
    store = FeatureStore(encoder, view, cache=cache, progress=progress)
    images = {row.image.key: row.image for row in rows}
    all_texts = [text for row in rows for text in (row.caption, *row.negatives) if text is not None]
    texts = list(dict.fromkeys(all_texts))
    _check_size(store, list(images.values()), texts)
    readable = readable_rows(store, rows, texts, progress)
    if store.damaged and (group > 1 or code is not None):
        raise UnbagError(
            f"{count_text(len(store.damaged), 'image')} cannot be read",
            expected="readable images, since each belongs to an opposite pair",
        )
    image_row = {key: i for i, key in enumerate(dict.fromkeys(r.image.key for r in readable))}
    text_row = {text: i for i, text in enumerate(texts)}
    if code is None:
        captions = [CaptionTexts(row.caption) for row in readable]
        code, find_truth = code_of(captions, [row.image.key for row in readable]), find_equal
    width = max(len(row.negatives) for row in readable)
    # Rows may have different numbers of negatives.
    padded = [(*row.negatives, *[None] * (width - len(row.negatives))) for row in readable]
    negatives = [[-1 if text is None else text_row[text] for text in row] for row in padded]
    digest = blake2b(repr((encoder.fingerprint, view.name)).encode(), digest_size=12)
    for row in readable:
        digest.update(repr((row.image.key, row.caption, row.negatives)).encode())
    return Pool(
        image=_load_half(store.images, [images[key] for key in image_row]),
        caption=_load_half(store.texts, texts),
        image_N=torch.tensor([image_row[row.image.key] for row in readable]),
        caption_N=torch.tensor([text_row[row.caption] for row in readable]),
        negative_NK=torch.tensor(negatives, dtype=torch.int64).reshape(len(readable), width),
        code=dict(code),
        find_truth=find_truth,
        group=group,
        about=about,
        fingerprint=f"pool-{digest.hexdigest()}",
    )


@dataclass(frozen=True, eq=False)
class PoolRow:
    """An image, a true caption, and false captions."""

    image: ImageSource
    caption: str
    negatives: tuple[str | None, ...] = ()


def readable_rows(
    store: FeatureStore, rows: Sequence[PoolRow], texts: Sequence[str], progress: Progress
) -> list[PoolRow]:
    """Compute all features; return rows whose image can be opened, and report the others."""
    images = {row.image.key: row.image for row in rows}
    store.precompute(list(images.values()), texts)
    for line in left_out_lines({images[k].name: reason for k, reason in store.damaged.items()}):
        progress.say(line)
    readable = [row for row in rows if row.image.key not in store.damaged]
    if not readable:
        raise UnbagError("no image can be opened", expected="at least one, to train on")
    return readable


def rows_of(pairs: Pairs, *, progress: Progress | None = None) -> list[PoolRow]:
    """Return a row for each caption; pairs that cannot be read are left out and reported."""
    rows: list[PoolRow] = []
    errors: list[UnbagError] = []
    for i in range(len(pairs)):
        try:
            pair = pairs[i]
        except UnbagError as error:
            errors.append(error)
            continue
        rows += [
            PoolRow(pair.image, caption, _choose_negatives(pair, j))
            for j, caption in enumerate(pair.captions)
        ]
    if not rows:
        raise UnbagError(
            f"no pair can be read: {pairs.about}", expected="images with captions to train on"
        )
    if errors and progress is not None:
        verb = "is" if len(errors) == 1 else "are"
        message = f"{count_text(len(errors), 'pair')} cannot be read and {verb} left out"
        progress.say(f"{message}: {errors[0].message}")
    return rows


def _choose_negatives(pair: Pair, index: int) -> tuple[str | None, ...]:
    """Return negatives of as many kinds as possible, in an order that depends on the caption."""
    true_texts = {normalised(caption) for caption in pair.captions}
    edits = [
        e for e in pair.edits[index] if not e.is_positive and normalised(e.text) not in true_texts
    ]
    edits.sort(key=lambda e: blake2b(f"{pair.id}\0{e.kind}\0{e.text}".encode()).digest())
    first_of_kind: dict[str, str] = {}
    for edit in edits:
        first_of_kind.setdefault(edit.kind, edit.text)
    chosen = list(dict.fromkeys((*first_of_kind.values(), *(edit.text for edit in edits))))
    chosen = chosen[:NEGATIVES_PER_CAPTION]
    return (*chosen, *[None] * (NEGATIVES_PER_CAPTION - len(chosen)))


def shuffled(rows: Sequence[PoolRow]) -> list[PoolRow]:
    """Shuffle rows by the names of their images, so that rows of one image stay together.

    The last rows are then a fair held-out split. The two images of a pasted pair are neighbours.
    """

    def hash_and_name(row: PoolRow) -> tuple[bytes, str]:
        name = pair_name(row.image.name)
        return blake2b(name.encode(errors="replace")).digest(), row.image.name

    return sorted(rows, key=hash_and_name)


def _load_half(
    features_of: Callable[[Sequence[_Input]], TokenFeatures], inputs: Sequence[_Input]
) -> TokenFeatures:
    blocks = [
        cast_finite(features_of(inputs[start : start + _AT_ONCE]), "cpu", torch.float16)
        for start in range(0, len(inputs), _AT_ONCE)
    ]
    return stacked(blocks)


def _check_size(store: FeatureStore, images: Sequence[ImageSource], texts: Sequence[str]) -> None:
    """Raise UnbagError before computing features that memory cannot hold."""
    counts = store.encoder.count_tokens(texts)
    longest = texts[max(range(len(texts)), key=counts.__getitem__)]
    # Stored in half the precision of the computation; measured on the first readable image.
    size = 0
    for image in images:
        with suppress(ImageError):
            size = len(images) * (store.images([image]).nbytes // 2)
            break
    size += len(texts) * store.texts([longest]).nbytes // 2
    if size > MOST_BYTES:
        raise UnbagError(
            f"features of {len(images):,} images and of {len(texts):,} captions and negatives "
            f"take {size / 2**30:.1f} gigabytes",
            expected=f"at most {MOST_BYTES / 2**30:.0f}, since readers are trained from memory",
            hint="train on fewer pairs: a reader has few weights and needs no more",
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
    """Encode all scenes and texts with a frozen encoder into a pool on `device` in `dtype`."""
    progress = progress or Silent()
    text_row: dict[str, int] = {}
    caption_N = torch.tensor(
        [
            text_row.setdefault(caption, len(text_row))
            for block in rows
            for caption in block.captions
        ]
    )
    negative_NK = torch.tensor(
        [
            [-1 if text is None else text_row.setdefault(text, len(text_row)) for text in row]
            for block in rows
            for row in block.negatives
        ],
        dtype=torch.int64,
    ).reshape(len(caption_N), -1)
    is_plain = _prepares_like_tiny(encoder, rows[0].scenes[0])
    fitting, images = Fitting(encoder.name, progress.say), []
    with progress.task(f"{encoder.name}: patches", len(caption_N)) as advance:
        for block in rows:
            if is_plain:
                pixels = _scaled(block.pixels.to(encoder.device))
            else:
                drawings = (SceneImage(scene, "").open() for scene in block.scenes)
                pixels = torch.stack([encoder.prepare(image) for image in drawings])
            for pixel_part in torch.split(pixels, IMAGES[encoder.device == "cpu"]):
                features = fitting.parts(partial(view.encode_images, encoder), pixel_part)
                images.append(cast_finite(stacked(features), device, dtype))
                advance(len(pixel_part))
    code = {name: torch.cat([block.code[name] for block in rows]) for name in rows[0].code}
    # Negatives are compared with their own image only, so their truth elsewhere is not needed.
    code["negative_BK6"] = code["negative_BK6"][:, :0].clone()
    identity = repr((view.name, encoder.fingerprint, str(dtype), list(text_row)))
    digest = blake2b(identity.encode(), digest_size=12)
    digest.update(caption_N.numpy().tobytes() + negative_NK.numpy().tobytes())
    return Pool(
        image=stacked(images),
        caption=_encode_captions(encoder, view, list(text_row), dtype, device, progress),
        image_N=torch.arange(len(caption_N), device=device),
        caption_N=caption_N.to(device),
        negative_NK=negative_NK.to(device),
        code={name: value.to(device) for name, value in code.items()},
        find_truth=FindWorldTruth(),
        about=f"{len(caption_N):,} scenes of the built-in world, {len(text_row):,} different "
        "captions and hard negatives",
        fingerprint=f"pool-{digest.hexdigest()}",
    )


def _scaled(byte_N3HW: Tensor) -> Tensor:
    """Scale bytes to -1..1, as `tiny:` prepares images."""
    return byte_N3HW.float() / 127.5 - 1.0


def _prepares_like_tiny(encoder: DualEncoder, scene: Scene) -> bool:
    """Return whether a model prepares drawings exactly like `tiny:`, by trying it."""
    prepared = encoder.prepare(SceneImage(scene, "").open())
    expected = _scaled(drawn([scene]).to("cpu"))[0]
    return prepared.shape == expected.shape and torch.allclose(prepared, expected, atol=1e-6)


def _encode_captions(
    encoder: DualEncoder,
    view: View,
    strings: Sequence[str],
    dtype: torch.dtype,
    device: str,
    progress: Progress,
) -> TokenFeatures:
    """Encode texts sorted by length, to pad little; return features in the original order."""
    length_M = torch.tensor(encoder.count_tokens(strings))
    order_M = torch.argsort(length_M, stable=True)
    blocks = []
    with progress.task(f"{encoder.name}: words", len(strings)) as advance:
        for part_M in torch.split(order_M, CAPTIONS[encoder.device == "cpu"]):
            part = [strings[i] for i in part_M.tolist()]
            blocks.append(cast_finite(view.encode_texts(encoder, part), device, dtype))
            advance(len(part))
    return stacked(blocks).rows(torch.argsort(order_M).to(device))


@dataclass(frozen=True, eq=False)
class WorldRows:
    """Scenes with their captions and negatives, for one block."""

    scenes: tuple[Scene, ...]
    captions: tuple[str, ...]
    negatives: tuple[tuple[str | None, ...], ...]
    pixels: DrawnPixels
    code: dict[str, Tensor]


def world_rows(
    count: int,
    *,
    seed: int = 0,
    slots: Sequence[Slot] = WORLD_NEGATIVES,
    preset: str = DEFAULT_PRESET,
    workers: int = 0,
    progress: Progress | None = None,
) -> list[WorldRows]:
    """Return `count` distinct scenes in blocks, independent of the number of workers.

    They are the scenes that `unbag train` draws for the same seed and recipe.
    """
    recipe = replace(
        hard_negative(), negatives=tuple(slots), positives=(), epochs=1, batch_size=min(STEP, count)
    )
    steps = -(-count // STEP)
    batches = WorldBatches(recipe, _NoInputs(), seed=seed, preset=preset, per_epoch=steps)
    loader: DataLoader[WorldRows] = DataLoader(
        _Steps(batches), batch_size=None, num_workers=workers, generator=torch.Generator()
    )
    blocks: list[WorldRows] = []
    with (progress or Silent()).task("scenes", count) as advance:
        for rows in loader:
            left = count - STEP * len(blocks)
            block = WorldRows(
                rows.scenes[:left],
                rows.captions[:left],
                rows.negatives[:left],
                rows.pixels[:left],
                # Copied, since tensors of a worker process each hold an open file.
                {name: value[:left].clone() for name, value in rows.code.items()},
            )
            blocks.append(block)
            advance(len(block.captions))
    return blocks


class _Steps(Dataset[WorldRows]):
    """Training steps as a data set, so that workers can make them."""

    def __init__(self, batches: WorldBatches) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    @paused_collector()
    def __getitem__(self, step: int) -> WorldRows:
        samples, texts = self._batches.scenes_and_texts(step)
        scenes = tuple(sample.scene for sample in samples)
        return WorldRows(
            scenes,
            tuple(t.caption.text for t in texts),
            tuple(tuple(None if n is None else n.text for n in t.negatives) for t in texts),
            drawn(scenes),
            encode(scenes, texts),
        )


class _NoInputs:
    """Stub for the inputs of a model, which drawing scenes does not need."""

    def prepare(self, image: object) -> Tensor:
        raise AssertionError("no image is prepared here")

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        raise AssertionError("no caption is read here")

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        raise AssertionError("no caption is read here")
