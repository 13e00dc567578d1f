"""Adapters from weights to the shapes in `unbag.types`."""
