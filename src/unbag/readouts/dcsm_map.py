"""Vectors of pictures and captions come in; standardised maps of their cosines go out (7.1).

Dimensions: K calls, of which each compares P pictures with C captions; R rows of a map (CLS and
patches), L columns (tokens), W width, T functional words, N pictures or captions of all calls.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from unbag.readouts.dcsm_words import END, FUNCTIONAL

Only: TypeAlias = Literal["all", "cls", "eos", "cls_eos"]
LEAST_DEVIATION = 1e-6


class Moments(NamedTuple):
    """Mean and sample standard deviation, shaped to be taken off maps."""

    mean: Tensor
    deviation: Tensor


def functional_rows(rows: int, *, seed: int) -> Tensor:
    """What stands in a map for each functional word, [T, R]: about a third everywhere."""
    generator = torch.Generator().manual_seed(seed)
    drawn_TR = torch.randn((len(FUNCTIONAL), rows), generator=generator)
    return (functional.normalize(drawn_TR, dim=1) + 1) / 3


def cosine_maps(picture_NRW: Tensor, caption_NLW: Tensor, *, calls: int) -> Tensor:
    """All pictures with all captions of each call, [K, P, C, R, L], in one product."""
    rows, width = picture_NRW.shape[1:]
    length = caption_NLW.shape[1]
    flat = torch.bmm(
        picture_NRW.reshape(calls, -1, width), caption_NLW.reshape(calls, -1, width).transpose(1, 2)
    )
    pictures, captions = len(picture_NRW) // calls, len(caption_NLW) // calls
    return flat.view(calls, pictures, rows, captions, length).transpose(2, 3)


def with_words(map_KPCRL: Tensor, mark_NL: Tensor, row_TR: Tensor) -> Tensor:
    """Columns of functional words replaced by the row of the word, whatever the picture."""
    calls, _, captions, rows, length = map_KPCRL.shape
    mark_NL = mark_NL % END
    word_NRL = row_TR[(mark_NL - 1).clamp(min=0)].transpose(1, 2).to(map_KPCRL.dtype)
    return torch.where(
        (mark_NL > 0).view(calls, 1, captions, 1, length),
        word_NRL.reshape(calls, 1, captions, rows, length),
        map_KPCRL,
    )


def kept_cells(only: Only, mark_NL: Tensor, *, rows: int, calls: int) -> Tensor | None:
    """True in the row of CLS, or in the column where each caption ends, or in both.

    None where all cells count, else [K, 1, C, R, L].
    """
    if only == "all":
        return None
    is_end_NRL = (mark_NL >= END)[:, None].expand(-1, rows, -1)
    is_cls_NRL = torch.zeros_like(is_end_NRL)
    is_cls_NRL[:, 0] = True
    is_kept_NRL = {"cls": is_cls_NRL, "eos": is_end_NRL, "cls_eos": is_cls_NRL | is_end_NRL}[only]
    return is_kept_NRL.view(calls, 1, -1, *is_kept_NRL.shape[1:])


def moments(map_KPCRL: Tensor, keep: Tensor | None, *, by: Literal["map", "call"]) -> Moments:
    """Over the cells of each map, or over all maps of a call; those that are kept count."""
    dims = (3, 4) if by == "map" else (1, 2, 3, 4)
    if keep is None:
        variance, mean = torch.var_mean(map_KPCRL, dims, correction=1, keepdim=True)
        return Moments(mean, variance.sqrt().clamp(min=LEAST_DEVIATION))
    weight = keep.expand_as(map_KPCRL).to(map_KPCRL.dtype)
    count = weight.sum(dims, keepdim=True)
    mean = (map_KPCRL * weight).sum(dims, keepdim=True) / count
    squared = ((map_KPCRL - mean).square() * weight).sum(dims, keepdim=True)
    return Moments(mean, (squared / (count - 1)).sqrt().clamp(min=LEAST_DEVIATION))


def standardise(map_KPCRL: Tensor, found: Moments, keep: Tensor | None) -> Tensor:
    """Zero mean and unit deviation; cells that are not kept are 0."""
    map_KPCRL = (map_KPCRL - found.mean) / found.deviation
    return map_KPCRL if keep is None else map_KPCRL.masked_fill(~keep, 0)
