"""Measure a model before and after training on the same benchmarks: what it gained and lost.

`price` gives one row for each metric, with a paired interval, for the terminal or a model card.
Beside both models stands a blind reader: what it reaches can be had without any image, so a
repair that reaches no more has not shown that it looks.

Dimensions: N pairs of texts, D vectors, P images, C captions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch.nn import functional

from unbag.errors import UnbagError
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.metrics.choice import Classify
from unbag.metrics.retrieval import Recall
from unbag.metrics.statements import Correlation
from unbag.reports.exports import report
from unbag.reports.formatting import change_text, estimate_text
from unbag.reports.layout import LOWER_IS_BETTER
from unbag.reports.table import STRONG, Cell, Column, Marked, Span, Table, markdown
from unbag.runs.progress import Progress
from unbag.scorers import Cosine
from unbag.training.data.pairs import Draw, PairBatches, draw_texts, readable_pairs
from unbag.types import (
    Benchmark,
    Caption,
    Comparison,
    DualEncoder,
    Estimate,
    ImageSource,
    Query,
    RunContents,
)
from unbag.types.items import text_of
from unbag.world import benchmarks as world

if TYPE_CHECKING:
    from torch import Tensor


Kind = Literal["composition", "words", "retrieval", "classification", "agreement"]
"""`words`: which words fit, which a bag of words can tell; `agreement`: with ratings by people."""
Side = Literal["composition", "recognition", "neither"]
Section = Literal[
    "composition",
    "brittleness",
    "mean caption scores",
    "single words",
    "retrieval",
    "classification",
    "agreement with people",
]

DEFAULT: tuple[Benchmark, ...] = (world.SWAP, world.RELATION, world.REPLACE, world.RETRIEVAL)
"""Where a user names none: images are drawn, so any model can be asked without a download."""
DRAWINGS = (
    "world benchmarks are drawings of simple shapes: what they show of a model trained on "
    "photographs need not hold for photographs; name benchmarks with --bench"
)

KIND_BY_NAME: Mapping[str, Kind] = MappingProxyType({world.REPLACE.name: "words"})
"""Those that their metrics would put elsewhere."""
KIND_BY_METRIC: tuple[tuple[type, Kind], ...] = (
    (Classify, "classification"),
    (Recall, "retrieval"),
    (Correlation, "agreement"),
)
"""The first metric a benchmark has decides; every other benchmark asks for composition."""
RECOGNITION: frozenset[Kind] = frozenset({"words", "retrieval", "classification"})
SECTION_BY_METRIC: Mapping[str, Section] = MappingProxyType(
    {
        "brittleness": "brittleness",
        "mean_original": "mean caption scores",
        "mean_positive": "mean caption scores",
        "mean_negative": "mean caption scores",
    }
)
SECTION_BY_KIND: Mapping[Kind, Section] = MappingProxyType(
    {
        "composition": "composition",
        "words": "single words",
        "retrieval": "retrieval",
        "classification": "classification",
        "agreement": "agreement with people",
    }
)
ALSO_COMPARED = ("original", "augmented", *SECTION_BY_METRIC, "image_to_text@1")
"""Compared besides the headline of each benchmark."""
SECTIONS_WITH_READER: tuple[Section, ...] = ("composition", "single words")
"""Benchmarks of true against false captions, which may be solved by reading alone."""
_HARD_POSITIVES = "no benchmark with hard positives was asked for"
IF_EMPTY: Mapping[Section, str] = MappingProxyType(
    {
        "composition": "no composition benchmark was asked for",
        "brittleness": _HARD_POSITIVES,
        "mean caption scores": _HARD_POSITIVES,
        "retrieval": "no retrieval benchmark was asked for",
        "classification": "no classification benchmark was asked for",
    }
)
"""Said where a section that every table should have holds nothing."""

COLUMNS = ("benchmark", "metric", "before", "after", "difference", "n")
BLIND = "blind"
TABLE_NOTE = (
    "percent with 95 % intervals; difference: after minus before, paired over the same units"
)
MEANS_NOTE = "mean caption scores are cosines"

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1)
"""Of the penalty; chosen on a fifth of the training photographs."""
NEWTON_STEPS = 60
"""Of Newton's method, at most."""
MAX_SLOPE = 1e-9
"""Largest slope at which it stops."""
MAX_IMAGES = 2_000
"""Images whose captions are read; more would tell it little and cost time."""
MIN_NEGATIVES = 100
"""Negatives below which there is no reader."""
TEXTS_AT_ONCE = 256


