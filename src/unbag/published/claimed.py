"""Numbers and orders that papers state in words: nothing comes in, lists of statements go out."""

from __future__ import annotations

from unbag.published.ce_clip import T1 as CE_T1
from unbag.published.ce_clip import T2 as CE_T2
from unbag.published.ce_clip import T5 as CE_T5
from unbag.published.claims import Gain, Order, Restated
from unbag.published.hard_positives import PEOPLE, T1, T10
from unbag.published.names import (
    CE_CLIP,
    CE_CLIP_PAPER,
    CE_CLIP_PLUS,
    CLIP_B32,
    HARD_POSITIVES_PAPER,
    HUMAN,
    NEGCLIP,
)

_ABSTRACT, _TEXT = f"{CE_CLIP_PAPER}, abstract", f"{CE_CLIP_PAPER}, text"
_RECALLS = ("COCO text-to-image", "COCO image-to-text")
_CHECKLIST = ("VL-CheckList Avg.",)
GAINS = (
    Gain(_TEXT, "11.4", CE_CLIP_PLUS, CLIP_B32, CE_T1, ("VALSE Avg.",), "gain on VALSE"),
    Gain(_ABSTRACT, "5.9", CE_CLIP, CLIP_B32, CE_T2, _CHECKLIST, "gain on VL-CheckList"),
    Gain(_TEXT, "5.2", CE_CLIP, CLIP_B32, CE_T2, _CHECKLIST, "gain on VL-CheckList"),
    Gain(CE_T5.source, "13.4", CE_CLIP_PLUS, CLIP_B32, CE_T5, _RECALLS[:1], "text-to-image gain"),
    Gain(_TEXT, "7.5", CE_CLIP_PLUS, CLIP_B32, CE_T5, _RECALLS, "gain in retrieval"),
)

_WORDS = f"{HARD_POSITIVES_PAPER}, text"
_REPLACED = ("CREPE-Replace", "SVLC", "SVLC+Pos", "DAC-LLM", "DAC-SAM")
ORDERS = (
    Order(_WORDS, _REPLACED, CLIP_B32, T1, ("SWAP brittleness",), "said to be more brittle"),
    Order(
        _WORDS,
        (NEGCLIP, "CREPE-Swap", *_REPLACED),
        CLIP_B32,
        T1,
        ("REPLACE orig.", "SWAP orig."),
        "hard negatives are said to help",
    ),
    Order(
        _WORDS,
        ("HP+HN",),
        CLIP_B32,
        T10,
        tuple(column.name for column in T10.columns),
        "said to lose nothing on standard tasks",
        is_strict=False,
    ),
)

_FILES = "in the released files"


def _people(column: str) -> str:
    cell = PEOPLE.cell(HUMAN, column)
    return str(cell.number) if cell else ""


RESTATED = (
    Restated(
        _WORDS,
        HUMAN,
        "accuracy of people",
        "99",
        {f"for {column} in table 1": _people(column) for column in ("REPLACE orig.", "SWAP orig.")},
    ),
    Restated(_WORDS, "all models", "source words of relations", "14", {_FILES: "15"}),
    Restated(_WORDS, "all models", "source words of attributes", "24", {_FILES: "23"}),
)
