"""Parse settings given as `key=value`, and check the bounds that dataclass fields declare."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from unbag.errors import UnbagError, unknown_name

S = TypeVar("S")
_BOUND = "bound"
_TYPE_NAME = {bool: "true or false", int: "a whole number", float: "a number", NoneType: "none"}
_EXAMPLE = {bool: "true", int: "2", float: "0.5"}
_UNFIT = object()


@dataclass(frozen=True)
class Bound:
    """Bounds of a number, which must be finite; for a tuple, of each of its numbers."""

    low: float | None = None
    above: float | None = None
    high: float | None = None
    below: float | None = None

    def holds(self, value: object) -> bool:
        """Return whether a value is within the bounds; the type of a field decides about None."""
        if value is None:
            return True
        if isinstance(value, tuple):
            return all(map(self.holds, value))
        assert isinstance(value, int | float)
        return (
            isfinite(value)
            and (self.low is None or value >= self.low)
            and (self.above is None or value > self.above)
            and (self.high is None or value <= self.high)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        parts = (
            ("at least", self.low),
            ("above", self.above),
            ("at most", self.high),
            ("below", self.below),
        )
        return " and ".join(f"{word} {limit:g}" for word, limit in parts if limit is not None)


def bounded(
    default: object,
    *,
    low: float | None = None,
    above: float | None = None,
    high: float | None = None,
    below: float | None = None,
) -> Any:
    """Declare a dataclass field whose type and bounds `check_bounds` checks."""
    return field(default=default, metadata={_BOUND: Bound(low, above, high, below)})


def check_bounds(settings: object, what: str, *, prefix: str = "") -> None:
    """Raise UnbagError if a bounded field has a value of another type or outside its bounds.

    `what` names the owner of the settings in the message, such as "a recipe"; `prefix` precedes the
    names of fields of a nested dataclass, as in lora.rank.
    """
    assert is_dataclass(settings)
    for setting in fields(settings):
        bound = setting.metadata.get(_BOUND)
        if bound is None:
            continue
        key, value = f"{prefix}{setting.name}", getattr(settings, setting.name)
        number = fit(value, hints_of(type(settings)).get(setting.name, Any), key=key)
        if not bound.holds(number):
            raise UnbagError(
                f"{what} with {key}={value}",
                expected=f"each {bound}" if isinstance(value, tuple) else str(bound),
                hint=f"as in --set {key}={_typed(setting.default)}, or leave it out",
            )


RENAMED = {
    "batch": "batch_size",
    "warm_up": "warmup_steps",
    "largest_scale": "max_logit_scale",
    "to_start": "l2_to_init",
    "crowd": "contrast_size",
    "locked_steps": "frozen_steps",
    "locks.picture": "freeze.image",
    "locks.caption": "freeze.text",
    "locks.scale": "freeze.scale",
}
"""Old and current names of settings."""


def with_current_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Rename the settings of a file that an earlier version wrote."""
    return {RENAMED.get(name, name): value for name, value in settings.items()}


