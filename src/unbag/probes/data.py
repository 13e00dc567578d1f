"""The data of probes: the built-in world, benchmarks, or files and folders of a user.

Dimensions: P images of an item, C captions, T true cells, N images, B of a block, D space.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from unbag.benchmarks.names import find_benchmarks
from unbag.data import FileImage
from unbag.data.captions import expand
from unbag.data.pairs import Pair, Pairs
from unbag.data.readers import IMAGE_SUFFIXES, open_pairs
from unbag.edits.editor import CaptionEditor, make_editor
from unbag.edits.kinds import EditParts
from unbag.edits.parsing import HOW_TO, find_installed
from unbag.errors import UnbagError, unknown_name
from unbag.evaluation.loading import load_items, without_missing
from unbag.metrics.cases import true_cells
from unbag.metrics.pairs import Pairs as PairMetric
from unbag.metrics.pairs import is_matching
from unbag.probes.base import Gallery, ImagePair, ProbeData, Row
from unbag.probes.sampling import hashed, part_of
from unbag.probes.space import Space
from unbag.registry import find, names
from unbag.runs.progress import Progress, Silent
from unbag.types import Benchmark, BoolArray, Edit, FloatArray, Given, ImageSource, Item, Sparse

WORLD = "world"
MAX_ROWS = 2_000
"""Default number of rows and pairs of benchmarks, which have up to a hundred thousand."""
MAX_OWN_IMAGES = 500
"""Default number of images of a user."""
MAX_GALLERY_IMAGES = 1_000
"""Images of a gallery: more make retrieval harder without changing the result."""
MAX_NEAREST_PAIRS = 200
MAX_CAPTIONS = 16
"""Items with more captions are galleries or lists of classes, not edited captions."""
DIFFERENCES = ("relation", "kind", "pattern", "collapsed_tag")
"""Tags that name the difference between the images of an item: ours, MMVP-VLM's, Winoground's."""
NEAREST = "nearest images"
BLOCK = 512
Clustered = TypeVar("Clustered", Row, ImagePair)
CAPTIONS = frozenset({".jsonl", ".json", ".tsv", ".csv", ".parquet"})
_NAMES = "`unbag list benchmarks` shows every name; a file or folder of images works too"

# Errors of the data readers name options of `unbag train` and `unbag edit`, which diagnose lacks.
_OTHER_FIELD = ", or the name of another field with --caption-column"
_FIX = "fix it; malformed lines are skipped as long as some lines are valid"


def find_probe_data(
    data: str | None = None,
    *,
    root: Path | None = None,
    images: Path | None = None,
    kinds: Sequence[str] = ("default",),
    parts: EditParts | None = None,
    max_items: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> ProbeData:
    """Load the data of probes by name or by path.

    Args:
        data: None or `world`; a benchmark, or a family of them such as `whatsup`; a file or folder
            that `unbag train` reads pairs from; a folder of images without captions.
        root: Folder with one folder per benchmark.
        images: Folder that image names in a caption file are relative to.
        kinds: Kinds of edits of a user's own captions.
        parts: Models and word lists that these kinds need.
        max_items: Maximum number of the user's images (default 500) or of benchmark rows (2,000).
        seed: Seed of edits and of the choice of rows.
        progress: Shows messages of benchmark loaders.
    """
    if data is None or data == WORLD:
        return world_probe_data()
    exists = bool(data) and (Path(data).exists() or bool(expand(data)))
    # A family, one made of another (two_way:NAME), or package.module:NAME.
    is_family = any(name.startswith((f"{data}-", f"{data}_")) for name in names("benchmark"))
    is_made = bool(data) and (is_family or ":" in data)
    if data in names("benchmark") or (not exists and is_made):
        max_rows = MAX_ROWS if max_items is None else max_items
        return benchmark_data([data], root, max_rows=max_rows, seed=seed, progress=progress)
    if not exists:
        raise _unknown(data)
    max_images = MAX_OWN_IMAGES if max_items is None else max_items
    folder = _image_folder(Path(data))
    if folder is not None:
        return folder_data(folder, max_images=max_images, seed=seed)
    pairs = _open(data, images)
    return pairs_data(pairs, kinds=kinds, parts=parts, max_images=max_images, seed=seed)


def _unknown(data: str) -> UnbagError:
    if Path(data).suffix or len(Path(data).parts) > 1:
        return UnbagError(
            f"there is no file or folder {data}",
            expected="images with captions, a folder of images, or the name of a benchmark",
            hint="check the path",
        )
    return unknown_name("data", data, [WORLD, *names("benchmark")], hint=_NAMES)


def _open(data: str, images: Path | None) -> Pairs:
    """Open pairs, skipping missing images and broken lines; their number is reported."""
    try:
        return open_pairs(data, images=images, skips_missing=True, skips_bad=True)
    except UnbagError as final_error:
        error = final_error
        try:
            # If all lines are broken, the error of the first one tells more than their number.
            open_pairs(data, images=images, skips_missing=True)
        except UnbagError as first_error:
            error = first_error
        expected = error.expected.replace(_OTHER_FIELD, "")
        hint = error.hint.replace("give the format with --pairs-format", "rename it")
        hint = hint.replace("fix it, or skip such lines with --bad-lines skip", _FIX)
        if "-column" in hint:
            hint = "rename it: captions are looked for in caption, images in image"
        raise UnbagError(error.message, expected=expected, hint=hint) from error


def _image_folder(path: Path) -> Path | None:
    """Return the folder of images that a path is or contains; None if it has captions."""
    if path.is_file() and path.suffix.lower() in IMAGE_SUFFIXES:
        raise UnbagError(
            f"{path} is a single image",
            expected="images with captions, or a folder of images: probes compare images",
            hint="name a folder; without one, the built-in world is used",
        )
    if not path.is_dir() or expand(str(path)):
        return None
    entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
    if any(entry.suffix.lower() in IMAGE_SUFFIXES for entry in entries):
        return path
    captions = [entry for entry in entries if entry.suffix.lower() in CAPTIONS]
    if captions:
        raise UnbagError(
            f"the folder {path} holds {', '.join(entry.name for entry in captions[:3])}",
            expected="the file of captions itself",
            hint=f"name {captions[0]}",
        )
    folders = [entry for entry in entries if entry.is_dir()]
    if not folders:
        raise UnbagError(
            f"the folder {path} holds neither images nor captions",
            expected="images, a file of captions, shards (.tar), or a folder for each class",
            hint="name the folder that holds the images, or the file of captions itself",
        )
    return folders[0] if len(folders) == 1 else None


def world_probe_data() -> ProbeData:
    """Return the data of all benchmarks of the world."""
    registered = [
        find("benchmark", name) for name in names("benchmark") if name.startswith("world-")
    ]
    benchmarks = [benchmark for benchmark in registered if isinstance(benchmark, Benchmark)]
    items = {benchmark.name: benchmark.load(None) for benchmark in benchmarks}
    return items_data(benchmarks, items, about="the world's benchmarks", is_world=True)


def benchmark_data(
    chosen: Sequence[str],
    root: Path | None = None,
    *,
    max_rows: int | None = MAX_ROWS,
    seed: int = 0,
    progress: Progress | None = None,
) -> ProbeData:
    """Load benchmarks by name or family, from `root` as in `unbag run --data`.

    Items whose images are missing are left out, with a note.
    """
    benchmarks = find_benchmarks(chosen)
    silent = Silent()
    items = {}
    for benchmark in benchmarks:
        loaded = load_items(benchmark, root, progress=silent)
        items[benchmark.name] = without_missing(
            benchmark.name, loaded, missing="skip", progress=silent
        )
        if not items[benchmark.name]:
            raise UnbagError(
                f"none of the {len(loaded):,} items of {benchmark.name!r} has its images",
                expected="at least one item with its images",
                hint=f"complete the folder; see `unbag data check {benchmark.name} --data DIR`",
            )
    for note in silent.said:
        (progress or Silent()).say(note)
    about = ", ".join(benchmark.name for benchmark in benchmarks)
    is_world = all(benchmark.name.startswith("world-") for benchmark in benchmarks)
    data = items_data(
        benchmarks, items, about=about, is_world=is_world, max_rows=max_rows, seed=seed
    )
    if not data.rows and not data.pairs and data.gallery is None:
        raise UnbagError(
            f"{about}: nothing that probes can use; {'; '.join(data.notes)}",
            expected="captions with hard negatives, pairs of images, or retrieval",
            hint="use sugarcrepe, whatsup, your own images or the built-in world",
        )
    return replace(data, notes=(*silent.said, *data.notes))


def items_data(
    benchmarks: Sequence[Benchmark],
    items: Mapping[str, Sequence[Item]],
    *,
    about: str,
    is_world: bool = False,
    max_rows: int | None = None,
    seed: int = 0,
) -> ProbeData:
    """Make rows of items with few captions, pairs of items with several images, and a gallery.

    The gallery is that of an item with sparse truth if there is one, else every image with its
    first true caption. Answers to questions are not captions, but two images with different answers
    to a question are a pair. Whole clusters are chosen by hash, up to `max_rows` rows and pairs.
    """
    rows = [row for b in benchmarks for item in items[b.name] for row in _rows_of_item(b, item)]
    pairs = [pair for b in benchmarks for item in items[b.name] for pair in _pairs_of_item(b, item)]
    pairs += [pair for b in benchmarks for pair in _pairs_of_groups(b, items[b.name])]
    used_rows = tuple(_choose_clusters(rows, max_rows, seed))
    used_pairs = tuple(_choose_clusters(pairs, max_rows, seed))
    return ProbeData(
        about,
        used_rows,
        used_pairs,
        _gallery(benchmarks, items),
        is_world=is_world,
        notes=(
            *_used(len(used_rows), len(rows), "captions with their edits"),
            *_used(len(used_pairs), len(pairs), "pairs of images"),
            *(note for b in benchmarks for note in _unused(b, items[b.name])),
        ),
    )


def _rows_of_item(benchmark: Benchmark, item: Item) -> Iterator[Row]:
    """Pair the true caption with each false one of its image; another true one is the positive."""
    if not _is_small(item) or item.question is not None:
        return
    true_PC = true_cells(item.truth, item.id)
    captions = [str(caption) for caption in item.captions]
    for place, image in enumerate(item.images):
        true = [c for c, is_true in zip(captions, true_PC[place], strict=True) if is_true]
        # In some files, a false caption equals the true one.
        false = [i for i in np.flatnonzero(~true_PC[place]).tolist() if captions[i] not in true]
        if not true:
            continue
        others = [caption for caption in true if caption != true[0]]
        for i in (*false,) or (None,):
            default_kind = item.tags.get("kind") or benchmark.name
            kind = item.kinds[i] if item.kinds and i is not None else default_kind
            yield Row(
                id=f"{benchmark.name}/{item.id}/{place}/{i}",
                image=image,
                caption=true[0],
                negative=None if i is None else captions[i],
                positive=others[0] if others else None,
                kind=kind,
                cluster=_cluster(benchmark, item),
                tags={**item.tags, "benchmark": benchmark.name},
            )


def _pairs_of_item(benchmark: Benchmark, item: Item) -> Iterator[ImagePair]:
    """Return the pairs of images that metrics name; else the first two, the next two ..."""
    if not _is_small(item) or len(item.images) < 2:
        return
    named_pairs = [metric.pairs for metric in benchmark.metrics if isinstance(metric, PairMetric)]
    places = [
        (name, pair) for metric_pairs in named_pairs for name, pair in (metric_pairs or {}).items()
    ]
    default_relation = _difference(benchmark, item)
    places = places or [(default_relation, (i, i + 1)) for i in range(0, len(item.images) - 1, 2)]
    true_PC = true_cells(item.truth, item.id)
    for relation, (i, j) in dict.fromkeys(places):
        if max(i, j) >= len(item.images) or item.images[i] == item.images[j]:
            continue
        yield ImagePair(
            id=f"{benchmark.name}/{item.id}/{relation}/{i}-{j}",
            first=item.images[i],
            second=item.images[j],
            relation=relation,
            captions=None if item.question else _own_captions(item, true_PC[i], true_PC[j]),
            cluster=_cluster(benchmark, item),
        )


def _pairs_of_groups(benchmark: Benchmark, items: Sequence[Item]) -> Iterator[ImagePair]:
    """Pair two items of a group with the same captions and opposite truths (MMVP)."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        if item.group and len(item.images) == 1 and len(item.captions) == 2 and _is_small(item):
            groups.setdefault(item.group, []).append(item)
    for name, members in groups.items():
        by_question: dict[object, list[Item]] = {}
        for item in members:
            by_question.setdefault((item.captions, item.question), []).append(item)
        seen: set[frozenset[str]] = set()
        for first, second in (both for both in by_question.values() if len(both) == 2):
            true_22 = np.array([true_cells(item.truth, item.id)[0] for item in (first, second)])
            images = frozenset((first.images[0].name, second.images[0].name))
            # Several questions about the same two images make one pair (NaturalBench).
            if not is_matching(true_22[None])[0] or len(images) < 2 or images in seen:
                continue
            seen.add(images)
            yield ImagePair(
                id=f"{benchmark.name}/{first.id}/{second.id}",
                first=first.images[0],
                second=second.images[0],
                relation=_difference(benchmark, first),
                captions=None if first.question else _own_captions(first, *true_22),
                cluster=f"{benchmark.name}/{name}",
            )


