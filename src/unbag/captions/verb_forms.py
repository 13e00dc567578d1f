"""A verb of a parsed caption comes in; its lemma goes out, mended where the pipeline errs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from unbag.captions.parsed import Parsed

# English pipelines of spaCy take a final e away with the ending ("rid" for riding).
_MENDED: Mapping[str, str] = MappingProxyType(
    {
        "rid": "ride",
        "wad": "wade",
        "shin": "shine",
        "sle": "sled",
        "skat": "skate",
        "div": "dive",
        "hik": "hike",
        "rac": "race",
        "chas": "chase",
        "pos": "pose",
    }
)


def verb_lemma(parsed: Parsed, verb: int) -> str:
    """In lower case."""
    lemma = parsed.words[verb].lemma.lower()
    return _MENDED.get(lemma, lemma)
