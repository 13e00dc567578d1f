"""A frozen encoder and a trained decoder come in; a chat model that sees its patches goes out.

The run of a prompt is that of the chat models of transformers (`unbag.models.hf_chat_model`): each
picture is prepared and encoded once a batch, and all prompts about it share its tokens.

Dimensions: N pictures, L patches, V width of features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING
from warnings import warn

import torch

from unbag.engine.unknown_words import unknown_to
from unbag.errors import UserError
from unbag.models.fitting import Fitting
from unbag.models.hf_chat_inputs import Preparer, Row, Seen
from unbag.models.hf_chat_model import ChatModel
from unbag.models.hf_chat_prompt import Prompts, Rendered
from unbag.models.hf_chat_run import CausalRunner
from unbag.readouts.decoder_net import DecoderNet, picture_tokens
from unbag.readouts.decoder_settings import DecoderSettings
from unbag.readouts.decoder_words import Words
from unbag.readouts.parts import Parts, View
from unbag.types import DualEncoder, LayerEncoder, Picture, TokenEncoder

if TYPE_CHECKING:
    from torch import Tensor

_READERS = 4
_CAUSAL = "llava"
"""As this family: what stands first does not depend on what follows."""


def view_of(settings: DecoderSettings) -> View:
    """How a decoder looks at pictures; it reads captions by itself."""
    return View(f"decoder-{settings.layer}", partial(_look, layer=settings.layer), _read)


def _look(encoder: DualEncoder, pixels: Tensor, layer: str = "second_last") -> Parts:
    """Patches after a block of the picture tower, before the projection where it shows them."""
    if isinstance(encoder, LayerEncoder):
        layers = encoder.picture_layers(pixels)
        # The last is what the norm makes of the last block, so the second to last block is third.
        at = -1 if layer == "last" else -3
        pooled_NW = layers.pooled_NW[at]
        vector_NLW, mask_NL = layers.vector_NLW[at], layers.mask_NL
    elif isinstance(encoder, TokenEncoder):
        found = encoder.encode_patches(pixels)
        pooled_NW, vector_NLW, mask_NL = None, found.vector_NLD, found.mask_NL
    else:
        raise UserError(
            f"{encoder.name} shows one vector for a picture and no patches",
            expected="a model with patches: tiny:, open_clip:, hf: or photo:",
            way_out="give your model picture_layers or encode_patches (docs/extending.md)",
        )
    if pooled_NW is None:
        # A tower without such a place before its end (attention pooling).
        pooled_NW = encoder.encode_pictures(pixels)
    vector_NLW = vector_NLW.float().masked_fill(~mask_NL[..., None], 0)
    return Parts(vector_NLW, mask_NL, pooled_NW.float())


def _read(encoder: DualEncoder, captions: Sequence[str]) -> Parts:
    """Nothing: the language model reads captions by itself."""
    count = len(captions)
    return Parts(torch.zeros(count, 1, 1), torch.zeros(count, 1).bool(), torch.zeros(count, 1))


@dataclass(frozen=True, eq=False)
class _Prompts(Prompts):
    """Prompts in the one form that the decoder was taught; the processor is its vocabulary."""

    @property
    def tokenizer(self) -> Words:
        """Of the language model."""
        words: Words = self.processor
        return words

    def render(self, prompt: str, *, sees: bool) -> Rendered:
        """Tokens are made from the words themselves."""
        return Rendered(prompt, prompt, "")

    def answer_tokens(self, rendered: Rendered, answer: str, *, ends: bool = False) -> list[int]:
        """Tokens of an answer, with its end if asked for."""
        return self.tokenizer.answer(rendered.text, answer) + ([self.end] if ends else [])

    def tokens(self, text: str, *, is_start: bool = False) -> list[int]:
        """Of a text as it is."""
        return self.tokenizer.plain(text)

    @property
    def end(self) -> int:
        """Ends an answer."""
        return self.tokenizer.end


@dataclass(frozen=True, eq=False)
class _Preparer(Preparer):
    """Prepares pictures as the frozen encoder does."""

    encoder: DualEncoder
    places: int
    """Tokens of a picture; 0 where none is seen."""

    def see(self, picture: Picture, rendered: Rendered) -> Seen:
        """Open and prepare a picture; OSError or ValueError if it is damaged."""
        if not self.places:
            return Seen((), {}, {}, ())
        pixels = self.encoder.prepare(picture.open())[None]
        return Seen((self.image_token_id,) * self.places, {}, {"pixels": pixels}, ())

    def prompt_of(self, seen: Seen | None, rendered: Rendered) -> tuple[int, ...]:
        """The picture, then the prompt."""
        head = () if seen is None else seen.head
        words: Words = self.prompts.processor
        return (*head, *words.ask(rendered.text))


@dataclass(frozen=True, eq=False)
class PatchDecoder(ChatModel):
    """A chat model on the patches of a frozen encoder; works with every protocol of questions."""

    embeds: bool = False
    """As in `Made`."""
    settings: DecoderSettings = field(default_factory=DecoderSettings)
    """As it was trained."""

    @property
    def tower(self) -> DualEncoder:
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

    def patches(self, picture: Picture) -> Tensor:
        """What the connector is given of a picture, [L, V]; zeros at a place without a patch."""
        if self.settings.sees != "patches" or self.net.look is None:
            what = "one vector" if self.settings.sees == "cls" else "nothing"
            raise UserError(
                f"{self.name} sees {what} of a picture, and no patches that could be taken away",
                expected="a decoder that was trained with sees=patches",
            )
        pixels = self.tower.prepare(picture.open())[None].to(self.device)
        return self.net.look(pixels)[0].float()

    def hidden_rows(self, asks: Sequence[tuple[Picture | None, str]]) -> list[Row]:
        """The picture, then the text: for vectors made of the last hidden state.

        The text as it is, or in the form of a question where the decoder learned to embed so.
        """
        seen = self._see(
            {p.key: (p, Rendered(text, text, "")) for p, text in asks if p is not None}
        )
        rows = []
        for picture, text in asks:
            own = None if picture is None else seen[picture.key]
            tokens = tuple(self.preparer.prompts.tokens(text))
            if not tokens:
                raise UserError(
                    f"{self.name} was given an empty text to embed",
                    expected="words: a caption, an answer or an instruction",
                )
            if self.embeds:
                tokens = tuple(self.preparer.prompts.tokenizer.ask(text))
            rows.append(Row(own, (() if own is None else own.head) + tokens, words=text))
            self._check_length(len(rows[-1].prompt), text)
        return rows

    def _see(self, first: Mapping[str, tuple[Picture, Rendered]]) -> dict[str, Seen]:
        """Every picture once; an encoder prepares it, so transformers need not be there."""
        with ThreadPoolExecutor(_READERS) as pool:
            made = pool.map(lambda one: self.preparer.see(*one), first.values())
            return dict(zip(first, made, strict=True))


@dataclass(frozen=True, eq=False)
class Made:
    """What training made, and what it needs to be asked."""

    net: DecoderNet
    words: Words
    settings: DecoderSettings
    places: int
    """Tokens of a picture."""
    context: int
    """Tokens of picture, prompt and answer together."""
    embeds: bool = False
    """Whether it was trained to embed, with every text in the form of a question: VLM2Vec."""


def patch_decoder(
    encoder: DualEncoder, made: Made, *, name: str, fingerprint: str, rows: int | None = None
) -> PatchDecoder:
    """Ready to be asked, on the encoder's device."""
    device, settings = encoder.device, made.settings
    view = view_of(settings)

    def look(pixels: Tensor) -> Tensor:
        found = picture_tokens(view.look(encoder, pixels), settings)
        assert found is not None
        if found.shape[1] != made.places:
            raise UserError(
                f"{encoder.name} gives {found.shape[1]} patches of a picture",
                expected=f"{made.places}, as when the decoder was trained",
                way_out="train it again for this encoder",
            )
        return found.to(device)

    made.net.look = look
    net = made.net.to(device).eval()
    prompts = _Prompts(name, _CAUSAL, made.words, "")
    return PatchDecoder(
        name=name,
        fingerprint=fingerprint,
        device=device,
        preparer=_Preparer(prompts, net.picture_token, encoder, made.places),
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
