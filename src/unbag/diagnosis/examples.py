"""A model and its material come in; maps of words over a few pictures go out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product

from unbag.engine.progress import Progress, Silent
from unbag.errors import UserError
from unbag.probes.covered_maps import chat_of, covered_maps
from unbag.probes.encoded import EncoderSpace
from unbag.probes.maps import word_maps
from unbag.probes.material import Material, PicturePair
from unbag.probes.occlusion_maps import decoder_of, occlusion_maps
from unbag.probes.plots import Maps
from unbag.probes.probe import Subject
from unbag.probes.reader_maps import reader_maps
from unbag.types import Picture

SHOWN = 3
"""Pictures; more of them make a page heavy and teach little."""

NOTE = "no map of words over patches"


def map_words(
    subject: Subject, material: Material, *, progress: Progress | None = None
) -> tuple[tuple[Maps, ...], tuple[str, ...]]:
    """Of the model, its read-out, and the one it is set against; a note for each that has none."""
    progress = progress or Silent()
    maps: dict[tuple[str, str], Maps] = {}
    notes: dict[str, None] = {}
    shown = examples(material)
    every = [(one, _ways(one)) for one in (subject, subject.other) if one is not None]
    # A map of a chat model runs it dozens of times.
    with progress.task("maps", len(shown) * sum(len(ways) for _, ways in every)) as advance:
        for one, ways in every:
            if not ways:
                notes[f"{NOTE}: {one.name} shows no patches"] = None
            # Of two the second is that of a read-out, and the first of the model that it reads.
            named = zip(ways, ("before training", "after training")[: len(ways)], strict=True)
            for (way, when), (picture, caption) in product(named, shown):
                try:
                    found = way(picture, caption)
                    found = replace(found, when=when) if len(ways) == 2 else found
                    # A model that its own read-out is set against is drawn once.
                    maps.setdefault((found.title, picture.key), found)
                except UserError as error:
                    notes[f"{NOTE}: {error.found}"] = None
                except Exception as error:
                    # All questions are answered by now; a map is not worth to lose them.
                    notes[f"{NOTE}: {type(error).__name__}: {error}"] = None
                advance(1)
    return tuple(maps.values()), tuple(notes)


def _ways(subject: Subject) -> list[Callable[[Picture, str], Maps]]:
    """Before training first: cosines of the model, or of the tower that a decoder sees through."""
    space, decoder = subject.space, decoder_of(subject.scorer)
    if decoder is None and chat_of(subject.scorer) is not None:
        # Vectors of VLM2Vec, if any, are of whole pictures: no cosines of patches stand before.
        return [partial(covered_maps, subject.scorer)]
    if decoder is not None and decoder.settings.sees == "patches":
        tower = decoder.tower
        is_own = space is not None and space.fingerprint == tower.fingerprint
        space = space if is_own else EncoderSpace(tower)
    ways: list[Callable[[Picture, str], Maps]] = []
    if space is not None:
        ways.append(partial(word_maps, space))
    if decoder is not None:
        ways.append(partial(occlusion_maps, subject.scorer))
    elif subject.has_readout:
        ways.append(partial(reader_maps, subject.scorer))
    return ways


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
