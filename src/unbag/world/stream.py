"""The training stream: endless scenes with true captions, by knobs and a seed.

A batch depends on (seed, step) alone, never on workers or on what was drawn before. `describe` says
of a batch whether it pays to know more than a bag of words.

Dimensions: B samples of the batch (scenes in rows, captions in columns), V content words.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from functools import cache
from itertools import accumulate
from math import isclose
from typing import Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from unbag.errors import UnbagError, unknown_name
from unbag.types import BoolArray, FloatArray
from unbag.world.edits import conjunct_swap, swap_arguments, swap_attributes
from unbag.world.grammar import (
    ATTRIBUTES,
    And,
    Ast,
    Count,
    Has,
    Not,
    Obj,
    Rel,
    Statement,
    fits,
    meaning,
    objects_of,
    realise,
    sample_style,
    value_of,
)
from unbag.world.placement import Look, look_of, place_apart, place_copies, place_pair, sample_look
from unbag.world.scenes import Scene
from unbag.world.truth import holds_matrix
from unbag.world.vocabulary import (
    COLOURS,
    INVERSE,
    NOUNS,
    NUMBERS,
    RELATIONS,
    SIZES,
    TEXTURES,
    Combination,
    Relation,
    World,
    withheld_combinations,
    withheld_pairs,
)

Split = Literal["train", "val", "test"]
_SPLITS: tuple[Split, ...] = ("train", "val", "test")
_SEEDS = 2**32
_RELATIONS: tuple[Relation, ...] = tuple(RELATIONS)
_PLACE_IN_LIST = {noun.name: place for place, noun in enumerate(NOUNS)}

_WORDS = ("thing", *(noun.name for noun in NOUNS), *COLOURS, *SIZES, *TEXTURES)
_COLUMN = {word: column for column, word in enumerate(_WORDS)}
_SCALE = 100.0
"""Inverse temperature: the usual clamp of contrastive training."""


@dataclass(frozen=True)
class Mixture:
    """What captions of two things say of them, as shares that sum to 1 (pilot C of the spec)."""

    two_plain: float = 0.40
    """Two shapes without colours: "a circle and a square"."""
    one_coloured: float = 0.25
    """One of the two things, with its colour: "a red circle"."""
    one_coloured_one_plain: float = 0.15
    """"a red circle and a square"."""
    two_colours: float = 0.08
    """Colours without shapes: "a red thing and a blue thing"."""
    both_bound: float = 0.10
    """Both shapes with their colours: the captions that need binding."""
    relation: float = 0.02
    """Two shapes, each coloured or not, and how they stand to each other."""

    def __post_init__(self) -> None:
        _check_shares(self)
        total = sum(self.shares)
        if not isclose(total, 1.0, abs_tol=1e-6):
            raise UnbagError(
                f"the caption mixture sums to {total:g}",
                expected="shares that sum to 1",
                hint="lower two_plain by what was added elsewhere",
            )

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares in the order of the fields."""
        return astuple(self)


_KINDS = tuple(share.name for share in fields(Mixture))


