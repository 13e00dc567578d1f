"""Hard positives: a caption, a hard negative, and a rewording with the same meaning.

`data/` and `swapped_data/` are parallel lists: the true caption of the first is the original, that
of the second the hard positive. In 16 of the 27,443 REPLACE triples the negative repeats one of
the two; they are loaded, but the metric leaves them out. In ten hard positives a part of a longer
word was replaced ("whiteboard" became "ivoryboard"): tagged positive=substring accident.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from unbag.benchmarks.aro import BOX, attribute_pair, box
from unbag.benchmarks.files import FIRST_AND_THIRD, Folder, Record
from unbag.benchmarks.sources import benchmark_fields
from unbag.errors import UnbagError
from unbag.metrics.triples import Triples
from unbag.types import MICRO, Aggregate, Benchmark, ImageSource, Item

SUBSETS = ("attributes", "relations")
SWAP_FILE = "visual_genome_attribution.json"
FOLDERS = ("data", "swapped_data")
REPLACED = frozenset(
    (
        *("white", "black", "blue", "brown", "red", "green", "silver", "large", "small", "long"),
        *("big", "huge", "standing", "sitting", "walking", "eating", "hanging", "looking"),
        *("smiling", "wet", "old", "clear", "young"),
    )
)
"""The attribute words that hard positives replace."""


class RowPair(NamedTuple):
    """One row of both lists."""

    original: Record
    positive: Record


def load_replace(root: Path | None) -> Sequence[Item]:
    """Load both REPLACE subsets, with whole images of Visual Genome."""
    folder = Folder.of(root, "hard_positive_replace")
    # data/ always exists, for the annotations: look for an image folder below it.
    images = folder.image_folder("data/VG_100K", "../visual_genome/VG_100K").parent
    items = []
    for subset in SUBSETS:
        for row in _rows(folder, f"vl_checklist_{subset}.json"):
            name = row.original.text("image_path").removeprefix("data/")
            image = folder.image(images, name, row.original.where)
            accident = subset == "attributes" and is_accident(*_true_captions(row))
            tags = {"subset": subset, "positive": "substring accident" if accident else "word"}
            items.append(_item(subset, row, image, tags))
    return items


def load_swap(root: Path | None) -> Sequence[Item]:
    """Load SWAP: rows of VG-Attribution whose hard positive exchanges both halves of the caption.

    As in the official code images are cropped to the row's box; rows without one use the whole
    image.
    """
    folder = Folder.of(root, "hard_positive_swap")
    images = folder.image_folder("data/images", "../aro_attribution/images", "../aro/images")
    items = []
    for row in _rows(folder, SWAP_FILE):
        name = row.original.text("image_path").removeprefix("data/")
        crop = box(row.original) if any(map(row.original.has, BOX)) else None
        image = folder.image(images, name, row.original.where, box=crop)
        tags = {"pair": attribute_pair(row.original)} if row.original.has("attributes") else {}
        items.append(_item("swap", row, image, tags))
    return items


def is_accident(original: str, positive: str) -> bool:
    """Whether a changed word merely contains one of the words to replace."""
    old, new = original.split(), positive.split()
    changed = {a for a, b in zip(old, new, strict=False) if a != b}
    return len(old) == len(new) and not changed <= REPLACED


def _rows(folder: Folder, name: str) -> Iterator[RowPair]:
    """The rows of both lists in pairs; they may only differ in the true caption."""
    first, second = (folder.records(f"{place}/{name}") for place in FOLDERS)
    if len(first) != len(second):
        raise UnbagError(
            f"{folder.benchmark}: {name} has {len(first)} rows in data and {len(second)} in "
            "swapped_data",
            expected="the same rows in the same order",
            hint="download both again, from the same release",
        )
    for row in map(RowPair, first, second):
        for field in ("image_path", "false_caption"):
            if row.original.text(field) != row.positive.text(field):
                raise UnbagError(
                    f"{row.positive.where}: another {field} than in {row.original.where}",
                    expected="the same rows in the same order in data and swapped_data",
                    hint="download both again, from the same release",
                )
        yield row


def _true_captions(row: RowPair) -> tuple[str, str]:
    return row.original.caption("true_caption"), row.positive.caption("true_caption")


def _item(subset: str, row: RowPair, image: ImageSource, tags: Mapping[str, str]) -> Item:
    original, positive = _true_captions(row)
    return Item(
        id=f"{subset}/{row.original.key}",
        images=(image,),
        captions=(original, row.original.caption("false_caption"), positive),
        truth=FIRST_AND_THIRD,
        tags=tags,
        kinds=("original", f"negative_{subset}", f"positive_{subset}"),
    )


REPLACE = Benchmark(
    **benchmark_fields("hard_positive_replace"),
    load=load_replace,
    metrics=(Triples(),),
    headline="augmented",
    aggregates=(Aggregate(by=("subset",)), MICRO),
    official_ties="wrong",
    files=tuple(f"{place}/vl_checklist_{s}.json" for place in FOLDERS for s in SUBSETS),
)

SWAP = Benchmark(
    **benchmark_fields("hard_positive_swap"),
    load=load_swap,
    metrics=(Triples(),),
    headline="augmented",
    official_ties="wrong",
    files=tuple(f"{place}/{SWAP_FILE}" for place in FOLDERS),
)