def _own_captions(item: Item, first_C: BoolArray, second_C: BoolArray) -> tuple[str, str] | None:
    """Return for each of two images a caption that is true of it only."""
    own, other = np.flatnonzero(first_C & ~second_C), np.flatnonzero(second_C & ~first_C)
    if not len(own) or not len(other):
        return None
    return str(item.captions[own[0]]), str(item.captions[other[0]])


def _difference(benchmark: Benchmark, item: Item) -> str:
    """Return the difference between two images, as named by the benchmark."""
    differences = (item.tags[tag] for tag in DIFFERENCES if item.tags.get(tag))
    return next(differences, benchmark.name)


def _cluster(benchmark: Benchmark, item: Item) -> str:
    return f"{benchmark.name}/{item.group or item.id}"


def _is_small(item: Item) -> bool:
    """Whether an item has few plain captions, each true or false of each image."""
    if isinstance(item.truth, Sparse) or item.truth.dtype != np.bool_:
        return False
    is_plain = all(isinstance(caption, str) for caption in item.captions)
    return is_plain and len(item.captions) <= MAX_CAPTIONS


def _choose_clusters(
    items: Sequence[Clustered], max_items: int | None, seed: int
) -> list[Clustered]:
    """Choose whole clusters until there are enough items; the order of the items stays."""
    if max_items is None or len(items) <= max_items:
        return list(items)
    clusters = sorted((item.cluster for item in items), key=lambda name: hashed(f"{seed}\0{name}"))
    chosen = set(clusters[:max_items])
    # Drop the last cluster if it would be cut; the first stays whatever its size.
    if len(chosen) > 1 and clusters[max_items] == clusters[max_items - 1]:
        chosen.discard(clusters[max_items])
    return [item for item in items if item.cluster in chosen]


