"""The shortest way for a notebook: one scorer, one benchmark, one result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from unbag.engine.given import as_scorer
from unbag.engine.job import Job
from unbag.engine.missing import Missing
from unbag.engine.run import run
from unbag.errors import UserError
from unbag.registry import find, names
from unbag.scorers.resolve import Model, load_model, make_scorer
from unbag.types import Benchmark, EvalProtocol, Result, Scorer

_MADE: Mapping[str, str] = {
    "order_free": "unbag.benchmarks.order_free:order_free",
    "two_way": "unbag.benchmarks.two_way:two_way",
}
"""Functions from a benchmark to another; by name, because benchmarks are a layer above."""


def evaluate(
    scorer: Model | str,
    benchmark: Benchmark | str,
    *,
    root: str | Path | None = None,
    cache: str | Path | None = None,
    protocol: EvalProtocol | None = None,
    seed: int = 0,
    allow_invalid: bool = False,
    missing: Missing = "error",
) -> Result:
    """Score and measure; the result follows the averaging rule that the field publishes.

    A dual encoder is scored by `Cosine`, a chat model by the probability of yes. A model that is
    given by name is loaded at every call. `root` holds one folder for each benchmark. Nothing is
    written except to `cache`, if given; use `run` to keep scores and to continue after a stop.
    """
    wanted = as_scorer(scorer)
    with TemporaryDirectory(prefix="unbag-") as folder:
        job = Job(
            scorers=[wanted],
            benchmarks=[_as_benchmark(benchmark)],
            out=Path(folder) / "run",
            data=Path(root) if root else None,
            cache=Path(cache) if cache else None,
            protocol=protocol or EvalProtocol(),
            seed=seed,
            allow_invalid=allow_invalid,
            missing=missing,
        )
        finished = run(job)
    if finished.problems:
        raise UserError(finished.problems[0])
    return finished.contents.results[0]


def benchmark(name: str) -> Benchmark:
    """A registered benchmark, package.module:NAME, or order_free: or two_way: before it."""
    kind, _, rest = name.partition(":")
    if kind in _MADE and rest:
        make = find("benchmark", _MADE[kind])
        found = make(benchmark(rest)) if callable(make) else make
    else:
        found = find("benchmark", name)
    if not isinstance(found, Benchmark):
        raise UserError(
            f"the benchmark {name!r} is a {type(found).__name__}",
            expected="a value of unbag.types.Benchmark",
        )
    return found


def _as_benchmark(given: Benchmark | str) -> Benchmark:
    return benchmark(given) if isinstance(given, str) else given


def find_benchmarks(asked: Sequence[str]) -> list[Benchmark]:
    """Each name, each family (`world` is every world-*), each package.module:NAME, once."""
    known = names("benchmark")
    found: dict[str, Benchmark] = {}
    for name in asked:
        family = [k for k in known if k.startswith((f"{name}-", f"{name}_"))]
        for one in [name] if name in known or not family else family:
            thing = benchmark(one)
            found[thing.name] = thing
    return list(found.values())


def scorer(spec: str, *, scoring: str | None = None, device: str = "cpu") -> Scorer:
    """A model by name, ready to score: with cosine if it is a dual encoder.

    `scoring` is what `--scorer` takes: `match`, or a trained read-out as `pacl@FOLDER`.
    """
    return make_scorer(load_model(spec, device=device), scoring)


def model(spec: str, *, device: str = "cpu") -> Model:
    """A model by name: tiny:base, caption:short, package.module:NAME."""
    return load_model(spec, device=device)
