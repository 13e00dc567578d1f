"""Put every probe to a model: `ub.diagnose(model).print()`.

A question that cannot be put, or fails, stops no other; what was answered is handed on at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from traceback import extract_tb

from unbag.errors import UnbagError
from unbag.evaluation.run import versions
from unbag.metrics.compare import compare, correct
from unbag.metrics.intervals import percentile
from unbag.models.loading import Model
from unbag.models.weights import random_init
from unbag.probes.base import (
    Maps,
    Options,
    Probe,
    ProbeData,
    ProbedModel,
    ProbeResult,
    Quantity,
    Verdict,
)
from unbag.probes.data import world_probe_data
from unbag.probes.maps import map_words
from unbag.probes.space import EncoderSpace
from unbag.registry import find, names
from unbag.runs.progress import Progress, Silent
from unbag.scorers.cosine import Cosine
from unbag.scorers.resolve import make_scorer
from unbag.types import Comparison, DualEncoder, EvalProtocol, Scorer

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
class Diagnosis:
    """A whole diagnosis."""

    model: Examined
    material: str
    options: Options
    answers: tuple[Answer, ...] = ()
    random_init: Examined | None = None
    other: Examined | None = None
    maps: tuple[Maps, ...] = ()
    """Words over patches, of the model, of its read-out, and of the other."""
    notes: tuple[str, ...] = ()
    """What was left out of the material, images that could not be opened ..."""
    seconds: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)
    started: str = ""
    """ISO 8601, UTC."""
    command: str = ""
    device: str = ""
    is_whole: bool = True
    """False if it was stopped before the last question."""

    @property
    def answered(self) -> tuple[Answer, ...]:
        """The questions that could be put."""
        return tuple(answer for answer in self.answers if answer.verdict is not None)

    @property
    def skipped(self) -> tuple[Answer, ...]:
        """The others; `finding.skipped` says why."""
        return tuple(answer for answer in self.answers if answer.verdict is None)

    def print(self) -> None:
        """The questions with their sentences, as a table on the terminal."""
        from unbag.probes.diagnosis.text import print_diagnosis

        print_diagnosis(self)

    def write(self, folder: str | Path) -> Path:
        """Write `diagnosis.json` and `diagnosis.html` into a folder; gives the page."""
        from unbag.probes.diagnosis.page import open_diagnosis, write_diagnosis

        with open_diagnosis(Path(folder)) as run:
            return write_diagnosis(self, run)


@dataclass(frozen=True, eq=False)
class Answer:
    """One question, and what was found for each model."""

    probe: str
    question: str
    about: str
    finding: ProbeResult
    verdict: Verdict | None
    """None if the question could not be put; `finding.skipped` says why."""
    random_init: ProbeResult | None = None
    """Of the same model with random weights."""
    other: ProbeResult | None = None
    """Of the model it is set against."""
    other_verdict: Verdict | None = None
    differences: tuple[Comparison, ...] = ()
    """The model minus the other, a quantity each where it can be paired."""
    seconds: float = 0.0

    @property
    def headline(self) -> Quantity | None:
        """The quantity that the sentence is about."""
        return self.finding.get(self.finding.headline)


@dataclass(frozen=True)
class Examined:
    """A model by name."""

    name: str
    fingerprint: str


@dataclass(frozen=True, eq=False)
class DiagnosisConfig:
    """What is asked of whom."""

    model: Model
    against: Model | None = None
    scorer: Scorer | None = None
    """Scores in place of the model's own, such as a read-out."""
    material: ProbeData | None = None
    """None is the world."""
    probes: tuple[Probe, ...] | None = None
    """None is all that are registered."""
    options: Options = field(default_factory=Options)
    has_random_init: bool = True
    """Put every question to the same model with random weights as well."""
    has_maps: bool = True
    """Draw maps of words over a few images, for which a chat model runs dozens of times."""
    cache: Path | None = None
    batch_size: int = 256
    command: str = ""
    """As it was typed, for the record."""


