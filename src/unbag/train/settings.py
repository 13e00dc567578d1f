"""A recipe by name and settings as text come in; the recipe with those settings goes out."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from inspect import signature
from typing import cast

from unbag.errors import UserError, unknown_name
from unbag.registry import find
from unbag.train.config import Locks, Lora, Recipe

_FIXED = ("name", "source", "objective", "negatives", "positives")
"""Fields that only a recipe's function sets."""
_PARTS = {
    "lora": tuple(field.name for field in fields(Lora)),
    "locks": tuple(field.name for field in fields(Locks)),
}


def make_recipe(name: str, settings: Sequence[str] = ()) -> Recipe:
    """A registered recipe or package.module:function, changed by `field=value` settings.

    A setting is an argument of the recipe's function (upper=5), a field of the recipe
    (learning_rate=1e-6), or a part of one (locks.picture=all, lora.rank=8).
    """
    function = find("recipe", name)
    if not callable(function):
        raise UserError(
            f"the recipe {name!r} is a {type(function).__name__}",
            expected="a function that gives a Recipe",
        )
    known = _parsed(settings)
    wanted = signature(function).parameters
    own = {key: value for key, value in known.items() if key in wanted}
    recipe = cast(Callable[..., object], function)(**own)
    if not isinstance(recipe, Recipe):
        raise UserError(
            f"the recipe {name!r} gives a {type(recipe).__name__}",
            expected="a Recipe of unbag.train.config",
        )
    for key, value in known.items():
        if key not in own:
            recipe = _changed(recipe, key, value, options=list(wanted))
    return recipe


def _parsed(settings: Sequence[str]) -> dict[str, object]:
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


def _changed(recipe: Recipe, key: str, value: object, *, options: list[str]) -> Recipe:
    outer, _, inner = key.partition(".")
    settable = [f.name for f in fields(Recipe) if f.name not in _FIXED]
    every = [*options, *settable, *(f"{name}.{part}" for name in _PARTS for part in _PARTS[name])]
    if (outer not in settable) if not inner else (inner not in _PARTS.get(outer, ())):
        raise unknown_name("setting", key, every, way_out=f"settings: {', '.join(every)}")
    if not inner:
        new = _like(getattr(recipe, outer), value, key)
    elif outer == "lora":
        lora = recipe.lora or Lora()
        new = replace(lora, **{inner: _like(getattr(lora, inner), value, key)})  # type: ignore[arg-type]
    else:
        old = getattr(recipe.locks, inner)
        new = replace(recipe.locks, **{inner: _like(old, value, key)})  # type: ignore[arg-type]
    return replace(recipe, **{outer: new})  # type: ignore[arg-type]


def _like(old: object, value: object, key: str) -> object:
    """The value, if it is of the kind that stands there."""
    if isinstance(old, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(old, tuple) and isinstance(value, tuple | list):
        return tuple(value)
    is_same = isinstance(value, type(old)) and isinstance(value, bool) == isinstance(old, bool)
    may_be_none = key in ("clip_norm", "lora") and (value is None or old is None)
    is_lock = key in ("locks.picture", "locks.caption") and (
        value == "all" or (isinstance(value, int) and not isinstance(value, bool))
    )
    if is_same or may_be_none or is_lock:
        return value
    raise UserError(
        f"the setting {key}={value!r} is a {type(value).__name__}",
        expected=f"a value like {old!r}",
    )
