"""Measure time and memory of the two bootstraps that every report needs.

50,000 resamples of 30,000 right-or-wrong outcomes, once independent and once in 1,560 images
(the shape of SugarCrepe times four), each beside the plain loop, timed on a few resamples.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from time import perf_counter

import numpy as np

from unbag.metrics import bootstrap

OUTCOMES, IMAGES, RESAMPLES, LOOPS = 30_000, 1_560, 50_000, 20


def main() -> None:
    rng = np.random.default_rng(0)
    image_N = rng.integers(IMAGES, size=OUTCOMES)
    hard_P = rng.random(IMAGES)
    value_N = (rng.random(OUTCOMES) < hard_P[image_N]).astype(np.float64)
    score_N = value_N + rng.normal(0, 0.1, OUTCOMES)
    clusters = [str(image) for image in image_N]
    members = [np.flatnonzero(image_N == image) for image in range(IMAGES)]

    def alone() -> float:
        return float(value_N[rng.integers(OUTCOMES, size=OUTCOMES)].mean())

    def together() -> float:
        drawn = rng.integers(IMAGES, size=IMAGES)
        return float(value_N[np.concatenate([members[i] for i in drawn])].mean())

    print(f"{RESAMPLES:,} resamples of {OUTCOMES:,} outcomes, {IMAGES:,} images")
    print(f"{'bootstrap':24}{'seconds':>9}{'plain loop':>12}{'ratio':>8}{'peak MB':>9}")
    show("independent, 0/1", lambda: bootstrap(value_N, rng=rng), alone)
    show("clustered, 0/1", lambda: bootstrap(value_N, clusters=clusters, rng=rng), together)
    show("clustered, scores", lambda: bootstrap(score_N, clusters=clusters, rng=rng), together)


def show(name: str, run: Callable[[], object], loop: Callable[[], float]) -> None:
    start = perf_counter()
    run()
    seconds = perf_counter() - start
    start = perf_counter()
    for _ in range(LOOPS):
        loop()
    plain = (perf_counter() - start) / LOOPS * RESAMPLES
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:24}{seconds:9.2f}{plain:12.1f}{plain / seconds:8.0f}{peak:9.0f}")


if __name__ == "__main__":
    main()
