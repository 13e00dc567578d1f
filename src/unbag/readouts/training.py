"""Training of a reader: the read-out that a reader makes, its task, and the end of its run.

A reader learns on frozen features that are computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unbag.errors import UnbagError
from unbag.models.features import View
from unbag.models.shipped import more_ships
from unbag.models.weights import seeded
from unbag.readouts.base import ReadoutJob, ReadoutTrained
from unbag.readouts.composites import composite_pool, composites
from unbag.readouts.data import Pool, RowOrder, mixed, pool_of, rows_of, world_pool, world_rows
from unbag.readouts.reader import (
    FILE,
    Reader,
    ReaderHeader,
    Sizes,
    accuracies,
    load_reader,
    read_head,
    save_head,
    shipped_reader,
)
from unbag.readouts.scorer import ItemReaderScorer, ReaderScorer
from unbag.reports.cards import ReadoutCard, render_readout_card
from unbag.reports.formatting import number_text, share_text
from unbag.runs.files import TRAINING, open_run_folder, write_text
from unbag.runs.progress import Progress
from unbag.training.optim import OptimizerSettings
from unbag.training.repair import WORLD, TrainingArguments
from unbag.training.settings import bounded, check_bounds, choose
from unbag.training.trainer import Task, Trainer, check_earlier
from unbag.types import DualEncoder, Scorer

if TYPE_CHECKING:
    from unbag.models.loading import Model

CARD = "README.md"
_MOST_ASKED = 2_000
"""Rows that were trained on, of which the card gives a number."""


@dataclass(frozen=True)
class ReaderReadout:
    """A reader under the name by which it is trained and scored."""

    name: str
    settings: ReaderEffort
    """The defaults; their fields are what --set can change."""
    view: Callable[[Any], View]
    """How a reader with these settings looks at an encoder."""
    build: Callable[[Any, Sizes], Reader]
    """A fresh reader for settings and sizes, its first weights drawn from torch's generator."""
    task: type[ReaderTask] | None = None
    """A subclass of `ReaderTask` for another kind of training; None is that one."""

    def train(self, job: ReadoutJob, *, progress: Progress) -> ReadoutTrained:
        """On frozen parts that are computed once; the same job resumes an interrupted run."""
        settings = choose(self.settings, job.settings, readout=self.name)
        encoder = encoder_of(job.model, self.name)
        where, make_task = job.where or TrainingArguments(), self.task or ReaderTask
        inputs = {
            "readout": self.name,
            "class": make_task,
            "model": encoder.name,
            "model_fingerprint": encoder.fingerprint,
        }
        with open_run_folder(job.out, TRAINING) as folder:
            check_earlier(folder, **inputs, settings=settings, seed=job.seed)
            pool = _make_pool(job, settings, encoder, self.view(settings), where, progress)
            progress.say(f"data: {pool.about}")
            sizes, device, trained = sizes_of(pool), encoder.device, len(pool) - pool.held_out
            reader = self.fresh(settings, sizes, seed=job.seed)
            task = make_task(
                reader,
                pool.rows(0, trained).near(device),
                settings,
                device=device,
                seed=job.seed,
                inputs=inputs,
            )
            trainer = Trainer(task, progress=progress, save_minutes=where.save_minutes)
            state = trainer.run(folder, facts={"data": pool.about, "device": device})
            if not trainer.is_done:
                return ReadoutTrained(job.out, is_done=False)
            head = ReaderHeader(
                self.name, asdict(settings), sizes, encoder.name, encoder.fingerprint
            )
            save_head(reader, job.out / FILE, head)
            # Numbers are those of the weights as they were rounded for the file.
            reader.load_state_dict(read_head(job.out / FILE)[1])
            weights = sum(w.numel() for w in reader.parameters())
            seconds = f"{state.seconds:,.0f} s"
            said, numbers = _numbers(reader, pool, device)
            called = job.called or self.name
            card = ReadoutCard(
                f"The read-out {self.name} for {job.spec}",
                "A small network that scores patches of an image against words of a caption. The "
                f"model under it\nstayed as it was; the reader means nothing for any other "
                f"(fingerprint {encoder.fingerprint}).",
                [f"unbag run --model {job.spec} --scorer {called}@FOLDER --bench world"],
                f"Data: {pool.about}. Trained on {trained:,} rows, {pool.held_out:,} held out; "
                f"seed {job.seed};\n{seconds} on {device}; {weights:,} weights.",
                asdict(settings),
                numbers,
            )
            write_text(job.out / CARD, render_readout_card(card))
            lines = (
                *said,
                f"{weights:,} weights, {seconds} of training",
                f"score with: unbag run --model {job.spec} --scorer {called}@{job.out}",
            )
            return ReadoutTrained(job.out, is_done=True, lines=lines)

    def scorers(self, model: Model, folder: Path | None) -> list[Scorer]:
        """One, of a folder; without a folder the one that is shipped for the model, if any is."""
        encoder = encoder_of(model, self.name)
        place = folder or shipped_reader(self.name, encoder)
        if place is None:
            raise UnbagError(
                f"the read-out {self.name!r} scores with a trained reader, and none is named",
                expected=f"--scorer {self.name}@FOLDER",
                hint=f"`unbag train --readout {self.name} ...` makes one: docs/readouts.md"
                + more_ships(),
            )
        reader, _ = load_reader(
            place, encoder, readout=self.name, settings=type(self.settings), build=self.build
        )
        kind = ItemReaderScorer if reader.depends_on_call else ReaderScorer
        return [kind(encoder, reader, name=named(encoder, self.name, folder))]

    def fresh(self, settings: ReaderEffort, sizes: Sizes, *, seed: int) -> Reader:
        """With first weights of a seed."""
        with seeded(seed):
            return self.build(settings, sizes)


