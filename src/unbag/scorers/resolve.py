"""Make the scorer of a model: the default one for its kind, or one by its registered name."""

from __future__ import annotations

from collections.abc import Iterable

from unbag.errors import UnbagError, unknown_name
from unbag.models.loading import Model
from unbag.registry import find, names
from unbag.types import DualEncoder, Generator, Scorer


def make_scorer(
    model: Model, name: str | None = None, *, other_names: Iterable[str] = ()
) -> Scorer:
    """Return the named scorer, or the default scorer for this kind of model.

    Args:
        model: The model that scores.
        name: A registered name or package.module:NAME; None is cosine for a dual encoder, the
            probability of yes for a chat model, the model itself if it scores.
        other_names: Names that the caller accepts too, for the error about an unknown name.
    """
    # A model that scores also accepts the name of its score, such as "match".
    if isinstance(model, Scorer) and name in (None, model.scoring):
        return model
    if name is None and isinstance(model, DualEncoder):
        name = "cosine"
    if name is None and isinstance(model, Generator):
        name = "yes"
    if name is None:
        raise UnbagError(
            f"the model {model.name!r} has no scorer of its own",
            expected="a dual encoder, or a model that scores",
            hint="name one with --scorer; `unbag list scorers` shows them",
        )
    if ":" not in name and name not in names("scorer"):
        raise unknown_name("scorer", name, [*names("scorer"), *other_names])
    factory = find("scorer", name)
    if not callable(factory):
        raise UnbagError(
            f"the scorer {name!r} is a {type(factory).__name__}",
            expected="a function or class that takes a model and returns a scorer",
        )
    if not isinstance(model, DualEncoder | Generator):
        # A matching head that also has two encoders.
        model = getattr(model, "encoder", model)
    if name == "cosine" and not isinstance(model, DualEncoder):
        raise UnbagError(
            f"the scorer 'cosine' needs one vector per image and caption, and {model.name!r} "
            "has none",
            expected="a dual encoder, or BLIP; BLIP-2 has several vectors for an image",
            hint="omit --scorer to use the model's own",
        )
    scorer = factory(model)
    if not isinstance(scorer, Scorer):
        raise UnbagError(
            f"the scorer {name!r} returned a {type(scorer).__name__}",
            expected="name, fingerprint, scoring, is_blind and score(queries)",
        )
    return scorer


def make_scorers(
    model: Model,
    name: str | None = None,
    prompts: str = "all",
    *,
    other_names: Iterable[str] = (),
) -> list[Scorer]:
    """Like `make_scorer`, but with one scorer per prompt of a chat model, the published first."""
    from unbag.scorers.chat import Protocol

    if name is None and isinstance(model, Generator) and not isinstance(model, Scorer):
        name = "yes"
    is_known = name is not None and (name in names("scorer") or ":" in name)
    factory = find("scorer", name) if name is not None and is_known else None
    if isinstance(factory, Protocol):
        return factory.scorers(model, prompts)
    return [make_scorer(model, name, other_names=other_names)]


def match_head(model: Model) -> Scorer:
    """Raise UnbagError: the model of `--scorer match` has no matching head."""
    raise UnbagError(
        f"the scorer 'match' needs a matching head, and {model.name!r} has none",
        expected="BLIP or BLIP-2 with its head for retrieval",
        hint="leave --scorer out to use the model's own",
    )
