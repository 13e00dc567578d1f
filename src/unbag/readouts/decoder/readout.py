"""The read-out `decoder`: training, scorers, and the model `decoder:FOLDER`."""

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
from unbag.readouts.decoder.training import (
    AnswerAccuracy,
    DecoderTask,
    load_data,
    prepare_training,
    share_right,
)
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
_MAX_LESSONS = 2_000
"""Maximum number of lessons for the accuracies on the model card."""


@dataclass(frozen=True)
class DecoderReadout:
    """Trains a decoder, and scores by the probability of Yes or of the caption."""

    name: str = NAME

    def train(self, job: ReadoutJob, *, progress: Progress) -> ReadoutTrained:
        """Train on features that are computed once; the same job resumes an interrupted run."""
        settings = choose(DecoderSettings(), job.settings, readout=self.name)
        return train_decoder(job, settings, encoder_of(job.model, self.name), progress=progress)

    def scorers(self, model: Model, folder: Path | None) -> list[Scorer]:
        """Return one scorer: P(Yes), or without questions the probability of the caption.

        Without a folder it is the decoder shipped for the model.
        """
        encoder = encoder_of(model, self.name)
        path = folder or shipped_decoder(self.name, encoder)
        if path is None:
            raise UnbagError(
                f"the read-out {self.name!r} needs a trained decoder; no folder is named, and none "
                f"is shipped for {encoder.name}",
                expected=f"--scorer {self.name}@FOLDER",
                hint=f"train one: `unbag train --readout {self.name} ...`",
            )
        # Shipped decoders run without transformers, which a core installation does not have.
        saved = read_decoder(path, read=small_language if folder is None else saved_language)
        if saved.made.embeds:
            raise UnbagError(
                f"{path} was trained to embed, not to answer",
                expected=f"a decoder of `unbag train --readout {self.name}`",
                hint=f"score it with --scorer vlm2vec@{path}",
            )
        decoder = on_encoder(saved, encoder, path, name=named(encoder, self.name, folder))
        scorer = (YES if saved.made.settings.asks else PERPLEXITY)(decoder)
        if saved.made.settings.sees == "nothing":
            scorer = replace(scorer, is_blind=True)  # type: ignore[type-var]
        return [scorer]


DECODER = DecoderReadout()


def load(folder: str, *, device: str = "cpu") -> PatchDecoder:
    """Load `decoder:FOLDER` with the encoder that it was trained on."""
    path = Path(folder).expanduser()
    saved = read_decoder(path)
    encoder = load_model(saved.origin.spec, device=device)
    return on_encoder(saved, encoder_of(encoder, NAME), path, name=f"decoder:{path.name}")


