"""A diagnosis comes in; one HTML page that needs no network and runs no script goes out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from unbag.diagnosis import strips
from unbag.diagnosis.answers import Answer, Diagnosis
from unbag.diagnosis.as_json import difference_of
from unbag.diagnosis.plot_views import PlotView, plot_views
from unbag.diagnosis.wording import (
    MEANING,
    TONES,
    counted,
    estimate_text,
    first_line,
    gap_sentence,
    gap_text,
    known_text,
    standing,
)
from unbag.probes.finding import Finding, Quantity
from unbag.probes.plots import Plot
from unbag.probes.probe import Verdict
from unbag.reports.charts import key
from unbag.reports.environment import environment
from unbag.reports.layout import Column
from unbag.version import __version__

if TYPE_CHECKING:
    from markupsafe import Markup


@dataclass(frozen=True)
class Said:
    """The sentence on one model."""

    model: str
    verdict: Verdict


@dataclass(frozen=True)
class Lane:
    """The headline of one model: a mark, words and a strip."""

    name: str
    text: str
    key: Markup
    strip: Markup


@dataclass(frozen=True)
class RowView:
    """A quantity in the full table; texts in the order of the columns."""

    name: str
    about: str
    arrow: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class AnswerView:
    """All that a page shows of a question."""

    anchor: str
    answer: Answer
    said: tuple[Said, ...]
    lanes: tuple[Lane, ...]
    labels: Markup
    headline: Quantity | None
    gap: str
    plots: tuple[PlotView, ...]
    rows: tuple[RowView, ...]
    notes: tuple[str, ...]


def render_diagnosis(found: Diagnosis) -> str:
    """Nothing in the page is fetched, run or trusted."""
    views = tuple(_view(found, answer) for answer in found.answered)
    names = list(dict.fromkeys(one.title for one in found.maps))
    sides = [(name, [one for one in found.maps if one.title == name]) for name in names]
    return (
        environment()
        .get_template("diagnosis.html")
        .render(
            version=__version__,
            found=found,
            views=views,
            counts=counted(found.answered),
            other_counts=_other_counts(found),
            skipped=[(one.question, first_line(one.finding.skipped)) for one in found.skipped],
            maps=plot_views(sides),
            map_meanings=list(dict.fromkeys((one.title, one.about) for one in found.maps)),
            columns=_columns(found),
            tones=TONES,
            meaning=MEANING,
            standing=standing(found),
        )
    )


def _other_counts(found: Diagnosis) -> str:
    """Of the second model, over the same questions."""
    return counted([replace(one, verdict=one.other_verdict) for one in found.answered])


def _view(found: Diagnosis, answer: Answer) -> AnswerView:
    from markupsafe import Markup

    assert answer.verdict is not None
    said = [Said(found.model.name, answer.verdict)]
    if answer.other_verdict is not None and found.other is not None:
        said.append(Said(found.other.name, answer.other_verdict))
    headline = answer.headline
    measured = _measured(found, answer, answer.finding.headline)
    made = difference_of(answer, answer.finding.headline)
    labels = ""
    if headline is not None:
        # Built by strips, which escapes.
        labels = strips.labels(headline, strips.axis_of([one for _, one in measured]))
    return AnswerView(
        anchor=f"probe-{answer.probe.replace(':', '-')}",
        answer=answer,
        said=tuple(said),
        lanes=_lanes(measured, headline),
        labels=Markup(labels),  # noqa: S704
        headline=headline,
        gap=gap_sentence(answer, made) if made is not None and headline is not None else "",
        plots=plot_views(_plots(found, answer)),
        rows=tuple(_row(found, answer, one) for one in answer.finding.quantities),
        notes=tuple(_notes(found, answer)),
    )


def _plots(found: Diagnosis, answer: Answer) -> list[tuple[str, tuple[Plot, ...]]]:
    sides = [(found.model.name, answer.finding.plots)]
    if answer.other is not None and found.other is not None:
        sides.append((found.other.name, answer.other.plots))
    return sides


def _measured(found: Diagnosis, answer: Answer, name: str) -> list[tuple[Column, Quantity]]:
    """One quantity of the model, the one it is set against, and the twin."""
    findings = [answer.finding, answer.other, answer.twin]
    names = [found.model.name, found.other.name if found.other else "", "random weights"]
    pairs = []
    for place, (finding, label) in enumerate(zip(findings, names, strict=True)):
        quantity = finding.get(name) if finding is not None else None
        if quantity is not None:
            pairs.append((Column(label, label, place == 2, place), quantity))
    return pairs


def _lanes(measured: list[tuple[Column, Quantity]], headline: Quantity | None) -> tuple[Lane, ...]:
    from markupsafe import Markup

    if headline is None:
        return ()
    axis = strips.axis_of([one for _, one in measured])
    return tuple(
        Lane(
            column.label,
            estimate_text(one.estimate),
            Markup(key(column)),  # noqa: S704 - no text in it
            Markup(  # noqa: S704 - built by strips, which escapes
                strips.strip(one.estimate, column, axis, headline.known, name=headline.name)
            ),
        )
        for column, one in measured
    )


def _columns(found: Diagnosis) -> tuple[str, ...]:
    """Heads of the full table."""
    names = [found.model.name, *([found.other.name, "difference"] if found.other else [])]
    names += ["random weights"] if found.twin else []
    return (*names, "bag of words", "perfect", "chance", "n")


def _row(found: Diagnosis, answer: Answer, one: Quantity) -> RowView:
    def of(finding: Finding | None) -> str:
        quantity = finding.get(one.name) if finding is not None else None
        return estimate_text(quantity.estimate) if quantity is not None else "–"

    made = difference_of(answer, one.name)
    gap = gap_text(made, is_rate=one.estimate.is_rate) if made is not None else "–"
    texts = [of(answer.finding), *([of(answer.other), gap] if found.other else [])]
    texts += [of(answer.twin)] if found.twin else []
    texts += [known_text(one, v) for v in (one.known.bag, one.known.perfect, one.known.chance)]
    invalid = f", {one.estimate.invalid:,} invalid" if one.estimate.invalid else ""
    arrow = {"higher": "↑", "lower": "↓"}.get(one.better, "")
    about = f"{one.about}; {one.estimate.interval}"
    return RowView(one.name, about, arrow, (*texts, f"{one.estimate.n:,}{invalid}"))


def _notes(found: Diagnosis, answer: Answer) -> list[str]:
    notes = list(answer.finding.notes)
    reasons = {one.skipped for one in (answer.other, answer.twin) if one is not None}
    # A question about both models at once can be put to neither of the others.
    is_shared = len(reasons) == 1 and answer.other is not None and answer.twin is not None
    for finding, name in (
        (answer.other, found.other.name if found.other else ""),
        (answer.twin, "random weights"),
    ):
        if finding is not None and finding.skipped and not is_shared:
            notes.append(f"{name}: not asked; {first_line(finding.skipped)}")
    if answer.other is not None and found.other is not None:
        known = set(notes)
        notes += [f"{found.other.name}: {one}" for one in answer.other.notes if one not in known]
    return notes
