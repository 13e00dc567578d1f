"""Inflects words, and makes verbs agree with a noun that changes its number.

"A man rides two horses" becomes "two horses ride a man". Only the present tense and was / were
show the number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from types import MappingProxyType

from unbag.edits.lexicon import word_lists
from unbag.edits.parsed import RELATIVES, SUBJECTS, Parsed
from unbag.types import Change

_CORRECTED_LEMMAS = word_lists("word_forms").replacements("mended_verbs")
_SINGULAR = word_lists("word_forms").replacements("singular_verbs")
_PLURAL = {singular: plural for plural, singular in _SINGULAR.items()}


@lru_cache(maxsize=4096)
def inflected(lemma: str, tag: str) -> str:
    """The form of a lemma for a Penn Treebank tag; the lemma itself if the form is unknown."""
    from lemminflect import getInflection  # type: ignore[import-untyped, unused-ignore]

    forms = getInflection(lemma, tag=tag)
    return str(forms[0]) if forms else lemma


def verb_lemma(parsed: Parsed, verb: int) -> str:
    """The lemma of a verb in lower case, with known errors of the lemmatizer corrected."""
    lemma = parsed.words[verb].lemma.lower()
    return _CORRECTED_LEMMAS.get(lemma, lemma)


@cache
def activities() -> Mapping[str, str]:
    """Present forms of activity verbs, with their base form."""
    return MappingProxyType(
        {
            inflected(verb, tag): verb
            for verb in word_lists("word_forms").sequence("activities")
            for tag in ("VB", "VBZ", "VBG")
        }
    )


def agreeing(parsed: Parsed, noun: int, *, is_plural: bool) -> list[Change]:
    """The changes of the verbs of a subject noun whose number changes.

    Empty for nouns joined with others: together they are plural before and after.
    """
    if parsed.child(noun, "conj") is not None:
        return []
    finite = (_finite(parsed, verb) for verb in _verbs_of(parsed, noun))
    changes = (
        parsed.change(i, i, in_number(parsed, i, is_plural=is_plural))
        for i in finite
        if i is not None
    )
    return [c for c in changes if c.new != parsed.text[c.start : c.end].lower()]


def in_number(parsed: Parsed, verb: int, *, is_plural: bool) -> str:
    """A tensed verb in the third person, singular or plural, in lower case."""
    word, text = parsed.words[verb], parsed.lower[verb]
    fixed = (_PLURAL if is_plural else _SINGULAR).get(text)
    if fixed is not None:
        return fixed
    if is_plural and word.tag == "VBZ":
        return verb_lemma(parsed, verb)
    # "Dogs run" may be tagged as past tense; captions are in the present.
    is_present = word.tag in ("VBP", "VB") or (word.tag == "VBD" and text == word.lemma)
    if not is_plural and is_present and text not in _PLURAL:
        return inflected(verb_lemma(parsed, verb), "VBZ")
    return text


def _verbs_of(parsed: Parsed, noun: int) -> Iterator[int]:
    word = parsed.words[noun]
    if word.dep in SUBJECTS:
        yield from _with_joined(parsed, word.head)
    # As in "there are".
    if word.dep in ("attr", "nsubj") and parsed.child(word.head, "expl") is not None:
        yield word.head
    for i in parsed.children[noun]:
        if parsed.words[i].dep == "relcl" and any(
            parsed.words[child].dep in SUBJECTS and parsed.lower[child] in RELATIVES
            for child in parsed.children[i]
        ):
            yield from _with_joined(parsed, i)


def _with_joined(parsed: Parsed, verb: int) -> Iterator[int]:
    yield verb
    for i in parsed.children[verb]:
        if parsed.words[i].dep == "conj" and parsed.child(i, *SUBJECTS) is None:
            yield from _with_joined(parsed, i)


def _finite(parsed: Parsed, verb: int) -> int | None:
    """The word that is inflected for number: the first auxiliary, or the verb itself."""
    helpers = [i for i in parsed.children[verb] if parsed.words[i].dep in ("aux", "auxpass")]
    for i in [*helpers, verb]:
        if parsed.words[i].tag in ("VBZ", "VBP", "VBD"):
            return i
        if parsed.words[i].tag in ("MD", "TO"):
            return None
    # Plural verbs after "and" are often tagged as infinitives.
    return verb if parsed.words[verb].tag == "VB" else None
