"""One contract for every kind of training: stops, batches, seeds, parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch
from tests.readouts.core_encoder import small as reader_encoder
from tests.training.small_runs import fast, job_of
from torch import Tensor, nn

from unbag.models.photo import load_heads
from unbag.readouts.base import find_readout
from unbag.readouts.data import Pool, world_pool, world_rows
from unbag.readouts.pooled import PooledSettings
from unbag.readouts.reader import Reader, Sizes
from unbag.readouts.training import ReaderReadout, ReaderTask, sizes_of
from unbag.runs.checkpoint import LAST, load_checkpoint, optimizer_state
from unbag.runs.files import TRAINING, open_run_folder
from unbag.training import trainer as trainer_module
from unbag.training.data.pairs import PairBatches
from unbag.training.encoders.adapters import make_trainable
from unbag.training.encoders.cached_features import CachedEncoders
from unbag.training.fine_tuning import FineTuning, TrainJob
from unbag.training.optim import OptimizerSettings
from unbag.training.recipes import Freeze
from unbag.training.trainer import Task, Trainer

STEPS = 4
EFFORT = PooledSettings(
    steps=STEPS,
    batch_size=6,
    contrast_size=2,
    learning_rate=1e-2,
    warmup_steps=1,
    scenes=12,
    width=8,
)


@dataclass(frozen=True)
class Kind:
    """A task that begins anew at every call."""

    name: str
    make: Callable[[Path, int], Task[Any]]
    """For a folder and a seed; of 4 steps."""
    parts: Callable[[Path, int], Task[Any]] | None = None
    """The same, that computes a batch in parts."""
    needs: tuple[str, ...] = ()


def fine_tuning(
    name: str, *settings: str, micro_batch_size: int | None = None
) -> Callable[[Path, int], FineTuning]:
    def make(out: Path, seed: int) -> FineTuning:
        recipe = fast(name, *settings)
        return FineTuning(
            replace(job_of(out, recipe, seed=seed, per_epoch=2), micro_batch_size=micro_batch_size)
        )

    return make


class Dropping(Reader):
    """Draws random numbers in every step."""

    name = "dropping"

    def __init__(self, reader: Reader, sizes: Sizes) -> None:
        super().__init__()
        self.reader, self.drop = reader, nn.Dropout(0.5)

    def loss(self, batch: Any, *, contrast_size: int) -> Tensor:
        """Of features of which half are missing."""
        image = replace(batch.image, vector_NLW=self.drop(batch.image.vector_NLW))
        return self.reader.loss(replace(batch, image=image), contrast_size=contrast_size)


def reading(name: str) -> Callable[[Path, int], ReaderTask]:
    def make(out: Path, seed: int) -> ReaderTask:
        readout = find_readout(name)
        assert isinstance(readout, ReaderReadout)
        encoder = reader_encoder()
        pool: Pool = world_pool(encoder, readout.view(readout.settings), world_rows(12, seed=0))
        own = {
            field.name: getattr(EFFORT, field.name)
            for field in fields(readout.settings)
            if hasattr(EFFORT, field.name)
        }
        settings = replace(readout.settings, **own)
        sizes = sizes_of(pool)
        reader = Dropping(readout.fresh(settings, sizes, seed=0), sizes)
        return ReaderTask(reader, pool, settings, device="cpu", seed=seed)

    return make


def decoding(out: Path, seed: int) -> Task[Any]:
    """In two stages, and half of the time without the image."""
    from tests.readouts.decoder_made import SMALL, begun

    return begun(replace(SMALL, steps=STEPS, connector_steps=2, blind=0.5), seed=seed).task


def embedding(chunk: int, dropout: float) -> Callable[[Path, int], Task[Any]]:
    def make(out: Path, seed: int) -> Task[Any]:
        from tests.readouts.decoder_made import decoder

        from unbag.readouts.vlm2vec.data import WorldLessons
        from unbag.readouts.vlm2vec.model import adapt
        from unbag.readouts.vlm2vec.training import EmbeddingTask, Vlm2VecSettings

        settings = Vlm2VecSettings(
            steps=STEPS, batch_size=4, chunk=chunk, warmup_steps=1, learning_rate=0.01, negatives=1,
            lora=2, dropout=dropout,
        )  # fmt: skip
        adapted = adapt(decoder(), settings.adapting, seed=0)
        lessons = WorldLessons(settings.lesson_settings(asks=True, seed=seed))
        return EmbeddingTask(adapted, lessons, settings, name="vlm2vec", seed=seed)

    return make


def pretraining(out: Path, seed: int) -> Task[Any]:
    from unbag_lab.bases import Pretraining, PretrainSettings
    from unbag_lab.experiments.pretraining import ARMS, smaller

    settings = PretrainSettings(seed=seed, steps=STEPS, batch_size=4)
    return Pretraining(settings, smaller(ARMS["base"]).config, device="cpu")


def photographs(out: Path, seed: int) -> Task[Any]:
    from unbag_lab.experiments.photos import START, drawn_collection, drawn_features
    from unbag_lab.experiments.photos_training import BUILD, PhotosTask

    collection = drawn_collection()
    seen, recipe = drawn_features(collection), BUILD[START].recipe
    recipe = replace(recipe, freeze=Freeze(), batch_size=80, epochs=1, warmup_steps=1)
    network = make_trainable(load_heads(None, seed=seed), device="cpu")
    heads = CachedEncoders(network, images=seen.images, texts=seen.captions)
    batches = PairBatches(collection.train, recipe, heads.reads, seed)
    return PhotosTask(TrainJob(heads, batches, recipe, out=out, seed=seed), steps=STEPS)


CHAT = ("transformers", "peft")
KINDS = (
    Kind("clip_ft", fine_tuning("clip_ft"), fine_tuning("clip_ft", micro_batch_size=3)),
    Kind(
        "ce_clip_fixed",
        fine_tuning("ce_clip_fixed"),
        fine_tuning("ce_clip_fixed", micro_batch_size=1),
    ),
    Kind("svlc", fine_tuning("svlc"), needs=("peft",)),
    *(Kind(name, reading(name)) for name in ("pooled", "dcsm", "pacl", "sparc")),
    Kind("decoder", decoding, needs=("transformers",)),
    Kind("vlm2vec", embedding(64, 0.0), embedding(3, 0.0), needs=CHAT),
    Kind("vlm2vec with dropout", embedding(3, 0.5), needs=CHAT),
    Kind("a tiny model", pretraining, needs=("unbag_lab",)),
    Kind("heads on photographs", photographs, needs=("unbag_lab",)),
)


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    for package in found.needs:
        pytest.importorskip(package)
    return found


def state(trainer: Trainer[Any]) -> dict[str, object]:
    """All that a checkpoint holds."""
    return {
        "weights": dict(trainer.task.state_dict()),
        "optimizer": optimizer_state(trainer.parameters, trainer.optimizer),
        "extra": dict(trainer.task.extra_state()),
    }


def is_same(one: Any, other: Any) -> bool:
    """Bit for bit, whatever it is made of."""
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(is_same, one, other))
    if is_dataclass(one):
        return is_same(vars(one), vars(other))
    found = one == other
    return bool(found if isinstance(found, bool) else found.all())


def test_stopped_after_every_step_it_ends_with_the_same_bits(kind: Kind, tmp_path: Path) -> None:
    """Weights, optimizer state and extra state."""
    whole = Trainer(kind.make(tmp_path / "whole", 0))
    first = {name: value.clone() for name, value in whole.task.state_dict().items()}
    whole.run()
    assert not is_same(first, dict(whole.task.state_dict()))
    assert not whole.task.module.training
    seconds = 0.0
    for step in range(1, STEPS + 1):
        # Everything anew, as in another process.
        torch.rand(3)
        started = Trainer(kind.make(tmp_path / "run", 0))
        with open_run_folder(tmp_path / "run", TRAINING) as folder:
            found = started.run(folder, on_step=lambda state, numbers: True)
        assert (found.step, started.is_done) == (step, step == STEPS)
        assert found.seconds > seconds, "of all starts"
        seconds = found.seconds
    assert is_same(state(whole), state(started))
    saved = load_checkpoint(tmp_path / "run" / LAST)
    assert is_same(dict(saved.group("weights")), dict(whole.task.state_dict()))


def test_steps_leave_the_draws_of_others_alone(kind: Kind, tmp_path: Path) -> None:
    trainer = Trainer(kind.make(tmp_path, 0))
    batch = next(trainer.task.batches(0))
    before = torch.get_rng_state()
    trainer.train_step(batch)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_seed_decides(kind: Kind, tmp_path: Path) -> None:
    found = [Trainer(kind.make(tmp_path / str(seed), seed)) for seed in (0, 1)]
    for trainer in found:
        trainer.run()
    assert not is_same(state(found[0])["weights"], state(found[1])["weights"])
    assert found[0].identity != found[1].identity


def test_a_batch_depends_on_its_step_alone(kind: Kind, tmp_path: Path) -> None:
    def from_step(first: int) -> Iterator[Any]:
        task = kind.make(tmp_path, 0)
        if first and "noise" in task.extra_state():
            # Images of the world are drawn with noise, whose generator is saved.
            task.load_extra_state(after_two)
        return task.batches(first)

    task = kind.make(tmp_path, 0)
    flow = task.batches(0)
    every = [next(flow) for _ in range(2)]
    after_two = task.extra_state()
    every += [next(flow) for _ in range(2)]
    assert is_same(list(from_step(2)), every[2:])
    assert not is_same(every[2], every[3])


@pytest.mark.parametrize(
    "kind", [one for one in KINDS if one.parts], ids=lambda kind: kind.name, indirect=True
)
def test_parts_of_a_batch_give_the_gradient_of_the_whole(kind: Kind, tmp_path: Path) -> None:
    found = []
    assert kind.parts is not None
    for make in (kind.make, kind.parts):
        task = make(tmp_path, 0)
        parameters = task.parameters()
        numbers = task.gradient(next(task.batches(0)), 0)
        grads = {name: w.grad for name, w in parameters.items() if w.grad is not None}
        found.append((float(numbers["loss"]), grads))
    (loss, whole), (other, parts) = found
    assert other == pytest.approx(loss, rel=1e-5)
    assert whole.keys() == parts.keys()
    largest = max(float(grad.abs().max()) for grad in whole.values())
    assert largest > 1e-3
    for name, grad in whole.items():
        assert torch.allclose(grad / largest, parts[name] / largest, atol=1e-5), name


def test_the_example_of_the_trainer_runs(tmp_path: Path) -> None:
    text = (trainer_module.__doc__ or "").partition("The smallest task:\n")[2]
    x_N = torch.linspace(-1, 1, 50)
    known = {"np": np, "torch": torch, "Tensor": Tensor, "nn": nn, "Task": Task, "Trainer": Trainer,
             "OptimizerSettings": OptimizerSettings, "TRAINING": TRAINING, "x_N": x_N,
             "open_run_folder": open_run_folder, "y_N": 2 * x_N + 1, "out": tmp_path}  # fmt: skip
    exec(dedent(text.partition("A step is")[0]), known)
    slope = load_checkpoint(tmp_path / LAST).group("weights")["weight"]
    assert float(slope) == pytest.approx(2, abs=0.2)
