"""Rows of tokens come in; the logits at the end of each go out, with the picture computed once.

Three ways, from the fastest to the safest. Where attention is causal, the beginning that all
prompts about a picture share (the picture itself) is run once and its keys and values serve every
prompt. Where words change what the picture's tokens become, only the picture tower's features are
computed once. For all other kinds a picture is run with every prompt.

Dimensions: N rows, B pictures, L tokens, P tokens of a shared beginning, K last positions,
V vocabulary, T axes of positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Any

from unbag.models.hf_chat_hidden import last_hidden
from unbag.models.hf_chat_inputs import Row, Seen, joined, padded

if TYPE_CHECKING:
    from torch import Tensor

SHARES_BEGINNING = frozenset(
    {
        "idefics2", "idefics3", "internvl", "llava", "llava_next", "qwen2_5_vl", "qwen2_vl",
        "qwen3_vl", "smolvlm",
    }
)  # fmt: skip
"""Kinds with causal attention throughout, so that a beginning does not depend on its end."""
SHARES_FEATURES = frozenset({"paligemma"})
"""Kinds whose prompt and picture look at each other."""


@dataclass(frozen=True, eq=False)
class State:
    """What a language model remembers of the rows it has read."""

    cache: Any
    mask_NL: Tensor
    next_N: Tensor
    """Position of the next token."""


@dataclass(frozen=True, eq=False)
class _Features:
    """A picture tower's output, as the models of transformers look into it."""

    pooler_output: Tensor


