"""Vectors of the patches of a picture and of the words of a caption, from a frozen encoder.

`Parts` holds them, a `View` says how they are computed, and a `PartsStore` computes each of them
once. Parts are a hundred times the size of one vector, so they are written to files of one batch
each, of which only some are in memory. Without a cache folder the files are temporary.

Dimensions: N pictures or captions, L patches or words, W width, D width of the joint space.
"""

from __future__ import annotations

import json
import math
import re
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import NamedTuple
from zlib import crc32

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from unbag.errors import PictureError, UserError
from unbag.evaluation.embedding import Turn, reading, shelf_name
from unbag.models.batching import Fitting
from unbag.runs.files import make_folder, write_atomically
from unbag.runs.progress import Progress, Silent
from unbag.types import DualEncoder, LayerEncoder, Picture, TokenEncoder, Tokens

_VERSION = "parts-2"
_READERS = 8
"""Files that are read and checked at once."""
PICTURES, CAPTIONS = 32, 256
"""Inputs whose parts are computed and written together."""
MOST_BYTES = 2 << 30
"""Of parts that are kept in memory."""
_WORD_OR_SIGN = re.compile(r"\w+|[^\w\s]+")


@dataclass(frozen=True, eq=False)
class Parts:
    """Vectors of the parts of N pictures or captions."""

    part_NLW: Tensor
    """Patches, rows from the top left, or words; zeros where there is none."""
    mask_NL: Tensor
    """True where there is one."""
    pooled_NW: Tensor
    """What the model itself reads out (CLS, end token, mean), in the same space."""
    mark_NL: Tensor | None = None
    """Numbers that a reader's own view puts on parts, such as which word stands there."""

    def __len__(self) -> int:
        """Pictures or captions."""
        return len(self.part_NLW)

    @property
    def device(self) -> torch.device:
        """Where the tensors lie."""
        return self.part_NLW.device

    @property
    def nbytes(self) -> int:
        """Memory that they take."""
        every = (self.part_NLW, self.mask_NL, self.pooled_NW, self.mark_NL)
        return sum(one.nbytes for one in every if one is not None)

    def rows(self, at: Tensor | slice) -> Parts:
        """Some of them, in the order asked for."""
        mark_NL = None if self.mark_NL is None else self.mark_NL[at]
        return Parts(self.part_NLW[at], self.mask_NL[at], self.pooled_NW[at], mark_NL)

    def to(self, device: str, dtype: torch.dtype | None = None) -> Parts:
        """On a device; vectors in `dtype` if one is named."""
        mark_NL = None if self.mark_NL is None else self.mark_NL.to(device)
        return Parts(
            self.part_NLW.to(device=device, dtype=dtype),
            self.mask_NL.to(device),
            self.pooled_NW.to(device=device, dtype=dtype),
            mark_NL,
        )


@dataclass(frozen=True)
class View:
    """How a reader looks at a frozen encoder; equal names of two views mean equal features."""

    name: str
    """Part of the name of what is kept: letters, digits and dashes."""
    look: Callable[[DualEncoder, Tensor], Parts]
    """Prepared pictures to parts."""
    read: Callable[[DualEncoder, Sequence[str]], Parts]
    """Captions to parts."""


def stacked(every: Sequence[Parts]) -> Parts:
    """One after the other, padded to the most parts."""
    longest = max(one.part_NLW.shape[1] for one in every)

    def padded(tensor: Tensor) -> Tensor:
        rest = longest - tensor.shape[1]
        width = (0, 0) * (tensor.ndim - 2)
        return functional.pad(tensor, (*width, 0, rest)) if rest else tensor

    marks = [one.mark_NL for one in every]
    return Parts(
        torch.cat([padded(one.part_NLW) for one in every]),
        torch.cat([padded(one.mask_NL) for one in every]),
        torch.cat([one.pooled_NW for one in every]),
        torch.cat([padded(m) for m in marks if m is not None]) if marks[0] is not None else None,
    )


def joint_pictures(encoder: DualEncoder, pixels: Tensor) -> Parts:
    """Patches in the joint space, at unit norm."""
    found = _token_encoder(encoder).encode_patches(pixels)
    return _joint(found, lambda: encoder.encode_pictures(pixels))


def joint_captions(encoder: DualEncoder, captions: Sequence[str]) -> Parts:
    """Words in the joint space, at unit norm, special ones included where the model has them."""
    found = _token_encoder(encoder).encode_tokens(captions)
    return _joint(found, lambda: encoder.encode_captions(captions))


