"""The ARO paper's table: nothing comes in, TABLES go out."""

from __future__ import annotations

from unbag.published.names import ARO_PAPER, CLIP_B32, NEGCLIP
from unbag.published.tables import Column, Table

RELATIONS = "macro(relation, without 157)"
PAIRS = "macro(pair, n>=25)"
CLIP_FT = "CLIP-FT (ARO)"
_DRAWN = "6,000 cases drawn, not all"

_MAIN = Table(
    ARO_PAPER,
    "table of ARO and other tasks",
    (
        Column("VG-Relation", "aro_relation", rule=RELATIONS),
        Column("VG-Attribution", "aro_attribution", rule=PAIRS),
        Column("Flickr30k-PRC", "aro_order_flickr30k"),
        Column("COCO-PRC", "aro_order_coco"),
        Column("Flickr30k image R@1", "flickr30k_retrieval", "text_to_image@1"),
        Column("Flickr30k text R@1", "flickr30k_retrieval", "image_to_text@1"),
        Column("COCO image R@1", "coco_retrieval", "text_to_image@1"),
        Column("COCO text R@1", "coco_retrieval", "image_to_text@1"),
    ),
    {
        CLIP_B32: "0.59 0.62 0.59 0.46 0.59 0.78 0.30 0.50",
        CLIP_FT: "0.63 0.65 0.50 0.36 0.67 0.83 0.42 0.59",
        NEGCLIP: "0.81 0.71 0.91 0.86 0.67 0.79 0.41 0.56",
    },
    digits=0,
    unit="fraction",
    notes={"aro_order_coco": _DRAWN, "aro_order_flickr30k": _DRAWN},
)
# Issues 18 and 29 of its repository: logistic regression on picture features, not prompts.
_PROBES = Table(
    ARO_PAPER,
    "table of ARO and other tasks",
    (Column("CIFAR10", "cifar10"), Column("CIFAR100", "cifar100"), Column("IN", "imagenet1k")),
    {CLIP_B32: "0.95 0.80 0.75", CLIP_FT: "0.95 0.80 0.74", NEGCLIP: "0.94 0.79 0.72"},
    scoring="linear probe",
    digits=0,
    unit="fraction",
)
_ISSUE_9 = Table(
    "mertyg/vision-language-models-are-bows",
    "issue 9",
    (
        Column("VG-Relation", "aro_relation", rule=RELATIONS),
        Column("VG-Attribution", "aro_attribution", rule=PAIRS),
    ),
    {CLIP_B32: "59 -", CLIP_FT: "63 -", NEGCLIP: "81 71"},
    digits=0,
)

TABLES = (_MAIN, _PROBES, _ISSUE_9)
