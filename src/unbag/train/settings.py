"""A recipe by name and settings as text come in; the recipe with those settings goes out."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from inspect import Parameter, signature
from typing import Any, cast

from unbag.errors import UserError, unknown_name
from unbag.losses.distil import distil
from unbag.losses.objective import Term
from unbag.registry import find
from unbag.train.config import Locks, Lora, Recipe
from unbag.train.hints import fit, hints_of

_FIXED = ("name", "source", "objective", "negatives", "positives")
"""Fields that only a recipe's function sets."""
_PARTS = {
    "lora": tuple(field.name for field in fields(Lora)),
    "locks": tuple(field.name for field in fields(Locks)),
}
_DISTIL = "distil"
"""Adds that loss with this weight: the one term that any recipe can take."""


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
            expected="a Recipe of unbag.train.config",
        )
    for key, value in known.items():
        if key not in own:
            recipe = _changed(recipe, key, value, options=list(wanted))
    return recipe


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
