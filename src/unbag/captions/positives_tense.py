"""A parsed caption comes in; the same in the other present tense, or with "there is", goes out."""

from __future__ import annotations

from collections.abc import Iterator

from unbag.captions.agreement import inflected
from unbag.captions.form_words import activities
from unbag.captions.kinds import Changes
from unbag.captions.parsed import Parsed, Phrase, Span
from unbag.captions.relations import subtree
from unbag.captions.synonym_verbs import GROUPS
from unbag.captions.word_lists import word_set
from unbag.types import Change

_BE = frozenset(("is", "are"))
_AT = word_set("on in at near behind under beside next above below inside outside between")
_NEW = frozenset(("a", "an", "some", "several", "many", "two", "three", "four", "five", "six"))
_PLURAL_IN_SENSE = frozenset(("couple", "number", "few", "lot", "pair", "dozen"))
_NO_TENSE_AFTER = frozenset(("to", "ready", "going"))


def tenses(parsed: Parsed) -> Iterator[Changes]:
    """The other present tense of verbs of doing: "is riding", "rides"."""
    forms = activities()
    for at in parsed.verbs:
        base = forms.get(parsed.lower[at])
        if base is None or _has_joined(parsed, at):
            continue
        tag, before = parsed.words[at].tag, parsed.lower[at - 1] if at else ""
        if tag == "VBG" and before in _BE and parsed.words[at - 1].head == at:
            new = base if before == "are" else inflected(base, "VBZ")
            yield (parsed.change(at - 1, at, new),)
        elif tag in ("VBZ", "VBP") and _has_noun_before(parsed, at):
            be = "is" if tag == "VBZ" else "are"
            yield (parsed.change(at, at, f"{be} {inflected(base, 'VBG')}"),)


def there_forms(parsed: Parsed) -> Iterator[Changes]:
    """With "there is" or without it: "there is a dog running", "a dog is running"."""
    if parsed.lower[:1] == ("there",) and parsed.lower[1:2] and parsed.lower[1] in _BE:
        yield from _without_there(parsed)
    elif parsed.lower[:1] and parsed.lower[0] in _NEW:
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
    if parsed.lower[be] not in _BE or not _goes_on(parsed, Span(0, be)):
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


def _whole_phrase(parsed: Parsed, start: int) -> Span | None:
    """The noun phrase that starts there, with what "of" adds to it."""
    found = next((chunk for chunk in parsed.chunks if chunk.first == start), None)
    if found is None or not _is_plain(parsed, found):
        return None
    last = found.last
    if last + 1 < len(parsed.words) and parsed.lower[last + 1] == "of":
        more = next((chunk for chunk in parsed.chunks if chunk.first == last + 2), None)
        if more is None:
            return None
        last = more.last
    return Span(start, last) if last + 1 < len(parsed.words) else None


def _is_plain(parsed: Parsed, chunk: Phrase) -> bool:
    is_noun = parsed.words[chunk.head].tag in ("NN", "NNS") and chunk.head == chunk.last
    words = parsed.lower[chunk.first : chunk.last + 1]
    is_one = words[0] in ("a", "an") and parsed.words[chunk.head].tag == "NNS"
    return is_noun and not is_one and "and" not in words


def _goes_on(parsed: Parsed, before: Span) -> bool:
    """Whether what follows says what it does, or where it is and no more."""
    at = before.last + 1
    word = parsed.words[at]
    if word.tag == "VBG":
        return not _has_clause(parsed, at) and parsed.lower[at] != "going"
    if parsed.lower[at] not in _AT or word.dep != "prep":
        return False
    span = subtree(parsed, at)
    end = len(parsed.words) - (parsed.lower[-1] == ".")
    if span is None or span.first != at or span.last + 1 != end:
        return False
    rest = parsed.words[at:end]
    is_worn = not GROUPS["@clothes"].isdisjoint(parsed.lower[at:end])
    return not is_worn and not any(one.tag in ("VBG", "VBN", "CC") for one in rest)


def _has_clause(parsed: Parsed, verb: int) -> bool:
    """Whether another clause is joined to it, with a subject of its own."""
    return any(
        parsed.words[child].dep in ("conj", "ccomp", "parataxis")
        and any(parsed.words[c].dep in ("nsubj", "expl") for c in parsed.children[child])
        for child in parsed.children[verb]
    )


def _has_joined(parsed: Parsed, verb: int) -> bool:
    """Whether another verb shares or decides its form: "sits and reads", "watches him ride"."""
    if parsed.words[verb].dep in ("conj", "ccomp", "xcomp"):
        return True
    after = parsed.lower[verb + 1] if verb + 1 < len(parsed.words) else ""
    is_joined = any(parsed.words[child].dep == "conj" for child in parsed.children[verb])
    return is_joined or after in _NO_TENSE_AFTER


def _has_noun_before(parsed: Parsed, verb: int) -> bool:
    """A subject of the third person, in the number that the verb has."""
    subject = next((c for c in parsed.children[verb] if parsed.words[c].dep == "nsubj"), None)
    if subject is None or subject > verb:
        return False
    has_aux = any(parsed.words[c].dep in ("aux", "neg") for c in parsed.children[verb])
    tag, lower = parsed.words[subject].tag, parsed.lower[subject]
    is_many = tag == "NNS" or lower in ("they", "people", "who", "that")
    is_one = tag == "NN" or lower in ("he", "she", "it", "who", "that")
    has_other = any(parsed.words[c].dep == "conj" for c in parsed.children[subject])
    if parsed.words[verb].tag == "VBZ":
        return is_one and not has_aux
    return (is_many or has_other) and not has_aux