def examine(
    config: DiagnosisConfig,
    *,
    progress: Progress | None = None,
    keep: Callable[[Diagnosis], None] | None = None,
) -> Diagnosis:
    """Put all questions, one after the other; `keep` is given what there is before and after."""
    progress, started = progress or Silent(), perf_counter()
    subject = _make_subjects(config, progress)
    material = config.material or world_probe_data()
    begun = _unanswered(config, subject, material)
    answers: list[Answer] = []

    def so_far(*, is_whole: bool = False) -> Diagnosis:
        return replace(
            begun,
            answers=_corrected(answers),
            notes=(*begun.notes, *_damage(subject)),
            seconds=perf_counter() - started,
            is_whole=is_whole,
        )

    if keep is not None:
        keep(begun)
    probes = registered_probes() if config.probes is None else config.probes
    for probe in probes:
        answers.append(ask(probe, subject, material, config.options, progress))
        if keep is not None:
            keep(so_far())
    has_maps = config.has_maps
    maps, notes = map_words(subject, material, progress=progress) if has_maps else ((), ())
    found = so_far(is_whole=True)
    found = replace(found, maps=maps, notes=(*found.notes, *notes))
    if keep is not None:
        keep(found)
    return found


def ask(
    probe: Probe, subject: ProbedModel, material: ProbeData, options: Options, progress: Progress
) -> Answer:
    """One question to all models."""
    started = perf_counter()
    finding = _put(probe, subject, material, options, progress)
    is_asked = not finding.skipped
    random_model, other = (
        _put(probe, one, material, options, progress) if one is not None and is_asked else None
        for one in (subject.random_init, subject.other)
    )
    said, verdict = _verdict(probe, finding)
    assert said is not None
    other, other_verdict = _verdict(probe, other)
    return Answer(
        probe=probe.name,
        question=probe.question,
        about=probe.about,
        finding=said,
        verdict=verdict,
        random_init=random_model,
        other=other,
        other_verdict=other_verdict,
        differences=differences(
            finding, other, names=(subject.name, subject.other.name), options=options
        )
        if other is not None and subject.other is not None
        else (),
        seconds=perf_counter() - started,
    )


def _put(
    probe: Probe, subject: ProbedModel, material: ProbeData, options: Options, progress: Progress
) -> ProbeResult:
    try:
        return probe.ask(subject, material, options, progress)
    except UnbagError as error:
        return ProbeResult(probe.name, skipped=str(error))
    except Exception as error:
        # A fault of one probe, such as a plug-in's, must not cost what the others found.
        return ProbeResult(probe.name, skipped=broken(error))


def _verdict(
    probe: Probe, finding: ProbeResult | None
) -> tuple[ProbeResult | None, Verdict | None]:
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
            raise UnbagError(
                f"the probe {name!r} is a {type(probe).__name__}",
                expected="a value of unbag.probes.base.Probe",
            )
        found.append(probe)
    return tuple(found)


def _make_subjects(config: DiagnosisConfig, progress: Progress) -> ProbedModel:
    made = [
        make_subject(
            model,
            scorer=scorer,
            cache=config.cache,
            batch_size=config.batch_size,
            progress=progress,
        )
        for model, scorer in ((config.model, config.scorer), (config.against, None))
        if model is not None
    ]
    subject = made[0]
    if config.has_random_init:
        subject = with_random_init(subject, seed=config.options.seed, progress=progress)
    if len(made) == 1:
        return subject
    if made[0].name == made[1].name:
        raise UnbagError(
            f"both models are called {made[0].name!r}",
            expected="two names, to tell them apart in the tables",
            hint="set a model against another one, or rename a file",
        )
    other = made[1]
    if config.has_random_init:
        # So that both are judged alike; one of the same build has the same random weights.
        other = with_random_init(other, seed=config.options.seed, progress=progress)
        twins = [
            one.random_init.scorer.fingerprint
            for one in (other, subject)
            if one.random_init is not None
        ]
        if len(twins) == 2 and len(set(twins)) == 1:
            other = replace(other, random_init=subject.random_init)
    return replace(subject, other=other)


def make_subject(
    model: Model,
    *,
    scorer: Scorer | None = None,
    cache: Path | None = None,
    batch_size: int = 256,
    progress: Progress | None = None,
) -> ProbedModel:
    """Vectors for a dual encoder, and one with a matching head too; none for a chat model.

    `scorer` scores in place of the model's own; a cosine brings the vectors that it compares.
    """
    progress = progress or Silent()
    encoder = model if isinstance(model, DualEncoder) else getattr(model, "encoder", None)
    if isinstance(scorer, Cosine):
        encoder = scorer.encoder
    space = None
    if isinstance(encoder, DualEncoder):
        space = EncoderSpace(encoder, cache=cache, batch_size=batch_size, progress=progress)
    if scorer is None:
        return ProbedModel(model.name, model, space, make_scorer(model))
    has_readout = not isinstance(scorer, Cosine)
    return ProbedModel(scorer.name, model, space, scorer, has_readout=has_readout)


