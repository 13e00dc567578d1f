"""Settings typed as `key=value`, and bounds that a dataclass declares on its fields."""

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
    """Which finite numbers a field can hold; for a tuple, each of its numbers."""

    low: float | None = None
    above: float | None = None
    high: float | None = None
    below: float | None = None

    def holds(self, value: object) -> bool:
        """None is a choice of its own, which the type of the field allows or does not."""
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
    """A dataclass field that `check_bounds` holds to its type and to these bounds."""
    return field(default=default, metadata={_BOUND: Bound(low, above, high, below)})


def check_bounds(settings: object, what: str, *, prefix: str = "") -> None:
    """Raise UnbagError if a bounded field is of another type or out of its bounds.

    `what` names the thing with the settings, such as "a recipe"; `prefix` comes before the names
    of fields that are typed as parts (lora.rank).
    """
    assert is_dataclass(settings)
    for one in fields(settings):
        bound = one.metadata.get(_BOUND)
        if bound is None:
            continue
        key, value = f"{prefix}{one.name}", getattr(settings, one.name)
        found = fit(value, hints_of(type(settings)).get(one.name, Any), key=key)
        if not bound.holds(found):
            raise UnbagError(
                f"{what} with {key}={value}",
                expected=f"each {bound}" if isinstance(value, tuple) else str(bound),
                hint=f"as in --set {key}={_typed(one.default)}, or leave it out",
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
"""Settings of an earlier version, and what they are called now."""


def with_current_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings from a file that any version wrote."""
    return {RENAMED.get(name, name): value for name, value in settings.items()}


def with_first_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """As fingerprints hold them, so that those of read-outs that were trained before stay true."""
    first = {now: before for before, now in RENAMED.items()}
    return {first.get(name, name): value for name, value in settings.items()}


def choose(defaults: S, typed: Sequence[str], *, readout: str) -> S:
    """The defaults of a read-out, changed as --set says; an unknown or unfit one is an error."""
    assert is_dataclass(defaults)
    assert not isinstance(defaults, type)
    known = [field.name for field in fields(defaults)]
    hints = hints_of(type(defaults))
    found: dict[str, object] = {}
    for key, value in parsed(typed).items():
        if key not in known:
            raise unknown_setting(key, known, of=readout)
        found[key] = fit(value, hints[key], key=key)
    return replace(defaults, **found)


def unknown_setting(key: str, known: Sequence[str], *, of: str) -> UnbagError:
    """The error for a setting that does not exist, with its new name if it was renamed."""
    if RENAMED.get(key) in known:
        return UnbagError(
            f"the setting {key!r} is now {RENAMED[key]!r}", hint=f"--set {RENAMED[key]}=..."
        )
    return unknown_name("setting", key, known, hint=f"settings of {of}: {', '.join(known)}")


def parsed(settings: Sequence[str]) -> dict[str, object]:
    """`key=value` as text to keys and plain values; raises UnbagError for anything else."""
    found: dict[str, object] = {}
    for one in settings:
        key, equals, text = one.partition("=")
        if not equals or not key:
            raise UnbagError(
                f"the setting {one!r}",
                expected="field=value",
                hint="as in --set learning_rate=1e-6 batch_size=128",
            )
        found[key.strip()] = _value(text.strip())
    return found


def _value(text: str) -> object:
    """A number, true, false, none, or the text itself."""
    plain = {"true": True, "false": False, "none": None}
    if text.lower() in plain:
        return plain[text.lower()]
    try:
        return cast(object, ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return text


def hints_of(what: Callable[..., object] | type) -> Mapping[str, object]:
    """Types of arguments or fields; empty where a plug-in's cannot be read."""
    with suppress(NameError, TypeError):
        return get_type_hints(what)
    return {}


def fit(value: object, hint: object, *, key: str) -> Any:
    """The value, a whole number as a float where one is wanted; UnbagError if it is other."""
    found = _fit_any(value, hint)
    if found is _UNFIT:
        wanted = " or ".join(_expected(one, key) for one in _options(hint))
        raise UnbagError(
            f"the setting {key}={value}",
            expected=wanted,
            hint=f"as in --set {_example(_options(hint)[0], key)}, or leave it out",
        )
    return found


def _fit_any(value: object, hint: object) -> object:
    return next(
        (found for one in _options(hint) if (found := _fit_one(value, one)) is not _UNFIT), _UNFIT
    )


def _fit_one(value: object, hint: object) -> object:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value if value in parts else _UNFIT
    if origin is tuple and isinstance(value, tuple | list) and len(value) == len(parts):
        found = [_fit_any(*both) for both in zip(value, parts, strict=True)]
        return _UNFIT if _UNFIT in found else tuple(found)
    if hint is Any or origin not in (None, tuple):
        # Nothing that could be checked; a plug-in sees for itself.
        return value
    if hint is float and type(value) in (int, float):
        return float(value)  # type: ignore[arg-type]
    # A bool is an int to Python, but nobody means 1 by true.
    is_fit = isinstance(hint, type) and isinstance(value, hint)
    return value if is_fit and (type(value) is not bool or hint is bool) else _UNFIT


def _typed(value: object) -> str:
    """A value as `parsed` reads it."""
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
    """A setting of that type, as it is typed."""
    if is_dataclass(hint):
        return f"{key}.{fields(hint)[0].name}=..."
    parts = get_args(hint)
    if get_origin(hint) is Literal:
        return f"{key}={parts[0]}"
    if get_origin(hint) is tuple:
        return f"{key}=({','.join(_EXAMPLE.get(part, '...') for part in parts)})"
    return f"{key}={_EXAMPLE.get(hint, '...')}"  # type: ignore[call-overload]
