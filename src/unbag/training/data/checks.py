"""Check pairs, recipe and image preparation before training, and return the batches.

A mirrored image makes "left of" false. So the preparation is searched for random transforms by
name, and tested on an image whose four quarters differ.
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
    OnlineEdits,
    PairBatches,
    columns_of,
    draw_texts,
    make_online_edits,
    readable_pairs,
)
from unbag.training.encoders.base import Reads
from unbag.training.recipes import Recipe

SAMPLED = 2_000
"""Largest number of pairs that the survey reads."""
SAMPLED_MADE = 256
"""The same where their edits have to be made."""
_TOO_FEW = 0.01
"""Training with edits does not start if a smaller share of captions has one."""
_SIDE_WORDS = re.compile(r"\b(left|right|leftmost|rightmost|clockwise)\b", re.IGNORECASE)
_RANDOM_NAMES = re.compile(r"Random|RandAugment|AutoAugment|TrivialAugment|AugMix|Flip")
_LEAF_TYPES = (str, bytes, int, float, type(None), type, ModuleType, FunctionType, np.ndarray)
"""Types without transforms inside."""
_MAX_LENGTH = 100
_TRIALS = 4
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
    """Make the batches and survey the pairs before training starts.

    Raises UnbagError for what would spoil training: no complete batch, (almost) no edits, no
    neighbours for hard images, preparation that mirrors images, no pipeline to make edits.
    """
    columns = columns_of(recipe)
    online_edits = None
    if columns.kinds and not pairs.has_edits:
        online_edits = make_online_edits(columns, seed=seed, parts=parts)
        try:
            online_edits.load()
        except UnbagError as error:
            option = re.search(r"--\w+", error.hint)
            if option is None:
                raise
            # The error names an option of `unbag edit`.
            slots = (*recipe.negatives, *recipe.positives)
            kinds = " ".join(dict.fromkeys(kind for slot in slots for kind in slot.kinds))
            raise UnbagError(
                f"the edits of {recipe.name} cannot be made while training: {error.message}",
                expected=error.expected,
                hint=f"make them first with `unbag edit --kinds {kinds} {option[0]} M` and "
                "name its output with --pairs",
            ) from error
    batches = PairBatches(
        pairs, recipe, reads, seed, share or Share(), micro_batch_size, online_edits
    )
    surveyed = survey(pairs, recipe, reads=reads, online_edits=online_edits, seed=seed)
    check_surveyed(surveyed, recipe, has_edits=pairs.has_edits)
    check_sides(reads, surveyed.texts)
    return batches, surveyed


def survey(
    pairs: Pairs,
    recipe: Recipe,
    *,
    reads: Reads,
    online_edits: OnlineEdits | None = None,
    seed: int = 0,
) -> Surveyed:
    """Read up to 2,000 pairs spread over the collection, 256 where edits have to be made."""
    sampled = min(len(pairs), SAMPLED_MADE if online_edits else SAMPLED)
    places = np.linspace(0, len(pairs) - 1, sampled).round().astype(int).tolist()
    pairs_read = list(readable_pairs(pairs, places))
    if not pairs_read:
        raise UnbagError(f"none of {sampled:,} pairs of {pairs.about} can be read")
    texts = draw_texts(pairs_read, Draw(seed, 0), columns_of(recipe), online_edits)
    captions = sum(len(pair.captions) for pair in pairs_read)
    slots = (*recipe.negatives, *recipe.positives)
    share_S = [
        _share([(*text.negatives, *text.positives)[at] for text in texts])
        for at in range(len(slots))
    ]
    return Surveyed(
        images=len(pairs),
        captions=round(captions * len(pairs) / len(pairs_read)),
        is_estimated=sampled < len(pairs),
        sampled=len(pairs_read),
        shares=dict(zip((slot.name for slot in slots), share_S, strict=True)),
        has_negative=_share([next(filter(None, text.negatives), None) for text in texts]),
        has_positive=_share([next(filter(None, text.positives), None) for text in texts]),
        tokens=float(np.mean(reads.count_tokens([text.caption for text in texts]))),
        has_nearest=float(np.mean([bool(pair.nearest) for pair in pairs_read])),
        unread=sampled - len(pairs_read),
        texts=tuple(
            string
            for text in texts
            for string in (text.caption, *text.negatives, *text.positives)
            if string
        ),
    )


@dataclass(frozen=True)
class Surveyed:
    """Statistics of pairs for a recipe; shares and averages are those of the sampled pairs."""

    images: int
    captions: int
    """Counted where all pairs were read, else estimated from the sample."""
    is_estimated: bool
    sampled: int
    shares: Mapping[str, float]
    """For each column, negatives first: share of captions with an edit for it."""
    has_negative: float
    """Share of captions with an edit for any column of negatives."""
    has_positive: float
    tokens: float
    """Average number of tokens of a caption, special ones included."""
    has_nearest: float
    """Share of images with nearest neighbours."""
    unread: int
    """Pairs of the sample whose captions could not be read."""
    texts: tuple[str, ...]
    """Captions and edits of the sample."""

    def lines(self) -> list[str]:
        """Return the lines that are printed at the start of a run."""
        about = "about " if self.is_estimated else ""
        lines = [
            f"{self.images:,} images, {about}{self.captions:,} captions "
            f"of {self.tokens:.1f} tokens on average"
        ]
        lines += [
            f"{name}: an edit for {share:.1%} of captions"
            + ("" if share else ", so the model learns nothing from these edits")
            for name, share in self.shares.items()
        ]
        return lines


def _share(texts: Sequence[str | None]) -> float:
    return float(np.mean([text is not None for text in texts]))


def check_surveyed(surveyed: Surveyed, recipe: Recipe, *, has_edits: bool) -> None:
    """Raise UnbagError if (almost) no caption has the edits that the recipe needs."""
    for slots, share, what in (
        (recipe.negatives, surveyed.has_negative, "negatives"),
        (recipe.positives, surveyed.has_positive, "positives"),
    ):
        if slots and share < _TOO_FEW:
            raise _without_edits(surveyed, recipe, what, has_edits=has_edits)
    if recipe.hard_images and not surveyed.has_nearest:
        raise UnbagError(
            f"the recipe {recipe.name} trains on hard images, but no pair has nearest neighbours",
            expected="NegCLIP's TSV with neg_image, or a file of neighbours",
            hint="make one with `unbag nearest` and name it with --neighbours, or "
            "--set hard_images=false",
        )


def _without_edits(surveyed: Surveyed, recipe: Recipe, what: str, *, has_edits: bool) -> UnbagError:
    slots = recipe.negatives if what == "negatives" else recipe.positives
    kinds = list(dict.fromkeys(kind for slot in slots for kind in slot.kinds))
    shares = ", ".join(f"{name} {share:.1%}" for name, share in surveyed.shares.items())
    return UnbagError(
        f"the recipe {recipe.name} trains on {what}, but of {surveyed.sampled:,} captions (almost) "
        f"none has one: {shares}",
        expected=f"edits of the kinds {', '.join(kinds)}",
        hint=f"make them with `unbag edit --kinds {' '.join(kinds)}`"
        if has_edits
        else "check that the captions are English sentences; `unbag edit` says what it rejects",
    )


def check_sides(reads: Reads, captions: Iterable[str]) -> None:
    """Check that image preparation is deterministic and keeps left and right.

    Raises UnbagError if it is not and captions mention sides.
    """
    captions = list(captions)
    if not speaks_of_sides(captions):
        return
    assert_no_flip(reads, captions)
    from PIL import Image

    image_HW3 = np.zeros((_SIZE, _SIZE, 3), np.uint8)
    half = _SIZE // 2
    image_HW3[:half, half:], image_HW3[half:, :half], image_HW3[half:, half:] = 90, 170, 255
    prepared = [reads.prepare(Image.fromarray(image_HW3)) for _ in range(_TRIALS)]
    if any(
        pixels.shape != prepared[0].shape or not bool((pixels == prepared[0]).all())
        for pixels in prepared
    ):
        raise _bad_preparation("differs from time to time")
    # Some models take rows of patches, whose places in the image are not known here.
    if prepared[0].ndim == 3 and prepared[0].shape[0] in (1, 3):
        grey = prepared[0].double().mean(0)
        height, width = grey.shape
        corners = [
            grey[y, x] for y in (height // 4, -height // 4) for x in (width // 4, -width // 4)
        ]
        if not corners[0] < corners[1] < corners[2] < corners[3]:
            raise _bad_preparation("turns or mirrors them")


def _bad_preparation(what: str) -> UnbagError:
    return UnbagError(
        f"the model's preparation of images {what}, but captions mention left and right",
        expected="preparation that keeps left and right, as for evaluation",
        hint="correct `prepare` of the model",
    )


def assert_no_flip(transform: object, captions: Iterable[str]) -> None:
    """Raise UnbagError if a transform is random and the captions mention sides."""
    if not speaks_of_sides(captions):
        return
    for part in _walk(transform):
        if _RANDOM_NAMES.search(type(part).__name__) and getattr(part, "p", 1) != 0:
            raise UnbagError(
                f"images are prepared with {type(part).__name__}, but captions mention left "
                "and right",
                expected="preparation that keeps left and right, as for evaluation",
                hint="remove it from the model's preparation",
            )


def speaks_of_sides(captions: Iterable[str]) -> bool:
    """Return whether any caption mentions left or right."""
    return any(_SIDE_WORDS.search(caption) for caption in captions)


def _walk(top: object) -> Iterator[object]:
    """Yield the object and everything inside it, each once."""
    seen: dict[int, object] = {}
    stack = [top]
    while stack:
        item = stack.pop()
        if id(item) not in seen and not isinstance(item, _LEAF_TYPES):
            seen[id(item)] = item
            yield item
            stack += _children(item)


def _children(item: object) -> list[object]:
    if isinstance(item, list | tuple):
        # A longer list is a vocabulary, not a list of transforms.
        return list(item) if len(item) <= _MAX_LENGTH else []
    if isinstance(item, partial):
        return [item.func, *item.args, *item.keywords.values()]
    if isinstance(item, MethodType):
        return [item.__self__]
    attributes = [*getattr(item, "__dict__", {}).values()]
    # torch modules hold their submodules in a dictionary.
    return [*attributes, *getattr(item, "_modules", {}).values()]
