"""The read-out `decoder`: trained by `unbag train`, scored with, or asked as `decoder:FOLDER`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from unbag.errors import UnbagError
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
from unbag.reports.cards import ReadoutCard, render_readout_card
from unbag.reports.formatting import number_text, share_text
from unbag.runs.files import TRAINING, open_run_folder, write_text
from unbag.runs.progress import Progress
from unbag.scorers.chat import PERPLEXITY, YES
from unbag.training.repair import TrainingArguments
from unbag.training.settings import choose
from unbag.training.trainer import Trainer, check_earlier
from unbag.types import DualEncoder, Scorer

NAME = "decoder"
_MOST_ASKED = 2_000
"""Lessons that the numbers of the card are from."""


@dataclass(frozen=True)
class DecoderReadout:
    """Trained by `unbag train`; scores by the probability of Yes, or of the caption itself."""

    name: str = NAME

    def train(self, job: ReadoutJob, *, progress: Progress) -> ReadoutTrained:
        """On features that are computed once; the same job resumes an interrupted run."""
        settings = choose(DecoderSettings(), job.settings, readout=self.name)
        return train_decoder(job, settings, encoder_of(job.model, self.name), progress=progress)

    def scorers(self, model: Model, folder: Path | None) -> list[Scorer]:
        """One: yes-probability; without questions, how probable the caption is as the answer.

        Without a folder the one that is shipped for the model, if any is.
        """
        encoder = encoder_of(model, self.name)
        place = folder or shipped_decoder(self.name, encoder)
        if place is None:
            raise UnbagError(
                f"the read-out {self.name!r} scores with a trained decoder, and none is named nor "
                f"shipped for {encoder.name}",
                expected=f"--scorer {self.name}@FOLDER",
                hint=f"`unbag train --readout {self.name} ...` makes one: docs/decoder.md",
            )
        # What ships is scored without transformers, which a core installation does not have.
        kept = read_decoder(place, read=small_language if folder is None else saved_language)
        if kept.made.embeds:
            raise UnbagError(
                f"{place} was taught to embed, not to answer",
                expected=f"a decoder that `unbag train --readout {self.name}` made",
                hint=f"score it with --scorer vlm2vec@{place}",
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
    where = job.where or TrainingArguments()
    inputs = {"model": encoder.name, "model_fingerprint": encoder.fingerprint}
    with open_run_folder(job.out, TRAINING) as folder:
        check_earlier(folder, **inputs, settings=settings, seed=job.seed)
        # Checked before images are encoded.
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
            inputs=inputs,
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
        learned = _asked_again(task, task.lessons)
        kept = None if begun.held is None else _asked_again(task, begun.held)
        weights = sum(w.numel() for w in trainer.parameters.values())
        seconds, asks = f"{state.seconds:,.0f} s", f"{len(task.lessons):,} questions"
        # A protocol that it was taught for: without questions, a letter is no answer.
        protocol = "letters" if settings.asks else "likelihood"
        card = ReadoutCard(
            f"A decoder on frozen features of {job.spec}",
            "A connector and a language model that answer questions about images. They see them "
            f"through the\nimage encoder of `{job.spec}`, which stayed as it was; the decoder "
            f"means nothing for any other\n(fingerprint {encoder.fingerprint}).",
            [
                f"unbag run --model {job.spec} --scorer decoder@FOLDER --bench world",
                f"unbag run --model decoder:FOLDER --scorer {protocol} --bench world",
            ],
            f"Data: {found.about}. {asks} about {found.count - found.held_out:,} images, "
            f"{found.held_out:,}\nimages held out; seed {job.seed}; {seconds} on "
            f"{encoder.device}; {weights:,}\nweights were open.",
            asdict(settings),
            _numbers(learned, kept),
            "That of the model, of the language model and of the images; nothing is granted "
            "here beside it.",
        )
        write_text(job.out / CARD, render_readout_card(card))
        origin = DecoderOrigin(job.spec, encoder.name, encoder.fingerprint)
        save_decoder(job.out, begun.made, origin)
        others = f"; about other images: {_said(kept)}" if kept else ""
        lines = (
            f"questions answered right, of those it was taught: {_said(learned)}{others}",
            f"{weights:,} weights, {seconds} of training",
            f"score with: unbag run --model {job.spec} --scorer decoder@{job.out}",
            f"or ask it:  unbag run --model decoder:{job.out} --scorer {protocol}",
        )
        return ReadoutTrained(job.out, is_done=True, lines=lines)


def _asked_again(task: DecoderTask, lessons: Lessons) -> Fitted:
    """Share of right answers to some of the lessons."""
    rng = np.random.default_rng(task.seed)
    return share_right(
        task.net,
        task.seen_NLV,
        lessons.to(task.device),
        rows=rng.permutation(len(lessons))[:_MOST_ASKED],
        batch_size=task.settings.batch_size,
        device=task.device,
        precision=task.precision,
    )


def _numbers(learned: Fitted, kept: Fitted | None) -> str:
    """For the card: a row for the questions that were trained on and one for the others."""
    rows = [
        "| images | questions | all | " + " | ".join(learned.by_kind) + " |",
        "| --- | --- | --- | " + " | ".join("---" for _ in learned.by_kind) + " |",
    ]
    for what, fitted in (("trained on", learned), ("no step saw", kept)):
        if fitted is not None:
            kinds = " | ".join(number_text(share) for share in fitted.by_kind.values())
            whole = share_text(fitted.share, fitted.count, unit="")
            rows.append(f"| {what} | {fitted.count:,} | {whole} | {kinds} |")
    return (
        "Questions whose answer is right to the last token, in percent, with a 95 % interval by "
        "Wilson's\nformula over questions, which share images. A decoder that does not answer "
        "what it was taught says\nnothing about the features. Many captions describe an image, so "
        "`describe` is low by nature.\n\n" + "\n".join(rows)
    )


def _said(fitted: Fitted) -> str:
    kinds = ", ".join(f"{kind} {number_text(share)}" for kind, share in fitted.by_kind.items())
    return f"{share_text(fitted.share, fitted.count, unit='')} % of {fitted.count:,} ({kinds})"
