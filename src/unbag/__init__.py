"""Measure, explain and repair bag-of-words behaviour in vision-language models.

Names are imported when first used, so that `import unbag` takes no time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from unbag.version import __version__

if TYPE_CHECKING:
    from unbag.captions.edit import edit
    from unbag.diagnosis.diagnose import diagnose
    from unbag.engine.evaluate import benchmark, evaluate, model, scorer
    from unbag.engine.job import Job
    from unbag.engine.one_picture import score
    from unbag.engine.run import run
    from unbag.errors import UserError
    from unbag.reports.write import report
    from unbag.scorers.cosine import Cosine
    from unbag.train.repair import repair
    from unbag.train.settings import make_recipe

_HOME = {
    "Cosine": "unbag.scorers.cosine",
    "Job": "unbag.engine.job",
    "UserError": "unbag.errors",
    "benchmark": "unbag.engine.evaluate",
    "diagnose": "unbag.diagnosis.diagnose",
    "edit": "unbag.captions.edit",
    "evaluate": "unbag.engine.evaluate",
    "make_recipe": "unbag.train.settings",
    "model": "unbag.engine.evaluate",
    "repair": "unbag.train.repair",
    "report": "unbag.reports.write",
    "run": "unbag.engine.run",
    "score": "unbag.engine.one_picture",
    "scorer": "unbag.engine.evaluate",
}

__all__ = [
    "Cosine",
    "Job",
    "UserError",
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
