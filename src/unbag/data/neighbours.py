"""Find the nearest other images of each image with FAISS (`unbag nearest`).

NegCLIP's hard images: the three nearest images of each training image by embedding, so that a
batch contains similar images. The search is exact and runs in blocks, so that memory is bounded by
the embeddings themselves.

Dimensions: N images, B images of a block, K neighbours, D embedding.
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
"""Query images per search."""


def nearest(
    vector_ND: Vectors, each: int, *, advance: Callable[[int], None] = lambda steps: None
) -> IntArray:
    """Return the indices of the `each` nearest other vectors by cosine, nearest first.

    Equally near vectors are in index order.

    Args:
        vector_ND: Unit vectors, finite.
        each: Number of neighbours per vector; fewer than the vectors.
        advance: Called with the number of newly finished vectors.
    """
    number, size = vector_ND.shape
    check_search(each, number)
    import faiss

    index = faiss.IndexFlatIP(size)
    index.add(np.ascontiguousarray(vector_ND, dtype=np.float32))
    nearest_NK = np.empty((number, each), np.int64)
    for start in range(0, number, BLOCK):
        block_BD = np.ascontiguousarray(vector_ND[start : start + BLOCK], dtype=np.float32)
        # One more, since the nearest to a vector is itself, unless another vector equals it.
        cosine_BK, at_BK = index.search(block_BD, each + 1)
        nearest_NK[start : start + len(block_BD)] = [
            _without_self(start + row, at_K, cosine_K)[:each]
            for row, (at_K, cosine_K) in enumerate(zip(at_BK, cosine_BK, strict=True))
        ]
        advance(len(block_BD))
    return nearest_NK


def check_search(each: int, number: int) -> None:
    """Raise UnbagError unless `each` neighbours can be found among `number` images."""
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
    """Return each image once as a file; names are relative to `root` or absolute paths.

    Raises UnbagError naming the first missing images.
    """
    files = {name: FileImage(root / name) for name in dict.fromkeys(images) if name}
    if not files:
        raise UnbagError(
            "the caption file contains no image paths",
            expected="a field or column with the image of each caption",
            hint="name it with --image-column",
        )
    missing = [name for name, image in files.items() if not image.path.is_file()]
    if missing:
        raise UnbagError(
            f"{len(missing):,} of {len(files):,} images are not below {root}, such as "
            f"{', '.join(missing[:3])}",
            expected="every image of the caption file",
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
    """Return the nearest other images of each image, and why damaged images were left out.

    An image under two names is one image, and never its own neighbour.

    Args:
        images: By name.
        embed: Returns the unit vectors of images, given by key, with NaN for images that cannot be
            opened, and the reasons by image name.
        each: Number of neighbours per image.
        progress: Shows progress bars.
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
    """Raise UnbagError unless `path` is new or a neighbours file, which is replaced."""
    if not path.exists():
        return
    if any(path.samefile(file) for file in captions.files()):
        raise UnbagError(
            f"{path} is the caption file",
            expected="another file for the neighbours",
            hint="choose another place with --out",
        )
    records: list[set[str]] = []
    if path.is_file():
        with suppress(UnbagError), Source(str(path), "jsonl").opened() as file:
            records = [set(json_record(raw, path.name)) for raw in file]
    # `write_neighbours` writes exactly these fields.
    if not records or any(fields != {"image", "neighbours"} for fields in records):
        raise UnbagError(
            f"{path} exists and is not a neighbours file",
            expected="a new file, or a neighbours file, which is replaced",
            hint="choose another place with --out, or delete it",
        )


def write_neighbours(path: Path, near: Mapping[str, Sequence[str]]) -> None:
    """Write JSON lines of {"image", "neighbours"}, as `unbag edit --neighbours` reads them."""

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
            expected="a writable folder with enough disk space",
            hint="free disk space or choose another place with --out, and run the command again",
        ) from error


def _without_self(own: int, at_K: IntArray, cosine_K: Vectors) -> list[int]:
    """Sort by similarity and drop `own`, which may not come first among equal vectors."""
    order = sorted(zip((-cosine_K).tolist(), at_K.tolist(), strict=True))
    return [i for _, i in order if i != own]
