"""Measure the seconds that a job takes."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import torch


def seconds(job: Callable[[], object], device: str, rounds: int) -> float:
    """The median of some rounds, after one that is not counted."""
    job()
    durations = []
    for _ in range(rounds):
        wait(device)
        start = perf_counter()
        job()
        wait(device)
        durations.append(perf_counter() - start)
    return sorted(durations)[len(durations) // 2]


def wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()
