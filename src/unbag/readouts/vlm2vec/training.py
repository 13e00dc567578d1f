"""Contrastive training of a chat model as an embedding model (VLM2Vec), and its settings.

Dimensions: B queries, T targets, W or D width of their vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from unbag.errors import UnbagError
from unbag.models.huggingface.chat_inputs import ChatRow
from unbag.readouts.vlm2vec.data import EmbeddingLesson, LessonSettings, PairLessons, WorldLessons
from unbag.readouts.vlm2vec.model import Adapted, AdapterSettings, unit
from unbag.training.losses import info_nce
from unbag.training.optim import OptimizerSettings
from unbag.training.recipes import Precision
from unbag.training.settings import bounded, check_bounds
from unbag.training.step import Part, cached_step
from unbag.training.trainer import Task

TEMPERATURE = 0.02


@dataclass(frozen=True)
class Vlm2VecSettings:
    """Settings for --set. Defaults are the paper's, except batch (4 x 64) and chunk (1)."""

    steps: int = bounded(1000, low=1)
    batch_size: int = bounded(64, low=1)
    chunk: int = bounded(8, low=1)
    """Images or texts per forward pass; affects memory and the random numbers of dropout only."""
    learning_rate: float = bounded(2e-5, above=0)
    warmup_steps: int = bounded(100, low=0)
    """Warmup steps, before a linear schedule to zero."""
    temperature: float = bounded(TEMPERATURE, above=0)
    clip_norm: float = bounded(1.0, above=0)
    negatives: int = bounded(2, low=0)
    """Hard negatives per caption as additional targets, if the pairs have them."""
    lora: int = 8
    """LoRA rank; 0 trains the whole language model."""
    alpha: float = 64.0
    dropout: float = 0.1
    dora: bool = True

    def __post_init__(self) -> None:
        check_bounds(self, "VLM2Vec")
        # Raises UnbagError for settings that cannot be trained.
        _ = self.adapting

    @property
    def adapting(self) -> AdapterSettings:
        """Return the settings of the weights that are trained."""
        return AdapterSettings(self.lora, self.alpha, self.dropout, self.dora)

    def lesson_settings(self, *, asks: bool, seed: int) -> LessonSettings:
        """Return the settings of the training steps."""
        return LessonSettings(self.batch_size, self.negatives, asks, seed)


