"""Hard positives by another article or another form of the same words.

Captions describe what is visible, so "a dog", "the dog" and "one dog" denote the same dog at its
first mention; only nouns for which that is certain are changed. Forms are spellings ("grey",
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
_CONTINUING_TAGS = frozenset(("DT", "VBG", "VBN", "VB", "IN", "RB", "CD", "PRP$"))
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
"""Other spellings by the lower-case tokens of the parser: hyphens are separate tokens."""
MAX_TOKENS = max(map(len, SPELLINGS))
FIRST_TOKENS = frozenset(tokens[0] for tokens in SPELLINGS)
CONTRACTIONS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        (first, second): together
        for words, together in _LISTS.replacements("contractions").items()
        for first, second in (words.split(),)
    }
)
"""Two words with their contracted form, or two tokens with their full form."""
_FIRST_OF_TWO = frozenset(first for first, _ in CONTRACTIONS)


def article(parsed: Parsed) -> list[Changes]:
    """Replace an article, or add one before the first noun."""
    if not parsed.chunks:
        return []
    return [*_initial_articles(parsed), *_place_articles(parsed)]


ARTICLE = rule_kind(
    article,
    "another article: a dog on a bench -> the dog on a bench",
    "ours",
    is_positive=True,
)


def word_form(parsed: Parsed) -> list[Changes]:
    """Replace each form that has an alternative."""
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


def _initial_articles(parsed: Parsed) -> Iterator[Changes]:
    """The articles of a noun phrase at the start of the caption."""
    phrase = parsed.chunks[0]
    if phrase.first != 0 or not _takes_other_article(parsed, phrase):
        return
    word, noun = parsed.lower[0], parsed.words[phrase.head]
    # A possessive precedes: "someone's dog" takes no article.
    is_owned = any(other.tag == "POS" for other in parsed.words[: phrase.last])
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


def _place_articles(parsed: Parsed) -> Iterator[Changes]:
    """The articles of later places: "on a table" and "on the table"."""
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
    """Whether it is a common noun whose article is free: no "same", no "of" after it."""
    words = parsed.words
    if words[phrase.head].tag not in ("NN", "NNS") or phrase.head != phrase.last:
        return False
    if parsed.lower[phrase.first] in ("a", "an") and words[phrase.head].tag == "NNS":
        return False
    inside = range(phrase.first, phrase.last + 1)
    if any(parsed.lower[i] in _SPECIAL or words[i].tag in ("JJS", "NNP", "NNPS") for i in inside):
        return False
    return parsed.lower_at(phrase.last + 1) not in ("of", "'s", "'", "-", "and", ",", "or")


def _a_before(parsed: Parsed, i: int) -> str:
    return "an" if starts_with_vowel(parsed.lower[i]) else "a"


def _spellings(parsed: Parsed) -> Iterator[Changes]:
    for i, text in enumerate(parsed.lower):
        if text not in FIRST_TOKENS:
            continue
        for length in range(MAX_TOKENS, 0, -1):
            words = parsed.lower[i : i + length]
            new = SPELLINGS.get(words) if len(words) == length else None
            last = i + length - 1
            if new is not None and _can_respell(parsed, i, last):
                yield (parsed.change(i, last, new),)
                break


def _can_respell(parsed: Parsed, first: int, last: int) -> bool:
    """Whether words can be respelled: no name, and "close up" only as a noun."""
    words = parsed.words[first : last + 1]
    if any(word.tag in ("NNP", "NNPS") for word in words) or not is_whole(parsed, first, last):
        return False
    after = ("of", "view", "photo", "picture", "shot", "image")
    return parsed.lower[first] != "close" or parsed.lower_at(last + 1) in after


def _numbers(parsed: Parsed) -> Iterator[Changes]:
    for i in parsed.counts:
        new = NUMBERS.get(parsed.lower[i])
        noun = parsed.words[parsed.words[i].head]
        if new is None or noun.tag != "NNS" or parsed.words[i].head < i:
            continue
        if is_whole(parsed, i, i) and parsed.lower[i + 1] not in ("-", "and", "or", "to"):
            yield (parsed.change(i, i, new),)


def _contractions(parsed: Parsed) -> Iterator[Changes]:
    for i, text in enumerate(parsed.lower[:-1]):
        if text not in _FIRST_OF_TWO:
            continue
        new = CONTRACTIONS.get((text, parsed.lower[i + 1]))
        second = parsed.words[i + 1]
        if new is None or second.tag not in ("VBZ", "VBP", "RB"):
            continue
        # At the end the verb is stressed, and before a noun "it's" is a misspelt "its".
        after = parsed.words[i + 2].tag if i + 2 < len(parsed.words) else "."
        if after in _CONTINUING_TAGS:
            yield (parsed.change(i, i + 1, new),)


def tenses(parsed: Parsed) -> Iterator[Changes]:
    """Replace the present tense of activity verbs by the other one: "is riding", "rides"."""
    forms = activities()
    for i in parsed.verbs:
        base = forms.get(parsed.lower[i])
        if base is None or _depends_on_verb(parsed, i):
            continue
        tag, before = parsed.words[i].tag, parsed.lower_at(i - 1)
        if tag == "VBG" and before in _BE_NOW and parsed.words[i - 1].head == i:
            new = base if before == "are" else inflected(base, "VBZ")
            yield (parsed.change(i - 1, i, new),)
        elif tag in ("VBZ", "VBP") and _has_agreeing_subject(parsed, i):
            be = "is" if tag == "VBZ" else "are"
            yield (parsed.change(i, i, f"{be} {inflected(base, 'VBG')}"),)


def there_forms(parsed: Parsed) -> Iterator[Changes]:
    """Add or remove "there is": "there is a dog running", "a dog is running"."""
    if parsed.lower_at(0) == "there" and parsed.lower_at(1) in _BE_NOW:
        yield from _without_there(parsed)
    elif parsed.lower_at(0) in _NEW:
        yield from _with_there(parsed)


def _without_there(parsed: Parsed) -> Iterator[Changes]:
    noun = _whole_phrase(parsed, 2)
    if noun is None or parsed.lower[2] not in _NEW or not _continues(parsed, noun):
        return
    start, after = parsed.words[2].start, parsed.words[noun.last + 1].start
    yield (Change(0, start, ""), Change(after, after, f"{parsed.lower[1]} "))


def _with_there(parsed: Parsed) -> Iterator[Changes]:
    noun = _whole_phrase(parsed, 0)
    if noun is None or noun.last + 2 >= len(parsed.words):
        return
    be = noun.last + 1
    if parsed.lower[be] not in _BE_NOW or not _continues(parsed, WordSpan(0, be)):
        return
    first = parsed.words[0]
    text = first.text if parsed.is_upper else first.text.lower()
    # "A group of men are": after "there" the verb agrees with the first noun.
    is_group = parsed.lower[0] in ("a", "an") and not _PLURAL_IN_SENSE & {*parsed.lower[:be]}
    verb = "is" if is_group else parsed.lower[be]
    yield (
        Change(0, first.end, f"there {verb} {text}"),
        Change(parsed.words[be].start, parsed.words[be + 1].start, ""),
    )


def _whole_phrase(parsed: Parsed, start: int) -> WordSpan | None:
    """The noun phrase that starts at an index, including an "of" phrase."""
    chunks = {chunk.first: chunk for chunk in reversed(parsed.chunks)}
    phrase = chunks.get(start)
    if phrase is None or phrase.head != phrase.last:
        return None
    tag, last = parsed.words[phrase.head].tag, phrase.last
    is_one = parsed.lower[start] in ("a", "an") and tag == "NNS"
    if tag not in ("NN", "NNS") or is_one or "and" in parsed.lower[start : last + 1]:
        return None
    if parsed.lower_at(last + 1) == "of":
        if last + 2 not in chunks:
            return None
        last = chunks[last + 2].last
    return WordSpan(start, last) if last + 1 < len(parsed.words) else None


def _continues(parsed: Parsed, before: WordSpan) -> bool:
    """Whether an action or a single phrase of place follows."""
    i = before.last + 1
    word = parsed.words[i]
    if word.tag == "VBG":
        # Another clause with its own subject may be joined to it.
        has_clause = any(
            parsed.words[child].dep in ("conj", "ccomp", "parataxis")
            and parsed.child(child, "nsubj", "expl") is not None
            for child in parsed.children[i]
        )
        return not has_clause and parsed.lower[i] != "going"
    if parsed.lower[i] not in _THERE_BEFORE or word.dep != "prep":
        return False
    span = subtree(parsed, i)
    if span is None or span.first != i or span.last + 1 != parsed.end:
        return False
    rest = parsed.words[i : parsed.end]
    is_worn = not WORD_GROUPS["@clothes"].isdisjoint(parsed.lower[i : parsed.end])
    return not is_worn and not any(w.tag in ("VBG", "VBN", "CC") for w in rest)


def _depends_on_verb(parsed: Parsed, verb: int) -> bool:
    """Whether the form depends on another verb: "sits and reads", "watches him ride"."""
    if parsed.words[verb].dep in ("conj", "ccomp", "xcomp"):
        return True
    after = parsed.lower_at(verb + 1)
    return parsed.child(verb, "conj") is not None or after in _NO_TENSE_AFTER


def _has_agreeing_subject(parsed: Parsed, verb: int) -> bool:
    """Whether a subject of the third person precedes and agrees with the verb."""
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
