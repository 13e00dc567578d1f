"""Maps of the words of a caption over the patches of an image, for the page of a diagnosis.

Cosines of words and patches (`word_maps`), what a trained reader draws itself (`reader_maps`), and,
for models that are asked, what becomes worse without one patch (`occlusion_maps`) or with one cell
of the image painted over (`covered_maps`), so that nothing needs to be known of its image tokens.

Dimensions: N captions or numbers that are looked at, T parts of a caption, L patches, cells or
pieces of words, D joint space, H height, W width, C colours, B images (as it is, then without
each cell).
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

SHOWN = 3
"""Images; more of them make a page heavy and teach little."""
MOST_WORDS = 24
GRID = 6
"""Cells of a row and of a column: a chat model runs once for each, and it is slow."""
AT_ONCE = 8
"""Images given to the model together; if they do not fit, it takes fewer by itself."""
NOTE = "no map of words over patches"
WHOLE = "(the whole caption)"
ABOUT = (
    "Cosine of the vector of each word with the vector of each patch, in the joint space. Encoders "
    "are trained on their read-out only, so a map shows what the parts came to hold, not what the "
    "score is made of."
)


def about_logs(taken: str, part: str, parts: str) -> str:
    """What a map of log-probabilities shows; `taken` says how, `part` what is taken away."""
    return (
        f"It is asked to say the caption. {taken}the log-probability of the word, behind the words "
        f"before it, then falls: orange where the {part} speaks for the word, blue where it speaks "
        "against it. A word that those before it already tell (of, behind left) stays pale "
        f"whatever the image shows. What several {parts} show alike is not missed where one of "
        "them is gone. This is no map of its answers to questions, such as Yes."
    )


def about_cosines(taken: str, part: str, parts: str) -> str:
    """The same of a map of cosines."""
    return (
        f"{taken}its cosine with the caption then falls: orange where the {part} brings both "
        "together, blue where it keeps them apart. A caption is one vector and not one for each "
        "word: the map of a word is that of the whole caption less that of the caption without "
        f"this word, so what the {part} does for the cosine because the word is there. What "
        f"several {parts} show alike is not missed where one of them is gone."
    )


_TAKEN = (
    "One patch at a time is replaced by the mean patch of the image, and a number is by how much "
)
OCCLUSION_LOGS = about_logs(_TAKEN, "patch", "patches")
OCCLUSION_COSINES = about_cosines(_TAKEN, "patch", "patches")
_PAINTED = (
    f"The image is cut into {GRID} x {GRID} cells. One at a time is painted with the mean colour "
    "of the image, before the model prepares it, and a number is by how much "
)
_PAINT = " A painted cell is itself something to see, so small numbers may be the paint's."
COVERED_LOGS = about_logs(_PAINTED, "cell", "cells") + _PAINT
COVERED_COSINES = about_cosines(_PAINTED, "cell", "cells") + _PAINT
WordFall = tuple[str, Tensor, str]
"""A word, its map [L], and its number with all patches in words."""


def map_words(
    subject: ProbedModel, material: ProbeData, *, progress: Progress | None = None
) -> tuple[tuple[Maps, ...], tuple[str, ...]]:
    """Of the model, its read-out, and the one it is set against; a note for each that has none."""
    progress = progress or Silent()
    maps: dict[tuple[str, str], Maps] = {}
    notes: dict[str, None] = {}
    shown = examples(material)
    every = [(one, _ways(one)) for one in (subject, subject.other) if one is not None]
    # A map of a chat model runs it dozens of times.
    with progress.task("maps", len(shown) * sum(len(ways) for _, ways in every)) as advance:
        for one, ways in every:
            if not ways:
                notes[f"{NOTE}: {one.name} shows no patches"] = None
            # Of two the second is that of a read-out, and the first of the model that it reads.
            named = zip(ways, ("before training", "after training")[: len(ways)], strict=True)
            for (way, when), (image, caption) in product(named, shown):
                try:
                    found = way(image, caption)
                    found = replace(found, when=when) if len(ways) == 2 else found
                    # A model that its own read-out is set against is drawn once.
                    maps.setdefault((found.title, image.key), found)
                except UnbagError as error:
                    notes[f"{NOTE}: {error.message}"] = None
                except Exception as error:
                    # All questions are answered by now; a map is not worth to lose them.
                    notes[f"{NOTE}: {type(error).__name__}: {error}"] = None
                advance(1)
    return tuple(maps.values()), tuple(notes)


def _ways(subject: ProbedModel) -> list[Callable[[ImageSource, str], Maps]]:
    """Untrained first: cosines of the model, or of the encoder that a decoder reads."""
    space, decoder = subject.space, decoder_of(subject.scorer)
    if decoder is None and chat_of(subject.scorer) is not None:
        # Vectors of VLM2Vec, if any, are of whole images: no cosines of patches stand before.
        return [partial(covered_maps, subject.scorer)]
    if decoder is not None and decoder.settings.sees == "patches":
        encoder = decoder.image_encoder
        is_own = space is not None and space.fingerprint == encoder.fingerprint
        space = space if is_own else EncoderSpace(encoder)
    ways: list[Callable[[ImageSource, str], Maps]] = []
    if space is not None:
        ways.append(partial(word_maps, space))
    if decoder is not None:
        ways.append(partial(occlusion_maps, subject.scorer))
    elif subject.has_readout:
        ways.append(partial(reader_maps, subject.scorer))
    return ways


def examples(material: ProbeData) -> tuple[tuple[ImageSource, str], ...]:
    """Both images of a left/right pair and one of exchanged colours, or what there is."""
    found: dict[str, tuple[ImageSource, str]] = {}
    pairs = [(pair, pair.captions) for pair in material.pairs if pair.captions is not None]
    sides = [one for one in pairs if one[0].relation == "left/right"][:1] or pairs[:1]
    swaps = [one for one in pairs if one[0].relation == "swap_attributes"][:1] or pairs[1:2]
    for pair, captions in (*sides, *swaps):
        for image, caption in zip((pair.first, pair.second), captions, strict=True):
            found.setdefault(image.key, (image, caption))
    for row in material.rows[:SHOWN]:
        found.setdefault(row.image.key, (row.image, row.caption))
    return tuple(found.values())[:SHOWN]


def word_maps(space: Space, image: ImageSource, caption: str) -> Maps:
    """The cosine of each word with each patch, rows of patches from the top left.

    A word of several pieces is the mean of their vectors. Where it cannot be known which pieces
    form a word, pieces are shown by number. A model that shows no patches or words, patches that
    make no square, and an image that cannot be opened raise UnbagError.
    """
    view = space.tokens
    if view is None:
        raise UnbagError(f"{space.name} shows no vectors of patches and words")
    found = view.images([image])
    patch_LD: Vectors = found.vector_NLW[0][found.mask_NL[0]].numpy()
    if not len(patch_LD) or not np.isfinite(patch_LD).all():
        raise UnbagError(f"{space.name} has no vectors for the patches of {image.name}")
    check_square(len(patch_LD), name=space.name, image=image)
    words = _words(view, caption)
    shown = tuple(WordMap(word, squared(patch_LD @ vector_D)) for word, vector_D in words)
    return Maps(space.name, thumbnail(image), caption, shown, ABOUT)


def _words(view: TokenView, caption: str) -> list[tuple[str, Vectors]]:
    words = caption.split()
    # A word once and twice: the difference is its pieces, what is left of it is special ones.
    asked = [caption, *words, *(f"{word} {word}" for word in words)]
    found = view.captions(asked)
    count_N = found.mask_NL.sum(dim=1)
    once, twice = count_N[1 : 1 + len(words)], count_N[1 + len(words) :]
    piece_LD = found.vector_NLW[0][found.mask_NL[0]].numpy()
    columns = ends(int(count_N[0]), once.tolist(), twice.tolist())
    if columns is None:
        named = [(f"piece {at}", row_D) for at, row_D in enumerate(piece_LD, start=1)]
        return named[:MOST_WORDS]
    named = []
    for word, (start, stop) in zip(words, columns, strict=True):
        if stop > start:
            mean_D: FloatArray = piece_LD[start:stop].mean(axis=0)
            size = float(np.linalg.norm(mean_D))
            named.append((word, (mean_D / size if size else mean_D).astype(np.float32)))
    return named[:MOST_WORDS]


def reader_maps(scorer: Scorer, image: ImageSource, caption: str) -> Maps:
    """The reader's own number for each word and patch, rows of patches from the top left.

    A word of several pieces is their mean. A scorer that is no reader of patches, or one that draws
    no map, raises UnbagError.
    """
    if not isinstance(scorer, ReaderScorer) or not isinstance(scorer.reader, MappedReader):
        raise UnbagError(f"{scorer.name} scores without a map of words over patches")
    map_TL = _part_maps(scorer, image, [caption])[0]
    check_square(map_TL.shape[1], name=scorer.name, image=image)
    if len(map_TL) == 1:
        words = caption.split()[:MOST_WORDS]
        alone = [one_TL[0] for one_TL in _part_maps(scorer, image, words)] if words else []
        found = [(WHOLE, map_TL[0]), *zip(words, alone, strict=True)]
    else:
        found = _by_word(scorer, caption, map_TL)
    shown = tuple(WordMap(word, squared(map_L)) for word, map_L in found)
    reader = scorer.reader
    is_signed = reader.maps_are_signed
    return Maps(scorer.name, thumbnail(image), caption, shown, reader.maps_show, is_signed)


@torch.inference_mode()
def _part_maps(scorer: ReaderScorer, image: ImageSource, captions: Sequence[str]) -> Vectors:
    """[N, T, L] of the patches that there are."""
    assert isinstance(scorer.reader, MappedReader)
    device = scorer.read_from.device
    seen = scorer.store.images([image]).to(device)
    said = scorer.store.texts(captions).to(device)
    map_NTL = scorer.reader.word_maps(seen.rows(torch.zeros(len(said), dtype=torch.long)), said)
    found: Vectors = map_NTL[:, :, seen.mask_NL[0]].float().cpu().numpy()
    return found


def _by_word(scorer: ReaderScorer, caption: str, map_TL: Vectors) -> list[tuple[str, Vectors]]:
    """By word; by piece where it cannot be known which pieces form a word."""
    words = caption.split()
    twice = [f"{word} {word}" for word in words]
    count, *counts = scorer.count_tokens([caption, *words, *twice])
    columns = ends(count, counts[: len(words)], counts[len(words) :]) if words else None
    if columns is None:
        pieces = map_TL[:count]
        return [(f"piece {at}", map_L) for at, map_L in enumerate(pieces, start=1)][:MOST_WORDS]
    return [
        (word, map_TL[start:stop].mean(axis=0))
        for word, (start, stop) in zip(words, columns, strict=True)
        # Beyond the reader's last column there is nothing to show.
        if start < min(stop, len(map_TL))
    ][:MOST_WORDS]


def occlusion_maps(scorer: Scorer, image: ImageSource, caption: str) -> Maps:
    """What each patch does for each word, rows of patches from the top left.

    A scorer without a decoder on patches, one that sees no patches or was never taught to say
    captions, and patches that make no square raise UnbagError.
    """
    decoder = decoder_of(scorer)
    if decoder is None:
        raise UnbagError(f"{scorer.name} shows no patches that could be taken away")
    if isinstance(scorer, AskedCosine | Cosine):
        text = asked_of(scorer, caption)
        taken = cosine_effects(decoder, image, text, with_less(caption))
        found, about = list(of_caption(caption, taken)), OCCLUSION_COSINES
    else:
        text = PROMPT if decoder.settings.asks else ""
        found, about = [], OCCLUSION_LOGS
        taken = caption_effects(decoder, image, caption)
        for span in word_pieces(decoder, caption)[:MOST_WORDS]:
            # Logarithms of the pieces of a word add up to that of the word.
            pieces = slice(span.start, span.stop)
            log, fall_L = float(taken.whole_N[pieces].sum()), taken.fall_NL[pieces].sum(dim=0)
            found.append(of_word(span.word, log, fall_L))
    for _, map_L, _ in found:
        check_square(len(map_L), name=scorer.name, image=image)
    shown = tuple(
        WordMap(word, squared(map_L.float().numpy()), whole) for word, map_L, whole in found
    )
    return Maps(scorer.name, thumbnail(image), caption, shown, about, is_signed=True, asked=text)


def decoder_of(scorer: Scorer) -> PatchDecoder | None:
    """The decoder on patches that a scorer asks or embeds with; None for every other scorer."""
    model = model_of(scorer)
    return model if isinstance(model, PatchDecoder) else None


def model_of(scorer: Scorer) -> object:
    """The model that a scorer asks or embeds with; None where it has no such model."""
    if isinstance(scorer, Cosine) and isinstance(scorer.encoder, Vlm2Vec):
        return scorer.encoder.model
    return getattr(scorer, "model", None)


def covered_maps(scorer: Scorer, image: ImageSource, caption: str) -> Maps:
    """What each cell does for each word, rows of cells from the top left.

    A scorer without a chat model, one behind a server, and an image smaller than the grid raise
    UnbagError.
    """
    model = chat_of(scorer)
    if model is None:
        raise UnbagError(f"{scorer.name} asks no chat model about images")
    if isinstance(model, ServerModel):
        raise UnbagError(
            f"{model.name} is behind a server, which tells the probability of one token and not "
            "of a caption",
            expected="a chat model on this machine, such as hf:FOLDER",
        )
    images = covered(image)
    if isinstance(scorer, AskedCosine | Cosine):
        text, about = asked_of(scorer, caption), COVERED_COSINES
        hidden = hidden_generator(model)
        shown_BW = torch.cat(
            [hidden.last_hidden([(one, text) for one in some]) for some in _some(images)]
        )
        caption_NW = hidden.last_hidden([(None, one) for one in with_less(caption)])
        cosine_BN = unit(shown_BW).double() @ unit(caption_NW).double().T
        found = list(of_caption(caption, _taken(cosine_BN)))
    else:
        text, about = PROMPT, COVERED_LOGS
        found = list(_said_by_cell(model, images, caption))
    shown = tuple(WordMap(word, squared(map_L.numpy()), whole) for word, map_L, whole in found)
    return Maps(scorer.name, thumbnail(image), caption, shown, about, is_signed=True, asked=text)


def chat_of(scorer: Scorer) -> Generator | None:
    """The chat model that a scorer asks or embeds with; None for every other scorer."""
    model = model_of(scorer)
    return model if isinstance(model, Generator) and not scorer.is_blind else None


def covered(image: ImageSource) -> Iterator[PixelImage]:
    """The image as it is, then one for each cell in which that cell has the mean colour.

    All are of one size, and painted when they are asked for: a photograph is large, and all of its
    copies together may not fit. Cells differ by a pixel where the sides do not divide evenly.
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
    """Which pixels of a side each of so many cells takes."""
    edges = [round(at * pixels / count) for at in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]


