"""Print what blind baselines score on each benchmark of a data folder, as a table.

    python examples/blind_scores.py DATA [BENCHMARK ...]

Annotations are enough: no image is opened, none needs to be there. A benchmark that a blind
scorer does well on can be solved in part without looking.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import unbag as ub
from unbag.errors import UnbagError
from unbag.models.baselines import ALL
from unbag.runs.progress import Silent
from unbag.types import Benchmark, EvalProtocol, Result

HEAD = ("benchmark", "metric and average", "n", "chance", *ALL, "constant, official ties")


def main(data: Path, names: Sequence[str]) -> None:
    """One row a benchmark whose files are there; what is absent or incomplete is said."""
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    for name in names or [n for n in ub.list_benchmarks() if loaded(n).files]:
        try:
            print(f"| {' | '.join(row(loaded(name), data))} |", flush=True)
        except UnbagError as error:
            print(f"{name}: {error.message}", file=sys.stderr)


def loaded(name: str) -> Benchmark:
    """A benchmark as its files are, without captions that need a tagger."""
    return ub.load_benchmark(name, tagger="none")


def row(benchmark: Benchmark, data: Path) -> list[str]:
    """The cells of one benchmark."""
    progress = Silent()
    results = ub.evaluate(
        ALL,
        benchmark,
        data_dir=data,
        # Only values are shown here; intervals would take most of the time.
        protocol=EvalProtocol(resamples=100),
        progress=progress,
    )
    for message in progress.said:
        print(message, file=sys.stderr)
    rule = results[0].aggregate
    result_of = {(r.scorer, r.protocol.ties): r for r in results if r.aggregate == rule}
    ours = [result_of[name, "wrong"] for name in ALL]
    first = ours[0].overall[benchmark.headline]
    chance = "–" if first.chance is None else first.show(first.chance)
    official = result_of.get((ALL[0], benchmark.official_ties or "wrong"), ours[0])
    values = [value(result) for result in (*ours, official)]
    return [
        f"`{benchmark.name}`",
        f"`{benchmark.headline}`, {rule}",
        f"{first.n:,}",
        chance,
        *values,
    ]


def value(result: Result) -> str:
    """The headline number as people read it."""
    estimate = result.overall[result.headline]
    return estimate.show(estimate.value)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
