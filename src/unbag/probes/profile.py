"""The probe `profile`: accuracy on relations and colours of things, by properties of the scene.

A case shows two things in one arrangement, in the opposite one, and with exchanged colours, with up
to three other things that no caption names. Each caption is true of one scene of its case and false
of another, and so is its opposite: a scorer that ignores images has an accuracy of exactly 50 % on
two-way questions, in every breakdown.

Dimensions: N questions, P images and C captions of a question, R relations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal
from zlib import crc32

import numpy as np

from unbag.evaluation.scoring import CHUNK, QueryScoring
from unbag.probes.base import (
    Bars,
    Grid,
    Known,
    Options,
    Probe,
    ProbeData,
    ProbedModel,
    ProbeResult,
    Quantity,
    Thresholds,
    Tone,
    Verdict,
    bar,
    fill,
    mean,
)
from unbag.probes.space import TIE, Space
from unbag.runs.progress import Progress
from unbag.types import Estimate, FloatArray, Item
from unbag.world.benchmarks import combination
from unbag.world.grammar import And, Ast, Obj, Rel, holds, realise
from unbag.world.placement import Look, exchange_colours, jittered, place_exchanged, sample_look
from unbag.world.rendering import SceneImage
from unbag.world.scenes import Scene, Thing, is_clear, lie_apart, pair_is_clear
from unbag.world.stream import split_seed
from unbag.world.vocabulary import (
    DEFAULT,
    INVERSE,
    RELATIONS,
    Relation,
    Size,
    withheld_combinations,
)

NAME = "profile"
ON_RELATIONS = "relations"
ON_BINDING = "binding"
"""Names of the two questions, and of their quantities."""


class ProfileThresholds(Thresholds):
    """Thresholds on the accuracy on two-way questions."""

    CHANCE = 0.5, "an accuracy whose interval is not above this is at chance"
    KNOWN = 0.9, "it knows if the low ends of relations and bindings are not below this"


VERDICTS: Mapping[str, tuple[Tone, str]] = {
    "unknown": ("told", "Not measured: no image and caption have a score."),
    "as a bag": (
        "fails",
        "Like for a bag of words, no caption beats its opposite: {relations} of relations and "
        "{binding} of bindings are right.",
    ),
    "chance": (
        "fails",
        "Chance everywhere: {relations} of relations and {binding} of bindings are right; "
        "{confused}.",
    ),
    "knows": ("holds", "{of_relations}; {of_bindings}."),
    "knows some": ("mixed", "{of_relations}; {of_bindings}; {confused}."),
    "knows parts": ("fails", "{of_relations}; {of_bindings}; {confused}."),
}
PHRASES = {
    "chance": "{name} are at chance ({share})",
    "even": "{name} are right in {share} of cases",
    "uneven": (
        "{name} are right in {share} of cases, from {least:value} % ({worst}) to {most:value} % "
        "({best})"
    ),
    "confused": (
        "among eight captions, {relation} is confused with {other} in {share:value} % of scenes"
    ),
}
TWO_WAY = Known(bag=0.0, perfect=1.0, chance=0.5)
"""A bag of words ties every caption with its opposite, and a tie is wrong; half credit would give
it 0.5."""
ORDER: tuple[Relation, ...] = tuple(RELATIONS)
CHOICE = Known(bag=0.0, perfect=1.0, chance=1 / len(ORDER))
FLAT: frozenset[Relation] = frozenset({"left of", "right of", "above", "below"})
FAR = 32
"""Minimum distance in pixels between the centres of far things: half of the canvas."""
BLOCK = 64
"""Cases in which every relation has each size, distance and number of things equally often."""
CASES = 2 * BLOCK
FULL_CASES = 16 * BLOCK
FEW_CASES = BLOCK
"""Number of cases for models without vectors, which score every question separately."""
TIED = -1
_TAGS = ("relation", "distance", "size", "objects", "combination")
_FIRST = (*ORDER, "near", "small", "seen")
"""Tag values in this order; others follow by name."""
_TRIES = 60
_SIZES: tuple[Size, Size] = ("small", "large")
Kind = Literal["relation", "binding", "choice"]


def ask(subject: ProbedModel, data: ProbeData, options: Options, progress: Progress) -> ProbeResult:
    """Score scenes of the test split that no benchmark uses."""
    if not data.is_world:
        return ProbeResult(
            NAME, skipped="it needs scenes of the built-in world, whose properties are known"
        )
    count = CASES if subject.space is not None else FEW_CASES
    items = profile_items(n=FULL_CASES if options.is_full else count, seed=options.seed)
    scores = score_items(subject, items, progress)
    quantities = (
        *two_way(items, scores, "relation", ON_RELATIONS, options),
        *two_way(items, scores, "binding", ON_BINDING, options),
        *confusions(items, scores, options),
    )
    return ProbeResult(
        NAME,
        quantities,
        headline=ON_RELATIONS,
        plots=(_bars(quantities), confusion_grid(items, scores)),
        notes=(
            "a tie is wrong: a bag of words, which ties every caption with its opposite, has 0 %, "
            "and would have 50 % if ties counted half",
        ),
    )


def say(result: ProbeResult) -> Verdict:
    """Say the accuracy on relations and bindings, and which relation is most often confused."""
    estimates = [result[name].estimate for name in (ON_RELATIONS, ON_BINDING)]
    parts = [result[name] for name in parts_of(result.quantities)]
    thresholds = ProfileThresholds
    if not any(estimate.n for estimate in estimates):
        return Verdict(*VERDICTS["unknown"])
    if not any(estimate.value for estimate in estimates):
        case = "as a bag"
    elif not any(
        estimate.low > thresholds.CHANCE
        for estimate in (*estimates, *(part.estimate for part in parts))
    ):
        case = "chance"
    elif min(estimate.low for estimate in estimates) >= thresholds.KNOWN:
        case = "knows"
    else:
        case = (
            "knows some"
            if any(estimate.low > thresholds.CHANCE for estimate in estimates)
            else "knows parts"
        )
    parts_by_question: tuple[list[Quantity], list[Quantity]] = ([], [])
    for part in parts:
        parts_by_question[part.name.startswith(ON_BINDING)].append(part)
    return Verdict(
        *VERDICTS[case],
        {
            "relations": estimates[0],
            "binding": estimates[1],
            "of_relations": _range("Relations", estimates[0], parts_by_question[0]),
            "of_bindings": _range("bindings", estimates[1], parts_by_question[1]),
            "confused": _confused(result),
        },
    )


PROFILE = Probe(
    name=NAME,
    question="Where does it know who is where, and which colour is whose?",
    about="Scenes of the world in pairs: two things in both arrangements, and in exchanged "
    'colours, with up to three others around. "a star left of a cup" must beat "a cup left of a '
    'star", and "a red star and a blue cup" must beat the one with exchanged colours. The accuracy '
    "is broken down by relation, distance (near: centres less than half of the canvas apart), "
    "size, number of things, and whether tiny:base saw the combination of shape and colour in "
    "training. Then all eight relations are offered at once, to see which is confused with which. "
    "Every caption is true as often as false, so a scorer that ignores images has exactly 50 %. "
    "Ours; after What'sUp (Kamath et al. 2023). Limits: drawn scenes; pairs have less room among "
    "many things.",
    ask=ask,
    say=say,
    thresholds=tuple(ProfileThresholds),
)


def _range(name: str, share: Estimate, parts: Sequence[Quantity]) -> str:
    """Say the accuracy, with the worst and the best part."""
    if not share.low > ProfileThresholds.CHANCE:
        return fill(PHRASES["chance"], name=name, share=share)
    ordered = sorted(parts, key=lambda part: (part.estimate.value, part.name))
    worst, best = ordered[0], ordered[-1]
    return fill(
        PHRASES["even" if worst.estimate.value == best.estimate.value else "uneven"],
        name=name,
        share=share,
        least=worst.estimate,
        worst=worst.name.removeprefix(f"{ON_BINDING}, "),
        most=best.estimate,
        best=best.name.removeprefix(f"{ON_BINDING}, "),
    )


def _confused(result: ProbeResult) -> str:
    """Name the relation that is most often confused with its opposite."""
    quantities = [(result.get(taken(relation)), relation) for relation in INVERSE]
    confused = [
        (quantity.estimate, quantity.name, relation)
        for quantity, relation in quantities
        if quantity is not None
    ]
    if not confused:
        return ""
    share, _, relation = max(confused, key=lambda quantity: (quantity[0].value, quantity[1]))
    return fill(PHRASES["confused"], relation=relation, other=INVERSE[relation], share=share)


def taken(relation: Relation) -> str:
    """Return the name of the confusion of a relation with its opposite."""
    return f"{relation} taken for {INVERSE[relation]}"


def parts_of(quantities: Sequence[Quantity]) -> list[str]:
    """Return the names of the breakdowns of both questions."""
    parts = [f"{tag} " for tag in _TAGS]
    prefixes = (*parts, *(f"{ON_BINDING}, {part}" for part in parts))
    return [quantity.name for quantity in quantities if quantity.name.startswith(prefixes)]


def _bars(quantities: Sequence[Quantity]) -> Bars:
    names = {ON_RELATIONS, ON_BINDING, *parts_of(quantities)}
    return Bars(
        title="Who is where, and what is which",
        bars=tuple(
            bar(quantity, quantity.name) for quantity in quantities if quantity.name in names
        ),
        about="true captions that beat their opposite; chance is 50 %",
    )


def score_items(
    subject: ProbedModel, items: Sequence[Item], progress: Progress
) -> tuple[FloatArray, ...]:
    """Return scores [C] of each question: cosines, or scores of a read-out or another scorer."""
    if subject.space is not None and not subject.has_readout:
        return _cosines(subject.space, items)
    scoring = QueryScoring(subject.scorer)
    scores: list[FloatArray] = []
    with progress.task(f"{subject.name}: scenes", len(items)) as advance:
        for start in range(0, len(items), CHUNK):
            chunk = items[start : start + CHUNK]
            value_of = {
                item_scores.item: item_scores.values for item_scores in scoring.chunk(chunk)
            }
            for item in chunk:
                value_PC = value_of[item.id]
                assert value_PC is not None
                scores.append(value_PC[0])
            advance(len(chunk))
    return tuple(scores)


def _cosines(space: Space, items: Sequence[Item]) -> tuple[FloatArray, ...]:
    image_ND = space.images([item.images[0] for item in items])
    captions = list(dict.fromkeys(str(c) for item in items for c in item.captions))
    row_of = {caption: number for number, caption in enumerate(captions)}
    caption_MD = space.captions(captions)
    rows = [[row_of[str(caption)] for caption in item.captions] for item in items]
    scores = []
    for row, image_D in zip(rows, image_ND, strict=True):
        cosine_C = (caption_MD[row] * image_D).sum(axis=-1)
        highest = cosine_C.max()
        # A score that differs from the highest by rounding only is a tie.
        scores.append(np.where(cosine_C >= highest - TIE, highest, cosine_C))
    return tuple(scores)


def two_way(
    items: Sequence[Item],
    scores: Sequence[FloatArray],
    question: str,
    name: str,
    options: Options,
) -> Iterator[Quantity]:
    """Yield the share of true captions that beat their opposite; then by tag."""
    asked_scores = [
        (i, s) for i, s in zip(items, scores, strict=True) if i.tags["question"] == question
    ]
    # The true caption is the first. A tie is wrong; NaN if a score is missing.
    credit_N = np.array(
        [float(s[0] > s[1]) if np.isfinite(s).all() else np.nan for _, s in asked_scores]
    )
    asked_items = [item for item, _ in asked_scores]
    about = "true captions that beat their opposite"
    yield _mean(name, credit_N, asked_items, about, TWO_WAY, options)
    for tag in _TAGS:
        values = sorted({item.tags[tag] for item in asked_items} - {""}, key=_rank)
        for value in values:
            places = [i for i, item in enumerate(asked_items) if item.tags[tag] == value]
            items_with_tag = [asked_items[i] for i in places]
            part = f"{tag} {value}" if name == ON_RELATIONS else f"{name}, {tag} {value}"
            yield _mean(
                part, credit_N[places], items_with_tag, f"{about}: {tag} {value}", TWO_WAY, options
            )


def _rank(value: str) -> tuple[int, str]:
    first = value.split("/")[0]
    return (_FIRST.index(first) if first in _FIRST else len(_FIRST)), value


def confusions(
    items: Sequence[Item], scores: Sequence[FloatArray], options: Options
) -> Iterator[Quantity]:
    """Yield how often the true one of eight relations is chosen, and how often its opposite."""
    asked_items, true_N, chosen_N = _choices(items, scores)
    right_N = np.where(np.isnan(chosen_N), np.nan, (chosen_N == true_N).astype(float))
    about = "scenes whose relation is chosen among all eight"
    yield _mean("choice of eight", right_N, asked_items, about, CHOICE, options)
    for number, relation in enumerate(ORDER):
        opposite = ORDER.index(INVERSE[relation])
        places = np.flatnonzero(true_N == number)
        taken_N = np.where(np.isnan(chosen_N), np.nan, (chosen_N == opposite).astype(float))[places]
        yield _mean(
            taken(relation),
            taken_N,
            [asked_items[i] for i in places],
            f"scenes with {relation} whose highest caption of eight says {INVERSE[relation]}",
            Known(perfect=0.0, chance=1 / len(ORDER)),
            options,
        )


def confusion_grid(items: Sequence[Item], scores: Sequence[FloatArray]) -> Grid:
    """Tabulate choices by true relation, with a last column for ties if there are any."""
    _, true_N, chosen_N = _choices(items, scores)
    columns = [*range(len(ORDER)), *([TIED] if (chosen_N == TIED).any() else [])]
    values = []
    for number in range(len(ORDER)):
        chosen_of_N = chosen_N[(true_N == number) & np.isfinite(chosen_N)]
        count = len(chosen_of_N) or np.nan
        values.append(tuple(float((chosen_of_N == column).sum() / count) for column in columns))
    return Grid(
        title="Which relation is confused with which",
        rows=ORDER,
        columns=tuple("tie" if column == TIED else ORDER[column] for column in columns),
        values=tuple(values),
        row_name="what the scene shows",
        column_name="the caption with the highest score",
        about='captions "a star left of a cup" in all eight relations, the same two things; a '
        "column that is high throughout is a preference for one word, not a confusion",
    )


def _choices(
    items: Sequence[Item], scores: Sequence[FloatArray]
) -> tuple[list[Item], FloatArray, FloatArray]:
    """Return questions with eight captions, their true relations and the chosen ones, or NaN."""
    item_scores = [
        (i, s) for i, s in zip(items, scores, strict=True) if i.tags["question"] == "choice"
    ]
    asked_items = [item for item, _ in item_scores]
    true_N = np.array([ORDER.index(item.tags["relation"]) for item in asked_items], dtype=float)
    chosen_relations = [chosen(s) if np.isfinite(s).all() else np.nan for _, s in item_scores]
    return asked_items, true_N, np.array(chosen_relations, dtype=float)


def chosen(score_R: FloatArray) -> int:
    """Return the relation with the highest score; TIED if several share it."""
    best = np.flatnonzero(score_R == score_R.max())
    return int(best[0]) if len(best) == 1 else TIED


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


@cache
def profile_items(*, n: int, seed: int = 0) -> tuple[Item, ...]:
    """Return all questions of `n` cases, cached since every model gets the same questions."""
    return tuple(
        item
        for i, case in enumerate(cases(n=n, seed=seed))
        for item in questions(case, f"profile/{seed}/{i}")
    )


def questions(case: SceneCase, name: str) -> Iterator[Item]:
    """Yield four questions about relations, two about binding and two with eight captions.

    The opposite of "a star left of a cup" is "a cup left of a star": the same words, true of the
    other scene.
    """
    images = [SceneImage(s, f"{name}/{number}") for number, s in enumerate(case.scenes)]
    x, y = Obj(case.first.shape), Obj(case.second.shape)
    inverse = INVERSE[case.relation]
    for relation in (case.relation, inverse):
        both = (Rel(x, relation, y), Rel(y, relation, x))
        # In the first scene, the caption that begins with x is true for the case's own relation.
        own, other = both if relation == case.relation else both[::-1]
        yield _item(case, name, "relation", images[0], (own, other), relation)
        yield _item(case, name, "relation", images[1], (other, own), relation)
    own_binding, other_binding = bindings(case)
    axis = "/".join(sorted((case.relation, inverse), key=ORDER.index))
    yield _item(case, name, "binding", images[0], (own_binding, other_binding), axis)
    yield _item(case, name, "binding", images[2], (other_binding, own_binding), axis)
    for image, relation in ((images[0], case.relation), (images[1], inverse)):
        yield _item(case, name, "choice", image, _eight(case), relation)


def _item(
    case: SceneCase,
    name: str,
    kind: Kind,
    image: SceneImage,
    captions: Sequence[Ast],
    relation: str,
) -> Item:
    # Of two captions, the first is true.
    true_place = ORDER.index(relation) if kind == "choice" else 0
    scenes = [replace(s, things=s.things[:2]) for s in case.scenes]
    scenes_shown = (scenes[0], scenes[2]) if kind == "binding" else scenes[:1]
    tags = {
        "question": kind,
        "relation": relation,
        "distance": case.distance,
        "size": case.first.size,
        "objects": str(len(case.scenes[0].things)),
        "combination": combination(scenes_shown),
    }
    return Item(
        id=f"{image.name}/{kind}/{relation}",
        images=(image,),
        captions=tuple(map(realise, captions)),
        truth=np.arange(len(captions))[None] == true_place,
        group=name,
        tags=tags,
    )


@dataclass(frozen=True)
class SceneCase:
    """Two things and their scenes."""

    first: Look
    second: Look
    relation: Relation
    """Relation of the first to the second in the first scene; the inverse holds in the second."""
    scenes: tuple[Scene, Scene, Scene]
    """The original; with the two things exchanged; the original with exchanged colours."""
    distance: Literal["near", "far", ""]
    """Empty for relations in which things touch or overlap."""


def cases(*, n: int, seed: int = 0) -> Iterator[SceneCase]:
    """Yield `n` cases of the test split; case i is the same for any n. Use multiples of `BLOCK`."""
    for i in range(n):
        rng = np.random.default_rng((split_seed("test", seed), crc32(b"profile"), i))
        round_number = i // len(ORDER)
        size, others = round_number % 2, (round_number // 2) % 4
        is_far = bool((size + others + round_number // 8) % 2)
        yield _case(ORDER[i % len(ORDER)], _SIZES[size], others, is_far, rng)


def _case(
    relation: Relation, size: Size, others: int, is_far: bool, rng: np.random.Generator
) -> SceneCase:
    while True:
        a, b = (replace(sample_look(DEFAULT, rng), size=size) for _ in range(2))
        if a.shape == b.shape or a.colour == b.colour:
            continue
        original, exchanged = place_exchanged(DEFAULT, a, b, relation, rng)
        x, y = original.things
        lies_far = (x.x - y.x) ** 2 + (x.y - y.y) ** 2 >= FAR**2
        if relation in FLAT and lies_far != is_far:
            continue
        distractors = _distractors(others, (a, b), (original, exchanged), rng)
        scenes = [
            replace(scene, things=(*scene.things, *distractors))
            for scene in (original, exchanged, exchange_colours(original))
        ]
        distance: Literal["near", "far", ""] = "far" if is_far else "near"
        case = SceneCase(
            a,
            b,
            relation,
            (scenes[0], scenes[1], scenes[2]),
            distance if relation in FLAT else "",
        )
        if len(distractors) == others and _is_valid(case):
            return case


def _distractors(
    count: int, named: tuple[Look, Look], scenes: Sequence[Scene], rng: np.random.Generator
) -> tuple[Thing, ...]:
    """Draw small things of other shapes and colours, apart from all; fewer if there is no room."""
    withheld = withheld_combinations(DEFAULT)
    shapes = [look.shape for look in named]
    colours = [look.colour for look in named]
    radius = DEFAULT.radii["small"]
    distractors: list[Thing] = []
    for _ in range(_TRIES * count):
        if len(distractors) == count:
            break
        look = replace(sample_look(DEFAULT, rng), size="small")
        x, y = rng.integers(radius, DEFAULT.pixels - radius, size=2).tolist()
        if look.shape in shapes or look.colour in colours:
            continue
        if (look.shape, look.colour) in withheld:
            continue
        rgb = jittered(look.colour, rng)
        thing = Thing(look.shape, look.colour, "small", look.texture, x, y, rgb)
        neighbours = [*(other for scene in scenes for other in scene.things), *distractors]
        if all(_is_apart(other, thing) for other in neighbours):
            distractors.append(thing)
            shapes.append(look.shape)
    return tuple(distractors)


def _is_apart(other: Thing, thing: Thing) -> bool:
    return lie_apart(other, thing, DEFAULT) and pair_is_clear(other, thing, DEFAULT)


def _is_valid(case: SceneCase) -> bool:
    """Whether all scenes are clear and every caption is true of its own scene only."""
    original, exchanged, recoloured = case.scenes
    of_original = [holds(ast, original) for ast in _eight(case)]
    of_exchanged = [holds(ast, exchanged) for ast in _eight(case)]
    own, other = bindings(case)
    return (
        all(map(is_clear, case.scenes))
        and of_original == [r == case.relation for r in ORDER]
        and of_exchanged == [r == INVERSE[case.relation] for r in ORDER]
        and [holds(ast, scene) for ast in (own, other) for scene in (original, recoloured)]
        == [True, False, False, True]
    )


def _eight(case: SceneCase) -> list[Rel]:
    """Return captions with the first thing in every relation to the second."""
    return [Rel(Obj(case.first.shape), r, Obj(case.second.shape)) for r in ORDER]


def bindings(case: SceneCase) -> tuple[And, And]:
    """Return captions with both things in their colours, and in exchanged colours."""
    a, b = case.first, case.second
    return (
        And(Obj(a.shape, a.colour), Obj(b.shape, b.colour)),
        And(Obj(a.shape, b.colour), Obj(b.shape, a.colour)),
    )
