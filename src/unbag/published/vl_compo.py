"""vl_compo, many models through one code base: nothing comes in, its TABLES go out.

Taken from individual_results.csv and, for the averages, results.csv of that repository, rounded to
two decimals. Neither file says how it averages; which rule fits is found from the cells.
"""

from __future__ import annotations

from unbag.published.names import CE_CLIP, CLIP_B32, CLIP_L14, NEGCLIP, VL_COMPO
from unbag.published.rules import CHECKLIST_PARTS, SUGARCREPE_KINDS, VALSE_INSTRUMENTS
from unbag.published.tables import Column, Table

_SHUFFLED = "four shuffles of its own drawing"
_LOCATIONS = CHECKLIST_PARTS["object location"]
_SIZES = CHECKLIST_PARTS["object size"]

_CELLS = Table(
    VL_COMPO,
    "individual_results.csv",
    (
        Column("VG_Relation", "aro_relation", rule=None),
        Column("VG_Attribute", "aro_attribution", rule=None),
        Column("Flickr30k_Order", "aro_order_flickr30k"),
        Column("COCO_Order", "aro_order_coco"),
        *(Column(f"colorswap {m}", "colorswap", m) for m in ("text", "image", "group")),
        *(Column(f"crepe {k}", "crepe", rule=f"productivity {k}") for k in ("atom", "swap")),
        Column("crepe negate", "crepe", rule="productivity negate"),
        *(
            Column(f"svo {part}", "svo_probes", "picture_accuracy", f"micro[negative={part}]")
            for part in ("subject", "verb", "object")
        ),
        Column("WhatsUp_A", "whatsup_a", "individual4"),
        Column("WhatsUp_B", "whatsup_b", "individual4"),
        *(
            Column(f"{name} {objects}", f"{name}_spatial", rule=f"micro[objects={objects}]")
            for name in ("coco", "gqa")
            for objects in ("one", "two")
        ),
        *(Column(f"winoground {m}", "winoground", m) for m in ("text", "image", "group")),
        *(
            Column(f"{name} {way}@{k}", f"{name}_retrieval", f"{way}@{k}")
            for name in ("coco", "flickr30k")
            for way in ("image_to_text", "text_to_image")
            for k in (1, 5, 10)
        ),
        Column("cifar10", "cifar10"),
        Column("cifar100", "cifar100"),
        Column("imagenet-1k", "imagenet1k"),
    ),
    {
        CLIP_B32: "59.90 63.20 59.56 47.56 35.67 15.00 12.00 18.96 17.26 34.90 84.07 79.73 88.62 "
        "30.58 30.88 43.26 50.68 46.29 47.08 31.25 11.00 8.75 50.12 75.00 83.54 30.45 55.97 66.86 "
        "78.80 94.90 98.20 58.76 83.50 90.04 89.83 65.08 63.34",
        CLIP_L14: "61.52 61.86 56.58 46.58 32.67 12.67 7.33 21.01 16.96 22.88 86.56 82.44 89.68 "
        "26.46 25.25 48.82 49.77 45.52 48.11 28.75 11.00 8.50 56.28 79.36 86.56 36.49 61.08 71.15 "
        "85.20 97.50 99.10 64.92 87.20 92.06 95.57 78.28 75.54",
        NEGCLIP: "81.76 72.07 87.14 82.56 38.00 24.00 18.33 32.16 42.55 16.15 91.98 86.83 93.42 "
        "33.25 37.75 45.97 46.14 46.12 48.11 30.25 11.00 8.00 59.34 82.80 89.44 45.15 72.06 81.72 "
        "85.70 96.40 98.80 71.58 91.80 95.68 88.88 63.20 60.93",
        CE_CLIP: "81.20 75.67 75.80 72.41 32.67 22.00 13.33 40.44 42.42 20.83 90.40 87.43 92.47 "
        "31.07 30.39 42.01 51.82 47.07 47.77 19.50 12.00 5.25 56.04 81.72 89.02 47.09 74.11 83.08 "
        "75.30 93.20 96.90 68.94 89.58 94.14 85.90 60.21 49.92",
    },
    digits=2,
    notes={
        "aro_order_coco": _SHUFFLED,
        "aro_order_flickr30k": _SHUFFLED,
        "crepe": "it does not say how it averages over complexities",
    },
)
_SUGARCREPE = Table(
    VL_COMPO,
    "individual_results.csv",
    tuple(Column(kind, "sugarcrepe", rule=f"micro[kind={kind}]") for kind in SUGARCREPE_KINDS),
    {
        CLIP_B32: "90.92 80.08 69.20 61.22 63.96 77.21 68.79",
        CLIP_L14: "94.07 79.19 65.15 60.41 62.31 78.32 71.53",
        NEGCLIP: "93.83 87.94 74.40 75.92 77.03 90.06 85.12",
        CE_CLIP: "94.25 90.36 81.15 74.69 76.58 92.39 91.91",
    },
    digits=2,
)
_VALSE = Table(
    VL_COMPO,
    "individual_results.csv",
    tuple(Column(name, "valse", rule=f"micro[instrument={name}]") for name in VALSE_INSTRUMENTS),
    {
        CLIP_B32: "69.31 57.58 64.52 61.89 58.18 65.98 77.78 71.76 54.94 51.92 90.14",
        CLIP_L14: "66.34 57.93 64.06 67.56 66.43 57.76 83.64 69.02 53.53 56.73 92.68",
        NEGCLIP: "75.05 70.15 69.24 71.22 54.12 68.97 82.87 85.14 60.31 59.62 93.00",
        CE_CLIP: "78.42 77.91 68.66 71.78 60.93 73.83 81.17 87.57 59.89 62.50 94.27",
    },
    digits=2,
    mended=frozenset({"valse"}),
)
_FIRST_ROWS = {
    "vl_checklist": "the official code reads the first 1,000 rows of a file; here all are read"
}
_CHECKLIST = Table(
    VL_COMPO,
    "individual_results.csv",
    (
        *(Column(name, "vl_checklist", rule=name, is_part=True) for name in (*_LOCATIONS, *_SIZES)),
        *(
            Column(name, "vl_checklist", rule=f"macro attribute {name}")
            for name in ("action", "color", "material", "size", "state")
        ),
        Column("relation action", "vl_checklist", rule="macro relation action"),
        Column("relation spatial", "vl_checklist", rule="macro relation spatial"),
    ),
    {
        CLIP_B32: "87.42 74.95 84.43 87.21 81.57 74.10 70.60 69.55 69.75 61.10 67.30 72.07 54.00",
        CLIP_L14: "88.69 77.19 85.45 88.94 83.15 77.56 73.30 67.75 70.55 60.95 68.65 73.13 52.70",
        NEGCLIP: "90.38 79.45 87.84 90.28 84.26 78.59 72.15 75.70 78.20 61.20 67.52 80.43 57.10",
        CE_CLIP: "90.23 79.56 87.91 90.54 84.51 78.27 72.65 73.25 80.20 64.95 68.43 77.47 69.90",
    },
    digits=2,
    notes=_FIRST_ROWS,
)
_AVERAGES = Table(
    VL_COMPO,
    "results.csv",
    (
        # Fifteen pairs in each of nine patterns: the mean over patterns is the mean over pairs.
        Column("mmvp_vlm", "mmvp_vlm", "group", "micro"),
        Column("sugarcrepe", "sugarcrepe", rule=None),
        Column("valse", "valse", rule=None),
        Column("vl_checklist", "vl_checklist", rule=None),
    ),
    {
        CLIP_B32: "6.67 73.03 67.53 70.77",
        CLIP_L14: "7.41 72.95 67.45 71.55",
        NEGCLIP: "14.07 83.69 73.72 74.95",
        CE_CLIP: "14.81 85.67 76.73 76.92",
    },
    digits=2,
    mended=frozenset({"valse"}),
    notes=_FIRST_ROWS,
)

TABLES = (_CELLS, _SUGARCREPE, _VALSE, _CHECKLIST, _AVERAGES)
