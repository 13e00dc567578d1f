"""Tokenization of captions for text encoders of transformers.

Dimensions: N captions, L tokens.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from unbag.errors import UnbagError
from unbag.types import IntArray

if TYPE_CHECKING:
    from torch import Tensor

_MAX_CACHED = 1 << 17
"""Captions whose tokens are cached, since evaluation first counts and later encodes them."""
_TOKENIZER_BATCH = 256
"""Captions per call of a tokenizer; larger batches slow down Python's garbage collection."""
_NO_LIMIT = 1_000_000
"""A larger limit counts as none: tokenizers without a limit report 10**30."""
_WITH_POSITION_OFFSET = frozenset(
    {"roberta", "xlm-roberta", "camembert", "altclip", "altclip_text_model"}
)
"""Text encoders whose positions start after the padding token, as in RoBERTa."""


def make_captions(
    config: Any, tokenizer: Any, *, is_padded: bool, has_mask: bool, most: int | None = None
) -> Captions:
    """Make the tokenization of a text encoder; `most` limits it to the tokens of its training."""
    text_config = getattr(config, "text_config", config)
    if tokenizer.pad_token_id is None:
        raise UnbagError(
            f"the tokenizer {type(tokenizer).__name__} has no padding token",
            expected="one, so that captions can be batched",
            hint="set pad_token in tokenizer_config.json, as the model was trained",
        )
    tokenizer.padding_side = "right"
    # Texts with words of equal lengths, since an empty tokenizer may still count letters.
    first, second = (tokenizer(words)["input_ids"] for words in ("a red cube", "a big ball"))
    if first == second:
        raise UnbagError(
            f"the tokenizer {type(tokenizer).__name__} has no vocabulary: 'a red cube' and "
            "'a big ball' give the same tokens",
            expected="the files of the tokenizer; without them transformers makes an empty one",
            hint="save the tokenizer into the model's folder",
        )
    context = _context(text_config, tokenizer, most)
    return Captions(tokenizer, context, int(text_config.vocab_size), is_padded, has_mask)


def _context(text_config: Any, tokenizer: Any, limit: int | None) -> int:
    limits = [limit] if limit else []
    if tokenizer.model_max_length < _NO_LIMIT:
        limits.append(int(tokenizer.model_max_length))
    positions = getattr(text_config, "max_position_embeddings", None)
    if positions:
        offset = (
            text_config.pad_token_id + 1 if text_config.model_type in _WITH_POSITION_OFFSET else 0
        )
        limits.append(int(positions) - offset)
    if not limits:
        raise UnbagError(
            f"the model {text_config.model_type!r} states no maximum number of tokens",
            expected="max_position_embeddings in its config, or model_max_length of its tokenizer",
        )
    return min(limits)


@dataclass(frozen=True, eq=False)
class Captions:
    """Converts captions to the inputs of a text encoder."""

    tokenizer: Any
    context: int
    vocabulary: int
    """Rows of the embedding of the model."""
    is_padded: bool
    """Whether captions are padded to the full context, for encoders that attend to padding."""
    has_mask: bool
    """Whether padding is masked; other encoders were trained with padding, or are causal."""

    known: dict[str, list[int]] = field(default_factory=dict, repr=False)
    """Cached token ids before truncation, by caption."""

    def count(self, captions: Sequence[str]) -> list[int]:
        """Return the tokens of each caption before truncation, special tokens included."""
        return [len(ids) for ids in self._ids(captions)]

    def __call__(self, captions: Sequence[str]) -> dict[str, Tensor]:
        """Return the arguments of the text encoder: input_ids [N, L] and, if used, the mask."""
        import torch

        pairs = zip(captions, self._ids(captions), strict=True)
        token_NL, mask_NL = self._pad(
            [ids if len(ids) <= self.context else self._cut(caption) for caption, ids in pairs]
        )
        largest = int(token_NL.max())
        if largest >= self.vocabulary:
            raise UnbagError(
                f"the tokenizer gives token {largest}, and the model knows {self.vocabulary}",
                expected="the tokenizer that the model was trained with",
                hint="save that tokenizer into the model's folder",
            )
        inputs = {"input_ids": torch.from_numpy(token_NL)}
        return inputs | ({"attention_mask": torch.from_numpy(mask_NL)} if self.has_mask else {})

    def _pad(self, rows: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
        """Return token ids padded on the right, and the mask."""
        count_N = np.array([len(ids) for ids in rows])
        length = self.context if self.is_padded else int(count_N.max())
        real_NL = np.arange(length) < count_N[:, None]
        token_NL = np.full(real_NL.shape, self.tokenizer.pad_token_id, dtype=np.int64)
        token_NL[real_NL] = list(chain.from_iterable(rows))
        return token_NL, real_NL.astype(np.int64)

    def _ids(self, captions: Sequence[str]) -> list[list[int]]:
        """Return token ids before truncation."""
        if len(self.known) > _MAX_CACHED:
            self.known.clear()
        new = [caption for caption in dict.fromkeys(captions) if caption not in self.known]
        for start in range(0, len(new), _TOKENIZER_BATCH):
            batch = new[start : start + _TOKENIZER_BATCH]
            tokens = self.tokenizer(
                batch,
                truncation=False,
                padding=False,
                verbose=False,
                return_attention_mask=False,
                return_token_type_ids=False,
            )
            # An empty caption has no tokens for decoders without a start token; it becomes padding.
            rows = (ids or [self.tokenizer.pad_token_id] for ids in tokens["input_ids"])
            self.known.update(zip(batch, rows, strict=True))
        return [self.known[caption] for caption in captions]

    def _cut(self, caption: str) -> list[int]:
        """Truncate by the tokenizer, which keeps the end token."""
        tokens = self.tokenizer(caption, truncation=True, max_length=self.context)
        ids: list[int] = tokens["input_ids"]
        return ids

    def real(self, captions: Sequence[str], length: int) -> Tensor:
        """Return a mask [N, L], True at tokens of the caption, False at padding."""
        import torch

        count_N = torch.tensor(self.count(captions)).clamp(max=self.context)
        return torch.arange(length)[None, :] < count_N[:, None]

    def fresh(self) -> Captions:
        """Return a copy with an empty cache, to be sent to another process."""
        return replace(self, known={})

    def padded(self) -> Captions:
        """Return a copy that pads to the full context."""
        return replace(self, is_padded=True)

    @property
    def settings(self) -> str:
        """All that decides token ids, for the fingerprint."""
        rule = f"{self.context} {self.is_padded} {self.has_mask} {self.tokenizer.padding_side}"
        return f"{_tokenizer_state(self.tokenizer)} {rule}"


def _tokenizer_state(tokenizer: Any) -> str:
    """Return class, vocabulary and rules, without the folder and the state of earlier calls."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return f"{type(tokenizer).__name__} {sorted(tokenizer.get_vocab().items())!r}"
    rules = json.loads(backend.to_str())
    rules |= {"truncation": None, "padding": None}
    return f"{type(tokenizer).__name__} {json.dumps(rules, sort_keys=True)}"
