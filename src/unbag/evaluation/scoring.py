"""Score items: by comparing stored vectors, or by asking a scorer about queries, matrices or items.

Also what a reader of scores must know of the scorer: probabilities that are only upper bounds,
captions that were cut, words that the model does not know.
Dimensions: P images, C captions of an item, M cells or queries of many items, B images of a
block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np

from unbag.data import FileImage, PixelImage
from unbag.errors import ImageError, UnbagError
from unbag.evaluation.embedding import Embeddings
from unbag.evaluation.plan import Rows
from unbag.evaluation.store import Key
from unbag.metrics.retrieval import rank_blocks
from unbag.runs.progress import Progress
from unbag.types import (
    Caption,
    EmbeddingScorer,
    Ensemble,
    FittedScorer,
    FloatArray,
    ImageSource,
    Item,
    ItemScorer,
    MatrixScorer,
    Query,
    RunRecord,
    Scorer,
    Scores,
    Sparse,
)
from unbag.types.items import prompts_of
from unbag.types.json import is_whole_text

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    Shown: TypeAlias = str | Path | ImageSource | Image

CHUNK = 64
"""Items scored and saved together, unless a scorer says how many; a continued run does whole chunks
again."""
_BLOCK = 256
"""Images that are opened and embedded together where only a matrix of scores is wanted."""
_NUMBERS = 20_000_000
"""Numbers gathered at once when vectors are compared: cells times dimensions."""
_WIDE = 64
"""Captions from which on a product of matrices beats gathering vectors cell by cell."""
_LARGEST_CROSS = 1_000_000
_LARGEST_KEPT = 50_000_000
_SHOWN = 8


def score_by_vectors(
    scorer: EmbeddingScorer,
    items: Sequence[Item],
    rows: Sequence[Rows],
    embeddings: Embeddings,
    *,
    tie_eps: float = 0.0,
    compares_captions: bool = False,
) -> Iterator[list[Scores]]:
    """Compare stored vectors; no model is called. Yields a chunk at a time."""
    import torch

    images = torch.from_numpy(embeddings.image_ND)
    captions = torch.from_numpy(embeddings.caption_ND)
    most = _NUMBERS // max(1, embeddings.caption_ND.shape[1])
    for chunk in _by_cells(items, rows, most):
        first = chunk[0][0]
        if is_large(first):
            yield [_rank_by_vectors(scorer, *chunk[0], images, captions, tie_eps)]
        elif len(first.captions) >= _WIDE:
            # Items that share many captions, as classes do: one product of matrices.
            image_M = np.concatenate([row.image_P for _, row in chunk])
            gallery = captions[chunk[0][1].caption_C]
            score_M = scorer.compare_all(images[image_M], gallery).double().numpy().ravel()
            yield split(score_M, [item for item, _ in chunk])
        else:
            image_M = np.concatenate([np.repeat(r.image_P, len(r.caption_C)) for _, r in chunk])
            caption_M = np.concatenate([np.tile(r.caption_C, len(r.image_P)) for _, r in chunk])
            value_M = scorer.compare(images[image_M], captions[caption_M]).double().numpy()
            found = split(value_M, [item for item, _ in chunk])
            if compares_captions:
                for at, (_, row) in enumerate(chunk):
                    # Summed pair by pair, so that equal vectors tie exactly.
                    vector_CD = captions[row.caption_C].double()
                    cosine_CC = (vector_CD[:, None] * vector_CD[None]).sum(dim=-1).numpy()
                    found[at] = replace(found[at], caption_CC=cosine_CC)
            yield found


def _by_cells(
    items: Sequence[Item], rows: Sequence[Rows], most: int
) -> Iterator[list[tuple[Item, Rows]]]:
    """Consecutive items, a limited number of cells together; wide ones only with their like."""
    chunk: list[tuple[Item, Rows]] = []
    cells = 0
    for item, row in zip(items, rows, strict=True):
        size = len(item.images) * len(item.captions)
        if chunk:
            last, last_row = chunk[-1]
            is_wide = max(len(last.captions), len(item.captions)) >= _WIDE
            is_apart = is_wide and last_row.caption_C is not row.caption_C
            if cells + size > most or is_large(last) or is_large(item) or is_apart:
                yield chunk
                chunk, cells = [], 0
        chunk.append((item, row))
        cells += size
    if chunk:
        yield chunk


def _rank_by_vectors(
    scorer: EmbeddingScorer,
    item: Item,
    rows: Rows,
    images: Tensor,
    captions: Tensor,
    tie_eps: float,
) -> Scores:
    gallery = captions[rows.caption_C]

    def block(start: int, stop: int) -> FloatArray:
        return scorer.compare_all(images[rows.image_P[start:stop]], gallery).double().numpy()

    return ranked(item, block, tie_eps)


def is_large(item: Item) -> bool:
    """Only ranks of it are kept."""
    return isinstance(item.truth, Sparse)


def ranked(item: Item, block: Callable[[int, int], FloatArray], tie_eps: float) -> Scores:
    """Ranks of a large item, from blocks of its matrix."""
    text_to_image, image_to_text = rank_blocks(block, item.truth, tie_eps=tie_eps)
    return Scores(item.id, None, text_to_image=text_to_image, image_to_text=image_to_text)


def split(value_M: FloatArray, items: Sequence[Item]) -> list[Scores]:
    """Numbers of many items, cell after cell, as the matrix of each."""
    shapes = [(len(item.images), len(item.captions)) for item in items]
    ends = np.cumsum([p * c for p, c in shapes])[:-1]
    parts = np.split(value_M, ends)
    return [
        Scores(item.id, part.reshape(shape))
        for item, part, shape in zip(items, parts, shapes, strict=True)
    ]


def in_chunks(items: Sequence[Item], scorer: Scorer) -> list[Sequence[Item]]:
    """Items that are scored and saved together."""
    size = scorer.items_at_once if isinstance(scorer, QuickScorer) else CHUNK
    return [items[start : start + size] for start in range(0, len(items), size)]


@runtime_checkable
class PrecomputingScorer(Scorer, Protocol):
    """A scorer that wants to know all inputs before it is asked, to encode each once."""

    def precompute(
        self,
        images: Sequence[ImageSource],
        captions: Sequence[str],
        *,
        cache: Path | None,
        progress: Progress,
    ) -> None:
        """An image that cannot be opened is no error here; `score` raises for it as ever."""


@runtime_checkable
class QuickScorer(Scorer, Protocol):
    """A scorer to which items are little work, so that it wants many at once."""

    items_at_once: int


@dataclass
class QueryScoring:
    """Scores items by asking the scorer, a chunk of items at a time."""

    scorer: Scorer
    tie_eps: float = 0.0
    """Ranks fix their ties when they are made; other scores are compared later."""
    damaged: dict[str, str] = field(default_factory=dict)
    """Name of each image that could not be opened, or not taken by the model, with the reason."""
    _unfit: dict[str, str] = field(default_factory=dict)
    """The same by key, for those that could be opened."""

    def chunk(self, items: Sequence[Item]) -> list[Scores]:
        """Scores of a few items; equal queries are asked once."""
        scorer = self.scorer
        if isinstance(scorer, ItemScorer):
            is_ranked = [isinstance(scorer, MatrixScorer) and is_large(item) for item in items]
            done = [self._rank(i) for i, is_one in zip(items, is_ranked, strict=True) if is_one]
            rest = [item for item, is_one in zip(items, is_ranked, strict=True) if not is_one]
            return done + (self._whole(scorer, rest) if rest else [])
        done = [self._rank(item) for item in items if is_large(item)]
        dense = [item for item in items if not is_large(item)]
        place: dict[tuple[int, object, object], int] = {}
        queries: list[Query] = []
        cell_of: list[int] = []
        for query in (q for item in dense for q in queries_of(item)):
            # Loaders share image objects, so identity finds the repeats without hashing pixels.
            key = (id(query.image), query.caption, query.question)
            if key not in place:
                place[key] = len(queries)
                queries.append(query)
            cell_of.append(place[key])
        if queries:
            done += split(self.ask(queries)[cell_of], dense)
        return done

    def _whole(self, scorer: ItemScorer, items: Sequence[Item]) -> list[Scores]:
        """Items as wholes; those with a damaged image get NaN, and the others are asked again."""
        try:
            return checked_scores(scorer, scorer.score_items(items), items)
        except (OSError, ValueError) as error:
            self._remember(error)
            reasons = {id(p): self._why_damaged(p) for item in items for p in item.images}
            if not any(reasons.values()):
                raise
        self.damaged |= {
            p.name: reasons[id(p)] for item in items for p in item.images if reasons[id(p)]
        }
        whole = [item for item in items if not any(reasons[id(p)] for p in item.images)]
        found = self._whole(scorer, whole) if whole else []
        by_id = {scores.item: scores for scores in found}
        nothing = {i.id: Scores(i.id, np.full(i.truth.shape, np.nan)) for i in items}
        return [by_id.get(item.id, nothing[item.id]) for item in items]

    def ask(self, queries: Sequence[Query]) -> FloatArray:
        """One number a query; NaN where the image is damaged."""
        try:
            return checked_numbers(self.scorer, self.scorer.score(queries), len(queries))
        except (OSError, ValueError) as error:
            failure = error
        # Find the damaged image among many; a scorer that fails on whole ones is a bug.
        value_M = np.full(len(queries), np.nan)
        places: dict[int, list[int]] = {}
        for i, query in enumerate(queries):
            places.setdefault(id(query.image), []).append(i)
        found = False
        for at in places.values():
            image, part = queries[at[0]].image, [queries[i] for i in at]
            reason = self._why_damaged(image)
            if not reason:
                try:
                    value_M[at] = checked_numbers(self.scorer, self.scorer.score(part), len(part))
                    continue
                except ImageError as unfit:
                    reason = self._remember(unfit)
            found = True
            self.damaged[image.name] = reason
        if not found:
            raise failure
        return value_M

    def _remember(self, error: Exception) -> str:
        """What a model said of an image that it cannot take."""
        if not isinstance(error, ImageError):
            return ""
        return self._unfit.setdefault(error.key, error.message)

    def _why_damaged(self, image: ImageSource) -> str:
        try:
            image.open()
        except (OSError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        return self._unfit.get(image.key, "") if self._unfit else ""

    def _rank(self, item: Item) -> Scores:
        scorer = self.scorer
        cells = len(item.images) * len(item.captions)
        if isinstance(scorer, MatrixScorer):
            # Ranking asks for every block twice; the model is asked once while memory allows.
            block = partial(self._rows, scorer, item)
            return ranked(item, cache(block) if cells <= _LARGEST_KEPT else block, self.tie_eps)
        if cells > _LARGEST_CROSS:
            raise UnbagError(
                f"{scorer.name} scores pairs one by one, and {item.id!r} has "
                f"{len(item.images)} x {len(item.captions)} of them",
                expected=f"at most {_LARGEST_CROSS} pairs, or a scorer with score_matrix",
                hint="leave the retrieval benchmarks out for this model",
            )
        score_PC = np.concatenate(
            [self.ask([Query(p, c, item.question) for c in item.captions]) for p in item.images]
        ).reshape(len(item.images), len(item.captions))
        return ranked(item, lambda start, stop: score_PC[start:stop], self.tie_eps)

    def _rows(self, scorer: MatrixScorer, item: Item, start: int, stop: int) -> FloatArray:
        images = item.images[start:stop]
        try:
            return _as_float(scorer, scorer.score_matrix(images, item.captions))
        except (OSError, ValueError) as error:
            self._remember(error)
            reasons = [self._why_damaged(image) for image in images]
            if not any(reasons):
                raise
        score_BC = np.full((len(images), len(item.captions)), np.nan)
        for i, (image, reason) in enumerate(zip(images, reasons, strict=True)):
            if not reason:
                try:
                    score_BC[i] = _as_float(scorer, scorer.score_matrix([image], item.captions))
                    continue
                except ImageError as unfit:
                    reason = self._remember(unfit)
            self.damaged[image.name] = reason
        return score_BC


def queries_of(item: Item) -> list[Query]:
    """Every image with every caption, row by row."""
    return [Query(p, c, item.question) for p in item.images for c in item.captions]


def checked_numbers(scorer: Scorer, numbers: object, expected: int) -> FloatArray:
    """As float64, if there are as many as were asked for; NaN passes, and is counted later."""
    value_M = _as_float(scorer, numbers)
    if value_M.shape != (expected,):
        kind = "few" if value_M.size < expected else "many"
        raise UnbagError(
            f"scorer {scorer.name!r} returned too {kind} numbers: "
            f"shape {value_M.shape} for {expected} queries",
            expected=f"one number for each query, shape ({expected},)",
            hint="mend the score method of this scorer",
        )
    return value_M


def checked_scores(scorer: Scorer, found: Sequence[Scores], items: Sequence[Item]) -> list[Scores]:
    """The scores of whole items, if they are of these items and of their shapes."""
    expected = [(item.id, tuple(item.truth.shape)) for item in items]
    got = [(s.item, None if s.values is None else s.values.shape) for s in found]
    if got != expected:
        at = next(
            (i for i, (a, b) in enumerate(zip(got, expected, strict=False)) if a != b),
            min(len(got), len(expected)),
        )
        raise UnbagError(
            f"scorer {scorer.name!r} returned {got[at] if at < len(got) else 'nothing'} as number "
            f"{at + 1} of {len(got)}",
            expected=f"the scores of {len(items)} items, here {expected[at]}"
            if at < len(expected)
            else f"no more than {len(items)}",
            hint="mend the score_items method of this scorer",
        )
    return list(found)


def _as_float(scorer: Scorer, numbers: object) -> FloatArray:
    """Numbers of any library and precision as float64."""
    if hasattr(numbers, "detach"):
        numbers = numbers.detach().cpu().double()
    try:
        found = np.asarray(numbers)
        if found.dtype.kind not in "fiub":
            raise TypeError(f"values of type {found.dtype}")
    except (TypeError, ValueError) as error:
        raise UnbagError(
            f"scorer {scorer.name!r} returned {type(numbers).__name__}: {error}",
            expected="numbers: a list, an array or a tensor",
            hint="mend the score method of this scorer",
        ) from error
    return found.astype(np.float64)


def answered(image: Shown, captions: Sequence[Caption], scorer: Scorer) -> Scores:
    """One image with some captions; NaN where no rule could read a chat model's answer."""
    captions = _checked_captions(captions)
    shown = opened(_as_image(image))
    if isinstance(scorer, MatrixScorer) and not isinstance(scorer, ItemScorer):
        score_PC = scorer.score_matrix([shown], captions)
        score_C = checked_numbers(scorer, score_PC.reshape(-1), len(captions))
        return Scores("picture", score_C[None])
    no_truth = np.zeros((1, len(captions)), dtype=np.bool_)
    item = Item("picture", (shown,), tuple(captions), no_truth)
    scoring = QueryScoring(scorer)
    found = scoring.chunk([item])[0]
    for reason in scoring.damaged.values():
        raise UnbagError(
            reason,
            expected="an image of a shape that this model takes",
            hint="cut it to a usual shape",
        )
    if not found.unparsed:
        return found
    # A benchmark counts such an answer as wrong; here there is no truth it could miss.
    return replace(found, values=np.full(no_truth.shape, np.nan))


