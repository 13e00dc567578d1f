"""Two captions come in; how many words must change to make one of the other goes out."""

from __future__ import annotations

from functools import lru_cache

from unbag.captions.shuffles import words


@lru_cache(maxsize=1 << 16)
def words_changed(first: str, second: str) -> int:
    """Fewest words put in, taken out or replaced (Levenshtein's distance of words, any case)."""
    one, other = words(first.lower()), words(second.lower())
    row = list(range(len(other) + 1))
    for i, word in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, wanted in enumerate(other, 1):
            kept = before if word == wanted else before + 1
            before, row[j] = row[j], min(kept, row[j] + 1, row[j - 1] + 1)
    return row[-1]
