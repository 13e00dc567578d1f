"""What decides the result of a run, as plain data that is the same in every process and session.

Classes and functions are written by name. Those of this package are `unbag:Name`, without their
module, which may be renamed while a run waits to be resumed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

from unbag.errors import UnbagError

_MOST_NAMED = 6
"""Differences that an error lists; more are counted."""


class RunIdentity:
    """The settings and inputs that decide what a run computes; equal identities, equal results."""

    def __init__(self, **fields: object) -> None:
        """Take anything: dataclasses, functions and paths become plain data."""
        self.fields: dict[str, Any] = json.loads(json.dumps(described(fields)))

    @classmethod
    def of_json(cls, fields: Mapping[str, Any]) -> RunIdentity:
        """An identity that was written to a file."""
        found = cls()
        found.fields = dict(fields)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunIdentity) and self.fields == other.fields

    __hash__ = None  # type: ignore[assignment]

    def require_same(self, earlier: RunIdentity, *, folder: Path, kind: str) -> None:
        """Raise UnbagError, naming each field that differs, unless an earlier run is the same."""
        apart = differences(earlier.fields, self.fields)
        if not apart:
            return
        more = f"; and {len(apart) - _MOST_NAMED} more" if len(apart) > _MOST_NAMED else ""
        raise UnbagError(
            f"the folder {folder} holds another {kind}: {'; '.join(apart[:_MOST_NAMED])}{more}",
            expected="the same settings and inputs, to resume that run",
            hint="give the old settings to resume it, name another folder with --out, or delete "
            "this one",
        )


def described(value: object) -> object:
    """For JSON: dataclasses by class and field, functions by name and what is bound to them."""
    if is_dataclass(value) and not isinstance(value, type):
        found = {field.name: described(getattr(value, field.name)) for field in fields(value)}
        # Two losses may have the same options and be different classes.
        return {"class": _name(type(value)), **found}
    if isinstance(value, partial):
        bound = {key: described(one) for key, one in value.keywords.items()}
        arguments = [described(one) for one in value.args]
        return {"function": described(value.func), "arguments": arguments, **bound}
    if isinstance(value, Mapping):
        return {str(key): described(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [described(one) for one in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Path):
        return str(value)
    if callable(value):
        return _name(value)
    return repr(value)


def _name(value: object) -> str:
    named = value if hasattr(value, "__qualname__") else type(value)
    module = named.__module__
    return f"{'unbag' if module.startswith('unbag.') else module}:{named.__qualname__}"


def differences(old: object, new: object, at: str = "") -> list[str]:
    """Where two descriptions differ, as "recipe.batch: 256 before, 128 now"."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        names = dict.fromkeys((*old, *new))
        return [
            one
            for name in names
            for one in differences(old.get(name), new.get(name), f"{at}.{name}" if at else name)
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        both = enumerate(zip(old, new, strict=True))
        return [one for i, (a, b) in both for one in differences(a, b, f"{at}[{i}]")]
    return [] if old == new else [f"{at}: {_short(old)} before, {_short(new)} now"]


def _short(value: object) -> str:
    text = "nothing" if value is None else str(value) or "empty"
    return text if len(text) <= 60 else text[:57] + "..."
