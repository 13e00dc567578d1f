"""How VLM2Vec is trained: the published numbers, and what may be set with --set."""

from __future__ import annotations

from dataclasses import dataclass

from unbag.errors import UserError
from unbag.readouts.vlm2vec_adapter import Adapting
from unbag.readouts.vlm2vec_core import TEMPERATURE
from unbag.readouts.vlm2vec_data import Showing

_ABOVE_0 = ("steps", "batch", "chunk", "learning_rate", "temperature", "clip_norm")


@dataclass(frozen=True)
class Vlm2VecSettings:
    """Defaults are the paper's, but for batch (4 x 64 there) and chunk (1 there)."""

    steps: int = 1000
    batch: int = 64
    chunk: int = 8
    """Pictures or texts run at once: memory, and which numbers dropout draws; nothing else."""
    learning_rate: float = 2e-5
    warm_up: int = 100
    """Steps with a rising rate, before a line to zero."""
    temperature: float = TEMPERATURE
    clip_norm: float = 1.0
    negatives: int = 2
    """Hard negatives of a caption as further targets, where the pairs have them."""
    lora: int = 8
    """Rank; 0 trains the whole language model."""
    alpha: float = 64.0
    dropout: float = 0.1
    dora: bool = True

    def __post_init__(self) -> None:
        wrong = [name for name in _ABOVE_0 if not getattr(self, name) > 0]
        wrong += [name for name in ("warm_up", "negatives") if getattr(self, name) < 0]
        if wrong:
            raise UserError(
                f"{wrong[0]}={getattr(self, wrong[0])}",
                expected="a number above 0"
                if wrong[0] in _ABOVE_0
                else "a whole number of 0 or more",
                way_out="leave it out for the default",
            )
        # Refuses what cannot be trained.
        _ = self.adapting

    @property
    def adapting(self) -> Adapting:
        """What is trained."""
        return Adapting(self.lora, self.alpha, self.dropout, self.dora)

    def showing(self, *, asks: bool, seed: int) -> Showing:
        """How pairs are shown."""
        return Showing(self.batch, self.negatives, asks, seed)
