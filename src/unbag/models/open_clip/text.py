"""Text encoders and tokenizers of open_clip, run at the captions' real length where that is exact.

A caption is padded to the encoder's context, and most of the work is spent on padding. It can be
cut off where no token that counts can see it: in a causal encoder that pools at the end token, and
in encoders that mask their padding. It cannot where tokens look at padding (SigLIP) or where the
vector is read from the last place; these run whole, and the model says so.

Dimensions: N captions, L tokens, W encoder width, D joint space, B heads x captions, K places.
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
from unbag.models.layers import blocks_of, laid_out, recorded
from unbag.models.open_clip.layers import through
from unbag.models.open_clip.library import library
from unbag.types import Layers

if TYPE_CHECKING:
    from torch import Tensor

_REMEMBERED = 1 << 17
"""Captions whose tokens are kept: the evaluation asks for counts first and for vectors later."""


def text_network(model: Any) -> TextNetwork:
    """The kind of a model's text encoder."""
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
    """open_clip's own transformer without a class token: CLIP's, and SigLIP's."""

    encoder: Any
    pool: str
    end: int
    """The id of the end token, for pool eos."""

    @property
    def whole_because(self) -> str:
        """Why captions run at full length: padding reaches the vector; "" where it does not."""
        if self.encoder.attn_mask is None:
            return "its text encoder looks at padding"
        return "its text encoder reads the last place" if self.pool == "last" else ""

    def pooled(self, token_NL: Tensor) -> Tensor:
        """The projected token at the end of each caption, [N, D], not at unit norm."""
        length = token_NL.shape[1]
        if not self.whole_because:
            length = int(self._places(token_NL).max()) + 1
        return self.pooled_as_given(token_NL[:, :length])

    def pooled_as_given(self, token_NL: Tensor) -> Tensor:
        """The same for ids that were cut before, so that no device is asked for a length."""
        return project(self.encoder, self._read(self._hidden(token_NL), token_NL))

    def words(self, token_NL: Tensor, *, length: int) -> Tensor:
        """The first `length` tokens, projected as the pooled one is, [N, L, D]."""
        run = token_NL if self.whole_because else token_NL[:, :length]
        return project(self.encoder, self._hidden(run)[:, :length])

    def layers(self, token_NL: Tensor, real_NL: Tensor) -> Layers:
        """As many tokens as `real_NL` has columns, and the one that is read out."""
        length = real_NL.shape[1]
        run = token_NL if self.whole_because else token_NL[:, :length]
        hidden = through(self.encoder.transformer, *self._entering(run))
        hidden.append(self.encoder.ln_final(hidden[-1]))
        pooled = [self._read(one, run) for one in hidden]
        return laid_out([one[:, :length] for one in hidden], pooled, real_NL)

    def _read(self, hidden_NLW: Tensor, token_NL: Tensor) -> Tensor:
        place_N = self._places(token_NL)
        return hidden_NLW[torch.arange(len(place_N), device=place_N.device), place_N]

    def _places(self, token_NL: Tensor) -> Tensor:
        """Where each caption's vector is read."""
        if self.pool == "argmax":
            return token_NL.argmax(dim=-1)
        if self.pool == "eos":
            return (token_NL == self.end).int().argmax(dim=-1)
        place = 0 if self.pool == "first" else token_NL.shape[1] - 1
        return torch.full((len(token_NL),), place, device=token_NL.device)

    def _hidden(self, token_NL: Tensor) -> Tensor:
        hidden_NLW, mask_LL = self._entering(token_NL)
        hidden: Tensor = self.encoder.ln_final(
            self.encoder.transformer(hidden_NLW, attn_mask=mask_LL)
        )
        return hidden

    def _entering(self, token_NL: Tensor) -> tuple[Tensor, Tensor | None]:
        """What the first block is given, and the mask of all."""
        encoder, length = self.encoder, token_NL.shape[1]
        dtype = encoder.transformer.get_cast_dtype()
        hidden_NLW = encoder.token_embedding(token_NL).to(dtype)
        hidden_NLW = hidden_NLW + encoder.positional_embedding[:length].to(dtype)
        mask = encoder.attn_mask
        return hidden_NLW, None if mask is None else mask[:length, :length].to(dtype)


