"""Score items, by comparing stored vectors or by calling a scorer for queries, matrices or items.

The module also reports limits of a scorer: probabilities that are only upper bounds, truncated
captions, and words that the model does not know.

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

    ImageInput: TypeAlias = str | Path | ImageSource | Image

CHUNK = 64
"""Items scored and saved together, unless the scorer sets another number; a resumed run repeats
whole chunks."""
_BLOCK = 256
"""Images that are opened and embedded together for a score matrix."""
_MAX_NUMBERS = 20_000_000
"""Cells x dimensions gathered at once when vectors are compared."""
_MIN_WIDE = 64
"""From this many captions a matrix product is faster than gathering vectors cell by cell."""
_MAX_PAIRS = 1_000_000
_MAX_CACHED_CELLS = 50_000_000
_MAX_LISTED = 8


def score_by_vectors(
    scorer: EmbeddingScorer,
    items: Sequence[Item],
    rows: Sequence[Rows],
    embeddings: Embeddings,
    *,
    tie_eps: float = 0.0,
    compares_captions: bool = False,
) -> Iterator[list[Scores]]:
    """Score items by comparing stored vectors, one chunk at a time; no model is called."""
    import torch

    images = torch.from_numpy(embeddings.image_ND)
    captions = torch.from_numpy(embeddings.caption_ND)
    max_cells = _MAX_NUMBERS // max(1, embeddings.caption_ND.shape[1])
    for chunk in _item_chunks(items, rows, max_cells):
        first = chunk[0][0]
        if is_large(first):
            yield [_rank_by_vectors(scorer, *chunk[0], images, captions, tie_eps)]
        elif len(first.captions) >= _MIN_WIDE:
            # Items that share many captions, such as classes: one matrix product.
            image_M = np.concatenate([row.image_P for _, row in chunk])
            gallery = captions[chunk[0][1].caption_C]
            score_M = scorer.compare_all(images[image_M], gallery).double().numpy().ravel()
            yield split(score_M, [item for item, _ in chunk])
        else:
            image_M = np.concatenate([np.repeat(r.image_P, len(r.caption_C)) for _, r in chunk])
            caption_M = np.concatenate([np.tile(r.caption_C, len(r.image_P)) for _, r in chunk])
            value_M = scorer.compare(images[image_M], captions[caption_M]).double().numpy()
            scores = split(value_M, [item for item, _ in chunk])
            if compares_captions:
                for i, (_, row) in enumerate(chunk):
                    # Summed pair by pair, so that equal vectors tie exactly.
                    vector_CD = captions[row.caption_C].double()
                    cosine_CC = (vector_CD[:, None] * vector_CD[None]).sum(dim=-1).numpy()
                    scores[i] = replace(scores[i], caption_CC=cosine_CC)
            yield scores


def _item_chunks(
    items: Sequence[Item], rows: Sequence[Rows], max_cells: int
) -> Iterator[list[tuple[Item, Rows]]]:
    """Chunks of consecutive items with at most `max_cells` cells; wide items share all captions."""
    chunk: list[tuple[Item, Rows]] = []
    cells = 0
    for item, row in zip(items, rows, strict=True):
        size = len(item.images) * len(item.captions)
        if chunk:
            last, last_row = chunk[-1]
            is_wide = max(len(last.captions), len(item.captions)) >= _MIN_WIDE
            differs = is_wide and last_row.caption_C is not row.caption_C
            if cells + size > max_cells or is_large(last) or is_large(item) or differs:
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
    """Whether only ranks of an item are stored."""
    return isinstance(item.truth, Sparse)


def ranked(item: Item, block: Callable[[int, int], FloatArray], tie_eps: float) -> Scores:
    """Ranks of a large item, from blocks of its matrix."""
    text_to_image, image_to_text = rank_blocks(block, item.truth, tie_eps=tie_eps)
    return Scores(item.id, None, text_to_image=text_to_image, image_to_text=image_to_text)


def split(value_M: FloatArray, items: Sequence[Item]) -> list[Scores]:
    """Split the cells of many items into one score matrix per item."""
    shapes = [(len(item.images), len(item.captions)) for item in items]
    ends = np.cumsum([p * c for p, c in shapes])[:-1]
    parts = np.split(value_M, ends)
    return [
        Scores(item.id, part.reshape(shape))
        for item, part, shape in zip(items, parts, shapes, strict=True)
    ]


def in_chunks(items: Sequence[Item], scorer: Scorer) -> list[Sequence[Item]]:
    """Split items into chunks that are scored and saved together."""
    size = scorer.items_at_once if isinstance(scorer, QuickScorer) else CHUNK
    return [items[start : start + size] for start in range(0, len(items), size)]


@runtime_checkable
class PrecomputingScorer(Scorer, Protocol):
    """A scorer that receives all inputs before `score`, to encode each once."""

    def precompute(
        self,
        images: Sequence[ImageSource],
        captions: Sequence[str],
        *,
        cache: Path | None,
        progress: Progress,
    ) -> None:
        """Encode all inputs; ignores images that cannot be opened, for which `score` raises."""


@runtime_checkable
class QuickScorer(Scorer, Protocol):
    """A fast scorer that needs many items per call."""

    items_at_once: int


@dataclass
class QueryScoring:
    """Scores chunks of items by calling a scorer."""

    scorer: Scorer
    tie_eps: float = 0.0
    """For ranks only, whose ties are resolved here; other scores are compared later."""
    damaged: dict[str, str] = field(default_factory=dict)
    """Images that could not be opened or that the model rejected: name -> reason."""
    _unfit: dict[str, str] = field(default_factory=dict)
    """Images that the model rejected: key -> reason."""

    def chunk(self, items: Sequence[Item]) -> list[Scores]:
        """Score a chunk of items; equal queries are scored once."""
        scorer = self.scorer
        if isinstance(scorer, ItemScorer):
            is_ranked = [isinstance(scorer, MatrixScorer) and is_large(item) for item in items]
            scores = [
                self._rank(item) for item, is_one in zip(items, is_ranked, strict=True) if is_one
            ]
            unranked = [item for item, is_one in zip(items, is_ranked, strict=True) if not is_one]
            return scores + (self._whole(scorer, unranked) if unranked else [])
        scores = [self._rank(item) for item in items if is_large(item)]
        dense = [item for item in items if not is_large(item)]
        place: dict[tuple[int, object, object], int] = {}
        queries: list[Query] = []
        cell_of: list[int] = []
        for query in (q for item in dense for q in queries_of(item)):
            # Loaders share image objects, so ids find repeats without hashing pixels.
            key = (id(query.image), query.caption, query.question)
            if key not in place:
                place[key] = len(queries)
                queries.append(query)
            cell_of.append(place[key])
        if queries:
            scores += split(self.ask(queries)[cell_of], dense)
        return scores

    def _whole(self, scorer: ItemScorer, items: Sequence[Item]) -> list[Scores]:
        """Score whole items; those with a damaged image get NaN, and the others are retried."""
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
        intact = [item for item in items if not any(reasons[id(p)] for p in item.images)]
        scores_of_intact = self._whole(scorer, intact) if intact else []
        by_id = {scores.item: scores for scores in scores_of_intact}
        missing_scores = {i.id: Scores(i.id, np.full(i.truth.shape, np.nan)) for i in items}
        return [by_id.get(item.id, missing_scores[item.id]) for item in items]

    def ask(self, queries: Sequence[Query]) -> FloatArray:
        """One score per query; NaN if the image is damaged."""
        try:
            return checked_numbers(self.scorer, self.scorer.score(queries), len(queries))
        except (OSError, ValueError) as error:
            failure = error
        # Find the damaged images; if there are none the scorer has a bug.
        value_M = np.full(len(queries), np.nan)
        places: dict[int, list[int]] = {}
        for i, query in enumerate(queries):
            places.setdefault(id(query.image), []).append(i)
        found_damaged = False
        for indices in places.values():
            image, part = queries[indices[0]].image, [queries[i] for i in indices]
            reason = self._why_damaged(image)
            if not reason:
                try:
                    value_M[indices] = checked_numbers(
                        self.scorer, self.scorer.score(part), len(part)
                    )
                    continue
                except ImageError as unfit:
                    reason = self._remember(unfit)
            found_damaged = True
            self.damaged[image.name] = reason
        if not found_damaged:
            raise failure
        return value_M

    def _remember(self, error: Exception) -> str:
        """Store and return the reason why the model rejected an image."""
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
            # Ranking reads every block twice; scores are cached if they fit in memory.
            block = partial(self._rows, scorer, item)
            return ranked(item, cache(block) if cells <= _MAX_CACHED_CELLS else block, self.tie_eps)
        if cells > _MAX_PAIRS:
            raise UnbagError(
                f"{scorer.name} scores pairs one by one, and {item.id!r} has "
                f"{len(item.images)} x {len(item.captions)} of them",
                expected=f"at most {_MAX_PAIRS} pairs, or a scorer with score_matrix",
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
    """Queries of every image with every caption, row by row."""
    return [Query(p, c, item.question) for p in item.images for c in item.captions]


def checked_numbers(scorer: Scorer, numbers: object, expected: int) -> FloatArray:
    """The numbers as float64, after checking their count; NaN is allowed and counted later."""
    value_M = _as_float(scorer, numbers)
    if value_M.shape != (expected,):
        kind = "few" if value_M.size < expected else "many"
        raise UnbagError(
            f"scorer {scorer.name!r} returned too {kind} numbers: "
            f"shape {value_M.shape} for {expected} queries",
            expected=f"one number for each query, shape ({expected},)",
            hint="fix the score method of this scorer",
        )
    return value_M


def checked_scores(scorer: Scorer, scores: Sequence[Scores], items: Sequence[Item]) -> list[Scores]:
    """The scores of whole items, after checking their ids and shapes."""
    expected = [(item.id, tuple(item.truth.shape)) for item in items]
    received = [(s.item, None if s.values is None else s.values.shape) for s in scores]
    if received != expected:
        i = next(
            (i for i, (a, b) in enumerate(zip(received, expected, strict=False)) if a != b),
            min(len(received), len(expected)),
        )
        raise UnbagError(
            f"scorer {scorer.name!r} returned {received[i] if i < len(received) else 'nothing'} as "
            f"number {i + 1} of {len(received)}",
            expected=f"the scores of {len(items)} items, here {expected[i]}"
            if i < len(expected)
            else f"no more than {len(items)}",
            hint="fix the score_items method of this scorer",
        )
    return list(scores)


def _as_float(scorer: Scorer, numbers: object) -> FloatArray:
    """Convert numbers of any library and precision to float64."""
    if hasattr(numbers, "detach"):
        numbers = numbers.detach().cpu().double()
    try:
        array = np.asarray(numbers)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"values of type {array.dtype}")
    except (TypeError, ValueError) as error:
        raise UnbagError(
            f"scorer {scorer.name!r} returned {type(numbers).__name__}: {error}",
            expected="numbers: a list, an array or a tensor",
            hint="fix the score method of this scorer",
        ) from error
    return array.astype(np.float64)


def score_image(image: ImageInput, captions: Sequence[Caption], scorer: Scorer) -> Scores:
    """Score one image with some captions; NaN if a chat model's answer could not be parsed."""
    captions = _checked_captions(captions)
    source = check_opens(_as_image(image))
    if isinstance(scorer, MatrixScorer) and not isinstance(scorer, ItemScorer):
        score_PC = scorer.score_matrix([source], captions)
        score_C = checked_numbers(scorer, score_PC.reshape(-1), len(captions))
        return Scores("picture", score_C[None])
    no_truth = np.zeros((1, len(captions)), dtype=np.bool_)
    item = Item("picture", (source,), tuple(captions), no_truth)
    scoring = QueryScoring(scorer)
    scores = scoring.chunk([item])[0]
    for reason in scoring.damaged.values():
        raise UnbagError(
            reason,
            expected="an image of a shape that this model supports",
            hint="crop it to a usual shape",
        )
    if not scores.unparsed:
        return scores
    # A benchmark counts an unparsed answer as wrong; here there is no truth.
    return replace(scores, values=np.full(no_truth.shape, np.nan))


