"""Load models, benchmarks and scorers by name, and list registered names."""

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
        cache_dir: Stores replies of a model behind a server; None keeps them in memory.
        concurrency: Number of simultaneous requests to a server.
        budget: Maximum number of requests to a server.

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
            default scorer of the model.
        device: Device of a model that is given by name.

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
    """Registered names with a line about each, printed like `unbag list`."""

    about: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        """Return the line about a name."""
        return self.about[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, built-in ones first."""
        return iter(self.about)

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self.about)

    def __repr__(self) -> str:
        """Return one line per name."""
        width = max(map(len, self.about), default=0)
        return "\n".join(f"{name:<{width}}  {about}" for name, about in self.about.items())


def list_models() -> Listing:
    """List the kinds of models: the part of a model name before the colon.

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
    """List the scorers: ways to compute a score with a model.

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
    """Return all registered names of a kind."""
    lines = {}
    for name, entry in names(kind).items():
        about = entry.about
        value = find(kind, name) if kind in ("benchmark", "edit") else None
        if isinstance(value, Benchmark):
            about = value.about
        elif isinstance(value, EditKind):
            sign = "positive" if value.is_positive else "negative"
            about = f"[{sign}{'' if value.is_default else ', off by default'}] {value.about}"
        origin = "" if entry.origin == "unbag" else f" [{entry.origin}]"
        lines[name] = f"{about}{origin}"
    return Listing(lines)


def make_scorer(model: Model, name: str | None = None) -> Scorer:
    """Return the named scorer, or the default scorer for this kind of model.

    `NAME@folder`, or the name of a read-out alone, is a trained read-out.
    """
    if not _is_readout(name):
        return scorers.make_scorer(model, name, other_names=names("readout"))
    made_scorers = _read_out(model, name)
    if len(made_scorers) != 1:
        raise UnbagError(
            f"the read-out {name!r} makes {len(made_scorers)} scorers",
            expected="one, since a single score is needed",
            hint="`unbag run` and `unbag score` take several",
        )
    return made_scorers[0]


def make_scorers(model: Model, name: str | None = None, prompts: str = "all") -> list[Scorer]:
    """Like `make_scorer`, but with one scorer per prompt of a chat model, the published first."""
    if _is_readout(name):
        return _read_out(model, name)
    return scorers.make_scorers(model, name, prompts, other_names=names("readout"))


def _is_readout(name: str | None) -> TypeGuard[str]:
    """Return whether a scorer name is that of a read-out, alone or with a folder."""
    return name is not None and ("@" in name or name in names("readout"))


def _read_out(model: Model, name_and_folder: str) -> list[Scorer]:
    name, _, folder = name_and_folder.partition("@")
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
    """The part of a read-out that scoring needs; such a read-out may have no `train`."""

    def scorers(self, model: Model, folder: Path | None) -> list[Scorer]: ...


def loaded(model: str | Model, placement: Placement) -> Model:
    """Load a model by name; return a model unchanged."""
    if isinstance(model, str):
        return load_named_model(model, placement=placement)
    if isinstance(model, type) or not isinstance(model, DualEncoder | Generator | Scorer):
        raise no_scorer(model)
    return model


def dual_encoder(model: Model, what: str) -> DualEncoder:
    """Return the model if it embeds images and captions; `what` completes the error message."""
    return as_dual_encoder(
        model, f"{model.name!r} has no vectors of images and captions, so it cannot {what}"
    )


def device_for(device: str, *models: str | Model | None) -> str:
    """Return the requested device; "auto" is the CPU if no model is given by name."""
    is_needed = any(needs_device(model) for model in models if isinstance(model, str))
    return choose_device(device, is_needed=is_needed)


def benchmarks_of(names_or_benchmarks: Iterable[str | Benchmark]) -> list[Benchmark]:
    """Load benchmarks by names and families, without duplicates; keep benchmark objects."""
    by_name: dict[str, Benchmark] = {}
    objects: list[Benchmark] = []
    for entry in names_or_benchmarks:
        if isinstance(entry, str):
            by_name |= {b.name: b for b in find_benchmarks([entry])}
        elif all(entry is not other for other in objects):
            objects.append(entry)
    return [*add_tagger(list(by_name.values()), "auto"), *objects]


def each(value: Any) -> list[Any]:
    """Return several values as a list; a single value, even an iterable model, becomes one item."""
    is_single = isinstance(value, str | Benchmark | DualEncoder | Generator | Scorer | type)
    return [value] if is_single or not isinstance(value, Iterable) else list(value)


def as_path(path: str | Path | None) -> Path | None:
    """Return a path with ~ expanded, or None."""
    return Path(path).expanduser() if path else None
