"""Where does a model know who is where, and what is which? Accuracy on scenes, told apart by cause.

Dimensions: N questions, C captions of a question, R relations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from unbag.engine.asking import CHUNK, QueryScoring
from unbag.engine.progress import Progress
from unbag.probes.finding import Finding, Known, Options, Quantity, mean
from unbag.probes.material import Material
from unbag.probes.plots import Bars, Grid
from unbag.probes.probe import Probe, Subject
from unbag.probes.profile_said import BINDING, RELATIONS, parts_of, say, taken
from unbag.probes.profile_scenes import BLOCK, ORDER, profile_items
from unbag.probes.saying import bar
from unbag.probes.space import Space
from unbag.probes.vectors import TIE as ROUNDING
from unbag.types import FloatArray, Item
from unbag.world.words import INVERSE

CASES = 2 * BLOCK
FULL_CASES = 16 * BLOCK
FEW_CASES = BLOCK
"""For models without vectors, which are asked every question by itself."""
TIE = -1
TWO_WAY = Known(bag=0.0, perfect=1.0, chance=0.5)
"""A bag of words ties every caption with its opposite, and a tie is a miss; half credit would give
it 0.5."""
CHOICE = Known(bag=0.0, perfect=1.0, chance=1 / len(ORDER))
_TAGS = ("relation", "distance", "size", "objects", "combination")
_FIRST = (*ORDER, "near", "small", "seen")
"""Values of tags as they are listed; the others follow by name."""


def ask(subject: Subject, material: Material, options: Options, progress: Progress) -> Finding:
    """Scenes of the test split that no benchmark shows."""
    if not material.is_world:
        return Finding("profile", skipped="needs scenes of the world, whose causes are known")
    count = CASES if subject.space is not None else FEW_CASES
    items = profile_items(n=FULL_CASES if options.is_full else count, seed=options.seed)
    scores = score_items(subject, items, progress)
    quantities = (
        *two_way(items, scores, "relation", RELATIONS, options),
        *two_way(items, scores, "binding", BINDING, options),
        *confusions(items, scores, options),
    )
    return Finding(
        "profile",
        quantities,
        headline=RELATIONS,
        plots=(_bars(quantities), confusion_grid(items, scores)),
        notes=(
            "a tie is a miss: a bag of words, which ties every caption with its opposite, is at 0, "
            "and would be at 50 if ties counted half",
        ),
    )


def score_items(
    subject: Subject, items: Sequence[Item], progress: Progress
) -> tuple[FloatArray, ...]:
    """[C] for each question: cosines of vectors, or what a read-out or another scorer says."""
    if subject.space is not None and not subject.has_readout:
        return _by_vectors(subject.space, items)
    asking = QueryScoring(subject.scorer)
    found: list[FloatArray] = []
    with progress.task(f"{subject.name}: scenes", len(items)) as advance:
        for at in range(0, len(items), CHUNK):
            some = items[at : at + CHUNK]
            value_of = {one.item: one.values for one in asking.chunk(some)}
            for item in some:
                value_PC = value_of[item.id]
                assert value_PC is not None
                found.append(value_PC[0])
            advance(len(some))
    return tuple(found)


def _by_vectors(space: Space, items: Sequence[Item]) -> tuple[FloatArray, ...]:
    picture_ND = space.pictures([item.pictures[0] for item in items])
    captions = list(dict.fromkeys(str(c) for item in items for c in item.captions))
    place = {caption: at for at, caption in enumerate(captions)}
    caption_MD = space.captions(captions)
    rows = [[place[str(caption)] for caption in item.captions] for item in items]
    return tuple(
        _tied((caption_MD[row] * picture_D).sum(axis=-1))
        for row, picture_D in zip(rows, picture_ND, strict=True)
    )


def _tied(cosine_C: FloatArray) -> FloatArray:
    """What differs from the highest by rounding only is as high."""
    highest = cosine_C.max()
    return np.where(cosine_C >= highest - ROUNDING, highest, cosine_C)


def two_way(
    items: Sequence[Item],
    scores: Sequence[FloatArray],
    question: str,
    name: str,
    options: Options,
) -> Iterator[Quantity]:
    """The share of questions whose true caption, the first, beats its opposite; then by tag."""
    found = [(i, s) for i, s in zip(items, scores, strict=True) if i.tags["question"] == question]
    credit_N = np.array([_wins(score_C) for _, score_C in found])
    asked = [item for item, _ in found]
    about = "true captions that beat their opposite"
    yield _mean(name, credit_N, asked, about, TWO_WAY, options)
    for tag in _TAGS:
        values = sorted({item.tags[tag] for item in asked} - {""}, key=_rank)
        for value in values:
            at = [i for i, item in enumerate(asked) if item.tags[tag] == value]
            some = [asked[i] for i in at]
            part = f"{tag} {value}" if name == RELATIONS else f"{name}, {tag} {value}"
            yield _mean(part, credit_N[at], some, f"{about}: {tag} {value}", TWO_WAY, options)


def _wins(score_C: FloatArray) -> float:
    """1 if the first is above the second, 0 if not or at a tie, NaN if either is missing."""
    return float(score_C[0] > score_C[1]) if np.isfinite(score_C).all() else float("nan")


def _rank(value: str) -> tuple[int, str]:
    first = value.split("/")[0]
    return (_FIRST.index(first) if first in _FIRST else len(_FIRST)), value


def _mean(
    name: str,
    credit_N: FloatArray,
    items: Sequence[Item],
    about: str,
    known: Known,
    options: Options,
) -> Quantity:
    return mean(
        name,
        credit_N,
        about=about,
        options=options,
        units=[item.id for item in items],
        clusters=[item.group for item in items],
        known=known,
        better="lower" if known.perfect == 0 else "higher",
        is_rate=True,
    )


def chosen(score_R: FloatArray) -> int:
    """The relation with the highest score; TIE where several share it."""
    best = np.flatnonzero(score_R == score_R.max())
    return int(best[0]) if len(best) == 1 else TIE


def confusions(
    items: Sequence[Item], scores: Sequence[FloatArray], options: Options
) -> Iterator[Quantity]:
    """How often the true one of eight relations is chosen, and how often its opposite."""
    asked, true_N, chosen_N = _choices(items, scores)
    right_N = np.where(np.isnan(chosen_N), np.nan, (chosen_N == true_N).astype(float))
    about = "scenes whose relation is chosen among all eight"
    yield _mean("choice of eight", right_N, asked, about, CHOICE, options)
    for at, relation in enumerate(ORDER):
        opposite = ORDER.index(INVERSE[relation])
        own = np.flatnonzero(true_N == at)
        taken_N = np.where(np.isnan(chosen_N), np.nan, (chosen_N == opposite).astype(float))[own]
        yield _mean(
            taken(relation),
            taken_N,
            [asked[i] for i in own],
            f"scenes with {relation} whose highest caption of eight says {INVERSE[relation]}",
            Known(perfect=0.0, chance=1 / len(ORDER)),
            options,
        )


def _choices(
    items: Sequence[Item], scores: Sequence[FloatArray]
) -> tuple[list[Item], FloatArray, FloatArray]:
    """Questions with eight captions, the true relation of each and the one chosen, or NaN."""
    pairs = [(i, s) for i, s in zip(items, scores, strict=True) if i.tags["question"] == "choice"]
    asked = [item for item, _ in pairs]
    true_N = np.array([ORDER.index(item.tags["relation"]) for item in asked], dtype=float)
    found = [chosen(s) if np.isfinite(s).all() else np.nan for _, s in pairs]
    return asked, true_N, np.array(found, dtype=float)


def confusion_grid(items: Sequence[Item], scores: Sequence[FloatArray]) -> Grid:
    """Shares of each true relation; a last column for ties, where there are any."""
    _, true_N, chosen_N = _choices(items, scores)
    columns = [*range(len(ORDER)), *([TIE] if (chosen_N == TIE).any() else [])]
    values = []
    for at in range(len(ORDER)):
        own_N = chosen_N[(true_N == at) & np.isfinite(chosen_N)]
        count = len(own_N) or np.nan
        values.append(tuple(float((own_N == one).sum() / count) for one in columns))
    return Grid(
        title="Which relation is taken for which",
        rows=ORDER,
        columns=tuple("tie" if one == TIE else ORDER[one] for one in columns),
        values=tuple(values),
        row_name="what the scene shows",
        column_name="the caption with the highest score",
        about='captions "a star left of a cup" in all eight relations, the same two things; a '
        "column that is high throughout is a preference for one word, not a confusion",
    )


def _bars(quantities: Sequence[Quantity]) -> Bars:
    names = {RELATIONS, BINDING, *parts_of(quantities)}
    return Bars(
        title="Who is where, and what is which",
        bars=tuple(bar(one, one.name) for one in quantities if one.name in names),
        about="true captions that beat their opposite; chance is 50 %",
    )


PROFILE = Probe(
    name="profile",
    question="Where does it know who is where, and which colour is whose?",
    about="Scenes of the world in pairs: two things in both arrangements, and in exchanged "
    'colours, with up to three others around. "a star left of a cup" must beat "a cup left of a '
    'star", and "a red star and a blue cup" must beat the one with exchanged colours; the share '
    "of such questions is told apart by relation, distance (near: centres under half of the canvas "
    "apart), size, number of things, and whether a shape has a colour that tiny:base never saw it "
    "in. All eight relations are then offered at once, for what is taken for what. Every caption "
    "is true as often as false, so a scorer that never looks has exactly 50 %. Ours; after "
    "What'sUp (Kamath et al. 2023). Limits: drawn scenes; where many things lie around, pairs have "
    "less room.",
    ask=ask,
    say=say,
)
