"""Matching heads of BLIP and BLIP-2 as scorers of image and caption.

BLIP also has the encoders of its contrastive loss, so it is a dual encoder too.

Dimensions: Q queries, P images of a window, N pairs of a batch, L patches or tokens, H hidden, D
joint space.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from warnings import warn

import torch

from unbag.models.batching import Fitting
from unbag.models.huggingface.dual import ImagePreparation, ImageTextModel, states
from unbag.models.huggingface.inputs import make_captions
from unbag.models.huggingface.loading import plain_config, read_encoders, torch_dtype
from unbag.models.layers import make_layers, unit_vectors
from unbag.models.weights import fingerprint
from unbag.types import Layers, TokenFeatures
from unbag.types.items import prompts_of

if TYPE_CHECKING:
    from torch import Tensor

    from unbag.models.huggingface.loading import HfSource
    from unbag.types import DualEncoder, Query

_VERSION = "hf-blip-1"
"""Part of the fingerprint: increase it whenever a change here alters a result."""
WINDOW = 64
"""Number of images whose patches are in memory at a time."""
BATCH = 64
"""Batch size of pairs, which are sorted by length."""


def load_match(
    source: HfSource, architecture: str, *, device: str, dtype: str, compiles: bool
) -> Match:
    """Load the matching head of BLIP or BLIP-2."""
    import transformers

    is_first = architecture == "BlipForImageTextRetrieval"
    make: Callable[..., PairReader] = Blip if is_first else Blip2
    weights = getattr(transformers, architecture)
    options = {"device": device, "dtype": dtype, "compiles": compiles}
    reader = read_encoders(make, source, weights, **options)
    return MatchWithEncoders(reader, reader) if isinstance(reader, Blip) else Match(reader)


class Match:
    """The matching head of a BLIP model as a scorer.

    The score is the logit of "match" minus that of "no match". Its sigmoid, the probability, would
    be tied in floating point near 1. An ensemble gets the mean over its prompts.
    """

    scoring = "match"
    is_blind = False

    def __init__(self, reader: PairReader) -> None:
        """Wrap a model that reads pairs."""
        self.reader = reader
        self.name = reader.name
        self.fingerprint = f"{reader.fingerprint}-match-1"
        self._fitting = Fitting(reader.name, lambda text: warn(text, stacklevel=2))

    @property
    def context(self) -> int:
        """Maximum tokens of a caption, special tokens included; longer captions are truncated."""
        return self.reader.context

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Return the tokens of each caption before truncation, special tokens included."""
        return self.reader.count_tokens(captions)

    @torch.inference_mode()
    def score(self, queries: Sequence[Query]) -> Tensor:
        """Return one number per query. Each image is encoded once for all of its captions."""
        rows_of: dict[int, list[int]] = {}
        for i, query in enumerate(queries):
            rows_of.setdefault(id(query.image), []).append(i)
        score_Q = torch.zeros(len(queries), dtype=torch.float64)
        groups = list(rows_of.values())
        for start in range(0, len(groups), WINDOW):
            window = groups[start : start + WINDOW]
            pixels = [self.reader.prepare(queries[rows[0]].image.open()) for rows in window]
            patch_PLH = self._fitting(self.reader.look, torch.stack(pixels))
            self._read(self._pairs(queries, window), patch_PLH, score_Q)
        prompts_Q = torch.tensor([len(prompts_of(query.caption)) for query in queries])
        return score_Q / prompts_Q

    def _pairs(self, queries: Sequence[Query], window: Sequence[Sequence[int]]) -> list[_Pair]:
        """Return all prompts with the index of their image, shortest first."""
        places = [
            (query, image, prompt)
            for image, rows in enumerate(window)
            for query in rows
            for prompt in prompts_of(queries[query].caption)
        ]
        lengths = self.reader.count_tokens([prompt for *_, prompt in places])
        return sorted(_Pair(length, *place) for length, place in zip(lengths, places, strict=True))

    def _read(self, pairs: Sequence[_Pair], patch_PLH: Tensor, score_Q: Tensor) -> None:
        def read(part: Sequence[_Pair]) -> Tensor:
            patch_NLH = patch_PLH[[pair.image for pair in part]]
            logit_N2 = self.reader.match(patch_NLH, [pair.prompt for pair in part]).double()
            return logit_N2[:, 1] - logit_N2[:, 0]

        for start in range(0, len(pairs), BATCH):
            batch = list(pairs[start : start + BATCH])
            query_N = torch.tensor([pair.query for pair in batch])
            score_Q.index_add_(0, query_N, self._fitting(read, batch))


class _Pair(NamedTuple):
    """A prompt, its length, and the indices of its query and image."""

    length: int
    query: int
    image: int
    prompt: str


class MatchWithEncoders(Match):
    """A matching head whose model is also a dual encoder, for `--scorer cosine`.

    It is a separate class, since `isinstance` checks for the attribute `encoder`.
    """

    def __init__(self, reader: PairReader, encoder: DualEncoder) -> None:
        """Wrap a model that reads pairs, and its encoders."""
        super().__init__(reader)
        self.encoder = encoder


