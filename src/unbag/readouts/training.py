"""Training of readers on frozen features: the read-out, its settings and its training task.

Features are computed once, before the first step.
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
from unbag.readouts.data import Pool, RowOrder, pool_of, rows_of, shuffled, world_pool, world_rows
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
_MAX_ROWS = 2_000
"""Maximum number of training rows for the accuracy on the model card."""


@dataclass(frozen=True)
class ReaderReadout:
    """A read-out that trains a reader."""

    name: str
    settings: ReaderEffort
    """Default settings; --set can change their fields."""
    view: Callable[[Any], View]
    """Makes the view of an encoder for settings."""
    build: Callable[[Any, Sizes], Reader]
    """Makes an untrained reader for settings and sizes, with weights of torch's generator."""
    task: type[ReaderTask] | None = None
    """The training task; None is `ReaderTask`."""

    def train(self, job: ReadoutJob, *, progress: Progress) -> ReadoutTrained:
        """Compute features once and train on them; the same job resumes an interrupted run."""
        settings = choose(self.settings, job.settings, readout=self.name)
        encoder = encoder_of(job.model, self.name)
        arguments, make_task = job.where or TrainingArguments(), self.task or ReaderTask
        inputs = {
            "readout": self.name,
            "class": make_task,
            "model": encoder.name,
            "model_fingerprint": encoder.fingerprint,
        }
        with open_run_folder(job.out, TRAINING) as folder:
            check_earlier(folder, **inputs, settings=settings, seed=job.seed)
            pool = _make_pool(job, settings, encoder, self.view(settings), arguments, progress)
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
            trainer = Trainer(task, progress=progress, save_minutes=arguments.save_minutes)
            state = trainer.run(folder, facts={"data": pool.about, "device": device})
            if not trainer.is_done:
                return ReadoutTrained(job.out, is_done=False)
            head = ReaderHeader(
                self.name, asdict(settings), sizes, encoder.name, encoder.fingerprint
            )
            save_head(reader, job.out / FILE, head)
            # Measured with the weights as they were rounded for the file.
            reader.load_state_dict(read_head(job.out / FILE)[1])
            weights = sum(w.numel() for w in reader.parameters())
            duration = f"{state.seconds:,.0f} s"
            accuracy_lines, accuracy_text = _describe_accuracy(reader, pool, device)
            readout_name = job.called or self.name
            card = ReadoutCard(
                f"The read-out {self.name} for {job.spec}",
                "A small network that scores patches of an image against words of a caption. The "
                "encoder was\nfrozen during training; the reader works with this encoder only "
                f"(fingerprint {encoder.fingerprint}).",
                [f"unbag run --model {job.spec} --scorer {readout_name}@FOLDER --bench world"],
                f"Data: {pool.about}. Trained on {trained:,} rows, {pool.held_out:,} held out; "
                f"seed {job.seed};\n{duration} on {device}; {weights:,} weights.",
                asdict(settings),
                accuracy_text,
            )
            write_text(job.out / CARD, render_readout_card(card))
            lines = (
                *accuracy_lines,
                f"{weights:,} weights, {duration} of training",
                f"score with: unbag run --model {job.spec} --scorer {readout_name}@{job.out}",
            )
            return ReadoutTrained(job.out, is_done=True, lines=lines)

    def scorers(self, model: Model, folder: Path | None) -> list[Scorer]:
        """Return the scorer of a folder, or of the reader shipped for the model."""
        encoder = encoder_of(model, self.name)
        path = folder or shipped_reader(self.name, encoder)
        if path is None:
            raise UnbagError(
                f"the read-out {self.name!r} needs a trained reader, and no folder is named",
                expected=f"--scorer {self.name}@FOLDER",
                hint=f"train one: `unbag train --readout {self.name} ...` (docs/how-to/readouts.md)"
                + more_ships(),
            )
        reader, _ = load_reader(
            path, encoder, readout=self.name, settings=type(self.settings), build=self.build
        )
        scorer_class = ItemReaderScorer if reader.depends_on_call else ReaderScorer
        return [scorer_class(encoder, reader, name=named(encoder, self.name, folder))]

    def fresh(self, settings: ReaderEffort, sizes: Sizes, *, seed: int) -> Reader:
        """Return an untrained reader with the initial weights of a seed."""
        with seeded(seed):
            return self.build(settings, sizes)


@dataclass(frozen=True)
class ReaderEffort:
    """Training settings that all readers share; read-outs add their own."""

    steps: int = bounded(2_000, low=1)
    batch_size: int = bounded(256, low=1)
    """Images per step."""
    contrast_size: int = bounded(32, low=1)
    """Images and captions of a contrastive block; each image also has its negatives."""
    learning_rate: float = bounded(1e-3, above=0)
    warmup_steps: int = bounded(100, low=0)
    weight_decay: float = bounded(0.01, low=0)
    negatives: bool = True
    """Use the hard negatives of the pairs."""
    scenes: int = bounded(20_000, low=2)
    """Number of scenes, for training on the world."""
    opposites: bool = False
    """For training on the world: pairs of opposite scenes, in the same batch."""

    def __post_init__(self) -> None:
        """Raise UnbagError for values out of bounds."""
        check_bounds(self, "a reader")