@dataclass(frozen=True, eq=False)
class Classed:
    """CoCa's encoder: a class token after the padding, at the last place, with padding masked."""

    encoder: Any
    whole_because: str = ""

    def pooled(self, token_NL: Tensor) -> Tensor:
        """The class token; its own place is kept when the padding before it goes."""
        return project(self.encoder, self.encoder.ln_final(self._hidden(token_NL)[:, -1]))

    def words(self, token_NL: Tensor, *, length: int) -> Tensor:
        """Every token but the class token."""
        return project(self.encoder, self.encoder.ln_final(self._hidden(token_NL)[:, :length]))

    def layers(self, token_NL: Tensor, real_NL: Tensor) -> Layers:
        """Every token but the class token, which is read out."""
        hidden = through(self.encoder.transformer, *self._entering(token_NL))
        hidden.append(self.encoder.ln_final(hidden[-1]))
        words = [one[:, : real_NL.shape[1]] for one in hidden]
        return laid_out(words, [one[:, -1] for one in hidden], real_NL)

    def _hidden(self, token_NL: Tensor) -> Tensor:
        hidden_NLW, mask_BKK = self._entering(token_NL)
        hidden: Tensor = self.encoder.transformer(hidden_NLW, attn_mask=mask_BKK)
        return hidden

    def _entering(self, token_NL: Tensor) -> tuple[Tensor, Tensor]:
        """What the first block is given, and the mask of all."""
        encoder, count = self.encoder, len(token_NL)
        dtype = encoder.transformer.get_cast_dtype()
        kept_K = self._kept(token_NL)
        word_NLW = encoder.token_embedding(token_NL[:, kept_K[:-1]]).to(dtype)
        class_NLW = encoder.cls_emb.to(dtype).expand(count, 1, -1)
        hidden_NLW = torch.cat([word_NLW, class_NLW], dim=1)
        hidden_NLW = hidden_NLW + encoder.positional_embedding[kept_K].to(dtype)
        return hidden_NLW, self._mask(token_NL, kept_K)

    def _kept(self, token_NL: Tensor) -> Tensor:
        """Places that some caption needs, and the class token's."""
        real_L = (token_NL != self.encoder.pad_id).any(dim=0).nonzero()
        # One more than the longest: the mask of published CoCa weights is off by one place.
        last = int(real_L.max()) + 1 if len(real_L) else 0
        length = token_NL.shape[1]
        return torch.tensor([*range(min(last + 1, length)), length], device=token_NL.device)

    def _mask(self, token_NL: Tensor, kept_K: Tensor) -> Tensor:
        """Padding as open_clip hides it, and the future where the encoder is causal, [B, K, K].

        The full mask is made first, so that leaving out places is all that differs.
        """
        encoder, size = self.encoder, len(kept_K)
        real_NL = token_NL != encoder.pad_id
        always = real_NL.new_ones(len(real_NL), 1)
        is_right = getattr(encoder, "correct_cls_mask", False)
        seen_NK = torch.cat([real_NL, always] if is_right else [always, real_NL], dim=1)[:, kept_K]
        dtype = encoder.transformer.get_cast_dtype()
        mask_NKK = torch.zeros(len(token_NL), size, size, dtype=dtype, device=token_NL.device)
        mask_NKK.masked_fill_(~seen_NK[:, None, :], float("-inf"))
        if encoder.attn_mask is not None:
            mask_NKK = mask_NKK + encoder.attn_mask[kept_K][:, kept_K].to(dtype)
        return mask_NKK.repeat_interleave(encoder.heads, dim=0)


