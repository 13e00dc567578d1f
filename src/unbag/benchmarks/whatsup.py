"""What'sUp: four photographs of the same two things, each with the caption of its own relation.

The official files give every picture four options, the first correct. Here the four pictures of a
set make one item, so that the other three options are the captions of the other three pictures.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from unbag.benchmarks.files import MATCHING_4, Folder, Record
from unbag.benchmarks.published import (
    CLIP_L14,
    VL_COMPO,
    VL_COMPO_MODELS,
    by_model,
    by_rule,
)
from unbag.errors import UserError
from unbag.metrics.pairs import Pairs
from unbag.pictures.files import FilePicture
from unbag.types import MICRO, Benchmark, Errata, Item, Published
from unbag.types.json_fields import as_text

ERRATA: Mapping[str, str] = MappingProxyType(
    {
        "pillow_left_of_chair.jpeg": "pillow_right_of_chair.jpeg",
        "pillow_right_of_chair.jpeg": "pillow_left_of_chair.jpeg",
    }
)
"""Pictures of subset A whose labels are exchanged (amitakamath/whatsup_vlms, issue 4)."""


@dataclass(frozen=True)
class Subset:
    """What tells A from B."""

    name: str
    file: str
    pictures: str
    relations: tuple[str, str, str, str]
    """As file names write them: two opposite pairs."""
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


@dataclass(frozen=True)
class _Member:
    """One picture of a set."""

    record: Record
    picture: FilePicture
    options: tuple[str, ...]


def load(root: Path | None, *, subset: Subset, is_corrected: bool = False) -> Sequence[Item]:
    """One item a set of four pictures."""
    folder = Folder.of(root, subset.name)
    pictures = folder.picture_folder(
        subset.pictures, f"data/{subset.pictures}", f"../whatsup/{subset.pictures}"
    )
    sets: dict[str, dict[str, _Member]] = {}
    for record in folder.records(subset.file):
        name = PurePosixPath(record.fields.text("image_path")).name
        key, relation = _parse(name, record, subset)
        shown = ERRATA.get(name, name) if is_corrected else name
        picture = folder.picture(pictures, shown, record.where)
        if relation in sets.setdefault(key, {}):
            raise UserError(
                f"{record.where}: a second picture of {key!r} with {relation!r}",
                expected="each relation once in a set",
                way_out="check that it is the official file",
            )
        sets[key][relation] = _Member(record, picture, _options(record))
    items = [_item(key, members, subset) for key, members in sets.items()]
    _warn_of_slips(items, sets, subset)
    return items


def load_corrected(root: Path | None) -> Sequence[Item]:
    """Subset A with the exchanged pictures of ERRATA put right; B has no known errors."""
    return load(root, subset=A, is_corrected=True)


def _parse(name: str, record: Record, subset: Subset) -> tuple[str, str]:
    """The two things and the relation, from a name such as mug_left_of_plate.jpeg."""
    found = re.fullmatch(rf"([^_]+)_({'|'.join(subset.relations)})_([^_]+)\.jpeg", name)
    if not found:
        raise UserError(
            f"{record.where}: picture name {name!r}",
            expected=f"<thing>_<{'|'.join(subset.relations)}>_<thing>.jpeg",
            way_out="check that it is the official file",
        )
    return f"{found[1]}_{found[3]}", found[2]


def _options(record: Record) -> tuple[str, ...]:
    options = record.fields.many("caption_options", as_text)
    if len(options) != 4 or not all(option.strip() for option in options):
        raise UserError(
            f"{record.where}: caption_options is {list(options)}",
            expected="four captions, the first correct, none empty",
            way_out="check that it is the official file",
        )
    return options


def _item(key: str, members: Mapping[str, _Member], subset: Subset) -> Item:
    missing = [relation for relation in subset.relations if relation not in members]
    if missing:
        raise UserError(
            f"{subset.file}: the set {key!r} has no picture {' and no '.join(missing)}",
            expected="all four pictures of every set",
            way_out="the official files have them; restore the record, or remove the whole set",
        )
    ordered = [members[relation] for relation in subset.relations]
    captions = tuple(member.options[0] for member in ordered)
    pictures = tuple(member.picture for member in ordered)
    return Item(key, pictures, captions, MATCHING_4, kinds=subset.relations)


def _warn_of_slips(
    items: Sequence[Item], sets: Mapping[str, Mapping[str, _Member]], subset: Subset
) -> None:
    """Say where an option is not, letter by letter, the caption of another picture of its set.

    Subset A has one such slip ("A mug under a tabl`e"), which the item reads as the caption meant.
    """
    slips = [
        (member.record.where, option)
        for item in items
        for member in sets[item.id].values()
        for option in member.options
        if option not in item.captions
    ]
    if slips:
        where, option = slips[0]
        warnings.warn(
            f"{subset.name}: {len(slips)} options are not captions of their set, such as "
            f"{option!r} ({where}); the captions of the set are scored instead",
            stacklevel=3,
        )


_SLIDES = "CLIP against chat models, VQAScore"
_RESPONSES = "CLIP against chat models, free answers, errata on"
_L14_336 = "CLIP ViT-L/14-336 (openai)"


def _two_way(pairs: Sequence[str], rows: Mapping[str, Sequence[float]]) -> tuple[Published, ...]:
    """Rows of individual, pair, individual, pair: the two opposite pairs of a subset."""
    rules = [f"micro[relation={pair}]" for pair in pairs]
    individual = {model: row[0::2] for model, row in rows.items()}
    pair = {model: row[1::2] for model, row in rows.items()}
    return (
        *by_rule(_SLIDES, rules, individual, metric="individual"),
        *by_rule(_SLIDES, rules, pair, metric="pair"),
    )


def _four_way(rows: Mapping[str, Sequence[float]]) -> tuple[Published, ...]:
    """Rows of individual, pair and set accuracy among all four captions."""
    return tuple(
        one
        for at, metric in enumerate(("individual4", "pair4", "set"))
        for one in by_rule(
            _RESPONSES, ["micro"], {m: [row[at]] for m, row in rows.items()}, metric=metric
        )
    )


def _benchmark(
    subset: Subset,
    about: str,
    published: tuple[Published, ...],
    errata: Errata | None = None,
) -> Benchmark:
    return Benchmark(
        name=subset.name,
        about=about,
        load=partial(load, subset=subset),
        metrics=(Pairs(pairs=subset.pairs),),
        headline="individual4",
        aggregates=(MICRO,),
        # The official argmax runs over options of which the first is true, so that a tie is right
        # for every picture; the captions of a set stand in one order for all four.
        official_ties="right",
        cite='Kamath et al. 2023, What\'s "up" with vision-language models?',
        licence="MIT",
        files=(subset.file,),
        sources=("What'sUp",),
        published=published,
        errata=errata,
    )


WHATSUP_A = _benchmark(
    A,
    "Is one thing left of, right of, on or under another? The same two things in all four ways.",
    (
        *by_model(
            VL_COMPO, VL_COMPO_MODELS, {"micro": (30.6, 26.5, 33.3, 31.1)}, metric="individual4"
        ),
        *_two_way(
            ["left/right", "on/under"],
            {
                _L14_336: (49.0, 1.9, 61.7, 23.3),
                "LLaVA-1.5-7B": (96.6, 93.2, 76.2, 52.4),
                "Phi-3-V-3.8B": (97.6, 95.1, 78.6, 58.3),
                "LLaMA-3-V-8B": (98.1, 96.1, 81.1, 64.1),
            },
        ),
        *_four_way(
            {
                CLIP_L14: (26.7, 1.0, 0.0),
                _L14_336: (28.9, 1.0, 0.0),
                "XVLM-COCO": (41.8, 17.0, 1.9),
                "LLaVA-1.5-7B": (62.1, 41.3, 14.6),
            }
        ),
    ),
    Errata(
        "pillow",
        "pillow_left_of_chair and pillow_right_of_chair show each other "
        "(amitakamath/whatsup_vlms, issue 4); exchanged again here.",
        load_corrected,
    ),
)
WHATSUP_B = _benchmark(
    B,
    "Is one thing left of, right of, in front of or behind another? The same two in all four ways.",
    (
        *by_model(
            VL_COMPO, VL_COMPO_MODELS, {"micro": (30.9, 25.3, 37.8, 30.4)}, metric="individual4"
        ),
        *_two_way(
            ["left/right", "front/behind"],
            {
                _L14_336: (54.9, 10.8, 51.5, 7.8),
                "LLaVA-1.5-7B": (98.5, 97.1, 76.0, 52.9),
                "Phi-3-V-3.8B": (100, 100, 61.8, 26.5),
                "LLaMA-3-V-8B": (100, 100, 73.0, 47.1),
            },
        ),
        *_four_way(
            {
                CLIP_L14: (25.7, 1.5, 0.0),
                _L14_336: (27.2, 1.0, 0.0),
                "XVLM-COCO": (42.2, 15.7, 2.9),
                "LLaVA-1.5-7B": (74.0, 61.8, 23.5),
            }
        ),
    ),
)
