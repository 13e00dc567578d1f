"""The folder of a training run comes in; its weights as an encoder, and their card, go out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from unbag.errors import UserError
from unbag.scorers.named import model_name
from unbag.scorers.resolve import load_model
from unbag.train import checkpoint
from unbag.train.card import Card, Cost
from unbag.train.card_settings import card_settings
from unbag.train.checkpoint import BEST, LAST
from unbag.train.config import Locks, Lora
from unbag.train.job import TrainRecord, read_record
from unbag.train.locks import apply_locks
from unbag.train.lora import add_lora
from unbag.train.make_trainable import make_trainable
from unbag.train.trainable import Trainable
from unbag.types import DualEncoder

Weights = Literal["last", "best"]


def read_trained(folder: Path, *, weights: Weights = "last") -> tuple[DualEncoder, Card]:
    """Weights of a run, finished or not; the model it began with must still be found by name."""
    record = read_record(folder)
    path = folder / {"last": LAST, "best": BEST}[weights]
    if record is None or not path.exists():
        raise UserError(
            f"the folder {folder} holds no {path.name}",
            expected="a folder that `unbag train` wrote; best.safetensors only where benchmarks "
            "were scored while training",
            way_out="name the folder that was given as --out",
        )
    encoder = load_model(model_name(record.base))
    if encoder.fingerprint != record.asked.model_fingerprint:
        raise UserError(
            f"{record.base} is not the model that {folder} began with",
            expected=f"weights with the fingerprint {record.asked.model_fingerprint}",
            way_out="put the old weights back where they were",
        )
    trainable = make_trainable(encoder, device="cpu")
    _widen(trainable, _recipe(record))
    found = checkpoint.load(path)
    checkpoint.restore(found, trainable)
    name = f"{record.asked.model}+{_recipe(record)['name']}"
    return trainable.encoder(name), _card(record, found.standing, name=name)


def _widen(trainable: Trainable, recipe: Mapping[str, Any]) -> None:
    """As for training: what was locked has no small matrices beside it."""
    if recipe["lora"] is not None:
        apply_locks(trainable, Locks(**_fields(recipe["locks"])))
        add_lora(trainable, Lora(**_fields(recipe["lora"])))


def _fields(said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name != "class"}


def _recipe(record: TrainRecord) -> Mapping[str, Any]:
    assert isinstance(record.asked.recipe, Mapping)
    return record.asked.recipe


def _card(record: TrainRecord, standing: checkpoint.Standing, *, name: str) -> Card:
    recipe = _recipe(record)
    return Card(
        title=name,
        base=record.base,
        recipe=recipe["name"],
        settings=card_settings(recipe, seed=record.asked.seed, precision=record.asked.precision)
        + f"\n- after step {standing.step} of {record.steps}",
        data=record.data,
        cost=Cost(
            steps=standing.step,
            samples=standing.step * recipe["batch"],
            seconds=standing.seconds,
            device=record.device,
        ),
        command=record.command,
    )
