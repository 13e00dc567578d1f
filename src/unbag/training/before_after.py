"""Measure a model before and after training on the same benchmarks.

`compare_before_after` returns one row per metric, with a paired interval, for the terminal or a
model card. A blind reader is measured too: its scores need no image, so a repaired model that
scores no higher gives no evidence of using images.

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
"""`words`: which words fit an image, which a bag of words can; `agreement`: with human ratings."""
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
"""Used where the user names none: images are drawn, so nothing has to be downloaded."""
DRAWINGS = (
    "world benchmarks are drawings of simple shapes: what they show of a model trained on "
    "photographs need not hold for photographs; name benchmarks with --bench"
)

KIND_BY_NAME: Mapping[str, Kind] = MappingProxyType({world.REPLACE.name: "words"})
"""Benchmarks whose metrics would suggest another kind."""
KIND_BY_METRIC: tuple[tuple[type, Kind], ...] = (
    (Classify, "classification"),
    (Recall, "retrieval"),
    (Correlation, "agreement"),
)
"""The first that a benchmark has decides its kind; benchmarks with none measure composition."""
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
"""Metrics that are compared besides the headline metric of each benchmark."""
SECTIONS_WITH_READER: tuple[Section, ...] = ("composition", "single words")
"""Benchmarks of true and false captions, which reading the captions alone may solve."""
_HARD_POSITIVES = "no benchmark with hard positives was measured"
IF_EMPTY: Mapping[Section, str] = MappingProxyType(
    {
        "composition": "no composition benchmark was measured",
        "brittleness": _HARD_POSITIVES,
        "mean caption scores": _HARD_POSITIVES,
        "retrieval": "no retrieval benchmark was measured",
        "classification": "no classification benchmark was measured",
    }
)
"""Notes for sections that every table should have and that are empty."""

COLUMNS = ("benchmark", "metric", "before", "after", "difference", "n")
BLIND = "blind"
TABLE_NOTE = (
    "percent with 95 % intervals; difference: after minus before, paired over the same units"
)
MEANS_NOTE = "mean caption scores are cosines"

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1)
"""Weights of the L2 penalty, of which held-out images choose one."""
NEWTON_STEPS = 60
"""Largest number of steps of Newton's method."""
MAX_GRADIENT = 1e-9
"""Newton's method stops at a smaller gradient."""
MAX_IMAGES = 2_000
"""Images whose captions the reader is trained on; more cost time and add little."""
MIN_NEGATIVES = 100
"""Smallest number of negatives to train a reader on."""
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
    """Measure both models on the same benchmarks (by default those of the world) and compare.

    Both are scored in one run on the same items, so every difference is paired. A `reader` is
    measured too. `out` becomes an ordinary run folder with `report.html`; interrupted, it resumes.
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
            expected="at least one benchmark on which both models can be measured",
        )
    sections = {row.section for row in rows}
    notes = [note for section, note in IF_EMPTY.items() if section not in sections]
    notes += [reader.about] if reader and any(row.blind for row in rows) else []
    notes += contents.problems
    notes += [DRAWINGS] if are_drawings(benchmarks) else []
    folder = finished.folder.path
    return BeforeAfter(before.name, after.name, tuple(rows), folder, tuple(dict.fromkeys(notes)))


@dataclass(frozen=True)
class BeforeAfter:
    """A comparison before and after training."""

    before: str
    after: str
    rows: tuple[BeforeAfterRow, ...]
    """Sorted by section."""
    folder: Path
    """The run folder with the scores of both models and the report."""
    notes: tuple[str, ...] = ()
    """Why sections are empty, what could not be measured, and what the images are."""

    def of(self, section: Section) -> tuple[BeforeAfterRow, ...]:
        """Return the rows of one section."""
        return tuple(row for row in self.rows if row.section == section)


@dataclass(frozen=True)
class BeforeAfterRow:
    """One metric of one benchmark, before and after."""

    section: Section
    before: Estimate
    after: Estimate
    change: Comparison
    """After minus before on the units of both, with a paired interval."""
    blind: Estimate | None = None
    """Value of the blind reader; only in `SECTIONS_WITH_READER`."""

    @property
    def benchmark(self) -> str:
        """Name of the benchmark."""
        return self.change.benchmark

    @property
    def metric(self) -> str:
        """Name of the metric."""
        return self.change.metric


def _rows(
    contents: RunContents, kinds: Mapping[str, Kind], reader: str | None
) -> Iterator[BeforeAfterRow]:
    for change in contents.comparisons:
        before, after = (
            estimate_of(contents, change, scorer) for scorer in (change.first, change.second)
        )
        if before is not None and after is not None:
            section = SECTION_BY_METRIC.get(change.metric, SECTION_BY_KIND[kinds[change.benchmark]])
            has_reader = section in SECTIONS_WITH_READER
            blind = estimate_of(contents, change, reader) if reader and has_reader else None
            yield BeforeAfterRow(section, before, after, change, blind)


def estimate_of(contents: RunContents, change: Comparison, scorer: str) -> Estimate | None:
    """Return the value of a scorer for the benchmark, metric and averaging rule of a comparison."""
    for result in contents.results:
        is_match = (result.benchmark, result.scorer, result.aggregate) == (
            change.benchmark,
            scorer,
            change.aggregate,
        )
        if is_match and change.metric in result.overall:
            return result.overall[change.metric]
    return None


def kind_of(benchmark: Benchmark) -> Kind:
    """Return what a benchmark measures, by its name, else by its metrics."""
    if benchmark.name in KIND_BY_NAME:
        return KIND_BY_NAME[benchmark.name]
    for form, kind in KIND_BY_METRIC:
        if any(isinstance(metric, form) for metric in benchmark.metrics):
            return kind
    return "composition"


def side_of(benchmark: Benchmark) -> Side:
    """Return the side that a benchmark counts for; agreement with people counts for neither."""
    kind = kind_of(benchmark)
    if kind in RECOGNITION:
        return "recognition"
    return "composition" if kind == "composition" else "neither"


def are_drawings(benchmarks: Sequence[Benchmark]) -> bool:
    """Return whether any benchmark draws its images."""
    return any("unbag world" in benchmark.sources for benchmark in benchmarks)


def before_after_table(comparison: BeforeAfter) -> Table:
    """Make the table: a row per metric, by section; better is green, worse red."""
    rows: list[Sequence[Cell]] = []
    for section, section_rows in groupby(comparison.rows, key=lambda row: row.section):
        rows.append([Span(section, STRONG)])
        for row in section_rows:
            benchmark, metric, *numbers = _cells(row, comparison)
            # Without spaces, an interval is not broken across lines in a narrow terminal.
            cells = [Span(number.replace(", ", ",")) for number in numbers]
            cells[2] = Span(cells[2].text, _style(row))
            rows.append([benchmark, metric, *cells])
    return Table(_columns(comparison), rows, caption=_caption_below(comparison))


def before_after_markdown(comparison: BeforeAfter) -> str:
    """Make the table for a model card, with notes on what is missing below it."""
    rows: list[Sequence[Cell]] = []
    for section, section_rows in groupby(comparison.rows, key=lambda row: row.section):
        for i, row in enumerate(section_rows):
            benchmark, metric, *numbers = _cells(row, comparison)
            rows.append(["" if i else section, benchmark, metric, *map(Marked, numbers)])
    notes = [_caption_below(comparison), *comparison.notes]
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
    return tuple(Column(name, "left" if i < 2 else "right") for i, name in enumerate(names))


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


def _caption_below(comparison: BeforeAfter) -> str:
    is_lower = any(row.metric in LOWER_IS_BETTER for row in comparison.rows)
    parts = [TABLE_NOTE]
    parts += [MEANS_NOTE] if comparison.of("mean caption scores") else []
    parts += ["↓ lower is better"] if is_lower else []
    return "; ".join(parts)


def _style(row: BeforeAfterRow) -> str:
    """Return no colour if the interval contains zero or neither direction is better."""
    if row.section == "mean caption scores" or row.change.low <= 0 <= row.change.high:
        return ""
    is_better = (row.change.difference > 0) != (row.metric in LOWER_IS_BETTER)
    return "green" if is_better else "red"


def blind_reader(encoder: DualEncoder, batches: PairBatches) -> BlindReader | None:
    """Train a blind reader on negatives as drawn in training; None if there are too few."""
    if not batches.columns.negatives:
        return None
    rows = list(_contrasts(batches))
    if len(rows) < MIN_NEGATIVES:
        return None
    difference_ND = differences(encoder.encode_texts, rows)
    weight_D = fit_reader(difference_ND, [row.image for row in rows])
    settings = repr((encoder.fingerprint, rows, STRENGTHS, NEWTON_STEPS))
    about = (
        f"blind: a linear classifier on the caption vectors of {encoder.name}, trained on "
        f"{len(rows):,} of the same edits; it sees no image, so a model that scores no higher "
        "gives no evidence of using images"
    )
    fingerprint = f"blind-{blake2b(settings.encode(), digest_size=12).hexdigest()}"
    return BlindReader(encoder, weight_D, fingerprint, about)


@dataclass(frozen=True, eq=False)
class BlindReader:
    """Scores a caption by a direction in the caption vectors of a model; no image is opened.

    The direction comes from a logistic regression without bias on differences of caption vectors,
    trained to prefer each caption to its negative.
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
        """Return the score of each caption; each text is encoded once."""
        texts = [text_of(query.caption) for query in queries]
        new_texts = sorted(set(texts) - self._known.keys(), key=lambda text: (len(text), text))
        for start in range(0, len(new_texts), TEXTS_AT_ONCE):
            chunk = new_texts[start : start + TEXTS_AT_ONCE]
            vector_ND = self.encoder.encode_texts(chunk).double().cpu()
            self._known.update(zip(chunk, (vector_ND @ self.weight_D).tolist(), strict=True))
        return [self._known[text] for text in texts]

    def score_matrix(self, images: Sequence[ImageSource], captions: Sequence[Caption]) -> Tensor:
        """Return equal scores [P, C]: captions alone cannot decide which of several images fits."""
        return torch.zeros(len(images), len(captions), dtype=torch.float64)