class EmbeddingTask(Task[EmbeddingLesson]):
    """Training a chat model to embed: each query is contrasted with all targets of its step."""

    def __init__(
        self,
        adapted: Adapted,
        lessons: WorldLessons | PairLessons,
        settings: Vlm2VecSettings,
        *,
        name: str,
        seed: int = 0,
        precision: Precision = "float32",
    ) -> None:
        """Take the model to train, its lessons and settings, and the name of the read-out."""
        self.adapted, self.lessons, self.settings = adapted, lessons, settings
        self.name, self.module, self.device = name, adapted.runner.model, adapted.model.device
        self.seed, self.precision = seed, precision
        self.optimizer = OptimizerSettings(
            steps=settings.steps,
            learning_rate=settings.learning_rate,
            warmup_steps=settings.warmup_steps,
            schedule="linear",
            clip_norm=settings.clip_norm,
        )

    def identity(self) -> dict[str, object]:
        """Return model, data and settings."""
        model = self.adapted.model
        return {
            "model": model.name,
            "model_fingerprint": model.fingerprint,
            "data_fingerprint": self.lessons.fingerprint,
            "settings": self.settings,
        }

    def parameters(self) -> dict[str, nn.Parameter]:
        """Return the weights that are trained."""
        return dict(self.adapted.weights)

    def state_dict(self) -> Mapping[str, Tensor]:
        """Return the trained weights only."""
        return self.adapted.state()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore weights of `state_dict`."""
        self.adapted.load(state, source="the checkpoint")

    def set_training(self, is_training: bool) -> None:
        """Switch the dropout of LoRA layers."""
        self.adapted.train(is_training)

    def batch(self, step: int) -> EmbeddingLesson:
        """Return the lesson of a step."""
        return self.lessons.step(step)

    def gradient(self, batch: EmbeddingLesson, step: int) -> dict[str, Tensor]:
        """Compute the gradient of the loss of all queries and targets, `chunk` rows at a time."""
        settings, seed = self.settings, hash((self.seed, step))
        sides = [
            [
                Part(partial(self.adapted.runner.hidden, rows), hash((seed, side, number)))
                for number, rows in enumerate(_chunks(all_rows, settings.chunk))
            ]
            for side, all_rows in enumerate(_rows(self.adapted, batch))
        ]

        def loss(query_BW: Tensor, target_TW: Tensor) -> Tensor:
            return contrast(
                query_BW,
                target_TW,
                own_B=batch.own_B.to(query_BW.device),
                masked_BT=batch.masked_BT.to(query_BW.device),
                temperature=settings.temperature,
            )

        value = cached_step(
            sides,
            loss,
            keeps_graphs=all(len(side) == 1 for side in sides),
            device=self.device,
            precision=self.precision,
        )
        return {"loss": value}

    def out_of_memory(self, batch: EmbeddingLesson) -> UnbagError:
        """Return an error that suggests half the chunk."""
        chunk = self.settings.chunk
        return UnbagError(
            f"{self.device} has not enough memory for {chunk} images or texts at once",
            expected="a chunk that fits; the gradient is always that of the whole batch",
            hint=f"--set chunk={max(1, chunk // 2)} in a new folder (--out), or a smaller model",
        )


def _rows(adapted: Adapted, lesson: EmbeddingLesson) -> tuple[list[ChatRow], list[ChatRow]]:
    """Return queries and targets as rows of the model."""
    model = adapted.model
    return model.hidden_rows(lesson.queries), model.hidden_rows([(None, t) for t in lesson.targets])


def _chunks(rows: Sequence[ChatRow], size: int) -> Iterator[Sequence[ChatRow]]:
    return (rows[at : at + size] for at in range(0, len(rows), size))


def measure(adapted: Adapted, lessons: Sequence[EmbeddingLesson], *, chunk: int) -> ShareNearest:
    """Count queries whose own target is strictly nearest, ignoring other targets that fit."""
    right = count = 0
    for lesson in lessons:
        sides = []
        for rows in _rows(adapted, lesson):
            with torch.inference_mode():
                parts = [
                    adapted.runner.hidden(chunk_rows).float().cpu()
                    for chunk_rows in _chunks(rows, chunk)
                ]
            sides.append(unit(torch.cat(parts)))
        cosine_BT = (sides[0] @ sides[1].T).masked_fill(lesson.masked_BT, -torch.inf)
        own_B1 = lesson.own_B[:, None]
        own_value_B1 = (sides[0] * sides[1][lesson.own_B]).sum(dim=1, keepdim=True)
        others_BT = cosine_BT.scatter(1, own_B1, -torch.inf)
        right += int((others_BT < own_value_B1).all(dim=1).sum())
        count += len(lesson.queries)
    return ShareNearest(right, count)


@dataclass(frozen=True)
class ShareNearest:
    """Number of queries whose own target is nearer than all others of its step."""

    right: int
    asked: int


def contrast(
    query_BD: Tensor,
    target_TD: Tensor,
    *,
    own_B: Tensor | None = None,
    masked_BT: Tensor | None = None,
    temperature: float = TEMPERATURE,
) -> Tensor:
    """Return the cross-entropy of each query over all targets, in this direction only.

    Args:
        query_BD: Query vectors of any norm.
        target_TD: Targets of the queries, and hard negatives.
        own_B: Index of each query's own target; None is the same index.
        masked_BT: True for other targets that fit a query; they are left out.
        temperature: Divisor of cosines.
    """
    logit_BT = unit(query_BD) @ unit(target_TD).T / temperature
    return info_nce(logit_BT, own_B, also_true_BC=masked_BT)
