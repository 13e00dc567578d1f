"""What'sUp, COCO-spatial and GQA-spatial: spatial relations between objects.

What'sUp has sets of four photographs of the same two objects, one for each relation. The official
files list four options per image, the correct one first. Here the four images of a set form one
item, so that the other three options are the captions of the other three images. The two spatial
benchmarks have a photograph, a caption with a location or relation, and its opposite.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from types import MappingProxyType

import numpy as np

from unbag.benchmarks.files import (
    FIRST_OF_2,
    MATCHING_4,
    Folder,
    Record,
    not_official,
    with_field_names,
)
from unbag.benchmarks.sources import benchmark_fields
from unbag.data.images import FileImage
from unbag.errors import UnbagError
from unbag.metrics.choice import Choice
from unbag.metrics.pairs import TWO_WAY, Pairs
from unbag.published.lookup import published_for
from unbag.types import MICRO, Aggregate, Benchmark, Errata, Item, Loader, Published
from unbag.types.json import wrong

OBJECTS = ("one", "two")
_WORDS = ("left of", "right of", "front of", "behind", "above", "below")

ERRATA: Mapping[str, str] = MappingProxyType(
    {
        "pillow_left_of_chair.jpeg": "pillow_right_of_chair.jpeg",
        "pillow_right_of_chair.jpeg": "pillow_left_of_chair.jpeg",
    }
)
"""Images of subset A whose labels are exchanged (amitakamath/whatsup_vlms, issue 4)."""


@dataclass(frozen=True)
class Subset:
    """Files and relations of subset A or B."""

    name: str
    file: str
    images: str
    relations: tuple[str, str, str, str]
    """As spelled in file names: two opposite pairs."""
    pairs: Mapping[str, tuple[int, int]]


A = Subset(
    "whatsup_a",
    "controlled_images_dataset.json",
    "controlled_images",
    ("left_of", "right_of", "on", "under"),
    {"left/right": (0, 1), "on/under": (2, 3)},
)

B = Subset(
    "whatsup_b",
    "controlled_clevr_dataset.json",
    "controlled_clevr",
    ("left_of", "right_of", "in-front_of", "behind"),
    {"left/right": (0, 1), "front/behind": (2, 3)},
)


def load(root: Path | None, *, subset: Subset, is_corrected: bool = False) -> Sequence[Item]:
    """Load one item per set of four images."""
    folder = Folder.of(root, subset.name)
    images = folder.image_folder(
        subset.images, f"data/{subset.images}", f"../whatsup/{subset.images}"
    )
    sets: dict[str, dict[str, _Member]] = {}
    for record in folder.records(subset.file):
        name = PurePosixPath(record.text("image_path")).name
        key, relation = _parse(name, record, subset)
        image_name = ERRATA.get(name, name) if is_corrected else name
        image = folder.image(images, image_name, record.where)
        if relation in sets.setdefault(key, {}):
            raise not_official(
                f"{record.where}: a second image of {key!r} with {relation!r}",
                "each relation once in a set",
            )
        sets[key][relation] = _Member(record, image, _options(record))
    items = [_item(key, members, subset) for key, members in sets.items()]
    # One option of subset A is misspelled ("A mug under a tabl`e"), so it differs from the caption
    # of the other image of its set; the item uses that image's caption.
    slips = [
        (member.record.where, option)
        for item in items
        for member in sets[item.id].values()
        for option in member.options
        if option not in item.captions
    ]
    if slips:
        where, option = slips[0]
        singular = "1 option is not a caption of its set"
        count = (
            singular if len(slips) == 1 else f"{len(slips)} options are not captions of their set"
        )
        warnings.warn(
            f"{count}, such as {option!r} ({where}); the captions of the set are scored instead",
            stacklevel=2,
        )
    return items


load_corrected = partial(load, subset=A, is_corrected=True)
"""Subset A with the swapped images of ERRATA corrected; B has no known errors."""


def _parse(name: str, record: Record, subset: Subset) -> tuple[str, str]:
    """Both objects and the relation, from a name such as mug_left_of_plate.jpeg."""
    match = re.fullmatch(rf"([^_]+)_({'|'.join(subset.relations)})_([^_]+)\.jpeg", name)
    if not match:
        raise not_official(
            f"{record.where}: image name {name!r}",
            f"<thing>_<{'|'.join(subset.relations)}>_<thing>.jpeg",
        )
    return f"{match[1]}_{match[3]}", match[2]


def _options(record: Record) -> tuple[str, ...]:
    options = record.read("caption_options", tuple[str, ...])
    if len(options) != 4 or not all(option.strip() for option in options):
        raise not_official(
            f"{record.where}: caption_options is {list(options)}",
            "four captions, the first correct, none empty",
        )
    return options


@dataclass(frozen=True)
class _Member:
    """One image of a set."""

    record: Record
    image: FileImage
    options: tuple[str, ...]


def _item(key: str, members: Mapping[str, _Member], subset: Subset) -> Item:
    missing = [relation for relation in subset.relations if relation not in members]
    if missing:
        raise UnbagError(
            f"{subset.file}: the set {key!r} has no image {' and no '.join(missing)}",
            expected="all four images of every set",
            hint="the official files have them; restore the record, or remove the whole set",
        )
    ordered = [members[relation] for relation in subset.relations]
    captions = tuple(member.options[0] for member in ordered)
    images = tuple(member.image for member in ordered)
    return Item(key, images, captions, MATCHING_4, kinds=subset.relations)


def load_coco(root: Path | None) -> Sequence[Item]:
    """Load COCO-spatial; images are COCO val2017, named by twelve digits."""
    folder = Folder.of(root, "coco_spatial")
    images = folder.image_folder("val2017", "../coco/val2017")
    return _load(folder, images, prefix="coco_qa", digits=12)


def load_gqa(root: Path | None) -> Sequence[Item]:
    """Load GQA-spatial; images are those of Visual Genome, named by id."""
    folder = Folder.of(root, "gqa_spatial")
    images = folder.image_folder("vg_images", "../visual_genome")
    return _load(folder, images, prefix="vg_qa", digits=0)


def _load(folder: Folder, images: Path, *, prefix: str, digits: int) -> Sequence[Item]:
    items = []
    for objects in OBJECTS:
        file = f"{prefix}_{objects}_obj.json"
        for row in folder.records(file):
            record = with_field_names(row, ["image_id", "correct", "wrong"])
            name = f"{_image_id(record).zfill(digits)}.jpg"
            captions = (record.caption("correct"), record.caption("wrong"))
            items.append(
                Item(
                    id=f"{file}/{record.key}",
                    images=(folder.image(images, name, record.where),),
                    captions=captions,
                    truth=FIRST_OF_2,
                    tags={"objects": objects, "relation": _relation(captions[0], objects)},
                )
            )
    return items


def _image_id(record: Record) -> str:
    """The image id, which files store as a number or as text."""
    value = record.read("image_id", object)
    text = value if isinstance(value, str) else str(record.read("image_id", int))
    if not text.isalnum():
        raise wrong(
            f"{record.where}.image_id", found=value, expected="an image id of letters and digits"
        )
    return text


def _relation(caption: str, objects: str) -> str:
    """The relation by the official rule: the last word for one object, the phrase for two."""
    if objects == "one":
        return caption.split()[-1]
    return next((words.removesuffix(" of") for words in _WORDS if words in caption), "top")


def two_way(benchmark: Benchmark) -> Benchmark:
    """A benchmark with one item for each named pair of another benchmark's sets.

    A chat model's answer depends on the options in its question. For a set of What'sUp the question
    lists all four relations; the published two-way numbers come from questions with two of them
    ("left or right?").
    """
    metric = next(
        (
            candidate
            for candidate in benchmark.metrics
            if isinstance(candidate, Pairs) and candidate.pairs
        ),
        None,
    )
    if metric is None or not metric.pairs:
        raise UnbagError(
            f"the benchmark {benchmark.name!r} has no sets with named pairs",
            expected="one such as whatsup_a or whatsup_b",
        )
    load = TwoWay(benchmark.load, metric.pairs)
    errata = benchmark.errata
    return replace(
        benchmark,
        name=f"two_way:{benchmark.name}",
        load=load,
        metrics=(replace(metric, pairs=None),),
        headline="pair",
        folder=benchmark.place if benchmark.files else "",
        published=_published(benchmark),
        size=len(metric.pairs) * benchmark.size,
        errata=errata and replace(errata, load=replace(load, load=errata.load)),
    )


@dataclass(frozen=True)
class TwoWay:
    """Loader that splits sets into pairs; the pairs of a set stay one group."""

    load: Loader
    pairs: Mapping[str, tuple[int, int]]

    def __call__(self, root: Path | None) -> Sequence[Item]:
        """Load two items per set of four."""
        return [
            _cut(item, name, pair)
            for item in self.load(root)
            for name, pair in self.pairs.items()
            if max(pair) < len(item.images)
        ]


def _cut(item: Item, name: str, pair: tuple[int, int]) -> Item:
    true_PC = np.asarray(item.truth, dtype=np.bool_)
    own = [int(np.argmax(true_PC[p])) for p in pair]
    return replace(
        item,
        id=f"{item.id}/{name}",
        images=tuple(item.images[p] for p in pair),
        captions=tuple(item.captions[c] for c in own),
        truth=np.eye(2, dtype=np.bool_),
        kinds=tuple(item.kinds[c] for c in own) if item.kinds else (),
        group=item.group or item.id,
        tags={**item.tags, "relation": name},
    )


def _published(benchmark: Benchmark) -> tuple[Published, ...]:
    """Published two-way numbers, including those that do not apply to whole sets."""
    numbers = dict.fromkeys((*benchmark.published, *published_for(benchmark.name)))
    return tuple(number for number in numbers if number.metric in TWO_WAY)


def _benchmark(subset: Subset, errata: Errata | None = None) -> Benchmark:
    benchmark = Benchmark(
        **benchmark_fields(subset.name),
        load=partial(load, subset=subset),
        metrics=(Pairs(pairs=subset.pairs),),
        headline="individual4",
        # The official argmax runs over options of which the first is true, so a tie is right for
        # every image. Here all four images share one order of captions.
        official_ties="right",
        files=(subset.file,),
        errata=errata,
    )
    # Published free answers to questions about two relations belong to `two_way:`, because the
    # question of a set lists all four. Scores of single captions do not depend on the others.
    published = [
        number
        for number in benchmark.published
        if number.metric not in TWO_WAY or not number.scoring.startswith("free answers")
    ]
    return replace(benchmark, published=tuple(published))


WHATSUP_A = _benchmark(
    A,
    Errata(
        "pillow",
        "the images pillow_left_of_chair and pillow_right_of_chair are swapped "
        "(amitakamath/whatsup_vlms, issue 4); swapped back here.",
        load_corrected,
    ),
)

WHATSUP_B = _benchmark(B)

_spatial_benchmark = partial(
    Benchmark,
    metrics=(Choice(),),
    headline="accuracy",
    aggregates=(Aggregate(by=("objects",)), MICRO),
    official_ties="argmax_first",
)

COCO_SPATIAL = _spatial_benchmark(
    **benchmark_fields("coco_spatial"),
    load=load_coco,
    files=("coco_qa_one_obj.json", "coco_qa_two_obj.json"),
)

GQA_SPATIAL = _spatial_benchmark(
    **benchmark_fields("gqa_spatial"),
    load=load_gqa,
    files=("vg_qa_one_obj.json", "vg_qa_two_obj.json"),
)
