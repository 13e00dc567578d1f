"""Names and objects of users: load models, benchmarks and scorers, and list registered names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeGuard, runtime_checkable

from unbag import scorers
from unbag.benchmarks.names import benchmark, find_benchmarks
from unbag.benchmarks.taggers import add_tagger
from unbag.edits.kinds import Kind as EditKind
from unbag.errors import UnbagError
from unbag.evaluation.run import no_scorer
from unbag.models.loading import (
    Dtype,
    Model,
    Placement,
    as_dual_encoder,
    choose_device,
    needs_device,
)
from unbag.models.loading import load_model as load_named_model
from unbag.registry import Kind, find, names
from unbag.types import Benchmark, DualEncoder, Generator, Scorer


def load_model(
    name: str | Path,
    *,
    device: str = "auto",
    dtype: Dtype = "auto",
    compile: bool = False,
    cache_dir: str | Path | None = None,
    concurrency: int = 8,
    budget: int | None = None,
) -> Model:
    """Load a model by name.

    Args:
        name: `kind:rest` with a kind of `list_models`, the folder of a training run or export, or
            package.module:NAME.
        device: "cpu", "cuda", "cuda:1", "mps", or "auto": a GPU if there is one.
        dtype: "auto" is float32, for chat models on a GPU bfloat16.
        compile: Compile the model with torch.compile.
        cache_dir: Keeps replies of a model behind a server; None keeps them in memory.
        concurrency: Requests to a server at a time.
        budget: Largest number of requests to a server.

    Examples:
        >>> import unbag as ub
        >>> model = ub.load_model("tiny:base", device="cpu")
        >>> model.name
        'tiny:base'
    """
    placement = Placement(
        device_for(device, str(name)), dtype, compile, as_path(cache_dir), concurrency, budget
    )
    return load_named_model(str(name), placement=placement)


def load_benchmark(name: str, *, tagger: str = "auto") -> Benchmark:
    """Load a benchmark by name; its items are read when it is evaluated.

    Args:
        name: A name as in `list_benchmarks`, or package.module:NAME. "order_free:NAME" and
            "two_way:NAME" are variants of a benchmark.
        tagger: Part-of-speech tagger of benchmarks that shuffle by it: a spaCy pipeline, "none",
            or "auto": the first that is installed.

    Examples:
        >>> import unbag as ub
        >>> benchmark = ub.load_benchmark("world-order")
        >>> len(benchmark.load(None))
        240
    """
    return add_tagger([benchmark(name)], tagger)[0]


def load_scorer(model: str | Model, scorer: str | None = None, *, device: str = "auto") -> Scorer:
    """Make a scorer of a model: cosine for a dual encoder, probability of yes for a chat model.

    Args:
        model: A name or a model.
        scorer: A name as in `list_scorers`, or a trained read-out as "pacl@FOLDER"; None is the
            natural scorer of the model.
        device: Where a model that is given by name computes.

    Examples:
        >>> import unbag as ub
        >>> ub.load_scorer("tiny:base").scoring
        'cosine'
        >>> ub.load_scorer("tiny:base", "dcsm_fixed").name
        'tiny:base+dcsm_fixed (shipped)'
    """
    return make_scorer(loaded(model, Placement(device_for(device, model))), scorer)


@dataclass(frozen=True, repr=False)
class Listing(Mapping[str, str]):
    """Registered names with a line about each; it prints as `unbag list` does."""

    about: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        """The line about a name."""
        return self.about[name]

    def __iter__(self) -> Iterator[str]:
        """The names, unbag's own first."""
        return iter(self.about)

    def __len__(self) -> int:
        """Number of names."""
        return len(self.about)

    def __repr__(self) -> str:
        """A line per name."""
        width = max(map(len, self.about), default=0)
        return "\n".join(f"{name:<{width}}  {about}" for name, about in self.about.items())


def list_models() -> Listing:
    """List the kinds of models, which stand before the colon of a name.

    Examples:
        >>> import unbag as ub
        >>> {"tiny", "open_clip", "hf"} <= set(ub.list_models())
        True
    """
    return listing("model")


def list_benchmarks() -> Listing:
    """List the benchmarks.

    Examples:
        >>> import unbag as ub
        >>> [name for name in ub.list_benchmarks() if name.startswith("mmvp")]
        ['mmvp', 'mmvp_vlm']
    """
    return listing("benchmark")


def list_scorers() -> Listing:
    """List the ways to get a score from a model.

    Examples:
        >>> import unbag as ub
        >>> ub.list_scorers()["cosine"]
        'cosine of ... vector, for every dual encoder'
    """
    return listing("scorer")


def list_edits() -> Listing:
    """List the kinds of edits of a caption.

    Examples:
        >>> import unbag as ub
        >>> ub.list_edits()["synonym"].startswith("[positive]")
        True
    """
    return listing("edit")


def list_filters() -> Listing:
    """List the filters of edits that run a model.

    Examples:
        >>> import unbag as ub
        >>> list(ub.list_filters())
        ['fluency', 'meaning'...]
    """
    return listing("filter")


