"""What probes look at: the world, benchmarks, or files and folders of a user, as material.

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
MOST_ROWS = 2_000
"""Rows and pairs of benchmarks, which have up to a hundred thousand, unless more are wanted."""
MOST_OWN = 500
"""Images of a user that are looked at unless more are wanted."""
MOST_IMAGES = 1_000
"""Of a gallery: more make retrieval harder, not the finding another."""
MOST_PAIRS = 200
MOST_CAPTIONS = 16
"""Items with more captions are galleries, or lists of classes: nobody edited these."""
DIFFERENCES = ("relation", "kind", "pattern", "collapsed_tag")
"""Tags that say what the images of an item differ in: ours, MMVP-VLM's, Winoground's."""
NEAREST = "nearest images"
BLOCK = 512
Clustered = TypeVar("Clustered", Row, ImagePair)
CAPTIONS = frozenset({".jsonl", ".json", ".tsv", ".csv", ".parquet"})
_NAMES = "`unbag list benchmarks` shows every name; a file or folder of images works too"

# Readers speak of options of `unbag train` and `unbag edit`, which a diagnosis does not have.
_OTHER_FIELD = ", or the name of another field with --caption-column"
_MEND = "mend it; broken lines are left out as long as others are whole"


def find_probe_data(
    data: str | None = None,
    *,
    root: Path | None = None,
    images: Path | None = None,
    kinds: Sequence[str] = ("default",),
    parts: EditParts | None = None,
    most: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> ProbeData:
    """ProbeData by name or by path.

    Args:
        data: None or `world`; a benchmark, or a family of them such as `whatsup`; a file or folder
            that `unbag train` reads pairs from; a folder of images without captions.
        root: Holds one folder for each benchmark that is read from files.
        images: Folder that names of images in a file of captions start from.
        kinds: Edits that are made of a user's own captions.
        parts: What these kinds need.
        most: Images of the user, or rows of benchmarks; None is 500 or 2,000.
        seed: Of edits and of what is chosen.
        progress: Shows what the loaders of benchmarks report.
    """
    if data is None or data == WORLD:
        return world_probe_data()
    is_there = bool(data) and (Path(data).exists() or bool(expand(data)))
    # A family, one made of another (two_way:NAME), or package.module:NAME.
    is_family = any(name.startswith((f"{data}-", f"{data}_")) for name in names("benchmark"))
    is_made = bool(data) and (is_family or ":" in data)
    if data in names("benchmark") or (not is_there and is_made):
        rows = MOST_ROWS if most is None else most
        return benchmark_material([data], root, most=rows, seed=seed, progress=progress)
    if not is_there:
        raise _unknown(data)
    wanted = MOST_OWN if most is None else most
    folder = _without_captions(Path(data))
    if folder is not None:
        return folder_material(folder, most=wanted, seed=seed)
    found = _open(data, images)
    return pairs_material(found, kinds=kinds, parts=parts, most=wanted, seed=seed)


def _unknown(data: str) -> UnbagError:
    if Path(data).suffix or len(Path(data).parts) > 1:
        return UnbagError(
            f"there is no file or folder {data}",
            expected="images with captions, a folder of images, or the name of a benchmark",
            hint="check the path",
        )
    return unknown_name("data", data, [WORLD, *names("benchmark")], hint=_NAMES)


def _open(data: str, images: Path | None) -> Pairs:
    """Without images that are not there and lines that are broken; their number is reported."""
    try:
        return open_pairs(data, images=images, skips_missing=True, skips_bad=True)
    except UnbagError as nothing_left:
        error = nothing_left
        try:
            # What is wrong with the first broken line: if all are, their number does not tell.
            open_pairs(data, images=images, skips_missing=True)
        except UnbagError as first_fault:
            error = first_fault
        expected = error.expected.replace(_OTHER_FIELD, "")
        hint = error.hint.replace("give the format with --pairs-format", "rename it")
        hint = hint.replace("fix it, or skip such lines with --bad-lines skip", _MEND)
        if "-column" in hint:
            hint = "rename it: captions are looked for in caption, images in image"
        raise UnbagError(error.message, expected=expected, hint=hint) from error


def _without_captions(path: Path) -> Path | None:
    """The folder of images that a path is, or that is alone in it; None if it has captions."""
    if path.is_file() and path.suffix.lower() in IMAGE_SUFFIXES:
        raise UnbagError(
            f"{path} is a single image",
            expected="images with captions, or a folder of images: models are asked to tell "
            "images apart",
            hint="name a folder; without one, the built-in world is asked about",
        )
    if not path.is_dir() or expand(str(path)):
        return None
    inside = sorted(one for one in path.iterdir() if not one.name.startswith("."))
    if any(one.suffix.lower() in IMAGE_SUFFIXES for one in inside):
        return path
    captions = [one for one in inside if one.suffix.lower() in CAPTIONS]
    if captions:
        raise UnbagError(
            f"the folder {path} holds {', '.join(one.name for one in captions[:3])}",
            expected="the file of captions itself",
            hint=f"name {captions[0]}",
        )
    folders = [one for one in inside if one.is_dir()]
    if not folders:
        raise UnbagError(
            f"the folder {path} holds neither images nor captions",
            expected="images, a file of captions, shards (.tar), or a folder for each class",
            hint="name the folder that holds the images, or the file of captions itself",
        )
    return folders[0] if len(folders) == 1 else None


def world_probe_data() -> ProbeData:
    """Everything that the world's benchmarks show."""
    every = [find("benchmark", name) for name in names("benchmark") if name.startswith("world-")]
    found = [one for one in every if isinstance(one, Benchmark)]
    items = {one.name: one.load(None) for one in found}
    return items_material(found, items, about="the world's benchmarks", is_world=True)


