"""The nearest other images of each image, by FAISS over their vectors (`unbag nearest`).

NegCLIP's hard images: of each training image the three whose vectors are closest, so that a
batch holds images that are alike. Searched exactly, in blocks, so that memory stays bounded by
the vectors themselves.
Dimensions: N images, B of a block, K neighbours, D vector.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from unbag.data.captions import Source, json_record
from unbag.data.images import FileImage
from unbag.errors import UnbagError
from unbag.runs.cache import Vectors
from unbag.runs.files import write_atomically
from unbag.runs.progress import Progress
from unbag.types import ImageSource, IntArray

NEAREST = 3
"""As in NegCLIP's published file."""
BLOCK = 4096
"""Images that are searched for at once."""


def nearest(
    vector_ND: Vectors, each: int, *, advance: Callable[[int], None] = lambda steps: None
) -> IntArray:
    """Index of the `each` closest other vectors by cosine, the closest first.

    Among equally close ones the first comes first.

    Args:
        vector_ND: Unit vectors, finite.
        each: Neighbours that are wanted; fewer than there are vectors.
        advance: Told how many are done.
    """
    number, size = vector_ND.shape
    check_search(each, number)
    import faiss

    index = faiss.IndexFlatIP(size)
    index.add(np.ascontiguousarray(vector_ND, dtype=np.float32))
    nearest_NK = np.empty((number, each), np.int64)
    for start in range(0, number, BLOCK):
        block_BD = np.ascontiguousarray(vector_ND[start : start + BLOCK], dtype=np.float32)
        # One more than wanted, since the closest to a vector is itself, unless another equals it.
        cosine_BK, at_BK = index.search(block_BD, each + 1)
        nearest_NK[start : start + len(block_BD)] = [
            _without_self(start + row, at_K, cosine_K)[:each]
            for row, (at_K, cosine_K) in enumerate(zip(at_BK, cosine_BK, strict=True))
        ]
        advance(len(block_BD))
    return nearest_NK


def check_search(each: int, number: int) -> None:
    """Whether so many neighbours can be found among so many images."""
    if find_spec("faiss") is None:
        raise UnbagError(
            "searching for the nearest images needs FAISS, which is not installed",
            hint="install the extra unbag[neighbours]",
        )
    if not 0 < each < number:
        raise UnbagError(
            f"{each} neighbours of {number} images",
            expected="at least one, and fewer than there are images",
            hint="give more images or a smaller --k",
        )


def find_images(images: Iterable[str], root: Path) -> dict[str, FileImage]:
    """Each name once, as a file below the root; a name that starts at the root of the disk counts.

    Raises UnbagError naming the first that are not there.
    """
    files = {name: FileImage(root / name) for name in dict.fromkeys(images) if name}
    if not files:
        raise UnbagError(
            "the captions name no images",
            expected="a field or column with the image of each caption",
            hint="name it with --image-column",
        )
    missing = [name for name, image in files.items() if not image.path.is_file()]
    if missing:
        raise UnbagError(
            f"{len(missing):,} of {len(files):,} images are not below {root}, such as "
            f"{', '.join(missing[:3])}",
            expected="every image that the captions name",
            hint="check --images",
        )
    return files


def nearest_images(
    images: Mapping[str, FileImage],
    embed: Callable[[Mapping[str, ImageSource]], tuple[Vectors, Mapping[str, str]]],
    *,
    each: int = NEAREST,
    progress: Progress,
) -> tuple[dict[str, list[str]], Mapping[str, str]]:
    """The nearest other images of each by name, and those that could not be opened, with why.

    An image under two names is one image, and no neighbour of itself.

    Args:
        images: By name.
        embed: Gives the unit vectors of images by key, NaN for those that cannot be opened, and
            why these cannot be opened, by name.
        each: Neighbours that are wanted.
        progress: Shows progress bars; None shows none.
    """
    check_search(each, len(images))
    with progress.task("reading images", len(images)) as advance:
        first_of: dict[str, str] = {}
        key_of: dict[str, str] = {}
        for name, image in images.items():
            key_of[name] = image.key
            first_of.setdefault(key_of[name], name)
            advance(1)
    check_search(each, len(first_of))
    image_ND, damaged = embed({key: images[name] for key, name in first_of.items()})
    is_whole_N = np.isfinite(image_ND.sum(axis=1))
    names = [name for name, is_in in zip(first_of.values(), is_whole_N, strict=True) if is_in]
    with progress.task("searching", len(names)) as advance:
        index_NK = nearest(image_ND[is_whole_N], each, advance=advance)
    near = {
        name: [names[i] for i in row] for name, row in zip(names, index_NK.tolist(), strict=True)
    }
    named = {name: near[first_of[key]] for name, key in key_of.items() if first_of[key] in near}
    return named, damaged


def check_place(path: Path, captions: Source) -> None:
    """Whether neighbours can go there: a file that is there must be one of neighbours."""
    if not path.exists():
        return
    if any(path.samefile(file) for file in captions.files()):
        raise UnbagError(
            f"{path} is the file of captions",
            expected="another file, for the neighbours",
            hint="choose another place with --out",
        )
    records: list[set[str]] = []
    if path.is_file():
        with suppress(UnbagError), Source(str(path), "jsonl").opened() as file:
            records = [set(json_record(raw, path.name)) for raw in file]
    # As `write_neighbours` writes them, without other fields.
    if not records or any(fields != {"image", "neighbours"} for fields in records):
        raise UnbagError(
            f"{path} exists and is no file of neighbours",
            expected="a new file, or one of neighbours, which is replaced",
            hint="choose another place with --out, or delete it",
        )


def write_neighbours(path: Path, near: Mapping[str, Sequence[str]]) -> None:
    """Lines of {"image", "neighbours"}, as `unbag edit --neighbours` reads them."""

    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8") as file:
            for image, neighbours in near.items():
                record = {"image": image, "neighbours": list(neighbours)}
                file.write(json.dumps(record, ensure_ascii=False) + "\n")

    try:
        write_atomically(path, write)
    except OSError as error:
        raise UnbagError(
            f"cannot write {path}: {error.strerror or error}",
            expected="a folder that can be written, with room for the neighbours",
            hint="make room or choose another place with --out, and give the command again",
        ) from error


def _without_self(own: int, at_K: IntArray, cosine_K: Vectors) -> list[int]:
    """The rest in order of closeness; where vectors are equal, `own` may not be the first found."""
    order = sorted(zip((-cosine_K).tolist(), at_K.tolist(), strict=True))
    return [i for _, i in order if i != own]
