"""Edits that a language model writes."""