@dataclass(frozen=True)
class Knobs:
    """The settings of the training stream; the defaults are pilot C of the specification."""

    mixture: Mixture = field(default_factory=Mixture)
    """What captions of scenes with two things say."""
    p_synonym: float = 0.08
    """Chance that a word with a rarer synonym is said by it; 0 leaves the synonyms unknown."""
    p_form: float = 0.2
    """Chance of each less usual form: "with", a digit, "without a", "there is", "the" ...; 0 keeps
    the forms of test positives out of fine-tuning."""
    one_thing: float = 0.12
    """Share of scenes with a single thing."""
    counted: float = 0.05
    """Share of scenes with one to five copies of a thing, captioned by their number."""
    negated: float = 0.02
    """Share of the other captions that deny something absent."""
    related: float = 0.5
    """Share of the scenes of two things placed in one of the eight relations although the caption
    does not say so; without them an overlap in the image would announce a relation caption."""
    p_coloured: float = 0.5
    """Chance that a mention in a relation, a count or a denial, or of a single thing, says its
    colour."""
    p_size: float = 0.05
    """Chance that a mention says the size."""
    p_texture: float = 0.05
    """Chance that a mention says the texture."""
    collision: float = 0.0
    """q: chance that the next two samples of a batch are partners: a caption that binds or relates,
    and one with the same words whose binding or relation is the other one, each true of its own
    scene only. Such pairs are drawn from both_bound and relation in proportion to their shares."""
    order: Literal["random", "larger_first", "listed_first"] = "random"
    """Which thing is named first. larger_first is the leak of pilot B (a cue only together with the
    image, for sizes do not depend on shapes here); listed_first puts the shape that comes first
    in the vocabulary first, a leak that a caption-only scorer can use."""
    order_strength: float = 0.9
    """How often an order other than random is kept."""
    withheld_combinations: float = 0.0
    """Share of (shape, colour) combinations never shown nor named; 0.2 for test-comb."""
    withheld_pairs: float = 0.0
    """Share of shape pairs never shown nor named together; 0.2 for test-pair."""

    def __post_init__(self) -> None:
        _check_shares(self)
        if self.one_thing + self.counted > 1:
            raise UnbagError(
                f"one_thing + counted = {self.one_thing + self.counted:g}",
                expected="at most 1: what is left are scenes of two things",
            )
        if self.collision and not self.mixture.both_bound + self.mixture.relation:
            raise UnbagError(
                f"collision = {self.collision:g} in a mixture that neither binds nor relates",
                expected="a share of both_bound or relation above 0",
            )
        if max(self.withheld_combinations, self.withheld_pairs) > 0.5:
            raise UnbagError(
                "more than half of the combinations or pairs are withheld",
                expected="at most 0.5, so that every word is still seen in training",
            )


def _check_shares(record: Mixture | Knobs) -> None:
    for f in fields(record):
        value = getattr(record, f.name)
        if isinstance(value, int | float) and not 0 <= value <= 1:
            raise UnbagError(f"{f.name} = {value!r}", expected="a share between 0 and 1")
    if isinstance(record, Knobs) and record.order not in ("random", "larger_first", "listed_first"):
        raise UnbagError(
            f"order = {record.order!r}", expected="random, larger_first or listed_first"
        )


@dataclass(frozen=True)
class Withheld:
    """What training never shows and never names."""

    combinations: frozenset[Combination]
    pairs: frozenset[Combination]
    """Two shapes, sorted."""

    def allows(self, first: Combination, second: Combination | None = None) -> bool:
        """Whether these may be shown or named together."""
        if first in self.combinations or second in self.combinations:
            return False
        if second is None or not self.pairs:
            return True
        a, b = first[0], second[0]
        return ((a, b) if a < b else (b, a)) not in self.pairs


def withheld(world: World, knobs: Knobs) -> Withheld:
    """What these knobs hold out: the same for every seed, run and machine."""
    return Withheld(
        withheld_combinations(world, share=knobs.withheld_combinations),
        withheld_pairs(world, share=knobs.withheld_pairs),
    )


class Sample(NamedTuple):
    """A scene and what is said of it."""

    scene: Scene
    ast: Ast
    caption: str


def split_seed(split: Split, seed: int) -> int:
    """The seed of a split: ranges that never meet, so no test scene is ever trained on."""
    if split not in _SPLITS:
        raise unknown_name("split", split, _SPLITS, hint="use train, val or test")
    if not 0 <= seed < _SEEDS:
        raise UnbagError(f"seed {seed}", expected=f"a whole number from 0 to {_SEEDS - 1}")
    return _SPLITS.index(split) * _SEEDS + seed


def batch(world: World, knobs: Knobs, *, seed: int, step: int, size: int) -> tuple[Sample, ...]:
    """The samples of one training step, with colliding partners side by side."""
    source = _source(world, knobs)
    # One word each for seed, step and split: a seed beyond 32 bits would be cut into two words by
    # numpy, and step 0 of one split would be a later step of another.
    split, low = divmod(seed, _SEEDS)
    rng = np.random.default_rng((low, step, split))
    found: list[Sample] = []
    while len(found) < size:
        has_room = len(found) + 2 <= size
        if knobs.collision and has_room and rng.random() < knobs.collision:
            found += _partners(source, rng)
        else:
            found.append(_sample(source, rng))
    return tuple(found)


