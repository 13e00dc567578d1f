"""Captions come in; the same captions parsed, shuffled and edited go out."""
