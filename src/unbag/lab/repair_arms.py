"""The arms of the repair experiment: names come in; recipes that differ in one thing go out.

All arms of an experiment see the same pictures, captions, negatives and positives for as many
steps; they differ in the loss, and in whether the picture tower is locked (methods.md 12.7, 12.10).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from unbag.errors import unknown_name
from unbag.losses.contrastive import contrastive
from unbag.losses.contrastive_negatives import contrastive_negatives
from unbag.losses.intra_modal import intra_modal
from unbag.losses.objective import Objective, Term, ThresholdRule
from unbag.losses.rank import rank
from unbag.losses.svlc import svlc_negative, svlc_positive
from unbag.train.config import Locks, Recipe, Slot
from unbag.train.world_captions import DEFAULT_PRESET

CONTROL = "clip_ft"
"""Plain fine-tuning on the same captions: what every other arm is read against."""
LOCKED = "-locked"
"""Ends the name of an arm whose picture tower stays as it is."""

NEGATIVES: tuple[Slot, ...] = (
    Slot("swap", ("swap_attributes", "swap_arguments")),
    Slot("relation", ("replace_relation",)),
    Slot("attribute", ("replace_colour", "replace_size", "replace_texture")),
    Slot("object", ("replace_shape",)),
)
"""Counting and negation are left out, so that their benchmarks show what carries over."""
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

_HARD = Term("contrastive_negatives", 1.0, contrastive_negatives)
_NEGATIVE = Term("svlc_negative", 1.0, svlc_negative)
_OBJECTIVES: Mapping[str, Objective] = MappingProxyType(
    {
        CONTROL: Objective((Term("contrastive", 1.0, contrastive),)),
        "neg_clip": Objective((_HARD,)),
        "hard_negative": Objective((_HARD, _NEGATIVE)),
        "hard_positive": Objective((_HARD, _NEGATIVE, Term("svlc_positive", 1.0, svlc_positive))),
        "ce_clip_fixed": Objective(
            (_HARD, Term("intra_modal", 0.2, intra_modal), Term("rank", 0.4, rank)),
            ThresholdRule(),
        ),
    }
)
ARMS: tuple[str, ...] = (*_OBJECTIVES, *(f"{name}{LOCKED}" for name in _OBJECTIVES))


def make_recipe(arm: str, experiment: Experiment, *, batch: int) -> Recipe:
    """An arm by name; learning rate and the rest are those of pilot C, the same for all."""
    if arm not in ARMS:
        raise unknown_name("arm", arm, ARMS)
    is_locked = arm.endswith(LOCKED)
    shared = Recipe(
        name=arm,
        source="methods.md 12.10, variant C",
        objective=_OBJECTIVES[arm.removesuffix(LOCKED)],
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
