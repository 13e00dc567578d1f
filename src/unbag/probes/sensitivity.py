"""The probe `sensitivity`: whether a model understands edits of captions or only detects them.

Intra-modal similarity and cross-modal gap: CE-CLIP, section 4.5 and figure 8; the same for hard
positives and the test for a perturbation detector are ours, after the hard-positive paper, section
4.3. A model that only detects edits has no selectivity, as large a gap for positives as for
negatives (`detector_ratio` 1) and cannot distinguish the two (`detector_auc` 0.5).

Dimensions: N captions with one negative and one positive each, M some of them, D space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Literal

import numpy as np

from unbag.edits.shuffles import words
from unbag.metrics.intervals import FEW
from unbag.probes.base import (
    Bars,
    Better,
    Known,
    Options,
    Plot,
    Probe,
    ProbeData,
    ProbedModel,
    ProbeResult,
    Quantity,
    Row,
    Thresholds,
    Tone,
    Value,
    Verdict,
    bar,
    fill,
    mean,
    statistic,
)
from unbag.probes.sampling import choose_rows, cluster_of, has_same_words, part_note
from unbag.probes.space import TIE, Space, cosines
from unbag.runs.progress import Progress
from unbag.types import FloatArray, IntArray, Outcomes

NAME = "sensitivity"
SAME_WORDS, OTHER_WORDS, SAME_DISTANCE = "same words", "other words", "same distance"
MAX_KINDS = 4
"""Maximum number of kinds in a verdict."""
CONFIDENCE = 0.99
KIND_RESAMPLES = 1_000
"""There are many kinds, and single kinds do not decide the verdict."""
COSTS = ("intra_hn", "intra_hp", "gap", "gap_hp", "selectivity", "auc", "rho")
BY_KIND = ("gap", "gap_hp", "selectivity", "auc")
_BAG = {"intra_hn": 1.0, "gap": 0.0, "gap_hp": 0.0, "selectivity": 0.0, "auc": 0.5}
"""Values of a bag of words, where both edits preserve the words."""
WHAT = {f", {SAME_WORDS}": "exchanged words", f", {OTHER_WORDS}": "replaced words", "": "edits"}


class SensitivityThresholds(Thresholds):
    """Thresholds on auc, the probability that a negative costs more than a positive, and on rho."""

    CHANCE = (
        0.5,
        "auc of a mere detector of edits: edits are not understood if the interval reaches it",
    )
    UNSURE = 0.75, "an interval of auc from 0.5 to above this, half way to 1, does not decide"
    TELLS = 0.9, "edits are understood if the interval of auc lies above it"
    CHEAP = 0.25, "and if the interval of rho lies below it: a positive costs almost nothing"


State = Literal["blind", "detector", "unsure", "semantic", "partly", "noticed"]
"""blind: the gap may be 0. detector: there is a gap, and auc may be 0.5. unsure: a gap, and the
interval of auc is too wide. semantic: auc above `TELLS` and rho below `CHEAP`. noticed: a gap, and
no positives to compare with."""
VERDICTS: Mapping[str, tuple[Tone, str]] = {
    "unknown": (
        "told",
        "Not measured: fewer than {few} independent rows have hard negatives and vectors.",
    ),
    "semantic": ("holds", "It learned meaning: {edits}{unnoticed}."),
    "blind": ("fails", "Neither: {edits}{unnoticed}."),
    "detector": ("fails", "It only notices edits: {edits}{unnoticed}."),
    "some words": ("fails", "It learned some words only: {edits}{unnoticed}."),
    "unsure": ("mixed", "Not decided: {edits}{unnoticed}."),
    "noticed": ("told", "It notices edits: {edits}{unnoticed}."),
    "partly": ("mixed", "It learned meaning in part: {edits}{unnoticed}."),
}
_CHANCE = "a negative costs more than a positive with probability {auc}{ratio}"
EDITS: Mapping[State, str] = {
    "blind": "{what} are not noticed, a hard negative costs {gap:4}",
    "noticed": (
        "a hard negative ({what}) costs {gap:4}; without hard positives it is not known whether "
        "every edit does"
    ),
    "detector": f"{{what}} are noticed but not understood, {_CHANCE}",
    "unsure": f"{{what}} are noticed and may be understood, {_CHANCE}",
    "semantic": f"{{what}} are understood, {_CHANCE}",
    "partly": f"{{what}} are understood in part, {_CHANCE}",
}
"""Clauses of the verdict, one per type of edit."""
PHRASES = {
    "ratio": " (ratio of the costs of positives and negatives: {rho})",
    "unnoticed": "; kinds that are not noticed: {kinds}{more}",
    "more": " and {count} more",
}
ABOUT = """\
c is a caption, n its hard negative, p its hard positive and i the image; cosines without scale.
intra_hn = mean cos(c, n) and gap = mean cos(i, c) - cos(i, n): CE-CLIP, section 4.5 and figure 8.
intra_hp and gap_hp are the same for p, selectivity = intra_hp - intra_hn (methods.md 4.6). The test
for a perturbation detector (4.7, after the hard-positive paper, section 4.3): auc is the
probability that a negative costs more than a positive, ties half; 0.5 for a detector of edits, 1
for a model that knows which edits matter. rho = gap_hp / gap, 1 for a mere detector and 0 where
only meaning counts. Intervals are 99 % bootstraps over clusters of rows that share scenes. Negative
and positive are those of the same row; rows with one type of edit are in "same words" (both
exchange words) and "other words" (both replace some), and "same distance" has rows in which both
change the same number of words. Rows that exchange caption and positive of another row are left
out: together they make gap_hp 0 for every model. Limits: where a hard negative costs nothing, rho
is undefined and not reported."""


def _ask(
    subject: ProbedModel, data: ProbeData, options: Options, progress: Progress
) -> ProbeResult:
    if subject.space is None:
        return ProbeResult(NAME, skipped=f"{subject.name} has no image and caption vectors")
    base = subject.other.space if subject.other is not None else None
    return edit_sensitivity(subject.space, data, options, base=base)


def say(result: ProbeResult) -> Verdict:
    """Join one clause per type of edit; any failure decides."""
    states = {suffix: state(result, suffix) for suffix in _groups(result)}
    known_states = {suffix: state for suffix, state in states.items() if state is not None}
    kinds, distinct_states = _blind_kinds(result), set(known_states.values())
    case: str = "partly"
    if not known_states:
        case = "unknown"
    elif len(distinct_states) == 1 and not (kinds and "semantic" in distinct_states):
        case = next(iter(distinct_states))
    elif "detector" in distinct_states:
        case = "detector"
    elif "blind" in distinct_states:
        case = "some words"
    elif "unsure" in distinct_states:
        case = "unsure"
    more_text = (
        fill(PHRASES["more"], count=len(kinds) - MAX_KINDS) if len(kinds) > MAX_KINDS else ""
    )
    kinds_text = fill(PHRASES["unnoticed"], kinds=", ".join(kinds[:MAX_KINDS]), more=more_text)
    values: dict[str, Value] = {
        "few": FEW,
        "edits": "; ".join(
            _clause(result, suffix, state) for suffix, state in known_states.items()
        ),
        "unnoticed": kinds_text if kinds else "",
    }
    return Verdict(*VERDICTS[case], values)


SENSITIVITY = Probe(
    NAME,
    "Did it learn meaning, or only to notice edits?",
    ABOUT,
    _ask,
    say,
    tuple(SensitivityThresholds),
)


def state(result: ProbeResult, suffix: str) -> State | None:
    """Return the state of one group of edits; None with too few clusters."""
    gap, auc, rho = (result.get(stem + suffix) for stem in ("gap", "auc", "rho"))
    if gap is None or gap.outcomes is None or _clusters(gap.outcomes) < FEW:
        return None
    if not gap.estimate.low > TIE:
        return "blind"
    if auc is None:
        return "noticed"
    thresholds = SensitivityThresholds
    if not auc.estimate.low > thresholds.CHANCE:
        return "detector" if auc.estimate.high <= thresholds.UNSURE else "unsure"
    is_cheap = rho is not None and rho.estimate.high < thresholds.CHEAP
    return "semantic" if auc.estimate.low > thresholds.TELLS and is_cheap else "partly"


def headline(result: ProbeResult) -> str:
    """Return the name of the headline: auc of exchanged words if measured, else the next best."""
    for suffix in _groups(result):
        for stem in ("auc", "gap", "gap_hp"):
            if result.get(stem + suffix) is not None:
                return stem + suffix
    return result.quantities[0].name if result.quantities else ""


def _groups(result: ProbeResult) -> list[str]:
    """Return the suffixes of the types of edit; of all rows where no row has a single type."""
    typed = [suffix for suffix in WHAT if suffix and result.get(f"gap{suffix}") is not None]
    return typed or [""]


def _clusters(outcomes: Outcomes) -> int:
    """Count the clusters with at least one valid value."""
    units = zip(outcomes.clusters, outcomes.value_U, strict=True)
    return len({cluster for cluster, value in units if value == value})


def _clause(result: ProbeResult, suffix: str, state: State) -> str:
    gap, auc, rho = (result.get(stem + suffix) for stem in ("gap", "auc", "rho"))
    values: dict[str, Value] = {"what": WHAT[suffix], "ratio": ""}
    if rho is not None:
        values["ratio"] = fill(PHRASES["ratio"], rho=rho.estimate)
    quantities = {"gap": gap, "auc": auc}
    values |= {
        name: quantity.estimate for name, quantity in quantities.items() if quantity is not None
    }
    return fill(EDITS[state], **values)


def _blind_kinds(result: ProbeResult) -> list[str]:
    """Return the kinds of edit whose gap may be 0."""
    gap_names = [
        quantity.name.removeprefix("gap, ")
        for quantity in result.quantities
        if quantity.name.startswith("gap, ")
    ]
    kinds = [name for name in gap_names if name not in (SAME_WORDS, OTHER_WORDS, SAME_DISTANCE)]
    return [kind for kind in kinds if state(result, f", {kind}") == "blind"]


def edit_sensitivity(
    space: Space, data: ProbeData, options: Options, *, base: Space | None = None
) -> ProbeResult:
    """Measure the quantities of sections 4.6 and 4.7 over all rows, by type of edit and by kind."""
    rows = [row for row in data.rows if row.negative or row.positive]
    if not rows:
        needs = "captions with hard negatives or hard positives (`unbag edit` makes them)"
        return ProbeResult(NAME, skipped=f"{data.about}: it needs {needs}")
    options = replace(options, confidence=CONFIDENCE)
    chosen = choose_rows(rows, options)
    edited = ask_rows(space, drop_reversed(chosen))
    complete = edited.part([True] * len(edited.rows))
    quantities = costs(complete, "", options, is_swap=False)
    for label in (SAME_WORDS, OTHER_WORDS):
        part = edited.part([edit_type(row) == label for row in edited.rows])
        quantities += costs(part, f", {label}", options, is_swap=label == SAME_WORDS)
    quantities += _same_distance(complete, options) + _scores(complete, options, base)
    kind_options = replace(options, resamples=min(options.resamples, KIND_RESAMPLES))
    for kind in sorted({row.kind for row in edited.rows}):
        part = edited.part([row.kind == kind for row in edited.rows])
        quantities += costs(part, f", {kind}", kind_options, names=BY_KIND, is_swap=False)
    notes = _notes(complete, edited) + part_note(len(chosen), len(rows), "rows")
    result = ProbeResult(NAME, tuple(quantities), notes=notes)
    return replace(result, headline=headline(result), plots=plots(result))


def drop_reversed(rows: Sequence[Row]) -> list[Row]:
    """Drop rows that exchange caption and positive of an earlier row, as the world's benchmarks do.

    Over both rows, the cost of positives adds up to 0 for every model. The first row counts as the
    original: in the world it has the usual words, and its positive the rarer ones.
    """
    seen: set[tuple[str, str | None, str | None]] = set()
    kept_rows = []
    for row in rows:
        if (row.image.key, row.positive, row.caption) not in seen:
            seen.add((row.image.key, row.caption, row.positive))
            kept_rows.append(row)
    return kept_rows


def edit_type(row: Row) -> str:
    """Return whether both edits exchange words or both replace some; empty for one of each."""
    edits = [text for text in (row.negative, row.positive) if text is not None]
    keeps_words = {has_same_words(row.caption, text) for text in edits}
    if len(keeps_words) > 1:
        return ""
    return SAME_WORDS if keeps_words == {True} else OTHER_WORDS


def _same_distance(edited: EditedRows, options: Options) -> list[Quantity]:
    """Measure how many words edits change, and the costs of rows where both numbers are equal."""
    negative_N, positive_N = _distances(edited)
    over_rows = edited.mean(options)
    quantities = [
        over_rows(f"words changed, {edit_name}", value_N, about=f"Words that a {edit_name} changes")
        for edit_name, value_N in (("negative", negative_N), ("positive", positive_N))
        if not np.isnan(value_N).all()
    ]
    same_count = edited.at(np.flatnonzero(negative_N == positive_N))
    if same_count.rows:
        names = ("gap", "gap_hp", "auc")
        quantities += costs(same_count, f", {SAME_DISTANCE}", options, names=names, is_swap=False)
    return quantities


def _distances(edited: EditedRows) -> tuple[FloatArray, FloatArray]:
    """Count the words that negatives and positives change, [N]; NaN where there is none."""
    distances = [
        [np.nan if edit is None else words_changed(row.caption, edit) for edit in edits]
        for row in edited.rows
        for edits in [(row.negative, row.positive)]
    ]
    negative_N, positive_N = np.array(distances, dtype=float).reshape(-1, 2).T
    return negative_N, positive_N


@lru_cache(maxsize=1 << 16)
def words_changed(first: str, second: str) -> int:
    """Return the Levenshtein distance of words, ignoring case."""
    first_words, second_words = words(first.lower()), words(second.lower())
    row = list(range(len(second_words) + 1))
    for i, word in enumerate(first_words, 1):
        diagonal, row[0] = row[0], i
        for j, other_word in enumerate(second_words, 1):
            replaced = diagonal if word == other_word else diagonal + 1
            diagonal, row[j] = row[j], min(replaced, row[j] + 1, row[j - 1] + 1)
    return row[-1]


def _scores(edited: EditedRows, options: Options, base: Space | None) -> list[Quantity]:
    """Return mean cosines of the image with c, n and p, and their change from the base model."""
    means, over_rows = _mean_scores(edited), edited.mean(options)
    quantities = [
        over_rows(f"score {name}", value_N, about=f"Mean cosine of image and {text_name}")
        for name, text_name, value_N in means
    ]
    if base is None:
        return quantities
    base_scores = {name: value_N for name, _, value_N in _mean_scores(ask_rows(base, edited.rows))}
    return quantities + [
        over_rows(
            f"score {name} minus base",
            value_N - base_scores[name],
            about=f"Mean cosine of image and {text_name}, less that of {base.name}",
        )
        for name, text_name, value_N in means
    ]


def _mean_scores(edited: EditedRows) -> list[tuple[str, str, FloatArray]]:
    scores = [
        ("c", "caption", edited.score_N),
        ("n", "negative", edited.score_N - edited.values.gap_negative_N),
        ("p", "positive", edited.score_N - edited.values.gap_positive_N),
    ]
    return [score for score in scores if not np.isnan(score[2]).all()]


def _notes(complete: EditedRows, edited: EditedRows) -> tuple[str, ...]:
    both = [row for row in complete.rows if row.negative and row.positive]
    if not both:
        return (
            "No row has both a negative and a positive, so a mere detector cannot be identified.",
        )
    negative_N, positive_N = _distances(complete)
    same_count = int((negative_N == positive_N).sum())
    return (
        f"{len(both)} of {len(edited.rows)} rows have both a negative and a positive; all numbers "
        "except those of kinds without positives are over these rows.",
        f"A negative changes {negative_N.mean():.1f} words on average, a positive "
        f"{positive_N.mean():.1f}; in {same_count} rows both numbers are equal (same distance).",
    )


def plots(result: ProbeResult) -> tuple[Plot, ...]:
    """Plot the costs of both edits and auc, by kind."""
    by_group = [quantity for quantity in result.quantities if "," in quantity.name]
    costs = [
        bar(quantity, quantity.name)
        for quantity in by_group
        if quantity.name.startswith(("gap,", "gap_hp,"))
    ]
    tests = [
        bar(quantity, quantity.name.removeprefix("auc, "))
        for quantity in by_group
        if quantity.name[:4] == "auc,"
    ]
    charts = (
        Bars(
            "What an edit costs",
            tuple(costs),
            is_rate=False,
            about="Cosine with the image lost: gap to negatives, gap_hp to positives.",
        ),
        Bars(
            "Does a negative cost more than a positive?",
            tuple(tests),
            is_rate=False,
            about="0.5: only detects edits; 1: knows which edits matter.",
        ),
    )
    return tuple(quantity for quantity in charts if quantity.bars)


def costs(
    edited: EditedRows,
    suffix: str,
    options: Options,
    *,
    names: Sequence[str] = COSTS,
    is_swap: bool,
) -> list[Quantity]:
    """Return the quantities of methods.md 4.6 and 4.7, except those that no row has.

    Args:
        edited: Rows with the costs of their edits.
        suffix: Suffix of the name of each quantity.
        options: Settings of the intervals.
        names: Quantities to measure.
        is_swap: Both edits preserve the words, so a bag of words notices neither.
    """
    values, quantities = edited.values, []
    bag = _BAG if is_swap else {}
    cost = "Cost of a negative: cosine of image and caption minus cosine of image and negative"
    nearer = "Cosine of caption and positive minus cosine of caption and negative"
    hn, hp = "Mean cosine of caption and negative", "Mean cosine of caption and positive"
    means: list[tuple[str, FloatArray, str, Known, Better]] = [
        ("intra_hn", values.intra_negative_N, hn, Known(), "lower"),
        ("intra_hp", values.intra_positive_N, hp, Known(), "higher"),
        ("gap", values.gap_negative_N, cost, Known(chance=0.0), "higher"),
        ("gap_hp", values.gap_positive_N, "Cost of a positive", Known(perfect=0.0), "neither"),
        ("selectivity", values.selectivity, nearer, Known(chance=0.0), "higher"),
    ]
    for name, value_N, about, known, better in means:
        if name in names and not np.isnan(value_N).all():
            known = Known(bag.get(name), known.perfect, known.chance)
            over_rows = edited.mean(options)
            quantity = over_rows(name + suffix, value_N, about=about, known=known, better=better)
            quantities.append(quantity)
    complete = edited.at(np.flatnonzero(np.isfinite(values.gap_negative_N + values.gap_positive_N)))
    if complete.rows and "auc" in names:
        quantities.append(_auc(complete, suffix, options, bag.get("auc")))
    if complete.rows and "rho" in names and complete.values.gap_negative_N.mean() > TIE:
        rho = complete.mean(options)(
            f"rho{suffix}",
            complete.values.gap_positive_N,
            about="Cost of a positive over cost of a negative; 1 for a mere detector of edits",
            weight_N=complete.values.gap_negative_N,
            known=Known(perfect=0.0),
            better="lower",
        )
        quantities.append(rho)
    return quantities


def _auc(edited: EditedRows, suffix: str, options: Options, bag: float | None) -> Quantity:
    # Gaps that differ by rounding only are ties.
    negative_N, positive_N = (
        np.round(gap_N / TIE) * TIE
        for gap_N in (edited.values.gap_negative_N, edited.values.gap_positive_N)
    )
    return statistic(
        f"auc{suffix}",
        lambda place_M: detector_auc(negative_N[place_M], positive_N[place_M]),
        len(edited.rows),
        about="Probability that a negative costs more than a positive; 0.5 for a mere detector",
        options=options,
        clusters=edited.clusters,
        known=Known(bag, perfect=1.0, chance=0.5),
        better="higher",
    )


@dataclass(frozen=True, eq=False)
class EditedRows:
    """Rows with the costs of their edits."""

    rows: tuple[Row, ...]
    values: Sensitivity
    score_N: FloatArray

    def part(self, selected: Sequence[bool]) -> EditedRows:
        """Return the selected rows, only those with both edits if there are any."""
        places = [place for place, is_selected in enumerate(selected) if is_selected]
        both = [
            place for place in places if self.rows[place].negative and self.rows[place].positive
        ]
        return self.at(np.array(both or places, dtype=np.int64))

    def at(self, place_M: IntArray) -> EditedRows:
        """Return the rows at these places."""
        values = self.values
        arrays = (
            values.intra_negative_N,
            values.intra_positive_N,
            values.gap_negative_N,
            values.gap_positive_N,
        )
        selected = Sensitivity(*(value_N[place_M] for value_N in arrays))
        return EditedRows(tuple(self.rows[at] for at in place_M), selected, self.score_N[place_M])

    @property
    def clusters(self) -> list[str]:
        """Cluster of each row."""
        return [cluster_of(row) for row in self.rows]

    def mean(self, options: Options) -> partial[Quantity]:
        """Return `unbag.probes.base.mean` over the rows."""
        return partial(
            mean,
            options=options,
            units=[row.id for row in self.rows],
            clusters=self.clusters,
            tags=[{"kind": row.kind} for row in self.rows],
        )


def ask_rows(space: Space, rows: Sequence[Row]) -> EditedRows:
    """Measure the costs of the edits of each row in a space; NaN where there is no such edit."""
    image_ND = space.images([row.image for row in rows])
    caption_ND = space.captions([row.caption for row in rows])
    negative_ND = _encoded(space, [row.negative for row in rows], caption_ND)
    positive_ND = _encoded(space, [row.positive for row in rows], caption_ND)
    values = sensitivity(image_ND, caption_ND, negative_ND, positive_ND)
    return EditedRows(tuple(rows), values, cosines(image_ND, caption_ND))


def _encoded(space: Space, texts: Sequence[str | None], like_ND: FloatArray) -> FloatArray:
    vector_ND = np.full_like(like_ND, np.nan)
    places = [place for place, text in enumerate(texts) if text is not None]
    if places:
        vector_ND[places] = space.captions([text for text in texts if text is not None])
    return vector_ND


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Values per caption."""

    intra_negative_N: FloatArray
    """Cosine of caption and negative; lower is better."""
    intra_positive_N: FloatArray
    """Cosine of caption and positive; higher is better."""
    gap_negative_N: FloatArray
    """Score of the caption minus that of its negative; higher is better."""
    gap_positive_N: FloatArray
    """Score of the caption minus that of its positive; should be 0."""

    @property
    def selectivity(self) -> FloatArray:
        """Cosine of the positive minus that of the negative."""
        return self.intra_positive_N - self.intra_negative_N

    @property
    def detector_ratio(self) -> float:
        """Mean cost of a positive over that of a negative; 1 for a mere detector."""
        return detector_ratio(self.gap_negative_N, self.gap_positive_N)

    @property
    def detector_auc(self) -> float:
        """Probability that a negative costs more than a positive; 0.5 for a mere detector."""
        return detector_auc(self.gap_negative_N, self.gap_positive_N)


