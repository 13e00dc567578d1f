"""An order comes in; readers, decoders and VLM2Vec on frozen bases, taught and asked, go out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from unbag.errors import UserError, unknown_name
from unbag.lab.arm_result import BEFORE, result_path
from unbag.lab.arms_left import arms_left
from unbag.lab.claim import ArmKey
from unbag.lab.experiment import Order, Say
from unbag.lab.questions import Questions
from unbag.lab.readout_arms import READERS
from unbag.lab.readout_base import EXPERIMENT, Base, Settings
from unbag.lab.readout_decoders import DECODERS, run_decoder_arms
from unbag.lab.readout_vectors import VECTOR_ARMS
from unbag.lab.readouts import run_readers
from unbag.lab.small_text import write_small_text
from unbag.models.text_parts import load_part

SMALL = Settings(
    scenes=64, steps=2, fit_rows=32, fit_steps=2, vector_steps=2, times=1, size="small"
)
"""Shows that everything runs."""
SMALL_BENCH = ("world-relation", "world-pairs-a", "world-pairs-b")
"""What the claims about read-outs ask."""
SMALL_EVERY = 20
_READER, _MAPS, _DECODER, _VECTORS, _ASKED = 30.0, 70.0, 100.0, 90.0, 5.0
"""Seconds of one arm alone on one H200, from the length of its steps there."""


@dataclass(frozen=True)
class ReadoutExperiment:
    """Everything that reads a frozen base; see `unbag.lab.experiment.Experiment`."""

    name: str = EXPERIMENT
    reads_bases: bool = True
    about: str = "readers, decoders and VLM2Vec on frozen parts of a base"
    arms: tuple[str, ...] = (BEFORE, *READERS, *DECODERS, *VECTOR_ARMS)

    def needs(self, arm: str) -> tuple[ArmKey, ...]:
        """The arm whose weights it takes, or goes on from."""
        if arm not in self.arms:
            raise unknown_name("arm", arm, self.arms)
        if arm in VECTOR_ARMS:
            return ((self.name, "decoder"),)
        teacher = READERS[arm].taught_as if arm in READERS else ""
        return ((self.name, teacher),) if teacher else ()

    def seconds(self, arm: str) -> float:
        """Of learning by heart, training and asking; features are shared between arms."""
        if arm in VECTOR_ARMS:
            return _VECTORS
        if arm == BEFORE or self.needs(arm):
            return _ASKED
        if arm in DECODERS:
            return _DECODER
        return _MAPS if "dcsm" in arm else _READER

    def run(self, order: Order, *, say: Say = print) -> None:
        """Run what is missing; the same order goes on after a stop.

        Raises UserError when all else is done, if the text model of some arms cannot be read.
        """
        for arm in order.arms:
            self.needs(arm)
        without: UserError | None = None
        with _settings(order) as settings:
            questions = (
                Questions(SMALL_BENCH, every=SMALL_EVERY)
                if order.size == "small"
                else Questions(times=settings.times)
            )
            for path in order.bases:
                base = Base(path, questions, settings)
                arms = arms_left(order, self.name, path, seed=base.seed, times=settings.times)
                if without is None:
                    without = _unread(arms, settings)
                if without is not None:
                    arms = [arm for arm in arms if not _has_text(arm)]
                self._run_base(base, arms, order, say)
        if without is not None:
            raise without

    def _run_base(self, base: Base, arms: list[str], order: Order, say: Say) -> None:
        folder = result_path(order.out, self.name, base.path.stem, BEFORE).parent
        readers = [arm for arm in arms if arm == BEFORE or arm in READERS]
        decoders = [arm for arm in arms if arm not in readers]
        if readers:
            run_readers(base, folder, readers, processes=order.processes, say=say)
        if decoders:
            run_decoder_arms(base, folder, decoders, processes=order.processes, say=say)


def _has_text(arm: str) -> bool:
    return arm in READERS and READERS[arm].text


@contextmanager
def _settings(order: Order) -> Iterator[Settings]:
    """With a text model of their own for small runs, which is removed again."""
    wanted = SMALL if order.size == "small" else Settings()
    wanted = replace(wanted, device=order.device, workers=order.workers)
    if order.size == "full" or not any(map(_has_text, order.arms)):
        yield wanted
        return
    with TemporaryDirectory() as folder:
        yield replace(wanted, text=str(write_small_text(Path(folder) / "text")))


def _unread(arms: list[str], settings: Settings) -> UserError | None:
    """Why arms with another text model cannot be run; None if they can, or none is asked for."""
    asked = [arm for arm in arms if _has_text(arm)]
    if not asked:
        return None
    try:
        # On a processor: nothing may touch a GPU before processes fork.
        load_part(settings.text, device="cpu")
    except UserError as error:
        return UserError(
            f"{', '.join(asked)} could not be run: {error.found}",
            expected=error.expected,
            way_out=f"{error.way_out}; then give the same command again".removeprefix("; "),
        )
    return None


READOUTS = ReadoutExperiment()
