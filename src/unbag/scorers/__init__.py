"""Scorers: one number for each image and caption, from a model."""

from unbag.scorers.cosine import Cosine
from unbag.scorers.resolve import make_scorer, make_scorers

__all__ = ["Cosine", "make_scorer", "make_scorers"]
