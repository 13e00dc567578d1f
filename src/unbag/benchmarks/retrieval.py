"""COCO and Flickr30k retrieval on the Karpathy test split: one gallery, all captions.

The order-free versions test whether retrieval can be solved without order. They shuffle captions
or images, both as queries and in the gallery, and compare recall with that of the original
(methods.md 3.4). Shuffled captions keep their case and punctuation; a caption whose words have
only one order stays unchanged.

Dimensions: T true cells.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from unbag.benchmarks.files import Folder, bad_record
from unbag.benchmarks.sources import benchmark_fields
from unbag.benchmarks.taggers import tag_captions, warn_untagged
from unbag.data.images import GRIDS, FileImage, ShuffledImage
from unbag.edits.shuffles import BY_TAG, BY_WORD, Tagged, Tagger, shuffle, spaced
from unbag.errors import UnbagError
from unbag.metrics.intervals import generator
from unbag.metrics.retrieval import DIRECTIONS, Recall, Retention
from unbag.types import Aggregate, Benchmark, Item, Loader, Sparse

TEXT = (
    "all_but_nouns_and_adjectives",
    "nouns_and_adjectives",
    "trigrams",
    "within_trigrams",
    "all_words",
)

SHUFFLES = (*TEXT, *GRIDS)
"""All shuffles: of captions, then of images."""
TAG, ORIGINAL = "shuffle", "none"
_ABOUT = (
    "Queries and gallery with shuffled caption words or shuffled image tiles: the recall that "
    "remains needs no order."
)


def load_coco(root: Path | None) -> Sequence[Item]:
    """Load 5,000 images of COCO val2014; ten of them have six captions, and all are used."""
    folder = Folder.of(root, "coco_retrieval")
    images = folder.image_folder("val2014", "../coco/val2014").parent
    return (_gallery(folder, images, "coco_karpathy_test.json"),)


def load_flickr30k(root: Path | None) -> Sequence[Item]:
    """Load 1,000 images with five captions each."""
    folder = Folder.of(root, "flickr30k_retrieval")
    images = folder.image_folder("flickr30k-images", "../flickr30k/flickr30k-images").parent
    return (_gallery(folder, images, "flickr30k_test.json"),)


def _gallery(folder: Folder, root: Path, file: str) -> Item:
    images: list[FileImage] = []
    captions: list[str] = []
    rows: list[int] = []
    seen: dict[Path, str] = {}
    for record in folder.records(file):
        record_captions = record.read("caption", tuple[str, ...])
        if not record_captions or not all(caption.strip() for caption in record_captions):
            raise bad_record(
                f"{record.where}: caption is {list(record_captions)}",
                "one or more captions, none empty",
            )
        rows += [len(images)] * len(record_captions)
        captions += record_captions
        image = folder.image(root, record.text("image"), record.where)
        # Two entries of one image would always tie, each being wrong for the other's captions.
        if (first := seen.setdefault(image.path, record.where)) != record.where:
            raise UnbagError(
                f"{record.where}: its image is also that of {first}: {image.path.name}",
                expected="every image of the gallery once, with all of its captions",
                hint="put the captions into one record, and say so beside your number",
            )
        images.append(image)
    column_T = np.arange(len(captions), dtype=np.int64)
    truth = Sparse((len(images), len(captions)), np.array(rows, dtype=np.int64), column_T)
    return Item(file.removesuffix(".json"), tuple(images), tuple(captions), truth)


def order_free(
    benchmark: Benchmark,
    *,
    seeds: tuple[int, ...] = (0, 1, 2),
    tagger: Tagger | None = None,
    shuffles: Sequence[str] = SHUFFLES,
) -> Benchmark:
    """A retrieval benchmark under shuffles, with recall and retention for each shuffle.

    Each shuffle is drawn once per seed, and its numbers average over the draws. All draws of the
    queries about one image are resampled together. Without a tagger the two shuffles by part of
    speech are left out, with a warning.
    """
    recall = next((metric for metric in benchmark.metrics if isinstance(metric, Recall)), None)
    unknown = sorted(set(shuffles) - set(SHUFFLES))
    if recall is None:
        raise UnbagError(
            f"the benchmark {benchmark.name!r} is not about retrieval: it has no Recall metric",
            expected="a benchmark of galleries, such as coco_retrieval",
        )
    if unknown or not shuffles or not seeds:
        raise UnbagError(
            f"shuffles {unknown or list(shuffles)}, seeds {list(seeds)}",
            expected=f"at least one seed, and some of {', '.join(SHUFFLES)}",
        )
    only = dict(benchmark.aggregates[0].only)
    load = OrderFree(benchmark.load, only, tuple(shuffles), seeds, tagger)
    errata = benchmark.errata
    return replace(
        benchmark,
        name=f"order_free:{benchmark.name}",
        about=f"{benchmark.about} {_ABOUT}",
        load=load,
        metrics=(
            Recall(tuple(sorted({1, *recall.ks}))),
            Retention(TAG, ORIGINAL, directions=DIRECTIONS, uses_original_tags=False),
        ),
        headline="text_to_image@1",
        aggregates=tuple(
            Aggregate(only=((TAG, name),), label="original" if name == ORIGINAL else name)
            for name in (ORIGINAL, *shuffles)
        ),
        folder=benchmark.place if benchmark.files else "",
        published=(),
        errata=errata and replace(errata, load=replace(load, load=errata.load)),
        load_training=None,
        compares_captions=False,
    )


@dataclass(frozen=True)
class OrderFree:
    """Loader of a retrieval benchmark's galleries and of all their shuffles."""

    load: Loader
    only: Mapping[str, str]
    """Tags of the galleries that count as the original."""
    shuffles: tuple[str, ...] = SHUFFLES
    seeds: tuple[int, ...] = (0, 1, 2)
    tagger: Tagger | None = None

    def with_tagger(self, tagger: Tagger | None) -> OrderFree:
        """Return a copy with this tagger."""
        return replace(self, tagger=tagger)

    def __call__(self, root: Path | None) -> Sequence[Item]:
        """Load each gallery, then its shuffles, which share its truth."""
        if self.tagger is None and set(self.shuffles) & set(BY_TAG):
            warn_untagged("the other shuffles are")
        galleries = [
            item for item in self.load(root) if self.only.items() <= dict(item.tags).items()
        ]
        return [item for gallery in galleries for item in self._shuffled(gallery)]

    def _shuffled(self, gallery: Item) -> list[Item]:
        texts = [spaced(caption) for caption in gallery.captions if isinstance(caption, str)]
        if len(texts) < len(gallery.captions):
            raise UnbagError(
                f"gallery {gallery.id!r} has captions made of several prompts",
                expected="plain captions: only those have one order of words",
            )
        needs_tags = self.tagger is not None and set(self.shuffles) & set(BY_TAG)
        tagged = tag_captions(self.tagger, texts) if self.tagger and needs_tags else None
        items = [_variant(gallery, ORIGINAL)]
        unchanged: dict[str, int] = {}
        for name in self.shuffles:
            if name in BY_TAG and tagged is None:
                continue
            for seed in self.seeds:
                if name in GRIDS:
                    images = tuple(ShuffledImage(image, name, seed) for image in gallery.images)
                    items.append(replace(_variant(gallery, name, seed), images=images))
                else:
                    item = _with_shuffled_captions(gallery, texts, tagged, name, seed)
                    items.append(item)
                    unchanged[name] = unchanged.get(name, 0) + item.kinds.count(ORIGINAL)
        if counts := [f"{name} {count}" for name, count in unchanged.items() if count]:
            warnings.warn(
                f"captions that have no other order stay as they are: {', '.join(counts)} "
                f"of {len(texts) * len(self.seeds)} draws",
                stacklevel=3,
            )
        return items


