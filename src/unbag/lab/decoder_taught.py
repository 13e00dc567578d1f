"""Lessons about frozen features come in; a decoder that was taught them, and how well, goes out.

Every decoder is first taught a few thousand fixed lessons and asked these: one that cannot fit them
says nothing about the features.

Dimensions: N pictures, L patches, V width of features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from unbag.lab.arm_result import FEW_STEPS
from unbag.lab.readout_vectors import precision_of
from unbag.models.weights import seeded
from unbag.readouts.decoder.language import scratch_language
from unbag.readouts.decoder.lessons import DecoderSettings, Lesson, Words, make_lessons
from unbag.readouts.decoder.model import DecoderNet
from unbag.readouts.decoder.training import Taught as Step
from unbag.readouts.decoder.training import Teaching, fits, share_right


@dataclass(frozen=True, eq=False)
class Course:
    """What one decoder is taught and asked."""

    seen_NLV: Tensor | None
    """Features of all pictures; None where none is seen."""
    few: Sequence[Lesson]
    """Fixed, to be learned by heart."""
    lessons: Sequence[Lesson]
    held: Sequence[Lesson]
    """About pictures that no step sees."""


@dataclass(frozen=True)
class Look:
    """A number that is asked of a decoder in training, now and then."""

    every: int
    """Steps."""
    ask: Callable[[DecoderNet], float]


@dataclass(frozen=True, eq=False)
class Taught:
    """A decoder after its last step."""

    net: DecoderNet
    fit: dict[str, float]
    """Shares of lessons that it answers right."""
    loss: float | None
    curve: dict[int, float]
    """What was asked in between, by steps; empty without a look."""


def teach(
    course: Course,
    words: Words,
    settings: DecoderSettings,
    *,
    fit_steps: int,
    device: str,
    seed: int,
    look: Look | None = None,
) -> Taught:
    """The few by a decoder of their own, then all by the one that comes back."""
    precision, context, seen_NLV = precision_of(device), settings.context, course.seen_NLV
    can_fit = fits(
        fresh(settings, words, seen_NLV, seed=seed),
        seen_NLV,
        make_lessons(course.few, words, context=context),
        replace(settings, steps=fit_steps, blind=0.0),
        device=device,
        precision=precision,
        seed=seed,
    )
    teaching = Teaching(
        fresh(settings, words, seen_NLV, seed=seed),
        seen_NLV,
        make_lessons(course.lessons, words, context=context),
        settings,
        device=device,
        precision=precision,
        seed=seed,
    )
    losses: list[float] = []

    def on_step(taken: Step) -> bool:
        losses.extend([] if taken.loss is None else [taken.loss])
        return look is not None and taken.step % look.every == 0

    curve: dict[int, float] = {}
    while teaching.step < settings.steps:
        # Asked between two runs: what a step depends on is not touched.
        teaching.run(on_step)
        if look is not None and teaching.step % look.every == 0:
            curve[teaching.step] = look.ask(teaching.net)
    held = make_lessons(course.held, words, context=context).to(device)
    kept = share_right(teaching.net, teaching.seen_NLV, held, device=device, precision=precision)
    by_kind = {f"held {kind}": share for kind, share in kept.by_kind.items()}
    fit = {"few": can_fit.share, FEW_STEPS: float(fit_steps), "held": kept.share, **by_kind}
    return Taught(teaching.net, fit, losses[-1] if losses else None, curve)


def fresh(
    settings: DecoderSettings, words: Words, seen_NLV: Tensor | None, *, seed: int
) -> DecoderNet:
    """Before any step; the same for the same seed."""
    places, width = (0, 1) if seen_NLV is None else (seen_NLV.shape[1], seen_NLV.shape[2])
    with seeded(seed):
        return DecoderNet(scratch_language(settings, words, places=places), width=width)


def shrunk(settings: DecoderSettings) -> DecoderSettings:
    """For small runs, which show that the code runs."""
    return replace(settings, width=16, depth=1, heads=2, batch=16, warm_up=1)
