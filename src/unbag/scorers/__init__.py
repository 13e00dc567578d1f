"""From a model to one number for each picture and caption."""

from unbag.scorers.cosine import Cosine
from unbag.scorers.resolve import Placement, choose_device, load_model, make_scorer, make_scorers

__all__ = ["Cosine", "Placement", "choose_device", "load_model", "make_scorer", "make_scorers"]
