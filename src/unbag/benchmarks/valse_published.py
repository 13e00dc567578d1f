"""What papers report on VALSE: nothing comes in, PUBLISHED goes out.

Table 1 of the CE-CLIP paper mixes two averages (methods.md 11.4): most of its rows are macro11,
CE-CLIP+ and MiniGPT-4 are macro9, and CE-XVLM is neither.
"""

from __future__ import annotations

from unbag.benchmarks.published import (
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

_COLUMNS = (
    "micro[instrument=existence]",
    "micro[instrument=plurals]",
    "macro counting",
    "micro[instrument=relations]",
    "micro[instrument=action-replacement]",
    "micro[instrument=actant-swap]",
    "micro[instrument=coreference-standard]",
    "micro[instrument=coreference-hard]",
    "micro[instrument=foil-it]",
)
_T1 = f"{CE_CLIP_PAPER}, table 1"
_MACRO11 = {
    "BLIP": (86.3, 73.2, 68.1, 71.5, 77.2, 61.1, 53.8, 48.2, 93.8, 70.0),
    "BEIT3": (77.4, 74.6, 68.8, 74.0, 86.7, 65.2, 50.0, 44.2, 96.0, 70.4),
    "BLIP2": (55.5, 71.5, 66.0, 62.4, 83.6, 51.6, 48.6, 51.9, 95.9, 65.4),
    "XVLM-coco": (83.0, 75.6, 67.5, 70.2, 73.8, 68.6, 46.4, 49.6, 94.8, 69.5),
    CLIP_B32: (68.7, 57.1, 61.0, 65.4, 77.8, 71.8, 54.1, 51.0, 89.8, 65.3),
    "CyCLIP": (69.3, 58.3, 61.0, 66.4, 78.1, 72.0, 53.2, 51.6, 88.8, 65.5),
    NEGCLIP: (76.8, 71.7, 65.0, 72.9, 81.6, 84.7, 58.6, 53.8, 91.9, 71.6),
    CE_CLIP: (78.6, 77.7, 64.4, 74.4, 81.2, 88.6, 54.7, 54.8, 93.7, 72.5),
}
_MACRO9 = {
    "MiniGPT-4": (65.5, 72.5, 67.4, 68.4, 83.2, 58.8, 52.6, 51.0, 95.8, 68.4),
    CE_CLIP_PLUS: (84.5, 79.2, 67.8, 76.4, 83.4, 89.4, 56.7, 57.8, 94.7, 76.7),
}
_NEITHER = {"CE-XVLM": (83.5, 72.8, 72.1, 68.7, 71.8, 69.1, 51.0, 46.8, 93.8, 70.8)}
_ABLATIONS = (
    CLIP_B32,
    "CE-CLIP+ ablation: itc(hn)",
    "CE-CLIP+ ablation: IMC",
    "CE-CLIP+ ablation: itc(hn) + CMR",
)

PUBLISHED = (
    *by_model(VL_COMPO, VL_COMPO_MODELS, {"": (67.5, 67.5, 73.7, 76.7)}),
    *by_rule(_T1, (*_COLUMNS, "macro11"), _MACRO11),
    *by_rule(_T1, (*_COLUMNS, "macro9"), _MACRO9),
    *by_rule(_T1, (*_COLUMNS, ""), _NEITHER),
    *by_model(f"{CE_CLIP_PAPER}, table 4", _ABLATIONS, {"": (67.0, 74.2, 75.9, 75.5)}),
    *by_model(f"{CE_CLIP_PAPER}, table 5", ("CLIP-FT (CE-CLIP)",), {"": (71.8,)}),
)