def with_first_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Rename settings to their first names, which fingerprints of read-outs are computed from."""
    old_names = {new: old for old, new in RENAMED.items()}
    return {old_names.get(name, name): value for name, value in settings.items()}


def choose(defaults: S, typed: Sequence[str], *, readout: str) -> S:
    """Return the defaults of a read-out changed by --set; UnbagError for an unknown or bad one."""
    assert is_dataclass(defaults)
    assert not isinstance(defaults, type)
    known = [f.name for f in fields(defaults)]
    hints = hints_of(type(defaults))
    values: dict[str, object] = {}
    for key, value in parsed(typed).items():
        if key not in known:
            raise unknown_setting(key, known, of=readout)
        values[key] = fit(value, hints[key], key=key)
    return replace(defaults, **values)


def unknown_setting(key: str, known: Sequence[str], *, of: str) -> UnbagError:
    """Return the error for an unknown setting, with the new name if it was renamed."""
    if RENAMED.get(key) in known:
        return UnbagError(
            f"the setting {key!r} is now {RENAMED[key]!r}", hint=f"--set {RENAMED[key]}=..."
        )
    return unknown_name("setting", key, known, hint=f"settings of {of}: {', '.join(known)}")


def parsed(settings: Sequence[str]) -> dict[str, object]:
    """Parse `key=value` texts to Python values; UnbagError for anything else."""
    values: dict[str, object] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise UnbagError(
                f"the setting {setting!r}",
                expected="field=value",
                hint="as in --set learning_rate=1e-6 batch_size=128",
            )
        values[key.strip()] = _value(text.strip())
    return values


def _value(text: str) -> object:
    """Parse a number, a tuple, true, false or none; any other text stays text."""
    plain = {"true": True, "false": False, "none": None}
    if text.lower() in plain:
        return plain[text.lower()]
    try:
        return cast(object, ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return text


def hints_of(what: Callable[..., object] | type) -> Mapping[str, object]:
    """Return the types of arguments or fields; empty if those of a plug-in cannot be resolved."""
    with suppress(NameError, TypeError):
        return get_type_hints(what)
    return {}


def fit(value: object, hint: object, *, key: str) -> Any:
    """Return the value as the type of `hint`; UnbagError if it has another type.

    A whole number becomes a float where the type is float.
    """
    result = _fit_any(value, hint)
    if result is _UNFIT:
        expected = " or ".join(_expected(option, key) for option in _options(hint))
        raise UnbagError(
            f"the setting {key}={value}",
            expected=expected,
            hint=f"as in --set {_example(_options(hint)[0], key)}, or leave it out",
        )
    return result


def _fit_any(value: object, hint: object) -> object:
    return next(
        (
            result
            for option in _options(hint)
            if (result := _fit_option(value, option)) is not _UNFIT
        ),
        _UNFIT,
    )


def _fit_option(value: object, hint: object) -> object:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value if value in arguments else _UNFIT
    if origin is tuple and isinstance(value, tuple | list) and len(value) == len(arguments):
        values = [_fit_any(*both) for both in zip(value, arguments, strict=True)]
        return _UNFIT if _UNFIT in values else tuple(values)
    if hint is Any or origin not in (None, tuple):
        # A type that cannot be checked here; the plug-in has to do it.
        return value
    if hint is float and type(value) in (int, float):
        return float(value)  # type: ignore[arg-type]
    # In Python a bool is an int, but `true` is not meant as the number 1.
    is_fit = isinstance(hint, type) and isinstance(value, hint)
    return value if is_fit and (type(value) is not bool or hint is bool) else _UNFIT


def _typed(value: object) -> str:
    """Write a value as `parsed` reads it."""
    if isinstance(value, tuple):
        return f"({','.join(map(_typed, value))})"
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _options(hint: object) -> tuple[object, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _expected(hint: object, key: str) -> str:
    if get_origin(hint) is Literal:
        return ", ".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        return f"({', '.join(_expected(part, key) for part in get_args(hint))})"
    if is_dataclass(hint):
        return f"parts of it, such as {key}.{fields(hint)[0].name}"
    return _TYPE_NAME.get(hint, getattr(hint, "__name__", str(hint)))  # type: ignore[call-overload, no-any-return]


def _example(hint: object, key: str) -> str:
    """Return an example of a setting of that type."""
    if is_dataclass(hint):
        return f"{key}.{fields(hint)[0].name}=..."
    parts = get_args(hint)
    if get_origin(hint) is Literal:
        return f"{key}={parts[0]}"
    if get_origin(hint) is tuple:
        return f"{key}=({','.join(_EXAMPLE.get(part, '...') for part in parts)})"
    return f"{key}={_EXAMPLE.get(hint, '...')}"  # type: ignore[call-overload]
