"""Hard positives: a caption, a hard negative, and the caption reworded with the meaning kept.

`data/` and `swapped_data/` are parallel lists: the true caption of the first is the original, that
of the second the hard positive. In 16 of the 27,443 REPLACE triples the negative repeats one of
the two; they are loaded, and left out by the metric. Ten hard positives were made by replacing
inside a longer word ("whiteboard" became "ivoryboard"): tagged positive=substring accident.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from unbag.benchmarks.aro import BOX, attribute_pair, box
from unbag.benchmarks.files import FIRST_AND_THIRD, Folder, Record
from unbag.benchmarks.sources import described
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
    """The same row of both lists."""

    original: Record
    positive: Record


def load_replace(root: Path | None) -> Sequence[Item]:
    """Both REPLACE subsets, with whole images of Visual Genome."""
    folder = Folder.of(root, "hard_positive_replace")
    # data/ is there in any case, for the annotations: look for the images below it.
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
    """SWAP: the rows of VG-Attribution with both halves exchanged as the hard positive.

    The official code cuts out the box of the row; rows without one are scored whole.
    """
    folder = Folder.of(root, "hard_positive_swap")
    images = folder.image_folder("data/images", "../aro_attribution/images", "../aro/images")
    items = []
    for row in _rows(folder, SWAP_FILE):
        name = row.original.text("image_path").removeprefix("data/")
        cut = box(row.original) if any(map(row.original.has, BOX)) else None
        image = folder.image(images, name, row.original.where, box=cut)
        tags = {"pair": attribute_pair(row.original)} if row.original.has("attributes") else {}
        items.append(_item("swap", row, image, tags))
    return items


def is_accident(original: str, positive: str) -> bool:
    """Whether a word was changed that merely contains one of the words to replace."""
    old, new = original.split(), positive.split()
    changed = {a for a, b in zip(old, new, strict=False) if a != b}
    return len(old) == len(new) and not changed <= REPLACED


def _rows(folder: Folder, name: str) -> Iterator[RowPair]:
    """Both lists side by side; they must agree in everything but the true caption."""
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
    **described("hard_positive_replace"),
    load=load_replace,
    metrics=(Triples(),),
    headline="augmented",
    aggregates=(Aggregate(by=("subset",)), MICRO),
    official_ties="wrong",
    files=tuple(f"{place}/vl_checklist_{s}.json" for place in FOLDERS for s in SUBSETS),
)

SWAP = Benchmark(
    **described("hard_positive_swap"),
    load=load_swap,
    metrics=(Triples(),),
    headline="augmented",
    official_ties="wrong",
    files=tuple(f"{place}/{SWAP_FILE}" for place in FOLDERS),
)
