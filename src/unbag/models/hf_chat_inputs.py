"""Pictures and prompts come in; the tokens and tensors that a chat model reads go out.

Dimensions: N rows of a batch, L tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unbag.errors import PictureError, UserError
from unbag.models.hf_chat_prompt import Prompts, Rendered
from unbag.types import Picture

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

_TEXT = frozenset({"input_ids", "attention_mask", "labels"})
_FAILURES = (ValueError, TypeError, RuntimeError, ZeroDivisionError)
"""What processors raise."""
_USUAL = 336
"""Side of a picture that any model takes."""


@dataclass(frozen=True, eq=False)
class Seen:
    """A prepared picture: its tensors, and the tokens of a prompt up to its end."""

    head: tuple[int, ...]
    kinds: Mapping[str, tuple[int, ...]]
    """Other inputs with a number a token, such as mm_token_type_ids, for the tokens of the head."""
    arrays: Mapping[str, Tensor]
    """Pixels and what describes them, as a batch of one."""
    before: tuple[int, ...]
    """The head as tokenized, where one token stands for the picture."""


@dataclass(frozen=True, eq=False)
class Row:
    """One sequence to run: a prompt, some tokens of an answer, and what may come after them."""

    seen: Seen | None
    prompt: tuple[int, ...]
    given: tuple[int, ...] = ()
    """Tokens of the answer that are read, not predicted: all but the last."""
    last: tuple[int, ...] = ()
    """Tokens whose log-probability after `given` is wanted."""
    words: str = ""
    """The prompt in words, for models that read it a second time."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """All that is read."""
        return self.prompt + self.given


@dataclass(frozen=True, eq=False)
class Inputs:
    """A batch, padded on the left so that all answers end at the same place."""

    token_NL: Tensor
    mask_NL: Tensor
    kinds: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Preparer:
    """Runs a processor once a picture, whatever the number of prompts about it."""

    prompts: Prompts
    image_token_id: int

    def see(self, picture: Picture, rendered: Rendered) -> Seen:
        """Open and prepare a picture; any prompt about it will do."""
        import torch

        image = picture.open()
        try:
            found = self._processed(image, rendered)
        except _FAILURES as error:
            raise self._why_not(picture, image, rendered, error) from error
        whole = [int(i) for i in found["input_ids"][0]]
        head, before = self._head(whole, rendered)
        kinds = {
            name: tuple(int(i) for i in value[0, : len(head)])
            for name, value in found.items()
            if name not in _TEXT
            and isinstance(value, torch.Tensor)
            and value.shape == found["input_ids"].shape
        }
        arrays = {
            name: value
            for name, value in found.items()
            if name not in _TEXT and name not in kinds and isinstance(value, torch.Tensor)
        }
        return Seen(tuple(head), kinds, arrays, tuple(before))

    def _processed(self, image: Image, rendered: Rendered) -> Any:
        bos = self.prompts.tokenizer.bos_token
        adds = not (bos is not None and rendered.text.startswith(bos))
        return self.prompts.processor(
            text=[rendered.text], images=[image], return_tensors="pt", add_special_tokens=adds
        )

    def _why_not(
        self, picture: Picture, image: Image, rendered: Rendered, error: Exception
    ) -> UserError:
        """Is it this picture, or would every picture fail?"""
        try:
            self._processed(image.resize((_USUAL, _USUAL)), rendered)
        except _FAILURES:
            return UserError(
                f"{self.prompts.name} cannot prepare any picture: {error}",
                expected="a processor and a chat template that put the picture into the prompt",
                way_out="take the processor and chat_template that belong to this model",
            )
        return PictureError(
            picture.key,
            f"{self.prompts.name} cannot prepare the picture {picture.name} "
            f"({image.size[0]} x {image.size[1]} pixels): {error}",
            expected="a picture of a shape that this model takes",
            way_out="cut it to a usual shape",
        )

    def prompt_of(self, seen: Seen | None, rendered: Rendered) -> tuple[int, ...]:
        """Tokens of a prompt, with those of the picture in their place."""
        tokens = self.prompts.tokens(rendered.text, is_start=True)
        if seen is None:
            return tuple(tokens)
        if not seen.before:
            return (*seen.head, *tokens)
        if tuple(tokens[: len(seen.before)]) != seen.before:
            raise UserError(
                f"the chat template of {self.prompts.name} puts words of the prompt before the "
                "picture",
                expected="the picture first, so that all prompts about it share their beginning",
            )
        return (*seen.head, *self._tail(rendered, tokens[len(seen.before) :]))

    def _head(self, whole: list[int], rendered: Rendered) -> tuple[list[int], list[int]]:
        """The expanded tokens up to the end of the picture, and the same as tokenized."""
        if self.image_token_id not in whole:
            raise UserError(
                f"the prompt of {self.prompts.name} has no place for the picture "
                f"(token {self.image_token_id}): {rendered.text!r}",
                expected="a chat template that puts the picture into the prompt",
                way_out="take the processor and chat_template that belong to this model",
            )
        tokens = self.prompts.tokens(rendered.text, is_start=True)
        if self.image_token_id not in tokens:
            # The processor itself puts the picture in front of everything.
            return whole[: len(whole) - len(tokens)], []
        last = len(tokens) - tokens[::-1].index(self.image_token_id)
        tail = self._tail(rendered, tokens[last:])
        if whole[len(whole) - len(tail) :] != tail:
            raise UserError(
                f"the processor of {self.prompts.name} rewrites the prompt after the picture",
                expected="the tokens of the prompt as its tokenizer gives them",
                way_out="this kind of model is not supported yet",
            )
        return whole[: len(whole) - len(tail)], tokens[:last]

    def _tail(self, rendered: Rendered, tokens: list[int]) -> list[int]:
        """PaliGemma's processor adds a start token and a line end around the words."""
        if self.prompts.family != "paligemma" or self.prompts.template is not None:
            return tokens
        return [int(self.prompts.tokenizer.bos_token_id), *self.prompts.tokens(rendered.context)]


