"""Kinds of edits that make a caption false, by rules and word lists."""
