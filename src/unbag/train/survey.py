"""Pairs and a recipe come in; what training will find there goes out, before it starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unbag.errors import UserError
from unbag.train.batch import Said
from unbag.train.config import Recipe
from unbag.train.draw import Draw, columns_of
from unbag.train.made_edits import MadeEdits
from unbag.train.pairs import Pair, Pairs
from unbag.train.trainable import Reads

SAMPLED = 2_000
"""Pairs that are looked at."""
SAMPLED_MADE = 256
"""Where their edits have to be made."""
_TOO_FEW = 0.01
"""Share of captions with an edit below which a recipe that wants one does not start."""


@dataclass(frozen=True)
class Surveyed:
    """What a collection offers to a recipe; shares and averages are of the sampled pairs."""

    pictures: int
    captions: int
    """Counted where all pairs were looked at, else estimated from the sample."""
    is_estimated: bool
    sampled: int
    shares: Mapping[str, float]
    """For each column, negatives first: share of captions with an edit for it."""
    has_negative: float
    """Share of captions with an edit for any column of negatives."""
    has_positive: float
    tokens: float
    """Average of a caption, special ones included."""
    has_nearest: float
    """Share of pictures that know which are most like them."""
    unread: int
    """Pairs of the sample whose captions could not be read."""
    texts: tuple[str, ...]
    """Captions and edits of the sample."""

    def lines(self) -> list[str]:
        """For people, at the start of a run."""
        about = "about " if self.is_estimated else ""
        found = [
            f"{self.pictures:,} pictures, {about}{self.captions:,} captions "
            f"of {self.tokens:.1f} tokens on average"
        ]
        found += [
            f"{name}: an edit for {share:.1%} of captions"
            + ("" if share else ", so nothing is learned from such edits")
            for name, share in self.shares.items()
        ]
        return found


def survey(
    pairs: Pairs, recipe: Recipe, *, reads: Reads, made: MadeEdits | None = None, seed: int = 0
) -> Surveyed:
    """Look at up to 2,000 pairs spread over the collection, 256 where edits have to be made."""
    wanted = min(len(pairs), SAMPLED_MADE if made else SAMPLED)
    places = np.linspace(0, len(pairs) - 1, wanted).round().astype(int).tolist()
    found = [pair for place in places if (pair := _read(pairs, place)) is not None]
    if not found:
        raise UserError(f"none of {wanted:,} pairs of {pairs.about} can be read")
    said = _said(found, recipe, made, seed)
    captions = sum(len(pair.captions) for pair in found)
    slots = (*recipe.negatives, *recipe.positives)
    share_S = [
        _share([(*one.negatives, *one.positives)[at] for one in said]) for at in range(len(slots))
    ]
    return Surveyed(
        pictures=len(pairs),
        captions=round(captions * len(pairs) / len(found)),
        is_estimated=wanted < len(pairs),
        sampled=len(found),
        shares=dict(zip((slot.name for slot in slots), share_S, strict=True)),
        has_negative=_share([next(filter(None, one.negatives), None) for one in said]),
        has_positive=_share([next(filter(None, one.positives), None) for one in said]),
        tokens=float(np.mean(reads.count_tokens([one.caption for one in said]))),
        has_nearest=float(np.mean([bool(pair.nearest) for pair in found])),
        unread=wanted - len(found),
        texts=tuple(
            text for one in said for text in (one.caption, *one.negatives, *one.positives) if text
        ),
    )


def check_surveyed(found: Surveyed, recipe: Recipe, *, has_edits: bool) -> None:
    """Raises UserError where (almost) no caption has what the recipe trains on."""
    for slots, share, what in (
        (recipe.negatives, found.has_negative, "negatives"),
        (recipe.positives, found.has_positive, "positives"),
    ):
        if slots and share < _TOO_FEW:
            raise _without_edits(found, recipe, what, has_edits=has_edits)
    if recipe.hard_pictures and not found.has_nearest:
        raise UserError(
            f"the recipe {recipe.name} trains on hard pictures, but no pair says which are nearest",
            expected="NegCLIP's TSV with neg_image, or a file of neighbours",
            way_out="make one with `unbag nearest` and name it with --neighbours, or "
            "--set hard_pictures=false",
        )


def _without_edits(found: Surveyed, recipe: Recipe, what: str, *, has_edits: bool) -> UserError:
    slots = recipe.negatives if what == "negatives" else recipe.positives
    kinds = list(dict.fromkeys(kind for slot in slots for kind in slot.kinds))
    shares = ", ".join(f"{name} {share:.1%}" for name, share in found.shares.items())
    return UserError(
        f"the recipe {recipe.name} trains on {what}, but of {found.sampled:,} captions (almost) "
        f"none has one: {shares}",
        expected=f"edits of the kinds {', '.join(kinds)}",
        way_out=f"make them with `unbag edit --kinds {' '.join(kinds)}`"
        if has_edits
        else "check that the captions are English sentences; `unbag edit` says what it rejects",
    )


def _read(pairs: Pairs, place: int) -> Pair | None:
    try:
        return pairs[place]
    except UserError:
        return None


def _said(pairs: Sequence[Pair], recipe: Recipe, made: MadeEdits | None, seed: int) -> list[Said]:
    draw, columns = Draw(seed, 0), columns_of(recipe)
    chosen = [draw.caption(pair) for pair in pairs]
    edits = (
        made(pairs, chosen, epoch=0)
        if made
        else [pair.edits[at] for pair, at in zip(pairs, chosen, strict=True)]
    )
    return [
        draw.said(pair, at, some, columns)
        for pair, at, some in zip(pairs, chosen, edits, strict=True)
    ]


def _share(found: Sequence[str | None]) -> float:
    return float(np.mean([one is not None for one in found]))
