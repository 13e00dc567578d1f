"""A caption as found comes in; it cleaned, and why it cannot be edited if so, goes out."""

from __future__ import annotations

import re

MOST_WORDS = 80
"""Longer texts are articles, not captions; parsing them wrongly is the rule."""
MOST_LETTERS = 60
"""No English word in use has so many: such a run is an id, a key or a slip."""
_MARKUP = re.compile(r"</?[a-z][^>]*>|&(?:amp|lt|gt|quot|apos|nbsp|#\d+|#x[0-9a-f]+);", re.I)
_ADDRESS = re.compile(r"https?://|www\.", re.I)
_COMMON_WORDS = """
a an the of in on at with and is are to by for from near his her its their this that these those
as over under up down out into two three some one while there it they he she or before after many
several people man men woman women girl boy child children group dog cat young old black white
"""
_COMMON = frozenset(_COMMON_WORDS.split())
_FOREIGN_WORDS = """
der dem den ein eine einen einem einer und ist sind auf mit vor nicht zwei neben unter über
les des une est dans avec près deux qui sont aux devant derrière
el una unos unas sobre junto está están perro hombre mujer del
il della nel nella che sono gli sul sulla uno
een het zijn naast voor twee um uma com em não na os dois och på är med ett
"""
_FOREIGN = frozenset(_FOREIGN_WORDS.split())
_FOREIGN_IN_NAMES_WORDS = """
le la los las de di da das die du en un sur con por y van von im am zu al do au et op
"""
_FOREIGN_IN_NAMES = frozenset(_FOREIGN_IN_NAMES_WORDS.split())
"""Common in other languages, and in English captions as parts of names or as other words."""
_EDGES = ".,;:!?\"'()“”‘’"


def cleaned(caption: str) -> str:
    """One line with single spaces: the form in which it is parsed, edited and written."""
    return " ".join(caption.replace("\0", " ").split())


def why_not(caption: str) -> str:
    """Why a cleaned caption is left alone; empty if it can be edited."""
    words = caption.split()
    if not any(letter.isalpha() for letter in caption):
        return "no letters" if words else "empty"
    if not _is_latin(caption):
        return "not English"
    if len(words) == 1:
        return "one word"
    if len(words) > MOST_WORDS:
        return f"more than {MOST_WORDS} words"
    if _MARKUP.search(caption) or _ADDRESS.search(caption):
        return "markup or web address"
    if any(len(word) > MOST_LETTERS for word in words):
        return f"a word of more than {MOST_LETTERS} letters"
    return "" if _seems_english(words) else "not English"


def _is_latin(caption: str) -> bool:
    """Nearly all letters without accents; asked before words, which some scripts do not part."""
    if caption.isascii():
        return True
    letters = [letter for letter in caption if letter.isalpha()]
    return sum(letter.isascii() for letter in letters) >= 0.8 * len(letters)


def _seems_english(words: list[str]) -> bool:
    """Common words of other languages do not outnumber the English ones; "Las Vegas" is none."""
    plain = [word.strip(_EDGES).lower() for word in words]
    foreign = sum(word in _FOREIGN for word in plain)
    doubtful = sum(word in _FOREIGN_IN_NAMES for word in plain)
    if foreign + doubtful < 2 and not foreign:
        return True
    return foreign + doubtful <= sum(word in _COMMON for word in plain)
