"""Hard positives in the same words: another article, and other forms of words.

Captions describe what is seen, so that "a dog", "the dog" and "one dog" are the same dog where it
is first spoken of; only nouns are touched for which that is sure. Forms are spellings ("grey",
"gray"), numbers ("two", "2"), contractions ("is not", "isn't"), the two present tenses ("is
riding", "rides"), and "there is a dog ..." for "a dog is ...".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from unbag.edits.inflection import activities, inflected
from unbag.edits.kinds import Changes, rule_kind, starts_with_vowel
from unbag.edits.lexicon import ALIVE, WORD_GROUPS, word_lists
from unbag.edits.parsed import Parsed, Phrase, WordSpan, subtree
from unbag.edits.positives.synonyms import is_whole
from unbag.types import Change

_LISTS = word_lists("word_forms")
_GROUPS_OF_PEOPLE = _LISTS.words("groups_of_people")
_THINGS = (
    (ALIVE | WORD_GROUPS["@things"] | WORD_GROUPS["@vehicles"])
    - _GROUPS_OF_PEOPLE
    - {"food", "fruit"}
)
_PLACES = _LISTS.words("places")
_ARTICLE_AFTER = _LISTS.words("article_after")
_SPECIAL = _LISTS.words("special")
_COMPARED = _LISTS.words("compared")
_BE_NOW = frozenset(("is", "are"))
_THERE_BEFORE = _LISTS.words("there_before")
_NEW = _LISTS.words("new")
_PLURAL_IN_SENSE = _LISTS.words("plural_in_sense")
_NO_TENSE_AFTER = frozenset(("to", "ready", "going"))
_GOES_ON = frozenset(("DT", "VBG", "VBN", "VB", "IN", "RB", "CD", "PRP$"))
_NUMBERS = _LISTS.sequence("numbers")
NUMBERS: Mapping[str, str] = MappingProxyType(
    {word: str(at) for at, word in enumerate(_NUMBERS, start=2)}
    | {str(at): word for at, word in enumerate(_NUMBERS, start=2)}
)
"""Two to twelve, as words and as digits."""


SPELLINGS: Mapping[tuple[str, ...], str] = MappingProxyType(
    {
        tuple(old.replace("-", " - ").split()): new
        for old, new in _LISTS.replacements("spellings").items()
    }
)
"""By the words in lower case as the parser cuts them: hyphens are words of their own."""
MOST_TOKENS = max(map(len, SPELLINGS))
FIRST_TOKENS = frozenset(tokens[0] for tokens in SPELLINGS)
CONTRACTIONS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        (first, second): together
        for words, together in _LISTS.replacements("contractions").items()
        for first, second in (words.split(),)
    }
)
"""Two words and how they are written together, or apart if they are together."""
_FIRST_OF_TWO = frozenset(first for first, _ in CONTRACTIONS)


def article(parsed: Parsed) -> list[Changes]:
    """Every article that may be another, and those that may be added before the first noun."""
    if not parsed.chunks:
        return []
    return [*_first(parsed), *_of_places(parsed)]


ARTICLE = rule_kind(
    article,
    "another article: a dog on a bench -> the dog on a bench",
    "ours",
    is_positive=True,
)


def word_form(parsed: Parsed) -> list[Changes]:
    """Every form that may be another."""
    return [
        *_spellings(parsed),
        *_numbers(parsed),
        *_contractions(parsed),
        *tenses(parsed),
        *there_forms(parsed),
    ]


WORD_FORM = rule_kind(
    word_form,
    "another form: two grey dogs are running -> two gray dogs are running, 2, run",
    "ours",
    is_positive=True,
)


def _first(parsed: Parsed) -> Iterator[Changes]:
    """At the first noun phrase of the caption, if it starts the caption."""
    phrase = parsed.chunks[0]
    if phrase.first != 0 or not _takes_other_article(parsed, phrase):
        return
    word, noun = parsed.lower[0], parsed.words[phrase.head]
    # Somebody is named before it: "someone's dog" takes no article.
    is_owned = any(one.tag == "POS" for one in parsed.words[: phrase.last])
    is_known = noun.lemma in _THINGS
    if noun.tag == "NNS":
        if parsed.words[0].tag == "CD" and word != "one" and not _COMPARED & {*parsed.lower}:
            yield (parsed.change(0, 0, f"the {word}"),)
        return
    if word in ("a", "an"):
        yield (parsed.change(0, 0, "the"),)
        if noun.lemma in ALIVE and is_known and not _COMPARED & {*parsed.lower}:
            yield (parsed.change(0, 0, "one"),)
    elif word in ("the", "one") and is_known and not _COMPARED & {*parsed.lower[1:]}:
        yield (parsed.change(0, 0, _a_before(parsed, 1)),)
    elif parsed.words[0].tag in ("NN", "JJ") and is_known and not is_owned:
        yield (parsed.change(0, 0, f"{_a_before(parsed, 0)} {word}"),)


def _of_places(parsed: Parsed) -> Iterator[Changes]:
    """Before a place later in the caption: "on a table" and "on the table"."""
    for phrase in parsed.chunks[1:]:
        noun = parsed.words[phrase.head]
        if parsed.lower[phrase.first] not in ("a", "an") or noun.lemma not in _PLACES:
            continue
        is_at = noun.dep == "pobj" and parsed.lower[noun.head] in _ARTICLE_AFTER
        is_said_once = sum(word.lemma == noun.lemma for word in parsed.words) == 1
        can_change = noun.tag == "NN" and _takes_other_article(parsed, phrase)
        if is_at and is_said_once and can_change:
            yield (parsed.change(phrase.first, phrase.first, "the"),)


def _takes_other_article(parsed: Parsed, phrase: Phrase) -> bool:
    """A common noun without what makes its article needed, such as "same" or "of" after it."""
    words = parsed.words
    if words[phrase.head].tag not in ("NN", "NNS") or phrase.head != phrase.last:
        return False
    if parsed.lower[phrase.first] in ("a", "an") and words[phrase.head].tag == "NNS":
        return False
    inside = range(phrase.first, phrase.last + 1)
    if any(
        parsed.lower[at] in _SPECIAL or words[at].tag in ("JJS", "NNP", "NNPS") for at in inside
    ):
        return False
    return parsed.lower_at(phrase.last + 1) not in ("of", "'s", "'", "-", "and", ",", "or")


def _a_before(parsed: Parsed, at: int) -> str:
    return "an" if starts_with_vowel(parsed.lower[at]) else "a"


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
    after = ("of", "view", "photo", "picture", "shot", "image")
    return parsed.lower[first] != "close" or parsed.lower_at(last + 1) in after


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


def tenses(parsed: Parsed) -> Iterator[Changes]:
    """The other present tense of verbs of doing: "is riding", "rides"."""
    forms = activities()
    for at in parsed.verbs:
        base = forms.get(parsed.lower[at])
        if base is None or _has_joined(parsed, at):
            continue
        tag, before = parsed.words[at].tag, parsed.lower_at(at - 1)
        if tag == "VBG" and before in _BE_NOW and parsed.words[at - 1].head == at:
            new = base if before == "are" else inflected(base, "VBZ")
            yield (parsed.change(at - 1, at, new),)
        elif tag in ("VBZ", "VBP") and _has_noun_before(parsed, at):
            be = "is" if tag == "VBZ" else "are"
            yield (parsed.change(at, at, f"{be} {inflected(base, 'VBG')}"),)


def there_forms(parsed: Parsed) -> Iterator[Changes]:
    """With "there is" or without it: "there is a dog running", "a dog is running"."""
    if parsed.lower_at(0) == "there" and parsed.lower_at(1) in _BE_NOW:
        yield from _without_there(parsed)
    elif parsed.lower_at(0) in _NEW:
        yield from _with_there(parsed)


def _without_there(parsed: Parsed) -> Iterator[Changes]:
    noun = _whole_phrase(parsed, 2)
    if noun is None or parsed.lower[2] not in _NEW or not _goes_on(parsed, noun):
        return
    start, after = parsed.words[2].start, parsed.words[noun.last + 1].start
    yield (Change(0, start, ""), Change(after, after, f"{parsed.lower[1]} "))


def _with_there(parsed: Parsed) -> Iterator[Changes]:
    noun = _whole_phrase(parsed, 0)
    if noun is None or noun.last + 2 >= len(parsed.words):
        return
    be = noun.last + 1
    if parsed.lower[be] not in _BE_NOW or not _goes_on(parsed, WordSpan(0, be)):
        return
    first = parsed.words[0]
    text = first.text if parsed.is_upper else first.text.lower()
    # "A group of men are": the noun that counts after "there" is the first.
    is_group = parsed.lower[0] in ("a", "an") and not _PLURAL_IN_SENSE & {*parsed.lower[:be]}
    verb = "is" if is_group else parsed.lower[be]
    yield (
        Change(0, first.end, f"there {verb} {text}"),
        Change(parsed.words[be].start, parsed.words[be + 1].start, ""),
    )


def _whole_phrase(parsed: Parsed, start: int) -> WordSpan | None:
    """The noun phrase that starts there, with what "of" adds to it."""
    chunks = {chunk.first: chunk for chunk in reversed(parsed.chunks)}
    found = chunks.get(start)
    if found is None or found.head != found.last:
        return None
    tag, last = parsed.words[found.head].tag, found.last
    is_one = parsed.lower[start] in ("a", "an") and tag == "NNS"
    if tag not in ("NN", "NNS") or is_one or "and" in parsed.lower[start : last + 1]:
        return None
    if parsed.lower_at(last + 1) == "of":
        if last + 2 not in chunks:
            return None
        last = chunks[last + 2].last
    return WordSpan(start, last) if last + 1 < len(parsed.words) else None


def _goes_on(parsed: Parsed, before: WordSpan) -> bool:
    """Whether what follows says what it does, or where it is and no more."""
    at = before.last + 1
    word = parsed.words[at]
    if word.tag == "VBG":
        # Another clause may be joined to it, with a subject of its own.
        has_clause = any(
            parsed.words[child].dep in ("conj", "ccomp", "parataxis")
            and parsed.child(child, "nsubj", "expl") is not None
            for child in parsed.children[at]
        )
        return not has_clause and parsed.lower[at] != "going"
    if parsed.lower[at] not in _THERE_BEFORE or word.dep != "prep":
        return False
    span = subtree(parsed, at)
    if span is None or span.first != at or span.last + 1 != parsed.end:
        return False
    rest = parsed.words[at : parsed.end]
    is_worn = not WORD_GROUPS["@clothes"].isdisjoint(parsed.lower[at : parsed.end])
    return not is_worn and not any(one.tag in ("VBG", "VBN", "CC") for one in rest)


def _has_joined(parsed: Parsed, verb: int) -> bool:
    """Whether another verb shares or decides its form: "sits and reads", "watches him ride"."""
    if parsed.words[verb].dep in ("conj", "ccomp", "xcomp"):
        return True
    after = parsed.lower_at(verb + 1)
    return parsed.child(verb, "conj") is not None or after in _NO_TENSE_AFTER


def _has_noun_before(parsed: Parsed, verb: int) -> bool:
    """A subject of the third person, in the number that the verb has."""
    subject = parsed.child(verb, "nsubj")
    if subject is None or subject > verb:
        return False
    if parsed.child(verb, "aux", "neg") is not None:
        return False
    tag, lower = parsed.words[subject].tag, parsed.lower[subject]
    if parsed.words[verb].tag == "VBZ":
        return tag == "NN" or lower in ("he", "she", "it", "who", "that")
    is_many = tag == "NNS" or lower in ("they", "people", "who", "that")
    return is_many or parsed.child(subject, "conj") is not None
