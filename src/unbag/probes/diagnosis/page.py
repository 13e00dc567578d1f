"""A diagnosis as one HTML page without network access and scripts, and the files of a diagnosis."""

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
"""The kind of a run folder with both files."""
NEAR = (255, 120, 0)
"""Colour of patches similar to a word, visible on dark and on light images."""
AGAINST = (0, 130, 255)
"""Colour of patches that count against a word, where values have a sign."""
STRONGEST = 190
"""Maximum opacity of the colour, of 255."""


def open_diagnosis(folder: Path) -> AbstractContextManager[RunFolder]:
    """Open the folder of a diagnosis; the same diagnosis in it is replaced."""
    return open_run_folder(folder, DIAGNOSIS, resumes="vectors in the cache are not encoded again")


def write_diagnosis(diagnosis: Diagnosis, run: RunFolder) -> Path:
    """Write both files, each atomically; return the path of the page."""
    run.begin(_identity(diagnosis), {"command": diagnosis.command})
    write_text(run.path / JSON, to_json(diagnosis))
    write_text(run.path / PAGE, render_diagnosis(diagnosis))
    if diagnosis.is_whole:
        run.set_state("done")
    return run.path / PAGE


def check_same_diagnosis(diagnosis: Diagnosis, run: RunFolder) -> None:
    """Raise UnbagError if the folder holds a diagnosis of something else."""
    run.earlier(_identity(diagnosis))


def _identity(diagnosis: Diagnosis) -> RunIdentity:
    return RunIdentity(
        model=diagnosis.model,
        against=diagnosis.other,
        material=diagnosis.material,
        options=diagnosis.options,
    )


def render_diagnosis(diagnosis: Diagnosis) -> str:
    """Render the page: it fetches nothing, runs nothing and escapes all text."""
    views = tuple(_view(diagnosis, answer) for answer in diagnosis.answered)
    model_names = list(dict.fromkeys(maps.title for maps in diagnosis.maps))
    sides = [
        (name, [maps for maps in diagnosis.maps if maps.title == name]) for name in model_names
    ]
    return (
        environment()
        .get_template("diagnosis.html")
        .render(
            version=__version__,
            found=diagnosis,
            views=views,
            counts=counted(diagnosis.answered),
            # The verdicts of the second model on the same questions.
            other_counts=counted(
                [replace(maps, verdict=maps.other_verdict) for maps in diagnosis.answered]
            ),
            skipped=[
                (maps.question, first_line(maps.finding.skipped)) for maps in diagnosis.skipped
            ],
            maps=plot_views(sides),
            map_meanings=list(dict.fromkeys((maps.title, maps.about) for maps in diagnosis.maps)),
            columns=_columns(diagnosis),
            tones=TONES,
            meaning=MEANING,
            standing=standing(diagnosis),
        )
    )