class _Blip(ImageTextModel):
    """Image encoder, tokenizer and device, shared by BLIP and BLIP-2."""

    text_config = "text_config"
    """Name of the configuration of the text model."""

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
        """Wrap a loaded model and set its precision."""
        self.name = name
        self.device = device
        self.model = model.to(device=device, dtype=torch_dtype(dtype))
        self.images = ImagePreparation(image_processor, name=name, device=device)
        text_config = getattr(model.config, self.text_config)
        self.captions = make_captions(text_config, tokenizer, is_padded=False, has_mask=True)
        settings = (
            plain_config(model.config),
            self.images.settings,
            self.captions.settings,
            _VERSION,
        )
        self.fingerprint = fingerprint("hf-blip", model.state_dict(), *settings)
        self._vision_model = torch.compile(model.vision_model) if compiles else model.vision_model

    def look(self, pixels: Tensor) -> Tensor:
        """Encode prepared images to patches, [N, L, H]."""
        hidden: Tensor = self._vision_model(**self._image_inputs(pixels)).last_hidden_state
        return hidden

    def _image_context(self, patch_NLH: Tensor) -> dict[str, Tensor]:
        patch_NLH = patch_NLH.to(self.device)
        mask_NL = torch.ones(patch_NLH.shape[:2], dtype=torch.long, device=self.device)
        return {"encoder_hidden_states": patch_NLH, "encoder_attention_mask": mask_NL}


class Blip(_Blip):
    """BLIP, which scores pairs and is a dual encoder of its contrastive loss."""

    scale, bias = 1.0, 0.0
    """The temperature of its loss is not in the checkpoint."""

    def match(self, patch_NLH: Tensor, captions: Sequence[str]) -> Tensor:
        """Return logits of "no match" and "match", [N, 2], from the first token."""
        hidden_NLH = self._read(captions, self._image_context(patch_NLH))
        logit_N2: Tensor = self.model.itm_head(hidden_NLH[:, 0])
        return logit_N2.cpu()

    @torch.inference_mode()
    def encode_images(self, pixels: Tensor) -> Tensor:
        """Encode prepared images [N, ...] to unit vectors [N, D]."""
        return unit_vectors(self.model.vision_proj(self.look(pixels)[:, 0]))

    @torch.inference_mode()
    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        """Encode captions, without an image, to unit vectors [N, D]."""
        return unit_vectors(self.model.text_proj(self._read(captions, {})[:, 0]))

    @torch.inference_mode()
    def encode_patches(self, pixels: Tensor) -> TokenFeatures:
        """Project patches like the class token, [N, L, D]."""
        vector_NLD = unit_vectors(self.model.vision_proj(self.look(pixels)[:, 1:]))
        return TokenFeatures(vector_NLD, torch.ones(vector_NLD.shape[:2], dtype=torch.bool))

    @torch.inference_mode()
    def encode_tokens(self, captions: Sequence[str]) -> TokenFeatures:
        """Project tokens like the first one, [N, L, D]."""
        vector_NLD = unit_vectors(self.model.text_proj(self._read(captions, {})))
        return TokenFeatures(vector_NLD, self.captions.real(captions, vector_NLD.shape[1]))

    @torch.no_grad()
    def image_layers(self, pixels: Tensor) -> Layers:
        """Return patches and class token of each layer."""
        _, hidden = states(self.model.vision_model, self._image_inputs(pixels))
        return make_layers([layer[:, 1:] for layer in hidden], [layer[:, 0] for layer in hidden])

    @torch.no_grad()
    def text_layers(self, captions: Sequence[str]) -> Layers:
        """Return the tokens of each layer, without an image; the first is pooled."""
        inputs = self._caption_inputs(captions)
        _, hidden = states(self.model.text_encoder, inputs)
        return make_layers(hidden, [layer[:, 0] for layer in hidden], inputs["attention_mask"])

    def _read(self, captions: Sequence[str], image_context: dict[str, Tensor]) -> Tensor:
        output = self.model.text_encoder(**self._caption_inputs(captions), **image_context)
        hidden: Tensor = output.last_hidden_state
        return hidden


class Blip2(_Blip):
    """BLIP-2, which scores pairs. It is no dual encoder.

    Its contrastive score is the maximum over 32 vectors of an image.
    """

    text_config = "qformer_config"

    def match(self, patch_NLH: Tensor, captions: Sequence[str]) -> Tensor:
        """Return logits of "no match" and "match", [N, 2], averaged over query tokens."""
        inputs = self._caption_inputs(captions)
        token_NL, mask_NL = inputs["input_ids"], inputs["attention_mask"]
        query_NQH = self.model.query_tokens.expand(len(token_NL), -1, -1)
        n_queries = query_NQH.shape[1]
        output = self.model.qformer(
            query_embeds=self.model.embeddings(input_ids=token_NL, query_embeds=query_NQH),
            query_length=n_queries,
            attention_mask=torch.cat([mask_NL.new_ones(len(mask_NL), n_queries), mask_NL], dim=1),
            **self._image_context(patch_NLH),
        )
        logit_NQ2: Tensor = self.model.itm_head(output.last_hidden_state[:, :n_queries])
        return logit_NQ2.mean(dim=1).cpu()


PairReader: TypeAlias = Blip | Blip2
"""A model that scores a caption against the patches of an image."""
