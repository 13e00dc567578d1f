"""What can be chosen about a decoder on frozen patches, with the controls that it is read against.

A share of 0 leaves a kind of question out. Steps and rates are for a small language model from
scratch; those of a real one are LLaVA's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from unbag.errors import UserError

SCRATCH = "scratch"
"""In place of a folder: a language model that is trained from nothing."""
KINDS = ("yes", "letters", "describe", "answer")
"""Kinds of questions, each with a share among the settings."""
_BOUNDS: Mapping[str, tuple[Callable[[float], bool], tuple[str, ...]]] = {
    "1 or more": (
        lambda value: value >= 1,
        ("width", "depth", "heads", "context", "steps", "batch", "scenes"),
    ),
    "0 or more": (lambda value: value >= 0, (*KINDS, "weight_decay", "warm_up", "lora")),
    "a number above 0": (lambda value: value > 0, ("connector_rate",)),
}


@dataclass(frozen=True)
class DecoderSettings:
    """Everything that decides the weights, besides model, data and seed."""

    sees: Literal["patches", "cls", "nothing"] = "patches"
    """cls: one token, the vector that the picture tower reads out; nothing: captions only."""
    asks: bool = True
    """False leaves the question out: only captions as answers, to an empty prompt."""
    layer: Literal["second_last", "last"] = "second_last"
    """Block of the picture tower whose output is read; LLaVA reads the second to last."""
    language: str = SCRATCH
    """Or the folder of a causal language model of transformers, with its tokenizer."""
    width: int = 192
    depth: int = 4
    heads: int = 4
    """Of a language model from scratch."""
    context: int = 128
    """Tokens of prompt and answer; longer questions are left out of training."""
    yes: float = 0.4
    letters: float = 0.2
    describe: float = 0.2
    answer: float = 0.2
    """Shares of the kinds of questions in a batch."""
    prompts: Literal["published", "all"] = "published"
    """Wordings of the questions: those of the published protocols, or every one of a fixed set."""
    scenes: int = 40_000
    """Of the world, where that is trained on."""
    blind: float = 0.1
    """Share of steps without the picture, so that the language prior is the model's own."""
    steps: int = 20_000
    """On the world relations were a coin after 6,000, and told after these (docs/decoder.md)."""
    connector_steps: int | None = None
    """Of these, the first with the language model locked; none: a tenth for a real one, and 0 from
    scratch, where there is nothing yet to connect to."""
    batch: int = 256
    """Questions of a step."""
    learning_rate: float | None = None
    """none: 2e-5 for a real language model, 3e-4 from scratch."""
    connector_rate: float = 1e-3
    weight_decay: float = 0.05
    warm_up: int = 100
    """Steps with a rising rate, at the start of each stage, before half a cosine to zero."""
    lora: int = 0
    """Rank of small matrices beside the frozen ones of a real language model (peft); 0: train all
    of it."""
    keeps: Literal["float32", "float16"] = "float32"
    """Precision of the frozen features while training."""

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be meant."""
        for said, (is_fit, names) in _BOUNDS.items():
            for name in names:
                if not is_fit(getattr(self, name)):
                    raise UserError(f"a decoder with {name}={getattr(self, name)}", expected=said)
        if not 0 <= self.blind <= 1:
            raise UserError(f"a decoder with blind={self.blind}", expected="a share from 0 to 1")
        if self.is_scratch and self.width % (2 * self.heads):
            raise UserError(
                f"a decoder of width={self.width} with heads={self.heads}",
                expected="an even part of the width for each head",
                way_out="--set width=192 heads=4",
            )
        if self.asks and not any(self.shares):
            raise UserError(
                "a decoder that is asked nothing: every share is 0",
                expected="a share above 0 for one kind of question",
                way_out=f"--set {KINDS[0]}=1",
            )
        if self.lora and self.is_scratch:
            raise UserError(
                f"a decoder with lora={self.lora} and a language model from scratch",
                expected="a trained language model to put small matrices beside",
                way_out="--set language=FOLDER, or leave lora out",
            )
        if not 0 <= self.locked_steps <= self.steps:
            raise UserError(
                f"a decoder with connector_steps={self.connector_steps} of {self.steps} steps",
                expected="at most as many as there are steps",
            )

    @property
    def is_scratch(self) -> bool:
        """Whether the language model begins as noise."""
        return self.language == SCRATCH

    @property
    def shares(self) -> tuple[float, ...]:
        """Of `KINDS`; without questions only captions are left."""
        if not self.asks:
            return tuple(float(kind == "describe") for kind in KINDS)
        return self.yes, self.letters, self.describe, self.answer

    @property
    def locked_steps(self) -> int:
        """Of the first stage."""
        if self.connector_steps is not None:
            return self.connector_steps
        return 0 if self.is_scratch else self.steps // 10

    @property
    def rate(self) -> float:
        """Of the second stage."""
        if self.learning_rate is not None:
            return self.learning_rate
        return 3e-4 if self.is_scratch else 2e-5
