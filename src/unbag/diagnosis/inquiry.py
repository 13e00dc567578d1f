"""A model comes in; every probe is put to it, to its random twin and to its rival; answers go out.

A question that cannot be put, or fails, stops no other; what was answered is handed on at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from traceback import extract_tb

from unbag.diagnosis.answers import Answer, Diagnosis, Examined
from unbag.diagnosis.examples import map_words
from unbag.diagnosis.pairing import differences
from unbag.diagnosis.subjects import make_subject, with_twin
from unbag.engine.progress import Progress, Silent
from unbag.engine.run import versions
from unbag.errors import UserError
from unbag.metrics.compare import correct
from unbag.probes.finding import Finding, Options
from unbag.probes.material import Material
from unbag.probes.material_items import world_material
from unbag.probes.probe import Probe, Subject, Verdict
from unbag.registry import find, names
from unbag.scorers.resolve import Model
from unbag.types import Scorer

ORDER = (
    "order",
    "agreement",
    "extract",
    "extract_text",
    "conditions",
    "superposition",
    "sensitivity",
    "stability",
    "profile",
    "transplant",
    "prior",
    "yes_bias",
)
"""As a reader would ask; probes of plug-ins follow."""


@dataclass(frozen=True, eq=False)
class Inquiry:
    """What is asked of whom."""

    model: Model
    against: Model | None = None
    scorer: Scorer | None = None
    """Scores in place of the model's own, such as a read-out."""
    material: Material | None = None
    """None is the world."""
    probes: tuple[Probe, ...] | None = None
    """None is all that are registered."""
    options: Options = field(default_factory=Options)
    has_twin: bool = True
    """Put every question to the same model with random weights as well."""
    has_maps: bool = True
    """Draw maps of words over a few pictures, for which a chat model runs dozens of times."""
    cache: Path | None = None
    batch: int = 256
    command: str = ""
    """As it was typed, for the record."""


def examine(
    inquiry: Inquiry,
    *,
    progress: Progress | None = None,
    keep: Callable[[Diagnosis], None] | None = None,
) -> Diagnosis:
    """Put all questions, one after the other; `keep` is given what there is after each."""
    progress, started = progress or Silent(), perf_counter()
    subject = _subject(inquiry, progress)
    material = inquiry.material or world_material()
    begun = _begun(inquiry, subject, material)
    answers: list[Answer] = []

    def so_far(*, is_whole: bool = False) -> Diagnosis:
        return replace(
            begun,
            answers=_corrected(answers),
            notes=(*begun.notes, *_damage(subject)),
            seconds=perf_counter() - started,
            is_whole=is_whole,
        )

    probes = registered_probes() if inquiry.probes is None else inquiry.probes
    for probe in probes:
        answers.append(ask(probe, subject, material, inquiry.options, progress))
        if keep is not None:
            keep(so_far())
    has_maps = inquiry.has_maps
    maps, notes = map_words(subject, material, progress=progress) if has_maps else ((), ())
    found = so_far(is_whole=True)
    found = replace(found, maps=maps, notes=(*found.notes, *notes))
    if keep is not None:
        keep(found)
    return found


def ask(
    probe: Probe, subject: Subject, material: Material, options: Options, progress: Progress
) -> Answer:
    """One question to all models."""
    started = perf_counter()
    finding = _put(probe, subject, material, options, progress)
    is_asked = not finding.skipped
    twin, other = (
        _put(probe, one, material, options, progress) if one is not None and is_asked else None
        for one in (subject.twin, subject.other)
    )
    said, verdict = _said(probe, finding)
    assert said is not None
    other, other_verdict = _said(probe, other)
    return Answer(
        probe=probe.name,
        question=probe.question,
        about=probe.about,
        finding=said,
        verdict=verdict,
        twin=twin,
        other=other,
        other_verdict=other_verdict,
        differences=differences(
            finding, other, names=(subject.name, subject.other.name), options=options
        )
        if other is not None and subject.other is not None
        else (),
        seconds=perf_counter() - started,
    )