@dataclass(frozen=True, eq=False)
class CausalRunner:
    """Runs a chat model that reads picture, prompt and answer as one sequence."""

    model: Any
    family: str
    device: str
    pad: int
    is_shared: bool = True
    """False runs every prompt with its picture, to compare."""

    def logits(self, rows: Sequence[Row], keep: int) -> Tensor:
        """Logits at the last `keep` tokens of every row, [N, K, V]."""
        seen = list({id(row.seen): row.seen for row in rows if row.seen is not None}.values())
        may_share = self.is_shared and 0 < len(seen) < len(rows)
        if may_share and self.family in SHARES_BEGINNING:
            return self._by_beginning(rows, seen, keep)
        if may_share and self.family in SHARES_FEATURES:
            features = self._features(seen)
            places = {id(one): b for b, one in enumerate(seen)}
            return self._whole(rows, keep, features=features[[places[id(r.seen)] for r in rows]])[0]
        return self._whole(rows, keep)[0]

    def start(self, rows: Sequence[Row]) -> tuple[Tensor, State]:
        """Read the prompts; logits of the first token of the answer, [N, V]."""
        logit_NKV, state = self._whole(rows, 1, caches=True)
        assert state is not None
        return logit_NKV[:, -1], state

    def hidden(self, rows: Sequence[Row], *, left: bool = True) -> Tensor:
        """What the last layer makes of the last token of every row, [N, W].

        With gradients where they are on. `left` is the side of the padding: no number turns on it.
        """
        inputs = self._inputs(rows, left=left)
        return last_hidden(self.model, inputs, inputs["attention_mask"])

    def step(self, token_N: Tensor, state: State) -> tuple[Tensor, State]:
        """Read one token more; logits of the one after it, [N, V]."""
        import torch

        mask_NL = torch.cat([state.mask_NL, torch.ones_like(token_N)[:, None]], dim=1)
        found = self._forward(
            input_ids=token_N[:, None],
            attention_mask=mask_NL,
            position_ids=self._text_positions(state.next_N[:, None]),
            past_key_values=state.cache,
            use_cache=True,
        )
        return found.logits[:, -1], State(found.past_key_values, mask_NL, state.next_N + 1)

    def _whole(
        self,
        rows: Sequence[Row],
        keep: int,
        *,
        features: Tensor | None = None,
        caches: bool = False,
    ) -> tuple[Tensor, State | None]:
        """Every row from its first token on, with its own picture."""
        inputs = self._inputs(rows, features=features)
        found = self._forward(keep=keep, use_cache=caches, **inputs)
        state = None
        if caches:
            after_N = _next(inputs["position_ids"])
            state = State(found.past_key_values, inputs["attention_mask"], after_N)
        return found.logits[:, -keep:], state

    def _inputs(
        self, rows: Sequence[Row], *, features: Tensor | None = None, left: bool = True
    ) -> dict[str, Any]:
        """What the model takes; `left` is the side of the padding."""
        token_NL, mask_NL = padded(
            [row.tokens for row in rows], fill=self.pad, device=self.device, left=left
        )
        seen = [row.seen for row in rows if row.seen is not None]
        arrays: dict[str, Any] = joined(seen, device=self.device, dtype=self.model.dtype)
        kinds = self._kinds(rows, left=left)
        position_TNL = self._positions(token_NL, mask_NL, kinds, arrays)
        if features is not None:
            arrays = {"mm_encoder_outputs": {"image": _Features(features)}}
        if "token_type_ids" in self._accepts and "token_type_ids" in kinds:
            arrays["token_type_ids"] = kinds["token_type_ids"]
        return {
            "input_ids": token_NL,
            "attention_mask": mask_NL,
            "position_ids": position_TNL,
            **arrays,
        }

    def _by_beginning(self, rows: Sequence[Row], seen: Sequence[Seen], keep: int) -> Tensor:
        """Read each picture once, then the rest of every prompt about it."""
        import torch

        places = {id(one): b for b, one in enumerate(seen)}
        shared = [_shared([row for row in rows if row.seen is one]) for one in seen]
        firsts = [next(row for row in rows if row.seen is one) for one in seen]
        begun = [
            Row(one, row.prompt[:length])
            for one, row, length in zip(seen, firsts, shared, strict=True)
        ]
        _, state = self._whole(begun, 1, caches=True)
        assert state is not None
        place_N = torch.tensor([places[id(row.seen)] for row in rows], device=self.device)
        state.cache.batch_select_indices(place_N)
        rest = [row.tokens[shared[places[id(row.seen)]] :] for row in rows]
        token_NL, mask_NL = padded(rest, fill=self.pad, device=self.device)
        position_NL = state.next_N[place_N][:, None] + (mask_NL.cumsum(dim=1) - 1).clamp(min=0)
        found = self._forward(
            input_ids=token_NL,
            attention_mask=torch.cat([state.mask_NL[place_N], mask_NL], dim=1),
            position_ids=self._text_positions(position_NL),
            past_key_values=state.cache,
            use_cache=True,
            keep=keep,
        )
        logit_NKV: Tensor = found.logits[:, -keep:]
        return logit_NKV

    def _forward(self, *, keep: int = 1, **inputs: Any) -> Any:
        """Logits of the last tokens only, where the model can leave out the others."""
        import torch

        if "logits_to_keep" in self._accepts:
            inputs["logits_to_keep"] = keep
        with torch.inference_mode():
            return self.model(**inputs, return_dict=True)

    @cached_property
    def _accepts(self) -> frozenset[str]:
        return frozenset(signature(type(self.model).forward).parameters)

    @property
    def _has_axes(self) -> bool:
        """Positions in time, height and width, as Qwen-VL has them."""
        return hasattr(getattr(self.model, "model", None), "get_rope_index")

    def _features(self, seen: Sequence[Seen]) -> Tensor:
        import torch

        arrays = joined(seen, device=self.device, dtype=self.model.dtype)
        with torch.inference_mode():
            found: Tensor = self.model.get_image_features(**arrays).pooler_output
        return found

    def _kinds(self, rows: Sequence[Row], *, left: bool = True) -> dict[str, Tensor]:
        """Inputs with a number a token: as the processor gave them, 0 for words.

        For PaliGemma the tokens of an answer are 1: they look back only.
        """
        answer = 1 if self.family == "paligemma" else 0
        names = {name for row in rows if row.seen for name in row.seen.kinds}
        names |= {"token_type_ids"} if self.family == "paligemma" else set()
        found = {}
        for name in names:
            lists = []
            for row in rows:
                head = row.seen.kinds.get(name, ()) if row.seen else ()
                words = len(row.prompt) - len(head)
                if words < 0:
                    head, words = head[: len(row.prompt)], 0
                lists.append([*head, *[0] * words, *[answer] * len(row.given)])
            found[name] = padded(lists, device=self.device, left=left)[0]
        return found

    def _positions(
        self, token_NL: Tensor, mask_NL: Tensor, kinds: dict[str, Tensor], arrays: dict[str, Any]
    ) -> Tensor:
        """[N, L], or [3, N, L] where a picture's tokens have a place in time, height and width."""
        if "image_grid_thw" in arrays and self._has_axes:
            found: Tensor = self.model.model.get_rope_index(
                token_NL,
                mm_token_type_ids=kinds["mm_token_type_ids"],
                image_grid_thw=arrays["image_grid_thw"],
                attention_mask=mask_NL,
            )[0]
            return found
        first = 1 if self.family == "paligemma" else 0
        return (mask_NL.cumsum(dim=1) - 1).clamp(min=0) + first

    def _text_positions(self, position_NL: Tensor) -> Tensor:
        if self._has_axes:
            return position_NL.expand(3, *position_NL.shape)
        return position_NL


def _next(position_TNL: Tensor) -> Tensor:
    """The position after the last one of every row; padding on the left has position 0."""
    largest = position_TNL.amax(dim=-1)
    found: Tensor = (largest.amax(dim=0) if largest.dim() == 2 else largest) + 1
    return found


def _shared(rows: Sequence[Row]) -> int:
    """Tokens that all rows begin with, up to one before the first answer."""
    first, *others = (row.prompt for row in rows)
    most = min(len(row.prompt) for row in rows) - 1
    length = 0
    while length < most and all(other[length] == first[length] for other in others):
        length += 1
    return length
