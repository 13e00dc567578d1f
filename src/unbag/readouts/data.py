"""Pools: all that a reader is trained on, as features of a frozen encoder in memory.

`pool_of` makes one of pairs in files, `world_pool` one of scenes of the world. A pool is computed
once, and lies on the device if it fits there: a step then costs no encoder, no disk and no Python
but the drawing of row numbers.

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
"""Of pairs: hard negatives that are kept, of different kinds where there are as many."""
WORLD_NEGATIVES: tuple[Slot, ...] = (
    Slot("swap", ("swap_attributes", "swap_arguments")),
    Slot("relation", ("replace_relation",)),
    Slot("attribute", ("replace_colour", "replace_size", "replace_texture")),
    Slot("object", ("replace_shape",)),
)
"""Of scenes. Counting and negation are left out, so that their benchmarks show what carries over;
the repair experiment (`unbag_lab.experiments`) has the same."""
RELATION = [slot.name for slot in WORLD_NEGATIVES].index("relation")
"""Where the opposite of a stated relation stands among them."""
STEP = 512
"""Scenes that are made together."""
IMAGES = (512, 64)
"""Scenes that go through the encoder at once, on a GPU and on a CPU, whose cache holds no more."""
CAPTIONS = (4_096, 256)
"""Likewise."""
MOST_BYTES = 12 << 30
"""Of features of pairs that are kept in memory, in half precision."""
_HELD_OUT, _MOST_HELD_OUT = 0.1, 2_000
"""Share of the rows or images that no step sees, and the most of them."""
_Input = TypeVar("_Input")
_AT_ONCE = 512
"""Images or captions of pairs that are read from the store at once."""


@dataclass(frozen=True, eq=False)
class Pool:
    """What a reader is trained on."""

    image: TokenFeatures
    """Of the different images."""
    caption: TokenFeatures
    """Of the different strings: captions and negatives alike."""
    image_N: Tensor
    """Which of the images each row is about."""
    caption_N: Tensor
    """Which of the strings is its caption."""
    negative_NK: Tensor
    """Likewise its negatives; -1 where there is none."""
    code: Mapping[str, Tensor] = field(default_factory=dict)
    """Integers by row, from which the truth of a batch follows."""
    find_truth: FindTruth | None = None
    group: int = 1
    """Rows that always come together: 2 where each row is followed by its opposite."""
    about: str = ""
    fingerprint: str = ""

    def __len__(self) -> int:
        """Rows: an image with one caption each."""
        return len(self.caption_N)

    def to(self, device: str, dtype: torch.dtype | None = None) -> Pool:
        """On a device, features in `dtype`."""
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
        """Memory that the features take."""
        return self.image.nbytes + self.caption.nbytes

    def near(self, device: str) -> Pool:
        """On the device where half of its free memory is enough, else where it is.

        A batch is then copied at every step, which is slower and gives the same.
        """
        if device.startswith("cuda") and self.nbytes > torch.cuda.mem_get_info(device)[0] // 2:
            return self
        return self.to(device)

    def rows(self, start: int, stop: int) -> Pool:
        """Some of the rows, with all images and strings; a view that costs no memory."""
        return self._picked(slice(start, stop))

    def only(self, place: int) -> Pool:
        """Rows that have a negative in this place, and of their negatives this one alone."""
        at_M = (self.negative_NK[:, place] >= 0).nonzero().flatten()
        found = self._picked(at_M)
        return replace(found, negative_NK=found.negative_NK[:, place : place + 1])

    def _picked(self, at: slice | Tensor) -> Pool:
        return replace(
            self,
            image_N=self.image_N[at],
            caption_N=self.caption_N[at],
            negative_NK=self.negative_NK[at],
            code={name: value[at] for name, value in self.code.items()},
        )

    @cached_property
    def held_out(self) -> int:
        """Rows at the end that no step sees: whole groups, of an image and its opposite all."""
        return held_out(len(self), self._are_together, group=self.group)

    def _are_together(self, row: int, other: int) -> bool:
        """Whether both are of one image, or of two whose captions are each other's edits."""
        before, after = (self.image_N == self.image_N[at] for at in (row, other))
        if before[other]:
            return True
        return all(
            bool(torch.isin(self.caption_N[own], self.negative_NK[rest]).any())
            for own, rest in ((before, after), (after, before))
        )

    def batch(self, row_B: Tensor, *, device: str, with_negatives: bool = True) -> ReaderBatch:
        """The rows asked for, in float32 on the device."""
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
        # Which captions fit an image of the batch besides its own.
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
    """How many of `count` inputs, at their end, are kept from training.

    A tenth, in whole groups; fewer where the cut would part neighbours that belong together.
    """
    held = min(_MOST_HELD_OUT, int(_HELD_OUT * count))
    cut = count - (held - held % group)
    while 0 < cut < count and are_together(cut - 1, cut):
        cut += group
    return max(0, count - cut)