def score_images(
    images: Sequence[Shown], captions: Sequence[Caption], scorer: Scorer
) -> FloatArray:
    """A row per image, [images, captions], as `answered` scores each of them."""
    captions = _checked_captions(captions)
    shown = [opened(_as_image(one)) for one in images]
    if not isinstance(scorer, MatrixScorer) or isinstance(scorer, ItemScorer):
        rows = [answered(one, captions, scorer).values for one in shown]
        return np.concatenate([row for row in rows if row is not None])
    found = []
    for start in range(0, len(shown), _BLOCK):
        block = shown[start : start + _BLOCK]
        score_PC = _as_float(scorer, scorer.score_matrix(block, captions))
        count = len(block) * len(captions)
        found.append(checked_numbers(scorer, score_PC.reshape(-1), count).reshape(len(block), -1))
    return np.concatenate(found)


def _checked_captions(captions: Iterable[Caption]) -> list[Caption]:
    found = list(captions) if isinstance(captions, Iterable) else []
    if isinstance(captions, str) or not found:
        raise UnbagError(
            f"captions are {captions!r}",
            expected="a list of at least one caption",
            hint='write ["a caption", "another one"]',
        )
    for at, caption in enumerate(found):
        if not isinstance(caption, str | Ensemble):
            raise UnbagError(
                f"caption {at + 1} of {len(found)} is {caption!r}",
                expected="a string, or unbag.types.Ensemble",
                hint="leave it out, or write it as text",
            )
        for text in prompts_of(caption):
            if not is_whole_text(text):
                raise UnbagError(
                    f"the caption {text!r} holds half a character",
                    expected="whole characters, which UTF-8 can write",
                    hint="type the caption again; a terminal that is not set to UTF-8 may be "
                    "the reason",
                )
    return found


