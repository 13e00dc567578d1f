"""What papers report on VL-CheckList: nothing comes in, PUBLISHED goes out.

How sources are averaged inside a column is not stated in the CE-CLIP paper; the columns stand here
under our rule, the mean over source files. Rows copied into its table 2 from elsewhere follow other
rules (methods.md 11.4): ALBEF and UNITER are means of the three groups, BLIP is neither.
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
    "macro attribute action",
    "macro attribute color",
    "macro attribute material",
    "macro attribute size",
    "macro attribute state",
    "macro attribute",
    "macro object location",
    "macro object size",
    "macro object",
    "macro relation action",
    "macro relation spatial",
    "macro relation",
)
_T2 = f"{CE_CLIP_PAPER}, table 2"
_GAP = None
_MACRO9 = {
    "BEIT3": (79.6, 78.5, 80.1, 63, 68.4, 73.9, 85.2, 83.8, 84.5, 76.6, 62.3, 69.4, 75.3),
    "BLIP2": (81.0, 86.2, 90.3, 61.7, 70.1, 77.8, 85.4, 84.3, 84.9, 84.9, 56.2, 70.6, 77.8),
    "XVLM-coco": (80.4, 81.1, 83.1, 60.3, 70.8, 75.1, 86.3, 85.3, 85.8, 79.0, 61.8, 70.4, 76.5),
    "CE-XVLM": (80.5, 76.0, 80.6, 67.2, 69.8, 74.8, 87.3, 86.6, 86.9, 80.8, 78.6, 79.7, 78.6),
    CLIP_B32: (70.5, 69.4, 69.5, 60.7, 67, 67.4, 80.2, 79.7, 80.0, 72.2, 53.8, 63.0, 69.2),
    NEGCLIP: (72.1, 75.7, 78.1, 61.3, 67.3, 70.9, 84.4, 83.8, 84.1, 80.7, 57.1, 68.9, 73.4),
    CE_CLIP: (75.6, 72.7, 79.7, 65.3, 69.8, 72.6, 84.8, 84.5, 84.6, 78.5, 65.0, 71.8, 75.1),
    CE_CLIP_PLUS: (78.5, 83.5, 85.2, 65.8, 70.8, 76.7, 86.7, 85.9, 86.3, 81.0, 68.4, 74.7, 78.4),
}
_MACRO3 = {
    "ALBEF": (81.7, 84.2, 87.3, 69.5, 72.08, 79.3, 81.7, 80.5, 81.1, 70.5, 64.6, 66.5, 75.6),
    "UNITER": (72.6, 76.2, 75.8, 63.5, 68.1, 71.3, 82.4, 81.5, 81.9, 69.2, 61.5, 64.7, 72.6),
}
_UNKNOWN = {
    "BLIP": (79.5, 83.2, 84.7, 59.8, 68.8, 75.2, 83.0, 81.3, 82.2, 59.5, 75.7, 70.5, 75.7),
    "CLIP-SVLC": (69.4, 77.5, 77.4, 73.4, 62.3, 72.0, _GAP, _GAP, 85.0, 74.7, 63.2, 68.95, 74.2),
    "CLIP-SGVL": (76.6, 78.0, 80.6, 59.7, 61.2, 71.2, 83.0, 81.3, 82.6, 79.0, _GAP, _GAP, _GAP),
}
_GROUPS_ONLY = {
    "MiniGPT-4": (71.3, 84.2, 84.1, _GAP),
    "syn-CLIP": (70.4, _GAP, _GAP, 69.4),
    "DAC-LLM": (77.3, 87.3, 86.4, _GAP),
    "DAC-SAM": (75.8, 88.5, 89.8, _GAP),
}
_ABLATIONS = (
    "CE-CLIP+ ablation: itc(hn)",
    "CE-CLIP+ ablation: IMC",
    "CE-CLIP+ ablation: itc(hn) + CMR",
)

PUBLISHED = (
    *by_model(VL_COMPO, VL_COMPO_MODELS, {"": (70.8, 71.6, 75.0, 76.9)}),
    *by_rule(_T2, (*_COLUMNS, "macro9"), _MACRO9),
    *by_rule(_T2, (*_COLUMNS, "macro3"), _MACRO3),
    *by_rule(_T2, (*_COLUMNS, ""), _UNKNOWN),
    *by_rule(
        _T2,
        ("macro attribute", "macro object", "macro relation action", "macro relation"),
        _GROUPS_ONLY,
    ),
    *by_model(f"{CE_CLIP_PAPER}, table 4", _ABLATIONS, {"macro9": (73.6, 76.6, 77.8)}),
    *by_model(f"{CE_CLIP_PAPER}, table 5", ("CLIP-FT (CE-CLIP)",), {"macro9": (68.6,)}),
)
