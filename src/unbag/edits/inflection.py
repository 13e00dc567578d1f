"""Forms of words: verbs that agree with a noun in another number, and any other inflection.

"A man rides two horses" becomes "two horses ride a man". Of tensed verbs only the present and was /
were show the number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from types import MappingProxyType

from unbag.edits.lexicon import word_lists
from unbag.edits.parsed import RELATIVES, SUBJECTS, Parsed
from unbag.types import Change

_MENDED = word_lists("word_forms").replacements("mended_verbs")
_SINGULAR = word_lists("word_forms").replacements("singular_verbs")
_PLURAL = {one: many for many, one in _SINGULAR.items()}


@lru_cache(maxsize=4096)
def inflected(lemma: str, tag: str) -> str:
    """A word in the form of a Penn Treebank tag; the lemma where the form is unknown."""
    from lemminflect import getInflection  # type: ignore[import-untyped, unused-ignore]

    found = getInflection(lemma, tag=tag)
    return str(found[0]) if found else lemma


def verb_lemma(parsed: Parsed, verb: int) -> str:
    """In lower case."""
    lemma = parsed.words[verb].lemma.lower()
    return _MENDED.get(lemma, lemma)


@cache
def activities() -> Mapping[str, str]:
    """Present forms of verbs of doing, with their base form."""
    return MappingProxyType(
        {
            inflected(verb, tag): verb
            for verb in word_lists("word_forms").sequence("activities")
            for tag in ("VB", "VBZ", "VBG")
        }
    )


def agreeing(parsed: Parsed, noun: int, *, is_plural: bool) -> list[Change]:
    """Changes of the verbs that have this noun as subject, if another number stands there now.

    Empty where the noun has others joined to it: together they are plural before and after.
    """
    if any(parsed.words[at].dep == "conj" for at in parsed.children[noun]):
        return []
    found: list[Change] = []
    for verb in _verbs_of(parsed, noun):
        for at in _finite(parsed, verb):
            new = in_number(parsed, at, is_plural=is_plural)
            if new != parsed.lower[at]:
                found.append(parsed.change(at, at, new))
    return found


def in_number(parsed: Parsed, verb: int, *, is_plural: bool) -> str:
    """A tensed verb in the third person, singular or plural, in lower case."""
    word, text = parsed.words[verb], parsed.lower[verb]
    fixed = (_PLURAL if is_plural else _SINGULAR).get(text)
    if fixed is not None:
        return fixed
    if is_plural and word.tag == "VBZ":
        return verb_lemma(parsed, verb)
    # "Dogs run" may be tagged as the past tense; captions tell in the present.
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
    for at in parsed.children[noun]:
        if parsed.words[at].dep == "relcl" and any(
            parsed.words[child].dep in SUBJECTS and parsed.lower[child] in RELATIVES
            for child in parsed.children[at]
        ):
            yield from _with_joined(parsed, at)


def _with_joined(parsed: Parsed, verb: int) -> Iterator[int]:
    yield verb
    for at in parsed.children[verb]:
        if parsed.words[at].dep == "conj" and parsed.child(at, *SUBJECTS) is None:
            yield from _with_joined(parsed, at)


def _finite(parsed: Parsed, verb: int) -> list[int]:
    """The word that shows the number: the first auxiliary, or the verb itself."""
    helpers = [at for at in parsed.children[verb] if parsed.words[at].dep in ("aux", "auxpass")]
    for at in [*helpers, verb]:
        if parsed.words[at].tag in ("VBZ", "VBP", "VBD"):
            return [at]
        if parsed.words[at].tag in ("MD", "TO"):
            return []
    # Plural verbs after "and" are often tagged as infinitives.
    return [verb] if parsed.words[verb].tag == "VB" else []
