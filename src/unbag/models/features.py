"""Features of images and texts from a model: vectors, tokens and layers, each computed once.

`extract_images` and `extract_texts` run any encoding over many inputs in batches. A `View` says
which token features a reader wants of an encoder, and a `FeatureStore` caches them.

While images are extracted three things run beside each other: threads open and prepare images, one
thread stacks a batch and copies it to the device, and the caller's thread runs the model on the
batch before.

Dimensions: N inputs, L patches or words, W width, D width of the joint space.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby, islice
from pathlib import Path
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from unbag.errors import ImageError, UnbagError
from unbag.models.batching import Fitting, as_tensor, even, is_out_of_memory, of_one_size
from unbag.runs.cache import FeatureTable, TensorCache, concatenated
from unbag.runs.progress import Progress, Silent
from unbag.types import (
    DualEncoder,
    ImageSource,
    LayerEncoder,
    Layers,
    TokenEncoder,
    TokenFeatures,
)

if TYPE_CHECKING:
    from torch import Tensor

IMAGE_BATCH, TEXT_BATCH = 32, 256
"""Inputs whose token features are computed and written together."""
MAX_BYTES = 2 << 30
"""Of token features that are kept in memory."""
PADDED = ("vector_NLW", "mask_NL", "mark_NL")
"""Tensors of token features whose rows differ in length."""
READERS = 8
"""Threads that open images. Decoding gives up the interpreter's lock, the rest does not: on 16
cores, 16 threads read a tenth fewer images a second than 8."""
_AHEAD = 2
"""Batches that are read or stacked before the model asks for them."""
_HEAD_START = 0.05
"""Seconds for which no thread begins an image once a GPU's turn has begun. A forward pass asks for
the interpreter's lock hundreds of times: it takes 0.01 seconds alone, and under a profiler beside
eight readers it took 0.8."""
_WORD_OR_SIGN = re.compile(r"\w+|[^\w\s]+")
Features = TypeVar("Features")
Batches = Sequence[Sequence[str]]
"""Keys of inputs that are encoded together."""


def extract_images(
    encoder: DualEncoder,
    image_of: Mapping[str, ImageSource],
    batches: Batches,
    encode: Callable[[Tensor], Features],
    put: Callable[[Sequence[str], Features], None],
    *,
    label: str,
    progress: Progress,
) -> dict[str, str]:
    """Give `put` what `encode` makes of prepared images; the rest cannot be opened, for a reason.

    A batch that does not fit into memory comes in parts.
    """
    damaged: dict[str, str] = {}
    fitting, turn = Fitting(encoder.name, progress.say), Turn(encoder.device)
    with (
        progress.task(label, sum(map(len, batches))) as advance,
        reading(encoder, image_of, batches, turn=turn) as prepared,
    ):
        for batch in prepared:
            damaged.update(batch.damaged)
            if batch.pixels is not None:
                with turn:
                    parts = fitting.parts(lambda some: (len(some), encode(some)), batch.pixels)
                _put_parts(put, batch.keys, parts)
            advance(len(batch.keys) + len(batch.damaged))
    return damaged


def extract_texts(
    encoder: DualEncoder,
    text_of: Mapping[str, str],
    batches: Batches,
    encode: Callable[[list[str]], Features],
    put: Callable[[Sequence[str], Features], None],
    *,
    label: str,
    progress: Progress,
) -> None:
    """Give `put` what `encode` makes of texts; a batch that does not fit comes in parts."""
    fitting = Fitting(encoder.name, progress.say)
    with progress.task(label, sum(map(len, batches))) as advance:
        for keys in batches:
            texts = [text_of[key] for key in keys]
            _put_parts(put, keys, fitting.parts(lambda some: (len(some), encode(some)), texts))
            advance(len(keys))


def _put_parts(
    put: Callable[[Sequence[str], Features], None],
    keys: Sequence[str],
    parts: Sequence[tuple[int, Features]],
) -> None:
    start = 0
    for count, features in parts:
        put(keys[start : start + count], features)
        start += count


def batches_of(keys: Sequence[str], size: int) -> list[list[str]]:
    """Batches of one size in the order given, the last the rest."""
    return [list(keys[at : at + size]) for at in range(0, len(keys), size)]


def batches_of_one_length(
    encoder: DualEncoder, text_of: Mapping[str, str], size: int
) -> list[list[str]]:
    """Keys of texts of as many tokens each, so that none is padded."""
    counts = dict(zip(text_of, encoder.count_tokens(list(text_of.values())), strict=True))
    order = sorted(text_of, key=lambda key: (counts[key], text_of[key]))
    groups = (list(some) for _, some in groupby(order, key=counts.__getitem__))
    return [batch for some in groups for batch in batches_of(some, size)]


def text_key(text: str) -> str:
    """The key of a text in a cache; that of an image is its own."""
    return blake2b(text.encode(), digest_size=16).hexdigest()


def cache_name(encoder: DualEncoder) -> str:
    """What cached features depend on: the model and the kind of device, which rounds its way."""
    return f"{encoder.fingerprint}-{encoder.device.partition(':')[0]}"


def image_vectors(encoder: DualEncoder, pixels: Tensor) -> Tensor:
    """Unit vectors [N, D] of prepared images, checked, on the CPU."""
    return _checked(encoder.encode_images(pixels), len(pixels), encoder.name)


def text_vectors(encoder: DualEncoder, texts: Sequence[str]) -> Tensor:
    """Unit vectors [N, D] of texts, checked, on the CPU."""
    return _checked(encoder.encode_texts(texts), len(texts), encoder.name)


def _checked(returned: Tensor, expected: int, name: str) -> Tensor:
    vector_ND = as_tensor(returned, model=name).detach().float().cpu().clone()
    if vector_ND.ndim != 2 or len(vector_ND) != expected:
        raise UnbagError(
            f"model {name!r} returned vectors of shape {tuple(vector_ND.shape)} for {expected} "
            "inputs",
            expected=f"({expected}, D)",
            hint="mend encode_pictures / encode_captions of this model",
        )
    norm_N = vector_ND.norm(dim=1)
    # A vector of zeros has no direction: its scores are invalid, not equal.
    vector_ND[norm_N == 0] = float("nan")
    wrong = norm_N[(norm_N > 0) & ((norm_N - 1).abs() > 1e-3)]
    if len(wrong):
        raise UnbagError(
            f"model {name!r} returned a vector of norm {float(wrong[0]):.4g}",
            expected="unit vectors (see unbag.types.DualEncoder)",
            hint="divide each vector by its norm in encode_pictures / encode_captions",
        )
    return vector_ND


@dataclass(frozen=True)
class View:
    """Which token features of a frozen encoder a reader is given.

    Equal names of two views mean equal features.
    """

    name: str
    """Part of the name of the cache: letters, digits and dashes."""
    encode_images: Callable[[DualEncoder, Tensor], TokenFeatures]
    """Prepared images to features, with what the model reads out."""
    encode_texts: Callable[[DualEncoder, Sequence[str]], TokenFeatures]


class FeatureStore:
    """Token features of one encoder as one view shows them; each input is encoded once.

    They are a hundred times the size of one vector, so that only some are in memory. Without a
    cache folder the others are in temporary files.
    """

    def __init__(
        self,
        encoder: DualEncoder,
        view: View,
        *,
        cache: Path | None = None,
        progress: Progress | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """Opens what the cache has; nothing is computed yet."""
        self.encoder, self.view = encoder, view
        self.damaged: dict[str, str] = {}
        """Key of each image that could not be opened, with the reason."""
        self._progress = progress or Silent()
        self._image_rows, self._text_rows = (
            TensorCache(
                None if cache is None else cache / cache_name(encoder) / f"{view.name}-{kind}",
                progress=self._progress,
                max_bytes=max_bytes // 2,
                padded=PADDED,
            )
            for kind in ("images", "texts")
        )

    def precompute(self, images: Iterable[ImageSource], texts: Iterable[str]) -> None:
        """Compute the features of all that are not known yet, with a progress bar each."""
        self._compute_texts(_keys(texts))
        self._compute_images({image.key: image for image in images})

    def images(self, images: Sequence[ImageSource]) -> TokenFeatures:
        """Their features, in their order; raises PictureError for one that cannot be used."""
        keys = [image.key for image in images]
        self._compute_images(dict(zip(keys, images, strict=True)))
        for key, image in zip(keys, images, strict=True):
            if key in self.damaged:
                raise ImageError(
                    key,
                    f"{image.name}: {self.damaged[key]}",
                    expected="an image that can be opened",
                )
        return TokenFeatures(**self._image_rows.get(keys))

    def texts(self, texts: Sequence[str]) -> TokenFeatures:
        """Their features, in their order, padded to the most words."""
        key_of = _keys(texts)
        self._compute_texts(key_of)
        return TokenFeatures(**self._text_rows.get([key_of[text] for text in texts]))

    def image_table(self, images: Sequence[ImageSource], device: str) -> FeatureTable | None:
        """Features of all that can be opened, by key, on a device; None if they are too large."""
        image_of = {image.key: image for image in images}
        self._compute_images(image_of)
        return self._image_rows.table([k for k in image_of if k not in self.damaged], device)

    def text_table(self, texts: Sequence[str], device: str) -> FeatureTable | None:
        """Features of all texts likewise; rows are found by the texts themselves."""
        key_of = _keys(texts)
        self._compute_texts(key_of)
        table = self._text_rows.table(key_of.values(), device)
        if table is None:
            return None
        return FeatureTable({t: table.row_of[key] for t, key in key_of.items()}, table.tensors)

    def _compute_images(self, image_of: Mapping[str, ImageSource]) -> None:
        missing = [k for k in self._image_rows.missing(image_of) if k not in self.damaged]
        if missing:
            self.damaged |= extract_images(
                self.encoder,
                image_of,
                batches_of(missing, IMAGE_BATCH),
                lambda pixels: self.view.encode_images(self.encoder, pixels),
                lambda keys, features: self._image_rows.put(keys, features.tensors()),
                label=f"{self.encoder.name}: patches",
                progress=self._progress,
            )

    def _compute_texts(self, key_of: Mapping[str, str]) -> None:
        missing = set(self._text_rows.missing(key_of.values()))
        if missing:
            text_of = {key: text for text, key in key_of.items() if key in missing}
            extract_texts(
                self.encoder,
                text_of,
                batches_of_one_length(self.encoder, text_of, TEXT_BATCH),
                lambda texts: self.view.encode_texts(self.encoder, texts),
                lambda keys, features: self._text_rows.put(keys, features.tensors()),
                label=f"{self.encoder.name}: words",
                progress=self._progress,
            )


def _keys(texts: Iterable[str]) -> dict[str, str]:
    return {text: text_key(text) for text in texts}


def stacked(every: Sequence[TokenFeatures]) -> TokenFeatures:
    """One after the other, padded to the most tokens."""
    return TokenFeatures(**concatenated([one.tensors() for one in every], padded=PADDED))


def joint_images(encoder: DualEncoder, pixels: Tensor) -> TokenFeatures:
    """Patches in the joint space, at unit norm."""
    found = _token_encoder(encoder).encode_patches(pixels)
    return _joint(found, lambda: encoder.encode_images(pixels))


def joint_texts(encoder: DualEncoder, texts: Sequence[str]) -> TokenFeatures:
    """Words in the joint space, at unit norm, special ones included where the model has them."""
    found = _token_encoder(encoder).encode_tokens(texts)
    return _joint(found, lambda: encoder.encode_texts(texts))


def _joint(found: TokenFeatures, pooled: Callable[[], Tensor]) -> TokenFeatures:
    # One pass is enough for a model that shows its read-out beside its tokens.
    pooled_ND = found.pooled_NW if found.pooled_NW is not None else pooled()
    vector_NLD = found.vector_NLW.float().masked_fill(~found.mask_NL[..., None], 0)
    return TokenFeatures(vector_NLD, found.mask_NL, pooled_ND.float())


def last_images(encoder: DualEncoder, pixels: Tensor) -> TokenFeatures:
    """Patches as the projection into the joint space is given them, not at unit norm."""
    return _last(encoder, _layer_encoder(encoder).image_layers(pixels))


def last_texts(encoder: DualEncoder, texts: Sequence[str]) -> TokenFeatures:
    """Words as the projection into the joint space is given them, not at unit norm."""
    return _last(encoder, _layer_encoder(encoder).text_layers(texts))


def _last(encoder: DualEncoder, layers: Layers) -> TokenFeatures:
    """The last layer; raises UnbagError where that has no pooled vector."""
    import torch

    found = layers[-1].to("cpu", torch.float32)
    if found.pooled_NW is None:
        raise UnbagError(
            f"{encoder.name} has no read-out before its projection",
            expected="a model that reads out at one place or by a mean",
            hint="a reader of the joint space, such as dcsm_fixed",
        )
    vector_NLW = found.vector_NLW.masked_fill(~found.mask_NL[..., None], 0)
    return TokenFeatures(vector_NLW, found.mask_NL, found.pooled_NW)


def pooled_images(encoder: DualEncoder, pixels: Tensor) -> TokenFeatures:
    """What the projection is given of the read-out alone: no patch."""
    return _without_tokens(last_images(encoder, pixels))


def pooled_texts(encoder: DualEncoder, texts: Sequence[str]) -> TokenFeatures:
    """What the projection is given of the read-out alone: no word."""
    return _without_tokens(last_texts(encoder, texts))


def _without_tokens(found: TokenFeatures) -> TokenFeatures:
    # A clone, since a view of nothing would keep all of it in memory.
    none = found.vector_NLW[:, :0].clone(), found.mask_NL[:, :0].clone()
    return TokenFeatures(*none, found.pooled_NW)


def _token_encoder(encoder: DualEncoder) -> TokenEncoder:
    if not isinstance(encoder, TokenEncoder):
        raise _no_tokens(encoder)
    return encoder


def _layer_encoder(encoder: DualEncoder) -> LayerEncoder:
    if not isinstance(encoder, LayerEncoder):
        raise _no_tokens(encoder)
    return encoder


def _no_tokens(encoder: DualEncoder) -> UnbagError:
    return UnbagError(
        f"{encoder.name} shows one vector for an image and one for a caption, and no parts",
        expected="a model with patches and words: tiny:, open_clip:, hf: or photo:",
        hint="give your model encode_patches and encode_tokens, picture_layers and "
        "caption_layers (docs/extending.md), or score it by cosine",
    )


JOINT = View("joint", joint_images, joint_texts)
LAST = View("last", last_images, last_texts)
LAST_AND_JOINT = View("last-joint", last_images, joint_texts)
"""Images before the projection, texts after it."""
POOLED_ONLY = View("last-pooled", pooled_images, pooled_texts)
"""One vector each, before the projection; a fiftieth of the size of the others."""


@dataclass(frozen=True)
class Placed:
    """A word and the columns of its pieces."""

    word: str
    start: int
    stop: int


def placed_words(encoder: DualEncoder, captions: Sequence[str]) -> list[tuple[Placed, ...] | None]:
    """The words of each caption with their columns; None where pieces do not add up.

    Signs are set apart from words where the tokenizer does so too; else "left," is one word. Of a
    tokenizer only the number of pieces of a text is asked, so that this works for all.
    """
    ways = [(_WORD_OR_SIGN.findall(caption), caption.split()) for caption in captions]
    # A word is asked for once, however many captions have it.
    every = list(dict.fromkeys(word for way in ways for words in way for word in words))
    once = dict(zip(every, encoder.count_tokens(every), strict=True))
    said_twice = [f"{word} {word}" for word in every]
    twice = dict(zip(every, encoder.count_tokens(said_twice), strict=True))

    def placed(words: Sequence[str], count: int) -> tuple[Placed, ...] | None:
        found = ends(count, [once[word] for word in words], [twice[word] for word in words])
        if found is None:
            return None
        return tuple(Placed(word, *both) for word, both in zip(words, found, strict=True))

    counts = encoder.count_tokens(captions)
    return [
        next((found for words in way if (found := placed(words, count)) is not None), None)
        for count, way in zip(counts, ways, strict=True)
    ]


def ends(count: int, once: Sequence[int], twice: Sequence[int]) -> list[tuple[int, int]] | None:
    """Where the pieces of each word begin and end; None where that does not add up.

    One special piece is the end, two are start and end; that is so in all tokenizers of CLIP's
    kind, of SentencePiece and of BERT.

    Args:
        count: Pieces of the whole text.
        once: Pieces of each word alone.
        twice: Pieces of each word said twice: the difference is its own, the rest special ones.
    """
    pieces = [b - a for a, b in zip(once, twice, strict=True)]
    special = {a - piece for a, piece in zip(once, pieces, strict=True)}
    if len(special) != 1 or min(pieces) < 0 or not special <= {0, 1, 2}:
        return None
    extra = special.pop()
    if sum(pieces) + extra != count:
        return None
    stops = (np.cumsum(pieces) + (1 if extra == 2 else 0)).tolist()
    return [(stop - piece, stop) for stop, piece in zip(stops, pieces, strict=True)]


@dataclass(frozen=True, eq=False)
class ReadBatch:
    """Images that were read together."""

    keys: Sequence[str]
    """Of the images that could be opened."""
    pixels: Tensor | None
    """A row a key; None if there is none."""
    damaged: Mapping[str, str]
    """The other keys, with the reason."""


@contextmanager
def reading(
    encoder: DualEncoder,
    image_of: Mapping[str, ImageSource],
    batches: Iterable[Sequence[str]],
    *,
    turn: Turn,
) -> Iterator[Iterator[ReadBatch]]:
    """The images of all batches; reading begins at once, before the first batch is asked for."""
    carry = Carrier(encoder.device)
    pool = ThreadPoolExecutor(min(READERS, os.cpu_count() or 1))

    def read(key: str) -> Tensor | str:
        turn.wait()
        try:
            return encoder.prepare(image_of[key].open())
        except (OSError, ValueError) as error:
            return f"{type(error).__name__}: {error}"

    def gather(waiting: Mapping[str, Future[Tensor | str]]) -> ReadBatch:
        found = {key: future.result() for key, future in waiting.items()}
        damaged = {key: one for key, one in found.items() if isinstance(one, str)}
        whole = {key: one for key, one in found.items() if not isinstance(one, str)}
        prepared = of_one_size(list(whole.values()), model=encoder.name)
        return ReadBatch(list(whole), carry(prepared) if whole else None, damaged)

    asked = ({key: pool.submit(read, key) for key in keys} for keys in batches)
    try:
        with ahead(gather, asked) as prepared:
            yield prepared
    finally:
        pool.shutdown(cancel_futures=True)


Taken = TypeVar("Taken")
Made = TypeVar("Made")


@contextmanager
def ahead(make: Callable[[Taken], Made], inputs: Iterable[Taken]) -> Iterator[Iterator[Made]]:
    """`make` of each input in order, in a thread of its own that stays a little ahead."""
    worker, left = ThreadPoolExecutor(1), iter(inputs)
    waiting = deque(worker.submit(make, one) for one in islice(left, _AHEAD))

    def made() -> Iterator[Made]:
        while waiting:
            found = waiting.popleft().result()
            waiting.extend(worker.submit(make, one) for one in islice(left, 1))
            yield found

    try:
        yield made()
    finally:
        worker.shutdown(cancel_futures=True)


class Turn:
    """The model's turn, in a with statement: readers wait until it is over or well begun."""

    def __init__(self, device: str) -> None:
        """A model on the processor needs no head start: its passes take seconds."""
        self._seconds = 0.0 if device == "cpu" else _HEAD_START
        self._until = 0.0
        self._over = Event()

    def __enter__(self) -> None:
        """Begin."""
        self._over.clear()
        self._until = monotonic() + self._seconds

    def __exit__(self, *error: object) -> None:
        """Let the readers go on."""
        self._until = 0.0
        self._over.set()

    def wait(self) -> None:
        """Called by readers before each image."""
        left = self._until - monotonic()
        if left > 0:
            self._over.wait(left)