def _as_image(given: Shown) -> ImageSource:
    from PIL import ImageOps
    from PIL.Image import Image

    if isinstance(given, str | Path):
        # A photograph of the user's own: as its camera was held, which is how people see it.
        return FileImage(Path(given), turn_upright=True)
    if isinstance(given, Image):
        if given.mode[0] in "IF":
            raise UnbagError(
                f"the image has pixels of mode {given.mode}",
                expected="8 bits a channel",
                hint="give the path of its file, or convert it to RGB",
            )
        try:
            upright = ImageOps.exif_transpose(given)
            # By way of alpha Pillow does not warn of a palette with transparency.
            whole = upright.convert("RGBA") if upright.mode == "P" else upright
            return PixelImage(np.asarray(whole.convert("RGB")), "image")
        except (OSError, ValueError) as error:
            raise _not_opened("image", error) from error
    if not isinstance(given, ImageSource):
        raise UnbagError(
            f"a {type(given).__name__} was given in place of an image",
            expected="a path, an image of Pillow, or an image: key, name and open()",
            hint="for an array of bytes [height, width, 3], write unbag.data.PixelImage(array)",
        )
    return given


def opened(image: ImageSource) -> ImageSource:
    """The same, if it can be opened."""
    try:
        image.open()
    except (OSError, ValueError) as error:
        raise _not_opened(image.name, error) from error
    return image


