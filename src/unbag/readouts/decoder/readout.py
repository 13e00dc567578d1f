"""The read-out `decoder`: trained by `unbag train`, scored with, or asked as `decoder:FOLDER`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from unbag.errors import UserError
from unbag.metrics.intervals import wilson
from unbag.models.loading import Model, load_model
from unbag.readouts.base import ReadoutJob, ReadoutTrained
from unbag.readouts.decoder.language import read_language, saved_language, small_language
from unbag.readouts.decoder.lessons import DecoderSettings, Lessons
from unbag.readouts.decoder.model import PatchDecoder
from unbag.readouts.decoder.saving import (
    DecoderOrigin,
    on_encoder,
    read_decoder,
    save_decoder,
)
from unbag.readouts.decoder.training import DecoderTask, Fitted, begin, gather, share_right
from unbag.readouts.reader import shipped_decoder
from unbag.readouts.training import CARD, encoder_of, named
from unbag.runs.files import TRAINING, open_run_folder, write_text
from unbag.runs.progress import Progress
from unbag.scorers.chat import PERPLEXITY, YES
from unbag.training.repair import Where
from unbag.training.settings import choose
from unbag.training.trainer import Trainer
from unbag.types import DualEncoder, Scorer
from unbag.version import __version__

NAME = "decoder"
_MOST_ASKED = 2_000
"""Lessons that the numbers of the card are from."""


@dataclass(frozen=True)
class DecoderReadout:
    """Trained by `unbag train`; scores by the probability of Yes, or of the caption itself."""

    name: str = NAME

    def train(self, job: ReadoutJob, *, progress: Progress) -> ReadoutTrained:
        """On features that are computed once; the same job goes on where it stopped."""
        settings = choose(DecoderSettings(), job.settings, readout=self.name)
        return train_decoder(job, settings, encoder_of(job.model, self.name), progress=progress)

    def scorers(self, model: Model, folder: Path | None) -> list[Scorer]:
        """One: yes-probability; without questions, how probable the caption is as the answer.

        Without a folder the one that is shipped for the model, if any is.
        """
        encoder = encoder_of(model, self.name)
        place = folder or shipped_decoder(self.name, encoder)
        if place is None:
            raise UserError(
                f"the read-out {self.name!r} scores with a trained decoder, and none is named nor "
                f"shipped for {encoder.name}",
                expected=f"--scorer {self.name}@FOLDER",
                way_out=f"`unbag train --recipe {self.name} ...` makes one: docs/decoder.md",
            )
        # What ships is scored without transformers, which a core installation does not have.
        kept = read_decoder(place, read=small_language if folder is None else saved_language)
        if kept.made.embeds:
            raise UserError(
                f"{place} was taught to embed, not to answer",
                expected=f"a decoder that `unbag train --recipe {self.name}` made",
                way_out=f"score it with --scorer vlm2vec@{place}",
            )
        decoder = on_encoder(kept, encoder, place, name=named(encoder, self.name, folder))
        scorer = (YES if kept.made.settings.asks else PERPLEXITY)(decoder)
        if kept.made.settings.sees == "nothing":
            scorer = replace(scorer, is_blind=True)  # type: ignore[type-var]
        return [scorer]


DECODER = DecoderReadout()


def load(folder: str, *, device: str = "cpu") -> PatchDecoder:
    """`decoder:FOLDER`: with the encoder that it was trained on, loaded by its name."""
    path = Path(folder).expanduser()
    kept = read_decoder(path)
    encoder = load_model(kept.origin.spec, device=device)
    return on_encoder(kept, encoder_of(encoder, NAME), path, name=f"decoder:{path.name}")


def train_decoder(
    job: ReadoutJob, settings: DecoderSettings, encoder: DualEncoder, *, progress: Progress
) -> ReadoutTrained:
    """Features once, then steps; an interrupted run resumes from its last checkpoint."""
    where = job.where or Where()
    with open_run_folder(job.out, TRAINING) as folder:
        # What is wrong with it is told before pictures are encoded.
        language = (
            None if settings.is_scratch else read_language(settings.language, asks=settings.asks)
        )
        found = gather(encoder, job.pairs, settings, seed=job.seed, where=where, progress=progress)
        begun = begin(
            found,
            settings,
            device=encoder.device,
            precision=where.precision,
            seed=job.seed,
            language=language,
            inputs={"model": encoder.name, "model_fingerprint": encoder.fingerprint},
        )
        task = begun.task
        left_out = task.lessons.left_out
        progress.say(
            f"data: {found.about}; {len(task.lessons):,} questions"
            + (f", {left_out:,} more are longer than the context" if left_out else "")
        )
        trainer = Trainer(task, progress=progress, save_minutes=where.save_minutes)
        state = trainer.run(folder, facts={"data": found.about, "device": encoder.device})
        if not trainer.is_done:
            return ReadoutTrained(job.out, is_done=False)
        card = DecoderCard(
            model=job.spec,
            fingerprint=encoder.fingerprint,
            settings=asdict(settings),
            data=found.about,
            pictures=found.count - found.held_out,
            held=found.held_out,
            questions=len(task.lessons),
            seed=job.seed,
            seconds=state.seconds,
            device=encoder.device,
            weights=sum(w.numel() for w in trainer.parameters.values()),
            learned=_asked_again(task, task.lessons),
            kept=None if begun.held is None else _asked_again(task, begun.held),
        )
        write_text(job.out / CARD, render(card))
        origin = DecoderOrigin(job.spec, encoder.name, encoder.fingerprint)
        save_decoder(job.out, begun.made, origin)
        return ReadoutTrained(job.out, is_done=True, lines=card.lines(job.out))


def _asked_again(task: DecoderTask, lessons: Lessons) -> Fitted:
    """Share of right answers to some of the lessons."""
    rng = np.random.default_rng(task.seed)
    return share_right(
        task.net,
        task.seen_NLV,
        lessons.to(task.device),
        rows=rng.permutation(len(lessons))[:_MOST_ASKED],
        batch=task.settings.batch,
        device=task.device,
        precision=task.precision,
    )


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