def sample(world: World, knobs: Knobs, rng: Generator) -> Sample:
    """One scene with a caption that holds in it."""
    return _sample(_source(world, knobs), rng)


class _Source(NamedTuple):
    """Everything that stays the same from sample to sample."""

    world: World
    knobs: Knobs
    withheld: Withheld
    steps: tuple[float, ...]
    """Running sums of the mixture."""


def _source(world: World, knobs: Knobs) -> _Source:
    return _Source(world, knobs, withheld(world, knobs), tuple(accumulate(knobs.mixture.shares)))


def _sample(source: _Source, rng: Generator) -> Sample:
    knobs = source.knobs
    u, negated = rng.random(2).tolist()
    ast: Ast
    if u < knobs.counted:
        look = _one_look(source, rng)
        n = int(rng.integers(1, len(NUMBERS) + 1))
        scene = place_copies(source.world, look, n, rng)
        ast = Count(n, _mention(look, knobs, rng))
    elif u < knobs.counted + knobs.one_thing:
        look = _one_look(source, rng)
        scene = place_apart(source.world, (look,), rng)
        denied = _denial(source, (look,), scene, rng) if negated < knobs.negated else None
        ast = denied or _mention(look, knobs, rng)
    else:
        scene, ast = _two_things(source, rng, is_negated=negated < knobs.negated)
    style = sample_style(ast, rng, p_synonym=knobs.p_synonym, p_form=knobs.p_form)
    return Sample(scene, ast, realise(ast, style))


def _two_things(source: _Source, rng: Generator, *, is_negated: bool) -> tuple[Scene, Ast]:
    knobs = source.knobs
    u, related, which = rng.random(3).tolist()
    kind = _KINDS[min(bisect_right(source.steps, u), len(_KINDS) - 1)]
    relation = _RELATIONS[int(which * len(_RELATIONS))]
    if kind == "relation" or related < knobs.related:
        looks = _looks_for(relation, source, rng)
        scene = place_pair(source.world, *looks, relation, rng)
    else:
        looks = _two_looks(source, rng)
        scene = place_apart(source.world, looks, rng)
    if is_negated and (denied := _denial(source, looks, scene, rng)):
        return scene, denied
    if kind == "relation":
        return scene, _related(looks, relation, knobs, rng)
    return scene, _described(looks, kind, knobs, rng)


def _described(looks: tuple[Look, Look], kind: str, knobs: Knobs, rng: Generator) -> Ast:
    first, second = looks if _names_first(looks, knobs, rng) else looks[::-1]
    if kind == "one_coloured":
        return _mention(first, knobs, rng, coloured=True)
    if kind == "two_colours":
        return And(Obj(None, first.colour), Obj(None, second.colour))
    one = kind == "one_coloured_one_plain" and rng.random() < 0.5
    both = kind == "both_bound"
    other = kind == "one_coloured_one_plain" and not one
    coloured = (both or one, both or other)
    return And(*_two_mentions((first, second), knobs, rng, coloured=coloured))


def _related(looks: tuple[Look, Look], relation: Relation, knobs: Knobs, rng: Generator) -> Rel:
    a, b = _two_mentions(looks, knobs, rng)
    return Rel(a, relation, b) if _names_first(looks, knobs, rng) else Rel(b, INVERSE[relation], a)


def _names_first(looks: tuple[Look, Look], knobs: Knobs, rng: Generator) -> bool:
    """Whether the first look is also named first."""
    u = rng.random()
    if knobs.order == "listed_first":
        first, second = (_PLACE_IN_LIST[look.shape] for look in looks)
        return (first < second) == (u < knobs.order_strength)
    if knobs.order == "larger_first" and looks[0].size != looks[1].size:
        return (looks[0].size == "large") == (u < knobs.order_strength)
    return u < 0.5


