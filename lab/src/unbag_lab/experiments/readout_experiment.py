"""An order comes in; readers, decoders and VLM2Vec on frozen bases, taught and asked, go out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from unbag.errors import UserError, unknown_name
from unbag.models.text_encoders import load_part
from unbag_lab.claim import ArmKey
from unbag_lab.experiments.decoders import (
    DECODERS,
    VECTOR_BATCH,
    decoder_groups,
    run_decoders,
    taught_with,
)
from unbag_lab.experiments.readouts import (
    BATCH,
    EXPERIMENT,
    FOR_DECODERS,
    READERS,
    VECTOR_ARMS,
    Base,
    ReadoutSettings,
    reader_groups,
    run_base,
    write_small_text,
)
from unbag_lab.plan import Order, Say, arms_left
from unbag_lab.questions import Questions
from unbag_lab.results import BEFORE, Extent, Size, result_path
from unbag_lab.scheduler import Share, apart, each_apart, shares

SMALL = ReadoutSettings(
    scenes=192,
    steps=2,
    map_steps=2,
    long_steps=2,
    fit_rows=32,
    fit_steps=2,
    vector_steps=2,
    times=1,
    size="small",
)
"""Shows that everything runs. Of fewer scenes the tenth that is asked may state no relation."""
SMALL_BENCH = ("world-swap", "world-relation", "world-pairs-a", "world-pairs-b")
"""What the claims about read-outs ask."""
SMALL_EVERY = 20
_READER, _MAPS, _DECODER = 0.0013, 0.0032, 0.0035
"""Seconds of one step, alone on one H200."""
_VECTORS, _AROUND, _ASKED = 60.0, 4.0, 4.0
"""Seconds of a whole arm of VLM2Vec; around the steps of a reader; and of being asked alone."""
_COMPILED = 19.0
"""Around the steps of a decoder: its layers are compiled, and it is slower to ask."""


@dataclass(frozen=True)
class ReadoutExperiment:
    """Everything that reads a frozen base; see `unbag_lab.plan.Experiment`."""

    name: str = EXPERIMENT
    reads_bases: bool = True
    on_processor: bool = False
    most_processes: int = 6
    about: str = "readers, decoders and VLM2Vec on frozen parts of a base"
    arms: tuple[str, ...] = (BEFORE, *READERS, *DECODERS, *VECTOR_ARMS)

    def needs(self, arm: str) -> tuple[ArmKey, ...]:
        """The arm whose weights it takes, or goes on from."""
        if arm not in self.arms:
            raise unknown_name("arm", arm, self.arms)
        if arm in VECTOR_ARMS:
            return ((self.name, VECTOR_ARMS[arm].decoder),)
        teacher = READERS[arm].taught_as if arm in READERS else ""
        return ((self.name, teacher),) if teacher else ()

    def seconds(self, arm: str) -> float:
        """Of learning by heart, training and asking; features are shared between arms."""
        if arm in VECTOR_ARMS:
            return _VECTORS
        if arm == BEFORE or self.needs(arm):
            return _ASKED
        if arm in DECODERS:
            steps = taught_with(arm, FOR_DECODERS).steps + FOR_DECODERS.fit_steps
            return _COMPILED + _DECODER * steps
        reader, settings = READERS[arm], ReadoutSettings()
        steps = settings.steps_of(reader) + settings.fit_steps_of(reader)
        return _AROUND + (_MAPS if reader.reads_maps else _READER) * steps

    def extent(self, arm: str, *, size: Size) -> Extent:
        """By kind of arm."""
        self.needs(arm)
        readers, decoders = _of_size(size)
        times = readers.times
        if arm == BEFORE:
            return Extent(0, BATCH, times)
        if arm in VECTOR_ARMS:
            return Extent(decoders.vector_steps, VECTOR_BATCH, times)
        if arm in DECODERS:
            taught = taught_with(arm, decoders)
            return Extent(taught.steps, taught.batch, times)
        return Extent(readers.steps_of(READERS[arm]), BATCH, times)

    def run(self, order: Order, *, say: Say = print) -> None:
        """Run what is missing; the same order goes on after a stop.

        Raises UserError when all else is done, if the text model of some arms cannot be read.
        """
        for arm in order.arms:
            self.needs(arm)
        with _settings(order) as (settings, decoders):
            questions = (
                Questions(SMALL_BENCH, every=SMALL_EVERY)
                if order.size == "small"
                else Questions(times=settings.times)
            )
            left = {
                path: arms_left(order, self, path, seed=settings.seed_of(path))
                for path in order.bases
            }
            # Once for all bases.
            without = _unread(dict.fromkeys(chain.from_iterable(left.values())), settings)
            for path, arms in left.items():
                if without is not None:
                    arms = [arm for arm in arms if not _has_text(arm)]
                folder = result_path(order.out, self.name, path.stem, BEFORE).parent
                readers = [arm for arm in arms if arm == BEFORE or arm in READERS]
                rest = [arm for arm in arms if arm not in readers]
                work: list[Share] = []
                if readers:
                    base = Base(path, questions, settings)
                    if readers != [BEFORE]:
                        base.make_rows("readers", say)
                    groups = reader_groups(readers, processes=order.processes)
                    run = partial(run_base, base, folder, say=say)
                    work += shares(run, groups, seconds=self.seconds)
                if rest:
                    base = Base(path, questions, decoders)
                    base.make_rows("decoders", say)
                    groups = decoder_groups(rest, processes=order.processes)
                    run = partial(run_decoders, base, folder, say=say)
                    work += shares(run, groups, seconds=self.seconds)
                each_apart(work, processes=order.processes, say=say)
        if without is not None:
            raise without


def _has_text(arm: str) -> bool:
    return arm in READERS and READERS[arm].text


@contextmanager
def _settings(order: Order) -> Iterator[tuple[ReadoutSettings, ReadoutSettings]]:
    """With a text model of their own for small runs, which is removed again."""
    readers, decoders = (
        replace(one, device=order.device, workers=order.workers) for one in _of_size(order.size)
    )
    if order.size == "full" or not any(map(_has_text, order.arms)):
        yield readers, decoders
        return
    with TemporaryDirectory() as folder:
        text = str(write_small_text(Path(folder) / "text"))
        yield replace(readers, text=text), decoders


def _of_size(size: Size) -> tuple[ReadoutSettings, ReadoutSettings]:
    """Of readers, and of decoders and VLM2Vec."""
    return (SMALL, SMALL) if size == "small" else (ReadoutSettings(), FOR_DECODERS)


def _unread(arms: Iterable[str], settings: ReadoutSettings) -> UserError | None:
    """Why arms with another text model cannot be run; None if they can, or none is asked for."""
    asked = [arm for arm in arms if _has_text(arm)]
    if not asked:
        return None
    try:
        # transformers wakes the GPU even for a model on the CPU, and no process that is forked
        # after that could use it.
        apart(partial(_read, settings.text), device=settings.device)
    except UserError as error:
        return UserError(
            f"{', '.join(asked)} could not be run: {error.found}",
            expected=error.expected,
            way_out=f"{error.way_out}; then give the same command again".removeprefix("; "),
        )
    return None


def _read(text: str) -> None:
    load_part(text, device="cpu")


READOUTS = ReadoutExperiment()
