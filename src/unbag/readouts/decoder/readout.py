"""The read-out `decoder`: trained by `unbag train`, scored with, or asked as `decoder:FOLDER`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter

import numpy as np

from unbag.errors import UserError
from unbag.metrics.intervals import wilson
from unbag.models.loading import Model, load_model
from unbag.readouts.base import ReadoutJob, ReadoutTrained
from unbag.readouts.decoder.language import read_language, saved_language, small_language
from unbag.readouts.decoder.lessons import DecoderSettings, Lessons
from unbag.readouts.decoder.model import PatchDecoder
from unbag.readouts.decoder.saving import (
    CONFIG,
    DecoderOrigin,
    on_encoder,
    read_decoder,
    save_decoder,
)
from unbag.readouts.decoder.training import (
    DecoderData,
    Fitted,
    Taught,
    Teaching,
    begin,
    gather,
    share_right,
)
from unbag.readouts.reader import LAST, shipped_decoder
from unbag.readouts.training import (
    CARD,
    MOMENT,
    WEIGHT,
    ReadoutStanding,
    check_folder,
    encoder_of,
    named,
    read_standing,
    trained_already,
    under,
    write_standing,
)
from unbag.runs.distributed import Team
from unbag.runs.files import (
    explain_full_disk,
    locked_folder,
    make_folder,
    remove_leftovers,
    write_text,
)
from unbag.runs.progress import Progress, stops_gently
from unbag.scorers.chat import PERPLEXITY, YES
from unbag.training.repair import Where
from unbag.training.settings import choose
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
    """Features once, then steps; a run that was stopped goes on from its last checkpoint."""
    check_folder(job.out, what="a decoder", made=CONFIG)
    make_folder(job.out, what="folder of the run", way_out="name another folder with --out")
    taken = UserError(
        f"another process trains in {job.out}",
        way_out="wait until it is done, or name another folder with --out",
    )
    with locked_folder(job.out, taken), explain_full_disk(job.out):
        remove_leftovers(job.out)
        if (job.out / CONFIG).exists():
            raise trained_already(job.out, what="a decoder")
        return _DecoderRun(job, settings, encoder, progress).go()


@dataclass(frozen=True, eq=False)
class _DecoderRun:
    """One run while it goes on."""

    job: ReadoutJob
    settings: DecoderSettings
    encoder: DualEncoder
    progress: Progress

    def go(self) -> ReadoutTrained:
        """To its end, or to where somebody stops it."""
        job, settings = self.job, self.settings
        where = job.where or Where()
        # What is wrong with it is told before pictures are encoded.
        language = (
            None if settings.is_scratch else read_language(settings.language, asks=settings.asks)
        )
        found = gather(
            self.encoder, job.pairs, settings, seed=job.seed, where=where, progress=self.progress
        )
        begun = begin(
            found,
            settings,
            device=self.encoder.device,
            precision=where.precision,
            seed=job.seed,
            language=language,
        )
        teaching = begun.teaching
        left_out = teaching.lessons.left_out
        self.progress.say(
            f"data: {found.about}; {len(teaching.lessons):,} questions"
            + (f", {left_out:,} more are longer than the context" if left_out else "")
        )
        asked = self._asked(found)
        path, seconds = job.out / LAST, 0.0
        if path.exists():
            seconds = _restore(path, teaching, asked)
            self.progress.say(f"going on after step {teaching.step} of {settings.steps}")
        seconds = self._teach(teaching, path, asked, where.save_minutes, before=seconds)
        if teaching.step < settings.steps:
            return ReadoutTrained(job.out, is_done=False)
        card = DecoderCard(
            model=job.spec,
            fingerprint=self.encoder.fingerprint,
            settings=asdict(settings),
            data=found.about,
            pictures=found.count - found.held,
            held=found.held,
            questions=len(teaching.lessons),
            seed=job.seed,
            seconds=seconds,
            device=self.encoder.device,
            weights=sum(w.numel() for w in teaching.weights.values()),
            learned=self._asked_again(teaching, teaching.lessons),
            kept=None if begun.held is None else self._asked_again(teaching, begun.held),
        )
        origin = DecoderOrigin(job.spec, self.encoder.name, self.encoder.fingerprint)
        write_text(job.out / CARD, render(card))
        save_decoder(job.out, begun.made, origin)
        path.unlink(missing_ok=True)
        return ReadoutTrained(job.out, is_done=True, lines=card.lines(job.out))

    def _teach(
        self, teaching: Teaching, path: Path, asked: str, minutes: float, *, before: float
    ) -> float:
        """To the end, or until somebody stops it; gives the seconds, those before included."""
        began = saved = perf_counter()
        left = max(0, self.settings.steps - teaching.step)
        with (
            stops_gently(Team()) as stopping,
            self.progress.task("teaching the decoder", left) as advance,
        ):

            def on_step(taught: Taught) -> bool:
                nonlocal saved
                advance(1)
                if perf_counter() - saved > 60 * minutes or stopping.agreed():
                    saved = perf_counter()
                    _save(path, teaching, asked, seconds=before + saved - began)
                return stopping.agreed()

            teaching.run(on_step)
        seconds = before + perf_counter() - began
        if teaching.step == self.settings.steps:
            # A run that is killed while the rest is written must find its folder to be its own.
            _save(path, teaching, asked, seconds=seconds)
        return seconds

    def _asked_again(self, teaching: Teaching, lessons: Lessons) -> Fitted:
        """Share of right answers to some of the lessons."""
        rng = np.random.default_rng(self.job.seed)
        return share_right(
            teaching.net,
            teaching.seen_NLV,
            lessons.to(teaching.device),
            rows=rng.permutation(len(lessons))[:_MOST_ASKED],
            batch=self.settings.batch,
            device=teaching.device,
            precision=teaching.precision,
        )

    def _asked(self, found: DecoderData) -> str:
        """All that decides the weights; two runs of one folder must agree on it."""
        said = {
            "model": f"{self.encoder.name} {self.encoder.fingerprint}",
            "settings": asdict(self.settings),
            "data": found.fingerprint,
            "seed": self.job.seed,
        }
        return json.dumps(said, sort_keys=True)


def _save(path: Path, teaching: Teaching, asked: str, *, seconds: float) -> None:
    """Weights, moments, the step and the seconds so far."""
    tensors = {f"{WEIGHT}{name}": value for name, value in teaching.net.state_dict().items()}
    tensors |= {f"{MOMENT}{name}": value for name, value in teaching.moments().items()}
    write_standing(path, tensors, ReadoutStanding(teaching.step, asked, seconds))


def _restore(path: Path, teaching: Teaching, asked: str) -> float:
    """Put back what `_save` wrote and give the seconds; refused where something else was asked."""
    standing, tensors = read_standing(path, asked, what="a decoder")
    teaching.restore(under(WEIGHT, tensors), under(MOMENT, tensors), standing.step)
    return standing.seconds


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