def _contrasts(batches: PairBatches) -> Iterator[Contrast]:
    """Yield a caption with each of its negatives, of images spread over the collection."""
    pairs = batches.pairs
    places = np.unique(np.linspace(0, len(pairs) - 1, min(MAX_IMAGES, len(pairs)), dtype=np.int64))
    read_pairs = list(readable_pairs(pairs, places.tolist()))
    texts = draw_texts(read_pairs, Draw(batches.seed, 0), batches.columns, batches.online_edits)
    for number, text in enumerate(texts):
        for negative in text.negatives:
            if negative is not None:
                yield Contrast(number, text.caption, negative)


class Contrast(NamedTuple):
    """A caption and one of its negatives."""

    image: int
    caption: str
    negative: str
    kind: str = ""


def differences(encode: Callable[[Sequence[str]], Tensor], rows: Sequence[Contrast]) -> Tensor:
    """Return vectors of captions minus those of their negatives, [N, D]; texts are encoded once."""
    texts = sorted({text for row in rows for text in (row.caption, row.negative)}, key=len)
    parts = [
        encode(texts[start : start + TEXTS_AT_ONCE])
        for start in range(0, len(texts), TEXTS_AT_ONCE)
    ]
    index = {text: i for i, text in enumerate(texts)}
    vector = torch.cat(parts).double().cpu()
    return vector[[index[r.caption] for r in rows]] - vector[[index[r.negative] for r in rows]]


