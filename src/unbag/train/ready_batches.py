"""Pairs, a recipe and a model's preparation come in; batches that were looked over go out."""

from __future__ import annotations

import re

from unbag.captions.kinds import Parts
from unbag.errors import UserError
from unbag.train.batches import Share
from unbag.train.config import Recipe
from unbag.train.draw import columns_of
from unbag.train.made_edits import MadeEdits, made_edits
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
        _load(made, recipe)
    batches = PairBatches(pairs, recipe, reads, seed, share or Share(), micro, made)
    found = survey(pairs, recipe, reads=reads, made=made, seed=seed)
    check_surveyed(found, recipe, has_edits=pairs.has_edits)
    check_sides(reads, found.texts)
    return batches, found


def _load(made: MadeEdits, recipe: Recipe) -> None:
    try:
        made.load()
    except UserError as error:
        option = re.search(r"--\w+", error.way_out)
        if option is None:
            raise
        # Editors speak of the options of `unbag edit`.
        slots = (*recipe.negatives, *recipe.positives)
        kinds = " ".join(dict.fromkeys(kind for slot in slots for kind in slot.kinds))
        raise UserError(
            f"the edits of {recipe.name} cannot be made while training: {error.found}",
            expected=error.expected,
            way_out=f"make them before with `unbag edit --kinds {kinds} {option[0]} M` and name "
            "its output with --pairs",
        ) from error