@dataclass(frozen=True)
class ReaderEffort:
    """How long and how fast a reader learns; read-outs add settings of their own."""

    steps: int = bounded(2_000, low=1)
    batch_size: int = bounded(256, low=1)
    """Images of a step."""
    contrast_size: int = bounded(32, low=1)
    """Images and captions of a contrastive block; each image has its negatives beside
    them."""
    learning_rate: float = bounded(1e-3, above=0)
    warmup_steps: int = bounded(100, low=0)
    weight_decay: float = bounded(0.01, low=0)
    negatives: bool = True
    """Whether hard negatives of the pairs are used."""
    scenes: int = bounded(20_000, low=2)
    """Of the world, where it is trained on that."""
    opposites: bool = False
    """Of the world: pairs of scenes that are each other's opposite, side by side in a batch."""

    def __post_init__(self) -> None:
        """Refuse numbers that no data could make sense of."""
        check_bounds(self, "a reader")


def encoder_of(model: Model, name: str) -> DualEncoder:
    """The dual encoder whose parts are read."""
    if isinstance(model, DualEncoder):
        return model
    inner = getattr(model, "encoder", None)
    if isinstance(inner, DualEncoder):
        return inner
    raise UnbagError(
        f"the read-out {name!r} reads patches and words, and {model.name!r} shows none",
        expected="a dual encoder: tiny:, open_clip:, hf: or photo:",
        hint="name another with --model",
    )


def named(encoder: DualEncoder, readout: str, folder: Path | None) -> str:
    """As tables show it: whoever forgets the folder sees that it is not their own reader."""
    return f"{encoder.name}+{readout}{'' if folder else ' (shipped)'}"


