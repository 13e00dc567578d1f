"""Features of images and texts from a model: vectors, tokens and layers, each computed once.

`extract_images` and `extract_texts` encode many inputs in batches. A `View` selects the token
features that a read-out takes from an encoder, and a `FeatureStore` caches them.

Extraction of images runs in parallel: threads open and prepare images, one thread stacks a batch
and copies it to the device, and the caller's thread runs the model on the previous batch.

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
"""Batch sizes for token features; each batch is one cache file."""
MAX_BYTES = 2 << 30
"""Memory limit of token features."""
PADDED = ("vector_NLW", "mask_NL", "mark_NL")
"""Tensors of token features whose rows differ in length."""
READERS = 8
"""Threads that open images. Only decoding releases the GIL: on 16 cores, 16 threads read 10 %
fewer images per second than 8."""
_AHEAD = 2
"""Number of batches that are prepared ahead of the model."""
_HEAD_START = 0.05
"""Seconds after the start of a forward pass on a GPU in which no thread starts an image. A forward
pass acquires the GIL hundreds of times: it takes 0.01 seconds alone, and took 0.8 beside eight
readers under a profiler."""
_WORD_OR_SIGN = re.compile(r"\w+|[^\w\s]+")
Features = TypeVar("Features")
Batches = Sequence[Sequence[str]]
"""Keys by batch."""


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
    """Encode images in batches and pass the features to `put`.

    A batch that does not fit into memory is split.

    Returns:
        The reason for each image that cannot be opened, by key.
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
                    parts = fitting.parts(lambda part: (len(part), encode(part)), batch.pixels)
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
    """Encode texts in batches and pass the features to `put`; large batches are split."""
    fitting = Fitting(encoder.name, progress.say)
    with progress.task(label, sum(map(len, batches))) as advance:
        for keys in batches:
            texts = [text_of[key] for key in keys]
            parts = fitting.parts(lambda part: (len(part), encode(part)), texts)
            _put_parts(put, keys, parts)
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
    """Split keys into batches of `size`, in order; the last may be smaller."""
    return [list(keys[start : start + size]) for start in range(0, len(keys), size)]


def batches_of_one_length(
    encoder: DualEncoder, text_of: Mapping[str, str], size: int
) -> list[list[str]]:
    """Batch keys of texts with the same number of tokens, so that nothing is padded."""
    counts = dict(zip(text_of, encoder.count_tokens(list(text_of.values())), strict=True))
    order = sorted(text_of, key=lambda key: (counts[key], text_of[key]))
    groups = (list(keys) for _, keys in groupby(order, key=counts.__getitem__))
    return [batch for keys in groups for batch in batches_of(keys, size)]


def text_key(text: str) -> str:
    """Return the cache key of a text; images have keys of their own."""
    return blake2b(text.encode(), digest_size=16).hexdigest()


def cache_name(encoder: DualEncoder) -> str:
    """Return the cache folder of a model and kind of device, since rounding differs by device."""
    return f"{encoder.fingerprint}-{encoder.device.partition(':')[0]}"


def image_vectors(encoder: DualEncoder, pixels: Tensor) -> Tensor:
    """Encode prepared images to checked unit vectors [N, D] on the CPU."""
    return _checked(encoder.encode_images(pixels), len(pixels), encoder.name)


def text_vectors(encoder: DualEncoder, texts: Sequence[str]) -> Tensor:
    """Encode texts to checked unit vectors [N, D] on the CPU."""
    return _checked(encoder.encode_texts(texts), len(texts), encoder.name)


def _checked(returned: Tensor, expected: int, name: str) -> Tensor:
    vector_ND = as_tensor(returned, model=name).detach().float().cpu().clone()
    if vector_ND.ndim != 2 or len(vector_ND) != expected:
        raise UnbagError(
            f"model {name!r} returned vectors of shape {tuple(vector_ND.shape)} for {expected} "
            "inputs",
            expected=f"({expected}, D)",
            hint="correct encode_images / encode_texts of this model",
        )
    norm_N = vector_ND.norm(dim=1)
    # A zero vector has no direction, so its scores are invalid, not tied.
    vector_ND[norm_N == 0] = float("nan")
    wrong_norms = norm_N[(norm_N > 0) & ((norm_N - 1).abs() > 1e-3)]
    if len(wrong_norms):
        raise UnbagError(
            f"model {name!r} returned a vector of norm {float(wrong_norms[0]):.4g}",
            expected="unit vectors (see unbag.types.DualEncoder)",
            hint="divide each vector by its norm in encode_images / encode_texts",
        )
    return vector_ND


