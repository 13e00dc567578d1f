"""BLIP and BLIP-2 of transformers come in; their reader of pairs, and BLIP's two towers, go out.

Dimensions: N pictures, captions or pairs, L patches or tokens, H hidden, D joint space, Q queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from unbag.models.fingerprint import fingerprint
from unbag.models.hf_captions import make_captions
from unbag.models.hf_layers import states
from unbag.models.hf_pictures import Pictures
from unbag.models.hf_source import plain_config, torch_dtype
from unbag.models.layers import laid_out
from unbag.types import Layers, Tokens

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

_VERSION = "hf-blip-1"
"""Raise it whenever the code here changes a number."""


class _Blip:
    """What both have: a picture tower, a tokenizer and a place to compute."""

    text_config = "text_config"
    """Part of the configuration that describes the reader of captions."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        image_processor: Any,
        *,
        name: str,
        device: str = "cpu",
        dtype: str = "auto",
        compiles: bool = False,
    ) -> None:
        """Wrap a model that is loaded; the precision is set here."""
        self.name = name
        self.device = device
        self.model = model.to(device=device, dtype=torch_dtype(dtype))
        self.pictures = Pictures(image_processor, name=name, device=device)
        text = getattr(model.config, self.text_config)
        self.captions = make_captions(text, tokenizer, is_padded=False, has_mask=True)
        said = (plain_config(model.config), self.pictures.said, self.captions.said, _VERSION)
        self.fingerprint = fingerprint("hf-blip", model.state_dict(), *said)
        self._look = torch.compile(model.vision_model) if compiles else model.vision_model

    @property
    def context(self) -> int:
        """Tokens a caption can have, special ones included."""
        return self.captions.context

    def prepare(self, image: Image) -> Tensor:
        """One picture by the model's own image processor."""
        return self.pictures(image)

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Before cutting, special ones included."""
        return self.captions.count(captions)

    def look(self, pixels: Tensor) -> Tensor:
        """Prepared pictures to their patches, [N, L, H]."""
        hidden: Tensor = self._look(**self._pixels(pixels)).last_hidden_state
        return hidden

    def _pixels(self, pixels: Tensor) -> dict[str, Tensor]:
        inputs = dict(self.pictures.inputs(pixels.to(self.device, non_blocking=True)))
        return {"pixel_values": inputs["pixel_values"].to(self.model.dtype)}

    def _tokens(self, captions: Sequence[str]) -> tuple[Tensor, Tensor]:
        found = self.captions(captions)
        return found["input_ids"].to(self.device), found["attention_mask"].to(self.device)

    def _seen(self, patch_NLH: Tensor) -> dict[str, Tensor]:
        patch_NLH = patch_NLH.to(self.device)
        mask_NL = torch.ones(patch_NLH.shape[:2], dtype=torch.long, device=self.device)
        return {"encoder_hidden_states": patch_NLH, "encoder_attention_mask": mask_NL}


class Blip(_Blip):
    """BLIP: a reader of pairs, and a dual encoder by the towers of its contrastive loss."""

    scale, bias = 1.0, 0.0
    """The temperature of its loss is not part of the checkpoint."""

    def match(self, patch_NLH: Tensor, captions: Sequence[str]) -> Tensor:
        """Logits of "no match" and "match", [N, 2], from the first token."""
        hidden_NLH = self._read(captions, self._seen(patch_NLH))
        logit_N2: Tensor = self.model.itm_head(hidden_NLH[:, 0])
        return logit_N2.cpu()

    @torch.inference_mode()
    def encode_pictures(self, pixels: Tensor) -> Tensor:
        """[N, ...] prepared pictures to unit vectors [N, D]."""
        return _unit(self.model.vision_proj(self.look(pixels)[:, 0]))

    @torch.inference_mode()
    def encode_captions(self, captions: Sequence[str]) -> Tensor:
        """Captions, read without a picture, to unit vectors [N, D]."""
        return _unit(self.model.text_proj(self._read(captions, {})[:, 0]))

    @torch.inference_mode()
    def encode_patches(self, pixels: Tensor) -> Tokens:
        """Patches through the projection of the first one, [N, L, D]."""
        vector_NLD = _unit(self.model.vision_proj(self.look(pixels)[:, 1:]))
        return Tokens(vector_NLD, torch.ones(vector_NLD.shape[:2], dtype=torch.bool))

    @torch.inference_mode()
    def encode_tokens(self, captions: Sequence[str]) -> Tokens:
        """Tokens through the projection of the first one, [N, L, D]."""
        vector_NLD = _unit(self.model.text_proj(self._read(captions, {})))
        return Tokens(vector_NLD, self.captions.real(captions, vector_NLD.shape[1]))

    @torch.no_grad()
    def picture_layers(self, pixels: Tensor) -> Layers:
        """Patches after each layer, and the class token."""
        _, hidden = states(self.model.vision_model, self._pixels(pixels))
        return laid_out([one[:, 1:] for one in hidden], [one[:, 0] for one in hidden])

    @torch.no_grad()
    def caption_layers(self, captions: Sequence[str]) -> Layers:
        """Tokens after each layer, read without a picture; the first is read out."""
        token_NL, mask_NL = self._tokens(captions)
        inputs = {"input_ids": token_NL, "attention_mask": mask_NL}
        _, hidden = states(self.model.text_encoder, inputs)
        return laid_out(hidden, [one[:, 0] for one in hidden], mask_NL)

    def _read(self, captions: Sequence[str], seen: dict[str, Tensor]) -> Tensor:
        token_NL, mask_NL = self._tokens(captions)
        found = self.model.text_encoder(input_ids=token_NL, attention_mask=mask_NL, **seen)
        hidden: Tensor = found.last_hidden_state
        return hidden


class Blip2(_Blip):
    """BLIP-2: a reader of pairs, and no dual encoder.

    Its contrastive score takes the best of 32 vectors of a picture.
    """

    text_config = "qformer_config"

    def match(self, patch_NLH: Tensor, captions: Sequence[str]) -> Tensor:
        """Logits of "no match" and "match", [N, 2], the mean over its query tokens."""
        token_NL, mask_NL = self._tokens(captions)
        query_NQH = self.model.query_tokens.expand(len(token_NL), -1, -1)
        queries = query_NQH.shape[1]
        found = self.model.qformer(
            query_embeds=self.model.embeddings(input_ids=token_NL, query_embeds=query_NQH),
            query_length=queries,
            attention_mask=torch.cat([mask_NL.new_ones(len(mask_NL), queries), mask_NL], dim=1),
            **self._seen(patch_NLH),
        )
        logit_NQ2: Tensor = self.model.itm_head(found.last_hidden_state[:, :queries])
        return logit_NQ2.mean(dim=1).cpu()


def _unit(vector: Tensor) -> Tensor:
    return functional.normalize(vector.float(), dim=-1).cpu()