def _not_opened(name: str, error: Exception) -> UnbagError:
    is_missing = isinstance(error, FileNotFoundError)
    why = "there is no such file" if is_missing else f"{type(error).__name__}: {error}"
    return UnbagError(
        f"the image {name} cannot be opened: {why}",
        expected="an image in a format that Pillow reads (PNG, JPEG, WebP ...)",
        hint="check the path" if is_missing else "save it again with another program",
    )


@runtime_checkable
class Bounding(Protocol):
    """A model that sometimes only knows how large a probability can be, and counts it.

    A server lists the likeliest tokens only. An answer that is not among them gets the largest
    probability it can have: a number, but not one to be quoted without saying so.
    """

    @property
    def bounded(self) -> int:
        """Such probabilities so far."""


def count_bounded(scorer: Scorer) -> int:
    """By the scorer's model so far; 0 for one that always knows."""
    model = getattr(scorer, "model", None)
    return model.bounded if isinstance(model, Bounding) else 0


def said_bounded(scorer: str, count: int) -> str:
    """For a user."""
    one = "1 probability is an upper bound"
    some = one if count == 1 else f"{count:,} probabilities are upper bounds"
    return f"{scorer}: {some}, because the server lists the likeliest tokens only"


def with_bounds(record: RunRecord, bounded: Mapping[Key, int]) -> RunRecord:
    """The record with a note on every benchmark whose scores hold bounds."""
    notes = dict(record.notes)
    for key, count in bounded.items():
        notes[key.benchmark] = (*notes.get(key.benchmark, ()), said_bounded(key.scorer, count))
    return replace(record, notes=notes)