def list_losses() -> Listing:
    """List the losses of recipes.

    Examples:
        >>> import unbag as ub
        >>> "contrastive" in ub.list_losses()
        True
    """
    return listing("loss")


def list_recipes() -> Listing:
    """List the recipes that `train` takes.

    Examples:
        >>> import unbag as ub
        >>> "hard_positive" in ub.list_recipes()
        True
    """
    return listing("recipe")


def list_readouts() -> Listing:
    """List the read-outs that `train` takes.

    Examples:
        >>> import unbag as ub
        >>> "dcsm_fixed" in ub.list_readouts()
        True
    """
    return listing("readout")


def list_probes() -> Listing:
    """List the probes that `diagnose` runs.

    Examples:
        >>> import unbag as ub
        >>> "agreement" in ub.list_probes()
        True
    """
    return listing("probe")


def listing(kind: Kind) -> Listing:
    """Every registered name of a kind."""
    found = {}
    for name, entry in names(kind).items():
        about = entry.about
        thing = find(kind, name) if kind in ("benchmark", "edit") else None
        if isinstance(thing, Benchmark):
            about = thing.about
        elif isinstance(thing, EditKind):
            sign = "positive" if thing.is_positive else "negative"
            about = f"[{sign}{'' if thing.is_default else ', off by default'}] {thing.about}"
        origin = "" if entry.origin == "unbag" else f" [{entry.origin}]"
        found[name] = f"{about}{origin}"
    return Listing(found)


def make_scorer(model: Model, name: str | None = None) -> Scorer:
    """The scorer asked for, or the natural one of this kind of model.

    `NAME@folder`, and the name of a read-out alone, is a trained reader of the model's parts.
    """
    if not _is_readout(name):
        return scorers.make_scorer(model, name, other_names=names("readout"))
    found = _read_out(model, name)
    if len(found) != 1:
        raise UnbagError(
            f"the read-out {name!r} gives {len(found)} scorers",
            expected="one, where a single score is asked for",
            hint="`unbag run` and `unbag score` take several",
        )
    return found[0]


def make_scorers(model: Model, name: str | None = None, prompts: str = "all") -> list[Scorer]:
    """The same, with one scorer a prompt where the protocol asks in words, the published first."""
    if _is_readout(name):
        return _read_out(model, name)
    return scorers.make_scorers(model, name, prompts, other_names=names("readout"))


def _is_readout(name: str | None) -> TypeGuard[str]:
    """Whether a name behind --scorer is that of a read-out, alone or with a folder."""
    return name is not None and ("@" in name or name in names("readout"))


def _read_out(model: Model, typed: str) -> list[Scorer]:
    name, _, folder = typed.partition("@")
    readout = find("readout", name)
    if not isinstance(readout, _Scoring):
        raise UnbagError(
            f"the read-out {name!r} is a {type(readout).__name__}",
            expected="name, train(job, progress=...) and scorers(model, folder)",
            hint="see unbag.readouts.base",
        )
    return readout.scorers(model, Path(folder).expanduser() if folder else None)


@runtime_checkable
class _Scoring(Protocol):
    """What scoring needs of a read-out, which may have no training of its own."""

    def scorers(self, model: Model, folder: Path | None) -> list[Scorer]: ...


def loaded(given: str | Model, placement: Placement) -> Model:
    """The model itself, or the one that is loaded by this name."""
    if isinstance(given, str):
        return load_named_model(given, placement=placement)
    if isinstance(given, type) or not isinstance(given, DualEncoder | Generator | Scorer):
        raise no_scorer(given)
    return given


def dual_encoder(model: Model, what: str) -> DualEncoder:
    """The model, if it embeds images and captions; `what` it is needed for ends the message."""
    return as_dual_encoder(
        model, f"{model.name!r} has no vectors of images and captions, so it cannot {what}"
    )


def device_for(device: str, *models: str | Model | None) -> str:
    """The device that is asked for; "auto" is the CPU if no model is given by name."""
    is_needed = any(needs_device(one) for one in models if isinstance(one, str))
    return choose_device(device, is_needed=is_needed)


def benchmarks_of(given: Iterable[str | Benchmark]) -> list[Benchmark]:
    """Benchmarks, those of names and of families; two names of one benchmark are one."""
    by_name: dict[str, Benchmark] = {}
    objects: list[Benchmark] = []
    for one in given:
        if isinstance(one, str):
            by_name |= {found.name: found for found in find_benchmarks([one])}
        elif all(one is not other for other in objects):
            objects.append(one)
    return [*add_tagger(list(by_name.values()), "auto"), *objects]


def each(given: Any) -> list[Any]:
    """Several things as a list; one thing as a list of one, also a model that can be iterated."""
    is_one = isinstance(given, str | Benchmark | DualEncoder | Generator | Scorer | type)
    return [given] if is_one or not isinstance(given, Iterable) else list(given)


def as_path(given: str | Path | None) -> Path | None:
    """A folder that may be left out."""
    return Path(given).expanduser() if given else None