@dataclass(frozen=True, eq=False)
class Masked:
    """An encoder of transformers: padding is masked in attention and in pooling."""

    encoder: Any

    @property
    def whole_because(self) -> str:
        """Poolers that leave padding out are known by name."""
        known = ("MeanPooler", "ClsPooler", "ClsLastHiddenStatePooler")
        pooler = type(self.encoder.pooler).__name__
        return "" if pooler in known else f"its text encoder pools with {pooler}"

    def pooled(self, token_NL: Tensor) -> Tensor:
        """As open_clip pools and projects."""
        found = self.encoder(self._cut(token_NL))
        vector: Tensor = found[0] if isinstance(found, tuple) else found
        return vector

    def words(self, token_NL: Tensor, *, length: int) -> Tensor:
        """Last hidden states, projected; refused where pooling is more than a choice or a mean."""
        if getattr(self.encoder.transformer, "pooler", None) is not None:
            raise UnbagError(
                "this text encoder has a layer of its own for the pooled vector",
                expected="an encoder whose words can be projected as the caption is",
                hint="use the caption vector",
            )
        token_NL = self._cut(token_NL)
        mask_NL = (token_NL != self.encoder.config.pad_token_id).long()
        found = self.encoder.transformer(input_ids=token_NL, attention_mask=mask_NL)
        vector_NLD: Tensor = self.encoder.proj(found.last_hidden_state[:, :length])
        return vector_NLD

    def layers(self, token_NL: Tensor, real_NL: Tensor) -> Layers:
        """Every token; the first is read out, or nothing before the last layer."""
        encoder, blocks = self.encoder, blocks_of(self.encoder.transformer)
        if not blocks:
            raise _no_layers(type(encoder.transformer).__name__)
        token_NL = self._cut(token_NL)
        mask_NL = (token_NL != encoder.config.pad_token_id).long()
        found, hidden = recorded(
            blocks, lambda: encoder.transformer.forward(input_ids=token_NL, attention_mask=mask_NL)
        )
        has_class = type(encoder.pooler).__name__.startswith("Cls")
        pooled = [one[:, 0] if has_class else None for one in hidden]
        words = [one[:, : real_NL.shape[1]] for one in (*hidden, found.last_hidden_state)]
        return laid_out(words, [*pooled, encoder.pooler(found, mask_NL)], real_NL)

    def _cut(self, token_NL: Tensor) -> Tensor:
        if self.whole_because:
            return token_NL
        real_L = (token_NL != self.encoder.config.pad_token_id).any(dim=0).nonzero()
        return token_NL[:, : int(real_L.max()) + 1] if len(real_L) else token_NL


@dataclass(frozen=True, eq=False)
class Unknown:
    """An encoder we know nothing about: run as open_clip runs it."""

    model: Any
    whole_because: str = "its text encoder is of an unknown kind"

    def pooled(self, token_NL: Tensor) -> Tensor:
        """At full length."""
        vector_ND: Tensor = self.model.encode_text(token_NL, normalize=False)
        return vector_ND

    def words(self, token_NL: Tensor, *, length: int) -> Tensor:
        """Never."""
        raise UnbagError(
            "word vectors of this text encoder are not known",
            hint="use the caption vector",
        )

    def layers(self, token_NL: Tensor, real_NL: Tensor) -> Layers:
        """Never."""
        raise _no_layers(f"text encoder that runs whole, since {self.whole_because}")


TextNetwork: TypeAlias = Native | Classed | Masked | Unknown
"""A text encoder of any kind."""


def _no_layers(kind: str) -> UnbagError:
    return UnbagError(
        f"layers of a {kind} are not known",
        expected="open_clip's own text transformer, or one of transformers with a list of blocks",
        hint="use the caption vector",
    )


def project(encoder: Any, hidden: Tensor) -> Tensor:
    """Into the joint space, as the encoder projects what it pools."""
    projection = encoder.text_projection
    if projection is None:
        return hidden
    found: Tensor = (
        projection(hidden) if isinstance(projection, torch.nn.Linear) else hidden @ projection
    )
    return found


def load_tokenizer(name: str, arch: str) -> Tokenizer:
    """The tokenizer open_clip has for a model; those of the hub must be at hand."""
    try:
        found = library().get_tokenizer(name)
    except Exception as error:
        # Readers of tokenizers raise anything: OSError, ValueError, errors of the hub's client.
        why = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        raise UnbagError(
            f"the tokenizer of {arch} could not be had: {why}",
            expected="a network, or the tokenizer in the cache (HF_HOME); HF_HUB_OFFLINE=1 looks "
            "only there",
            hint="save the tokenizer, the weights and an open_clip_config.json in one folder: "
            "open_clip:local-dir:FOLDER",
        ) from error
    return HubTokenizer(found) if hasattr(found, "tokenizer") else ClipTokenizer(found)


