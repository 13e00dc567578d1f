"""A free answer and its possible readings come in; the one it means, or none, goes out.

Rules are tried in order and the first that finds anything decides: a label such as (a), then
keywords. An answer in which a rule finds two options, or no rule any, cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence


def read_answer(
    answer: str, keywords: Sequence[Sequence[str]], *, labels: Sequence[str] = ()
) -> int | None:
    """Number of the option that an answer means; None if it cannot be said."""
    for found in (_labels(answer, labels), _keywords(answer, keywords)):
        if found:
            return next(iter(found)) if len(found) == 1 else None
    return None


def _labels(answer: str, labels: Sequence[str]) -> set[int]:
    """A letter counts alone, in brackets, or before a bracket, full stop or colon.

    Else "A dog" would be option A.
    """
    found = set()
    for number, label in enumerate(labels):
        letter = re.escape(label)
        forms = (rf"^\W*{letter}\W*$", rf"(?<!\w){letter}[).:](?!\w)", rf"\({letter}\)",
                 rf"\b(?:answer|option)(?: is)?:? {letter}\b")  # fmt: skip
        if any(re.search(form, answer, flags=re.IGNORECASE) for form in forms):
            found.add(number)
    return found


def _keywords(answer: str, keywords: Sequence[Sequence[str]]) -> set[int]:
    """Whole words in any case. Longer ones first, so that "on the left" is not taken for "on"."""
    rest = " ".join(answer.casefold().split())
    pairs = [(word.casefold(), n) for n, words in enumerate(keywords) for word in words if word]
    found = set()
    for word, number in sorted(pairs, key=lambda pair: -len(pair[0])):
        pattern = rf"(?<!\w){re.escape(' '.join(word.split()))}(?!\w)"
        rest, times = re.subn(pattern, "|", rest)
        if times:
            found.add(number)
    return found