@runtime_checkable
class Cutting(Protocol):
    """A scorer that cuts long captions, and says so: as a dual encoder does."""

    @property
    def context(self) -> int:
        """Tokens a caption can have, special ones included."""

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Before cutting, special ones included."""


def count_cut(scorer: Scorer, captions: Iterable[Caption]) -> int:
    """Unique prompts longer than the context; 0 for a scorer that cuts none, or does not say."""
    if isinstance(scorer, FittedScorer):
        return 0
    reader = scorer.encoder if isinstance(scorer, EmbeddingScorer) else scorer
    if not isinstance(reader, Cutting):
        return 0
    prompts: dict[str, None] = {}
    for caption in captions:
        prompts.update(dict.fromkeys(prompts_of(caption)))
    return sum(count > reader.context for count in reader.count_tokens(list(prompts)))


def said_cut(scorer: Scorer, count: int) -> str:
    """For a user."""
    captions = "1 caption" if count == 1 else f"{count:,} captions"
    return f"{scorer.name} cut {captions} to its context length"


@runtime_checkable
class WordReader(Protocol):
    """Reads word by word, and says which words it was not taught.

    It takes all such words for one and the same: captions that differ in them alone get one score,
    which looks like blindness to word order and is none.
    """

    def unknown_words(self, captions: Sequence[str]) -> list[str]:
        """Each once, in their order."""


def unknown_words(scorer: Scorer, captions: Sequence[str]) -> list[str]:
    """To the scorer or its model; none for a scorer that reads pieces of words, or no captions."""
    if isinstance(scorer, FittedScorer):
        return []
    if isinstance(scorer, EmbeddingScorer):
        return unknown_to(scorer.encoder, captions)
    return unknown_to(scorer, captions) or unknown_to(getattr(scorer, "model", None), captions)


def unknown_to(reader: object, captions: Sequence[str]) -> list[str]:
    """To a model; none where it does not say."""
    return reader.unknown_words(captions) if isinstance(reader, WordReader) else []


def said_unknown(scorer: str, words: Sequence[str]) -> str:
    """For a user."""
    rest = len(words) - _SHOWN
    more = f" (and {rest:,} more {'word' if rest == 1 else 'words'})" if rest > 0 else ""
    shown = ", ".join(words[:_SHOWN])
    return f"{scorer} does not know: {shown}{more}: unknown words are all one token to it"
