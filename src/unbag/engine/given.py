"""A scorer, a model or a name comes in as a user passes it; a scorer goes out, or what to write."""

from __future__ import annotations

from unbag.errors import UserError
from unbag.scorers.resolve import Model, load_model, make_scorer
from unbag.types import DualEncoder, Generator, Scorer


def as_scorer(given: Model | str) -> Scorer:
    """A scorer as it is; a model with its natural one; a name is loaded, at every call anew."""
    model = load_model(given) if isinstance(given, str) else given
    if isinstance(model, type) or not isinstance(model, DualEncoder | Generator | Scorer):
        raise no_scorer(model)
    return make_scorer(model)


def no_scorer(given: object) -> UserError:
    """The error for something else, with what may have been meant."""
    if isinstance(given, str):
        found, way_out = f"{given!r} is a name", f"write ub.scorer({given!r})"
    elif isinstance(given, type):
        found, way_out = f"{given.__name__} is a class", f"make one: {given.__name__}(...)"
    elif isinstance(given, DualEncoder):
        found, way_out = f"{given.name!r} is a dual encoder", "write ub.Cosine(model)"
    elif isinstance(given, Generator):
        found, way_out = f"{given.name!r} is a chat model", 'write ub.scorer("hf:...")'
    else:
        found = f"a {type(given).__name__} was given in place of a scorer"
        way_out = 'write ub.scorer("tiny:base"), or ub.Cosine(model) for a dual encoder of yours'
    return UserError(
        found,
        expected="a scorer: name, fingerprint, scoring, is_blind and score(queries)",
        way_out=way_out,
    )


def no_benchmark(given: object) -> UserError:
    """The error for something else than a benchmark."""
    name = given if isinstance(given, str) else "world-binding"
    return UserError(
        f"{given!r} is a name"
        if isinstance(given, str)
        else f"a {type(given).__name__} was given in place of a benchmark",
        expected="a value of unbag.types.Benchmark",
        way_out=f"write ub.benchmark({name!r})",
    )
