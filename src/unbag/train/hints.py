"""A setting from the command line and a type come in; the value of that type goes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from unbag.errors import UserError

_SAID = {bool: "true or false", int: "a whole number", float: "a number", NoneType: "none"}
_EXAMPLE = {bool: "true", int: "2", float: "0.5"}
_UNFIT = object()


def hints_of(what: Callable[..., object] | type) -> Mapping[str, object]:
    """Types of arguments or fields; empty where a plug-in's cannot be read."""
    with suppress(NameError, TypeError):
        return get_type_hints(what)
    return {}


def fit(value: object, hint: object, *, key: str) -> Any:
    """The value, a whole number as a float where one is wanted; raises UserError if it is other."""
    found = _fit(value, hint)
    if found is _UNFIT:
        wanted = " or ".join(_said(one, key) for one in _options(hint))
        raise UserError(
            f"the setting {key}={value}",
            expected=wanted,
            way_out=f"as in --set {_example(_options(hint)[0], key)}, or leave it out",
        )
    return found


def _fit(value: object, hint: object) -> object:
    return next(
        (found for one in _options(hint) if (found := _as(value, one)) is not _UNFIT), _UNFIT
    )


def _as(value: object, hint: object) -> object:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value if value in parts else _UNFIT
    if origin is tuple and isinstance(value, tuple | list) and len(value) == len(parts):
        found = [_fit(*both) for both in zip(value, parts, strict=True)]
        return _UNFIT if _UNFIT in found else tuple(found)
    if hint is Any or origin not in (None, tuple):
        # Nothing that could be checked; a plug-in sees for itself.
        return value
    if hint is float and type(value) in (int, float):
        return float(value)  # type: ignore[arg-type]
    # A bool is an int to Python, but nobody means 1 by true.
    is_fit = isinstance(hint, type) and isinstance(value, hint)
    return value if is_fit and (type(value) is not bool or hint is bool) else _UNFIT


def _options(hint: object) -> tuple[object, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _said(hint: object, key: str) -> str:
    if get_origin(hint) is Literal:
        return ", ".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        return f"({', '.join(_said(part, key) for part in get_args(hint))})"
    if is_dataclass(hint):
        return f"parts of it, such as {key}.{fields(hint)[0].name}"
    return _SAID.get(hint, getattr(hint, "__name__", str(hint)))  # type: ignore[call-overload, no-any-return]


def _example(hint: object, key: str) -> str:
    """A setting of that type, as it is typed."""
    if is_dataclass(hint):
        return f"{key}.{fields(hint)[0].name}=..."
    parts = get_args(hint)
    if get_origin(hint) is Literal:
        return f"{key}={parts[0]}"
    if get_origin(hint) is tuple:
        return f"{key}=({','.join(_EXAMPLE.get(part, '...') for part in parts)})"
    return f"{key}={_EXAMPLE.get(hint, '...')}"  # type: ignore[call-overload]