def _said_by_cell(
    model: Generator, images: Iterable[ImageSource], caption: str
) -> Iterator[WordFall]:
    """Log-probabilities of words, each behind those before it.

    Where pieces of words are known, those of a word are added up; else a word is what it takes
    from the probability of the words before it, which asks for every beginning of the caption.
    """
    if isinstance(model, ChatModel):
        parts = word_pieces(model, caption)[:MOST_WORDS]
        words = [span.word for span in parts]
        log_BN = torch.tensor(
            [
                [sum(log_A[span.start : span.stop]) for span in parts]
                for (log_A,) in _logs(model, images, (caption,))
            ],
            dtype=torch.float64,
        )
    else:
        matches = list(WORD.finditer(caption))[:MOST_WORDS]
        words = [match.group() for match in matches]
        begun = tuple(caption[: match.end()] for match in matches)
        sums = [[0.0, *(sum(one) for one in row)] for row in _logs(model, images, begun)]
        log_BN = torch.tensor(sums, dtype=torch.float64).diff(dim=1)
    found = _taken(log_BN)
    for word, log, fall_L in zip(words, found.whole_N.tolist(), found.fall_NL, strict=True):
        yield of_word(word, log, fall_L)


def _logs(
    model: Generator, images: Iterable[ImageSource], answers: tuple[str, ...]
) -> Iterator[list[list[float]]]:
    """For each image, the log-probabilities of the tokens of each answer."""
    for some in _some(images):
        yield from logprobs_of(model, [Ask(one, PROMPT, answers) for one in some])


