"""From a model to one number for each picture and caption."""

from unbag.models.loading import choose_device
from unbag.scorers.cosine import Cosine
from unbag.scorers.resolve import Placement, load_model, make_scorer, make_scorers, needs_device

__all__ = [
    "Cosine",
    "Placement",
    "choose_device",
    "load_model",
    "make_scorer",
    "make_scorers",
    "needs_device",
]