def sensitivity(
    image_ND: FloatArray,
    caption_ND: FloatArray,
    negative_ND: FloatArray,
    positive_ND: FloatArray,
) -> Sensitivity:
    """Measure the sensitivity of each row."""
    score_N = cosines(image_ND, caption_ND)
    return Sensitivity(
        intra_negative_N=cosines(caption_ND, negative_ND),
        intra_positive_N=cosines(caption_ND, positive_ND),
        gap_negative_N=score_N - cosines(image_ND, negative_ND),
        gap_positive_N=score_N - cosines(image_ND, positive_ND),
    )


def detector_ratio(gap_negative_N: FloatArray, gap_positive_N: FloatArray) -> float:
    """Return the mean gap of positives over that of negatives; NaN if negatives cost nothing."""
    negative, positive = float(np.mean(gap_negative_N)), float(np.mean(gap_positive_N))
    return positive / negative if negative else float("nan")


def detector_auc(gap_negative_N: FloatArray, gap_positive_N: FloatArray) -> float:
    """Return the area under the ROC curve of gaps of negatives and positives; ties count half."""
    n, p = len(gap_negative_N), len(gap_positive_N)
    if not n or not p or np.isnan(gap_negative_N).any() or np.isnan(gap_positive_N).any():
        return float("nan")
    ordered_N = np.sort(gap_positive_N)
    below = np.searchsorted(ordered_N, gap_negative_N).sum()
    not_above = np.searchsorted(ordered_N, gap_negative_N, side="right").sum()
    return float((below + not_above) / (2 * n * p))
