"""Names of arms of the experiment `probes` come in; the models they stand for go out.

Nothing is trained here: an arm is a base, its untrained twin, a repair whose weights another
experiment left behind, or weights between a base and such a repair.
"""

from __future__ import annotations

from pathlib import Path

from unbag.errors import UserError, unknown_name
from unbag.lab.arm_result import BEFORE, UNTRAINED, result_path
from unbag.lab.claim import ArmKey
from unbag.models.tiny import Tiny, TinyTowers, read, untrained

REPAIRS_OF = "default"
"""The experiment whose repairs are asked."""
REPAIRED = ("clip_ft", "neg_clip", "hard_negative", "hard_positive", "ce_clip_fixed")
MIXED = "hard_negative"
"""The repair towards which weights are mixed."""
_MIX = "mix-"
WEIGHTS = (0.25, 0.5, 0.75)
MIXES = tuple(f"{_MIX}{weight:g}" for weight in WEIGHTS)
BLIND = {"blind": "default", "blind-ordered": "ordered"}
"""Readers of captions alone, with the preset of the captions that they are taught by."""
MODELS: tuple[str, ...] = (BEFORE, UNTRAINED, *REPAIRED, *MIXES)
ARMS: tuple[str, ...] = (*MODELS, *BLIND)


def needs(arm: str) -> tuple[ArmKey, ...]:
    """The repair whose weights an arm reads."""
    if arm not in ARMS:
        raise unknown_name("arm", arm, ARMS)
    if arm in MIXES:
        return ((REPAIRS_OF, MIXED),)
    return ((REPAIRS_OF, arm),) if arm in REPAIRED else ()


def load_arm(arm: str, base: Path, out: Path, *, seed: int, device: str) -> Tiny:
    """The model of an arm; `seed` is that of the untrained twin."""
    first = read(base, name=base.stem, device=device)
    if arm == BEFORE:
        return first
    if arm == UNTRAINED:
        return Tiny(untrained(first.config, seed=seed), name=arm, device=device)
    ((experiment, repair),) = needs(arm)
    path = result_path(out, experiment, base.stem, repair).with_suffix(".safetensors")
    if not path.exists():
        raise UserError(
            f"no weights of {repair} at {path}",
            expected=f"those that the experiment {experiment!r} leaves there",
            way_out=f"run its arm {repair} on {base.stem} into the same folder first",
        )
    tuned = read(path, name=arm, device=device)
    return tuned if arm in REPAIRED else _mixed(first, tuned, arm)


def _mixed(first: Tiny, tuned: Tiny, arm: str) -> Tiny:
    # It imports all kinds of models, and PIL with them.
    from unbag.training.merge import interpolate

    weight = float(arm.removeprefix(_MIX))
    towers = TinyTowers(first.config)
    state = interpolate(first.towers.state_dict(), tuned.towers.state_dict(), weight)
    towers.load_state_dict(state)
    return Tiny(towers, name=arm, device=first.device)