def padded(
    rows: Sequence[Sequence[int]], *, fill: int = 0, device: str = "cpu", left: bool = True
) -> tuple[Tensor, Tensor]:
    """Rows of tokens as one tensor with its mask."""
    import torch

    longest = max((len(row) for row in rows), default=0)
    token_NL = torch.full((len(rows), longest), fill, dtype=torch.long)
    mask_NL = torch.zeros((len(rows), longest), dtype=torch.long)
    for n, row in enumerate(rows):
        at = slice(longest - len(row), longest) if left else slice(0, len(row))
        token_NL[n, at] = torch.tensor(list(row), dtype=torch.long)
        mask_NL[n, at] = 1
    return token_NL.to(device), mask_NL.to(device)


def joined(seen: Sequence[Seen], *, device: str, dtype: Any) -> dict[str, Tensor]:
    """Tensors of several pictures as one batch; what differs in size is filled with zeros.

    Zeros are what the processors themselves fill with, and what the models then leave out.
    """
    import torch

    found: dict[str, Tensor] = {}
    for name in seen[0].arrays if seen else ():
        parts = [one.arrays[name] for one in seen]
        size = [max(part.shape[d] for part in parts) for d in range(1, parts[0].dim())]
        filled = [_filled(part, size) for part in parts]
        whole = torch.cat(filled).to(device)
        found[name] = whole.to(dtype) if whole.is_floating_point() else whole
    return found


def _filled(part: Tensor, size: Sequence[int]) -> Tensor:
    """With zeros at the end of every dimension but the first."""
    from torch.nn.functional import pad

    missing = [want - have for want, have in zip(size, part.shape[1:], strict=True)]
    if not any(missing):
        return part
    return pad(part, [n for gap in reversed(missing) for n in (0, gap)])
