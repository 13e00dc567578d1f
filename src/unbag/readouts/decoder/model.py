"""A decoder: a chat model that reads an image as patches of a frozen encoder.

The image comes first, one token per patch, then the text. Prompts run as in the chat models of
transformers (`unbag.models.huggingface.chat`): each image is prepared and encoded once per batch,
and all prompts about it share its tokens.

Dimensions: N images, B rows, L patches, V width of the image encoder, W width of the language
model, T tokens of text, A tokens of an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from warnings import warn

import torch
from torch import Tensor, nn
from torch.nn import functional

from unbag.errors import UnbagError
from unbag.evaluation.scoring import unknown_to
from unbag.models.batching import Fitting
from unbag.models.features import View
from unbag.models.huggingface.chat import ChatModel
from unbag.models.huggingface.chat_inputs import ChatRow, Preparer, Prompts, Rendered, Seen
from unbag.models.huggingface.chat_runner import CausalRunner
from unbag.readouts.decoder.lessons import NOTHING, DecoderSettings, LessonBatch, Words
from unbag.types import DualEncoder, ImageSource, LayerEncoder, TokenEncoder, TokenFeatures

_THREADS = 4
"""Threads that prepare images."""
_FAMILY = "llava"
"""The model family it runs like: earlier tokens do not depend on later ones."""


@dataclass(frozen=True, eq=False)
class PatchDecoder(ChatModel):
    """A chat model on the patches of a frozen encoder, for all chat protocols."""

    embeds: bool = False
    """As in `DecoderParts`."""
    settings: DecoderSettings = field(default_factory=DecoderSettings)
    """Settings of its training."""

    @property
    def image_encoder(self) -> DualEncoder:
        """Return the frozen image encoder."""
        assert isinstance(self.preparer, _Preparer)
        return self.preparer.encoder

    @property
    def net(self) -> DecoderNet:
        """Return connector and language model."""
        assert isinstance(self.runner, CausalRunner)
        net: DecoderNet = self.runner.model
        return net

    def unknown_words(self, captions: Sequence[str]) -> list[str]:
        """Return words that are not in a word-level vocabulary; none for other tokenizers."""
        return unknown_to(self.preparer.prompts.processor, captions)

    def patches(self, image: ImageSource) -> Tensor:
        """Return the patches of an image, the connector's input, [L, V]; zeros for padding."""
        if self.settings.sees != "patches" or self.net.look is None:
            input_kind = "one vector" if self.settings.sees == "cls" else "nothing"
            raise UnbagError(
                f"{self.name} sees {input_kind} of an image, and no patches that could be removed",
                expected="a decoder that was trained with sees=patches",
            )
        pixels = self.image_encoder.prepare(image.open())[None].to(self.device)
        return self.net.look(pixels)[0].float()

    def hidden_rows(self, asks: Sequence[tuple[ImageSource | None, str]]) -> list[ChatRow]:
        """Return rows of image and text, of which the last hidden state is an embedding.

        A decoder that was trained to embed reads the text in the format of a question.
        """
        seen = self._prepare_images(
            {
                image.key: (image, Rendered(text, text, ""))
                for image, text in asks
                if image is not None
            }
        )
        rows = []
        for image, text in asks:
            image_input = None if image is None else seen[image.key]
            tokens = tuple(self.preparer.prompts.tokens(text))
            if not tokens:
                raise UnbagError(
                    f"{self.name} was given an empty text to embed",
                    expected="words: a caption, an answer or an instruction",
                )
            if self.embeds:
                tokens = tuple(self.preparer.prompts.tokenizer.ask(text))
            rows.append(
                ChatRow(
                    image_input,
                    (() if image_input is None else image_input.head) + tokens,
                    words=text,
                )
            )
            self._check_length(len(rows[-1].prompt), text)
        return rows

    def _prepare_images(
        self, images: Mapping[str, tuple[ImageSource, Rendered]]
    ) -> dict[str, Seen]:
        """Prepare every image once, with the encoder and without transformers."""
        with ThreadPoolExecutor(_THREADS) as pool:
            prepared = pool.map(
                lambda image_and_prompt: self.preparer.see(*image_and_prompt), images.values()
            )
            return dict(zip(images, prepared, strict=True))


