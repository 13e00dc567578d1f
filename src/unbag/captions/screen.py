"""A caption as found comes in; it cleaned, and why it cannot be edited if so, goes out."""

from __future__ import annotations

import re

MOST_WORDS = 80
"""Longer texts are articles, not captions; parsing them wrongly is the rule."""
_MARKUP = re.compile(r"</?[a-z][^>]*>|&[a-z]+;|&#\d+;", re.I)
_ADDRESS = re.compile(r"https?://|www\.", re.I)
_COMMON_WORDS = """
a an the of in on at with and is are to by for from near his her its their this that these those
as over under up down out into two three some one while there it they he she or before after many
several people man men woman women girl boy child children group dog cat young old black white
"""
_COMMON = frozenset(_COMMON_WORDS.split())


def cleaned(caption: str) -> str:
    """One line with single spaces: the form in which it is parsed, edited and written."""
    return " ".join(caption.replace("\0", " ").split())


def why_not(caption: str) -> str:
    """Why a cleaned caption is left alone; empty if it can be edited."""
    words = caption.split()
    if not any(letter.isalpha() for letter in caption):
        return "no letters" if words else "empty"
    if len(words) == 1:
        return "one word"
    if len(words) > MOST_WORDS:
        return f"more than {MOST_WORDS} words"
    if _MARKUP.search(caption) or _ADDRESS.search(caption):
        return "markup or web address"
    return "" if _seems_english(words, caption) else "not English"


def _seems_english(words: list[str], caption: str) -> bool:
    """Latin letters throughout, and in longer captions at least one of the commonest words."""
    letters = [letter for letter in caption if letter.isalpha()]
    plain = sum(letter.isascii() for letter in letters)
    if plain < 0.8 * len(letters):
        return False
    return len(words) < 6 or any(word.strip(".,;!?\"'()").lower() in _COMMON for word in words)
