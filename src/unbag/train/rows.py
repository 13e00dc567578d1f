"""What a step found out comes in; the row of the log that says it goes out."""

from __future__ import annotations

from torch import Tensor

from unbag.train.job import TrainJob
from unbag.train.optimise import share_of_rate
from unbag.train.step import Taken


def columns(job: TrainJob) -> tuple[str, ...]:
    """Of the log, after the step."""
    objective = job.recipe.objective
    terms = [term.name for term in objective.terms if term.weight]
    thresholds = _thresholds(job) if objective.threshold is not None else []
    held = ["to_start"] if job.recipe.to_start else []
    known = ["epoch", "learning_rate", "waited", "loss", "gradient", "scale"]
    return (*known, *terms, *thresholds, *held)


def known_of(job: TrainJob, step: int, *, waited: float) -> dict[str, float]:
    """Numbers that need no device."""
    recipe = job.recipe
    share = share_of_rate(step, steps=job.steps, warm_up=recipe.warm_up)
    return {
        "epoch": step / job.batches.per_epoch,
        "learning_rate": recipe.learning_rate * share,
        "waited": waited,
    }


def found_of(
    job: TrainJob, taken: Taken, *, used_K: Tensor | None, length: Tensor, away: Tensor
) -> dict[str, Tensor]:
    """Numbers that are still on the device; `used_K` are the thresholds of this step."""
    found = {"loss": taken.losses.total, "gradient": length, **taken.losses.terms}
    found["scale"] = job.trainable.temperature[0].exp()
    if used_K is not None:
        found |= dict(zip(_thresholds(job), used_K.unbind(), strict=True))
    if job.recipe.to_start:
        found["to_start"] = away
    return {name: value.to(length.device) for name, value in found.items()}


def _thresholds(job: TrainJob) -> list[str]:
    return [f"threshold_{slot.name}" for slot in job.recipe.negatives]
