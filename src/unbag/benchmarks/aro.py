"""ARO's VG-Relation and VG-Attribution: a crop, a caption, and the caption with two parts swapped.

The official code puts the false caption first and takes the argmax, so a tie is wrong. Its numbers
are macro averages: over relations without a list of its notebook, over attribute pairs with at
least 25 cases. The micro average is a quite different number; all are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from unbag.benchmarks.aro_excluded import EXCLUDED_RELATIONS
from unbag.benchmarks.files import FIRST_OF_2, Folder, Record
from unbag.benchmarks.sources_hosted import ARO_ATTRIBUTION as _ATTRIBUTION
from unbag.benchmarks.sources_hosted import ARO_PICTURES
from unbag.benchmarks.sources_hosted import ARO_RELATION as _RELATION
from unbag.errors import UserError
from unbag.metrics.choice import Choice
from unbag.pictures.files import Box
from unbag.published.every import published_for
from unbag.types import MICRO, Aggregate, Benchmark, Item
from unbag.types.json_fields import wrong

RELATION_FILE = "visual_genome_relation.json"
ATTRIBUTION_FILE = "visual_genome_attribution.json"
LEAST_PAIR = 25
PLACES = ("images", "../aro/images", "../aro_relation/images", "../aro_attribution/images")
BOX = ("bbox_x", "bbox_y", "bbox_w", "bbox_h")


def load_relation(root: Path | None) -> Sequence[Item]:
    """VG-Relation, tagged by relation."""
    folder = Folder.of(root, "aro_relation")
    return _load(folder, RELATION_FILE, "relation", lambda record: record.caption("relation_name"))


def load_attribution(root: Path | None) -> Sequence[Item]:
    """VG-Attribution, tagged by the pair of attributes."""
    return _load(Folder.of(root, "aro_attribution"), ATTRIBUTION_FILE, "pair", attribute_pair)


def _load(folder: Folder, file: str, tag: str, value: Callable[[Record], str]) -> Sequence[Item]:
    pictures = folder.picture_folder(*PLACES)
    part = folder.benchmark.removeprefix("aro_")
    items = []
    for record in folder.records(file):
        name = record.fields.text("image_path")
        items.append(
            Item(
                id=f"{part}/{record.key}",
                pictures=(folder.picture(pictures, name, record.where, box=box(record)),),
                captions=(record.caption("true_caption"), record.caption("false_caption")),
                truth=FIRST_OF_2,
                tags={tag: value(record)},
                kinds=("original", f"swap_{part}"),
            )
        )
    return items


def attribute_pair(record: Record) -> str:
    """Both attributes in their order, as the official code groups them."""
    attributes = record.fields.texts("attributes")
    if len(attributes) != 2:
        raise UserError(
            f"{record.where}: {len(attributes)} attributes",
            expected="two",
            way_out="check that it is the official file",
        )
    return "_".join(attributes)


def box(record: Record) -> Box:
    """The part of the picture that is scored."""
    x, y, width, height = (record.fields.read(name, _pixels) for name in BOX)
    if width <= 0 or height <= 0:
        raise UserError(
            f"{record.where}: a box of {width} x {height} pixels",
            expected="a width and height of at least 1",
            way_out="check that it is the official file",
        )
    return x, y, width, height


def _pixels(value: object, where: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return round(value)
    raise wrong(where, found=value, expected="a number of pixels")


_RELATIONS = Aggregate(by=("relation",), without=EXCLUDED_RELATIONS)
_PAIRS = Aggregate(by=("pair",), least=LEAST_PAIR)
_CITE = "Yuksekgonul et al. 2023, When and why vision-language models behave like bags-of-words"
_LICENCE = "MIT (annotations); pictures: Visual Genome, CC BY 4.0"

ARO_RELATION = Benchmark(
    name="aro_relation",
    folder="aro",
    about="Which of two things does what to the other: a caption against itself with both swapped.",
    load=load_relation,
    metrics=(Choice(),),
    headline="accuracy",
    aggregates=(_RELATIONS, Aggregate(by=("relation",)), MICRO),
    official_ties="wrong",
    cite=_CITE,
    licence=_LICENCE,
    files=(RELATION_FILE,),
    sources=("Visual Genome",),
    size=23_937,
    downloads=(*_RELATION, ARO_PICTURES),
    published=published_for("aro_relation"),
)

ARO_ATTRIBUTION = Benchmark(
    name="aro_attribution",
    folder="aro",
    about="Which of two things has which attribute: a caption against itself with both swapped.",
    load=load_attribution,
    metrics=(Choice(),),
    headline="accuracy",
    aggregates=(_PAIRS, Aggregate(by=("pair",)), MICRO),
    official_ties="wrong",
    cite=_CITE,
    licence=_LICENCE,
    files=(ATTRIBUTION_FILE,),
    sources=("Visual Genome",),
    size=28_748,
    downloads=(*_ATTRIBUTION, ARO_PICTURES),
    published=published_for("aro_attribution"),
)
