"""Pictures and captions come in; their parts go out, each computed once by a frozen encoder.

Parts are a hundred times the size of one vector, so they lie in files of one batch each and only
some of these are in memory. A file is named by the hash of what it holds and written once, as in
the cache of vectors; without a cache folder the files are temporary.

Dimensions: N pictures or captions, L patches or words, W width.
"""

from __future__ import annotations

import json
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from unbag.engine.atomic import make_folder, write_atomically
from unbag.engine.embed import shelf_name
from unbag.engine.progress import Progress, Silent
from unbag.engine.reading import Turn, reading
from unbag.errors import PictureError, UserError
from unbag.models.fitting import Fitting
from unbag.readouts.parts import Parts, View, stacked
from unbag.types import DualEncoder, Picture

if TYPE_CHECKING:
    from torch import Tensor

PICTURES, CAPTIONS = 32, 256
"""Whose parts are computed and written together."""
MOST_BYTES = 2 << 30
"""Of parts that are kept in memory."""
_VERSION = "parts-1"


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
        self._pictures = _Shelf(folder / f"{view.name}-pictures", self._progress, most_bytes // 2)
        self._captions = _Shelf(folder / f"{view.name}-captions", self._progress, most_bytes // 2)

    def meet(self, pictures: Sequence[Picture], captions: Sequence[str]) -> None:
        """Compute the parts of all that are not known yet, with a progress bar each."""
        self._meet_captions(captions)
        self._meet_pictures({picture.key: picture for picture in pictures})

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
        self._meet_captions(captions)
        return self._captions.get([_key(caption) for caption in captions])

    def _meet_pictures(self, picture_of: Mapping[str, Picture]) -> None:
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

    def _meet_captions(self, captions: Sequence[str]) -> None:
        key_of = {caption: _key(caption) for caption in captions}
        self._captions.sound(list(key_of.values()))
        missing = [c for c, key in key_of.items() if key not in self._captions]
        if not missing:
            return
        counts = dict(zip(missing, self.encoder.count_tokens(missing), strict=True))
        with self._progress.task(f"{self.encoder.name}: words", len(missing)) as advance:
            for some in _of_one_length(counts):
                self._captions.put([_key(c) for c in some], self.view.read(self.encoder, some))
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


class _Shelf:
    """Files of parts, of which the last used are in memory."""

    def __init__(self, folder: Path, progress: Progress, most_bytes: int) -> None:
        self._folder, self._progress, self._most = folder, progress, most_bytes
        make_folder(folder, what="cache folder", way_out="choose another with --cache")
        self._place_of: dict[str, tuple[Path, int]] = {}
        self._open: OrderedDict[Path, Parts] = OrderedDict()
        self._bytes = 0
        self._checked: set[Path] = set()
        for path in sorted(folder.glob("*.safetensors")):
            self._index(path)

    def __contains__(self, key: str) -> bool:
        return key in self._place_of

    def put(self, keys: Sequence[str], parts: Parts) -> None:
        from safetensors.torch import save_file

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
        self._checked.add(path)
        self._remember(
            path, Parts(whole["part"], whole["mask"], whole["pooled"], whole.get("mark"))
        )

    def get(self, keys: Sequence[str]) -> Parts:
        """Rows in the order of the keys; each file is opened once."""
        import torch

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

    def _index(self, path: Path) -> None:
        from safetensors import safe_open

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
        for path in sorted(known - self._checked):
            try:
                self._load(path, checks=True)
            except Exception as error:
                self._forget(path, error)

    def _forget(self, path: Path, error: Exception) -> None:
        self._progress.say(f"cache file {path.name} cannot be used ({error}); computing it again")
        self._place_of = {key: at for key, at in self._place_of.items() if at[0] != path}
        # What is wrong with the file is wrong for good; a disk that did not answer is not.
        if not isinstance(error, OSError | MemoryError):
            path.unlink(missing_ok=True)

    def _load(self, path: Path, *, checks: bool = False) -> Parts:
        from safetensors import safe_open

        if path in self._open:
            self._open.move_to_end(path)
            return self._open[path]
        with safe_open(path, framework="pt") as file:
            keys = json.loads(file.metadata()["keys"])
            whole = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if checks and _digest(keys, whole) != path.stem:
            raise ValueError("its content does not match its name")
        self._checked.add(path)
        parts = Parts(whole["part"], whole["mask"], whole["pooled"], whole.get("mark"))
        self._remember(path, parts)
        return parts

    def _remember(self, path: Path, parts: Parts) -> None:
        if path in self._open:
            return
        self._open[path] = parts
        self._bytes += parts.nbytes
        while self._bytes > self._most and len(self._open) > 1:
            self._bytes -= self._open.popitem(last=False)[1].nbytes


def _key(caption: str) -> str:
    return blake2b(caption.encode(), digest_size=16).hexdigest()


def _digest(keys: Sequence[str], tensors: Mapping[str, Tensor]) -> str:
    digest = blake2b(json.dumps([_VERSION, list(keys)]).encode(), digest_size=16)
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        digest.update(value.contiguous().numpy().tobytes())
    return digest.hexdigest()
