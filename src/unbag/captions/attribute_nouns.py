"""Two states and a noun come in; whether one can be said of such a thing for the other goes out."""

from __future__ import annotations

from unbag.captions.attribute_lists import is_fixed
from unbag.captions.word_lists import word_set

_WATERS = word_set(
    """
    creek current lake ocean pond pool puddle rapid river sea spot stream surf tide water wave
    """
)
_GROUNDS = word_set(
    """
    area bank beach court field grass ground hill lot path pathway road sand shore street track
    trail yard
    """
)
_ONLY = {
    "calm": _WATERS - {"puddle", "spot"},
    "gentle": word_set("bank descent grade hill hillside incline path ramp road slope trail"),
    "rotten": word_set(
        "apple banana bread egg fish food fruit meat orange produce salad tomato vegetable"
    ),
}
"""Some states are said of few things."""
_NEVER = {
    "dry": (_WATERS - {"creek", "river", "stream", "pond", "spot"}) | {"snow", "ice"},
    "full": _GROUNDS | {"stretch", "space", "sky", "landscape", "plain", "desert", "highway"},
    "thawed": word_set("cream ice surface treat wall waterfall yogurt"),
    "clean": _GROUNDS | _WATERS,
}
"""Others of all but these."""


def is_said_of(state: str, noun: str, *, instead_of: str) -> bool:
    """Whether a thing with this lemma can be in the state: no rock is calm, no water dry."""
    if (instead_of, state) == ("muddy", "dry"):
        # Mud dries on dogs and cars; only ground is muddy because it is wet.
        return noun in _GROUNDS
    if is_fixed(state, noun) or noun in _NEVER.get(state, ()):
        return False
    return state not in _ONLY or noun in _ONLY[state]
