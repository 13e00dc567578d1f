"""The probe `sensitivity`: whether a model understands edits of captions or only notices them.

Intra-modal similarity and cross-modal gap: CE-CLIP, section 4.5 and figure 8; the same for hard
positives and the test for a perturbation detector are ours, after the hard-positive paper, section
4.3. A model that only notices that something was edited has no selectivity, as large a gap for
positives as for negatives (`detector_ratio` 1) and cannot tell the two (`detector_auc` 0.5).

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
SHOWN = 4
"""Kinds that a sentence names."""
CONFIDENCE = 0.99
KIND_RESAMPLES = 1_000
"""There are many kinds, and none of them decides."""
COSTS = ("intra_hn", "intra_hp", "gap", "gap_hp", "selectivity", "auc", "rho")
BY_KIND = ("gap", "gap_hp", "selectivity", "auc")
_BAG = {"intra_hn": 1.0, "gap": 0.0, "gap_hp": 0.0, "selectivity": 0.0, "auc": 0.5}
"""Of a bag of words, where both edits keep the words."""
WHAT = {f", {SAME_WORDS}": "exchanged words", f", {OTHER_WORDS}": "replaced words", "": "edits"}


class SensitivityThresholds(Thresholds):
    """Of the chance auc that a negative costs more than a positive, then of the ratio rho."""

    CHANCE = 0.5, "auc of a mere detector: edits are not understood if the interval reaches it"
    UNSURE = 0.75, "an auc that may be 0.5 and above this, half way to meaning, decides nothing"
    TELLS = 0.9, "auc surely above it: it is known which edits matter"
    CHEAP = 0.25, "rho surely below it: a positive costs next to nothing"


State = Literal["blind", "detector", "unsure", "semantic", "partly", "noticed"]
"""blind: the gap may be 0. detector: there is a gap, and auc may be 0.5. unsure: a gap, and auc may
be either. semantic: auc above `TELLS` and rho below `CHEAP`. noticed: a gap, and no positives to
compare."""
VERDICTS: Mapping[str, tuple[Tone, str]] = {
    "unknown": (
        "told",
        "Not known: fewer than {few} independent rows have hard negatives and vectors.",
    ),
    "semantic": ("holds", "Meaning: {edits}{unnoticed}."),
    "blind": ("fails", "Neither: {edits}{unnoticed}."),
    "detector": ("fails", "Only to notice edits: {edits}{unnoticed}."),
    "some words": ("fails", "Some words, not all that is said: {edits}{unnoticed}."),
    "unsure": ("mixed", "Not decided: {edits}{unnoticed}."),
    "noticed": ("told", "It notices edits: {edits}{unnoticed}."),
    "partly": ("mixed", "In part: {edits}{unnoticed}."),
}
_CHANCE = "a negative costs more than a positive with chance {auc}{ratio}"
EDITS: Mapping[State, str] = {
    "blind": "{what} go unnoticed, a hard negative costs {gap:4}",
    "noticed": (
        "a hard negative ({what}) costs {gap:4}; without hard positives it is not known whether "
        "any edit would"
    ),
    "detector": f"{{what}} are noticed but not understood, {_CHANCE}",
    "unsure": f"{{what}} are noticed, whether they are understood is open, {_CHANCE}",
    "semantic": f"{{what}} are understood, {_CHANCE}",
    "partly": f"{{what}} are understood in part, {_CHANCE}",
}
"""What is said of one type of edit."""
PHRASES = {
    "ratio": " (ratio of costs, positive to negative: {rho})",
    "unnoticed": "; by kind, unnoticed are {kinds}{more}",
    "more": " and {count} more",
}
ABOUT = """\
c is a caption, n a hard negative and p a hard positive of it, i the image; cosines without scale.
intra_hn = mean cos(c, n) and gap = mean cos(i, c) - cos(i, n): CE-CLIP, section 4.5 and figure 8.
intra_hp and gap_hp are the same for p, selectivity = intra_hp - intra_hn (methods.md 4.6). The test
for a perturbation detector (4.7, after the hard-positive paper, section 4.3): auc is the chance
that a negative costs more than a positive, ties half; 0.5 cannot tell when an edit matters, 1 can.
rho = gap_hp / gap, 1 for a mere detector and 0 where only meaning counts. Intervals are 99 %
bootstraps over clusters of rows that share scenes. Negative and positive are those of the same row;
edits of one type only are in "same words" (both exchange words) and "other words" (both replace
some), and "same distance" holds rows in which both change as many words. Rows that turn caption
and positive of another one round are left out: together they make gap_hp 0 for every model. Limits:
where a hard negative costs nothing, rho means nothing and is not given."""


def _ask(
    subject: ProbedModel, material: ProbeData, options: Options, progress: Progress
) -> ProbeResult:
    if subject.space is None:
        return ProbeResult(NAME, skipped=f"{subject.name} has no vectors of images and captions")
    base = subject.other.space if subject.other is not None else None
    return edit_sensitivity(subject.space, material, options, base=base)


def say(finding: ProbeResult) -> Verdict:
    """One clause for each type of edit; any failure decides."""
    states = {suffix: state(finding, suffix) for suffix in _groups(finding)}
    known = {suffix: found for suffix, found in states.items() if found is not None}
    kinds, states_found = _blind_kinds(finding), set(known.values())
    case: str = "partly"
    if not known:
        case = "unknown"
    elif len(states_found) == 1 and not (kinds and "semantic" in states_found):
        case = next(iter(states_found))
    elif "detector" in states_found:
        case = "detector"
    elif "blind" in states_found:
        case = "some words"
    elif "unsure" in states_found:
        case = "unsure"
    more = fill(PHRASES["more"], count=len(kinds) - SHOWN) if len(kinds) > SHOWN else ""
    named = fill(PHRASES["unnoticed"], kinds=", ".join(kinds[:SHOWN]), more=more)
    values: dict[str, Value] = {
        "few": FEW,
        "edits": "; ".join(_clause(finding, suffix, found) for suffix, found in known.items()),
        "unnoticed": named if kinds else "",
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


def state(finding: ProbeResult, suffix: str) -> State | None:
    """What intervals say of one group of edits; None if too little was measured."""
    gap, auc, rho = (finding.get(stem + suffix) for stem in ("gap", "auc", "rho"))
    if gap is None or gap.outcomes is None or _clusters(gap.outcomes) < FEW:
        return None
    if not gap.estimate.low > TIE:
        return "blind"
    if auc is None:
        return "noticed"
    at = SensitivityThresholds
    if not auc.estimate.low > at.CHANCE:
        return "detector" if auc.estimate.high <= at.UNSURE else "unsure"
    is_cheap = rho is not None and rho.estimate.high < at.CHEAP
    return "semantic" if auc.estimate.low > at.TELLS and is_cheap else "partly"


def headline(finding: ProbeResult) -> str:
    """The test on exchanged words where there are any, else on what there is."""
    for suffix in _groups(finding):
        for stem in ("auc", "gap", "gap_hp"):
            if finding.get(stem + suffix) is not None:
                return stem + suffix
    return finding.quantities[0].name if finding.quantities else ""


def _groups(finding: ProbeResult) -> list[str]:
    """Those of one type of edit; all rows where no row has edits of one type."""
    typed = [suffix for suffix in WHAT if suffix and finding.get(f"gap{suffix}") is not None]
    return typed or [""]


def _clusters(outcomes: Outcomes) -> int:
    """Those with a unit that has a number."""
    there = zip(outcomes.clusters, outcomes.value_U, strict=True)
    return len({cluster for cluster, value in there if value == value})


def _clause(finding: ProbeResult, suffix: str, found: State) -> str:
    gap, auc, rho = (finding.get(stem + suffix) for stem in ("gap", "auc", "rho"))
    values: dict[str, Value] = {"what": WHAT[suffix], "ratio": ""}
    if rho is not None:
        values["ratio"] = fill(PHRASES["ratio"], rho=rho.estimate)
    known = {"gap": gap, "auc": auc}
    values |= {name: one.estimate for name, one in known.items() if one is not None}
    return fill(EDITS[found], **values)


def _blind_kinds(finding: ProbeResult) -> list[str]:
    """Kinds of edit whose gap may be 0."""
    every = [
        one.name.removeprefix("gap, ") for one in finding.quantities if one.name.startswith("gap, ")
    ]
    kinds = [name for name in every if name not in (SAME_WORDS, OTHER_WORDS, SAME_DISTANCE)]
    return [kind for kind in kinds if state(finding, f", {kind}") == "blind"]


def edit_sensitivity(
    space: Space, material: ProbeData, options: Options, *, base: Space | None = None
) -> ProbeResult:
    """All quantities of sections 4.6 and 4.7, over all rows, by type of edit and by kind."""
    rows = [row for row in material.rows if row.negative or row.positive]
    if not rows:
        needs = "captions with hard negatives or hard positives (`unbag edit` makes them)"
        return ProbeResult(NAME, skipped=f"{material.about}: it needs {needs}")
    options = replace(options, confidence=CONFIDENCE)
    chosen = choose_rows(rows, options)
    asked = ask_rows(space, once(chosen))
    every = asked.part([True] * len(asked.rows))
    quantities = costs(every, "", options, is_swap=False)
    for label in (SAME_WORDS, OTHER_WORDS):
        part = asked.part([edit_type(row) == label for row in asked.rows])
        quantities += costs(part, f", {label}", options, is_swap=label == SAME_WORDS)
    quantities += _same_distance(every, options) + _scores(every, options, base)
    quick = replace(options, resamples=min(options.resamples, KIND_RESAMPLES))
    for kind in sorted({row.kind for row in asked.rows}):
        part = asked.part([row.kind == kind for row in asked.rows])
        quantities += costs(part, f", {kind}", quick, only=BY_KIND, is_swap=False)
    notes = _notes(every, asked) + part_note(len(chosen), len(rows), "rows")
    found = ProbeResult(NAME, tuple(quantities), notes=notes)
    return replace(found, headline=headline(found), plots=plots(found))


def once(rows: Sequence[Row]) -> list[Row]:
    """Without rows that turn caption and positive of an earlier one round, as the world's do.

    Over both, what positives cost adds up to 0 for every model. The first to come counts as the
    original: in the world it has the usual words, and its positive the rarer ones.
    """
    seen: set[tuple[str, str | None, str | None]] = set()
    found = []
    for row in rows:
        if (row.image.key, row.positive, row.caption) not in seen:
            seen.add((row.image.key, row.caption, row.positive))
            found.append(row)
    return found


def edit_type(row: Row) -> str:
    """Whether both edits exchange words or both replace some; nothing for one of each."""
    edits = [text for text in (row.negative, row.positive) if text is not None]
    same = {has_same_words(row.caption, text) for text in edits}
    if len(same) > 1:
        return ""
    return SAME_WORDS if same == {True} else OTHER_WORDS


def _same_distance(asked: EditedRows, options: Options) -> list[Quantity]:
    """How many words both edits change, and the test where these are as many."""
    negative_N, positive_N = _distances(asked)
    over_rows = asked.mean(options)
    quantities = [
        over_rows(f"words changed, {what}", value_N, about=f"Words that a {what} changes")
        for what, value_N in (("negative", negative_N), ("positive", positive_N))
        if not np.isnan(value_N).all()
    ]
    alike = asked.at(np.flatnonzero(negative_N == positive_N))
    if alike.rows:
        only = ("gap", "gap_hp", "auc")
        quantities += costs(alike, f", {SAME_DISTANCE}", options, only=only, is_swap=False)
    return quantities


def _distances(asked: EditedRows) -> tuple[FloatArray, FloatArray]:
    """Words that the negative and that the positive of each row change, [N]; NaN for none."""
    found = [
        [np.nan if edit is None else words_changed(row.caption, edit) for edit in edits]
        for row in asked.rows
        for edits in [(row.negative, row.positive)]
    ]
    negative_N, positive_N = np.array(found, dtype=float).reshape(-1, 2).T
    return negative_N, positive_N


@lru_cache(maxsize=1 << 16)
def words_changed(first: str, second: str) -> int:
    """Fewest words put in, taken out or replaced (Levenshtein's distance of words, any case)."""
    one, other = words(first.lower()), words(second.lower())
    row = list(range(len(other) + 1))
    for i, word in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, wanted in enumerate(other, 1):
            kept = before if word == wanted else before + 1
            before, row[j] = row[j], min(kept, row[j] + 1, row[j - 1] + 1)
    return row[-1]


def _scores(asked: EditedRows, options: Options, base: Space | None) -> list[Quantity]:
    """Mean cosines of the image with c, n and p, and what they were in the base model."""
    means, over_rows = _mean_scores(asked), asked.mean(options)
    quantities = [
        over_rows(f"score {name}", value_N, about=f"Mean cosine of image and {what}")
        for name, what, value_N in means
    ]
    if base is None:
        return quantities
    before = {name: value_N for name, _, value_N in _mean_scores(ask_rows(base, asked.rows))}
    return quantities + [
        over_rows(
            f"score {name} minus base",
            value_N - before[name],
            about=f"Mean cosine of image and {what}, less that of {base.name}",
        )
        for name, what, value_N in means
    ]


def _mean_scores(asked: EditedRows) -> list[tuple[str, str, FloatArray]]:
    found = [
        ("c", "caption", asked.score_N),
        ("n", "negative", asked.score_N - asked.found.gap_negative_N),
        ("p", "positive", asked.score_N - asked.found.gap_positive_N),
    ]
    return [one for one in found if not np.isnan(one[2]).all()]


def _notes(every: EditedRows, asked: EditedRows) -> tuple[str, ...]:
    both = [row for row in every.rows if row.negative and row.positive]
    if not both:
        return ("No row has both a negative and a positive, so a mere detector is not told apart.",)
    negative_N, positive_N = _distances(every)
    alike = int((negative_N == positive_N).sum())
    return (
        f"{len(both)} of {len(asked.rows)} rows have both a negative and a positive; all numbers "
        "but those of kinds without positives are of these rows.",
        f"A negative changes {negative_N.mean():.1f} words on average, a positive "
        f"{positive_N.mean():.1f}; in {alike} rows both change as many (same distance).",
    )


def plots(finding: ProbeResult) -> tuple[Plot, ...]:
    """What both edits cost, and the test, kind by kind."""
    every = [one for one in finding.quantities if "," in one.name]
    costs = [bar(one, one.name) for one in every if one.name.startswith(("gap,", "gap_hp,"))]
    tests = [bar(one, one.name.removeprefix("auc, ")) for one in every if one.name[:4] == "auc,"]
    found = (
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
            about="0.5 only notices edits, 1 knows which of them matter.",
        ),
    )
    return tuple(one for one in found if one.bars)


