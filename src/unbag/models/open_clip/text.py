"""Text encoders and tokenizers of open_clip, without padding where that is exact.

Captions are padded to the context of the encoder, and most of the work is spent on padding. It can
be removed if it does not affect the pooled token: in a causal encoder that pools at the end token,
and in encoders that mask padding. It cannot be removed if tokens attend to padding (SigLIP) or if
the last position is pooled; these run at full length, with a warning.

Dimensions: N captions, L tokens, W encoder width, D joint space, B heads x captions, K positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from unbag.errors import UnbagError
from unbag.models.huggingface.loading import tokenizer_rules
from unbag.models.layers import blocks_of, make_layers, record_blocks
from unbag.models.open_clip.layers import through
from unbag.models.open_clip.library import library
from unbag.types import Layers

if TYPE_CHECKING:
    from torch import Tensor

_MAX_CACHED = 1 << 17
"""Captions whose tokens are cached, since evaluation first counts and later encodes them."""


def text_network(model: Any) -> TextNetwork:
    """Wrap the text encoder of a model by its kind."""
    text = getattr(model, "text", None)
    if text is None:
        return Native(model, model.text_pool_type, int(getattr(model, "text_eos_id", None) or 0))
    if hasattr(text, "pooler") and hasattr(text, "config"):
        return Masked(text)
    if not hasattr(text, "positional_embedding") or getattr(text, "use_pad_mask", False):
        return Unknown(model)
    if text.cls_emb is not None:
        return Classed(text)
    return Native(text, text.pool_type, int(getattr(text, "eos_id", None) or 0))


@dataclass(frozen=True, eq=False)
class Native:
    """open_clip's transformer without a class token, as in CLIP and SigLIP."""

    encoder: Any
    pool: str
    end: int
    """Id of the end token, for pool eos."""

    @property
    def whole_because(self) -> str:
        """Why captions run at full length; "" if they do not."""
        if self.encoder.attn_mask is None:
            return "its text encoder attends to padding"
        return "its text encoder pools the last position" if self.pool == "last" else ""

    def pooled(self, token_NL: Tensor) -> Tensor:
        """Return the projected pooled token of each caption, [N, D], not normalized."""
        length = token_NL.shape[1]
        if not self.whole_because:
            length = int(self._pooled_positions(token_NL).max()) + 1
        return self.pooled_as_given(token_NL[:, :length])

    def pooled_as_given(self, token_NL: Tensor) -> Tensor:
        """Pool ids without padding, so that no length is copied from the device."""
        return project(self.encoder, self._pool(self._hidden(token_NL), token_NL))

    def words(self, token_NL: Tensor, *, length: int) -> Tensor:
        """Project the first `length` tokens like the pooled one, [N, L, D]."""
        input_NL = token_NL if self.whole_because else token_NL[:, :length]
        return project(self.encoder, self._hidden(input_NL)[:, :length])

    def layers(self, token_NL: Tensor, real_NL: Tensor) -> Layers:
        """Return the tokens in the columns of `real_NL` and the pooled token of each layer."""
        length = real_NL.shape[1]
        input_NL = token_NL if self.whole_because else token_NL[:, :length]
        hidden = through(self.encoder.transformer, *self._embed(input_NL))
        hidden.append(self.encoder.ln_final(hidden[-1]))
        pooled = [self._pool(layer, input_NL) for layer in hidden]
        return make_layers([layer[:, :length] for layer in hidden], pooled, real_NL)

    def _pool(self, hidden_NLW: Tensor, token_NL: Tensor) -> Tensor:
        position_N = self._pooled_positions(token_NL)
        return hidden_NLW[torch.arange(len(position_N), device=position_N.device), position_N]

    def _pooled_positions(self, token_NL: Tensor) -> Tensor:
        """Return the index of the pooled token of each caption."""
        if self.pool == "argmax":
            return token_NL.argmax(dim=-1)
        if self.pool == "eos":
            return (token_NL == self.end).int().argmax(dim=-1)
        position = 0 if self.pool == "first" else token_NL.shape[1] - 1
        return torch.full((len(token_NL),), position, device=token_NL.device)

    def _hidden(self, token_NL: Tensor) -> Tensor:
        hidden_NLW, mask_LL = self._embed(token_NL)
        hidden: Tensor = self.encoder.ln_final(
            self.encoder.transformer(hidden_NLW, attn_mask=mask_LL)
        )
        return hidden

    def _embed(self, token_NL: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the input of the first block and the mask of all blocks."""
        encoder, length = self.encoder, token_NL.shape[1]
        dtype = encoder.transformer.get_cast_dtype()
        hidden_NLW = encoder.token_embedding(token_NL).to(dtype)
        hidden_NLW = hidden_NLW + encoder.positional_embedding[:length].to(dtype)
        mask = encoder.attn_mask
        return hidden_NLW, None if mask is None else mask[:length, :length].to(dtype)


@dataclass(frozen=True, eq=False)
class Classed:
    """CoCa's encoder: padding is masked, and a class token is at the last position."""

    encoder: Any
    whole_because: str = ""

    def pooled(self, token_NL: Tensor) -> Tensor:
        """Return the class token, which keeps its position when padding before it is removed."""
        return project(self.encoder, self.encoder.ln_final(self._hidden(token_NL)[:, -1]))

    def words(self, token_NL: Tensor, *, length: int) -> Tensor:
        """Return all tokens but the class token."""
        return project(self.encoder, self.encoder.ln_final(self._hidden(token_NL)[:, :length]))

    def layers(self, token_NL: Tensor, real_NL: Tensor) -> Layers:
        """Return all tokens but the class token, which is pooled, of each layer."""
        hidden = through(self.encoder.transformer, *self._embed(token_NL))
        hidden.append(self.encoder.ln_final(hidden[-1]))
        words = [layer[:, : real_NL.shape[1]] for layer in hidden]
        return make_layers(words, [layer[:, -1] for layer in hidden], real_NL)

    def _hidden(self, token_NL: Tensor) -> Tensor:
        hidden_NLW, mask_BKK = self._embed(token_NL)
        hidden: Tensor = self.encoder.transformer(hidden_NLW, attn_mask=mask_BKK)
        return hidden

    def _embed(self, token_NL: Tensor) -> tuple[Tensor, Tensor]:
        """Return the input of the first block and the mask of all blocks."""
        encoder, count = self.encoder, len(token_NL)
        dtype = encoder.transformer.get_cast_dtype()
        position_K = self._needed_positions(token_NL)
        word_NLW = encoder.token_embedding(token_NL[:, position_K[:-1]]).to(dtype)
        class_NLW = encoder.cls_emb.to(dtype).expand(count, 1, -1)
        hidden_NLW = torch.cat([word_NLW, class_NLW], dim=1)
        hidden_NLW = hidden_NLW + encoder.positional_embedding[position_K].to(dtype)
        return hidden_NLW, self._mask(token_NL, position_K)

    def _needed_positions(self, token_NL: Tensor) -> Tensor:
        """Return the positions that captions need, and that of the class token."""
        real_L = (token_NL != self.encoder.pad_id).any(dim=0).nonzero()
        # One more than the longest: the mask of published CoCa weights is off by one position.
        last = int(real_L.max()) + 1 if len(real_L) else 0
        length = token_NL.shape[1]
        return torch.tensor([*range(min(last + 1, length)), length], device=token_NL.device)

    def _mask(self, token_NL: Tensor, position_K: Tensor) -> Tensor:
        """Return the mask of padding and, for a causal encoder, of later tokens, [B, K, K].

        It equals open_clip's mask at the selected positions.
        """
        encoder, size = self.encoder, len(position_K)
        real_NL = token_NL != encoder.pad_id
        ones = real_NL.new_ones(len(real_NL), 1)
        is_correct = getattr(encoder, "correct_cls_mask", False)
        visible_NK = torch.cat([real_NL, ones] if is_correct else [ones, real_NL], dim=1)[
            :, position_K
        ]
        dtype = encoder.transformer.get_cast_dtype()
        mask_NKK = torch.zeros(len(token_NL), size, size, dtype=dtype, device=token_NL.device)
        mask_NKK.masked_fill_(~visible_NK[:, None, :], float("-inf"))
        if encoder.attn_mask is not None:
            mask_NKK = mask_NKK + encoder.attn_mask[position_K][:, position_K].to(dtype)
        return mask_NKK.repeat_interleave(encoder.heads, dim=0)


@dataclass(frozen=True, eq=False)
class Masked:
    """An encoder of transformers, with padding masked in attention and pooling."""

    encoder: Any

    @property
    def whole_because(self) -> str:
        """Why captions run at full length; "" for poolers that are known to mask padding."""
        known = ("MeanPooler", "ClsPooler", "ClsLastHiddenStatePooler")
        pooler = type(self.encoder.pooler).__name__
        return "" if pooler in known else f"its text encoder pools with {pooler}"

    def pooled(self, token_NL: Tensor) -> Tensor:
        """Pool and project as open_clip does."""
        output = self.encoder(self._without_padding(token_NL))
        vector: Tensor = output[0] if isinstance(output, tuple) else output
        return vector

    def words(self, token_NL: Tensor, *, length: int) -> Tensor:
        """Project the last hidden states; UnbagError if pooling has a layer of its own."""
        if getattr(self.encoder.transformer, "pooler", None) is not None:
            raise UnbagError(
                "this text encoder has a layer of its own for the pooled vector",
                expected="an encoder whose tokens can be projected like the caption",
                hint="use the caption vector",
            )
        token_NL = self._without_padding(token_NL)
        mask_NL = (token_NL != self.encoder.config.pad_token_id).long()
        output = self.encoder.transformer(input_ids=token_NL, attention_mask=mask_NL)
        vector_NLD: Tensor = self.encoder.proj(output.last_hidden_state[:, :length])
        return vector_NLD

    def layers(self, token_NL: Tensor, real_NL: Tensor) -> Layers:
        """Return all tokens and the pooled token, if there is one, of each layer."""
        encoder, blocks = self.encoder, blocks_of(self.encoder.transformer)
        if not blocks:
            raise _no_layers_error(type(encoder.transformer).__name__)
        token_NL = self._without_padding(token_NL)
        mask_NL = (token_NL != encoder.config.pad_token_id).long()
        output, hidden = record_blocks(
            blocks, lambda: encoder.transformer.forward(input_ids=token_NL, attention_mask=mask_NL)
        )
        has_class = type(encoder.pooler).__name__.startswith("Cls")
        pooled = [layer[:, 0] if has_class else None for layer in hidden]
        words = [layer[:, : real_NL.shape[1]] for layer in (*hidden, output.last_hidden_state)]
        return make_layers(words, [*pooled, encoder.pooler(output, mask_NL)], real_NL)

    def _without_padding(self, token_NL: Tensor) -> Tensor:
        if self.whole_because:
            return token_NL
        real_L = (token_NL != self.encoder.config.pad_token_id).any(dim=0).nonzero()
        return token_NL[:, : int(real_L.max()) + 1] if len(real_L) else token_NL


@dataclass(frozen=True, eq=False)
class Unknown:
    """An encoder of an unknown kind, run as open_clip runs it."""

    model: Any
    whole_because: str = "its text encoder is of an unknown kind"

    def pooled(self, token_NL: Tensor) -> Tensor:
        """Encode at full length."""
        vector_ND: Tensor = self.model.encode_text(token_NL, normalize=False)
        return vector_ND

    def words(self, token_NL: Tensor, *, length: int) -> Tensor:
        """Raise an error: there are no tokens."""
        raise UnbagError(
            "token vectors of this text encoder are not known",
            hint="use the caption vector",
        )

    def layers(self, token_NL: Tensor, real_NL: Tensor) -> Layers:
        """Raise an error: there are no layers."""
        raise _no_layers_error(f"text encoder that runs at full length, since {self.whole_because}")


TextNetwork: TypeAlias = Native | Classed | Masked | Unknown
"""A text encoder of any kind."""


def _no_layers_error(kind: str) -> UnbagError:
    return UnbagError(
        f"layers of a {kind} are not known",
        expected="open_clip's own text transformer, or one of transformers with a list of blocks",
        hint="use the caption vector",
    )


def project(encoder: Any, hidden: Tensor) -> Tensor:
    """Project into the joint space by the projection of the encoder."""
    projection = encoder.text_projection
    if projection is None:
        return hidden
    projected: Tensor = (
        projection(hidden) if isinstance(projection, torch.nn.Linear) else hidden @ projection
    )
    return projected


def load_tokenizer(name: str, arch: str) -> Tokenizer:
    """Load the tokenizer of a model from open_clip."""
    try:
        tokenizer = library().get_tokenizer(name)
    except Exception as error:
        # Readers of tokenizers raise any error: OSError, ValueError, errors of the hub client.
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        raise UnbagError(
            f"the tokenizer of {arch} could not be loaded: {reason}",
            expected="a network, or the tokenizer in the cache (HF_HOME); HF_HUB_OFFLINE=1 uses "
            "only the cache",
            hint="save the tokenizer, the weights and an open_clip_config.json in one folder: "
            "open_clip:local-dir:FOLDER",
        ) from error
    return HubTokenizer(tokenizer) if hasattr(tokenizer, "tokenizer") else ClipTokenizer(tokenizer)


def check_fit(tokenizer: Tokenizer, *, arch: str, rows: int, pool: str, end: int | None) -> None:
    """Raise UnbagError if a tokenizer does not belong to the text encoder."""
    problem = ""
    if tokenizer.vocabulary > rows:
        problem = f"has {tokenizer.vocabulary} tokens, and the text encoder knows {rows}"
    elif isinstance(tokenizer, ClipTokenizer) and tokenizer.vocabulary != rows:
        problem = f"has {tokenizer.vocabulary} tokens, and the text encoder was trained with {rows}"
    elif pool == "eos" and tokenizer.end != end:
        problem = f"ends a caption with {tokenizer.end}, and the text encoder expects {end}"
    elif pool == "argmax" and tokenizer.end != tokenizer.vocabulary - 1:
        problem = "does not end a caption with its largest id, which the text encoder pools"
    if problem:
        raise UnbagError(
            f"the tokenizer of {arch} {problem}",
            expected="the tokenizer the weights were trained with: the scores would be wrong",
            hint="set hf_tokenizer_name in the config: open_clip:local-dir:FOLDER",
        )


class ClipTokenizer:
    """CLIP's byte pair encoding: start, words, end, then zeros. Zero is also the id of "!"."""

    def __init__(self, inner: Any) -> None:
        """Wrap open_clip's SimpleTokenizer with caches of captions and words."""
        self.inner = inner
        self.context = int(inner.context_length)
        self.vocabulary = int(inner.vocab_size)
        self.end: int | None = int(inner.eot_token_id)
        clean = getattr(inner.clean_fn, "__name__", "")
        self.identity = f"bpe {self.vocabulary} {self.context} {clean}"
        self._is_lower = clean == "_clean_lower"
        self._split = lru_cache(maxsize=_MAX_CACHED)(self._encode)
        self._word = lru_cache(maxsize=_MAX_CACHED)(lambda word: tuple(inner.encode(word)))

    def _encode(self, caption: str) -> tuple[int, ...]:
        """Tokenize as open_clip does, but several times faster if a caption needs no cleaning."""
        is_clean = caption.isascii() and caption.isprintable() and "&" not in caption
        if self._is_lower and is_clean:
            words = self.inner.pat.findall(" ".join(caption.split()).lower())
            ids = [i for word in words for i in self._word(word)]
        else:
            ids = self.inner.encode(caption)
        return (self.inner.sot_token_id, *ids, self.inner.eot_token_id)

    def count(self, captions: Sequence[str]) -> list[int]:
        """Return the tokens of each caption before truncation, start and end included."""
        return [len(self._split(caption)) for caption in captions]

    def __call__(self, captions: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return ids and mask, both [N, L]; a long caption keeps its first tokens and the end."""
        import torch

        token_NL = np.zeros((len(captions), self.context), dtype=np.int64)
        real_NL = np.zeros((len(captions), self.context), dtype=np.bool_)
        for n, caption in enumerate(captions):
            ids = self._split(caption)
            if len(ids) > self.context:
                ids = (*ids[: self.context - 1], ids[-1])
            token_NL[n, : len(ids)] = ids
            real_NL[n, : len(ids)] = True
        return torch.from_numpy(token_NL), torch.from_numpy(real_NL)


class HubTokenizer:
    """A tokenizer of transformers in open_clip's wrapper, which cleans, pads and truncates."""

    def __init__(self, inner: Any) -> None:
        """Wrap open_clip's HFTokenizer or SigLipTokenizer."""
        self.inner = inner
        self.context = int(inner.context_length)
        self.vocabulary = max(inner.tokenizer.get_vocab().values()) + 1
        end = inner.tokenizer.eos_token_id
        self.end: int | None = None if end is None else int(end)
        self.is_appended = getattr(inner, "tokenizer_mode", "") == "clips"
        settings = (
            tokenizer_rules(inner.tokenizer),
            getattr(getattr(inner, "clean_fn", None), "__name__", ""),
            str(getattr(inner, "strip_sep_token", "")),
            getattr(inner, "tokenizer_mode", ""),
        )
        digest = blake2b("\0".join(settings).encode(), digest_size=12).hexdigest()
        self.identity = f"{type(inner).__name__} {self.context} {digest}"

    def count(self, captions: Sequence[str]) -> list[int]:
        """Return the tokens of each caption before truncation, special tokens included."""
        if not captions:
            return []
        clean, package = getattr(self.inner, "clean_fn", None), library().tokenizer
        if clean is None:
            texts = [package.canonicalize_text(package.basic_clean(text)) for text in captions]
        else:
            texts = [clean(caption) for caption in captions]
        tokens = self.inner.tokenizer(
            texts, add_special_tokens=not self.is_appended, truncation=False, verbose=False
        )
        # This mode adds a start, an end and, after the padding, a class token.
        return [len(ids) + (3 if self.is_appended else 0) for ids in tokens["input_ids"]]

    def __call__(self, captions: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return open_clip's ids, and a mask of tokens that are not padding."""
        token_NL = self.inner(list(captions)).long()
        pad = self.inner.tokenizer.pad_token_id
        real_NL = token_NL != (0 if pad is None else pad)
        if getattr(self.inner, "strip_sep_token", False):
            real_NL &= token_NL != 0
        return token_NL, real_NL


Tokenizer: TypeAlias = ClipTokenizer | HubTokenizer
