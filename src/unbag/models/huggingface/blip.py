"""Matching heads of BLIP and BLIP-2 as scorers: how well an image and a caption match.

BLIP has the encoders of its contrastive loss too, so it is also a dual encoder.

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
from unbag.models.layers import laid_out, unit_vectors
from unbag.models.weights import fingerprint
from unbag.types import Layers, TokenFeatures
from unbag.types.items import prompts_of

if TYPE_CHECKING:
    from torch import Tensor

    from unbag.models.huggingface.loading import HfSource
    from unbag.types import DualEncoder, Query

_VERSION = "hf-blip-1"
"""Raise it whenever the code here changes a number."""
WINDOW = 64
"""Images kept in memory as patches at a time."""
BATCH = 64
"""Pairs read together, of nearly the same length."""


def load_match(
    source: HfSource, architecture: str, *, device: str, dtype: str, compiles: bool
) -> Match:
    """The matching head of BLIP or BLIP-2."""
    import transformers

    is_first = architecture == "BlipForImageTextRetrieval"
    kind: Callable[..., PairReader] = Blip if is_first else Blip2
    weights = getattr(transformers, architecture)
    where = {"device": device, "dtype": dtype, "compiles": compiles}
    reader = read_encoders(kind, source, weights, **where)
    return MatchWithEncoders(reader, reader) if isinstance(reader, Blip) else Match(reader)


class Match:
    """The matching head of a BLIP model as a scorer.

    The score is the logit of "match" minus that of "no match"; the probability is its sigmoid.
    Probabilities near 1 are equal in floating point where these are not, and would count as ties.
    A caption that is an ensemble gets the mean over its prompts.
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
        """Tokens a caption can have, special ones included; longer ones are cut."""
        return self.reader.context

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Before cutting, special ones included."""
        return self.reader.count_tokens(captions)

    @torch.inference_mode()
    def score(self, queries: Sequence[Query]) -> Tensor:
        """One number a query. An image goes through its encoder once for all of its captions."""
        places: dict[int, list[int]] = {}
        for i, query in enumerate(queries):
            places.setdefault(id(query.image), []).append(i)
        score_Q = torch.zeros(len(queries), dtype=torch.float64)
        several = list(places.values())
        for at in range(0, len(several), WINDOW):
            window = several[at : at + WINDOW]
            pixels = [self.reader.prepare(queries[rows[0]].image.open()) for rows in window]
            patch_PLH = self._fitting(self.reader.look, torch.stack(pixels))
            self._read(self._pairs(queries, window), patch_PLH, score_Q)
        prompts_Q = torch.tensor([len(prompts_of(query.caption)) for query in queries])
        return score_Q / prompts_Q

    def _pairs(self, queries: Sequence[Query], window: Sequence[Sequence[int]]) -> list[_Pair]:
        """Every prompt with its image, shortest first."""
        places = [
            (query, image, prompt)
            for image, rows in enumerate(window)
            for query in rows
            for prompt in prompts_of(queries[query].caption)
        ]
        lengths = self.reader.count_tokens([prompt for *_, prompt in places])
        return sorted(_Pair(n, *place) for n, place in zip(lengths, places, strict=True))

    def _read(self, pairs: Sequence[_Pair], patch_PLH: Tensor, score_Q: Tensor) -> None:
        def read(some: Sequence[_Pair]) -> Tensor:
            patch_NLH = patch_PLH[[pair.image for pair in some]]
            logit_N2 = self.reader.match(patch_NLH, [pair.prompt for pair in some]).double()
            return logit_N2[:, 1] - logit_N2[:, 0]

        for at in range(0, len(pairs), BATCH):
            some = list(pairs[at : at + BATCH])
            at_N = torch.tensor([pair.query for pair in some])
            score_Q.index_add_(0, at_N, self._fitting(read, some))


class _Pair(NamedTuple):
    """A prompt of a query, and the place of its image in the window."""

    length: int
    query: int
    image: int
    prompt: str


class MatchWithEncoders(Match):
    """The same of a model that has two encoders too; `--scorer cosine` takes these.

    A class of its own: `isinstance` asks a model for `encoder`, and one without must not have it.
    """

    def __init__(self, reader: PairReader, encoder: DualEncoder) -> None:
        """Wrap a model that reads pairs, and its encoders."""
        super().__init__(reader)
        self.encoder = encoder


class _Blip(ImageTextModel):
    """What both have: an image encoder, a tokenizer and a place to compute."""

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
        self.images = ImagePreparation(image_processor, name=name, device=device)
        text = getattr(model.config, self.text_config)
        self.captions = make_captions(text, tokenizer, is_padded=False, has_mask=True)
        said = (plain_config(model.config), self.images.said, self.captions.said, _VERSION)
        self.fingerprint = fingerprint("hf-blip", model.state_dict(), *said)
        self._look = torch.compile(model.vision_model) if compiles else model.vision_model

    def look(self, pixels: Tensor) -> Tensor:
        """Prepared images to their patches, [N, L, H]."""
        hidden: Tensor = self._look(**self._image_inputs(pixels)).last_hidden_state
        return hidden

    def _seen(self, patch_NLH: Tensor) -> dict[str, Tensor]:
        patch_NLH = patch_NLH.to(self.device)
        mask_NL = torch.ones(patch_NLH.shape[:2], dtype=torch.long, device=self.device)
        return {"encoder_hidden_states": patch_NLH, "encoder_attention_mask": mask_NL}


class Blip(_Blip):
    """BLIP: a reader of pairs, and a dual encoder by the encoders of its contrastive loss."""

    scale, bias = 1.0, 0.0
    """The temperature of its loss is not part of the checkpoint."""

    def match(self, patch_NLH: Tensor, captions: Sequence[str]) -> Tensor:
        """Logits of "no match" and "match", [N, 2], from the first token."""
        hidden_NLH = self._read(captions, self._seen(patch_NLH))
        logit_N2: Tensor = self.model.itm_head(hidden_NLH[:, 0])
        return logit_N2.cpu()

    @torch.inference_mode()
    def encode_images(self, pixels: Tensor) -> Tensor:
        """[N, ...] prepared images to unit vectors [N, D]."""
        return unit_vectors(self.model.vision_proj(self.look(pixels)[:, 0]))

    @torch.inference_mode()
    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        """Captions, read without an image, to unit vectors [N, D]."""
        return unit_vectors(self.model.text_proj(self._read(captions, {})[:, 0]))

    @torch.inference_mode()
    def encode_patches(self, pixels: Tensor) -> TokenFeatures:
        """Patches through the projection of the first one, [N, L, D]."""
        vector_NLD = unit_vectors(self.model.vision_proj(self.look(pixels)[:, 1:]))
        return TokenFeatures(vector_NLD, torch.ones(vector_NLD.shape[:2], dtype=torch.bool))

    @torch.inference_mode()
    def encode_tokens(self, captions: Sequence[str]) -> TokenFeatures:
        """Tokens through the projection of the first one, [N, L, D]."""
        vector_NLD = unit_vectors(self.model.text_proj(self._read(captions, {})))
        return TokenFeatures(vector_NLD, self.captions.real(captions, vector_NLD.shape[1]))

    @torch.no_grad()
    def image_layers(self, pixels: Tensor) -> Layers:
        """Patches after each layer, and the class token."""
        _, hidden = states(self.model.vision_model, self._image_inputs(pixels))
        return laid_out([one[:, 1:] for one in hidden], [one[:, 0] for one in hidden])

    @torch.no_grad()
    def text_layers(self, captions: Sequence[str]) -> Layers:
        """Tokens after each layer, read without an image; the first is read out."""
        inputs = self._caption_inputs(captions)
        _, hidden = states(self.model.text_encoder, inputs)
        return laid_out(hidden, [one[:, 0] for one in hidden], inputs["attention_mask"])

    def _read(self, captions: Sequence[str], seen: dict[str, Tensor]) -> Tensor:
        found = self.model.text_encoder(**self._caption_inputs(captions), **seen)
        hidden: Tensor = found.last_hidden_state
        return hidden


class Blip2(_Blip):
    """BLIP-2: a reader of pairs, and no dual encoder.

    Its contrastive score takes the best of 32 vectors of an image.
    """

    text_config = "qformer_config"

    def match(self, patch_NLH: Tensor, captions: Sequence[str]) -> Tensor:
        """Logits of "no match" and "match", [N, 2], the mean over its query tokens."""
        inputs = self._caption_inputs(captions)
        token_NL, mask_NL = inputs["input_ids"], inputs["attention_mask"]
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


PairReader: TypeAlias = Blip | Blip2
"""A model that reads a caption while it looks at the patches of an image."""
