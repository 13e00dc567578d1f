"""Settings typed as `key=value`: make a recipe by name with them, or settings of a read-out."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from inspect import Parameter, signature
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from unbag.errors import UserError, unknown_name
from unbag.registry import find
from unbag.training.losses import distil
from unbag.training.objective import Term
from unbag.training.recipes import Locks, Lora, Recipe

S = TypeVar("S")
_FIXED = ("name", "source", "objective", "negatives", "positives")
"""Fields that only a recipe's function sets."""
_PARTS = {
    "lora": tuple(field.name for field in fields(Lora)),
    "locks": tuple(field.name for field in fields(Locks)),
}
_DISTIL = "distil"
"""Adds that loss with this weight: the one term that any recipe can take."""
_TYPE_NAME = {bool: "true or false", int: "a whole number", float: "a number", NoneType: "none"}
_EXAMPLE = {bool: "true", int: "2", float: "0.5"}
_UNFIT = object()


def make_recipe(name: str, settings: Sequence[str] = ()) -> Recipe:
    """A registered recipe or package.module:function, changed by `field=value` settings.

    A setting is an argument of the recipe's function (upper=5), a field of the recipe
    (learning_rate=1e-6), a part of one (locks.picture=all, lora.rank=8), or the weight of
    distillation from the first weights (distil=0.5).
    """
    function = find("recipe", name)
    if not callable(function):
        raise UserError(
            f"the recipe {name!r} is a {type(function).__name__}",
            expected="a function that gives a Recipe",
        )
    known = parsed(settings)
    wanted = signature(function).parameters
    hints = hints_of(function)
    own = {key: fit(known[key], hints.get(key, Any), key=key) for key in wanted if key in known}
    _check_needed(name, wanted, own)
    recipe = cast(Callable[..., object], function)(**own)
    if not isinstance(recipe, Recipe):
        raise UserError(
            f"the recipe {name!r} gives a {type(recipe).__name__}",
            expected="a Recipe of unbag.training.recipes",
        )
    for key, value in known.items():
        if key not in own:
            recipe = _changed(recipe, key, value, options=list(wanted))
    return recipe


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


def parsed(settings: Sequence[str]) -> dict[str, object]:
    """`key=value` as text to keys and plain values; raises UserError for anything else."""
    found: dict[str, object] = {}
    for one in settings:
        key, equals, text = one.partition("=")
        if not equals or not key:
            raise UserError(
                f"the setting {one!r}",
                expected="field=value",
                way_out="as in --set learning_rate=1e-6 batch=128",
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


def _check_needed(name: str, wanted: Mapping[str, Parameter], own: Mapping[str, object]) -> None:
    plain = (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    needed = [
        key
        for key, one in wanted.items()
        if one.kind in plain and one.default is Parameter.empty and key not in own
    ]
    if needed:
        raise UserError(
            f"the recipe {name!r} says nothing of {', '.join(needed)}",
            expected="a value for each",
            way_out=f"--set {needed[0]}=...",
        )


def _changed(recipe: Recipe, key: str, value: object, *, options: list[str]) -> Recipe:
    outer, _, inner = key.partition(".")
    settable = [f.name for f in fields(Recipe) if f.name not in _FIXED]
    if key == _DISTIL:
        return _distilled(recipe, fit(value, float, key=key))
    every = [
        *options,
        *settable,
        _DISTIL,
        *(f"{name}.{part}" for name in _PARTS for part in _PARTS[name]),
    ]
    if (outer not in settable) if not inner else (inner not in _PARTS.get(outer, ())):
        raise unknown_name("setting", key, every, way_out=f"settings: {', '.join(every)}")
    if not inner:
        return replace(recipe, **{outer: fit(value, hints_of(Recipe)[outer], key=key)})
    part = (recipe.lora or Lora()) if outer == "lora" else recipe.locks
    changed = replace(part, **{inner: fit(value, hints_of(type(part))[inner], key=key)})
    return replace(recipe, **{outer: changed})  # type: ignore[arg-type]


def _distilled(recipe: Recipe, weight: float) -> Recipe:
    terms = (*recipe.objective.terms, Term(_DISTIL, weight, distil, needs_start=True))
    return replace(recipe, objective=replace(recipe.objective, terms=terms))


def hints_of(what: Callable[..., object] | type) -> Mapping[str, object]:
    """Types of arguments or fields; empty where a plug-in's cannot be read."""
    with suppress(NameError, TypeError):
        return get_type_hints(what)
    return {}


def fit(value: object, hint: object, *, key: str) -> Any:
    """The value, a whole number as a float where one is wanted; raises UserError if it is other."""
    found = _fit_any(value, hint)
    if found is _UNFIT:
        wanted = " or ".join(_expected(one, key) for one in _options(hint))
        raise UserError(
            f"the setting {key}={value}",
            expected=wanted,
            way_out=f"as in --set {_example(_options(hint)[0], key)}, or leave it out",
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
