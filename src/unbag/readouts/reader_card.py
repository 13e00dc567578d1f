"""What a reader is and how it was made come in; its card goes out as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from unbag.metrics.intervals import wilson
from unbag.version import __version__


@dataclass(frozen=True)
class ReaderCard:
    """What only the training knows."""

    readout: str
    called: str
    """As --recipe and --scorer find it."""
    model: str
    """As `--model` names it."""
    fingerprint: str
    settings: Mapping[str, object]
    data: str
    rows: int
    held: int
    seed: int
    seconds: float
    device: str
    weights: int
    learned: float | None
    """Share of captions above all their negatives, among rows that were trained on."""
    kept: float | None
    """The same among rows that no step saw."""
    kept_count: int = 0
    """Of these, how many have a negative."""

    def lines(self, folder: Path) -> tuple[str, ...]:
        """For the terminal."""
        found = []
        if self.learned is not None:
            found.append(
                f"captions above all their hard negatives: {100 * self.learned:.1f} % of "
                "those it was trained on"
                + (
                    f", {_share(self.kept, self.kept_count)} of others"
                    if self.kept is not None
                    else ""
                )
            )
        found.append(f"{self.weights:,} weights, {self.seconds:,.0f} s of training")
        found.append(f"score with: unbag run --model {self.model} --scorer {self.called}@{folder}")
        return tuple(found)


def render(card: ReaderCard) -> str:
    """README.md of the folder."""
    settings = "\n".join(f"| {key} | {value} |" for key, value in card.settings.items())
    numbers = "Pairs had no hard negatives, so nothing is said here."
    if card.learned is not None:
        numbers = (
            f"Captions above all their own hard negatives (a tie is a miss): "
            f"{100 * card.learned:.1f} % of rows that were trained on"
        )
        if card.kept is not None:
            numbers += f", {_share(card.kept, card.kept_count)} of rows that no step saw"
        numbers += (
            ". A reader that does not fit what it was trained on says nothing about the features."
        )
    return f"""# The read-out {card.readout} for {card.model}

A small network that scores patches of a picture against words of a caption. The model under it
stayed as it was; the reader means nothing for any other (fingerprint {card.fingerprint}).

    unbag run --model {card.model} --scorer {card.called}@FOLDER --bench world

## Training

Data: {card.data}. Trained on {card.rows:,} rows, {card.held:,} kept apart; seed {card.seed};
{card.seconds:,.0f} s on {card.device}; {card.weights:,} weights.

| setting | value |
| --- | --- |
{settings}

## Numbers

{numbers}

## Licence

That of the model and of the pictures it was trained on; nothing is granted here beside it.

Written by unbag {__version__}.
"""


def _share(value: float, count: int) -> str:
    """In percent, with a 95 % interval by Wilson's formula over rows."""
    found = wilson(value * count, count)
    return f"{100 * value:.1f} % [{100 * found.low:.1f}, {100 * found.high:.1f}]"
