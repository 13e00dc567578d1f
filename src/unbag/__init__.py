"""Measure, explain and repair bag-of-words behaviour in vision-language models.

Names are imported at first use, so that `import unbag` is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from unbag.version import __version__

if TYPE_CHECKING:
    from unbag.api import (
        diagnose,
        evaluate,
        export,
        list_benchmarks,
        list_edits,
        list_filters,
        list_losses,
        list_models,
        list_probes,
        list_readouts,
        list_recipes,
        list_scorers,
        load_benchmark,
        load_model,
        load_scorer,
        merge,
        score,
        train,
    )
    from unbag.edits.editor import edit
    from unbag.errors import UnbagError
    from unbag.models.wrapped import wrap
    from unbag.reports.exports import report
    from unbag.reports.results import Results

__all__ = [
    "Results",
    "UnbagError",
    "__version__",
    "diagnose",
    "edit",
    "evaluate",
    "export",
    "list_benchmarks",
    "list_edits",
    "list_filters",
    "list_losses",
    "list_models",
    "list_probes",
    "list_readouts",
    "list_recipes",
    "list_scorers",
    "load_benchmark",
    "load_model",
    "load_scorer",
    "merge",
    "report",
    "score",
    "train",
    "wrap",
]

_HOME = {
    "Results": "unbag.reports.results",
    "UnbagError": "unbag.errors",
    "edit": "unbag.edits.editor",
    "report": "unbag.reports.exports",
    "wrap": "unbag.models.wrapped",
}
"""Modules of names that are not defined in `unbag.api`."""
_RENAMED = {
    "Cosine": "pass the dual encoder itself, or ub.load_scorer(model)",
    "Job": "ub.evaluate(models, benchmarks, out=folder)",
    "UserError": "ub.UnbagError",
    "benchmark": "ub.load_benchmark(name)",
    "make_recipe": 'ub.train(model, recipe=name, settings=["epochs=2"], ...)',
    "model": "ub.load_model(name)",
    "repair": "ub.train(model, pairs=..., recipe=..., out=...)",
    "run": "ub.evaluate(models, benchmarks, out=folder)",
    "scorer": "ub.load_scorer(model, scorer)",
}
"""Former names and their replacements."""


def __getattr__(name: str) -> object:
    if name in _RENAMED:
        raise AttributeError(f"unbag has no {name!r} any more: write {_RENAMED[name]}")
    if name in __all__:
        return getattr(import_module(_HOME.get(name, "unbag.api")), name)
    raise AttributeError(f"module 'unbag' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
