"""Render the report of a run as one self-contained HTML page."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from unbag.reports import charts
from unbag.reports.formatting import (
    chance_text,
    count_text,
    interval_text,
    score_text,
    trouble_text,
    value_text,
)
from unbag.reports.join import notes_of, parts_of
from unbag.reports.layout import (
    LOWER_IS_BETTER,
    Column,
    ComparedPair,
    Layout,
    MetricRow,
    Sheet,
    compared,
    lay_out,
    over_prompts,
    published_only,
    records,
)
from unbag.reports.references import PublishedRow, Scale, same_model, scales
from unbag.reports.summary import against_chance, chance_legend, summarise
from unbag.types import Failure, RunContents
from unbag.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

    from unbag.metrics.definitions import Definition

SHOWN_CARDS = 6
"""Failures of a benchmark that are shown; the others are collapsed."""
_SHOWN_TAGS = 12
"""Largest number of tag values in a chart that is not collapsed."""
_REMARKS = ("share_", "mean_")
"""Prefixes of secondary metrics, which are in a collapsed table."""
_DATA_ADDRESS = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")
Fault = Literal["", "above", "tied"]
"""Whether a false caption scored above the true one it is compared with, or tied with it."""


def render_page(run: RunContents, definitions: Mapping[str, Definition]) -> str:
    """Render the report. The page loads nothing, has no scripts, and escapes all text."""
    prompts = over_prompts(run.results)
    run = published_only(run)
    layout = lay_out(run)
    metrics = dict.fromkeys(metric for sheet in layout.sheets for metric in sheet.metrics)
    page = _page_environment().get_template("page.html")

    def defined(name: str) -> Definition | None:
        """Look up a definition by name, or by a pattern such as share_*."""
        patterns = (value for key, value in definitions.items() if fnmatchcase(name, key))
        return definitions.get(name) or next(patterns, None)

    return page.render(
        version=__version__,
        columns=layout.columns,
        scorers=layout.scorers,
        sheets=layout.overview,
        summary=summarise(layout, run.comparisons),
        problems=run.problems,
        warnings=run.warnings,
        overview=_overview(layout),
        over_prompts=prompts,
        sections=_sections(run, layout),
        definitions=tuple(Defined(name, defined(name)) for name in metrics),
        protocols=tuple(dict.fromkeys((r.scorer, r.protocol.key) for r in run.results)),
        confidence=max((r.protocol.confidence for r in run.results), default=0.95),
        # Each with the folder of its run, if several runs were merged.
        records=[(part.folder, record) for part in parts_of(run) for record in records(part.run)],
        chance_legend=chance_legend(layout),
        notes=notes_of(run),
    )


@dataclass(frozen=True)
class Section:
    """Everything about one benchmark."""

    anchor: str
    name: str
    sheets: tuple[Sheet, ...]
    tag_charts: tuple[Chart, ...]
    comparisons: tuple[ComparedPair, ...]
    published_rows: tuple[PublishedRow, ...]
    scales: tuple[Scale, ...]
    cards: tuple[FailureCard, ...]


@dataclass(frozen=True)
class Chart:
    """A column of strips with one axis."""

    title: str
    rows: tuple[ChartRow, ...]
    axis: Markup
    is_folded: bool = False


@dataclass(frozen=True)
class ChartRow:
    """A labelled strip of a chart."""

    name: str
    note: str
    drawing: Markup


@dataclass(frozen=True)
class Defined:
    """A metric of this page and its definition; None if it has none."""

    name: str
    definition: Definition | None


def _overview(layout: Layout) -> Chart:
    rows = []
    for sheet in layout.overview:
        for metric in sheet.main_metrics:
            row = sheet.row(metric)
            if row.is_rate:
                rows.append((sheet.title if metric == sheet.headline else "", metric, row))
    return _chart("", rows, layout.columns)


def _sections(run: RunContents, layout: Layout) -> tuple[Section, ...]:
    sheets_of: dict[str, list[Sheet]] = {}
    for sheet in layout.sheets:
        sheets_of.setdefault(sheet.benchmark, []).append(sheet)
    return tuple(
        Section(
            anchor=f"benchmark-{i}",
            name=name,
            sheets=tuple(sheets),
            tag_charts=_tag_charts(sheets[0], layout.columns),
            comparisons=compared(run.comparisons, sheets, benchmark=name),
            published_rows=same_model(r for r in run.references if r.benchmark == name),
            scales=scales([r for r in run.references if r.benchmark == name]),
            cards=tuple(failure_card(f) for f in run.failures if f.benchmark == name),
        )
        for i, (name, sheets) in enumerate(sheets_of.items(), start=1)
    )


def _tag_charts(sheet: Sheet, columns: Sequence[Column]) -> tuple[Chart, ...]:
    result_charts = []
    for tag, keys in sheet.tags.items():
        rows = [(key.partition("=")[2], sheet.tag_row(key, sheet.headline)) for key in keys]
        rate_rows = [
            (name, f"n = {row.first.n:,}", row) for name, row in rows if row.first and row.is_rate
        ]
        if rate_rows:
            is_folded = len(rate_rows) > _SHOWN_TAGS
            result_charts.append(_chart(tag, rate_rows, columns, bars=True, is_folded=is_folded))
    return tuple(result_charts)


def _chart(
    title: str,
    rows: Sequence[tuple[str, str, MetricRow]],
    columns: Sequence[Column],
    *,
    bars: bool = False,
    is_folded: bool = False,
) -> Chart:
    from markupsafe import Markup

    scale = charts.scale_for([row for _, _, row in rows])
    chart_rows = []
    for name, note, row in rows:
        strip = charts.strip(row, columns, name=f"{name} {note}", scale=scale, bars=bars)
        chart_rows.append(ChartRow(name, note, Markup(strip)))  # noqa: S704 - charts escapes
    return Chart(title, tuple(chart_rows), Markup(charts.axis(scale)), is_folded)  # noqa: S704


def environment() -> Environment:
    """Return the Jinja environment of all pages: text is escaped, undefined names are errors."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("unbag.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _page_environment() -> Environment:
    from markupsafe import Markup

    templates = environment()
    templates.globals.update(
        against_chance=against_chance,
        chance_text=chance_text,
        count_text=count_text,
        interval_text=interval_text,
        trouble_text=trouble_text,
        value_text=value_text,
        breakable=_breakable,
        key=lambda column: Markup(charts.key(charts.mark(column))),  # noqa: S704 - built by charts, which escapes
        lower_is_better=LOWER_IS_BETTER,
        remarks=_REMARKS,
        shown_cards=SHOWN_CARDS,
    )
    return templates


