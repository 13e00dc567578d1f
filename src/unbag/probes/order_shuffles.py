"""Captions come in; each with its words shuffled in every way goes out, for each seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from unbag.benchmarks.order_free import TEXT
from unbag.benchmarks.taggers import find_tagger, tags_of
from unbag.captions.shuffles import BY_TAG, Tagged, Tagger, shuffle, spaced
from unbag.metrics.resample import generator
from unbag.probes.material import Material
from unbag.types import Picture
from unbag.world.oracles import semantic
from unbag.world.parse import CONTENT_WORDS


@dataclass(frozen=True)
class Shuffled:
    """One draw of one shuffle of all captions."""

    name: str
    seed: int
    captions: tuple[str | None, ...]
    """None where there is no other order."""


@dataclass(frozen=True)
class WorldTagger:
    """Parts of speech in captions of the world: its words are known, so no parser is needed."""

    name: str = "the words of the world"

    def __call__(self, captions: Sequence[str]) -> Iterator[Tagged]:
        """Nouns and adjectives by name; all else is another part of speech."""
        for caption in captions:
            yield [(word, _tag(word)) for word in caption.split()]


def _tag(word: str) -> str:
    known = CONTENT_WORDS.get(word)
    if known is None:
        return "XX"
    if known.attribute != "shape":
        return "JJ"
    return "NNS" if known.plural else "NN"


def tagger_for(material: Material) -> Tagger | None:
    """That of the world for its captions, else the spaCy pipeline that is installed, if any."""
    return WorldTagger() if material.is_world else find_tagger("auto")


def shuffle_captions(
    captions: Sequence[str], *, seeds: Sequence[int], tagger: Tagger | None
) -> list[Shuffled]:
    """Every shuffle at every seed; those by part of speech only with a tagger."""
    texts = [spaced(caption) for caption in captions]
    tagged = tags_of(tagger, texts) if tagger is not None else None
    return [
        Shuffled(name, seed, _draw(texts, name, seed, tagged if name in BY_TAG else None))
        for name in TEXT
        if tagged is not None or name not in BY_TAG
        for seed in seeds
    ]


def _draw(
    texts: Sequence[str], name: str, seed: int, tagged: Sequence[Tagged] | None
) -> tuple[str | None, ...]:
    tags = tagged if tagged is not None else [None] * len(texts)
    return tuple(
        shuffle(text, name, rng=generator(seed, name, text), tagged=tag, form=spaced)
        for text, tag in zip(texts, tags, strict=True)
    )


def is_still_true(picture: Picture, caption: str) -> bool:
    """A shuffle can say the same: "a red star and a blue cup" the other way round.

    Known of scenes of the world only.
    """
    return semantic().judge(picture, caption) == 1
