"""By how much the numbers of a decoder fall without each patch of an image.

A patch is taken away by putting the mean patch of the image in its place, after the image encoder
and before the language model, which then runs as always: so a difference is the patch's own doing.
Weights of attention would say where a layer looks, not what would change without it.

Dimensions: L patches, V width of features, B rows of a batch, T tokens, A tokens of an answer,
W width of the language model, C captions, N numbers that are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unbag.errors import UnbagError
from unbag.models.huggingface.chat import ChatModel
from unbag.readouts.decoder.model import PatchDecoder
from unbag.readouts.vlm2vec.model import unit
from unbag.scorers.prompts import OPTIONS
from unbag.types import ImageSource

PROMPT = next(prompt.caption for prompt in OPTIONS if prompt.is_published)
"""How a decoder is taught to say a caption."""
WORD = re.compile(r"\S+")
_NONE = -1
"""In place of a patch's number: nothing is taken away."""


def said(decoder: PatchDecoder, image: ImageSource, caption: str) -> PatchEffects:
    """Log-probabilities of the pieces of a caption, each behind those before it.

    The decoder is asked to describe the image. Raises UnbagError if it was never taught to.
    """
    settings = decoder.settings
    if decoder.embeds or (settings.asks and not settings.describe):
        why = "to embed" if decoder.embeds else "questions alone (describe=0)"
        raise UnbagError(
            f"{decoder.name} was taught {why}, not to say captions, so that its words have no "
            "probabilities to map",
            expected="a decoder that was trained with describe above 0",
            hint="--scorer vlm2vec maps cosines" if decoder.embeds else "train another",
        )
    ask, answer = decoder.preparer.prompts.tokenizer.ask(PROMPT), _pieces(decoder, caption)
    # The last piece is predicted, and not read.
    token_T = torch.tensor([*ask, *answer[:-1]], device=decoder.device)
    answer_A = torch.tensor(answer, device=decoder.device)
    head = decoder.net.language.get_output_embeddings()

    def read(hidden_BTW: Tensor) -> Tensor:
        log_BAV: Tensor = head(hidden_BTW[:, -len(answer) :]).float().log_softmax(dim=-1)
        return log_BAV.gather(2, answer_A.expand(len(log_BAV), -1)[..., None])[..., 0]

    log_BA = _run(decoder, image, token_T, read).double()
    return PatchEffects(log_BA[0], (log_BA[0] - log_BA[1:]).T)


def met(
    decoder: PatchDecoder, image: ImageSource, text: str, captions: Sequence[str]
) -> PatchEffects:
    """Cosines of an image, with `text` behind it as VLM2Vec asks, and each caption."""
    (row,) = decoder.hidden_rows([(None, text)])
    token_T = torch.tensor(row.prompt, device=decoder.device)
    image_BW = unit(_run(decoder, image, token_T, lambda hidden_BTW: hidden_BTW[:, -1]))
    caption_CW = unit(decoder.last_hidden([(None, caption) for caption in captions]))
    cosine_CB = caption_CW.double() @ image_BW.double().T
    return PatchEffects(cosine_CB[:, 0], cosine_CB[:, :1] - cosine_CB[:, 1:])


def spans(model: ChatModel, caption: str) -> tuple[WordPieces, ...]:
    """Which pieces are which word; pieces by number where a tokenizer goes across words."""
    whole = _pieces(model, caption)
    found: list[WordPieces] = []
    start = 0
    for match in WORD.finditer(caption):
        so_far = _pieces(model, caption[: match.end()])
        if so_far != whole[: len(so_far)]:
            return tuple(WordPieces(f"piece {at + 1}", at, at + 1) for at in range(len(whole)))
        found.append(WordPieces(match.group(), start, len(so_far)))
        start = len(so_far)
    return tuple(span for span in found if span.stop > span.start)


@dataclass(frozen=True, eq=False)
class PatchEffects:
    """Numbers with all patches, and by how much each falls when one of them is taken away.

    L counts the places that hold a patch. N are pieces of a caption, or captions.
    """

    whole_N: Tensor
    fall_NL: Tensor


@dataclass(frozen=True)
class WordPieces:
    """A word, and the pieces of the caption that it is made of."""

    word: str
    start: int
    stop: int


def occluded(patch_LV: Tensor, without: Sequence[int]) -> Tensor:
    """[B, L, V]: a row for each number, in which that patch is the mean of all; -1 for none.

    Places without a patch (zeros) stay as they are and are no part of the mean.
    """
    mean_V = patch_LV[_is_patch(patch_LV)].mean(dim=0)
    row_BLV = patch_LV.expand(len(without), -1, -1).clone()
    for b, at in enumerate(without):
        if at != _NONE:
            row_BLV[b, at] = mean_V
    return row_BLV


@torch.inference_mode()
def _run(
    decoder: PatchDecoder, image: ImageSource, token_T: Tensor, read: Callable[[Tensor], Tensor]
) -> Tensor:
    """What is read of a run with all patches, then of one without each, [1 + L, ...].

    All rows are of one length, so that none is padded and none knows of the others.
    """
    patch_LV = decoder.patches(image)
    tokens = len(patch_LV) + len(token_T)
    if decoder.context is not None and tokens > decoder.context:
        raise UnbagError(
            f"{decoder.name}: image and caption have {tokens} tokens",
            expected=f"at most {decoder.context}",
            hint="take a shorter caption",
        )

    def run(without: Sequence[int]) -> Tensor:
        token_BT = token_T.expand(len(without), -1)
        return read(decoder.net.hidden(occluded(patch_LV, without), token_BT))

    places: list[int] = torch.nonzero(_is_patch(patch_LV))[:, 0].tolist()
    return decoder.fitting(run, [_NONE, *places])


def _is_patch(patch_LV: Tensor) -> Tensor:
    return (patch_LV != 0).any(dim=-1)


def _pieces(model: ChatModel, text: str) -> list[int]:
    prompts = model.preparer.prompts
    return prompts.answer_tokens(prompts.render(PROMPT, sees=True), text)
