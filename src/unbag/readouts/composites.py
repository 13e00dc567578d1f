"""Scenes of the world in opposite pairs, with which DCSM is taught (methods.md 7.1).

Spatial: two things exchanged. Colour and size: what they look like exchanged. Negation: one thing
and not the other, and the reverse. Each pair comes with two versions of its captions ("a above b"
and "b below a"); every caption is checked to hold in its own scene only.

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
"""First of the seeds of the training split that are drawn here; `unbag train` takes others."""


def composites(
    count: int,
    *,
    seed: int = 0,
    kinds: Sequence[str] = (),
    world: World = DEFAULT,
    preset: str = DEFAULT_PRESET,
) -> tuple[Quad, ...]:
    """So many pairs of scenes, kinds and relations taking turns; pair i whatever the count.

    Combinations that the preset withholds from training are neither shown nor named.
    """
    asked = tuple(kinds) or tuple(KINDS)
    for kind in asked:
        if kind not in KINDS:
            raise unknown_name("kind of composite", kind, KINDS)
    if count < 1:
        raise UnbagError(f"{count} composites", expected="at least one")
    never = withheld(world, find_preset(preset))
    entropy = split_seed("train", _TRAIN + seed), crc32(b"composites")
    found = []
    for i in range(count):
        kind, turn = asked[i % len(asked)], i // len(asked)
        rng = np.random.default_rng((*entropy, i))
        found.append(KINDS[kind](world, rng, FLAT[turn % len(FLAT)], never))
    return tuple(found)


def composite_pool(
    encoder: DualEncoder,
    view: View,
    quads: Sequence[Quad],
    *,
    dtype: torch.dtype = torch.float16,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Pool:
    """Rows 2i and 2i + 1 are opposites; the negative of a row is its opposite's caption.

    Each pair is there with both versions of its captions. Without its negatives
    (`negatives=false`) and with a crowd as large as the batch, DCSM is taught as in the paper:
    every row against all others, its opposite among them.
    """
    rows = [_rows(quads[at : at + STEP // 2]) for at in range(0, len(quads), STEP // 2)]
    pool = world_pool(encoder, view, rows, dtype=dtype, device=device, progress=progress)
    # The second version is in reverse, so that rows of one image are neighbours and those who
    # hold rows out see where a cut would part them.
    place_N = torch.arange(4 * len(quads), device=device)
    row_N = 2 * (place_N // 4) + torch.tensor([0, 1, 1, 0], device=device)[place_N % 4]
    is_second_N = place_N % 4 > 1
    said_S3 = pool.negative_NK
    caption_N = torch.where(is_second_N, said_S3[row_N, 1], pool.caption_N[row_N])
    negative_N = torch.where(is_second_N, said_S3[row_N, 2], said_S3[row_N, 0])
    # What the truth of a batch follows from, for both versions of each scene.
    code = {name: torch.cat([one.code[name] for one in rows]) for name in rows[0].code}
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
    """Both scenes of each; beside a caption stand its opposite, and both in the other version."""
    scenes, told = [], []
    for one in quads:
        for side in (0, 1):
            own, other = ([read(text) for text in one.captions[at]] for at in (side, 1 - side))
            scenes.append(one.scenes[side])
            told.append(SceneTexts(own[0], (other[0], own[1], other[1]), ()))
    texts = [[said.text for said in one.negatives if said is not None] for one in told]
    return WorldRows(
        tuple(scenes),
        tuple(one.caption.text for one in told),
        tuple(map(tuple, texts)),
        drawn(scenes),
        encode(scenes, told),
    )


def _exchanged(family: str) -> _Make:
    """Two things that change places, or looks (`unbag.world.quads`)."""

    def make(world: World, rng: Generator, relation: Relation, never: Withheld) -> Quad:
        return quad(family, world, rng, relation=relation, accept=_accept(never))

    return make


def _sizes(world: World, rng: Generator, relation: Relation, never: Withheld) -> Quad:
    """A small thing and a big one, and the same things the other way round."""
    while True:
        a, b = _two_looks(world, rng, never)
        first = place_apart(world, (replace(a, size="small"), replace(b, size="large")), rng)
        x, y = first.things
        second = replace(first, things=(replace(x, size="large"), replace(y, size="small")))
        small_a, big_b = Obj(a.shape, size="small"), Obj(b.shape, size="large")
        big_a, small_b = Obj(a.shape, size="large"), Obj(b.shape, size="small")
        found = _checked(
            "size",
            (first, second),
            (_with_big(small_a, big_b), _with_big(big_b, small_a)),
            (_with_big(big_a, small_b), _with_big(small_b, big_a)),
            negative="swap_attributes",
        )
        if found:
            return found


def _with_big(first: Obj, second: Obj) -> Statement:
    """Said with "big", the word that the published list of functional words has."""
    rare = frozenset({(0 if first.size == "large" else 1, "size")})
    return Statement(And(first, second), Style(rare=rare))  # type: ignore[arg-type]


def _negation(world: World, rng: Generator, relation: Relation, never: Withheld) -> Quad:
    """One thing and something else, and the other thing in its place."""
    while True:
        a, b = _two_looks(world, rng, never)
        other = sample_look(world, rng)
        if other.shape in (a.shape, b.shape) or not _accept(never)(a, other):
            continue
        first = place_apart(world, (a, other), rng)
        thing = replace(
            first.things[0], shape=b.shape, colour=b.colour, rgb=jittered(b.colour, rng)
        )
        second = replace(first, things=(thing, first.things[1]))
        x, y = Obj(a.shape), Obj(b.shape)
        without = Style(negation="without")
        found = _checked(
            "negation",
            (first, second),
            (Statement(Has(x, Not(y))), Statement(Has(x, Not(y)), without)),
            (Statement(Has(y, Not(x))), Statement(Has(y, Not(x)), without)),
            negative="swap_arguments",
        )
        if found and _accept(never)(b, other):
            return found


def _checked(
    kind: str,
    scenes: tuple[Scene, Scene],
    first: tuple[Statement, Statement],
    second: tuple[Statement, Statement],
    *,
    negative: str,
) -> Quad | None:
    """The quad, if each caption holds in its own scene only."""
    is_right = all(map(is_clear, scenes)) and all(
        holds(said.ast, scenes[side]) and not holds(said.ast, scenes[1 - side])
        for side, every in enumerate((first, second))
        for said in every
    )
    if not is_right:
        return None
    captions = ((first[0].text, first[1].text), (second[0].text, second[1].text))
    return Quad(kind, scenes, captions, negative=negative, positive="conjunct_swap")


def _two_looks(world: World, rng: Generator, never: Withheld) -> tuple[Look, Look]:
    """Two things of different shape and colour."""
    while True:
        a, b = sample_look(world, rng), sample_look(world, rng)
        if a.shape != b.shape and a.colour != b.colour and _accept(never)(a, b):
            return a, b


def _accept(never: Withheld) -> Callable[[Look, Look], bool]:
    """Whether two things may stand in one scene of training."""
    return lambda a, b: never.allows((a.shape, a.colour), (b.shape, b.colour))


_Make = Callable[[World, Generator, Relation, Withheld], Quad]
KINDS: Mapping[str, _Make] = {
    "spatial": _exchanged("relation"),
    "colour": _exchanged("swap"),
    "size": _sizes,
    "negation": _negation,
}
"""What is opposite, and how a pair of scenes of it is made."""