class Carrier:
    """Stacks prepared images and, for a GPU, copies them there beside its other work."""

    def __init__(self, device: str) -> None:
        """Made where the model is run: a thread may have another current GPU."""
        import torch

        make: Any = torch.cuda.Stream
        self._stream = make(device) if device.startswith("cuda") else None

    def __call__(self, prepared: Sequence[Tensor]) -> Tensor:
        """As one batch; it stays on the processor where the GPU has no room for all of it.

        The copy is over when this returns. The caller must have used the batch before it lets go of
        it, since its memory then belongs to the next copy; asking for vectors on the CPU is enough.
        """
        import torch

        prepared = even(prepared)
        if self._stream is None:
            return torch.stack(list(prepared))
        shape = (len(prepared), *prepared[0].shape)
        # Memory that the GPU can fetch from by itself; PyTorch keeps it for the next batch.
        pinned = torch.empty(shape, dtype=prepared[0].dtype, pin_memory=True)
        if pinned.dtype == torch.bfloat16:
            torch.stack(list(prepared), out=pinned)
        else:
            # PyTorch would copy with threads of its own, which is slower beside a running model.
            np.stack([one.numpy() for one in prepared], out=pinned.numpy())
        try:
            with torch.cuda.stream(self._stream):
                placed = pinned.to(self._stream.device, non_blocking=True)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            return pinned
        self._stream.synchronize()
        return placed