def compare_before_after(
    before: DualEncoder,
    after: DualEncoder,
    *,
    out: Path,
    benchmarks: Sequence[Benchmark] = (),
    data: Path | None = None,
    cache: Path | None = None,
    seed: int = 0,
    batch_size: int = 256,
    command: str = "",
    progress: Progress | None = None,
    reader: BlindReader | None = None,
) -> BeforeAfter:
    """Score both on the same benchmarks (those of the world if none is named) and compare.

    Both are scored in one run on the same items, so every difference is paired.

    A `reader` is asked the same, and its numbers stand beside theirs.
    `out` becomes an ordinary run folder with `report.html`; an interrupted run resumes.
    """
    benchmarks = tuple(benchmarks) or DEFAULT
    job = Job(
        scorers=[Cosine(before), Cosine(after), *([reader] if reader else [])],
        benchmarks=benchmarks,
        out=out,
        data=data,
        cache=cache,
        seed=seed,
        batch_size=batch_size,
        device=before.device,
        also_compared=ALSO_COMPARED,
        command=command,
    )
    finished = run(job, progress=progress)
    contents = finished.contents
    report(contents, finished.folder.report)
    kinds = {benchmark.name: kind_of(benchmark) for benchmark in benchmarks}
    order = {section: at for at, section in enumerate(get_args(Section))}
    blind = reader.name if reader else None
    rows = sorted(_rows(contents, kinds, blind), key=lambda row: order[row.section])
    if not rows:
        raise UnbagError(
            f"nothing could be compared: {'; '.join(contents.problems) or 'no shared units'}",
            expected="at least one benchmark that both models can be judged on",
        )
    there = {row.section for row in rows}
    notes = [said for section, said in IF_EMPTY.items() if section not in there]
    notes += [reader.about] if reader and any(row.blind for row in rows) else []
    notes += contents.problems
    notes += [DRAWINGS] if are_drawings(benchmarks) else []
    folder = finished.folder.path
    return BeforeAfter(before.name, after.name, tuple(rows), folder, tuple(dict.fromkeys(notes)))


@dataclass(frozen=True)
class BeforeAfter:
    """All rows of a comparison before and after training."""

    before: str
    after: str
    rows: tuple[BeforeAfterRow, ...]
    """By section."""
    folder: Path
    """The run folder with both models' scores and the report."""
    notes: tuple[str, ...] = ()
    """Sections that are empty and why, what could not be measured, what the images are."""

    def of(self, section: Section) -> tuple[BeforeAfterRow, ...]:
        """The rows of one section."""
        return tuple(row for row in self.rows if row.section == section)


@dataclass(frozen=True)
class BeforeAfterRow:
    """One metric of one benchmark, before and after."""

    section: Section
    before: Estimate
    after: Estimate
    change: Comparison
    """After minus before on the units that both were judged on, with a paired interval."""
    blind: Estimate | None = None
    """Of a reader that sees no image; only where it is asked for understanding."""

    @property
    def benchmark(self) -> str:
        """Its name."""
        return self.change.benchmark

    @property
    def metric(self) -> str:
        """Its name."""
        return self.change.metric


def _rows(
    contents: RunContents, kinds: Mapping[str, Kind], reader: str | None
) -> Iterator[BeforeAfterRow]:
    for change in contents.comparisons:
        before, after = (
            estimate_of(contents, change, one) for one in (change.first, change.second)
        )
        if before is not None and after is not None:
            section = SECTION_BY_METRIC.get(change.metric, SECTION_BY_KIND[kinds[change.benchmark]])
            is_asked = section in SECTIONS_WITH_READER
            blind = estimate_of(contents, change, reader) if reader and is_asked else None
            yield BeforeAfterRow(section, before, after, change, blind)


def estimate_of(contents: RunContents, change: Comparison, scorer: str) -> Estimate | None:
    """A scorer's own value under the averaging rule of a comparison."""
    for result in contents.results:
        is_asked = (result.benchmark, result.scorer, result.aggregate) == (
            change.benchmark,
            scorer,
            change.aggregate,
        )
        if is_asked and change.metric in result.overall:
            return result.overall[change.metric]
    return None


def kind_of(benchmark: Benchmark) -> Kind:
    """What a benchmark asks for, decided by its name, then by its metrics."""
    if benchmark.name in KIND_BY_NAME:
        return KIND_BY_NAME[benchmark.name]
    for form, kind in KIND_BY_METRIC:
        if any(isinstance(metric, form) for metric in benchmark.metrics):
            return kind
    return "composition"


def side_of(benchmark: Benchmark) -> Side:
    """The side a benchmark counts for; ratings by people count for neither."""
    kind = kind_of(benchmark)
    if kind in RECOGNITION:
        return "recognition"
    return "composition" if kind == "composition" else "neither"


def are_drawings(benchmarks: Sequence[Benchmark]) -> bool:
    """Whether any of them draws its images."""
    return any("unbag world" in benchmark.sources for benchmark in benchmarks)


