"""Opposite pairs of scenes of the world, the training data of DCSM (methods.md 7.1).

Spatial pairs exchange two things, colour and size pairs their attributes. Negation pairs show one
thing and not the other. Each pair has two versions of its captions ("a above b" and "b below a"),
and every caption is checked to hold in its own scene only.

Dimensions: S scenes, N rows (a scene with one version of its caption), B rows of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from zlib import crc32

import numpy as np
import torch
from numpy.random import Generator

from unbag.errors import UnbagError, unknown_name
from unbag.models.features import View
from unbag.readouts.data import STEP, Pool, WorldRows, world_pool
from unbag.runs.progress import Progress
from unbag.training.data.world import DEFAULT_PRESET, SceneTexts, drawn, encode, find_preset
from unbag.types import DualEncoder
from unbag.world.grammar import And, Has, Not, Obj, Statement, Style, holds, read
from unbag.world.placement import Look, jittered, place_apart, sample_look
from unbag.world.quads import FLAT, Quad, quad
from unbag.world.scenes import Scene, is_clear
from unbag.world.stream import Withheld, split_seed, withheld
from unbag.world.vocabulary import DEFAULT, Relation, World

_TRAIN = 2**30
"""First seed of the training split for these scenes; `unbag train` uses other seeds."""


def composites(
    count: int,
    *,
    seed: int = 0,
    kinds: Sequence[str] = (),
    world: World = DEFAULT,
    preset: str = DEFAULT_PRESET,
) -> tuple[Quad, ...]:
    """Return pairs of scenes with kinds and relations in turn; pair i is the same for any count.

    Combinations that the preset withholds from training are neither drawn nor named.
    """
    chosen_kinds = tuple(kinds) or tuple(KINDS)
    for kind in chosen_kinds:
        if kind not in KINDS:
            raise unknown_name("kind of composite", kind, KINDS)
    if count < 1:
        raise UnbagError(f"{count} composites", expected="at least one")
    withheld_pairs = withheld(world, find_preset(preset))
    entropy = split_seed("train", _TRAIN + seed), crc32(b"composites")
    quads = []
    for i in range(count):
        kind, turn = chosen_kinds[i % len(chosen_kinds)], i // len(chosen_kinds)
        rng = np.random.default_rng((*entropy, i))
        quads.append(KINDS[kind](world, rng, FLAT[turn % len(FLAT)], withheld_pairs))
    return tuple(quads)


def composite_pool(
    encoder: DualEncoder,
    view: View,
    quads: Sequence[Quad],
    *,
    dtype: torch.dtype = torch.float16,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Pool:
    """Return a pool in which rows 2i and 2i + 1 are opposites and each other's negatives.

    Each pair occurs with both versions of its captions. With `negatives=false` and a
    `contrast_size` as large as the batch, DCSM is trained as in the paper: every row against all
    others, its opposite among them.
    """
    rows = [_rows(quads[at : at + STEP // 2]) for at in range(0, len(quads), STEP // 2)]
    pool = world_pool(encoder, view, rows, dtype=dtype, device=device, progress=progress)
    # The second version has the reverse order, so that rows of one image are neighbours and the
    # held-out split can avoid separating them.
    place_N = torch.arange(4 * len(quads), device=device)
    row_N = 2 * (place_N // 4) + torch.tensor([0, 1, 1, 0], device=device)[place_N % 4]
    is_second_N = place_N % 4 > 1
    text_S3 = pool.negative_NK
    caption_N = torch.where(is_second_N, text_S3[row_N, 1], pool.caption_N[row_N])
    negative_N = torch.where(is_second_N, text_S3[row_N, 2], text_S3[row_N, 0])
    # Codes from which the truth of a batch follows, for both versions of each scene.
    code = {name: torch.cat([block.code[name] for block in rows]) for name in rows[0].code}
    code = {name: value.to(device)[row_N] for name, value in code.items()}
    other_N6 = code["negative_BK6"][:, 1]
    code["caption_B6"] = torch.where(is_second_N[:, None], other_N6, code["caption_B6"])
    code["negative_BK6"] = code["negative_BK6"][:, :0].clone()
    return replace(
        pool,
        image_N=row_N,
        caption_N=caption_N,
        negative_NK=negative_N[:, None],
        code=code,
        group=2,
        about=f"{len(quads):,} pairs of opposite scenes of the built-in world, "
        f"{len(pool.caption):,} different captions",
    )


def _rows(quads: Sequence[Quad]) -> WorldRows:
    """Return both scenes of each quad, with caption, opposite caption and their other versions."""
    scenes, descriptions = [], []
    for q in quads:
        for side in (0, 1):
            own, other = ([read(text) for text in q.captions[at]] for at in (side, 1 - side))
            scenes.append(q.scenes[side])
            descriptions.append(SceneTexts(own[0], (other[0], own[1], other[1]), ()))
    texts = [
        [statement.text for statement in q.negatives if statement is not None] for q in descriptions
    ]
    return WorldRows(
        tuple(scenes),
        tuple(q.caption.text for q in descriptions),
        tuple(map(tuple, texts)),
        drawn(scenes),
        encode(scenes, descriptions),
    )


def _exchange_maker(family: str) -> _Make:
    """Return a maker of pairs whose things exchange places or attributes (`unbag.world.quads`)."""

    def make(world: World, rng: Generator, relation: Relation, withheld_pairs: Withheld) -> Quad:
        return quad(family, world, rng, relation=relation, accept=_is_allowed(withheld_pairs))

    return make


def _size_pair(world: World, rng: Generator, relation: Relation, withheld_pairs: Withheld) -> Quad:
    """Make a pair with a small and a big thing, and the sizes exchanged in the second scene."""
    while True:
        a, b = _draw_two_looks(world, rng, withheld_pairs)
        first = place_apart(world, (replace(a, size="small"), replace(b, size="large")), rng)
        x, y = first.things
        second = replace(first, things=(replace(x, size="large"), replace(y, size="small")))
        small_a, big_b = Obj(a.shape, size="small"), Obj(b.shape, size="large")
        big_a, small_b = Obj(a.shape, size="large"), Obj(b.shape, size="small")
        result = _quad_if_valid(
            "size",
            (first, second),
            (_with_big(small_a, big_b), _with_big(big_b, small_a)),
            (_with_big(big_a, small_b), _with_big(small_b, big_a)),
            negative="swap_attributes",
        )
        if result:
            return result


def _with_big(first: Obj, second: Obj) -> Statement:
    """Return a statement that says "big", the word in the published list of functional words."""
    rare = frozenset({(0 if first.size == "large" else 1, "size")})
    return Statement(And(first, second), Style(rare=rare))  # type: ignore[arg-type]


def _negation_pair(
    world: World, rng: Generator, relation: Relation, withheld_pairs: Withheld
) -> Quad:
    """Make a pair that shows one of two things beside a third, and the other in its place."""
    while True:
        a, b = _draw_two_looks(world, rng, withheld_pairs)
        other = sample_look(world, rng)
        if other.shape in (a.shape, b.shape) or not _is_allowed(withheld_pairs)(a, other):
            continue
        first = place_apart(world, (a, other), rng)
        thing = replace(
            first.things[0], shape=b.shape, colour=b.colour, rgb=jittered(b.colour, rng)
        )
        second = replace(first, things=(thing, first.things[1]))
        x, y = Obj(a.shape), Obj(b.shape)
        without = Style(negation="without")
        result = _quad_if_valid(
            "negation",
            (first, second),
            (Statement(Has(x, Not(y))), Statement(Has(x, Not(y)), without)),
            (Statement(Has(y, Not(x))), Statement(Has(y, Not(x)), without)),
            negative="swap_arguments",
        )
        if result and _is_allowed(withheld_pairs)(b, other):
            return result


def _quad_if_valid(
    kind: str,
    scenes: tuple[Scene, Scene],
    first: tuple[Statement, Statement],
    second: tuple[Statement, Statement],
    *,
    negative: str,
) -> Quad | None:
    """Return the quad if each caption holds in its own scene only, else None."""
    is_valid = all(map(is_clear, scenes)) and all(
        holds(statement.ast, scenes[side]) and not holds(statement.ast, scenes[1 - side])
        for side, statements in enumerate((first, second))
        for statement in statements
    )
    if not is_valid:
        return None
    captions = ((first[0].text, first[1].text), (second[0].text, second[1].text))
    return Quad(kind, scenes, captions, negative=negative, positive="conjunct_swap")


def _draw_two_looks(world: World, rng: Generator, withheld_pairs: Withheld) -> tuple[Look, Look]:
    """Draw two things of different shape and colour."""
    while True:
        a, b = sample_look(world, rng), sample_look(world, rng)
        if a.shape != b.shape and a.colour != b.colour and _is_allowed(withheld_pairs)(a, b):
            return a, b


def _is_allowed(withheld_pairs: Withheld) -> Callable[[Look, Look], bool]:
    """Return a test of whether two things may be in one training scene."""
    return lambda a, b: withheld_pairs.allows((a.shape, a.colour), (b.shape, b.colour))


_Make = Callable[[World, Generator, Relation, Withheld], Quad]
KINDS: Mapping[str, _Make] = {
    "spatial": _exchange_maker("relation"),
    "colour": _exchange_maker("swap"),
    "size": _size_pair,
    "negation": _negation_pair,
}
"""Functions that make a pair of scenes, by the kind of opposite."""
