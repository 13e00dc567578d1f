"""Bases and settings come in; all their arms, run in one process or several, go out as files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from unbag.lab.at_once import Share, each_apart
from unbag.lab.repair import repair
from unbag.lab.repair_families import FamilyQuestions
from unbag.lab.repair_training import Say, Settings

_FEW = 23
"""A small run asks one item of so many: no divisor of the forms that stand beside each other."""


def repair_bases(
    bases: Sequence[Path],
    out: Path,
    settings: Settings,
    *,
    bench: Sequence[str] | None = None,
    processes: int = 1,
    say: Say = print,
) -> None:
    """What is missing of every base; with several processes, bases and parts of their arms."""
    every = _FEW if settings.size == "small" else 1
    # Made before processes are forked, which share them.
    questions = FamilyQuestions(bench, times=settings.times, every=every)
    parts = parts_of(settings, -(-processes // len(bases))) if processes > 1 else [settings]
    shares = [
        Share(
            f"{base.stem}: {', '.join(part.arms)}",
            partial(repair, base, out, questions, part, say=say),
        )
        for part in parts
        for base in bases
    ]
    each_apart(shares, processes=processes, say=say)


def parts_of(settings: Settings, count: int) -> list[Settings]:
    """The arms shared out; the first part asks the base too."""
    chosen = [settings.arms[at::count] for at in range(min(count, len(settings.arms)))]
    return [replace(settings, arms=arms, asks_base=at == 0) for at, arms in enumerate(chosen)]
