"""A loaded model comes in; a subject that probes can be put to goes out, with its random twin."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from unbag.engine.progress import Progress, Silent
from unbag.models.twin import random_twin
from unbag.probes.encoded import EncoderSpace
from unbag.probes.probe import Subject
from unbag.scorers.cosine import Cosine
from unbag.scorers.resolve import Model, make_scorer
from unbag.types import DualEncoder, Scorer


def make_subject(
    model: Model,
    *,
    scorer: Scorer | None = None,
    cache: Path | None = None,
    batch: int = 256,
    progress: Progress | None = None,
) -> Subject:
    """Vectors for a dual encoder, and one with a matching head too; none for a chat model.

    `scorer` scores in place of the model's own; a cosine brings the vectors that it compares.
    """
    progress = progress or Silent()
    encoder = model if isinstance(model, DualEncoder) else getattr(model, "encoder", None)
    if isinstance(scorer, Cosine):
        encoder = scorer.encoder
    space = None
    if isinstance(encoder, DualEncoder):
        space = EncoderSpace(encoder, cache=cache, batch=batch, progress=progress)
    if scorer is None:
        return Subject(model.name, model, space, make_scorer(model))
    has_readout = not isinstance(scorer, Cosine)
    return Subject(scorer.name, model, space, scorer, has_readout=has_readout)


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