def _variant(gallery: Item, name: str, seed: int | None = None) -> Item:
    return replace(
        gallery,
        id=f"{gallery.id}/{name}" + ("" if seed is None else f"/{seed}"),
        group=gallery.group or gallery.id,
        tags={**gallery.tags, TAG: name},
    )


def _with_shuffled_captions(
    gallery: Item, texts: Sequence[str], tagged: Sequence[Tagged] | None, name: str, seed: int
) -> Item:
    tags = tagged if tagged is not None and name not in BY_WORD else [None] * len(texts)
    shuffled = [
        shuffle(text, name, rng=generator(seed, name, text), tagged=tag, form=spaced)
        for text, tag in zip(texts, tags, strict=True)
    ]
    return replace(
        _variant(gallery, name, seed),
        captions=tuple(
            old if new is None else new for old, new in zip(gallery.captions, shuffled, strict=True)
        ),
        kinds=tuple(ORIGINAL if new is None else name for new in shuffled),
    )


COCO_RETRIEVAL = Benchmark(
    **benchmark_fields("coco_retrieval"),
    load=load_coco,
    metrics=(Recall(),),
    headline="text_to_image@1",
    files=("coco_karpathy_test.json",),
)

FLICKR30K_RETRIEVAL = Benchmark(
    **benchmark_fields("flickr30k_retrieval"),
    load=load_flickr30k,
    metrics=(Recall(),),
    headline="text_to_image@1",
    files=("flickr30k_test.json",),
)

COCO_ORDER_FREE = replace(order_free(COCO_RETRIEVAL), name="coco_order_free")
FLICKR30K_ORDER_FREE = replace(order_free(FLICKR30K_RETRIEVAL), name="flickr30k_order_free")
