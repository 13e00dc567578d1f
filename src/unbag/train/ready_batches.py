"""Pairs, a recipe and a model's preparation come in; batches that were looked over go out."""

from __future__ import annotations

from unbag.captions.kinds import Parts
from unbag.train.batches import Share
from unbag.train.config import Recipe
from unbag.train.draw import columns_of
from unbag.train.made_edits import made_edits
from unbag.train.pair_batches import PairBatches
from unbag.train.pairs import Pairs
from unbag.train.sides import check_sides
from unbag.train.survey import Surveyed, check_surveyed, survey
from unbag.train.trainable import Reads


def ready_batches(
    pairs: Pairs,
    recipe: Recipe,
    reads: Reads,
    *,
    seed: int,
    share: Share | None = None,
    micro: int | None = None,
    parts: Parts | None = None,
) -> tuple[PairBatches, Surveyed]:
    """Batches, and what there is to say of them before training starts.

    Raises UserError for whatever would spoil training: no whole batch, (almost) no edits, no
    neighbours for hard pictures, preparation that mirrors pictures, no pipeline to make edits.
    """
    columns = columns_of(recipe)
    made = None
    if columns.kinds and not pairs.has_edits:
        made = made_edits(columns, seed=seed, parts=parts)
        made.load()
    batches = PairBatches(pairs, recipe, reads, seed, share or Share(), micro, made)
    found = survey(pairs, recipe, reads=reads, made=made, seed=seed)
    check_surveyed(found, recipe, has_edits=pairs.has_edits)
    check_sides(reads, found.texts)
    return batches, found
