"""The identity of a run: all that decides its result, as plain data.

It is the same in every process and session. Classes and functions are represented by name. Those of
this package are `unbag:Name`, without the module, which may be renamed before a run is resumed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

from unbag.errors import UnbagError

_MAX_LISTED = 6
"""Number of differences that an error lists; the rest is counted."""


class RunIdentity:
    """Settings and inputs that decide the result of a run: equal identity, equal result."""

    def __init__(self, **fields: object) -> None:
        """Convert dataclasses, functions, paths and other values to plain data."""
        self.fields: dict[str, Any] = json.loads(json.dumps(described(fields)))

    @classmethod
    def of_json(cls, fields: Mapping[str, Any]) -> RunIdentity:
        """Restore an identity from a file."""
        identity = cls()
        identity.fields = dict(fields)
        return identity

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunIdentity) and self.fields == other.fields

    __hash__ = None  # type: ignore[assignment]

    def require_same(self, earlier: RunIdentity, *, folder: Path, kind: str) -> None:
        """Raise UnbagError with the fields that differ, unless the earlier run is the same."""
        changes = differences(earlier.fields, self.fields)
        if not changes:
            return
        more = f"; and {len(changes) - _MAX_LISTED} more" if len(changes) > _MAX_LISTED else ""
        raise UnbagError(
            f"the folder {folder} holds another {kind}: {'; '.join(changes[:_MAX_LISTED])}{more}",
            expected="the same settings and inputs, to resume that run",
            hint="give the old settings to resume it, name another folder with --out, or delete "
            "this one",
        )


def described(value: object) -> object:
    """Convert to JSON: dataclasses by class and fields, functions by name and bound arguments."""
    if is_dataclass(value) and not isinstance(value, type):
        values = {field.name: described(getattr(value, field.name)) for field in fields(value)}
        # Different losses may have the same options.
        return {"class": _qualified_name(type(value)), **values}
    if isinstance(value, partial):
        bound = {key: described(item) for key, item in value.keywords.items()}
        arguments = [described(item) for item in value.args]
        return {"function": described(value.func), "arguments": arguments, **bound}
    if isinstance(value, Mapping):
        return {str(key): described(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [described(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Path):
        return str(value)
    if callable(value):
        return _qualified_name(value)
    return repr(value)


def _qualified_name(value: object) -> str:
    named = value if hasattr(value, "__qualname__") else type(value)
    module = named.__module__
    return f"{'unbag' if module.startswith('unbag.') else module}:{named.__qualname__}"


def differences(old: object, new: object, at: str = "") -> list[str]:
    """List the differences, such as "recipe.batch: 256 before, 128 now"."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        names = dict.fromkeys((*old, *new))
        return [
            difference
            for name in names
            for difference in differences(
                old.get(name), new.get(name), f"{at}.{name}" if at else name
            )
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [difference for i, (a, b) in pairs for difference in differences(a, b, f"{at}[{i}]")]
    return [] if old == new else [f"{at}: {_short(old)} before, {_short(new)} now"]


def _short(value: object) -> str:
    text = "nothing" if value is None else str(value) or "empty"
    return text if len(text) <= 60 else text[:57] + "..."
