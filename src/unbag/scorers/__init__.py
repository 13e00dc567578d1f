"""Scorers: a model's score for an image and a caption."""

from unbag.scorers.cosine import Cosine
from unbag.scorers.resolve import make_scorer, make_scorers

__all__ = ["Cosine", "make_scorer", "make_scorers"]
