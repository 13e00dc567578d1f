"""Names of arms come in; what each trains from scratch goes out: a size, a stream, a mask.

Arms with the same knobs are shown the same batches. A stream with collisions has more captions that
bind or relate than one without; `without_collisions` gives a stream with as many of each kind in
which captions meet their own words by chance alone, so that the two differ in nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType

from unbag.errors import unknown_name
from unbag.models.tiny import TinyConfig
from unbag.world.grammar import words
from unbag.world.stream import Knobs, Mixture


@dataclass(frozen=True)
class Arm:
    """One model trained from scratch."""

    about: str
    config: TinyConfig
    knobs: Knobs
    masks: bool = True
    """Whether pairs off the diagonal that are true as well are left out of the loss."""


def without_collisions(knobs: Knobs) -> Knobs:
    """As many captions of each kind, on average, each drawn for itself.

    With chance q a draw gives two partners and else one sample, so that 2q / (1 + q) of all
    samples are partners; these bind or relate, and none of them denies.
    """
    partners = 2 * knobs.collision / (1 + knobs.collision)
    alone = 1 - partners
    one_thing, counted = alone * knobs.one_thing, alone * knobs.counted
    two_alone = alone * (1 - knobs.one_thing - knobs.counted)
    mixture = _joined(knobs.mixture, two_alone * (1 - knobs.negated), partners)
    unsaid = two_alone * (1 - knobs.mixture.relation)
    return replace(
        knobs,
        mixture=mixture,
        one_thing=one_thing,
        counted=counted,
        negated=alone * (1 - knobs.counted) * knobs.negated / (1 - counted),
        related=knobs.related * unsaid / ((two_alone + partners) * (1 - mixture.relation)),
        collision=0.0,
    )


def _joined(mixture: Mixture, alone: float, partners: float) -> Mixture:
    """Captions of two things that come alone, and partners, which only bind or relate."""
    composed = ("both_bound", "relation")
    of_composed = sum(getattr(mixture, kind) for kind in composed)
    found = {}
    for field in fields(mixture):
        share = getattr(mixture, field.name)
        joined = partners * share / of_composed if field.name in composed else 0.0
        found[field.name] = alone * share + joined
    total = sum(found.values())
    return Mixture(**{kind: share / total for kind, share in found.items()})


_PLAIN = Knobs(withheld_combinations=0.2)
"""The stream of `tiny:base`: a fifth of the shape-colour combinations is never shown."""
_COLLIDE = replace(_PLAIN, collision=0.5)
_RELATE = replace(_COLLIDE, mixture=Mixture(two_plain=0.02, relation=0.40))
_BASE = TinyConfig(words=words())
_SMALL = replace(
    _BASE, picture_width=128, picture_depth=4, caption_width=128, caption_depth=3, joint=128
)
_LARGE = replace(
    _BASE, picture_width=256, picture_depth=6, caption_width=256, caption_depth=4, joint=256
)

ARMS: Mapping[str, Arm] = MappingProxyType(
    {
        "small": Arm("1.5 million weights", _SMALL, _PLAIN),
        "base": Arm("the size of tiny:base, 3 million weights", _BASE, _PLAIN),
        "large": Arm("8 million weights", _LARGE, _PLAIN),
        "collide": Arm("half of all draws are two captions of the same words", _BASE, _COLLIDE),
        "mixed": Arm(
            "as many captions of each kind, drawn alone", _BASE, without_collisions(_COLLIDE)
        ),
        "relations_collide": Arm("collisions, most of them of relations", _BASE, _RELATE),
        "relations": Arm("as many relations, drawn alone", _BASE, without_collisions(_RELATE)),
        "unmasked": Arm(
            "as base; pairs that are true as well are negatives", _BASE, _PLAIN, masks=False
        ),
    }
)
"""In the order in which tables show them."""


def find_arm(name: str) -> Arm:
    """By name."""
    if name not in ARMS:
        raise unknown_name("arm of pretraining", name, ARMS)
    return ARMS[name]


def smaller(arm: Arm) -> Arm:
    """The same arm with a few thousand weights, for a run that only shows that the code works."""
    width = arm.config.picture_width // 16
    return replace(
        arm,
        config=replace(
            arm.config,
            patch=16,
            picture_width=width,
            picture_depth=1,
            caption_width=width,
            caption_depth=1,
            joint=width,
            heads=2,
        ),
    )
