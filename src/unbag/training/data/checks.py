"""Check pairs, recipe and image preparation before training, and give the batches.

A mirrored image makes "left of" false, so preparation is looked through for random transforms by
name, and tried on an image whose four quarters differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import FunctionType, MethodType, ModuleType

import numpy as np

from unbag.data.pairs import Pairs
from unbag.edits.kinds import EditParts
from unbag.errors import UnbagError
from unbag.training.data.batch import Share
from unbag.training.data.pairs import (
    Draw,
    MadeEdits,
    PairBatches,
    columns_of,
    draw_texts,
    made_edits,
    readable_pairs,
)
from unbag.training.encoders.base import Reads
from unbag.training.recipes import Recipe

SAMPLED = 2_000
"""Pairs that are looked at."""
SAMPLED_MADE = 256
"""Where their edits have to be made."""
_TOO_FEW = 0.01
"""Share of captions with an edit below which a recipe that wants one does not start."""
_SIDES = re.compile(r"\b(left|right|leftmost|rightmost|clockwise)\b", re.IGNORECASE)
_RANDOM = re.compile(r"Random|RandAugment|AutoAugment|TrivialAugment|AugMix|Flip")
_PLAIN = (str, bytes, int, float, type(None), type, ModuleType, FunctionType, np.ndarray)
"""What is not looked into."""
_LONGEST = 100
_TRIES = 4
_SIZE = 256


def ready_batches(
    pairs: Pairs,
    recipe: Recipe,
    reads: Reads,
    *,
    seed: int,
    share: Share | None = None,
    micro_batch_size: int | None = None,
    parts: EditParts | None = None,
) -> tuple[PairBatches, Surveyed]:
    """Batches, and what there is to say of them before training starts.

    Raises UnbagError for whatever would spoil training: no whole batch, (almost) no edits, no
    neighbours for hard images, preparation that mirrors images, no pipeline to make edits.
    """
    columns = columns_of(recipe)
    made = None
    if columns.kinds and not pairs.has_edits:
        made = made_edits(columns, seed=seed, parts=parts)
        try:
            made.load()
        except UnbagError as error:
            option = re.search(r"--\w+", error.hint)
            if option is None:
                raise
            # Editors speak of the options of `unbag edit`.
            slots = (*recipe.negatives, *recipe.positives)
            kinds = " ".join(dict.fromkeys(kind for slot in slots for kind in slot.kinds))
            raise UnbagError(
                f"the edits of {recipe.name} cannot be made while training: {error.message}",
                expected=error.expected,
                hint=f"make them before with `unbag edit --kinds {kinds} {option[0]} M` and "
                "name its output with --pairs",
            ) from error
    batches = PairBatches(pairs, recipe, reads, seed, share or Share(), micro_batch_size, made)
    found = survey(pairs, recipe, reads=reads, made=made, seed=seed)
    check_surveyed(found, recipe, has_edits=pairs.has_edits)
    check_sides(reads, found.texts)
    return batches, found


def survey(
    pairs: Pairs, recipe: Recipe, *, reads: Reads, made: MadeEdits | None = None, seed: int = 0
) -> Surveyed:
    """Look at up to 2,000 pairs spread over the collection, 256 where edits have to be made."""
    wanted = min(len(pairs), SAMPLED_MADE if made else SAMPLED)
    places = np.linspace(0, len(pairs) - 1, wanted).round().astype(int).tolist()
    found = list(readable_pairs(pairs, places))
    if not found:
        raise UnbagError(f"none of {wanted:,} pairs of {pairs.about} can be read")
    said = draw_texts(found, Draw(seed, 0), columns_of(recipe), made)
    captions = sum(len(pair.captions) for pair in found)
    slots = (*recipe.negatives, *recipe.positives)
    share_S = [
        _share([(*one.negatives, *one.positives)[at] for one in said]) for at in range(len(slots))
    ]
    return Surveyed(
        images=len(pairs),
        captions=round(captions * len(pairs) / len(found)),
        is_estimated=wanted < len(pairs),
        sampled=len(found),
        shares=dict(zip((slot.name for slot in slots), share_S, strict=True)),
        has_negative=_share([next(filter(None, one.negatives), None) for one in said]),
        has_positive=_share([next(filter(None, one.positives), None) for one in said]),
        tokens=float(np.mean(reads.count_tokens([one.caption for one in said]))),
        has_nearest=float(np.mean([bool(pair.nearest) for pair in found])),
        unread=wanted - len(found),
        texts=tuple(
            text for one in said for text in (one.caption, *one.negatives, *one.positives) if text
        ),
    )


@dataclass(frozen=True)
class Surveyed:
    """What pairs offer to a recipe; shares and averages are of the sampled pairs."""

    images: int
    captions: int
    """Counted where all pairs were looked at, else estimated from the sample."""
    is_estimated: bool
    sampled: int
    shares: Mapping[str, float]
    """For each column, negatives first: share of captions with an edit for it."""
    has_negative: float
    """Share of captions with an edit for any column of negatives."""
    has_positive: float
    tokens: float
    """Average of a caption, special ones included."""
    has_nearest: float
    """Share of images that know which are most like them."""
    unread: int
    """Pairs of the sample whose captions could not be read."""
    texts: tuple[str, ...]
    """Captions and edits of the sample."""

    def lines(self) -> list[str]:
        """For people, at the start of a run."""
        about = "about " if self.is_estimated else ""
        found = [
            f"{self.images:,} images, {about}{self.captions:,} captions "
            f"of {self.tokens:.1f} tokens on average"
        ]
        found += [
            f"{name}: an edit for {share:.1%} of captions"
            + ("" if share else ", so nothing is learned from such edits")
            for name, share in self.shares.items()
        ]
        return found


def _share(found: Sequence[str | None]) -> float:
    return float(np.mean([one is not None for one in found]))


def check_surveyed(found: Surveyed, recipe: Recipe, *, has_edits: bool) -> None:
    """Raises UnbagError where (almost) no caption has what the recipe trains on."""
    for slots, share, what in (
        (recipe.negatives, found.has_negative, "negatives"),
        (recipe.positives, found.has_positive, "positives"),
    ):
        if slots and share < _TOO_FEW:
            raise _without_edits(found, recipe, what, has_edits=has_edits)
    if recipe.hard_images and not found.has_nearest:
        raise UnbagError(
            f"the recipe {recipe.name} trains on hard images, but no pair says which are nearest",
            expected="NegCLIP's TSV with neg_image, or a file of neighbours",
            hint="make one with `unbag nearest` and name it with --neighbours, or "
            "--set hard_images=false",
        )


def _without_edits(found: Surveyed, recipe: Recipe, what: str, *, has_edits: bool) -> UnbagError:
    slots = recipe.negatives if what == "negatives" else recipe.positives
    kinds = list(dict.fromkeys(kind for slot in slots for kind in slot.kinds))
    shares = ", ".join(f"{name} {share:.1%}" for name, share in found.shares.items())
    return UnbagError(
        f"the recipe {recipe.name} trains on {what}, but of {found.sampled:,} captions (almost) "
        f"none has one: {shares}",
        expected=f"edits of the kinds {', '.join(kinds)}",
        hint=f"make them with `unbag edit --kinds {' '.join(kinds)}`"
        if has_edits
        else "check that the captions are English sentences; `unbag edit` says what it rejects",
    )


def check_sides(reads: Reads, captions: Iterable[str]) -> None:
    """Look preparation through, and try it: what comes out must be the same every time, unturned.

    Raises UnbagError where captions speak of sides and it is not.
    """
    captions = list(captions)
    if not speaks_of_sides(captions):
        return
    assert_no_flip(reads, captions)
    from PIL import Image

    quarters = np.zeros((_SIZE, _SIZE, 3), np.uint8)
    half = _SIZE // 2
    quarters[:half, half:], quarters[half:, :half], quarters[half:, half:] = 90, 170, 255
    tried = [reads.prepare(Image.fromarray(quarters)) for _ in range(_TRIES)]
    if any(one.shape != tried[0].shape or not bool((one == tried[0]).all()) for one in tried):
        raise _turned("differs from time to time")
    # Some models take images as rows of patches, whose sides are not known here.
    if tried[0].ndim == 3 and tried[0].shape[0] in (1, 3):
        grey = tried[0].double().mean(0)
        height, width = grey.shape
        corners = [
            grey[y, x] for y in (height // 4, -height // 4) for x in (width // 4, -width // 4)
        ]
        if not corners[0] < corners[1] < corners[2] < corners[3]:
            raise _turned("turns or mirrors them")


def _turned(what: str) -> UnbagError:
    return UnbagError(
        f"the model's preparation of images {what}, but captions speak of left and right",
        expected="preparation that leaves sides alone, as for evaluation",
        hint="mend `prepare` of the model",
    )


def assert_no_flip(transform: object, captions: Iterable[str]) -> None:
    """Raises UnbagError if a transform is random and the captions speak of sides."""
    if not speaks_of_sides(captions):
        return
    for found in _walk(transform):
        if _RANDOM.search(type(found).__name__) and getattr(found, "p", 1) != 0:
            raise UnbagError(
                f"images are prepared with {type(found).__name__}, but captions speak of left "
                "and right",
                expected="preparation that leaves sides alone, as for evaluation",
                hint="take it out of the model's preparation",
            )


def speaks_of_sides(captions: Iterable[str]) -> bool:
    """Whether any of them says left or right."""
    return any(_SIDES.search(caption) for caption in captions)


def _walk(top: object) -> Iterator[object]:
    """The object and all that it holds, each once."""
    seen: dict[int, object] = {}
    waiting = [top]
    while waiting:
        found = waiting.pop()
        if id(found) not in seen and not isinstance(found, _PLAIN):
            seen[id(found)] = found
            yield found
            waiting += _inside(found)


def _inside(found: object) -> list[object]:
    if isinstance(found, list | tuple):
        # A vocabulary is longer than any row of transforms.
        return list(found) if len(found) <= _LONGEST else []
    if isinstance(found, partial):
        return [found.func, *found.args, *found.keywords.values()]
    if isinstance(found, MethodType):
        return [found.__self__]
    held = [*getattr(found, "__dict__", {}).values()]
    # Modules of torch keep their parts in a dictionary.
    return [*held, *getattr(found, "_modules", {}).values()]