class RowOrder:
    """Which rows a step sees: every group once an epoch, in an order of (seed, epoch) alone."""

    def __init__(self, pool: Pool, *, batch_size: int, seed: int) -> None:
        self._groups, self._each = len(pool) // pool.group, pool.group
        self._batch = max(1, min(batch_size // pool.group, self._groups))
        self._seed = seed
        # Where the pool is, so that a step copies no row numbers.
        self._device = pool.caption_N.device
        self._epoch, self._order = -1, torch.zeros(0, dtype=torch.int64)

    @property
    def per_epoch(self) -> int:
        """Whole batches of an epoch."""
        return self._groups // self._batch

    def __call__(self, step: int) -> Tensor:
        """Rows [B] of a step."""
        epoch, place = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            rng = generator(self._seed, "order of a pool", str(epoch))
            drawn = torch.from_numpy(rng.permutation(self._groups))
            self._epoch, self._order = epoch, drawn.to(self._device)
        some = self._order[place * self._batch : (place + 1) * self._batch]
        within = torch.arange(self._each, device=self._device)
        return (some[:, None] * self._each + within).flatten()


def kept(parts: TokenFeatures, device: str, dtype: torch.dtype) -> TokenFeatures:
    """As a pool keeps them; raises UnbagError for features that `dtype` cannot hold."""
    found = parts.to(device, dtype)
    if not (found.vector_NLW.isfinite().all() and found.pooled.isfinite().all()):
        largest = max(
            float(one.abs().max()) for one in (parts.vector_NLW, parts.pooled) if one.numel()
        )
        raise UnbagError(
            f"features of up to {largest:g}",
            expected=f"finite numbers of at most {torch.finfo(dtype).max:g}, as pools keep them",
            hint="a reader of the joint space, such as dcsm_fixed; or mend the model",
        )
    return found


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
    """Parts of all rows; without a code, equal captions and images are found by their text."""
    store = FeatureStore(encoder, view, cache=cache, progress=progress)
    images = {row.image.key: row.image for row in rows}
    every = [text for row in rows for text in (row.caption, *row.negatives) if text is not None]
    texts = list(dict.fromkeys(every))
    _check_size(store, list(images.values()), texts)
    whole = readable_rows(store, rows, texts, progress)
    if store.damaged and (group > 1 or code is not None):
        raise UnbagError(
            f"{count_text(len(store.damaged), 'image')} cannot be read",
            expected="all of them, since each has its opposite",
        )
    place_of = {key: at for at, key in enumerate(dict.fromkeys(r.image.key for r in whole))}
    string_of = {text: at for at, text in enumerate(texts)}
    if code is None:
        said = [CaptionTexts(row.caption) for row in whole]
        code, find_truth = code_of(said, [row.image.key for row in whole]), find_equal
    most = max(len(row.negatives) for row in whole)
    # Some rows have fewer than others.
    padded = [(*row.negatives, *[None] * (most - len(row.negatives))) for row in whole]
    negatives = [[-1 if text is None else string_of[text] for text in one] for one in padded]
    digest = blake2b(repr((encoder.fingerprint, view.name)).encode(), digest_size=12)
    for row in whole:
        digest.update(repr((row.image.key, row.caption, row.negatives)).encode())
    return Pool(
        image=_kept_in_half(store.images, [images[key] for key in place_of]),
        caption=_kept_in_half(store.texts, texts),
        image_N=torch.tensor([place_of[row.image.key] for row in whole]),
        caption_N=torch.tensor([string_of[row.caption] for row in whole]),
        negative_NK=torch.tensor(negatives, dtype=torch.int64).reshape(len(whole), most),
        code=dict(code),
        find_truth=find_truth,
        group=group,
        about=about,
        fingerprint=f"pool-{digest.hexdigest()}",
    )


@dataclass(frozen=True, eq=False)
class PoolRow:
    """An image, a caption that fits it, and some that do not."""

    image: ImageSource
    caption: str
    negatives: tuple[str | None, ...] = ()


def readable_rows(
    store: FeatureStore, rows: Sequence[PoolRow], texts: Sequence[str], progress: Progress
) -> list[PoolRow]:
    """Rows whose image can be opened, after features of all were computed; says which are not."""
    images = {row.image.key: row.image for row in rows}
    store.precompute(list(images.values()), texts)
    for line in left_out_lines({images[k].name: why for k, why in store.damaged.items()}):
        progress.say(line)
    whole = [row for row in rows if row.image.key not in store.damaged]
    if not whole:
        raise UnbagError("no image can be opened", expected="at least one, to train on")
    return whole


def rows_of(pairs: Pairs, *, progress: Progress | None = None) -> list[PoolRow]:
    """A row for each caption; pairs that cannot be read are left out, and counted."""
    found: list[PoolRow] = []
    bad: list[UnbagError] = []
    for place in range(len(pairs)):
        try:
            pair = pairs[place]
        except UnbagError as error:
            bad.append(error)
            continue
        found += [
            PoolRow(pair.image, c, _negatives(pair, at)) for at, c in enumerate(pair.captions)
        ]
    if not found:
        raise UnbagError(
            f"no pair can be read: {pairs.about}", expected="images with captions to train on"
        )
    if bad and progress is not None:
        verb = "is" if len(bad) == 1 else "are"
        said = f"{count_text(len(bad), 'pair')} cannot be read and {verb} left out"
        progress.say(f"{said}: {bad[0].message}")
    return found


def _negatives(pair: Pair, at: int) -> tuple[str | None, ...]:
    """Of as many kinds as there are, in an order that the caption decides."""
    true = {normalised(caption) for caption in pair.captions}
    edits = [e for e in pair.edits[at] if not e.is_positive and normalised(e.text) not in true]
    edits.sort(key=lambda e: blake2b(f"{pair.id}\0{e.kind}\0{e.text}".encode()).digest())
    first: dict[str, str] = {}
    for edit in edits:
        first.setdefault(edit.kind, edit.text)
    chosen = list(dict.fromkeys((*first.values(), *(edit.text for edit in edits))))
    chosen = chosen[:NEGATIVES_PER_CAPTION]
    return (*chosen, *[None] * (NEGATIVES_PER_CAPTION - len(chosen)))


def mixed(rows: Sequence[PoolRow]) -> list[PoolRow]:
    """Images in an order that only their names decide, rows of one image together.

    The last of them can then be kept apart: they are like all the others. Two opposite images
    that were pasted stand beside each other.
    """

    def drawn_and_name(row: PoolRow) -> tuple[bytes, str]:
        name = pair_name(row.image.name)
        return blake2b(name.encode(errors="replace")).digest(), row.image.name

    return sorted(rows, key=drawn_and_name)


def _kept_in_half(
    parts_of: Callable[[Sequence[_Input]], TokenFeatures], inputs: Sequence[_Input]
) -> TokenFeatures:
    found = [
        kept(parts_of(inputs[at : at + _AT_ONCE]), "cpu", torch.float16)
        for at in range(0, len(inputs), _AT_ONCE)
    ]
    return stacked(found)


def _check_size(store: FeatureStore, images: Sequence[ImageSource], texts: Sequence[str]) -> None:
    """Before hours are spent on features that memory cannot hold."""
    counts = store.encoder.count_tokens(texts)
    longest = texts[max(range(len(texts)), key=counts.__getitem__)]
    # Kept in half of the precision they are computed in; of the first image that can be opened.
    size = 0
    for image in images:
        with suppress(ImageError):
            size = len(images) * (store.images([image]).nbytes // 2)
            break
    size += len(texts) * store.texts([longest]).nbytes // 2
    if size > MOST_BYTES:
        raise UnbagError(
            f"parts of {len(images):,} images and of {len(texts):,} captions and negatives "
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
    fitting, images = Fitting(encoder.name, progress.say), []
    with progress.task(f"{encoder.name}: patches", len(caption_N)) as advance:
        for some in rows:
            if is_plain:
                pixels = _levels(some.pixels.to(encoder.device))
            else:
                opened = (SceneImage(scene, "").open() for scene in some.scenes)
                pixels = torch.stack([encoder.prepare(image) for image in opened])
            for part in torch.split(pixels, IMAGES[encoder.device == "cpu"]):
                found = fitting.parts(partial(view.encode_images, encoder), part)
                images.append(kept(stacked(found), device, dtype))
                advance(len(part))
    code = {name: torch.cat([r.code[name] for r in rows]) for name in rows[0].code}
    # Whether a negative holds in another image is never asked: only its own image counts.
    code["negative_BK6"] = code["negative_BK6"][:, :0].clone()
    said = repr((view.name, encoder.fingerprint, str(dtype), list(place)))
    digest = blake2b(said.encode(), digest_size=12)
    digest.update(caption_N.numpy().tobytes() + negative_NK.numpy().tobytes())
    return Pool(
        image=stacked(images),
        caption=_read_captions(encoder, view, list(place), dtype, device, progress),
        image_N=torch.arange(len(caption_N), device=device),
        caption_N=caption_N.to(device),
        negative_NK=negative_NK.to(device),
        code={name: value.to(device) for name, value in code.items()},
        find_truth=FindWorldTruth(),
        about=f"{len(caption_N):,} scenes of the built-in world, {len(place):,} different captions "
        "and hard negatives",
        fingerprint=f"pool-{digest.hexdigest()}",
    )


def _levels(byte_N3HW: Tensor) -> Tensor:
    """From -1 to 1, as `tiny:` prepares images."""
    return byte_N3HW.float() / 127.5 - 1.0


def _is_plain(encoder: DualEncoder, scene: Scene) -> bool:
    """Whether a model takes drawings as `tiny:` does; tried, not believed."""
    found = encoder.prepare(SceneImage(scene, "").open())
    wanted = _levels(drawn([scene]).to("cpu"))[0]
    return found.shape == wanted.shape and torch.allclose(found, wanted, atol=1e-6)


def _read_captions(
    encoder: DualEncoder,
    view: View,
    strings: Sequence[str],
    dtype: torch.dtype,
    device: str,
    progress: Progress,
) -> TokenFeatures:
    """Those of like length together, so that little is padded; given back in their order."""
    length_M = torch.tensor(encoder.count_tokens(strings))
    order_M = torch.argsort(length_M, stable=True)
    found = []
    with progress.task(f"{encoder.name}: words", len(strings)) as advance:
        for at in torch.split(order_M, CAPTIONS[encoder.device == "cpu"]):
            some = [strings[i] for i in at.tolist()]
            found.append(kept(view.encode_texts(encoder, some), device, dtype))
            advance(len(some))
    return stacked(found).rows(torch.argsort(order_M).to(device))


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
    slots: Sequence[Slot] = WORLD_NEGATIVES,
    preset: str = DEFAULT_PRESET,
    workers: int = 0,
    progress: Progress | None = None,
) -> list[WorldRows]:
    """`count` scenes, in steps; the same whatever the number of workers.

    None repeats, and they are those that `unbag train` draws for the same seed and recipe.
    """
    recipe = replace(
        hard_negative(), negatives=tuple(slots), positives=(), epochs=1, batch_size=min(STEP, count)
    )
    steps = -(-count // STEP)
    batches = WorldBatches(recipe, _NoReads(), seed=seed, preset=preset, per_epoch=steps)
    loader: DataLoader[WorldRows] = DataLoader(
        _Steps(batches), batch_size=None, num_workers=workers, generator=torch.Generator()
    )
    found: list[WorldRows] = []
    with (progress or Silent()).task("scenes", count) as advance:
        for rows in loader:
            left = count - STEP * len(found)
            some = WorldRows(
                rows.scenes[:left],
                rows.captions[:left],
                rows.negatives[:left],
                rows.pixels[:left],
                # In memory of our own: tensors of a worker hold an open file each.
                {name: value[:left].clone() for name, value in rows.code.items()},
            )
            found.append(some)
            advance(len(some.captions))
    return found


class _Steps(Dataset[WorldRows]):
    """Steps as a data set, so that workers can make them."""

    def __init__(self, batches: WorldBatches) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    @paused_collector()
    def __getitem__(self, step: int) -> WorldRows:
        samples, told = self._batches.scenes_and_texts(step)
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
        raise AssertionError("no image is prepared here")

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        raise AssertionError("no caption is read here")

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        raise AssertionError("no caption is read here")
