"""Captions come in; the token numbers that a text tower of transformers was trained on go out.

Dimensions: N captions, L tokens.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from unbag.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

_ENDLESS = 1_000_000
"""A tokenizer without a limit says 10**30."""
_OFFSET = frozenset({"roberta", "xlm-roberta", "camembert", "altclip", "altclip_text_model"})
"""Text towers that count positions from the padding token on, as RoBERTa does."""


@dataclass(frozen=True, eq=False)
class Captions:
    """A tokenizer with the rule by which its model wants captions."""

    tokenizer: Any
    context: int
    vocabulary: int
    """Rows of the model's embedding."""
    is_padded: bool
    """Every caption at the full context, for towers that see the padding."""
    has_mask: bool
    """Padding is masked; towers without a mask were trained to read it, or never look right."""

    def count(self, captions: Sequence[str]) -> list[int]:
        """Tokens before cutting, special ones included."""
        found = self.tokenizer(list(captions), truncation=False, padding=False, verbose=False)
        return [len(ids) for ids in found["input_ids"]]

    def __call__(self, captions: Sequence[str]) -> dict[str, Tensor]:
        """Arguments of the text tower: input_ids [N, L] and, where there is one, the mask."""
        found = self.tokenizer(
            list(captions),
            truncation=True,
            max_length=self.context,
            padding="max_length" if self.is_padded else "longest",
            return_attention_mask=True,
            return_tensors="pt",
        )
        largest = int(found["input_ids"].max())
        if largest >= self.vocabulary:
            raise UserError(
                f"the tokenizer gives token {largest}, and the model knows {self.vocabulary}",
                expected="the tokenizer that the model was trained with",
                way_out="save that tokenizer into the model's folder",
            )
        names = ("input_ids", "attention_mask") if self.has_mask else ("input_ids",)
        return {name: found[name] for name in names}

    def real(self, captions: Sequence[str], length: int) -> Tensor:
        """[N, L], True at tokens of the caption, False at padding on the right."""
        import torch

        count_N = torch.tensor(self.count(captions)).clamp(max=self.context)
        return torch.arange(length)[None, :] < count_N[:, None]

    def padded(self) -> Captions:
        """The same, always at the full context."""
        return replace(self, is_padded=True)

    @property
    def said(self) -> str:
        """All that decides a token number, for the fingerprint."""
        rule = f"{self.context} {self.is_padded} {self.has_mask} {self.tokenizer.padding_side}"
        return f"{_contents(self.tokenizer)} {rule}"


def make_captions(
    config: Any, tokenizer: Any, *, is_padded: bool, has_mask: bool, most: int | None = None
) -> Captions:
    """For a text tower of this configuration; `most` where it was trained on fewer tokens."""
    text = getattr(config, "text_config", config)
    if tokenizer.pad_token_id is None:
        raise UserError(
            f"the tokenizer {type(tokenizer).__name__} has no padding token",
            expected="one, so that captions can be run together",
            way_out="set pad_token in tokenizer_config.json, as the model was trained",
        )
    tokenizer.padding_side = "right"
    _check_words(tokenizer)
    return Captions(
        tokenizer, _context(text, tokenizer, most), int(text.vocab_size), is_padded, has_mask
    )


def _check_words(tokenizer: Any) -> None:
    # Words of the same lengths: what knows no words may still count letters.
    one, other = (tokenizer(text)["input_ids"] for text in ("a red cube", "a big ball"))
    if one == other:
        raise UserError(
            f"the tokenizer {type(tokenizer).__name__} knows no words: 'a red cube' and "
            "'a big ball' become the same tokens",
            expected="the files of the tokenizer; transformers makes an empty one without them",
            way_out="save the tokenizer into the model's folder",
        )


def _context(text: Any, tokenizer: Any, most: int | None) -> int:
    limits = [most] if most else []
    if tokenizer.model_max_length < _ENDLESS:
        limits.append(int(tokenizer.model_max_length))
    positions = getattr(text, "max_position_embeddings", None)
    if positions:
        offset = text.pad_token_id + 1 if text.model_type in _OFFSET else 0
        limits.append(int(positions) - offset)
    if not limits:
        raise UserError(
            f"the model {text.model_type!r} does not say how many tokens a caption may have",
            expected="max_position_embeddings in its config, or model_max_length of its tokenizer",
        )
    return min(limits)


def _contents(tokenizer: Any) -> str:
    """Class, vocabulary and rules; not the folder, and not what an earlier call left behind."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return f"{type(tokenizer).__name__} {sorted(tokenizer.get_vocab().items())!r}"
    rules = json.loads(backend.to_str())
    rules |= {"truncation": None, "padding": None}
    return f"{type(tokenizer).__name__} {json.dumps(rules, sort_keys=True)}"
