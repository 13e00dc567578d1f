"""A decoder: a chat model that sees an image as the patches of a frozen encoder.

The image stands first, one token a patch, then the text. A prompt runs as in the chat models of
transformers (`unbag.models.huggingface.chat`): each image is prepared and encoded once a batch,
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

_READERS = 4
"""Images that are prepared at once."""
_CAUSAL = "llava"
"""The family that it runs like: what stands first does not depend on what follows."""


@dataclass(frozen=True, eq=False)
class PatchDecoder(ChatModel):
    """A chat model on the patches of a frozen encoder; works with every protocol of questions."""

    embeds: bool = False
    """As in `Made`."""
    settings: DecoderSettings = field(default_factory=DecoderSettings)
    """As it was trained."""

    @property
    def encoder(self) -> DualEncoder:
        """The frozen encoder that it sees through."""
        assert isinstance(self.preparer, _Preparer)
        return self.preparer.encoder

    @property
    def net(self) -> DecoderNet:
        """Connector and language model."""
        assert isinstance(self.runner, CausalRunner)
        net: DecoderNet = self.runner.model
        return net

    def unknown_words(self, captions: Sequence[str]) -> list[str]:
        """Words that are all one token to it; none where it reads pieces of words."""
        return unknown_to(self.preparer.prompts.processor, captions)

    def patches(self, image: ImageSource) -> Tensor:
        """What the connector is given of an image, [L, V]; zeros at a place without a patch."""
        if self.settings.sees != "patches" or self.net.look is None:
            what = "one vector" if self.settings.sees == "cls" else "nothing"
            raise UnbagError(
                f"{self.name} sees {what} of an image, and no patches that could be taken away",
                expected="a decoder that was trained with sees=patches",
            )
        pixels = self.encoder.prepare(image.open())[None].to(self.device)
        return self.net.look(pixels)[0].float()

    def hidden_rows(self, asks: Sequence[tuple[ImageSource | None, str]]) -> list[ChatRow]:
        """The image, then the text: for vectors made of the last hidden state.

        The text as it is, or in the form of a question where the decoder learned to embed so.
        """
        seen = self._see(
            {p.key: (p, Rendered(text, text, "")) for p, text in asks if p is not None}
        )
        rows = []
        for image, text in asks:
            own = None if image is None else seen[image.key]
            tokens = tuple(self.preparer.prompts.tokens(text))
            if not tokens:
                raise UnbagError(
                    f"{self.name} was given an empty text to embed",
                    expected="words: a caption, an answer or an instruction",
                )
            if self.embeds:
                tokens = tuple(self.preparer.prompts.tokenizer.ask(text))
            rows.append(ChatRow(own, (() if own is None else own.head) + tokens, words=text))
            self._check_length(len(rows[-1].prompt), text)
        return rows

    def _see(self, first: Mapping[str, tuple[ImageSource, Rendered]]) -> dict[str, Seen]:
        """Every image once; an encoder prepares it, so transformers need not be there."""
        with ThreadPoolExecutor(_READERS) as pool:
            made = pool.map(lambda one: self.preparer.see(*one), first.values())
            return dict(zip(first, made, strict=True))


def patch_decoder(
    encoder: DualEncoder, made: Made, *, name: str, fingerprint: str, rows: int | None = None
) -> PatchDecoder:
    """Ready to be asked, on the encoder's device."""
    device, settings = encoder.device, made.settings
    view = view_of(settings)

    def look(pixels: Tensor) -> Tensor:
        found = image_tokens(view.encode_images(encoder, pixels), settings)
        assert found is not None
        if found.shape[1] != made.places:
            raise UnbagError(
                f"{encoder.name} gives {found.shape[1]} patches of an image",
                expected=f"{made.places}, as when the decoder was trained",
                hint="train it again for this encoder",
            )
        return found.to(device)

    made.net.look = look
    net = made.net.to(device).eval()
    prompts = _Prompts(name, _CAUSAL, made.words, "")
    return PatchDecoder(
        name=name,
        fingerprint=fingerprint,
        device=device,
        preparer=_Preparer(prompts, net.image_token, encoder, made.places),
        runner=CausalRunner(net, _CAUSAL if made.places else "", device, made.words.pad),
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
class Made:
    """What training made, and what it needs to be asked."""

    net: DecoderNet
    words: Words
    settings: DecoderSettings
    places: int
    """Tokens of an image."""
    context: int
    """Tokens of image, prompt and answer together."""
    embeds: bool = False
    """Whether it was trained to embed, with every text in the form of a question: VLM2Vec."""


def view_of(settings: DecoderSettings) -> View:
    """How a decoder looks at images; it reads captions by itself."""
    return View(f"decoder-{settings.layer}", partial(_look, layer=settings.layer), _read)


def _look(encoder: DualEncoder, pixels: Tensor, layer: str = "second_last") -> TokenFeatures:
    """Patches after a block of the image encoder, before the projection where it shows them."""
    if isinstance(encoder, LayerEncoder):
        layers = encoder.image_layers(pixels)
        # The last is what the norm makes of the last block, so the second to last block is third.
        at = -1 if layer == "last" else -3
        pooled_NW = layers.pooled_NW[at]
        vector_NLW, mask_NL = layers.vector_NLW[at], layers.mask_NL
    elif isinstance(encoder, TokenEncoder):
        found = encoder.encode_patches(pixels)
        pooled_NW, vector_NLW, mask_NL = None, found.vector_NLW, found.mask_NL
    else:
        raise UnbagError(
            f"{encoder.name} shows one vector for an image and no patches",
            expected="a model with patches: tiny:, open_clip:, hf: or photo:",
            hint="give your model picture_layers or encode_patches (docs/extending.md)",
        )
    if pooled_NW is None:
        # An encoder without such a place before its end (attention pooling).
        pooled_NW = encoder.encode_images(pixels)
    vector_NLW = vector_NLW.float().masked_fill(~mask_NL[..., None], 0)
    return TokenFeatures(vector_NLW, mask_NL, pooled_NW.float())


def _read(encoder: DualEncoder, captions: Sequence[str]) -> TokenFeatures:
    """Nothing: the language model reads captions by itself."""
    count = len(captions)
    return TokenFeatures(
        torch.zeros(count, 1, 1), torch.zeros(count, 1).bool(), torch.zeros(count, 1)
    )


def image_tokens(parts: TokenFeatures, settings: DecoderSettings) -> Tensor | None:
    """What stands for an image, [N, L, V]: its patches, the one vector it is pooled to, or none.

    Raises UnbagError if half precision cannot hold it.
    """
    if settings.sees == "nothing":
        return None
    found = parts.vector_NLW if settings.sees == "patches" else parts.pooled[:, None]
    if settings.keeps == "float32":
        return found.float()
    half = found.half()
    if not bool(half.isfinite().all()):
        raise UnbagError(
            f"features up to {float(found.abs().max()):,.0f} do not fit into float16",
            expected="numbers below 65,504",
            hint="--set keeps=float32",
        )
    return half


class DecoderNet(nn.Module):
    """A connector and a language model; the image encoder is a function that it does not own.

    Attention is causal and rows are padded on the right while training, so no mask is needed there.
    """

    def __init__(
        self,
        language: Any,
        *,
        width: int,
        look: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        """`width` is that of the features; `look` makes features of pixels, where it is asked."""
        super().__init__()
        self.language = language
        inner = int(language.config.hidden_size)
        self.connector = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, inner))
        self.look = look
        self.image_token = int(language.config.vocab_size)
        """Stands for one patch; no tokenizer gives it."""

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the weights."""
        return next(self.connector.parameters()).dtype

    def hidden(self, seen_BLV: Tensor | None, token_BT: Tensor) -> Tensor:
        """The last layer at each token of the text, [B, T, W]; None removes the image."""
        text_BTW = self.language.get_input_embeddings()(token_BT)
        inputs = text_BTW
        if seen_BLV is not None:
            seen_BLW = self.connector(seen_BLV.to(self.dtype)).to(text_BTW.dtype)
            inputs = torch.cat([seen_BLW, text_BTW], dim=1)
        found = self.language.base_model(inputs_embeds=inputs, use_cache=False)
        hidden_BTW: Tensor = found.last_hidden_state[:, -token_BT.shape[1] :]
        return hidden_BTW

    def answered(self, seen_BLV: Tensor | None, batch: LessonBatch) -> Tensor:
        """Logits of each token of the answers, [B, A, vocabulary]."""
        hidden_BTW = self.hidden(seen_BLV, batch.token_BT)
        at_BAW = batch.at_BA[..., None].expand(-1, -1, hidden_BTW.shape[-1])
        logit: Tensor = self.language.get_output_embeddings()(hidden_BTW.gather(1, at_BAW))
        return logit

    def loss(self, seen_BLV: Tensor | None, batch: LessonBatch) -> Tensor:
        """Mean over rows of the mean over an answer's tokens: no kind counts more by its length."""
        logit_BAV = self.answered(seen_BLV, batch).float()
        lost_BA = functional.cross_entropy(
            logit_BAV.transpose(1, 2), batch.target_BA, ignore_index=NOTHING, reduction="none"
        )
        return (lost_BA.sum(dim=1) / (batch.target_BA != NOTHING).sum(dim=1)).mean()

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
        """As chat models of transformers are run; rows are padded on the left."""
        found = self.base_model(
            input_ids, attention_mask, position_ids, past_key_values, use_cache, pixels
        )
        last = found.last_hidden_state[:, -logits_to_keep:]
        return NetOutput(self.language.get_output_embeddings()(last), found.past_key_values)

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
        """The same up to the last layer, without logits."""
        return self.language.base_model(
            inputs_embeds=self._embedded(input_ids, pixels),
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            use_cache=use_cache,
            return_dict=return_dict,
        )

    def _embedded(self, token_BT: Tensor, pixels: Tensor | None) -> Tensor:
        """Vectors of the tokens, with the connector's in place of the image's."""
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
    """What the protocols of chat models look at."""

    logits: Tensor
    past_key_values: Any