def patch_decoder(
    encoder: DualEncoder,
    made: DecoderParts,
    *,
    name: str,
    fingerprint: str,
    rows: int | None = None,
) -> PatchDecoder:
    """Make a chat model of an encoder and a trained decoder, on the encoder's device."""
    device, settings = encoder.device, made.settings
    view = view_of(settings)

    def look(pixels: Tensor) -> Tensor:
        features = image_tokens(view.encode_images(encoder, pixels), settings)
        assert features is not None
        if features.shape[1] != made.places:
            raise UnbagError(
                f"{encoder.name} gives {features.shape[1]} patches of an image",
                expected=f"{made.places}, as when the decoder was trained",
                hint="train it again for this encoder",
            )
        return features.to(device)

    made.net.look = look
    net = made.net.to(device).eval()
    prompts = _Prompts(name, _FAMILY, made.words, "")
    return PatchDecoder(
        name=name,
        fingerprint=fingerprint,
        device=device,
        preparer=_Preparer(prompts, net.image_token, encoder, made.places),
        runner=CausalRunner(net, _FAMILY if made.places else "", device, made.words.pad),
        fitting=Fitting(
            name,
            lambda text: warn(text, stacklevel=2),
            most=rows or (256 if torch.device(device).type == "cuda" else 64),
        ),
        ends=frozenset({made.words.end}),
        context=made.context,
        embeds=made.embeds,
        settings=settings,
    )


@dataclass(frozen=True, eq=False)
class DecoderParts:
    """A trained decoder with all that is needed to run it."""

    net: DecoderNet
    words: Words
    settings: DecoderSettings
    places: int
    """Number of tokens of an image."""
    context: int
    """Maximum number of tokens of image, prompt and answer together."""
    embeds: bool = False
    """Whether it was trained to embed (VLM2Vec), with every text in the format of a question."""


def view_of(settings: DecoderSettings) -> View:
    """Return the view of images for a decoder, which reads captions itself."""
    return View(
        f"decoder-{settings.layer}",
        partial(_encode_images, layer=settings.layer),
        _encode_no_captions,
    )


def _encode_images(
    encoder: DualEncoder, pixels: Tensor, layer: str = "second_last"
) -> TokenFeatures:
    """Return patches after a block of the image encoder, before the projection if possible."""
    if isinstance(encoder, LayerEncoder):
        layers = encoder.image_layers(pixels)
        # The last layer is the norm of the last block, so the second to last block is at -3.
        index = -1 if layer == "last" else -3
        pooled_NW = layers.pooled_NW[index]
        vector_NLW, mask_NL = layers.vector_NLW[index], layers.mask_NL
    elif isinstance(encoder, TokenEncoder):
        patches = encoder.encode_patches(pixels)
        pooled_NW, vector_NLW, mask_NL = None, patches.vector_NLW, patches.mask_NL
    else:
        raise UnbagError(
            f"{encoder.name} returns one vector for an image and no patches",
            expected="a model with patches: tiny:, open_clip:, hf: or photo:",
            hint="add image_layers or encode_patches to your model (docs/how-to/extend.md)",
        )
    if pooled_NW is None:
        # Encoders with attention pooling have no pooled vector before their end.
        pooled_NW = encoder.encode_images(pixels)
    vector_NLW = vector_NLW.float().masked_fill(~mask_NL[..., None], 0)
    return TokenFeatures(vector_NLW, mask_NL, pooled_NW.float())


def _encode_no_captions(encoder: DualEncoder, captions: Sequence[str]) -> TokenFeatures:
    """Return zeros: the language model reads captions itself."""
    count = len(captions)
    return TokenFeatures(
        torch.zeros(count, 1, 1), torch.zeros(count, 1).bool(), torch.zeros(count, 1)
    )


def image_tokens(parts: TokenFeatures, settings: DecoderSettings) -> Tensor | None:
    """Return the tokens of images, [N, L, V]: patches, the pooled vector, or None.

    Raises UnbagError if half precision overflows.
    """
    if settings.sees == "nothing":
        return None
    features = parts.vector_NLW if settings.sees == "patches" else parts.pooled[:, None]
    if settings.keeps == "float32":
        return features.float()
    half = features.half()
    if not bool(half.isfinite().all()):
        raise UnbagError(
            f"features up to {float(features.abs().max()):,.0f} do not fit into float16",
            expected="numbers below 65,504",
            hint="--set keeps=float32",
        )
    return half