def _used(chosen: int, total: int, what: str) -> list[str]:
    return [f"{chosen:,} of {total:,} {what} are used"] if chosen < total else []


def _unused(benchmark: Benchmark, items: Sequence[Item]) -> list[str]:
    """Return notes on the items of a benchmark that no probe can use."""
    questions = sum(item.question is not None for item in items)
    large = sum(not _is_small(item) and not isinstance(item.truth, Sparse) for item in items)
    counts = (
        (questions, "are questions, whose answers are not captions"),
        (large, f"have ratings, classes or more than {MAX_CAPTIONS} captions"),
    )
    return [f"{benchmark.name}: {n:,} of {len(items):,} items {why}" for n, why in counts if n]


def _gallery(
    benchmarks: Sequence[Benchmark], items: Mapping[str, Sequence[Item]]
) -> Gallery | None:
    """Return the gallery of the first retrieval item, else one of all small items."""
    for benchmark in benchmarks:
        # Galleries of shuffled captions follow; the headline metric names the original one.
        headline_tags = dict(benchmark.aggregates[0].only).items()
        for item in (
            item for item in items[benchmark.name] if headline_tags <= dict(item.tags).items()
        ):
            if gallery := gallery_item(item):
                return gallery
    return gallery_from(_first_captions(item for b in benchmarks for item in items[b.name]))