def before_after_table(comparison: BeforeAfter) -> Table:
    """A row a metric, under the name of its section. What is better is green, worse red."""
    rows: list[Sequence[Cell]] = []
    for section, some in groupby(comparison.rows, key=lambda row: row.section):
        rows.append([Span(section, STRONG)])
        for row in some:
            benchmark, metric, *numbers = _cells(row, comparison)
            # Without its space an interval goes whole to a second line of a narrow terminal.
            cells = [Span(number.replace(", ", ",")) for number in numbers]
            cells[2] = Span(cells[2].text, _style(row))
            rows.append([benchmark, metric, *cells])
    return Table(_columns(comparison), rows, caption=_under(comparison))


def before_after_markdown(comparison: BeforeAfter) -> str:
    """The same for a model card, with what is missing said under it."""
    rows: list[Sequence[Cell]] = []
    for section, some in groupby(comparison.rows, key=lambda row: row.section):
        for at, row in enumerate(some):
            benchmark, metric, *numbers = _cells(row, comparison)
            rows.append(["" if at else section, benchmark, metric, *map(Marked, numbers)])
    notes = [_under(comparison), *comparison.notes]
    before, after = (name.replace("`", "'") for name in (comparison.before, comparison.after))
    return "\n".join(
        [
            f"Before: `{before}`; after: `{after}`.",
            "",
            markdown(Table((Column(), *_columns(comparison)), rows)),
            "",
            *(f"- {note[0].upper()}{note[1:]}." for note in notes),
            "",
        ]
    )


def _columns(comparison: BeforeAfter) -> tuple[Column, ...]:
    names = (*COLUMNS, BLIND) if _has_blind(comparison) else COLUMNS
    return tuple(Column(name, "left" if at < 2 else "right") for at, name in enumerate(names))


def _cells(row: BeforeAfterRow, comparison: BeforeAfter) -> list[str]:
    rule = "" if row.change.aggregate == "micro" else f", {row.change.aggregate}"
    arrow = " ↓" if row.metric in LOWER_IS_BETTER else ""
    cells = [
        row.benchmark,
        f"{row.metric}{rule}{arrow}",
        estimate_text(row.before),
        estimate_text(row.after),
        change_text(row.change, is_rate=row.before.is_rate),
        f"{row.change.n:,}",
    ]
    blind = estimate_text(row.blind) if row.blind else ""
    return [*cells, blind] if _has_blind(comparison) else cells


def _has_blind(comparison: BeforeAfter) -> bool:
    return any(row.blind for row in comparison.rows)


def _under(comparison: BeforeAfter) -> str:
    is_lower = any(row.metric in LOWER_IS_BETTER for row in comparison.rows)
    parts = [TABLE_NOTE]
    parts += [MEANS_NOTE] if comparison.of("mean caption scores") else []
    parts += ["↓ lower is better"] if is_lower else []
    return "; ".join(parts)


def _style(row: BeforeAfterRow) -> str:
    """No colour where the interval holds zero, or where neither direction is better."""
    if row.section == "mean caption scores" or row.change.low <= 0 <= row.change.high:
        return ""
    is_better = (row.change.difference > 0) != (row.metric in LOWER_IS_BETTER)
    return "green" if is_better else "red"


def blind_reader(encoder: DualEncoder, batches: PairBatches) -> BlindReader | None:
    """Fit a blind reader to negatives as training draws them; None where there are too few."""
    if not batches.columns.negatives:
        return None
    rows = list(_contrasts(batches))
    if len(rows) < MIN_NEGATIVES:
        return None
    apart_ND = differences(encoder.encode_texts, rows)
    weight_D = fit_reader(apart_ND, [row.image for row in rows])
    said = repr((encoder.fingerprint, rows, STRENGTHS, NEWTON_STEPS))
    about = (
        f"blind: a linear reader of the caption vectors of {encoder.name}, told of {len(rows):,} "
        "of the same edits; it sees no image, so a number that does not pass its own is no "
        "evidence of looking"
    )
    fingerprint = f"blind-{blake2b(said.encode(), digest_size=12).hexdigest()}"
    return BlindReader(encoder, weight_D, fingerprint, about)