def _breakable(name: str) -> Markup:
    """Allow line breaks in a name after /, _, @, . and -, but not inside a word."""
    from markupsafe import Markup

    parts = re.split(r"(?<=[/_@.-])(?=\w)", name)
    return Markup("<wbr>").join(parts)


def failure_card(failure: Failure) -> FailureCard:
    """Return the card of one failure."""
    # True if images compete for a caption; otherwise captions compete for an image.
    searches = failure.metric.startswith(("text_to_image", "image_pair"))
    by_caption = len(failure.captions) == 1 or searches or failure.metric == "image"
    lines = tuple(
        FailureLine(
            letter=chr(ord("A") + i) if i < 26 else str(i + 1),
            caption=caption,
            kind=failure.kinds[i].replace("_", " ") if failure.kinds else "",
            cells=tuple(
                _failure_cell(failure, image, i, by_caption=by_caption)
                for image in range(len(failure.images))
            ),
        )
        for i, caption in enumerate(failure.captions)
    )
    return FailureCard(
        item=failure.item,
        scorer=failure.scorer,
        metric=failure.metric,
        tags=", ".join(f"{tag} {value}" for tag, value in failure.tags.items()),
        images=tuple(safe_image(address) for address in failure.images),
        lines=lines,
        rival="image" if by_caption else "caption",
    )


@dataclass(frozen=True)
class FailureCard:
    """A failed item with its images, captions and scores."""

    item: str
    scorer: str
    metric: str
    tags: str
    images: tuple[str, ...]
    """Data URLs of the images; empty for images that are not stored."""
    lines: tuple[FailureLine, ...]
    rival: str
    """What a false cell is compared with: the true caption or the true image."""

    @property
    def is_matrix(self) -> bool:
        """Whether there are several images, shown as a table."""
        return len(self.images) > 1


@dataclass(frozen=True)
class FailureLine:
    """One caption with one cell per image."""

    letter: str
    caption: str
    kind: str
    cells: tuple[FailureCell, ...]


@dataclass(frozen=True)
class FailureCell:
    """The score of one image with one caption."""

    is_true: bool
    score: str
    share: float
    """Length of the score bar, from 0 (the item's lowest score) to 1 (its highest)."""
    fault: Fault


def _failure_cell(failure: Failure, image: int, caption: int, *, by_caption: bool) -> FailureCell:
    score = failure.scores[image][caption]
    finite = [score for row in failure.scores for score in row if math.isfinite(score)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    share = (score - low) / (high - low) if math.isfinite(score) and high > low else 0.0
    return FailureCell(
        is_true=failure.truth[image][caption],
        score=score_text(score, finite),
        share=share,
        fault=_fault(failure, image, caption, by_caption=by_caption),
    )


def _fault(failure: Failure, image: int, caption: int, *, by_caption: bool) -> Fault:
    """Compare with the lowest true score, as for hard positives; in retrieval with the highest."""
    score = failure.scores[image][caption]
    if failure.truth[image][caption] or not math.isfinite(score):
        return ""
    if by_caption:
        row = [(t[caption], s[caption]) for t, s in zip(failure.truth, failure.scores, strict=True)]
    else:
        row = list(zip(failure.truth[image], failure.scores[image], strict=True))
    true = [true_score for is_true, true_score in row if is_true and math.isfinite(true_score)]
    if not true:
        return ""
    rival = max(true) if "@" in failure.metric else min(true)
    return "above" if score > rival else "tied" if score == rival else ""


def safe_image(address: str) -> str:
    """Return a data URL unchanged, and an empty string for any URL a browser would fetch."""
    return address if _DATA_ADDRESS.fullmatch(address) else ""
