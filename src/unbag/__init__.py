"""Measure, explain and repair bag-of-words behaviour in vision-language models.

Names are imported when first used, so that `import unbag` takes no time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from unbag.version import __version__

if TYPE_CHECKING:
    from unbag.api import benchmark, diagnose, evaluate, model, score, scorer
    from unbag.edits.editor import edit
    from unbag.errors import UnbagError
    from unbag.evaluation.loading import Job
    from unbag.evaluation.run import run
    from unbag.reports.exports import report
    from unbag.scorers.cosine import Cosine
    from unbag.training.recipes import make_recipe
    from unbag.training.repair import repair

_HOME = {
    "Cosine": "unbag.scorers.cosine",
    "Job": "unbag.evaluation.loading",
    "UnbagError": "unbag.errors",
    "benchmark": "unbag.api",
    "diagnose": "unbag.api",
    "edit": "unbag.edits.editor",
    "evaluate": "unbag.api",
    "make_recipe": "unbag.training.recipes",
    "model": "unbag.api",
    "repair": "unbag.training.repair",
    "report": "unbag.reports.exports",
    "run": "unbag.evaluation.run",
    "score": "unbag.api",
    "scorer": "unbag.api",
}

__all__ = [
    "Cosine",
    "Job",
    "UnbagError",
    "__version__",
    "benchmark",
    "diagnose",
    "edit",
    "evaluate",
    "make_recipe",
    "model",
    "repair",
    "report",
    "run",
    "score",
    "scorer",
]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'unbag' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
