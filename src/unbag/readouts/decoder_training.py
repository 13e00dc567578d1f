"""A job comes in; a decoder in a folder goes out, taught in steps that can be stopped and go on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from unbag.engine.atomic import (
    locked_folder,
    make_folder,
    remove_leftovers,
    write_text,
)
from unbag.engine.full_disk import told_when_full
from unbag.engine.progress import Progress
from unbag.engine.team import Team
from unbag.errors import UserError
from unbag.readouts.decoder_begin import begin
from unbag.readouts.decoder_card import DecoderCard, render
from unbag.readouts.decoder_data import Material, gather
from unbag.readouts.decoder_kept import Origin, save_decoder
from unbag.readouts.decoder_language import read_language
from unbag.readouts.decoder_lessons import Lessons
from unbag.readouts.decoder_settings import DecoderSettings
from unbag.readouts.decoder_teach import Fitted, Taught, Teaching, share_right
from unbag.readouts.folder_config import CONFIG
from unbag.readouts.reader_checkpoint import (
    MOMENT,
    WEIGHT,
    Standing,
    check_folder,
    read_standing,
    trained_already,
    under,
    write_standing,
)
from unbag.readouts.readout import ReadoutJob, ReadoutTrained
from unbag.train.repair import Where
from unbag.train.stopping import stops_gently
from unbag.types import DualEncoder

LAST, CARD = "last.safetensors", "README.md"
_MOST_ASKED = 2_000
"""Lessons that the numbers of the card are from."""


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
    with locked_folder(job.out, taken), told_when_full(job.out):
        remove_leftovers(job.out)
        if (job.out / CONFIG).exists():
            raise trained_already(job.out, what="a decoder")
        return _Run(job, settings, encoder, progress).go()


@dataclass(frozen=True, eq=False)
class _Run:
    """One run while it goes on."""

    job: ReadoutJob
    settings: DecoderSettings
    encoder: DualEncoder
    progress: Progress

    def go(self) -> ReadoutTrained:
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
        origin = Origin(job.spec, self.encoder.name, self.encoder.fingerprint)
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

    def _asked(self, found: Material) -> str:
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
    write_standing(path, tensors, Standing(teaching.step, asked, seconds))


def _restore(path: Path, teaching: Teaching, asked: str) -> float:
    """Put back what `_save` wrote and give the seconds; refused where something else was asked."""
    standing, tensors = read_standing(path, asked, what="a decoder")
    teaching.restore(under(WEIGHT, tensors), under(MOMENT, tensors), standing.step)
    return standing.seconds