def _first_captions(items: Iterator[Item]) -> Iterator[tuple[ImageSource, str]]:
    """Yield every image with the first caption that is true of it."""
    for item in items:
        if not _is_small(item) or item.question is not None:
            continue
        true_PC = true_cells(item.truth, item.id)
        for image, true_C in zip(item.images, true_PC, strict=True):
            if true_C.any():
                yield image, str(item.captions[int(true_C.argmax())])


def gallery_from(captioned: Iterable[tuple[ImageSource, str]]) -> Gallery | None:
    """Make a gallery of unique images with their captions; None of fewer than two images.

    A caption of several images appears once, and is true of all of them.
    """
    images: dict[str, ImageSource] = {}
    captions: dict[str, int] = {}
    caption_T: list[int] = []
    for image, caption in captioned:
        if image.key not in images:
            images[image.key] = image
            caption_T.append(captions.setdefault(caption, len(captions)))
        if len(images) == MAX_GALLERY_IMAGES:
            break
    if len(images) < 2:
        return None
    return Gallery(
        tuple(images.values()), tuple(captions), np.arange(len(images)), np.array(caption_T)
    )


def gallery_item(item: Item, *, max_images: int = MAX_GALLERY_IMAGES) -> Gallery | None:
    """Return the gallery of an item with sparse truth, of at most `max_images`; None of others.

    Images are chosen by a hash of their first caption; captions are those of the chosen images.
    """
    truth = item.truth
    captions = [caption for caption in item.captions if isinstance(caption, str)]
    if not isinstance(truth, Sparse) or len(captions) < len(item.captions):
        return None
    gallery = Gallery(item.images, tuple(captions), truth.row_T, truth.column_T)
    if len(item.images) <= max_images:
        return gallery
    first_caption: dict[int, str] = {}
    for row, column in zip(truth.row_T.tolist(), truth.column_T.tolist(), strict=True):
        first_caption.setdefault(row, captions[column])
    return part_of(
        gallery,
        sorted(first_caption, key=lambda row: (hashed(first_caption[row]), row))[:max_images],
    )


