"""Prompts that a chat model has read come in; its answers go out, token by token.

Dimensions: N answers, L tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unbag.models.hf_chat_blip import BlipRunner
from unbag.models.hf_chat_inputs import Row
from unbag.models.hf_chat_run import CausalRunner
from unbag.models.m3id import M3ID

if TYPE_CHECKING:
    from torch import Tensor

NOTHING = -1
"""Stands after the end of an answer."""


@dataclass(frozen=True, eq=False)
class Decoder:
    """Takes the most probable token each time: as it is, or as M3ID sees it."""

    runner: CausalRunner | BlipRunner
    tokenizer: Any
    ends: frozenset[int]
    m3id: M3ID | None
    longest: int

    def __call__(self, pairs: Sequence[tuple[Row, Row | None]]) -> Tensor:
        """Rows with their picture and, for M3ID, without it; tokens of the answers, [N, L]."""
        import torch

        runner: Any = self.runner
        seen_NV, seen = runner.start([row for row, _ in pairs])
        blind = [row for _, row in pairs if row is not None]
        prior_NV, prior = runner.start(blind) if self.m3id else (None, None)
        end_E = torch.tensor(sorted(self.ends), dtype=torch.long, device=seen_NV.device)
        is_over_N = torch.zeros(len(pairs), dtype=torch.bool, device=seen_NV.device)
        found = []
        for step in range(self.longest):
            log_NV = seen_NV.float().log_softmax(dim=-1)
            if self.m3id is not None and prior_NV is not None:
                log_NV = self.m3id(log_NV, prior_NV.float().log_softmax(dim=-1), step)
            token_N = log_NV.argmax(dim=-1)
            is_over_N = is_over_N | torch.isin(token_N, end_E)
            found.append(token_N.masked_fill(is_over_N, NOTHING))
            if bool(is_over_N.all()) or step + 1 == self.longest:
                break
            seen_NV, seen = runner.step(token_N, seen)
            if self.m3id is not None:
                prior_NV, prior = runner.step(token_N, prior)
        found += [torch.full_like(found[0], NOTHING)] * (self.longest - len(found))
        return torch.stack(found, dim=1)

    def text(self, token_L: Tensor) -> str:
        """The words of an answer."""
        tokens = [int(token) for token in token_L if int(token) != NOTHING]
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True)).strip()
