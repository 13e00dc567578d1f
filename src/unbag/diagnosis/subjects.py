"""A loaded model comes in; a subject that probes can be put to goes out, with its random twin."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from unbag.engine.progress import Progress, Silent
from unbag.models.twin import random_twin
from unbag.probes.encoded import EncoderSpace
from unbag.probes.probe import Subject
from unbag.scorers.resolve import Model, make_scorer
from unbag.types import DualEncoder


def make_subject(
    model: Model, *, cache: Path | None = None, batch: int = 256, progress: Progress | None = None
) -> Subject:
    """Vectors for a dual encoder, and one with a matching head too; none for a chat model."""
    progress = progress or Silent()
    encoder = model if isinstance(model, DualEncoder) else getattr(model, "encoder", None)
    space = None
    if isinstance(encoder, DualEncoder):
        space = EncoderSpace(encoder, cache=cache, batch=batch, progress=progress)
    return Subject(model.name, model, space, make_scorer(model))


def with_twin(subject: Subject, *, seed: int, progress: Progress | None = None) -> Subject:
    """With the same model at random weights beside it, where one can be made.

    Vectors of a twin are cheap to forget and useless to anybody else, so they are not cached.
    """
    if not isinstance(subject.model, DualEncoder):
        return subject
    twin = random_twin(subject.model, seed=seed)
    if twin is None:
        return subject
    return replace(subject, twin=make_subject(twin, progress=progress))