def _joint(found: Tokens, pooled: Callable[[], Tensor]) -> Parts:
    # One pass is enough for a model that shows its read-out beside its parts.
    """Parts from tokens in the joint space, and the pooled vector."""
    pooled_ND = found.pooled_ND if found.pooled_ND is not None else pooled()
    vector_NLD = found.vector_NLD.float().masked_fill(~found.mask_NL[..., None], 0)
    return Parts(vector_NLD, found.mask_NL, pooled_ND.float())


def last_pictures(encoder: DualEncoder, pixels: Tensor) -> Parts:
    """Patches as the projection into the joint space is given them, not at unit norm."""
    layers = _layer_encoder(encoder).picture_layers(pixels)
    return _last(layers.vector_NLW[-1], layers.mask_NL, layers.pooled_NW[-1], encoder)


def last_captions(encoder: DualEncoder, captions: Sequence[str]) -> Parts:
    """Words as the projection into the joint space is given them, not at unit norm."""
    layers = _layer_encoder(encoder).caption_layers(captions)
    return _last(layers.vector_NLW[-1], layers.mask_NL, layers.pooled_NW[-1], encoder)


def _last(
    vector_NLW: Tensor, mask_NL: Tensor, pooled_NW: Tensor | None, encoder: DualEncoder
) -> Parts:
    """Parts from the last layer; raises UserError where that has no pooled vector."""
    vector_NLW = vector_NLW.float().cpu()
    mask_NL = mask_NL.cpu()
    vector_NLW = vector_NLW.masked_fill(~mask_NL[..., None], 0)
    if pooled_NW is None:
        raise UserError(
            f"{encoder.name} has no read-out before its projection",
            expected="a model that reads out at one place or by a mean",
            way_out="a reader of the joint space, such as dcsm_fixed",
        )
    return Parts(vector_NLW, mask_NL, pooled_NW.float().cpu())


def pooled_pictures(encoder: DualEncoder, pixels: Tensor) -> Parts:
    """What the projection is given of the read-out alone: no patch."""
    return _without_parts(last_pictures(encoder, pixels))


def pooled_captions(encoder: DualEncoder, captions: Sequence[str]) -> Parts:
    """What the projection is given of the read-out alone: no word."""
    return _without_parts(last_captions(encoder, captions))


def _without_parts(parts: Parts) -> Parts:
    # A clone, since a view of nothing would keep all of it in memory.
    return Parts(parts.part_NLW[:, :0].clone(), parts.mask_NL[:, :0].clone(), parts.pooled_NW)


def _token_encoder(encoder: DualEncoder) -> TokenEncoder:
    if not isinstance(encoder, TokenEncoder):
        raise _no_parts(encoder)
    return encoder


def _layer_encoder(encoder: DualEncoder) -> LayerEncoder:
    if not isinstance(encoder, LayerEncoder):
        raise _no_parts(encoder)
    return encoder


def _no_parts(encoder: DualEncoder) -> UserError:
    return UserError(
        f"{encoder.name} shows one vector for a picture and one for a caption, and no parts",
        expected="a model with patches and words: tiny:, open_clip:, hf: or photo:",
        way_out="give your model encode_patches and encode_tokens, picture_layers and "
        "caption_layers (docs/extending.md), or score it by cosine",
    )


JOINT = View("joint", joint_pictures, joint_captions)
LAST = View("last", last_pictures, last_captions)
LAST_AND_JOINT = View("last-joint", last_pictures, joint_captions)
"""Pictures before the projection, captions after it."""
POOLED_ONLY = View("last-pooled", pooled_pictures, pooled_captions)
"""One vector each, before the projection; a fiftieth of the size of the others."""