def _denial(source: _Source, looks: Sequence[Look], scene: Scene, rng: Generator) -> Ast | None:
    """Something there and something not, or only the latter; None where all may not be named."""
    present = looks[int(rng.random() * len(looks))]
    for _ in range(20):
        other = _one_look(source, rng)
        absent = _mention(other, source.knobs, rng)
        is_there = any(fits(absent, thing) for thing in scene.things)
        if is_there or not source.withheld.allows(_kind_of(present), _kind_of(other)):
            continue
        if rng.random() < 0.5:
            return Not(absent)
        return Has(_mention(present, source.knobs, rng), Not(absent))
    return None


def _partners(source: _Source, rng: Generator) -> tuple[Sample, Sample]:
    """Two scenes and two captions with the same words, each true of its own scene only."""
    mixture, knobs = source.knobs.mixture, source.knobs
    relates = rng.random() * (mixture.both_bound + mixture.relation) < mixture.relation
    if relates:
        relation = _RELATIONS[int(rng.random() * len(_RELATIONS))]
        looks = _looks_for(relation, source, rng)
        scenes = (
            place_pair(source.world, *looks, relation, rng),
            place_pair(source.world, *looks[::-1], relation, rng),
        )
        a, b = _two_mentions(looks, knobs, rng)
        ast: Ast = Rel(a, relation, b)
    else:
        looks = _two_looks(source, rng, exchangeable=True)
        first, second = looks
        others = replace(first, colour=second.colour), replace(second, colour=first.colour)
        scenes = place_apart(source.world, looks, rng), place_apart(source.world, others, rng)
        ast = _described(looks, "both_bound", knobs, rng)
    style = sample_style(ast, rng, p_synonym=knobs.p_synonym, p_form=knobs.p_form)
    said = Statement(ast, style)
    other = swap_arguments(said) if relates else swap_attributes(said)
    assert other is not None
    if not relates and knobs.order == "random" and rng.random() < 0.5:
        other = conjunct_swap(other) or other
    return Sample(scenes[0], ast, said.text), Sample(scenes[1], other.ast, other.text)


def _one_look(source: _Source, rng: Generator) -> Look:
    while True:
        look = sample_look(source.world, rng)
        if source.withheld.allows(_kind_of(look)):
            return look


def _two_looks(source: _Source, rng: Generator, *, exchangeable: bool = False) -> tuple[Look, Look]:
    """Two looks of different shape and colour; allowed with exchanged colours too, if asked."""
    allows = source.withheld.allows
    while True:
        chances = rng.random(8).tolist()
        a, b = look_of(source.world, *chances[:4]), look_of(source.world, *chances[4:])
        if a.shape == b.shape or a.colour == b.colour or not allows(_kind_of(a), _kind_of(b)):
            continue
        if not exchangeable or allows((a.shape, b.colour), (b.shape, a.colour)):
            return a, b


def _looks_for(relation: Relation, source: _Source, rng: Generator) -> tuple[Look, Look]:
    """Two looks that can stand in this relation: depth is only seen between things of one size."""
    a, b = _two_looks(source, rng)
    return (a, replace(b, size=a.size)) if relation in ("in front of", "behind") else (a, b)


def _kind_of(look: Look) -> tuple[str, str]:
    return look.shape, look.colour


def _mention(look: Look, knobs: Knobs, rng: Generator, *, coloured: bool | None = None) -> Obj:
    return _mentioned(look, knobs, rng.random(3).tolist(), coloured)


def _two_mentions(
    looks: tuple[Look, Look],
    knobs: Knobs,
    rng: Generator,
    *,
    coloured: tuple[bool | None, bool | None] = (None, None),
) -> tuple[Obj, Obj]:
    chances = rng.random(6).tolist()
    return (
        _mentioned(looks[0], knobs, chances[:3], coloured[0]),
        _mentioned(looks[1], knobs, chances[3:], coloured[1]),
    )


def _mentioned(look: Look, knobs: Knobs, chances: list[float], coloured: bool | None) -> Obj:
    colour, size, texture = chances
    says_colour = colour < knobs.p_coloured if coloured is None else coloured
    return _cached_obj(
        look.shape,
        look.colour if says_colour else None,
        look.size if size < knobs.p_size else None,
        look.texture if texture < knobs.p_texture else None,
    )


