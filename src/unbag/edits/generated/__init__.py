"""Kinds of edits that a language model writes."""
