"""The training stream: endless scenes with true captions, given settings (`Knobs`) and a seed.

A batch depends on (seed, step) only, not on workers or earlier batches. `describe` reports whether
a batch rewards more than a bag of words.

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
    """Shares of the kinds of captions of two things; they sum to 1 (pilot C of the spec)."""

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
    """Two shapes, each with or without colour, and their relation."""

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
    """The kinds of captions of scenes with two things."""
    p_synonym: float = 0.08
    """Probability that a word is replaced by its rarer synonym; with 0 synonyms stay unknown."""
    p_form: float = 0.2
    """Probability of each less common form: "with", a digit, "without a", "there is", "the" ...; 0
    excludes the forms of test positives from fine-tuning."""
    one_thing: float = 0.12
    """Share of scenes with a single thing."""
    counted: float = 0.05
    """Share of scenes with one to five copies of a thing, captioned by their number."""
    negated: float = 0.02
    """Share of the other captions that contain a negation."""
    related: float = 0.5
    """Share of the scenes of two things placed in one of the eight relations although the caption
    does not name it; without them an overlap in the image would predict a relation caption."""
    p_coloured: float = 0.5
    """Probability that a description in a relation, a count or a negation, or of a single thing,
    names the colour."""
    p_size: float = 0.05
    """Probability that a description names the size."""
    p_texture: float = 0.05
    """Probability that a description names the texture."""
    collision: float = 0.0
    """q: probability that the next two samples of a batch are partners: captions of the same words
    with exchanged attributes or things, each true of its own scene only. They are drawn from
    both_bound and relation in proportion to their shares."""
    order: Literal["random", "larger_first", "listed_first"] = "random"
    """Which thing is named first. larger_first is the leak of pilot B (a cue only together with the
    image, since sizes do not depend on shapes here). listed_first names the shape that is first in
    the vocabulary first, a leak that a caption-only scorer can use."""
    order_strength: float = 0.9
    """Probability that an order other than random is followed."""
    withheld_combinations: float = 0.0
    """Share of (shape, colour) combinations never shown or named; 0.2 for test-comb."""
    withheld_pairs: float = 0.0
    """Share of shape pairs never shown or named together; 0.2 for test-pair."""

    def __post_init__(self) -> None:
        _check_shares(self)
        if self.one_thing + self.counted > 1:
            raise UnbagError(
                f"one_thing + counted = {self.one_thing + self.counted:g}",
                expected="at most 1: the rest are scenes of two things",
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
    """What training neither shows nor names."""

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
    """What these settings withhold: the same for every seed, run and machine."""
    return Withheld(
        withheld_combinations(world, share=knobs.withheld_combinations),
        withheld_pairs(world, share=knobs.withheld_pairs),
    )


class Sample(NamedTuple):
    """A scene with its caption."""

    scene: Scene
    ast: Ast
    caption: str


def split_seed(split: Split, seed: int) -> int:
    """The seed of a split. The ranges are disjoint, so no test scene is ever trained on."""
    if split not in _SPLITS:
        raise unknown_name("split", split, _SPLITS, hint="use train, val or test")
    if not 0 <= seed < _SEEDS:
        raise UnbagError(f"seed {seed}", expected=f"a whole number from 0 to {_SEEDS - 1}")
    return _SPLITS.index(split) * _SEEDS + seed


def batch(world: World, knobs: Knobs, *, seed: int, step: int, size: int) -> tuple[Sample, ...]:
    """The samples of one training step, with partners side by side."""
    source = _source(world, knobs)
    # One 32-bit word each for seed, step and split: numpy would cut a larger seed into two words,
    # and step 0 of one split would equal a later step of another.
    split, low = divmod(seed, _SEEDS)
    rng = np.random.default_rng((low, step, split))
    samples: list[Sample] = []
    while len(samples) < size:
        has_room = len(samples) + 2 <= size
        if knobs.collision and has_room and rng.random() < knobs.collision:
            samples += _partners(source, rng)
        else:
            samples.append(_sample(source, rng))
    return tuple(samples)


def sample(world: World, knobs: Knobs, rng: Generator) -> Sample:
    """One scene with a true caption."""
    return _sample(_source(world, knobs), rng)


class _Source(NamedTuple):
    """What all samples share."""

    world: World
    knobs: Knobs
    withheld: Withheld
    steps: tuple[float, ...]
    """Cumulative sums of the mixture."""


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
        negation = _negation(source, (look,), scene, rng) if negated < knobs.negated else None
        ast = negation or _mention(look, knobs, rng)
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
    if is_negated and (negation := _negation(source, looks, scene, rng)):
        return scene, negation
    if kind == "relation":
        return scene, _relation_caption(looks, relation, knobs, rng)
    return scene, _caption_of_two(looks, kind, knobs, rng)


def _caption_of_two(looks: tuple[Look, Look], kind: str, knobs: Knobs, rng: Generator) -> Ast:
    first, second = looks if _names_first(looks, knobs, rng) else looks[::-1]
    if kind == "one_coloured":
        return _mention(first, knobs, rng, coloured=True)
    if kind == "two_colours":
        return And(Obj(None, first.colour), Obj(None, second.colour))
    only_first = kind == "one_coloured_one_plain" and rng.random() < 0.5
    both = kind == "both_bound"
    only_second = kind == "one_coloured_one_plain" and not only_first
    coloured = (both or only_first, both or only_second)
    return And(*_two_mentions((first, second), knobs, rng, coloured=coloured))


def _relation_caption(
    looks: tuple[Look, Look], relation: Relation, knobs: Knobs, rng: Generator
) -> Rel:
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


def _negation(source: _Source, looks: Sequence[Look], scene: Scene, rng: Generator) -> Ast | None:
    """A caption with an absent thing, with or without a present one; None where none is allowed."""
    present = looks[int(rng.random() * len(looks))]
    for _ in range(20):
        other = _one_look(source, rng)
        absent = _mention(other, source.knobs, rng)
        is_present = any(fits(absent, thing) for thing in scene.things)
        if is_present or not source.withheld.allows(_kind_of(present), _kind_of(other)):
            continue
        if rng.random() < 0.5:
            return Not(absent)
        return Has(_mention(present, source.knobs, rng), Not(absent))
    return None


def _partners(source: _Source, rng: Generator) -> tuple[Sample, Sample]:
    """Two samples whose captions have the same words, each true of its own scene only."""
    mixture, knobs = source.knobs.mixture, source.knobs
    is_relation = rng.random() * (mixture.both_bound + mixture.relation) < mixture.relation
    if is_relation:
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
        ast = _caption_of_two(looks, "both_bound", knobs, rng)
    style = sample_style(ast, rng, p_synonym=knobs.p_synonym, p_form=knobs.p_form)
    statement = Statement(ast, style)
    partner = swap_arguments(statement) if is_relation else swap_attributes(statement)
    assert partner is not None
    if not is_relation and knobs.order == "random" and rng.random() < 0.5:
        partner = conjunct_swap(partner) or partner
    return Sample(scenes[0], ast, statement.text), Sample(scenes[1], partner.ast, partner.text)


def _one_look(source: _Source, rng: Generator) -> Look:
    while True:
        look = sample_look(source.world, rng)
        if source.withheld.allows(_kind_of(look)):
            return look


def _two_looks(source: _Source, rng: Generator, *, exchangeable: bool = False) -> tuple[Look, Look]:
    """Two looks of different shape and colour, allowed with exchanged colours too if asked."""
    allows = source.withheld.allows
    while True:
        draws = rng.random(8).tolist()
        a, b = look_of(source.world, *draws[:4]), look_of(source.world, *draws[4:])
        if a.shape == b.shape or a.colour == b.colour or not allows(_kind_of(a), _kind_of(b)):
            continue
        if not exchangeable or allows((a.shape, b.colour), (b.shape, a.colour)):
            return a, b


def _looks_for(relation: Relation, source: _Source, rng: Generator) -> tuple[Look, Look]:
    """Two looks that fit the relation: depth is visible only between things of one size."""
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
    draws = rng.random(6).tolist()
    return (
        _mentioned(looks[0], knobs, draws[:3], coloured[0]),
        _mentioned(looks[1], knobs, draws[3:], coloured[1]),
    )


def _mentioned(look: Look, knobs: Knobs, draws: list[float], coloured: bool | None) -> Obj:
    colour, size, texture = draws
    says_colour = colour < knobs.p_coloured if coloured is None else coloured
    return _cached_obj(
        look.shape,
        look.colour if says_colour else None,
        look.size if size < knobs.p_size else None,
        look.texture if texture < knobs.p_texture else None,
    )


# There are a few thousand descriptions, and a training run uses each of them hundreds of times.
_cached_obj = cache(Obj)


def describe(batch: Sequence[Sample]) -> str:
    """One line for a log: size, caption length, relations, collisions and incentive."""
    length = np.mean([len(sample.caption.split()) for sample in batch])
    relations = np.mean([isinstance(sample.ast, Rel) for sample in batch])
    return (
        f"{len(batch)} samples, {length:.1f} words a caption, {100 * relations:.1f} % relations, "
        f"{100 * collision_rate(batch):.1f} % collide, incentive {incentive(batch):.3f} nats"
    )


def collision_rate(batch: Sequence[Sample]) -> float:
    """Share of samples whose batch has a caption of the same words that is false of their scene.

    Only these reward order or binding: every other caption is identified by its words.
    """
    if not batch:
        return 0.0
    by_words: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for i, sample in enumerate(batch):
        by_words[bag_of(sample.ast)].append(i)
    colliding = 0
    for indices in by_words.values():
        if len({meaning(batch[i].ast) for i in indices}) > 1:
            truth = holds_matrix([batch[i].ast for i in indices], [batch[i].scene for i in indices])
            colliding += int((~truth).any(axis=1).sum())
    return colliding / len(batch)


def bag_of(ast: Ast) -> tuple[str, ...]:
    """The words of a caption without their order; synonyms count as one word."""
    words = list(_content(ast))
    match ast:
        case Rel(_, relation, _):
            words.append(relation)
        case Count(n, _):
            words.append(str(n))
        case Not() | Has():
            words.append("no")
    return tuple(sorted(words))


def incentive(batch: Sequence[Sample]) -> float:
    """InfoNCE of the bag-of-words oracle minus InfoNCE of the semantic oracle, in nats.

    Captions that are true of another scene of the batch are not negatives there. Counts and
    negations are excluded: the bag-of-words oracle misreads them in any batch, which would hide the
    effect of word order.
    """
    samples = [sample for sample in batch if not isinstance(sample.ast, Count | Not | Has)]
    if not samples:
        return 0.0
    captions, scenes = [s.ast for s in samples], [s.scene for s in samples]
    truth_BB = holds_matrix(captions, scenes)
    bag_loss = _info_nce(_SCALE * bag_matrix(captions, scenes), truth_BB)
    return bag_loss - _info_nce(_SCALE * truth_BB.astype(np.float64), truth_BB)


def bag_matrix(captions: Sequence[Ast], scenes: Sequence[Scene]) -> FloatArray:
    """[scenes, captions]: the score of the bag-of-words oracle for each pair."""
    true_BV = np.zeros((len(scenes), len(_WORDS)))
    for row, scene in enumerate(scenes):
        for thing in scene.things:
            words = ("thing", thing.shape, thing.colour, thing.size, thing.texture)
            true_BV[row, [_COLUMN[word] for word in words]] = 1.0
    word_BV = np.zeros((len(captions), len(_WORDS)))
    for row, ast in enumerate(captions):
        for word in _content(ast):
            word_BV[row, _COLUMN[word]] += 1.0
    return np.asarray(true_BV @ word_BV.T / word_BV.sum(axis=1), dtype=np.float64)


def _content(ast: Ast) -> list[str]:
    return [
        value_of(obj, attribute) or "thing"
        for obj in objects_of(ast)
        for attribute in ATTRIBUTES
        if attribute == "shape" or value_of(obj, attribute)
    ]


def _info_nce(logit_BB: FloatArray, truth_BB: BoolArray) -> float:
    """InfoNCE, mean over both directions, without true cells off the diagonal."""
    used_BB = ~truth_BB
    np.fill_diagonal(used_BB, True)
    masked_BB = np.where(used_BB, logit_BB, -np.inf)
    own_B = np.diagonal(logit_BB)
    rows = np.logaddexp.reduce(masked_BB, axis=1) - own_B
    columns = np.logaddexp.reduce(masked_BB, axis=0) - own_B
    return float((rows.mean() + columns.mean()) / 2)
