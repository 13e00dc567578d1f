"""A diagnosis as one HTML page that needs no network and runs no script, and the files of both."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from io import BytesIO
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.probes.base import (
    Bars,
    Grid,
    Lines,
    Maps,
    Plot,
    ProbeResult,
    Quantity,
    Scatter,
    Verdict,
    WordMap,
)
from unbag.probes.diagnosis import charts
from unbag.probes.diagnosis.diagnose import Answer, Diagnosis
from unbag.probes.diagnosis.text import (
    MEANING,
    TONES,
    counted,
    difference_of,
    first_line,
    gap_sentence,
    standing,
    to_json,
)
from unbag.reports.charts import Axis, key, mark
from unbag.reports.formatting import DASH, change_text, estimate_text, number_text
from unbag.reports.layout import Column
from unbag.reports.page import environment
from unbag.runs.files import RunFolder, open_run_folder, write_text
from unbag.runs.identity import RunIdentity
from unbag.types import Estimate
from unbag.version import __version__

if TYPE_CHECKING:
    from markupsafe import Markup


JSON, PAGE = "diagnosis.json", "diagnosis.html"
DIAGNOSIS = "diagnosis"
"""The kind of a folder of both."""
NEAR = (255, 120, 0)
"""Colour of patches that are near to a word; it is seen on dark and on light images."""
AGAINST = (0, 130, 255)
"""Of those that speak against it, where numbers have a sign."""
STRONGEST = 190
"""How much of it, of 255, where the word is nearest."""


def open_diagnosis(folder: Path) -> AbstractContextManager[RunFolder]:
    """The folder of a diagnosis; the same one that is there already will be replaced."""
    return open_run_folder(folder, DIAGNOSIS, resumes="what is in the cache is not encoded again")


def write_diagnosis(found: Diagnosis, run: RunFolder) -> Path:
    """Write both files, each at once; gives the page."""
    run.begin(_identity(found), {"command": found.command})
    write_text(run.path / JSON, to_json(found))
    write_text(run.path / PAGE, render_diagnosis(found))
    if found.is_whole:
        run.set_state("done")
    return run.path / PAGE


def check_same_diagnosis(found: Diagnosis, run: RunFolder) -> None:
    """Raise UnbagError if the folder holds a diagnosis of something else."""
    run.earlier(_identity(found))


def _identity(found: Diagnosis) -> RunIdentity:
    return RunIdentity(
        model=found.model, against=found.other, material=found.material, options=found.options
    )


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
            # Of the second model, over the same questions.
            other_counts=counted(
                [replace(one, verdict=one.other_verdict) for one in found.answered]
            ),
            skipped=[(one.question, first_line(one.finding.skipped)) for one in found.skipped],
            maps=plot_views(sides),
            map_meanings=list(dict.fromkeys((one.title, one.about) for one in found.maps)),
            columns=_columns(found),
            tones=TONES,
            meaning=MEANING,
            standing=standing(found),
        )
    )


@dataclass(frozen=True)
class AnswerView:
    """All that a page shows of a question."""

    anchor: str
    answer: Answer
    said: tuple[VerdictView, ...]
    lanes: tuple[Lane, ...]
    labels: Markup
    headline: Quantity | None
    gap: str
    plots: tuple[PlotView, ...]
    rows: tuple[RowView, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class VerdictView:
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


def _view(found: Diagnosis, answer: Answer) -> AnswerView:
    from markupsafe import Markup

    assert answer.verdict is not None
    said = [VerdictView(found.model.name, answer.verdict)]
    sides = [(found.model.name, answer.finding.plots)]
    if answer.other is not None and found.other is not None:
        sides.append((found.other.name, answer.other.plots))
    if answer.other_verdict is not None and found.other is not None:
        said.append(VerdictView(found.other.name, answer.other_verdict))
    headline = answer.headline
    measured = _measured(found, answer, answer.finding.headline)
    made = difference_of(answer, answer.finding.headline)
    labels = ""
    if headline is not None:
        # Built by `charts`, which escapes.
        labels = charts.labels(headline, charts.axis_of([one for _, one in measured]))
    return AnswerView(
        anchor=f"probe-{answer.probe.replace(':', '-')}",
        answer=answer,
        said=tuple(said),
        lanes=_lanes(measured, headline),
        labels=Markup(labels),  # noqa: S704
        headline=headline,
        gap=gap_sentence(answer, made) if made is not None and headline is not None else "",
        plots=plot_views(sides),
        rows=tuple(_row(found, answer, one) for one in answer.finding.quantities),
        notes=tuple(_notes(found, answer)),
    )


def _measured(found: Diagnosis, answer: Answer, name: str) -> list[tuple[Column, Quantity]]:
    """One quantity of the model, the one it is set against, and the random-init model."""
    findings = [answer.finding, answer.other, answer.random_init]
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
    axis = charts.axis_of([one for _, one in measured])
    return tuple(
        Lane(
            column.label,
            estimate_text(one.estimate, with_unit=True),
            Markup(key(mark(column))),  # noqa: S704 - no text in it
            Markup(  # noqa: S704 - built by `charts`, which escapes
                charts.strip(one.estimate, column, axis, headline.known, name=headline.name)
            ),
        )
        for column, one in measured
    )


def _columns(found: Diagnosis) -> tuple[str, ...]:
    """Heads of the full table."""
    names = [found.model.name, *([found.other.name, "difference"] if found.other else [])]
    names += ["random weights"] if found.random_init else []
    return (*names, "bag of words", "perfect", "chance", "n")


def _row(found: Diagnosis, answer: Answer, one: Quantity) -> RowView:
    def of(finding: ProbeResult | None) -> str:
        quantity = finding.get(one.name) if finding is not None else None
        return DASH if quantity is None else estimate_text(quantity.estimate, with_unit=True)

    made = difference_of(answer, one.name)
    gap = DASH if made is None else change_text(made, is_rate=one.estimate.is_rate)
    texts = [of(answer.finding), *([of(answer.other), gap] if found.other else [])]
    texts += [of(answer.random_init)] if found.random_init else []
    known = (one.known.bag, one.known.perfect, one.known.chance)
    texts += [DASH if value is None else one.estimate.show(value) for value in known]
    invalid = f", {one.estimate.invalid:,} invalid" if one.estimate.invalid else ""
    arrow = {"higher": "↑", "lower": "↓"}.get(one.better, "")
    about = f"{one.about}; {one.estimate.interval}"
    return RowView(one.name, about, arrow, (*texts, f"{one.estimate.n:,}{invalid}"))


def _notes(found: Diagnosis, answer: Answer) -> list[str]:
    notes = list(answer.finding.notes)
    reasons = {one.skipped for one in (answer.other, answer.random_init) if one is not None}
    # A question about both models at once can be put to neither of the others.
    is_shared = len(reasons) == 1 and answer.other is not None and answer.random_init is not None
    for finding, name in (
        (answer.other, found.other.name if found.other else ""),
        (answer.random_init, "random weights"),
    ):
        if finding is not None and finding.skipped and not is_shared:
            notes.append(f"{name}: not asked; {first_line(finding.skipped)}")
    if answer.other is not None and found.other is not None:
        known = set(notes)
        notes += [f"{found.other.name}: {one}" for one in answer.other.notes if one not in known]
    return notes


@dataclass(frozen=True)
class PlotView:
    """One plot of all models that have it."""

    kind: str
    title: str
    about: str
    across: str
    up: str
    sides: tuple[SideView, ...]
    legend: tuple[tuple[Markup, str], ...] = ()
    columns: tuple[str, ...] = ()
    caption: str = ""


@dataclass(frozen=True)
class SideView:
    """What one model has; only the part that belongs to the kind of plot is filled."""

    model: str
    body: Markup | None = None
    numbers: Markup | None = None
    bars: tuple[BarView, ...] = ()
    axis: Markup | None = None
    cells: tuple[tuple[str, tuple[CellView, ...]], ...] = ()
    tiles: tuple[TileView, ...] = ()
    image: str = ""
    is_signed: bool = False
    when: str = ""
    asked: str = ""
    anchor: str = ""
    more: str = ""


@dataclass(frozen=True)
class BarView:
    """One bar."""

    name: str
    text: str
    note: str
    drawing: Markup


@dataclass(frozen=True)
class CellView:
    """A share, and how strongly its cell is coloured."""

    text: str
    share: str


@dataclass(frozen=True)
class TileView:
    """A word, and a glow over the patches that are near to it."""

    word: str
    glow: str
    """As a data: address."""
    text: str
    whole: str = ""


def plot_views(sides: Sequence[tuple[str, Sequence[Plot]]], start: int = 0) -> tuple[PlotView, ...]:
    """Plots of the same kind and title stand beside each other, a side a model."""
    found: dict[tuple[type[Plot], str, str], list[tuple[str, Plot]]] = {}
    for model, plots in sides:
        for plot in plots:
            caption = plot.caption if isinstance(plot, Maps) else ""
            title = "" if isinstance(plot, Maps) else plot.title
            found.setdefault((type(plot), title, caption), []).append((model, plot))
    return tuple(_plot_view(some, f"map-{start + at}") for at, some in enumerate(found.values()))


def _plot_view(some: Sequence[tuple[str, Plot]], anchor: str) -> PlotView:
    first = some[0][1]
    if isinstance(first, Scatter):
        every = [plot for _, plot in some if isinstance(plot, Scatter)]
        drawings = [charts.scatter(plot, every) for plot in every]
        return _drawing_view(first, some, drawings)
    if isinstance(first, Lines):
        alike = [plot for _, plot in some if isinstance(plot, Lines)]
        return _drawing_view(first, some, [charts.lines(plot, alike) for plot in alike])
    if isinstance(first, Bars):
        return _bars_view(first, [(name, plot) for name, plot in some if isinstance(plot, Bars)])
    if isinstance(first, Grid):
        return _grid_view(first, [(name, plot) for name, plot in some if isinstance(plot, Grid)])
    maps = [(name, plot) for name, plot in some if isinstance(plot, Maps)]
    return _maps_view(maps, anchor)


def _drawing_view(
    first: Scatter | Lines,
    some: Sequence[tuple[str, Plot]],
    drawings: Sequence[charts.Drawing],
) -> PlotView:
    from markupsafe import Markup

    # Built by `charts`, which escapes.
    sides = tuple(
        SideView(name, Markup(one.body), Markup(one.numbers), more=one.more)  # noqa: S704
        for (name, _), one in zip(some, drawings, strict=True)
    )
    keys = dict.fromkeys(pair for one in drawings for pair in one.legend)
    legend = tuple((Markup(key), name) for key, name in keys)  # noqa: S704
    return PlotView("plot", first.title, first.about, first.x, first.y, sides, legend)


def _bars_view(first: Bars, some: Sequence[tuple[str, Bars]]) -> PlotView:
    from markupsafe import Markup

    every = [bar for _, plot in some for bar in plot.bars]
    values = [v for bar in every for v in (bar.value, bar.low, bar.high, bar.chance or 0.0, 0.0)]
    axis = Axis.of_rates(values) if first.is_rate else Axis.over(values)
    sides = []
    for place, (name, plot) in enumerate(some):
        bars = tuple(
            BarView(
                bar.name,
                estimate_text(
                    Estimate(bar.value, bar.low, bar.high, 0, is_rate=plot.is_rate), with_unit=True
                ),
                bar.note,
                Markup(  # noqa: S704 - built by `charts`, which escapes
                    charts.bar(
                        axis,
                        value=bar.value,
                        low=bar.low,
                        high=bar.high,
                        chance=bar.chance,
                        column=charts.column_of(place),
                    )
                ),
            )
            for bar in plot.bars
        )
        sides.append(SideView(name, bars=bars, axis=Markup(charts.axis_ticks(axis))))  # noqa: S704
    return PlotView("bars", first.title, first.about, "", "", tuple(sides))


def _grid_view(first: Grid, some: Sequence[tuple[str, Grid]]) -> PlotView:
    sides = tuple(
        SideView(
            name,
            cells=tuple(
                (row, tuple(_cell(value) for value in values))
                for row, values in zip(plot.rows, plot.values, strict=True)
            ),
        )
        for name, plot in some
    )
    names = (first.column_name, first.row_name)
    return PlotView("grid", first.title, first.about, *names, sides, columns=first.columns)


def _cell(value: float) -> CellView:
    if not isfinite(value):
        return CellView(DASH, "0")
    return CellView(number_text(value, digits=0), f"{min(max(value, 0.0), 1.0):.3f}")


def _maps_view(some: Sequence[tuple[str, Maps]], anchor: str) -> PlotView:
    sides = []
    for at, (name, plot) in enumerate(some):
        # One width of scale for all words, so that a word that is nowhere looks flat.
        wide = max((_high(one) - _start(one, plot) for one in plot.maps), default=0.0)
        if plot.is_signed:
            wide = max([wide, *(-_low(one) for one in plot.maps)])
        tiles = tuple(
            TileView(one.word, _glow(one, _start(one, plot), wide), _range(one, wide), one.whole)
            for one in plot.maps
        )
        sides.append(
            SideView(
                name,
                tiles=tiles,
                image=plot.image,
                is_signed=plot.is_signed,
                when=plot.when,
                asked=plot.asked,
                anchor=f"{anchor}-{at}",
            )
        )
    first = some[0][1]
    return PlotView("maps", "", first.about, "", "", tuple(sides), caption=first.caption)


def _range(one: WordMap, wide: float) -> str:
    """Shares of many patches, and what one patch does to a cosine, are small numbers."""
    digits = 2 if wide >= 0.2 else 3 if wide >= 0.01 else 4
    low, high = (
        number_text(value, is_rate=False, digits=digits) for value in (_low(one), _high(one))
    )
    return f"{low} to {high}"


def _start(one: WordMap, plot: Maps) -> float:
    """The number that is not coloured."""
    return 0.0 if plot.is_signed else _low(one)


def _low(one: WordMap) -> float:
    return min(map(min, one.values))


def _high(one: WordMap) -> float:
    return max(map(max, one.values))


def _glow(one: WordMap, start: float, wide: float) -> str:
    """A tiny image, a pixel a patch: the nearer the word, the stronger."""
    from PIL import Image

    image = Image.new("RGBA", (len(one.values[0]), len(one.values)))
    for y, row in enumerate(one.values):
        for x, value in enumerate(row):
            strength = (value - start) / wide if wide > 0 else 0.0
            colour = NEAR if strength >= 0 else AGAINST
            image.putpixel((x, y), (*colour, round(STRONGEST * abs(strength))))
    buffer = BytesIO()
    image.save(buffer, format="PNG")
    return "data:image/png;base64," + b64encode(buffer.getvalue()).decode()