def pairs_data(
    pairs: Pairs,
    *,
    editor: CaptionEditor | None = None,
    kinds: Sequence[str] = ("default",),
    parts: EditParts | None = None,
    max_images: int | None = MAX_OWN_IMAGES,
    seed: int = 0,
) -> ProbeData:
    """Make rows of first captions with their hard negatives and positives, and a gallery.

    Existing edits are used; otherwise the editor makes them. Without a spaCy pipeline there are no
    edits, and a note says how to get one. Images are chosen by a hash of seed and place, the same
    in every run; files with the same content are one image.
    """
    chosen, notes = _different_images(pairs, max_images, seed)
    if len(chosen) < 2:
        raise UnbagError(
            f"{pairs.about}: only {len(chosen)} different image",
            expected="at least two images, since probes compare images",
            hint="name a collection with more images",
        )
    edits, edit_notes = _edited(chosen, pairs, editor, kinds, parts, seed)
    rows = [
        row
        for pair, captioned in zip(chosen, edits, strict=True)
        for row in _rows_of_pair(pair, *captioned)
    ]
    images = tuple(pair.image for pair in chosen)
    gallery = gallery_from((pair.image, pair.captions[0]) for pair in chosen)
    notes += edit_notes
    return ProbeData(pairs.about, tuple(rows), (), gallery, notes=notes, images=images)


def _different_images(
    pairs: Pairs, max_images: int | None, seed: int
) -> tuple[list[Pair], tuple[str, ...]]:
    """Choose at most `max_images` entries and merge those of the same image."""
    # By place: reading the ids of a million entries takes a minute.
    chosen = _choose_places([str(place) for place in range(len(pairs))], max_images, seed)
    by_key: dict[str, Pair] = {}
    for place in chosen:
        pair = pairs[place]
        merged = by_key.setdefault(pair.image.key, pair)
        if merged is not pair:
            captions, edits = merged.captions + pair.captions, merged.edits + pair.edits
            by_key[pair.image.key] = replace(merged, captions=captions, edits=edits)
    notes = _used(len(chosen), len(pairs), "images")
    if len(by_key) < len(chosen):
        copies = len(chosen) - len(by_key)
        notes.append(f"{copies:,} of {len(chosen):,} entries show the image of another entry")
    return list(by_key.values()), tuple(notes)


Captioned = tuple[str, tuple[Edit, ...]]
"""An edited caption and its edits."""


def _edited(
    pairs_chosen: Sequence[Pair],
    pairs: Pairs,
    editor: CaptionEditor | None,
    kinds: Sequence[str],
    parts: EditParts | None,
    seed: int,
) -> tuple[list[Captioned], tuple[str, ...]]:
    if pairs.has_edits and editor is None:
        return [(pair.captions[0], pair.edits[0]) for pair in pairs_chosen], ()
    parts = parts or EditParts()
    if editor is None and parts.pipeline == "auto" and find_installed() is None:
        why = f"captions are not edited, since there is no spaCy pipeline: {HOW_TO}"
        return [(pair.captions[0], ()) for pair in pairs_chosen], (why,)
    editor = editor or make_editor(kinds, parts=parts, seed=seed)
    inputs = [Given(pair.id, pair.captions[0], pair.captions[1:]) for pair in pairs_chosen]
    edited, _ = editor(inputs)
    without_negative = sum(
        not any(not e.is_positive for e in edited_caption.edits) for edited_caption in edited
    )
    note = f"{without_negative:,} of {len(pairs_chosen):,} captions have no hard negative"
    return [(edited_caption.text, edited_caption.edits) for edited_caption in edited], (
        note,
    ) if without_negative else ()


