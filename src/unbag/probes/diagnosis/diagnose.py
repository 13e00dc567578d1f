"""Run every probe on a model: `ub.diagnose(model).print()`.

A probe that does not apply, or fails, does not stop the others; answers are saved as they come.
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
from unbag.types import Comparison, DualEncoder, EvalProtocol, Generator, Scorer

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
"""Order of the probes on the page; probes of plug-ins follow."""


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
    """Maps of words over patches, for the model, its read-out and the other model."""
    notes: tuple[str, ...] = ()
    """Data that is left out, images that could not be opened ..."""
    seconds: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)
    started: str = ""
    """ISO 8601, UTC."""
    command: str = ""
    device: str = ""
    is_whole: bool = True
    """False if it was stopped before the last probe."""

    @property
    def answered(self) -> tuple[Answer, ...]:
        """The answers of probes that applied."""
        return tuple(answer for answer in self.answers if answer.verdict is not None)

    @property
    def skipped(self) -> tuple[Answer, ...]:
        """The answers of skipped probes; `finding.skipped` says why."""
        return tuple(answer for answer in self.answers if answer.verdict is None)

    def print(self) -> None:
        """Print the questions and verdicts as a table."""
        from unbag.probes.diagnosis.text import print_diagnosis

        print_diagnosis(self)

    def write(self, folder: str | Path) -> Path:
        """Write `diagnosis.json` and `diagnosis.html` into a folder; return the page's path."""
        from unbag.probes.diagnosis.page import open_diagnosis, write_diagnosis

        with open_diagnosis(Path(folder)) as run:
            return write_diagnosis(self, run)


@dataclass(frozen=True, eq=False)
class Answer:
    """One question with the results of each model."""

    probe: str
    question: str
    about: str
    finding: ProbeResult
    verdict: Verdict | None
    """None if the probe was skipped; `finding.skipped` says why."""
    random_init: ProbeResult | None = None
    """Result of the randomly initialized model."""
    other: ProbeResult | None = None
    """Result of the model it is compared with."""
    other_verdict: Verdict | None = None
    differences: tuple[Comparison, ...] = ()
    """The model minus the other model, for each quantity that can be paired."""
    seconds: float = 0.0

    @property
    def headline(self) -> Quantity | None:
        """The quantity that the verdict is about."""
        return self.finding.get(self.finding.headline)


@dataclass(frozen=True)
class Examined:
    """Name and identity of a model."""

    name: str
    fingerprint: str


@dataclass(frozen=True, eq=False)
class DiagnosisConfig:
    """The models, data and settings of a diagnosis."""

    model: Model
    against: Model | None = None
    scorer: Scorer | None = None
    """A scorer in place of the model's own, such as a read-out."""
    material: ProbeData | None = None
    """None for the world."""
    probes: tuple[Probe, ...] | None = None
    """None for all registered probes."""
    options: Options = field(default_factory=Options)
    has_random_init: bool = True
    """Also measure the same model, randomly initialized."""
    has_maps: bool = True
    """Draw maps of words over a few images; a chat model runs dozens of times for these."""
    cache: Path | None = None
    batch_size: int = 256
    command: str = ""
    """The command line, for the record."""


def examine(
    config: DiagnosisConfig,
    *,
    progress: Progress | None = None,
    save: Callable[[Diagnosis], None] | None = None,
) -> Diagnosis:
    """Run all probes in turn; `save` gets the unfinished diagnosis after each of them."""
    progress, started = progress or Silent(), perf_counter()
    subject = _probed_models(config, progress)
    data = config.material or world_probe_data()
    unanswered = _unanswered(config, subject, data)
    answers: list[Answer] = []

    def so_far(*, is_whole: bool = False) -> Diagnosis:
        return replace(
            unanswered,
            answers=_corrected(answers),
            notes=(*unanswered.notes, *_damage(subject)),
            seconds=perf_counter() - started,
            is_whole=is_whole,
        )

    if save is not None:
        save(unanswered)
    probes = registered_probes() if config.probes is None else config.probes
    for probe in probes:
        answers.append(ask(probe, subject, data, config.options, progress))
        if save is not None:
            save(so_far())
    has_maps = config.has_maps
    maps, notes = map_words(subject, data, progress=progress) if has_maps else ((), ())
    diagnosis = so_far(is_whole=True)
    diagnosis = replace(diagnosis, maps=maps, notes=(*diagnosis.notes, *notes))
    if save is not None:
        save(diagnosis)
    return diagnosis