class PartsStore:
    """The parts of one encoder as one view shows them."""

    def __init__(
        self,
        encoder: DualEncoder,
        view: View,
        *,
        cache: Path | None = None,
        progress: Progress | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """Opens what the cache has; nothing is computed yet."""
        self.encoder, self.view = encoder, view
        self.damaged: dict[str, str] = {}
        """Key of each picture that could not be opened, with the reason."""
        self._progress = progress or Silent()
        if cache is None:
            folder = Path(mkdtemp(prefix="unbag-parts-"))
            weakref.finalize(self, rmtree, folder, ignore_errors=True)
        else:
            folder = cache / shelf_name(encoder)
        self._pictures, self._captions = (
            PartsShelf(folder / f"{view.name}-{kind}", self._progress, most_bytes // 2)
            for kind in ("pictures", "captions")
        )

    def meet(self, pictures: Sequence[Picture], captions: Sequence[str]) -> None:
        """Compute the parts of all that are not known yet, with a progress bar each."""
        self._meet_captions(_keys(captions))
        self._meet_pictures({picture.key: picture for picture in pictures})

    def laid_pictures(self, pictures: Sequence[Picture], device: str) -> Laid | None:
        """Parts of all pictures that can be opened, on the device; None if they are too large."""
        picture_of = {picture.key: picture for picture in pictures}
        self._meet_pictures(picture_of)
        return self._pictures.laid([k for k in picture_of if k not in self.damaged], device)

    def laid_captions(self, captions: Sequence[str], device: str) -> Laid | None:
        """Parts of all captions likewise; rows are found by the captions themselves."""
        key_of = _keys(captions)
        self._meet_captions(key_of)
        laid = self._captions.laid(list(key_of.values()), device)
        return laid and Laid(laid.parts, {c: laid.row_of[key] for c, key in key_of.items()})

    def pictures(self, pictures: Sequence[Picture]) -> Parts:
        """Their parts, in their order; raises PictureError for one that cannot be used."""
        keys = [picture.key for picture in pictures]
        self._meet_pictures(dict(zip(keys, pictures, strict=True)))
        for key, picture in zip(keys, pictures, strict=True):
            if key in self.damaged:
                raise PictureError(
                    key,
                    f"{picture.name}: {self.damaged[key]}",
                    expected="a picture that can be opened",
                )
        return self._pictures.get(keys)

    def captions(self, captions: Sequence[str]) -> Parts:
        """Their parts, in their order, padded to the most words."""
        key_of = _keys(captions)
        self._meet_captions(key_of)
        return self._captions.get([key_of[caption] for caption in captions])

    def _meet_pictures(self, picture_of: Mapping[str, Picture]) -> None:
        """Compute the parts of pictures that are not known yet."""
        self._pictures.sound(list(picture_of))
        missing = [k for k in picture_of if k not in self._pictures and k not in self.damaged]
        if not missing:
            return
        encoder, turn = self.encoder, Turn(self.encoder.device)
        todo = [missing[at : at + PICTURES] for at in range(0, len(missing), PICTURES)]
        fitting = Fitting(encoder.name, self._progress.say)
        with (
            self._progress.task(f"{encoder.name}: patches", len(missing)) as advance,
            reading(encoder, picture_of, todo, turn=turn) as batches,
        ):
            for batch in batches:
                self.damaged.update(batch.damaged)
                if batch.pixels is not None:
                    with turn:
                        found = looked(self.view, encoder, batch.pixels, fitting)
                    self._pictures.put(batch.keys, found)
                advance(len(batch.keys) + len(batch.damaged))

    def _meet_captions(self, key_of: Mapping[str, str]) -> None:
        """Compute the parts of captions that are not known yet."""
        self._captions.sound(list(key_of.values()))
        missing = [c for c, key in key_of.items() if key not in self._captions]
        if not missing:
            return
        counts = dict(zip(missing, self.encoder.count_tokens(missing), strict=True))
        with self._progress.task(f"{self.encoder.name}: words", len(missing)) as advance:
            for some in _of_one_length(counts):
                self._captions.put([key_of[c] for c in some], self.view.read(self.encoder, some))
                advance(len(some))


def looked(view: View, encoder: DualEncoder, pixels: Tensor, fitting: Fitting) -> Parts:
    """Parts of prepared pictures, as many at once as memory holds."""
    found: list[Parts] = []

    def look(some: Tensor) -> Tensor:
        parts = view.look(encoder, some)
        found.append(parts)
        return parts.pooled_NW

    fitting(look, pixels)
    # A try that did not fit into memory left nothing behind.
    return stacked(found)


def _of_one_length(counts: Mapping[str, int]) -> Iterator[list[str]]:
    """Captions of as many tokens each, so that none is padded."""
    order = sorted(counts, key=lambda caption: (counts[caption], caption))
    for _, some in groupby(order, key=counts.__getitem__):
        every = list(some)
        yield from (every[at : at + CAPTIONS] for at in range(0, len(every), CAPTIONS))


def _keys(captions: Sequence[str]) -> dict[str, str]:
    return {c: blake2b(c.encode(), digest_size=16).hexdigest() for c in captions}


@dataclass(frozen=True, eq=False)
class Laid:
    """Rows in one array of each kind, and which of them is whose."""

    parts: Parts
    row_of: Mapping[str, int]
    """By key."""


class PartsShelf:
    """Files of parts, of which the last used are in memory.

    A file is named by what it holds and written once, as in the cache of vectors. Where the rows of
    a run fit on the device, `laid` puts all of them there, one after the other.
    """

    def __init__(self, folder: Path, progress: Progress, most_bytes: int) -> None:
        self._folder, self._progress, self._most = folder, progress, most_bytes
        make_folder(folder, what="cache folder", way_out="choose another with --cache")
        self._place_of: dict[str, tuple[Path, int]] = {}
        self._open: OrderedDict[Path, Parts] = OrderedDict()
        self._bytes = 0
        self._size_of: dict[Path, _Size] = {}
        """Of each file that was found sound."""
        for path in sorted(folder.glob("*.safetensors")):
            self._index(path)

    def __contains__(self, key: str) -> bool:
        return key in self._place_of

    def put(self, keys: Sequence[str], parts: Parts) -> None:
        """Write a batch, and keep it in memory for a while."""
        if len(parts) != len(keys):
            raise UserError(
                f"{len(parts)} rows of parts for {len(keys)} inputs", expected="a row for each"
            )
        tensors = {"part": parts.part_NLW, "mask": parts.mask_NL, "pooled": parts.pooled_NW}
        if parts.mark_NL is not None:
            tensors["mark"] = parts.mark_NL
        whole = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        path = self._folder / f"{_digest(keys, whole)}.safetensors"
        header = {"keys": json.dumps(list(keys))}
        write_atomically(path, lambda to: save_file(whole, to, metadata=header))
        self._place_of.update((key, (path, at)) for at, key in enumerate(keys))
        self._remember(
            path, Parts(whole["part"], whole["mask"], whole["pooled"], whole.get("mark"))
        )

    def get(self, keys: Sequence[str]) -> Parts:
        """Rows in the order of the keys; each file is opened once."""
        wanted: dict[Path, list[int]] = {}
        for at, key in enumerate(keys):
            wanted.setdefault(self._place_of[key][0], []).append(at)
        found, order = [], []
        for path, places in wanted.items():
            rows = torch.tensor([self._place_of[keys[at]][1] for at in places])
            found.append(self._load(path).rows(rows))
            order += places
        every = stacked(found)
        return every.rows(torch.argsort(torch.tensor(order)))

    def laid(self, keys: Sequence[str], device: str) -> Laid | None:
        """Rows of these keys on a device, file after file; None where they are too large.

        A file leaves memory when its rows were copied, so that nothing lies there twice.
        """
        wanted: dict[Path, list[str]] = {}
        for key in dict.fromkeys(keys):
            wanted.setdefault(self._place_of[key][0], []).append(key)
        count = sum(map(len, wanted.values()))
        most = min(self._most, _room(device))
        if not count or count * max(self._size_of[path].nbytes for path in wanted) > most:
            return None
        longest = max(self._size_of[path].length for path in wanted)
        table = _blank(self._load(next(iter(wanted))), count, longest, device)
        row_of: dict[str, int] = {}
        for path, some in wanted.items():
            # In the order of the file, so that a whole file is copied as it is.
            some.sort(key=lambda key: self._place_of[key][1])
            parts = self._load(path)
            if len(some) < len(parts):
                parts = parts.rows(torch.tensor([self._place_of[key][1] for key in some]))
            _fill(table, len(row_of), parts)
            row_of |= {key: len(row_of) + n for n, key in enumerate(some)}
            self._drop(path)
        return Laid(table, row_of)

    def _index(self, path: Path) -> None:
        """Note what a file holds, from its header."""
        try:
            with safe_open(path, framework="pt") as file:
                keys = json.loads(file.metadata()["keys"])
        except Exception as error:
            self._forget(path, error)
            return
        self._place_of.update((key, (path, at)) for at, key in enumerate(keys))

    def sound(self, keys: Sequence[str]) -> None:
        """Check files of these keys that were not checked yet; damaged ones are forgotten."""
        known = {self._place_of[key][0] for key in keys if key in self._place_of}
        todo = sorted(known - self._size_of.keys())
        if not todo:
            return
        # Disks and checksums need no interpreter; some at a time, since memory is bounded.
        with ThreadPoolExecutor(_READERS) as pool:
            for start in range(0, len(todo), _READERS):
                some = todo[start : start + _READERS]
                found = [pool.submit(_read, path, checks=True) for path in some]
                for path, one in zip(some, found, strict=True):
                    try:
                        self._remember(path, one.result())
                    except Exception as error:
                        self._forget(path, error)

    def _forget(self, path: Path, error: Exception) -> None:
        """A file that cannot be used is computed again; a damaged one is deleted."""
        self._progress.say(f"cache file {path.name} cannot be used ({error}); computing it again")
        self._place_of = {key: at for key, at in self._place_of.items() if at[0] != path}
        # What is wrong with the file is wrong for good; a disk that did not answer is not.
        if not isinstance(error, OSError | MemoryError):
            path.unlink(missing_ok=True)

    def _load(self, path: Path) -> Parts:
        if path in self._open:
            self._open.move_to_end(path)
            return self._open[path]
        parts = _read(path, checks=False)
        self._remember(path, parts)
        return parts

    def _remember(self, path: Path, parts: Parts) -> None:
        self._size_of[path] = _Size(parts.part_NLW.shape[1], parts.nbytes // max(1, len(parts)))
        if path in self._open:
            return
        self._open[path] = parts
        self._bytes += parts.nbytes
        while self._bytes > self._most and len(self._open) > 1:
            self._bytes -= self._open.popitem(last=False)[1].nbytes

    def _drop(self, path: Path) -> None:
        parts = self._open.pop(path, None)
        self._bytes -= 0 if parts is None else parts.nbytes


class _Size(NamedTuple):
    """Parts and bytes of one row of a file."""

    length: int
    nbytes: int


def _read(path: Path, *, checks: bool) -> Parts:
    """A file; ValueError where its content does not match its name."""
    with safe_open(path, framework="pt") as file:
        keys = json.loads(file.metadata()["keys"])
        whole = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if checks and _digest(keys, whole) != path.stem:
        raise ValueError("its content does not match its name")
    return Parts(whole["part"], whole["mask"], whole["pooled"], whole.get("mark"))


def _digest(keys: Sequence[str], tensors: Mapping[str, Tensor]) -> str:
    """Of the keys, and a checksum of the numbers: a disk that fails is feared here, and no forger.

    A hash of all numbers would take longer than to read them.
    """
    digest = blake2b(json.dumps([_VERSION, list(keys)]).encode(), digest_size=16)
    for name, value in sorted(tensors.items()):
        number = crc32(value.contiguous().numpy().data)
        digest.update(f"{name} {tuple(value.shape)} {value.dtype} {number}".encode())
    return digest.hexdigest()


def _room(device: str) -> float:
    """Bytes for one of two tables, beside a model that works."""
    return torch.cuda.mem_get_info(device)[0] / 4 if device.startswith("cuda") else math.inf


def _blank(like: Parts, count: int, longest: int, device: str) -> Parts:
    def empty(tensor: Tensor, *shape: int) -> Tensor:
        return tensor.new_empty((count, *shape), device=device)

    return Parts(
        empty(like.part_NLW, longest, like.part_NLW.shape[2]),
        empty(like.mask_NL, longest),
        empty(like.pooled_NW, like.pooled_NW.shape[1]),
        None if like.mark_NL is None else empty(like.mark_NL, longest),
    )


def _fill(table: Parts, start: int, parts: Parts) -> None:
    """Rows from `start` on; zeros behind those that are shorter than the table."""
    rows, length = slice(start, start + len(parts)), parts.part_NLW.shape[1]
    pairs = [(table.part_NLW, parts.part_NLW), (table.mask_NL, parts.mask_NL)]
    if table.mark_NL is not None and parts.mark_NL is not None:
        pairs.append((table.mark_NL, parts.mark_NL))
    for whole, some in pairs:
        whole[rows, :length] = some
        whole[rows, length:] = 0
    table.pooled_NW[rows] = parts.pooled_NW


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
    known = _counted(encoder, ways)
    found = []
    for count, way in zip(encoder.count_tokens(captions), ways, strict=True):
        tried = (_placed(words, count, known) for words in way)
        found.append(next((one for one in tried if one is not None), None))
    return found


def _counted(
    encoder: DualEncoder, ways: Sequence[tuple[list[str], list[str]]]
) -> Mapping[str, tuple[int, int]]:
    """Pieces of every word, said once and twice; a word is asked for once."""
    words = list(dict.fromkeys(word for way in ways for said in way for word in said))
    once = encoder.count_tokens(words)
    twice = encoder.count_tokens([f"{word} {word}" for word in words])
    return dict(zip(words, zip(once, twice, strict=True), strict=True))


def _placed(
    words: Sequence[str], count: int, known: Mapping[str, tuple[int, int]]
) -> tuple[Placed, ...] | None:
    counts = [known[word] for word in words]
    found = ends(count, [once for once, _ in counts], [twice for _, twice in counts])
    if found is None:
        return None
    return tuple(Placed(word, *both) for word, both in zip(words, found, strict=True))


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
