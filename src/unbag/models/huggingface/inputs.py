"""Captions as the token ids that a text encoder of transformers was trained on.

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

_REMEMBERED = 1 << 17
"""Captions whose tokens are kept: the evaluation asks for counts first and for vectors later."""
_AT_ONCE = 256
"""Captions given to a tokenizer; of many more it makes more objects than Python tidies quickly."""
_ENDLESS = 1_000_000
"""A tokenizer without a limit says 10**30."""
_OFFSET = frozenset({"roberta", "xlm-roberta", "camembert", "altclip", "altclip_text_model"})
"""Text encoders that count positions from the padding token on, as RoBERTa does."""


def make_captions(
    config: Any, tokenizer: Any, *, is_padded: bool, has_mask: bool, most: int | None = None
) -> Captions:
    """For a text encoder of this configuration; `most` where it was trained on fewer tokens."""
    text = getattr(config, "text_config", config)
    if tokenizer.pad_token_id is None:
        raise UnbagError(
            f"the tokenizer {type(tokenizer).__name__} has no padding token",
            expected="one, so that captions can be run together",
            hint="set pad_token in tokenizer_config.json, as the model was trained",
        )
    tokenizer.padding_side = "right"
    # Words of the same lengths: what knows no words may still count letters.
    one, other = (tokenizer(words)["input_ids"] for words in ("a red cube", "a big ball"))
    if one == other:
        raise UnbagError(
            f"the tokenizer {type(tokenizer).__name__} knows no words: 'a red cube' and "
            "'a big ball' become the same tokens",
            expected="the files of the tokenizer; transformers makes an empty one without them",
            hint="save the tokenizer into the model's folder",
        )
    context = _context(text, tokenizer, most)
    return Captions(tokenizer, context, int(text.vocab_size), is_padded, has_mask)


def _context(text: Any, tokenizer: Any, most: int | None) -> int:
    limits = [most] if most else []
    if tokenizer.model_max_length < _ENDLESS:
        limits.append(int(tokenizer.model_max_length))
    positions = getattr(text, "max_position_embeddings", None)
    if positions:
        offset = text.pad_token_id + 1 if text.model_type in _OFFSET else 0
        limits.append(int(positions) - offset)
    if not limits:
        raise UnbagError(
            f"the model {text.model_type!r} does not say how many tokens a caption may have",
            expected="max_position_embeddings in its config, or model_max_length of its tokenizer",
        )
    return min(limits)


@dataclass(frozen=True, eq=False)
class Captions:
    """A tokenizer with the rule by which its model wants captions."""

    tokenizer: Any
    context: int
    vocabulary: int
    """Rows of the model's embedding."""
    is_padded: bool
    """Every caption at the full context, for encoders that see the padding."""
    has_mask: bool
    """Padding is masked; encoders without a mask were trained to read it, or never look right."""

    known: dict[str, list[int]] = field(default_factory=dict, repr=False)
    """Token numbers before cutting, by caption."""

    def count(self, captions: Sequence[str]) -> list[int]:
        """Tokens before cutting, special ones included."""
        return [len(ids) for ids in self._ids(captions)]

    def __call__(self, captions: Sequence[str]) -> dict[str, Tensor]:
        """Arguments of the text encoder: input_ids [N, L] and, where there is one, the mask."""
        import torch

        every = zip(captions, self._ids(captions), strict=True)
        token_NL, mask_NL = self._stacked(
            [ids if len(ids) <= self.context else self._cut(caption) for caption, ids in every]
        )
        largest = int(token_NL.max())
        if largest >= self.vocabulary:
            raise UnbagError(
                f"the tokenizer gives token {largest}, and the model knows {self.vocabulary}",
                expected="the tokenizer that the model was trained with",
                hint="save that tokenizer into the model's folder",
            )
        found = {"input_ids": torch.from_numpy(token_NL)}
        return found | ({"attention_mask": torch.from_numpy(mask_NL)} if self.has_mask else {})

    def _stacked(self, every: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
        """Token numbers, padded on the right, and 1 at the real ones."""
        count_N = np.array([len(ids) for ids in every])
        length = self.context if self.is_padded else int(count_N.max())
        real_NL = np.arange(length) < count_N[:, None]
        token_NL = np.full(real_NL.shape, self.tokenizer.pad_token_id, dtype=np.int64)
        token_NL[real_NL] = list(chain.from_iterable(every))
        return token_NL, real_NL.astype(np.int64)

    def _ids(self, captions: Sequence[str]) -> list[list[int]]:
        """Token numbers before cutting."""
        if len(self.known) > _REMEMBERED:
            self.known.clear()
        new = [caption for caption in dict.fromkeys(captions) if caption not in self.known]
        for at in range(0, len(new), _AT_ONCE):
            some = new[at : at + _AT_ONCE]
            found = self.tokenizer(
                some,
                truncation=False,
                padding=False,
                verbose=False,
                return_attention_mask=False,
                return_token_type_ids=False,
            )
            # Decoders that begin captions with no token have none of an empty one; this is read.
            every = (ids or [self.tokenizer.pad_token_id] for ids in found["input_ids"])
            self.known.update(zip(some, every, strict=True))
        return [self.known[caption] for caption in captions]

    def _cut(self, caption: str) -> list[int]:
        """As the tokenizer cuts: what stands at the end of every caption stays."""
        found = self.tokenizer(caption, truncation=True, max_length=self.context)
        ids: list[int] = found["input_ids"]
        return ids

    def real(self, captions: Sequence[str], length: int) -> Tensor:
        """[N, L], True at tokens of the caption, False at padding on the right."""
        import torch

        count_N = torch.tensor(self.count(captions)).clamp(max=self.context)
        return torch.arange(length)[None, :] < count_N[:, None]

    def fresh(self) -> Captions:
        """The same without the tokens that are remembered, to be sent to another process."""
        return replace(self, known={})

    def padded(self) -> Captions:
        """The same, always at the full context."""
        return replace(self, is_padded=True)

    @property
    def said(self) -> str:
        """All that decides a token number, for the fingerprint."""
        rule = f"{self.context} {self.is_padded} {self.has_mask} {self.tokenizer.padding_side}"
        return f"{_contents(self.tokenizer)} {rule}"


def _contents(tokenizer: Any) -> str:
    """Class, vocabulary and rules; not the folder, and not what an earlier call left behind."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return f"{type(tokenizer).__name__} {sorted(tokenizer.get_vocab().items())!r}"
    rules = json.loads(backend.to_str())
    rules |= {"truncation": None, "padding": None}
    return f"{type(tokenizer).__name__} {json.dumps(rules, sort_keys=True)}"
