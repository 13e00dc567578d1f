"""What a decoder is and how it was made come in; its card goes out as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from unbag.metrics.intervals import wilson
from unbag.readouts.decoder_teach import Fitted
from unbag.version import __version__


@dataclass(frozen=True)
class DecoderCard:
    """What only the training knows."""

    model: str
    """As `--model` names it."""
    fingerprint: str
    settings: Mapping[str, object]
    data: str
    pictures: int
    held: int
    questions: int
    seed: int
    seconds: float
    device: str
    weights: int
    learned: Fitted
    """On questions that were trained on."""
    kept: Fitted | None
    """On questions about pictures that no step saw."""

    @property
    def protocol(self) -> str:
        """One that it was taught for: without questions, a letter is no answer."""
        return "letters" if self.settings.get("asks", True) else "likelihood"

    def lines(self, folder: Path) -> tuple[str, ...]:
        """For the terminal."""
        others = f"; about other pictures: {_said(self.kept)}" if self.kept else ""
        return (
            f"questions answered right, of those it was taught: {_said(self.learned)}{others}",
            f"{self.weights:,} weights, {self.seconds:,.0f} s of training",
            f"score with: unbag run --model {self.model} --scorer decoder@{folder}",
            f"or ask it:  unbag run --model decoder:{folder} --scorer {self.protocol}",
        )


def render(card: DecoderCard) -> str:
    """README.md of the folder."""
    settings = "\n".join(f"| {key} | {value} |" for key, value in card.settings.items())
    rows = [
        _row("trained on", card.learned),
        *([_row("no step saw", card.kept)] if card.kept else []),
    ]
    names = list(card.learned.by_kind)
    return f"""# A decoder on frozen features of {card.model}

A connector and a language model that answer questions about pictures. They see them through the
picture tower of `{card.model}`, which stayed as it was; the decoder means nothing for any other
(fingerprint {card.fingerprint}).

    unbag run --model {card.model} --scorer decoder@FOLDER --bench world
    unbag run --model decoder:FOLDER --scorer {card.protocol} --bench world

## Training

Data: {card.data}. {card.questions:,} questions about {card.pictures:,} pictures, {card.held:,}
pictures kept apart; seed {card.seed}; {card.seconds:,.0f} s on {card.device}; {card.weights:,}
weights were open.

| setting | value |
| --- | --- |
{settings}

## Numbers

Questions whose answer is right to the last token, in percent, with a 95 % interval by Wilson's
formula over questions, which share pictures. A decoder that does not answer what it was taught says
nothing about the features. Many captions describe a picture, so `describe` is low by nature.

| pictures | questions | all | {" | ".join(names)} |
| --- | --- | --- | {" | ".join("---" for _ in names)} |
{chr(10).join(rows)}

## Licence

That of the model, of the language model and of the pictures; nothing is granted here beside it.

Written by unbag {__version__}.
"""


def _row(what: str, fitted: Fitted) -> str:
    kinds = " | ".join(f"{100 * share:.1f}" for share in fitted.by_kind.values())
    return f"| {what} | {fitted.count:,} | {_share(fitted)} | {kinds} |"


def _said(fitted: Fitted) -> str:
    kinds = ", ".join(f"{kind} {100 * share:.1f}" for kind, share in fitted.by_kind.items())
    return f"{_share(fitted)} % of {fitted.count:,} ({kinds})"


def _share(fitted: Fitted) -> str:
    found = wilson(fitted.share * fitted.count, fitted.count)
    return f"{100 * fitted.share:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]"
