"""From a batch to what it asks of a model: does it pay to know more than a bag of words?

Dimensions: B samples of the batch (scenes in rows, captions in columns), V content words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from unbag.types import BoolArray, FloatArray
from unbag.world.grammar import ATTRIBUTES, Ast, Count, Has, Not, Rel, meaning, objects_of, value_of
from unbag.world.scene import Scene
from unbag.world.stream import Sample
from unbag.world.truth import holds_matrix
from unbag.world.words import COLOURS, NOUNS, SIZES, TEXTURES

_WORDS = ("thing", *(noun.name for noun in NOUNS), *COLOURS, *SIZES, *TEXTURES)
_COLUMN = {word: column for column, word in enumerate(_WORDS)}
_SCALE = 100.0
"""Inverse temperature: the usual clamp of contrastive training."""


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


def collision_rate(batch: Sequence[Sample]) -> float:
    """Share of samples that meet in the batch a caption of their own words, false of their scene.

    Only these make order or binding worth knowing: every other caption can be told by its words.
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


def describe(batch: Sequence[Sample]) -> str:
    """One line for a log: how large, how long, how often words alone are not enough."""
    length = np.mean([len(sample.caption.split()) for sample in batch])
    relations = np.mean([isinstance(sample.ast, Rel) for sample in batch])
    return (
        f"{len(batch)} samples, {length:.1f} words a caption, {100 * relations:.1f} % relations, "
        f"{100 * collision_rate(batch):.1f} % collide, incentive {incentive(batch):.3f} nats"
    )


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