@dataclass(frozen=True, eq=False)
class _Prompts(Prompts):
    """Prompts in the one form that the decoder was taught; the processor is its vocabulary."""

    @property
    def tokenizer(self) -> Words:
        """The vocabulary of the language model."""
        words: Words = self.processor
        return words

    def render(self, prompt: str, *, sees: bool) -> Rendered:
        """Tokens are made from the words themselves."""
        return Rendered(prompt, prompt, "")

    def answer_tokens(self, rendered: Rendered, answer: str, *, ends: bool = False) -> list[int]:
        """Tokens of an answer, with its end if asked for."""
        return self.tokenizer.answer(rendered.text, answer) + ([self.end] if ends else [])

    def tokens(self, text: str, *, is_start: bool = False) -> list[int]:
        """Tokens of a text as it is."""
        return self.tokenizer.plain(text)

    @property
    def end(self) -> int:
        """The token that ends an answer."""
        return self.tokenizer.end


@dataclass(frozen=True, eq=False)
class _Preparer(Preparer):
    """Prepares images as the frozen encoder does."""

    encoder: DualEncoder
    places: int
    """Tokens of an image; 0 where none is seen."""

    def see(self, image: ImageSource, rendered: Rendered) -> Seen:
        """Open and prepare an image; OSError or ValueError if it is damaged."""
        if not self.places:
            return Seen((), {}, {}, ())
        pixels = self.encoder.prepare(image.open())[None]
        return Seen((self.image_token_id,) * self.places, {}, {"pixels": pixels}, ())

    def prompt_of(self, seen: Seen | None, rendered: Rendered) -> tuple[int, ...]:
        """The image, then the prompt."""
        head = () if seen is None else seen.head
        words: Words = self.prompts.processor
        return (*head, *words.ask(rendered.text))
