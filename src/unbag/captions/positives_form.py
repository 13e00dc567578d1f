"""A parsed caption comes in; the same words in another form go out.

Forms are spellings ("grey", "gray"), numbers ("two", "2"), contractions ("is not", "isn't"), the
two present tenses ("is riding", "rides"), and "there is a dog ..." for "a dog is ...".
"""

from __future__ import annotations

from collections.abc import Iterator

from unbag.captions.form_words import (
    CONTRACTIONS,
    FIRST_TOKENS,
    MOST_TOKENS,
    NUMBERS,
    SPELLINGS,
)
from unbag.captions.kinds import Changes, Kind, by_rule
from unbag.captions.parsed import Parsed
from unbag.captions.positives_synonym import is_whole
from unbag.captions.positives_tense import tenses, there_forms

_GOES_ON = frozenset(("DT", "VBG", "VBN", "VB", "IN", "RB", "CD", "PRP$"))
_FIRST_OF_TWO = frozenset(first for first, _ in CONTRACTIONS)


def word_form(parsed: Parsed) -> list[Changes]:
    """Every form that may be another."""
    return [
        *_spellings(parsed),
        *_numbers(parsed),
        *_contractions(parsed),
        *tenses(parsed),
        *there_forms(parsed),
    ]


def _spellings(parsed: Parsed) -> Iterator[Changes]:
    for at, text in enumerate(parsed.lower):
        if text not in FIRST_TOKENS:
            continue
        for length in range(MOST_TOKENS, 0, -1):
            words = parsed.lower[at : at + length]
            new = SPELLINGS.get(words) if len(words) == length else None
            last = at + length - 1
            if new is not None and _is_word(parsed, at, last):
                yield (parsed.change(at, last, new),)
                break


def _is_word(parsed: Parsed, first: int, last: int) -> bool:
    """No name, and "close up" only as a noun."""
    words = parsed.words[first : last + 1]
    if any(word.tag in ("NNP", "NNPS") for word in words) or not is_whole(parsed, first, last):
        return False
    after = parsed.lower[last + 1] if last + 1 < len(parsed.words) else ""
    if parsed.lower[first] == "close":
        return after in ("of", "view", "photo", "picture", "shot", "image")
    return True


def _numbers(parsed: Parsed) -> Iterator[Changes]:
    for at in parsed.counts:
        new = NUMBERS.get(parsed.lower[at])
        noun = parsed.words[parsed.words[at].head]
        if new is None or noun.tag != "NNS" or parsed.words[at].head < at:
            continue
        if is_whole(parsed, at, at) and parsed.lower[at + 1] not in ("-", "and", "or", "to"):
            yield (parsed.change(at, at, new),)


def _contractions(parsed: Parsed) -> Iterator[Changes]:
    for at, text in enumerate(parsed.lower[:-1]):
        if text not in _FIRST_OF_TWO:
            continue
        new = CONTRACTIONS.get((text, parsed.lower[at + 1]))
        second = parsed.words[at + 1]
        if new is None or second.tag not in ("VBZ", "VBP", "RB"):
            continue
        # At the end the verb is stressed, and before a noun "it's" was meant to be "its".
        after = parsed.words[at + 2].tag if at + 2 < len(parsed.words) else "."
        if after in _GOES_ON:
            yield (parsed.change(at, at + 1, new),)


WORD_FORM = Kind(
    name="word_form",
    keeps_meaning=True,
    about="another form: two grey dogs are running -> two gray dogs are running, 2, run",
    source="ours",
    editor=by_rule(word_form),
)
