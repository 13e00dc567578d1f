"""Compare two models and a blind baseline pair by pair, in a run folder with a report.

    python examples/compare_two_models.py [RUN_FOLDER]

Give the same command again after an interruption: the run resumes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import unbag as ub

MODELS = ("tiny:base", "tiny:random", "caption:short")
BENCHMARKS = ("world-swap", "world-relation")


def main(out: Path) -> None:
    """Score, measure, compare, and say what the comparison shows."""
    results = ub.evaluate(MODELS, BENCHMARKS, out=out)
    for result in results:
        print(f"{result.benchmark}  {result.scorer:<14} {result.overall[result.headline]}")
    print()
    for comparison in results.contents.comparisons:
        low, high = 100 * comparison.low, 100 * comparison.high
        verdict = "no difference shown" if low <= 0 <= high else "they differ"
        print(
            f"{comparison.benchmark}: {comparison.second} minus {comparison.first} = "
            f"{100 * comparison.difference:+.1f} points [{low:+.1f}, {high:+.1f}], "
            f"p (Holm) = {comparison.p_holm:.2g}: {verdict}"
        )
    print(f"page: {out / 'report.html'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "compared"))
