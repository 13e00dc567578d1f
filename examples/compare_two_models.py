"""Two models and a blind baseline come in; a run folder and their paired comparison go out.

    python examples/compare_two_models.py [RUN_FOLDER]

Give the same command again after a stop: what was computed is kept, and the run goes on.
"""

from __future__ import annotations

import sys
from pathlib import Path

import unbag as ub
from unbag.api import make_scorer

MODELS = ("tiny:base", "tiny:random", "caption:short")
BENCHMARKS = ("world-swap", "world-relation")


def main(out: Path) -> None:
    """Score, measure, compare, and say what the comparison shows."""
    job = ub.Job(
        scorers=[make_scorer(ub.model(name)) for name in MODELS],
        benchmarks=[ub.benchmark(name) for name in BENCHMARKS],
        out=out,
    )
    finished = ub.run(job)
    for result in finished.contents.results:
        print(f"{result.benchmark}  {result.scorer:<14} {result.overall[result.headline]}")
    print()
    for made in finished.contents.comparisons:
        low, high = 100 * made.low, 100 * made.high
        shown = "no difference shown" if low <= 0 <= high else "they differ"
        print(
            f"{made.benchmark}: {made.second} minus {made.first} = {100 * made.difference:+.1f} "
            f"points [{low:+.1f}, {high:+.1f}], p (Holm) = {made.p_holm:.2g}: {shown}"
        )
    print(f"page: {ub.report(finished.contents, finished.folder.report)}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "compared"))