def _rows_of_pair(pair: Pair, caption: str, edits: Sequence[Edit]) -> Iterator[Row]:
    """Yield a row for each hard negative, all with the first hard positive."""
    positive = next((edit.text for edit in edits if edit.is_positive), None)
    negatives = [edit for edit in edits if not edit.is_positive]
    for number, edit in enumerate(negatives or (None,)):
        yield Row(
            id=f"{pair.id}/{number}",
            image=pair.image,
            caption=caption,
            negative=edit.text if edit else None,
            positive=positive,
            kind=edit.kind if edit else "",
            cluster=pair.id,
        )


def folder_data(path: Path, *, max_images: int | None = MAX_OWN_IMAGES, seed: int = 0) -> ProbeData:
    """Load images without captions: the only question is which of them a model merges."""
    files = sorted(p for p in path.iterdir() if p.suffix.lower() in IMAGE_SUFFIXES and p.is_file())
    chosen = _choose_places([file.name for file in files], max_images, seed)
    images = _distinct([FileImage(files[place]) for place in chosen])
    if len(images) < 2:
        raise UnbagError(
            f"the folder {path} holds {len(images) or 'no'} image{'' if images else 's'}",
            expected="at least two different images, since probes compare images",
            hint="name a folder with more images; without one, the built-in world is used",
        )
    caption_files = sorted(
        p for p in path.iterdir() if p.suffix.lower() in CAPTIONS and p.is_file()
    )
    reason = "a folder is read without captions" if caption_files else "there are no captions"
    hint = f"{caption_files[0]} if it holds captions" if caption_files else "a file with captions"
    notes = [f"{reason}, so only the image encoder is probed: name {hint}"]
    notes += _used(len(chosen), len(files), "images")
    if len(images) < len(chosen):
        notes.append(f"{len(chosen) - len(images):,} images are copies of others")
    about = f"the folder {path.name}: {len(images):,} images without captions"
    return ProbeData(about, notes=tuple(notes), images=tuple(images))


def _choose_places(ids: Sequence[str], max_places: int | None, seed: int) -> list[int]:
    """Return the places of the chosen ids, in their order."""
    order = sorted(range(len(ids)), key=lambda place: hashed(f"{seed}\0{ids[place]}"))
    return sorted(order[: len(ids) if max_places is None else max_places])


def _distinct(images: Sequence[ImageSource]) -> list[ImageSource]:
    """Return the first image of each content."""
    distinct: dict[str, ImageSource] = {}
    for image in images:
        distinct.setdefault(image.key, image)
    return list(distinct.values())


def near_pairs(
    space: Space, images: Sequence[ImageSource], max_pairs: int = MAX_NEAREST_PAIRS
) -> tuple[ImagePair, ...]:
    """Return the pairs of different images with the highest cosines, the highest first.

    Images that cannot be opened and copies (by key) are in no pair. This model is most likely to
    merge these pairs, so the rate of merged ones among them says nothing about other pairs.
    """
    distinct = _distinct(images)
    vector_ND = space.images(distinct)
    return tuple(
        ImagePair(
            id=f"{distinct[i].name}/{distinct[j].name}",
            first=distinct[i],
            second=distinct[j],
            relation=NEAREST,
        )
        for i, j in _nearest(vector_ND, max_pairs)
    )


def _nearest(vector_ND: FloatArray, max_pairs: int) -> list[tuple[int, int]]:
    """Return the places of the highest cosines; memory is that of a block of rows."""
    best = np.empty((0, 3))
    column_N = np.arange(len(vector_ND))
    for start in range(0, len(vector_ND), BLOCK):
        row_B = column_N[start : start + BLOCK]
        cosine_BN = np.nan_to_num(vector_ND[row_B] @ vector_ND.T, nan=-np.inf)
        cosine_BN[column_N <= row_B[:, None]] = -np.inf
        flat = cosine_BN.ravel()
        place_K = (
            np.argpartition(-flat, max_pairs)[:max_pairs]
            if len(flat) > max_pairs
            else np.arange(len(flat))
        )
        place_K = place_K[flat[place_K] > -np.inf]
        i_K, j_K = np.divmod(place_K, len(vector_ND))
        best = np.concatenate([best, np.stack([i_K + start, j_K, -flat[place_K]], axis=1)])
        best = best[np.lexsort((best[:, 1], best[:, 0], best[:, 2]))][:max_pairs]
    return [(int(i), int(j)) for i, j, _ in best]