def costs(
    asked: EditedRows, suffix: str, options: Options, *, only: Sequence[str] = COSTS, is_swap: bool
) -> list[Quantity]:
    """The quantities of methods.md 4.6 and 4.7; none that all rows lack.

    Args:
        asked: Rows with what their edits cost.
        suffix: What the name of each quantity ends with.
        options: How to resample.
        only: The quantities that are wanted.
        is_swap: Both edits keep the words, so that a bag of words sees neither.
    """
    found, quantities = asked.found, []
    bag = _BAG if is_swap else {}
    cost = "What a negative costs: cosine of image and caption less that of image and negative"
    nearer = "How much nearer a positive is than a negative, in the text encoder alone"
    hn, hp = "Mean cosine of caption and negative", "Mean cosine of caption and positive"
    means: list[tuple[str, FloatArray, str, Known, Better]] = [
        ("intra_hn", found.intra_negative_N, hn, Known(), "lower"),
        ("intra_hp", found.intra_positive_N, hp, Known(), "higher"),
        ("gap", found.gap_negative_N, cost, Known(chance=0.0), "higher"),
        ("gap_hp", found.gap_positive_N, "What a positive costs", Known(perfect=0.0), "neither"),
        ("selectivity", found.selectivity, nearer, Known(chance=0.0), "higher"),
    ]
    for name, value_N, about, known, better in means:
        if name in only and not np.isnan(value_N).all():
            known = Known(bag.get(name), known.perfect, known.chance)
            over_rows = asked.mean(options)
            made = over_rows(name + suffix, value_N, about=about, known=known, better=better)
            quantities.append(made)
    both = asked.at(np.flatnonzero(np.isfinite(found.gap_negative_N + found.gap_positive_N)))
    if both.rows and "auc" in only:
        quantities.append(_auc(both, suffix, options, bag.get("auc")))
    if both.rows and "rho" in only and both.found.gap_negative_N.mean() > TIE:
        rho = both.mean(options)(
            f"rho{suffix}",
            both.found.gap_positive_N,
            about="What a positive costs over what a negative costs; 1 for a mere detector of "
            "edits",
            weight_N=both.found.gap_negative_N,
            known=Known(perfect=0.0),
            better="lower",
        )
        quantities.append(rho)
    return quantities


