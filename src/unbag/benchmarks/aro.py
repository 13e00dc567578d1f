"""ARO: a caption against itself with two parts swapped, or with its words shuffled.

VG-Relation and VG-Attribution pair an image crop with its caption and with the same caption after
two parts were swapped. The official code puts the false caption first and takes the argmax, so a
tie is wrong. It reports macro averages: over relations except a list in its notebook, and over
attribute pairs with at least 25 cases. The micro average differs a lot, so all are reported.

COCO-Order and Flickr30k-Order compare each caption of Karpathy's test files with up to four
shuffles of its own words. The official code puts the caption first and takes the argmax, so a tie
counts as right, even with a shuffle that changed nothing. Here such shuffles are dropped, and the
chance level follows from the options that remain. Shuffles are drawn from the seed and the
caption's id. A record may provide its own in the field `shuffles`, which is not part of the
official format: one object per caption, from the name of a shuffle to its text. Otherwise two of
the four shuffles need a tagger.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from types import MappingProxyType

import numpy as np

from unbag.benchmarks.files import FIRST_OF_2, Folder, Record, bad_record, not_official
from unbag.benchmarks.sources import benchmark_fields
from unbag.benchmarks.taggers import tag_captions, warn_untagged
from unbag.data.images import Box
from unbag.edits.shuffles import SHUFFLES, Tagged, Tagger, normalised, shuffle, spaced
from unbag.errors import UnbagError
from unbag.metrics.choice import Choice
from unbag.metrics.intervals import generator
from unbag.types import MICRO, Aggregate, Benchmark, BoolArray, Item
from unbag.types.json import wrong

RELATION_FILE = "visual_genome_relation.json"
ATTRIBUTION_FILE = "visual_genome_attribution.json"
COCO_FILE = "coco_karpathy_test.json"
FLICKR_FILE = "flickr30k_test.json"
MIN_PAIR_CASES = 25
PLACES = ("images", "../aro/images", "../aro_relation/images", "../aro_attribution/images")
BOX = ("bbox_x", "bbox_y", "bbox_w", "bbox_h")
EXCLUDED_RELATIONS = frozenset(
    (Path(__file__).parent / "aro_excluded_relations.txt").read_text(encoding="utf-8").splitlines()
)
"""Relations that the published number leaves out (mertyg/vision-language-models-are-bows, MIT,
"Replicate ARO!", commit 42dbb5e). Its notebook calls them symmetric; many are merely rare."""


def load_relation(root: Path | None) -> Sequence[Item]:
    """VG-Relation, tagged by relation."""
    folder = Folder.of(root, "aro_relation")
    return _load(folder, RELATION_FILE, "relation", lambda record: record.caption("relation_name"))


def load_attribution(root: Path | None) -> Sequence[Item]:
    """VG-Attribution, tagged by the pair of attributes."""
    return _load(Folder.of(root, "aro_attribution"), ATTRIBUTION_FILE, "pair", attribute_pair)


def _load(folder: Folder, file: str, tag: str, value: Callable[[Record], str]) -> Sequence[Item]:
    images = folder.image_folder(*PLACES)
    part = folder.benchmark.removeprefix("aro_")
    return [
        Item(
            id=f"{part}/{record.key}",
            images=(
                folder.image(images, record.text("image_path"), record.where, box=box(record)),
            ),
            captions=record.captions("true_caption", "false_caption"),
            truth=FIRST_OF_2,
            tags={tag: value(record)},
            kinds=("original", f"swap_{part}"),
        )
        for record in folder.records(file)
    ]


def attribute_pair(record: Record) -> str:
    """Both attributes joined in their order: the groups of the official code."""
    attributes = record.read("attributes", tuple[str, ...])
    if len(attributes) != 2:
        raise not_official(f"{record.where}: {len(attributes)} attributes", "two")
    return "_".join(attributes)


def box(record: Record) -> Box:
    """The crop of the image that is scored."""
    x, y, width, height = (_pixels(record, name) for name in BOX)
    if width <= 0 or height <= 0:
        raise not_official(
            f"{record.where}: a box of {width} x {height} pixels",
            "a width and height of at least 1",
        )
    return x, y, width, height


def _pixels(record: Record, name: str) -> int:
    value = record.read(name, object)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return round(value)
    raise wrong(f"{record.where}.{name}", found=value, expected="a number of pixels")


def _first_of(options: int) -> BoolArray:
    truth: BoolArray = np.eye(1, options, dtype=np.bool_)
    truth.flags.writeable = False
    return truth


FIRST_OF = tuple(_first_of(options) for options in range(len(SHUFFLES) + 2))
"""Truth matrices by number of options; all items share them."""


@dataclass(frozen=True)
class OrderFile:
    """Loader of COCO-Order or Flickr30k-Order."""

    benchmark: str
    file: str
    places: tuple[str, ...]
    """Possible image folders."""
    tagger: Tagger | None = None
    seed: int = 0

    def with_tagger(self, tagger: Tagger | None) -> OrderFile:
        """Return a copy with this tagger."""
        return replace(self, tagger=tagger)

    def __call__(self, root: Path | None) -> Sequence[Item]:
        """Load one item per caption."""
        folder = Folder.of(root, self.benchmark)
        images = folder.image_folder(*self.places).parent
        records = folder.records(self.file)
        own_shuffles = [_own_shuffles(record) for record in records]
        tags: Iterator[Tagged | None] = repeat(None)
        if not all(
            set(SHUFFLES) <= set(shuffles)
            for record_shuffles in own_shuffles
            for shuffles in record_shuffles
        ):
            if self.tagger is None:
                warn_untagged("published numbers are over four shuffles")
            else:
                captions = [
                    c for record in records for c in record.read("caption", tuple[str, ...])
                ]
                tags = iter(tag_captions(self.tagger, [spaced(caption) for caption in captions]))
        return [
            item
            for record, record_shuffles in zip(records, own_shuffles, strict=True)
            for item in self._items(folder, images, record, record_shuffles, tags)
        ]

    def _items(
        self,
        folder: Folder,
        images: Path,
        record: Record,
        own_shuffles: Sequence[Mapping[str, str]],
        tags: Iterator[Tagged | None],
    ) -> Iterator[Item]:
        name = record.text("image")
        image = folder.image(images, name, record.where)
        for i, caption in enumerate(record.read("caption", tuple[str, ...])):
            key = f"test/{record.key}/{i}"
            names = (self.benchmark, key)
            options = options_of(
                caption, names, seed=self.seed, own_shuffles=own_shuffles[i], tagged=next(tags)
            )
            if not all(options):
                raise bad_record(
                    f"{record.where}: caption {i} is empty", "a caption with at least one word"
                )
            yield Item(
                id=key,
                images=(image,),
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
    own_shuffles: Mapping[str, str] = MappingProxyType({}),
    tagged: Tagged | None = None,
) -> dict[str, str]:
    """The caption as models see it, then each shuffle that differs from it; texts map to kinds.

    Shuffles come from `own_shuffles` if it has them; the others are drawn from the seed and names.
    """
    options = {normalised(caption): "original"}
    for kind in SHUFFLES:
        if kind in own_shuffles:
            text: str | None = normalised(own_shuffles[kind])
        else:
            rng = generator(seed, *names, kind)
            text = shuffle(caption, kind, rng=rng, tagged=tagged)
        if text:
            options.setdefault(text, kind)
    return options


def _own_shuffles(record: Record) -> Sequence[Mapping[str, str]]:
    """Shuffles that the record provides: one mapping per caption."""
    captions = record.read("caption", tuple[str, ...])
    if not captions:
        raise not_official(f"{record.where} has no captions", "at least one")
    if not record.has("shuffles"):
        return [{}] * len(captions)
    shuffles = record.read("shuffles", tuple[dict[str, str], ...])
    unknown = sorted(
        {kind for caption_shuffles in shuffles for kind in caption_shuffles} - set(SHUFFLES)
    )
    if len(shuffles) != len(captions) or unknown:
        raise UnbagError(
            f"{record.where}: shuffles {unknown or len(shuffles)} for {len(captions)} captions",
            expected=f"one object a caption, with some of {', '.join(SHUFFLES)}",
            hint="fix the field, or remove it to have the shuffles made",
        )
    return shuffles


load_coco = OrderFile("aro_order_coco", COCO_FILE, ("val2014", "../coco/val2014"))
"""25,010 cases; images are COCO val2014."""
load_flickr30k = OrderFile(
    "aro_order_flickr30k", FLICKR_FILE, ("flickr30k-images", "../flickr30k/flickr30k-images")
)
"""5,000 cases; images are Flickr30k."""

ARO_RELATION = Benchmark(
    **benchmark_fields("aro_relation"),
    load=load_relation,
    metrics=(Choice(),),
    headline="accuracy",
    aggregates=(
        Aggregate(by=("relation",), without=EXCLUDED_RELATIONS),
        Aggregate(by=("relation",)),
        MICRO,
    ),
    official_ties="wrong",
    files=(RELATION_FILE,),
)

ARO_ATTRIBUTION = Benchmark(
    **benchmark_fields("aro_attribution"),
    load=load_attribution,
    metrics=(Choice(),),
    headline="accuracy",
    aggregates=(Aggregate(by=("pair",), least=MIN_PAIR_CASES), Aggregate(by=("pair",)), MICRO),
    official_ties="wrong",
    files=(ATTRIBUTION_FILE,),
)

ARO_ORDER_COCO = Benchmark(
    **benchmark_fields("aro_order_coco"),
    load=load_coco,
    metrics=(Choice(),),
    headline="accuracy",
    official_ties="argmax_first",
    files=(COCO_FILE,),
)

ARO_ORDER_FLICKR30K = Benchmark(
    **benchmark_fields("aro_order_flickr30k"),
    load=load_flickr30k,
    metrics=(Choice(),),
    headline="accuracy",
    official_ties="argmax_first",
    files=(FLICKR_FILE,),
)
