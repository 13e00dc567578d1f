"""What the hard-positives paper reports: nothing comes in, PUBLISHED for REPLACE and SWAP goes out.

Tables 1, 3, 2 and 9. REPLACE is the mean of its two subsets; for mean scores the paper does not say
whether subsets or cases are averaged, and its tables 2 and 9 differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from unbag.benchmarks.published import CLIP_B32, HARD_POSITIVES_PAPER, NEGCLIP
from unbag.types import Published


class _Row(NamedTuple):
    """Percent."""

    original: float
    augmented: float
    brittleness: float


_REPLACE = {
    CLIP_B32: _Row(61.6, 46.8, 23.2),
    NEGCLIP: _Row(68.6, 52.1, 21.5),
    "CREPE-Swap": _Row(63.5, 50.4, 19.8),
    "CREPE-Replace": _Row(73.7, 53.9, 23.9),
    "SVLC": _Row(76.6, 44.5, 39.9),
    "SVLC+Pos": _Row(64.3, 45.0, 29.8),
    "DAC-LLM": _Row(87.6, 48.9, 40.1),
    "DAC-SAM": _Row(86.9, 55.9, 32.5),
    "HN only": _Row(73.9, 55.7, 21.0),
    "HP+HN": _Row(69.0, 58.0, 16.9),
    "HP+HN swap-only": _Row(63.9, 51.6, 18.6),
    "HP+HN replace-only": _Row(70.9, 59.0, 17.8),
    "HP only (w_n = 0)": _Row(58.5, 49.8, 15.8),
    "HP+HN (w_n = 0.25)": _Row(66.0, 55.5, 16.6),
    "HP+HN (w_n = 0.50)": _Row(67.3, 56.9, 16.4),
    "HP+HN (w_n = 0.75)": _Row(68.2, 57.6, 16.6),
    "human": _Row(97, 97, 0),
}
_SWAP = {
    CLIP_B32: _Row(60.5, 49.6, 21.7),
    NEGCLIP: _Row(70.9, 56.7, 26.4),
    "CREPE-Swap": _Row(70.6, 56.7, 26.0),
    "CREPE-Replace": _Row(71.1, 57.7, 25.4),
    "SVLC": _Row(72.4, 61.6, 20.8),
    "SVLC+Pos": _Row(56.5, 45.4, 22.8),
    "DAC-LLM": _Row(72.0, 61.1, 21.6),
    "DAC-SAM": _Row(69.5, 56.5, 25.6),
    "HN only": _Row(74.3, 60.5, 25.1),
    "HP+HN": _Row(73.2, 61.1, 22.9),
    "HP+HN swap-only": _Row(73.0, 61.9, 21.2),
    "HP+HN replace-only": _Row(69.7, 55.6, 26.5),
    "HP only (w_n = 0)": _Row(64.1, 51.2, 25.0),
    "HP+HN (w_n = 0.25)": _Row(71.6, 59.8, 22.8),
    "HP+HN (w_n = 0.50)": _Row(72.5, 60.5, 22.8),
    "HP+HN (w_n = 0.75)": _Row(72.9, 61.0, 22.7),
    "human": _Row(100, 100, 0),
}
_MEANS_T2 = {
    CLIP_B32: (0.234, 0.226, 0.229),
    "DAC-LLM": (0.160, 0.134, 0.131),
    "HP+HN": (0.232, 0.220, 0.231),
}
_MODELS_T9 = (
    *(CLIP_B32, NEGCLIP, "CREPE-Swap", "CREPE-Replace", "SVLC", "SVLC+Pos"),
    *("DAC-LLM", "DAC-SAM", "HP+HN"),
)
_REPLACE_T9 = (0.234, 0.225, 0.233, 0.214, 0.202, 0.223, 0.157, 0.228, 0.231)
_SWAP_T9 = (0.255, 0.239, 0.250, 0.228, 0.211, 0.228, 0.132, 0.224, 0.247)


def _rates(rows: Mapping[str, _Row], aggregate: str) -> tuple[Published, ...]:
    source = f"{HARD_POSITIVES_PAPER}, tables 1 and 3"
    return tuple(
        Published(model, metric, round(value / 100, 6), source, aggregate)
        for model, row in rows.items()
        for metric, value in zip(_Row._fields, row, strict=True)
    )


def _means_of_originals(values: tuple[float, ...], aggregate: str) -> tuple[Published, ...]:
    source = f"{HARD_POSITIVES_PAPER}, table 9"
    return tuple(
        Published(model, "mean_original", value, source, aggregate)
        for model, value in zip(_MODELS_T9, values, strict=True)
    )


REPLACE_PUBLISHED = (
    *_rates(_REPLACE, "macro(subset)"),
    *(
        Published(model, metric, value, f"{HARD_POSITIVES_PAPER}, table 2")
        for model, row in _MEANS_T2.items()
        for metric, value in zip(
            ("mean_original", "mean_negative", "mean_positive"), row, strict=True
        )
    ),
    *_means_of_originals(_REPLACE_T9, ""),
)
SWAP_PUBLISHED = (*_rates(_SWAP, "micro"), *_means_of_originals(_SWAP_T9, "micro"))
