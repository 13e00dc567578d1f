"""From what a user writes (tiny:base, package.module:NAME, cosine) to a scorer that can be run."""

from __future__ import annotations

from inspect import signature

from unbag.errors import UserError
from unbag.registry import find, names
from unbag.types import DualEncoder, Generator, Scorer

Model = DualEncoder | Generator | Scorer


def load_model(spec: str, *, device: str = "cpu") -> Model:
    """`kind:rest` for a registered kind, else a registered name or package.module:NAME.

    NAME may be a model, or a class or function that makes one; it is told the device if it asks.
    """
    kind, _, rest = spec.partition(":")
    if kind in names("model"):
        loader = find("model", kind)
        return _checked(spec, loader(rest, device=device) if callable(loader) else loader)
    thing = find("model", spec)
    is_ready = isinstance(thing, DualEncoder | Generator | Scorer) and not isinstance(thing, type)
    if is_ready or not callable(thing):
        return _checked(spec, thing)
    takes_device = "device" in signature(thing).parameters
    return _checked(spec, thing(device=device) if takes_device else thing())


def make_scorer(model: Model, name: str | None = None) -> Scorer:
    """The scorer asked for, or the natural one of this kind of model."""
    if name is None and isinstance(model, Scorer):
        return model
    if name is None and isinstance(model, DualEncoder):
        name = "cosine"
    if name is None:
        raise UserError(
            f"the model {model.name!r} has no scorer of its own",
            expected="a dual encoder, or a model that scores",
            way_out="name one with --scorer; `unbag list scorers` shows them",
        )
    factory = find("scorer", name)
    if not callable(factory):
        raise UserError(
            f"the scorer {name!r} is a {type(factory).__name__}",
            expected="a function or class that takes a model and gives a scorer",
        )
    if name == "cosine" and not isinstance(model, DualEncoder):
        raise UserError(
            f"the scorer 'cosine' needs vectors, and {model.name!r} has none",
            expected="a dual encoder",
            way_out="leave --scorer out to use the model's own",
        )
    scorer = factory(model)
    if not isinstance(scorer, Scorer):
        raise UserError(
            f"the scorer {name!r} made a {type(scorer).__name__}",
            expected="name, fingerprint, scoring, is_blind and score(queries)",
        )
    return scorer


def choose_device(asked: str = "auto") -> str:
    """The best device at hand, or the one asked for if it is there."""
    import torch

    if asked == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.empty(0, device=asked)
    except (RuntimeError, AssertionError) as error:
        raise UserError(
            f"the device {asked!r} cannot be used: {str(error).splitlines()[0]}",
            expected="cpu, cuda, cuda:1, mps or auto",
            way_out="--device auto takes the best one at hand",
        ) from error
    return asked


def _checked(spec: str, thing: object) -> Model:
    if isinstance(thing, DualEncoder | Generator | Scorer):
        return thing
    raise UserError(
        f"the model {spec!r} is a {type(thing).__name__}",
        expected="a dual encoder, a generator or a scorer (see unbag.types)",
        way_out="docs/extending.md shows the few methods each needs",
    )