def benchmark_material(
    asked: Sequence[str],
    root: Path | None = None,
    *,
    most: int | None = MOST_ROWS,
    seed: int = 0,
    progress: Progress | None = None,
) -> ProbeData:
    """Benchmarks by name or family, from `root` as `unbag run --data` has it.

    Items whose images are missing are left out, with a note.
    """
    benchmarks = find_benchmarks(asked)
    told = Silent()
    items = {}
    for one in benchmarks:
        every = load_items(one, root, progress=told)
        items[one.name] = without_missing(one.name, every, missing="skip", progress=told)
        if not items[one.name]:
            raise UnbagError(
                f"none of the {len(every):,} items of {one.name!r} has its images there",
                expected="at least some of them",
                hint=f"complete the folder; see `unbag data check {one.name} --data DIR`",
            )
    for note in told.said:
        (progress or Silent()).say(note)
    about = ", ".join(one.name for one in benchmarks)
    is_world = all(one.name.startswith("world-") for one in benchmarks)
    found = items_material(benchmarks, items, about=about, is_world=is_world, most=most, seed=seed)
    if not found.rows and not found.pairs and found.gallery is None:
        raise UnbagError(
            f"{about}: nothing that probes can use; {'; '.join(found.notes)}",
            expected="captions with hard negatives, pairs of images, or retrieval",
            hint="take sugarcrepe, whatsup, your own images or the built-in world",
        )
    return replace(found, notes=(*told.said, *found.notes))