def check_fit(tokenizer: Tokenizer, *, arch: str, rows: int, pool: str, end: int | None) -> None:
    """Refuse a tokenizer whose ids mean something else to this text encoder."""
    wrong = ""
    if tokenizer.vocabulary > rows:
        wrong = f"has {tokenizer.vocabulary} tokens, and the text encoder knows {rows}"
    elif isinstance(tokenizer, ClipTokenizer) and tokenizer.vocabulary != rows:
        wrong = f"has {tokenizer.vocabulary} tokens, and the text encoder was trained with {rows}"
    elif pool == "eos" and tokenizer.end != end:
        wrong = f"ends a caption with {tokenizer.end}, and the text encoder waits for {end}"
    elif pool == "argmax" and tokenizer.end != tokenizer.vocabulary - 1:
        wrong = "does not end a caption with its largest id, where the text encoder looks"
    if wrong:
        raise UnbagError(
            f"the tokenizer of {arch} {wrong}",
            expected="the tokenizer the weights were trained with: the scores would be wrong",
            hint="name its hf_tokenizer_name in the config: open_clip:local-dir:FOLDER",
        )


class ClipTokenizer:
    """CLIP's byte pairs: start, words, end, then zeros. Zero is also the id of "!"."""

    def __init__(self, inner: Any) -> None:
        """Wrap open_clip's SimpleTokenizer; tokens of a caption and of a word are computed once."""
        self.inner = inner
        self.context = int(inner.context_length)
        self.vocabulary = int(inner.vocab_size)
        self.end: int | None = int(inner.eot_token_id)
        clean = getattr(inner.clean_fn, "__name__", "")
        self.identity = f"bpe {self.vocabulary} {self.context} {clean}"
        self._is_lower = clean == "_clean_lower"
        self._split = lru_cache(maxsize=_REMEMBERED)(self._encode)
        self._word = lru_cache(maxsize=_REMEMBERED)(lambda word: tuple(inner.encode(word)))

    def _encode(self, caption: str) -> tuple[int, ...]:
        """As open_clip does it; several times faster where a caption needs no mending."""
        is_plain = caption.isascii() and caption.isprintable() and "&" not in caption
        if self._is_lower and is_plain:
            words = self.inner.pat.findall(" ".join(caption.split()).lower())
            inside = [i for word in words for i in self._word(word)]
        else:
            inside = self.inner.encode(caption)
        return (self.inner.sot_token_id, *inside, self.inner.eot_token_id)

    def count(self, captions: Sequence[str]) -> list[int]:
        """Tokens of each before cutting, start and end included."""
        return [len(self._split(caption)) for caption in captions]

    def __call__(self, captions: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Ids and mask, both [N, L]; a caption too long keeps its first tokens and the end."""
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
    """A tokenizer of transformers inside open_clip's wrapper, which cleans, pads and cuts."""

    def __init__(self, inner: Any) -> None:
        """Wrap open_clip's HFTokenizer or SigLipTokenizer."""
        self.inner = inner
        self.context = int(inner.context_length)
        self.vocabulary = max(inner.tokenizer.get_vocab().values()) + 1
        end = inner.tokenizer.eos_token_id
        self.end: int | None = None if end is None else int(end)
        self.is_appended = getattr(inner, "tokenizer_mode", "") == "clips"
        said = (
            tokenizer_rules(inner.tokenizer),
            getattr(getattr(inner, "clean_fn", None), "__name__", ""),
            str(getattr(inner, "strip_sep_token", "")),
            getattr(inner, "tokenizer_mode", ""),
        )
        digest = blake2b("\0".join(said).encode(), digest_size=12).hexdigest()
        self.identity = f"{type(inner).__name__} {self.context} {digest}"

    def count(self, captions: Sequence[str]) -> list[int]:
        """With the special tokens that this tokenizer adds."""
        if not captions:
            return []
        clean, package = getattr(self.inner, "clean_fn", None), library().tokenizer
        if clean is None:
            texts = [package.canonicalize_text(package.basic_clean(text)) for text in captions]
        else:
            texts = [clean(caption) for caption in captions]
        found = self.inner.tokenizer(
            texts, add_special_tokens=not self.is_appended, truncation=False, verbose=False
        )
        # This mode adds a start, an end and, after the padding, a class token by itself.
        return [len(ids) + (3 if self.is_appended else 0) for ids in found["input_ids"]]

    def __call__(self, captions: Sequence[str]) -> tuple[Tensor, Tensor]:
        """As open_clip gives them; what is not padding is real."""
        token_NL = self.inner(list(captions)).long()
        pad = self.inner.tokenizer.pad_token_id
        real_NL = token_NL != (0 if pad is None else pad)
        if getattr(self.inner, "strip_sep_token", False):
            real_NL &= token_NL != 0
        return token_NL, real_NL


Tokenizer: TypeAlias = ClipTokenizer | HubTokenizer