def _some(images: Iterable[ImageSource]) -> Iterator[list[ImageSource]]:
    left = iter(images)
    while some := list(islice(left, AT_ONCE)):
        yield some


def _taken(value_BN: Tensor) -> PatchEffects:
    return PatchEffects(value_BN[0], (value_BN[:1] - value_BN[1:]).T)


def asked_of(scorer: AskedCosine | Cosine, caption: str) -> str:
    """What stands behind the image where VLM2Vec embeds it."""
    question = about_relation([caption], is_turned=False)
    return instruction(question if isinstance(scorer, AskedCosine) else None)


def of_word(word: str, log: float, fall_L: Tensor) -> WordFall:
    """A word that is said, with the logarithm of its probability."""
    # Adding nothing takes the sign off zero.
    return word, fall_L, f"log p {round(log, 2) + 0.0:.2f}"


def with_less(caption: str) -> list[str]:
    """The whole caption, then without each word that is shown."""
    words = caption.split()
    less = (" ".join([*words[:at], *words[at + 1 :]]) for at in range(len(_shown(words))))
    return [caption, *less]


def of_caption(caption: str, found: PatchEffects) -> Iterator[WordFall]:
    """The whole caption, then what each word changes in it; found of `with_less`."""
    whole_L, *less_L = found.fall_NL
    yield WHOLE, whole_L, f"cosine {float(found.whole_N[0]):.3f}"
    for word, one_L in zip(_shown(caption.split()), less_L, strict=True):
        yield word, whole_L - one_L, ""


def _shown(words: Sequence[str]) -> Sequence[str]:
    return words[:MOST_WORDS] if len(words) > 1 else []


def check_square(patches: int, *, name: str, image: ImageSource) -> None:
    """Refuse patches that cannot be drawn over a square."""
    if isqrt(patches) ** 2 != patches:
        raise UnbagError(
            f"{name} has {patches} patches in {image.name}",
            expected="as many in a row as in a column",
        )


def squared(cosine_L: Vectors) -> tuple[tuple[float, ...], ...]:
    """Rows of patches from the top left."""
    side = isqrt(len(cosine_L))
    rows = np.round(cosine_L.astype(float), 4).reshape(side, side).tolist()
    return tuple(tuple(row) for row in rows)