def fit_reader(difference_ND: Tensor, image_N: Sequence[int]) -> Tensor:
    """Fit the weights [D] on differences that are scaled to a standard deviation of 1."""
    # A nearly constant feature, such as one of MiniLM's with 2e-33, must not be magnified.
    deviation_D = difference_ND.std(dim=0).clamp_min(1e-12)
    return choose_and_fit(difference_ND / deviation_D, image_N) / deviation_D


def choose_and_fit(difference_ND: Tensor, image_N: Sequence[int]) -> Tensor:
    """Choose the penalty by accuracy on a held-out fifth of the images, then fit on all of them."""
    is_held_out_N = torch.tensor([image % 5 == 0 for image in image_N])
    train_ND, held_out_ND = difference_ND[~is_held_out_N], difference_ND[is_held_out_N]
    accuracies = [
        float((held_out_ND @ fit_preference(train_ND, s) > 0).double().mean()) for s in STRENGTHS
    ]
    return fit_preference(difference_ND, STRENGTHS[int(np.argmax(accuracies))])


def fit_preference(difference_ND: Tensor, strength: float) -> Tensor:
    """Fit weights [D] that make differences positive: logistic loss with an L2 penalty."""
    weight_D = torch.zeros(difference_ND.shape[1], dtype=difference_ND.dtype)
    penalty_DD = strength * torch.eye(len(weight_D), dtype=difference_ND.dtype)
    for _ in range(NEWTON_STEPS):
        error_N = torch.sigmoid(-(difference_ND @ weight_D))
        gradient_D = -(difference_ND.T @ error_N) / len(difference_ND) + strength * weight_D
        hessian_DD = (
            (difference_ND * (error_N * (1 - error_N))[:, None]).T
            @ difference_ND
            / len(difference_ND)
        )
        step_D = torch.linalg.solve(hessian_DD + penalty_DD, gradient_D)
        step_size = _step_size(difference_ND, weight_D, step_D, strength)
        weight_D = weight_D - step_size * step_D
        if float(gradient_D.abs().max()) < MAX_GRADIENT:
            break
    return weight_D


def _step_size(difference_ND: Tensor, weight_D: Tensor, step_D: Tensor, strength: float) -> float:
    """Return the largest of 1, 1/2, 1/4 ... that lowers the loss: full steps may diverge."""
    margin_N, margin_change_N, step_size = difference_ND @ weight_D, difference_ND @ step_D, 1.0

    def loss(part: float) -> float:
        new_weight_D = weight_D - part * step_D
        loss_value = functional.softplus(-(margin_N - part * margin_change_N)).mean()
        return float(loss_value + strength / 2 * new_weight_D @ new_weight_D)

    start = loss(0.0)
    while loss(step_size) > start and step_size > 1e-6:
        step_size /= 2
    return step_size