def _auc(asked: EditedRows, suffix: str, options: Options, bag: float | None) -> Quantity:
    # Gaps that differ by rounding only are ties.
    negative_N, positive_N = (
        np.round(gap_N / TIE) * TIE
        for gap_N in (asked.found.gap_negative_N, asked.found.gap_positive_N)
    )
    return statistic(
        f"auc{suffix}",
        lambda place_M: detector_auc(negative_N[place_M], positive_N[place_M]),
        len(asked.rows),
        about="Chance that a negative costs more than a positive; 0.5 for a mere detector of edits",
        options=options,
        clusters=asked.clusters,
        known=Known(bag, perfect=1.0, chance=0.5),
        better="higher",
    )


@dataclass(frozen=True, eq=False)
class EditedRows:
    """Rows with what they cost."""

    rows: tuple[Row, ...]
    found: Sensitivity
    score_N: FloatArray

    def part(self, keep: Sequence[bool]) -> EditedRows:
        """The rows that belong to a group, and among these those with both edits, if any."""
        places = [at for at, is_kept in enumerate(keep) if is_kept]
        both = [at for at in places if self.rows[at].negative and self.rows[at].positive]
        return self.at(np.array(both or places, dtype=np.int64))

    def at(self, place_M: IntArray) -> EditedRows:
        """Some of the rows."""
        found = self.found
        every = (
            found.intra_negative_N,
            found.intra_positive_N,
            found.gap_negative_N,
            found.gap_positive_N,
        )
        some = Sensitivity(*(value_N[place_M] for value_N in every))
        return EditedRows(tuple(self.rows[at] for at in place_M), some, self.score_N[place_M])

    @property
    def clusters(self) -> list[str]:
        """What is resampled together."""
        return [cluster_of(row) for row in self.rows]

    def mean(self, options: Options) -> partial[Quantity]:
        """`unbag.probes.base.mean` over the rows."""
        return partial(
            mean,
            options=options,
            units=[row.id for row in self.rows],
            clusters=self.clusters,
            tags=[{"kind": row.kind} for row in self.rows],
        )


