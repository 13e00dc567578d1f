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
from unbag.benchmarks.published import (
    ARO_MODELS,
    ARO_PAPER,
    CE_CLIP,
    CE_CLIP_PAPER,
    CE_CLIP_PLUS,
    CLIP_B32,
    NEGCLIP,
    VL_COMPO,
    VL_COMPO_MODELS,
    by_model,
    by_rule,
)
from unbag.errors import UserError
from unbag.metrics.choice import Choice
from unbag.pictures.files import Box
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
_ABLATIONS = (
    "CE-CLIP+ ablation: itc(hn)",
    "CE-CLIP+ ablation: IMC",
    "CE-CLIP+ ablation: itc(hn) + CMR",
)
# The CE-CLIP paper and vl_compo do not say how they average.
_CE_CLIP_MODELS = (
    *("BLIP", "BEIT3", "BLIP2", "MiniGPT-4", "syn-CLIP", "DAC-LLM", "DAC-SAM", "XVLM-coco"),
    *("CE-XVLM", CLIP_B32, "CyCLIP", "SDS-CLIP", "CLIP-SVLC", NEGCLIP, CE_CLIP, CE_CLIP_PLUS),
)
_T1_RELATION = (
    *(59.0, 60.6, 41.2, 46.9, 71.4, 81.3, 77.2, 73.4),
    *(73.9, 59.3, 59.1, 53.0, 80.61, 80.2, 83.0, 83.6),
)
_T1_ATTRIBUTION = (
    *(88.0, 74.6, 71.3, 55.7, 66.9, 73.9, 70.5, 86.8),
    *(89.3, 62.9, 65.4, 62.0, 73.03, 70.5, 76.4, 77.1),
)
_ISSUE_9 = "mertyg/vision-language-models-are-bows, issue 9"
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
    published=(
        *by_model(ARO_PAPER, ARO_MODELS, {_RELATIONS.name: (59, 63, 81)}),
        *by_model(VL_COMPO, VL_COMPO_MODELS, {"": (59.9, 61.5, 81.8, 81.2)}),
        *by_model(f"{CE_CLIP_PAPER}, table 1", _CE_CLIP_MODELS, {"": _T1_RELATION}),
        *by_model(f"{CE_CLIP_PAPER}, table 4", _ABLATIONS, {"": (81.6, 82.6, 82.3)}),
        *by_model(f"{CE_CLIP_PAPER}, table 5", ("CLIP-FT (CE-CLIP)",), {"": (61.7,)}),
        *by_model(_ISSUE_9, ARO_MODELS, {_RELATIONS.name: (59, 63, 81)}),
    ),
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
    published=(
        *by_model(ARO_PAPER, ARO_MODELS, {_PAIRS.name: (62, 65, 71)}),
        *by_model(VL_COMPO, VL_COMPO_MODELS, {"": (63.2, 61.9, 72.1, 75.7)}),
        *by_model(f"{CE_CLIP_PAPER}, table 1", _CE_CLIP_MODELS, {"": _T1_ATTRIBUTION}),
        *by_model(f"{CE_CLIP_PAPER}, table 4", _ABLATIONS, {"": (72.0, 75.8, 72.6)}),
        *by_model(f"{CE_CLIP_PAPER}, table 5", ("CLIP-FT (CE-CLIP)",), {"": (66.1,)}),
        *by_rule(_ISSUE_9, (_PAIRS.name,), {NEGCLIP: (71,)}),
    ),
)