def registered_probes(chosen: Sequence[str] | None = None) -> tuple[Probe, ...]:
    """Those named, or all in the order of a reader; plug-ins follow ours."""
    known = names("probe")
    if chosen is None:
        chosen = [name for name in ORDER if name in known]
        chosen += [name for name in known if name not in ORDER]
    found = []
    for name in dict.fromkeys(chosen):
        probe = find("probe", name)
        if not isinstance(probe, Probe):
            raise UserError(
                f"the probe {name!r} is a {type(probe).__name__}",
                expected="a value of unbag.probes.probe.Probe",
            )
        found.append(probe)
    return tuple(found)


def _subject(inquiry: Inquiry, progress: Progress) -> Subject:
    made = [
        make_subject(
            model, scorer=scorer, cache=inquiry.cache, batch=inquiry.batch, progress=progress
        )
        for model, scorer in ((inquiry.model, inquiry.scorer), (inquiry.against, None))
        if model is not None
    ]
    subject = made[0]
    if inquiry.has_twin:
        subject = with_twin(subject, seed=inquiry.options.seed, progress=progress)
    if len(made) == 1:
        return subject
    if made[0].name == made[1].name:
        raise UserError(
            f"both models are called {made[0].name!r}",
            expected="two names, to tell them apart in the tables",
            way_out="set a model against another one, or rename a file",
        )
    return replace(subject, other=_beside(made[1], subject, inquiry, progress))


def _beside(other: Subject, subject: Subject, inquiry: Inquiry, progress: Progress) -> Subject:
    """With a twin too, so that both are judged alike; one of the same build is the same twin."""
    if not inquiry.has_twin:
        return other
    other = with_twin(other, seed=inquiry.options.seed, progress=progress)
    twins = [one.twin.scorer.fingerprint for one in (other, subject) if one.twin is not None]
    return replace(other, twin=subject.twin) if len(twins) == 2 and len(set(twins)) == 1 else other


def _begun(inquiry: Inquiry, subject: Subject, material: Material) -> Diagnosis:
    """Before the first question."""
    return Diagnosis(
        model=_examined(subject),
        material=material.about,
        options=inquiry.options,
        twin=_examined(subject.twin) if subject.twin else None,
        other=_examined(subject.other) if subject.other else None,
        notes=(*material.notes, *_read_out(subject)),
        versions=versions(),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        command=inquiry.command,
        device=getattr(inquiry.model, "device", ""),
        is_whole=False,
    )


def _read_out(subject: Subject) -> tuple[str, ...]:
    """What a read-out changes, and what it cannot."""
    if not subject.has_readout or subject.space is None:
        return ()
    twin = "; random weights are scored by cosine" if subject.twin is not None else ""
    return (
        f"{subject.name} scores only the probe profile; all other probes look at vectors of "
        f"{subject.space.name}, which a read-out leaves as they are{twin}",
    )


def _put(
    probe: Probe, subject: Subject, material: Material, options: Options, progress: Progress
) -> Finding:
    try:
        return probe.ask(subject, material, options, progress)
    except UserError as error:
        return Finding(probe.name, skipped=str(error))
    except Exception as error:
        # A fault of one probe, such as a plug-in's, must not cost what the others found.
        return Finding(probe.name, skipped=broken(error))


def _said(probe: Probe, finding: Finding | None) -> tuple[Finding | None, Verdict | None]:
    """What was measured stays in the finding, even if no sentence can be made of it."""
    if finding is None or finding.skipped:
        return finding, None
    try:
        return finding, probe.say(finding)
    except Exception as error:
        return replace(finding, skipped=broken(error)), None


def broken(error: Exception) -> str:
    """What went wrong and where: the file and line that a plug-in's author needs."""
    place = extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}, line {place.lineno}"
    return f"it broke: {type(error).__name__}: {error} ({where})"


def _corrected(answers: Sequence[Answer]) -> tuple[Answer, ...]:
    """Holm's correction over all differences, since all are read together."""
    corrected = iter(correct([one for answer in answers for one in answer.differences]))
    return tuple(
        replace(answer, differences=tuple(next(corrected) for _ in answer.differences))
        for answer in answers
    )


def _damage(subject: Subject) -> tuple[str, ...]:
    """Pictures of either model; the twin sees the same."""
    spaces = [one.space for one in (subject, subject.other) if one is not None]
    damaged = {name: why for s in spaces if s is not None for name, why in s.damaged.items()}
    return tuple(f"picture {name} cannot be used: {why}" for name, why in sorted(damaged.items()))


def _examined(subject: Subject) -> Examined:
    return Examined(subject.name, subject.scorer.fingerprint)
