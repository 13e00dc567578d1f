"""A model and its material come in; maps of words over patches of a few pictures go out."""

from __future__ import annotations

from collections.abc import Iterator

from unbag.errors import UserError
from unbag.probes.maps import word_maps
from unbag.probes.material import Material, PicturePair
from unbag.probes.plots import Maps
from unbag.probes.probe import Subject
from unbag.types import Picture

SHOWN = 3
"""Pictures; more of them make a page heavy and teach little."""

NOTE = "no map of words over patches"


def map_words(subject: Subject, material: Material) -> tuple[tuple[Maps, ...], tuple[str, ...]]:
    """Of the model, then of the one it is set against; and a note for each that has none."""
    maps: list[Maps] = []
    notes: dict[str, None] = {}
    for one in [one for one in (subject, subject.other) if one is not None]:
        if one.space is None:
            notes[f"{NOTE}: {one.name} has no vectors"] = None
            continue
        for picture, caption in examples(material):
            try:
                maps.append(word_maps(one.space, picture, caption))
            except UserError as error:
                notes[f"{NOTE}: {error.found}"] = None
            except Exception as error:
                # All questions are answered by now; a map is not worth to lose them.
                notes[f"{NOTE}: {type(error).__name__}: {error}"] = None
    return tuple(maps), tuple(notes)


def examples(material: Material) -> tuple[tuple[Picture, str], ...]:
    """Both pictures of a left/right pair and one of exchanged colours, or what there is."""
    found: dict[str, tuple[Picture, str]] = {}
    for picture, caption in _candidates(material):
        found.setdefault(picture.key, (picture, caption))
    return tuple(found.values())[:SHOWN]


def _candidates(material: Material) -> Iterator[tuple[Picture, str]]:
    pairs = [pair for pair in material.pairs if pair.captions is not None]
    sides = [pair for pair in pairs if pair.relation == "left/right"][:1]
    swaps = [pair for pair in pairs if pair.relation == "swap_attributes"][:1]
    for pair in sides or pairs[:1]:
        yield from _both(pair)
    for pair in swaps or pairs[1:2]:
        yield from _both(pair)
    for row in material.rows[:SHOWN]:
        yield row.picture, row.caption


def _both(pair: PicturePair) -> Iterator[tuple[Picture, str]]:
    assert pair.captions is not None
    yield from zip((pair.first, pair.second), pair.captions, strict=True)
