"""The hard-positives paper's tables 1, 2, 3, 9 and 10: nothing comes in, TABLES go out.

REPLACE is the mean of its two subsets. For mean scores the paper does not say whether subsets or
cases are averaged. Its tables 4, 5, 7 and 8 could not be read.
"""

from __future__ import annotations

from unbag.published.names import CLIP_B32, HARD_POSITIVES_PAPER, HUMAN, NEGCLIP
from unbag.published.tables import Column, Table

REPLACE, SWAP = "hard_positive_replace", "hard_positive_swap"

_RATES = (
    Column("REPLACE orig.", REPLACE, "original", "macro(subset)"),
    Column("REPLACE aug.", REPLACE, "augmented", "macro(subset)"),
    Column("REPLACE drop", minus=("REPLACE orig.", "REPLACE aug.")),
    Column("SWAP orig.", SWAP, "original"),
    Column("SWAP aug.", SWAP, "augmented"),
    Column("SWAP drop", minus=("SWAP orig.", "SWAP aug.")),
    Column("REPLACE brittleness", REPLACE, "brittleness", "macro(subset)"),
    Column("SWAP brittleness", SWAP, "brittleness"),
)
T1 = Table(
    HARD_POSITIVES_PAPER,
    "table 1",
    _RATES,
    {
        CLIP_B32: "61.6 46.8 14.9 60.5 49.6 10.9 23.2 21.7",
        NEGCLIP: "68.6 52.1 16.6 70.9 56.7 14.2 21.5 26.4",
        "CREPE-Swap": "63.5 50.4 13.1 70.6 56.7 13.9 19.8 26.0",
        "CREPE-Replace": "73.7 53.9 19.8 71.1 57.7 13.4 23.9 25.4",
        "SVLC": "76.6 44.5 32.1 72.4 61.6 10.9 39.9 20.8",
        "SVLC+Pos": "64.3 45.0 19.3 56.5 45.4 11.1 29.8 22.8",
        "DAC-LLM": "87.6 48.9 38.7 72.0 61.1 10.9 40.1 21.6",
        "DAC-SAM": "86.9 55.9 31.0 69.5 56.5 13.0 32.5 25.6",
    },
)
T3 = Table(
    HARD_POSITIVES_PAPER,
    "table 3",
    _RATES,
    {
        "HN only": "73.9 55.7 18.2 74.3 60.5 13.8 21.0 25.1",
        "HP+HN": "69.0 58.0 11.0 73.2 61.1 12.1 16.9 22.9",
        "HP+HN swap-only": "63.9 51.6 12.3 73.0 61.9 11.2 18.6 21.2",
        "HP+HN replace-only": "70.9 59.0 11.9 69.7 55.6 14.1 17.8 26.5",
        "HP only (w_n = 0)": "58.5 49.8 8.6 64.1 51.2 12.9 15.8 25.0",
        "HP+HN (w_n = 0.25)": "66.0 55.5 10.5 71.6 59.8 11.8 16.6 22.8",
        "HP+HN (w_n = 0.50)": "67.3 56.9 10.5 72.5 60.5 12.0 16.4 22.8",
        "HP+HN (w_n = 0.75)": "68.2 57.6 10.6 72.9 61.0 11.9 16.6 22.7",
    },
)
PEOPLE = Table(
    HARD_POSITIVES_PAPER,
    "table 1",
    _RATES,
    {HUMAN: "97 97 - 100 100 - 0 0"},
    scoring="people",
    digits=0,
)
_T2 = Table(
    HARD_POSITIVES_PAPER,
    "table 2",
    tuple(
        Column(name, REPLACE, f"mean_{name}", None) for name in ("original", "negative", "positive")
    ),
    {
        CLIP_B32: ".234 .226 .229",
        "DAC-LLM": ".160 .134 .131",
        "HP+HN": ".232 .220 .231",
    },
    unit="score",
)
_T9 = Table(
    HARD_POSITIVES_PAPER,
    "table 9",
    (
        Column("REPLACE", REPLACE, "mean_original", None),
        Column("SWAP", SWAP, "mean_original"),
    ),
    {
        CLIP_B32: ".234 .255",
        NEGCLIP: ".225 .239",
        "CREPE-Swap": ".233 .250",
        "CREPE-Replace": ".214 .228",
        "SVLC": ".202 .211",
        "SVLC+Pos": ".223 .228",
        "DAC-LLM": ".157 .132",
        "DAC-SAM": ".228 .224",
        "HP+HN": ".231 .247",
    },
    unit="score",
)
T10 = Table(
    HARD_POSITIVES_PAPER,
    "table 10",
    (
        Column("ImageNet @1", "imagenet1k"),
        Column("ImageNet @5", "imagenet1k", "top5"),
        Column("COCO image R@1", "coco_retrieval", "text_to_image@1"),
        Column("COCO text R@1", "coco_retrieval", "image_to_text@1"),
        Column("Flickr30k image R@1", "flickr30k_retrieval", "text_to_image@1"),
        Column("Flickr30k text R@1", "flickr30k_retrieval", "image_to_text@1"),
        Column("VTAB @1"),
        Column("VTAB @5"),
    ),
    {
        CLIP_B32: "63.33 88.83 30.46 50.14 58.82 77.40 39.00 70.90",
        "CLIP-COCO": "53.18 81.98 50.34 66.76 68.48 83.40 34.67 68.55",
        "HN only": "50.40 79.58 49.61 63.98 67.80 80.10 32.40 67.53",
        "HP+HN": "49.85 79.70 49.67 65.02 67.52 80.60 33.24 67.75",
    },
    digits=2,
)

TABLES = (T1, T3, PEOPLE, _T2, _T9, T10)