class ReaderTask(Task[Tensor]):
    """A reader on the features of a pool; a batch is the numbers of its rows."""

    def __init__(
        self,
        reader: Reader,
        pool: Pool,
        settings: ReaderEffort,
        *,
        device: str,
        seed: int = 0,
        inputs: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """Raises UnbagError where nothing can be learned.

        Args:
            reader: Moved to the device and trained in place.
            pool: What it is trained on.
            settings: Those of the read-out.
            device: Where the reader computes.
            seed: Of the order of rows and of dropout.
            inputs: What else decides the weights, for the identity of a run.
        """
        _check_pool(pool, settings)
        self.name, self.module = reader.name, reader.to(device)
        self.reader, self.pool, self.settings = reader, pool, settings
        self.device, self.seed = device, seed
        self.optimizer = OptimizerSettings(
            steps=settings.steps,
            learning_rate=settings.learning_rate,
            warmup_steps=settings.warmup_steps,
            weight_decay=settings.weight_decay,
        )
        self.is_recorded = device.startswith("cuda")
        self._inputs = inputs
        self._order = RowOrder(pool, batch_size=settings.batch_size, seed=seed)
        self._row_B: Tensor | None = None

    def batch(self, step: int) -> Tensor:
        """Rows of the pool."""
        return self._order(step)

    def loss(self, batch: Tensor, step: int) -> Tensor:
        """The reader's own."""
        rows = self.pool.batch(batch, device=self.device, with_negatives=self.settings.negatives)
        return self.reader.loss(rows, contrast_size=self.settings.contrast_size)

    def identity(self) -> dict[str, object]:
        """Inputs, settings and data."""
        return {
            **self._inputs,
            "settings": self.settings,
            "data_fingerprint": self.pool.fingerprint,
        }

    def static_batch(self, batch: Tensor) -> tuple[Hashable, Tensor] | None:
        """Where the GPU holds the pool: batches that are copied to it cannot be recorded."""
        if self.pool.caption_N.device.type != torch.device(self.device).type:
            return None
        if self._row_B is None:
            self._row_B = batch.clone()
        return "", self._row_B.copy_(batch)


def _make_pool(
    job: ReadoutJob,
    settings: ReaderEffort,
    encoder: DualEncoder,
    view: View,
    where: TrainingArguments,
    progress: Progress,
) -> Pool:
    """Of the world, of opposite scenes of it, or of pairs in files."""
    wanted = job.pairs
    if wanted.path == WORLD and settings.opposites:
        twos = composites(settings.scenes // 2, seed=job.seed)
        return composite_pool(encoder, view, twos, progress=progress)
    if wanted.path == WORLD:
        scenes = world_rows(
            settings.scenes, seed=job.seed, workers=where.workers, progress=progress
        )
        return world_pool(encoder, view, scenes, progress=progress)
    pairs = wanted.open()
    if not pairs.has_edits:
        progress.say(
            "the pairs have no edits, so that a reader learns to tell images apart and nothing "
            "about word order; `unbag edit` makes hard negatives"
        )
    rows = mixed(rows_of(pairs, progress=progress))
    return pool_of(rows, encoder, view, cache=where.cache, progress=progress, about=pairs.about)


def _numbers(reader: Reader, pool: Pool, device: str) -> tuple[tuple[str, ...], str]:
    """Captions above all their negatives, of rows trained on and of others: terminal and card."""
    if not (pool.negative_NK >= 0).any():
        return (), "Pairs had no hard negatives, so nothing is said here."
    trained = len(pool) - pool.held_out
    seen = pool.rows(0, min(trained, _MOST_ASKED))
    line = card = f"{number_text(accuracy(reader, seen, device=device))} % of "
    line += "those it was trained on"
    card += "rows that were trained on"
    rest = pool.rows(trained, len(pool))
    if count := int((rest.negative_NK >= 0).any(dim=1).sum()):
        others = share_text(accuracy(reader, rest, device=device), count)
        line += f", {others} of others"
        card += f", {others} of rows that no step saw"
    return (
        (f"captions above all their hard negatives: {line}",),
        f"Captions above all their own hard negatives (a tie is a miss): {card}. A reader that "
        "does not fit what it was trained on says nothing about the features.",
    )


def sizes_of(pool: Pool) -> Sizes:
    """Of the features in a pool."""
    return Sizes(
        patches=pool.image.vector_NLW.shape[1],
        picture_width=pool.image.vector_NLW.shape[2],
        caption_width=pool.caption.vector_NLW.shape[2],
    )


def accuracy(reader: Reader, pool: Pool, *, device: str, batch_size: int = 256) -> float:
    """Share of images whose caption is above all of its negatives; a tie is a miss.

    On the pool it was trained on this says whether the reader can learn at all: a reader that
    cannot fit a few thousand fixed examples says nothing about the features.
    """
    reader.eval()
    has_any = (pool.negative_NK >= 0).any(dim=1).nonzero().flatten()
    if not len(has_any):
        raise UnbagError("no caption of the pool has a negative", expected="at least one")
    found = [
        accuracies(reader, pool.batch(rows, device=device))
        for rows in torch.split(has_any, batch_size)
    ]
    return float(torch.cat(found).float().mean())


def _check_pool(pool: Pool, effort: ReaderEffort) -> None:
    """Refuse a pool from which nothing can be learned."""
    if len(pool) < 2:
        raise UnbagError(f"{len(pool)} images to train on", expected="at least two, to tell apart")
    if effort.contrast_size == 1 and not (effort.negatives and pool.negative_NK.shape[1]):
        raise UnbagError(
            "a crowd of one and no hard negatives: there is nothing to tell a caption from",
            expected="a larger crowd, or pairs with edits",
            hint="--set contrast_size=32, or `unbag edit` on the captions first",
        )