def ask(
    probe: Probe, subject: ProbedModel, data: ProbeData, options: Options, progress: Progress
) -> Answer:
    """Run one probe on all models."""
    started = perf_counter()
    result = _measure(probe, subject, data, options, progress)
    is_measured = not result.skipped
    random_result, other = (
        _measure(probe, probed, data, options, progress)
        if probed is not None and is_measured
        else None
        for probed in (subject.random_init, subject.other)
    )
    stated, verdict = _verdict(probe, result)
    assert stated is not None
    other, other_verdict = _verdict(probe, other)
    return Answer(
        probe=probe.name,
        question=probe.question,
        about=probe.about,
        finding=stated,
        verdict=verdict,
        random_init=random_result,
        other=other,
        other_verdict=other_verdict,
        differences=differences(
            result, other, names=(subject.name, subject.other.name), options=options
        )
        if other is not None and subject.other is not None
        else (),
        seconds=perf_counter() - started,
    )


def _measure(
    probe: Probe, subject: ProbedModel, data: ProbeData, options: Options, progress: Progress
) -> ProbeResult:
    try:
        result = probe.ask(subject, data, options, progress)
        if not isinstance(result, ProbeResult):
            raise UnbagError(
                f"the probe {probe.name!r} returned {type(result).__name__}",
                expected="a ProbeResult",
                hint="return it at the end of the function that measures",
            )
        return result
    except UnbagError as error:
        return ProbeResult(probe.name, skipped=str(error))
    except Exception as error:
        # An error in one probe, such as a plug-in's, must not lose the results of the others.
        return ProbeResult(probe.name, skipped=error_note(error))


def _verdict(probe: Probe, result: ProbeResult | None) -> tuple[ProbeResult | None, Verdict | None]:
    """Return the result and its verdict; the quantities stay even if `say` fails."""
    if result is None or result.skipped:
        return result, None
    try:
        return result, probe.say(result)
    except Exception as error:
        return replace(result, skipped=error_note(error)), None


def error_note(error: Exception) -> str:
    """Describe an error with its file and line, for the author of a plug-in."""
    place = extract_tb(error.__traceback__)[-1]
    location = f"{Path(place.filename).name}, line {place.lineno}"
    return f"it failed: {type(error).__name__}: {error} ({location})"


def registered_probes(chosen: Sequence[str] | None = None) -> tuple[Probe, ...]:
    """Return the named probes, or all in the order of the page; plug-ins follow ours."""
    known = names("probe")
    if chosen is None:
        chosen = [name for name in ORDER if name in known]
        chosen += [name for name in known if name not in ORDER]
    probes = []
    for name in dict.fromkeys(chosen):
        probe = find("probe", name)
        if not isinstance(probe, Probe):
            raise UnbagError(
                f"the probe {name!r} is a {type(probe).__name__}",
                expected="a value of unbag.probes.base.Probe",
            )
        probes.append(probe)
    return tuple(probes)