class DecoderNet(nn.Module):
    """A connector and a language model, without the image encoder, which is a function.

    Attention is causal and rows are padded on the right during training, so no mask is needed.
    """

    def __init__(
        self,
        language: Any,
        *,
        width: int,
        look: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        """Take a language model, the width of features, and a function from pixels to features."""
        super().__init__()
        self.language = language
        hidden_width = int(language.config.hidden_size)
        self.connector = nn.Sequential(
            nn.Linear(width, hidden_width), nn.GELU(), nn.Linear(hidden_width, hidden_width)
        )
        self.look = look
        self.image_token = int(language.config.vocab_size)
        """Token of a patch, outside the vocabulary."""

    @property
    def dtype(self) -> torch.dtype:
        """Return the precision of the weights."""
        return next(self.connector.parameters()).dtype

    def hidden(self, seen_BLV: Tensor | None, token_BT: Tensor) -> Tensor:
        """Return the last layer at each token of the text, [B, T, W]; None removes the image."""
        text_BTW = self.language.get_input_embeddings()(token_BT)
        inputs = text_BTW
        if seen_BLV is not None:
            seen_BLW = self.connector(seen_BLV.to(self.dtype)).to(text_BTW.dtype)
            inputs = torch.cat([seen_BLW, text_BTW], dim=1)
        output = self.language.base_model(inputs_embeds=inputs, use_cache=False)
        hidden_BTW: Tensor = output.last_hidden_state[:, -token_BT.shape[1] :]
        return hidden_BTW

    def answered(self, seen_BLV: Tensor | None, batch: LessonBatch) -> Tensor:
        """Return logits for each token of the answers, [B, A, vocabulary]."""
        hidden_BTW = self.hidden(seen_BLV, batch.token_BT)
        at_BAW = batch.at_BA[..., None].expand(-1, -1, hidden_BTW.shape[-1])
        logit: Tensor = self.language.get_output_embeddings()(hidden_BTW.gather(1, at_BAW))
        return logit

    def loss(self, seen_BLV: Tensor | None, batch: LessonBatch) -> Tensor:
        """Return the mean over rows of the mean over tokens, so that long answers count no more."""
        logit_BAV = self.answered(seen_BLV, batch).float()
        loss_BA = functional.cross_entropy(
            logit_BAV.transpose(1, 2), batch.target_BA, ignore_index=NOTHING, reduction="none"
        )
        return (loss_BA.sum(dim=1) / (batch.target_BA != NOTHING).sum(dim=1)).mean()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        position_ids: Tensor,
        past_key_values: Any = None,
        use_cache: bool = False,
        logits_to_keep: int = 1,
        pixels: Tensor | None = None,
        return_dict: bool = True,
    ) -> NetOutput:
        """Run like a chat model of transformers; rows are padded on the left."""
        output = self.base_model(
            input_ids, attention_mask, position_ids, past_key_values, use_cache, pixels
        )
        last_hidden = output.last_hidden_state[:, -logits_to_keep:]
        return NetOutput(self.language.get_output_embeddings()(last_hidden), output.past_key_values)

    def base_model(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        position_ids: Tensor,
        past_key_values: Any = None,
        use_cache: bool = False,
        pixels: Tensor | None = None,
        return_dict: bool = True,
    ) -> Any:
        """Like `forward`, up to the last layer and without logits."""
        return self.language.base_model(
            inputs_embeds=self._embedded(input_ids, pixels),
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            use_cache=use_cache,
            return_dict=return_dict,
        )

    def _embedded(self, token_BT: Tensor, pixels: Tensor | None) -> Tensor:
        """Return token embeddings, with the connector's output at image tokens."""
        is_image_BT = token_BT == self.image_token
        text_BTW: Tensor = self.language.get_input_embeddings()(
            token_BT.masked_fill(is_image_BT, 0)
        )
        if pixels is None or self.look is None:
            return text_BTW
        seen_BLW = self.connector(self.look(pixels).to(text_BTW))
        return text_BTW.masked_scatter(is_image_BT[..., None], seen_BLW)


@dataclass(frozen=True, eq=False)
class NetOutput:
    """The output that the chat protocols read."""

    logits: Tensor
    past_key_values: Any


@dataclass(frozen=True, eq=False)
class _Prompts(Prompts):
    """Prompts in the format of the decoder's training; the processor is its vocabulary."""

    @property
    def tokenizer(self) -> Words:
        """Return the vocabulary of the language model."""
        words: Words = self.processor
        return words

    def render(self, prompt: str, *, sees: bool) -> Rendered:
        """Return the prompt unchanged; tokens are made of its words."""
        return Rendered(prompt, prompt, "")

    def answer_tokens(self, rendered: Rendered, answer: str, *, ends: bool = False) -> list[int]:
        """Return the tokens of an answer, with the end token if `ends`."""
        return self.tokenizer.answer(rendered.text, answer) + ([self.end] if ends else [])

    def tokens(self, text: str, *, is_start: bool = False) -> list[int]:
        """Return the tokens of a plain text."""
        return self.tokenizer.plain(text)

    @property
    def end(self) -> int:
        """Return the token that ends an answer."""
        return self.tokenizer.end


@dataclass(frozen=True, eq=False)
class _Preparer(Preparer):
    """Prepares images with the frozen encoder."""

    encoder: DualEncoder
    places: int
    """Number of tokens of an image; 0 if images are not seen."""

    def see(self, image: ImageSource, rendered: Rendered) -> Seen:
        """Open and prepare an image; raise OSError or ValueError if it is damaged."""
        if not self.places:
            return Seen((), {}, {}, ())
        pixels = self.encoder.prepare(image.open())[None]
        return Seen((self.image_token_id,) * self.places, {}, {"pixels": pixels}, ())

    def prompt_of(self, seen: Seen | None, rendered: Rendered) -> tuple[int, ...]:
        """Return the tokens of the image, then of the prompt."""
        head = () if seen is None else seen.head
        words: Words = self.prompts.processor
        return (*head, *words.ask(rendered.text))