# There are a few thousand descriptions, and a training run says each of them hundreds of times.
_cached_obj = cache(Obj)


def describe(batch: Sequence[Sample]) -> str:
    """One line for a log: how large, how long, how often words alone are not enough."""
    length = np.mean([len(sample.caption.split()) for sample in batch])
    relations = np.mean([isinstance(sample.ast, Rel) for sample in batch])
    return (
        f"{len(batch)} samples, {length:.1f} words a caption, {100 * relations:.1f} % relations, "
        f"{100 * collision_rate(batch):.1f} % collide, incentive {incentive(batch):.3f} nats"
    )


def collision_rate(batch: Sequence[Sample]) -> float:
    """Share of samples that meet in the batch a caption of their own words, false of their scene.

    Only these make order or binding worth knowing: every other caption is known by its words.
    """
    if not batch:
        return 0.0
    places: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for i, sample in enumerate(batch):
        places[bag_of(sample.ast)].append(i)
    met = 0
    for alike in places.values():
        if len({meaning(batch[i].ast) for i in alike}) > 1:
            truth = holds_matrix([batch[i].ast for i in alike], [batch[i].scene for i in alike])
            met += int((~truth).any(axis=1).sum())
    return met / len(batch)


def bag_of(ast: Ast) -> tuple[str, ...]:
    """The words of a caption without their order, synonyms taken as one word."""
    found = list(_content(ast))
    match ast:
        case Rel(_, relation, _):
            found.append(relation)
        case Count(n, _):
            found.append(str(n))
        case Not() | Has():
            found.append("no")
    return tuple(sorted(found))


def incentive(batch: Sequence[Sample]) -> float:
    """InfoNCE of the bag-of-words oracle minus that of the semantic oracle, in nats.

    Captions that hold in another scene of the batch are no negatives there. Counts and denials are
    left out: the oracle misreads them however a batch is made, which would drown what order adds.
    """
    kept = [sample for sample in batch if not isinstance(sample.ast, Count | Not | Has)]
    if not kept:
        return 0.0
    captions, scenes = [s.ast for s in kept], [s.scene for s in kept]
    truth_BB = holds_matrix(captions, scenes)
    bag = _info_nce(_SCALE * bag_matrix(captions, scenes), truth_BB)
    return bag - _info_nce(_SCALE * truth_BB.astype(np.float64), truth_BB)


def bag_matrix(captions: Sequence[Ast], scenes: Sequence[Scene]) -> FloatArray:
    """[scenes, captions]: what the bag-of-words oracle gives each pair."""
    true_BV = np.zeros((len(scenes), len(_WORDS)))
    for row, scene in enumerate(scenes):
        for thing in scene.things:
            words = ("thing", thing.shape, thing.colour, thing.size, thing.texture)
            true_BV[row, [_COLUMN[word] for word in words]] = 1.0
    said_BV = np.zeros((len(captions), len(_WORDS)))
    for row, ast in enumerate(captions):
        for word in _content(ast):
            said_BV[row, _COLUMN[word]] += 1.0
    return np.asarray(true_BV @ said_BV.T / said_BV.sum(axis=1), dtype=np.float64)


def _content(ast: Ast) -> list[str]:
    return [
        value_of(obj, attribute) or "thing"
        for obj in objects_of(ast)
        for attribute in ATTRIBUTES
        if attribute == "shape" or value_of(obj, attribute)
    ]


def _info_nce(logit_BB: FloatArray, truth_BB: BoolArray) -> float:
    """Mean over both directions, with true cells off the diagonal left out."""
    kept_BB = ~truth_BB
    np.fill_diagonal(kept_BB, True)
    masked_BB = np.where(kept_BB, logit_BB, -np.inf)
    own_B = np.diagonal(logit_BB)
    rows = np.logaddexp.reduce(masked_BB, axis=1) - own_B
    columns = np.logaddexp.reduce(masked_BB, axis=0) - own_B
    return float((rows.mean() + columns.mean()) / 2)