def _probed_models(config: DiagnosisConfig, progress: Progress) -> ProbedModel:
    subjects = [
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
    subject = subjects[0]
    if config.has_random_init:
        subject = with_random_init(subject, seed=config.options.seed, progress=progress)
    if len(subjects) == 1:
        return subject
    if subjects[0].name == subjects[1].name:
        raise UnbagError(
            f"both models are called {subjects[0].name!r}",
            expected="two different names, for the tables",
            hint="compare a model with another one, or rename a file",
        )
    other = subjects[1]
    if config.has_random_init:
        # Both models get a random one; the same architecture gives the same random weights.
        other = with_random_init(other, seed=config.options.seed, progress=progress)
        fingerprints = [
            probed.random_init.scorer.fingerprint
            for probed in (other, subject)
            if probed.random_init is not None
        ]
        if len(fingerprints) == 2 and len(set(fingerprints)) == 1:
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
    """Make a probed model, with vectors for a dual encoder, also one with a matching head.

    `scorer` replaces the model's own scorer; a cosine also brings the vectors that it compares.
    """
    progress = progress or Silent()
    encoder: object = model
    if not isinstance(model, DualEncoder | Generator):
        # A matching head; the `encoder` of a decoder is what it reads, not its own vectors.
        encoder = getattr(model, "encoder", None)
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
    """Add the same model, randomly initialized, if it can be built.

    Its vectors are useless for other runs, so they are not cached.
    """
    if not isinstance(subject.model, DualEncoder):
        return subject
    random_model = random_init(subject.model, seed=seed)
    if random_model is None:
        return subject
    return replace(subject, random_init=make_subject(random_model, progress=progress))


def _unanswered(config: DiagnosisConfig, subject: ProbedModel, data: ProbeData) -> Diagnosis:
    """Return the diagnosis before the first probe."""
    return Diagnosis(
        model=_examined(subject),
        material=data.about,
        options=config.options,
        random_init=_examined(subject.random_init) if subject.random_init else None,
        other=_examined(subject.other) if subject.other else None,
        notes=(*data.notes, *_read_out(subject)),
        versions=versions(),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        command=config.command,
        device=getattr(config.model, "device", ""),
        is_whole=False,
    )


def _examined(subject: ProbedModel) -> Examined:
    return Examined(subject.name, subject.scorer.fingerprint)


def _read_out(subject: ProbedModel) -> tuple[str, ...]:
    """Return a note that a read-out affects one probe only."""
    if not subject.has_readout or subject.space is None:
        return ()
    random_model = (
        "; the randomly initialized model is scored by cosine"
        if subject.random_init is not None
        else ""
    )
    return (
        f"{subject.name} scores only the probe profile; all other probes use the vectors of "
        f"{subject.space.name}, which a read-out does not change{random_model}",
    )


def _corrected(answers: Sequence[Answer]) -> tuple[Answer, ...]:
    """Apply Holm's correction over all differences, since they are reported together."""
    corrected = iter(
        correct([comparison for answer in answers for comparison in answer.differences])
    )
    return tuple(
        replace(answer, differences=tuple(next(corrected) for _ in answer.differences))
        for answer in answers
    )


def _damage(subject: ProbedModel) -> tuple[str, ...]:
    """Return notes on images that could not be opened for either model."""
    spaces = [probed.space for probed in (subject, subject.other) if probed is not None]
    damaged = {name: why for s in spaces if s is not None for name, why in s.damaged.items()}
    return tuple(f"image {name} cannot be used: {why}" for name, why in sorted(damaged.items()))


def differences(
    result: ProbeResult, other: ProbeResult, *, names: tuple[str, str], options: Options
) -> tuple[Comparison, ...]:
    """Return the first minus the second, for common quantities that can be paired."""
    comparisons = []
    for quantity in result.quantities:
        other_quantity = other.get(quantity.name)
        comparison = (
            None
            if other_quantity is None
            else _difference(result.probe, quantity, other_quantity, names, options)
        )
        if comparison is not None:
            comparisons.append(comparison)
    return tuple(comparisons)


def _difference(
    probe: str,
    quantity: Quantity,
    other_quantity: Quantity,
    names: tuple[str, str],
    options: Options,
) -> Comparison | None:
    if quantity.outcomes is not None and other_quantity.outcomes is not None:
        protocol = EvalProtocol(confidence=options.confidence, resamples=options.resamples)
        try:
            # `compare` gives the second minus the first.
            return compare(
                other_quantity.outcomes,
                quantity.outcomes,
                names=(names[1], names[0]),
                benchmark=probe,
                protocol=protocol,
                seed=options.seed,
            )
        except UnbagError:
            # No unit is valid for both models.
            return None
    return _by_resamples(probe, quantity, other_quantity, names, options)


def _by_resamples(
    probe: str,
    quantity: Quantity,
    other_quantity: Quantity,
    names: tuple[str, str],
    options: Options,
) -> Comparison | None:
    """Compare by resamples, which are the same for every model, so their differences are paired.

    If one model has fewer units, indices refer to other units, and resamples cannot be paired.
    """
    if (
        quantity.draw_R is None
        or other_quantity.draw_R is None
        or len(quantity.draw_R) != len(other_quantity.draw_R)
    ):
        return None
    if quantity.estimate.n != other_quantity.estimate.n:
        return None
    low, high, _ = percentile(
        quantity.draw_R - other_quantity.draw_R, options.confidence, "paired bootstrap"
    )
    return Comparison(
        benchmark=probe,
        metric=quantity.name,
        first=names[1],
        second=names[0],
        difference=quantity.estimate.value - other_quantity.estimate.value,
        low=low,
        high=high,
        n=quantity.estimate.n,
        p_value=None,
        p_holm=None,
        test="",
        aggregate="micro",
    )
