"""A decoder or a VLM2Vec on patches, a picture and a caption come in; maps of words go out.

A number says what becomes worse without one patch (`unbag.readouts.occluded`).

Dimensions: L patches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from unbag.engine.gallery import thumbnail
from unbag.errors import UserError
from unbag.probes.maps import MOST_WORDS, check_square, squared
from unbag.probes.plots import Maps, WordMap
from unbag.probes.reader_maps import WHOLE
from unbag.readouts.decoder_model import PatchDecoder
from unbag.readouts.occluded import PROMPT, Taken, met, said, spans
from unbag.readouts.vlm2vec_encoder import Vlm2Vec
from unbag.readouts.vlm2vec_prompts import about_relation, instruction
from unbag.readouts.vlm2vec_score import AskedCosine
from unbag.scorers.cosine import Cosine
from unbag.types import Picture, Scorer


def about_said(taken: str, part: str, parts: str) -> str:
    """What a map of log-probabilities shows; `taken` says how, `part` what is taken away."""
    return (
        f"It is asked to say the caption. {taken}the log-probability of the word, behind the words "
        f"before it, then falls: orange where the {part} speaks for the word, blue where it speaks "
        "against it. A word that those before it already tell (of, behind left) stays pale "
        f"whatever the picture shows. What several {parts} show alike is not missed where one of "
        "them is gone. This is no map of its answers to questions, such as Yes."
    )


def about_met(taken: str, part: str, parts: str) -> str:
    """The same of a map of cosines."""
    return (
        f"{taken}its cosine with the caption then falls: orange where the {part} brings both "
        "together, blue where it keeps them apart. A caption is one vector and not one for each "
        "word: the map of a word is that of the whole caption less that of the caption without "
        f"this word, so what the {part} does for the cosine because the word is there. What "
        f"several {parts} show alike is not missed where one of them is gone."
    )


_TAKEN = (
    "One patch at a time is replaced by the mean patch of the picture, and a number is by how much "
)
SAID = about_said(_TAKEN, "patch", "patches")
MET = about_met(_TAKEN, "patch", "patches")
Found = tuple[str, Tensor, str]
"""A word, its map [L], and its number with all patches in words."""


def model_of(scorer: Scorer) -> object:
    """The model that a scorer asks or embeds with; None where it has no such model."""
    if isinstance(scorer, Cosine) and isinstance(scorer.encoder, Vlm2Vec):
        return scorer.encoder.model
    return getattr(scorer, "model", None)


def decoder_of(scorer: Scorer) -> PatchDecoder | None:
    """The decoder on patches that a scorer asks or embeds with; None for every other scorer."""
    model = model_of(scorer)
    return model if isinstance(model, PatchDecoder) else None


def asked_of(scorer: AskedCosine | Cosine, caption: str) -> str:
    """What stands behind the picture where VLM2Vec embeds it."""
    question = about_relation([caption], is_turned=False)
    return instruction(question if isinstance(scorer, AskedCosine) else None)


def occlusion_maps(scorer: Scorer, picture: Picture, caption: str) -> Maps:
    """What each patch does for each word, rows of patches from the top left.

    A scorer without a decoder on patches, one that sees no patches or was never taught to say
    captions, and patches that make no square raise UserError.
    """
    decoder = decoder_of(scorer)
    if decoder is None:
        raise UserError(f"{scorer.name} shows no patches that could be taken away")
    if isinstance(scorer, AskedCosine | Cosine):
        text = asked_of(scorer, caption)
        taken = met(decoder, picture, text, with_less(caption))
        found, about = list(of_caption(caption, taken)), MET
    else:
        text = PROMPT if decoder.settings.asks else ""
        found, about = list(_said(decoder, picture, caption)), SAID
    shown = tuple(
        WordMap(word, _grid(map_L, scorer, picture), whole) for word, map_L, whole in found
    )
    return Maps(scorer.name, thumbnail(picture), caption, shown, about, is_signed=True, asked=text)


def _grid(map_L: Tensor, scorer: Scorer, picture: Picture) -> tuple[tuple[float, ...], ...]:
    check_square(len(map_L), name=scorer.name, picture=picture)
    return squared(map_L.float().numpy())


def _said(decoder: PatchDecoder, picture: Picture, caption: str) -> Iterator[Found]:
    """Logarithms of the pieces of a word add up to that of the word."""
    found = said(decoder, picture, caption)
    for span in spans(decoder, caption)[:MOST_WORDS]:
        pieces = slice(span.start, span.stop)
        fall_L = found.fall_NL[pieces].sum(dim=0)
        yield of_word(span.word, float(found.whole_N[pieces].sum()), fall_L)


def of_word(word: str, log: float, fall_L: Tensor) -> Found:
    """A word that is said, with the logarithm of its probability."""
    # Adding nothing takes the sign off zero.
    return word, fall_L, f"log p {round(log, 2) + 0.0:.2f}"


def with_less(caption: str) -> list[str]:
    """The whole caption, then without each word that is shown."""
    words = caption.split()
    return [caption, *(_without(words, at) for at in range(len(_shown(words))))]


def of_caption(caption: str, found: Taken) -> Iterator[Found]:
    """The whole caption, then what each word changes in it; found of `with_less`."""
    whole_L, *less_L = found.fall_NL
    yield WHOLE, whole_L, f"cosine {float(found.whole_N[0]):.3f}"
    for word, one_L in zip(_shown(caption.split()), less_L, strict=True):
        yield word, whole_L - one_L, ""


def _shown(words: Sequence[str]) -> Sequence[str]:
    return words[:MOST_WORDS] if len(words) > 1 else []


def _without(words: Sequence[str], at: int) -> str:
    return " ".join([*words[:at], *words[at + 1 :]])
