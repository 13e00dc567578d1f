"""The arms of the repair experiment: names come in; recipes that differ in one thing go out.

All arms of an experiment see the same pictures, captions, negatives and positives for as many
steps; they differ in the loss, and in whether the picture tower is locked (methods.md 12.7, 12.10).
Arms of a view are shown some of these edits only, or other positives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from unbag.errors import unknown_name
from unbag.readouts.data import WORLD_NEGATIVES as NEGATIVES
from unbag.training.data.world import DEFAULT_PRESET
from unbag.training.objective import Objective
from unbag.training.recipes import (
    Locks,
    Recipe,
    Slot,
    ce_clip,
    ce_clip_fixed,
    clip_ft,
    hard_negative,
    hard_positive,
    neg_clip,
)

CONTROL = "clip_ft"
"""Plain fine-tuning on the same captions: what every other arm is read against."""
LOCKED = "-locked"
"""Ends the name of an arm whose picture tower stays as it is."""
View = Literal["all", "swap", "replace", "rephrased"]
"""What an arm is shown: all edits, those that exchange words, those that put another word, or
captions in another form in place of hard positives."""

_WORDS = (
    "relation_synonym",
    "synonym_colour",
    "synonym_shape",
    "synonym_size",
    "synonym_texture",
)


@dataclass(frozen=True)
class Experiment:
    """What all arms are trained on."""

    about: str
    preset: str
    """Of `unbag.training.data.world`."""
    positives: tuple[Slot, ...]


EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {
        "default": Experiment(
            "things are named in random order; positives of the same families as the negatives",
            DEFAULT_PRESET,
            (Slot("positive", ("conjunct_swap", "inverse", *_WORDS)),),
        ),
        "ordered": Experiment(
            "things are named in one order, so only positives have the other; else as default",
            "ordered",
            (Slot("positive", ("conjunct_swap", "inverse", *_WORDS)),),
        ),
        "held_out": Experiment(
            "as ordered, but positives are synonyms: the other order is true in no arm",
            "ordered",
            (Slot("positive", _WORDS),),
        ),
    }
)

_RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        recipe.name: recipe
        for recipe in (
            clip_ft(),
            neg_clip(hard_pictures=False),
            hard_negative(),
            hard_positive(),
            ce_clip_fixed(),
        )
    }
)
"""Of their losses; everything else is the same in all arms."""
ARMS: tuple[str, ...] = (*_RECIPES, *(f"{name}{LOCKED}" for name in _RECIPES))
"""The published repairs, with both towers open and with the picture tower locked."""


def _without(recipe: Recipe, term: str) -> Objective:
    """Its loss without one of its terms; thresholds are only for ranks."""
    kept = tuple(one for one in recipe.objective.terms if one.name != term)
    return Objective(kept, None if term == "rank" else recipe.objective.threshold)


_VARIANTS: Mapping[str, Objective] = MappingProxyType(
    {
        "positives_only": hard_positive(negative=0.0).objective,
        "hard_positive-n25": hard_positive(negative=0.25).objective,
        "hard_positive-n50": hard_positive(negative=0.5).objective,
        "swap_only": hard_positive().objective,
        "replace_only": hard_positive().objective,
        "rephrased": hard_positive(rephrases=True).objective,
        "ce_clip_fixed-intra": _without(ce_clip_fixed(), "rank"),
        "ce_clip_fixed-rank": _without(ce_clip_fixed(), "intra_modal"),
        "ce_clip_fixed-margin2": ce_clip_fixed(thresholds="fixed", fixed=2.0).objective,
        "ce_clip_fixed-margin10": ce_clip_fixed(thresholds="fixed", fixed=10.0).objective,
        "ce_clip_fixed-unbounded": ce_clip_fixed(upper=None).objective,
        "ce_clip": ce_clip().objective,
    }
)
VARIANTS: tuple[str, ...] = tuple(_VARIANTS)
"""Ablations and controls of the papers, all with both towers open: weights of the negatives' loss
of 25 and 50 %, one family of edits, other positives, parts of CE-CLIP, and CE-CLIP as printed."""
_VIEWS: Mapping[str, View] = MappingProxyType(
    {"swap_only": "swap", "replace_only": "replace", "rephrased": "rephrased"}
)


def view_of(arm: str) -> View:
    """What an arm is shown."""
    return _VIEWS.get(arm, "all")


def make_recipe(arm: str, experiment: Experiment, *, batch: int) -> Recipe:
    """An arm by name; learning rate and the rest are those of pilot C, the same for all."""
    if arm not in (*ARMS, *VARIANTS):
        raise unknown_name("arm", arm, (*ARMS, *VARIANTS))
    is_locked = arm.endswith(LOCKED)
    name = arm.removesuffix(LOCKED)
    shared = Recipe(
        name=arm,
        source="methods.md 12.10, variant C",
        objective=_VARIANTS[name] if name in _VARIANTS else _RECIPES[name].objective,
        negatives=NEGATIVES,
        positives=experiment.positives,
        epochs=1,
        batch=batch,
        learning_rate=3e-4,
        weight_decay=0.05,
        warm_up=100,
        clip_norm=None,
    )
    return replace(shared, locks=Locks(picture="all")) if is_locked else shared
