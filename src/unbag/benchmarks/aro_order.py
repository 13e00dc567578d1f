"""ARO's COCO-Order and Flickr30k-Order: a caption against up to four shuffles of its own words.

Read from Karpathy's test files, one case a caption. The official code puts the caption first and
takes the argmax, so a tie counts as right, even with a shuffle that changed nothing; here such
shuffles are dropped, and chance is that of the options that remain. Shuffles are drawn from the
seed and the caption's id. A record may bring its own in `shuffles`, a field of ours: one object a
caption, from the name of a shuffle to its text. Without those, two of the four need a tagger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from types import MappingProxyType

import numpy as np

from unbag.benchmarks.files import Folder, Record
from unbag.benchmarks.sources import COCO_VAL2014
from unbag.benchmarks.sources_hosted import FLICKR30K_BY_HAND
from unbag.benchmarks.sources_pinned import karpathy_coco, karpathy_flickr30k
from unbag.benchmarks.taggers import tags_of, warn_untagged
from unbag.captions.shuffles import SHUFFLES, Tagged, Tagger, normalised, shuffle, spaced
from unbag.errors import UserError
from unbag.metrics.choice import Choice
from unbag.metrics.resample import generator
from unbag.published.every import published_for
from unbag.types import MICRO, Benchmark, BoolArray, Item
from unbag.types.json_fields import as_mapping, as_text

COCO_FILE = "coco_karpathy_test.json"
FLICKR_FILE = "flickr30k_test.json"


def _first_of(options: int) -> BoolArray:
    truth: BoolArray = np.eye(1, options, dtype=np.bool_)
    truth.flags.writeable = False
    return truth


FIRST_OF = tuple(_first_of(options) for options in range(len(SHUFFLES) + 2))
"""Truth by the number of options, shared by all items."""


@dataclass(frozen=True)
class OrderFile:
    """Loads one of the two; call it with the folder."""

    benchmark: str
    file: str
    places: tuple[str, ...]
    """Where the pictures may lie."""
    tagger: Tagger | None = None
    seed: int = 0

    def with_tagger(self, tagger: Tagger | None) -> OrderFile:
        """The same with another tagger."""
        return replace(self, tagger=tagger)

    def __call__(self, root: Path | None) -> Sequence[Item]:
        """One item a caption."""
        folder = Folder.of(root, self.benchmark)
        reading = _Reading(folder, folder.picture_folder(*self.places).parent, self.seed)
        records = folder.records(self.file)
        made = [_made(record) for record in records]
        tags: Iterator[Tagged | None] = repeat(None)
        if not all(set(SHUFFLES) <= set(one) for some in made for one in some):
            if self.tagger is None:
                warn_untagged("published numbers are over four shuffles")
            else:
                captions = [c for record in records for c in record.fields.texts("caption")]
                tags = iter(tags_of(self.tagger, [spaced(caption) for caption in captions]))
        return [
            item
            for record, some in zip(records, made, strict=True)
            for item in _items(reading, record, some, tags)
        ]


@dataclass(frozen=True)
class _Reading:
    """What stays the same from record to record."""

    folder: Folder
    pictures: Path
    seed: int


load_coco = OrderFile("aro_order_coco", COCO_FILE, ("val2014", "../coco/val2014"))
"""25,010 cases; pictures are COCO val2014."""
load_flickr30k = OrderFile(
    "aro_order_flickr30k", FLICKR_FILE, ("flickr30k-images", "../flickr30k/flickr30k-images")
)
"""5,000 cases; pictures are Flickr30k."""


def _items(
    reading: _Reading,
    record: Record,
    made: Sequence[Mapping[str, str]],
    tags: Iterator[Tagged | None],
) -> Iterator[Item]:
    name = record.fields.text("image")
    picture = reading.folder.picture(reading.pictures, name, record.where)
    for i, caption in enumerate(record.fields.texts("caption")):
        key = f"test/{record.key}/{i}"
        names = (reading.folder.benchmark, key)
        options = options_of(caption, names, seed=reading.seed, made=made[i], tagged=next(tags))
        if not all(options):
            raise UserError(
                f"{record.where}: caption {i} is empty",
                expected="a caption with at least one word",
                way_out="mend or remove that record, and say so beside your number",
            )
        yield Item(
            id=key,
            pictures=(picture,),
            captions=tuple(options),
            truth=FIRST_OF[len(options)],
            tags={"options": str(len(options))},
            kinds=tuple(options.values()),
        )


def options_of(
    caption: str,
    names: Sequence[str],
    *,
    seed: int,
    made: Mapping[str, str] = MappingProxyType({}),
    tagged: Tagged | None = None,
) -> dict[str, str]:
    """The caption as a model gets it, first, and its shuffles that differ, with their kinds.

    Shuffles are drawn from the seed and the names, or taken from `made`.
    """
    options = {normalised(caption): "original"}
    for kind in SHUFFLES:
        if kind in made:
            found: str | None = normalised(made[kind])
        else:
            rng = generator(seed, *names, kind)
            found = shuffle(caption, kind, rng=rng, tagged=tagged)
        if found:
            options.setdefault(found, kind)
    return options


def _made(record: Record) -> Sequence[Mapping[str, str]]:
    """Shuffles that the record brings, one mapping a caption."""
    captions = record.fields.texts("caption")
    if not captions:
        raise UserError(
            f"{record.where} has no captions",
            expected="at least one",
            way_out="check that it is the official file",
        )
    if "shuffles" not in record.fields.values:
        return [{}] * len(captions)
    made = record.fields.many("shuffles", lambda v, where: as_mapping(v, where, of=as_text))
    unknown = sorted({kind for one in made for kind in one} - set(SHUFFLES))
    if len(made) != len(captions) or unknown:
        raise UserError(
            f"{record.where}: shuffles {unknown or len(made)} for {len(captions)} captions",
            expected=f"one object a caption, with some of {', '.join(SHUFFLES)}",
            way_out="mend the field, or remove it to have the shuffles made",
        )
    return made


_CITE = "Yuksekgonul et al. 2023, When and why vision-language models behave like bags-of-words"

ARO_ORDER_COCO = Benchmark(
    name="aro_order_coco",
    about="A caption of COCO against shuffles of its own words. Without a tagger only the two "
    "trigram shuffles are asked, which is not the published test of four.",
    load=load_coco,
    metrics=(Choice(),),
    headline="accuracy",
    aggregates=(MICRO,),
    official_ties="argmax_first",
    cite=_CITE,
    licence="COCO terms (captions and pictures)",
    files=(COCO_FILE,),
    sources=("COCO val2014",),
    size=25_010,
    downloads=(*karpathy_coco("aro_order_coco"), COCO_VAL2014),
    published=published_for("aro_order_coco"),
)

ARO_ORDER_FLICKR30K = Benchmark(
    name="aro_order_flickr30k",
    about="A caption of Flickr30k against shuffles of its own words. Without a tagger only the two "
    "trigram shuffles are asked, which is not the published test of four.",
    load=load_flickr30k,
    metrics=(Choice(),),
    headline="accuracy",
    aggregates=(MICRO,),
    official_ties="argmax_first",
    cite=_CITE,
    licence="Flickr30k terms (captions and pictures)",
    files=(FLICKR_FILE,),
    sources=("Flickr30k",),
    size=5_000,
    downloads=karpathy_flickr30k("aro_order_flickr30k"),
    gated=FLICKR30K_BY_HAND,
    published=published_for("aro_order_flickr30k"),
)
