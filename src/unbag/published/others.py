"""Single results of benchmarks' own repositories: nothing comes in, TABLES go out."""

from __future__ import annotations

from unbag.published.names import CLIP_B32, CLIP_L14, CLIP_L14_336
from unbag.published.rules import MMVP_PATTERNS
from unbag.published.tables import Column, Table

_MMVP_VLM = Table(
    "tsb0601/MMVP",
    "figure of the repository",
    (
        *(Column(p, "mmvp_vlm", "image", f"micro[pattern={p}]") for p in MMVP_PATTERNS),
        Column("average", "mmvp_vlm", "image", "macro(pattern)"),
    ),
    {
        CLIP_L14: "- - - - - - - - - 19.3",
        CLIP_L14_336: "0 20 40 20 6.7 20 33.3 6.7 33.3 20.0",
    },
)
_WINOGROUND = Table(
    "nightingal3/winoground-project",
    "score matrix, measured again",
    tuple(Column(metric, "winoground", metric) for metric in ("text", "image", "group")),
    {CLIP_B32: "31.25 11.25 9.00"},
    digits=2,
)
# The authors call them I2T, T2I and group.
_BIVLC = Table(
    "IMirandaM/BiVLC",
    "results/BiVLC_ViT-B-32.csv, measured again",
    tuple(Column(metric, "bivlc", metric) for metric in ("text", "image", "group")),
    {CLIP_B32: "75.8 52.4 49.1"},
)
_PROMPT = 'the prompt "A photo depicts" stands before each caption'
_CLIPSCORE = Table(
    "Hessel et al. 2021 (CLIPScore)",
    "table 1",
    (
        Column("Flickr8k-Expert", "flickr8k", "tau_c"),
        Column("Flickr8k-CF", "flickr8k_crowd", "tau_b"),
    ),
    {CLIP_B32: "51.2 34.4"},
    notes={"flickr8k": _PROMPT, "flickr8k_crowd": _PROMPT},
)

TABLES = (_MMVP_VLM, _WINOGROUND, _BIVLC, _CLIPSCORE)
