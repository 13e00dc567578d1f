"""The arms of the repair experiment: names come in; recipes that differ in one thing go out.

All arms of an experiment see the same pictures, captions, negatives and positives for as many
steps; they differ in the loss, and in whether the picture tower is locked (methods.md 12.7, 12.10).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from unbag.errors import unknown_name
from unbag.readouts.pool_world import NEGATIVES
from unbag.train.config import Locks, Recipe, Slot
from unbag.train.recipes import ce_clip_fixed, clip_ft, hard_negative, hard_positive, neg_clip
from unbag.train.world_captions import DEFAULT_PRESET

CONTROL = "clip_ft"
"""Plain fine-tuning on the same captions: what every other arm is read against."""
LOCKED = "-locked"
"""Ends the name of an arm whose picture tower stays as it is."""

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
    """Of `unbag.train.world_captions`."""
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


def make_recipe(arm: str, experiment: Experiment, *, batch: int) -> Recipe:
    """An arm by name; learning rate and the rest are those of pilot C, the same for all."""
    if arm not in ARMS:
        raise unknown_name("arm", arm, ARMS)
    is_locked = arm.endswith(LOCKED)
    shared = Recipe(
        name=arm,
        source="methods.md 12.10, variant C",
        objective=_RECIPES[arm.removesuffix(LOCKED)].objective,
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
