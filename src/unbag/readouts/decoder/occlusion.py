"""Occlusion: how much the output of a decoder falls without each patch of an image.

A patch is removed by replacing it with the mean patch of the image, after the image encoder and
before the language model. So the difference is caused by the patch. Attention weights would show
where a layer looks, not what changes without a patch.

Dimensions: L patches, V width of features, B rows of a batch, T tokens, A tokens of an answer,
W width of the language model, C captions, N outputs.
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
"""Prompt with which a decoder is trained to describe an image."""
WORD = re.compile(r"\S+")
_NONE = -1
"""In place of a patch index: no patch is removed."""


def caption_effects(decoder: PatchDecoder, image: ImageSource, caption: str) -> PatchEffects:
    """Return the log-probability of each token of a caption as the description of an image.

    Raises UnbagError if the decoder was not trained to describe images.
    """
    settings = decoder.settings
    if decoder.embeds or (settings.asks and not settings.describe):
        purpose = "to embed" if decoder.embeds else "on questions only (describe=0)"
        raise UnbagError(
            f"{decoder.name} was trained {purpose}, not to describe images, so its words have no "
            "probabilities to map",
            expected="a decoder that was trained with describe above 0",
            hint="--scorer vlm2vec maps cosines" if decoder.embeds else "train another",
        )
    prompt, caption_tokens = (
        decoder.preparer.prompts.tokenizer.ask(PROMPT),
        _tokens(decoder, caption),
    )
    # The last token is predicted, not read.
    token_T = torch.tensor([*prompt, *caption_tokens[:-1]], device=decoder.device)
    answer_A = torch.tensor(caption_tokens, device=decoder.device)
    head = decoder.net.language.get_output_embeddings()

    def read(hidden_BTW: Tensor) -> Tensor:
        log_BAV: Tensor = head(hidden_BTW[:, -len(caption_tokens) :]).float().log_softmax(dim=-1)
        return log_BAV.gather(2, answer_A.expand(len(log_BAV), -1)[..., None])[..., 0]

    log_BA = _run(decoder, image, token_T, read).double()
    return PatchEffects(log_BA[0], (log_BA[0] - log_BA[1:]).T)


def cosine_effects(
    decoder: PatchDecoder, image: ImageSource, text: str, captions: Sequence[str]
) -> PatchEffects:
    """Return the cosine of an image, followed by the prompt `text`, with each caption."""
    (row,) = decoder.hidden_rows([(None, text)])
    token_T = torch.tensor(row.prompt, device=decoder.device)
    image_BW = unit(_run(decoder, image, token_T, lambda hidden_BTW: hidden_BTW[:, -1]))
    caption_CW = unit(decoder.last_hidden([(None, caption) for caption in captions]))
    cosine_CB = caption_CW.double() @ image_BW.double().T
    return PatchEffects(cosine_CB[:, 0], cosine_CB[:, :1] - cosine_CB[:, 1:])


def word_pieces(model: ChatModel, caption: str) -> tuple[WordPieces, ...]:
    """Assign tokens to words; number the tokens if one of them spans several words."""
    tokens = _tokens(model, caption)
    words: list[WordPieces] = []
    start = 0
    for match in WORD.finditer(caption):
        prefix = _tokens(model, caption[: match.end()])
        if prefix != tokens[: len(prefix)]:
            return tuple(WordPieces(f"piece {i + 1}", i, i + 1) for i in range(len(tokens)))
        words.append(WordPieces(match.group(), start, len(prefix)))
        start = len(prefix)
    return tuple(span for span in words if span.stop > span.start)


@dataclass(frozen=True, eq=False)
class PatchEffects:
    """Outputs with all patches, and how much each falls when one patch is removed.

    L counts the positions that hold a patch. N are tokens of a caption, or captions.
    """

    whole_N: Tensor
    fall_NL: Tensor


@dataclass(frozen=True)
class WordPieces:
    """A word and the range of its tokens in the caption."""

    word: str
    start: int
    stop: int


def occluded(patch_LV: Tensor, removed: Sequence[int]) -> Tensor:
    """Return a row for each index, with that patch replaced by the mean, [B, L, V]; -1 is none.

    Positions without a patch (zeros) do not change and do not count in the mean.
    """
    mean_V = patch_LV[_is_patch(patch_LV)].mean(dim=0)
    row_BLV = patch_LV.expand(len(removed), -1, -1).clone()
    for b, patch in enumerate(removed):
        if patch != _NONE:
            row_BLV[b, patch] = mean_V
    return row_BLV


@torch.inference_mode()
def _run(
    decoder: PatchDecoder, image: ImageSource, token_T: Tensor, read: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return `read` of a forward pass with all patches, then without each, [1 + L, ...].

    All rows have the same length, so none is padded.
    """
    patch_LV = decoder.patches(image)
    tokens = len(patch_LV) + len(token_T)
    if decoder.context is not None and tokens > decoder.context:
        raise UnbagError(
            f"{decoder.name}: image and caption have {tokens} tokens",
            expected=f"at most {decoder.context}",
            hint="use a shorter caption",
        )

    def run(removed: Sequence[int]) -> Tensor:
        token_BT = token_T.expand(len(removed), -1)
        return read(decoder.net.hidden(occluded(patch_LV, removed), token_BT))

    places: list[int] = torch.nonzero(_is_patch(patch_LV))[:, 0].tolist()
    return decoder.fitting(run, [_NONE, *places])


def _is_patch(patch_LV: Tensor) -> Tensor:
    return (patch_LV != 0).any(dim=-1)


def _tokens(model: ChatModel, text: str) -> list[int]:
    prompts = model.preparer.prompts
    return prompts.answer_tokens(prompts.render(PROMPT, sees=True), text)
