"""Rows of tokens for an InstructBLIP come in; logits at the end of each answer go out.

Its Q-Former reads the prompt too, so that what it says of a picture differs from prompt to prompt:
only the picture tower's output is computed once. Its language model is a decoder, or an encoder
that reads the prompt and a decoder that answers (Flan-T5).

Dimensions: N rows, B pictures, L tokens, K last positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unbag.models.hf_chat_inputs import Row, joined, padded

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class BlipState:
    """Rows read so far; nothing is cached, since answers of these models are short."""

    rows: tuple[Row, ...]


@dataclass(frozen=True, eq=False)
class BlipRunner:
    """Runs an InstructBLIP."""

    model: Any
    tokenizer: Any
    """Of the Q-Former."""
    device: str
    pad: int
    is_shared: bool = True

    @property
    def reads_apart(self) -> bool:
        """Whether an encoder reads the prompt and a decoder answers."""
        return not self.model.config.use_decoder_only_language_model

    def logits(self, rows: Sequence[Row], keep: int) -> Tensor:
        """Logits at the last `keep` places of every answer, [N, K, V]."""
        import torch

        tokens = [row.prompt if self.reads_apart else row.tokens for row in rows]
        token_NL, mask_NL = padded(tokens, fill=self.pad, device=self.device)
        inputs: dict[str, Any] = {"input_ids": token_NL, "attention_mask": mask_NL}
        given = [(self._first, *row.given) for row in rows]
        if self.reads_apart:
            decoded = padded(given, fill=self.pad, device=self.device, left=False)
            inputs |= {"decoder_input_ids": decoded[0], "decoder_attention_mask": decoded[1]}
        else:
            inputs["position_ids"] = (mask_NL.cumsum(dim=1) - 1).clamp(min=0)
        with torch.inference_mode():
            logit_NLV: Tensor = self._run(rows, inputs)
        return _right(logit_NLV, given, keep) if self.reads_apart else logit_NLV[:, -keep:]

    def start(self, rows: Sequence[Row]) -> tuple[Tensor, BlipState]:
        """Logits of the first token of the answer, [N, V]."""
        return self.logits(rows, 1)[:, -1], BlipState(tuple(rows))

    def step(self, token_N: Tensor, state: BlipState) -> tuple[Tensor, BlipState]:
        """Logits of the token after one more, [N, V]."""
        rows = [
            Row(row.seen, row.prompt, (*row.given, int(token)), words=row.words)
            for row, token in zip(state.rows, token_N, strict=True)
        ]
        return self.start(rows)

    @property
    def _first(self) -> int:
        config = self.model.config.text_config
        start = getattr(config, "decoder_start_token_id", None)
        return int(self.pad if start is None else start)

    def _run(self, rows: Sequence[Row], inputs: dict[str, Any]) -> Tensor:
        if any(row.seen is None for row in rows):
            # The language prior: the language model alone.
            found: Tensor = self.model.language_model(**inputs).logits
            return found
        seen = list({id(row.seen): row.seen for row in rows if row.seen}.values())
        places = [next(b for b, one in enumerate(seen) if one is row.seen) for row in rows]
        words = self.tokenizer([row.words for row in rows], padding=True, return_tensors="pt")
        inputs |= {
            "qformer_input_ids": words["input_ids"].to(self.device),
            "qformer_attention_mask": words["attention_mask"].to(self.device),
        }
        pixels = joined(seen, device=self.device, dtype=self.model.dtype)["pixel_values"]
        if not self.is_shared:
            logits: Tensor = self.model(pixel_values=pixels[places], **inputs).logits
            return logits
        with self._recalled(pixels, places):
            shared: Tensor = self.model(pixel_values=pixels[:0], **inputs).logits
            return shared

    @contextmanager
    def _recalled(self, pixels: Tensor, places: Sequence[int]) -> Iterator[None]:
        """The picture tower answers with what it said of each picture once."""
        tower = self.model.vision_model
        once = tower(pixel_values=pixels, return_dict=True)
        again = type(once)(**{name: value[list(places)] for name, value in once.items()})
        # Looked up on the module before the class, and taken away again below.
        tower.forward = lambda **_: again
        try:
            yield
        finally:
            del tower.forward


def _right(logit_NLV: Tensor, given: Sequence[Sequence[int]], keep: int) -> Tensor:
    """The last `keep` places of each row, where rows are padded on the right."""
    import torch

    ends = torch.tensor([len(row) for row in given], device=logit_NLV.device)
    place_NK = ends[:, None] - keep + torch.arange(keep, device=logit_NLV.device)
    rows_N1 = torch.arange(len(given), device=logit_NLV.device)[:, None]
    return logit_NLV[rows_N1, place_NK.clamp(min=0)]