def with_random_init(
    subject: ProbedModel, *, seed: int, progress: Progress | None = None
) -> ProbedModel:
    """With the same model at random weights beside it, where one can be made.

    Its vectors are of no use to any other run, so they are not cached.
    """
    if not isinstance(subject.model, DualEncoder):
        return subject
    random_model = random_init(subject.model, seed=seed)
    if random_model is None:
        return subject
    return replace(subject, random_init=make_subject(random_model, progress=progress))


def _unanswered(config: DiagnosisConfig, subject: ProbedModel, material: ProbeData) -> Diagnosis:
    """Before the first question."""
    return Diagnosis(
        model=_examined(subject),
        material=material.about,
        options=config.options,
        random_init=_examined(subject.random_init) if subject.random_init else None,
        other=_examined(subject.other) if subject.other else None,
        notes=(*material.notes, *_read_out(subject)),
        versions=versions(),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        command=config.command,
        device=getattr(config.model, "device", ""),
        is_whole=False,
    )


def _examined(subject: ProbedModel) -> Examined:
    return Examined(subject.name, subject.scorer.fingerprint)


def _read_out(subject: ProbedModel) -> tuple[str, ...]:
    """What a read-out changes, and what it cannot."""
    if not subject.has_readout or subject.space is None:
        return ()
    random_model = (
        "; random weights are scored by cosine" if subject.random_init is not None else ""
    )
    return (
        f"{subject.name} scores only the probe profile; all other probes look at vectors of "
        f"{subject.space.name}, which a read-out leaves as they are{random_model}",
    )


def _corrected(answers: Sequence[Answer]) -> tuple[Answer, ...]:
    """Holm's correction over all differences, since all are read together."""
    corrected = iter(correct([one for answer in answers for one in answer.differences]))
    return tuple(
        replace(answer, differences=tuple(next(corrected) for _ in answer.differences))
        for answer in answers
    )


def _damage(subject: ProbedModel) -> tuple[str, ...]:
    """Images of either model; the random-init model sees the same."""
    spaces = [one.space for one in (subject, subject.other) if one is not None]
    damaged = {name: why for s in spaces if s is not None for name, why in s.damaged.items()}
    return tuple(f"image {name} cannot be used: {why}" for name, why in sorted(damaged.items()))


def differences(
    finding: ProbeResult, other: ProbeResult, *, names: tuple[str, str], options: Options
) -> tuple[Comparison, ...]:
    """The first minus the second, for quantities that both have and that can be paired."""
    found = []
    for mine in finding.quantities:
        theirs = other.get(mine.name)
        made = None if theirs is None else _difference(finding.probe, mine, theirs, names, options)
        if made is not None:
            found.append(made)
    return tuple(found)


def _difference(
    probe: str, mine: Quantity, theirs: Quantity, names: tuple[str, str], options: Options
) -> Comparison | None:
    if mine.outcomes is not None and theirs.outcomes is not None:
        protocol = EvalProtocol(confidence=options.confidence, resamples=options.resamples)
        try:
            # `compare` gives the second minus the first.
            return compare(
                theirs.outcomes,
                mine.outcomes,
                names=(names[1], names[0]),
                benchmark=probe,
                protocol=protocol,
                seed=options.seed,
            )
        except UnbagError:
            # No unit is valid for both; there is nothing to pair.
            return None
    return _by_draws(probe, mine, theirs, names, options)


def _by_draws(
    probe: str, mine: Quantity, theirs: Quantity, names: tuple[str, str], options: Options
) -> Comparison | None:
    """Resamples are drawn alike for every model, so their difference is that of one resample.

    Where one model has fewer units, places mean other units: then there is nothing to pair.
    """
    if mine.draw_R is None or theirs.draw_R is None or len(mine.draw_R) != len(theirs.draw_R):
        return None
    if mine.estimate.n != theirs.estimate.n:
        return None
    low, high, _ = percentile(mine.draw_R - theirs.draw_R, options.confidence, "paired bootstrap")
    return Comparison(
        benchmark=probe,
        metric=mine.name,
        first=names[1],
        second=names[0],
        difference=mine.estimate.value - theirs.estimate.value,
        low=low,
        high=high,
        n=mine.estimate.n,
        p_value=None,
        p_holm=None,
        test="",
        aggregate="micro",
    )
