"""From what a user writes (tiny:base, package.module:NAME, cosine) to a scorer that can be run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from inspect import signature
from pathlib import Path
from typing import Any, Literal, TypeGuard

from unbag.errors import UserError, unknown_name
from unbag.models.loading import model_name
from unbag.registry import find, names
from unbag.types import DualEncoder, Generator, Scorer

Model = DualEncoder | Generator | Scorer
Dtype = Literal["auto", "float32", "bfloat16", "float16"]


@dataclass(frozen=True)
class Placement:
    """Where and how a model computes. A loader is told what it has a parameter for."""

    device: str = "cpu"
    dtype: Dtype = "auto"
    """auto: float32 for vectors, since benchmarks turn on differences of a thousandth; bfloat16 for
    chat models on a GPU that has it."""
    compiles: bool = False
    """Compile the model with torch.compile: slow to start, then faster."""
    cache: Path | None = None
    """Where replies of servers are kept; None keeps them in memory only."""
    concurrency: int = 8
    """Requests to a server at a time."""
    budget: int | None = None
    """Most requests to a server."""

    def arguments(self, loader: Callable[..., object], spec: str) -> dict[str, object]:
        """What this loader asks for; a choice it cannot follow is an error, not ignored."""
        known = signature(loader).parameters
        if "dtype" not in known and self.dtype not in ("auto", "float32"):
            raise UserError(
                f"the model {spec!r} cannot compute in {self.dtype}",
                expected="float32, as it always does",
                way_out="leave --dtype out",
            )
        if "compiles" not in known and self.compiles:
            raise UserError(f"the model {spec!r} cannot be compiled", way_out="leave --compile out")
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in given.items() if name in known}


def needs_device(spec: str) -> bool:
    """False for a model behind a server and for rules on captions, which compute nothing here."""
    kind, _, rest = spec.partition(":")
    return kind != "server" and not (kind == "caption" and ":" not in rest)


def load_model(spec: str, *, device: str = "cpu", placement: Placement | None = None) -> Model:
    """`kind:rest` for a registered kind, else a folder, a registered name or package.module:NAME.

    A folder is that of a training run or an export; the first form of its model is loaded.
    NAME may be a model, or a class or function that makes one; it is told the device, the dtype and
    whether to compile if it asks.
    """
    placement = placement or Placement(device)
    kind, _, rest = spec.partition(":")
    if kind in names("model"):
        loader = find("model", kind)
        if not callable(loader):
            return _checked(spec, loader)
        return _checked(spec, loader(rest, **placement.arguments(loader, spec)))
    if (named := model_name(spec)) != spec:
        return load_model(named, placement=placement)
    thing = find("model", spec)
    is_ready = isinstance(thing, DualEncoder | Generator | Scorer) and not isinstance(thing, type)
    if is_ready or not callable(thing):
        return _checked(spec, thing)
    return _checked(spec, thing(**placement.arguments(thing, spec)))


def make_scorer(model: Model, name: str | None = None) -> Scorer:
    """The scorer asked for, or the natural one of this kind of model.

    `NAME@folder`, and the name of a read-out alone, is a trained reader of the model's parts.
    """
    if is_readout(name):
        return _only(name, _read_out(model, name))
    # Its own way may also be named as tables name it: a matching head by match.
    if isinstance(model, Scorer) and name in (None, model.scoring):
        return model
    if name is None and isinstance(model, DualEncoder):
        name = "cosine"
    if name is None and isinstance(model, Generator):
        name = "yes"
    if name is None:
        raise UserError(
            f"the model {model.name!r} has no scorer of its own",
            expected="a dual encoder, or a model that scores",
            way_out="name one with --scorer; `unbag list scorers` shows them",
        )
    if ":" not in name and name not in names("scorer"):
        raise unknown_name("scorer", name, [*names("scorer"), *names("readout")])
    factory = find("scorer", name)
    if not callable(factory):
        raise UserError(
            f"the scorer {name!r} is a {type(factory).__name__}",
            expected="a function or class that takes a model and gives a scorer",
        )
    if not isinstance(model, DualEncoder):
        # A matching head that also has two towers.
        model = getattr(model, "encoder", model)
    if name == "cosine" and not isinstance(model, DualEncoder):
        raise UserError(
            f"the scorer 'cosine' needs one vector a picture and one a caption, and {model.name!r} "
            "has none",
            expected="a dual encoder, or BLIP; BLIP-2 has several vectors for a picture",
            way_out="leave --scorer out to use the model's own",
        )
    scorer = factory(model)
    if not isinstance(scorer, Scorer):
        raise UserError(
            f"the scorer {name!r} made a {type(scorer).__name__}",
            expected="name, fingerprint, scoring, is_blind and score(queries)",
        )
    return scorer


def match_head(model: Model) -> Scorer:
    """`--scorer match` for a model that does not score so by itself: an error."""
    raise UserError(
        f"the scorer 'match' needs a matching head, and {model.name!r} has none",
        expected="BLIP or BLIP-2 with its head for retrieval",
        way_out="leave --scorer out to use the model's own",
    )


def make_scorers(model: Model, name: str | None = None, prompts: str = "all") -> list[Scorer]:
    """The same, with one scorer a prompt where the protocol asks in words, the published first."""
    from unbag.scorers.chat import Protocol

    if is_readout(name):
        return _read_out(model, name)
    if name is None and isinstance(model, Generator) and not isinstance(model, Scorer):
        name = "yes"
    can_be_found = name is not None and (name in names("scorer") or ":" in name)
    factory = find("scorer", name) if name is not None and can_be_found else None
    if isinstance(factory, Protocol):
        return factory.scorers(model, prompts)
    return [make_scorer(model, name)]


def is_readout(name: str | None) -> TypeGuard[str]:
    """Whether a name behind --scorer is that of a read-out, alone or with a folder."""
    return name is not None and ("@" in name or name in names("readout"))


def _read_out(model: Model, typed: str) -> list[Scorer]:
    """Read-outs stand above this layer, so that one is only known by what it can do."""
    name, _, folder = typed.partition("@")
    readout: Any = find("readout", name)
    if not hasattr(readout, "scorers"):
        raise UserError(
            f"the read-out {name!r} is a {type(readout).__name__}",
            expected="name, train(job, progress=...) and scorers(model, folder)",
            way_out="see unbag.readouts.base",
        )
    found: list[Scorer] = readout.scorers(model, Path(folder).expanduser() if folder else None)
    return found


def _only(name: str, found: list[Scorer]) -> Scorer:
    if len(found) != 1:
        raise UserError(
            f"the read-out {name!r} gives {len(found)} scorers",
            expected="one, where a single score is asked for",
            way_out="`unbag run` and `unbag score` take several",
        )
    return found[0]


def _checked(spec: str, thing: object) -> Model:
    if isinstance(thing, DualEncoder | Generator | Scorer):
        return thing
    raise UserError(
        f"the model {spec!r} is a {type(thing).__name__}",
        expected="a dual encoder, a generator or a scorer (see unbag.types)",
        way_out="docs/extending.md shows the few methods each needs",
    )
