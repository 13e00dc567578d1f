"""Captions come in; token ids with a mask of the real ones, and counts before cutting, go out.

Dimensions: N captions, L the tower's context.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from unbag.errors import UserError
from unbag.models.open_clip.library import library

if TYPE_CHECKING:
    from torch import Tensor

REMEMBERED = 1 << 17
"""Captions whose tokens are kept: the engine asks for counts first and for vectors later."""


class Tokenizer(Protocol):
    """What a text tower needs of any tokenizer."""

    @property
    def context(self) -> int:
        """Tokens of every row."""

    @property
    def vocabulary(self) -> int:
        """One more than the largest id."""

    @property
    def end(self) -> int | None:
        """The id of the end token, if there is one."""

    @property
    def identity(self) -> str:
        """For the fingerprint."""

    def count(self, captions: Sequence[str]) -> list[int]:
        """Tokens of each before cutting, special ones included."""

    def __call__(self, captions: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Ids and mask, both [N, L]."""


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
        self._split = lru_cache(maxsize=REMEMBERED)(self._encode)
        self._word = lru_cache(maxsize=REMEMBERED)(lambda word: tuple(inner.encode(word)))

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
        """Start and end included."""
        return [len(self._split(caption)) for caption in captions]

    def __call__(self, captions: Sequence[str]) -> tuple[Tensor, Tensor]:
        """A caption that is too long keeps its first tokens and the end."""
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
        self.identity = f"{type(inner).__name__} {self.context} {_digest(inner)}"

    def count(self, captions: Sequence[str]) -> list[int]:
        """With the special tokens that this tokenizer adds."""
        if not captions:
            return []
        texts = [self._clean(caption) for caption in captions]
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

    def _clean(self, caption: str) -> str:
        clean = getattr(self.inner, "clean_fn", None)
        if clean is not None:
            return str(clean(caption))
        package = library().tokenizer
        return str(package.canonicalize_text(package.basic_clean(caption)))


def load_tokenizer(name: str, arch: str) -> Tokenizer:
    """The tokenizer open_clip has for a model; those of the hub must be at hand."""
    try:
        found = library().get_tokenizer(name)
    except Exception as error:
        # Readers of tokenizers raise anything: OSError, ValueError, errors of the hub's client.
        why = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        raise UserError(
            f"the tokenizer of {arch} could not be had: {why}",
            expected="a network, or the tokenizer in the cache (HF_HOME); HF_HUB_OFFLINE=1 looks "
            "only there",
            way_out="save the tokenizer, the weights and an open_clip_config.json in one folder: "
            "open_clip:local-dir:FOLDER",
        ) from error
    return HubTokenizer(found) if hasattr(found, "tokenizer") else ClipTokenizer(found)


def check_fit(tokenizer: Tokenizer, *, arch: str, rows: int, pool: str, end: int | None) -> None:
    """Refuse a tokenizer whose ids mean something else to this text tower."""
    wrong = ""
    if tokenizer.vocabulary > rows:
        wrong = f"has {tokenizer.vocabulary} tokens, and the text tower knows {rows}"
    elif isinstance(tokenizer, ClipTokenizer) and tokenizer.vocabulary != rows:
        wrong = f"has {tokenizer.vocabulary} tokens, and the text tower was trained with {rows}"
    elif pool == "eos" and tokenizer.end != end:
        wrong = f"ends a caption with {tokenizer.end}, and the text tower waits for {end}"
    elif pool == "argmax" and tokenizer.end != tokenizer.vocabulary - 1:
        wrong = "does not end a caption with its largest id, where the text tower looks"
    if wrong:
        raise UserError(
            f"the tokenizer of {arch} {wrong}",
            expected="the tokenizer the weights were trained with: the scores would be wrong",
            way_out="name its hf_tokenizer_name in the config: open_clip:local-dir:FOLDER",
        )


def _digest(inner: Any) -> str:
    backend = getattr(inner.tokenizer, "backend_tokenizer", None)
    words = backend.to_str() if backend else repr(sorted(inner.tokenizer.get_vocab().items()))
    clean = getattr(getattr(inner, "clean_fn", None), "__name__", "")
    said = (clean, str(getattr(inner, "strip_sep_token", "")), getattr(inner, "tokenizer_mode", ""))
    return blake2b("\0".join((words, *said)).encode(), digest_size=12).hexdigest()
