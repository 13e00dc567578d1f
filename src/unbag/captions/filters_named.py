"""Names of filters come in, such as fluency:PATH; filters go out, those always on first."""

from __future__ import annotations

from collections.abc import Sequence

from unbag.captions.filters import ALWAYS, Filter
from unbag.errors import UserError, unknown_name
from unbag.models.device import choose_device
from unbag.registry import find, names


def make_filters(wanted: Sequence[str], *, device: str = "auto") -> tuple[Filter, ...]:
    """Filters that are always on, then these in their order; models are loaded here.

    Args:
        wanted: `fluency:PATH`, `meaning:PATH`, or package.module:NAME for one of your own.
        device: For those with a model.
    """
    return (*ALWAYS, *(_filter(name, device) for name in dict.fromkeys(wanted)))


def _filter(name: str, device: str) -> Filter:
    kind, colon, rest = name.partition(":")
    if kind not in names("filter"):
        if not colon:
            raise unknown_name("filter", name, [f"{known}:PATH" for known in names("filter")])
        return _checked(name, find("filter", name))
    if not rest:
        raise UserError(
            f"the filter {name!r} names no model",
            expected=f"{kind}:PATH, a folder with a model of transformers",
        )
    loader = find("filter", kind)
    assert callable(loader)
    return _checked(name, loader(rest, device=choose_device(device)))


def _checked(name: str, thing: object) -> Filter:
    if isinstance(thing, type) or not isinstance(thing, Filter):
        raise UserError(
            f"the filter {name!r} is a {type(thing).__name__}",
            expected="an object with a `reason` that is called with proposals and gives verdicts",
        )
    return thing