def encoder_of(model: Model, name: str) -> DualEncoder:
    """Return the dual encoder whose features are read."""
    if isinstance(model, DualEncoder):
        return model
    inner = getattr(model, "encoder", None)
    if isinstance(inner, DualEncoder):
        return inner
    raise UnbagError(
        f"the read-out {name!r} reads patches and words, and {model.name!r} returns none",
        expected="a dual encoder: tiny:, open_clip:, hf: or photo:",
        hint="name another with --model",
    )


def named(encoder: DualEncoder, readout: str, folder: Path | None) -> str:
    """Return the name for tables; it says (shipped) if no folder was named."""
    return f"{encoder.name}+{readout}{'' if folder else ' (shipped)'}"


class ReaderTask(Task[Tensor]):
    """Training a reader on the features of a pool; a batch is row indices."""

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
        """Prepare training; raise UnbagError if the pool has nothing to learn from.

        Args:
            reader: Moved to the device and trained in place.
            pool: The training data.
            settings: The settings of the read-out.
            device: The device of the reader.
            seed: Seed of the order of rows and of dropout.
            inputs: All else that determines the weights, for the identity of a run.
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
        """Return the rows of a step."""
        return self._order(step)

    def loss(self, batch: Tensor, step: int) -> Tensor:
        """Return the loss of the reader."""
        rows = self.pool.batch(batch, device=self.device, with_negatives=self.settings.negatives)
        return self.reader.loss(rows, contrast_size=self.settings.contrast_size)

    def identity(self) -> dict[str, object]:
        """Return inputs, settings and data."""
        return {
            **self._inputs,
            "settings": self.settings,
            "data_fingerprint": self.pool.fingerprint,
        }

    def static_batch(self, batch: Tensor) -> tuple[Hashable, Tensor] | None:
        """Copy the batch to a fixed tensor if the pool is on the GPU, so steps can be recorded."""
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
    arguments: TrainingArguments,
    progress: Progress,
) -> Pool:
    """Make the pool of scenes of the world, of opposite scenes, or of pairs in files."""
    data_config = job.pairs
    if data_config.path == WORLD and settings.opposites:
        quads = composites(settings.scenes // 2, seed=job.seed)
        return composite_pool(encoder, view, quads, progress=progress)
    if data_config.path == WORLD:
        scenes = world_rows(
            settings.scenes, seed=job.seed, workers=arguments.workers, progress=progress
        )
        return world_pool(encoder, view, scenes, progress=progress)
    pairs = data_config.open()
    if not pairs.has_edits:
        progress.say(
            "the pairs have no edits, so a reader learns to distinguish images but nothing about "
            "word order; `unbag edit` makes hard negatives"
        )
    rows = shuffled(rows_of(pairs, progress=progress))
    return pool_of(rows, encoder, view, cache=arguments.cache, progress=progress, about=pairs.about)


def _describe_accuracy(reader: Reader, pool: Pool, device: str) -> tuple[tuple[str, ...], str]:
    """Return train and held-out accuracy, as lines for the terminal and as text for the card."""
    if not (pool.negative_NK >= 0).any():
        return (), "The pairs had no hard negatives, so no accuracy was measured."
    training_count = len(pool) - pool.held_out
    training_rows = pool.rows(0, min(training_count, _MAX_ROWS))
    text = f"{number_text(accuracy(reader, training_rows, device=device))} % of the training rows"
    held_out_rows = pool.rows(training_count, len(pool))
    if count := int((held_out_rows.negative_NK >= 0).any(dim=1).sum()):
        share = share_text(accuracy(reader, held_out_rows, device=device), count)
        text += f", {share} of held-out rows"
    return (
        (f"captions above all their hard negatives: {text}",),
        f"Captions above all their own hard negatives (a tie is a miss): {text}. A reader that "
        "does not fit its training rows says nothing about the features.",
    )


def sizes_of(pool: Pool) -> Sizes:
    """Return the shapes of the features in a pool."""
    return Sizes(
        patches=pool.image.vector_NLW.shape[1],
        picture_width=pool.image.vector_NLW.shape[2],
        caption_width=pool.caption.vector_NLW.shape[2],
    )


def accuracy(reader: Reader, pool: Pool, *, device: str, batch_size: int = 256) -> float:
    """Return the share of rows whose caption scores above all its negatives; a tie is a miss.

    On the training rows this tells whether the reader can learn at all: a reader that cannot fit a
    few thousand fixed examples says nothing about the features.
    """
    reader.eval()
    with_negatives = (pool.negative_NK >= 0).any(dim=1).nonzero().flatten()
    if not len(with_negatives):
        raise UnbagError("no caption of the pool has a negative", expected="at least one")
    results = [
        accuracies(reader, pool.batch(rows, device=device))
        for rows in torch.split(with_negatives, batch_size)
    ]
    return float(torch.cat(results).float().mean())


def _check_pool(pool: Pool, effort: ReaderEffort) -> None:
    """Raise UnbagError for a pool with nothing to learn from."""
    if len(pool) < 2:
        raise UnbagError(f"{len(pool)} images to train on", expected="at least two to contrast")
    if effort.contrast_size == 1 and not (effort.negatives and pool.negative_NK.shape[1]):
        raise UnbagError(
            "contrast_size=1 and no hard negatives: no caption has an alternative",
            expected="a larger contrast_size, or pairs with edits",
            hint="--set contrast_size=32, or `unbag edit` on the captions first",
        )
