"""Maps of the words of a caption over the patches of an image, for the page of a diagnosis.

Cosines of words and patches (`word_maps`), maps of a trained reader (`reader_maps`), and, for chat
models, the loss without one patch (`occlusion_maps`) or with one cell of the image painted over
(`covered_maps`), which needs no knowledge of the model's image tokens.

Dimensions: N captions or numbers, T parts of a caption, L patches, cells or pieces of words, D
joint space, H height, W width, C colours, B images (the original, then without each cell).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise, product
from math import isqrt

import numpy as np
import torch
from torch import Tensor

from unbag.data.images import PixelImage
from unbag.errors import UnbagError
from unbag.evaluation.measuring import thumbnail
from unbag.models.features import ends
from unbag.models.huggingface.chat import Ask, ChatModel, logprobs_of
from unbag.models.server import ServerModel
from unbag.probes.base import Maps, ProbeData, ProbedModel, WordMap
from unbag.probes.space import EncoderSpace, Space, TokenView
from unbag.readouts.decoder.model import PatchDecoder
from unbag.readouts.decoder.occlusion import (
    PROMPT,
    WORD,
    PatchEffects,
    caption_effects,
    cosine_effects,
    word_pieces,
)
from unbag.readouts.reader import MappedReader
from unbag.readouts.scorer import ReaderScorer
from unbag.readouts.vlm2vec.data import about_relation, instruction
from unbag.readouts.vlm2vec.model import Vlm2Vec, hidden_generator, unit
from unbag.readouts.vlm2vec.readout import AskedCosine
from unbag.runs.cache import Vectors
from unbag.runs.progress import Progress, Silent
from unbag.scorers.cosine import Cosine
from unbag.types import FloatArray, Generator, ImageSource, Scorer

MAX_IMAGES = 3
"""Number of images; more make a page heavy and teach little."""
MAX_WORDS = 24
GRID = 6
"""Cells per row and column: a chat model runs once for each, and it is slow."""
BATCH = 8
"""Images per batch; the model reduces the batch itself if it does not fit."""
NOTE = "no map of words over patches"
WHOLE = "(the whole caption)"
ABOUT = (
    "Cosine of the vector of each word with the vector of each patch, in the joint space. Encoders "
    "are trained on their read-out only, so a map shows what patches and words encode, not how the "
    "score is computed."
)


def about_logprobs(taken: str, part: str, parts: str) -> str:
    """Explain a map of log-probabilities; `taken` says how a `part` is removed."""
    return (
        f"The model is asked for the caption. {taken}the log-probability of the word, given the "
        f"words before it, falls: orange where the {part} supports the word, blue where it counts "
        "against it. A word that the words before it predict (of, after left) stays pale whatever "
        f"the image shows. What several {parts} show is not missed where only one of them is "
        "removed. This is not a map of answers to questions, such as Yes."
    )


def about_cosines(taken: str, part: str, parts: str) -> str:
    """Explain a map of cosines; `taken` says how a `part` is removed."""
    return (
        f"{taken}its cosine with the caption falls: orange where the {part} increases the cosine, "
        "blue where it decreases it. A caption has one vector, not one for each word: the map of a "
        "word is that of the whole caption minus that of the caption without this word, so the "
        f"effect of the {part} on the cosine because of the word. What several {parts} show is not "
        "missed where only one of them is removed."
    )


_TAKEN = (
    "One patch at a time is replaced by the mean patch of the image, and a number is by how much "
)
OCCLUSION_LOGS = about_logprobs(_TAKEN, "patch", "patches")
OCCLUSION_COSINES = about_cosines(_TAKEN, "patch", "patches")
_PAINTED = (
    f"The image is cut into {GRID} x {GRID} cells. One at a time is painted with the mean colour "
    "of the image, before preprocessing, and a number is by how much "
)
_PAINT = " A painted cell is itself visible, so small numbers may be an effect of the paint."
COVERED_LOGS = about_logprobs(_PAINTED, "cell", "cells") + _PAINT
COVERED_COSINES = about_cosines(_PAINTED, "cell", "cells") + _PAINT
WordFall = tuple[str, Tensor, str]
"""A word, its map [L], and its value with all patches as text."""


def map_words(
    subject: ProbedModel, data: ProbeData, *, progress: Progress | None = None
) -> tuple[tuple[Maps, ...], tuple[str, ...]]:
    """Draw maps of the model, its read-out, and the other model, with notes on missing ones."""
    progress = progress or Silent()
    maps: dict[tuple[str, str], Maps] = {}
    notes: dict[str, None] = {}
    chosen_examples = examples(data)
    makers_of = [
        (probed, _map_makers(probed)) for probed in (subject, subject.other) if probed is not None
    ]
    # Each map of a chat model runs it dozens of times.
    with progress.task(
        "maps", len(chosen_examples) * sum(len(makers) for _, makers in makers_of)
    ) as advance:
        for probed, makers in makers_of:
            if not makers:
                notes[f"{NOTE}: {probed.name} shows no patches"] = None
            # Of two maps, the first is that of the model and the second that of its read-out.
            timed_makers = zip(
                makers, ("before training", "after training")[: len(makers)], strict=True
            )
            for (make_map, when), (image, caption) in product(timed_makers, chosen_examples):
                try:
                    maps_of_image = make_map(image, caption)
                    maps_of_image = (
                        replace(maps_of_image, when=when) if len(makers) == 2 else maps_of_image
                    )
                    # A model that is compared with its own read-out is drawn once.
                    maps.setdefault((maps_of_image.title, image.key), maps_of_image)
                except UnbagError as error:
                    notes[f"{NOTE}: {error.message}"] = None
                except Exception as error:
                    # A failed map must not lose the answers of all probes.
                    notes[f"{NOTE}: {type(error).__name__}: {error}"] = None
                advance(1)
    return tuple(maps.values()), tuple(notes)


def _map_makers(subject: ProbedModel) -> list[Callable[[ImageSource, str], Maps]]:
    """Return functions that draw maps: first that of the encoder, then that of a read-out."""
    space, decoder = subject.space, decoder_of(subject.scorer)
    if decoder is None and chat_of(subject.scorer) is not None:
        # The vectors of VLM2Vec are of whole images, so there are no cosines of patches.
        return [partial(covered_maps, subject.scorer)]
    if decoder is not None and decoder.settings.sees == "patches":
        encoder = decoder.image_encoder
        is_same_space = space is not None and space.fingerprint == encoder.fingerprint
        space = space if is_same_space else EncoderSpace(encoder)
    makers: list[Callable[[ImageSource, str], Maps]] = []
    if space is not None:
        makers.append(partial(word_maps, space))
    if decoder is not None:
        makers.append(partial(occlusion_maps, subject.scorer))
    elif subject.has_readout:
        makers.append(partial(reader_maps, subject.scorer))
    return makers


def examples(data: ProbeData) -> tuple[tuple[ImageSource, str], ...]:
    """Choose both images of a left/right pair and one of exchanged colours, if there are any."""
    chosen: dict[str, tuple[ImageSource, str]] = {}
    pairs = [(pair, pair.captions) for pair in data.pairs if pair.captions is not None]
    sides = [(pair, both) for pair, both in pairs if pair.relation == "left/right"]
    swaps = [(pair, both) for pair, both in pairs if pair.relation == "swap_attributes"]
    for pair, captions in (*(sides[:1] or pairs[:1]), *(swaps[:1] or pairs[1:2])):
        for image, caption in zip((pair.first, pair.second), captions, strict=True):
            chosen.setdefault(image.key, (image, caption))
    for row in data.rows[:MAX_IMAGES]:
        chosen.setdefault(row.image.key, (row.image, row.caption))
    return tuple(chosen.values())[:MAX_IMAGES]


def word_maps(space: Space, image: ImageSource, caption: str) -> Maps:
    """Draw the cosine of each word with each patch, in rows from the top left.

    A word of several pieces is the mean of their vectors. If the pieces of a word are not known,
    pieces are shown by number. Raises UnbagError for a model without patch and word vectors,
    patches that are not a square, and an image that cannot be opened.
    """
    view = space.tokens
    if view is None:
        raise UnbagError(f"{space.name} has no vectors of patches and words")
    patches = view.images([image])
    patch_LD: Vectors = patches.vector_NLW[0][patches.mask_NL[0]].numpy()
    if not len(patch_LD) or not np.isfinite(patch_LD).all():
        raise UnbagError(f"{space.name} has no vectors for the patches of {image.name}")
    check_square(len(patch_LD), name=space.name, image=image)
    words = _words(view, caption)
    maps = tuple(WordMap(word, squared(patch_LD @ vector_D)) for word, vector_D in words)
    return Maps(space.name, thumbnail(image), caption, maps, ABOUT)


def _words(view: TokenView, caption: str) -> list[tuple[str, Vectors]]:
    words = caption.split()
    # A word once and twice: the difference is its pieces, the rest is special tokens.
    texts = [caption, *words, *(f"{word} {word}" for word in words)]
    tokens = view.captions(texts)
    count_N = tokens.mask_NL.sum(dim=1)
    count_once_N, count_twice_N = count_N[1 : 1 + len(words)], count_N[1 + len(words) :]
    piece_LD = tokens.vector_NLW[0][tokens.mask_NL[0]].numpy()
    columns = ends(int(count_N[0]), count_once_N.tolist(), count_twice_N.tolist())
    if columns is None:
        named = [(f"piece {number}", row_D) for number, row_D in enumerate(piece_LD, start=1)]
        return named[:MAX_WORDS]
    named = []
    for word, (start, stop) in zip(words, columns, strict=True):
        if stop > start:
            mean_D: FloatArray = piece_LD[start:stop].mean(axis=0)
            length = float(np.linalg.norm(mean_D))
            named.append((word, (mean_D / length if length else mean_D).astype(np.float32)))
    return named[:MAX_WORDS]


def reader_maps(scorer: Scorer, image: ImageSource, caption: str) -> Maps:
    """Draw the reader's own value for each word and patch, in rows from the top left.

    A word of several pieces is their mean. Raises UnbagError for a scorer that is not a reader of
    patches with maps.
    """
    if not isinstance(scorer, ReaderScorer) or not isinstance(scorer.reader, MappedReader):
        raise UnbagError(f"{scorer.name} scores without a map of words over patches")
    map_TL = _part_maps(scorer, image, [caption])[0]
    check_square(map_TL.shape[1], name=scorer.name, image=image)
    if len(map_TL) == 1:
        words = caption.split()[:MAX_WORDS]
        maps_alone = [alone_TL[0] for alone_TL in _part_maps(scorer, image, words)] if words else []
        word_values = [(WHOLE, map_TL[0]), *zip(words, maps_alone, strict=True)]
    else:
        word_values = _by_word(scorer, caption, map_TL)
    maps = tuple(WordMap(word, squared(map_L)) for word, map_L in word_values)
    reader = scorer.reader
    is_signed = reader.maps_are_signed
    return Maps(scorer.name, thumbnail(image), caption, maps, reader.maps_show, is_signed)


@torch.inference_mode()
def _part_maps(scorer: ReaderScorer, image: ImageSource, captions: Sequence[str]) -> Vectors:
    """Return the maps [N, T, L] over existing patches."""
    assert isinstance(scorer.reader, MappedReader)
    device = scorer.read_from.device
    image_features = scorer.store.images([image]).to(device)
    caption_features = scorer.store.texts(captions).to(device)
    map_NTL = scorer.reader.word_maps(
        image_features.rows(torch.zeros(len(caption_features), dtype=torch.long)), caption_features
    )
    map_values: Vectors = map_NTL[:, :, image_features.mask_NL[0]].float().cpu().numpy()
    return map_values


def _by_word(scorer: ReaderScorer, caption: str, map_TL: Vectors) -> list[tuple[str, Vectors]]:
    """Average maps by word; return them by piece if the pieces of a word are not known."""
    words = caption.split()
    doubled = [f"{word} {word}" for word in words]
    count, *counts = scorer.count_tokens([caption, *words, *doubled])
    columns = ends(count, counts[: len(words)], counts[len(words) :]) if words else None
    if columns is None:
        pieces = map_TL[:count]
        return [(f"piece {number}", map_L) for number, map_L in enumerate(pieces, start=1)][
            :MAX_WORDS
        ]
    return [
        (word, map_TL[start:stop].mean(axis=0))
        for word, (start, stop) in zip(words, columns, strict=True)
        # The reader has no values for words beyond its last column.
        if start < min(stop, len(map_TL))
    ][:MAX_WORDS]


def occlusion_maps(scorer: Scorer, image: ImageSource, caption: str) -> Maps:
    """Draw the effect of each patch on each word, in rows from the top left.

    Raises UnbagError for a scorer without a decoder on patches, a decoder that sees no patches or
    does not generate captions, and patches that are not a square.
    """
    decoder = decoder_of(scorer)
    if decoder is None:
        raise UnbagError(f"{scorer.name} has no decoder on patches")
    if isinstance(scorer, AskedCosine | Cosine):
        prompt = prompt_of(scorer, caption)
        effects = cosine_effects(decoder, image, prompt, leave_one_out(caption))
        falls, about = list(of_caption(caption, effects)), OCCLUSION_COSINES
    else:
        prompt = PROMPT if decoder.settings.asks else ""
        falls, about = [], OCCLUSION_LOGS
        effects = caption_effects(decoder, image, caption)
        for span in word_pieces(decoder, caption)[:MAX_WORDS]:
            # The log-probabilities of the pieces of a word add up to that of the word.
            pieces = slice(span.start, span.stop)
            logprob, fall_L = (
                float(effects.whole_N[pieces].sum()),
                effects.fall_NL[pieces].sum(dim=0),
            )
            falls.append(of_word(span.word, logprob, fall_L))
    for _, map_L, _ in falls:
        check_square(len(map_L), name=scorer.name, image=image)
    maps = tuple(
        WordMap(word, squared(map_L.float().numpy()), whole_text)
        for word, map_L, whole_text in falls
    )
    return Maps(scorer.name, thumbnail(image), caption, maps, about, is_signed=True, asked=prompt)


def decoder_of(scorer: Scorer) -> PatchDecoder | None:
    """Return the decoder on patches behind a scorer; None for other scorers."""
    model = model_of(scorer)
    return model if isinstance(model, PatchDecoder) else None


def model_of(scorer: Scorer) -> object:
    """Return the model behind a scorer; None if there is none."""
    if isinstance(scorer, Cosine) and isinstance(scorer.encoder, Vlm2Vec):
        return scorer.encoder.model
    return getattr(scorer, "model", None)


def covered_maps(scorer: Scorer, image: ImageSource, caption: str) -> Maps:
    """Draw the effect of each cell on each word, in rows from the top left.

    Raises UnbagError for a scorer without a chat model, a model behind a server, and an image
    smaller than the grid.
    """
    model = chat_of(scorer)
    if model is None:
        raise UnbagError(f"{scorer.name} has no chat model")
    if isinstance(model, ServerModel):
        raise UnbagError(
            f"{model.name} is behind a server, which gives the probability of one token only, not "
            "of a caption",
            expected="a chat model on this machine, such as hf:FOLDER",
        )
    images = covered(image)
    if isinstance(scorer, AskedCosine | Cosine):
        prompt, about = prompt_of(scorer, caption), COVERED_COSINES
        hidden = hidden_generator(model)
        shown_BW = torch.cat(
            [
                hidden.last_hidden([(one_image, prompt) for one_image in batch])
                for batch in _batches(images)
            ]
        )
        caption_NW = hidden.last_hidden([(None, text) for text in leave_one_out(caption)])
        cosine_BN = unit(shown_BW).double() @ unit(caption_NW).double().T
        falls = list(of_caption(caption, _effects(cosine_BN)))
    else:
        prompt, about = PROMPT, COVERED_LOGS
        falls = list(_logprobs_by_cell(model, images, caption))
    maps = tuple(
        WordMap(word, squared(map_L.numpy()), whole_text) for word, map_L, whole_text in falls
    )
    return Maps(scorer.name, thumbnail(image), caption, maps, about, is_signed=True, asked=prompt)


def chat_of(scorer: Scorer) -> Generator | None:
    """Return the chat model behind a scorer; None for other scorers."""
    model = model_of(scorer)
    return model if isinstance(model, Generator) and not scorer.is_blind else None


def covered(image: ImageSource) -> Iterator[PixelImage]:
    """Yield the original image, then one for each cell with that cell in the mean colour.

    Images are made one at a time, since all copies of a photograph together may not fit in memory.
    Cells differ by a pixel if the sides do not divide evenly.
    """
    pixel_HWC = np.asarray(image.open().convert("RGB"))
    height, width = pixel_HWC.shape[:2]
    if min(height, width) < GRID:
        raise UnbagError(
            f"{image.name} has {width} x {height} pixels",
            expected=f"at least {GRID} x {GRID}, one for each cell of a map",
        )
    colour_C = pixel_HWC.mean(axis=(0, 1)).round().astype(np.uint8)
    yield PixelImage(pixel_HWC, image.name)
    for rows, columns in product(cells(height, GRID), cells(width, GRID)):
        painted_HWC = pixel_HWC.copy()
        painted_HWC[rows, columns] = colour_C
        yield PixelImage(painted_HWC, image.name)


def cells(pixels: int, count: int) -> list[slice]:
    """Divide the pixels of a side into this number of cells."""
    edges = [round(number * pixels / count) for number in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]


def _logprobs_by_cell(
    model: Generator, images: Iterable[ImageSource], caption: str
) -> Iterator[WordFall]:
    """Yield the log-probability of each word, after the words before it.

    If the pieces of words are known, those of a word are summed. Otherwise the value of a word is
    the difference of two prefixes of the caption, which scores every prefix.
    """
    if isinstance(model, ChatModel):
        parts = word_pieces(model, caption)[:MAX_WORDS]
        words = [span.word for span in parts]
        log_BN = torch.tensor(
            [
                [sum(log_A[span.start : span.stop]) for span in parts]
                for (log_A,) in _logprobs(model, images, (caption,))
            ],
            dtype=torch.float64,
        )
    else:
        matches = list(WORD.finditer(caption))[:MAX_WORDS]
        words = [match.group() for match in matches]
        prefixes = tuple(caption[: match.end()] for match in matches)
        sums = [
            [0.0, *(sum(logprobs) for logprobs in answer_logprobs)]
            for answer_logprobs in _logprobs(model, images, prefixes)
        ]
        log_BN = torch.tensor(sums, dtype=torch.float64).diff(dim=1)
    effects = _effects(log_BN)
    for word, logprob, fall_L in zip(words, effects.whole_N.tolist(), effects.fall_NL, strict=True):
        yield of_word(word, logprob, fall_L)


def _logprobs(
    model: Generator, images: Iterable[ImageSource], answers: tuple[str, ...]
) -> Iterator[list[list[float]]]:
    """Yield for each image the log-probabilities of the tokens of each answer."""
    for batch in _batches(images):
        yield from logprobs_of(model, [Ask(image, PROMPT, answers) for image in batch])


def _batches(images: Iterable[ImageSource]) -> Iterator[list[ImageSource]]:
    remaining = iter(images)
    while batch := list(islice(remaining, BATCH)):
        yield batch


def _effects(value_BN: Tensor) -> PatchEffects:
    return PatchEffects(value_BN[0], (value_BN[:1] - value_BN[1:]).T)


def prompt_of(scorer: AskedCosine | Cosine, caption: str) -> str:
    """Return the prompt after the image when VLM2Vec embeds it."""
    question = about_relation([caption], is_turned=False)
    return instruction(question if isinstance(scorer, AskedCosine) else None)


def of_word(word: str, logprob: float, fall_L: Tensor) -> WordFall:
    """Return a word with its map and its log-probability as text."""
    # Adding 0 turns -0 into 0.
    return word, fall_L, f"log p {round(logprob, 2) + 0.0:.2f}"


def leave_one_out(caption: str) -> list[str]:
    """Return the whole caption, then the caption without each word."""
    words = caption.split()
    less = (
        " ".join([*words[:number], *words[number + 1 :]]) for number in range(len(_shown(words)))
    )
    return [caption, *less]


def of_caption(caption: str, effects: PatchEffects) -> Iterator[WordFall]:
    """Yield maps of the whole caption, then of each word, from effects on `leave_one_out`."""
    whole_L, *without_word_L = effects.fall_NL
    yield WHOLE, whole_L, f"cosine {float(effects.whole_N[0]):.3f}"
    for word, without_L in zip(_shown(caption.split()), without_word_L, strict=True):
        yield word, whole_L - without_L, ""


def _shown(words: Sequence[str]) -> Sequence[str]:
    return words[:MAX_WORDS] if len(words) > 1 else []


def check_square(patches: int, *, name: str, image: ImageSource) -> None:
    """Raise UnbagError for patches that are not a square."""
    if isqrt(patches) ** 2 != patches:
        raise UnbagError(
            f"{name} has {patches} patches in {image.name}",
            expected="a square number",
        )


def squared(cosine_L: Vectors) -> tuple[tuple[float, ...], ...]:
    """Return rows of patches from the top left."""
    side = isqrt(len(cosine_L))
    rows = np.round(cosine_L.astype(float), 4).reshape(side, side).tolist()
    return tuple(tuple(row) for row in rows)