@dataclass(frozen=True)
class View:
    """A selection of token features of a frozen encoder.

    Views with equal names must give equal features.
    """

    name: str
    """Part of the name of the cache folder: letters, digits and dashes."""
    encode_images: Callable[[DualEncoder, Tensor], TokenFeatures]
    """Prepared images to features with the pooled vector."""
    encode_texts: Callable[[DualEncoder, Sequence[str]], TokenFeatures]


class FeatureStore:
    """Token features of one encoder in one view; each input is encoded once.

    Token features are a hundred times larger than a vector, so only some are in memory. The others
    are in the cache folder or in temporary files.
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
        """Open the cache; nothing is computed yet."""
        self.encoder, self.view = encoder, view
        self.damaged: dict[str, str] = {}
        """Reason for each image that could not be opened, by key."""
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
        """Compute all features that are not cached yet, with progress bars."""
        self._compute_texts(_keys(texts))
        self._compute_images({image.key: image for image in images})

    def images(self, images: Sequence[ImageSource]) -> TokenFeatures:
        """Return the features in order; raises ImageError for an image that cannot be opened."""
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
        """Return the features in order, padded to the most tokens."""
        key_of = _keys(texts)
        self._compute_texts(key_of)
        return TokenFeatures(**self._text_rows.get([key_of[text] for text in texts]))

    def image_table(self, images: Sequence[ImageSource], device: str) -> FeatureTable | None:
        """Copy the features of all readable images to a device; None if they are too large."""
        image_of = {image.key: image for image in images}
        self._compute_images(image_of)
        return self._image_rows.table([k for k in image_of if k not in self.damaged], device)

    def text_table(self, texts: Sequence[str], device: str) -> FeatureTable | None:
        """Copy the features of all texts to a device, by text; None if they are too large."""
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


def stacked(batches: Sequence[TokenFeatures]) -> TokenFeatures:
    """Concatenate batches, padded to the most tokens."""
    return TokenFeatures(**concatenated([batch.tensors() for batch in batches], padded=PADDED))


def joint_images(encoder: DualEncoder, pixels: Tensor) -> TokenFeatures:
    """Encode patches in the joint space, at unit norm."""
    features = _token_encoder(encoder).encode_patches(pixels)
    return _joint(features, lambda: encoder.encode_images(pixels))


def joint_texts(encoder: DualEncoder, texts: Sequence[str]) -> TokenFeatures:
    """Encode tokens in the joint space, at unit norm, special tokens included."""
    features = _token_encoder(encoder).encode_tokens(texts)
    return _joint(features, lambda: encoder.encode_texts(texts))


def _joint(features: TokenFeatures, pooled: Callable[[], Tensor]) -> TokenFeatures:
    # One pass is enough for a model that returns the pooled vector with its tokens.
    pooled_ND = features.pooled_NW if features.pooled_NW is not None else pooled()
    vector_NLD = features.vector_NLW.float().masked_fill(~features.mask_NL[..., None], 0)
    return TokenFeatures(vector_NLD, features.mask_NL, pooled_ND.float())


def last_images(encoder: DualEncoder, pixels: Tensor) -> TokenFeatures:
    """Return patches before the projection into the joint space, not normalized."""
    return _last(encoder, _layer_encoder(encoder).image_layers(pixels))


def last_texts(encoder: DualEncoder, texts: Sequence[str]) -> TokenFeatures:
    """Return tokens before the projection into the joint space, not normalized."""
    return _last(encoder, _layer_encoder(encoder).text_layers(texts))


def _last(encoder: DualEncoder, layers: Layers) -> TokenFeatures:
    """Return the last layer; UnbagError if it has no pooled vector."""
    import torch

    features = layers[-1].to("cpu", torch.float32)
    if features.pooled_NW is None:
        raise UnbagError(
            f"{encoder.name} has no pooled vector before its projection",
            expected="a model that pools at one token or by a mean",
            hint="use a read-out of the joint space, such as dcsm_fixed",
        )
    vector_NLW = features.vector_NLW.masked_fill(~features.mask_NL[..., None], 0)
    return TokenFeatures(vector_NLW, features.mask_NL, features.pooled_NW)


def pooled_images(encoder: DualEncoder, pixels: Tensor) -> TokenFeatures:
    """Return only the pooled vector before the projection, without patches."""
    return _without_tokens(last_images(encoder, pixels))


def pooled_texts(encoder: DualEncoder, texts: Sequence[str]) -> TokenFeatures:
    """Return only the pooled vector before the projection, without tokens."""
    return _without_tokens(last_texts(encoder, texts))


def _without_tokens(features: TokenFeatures) -> TokenFeatures:
    # Cloned, since an empty view would keep the whole tensor in memory.
    empty = features.vector_NLW[:, :0].clone(), features.mask_NL[:, :0].clone()
    return TokenFeatures(*empty, features.pooled_NW)


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
        expected="a model with patches and tokens: tiny:, open_clip:, hf: or photo:",
        hint="give your model encode_patches and encode_tokens, image_layers and text_layers "
        "(docs/how-to/extend.md), or score it by cosine",
    )


JOINT = View("joint", joint_images, joint_texts)
LAST = View("last", last_images, last_texts)
LAST_AND_JOINT = View("last-joint", last_images, joint_texts)
"""Images before the projection, texts after it."""
POOLED_ONLY = View("last-pooled", pooled_images, pooled_texts)
"""Only pooled vectors, before the projection; a fiftieth of the size of the others."""


@dataclass(frozen=True)
class Placed:
    """A word and the range of its tokens."""

    word: str
    start: int
    stop: int


def placed_words(encoder: DualEncoder, captions: Sequence[str]) -> list[tuple[Placed, ...] | None]:
    """Align the words of each caption with its tokens; None if the token counts do not add up.

    Punctuation is separate if the tokenizer separates it; otherwise "left," is one word. Only token
    counts are used, so that this works with every tokenizer.
    """
    splits = [(_WORD_OR_SIGN.findall(caption), caption.split()) for caption in captions]
    # Each distinct word is tokenized once.
    vocabulary = list(dict.fromkeys(word for pair in splits for words in pair for word in words))
    once = dict(zip(vocabulary, encoder.count_tokens(vocabulary), strict=True))
    repeated = [f"{word} {word}" for word in vocabulary]
    twice = dict(zip(vocabulary, encoder.count_tokens(repeated), strict=True))

    def place(words: Sequence[str], count: int) -> tuple[Placed, ...] | None:
        ranges = ends(count, [once[word] for word in words], [twice[word] for word in words])
        if ranges is None:
            return None
        return tuple(Placed(word, *span) for word, span in zip(words, ranges, strict=True))

    counts = encoder.count_tokens(captions)
    return [
        next((placed for words in pair if (placed := place(words, count)) is not None), None)
        for count, pair in zip(counts, splits, strict=True)
    ]


def ends(count: int, once: Sequence[int], twice: Sequence[int]) -> list[tuple[int, int]] | None:
    """Return the token range of each word; None if the token counts do not add up.

    One special token is the end token, two are start and end. This holds for the tokenizers of
    CLIP, SentencePiece and BERT.

    Args:
        count: Tokens of the whole text.
        once: Tokens of each word alone.
        twice: Tokens of each word repeated: the difference is its own, the rest are special ones.
    """
    lengths = [b - a for a, b in zip(once, twice, strict=True)]
    special = {a - length for a, length in zip(once, lengths, strict=True)}
    if len(special) != 1 or min(lengths) < 0 or not special <= {0, 1, 2}:
        return None
    n_special = special.pop()
    if sum(lengths) + n_special != count:
        return None
    stops = (np.cumsum(lengths) + (1 if n_special == 2 else 0)).tolist()
    return [(stop - length, stop) for stop, length in zip(stops, lengths, strict=True)]


@dataclass(frozen=True, eq=False)
class ReadBatch:
    """A batch of prepared images."""

    keys: Sequence[str]
    """Keys of the images that could be opened."""
    pixels: Tensor | None
    """One row per key; None if no image could be opened."""
    damaged: Mapping[str, str]
    """Reason for each of the other images, by key."""


@contextmanager
def reading(
    encoder: DualEncoder,
    image_of: Mapping[str, ImageSource],
    batches: Iterable[Sequence[str]],
    *,
    turn: Turn,
) -> Iterator[Iterator[ReadBatch]]:
    """Read and prepare the images of all batches; reading starts immediately."""
    carry = Carrier(encoder.device)
    pool = ThreadPoolExecutor(min(READERS, os.cpu_count() or 1))

    def read(key: str) -> Tensor | str:
        turn.wait()
        try:
            return encoder.prepare(image_of[key].open())
        except (OSError, ValueError) as error:
            return f"{type(error).__name__}: {error}"

    def gather(waiting: Mapping[str, Future[Tensor | str]]) -> ReadBatch:
        results = {key: future.result() for key, future in waiting.items()}
        damaged = {key: result for key, result in results.items() if isinstance(result, str)}
        readable = {key: result for key, result in results.items() if not isinstance(result, str)}
        prepared = of_one_size(list(readable.values()), model=encoder.name)
        return ReadBatch(list(readable), carry(prepared) if readable else None, damaged)

    futures = ({key: pool.submit(read, key) for key in keys} for keys in batches)
    try:
        with ahead(gather, futures) as prepared:
            yield prepared
    finally:
        pool.shutdown(cancel_futures=True)


Input = TypeVar("Input")
Output = TypeVar("Output")


@contextmanager
def ahead(make: Callable[[Input], Output], inputs: Iterable[Input]) -> Iterator[Iterator[Output]]:
    """Apply `make` to each input in order, in a thread that works a few inputs ahead."""
    worker, remaining = ThreadPoolExecutor(1), iter(inputs)
    waiting = deque(worker.submit(make, value) for value in islice(remaining, _AHEAD))

    def results() -> Iterator[Output]:
        while waiting:
            result = waiting.popleft().result()
            waiting.extend(worker.submit(make, value) for value in islice(remaining, 1))
            yield result

    try:
        yield results()
    finally:
        worker.shutdown(cancel_futures=True)


class Turn:
    """Gives the model priority over readers: they wait until its pass is over or well started."""

    def __init__(self, device: str) -> None:
        """A model on the CPU needs no head start: its passes take seconds."""
        self._seconds = 0.0 if device == "cpu" else _HEAD_START
        self._until = 0.0
        self._over = Event()

    def __enter__(self) -> None:
        """Start the pass of the model."""
        self._over.clear()
        self._until = monotonic() + self._seconds

    def __exit__(self, *error: object) -> None:
        """End the pass and release the readers."""
        self._until = 0.0
        self._over.set()

    def wait(self) -> None:
        """Wait before each image; called by readers."""
        remaining = self._until - monotonic()
        if remaining > 0:
            self._over.wait(remaining)


class Carrier:
    """Stacks prepared images and copies them to a GPU while it computes."""

    def __init__(self, device: str) -> None:
        """Must run in the thread of the model: other threads may have another current GPU."""
        import torch

        make: Any = torch.cuda.Stream
        self._stream = make(device) if device.startswith("cuda") else None

    def __call__(self, prepared: Sequence[Tensor]) -> Tensor:
        """Stack the images to a batch, which stays on the CPU if it does not fit on the GPU.

        The copy is complete on return. The caller must finish using the batch before releasing it,
        since the next copy reuses its memory; moving the resulting vectors to the CPU is enough.
        """
        import torch

        prepared = even(prepared)
        if self._stream is None:
            return torch.stack(list(prepared))
        shape = (len(prepared), *prepared[0].shape)
        # Pinned memory, which PyTorch reuses for the next batch.
        pinned = torch.empty(shape, dtype=prepared[0].dtype, pin_memory=True)
        if pinned.dtype == torch.bfloat16:
            torch.stack(list(prepared), out=pinned)
        else:
            # PyTorch would copy with its own threads, which is slower beside a running model.
            np.stack([image.numpy() for image in prepared], out=pinned.numpy())
        try:
            with torch.cuda.stream(self._stream):
                on_device = pinned.to(self._stream.device, non_blocking=True)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            return pinned
        self._stream.synchronize()
        return on_device