def score_images(
    images: Sequence[ImageInput], captions: Sequence[Caption], scorer: Scorer
) -> FloatArray:
    """Scores of `score_image` for several images: [images, captions]."""
    captions = _checked_captions(captions)
    sources = [check_opens(_as_image(source)) for source in images]
    if not isinstance(scorer, MatrixScorer) or isinstance(scorer, ItemScorer):
        rows = [score_image(source, captions, scorer).values for source in sources]
        return np.concatenate([row for row in rows if row is not None])
    blocks = []
    for start in range(0, len(sources), _BLOCK):
        block = sources[start : start + _BLOCK]
        score_PC = _as_float(scorer, scorer.score_matrix(block, captions))
        count = len(block) * len(captions)
        blocks.append(checked_numbers(scorer, score_PC.reshape(-1), count).reshape(len(block), -1))
    return np.concatenate(blocks)


def _checked_captions(captions: Iterable[Caption]) -> list[Caption]:
    checked = list(captions) if isinstance(captions, Iterable) else []
    if isinstance(captions, str) or not checked:
        raise UnbagError(
            f"captions are {captions!r}",
            expected="a list of at least one caption",
            hint='write ["a caption", "another one"]',
        )
    for i, caption in enumerate(checked):
        if not isinstance(caption, str | Ensemble):
            raise UnbagError(
                f"caption {i + 1} of {len(checked)} is {caption!r}",
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
    return checked


def _as_image(image: ImageInput) -> ImageSource:
    from PIL import ImageOps
    from PIL.Image import Image

    if isinstance(image, str | Path):
        # A photograph of the user's own: apply its EXIF orientation.
        return FileImage(Path(image), turn_upright=True)
    if isinstance(image, Image):
        if image.mode[0] in "IF":
            raise UnbagError(
                f"the image has pixels of mode {image.mode}",
                expected="8 bits a channel",
                hint="give the path of its file, or convert it to RGB",
            )
        try:
            upright = ImageOps.exif_transpose(image)
            # Going through RGBA avoids Pillow's warning about palettes with transparency.
            opaque = upright.convert("RGBA") if upright.mode == "P" else upright
            return PixelImage(np.asarray(opaque.convert("RGB")), "image")
        except (OSError, ValueError) as error:
            raise _not_opened("image", error) from error
    if not isinstance(image, ImageSource):
        raise UnbagError(
            f"a {type(image).__name__} was given in place of an image",
            expected="a path, an image of Pillow, or an image: key, name and open()",
            hint="for an array of bytes [height, width, 3], write unbag.data.PixelImage(array)",
        )
    return image


def check_opens(image: ImageSource) -> ImageSource:
    """Return the image; an error if it cannot be opened."""
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
class ReportsBounds(Protocol):
    """A model that counts the probabilities for which it only knows an upper bound.

    A server lists only the likeliest tokens. An answer that is not among them gets the largest
    probability it can have, which must be reported as a bound.
    """

    @property
    def bounded(self) -> int:
        """Number of upper bounds so far."""


def count_bounded(scorer: Scorer) -> int:
    """Number of upper bounds of the scorer's model so far; 0 if it has none."""
    model = getattr(scorer, "model", None)
    return model.bounded if isinstance(model, ReportsBounds) else 0


def bounds_message(scorer: str, count: int) -> str:
    """The message for users about upper bounds."""
    singular = "1 probability is an upper bound"
    text = singular if count == 1 else f"{count:,} probabilities are upper bounds"
    return f"{scorer}: {text}, because the server lists the likeliest tokens only"


def with_bound_notes(record: RunRecord, bounded: Mapping[Key, int]) -> RunRecord:
    """The record with a note on every benchmark whose scores hold bounds."""
    notes = dict(record.notes)
    for key, n in bounded.items():
        notes[key.benchmark] = (*notes.get(key.benchmark, ()), bounds_message(key.scorer, n))
    return replace(record, notes=notes)


@runtime_checkable
class CountsTokens(Protocol):
    """A scorer or encoder that truncates long captions and can count tokens."""

    @property
    def context(self) -> int:
        """Maximum tokens of a caption, including special tokens."""

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Tokens of each caption before truncation, including special tokens."""


def count_truncated(scorer: Scorer, captions: Iterable[Caption]) -> int:
    """Unique prompts longer than the context; 0 if the scorer does not truncate or does not say."""
    if isinstance(scorer, FittedScorer):
        return 0
    reader = scorer.encoder if isinstance(scorer, EmbeddingScorer) else scorer
    if not isinstance(reader, CountsTokens):
        return 0
    prompts: dict[str, None] = {}
    for caption in captions:
        prompts.update(dict.fromkeys(prompts_of(caption)))
    return sum(count > reader.context for count in reader.count_tokens(list(prompts)))


def truncation_message(scorer: Scorer, count: int) -> str:
    """The message for users about truncated captions."""
    captions = "1 caption" if count == 1 else f"{count:,} captions"
    return f"{scorer.name} cut {captions} to its context length"


@runtime_checkable
class ReportsUnknownWords(Protocol):
    """A model with a fixed vocabulary of words that can list the unknown ones.

    Such a model treats all unknown words alike. Captions that differ only in them get the same
    score, which must not be mistaken for blindness to word order.
    """

    def unknown_words(self, captions: Sequence[str]) -> list[str]:
        """The unknown words, each once, in order."""


def unknown_words(scorer: Scorer, captions: Sequence[str]) -> list[str]:
    """Words unknown to the scorer or its model; none for models without a fixed vocabulary."""
    if isinstance(scorer, FittedScorer):
        return []
    if isinstance(scorer, EmbeddingScorer):
        return unknown_to(scorer.encoder, captions)
    return unknown_to(scorer, captions) or unknown_to(getattr(scorer, "model", None), captions)


def unknown_to(reader: object, captions: Sequence[str]) -> list[str]:
    """Words unknown to a model; none if it does not say."""
    return reader.unknown_words(captions) if isinstance(reader, ReportsUnknownWords) else []


def unknown_words_message(scorer: str, words: Sequence[str]) -> str:
    """The message for users about unknown words."""
    rest = len(words) - _MAX_LISTED
    more = f" (and {rest:,} more {'word' if rest == 1 else 'words'})" if rest > 0 else ""
    shown = ", ".join(words[:_MAX_LISTED])
    return f"{scorer} does not know: {shown}{more}: unknown words are all one token to it"