def items_material(
    benchmarks: Sequence[Benchmark],
    items: Mapping[str, Sequence[Item]],
    *,
    about: str,
    is_world: bool = False,
    most: int | None = None,
    seed: int = 0,
) -> ProbeData:
    """Rows of items with few captions, pairs of items with several images, a gallery of all.

    The gallery is that of an item with sparse truth if there is one, else every image with its
    first true caption. Answers to questions are no captions, but images that the same question
    tells apart are a pair. At most `most` rows and pairs, whole clusters chosen by hash.
    """
    rows = [row for b in benchmarks for item in items[b.name] for row in _rows_of_item(b, item)]
    pairs = [pair for b in benchmarks for item in items[b.name] for pair in _pairs_of_item(b, item)]
    pairs += [pair for b in benchmarks for pair in _pairs_of_groups(b, items[b.name])]
    kept_rows = tuple(_choose_clusters(rows, most, seed))
    kept_pairs = tuple(_choose_clusters(pairs, most, seed))
    return ProbeData(
        about,
        kept_rows,
        kept_pairs,
        _gallery(benchmarks, items),
        is_world=is_world,
        notes=(
            *_used(len(kept_rows), len(rows), "captions with their edits"),
            *_used(len(kept_pairs), len(pairs), "pairs of images"),
            *(note for b in benchmarks for note in _unused(b, items[b.name])),
        ),
    )


def _rows_of_item(benchmark: Benchmark, item: Item) -> Iterator[Row]:
    """Each true caption with each false one of its image; the next true one is the positive."""
    if not _is_small(item) or item.question is not None:
        return
    true_PC = true_cells(item.truth, item.id)
    captions = [str(caption) for caption in item.captions]
    for at, image in enumerate(item.images):
        true = [c for c, is_true in zip(captions, true_PC[at], strict=True) if is_true]
        # Some files have a false caption that is the true one.
        false = [i for i in np.flatnonzero(~true_PC[at]).tolist() if captions[i] not in true]
        if not true:
            continue
        others = [caption for caption in true if caption != true[0]]
        for i in (*false,) or (None,):
            usual = item.tags.get("kind") or benchmark.name
            kind = item.kinds[i] if item.kinds and i is not None else usual
            yield Row(
                id=f"{benchmark.name}/{item.id}/{at}/{i}",
                image=image,
                caption=true[0],
                negative=None if i is None else captions[i],
                positive=others[0] if others else None,
                kind=kind,
                cluster=_cluster(benchmark, item),
                tags={**item.tags, "benchmark": benchmark.name},
            )