def train_decoder(
    job: ReadoutJob, settings: DecoderSettings, encoder: DualEncoder, *, progress: Progress
) -> ReadoutTrained:
    """Compute features once, then train; an interrupted run resumes from its last checkpoint."""
    arguments = job.where or TrainingArguments()
    inputs = {"model": encoder.name, "model_fingerprint": encoder.fingerprint}
    with open_run_folder(job.out, TRAINING) as folder:
        check_earlier(folder, **inputs, settings=settings, seed=job.seed)
        # Loaded before images are encoded, to fail early.
        language = (
            None if settings.is_scratch else read_language(settings.language, asks=settings.asks)
        )
        data = load_data(
            encoder, job.pairs, settings, seed=job.seed, arguments=arguments, progress=progress
        )
        prepared = prepare_training(
            data,
            settings,
            device=encoder.device,
            precision=arguments.precision,
            seed=job.seed,
            language=language,
            inputs=inputs,
        )
        task = prepared.task
        left_out = task.lessons.left_out
        progress.say(
            f"data: {data.about}; {len(task.lessons):,} questions"
            + (f", {left_out:,} more are longer than the context" if left_out else "")
        )
        trainer = Trainer(task, progress=progress, save_minutes=arguments.save_minutes)
        state = trainer.run(folder, facts={"data": data.about, "device": encoder.device})
        if not trainer.is_done:
            return ReadoutTrained(job.out, is_done=False)
        trained_accuracy = _sample_accuracy(task, task.lessons)
        held_out_accuracy = None if prepared.held is None else _sample_accuracy(task, prepared.held)
        weight_count = sum(w.numel() for w in trainer.parameters.values())
        duration, question_count = f"{state.seconds:,.0f} s", f"{len(task.lessons):,} questions"
        # A protocol of its training: without questions, a letter is no answer.
        protocol = "letters" if settings.asks else "likelihood"
        card = ReadoutCard(
            f"A decoder on frozen features of {job.spec}",
            "A connector and a language model that answer questions about images. They see them "
            f"through the\nfrozen image encoder of `{job.spec}`; the decoder works with this "
            f"encoder only\n(fingerprint {encoder.fingerprint}).",
            [
                f"unbag run --model {job.spec} --scorer decoder@FOLDER --bench world",
                f"unbag run --model decoder:FOLDER --scorer {protocol} --bench world",
            ],
            f"Data: {data.about}. {question_count} about {data.count - data.held_out:,} images, "
            f"{data.held_out:,}\nimages held out; seed {job.seed}; {duration} on "
            f"{encoder.device}; {weight_count:,}\ntrainable parameters.",
            asdict(settings),
            _accuracy_table(trained_accuracy, held_out_accuracy),
            "That of the model, of the language model and of the images; this card grants no "
            "further rights.",
        )
        write_text(job.out / CARD, render_readout_card(card))
        origin = DecoderOrigin(job.spec, encoder.name, encoder.fingerprint)
        save_decoder(job.out, prepared.made, origin)
        held_out_text = (
            f"; about held-out images: {_accuracy_text(held_out_accuracy)}"
            if held_out_accuracy
            else ""
        )
        lines = (
            f"training questions answered right: {_accuracy_text(trained_accuracy)}{held_out_text}",
            f"{weight_count:,} weights, {duration} of training",
            f"score with: unbag run --model {job.spec} --scorer decoder@{job.out}",
            f"or ask it:  unbag run --model decoder:{job.out} --scorer {protocol}",
        )
        return ReadoutTrained(job.out, is_done=True, lines=lines)


def _sample_accuracy(task: DecoderTask, lessons: Lessons) -> AnswerAccuracy:
    """Return the share of right answers on a sample of the lessons."""
    rng = np.random.default_rng(task.seed)
    return share_right(
        task.net,
        task.seen_NLV,
        lessons.to(task.device),
        rows=rng.permutation(len(lessons))[:_MAX_LESSONS],
        batch_size=task.settings.batch_size,
        device=task.device,
        precision=task.precision,
    )


def _accuracy_table(
    trained_accuracy: AnswerAccuracy, held_out_accuracy: AnswerAccuracy | None
) -> str:
    """Return the table of the model card: training questions, and those on held-out images."""
    rows = [
        "| images | questions | all | " + " | ".join(trained_accuracy.by_kind) + " |",
        "| --- | --- | --- | " + " | ".join("---" for _ in trained_accuracy.by_kind) + " |",
    ]
    for images, accuracy in (("trained on", trained_accuracy), ("held out", held_out_accuracy)):
        if accuracy is not None:
            kinds = " | ".join(number_text(share) for share in accuracy.by_kind.values())
            total = share_text(accuracy.share, accuracy.count, unit="")
            rows.append(f"| {images} | {accuracy.count:,} | {total} | {kinds} |")
    return (
        "Questions whose answer is right to the last token, in percent, with a 95 % interval by "
        "Wilson's\nformula over questions, which share images. A decoder that does not fit its "
        "training questions\nsays nothing about the features. Many captions describe an image, so "
        "`describe` is low by nature.\n\n" + "\n".join(rows)
    )


def _accuracy_text(accuracy: AnswerAccuracy) -> str:
    kinds = ", ".join(f"{kind} {number_text(share)}" for kind, share in accuracy.by_kind.items())
    return (
        f"{share_text(accuracy.share, accuracy.count, unit='')} % of {accuracy.count:,} ({kinds})"
    )
