"""Repair: pairs and a recipe come in; repaired weights, and what they cost, go out."""