@dataclass(frozen=True)
class AnswerView:
    """The section of the page for one question."""

    anchor: str
    answer: Answer
    verdicts: tuple[VerdictView, ...]
    lanes: tuple[Lane, ...]
    labels: Markup
    headline: Quantity | None
    gap: str
    plots: tuple[PlotView, ...]
    rows: tuple[RowView, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class VerdictView:
    """The verdict on one model."""

    model: str
    verdict: Verdict


@dataclass(frozen=True)
class Lane:
    """The headline of one model: a mark, a text and a strip."""

    name: str
    text: str
    key: Markup
    strip: Markup


@dataclass(frozen=True)
class RowView:
    """A row of the full table, with texts in the order of the columns."""

    name: str
    about: str
    arrow: str
    texts: tuple[str, ...]


def _view(diagnosis: Diagnosis, answer: Answer) -> AnswerView:
    from markupsafe import Markup

    assert answer.verdict is not None
    verdicts = [VerdictView(diagnosis.model.name, answer.verdict)]
    sides = [(diagnosis.model.name, answer.finding.plots)]
    if answer.other is not None and diagnosis.other is not None:
        sides.append((diagnosis.other.name, answer.other.plots))
    if answer.other_verdict is not None and diagnosis.other is not None:
        verdicts.append(VerdictView(diagnosis.other.name, answer.other_verdict))
    headline = answer.headline
    quantities = _measured(diagnosis, answer, answer.finding.headline)
    difference = difference_of(answer, answer.finding.headline)
    labels = ""
    if headline is not None:
        # Built by `charts`, which escapes.
        labels = charts.labels(headline, charts.axis_of([quantity for _, quantity in quantities]))
    return AnswerView(
        anchor=f"probe-{answer.probe.replace(':', '-')}",
        answer=answer,
        verdicts=tuple(verdicts),
        lanes=_lanes(quantities, headline),
        labels=Markup(labels),  # noqa: S704
        headline=headline,
        gap=gap_sentence(answer, difference)
        if difference is not None and headline is not None
        else "",
        plots=plot_views(sides),
        rows=tuple(_row(diagnosis, answer, quantity) for quantity in answer.finding.quantities),
        notes=tuple(_notes(diagnosis, answer)),
    )


def _measured(diagnosis: Diagnosis, answer: Answer, name: str) -> list[tuple[Column, Quantity]]:
    """Return one quantity of the model, the other model and the randomly initialized one."""
    results = [answer.finding, answer.other, answer.random_init]
    names = [
        diagnosis.model.name,
        diagnosis.other.name if diagnosis.other else "",
        "random weights",
    ]
    columns = []
    for place, (result, label) in enumerate(zip(results, names, strict=True)):
        quantity = result.get(name) if result is not None else None
        if quantity is not None:
            columns.append((Column(label, label, place == 2, place), quantity))
    return columns


def _lanes(
    quantities: list[tuple[Column, Quantity]], headline: Quantity | None
) -> tuple[Lane, ...]:
    from markupsafe import Markup

    if headline is None:
        return ()
    axis = charts.axis_of([quantity for _, quantity in quantities])
    return tuple(
        Lane(
            column.label,
            estimate_text(quantity.estimate, with_unit=True),
            Markup(key(mark(column))),  # noqa: S704 - no text in it
            Markup(  # noqa: S704 - built by `charts`, which escapes
                charts.strip(quantity.estimate, column, axis, headline.known, name=headline.name)
            ),
        )
        for column, quantity in quantities
    )


def _columns(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Return the headers of the full table."""
    names = [
        diagnosis.model.name,
        *([diagnosis.other.name, "difference"] if diagnosis.other else []),
    ]
    names += ["random weights"] if diagnosis.random_init else []
    return (*names, "bag of words", "perfect", "chance", "n")


def _row(diagnosis: Diagnosis, answer: Answer, quantity: Quantity) -> RowView:
    def cell(result: ProbeResult | None) -> str:
        same = result.get(quantity.name) if result is not None else None
        return DASH if same is None else estimate_text(same.estimate, with_unit=True)

    difference = difference_of(answer, quantity.name)
    difference_text = (
        DASH if difference is None else change_text(difference, is_rate=quantity.estimate.is_rate)
    )
    texts = [
        cell(answer.finding),
        *([cell(answer.other), difference_text] if diagnosis.other else []),
    ]
    texts += [cell(answer.random_init)] if diagnosis.random_init else []
    known = (quantity.known.bag, quantity.known.perfect, quantity.known.chance)
    texts += [DASH if value is None else quantity.estimate.show(value) for value in known]
    invalid = f", {quantity.estimate.invalid:,} invalid" if quantity.estimate.invalid else ""
    arrow = {"higher": "↑", "lower": "↓"}.get(quantity.better, "")
    about = f"{quantity.about}; {quantity.estimate.interval}"
    return RowView(quantity.name, about, arrow, (*texts, f"{quantity.estimate.n:,}{invalid}"))


def _notes(diagnosis: Diagnosis, answer: Answer) -> list[str]:
    notes = list(answer.finding.notes)
    both = (answer.other, answer.random_init)
    reasons = {result.skipped for result in both if result is not None}
    # A probe that compares two models is skipped for both others, with the same reason.
    is_shared = len(reasons) == 1 and answer.other is not None and answer.random_init is not None
    for result, name in (
        (answer.other, diagnosis.other.name if diagnosis.other else ""),
        (answer.random_init, "random weights"),
    ):
        if result is not None and result.skipped and not is_shared:
            notes.append(f"{name}: skipped; {first_line(result.skipped)}")
    if answer.other is not None and diagnosis.other is not None:
        known = set(notes)
        notes += [
            f"{diagnosis.other.name}: {note}" for note in answer.other.notes if note not in known
        ]
    return notes


@dataclass(frozen=True)
class PlotView:
    """One plot, for all models that have it."""

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
    """The part of a plot for one model; only fields of its kind of plot are set."""

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
    """A share and the opacity of its cell."""

    text: str
    share: str


@dataclass(frozen=True)
class TileView:
    """A word and an overlay over the patches."""

    word: str
    glow: str
    """A data: URL."""
    text: str
    whole: str = ""


def plot_views(sides: Sequence[tuple[str, Sequence[Plot]]], start: int = 0) -> tuple[PlotView, ...]:
    """Put plots of the same kind and title side by side, one per model."""
    grouped: dict[tuple[type[Plot], str, str], list[tuple[str, Plot]]] = {}
    for model, plots in sides:
        for plot in plots:
            caption = plot.caption if isinstance(plot, Maps) else ""
            title = "" if isinstance(plot, Maps) else plot.title
            grouped.setdefault((type(plot), title, caption), []).append((model, plot))
    return tuple(
        _plot_view(same_plot, f"map-{start + at}") for at, same_plot in enumerate(grouped.values())
    )


def _plot_view(model_plots: Sequence[tuple[str, Plot]], anchor: str) -> PlotView:
    first = model_plots[0][1]
    if isinstance(first, Scatter):
        scatters = [plot for _, plot in model_plots if isinstance(plot, Scatter)]
        drawings = [charts.scatter(plot, scatters) for plot in scatters]
        return _drawing_view(first, model_plots, drawings)
    if isinstance(first, Lines):
        same_kind = [plot for _, plot in model_plots if isinstance(plot, Lines)]
        return _drawing_view(
            first, model_plots, [charts.lines(plot, same_kind) for plot in same_kind]
        )
    if isinstance(first, Bars):
        return _bars_view(
            first, [(name, plot) for name, plot in model_plots if isinstance(plot, Bars)]
        )
    if isinstance(first, Grid):
        return _grid_view(
            first, [(name, plot) for name, plot in model_plots if isinstance(plot, Grid)]
        )
    maps = [(name, plot) for name, plot in model_plots if isinstance(plot, Maps)]
    return _maps_view(maps, anchor)


def _drawing_view(
    first: Scatter | Lines,
    model_plots: Sequence[tuple[str, Plot]],
    drawings: Sequence[charts.Drawing],
) -> PlotView:
    from markupsafe import Markup

    # Built by `charts`, which escapes.
    sides = tuple(
        SideView(name, Markup(drawing.body), Markup(drawing.numbers), more=drawing.more)  # noqa: S704
        for (name, _), drawing in zip(model_plots, drawings, strict=True)
    )
    keys = dict.fromkeys(pair for drawing in drawings for pair in drawing.legend)
    legend = tuple((Markup(key), name) for key, name in keys)  # noqa: S704
    return PlotView("plot", first.title, first.about, first.x, first.y, sides, legend)


def _bars_view(first: Bars, model_bars: Sequence[tuple[str, Bars]]) -> PlotView:
    from markupsafe import Markup

    all_bars = [bar for _, plot in model_bars for bar in plot.bars]
    values = [v for bar in all_bars for v in (bar.value, bar.low, bar.high, bar.chance or 0.0, 0.0)]
    axis = Axis.of_rates(values) if first.is_rate else Axis.over(values)
    sides = []
    for place, (name, plot) in enumerate(model_bars):
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


def _grid_view(first: Grid, model_grids: Sequence[tuple[str, Grid]]) -> PlotView:
    sides = tuple(
        SideView(
            name,
            cells=tuple(
                (row, tuple(_cell(value) for value in values))
                for row, values in zip(plot.rows, plot.values, strict=True)
            ),
        )
        for name, plot in model_grids
    )
    names = (first.column_name, first.row_name)
    return PlotView("grid", first.title, first.about, *names, sides, columns=first.columns)


def _cell(value: float) -> CellView:
    if not isfinite(value):
        return CellView(DASH, "0")
    return CellView(number_text(value, digits=0), f"{min(max(value, 0.0), 1.0):.3f}")


def _maps_view(model_maps: Sequence[tuple[str, Maps]], anchor: str) -> PlotView:
    sides = []
    for number, (name, plot) in enumerate(model_maps):
        # One scale for all words, so that the map of a word that is nowhere looks flat.
        scale = max(
            (_high(word_map) - _start(word_map, plot) for word_map in plot.maps), default=0.0
        )
        if plot.is_signed:
            scale = max([scale, *(-_low(word_map) for word_map in plot.maps)])
        tiles = tuple(
            TileView(
                word_map.word,
                _glow(word_map, _start(word_map, plot), scale),
                _range(word_map, scale),
                word_map.whole,
            )
            for word_map in plot.maps
        )
        sides.append(
            SideView(
                name,
                tiles=tiles,
                image=plot.image,
                is_signed=plot.is_signed,
                when=plot.when,
                asked=plot.asked,
                anchor=f"{anchor}-{number}",
            )
        )
    first = model_maps[0][1]
    return PlotView("maps", "", first.about, "", "", tuple(sides), caption=first.caption)


def _range(word_map: WordMap, scale: float) -> str:
    """Return the range of a map as text, with more digits for small numbers."""
    digits = 2 if scale >= 0.2 else 3 if scale >= 0.01 else 4
    low, high = (
        number_text(value, is_rate=False, digits=digits)
        for value in (_low(word_map), _high(word_map))
    )
    return f"{low} to {high}"


def _start(word_map: WordMap, plot: Maps) -> float:
    """Return the value without colour."""
    return 0.0 if plot.is_signed else _low(word_map)


def _low(word_map: WordMap) -> float:
    return min(map(min, word_map.values))


def _high(word_map: WordMap) -> float:
    return max(map(max, word_map.values))


def _glow(word_map: WordMap, start: float, scale: float) -> str:
    """Return a tiny image with one pixel per patch: the more similar, the more opaque."""
    from PIL import Image

    image = Image.new("RGBA", (len(word_map.values[0]), len(word_map.values)))
    for y, row in enumerate(word_map.values):
        for x, value in enumerate(row):
            strength = (value - start) / scale if scale > 0 else 0.0
            colour = NEAR if strength >= 0 else AGAINST
            image.putpixel((x, y), (*colour, round(STRONGEST * abs(strength))))
    buffer = BytesIO()
    image.save(buffer, format="PNG")
    return "data:image/png;base64," + b64encode(buffer.getvalue()).decode()
