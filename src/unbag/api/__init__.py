"""The public functions behind `import unbag as ub` that take names as well as objects.

`edit`, `report`, `wrap` and `Results` are defined in their own packages: `unbag.edits.editor`,
`unbag.reports.exports`, `unbag.models.wrapped`, `unbag.reports.results`.
"""

from unbag.api.measuring import diagnose, evaluate, fit_linear_probe, score
from unbag.api.names import (
    Listing,
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
    make_scorer,
    make_scorers,
)
from unbag.api.training import export, merge, train

__all__ = [
    "Listing",
    "diagnose",
    "evaluate",
    "export",
    "fit_linear_probe",
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
    "make_scorer",
    "make_scorers",
    "merge",
    "score",
    "train",
]
