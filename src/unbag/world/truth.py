"""The truth of many captions in many scenes at once, vectorised.

Works on numpy arrays and on torch tensors of any device, so that a training step can find the
accidentally true captions of its batch on the GPU. Tested to equal `grammar.holds` in every cell.

Dimensions: S scenes, C captions, T things of a scene (padded), R relations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import numpy as np

from unbag.types import BoolArray, IntArray
from unbag.world.grammar import And, Ast, Count, Has, Not, Obj, Rel, objects_of
from unbag.world.scenes import Scene, Thing, relations
from unbag.world.vocabulary import COLOURS, MAX_THINGS, NOUNS, RELATIONS, SIZES, TEXTURES

if TYPE_CHECKING:
    from torch import Tensor


Array = TypeVar("Array", IntArray, "Tensor")

# A thing is one integer: 8 bits per attribute (0 means none) and a bit that says it exists.
_CODES: tuple[dict[str, int], ...] = tuple(
    {name: number + 1 for number, name in enumerate(names)}
    for names in ([noun.name for noun in NOUNS], COLOURS, SIZES, TEXTURES)
)
_EXISTS = 1 << 32
_RELATION_CODE = {name: number for number, name in enumerate(RELATIONS)}
_KIND: dict[type[Ast], int] = {Obj: 0, And: 1, Rel: 2, Count: 3, Not: 4, Has: 5}


def holds_matrix(captions: Sequence[Ast], scenes: Sequence[Scene]) -> BoolArray:
    """[S, C]: whether each caption holds in each scene."""
    return cast("BoolArray", holds_codes(encode_texts(captions), encode_scenes(scenes)))


def holds_codes(captions: CaptionCodes[Array], scenes: SceneCodes[Array]) -> Array:
    """[S, C] of bool: `holds` for every caption and scene."""
    things = scenes.thing_ST.shape[1]
    kind_C, number_C = captions.kind_C, captions.number_C
    first_SC: Array = scenes.thing_ST[:, 0, None] * 0 + captions.kind_C * 0
    second_SC, count_SC = first_SC, first_SC
    for t in range(things):
        thing_S1 = scenes.thing_ST[:, t, None]
        fits_SC = (thing_S1 & captions.first_mask_C) == captions.first_value_C
        other_SC = (thing_S1 & captions.second_mask_C) == captions.second_value_C
        first_SC = first_SC + fits_SC * (1 << t)
        second_SC = second_SC + other_SC * (1 << t)
        count_SC = count_SC + fits_SC
    is_first_SC, is_second_SC = first_SC != 0, second_SC != 0
    # Two different things exist if each description fits one and together they fit two (Hall).
    either_SC = first_SC | second_SC
    both_SC = is_first_SC & is_second_SC & ((either_SC & (either_SC - 1)) != 0)
    related_SC = _relation_holds(captions, scenes, first_SC, second_SC)
    truth_SC: Array = (
        ((kind_C == _KIND[Obj]) & is_first_SC)
        | ((kind_C == _KIND[And]) & both_SC)
        | ((kind_C == _KIND[Rel]) & related_SC)
        | ((kind_C == _KIND[Count]) & (count_SC == number_C))
        | ((kind_C == _KIND[Not]) & ~is_first_SC)
        | ((kind_C == _KIND[Has]) & is_first_SC & ~is_second_SC)
    )
    return truth_SC


def _relation_holds(
    captions: CaptionCodes[Array], scenes: SceneCodes[Array], first_SC: Array, second_SC: Array
) -> Array:
    relation_C = captions.number_C * (captions.kind_C == _KIND[Rel])
    related_SC: Array = first_SC != first_SC
    for i in range(scenes.thing_ST.shape[1]):
        partners_SC = scenes.related_SRT[:, :, i][:, relation_C]
        related_SC = related_SC | (((first_SC & (1 << i)) != 0) & ((partners_SC & second_SC) != 0))
    return related_SC


def encode_scenes(scenes: Sequence[Scene]) -> SceneCodes[IntArray]:
    """Encode scenes of at most five things as integers."""
    rows = []
    related_SRT = np.zeros((len(scenes), len(RELATIONS), MAX_THINGS), dtype=np.int64)
    for s, scene in enumerate(scenes):
        row = [_packed(thing)[1] for thing in scene.things]
        rows.append(row + [0] * (MAX_THINGS - len(row)))
        for i, name, j in relations(scene):
            related_SRT[s, _RELATION_CODE[name], i] |= 1 << j
    thing_ST = np.array(rows, dtype=np.int64).reshape(len(scenes), MAX_THINGS)
    return SceneCodes(thing_ST, related_SRT)


def encode_texts(captions: Sequence[Ast]) -> CaptionCodes[IntArray]:
    """Encode captions as integers."""
    rows = []
    for ast in captions:
        objects = objects_of(ast)
        first, second = _packed(objects[0]), _packed(objects[-1])
        number = ast.n if isinstance(ast, Count) else 0
        number = _RELATION_CODE[ast.relation] if isinstance(ast, Rel) else number
        rows.append((_KIND[type(ast)], *first, *second, number))
    row_C6 = np.array(rows, dtype=np.int64).reshape(len(captions), 6)
    return CaptionCodes(*(row_C6[:, column].copy() for column in range(6)))


@dataclass(frozen=True, eq=False)
class SceneCodes(Generic[Array]):
    """Scenes as integers."""

    thing_ST: Array
    """One integer per thing, 0 where there is none."""
    related_SRT: Array
    """Bit j of [s, r, i] is set where thing i is in relation r to thing j."""


@dataclass(frozen=True, eq=False)
class CaptionCodes(Generic[Array]):
    """Captions as integers. A thing fits a description if `thing & mask == value`."""

    kind_C: Array
    first_mask_C: Array
    first_value_C: Array
    second_mask_C: Array
    second_value_C: Array
    number_C: Array
    """The number of a count, or the code of the relation."""


def _packed(described: Obj | Thing) -> tuple[int, int]:
    """(mask, value): the bits that the description fixes, and their values."""
    return _bits(described.shape, described.colour, described.size, described.texture)


@cache
def _bits(*names: str | None) -> tuple[int, int]:
    mask, value = _EXISTS, _EXISTS
    for place, (codes, name) in enumerate(zip(_CODES, names, strict=True)):
        if name is not None:
            mask |= 0xFF << 8 * place
            value |= codes[name] << 8 * place
    return mask, value