def ask_rows(space: Space, rows: Sequence[Row]) -> EditedRows:
    """What the edits of each row cost in a space; NaN where there is no such edit."""
    image_ND = space.images([row.image for row in rows])
    caption_ND = space.captions([row.caption for row in rows])
    negative_ND = _encoded(space, [row.negative for row in rows], caption_ND)
    positive_ND = _encoded(space, [row.positive for row in rows], caption_ND)
    found = sensitivity(image_ND, caption_ND, negative_ND, positive_ND)
    return EditedRows(tuple(rows), found, cosines(image_ND, caption_ND))


def _encoded(space: Space, texts: Sequence[str | None], like_ND: FloatArray) -> FloatArray:
    found_ND = np.full_like(like_ND, np.nan)
    there = [at for at, text in enumerate(texts) if text is not None]
    if there:
        found_ND[there] = space.captions([text for text in texts if text is not None])
    return found_ND


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """One number a caption; means and intervals are for whoever shows them."""

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
        """How much nearer a positive is than a negative."""
        return self.intra_positive_N - self.intra_negative_N

    @property
    def detector_ratio(self) -> float:
        """Mean drop for a positive in units of that for a negative; 1 for a mere detector."""
        return detector_ratio(self.gap_negative_N, self.gap_positive_N)

    @property
    def detector_auc(self) -> float:
        """Chance that a negative costs more than a positive; 0.5 for a mere detector."""
        return detector_auc(self.gap_negative_N, self.gap_positive_N)


