"""A recipe's slots and a scene come in; what is said of it and its checked edits go out.

Real captions and the world have different edits. `SAME_AS` says which operators of the world stand
for a kind of `unbag list edits`, so that a recipe of a paper can be run on the world.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from unbag.captions.kinds import GROUPS
from unbag.errors import UserError, unknown_name
from unbag.world.edits import NEGATIVES, POSITIVES, edit
from unbag.world.knobs import Combination, Knobs, Mixture
from unbag.world.parse import read
from unbag.world.realise import Statement
from unbag.world.stream import Sample
from unbag.world.words import World

if TYPE_CHECKING:
    from unbag.train.config import Slot

DEFAULT_PRESET = "default"
_REPAIR = Knobs(
    mixture=Mixture(
        two_plain=0.245,
        one_coloured=0.155,
        one_coloured_one_plain=0.09,
        two_colours=0.05,
        both_bound=0.06,
        relation=0.40,
    ),
    withheld_combinations=0.2,
)
PRESETS: Mapping[str, Knobs] = MappingProxyType(
    {
        # A third of all captions state a relation (40 % of those of two things); the other kinds
        # of caption keep their proportions, and all else is as `tiny:base` was trained.
        DEFAULT_PRESET: _REPAIR,
        # One naming order: the forms of the test positives "b and a" and "b right of a" are never
        # captions, so an arm without positives never sees them called true.
        "ordered": replace(_REPAIR, order="listed_first", order_strength=1.0),
    }
)
"""Captions to repair on, frozen before any arm was run (methods.md 12.10, variant C)."""

_SWAPS = ("swap_attributes", "swap_arguments")
_ATTRIBUTES = ("replace_colour", "replace_size", "replace_texture")
_SYNONYMS = ("synonym_colour", "synonym_shape", "synonym_size", "synonym_texture")
SAME_AS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "swap_nouns": _SWAPS,
        "swap_adjectives": ("swap_attributes",),
        "swap_phrases": ("swap_arguments",),
        "swap_words": _SWAPS,
        "neg_clip_swap": _SWAPS,
        "rewrite_swap": _SWAPS,
        "replace_material": ("replace_texture",),
        "replace_number": ("replace_count",),
        "replace_noun": ("replace_shape",),
        "replace_attribute": _ATTRIBUTES,
        "antonym": ("replace_size", "replace_relation"),
        "left_right": ("replace_relation",),
        "above_below": ("replace_relation",),
        "front_behind": ("replace_relation",),
        "fill_attribute": _ATTRIBUTES,
        "fill_object": ("replace_shape",),
        "fill_relation": ("replace_relation",),
        "rewrite_replace": ("replace_shape", *_ATTRIBUTES, "replace_relation"),
        "synonym": (*_SYNONYMS, "relation_synonym"),
        "synonym_wordnet": (*_SYNONYMS, "relation_synonym"),
        "relation_inverse": ("inverse",),
        "word_form": ("digit", "double_form"),
        "negatives": tuple(NEGATIVES),
        "positives": tuple(POSITIVES),
        "default": (*NEGATIVES, *POSITIVES),
        "all": (*NEGATIVES, *POSITIVES),
        # Nothing acts, is inside or lies near in the world, and a caption has one article.
        "swap_verbs": (),
        "swap_adverbs": (),
        "replace_state": (),
        "replace_action": (),
        "fill_action": (),
        "replace_quantifier": (),
        "inside_outside": (),
        "near_far": (),
        "passive": (),
        "article": (),
    }
)
"""Kinds and groups of edits of real captions, and the world's operators in their place. A kind of
the world means itself."""


@dataclass(frozen=True)
class Columns:
    """Operators of the world for each slot of a recipe; a slot without any is always masked."""

    negatives: tuple[tuple[str, ...], ...]
    positives: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Told:
    """What is said of one scene; None where no operator of a slot applies."""

    caption: Statement
    negatives: tuple[Statement | None, ...]
    positives: tuple[Statement | None, ...]


def find_preset(name: str) -> Knobs:
    """By name."""
    if name not in PRESETS:
        raise unknown_name("preset of the world", name, PRESETS)
    return PRESETS[name]


def columns_of(negatives: Sequence[Slot], positives: Sequence[Slot]) -> Columns:
    """The world's operators for the slots of a recipe."""
    found = Columns(
        tuple(_operators(slot, NEGATIVES) for slot in negatives),
        tuple(_operators(slot, POSITIVES) for slot in positives),
    )
    for what, slots, made in (
        ("negative", negatives, found.negatives),
        ("positive", positives, found.positives),
    ):
        if slots and not any(made):
            kinds = ", ".join(kind for slot in slots for kind in slot.kinds)
            raise UserError(
                f"no {what} of this recipe can be made on the world: {kinds}",
                expected=f"at least one kind that the world has a {what} for",
                way_out="see unbag.train.world_captions.SAME_AS",
            )
    return found


def _operators(slot: Slot, among: Iterable[str]) -> tuple[str, ...]:
    wanted = {one for kind in slot.kinds for one in _same_as(kind)}
    return tuple(name for name in among if name in wanted)


def _same_as(kind: str) -> tuple[str, ...]:
    if kind in NEGATIVES or kind in POSITIVES:
        return (kind,)
    if kind in SAME_AS:
        return SAME_AS[kind]
    if kind in GROUPS:
        return tuple(one for member in GROUPS[kind] for one in _same_as(member))
    known = [*NEGATIVES, *POSITIVES, *SAME_AS, *GROUPS]
    raise unknown_name("kind of edit on the world", kind, known)


def tell(
    sample: Sample,
    columns: Columns,
    rng: np.random.Generator,
    *,
    world: World,
    withheld: frozenset[Combination],
) -> Told:
    """The caption and one edit for each column: the first operator that applies, in drawn order."""

    def one_of(kinds: tuple[str, ...]) -> Statement | None:
        for at in rng.permutation(len(kinds)):
            made = edit(kinds[at], said, sample.scene, rng, world=world, withheld=withheld)
            if made is not None:
                return made
        return None

    said = read(sample.caption)
    return Told(
        said,
        tuple(one_of(kinds) for kinds in columns.negatives),
        tuple(one_of(kinds) for kinds in columns.positives),
    )