@dataclass(frozen=True, eq=False)
class BlindReader:
    """Scores a caption by a direction in the caption vectors of a model; no image is opened.

    The direction is that of a logistic regression without bias on differences of caption vectors,
    fitted to prefer each caption to its negative.
    """

    encoder: DualEncoder
    weight_D: Tensor
    fingerprint: str
    about: str
    name: str = "blind reader"
    scoring: str = "caption only"
    is_blind: bool = True
    _known: dict[str, float] = field(default_factory=dict, repr=False)

    def score(self, queries: Sequence[Query]) -> list[float]:
        """Scores of captions; one that was asked before is not read again."""
        texts = [text_of(query.caption) for query in queries]
        new = sorted(set(texts) - self._known.keys(), key=lambda text: (len(text), text))
        for at in range(0, len(new), TEXTS_AT_ONCE):
            some = new[at : at + TEXTS_AT_ONCE]
            vector_ND = self.encoder.encode_texts(some).double().cpu()
            self._known.update(zip(some, (vector_ND @ self.weight_D).tolist(), strict=True))
        return [self._known[text] for text in texts]

    def score_matrix(self, images: Sequence[ImageSource], captions: Sequence[Caption]) -> Tensor:
        """All scores equal, [P, C]: a gallery asks which image, and that cannot be read."""
        return torch.zeros(len(images), len(captions), dtype=torch.float64)


def _contrasts(batches: PairBatches) -> Iterator[Contrast]:
    """One caption of each of some images, spread over all, with its negatives."""
    every = batches.pairs
    places = np.unique(np.linspace(0, len(every) - 1, min(MAX_IMAGES, len(every)), dtype=np.int64))
    pairs = list(readable_pairs(every, places.tolist()))
    texts = draw_texts(pairs, Draw(batches.seed, 0), batches.columns, batches.made)
    for number, said in enumerate(texts):
        for negative in said.negatives:
            if negative is not None:
                yield Contrast(number, said.caption, negative)


class Contrast(NamedTuple):
    """A caption and a negative of it."""

    image: int
    caption: str
    negative: str
    kind: str = ""


def differences(read: Callable[[Sequence[str]], Tensor], rows: Sequence[Contrast]) -> Tensor:
    """Vectors of captions minus those of their negatives, [N, D]; each text is read once."""
    texts = sorted({text for row in rows for text in (row.caption, row.negative)}, key=len)
    parts = [read(texts[at : at + TEXTS_AT_ONCE]) for at in range(0, len(texts), TEXTS_AT_ONCE)]
    place = {text: at for at, text in enumerate(texts)}
    vector = torch.cat(parts).double().cpu()
    return vector[[place[r.caption] for r in rows]] - vector[[place[r.negative] for r in rows]]


def fit_reader(apart_ND: Tensor, image_N: Sequence[int]) -> Tensor:
    """Weights [D] of vectors, from differences that are first brought to one deviation."""
    # A feature that hardly moves, such as one of MiniLM's by 2e-33, must not be blown up.
    deviation_D = apart_ND.std(dim=0).clamp_min(1e-12)
    return choose_and_fit(apart_ND / deviation_D, image_N) / deviation_D


def choose_and_fit(apart_ND: Tensor, image_N: Sequence[int]) -> Tensor:
    """The strength that does best on a fifth of the images, then all of them."""
    is_held_N = torch.tensor([at % 5 == 0 for at in image_N])
    rest_ND, held_ND = apart_ND[~is_held_N], apart_ND[is_held_N]
    right = [float((held_ND @ fit_preference(rest_ND, s) > 0).double().mean()) for s in STRENGTHS]
    return fit_preference(apart_ND, STRENGTHS[int(np.argmax(right))])


def fit_preference(apart_ND: Tensor, strength: float) -> Tensor:
    """Weights [D] that make differences positive: least logistic loss with an L2 penalty."""
    weight_D = torch.zeros(apart_ND.shape[1], dtype=apart_ND.dtype)
    penalty_DD = strength * torch.eye(len(weight_D), dtype=apart_ND.dtype)
    for _ in range(NEWTON_STEPS):
        miss_N = torch.sigmoid(-(apart_ND @ weight_D))
        slope_D = -(apart_ND.T @ miss_N) / len(apart_ND) + strength * weight_D
        bend_DD = (apart_ND * (miss_N * (1 - miss_N))[:, None]).T @ apart_ND / len(apart_ND)
        step_D = torch.linalg.solve(bend_DD + penalty_DD, slope_D)
        size = _size(apart_ND, weight_D, step_D, strength)
        weight_D = weight_D - size * step_D
        if float(slope_D.abs().max()) < MAX_SLOPE:
            break
    return weight_D


def _size(apart_ND: Tensor, weight_D: Tensor, step_D: Tensor, strength: float) -> float:
    """The largest of 1, 1/2, 1/4 ... that lowers the loss: whole steps may run away."""
    ahead_N, turn_N, size = apart_ND @ weight_D, apart_ND @ step_D, 1.0

    def loss(part: float) -> float:
        moved_D = weight_D - part * step_D
        missed = functional.softplus(-(ahead_N - part * turn_N)).mean()
        return float(missed + strength / 2 * moved_D @ moved_D)

    start = loss(0.0)
    while loss(size) > start and size > 1e-6:
        size /= 2
    return size