def sensitivity(
    image_ND: FloatArray,
    caption_ND: FloatArray,
    negative_ND: FloatArray,
    positive_ND: FloatArray,
) -> Sensitivity:
    """Row by row."""
    score_N = cosines(image_ND, caption_ND)
    return Sensitivity(
        intra_negative_N=cosines(caption_ND, negative_ND),
        intra_positive_N=cosines(caption_ND, positive_ND),
        gap_negative_N=score_N - cosines(image_ND, negative_ND),
        gap_positive_N=score_N - cosines(image_ND, positive_ND),
    )


def detector_ratio(gap_negative_N: FloatArray, gap_positive_N: FloatArray) -> float:
    """Mean gap of positives over mean gap of negatives; NaN if negatives cost nothing."""
    negative, positive = float(np.mean(gap_negative_N)), float(np.mean(gap_positive_N))
    return positive / negative if negative else float("nan")


def detector_auc(gap_negative_N: FloatArray, gap_positive_N: FloatArray) -> float:
    """Area under the curve of telling negatives from positives by their gaps; ties count half."""
    n, p = len(gap_negative_N), len(gap_positive_N)
    if not n or not p or np.isnan(gap_negative_N).any() or np.isnan(gap_positive_N).any():
        return float("nan")
    ordered_N = np.sort(gap_positive_N)
    below = np.searchsorted(ordered_N, gap_negative_N).sum()
    not_above = np.searchsorted(ordered_N, gap_negative_N, side="right").sum()
    return float((below + not_above) / (2 * n * p))
