"""`key=value` as typed and a dataclass of defaults come in; the settings asked for go out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar

from unbag.errors import unknown_name
from unbag.train.hints import fit, hints_of
from unbag.train.settings import parsed

S = TypeVar("S")


def choose(defaults: S, typed: Sequence[str], *, readout: str) -> S:
    """The defaults of a read-out, changed as --set says; an unknown or unfit one is an error."""
    assert is_dataclass(defaults)
    assert not isinstance(defaults, type)
    known = [field.name for field in fields(defaults)]
    hints = hints_of(type(defaults))
    found: dict[str, object] = {}
    for key, value in parsed(typed).items():
        if key not in known:
            way_out = f"settings of {readout}: {', '.join(known)}"
            raise unknown_name("setting", key, known, way_out=way_out)
        found[key] = fit(value, hints[key], key=key)
    return replace(defaults, **found)
