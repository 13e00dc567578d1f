"""Kinds of edits that keep what a caption says, by rules and word lists."""