def _pairs_of_item(benchmark: Benchmark, item: Item) -> Iterator[ImagePair]:
    """Images of one item that a metric calls a pair; else the first two, the next two ..."""
    if not _is_small(item) or len(item.images) < 2:
        return
    named = [metric.pairs for metric in benchmark.metrics if isinstance(metric, PairMetric)]
    places = [(name, pair) for one in named for name, pair in (one or {}).items()]
    usual = _difference(benchmark, item)
    places = places or [(usual, (i, i + 1)) for i in range(0, len(item.images) - 1, 2)]
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
    """Two items of a group that ask the same of two images, with opposite truths (MMVP)."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        if item.group and len(item.images) == 1 and len(item.captions) == 2 and _is_small(item):
            groups.setdefault(item.group, []).append(item)
    for name, members in groups.items():
        asked: dict[object, list[Item]] = {}
        for item in members:
            asked.setdefault((item.captions, item.question), []).append(item)
        known: set[frozenset[str]] = set()
        for first, second in (two for two in asked.values() if len(two) == 2):
            true_22 = np.array([true_cells(one.truth, one.id)[0] for one in (first, second)])
            images = frozenset((first.images[0].name, second.images[0].name))
            # Several questions about two images make one pair (NaturalBench).
            if not is_matching(true_22[None])[0] or len(images) < 2 or images in known:
                continue
            known.add(images)
            yield ImagePair(
                id=f"{benchmark.name}/{first.id}/{second.id}",
                first=first.images[0],
                second=second.images[0],
                relation=_difference(benchmark, first),
                captions=None if first.question else _own_captions(first, *true_22),
                cluster=f"{benchmark.name}/{name}",
            )


def _own_captions(item: Item, first_C: BoolArray, second_C: BoolArray) -> tuple[str, str] | None:
    """A caption that is true of one of two images only, for each."""
    own, other = np.flatnonzero(first_C & ~second_C), np.flatnonzero(second_C & ~first_C)
    if not len(own) or not len(other):
        return None
    return str(item.captions[own[0]]), str(item.captions[other[0]])


def _difference(benchmark: Benchmark, item: Item) -> str:
    """What two images differ in, as far as the benchmark says it."""
    told = (item.tags[tag] for tag in DIFFERENCES if item.tags.get(tag))
    return next(told, benchmark.name)


def _cluster(benchmark: Benchmark, item: Item) -> str:
    return f"{benchmark.name}/{item.group or item.id}"


def _is_small(item: Item) -> bool:
    """A few plain captions, each true or false of each image."""
    if isinstance(item.truth, Sparse) or item.truth.dtype != np.bool_:
        return False
    is_plain = all(isinstance(caption, str) for caption in item.captions)
    return is_plain and len(item.captions) <= MOST_CAPTIONS


def _choose_clusters(every: Sequence[Clustered], most: int | None, seed: int) -> list[Clustered]:
    """Members of whole clusters, in their order, until there are enough."""
    if most is None or len(every) <= most:
        return list(every)
    clusters = sorted((one.cluster for one in every), key=lambda name: hashed(f"{seed}\0{name}"))
    wanted = set(clusters[:most])
    # The last cluster may be cut; the first is kept whatever its size.
    if len(wanted) > 1 and clusters[most] == clusters[most - 1]:
        wanted.discard(clusters[most])
    return [one for one in every if one.cluster in wanted]


def _used(chosen: int, every: int, what: str) -> list[str]:
    return [f"{chosen:,} of {every:,} {what} are used"] if chosen < every else []


def _unused(benchmark: Benchmark, items: Sequence[Item]) -> list[str]:
    """What no probe can use, said once for each benchmark."""
    asked = sum(item.question is not None for item in items)
    large = sum(not _is_small(item) and not isinstance(item.truth, Sparse) for item in items)
    counts = (
        (asked, "are questions, whose answers are no captions"),
        (large, f"have ratings, classes or more than {MOST_CAPTIONS} captions"),
    )
    return [f"{benchmark.name}: {n:,} of {len(items):,} items {why}" for n, why in counts if n]


def _gallery(
    benchmarks: Sequence[Benchmark], items: Mapping[str, Sequence[Item]]
) -> Gallery | None:
    """That of the first item that is one, as the benchmark counts it; else of all small items."""
    for benchmark in benchmarks:
        # Galleries of shuffled captions follow; the rule of the headline names the plain one.
        only = dict(benchmark.aggregates[0].only).items()
        for item in (one for one in items[benchmark.name] if only <= dict(one.tags).items()):
            if found := gallery_item(item):
                return found
    return gallery_from(_first_captions(item for b in benchmarks for item in items[b.name]))


def _first_captions(items: Iterator[Item]) -> Iterator[tuple[ImageSource, str]]:
    """Every image with the first caption that is true of it."""
    for item in items:
        if not _is_small(item) or item.question is not None:
            continue
        true_PC = true_cells(item.truth, item.id)
        for image, true_C in zip(item.images, true_PC, strict=True):
            if true_C.any():
                yield image, str(item.captions[int(true_C.argmax())])


def gallery_from(found: Iterable[tuple[ImageSource, str]]) -> Gallery | None:
    """Each image once, with its caption; None of fewer than two images.

    A caption that several images have is one caption, true of all of them.
    """
    images: dict[str, ImageSource] = {}
    captions: dict[str, int] = {}
    caption_T: list[int] = []
    for image, caption in found:
        if image.key not in images:
            images[image.key] = image
            caption_T.append(captions.setdefault(caption, len(captions)))
        if len(images) == MOST_IMAGES:
            break
    if len(images) < 2:
        return None
    return Gallery(
        tuple(images.values()), tuple(captions), np.arange(len(images)), np.array(caption_T)
    )


def gallery_item(item: Item, *, most: int = MOST_IMAGES) -> Gallery | None:
    """The gallery that an item with sparse truth is, or `most` of its images; None of others.

    Images are chosen by a hash of their first caption, captions are those of chosen images.
    """
    truth = item.truth
    captions = [caption for caption in item.captions if isinstance(caption, str)]
    if not isinstance(truth, Sparse) or len(captions) < len(item.captions):
        return None
    every = Gallery(item.images, tuple(captions), truth.row_T, truth.column_T)
    if len(item.images) <= most:
        return every
    first: dict[int, str] = {}
    for row, column in zip(truth.row_T.tolist(), truth.column_T.tolist(), strict=True):
        first.setdefault(row, captions[column])
    return part_of(every, sorted(first, key=lambda at: (hashed(first[at]), at))[:most])


def pairs_material(
    pairs: Pairs,
    *,
    editor: CaptionEditor | None = None,
    kinds: Sequence[str] = ("default",),
    parts: EditParts | None = None,
    most: int | None = MOST_OWN,
    seed: int = 0,
) -> ProbeData:
    """First captions with their hard negatives and positives, and a gallery of them.

    Edits that were made before are taken as they are; else the editor makes them. Without a spaCy
    pipeline there are none, and a note says how to get one. Images are chosen by a hash of seed
    and place, the same in every run; files with the same content are one image.
    """
    found, notes = _different_images(pairs, most, seed)
    if len(found) < 2:
        raise UnbagError(
            f"{pairs.about}: only {len(found)} different image",
            expected="at least two images, since models are asked to tell them apart",
            hint="name a collection with more images",
        )
    edits, more = _edited(found, pairs, editor, kinds, parts, seed)
    rows = [
        row for pair, one in zip(found, edits, strict=True) for row in _rows_of_pair(pair, *one)
    ]
    images = tuple(pair.image for pair in found)
    gallery = gallery_from((pair.image, pair.captions[0]) for pair in found)
    notes += more
    return ProbeData(pairs.about, tuple(rows), (), gallery, notes=notes, images=images)


def _different_images(
    pairs: Pairs, most: int | None, seed: int
) -> tuple[list[Pair], tuple[str, ...]]:
    """As many as are wanted; entries about one image become one."""
    # By place: to ask a million entries for their ids takes a minute.
    chosen = _choose_places([str(place) for place in range(len(pairs))], most, seed)
    by_key: dict[str, Pair] = {}
    for place in chosen:
        pair = pairs[place]
        known = by_key.setdefault(pair.image.key, pair)
        if known is not pair:
            captions, edits = known.captions + pair.captions, known.edits + pair.edits
            by_key[pair.image.key] = replace(known, captions=captions, edits=edits)
    notes = _used(len(chosen), len(pairs), "images")
    if len(by_key) < len(chosen):
        again = len(chosen) - len(by_key)
        notes.append(f"{again:,} of {len(chosen):,} entries show an image that another shows")
    return list(by_key.values()), tuple(notes)


Captioned = tuple[str, tuple[Edit, ...]]
"""A caption as it was edited, and its edits."""


def _edited(
    found: Sequence[Pair],
    pairs: Pairs,
    editor: CaptionEditor | None,
    kinds: Sequence[str],
    parts: EditParts | None,
    seed: int,
) -> tuple[list[Captioned], tuple[str, ...]]:
    if pairs.has_edits and editor is None:
        return [(pair.captions[0], pair.edits[0]) for pair in found], ()
    parts = parts or EditParts()
    if editor is None and parts.pipeline == "auto" and find_installed() is None:
        why = f"captions are not edited, since no spaCy pipeline was found: {HOW_TO}"
        return [(pair.captions[0], ()) for pair in found], (why,)
    editor = editor or make_editor(kinds, parts=parts, seed=seed)
    given = [Given(pair.id, pair.captions[0], pair.captions[1:]) for pair in found]
    edited, _ = editor(given)
    none = sum(not any(not e.is_positive for e in one.edits) for one in edited)
    note = f"{none:,} of {len(found):,} captions have no hard negative"
    return [(one.text, one.edits) for one in edited], (note,) if none else ()


def _rows_of_pair(pair: Pair, caption: str, edits: Sequence[Edit]) -> Iterator[Row]:
    """One for each hard negative; the first hard positive stands beside all of them."""
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


def folder_material(path: Path, *, most: int | None = MOST_OWN, seed: int = 0) -> ProbeData:
    """Images without captions: models can be asked which of them they merge, and nothing else."""
    files = sorted(p for p in path.iterdir() if p.suffix.lower() in IMAGE_SUFFIXES and p.is_file())
    chosen = _choose_places([file.name for file in files], most, seed)
    images = _distinct([FileImage(files[at]) for at in chosen])
    if len(images) < 2:
        raise UnbagError(
            f"the folder {path} holds {len(images) or 'no'} image{'' if images else 's'}",
            expected="at least two different images, since models are asked to tell them apart",
            hint="name a folder with more images; without one, the built-in world is asked about",
        )
    beside = sorted(p for p in path.iterdir() if p.suffix.lower() in CAPTIONS and p.is_file())
    begin = "a folder is read without captions" if beside else "there are no captions"
    hint = f"{beside[0]} if it holds captions" if beside else "a file with captions"
    notes = [f"{begin}, so only the image encoder is asked: name {hint}"]
    notes += _used(len(chosen), len(files), "images")
    if len(images) < len(chosen):
        notes.append(f"{len(chosen) - len(images):,} images are copies of others")
    about = f"the folder {path.name}: {len(images):,} images without captions"
    return ProbeData(about, notes=tuple(notes), images=tuple(images))


def _choose_places(ids: Sequence[str], most: int | None, seed: int) -> list[int]:
    """Places of the chosen ones, in their order."""
    order = sorted(range(len(ids)), key=lambda at: hashed(f"{seed}\0{ids[at]}"))
    return sorted(order[: len(ids) if most is None else most])


def _distinct(images: Sequence[ImageSource]) -> list[ImageSource]:
    """The first of each content."""
    found: dict[str, ImageSource] = {}
    for image in images:
        found.setdefault(image.key, image)
    return list(found.values())


def near_pairs(
    space: Space, images: Sequence[ImageSource], most: int = MOST_PAIRS
) -> tuple[ImagePair, ...]:
    """The different images that are nearest to each other by cosine, the nearest first.

    Images that cannot be opened, and copies by key, are in no pair. They are the pairs that this
    model is most likely to merge, so the rate of merged ones among them says nothing of others.
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
        for i, j in _nearest(vector_ND, most)
    )


def _nearest(vector_ND: FloatArray, most: int) -> list[tuple[int, int]]:
    """Places with the highest cosines; memory is that of a block of rows."""
    found = np.empty((0, 3))
    column_N = np.arange(len(vector_ND))
    for start in range(0, len(vector_ND), BLOCK):
        row_B = column_N[start : start + BLOCK]
        cosine_BN = np.nan_to_num(vector_ND[row_B] @ vector_ND.T, nan=-np.inf)
        cosine_BN[column_N <= row_B[:, None]] = -np.inf
        flat = cosine_BN.ravel()
        at_K = np.argpartition(-flat, most)[:most] if len(flat) > most else np.arange(len(flat))
        at_K = at_K[flat[at_K] > -np.inf]
        i_K, j_K = np.divmod(at_K, len(vector_ND))
        found = np.concatenate([found, np.stack([i_K + start, j_K, -flat[at_K]], axis=1)])
        found = found[np.lexsort((found[:, 1], found[:, 0], found[:, 2]))][:most]
    return [(int(i), int(j)) for i, j, _ in found]
