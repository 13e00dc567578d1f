"""The probe `profile`: where a model knows who is where and which colour is whose, by cause.

A case is two things in one arrangement, in the opposite one, and with their colours exchanged, with
up to three other things around that no caption names. Each caption is true of one scene of its case
and false of another, and so is its opposite: a scorer that never looks is right in exactly half of
all two-way questions, in every breakdown.

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
    """Of shares of two-way questions that are right."""

    CHANCE = 0.5, "what is not surely above it is at chance"
    KNOWN = 0.9, "a model knows if the low ends of relations and bindings are not below it"


VERDICTS: Mapping[str, tuple[Tone, str]] = {
    "unknown": ("told", "Nothing could be measured: no image and caption have a score."),
    "as a bag": (
        "fails",
        "As of a bag of words, every caption ties or loses: {relations} of relations and "
        "{binding} of bindings.",
    ),
    "chance": (
        "fails",
        "Chance everywhere: {relations} of relations and {binding} of bindings; {confused}.",
    ),
    "knows": ("holds", "{of_relations}; {of_bindings}."),
    "knows some": ("mixed", "{of_relations}; {of_bindings}; {confused}."),
    "knows parts": ("fails", "{of_relations}; {of_bindings}; {confused}."),
}
PHRASES = {
    "chance": "{name} are at chance, {share}",
    "even": "{name} are right in {share}",
    "uneven": (
        "{name} are right in {share}, from {least:value} % ({worst}) to {most:value} % ({best})"
    ),
    "confused": "of eight captions, {relation} is taken for {other} in {share:value} %",
}
TWO_WAY = Known(bag=0.0, perfect=1.0, chance=0.5)
"""A bag of words ties every caption with its opposite, and a tie is a miss; half credit would give
it 0.5."""
ORDER: tuple[Relation, ...] = tuple(RELATIONS)
CHOICE = Known(bag=0.0, perfect=1.0, chance=1 / len(ORDER))
FLAT: frozenset[Relation] = frozenset({"left of", "right of", "above", "below"})
FAR = 32
"""Pixels between the centres of two things from which on they are far: half of the canvas."""
BLOCK = 64
"""Cases after which every relation has met each size, distance and number of things equally."""
CASES = 2 * BLOCK
FULL_CASES = 16 * BLOCK
FEW_CASES = BLOCK
"""For models without vectors, which are asked every question by itself."""
TIED = -1
_TAGS = ("relation", "distance", "size", "objects", "combination")
_FIRST = (*ORDER, "near", "small", "seen")
"""Values of tags as they are listed; the others follow by name."""
_TRIES = 60
_SIZES: tuple[Size, Size] = ("small", "large")
Kind = Literal["relation", "binding", "choice"]


def ask(
    subject: ProbedModel, material: ProbeData, options: Options, progress: Progress
) -> ProbeResult:
    """Scenes of the test split that no benchmark shows."""
    if not material.is_world:
        return ProbeResult(NAME, skipped="needs scenes of the world, whose causes are known")
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
            "a tie is a miss: a bag of words, which ties every caption with its opposite, is at 0, "
            "and would be at 50 if ties counted half",
        ),
    )


def say(finding: ProbeResult) -> Verdict:
    """Relations first, then bindings; where neither is above chance, which relation is mistaken."""
    both = [finding[name].estimate for name in (ON_RELATIONS, ON_BINDING)]
    parts = [finding[name] for name in parts_of(finding.quantities)]
    at = ProfileThresholds
    if not any(one.n for one in both):
        return Verdict(*VERDICTS["unknown"])
    if not any(one.value for one in both):
        case = "as a bag"
    elif not any(one.low > at.CHANCE for one in (*both, *(part.estimate for part in parts))):
        case = "chance"
    elif min(one.low for one in both) >= at.KNOWN:
        case = "knows"
    else:
        case = "knows some" if any(one.low > at.CHANCE for one in both) else "knows parts"
    of: tuple[list[Quantity], list[Quantity]] = ([], [])
    for part in parts:
        of[part.name.startswith(ON_BINDING)].append(part)
    return Verdict(
        *VERDICTS[case],
        {
            "relations": both[0],
            "binding": both[1],
            "of_relations": _range("Relations", both[0], of[0]),
            "of_bindings": _range("bindings", both[1], of[1]),
            "confused": _confused(finding),
        },
    )


PROFILE = Probe(
    name=NAME,
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
    thresholds=tuple(ProfileThresholds),
)


def _range(name: str, share: Estimate, parts: Sequence[Quantity]) -> str:
    """The share, and between which parts it varies."""
    if not share.low > ProfileThresholds.CHANCE:
        return fill(PHRASES["chance"], name=name, share=share)
    ordered = sorted(parts, key=lambda one: (one.estimate.value, one.name))
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


def _confused(finding: ProbeResult) -> str:
    """The relation that is most often taken for its opposite."""
    named = [(finding.get(taken(relation)), relation) for relation in INVERSE]
    found = [(one.estimate, one.name, relation) for one, relation in named if one is not None]
    if not found:
        return ""
    share, _, relation = max(found, key=lambda one: (one[0].value, one[1]))
    return fill(PHRASES["confused"], relation=relation, other=INVERSE[relation], share=share)


def taken(relation: Relation) -> str:
    """Name of the confusion of a relation with its opposite."""
    return f"{relation} taken for {INVERSE[relation]}"


def parts_of(quantities: Sequence[Quantity]) -> list[str]:
    """Names of the breakdowns of both questions."""
    parts = [f"{tag} " for tag in _TAGS]
    ours = (*parts, *(f"{ON_BINDING}, {part}" for part in parts))
    return [one.name for one in quantities if one.name.startswith(ours)]


def _bars(quantities: Sequence[Quantity]) -> Bars:
    names = {ON_RELATIONS, ON_BINDING, *parts_of(quantities)}
    return Bars(
        title="Who is where, and what is which",
        bars=tuple(bar(one, one.name) for one in quantities if one.name in names),
        about="true captions that beat their opposite; chance is 50 %",
    )


def score_items(
    subject: ProbedModel, items: Sequence[Item], progress: Progress
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
    image_ND = space.images([item.images[0] for item in items])
    captions = list(dict.fromkeys(str(c) for item in items for c in item.captions))
    place = {caption: at for at, caption in enumerate(captions)}
    caption_MD = space.captions(captions)
    rows = [[place[str(caption)] for caption in item.captions] for item in items]
    found = []
    for row, image_D in zip(rows, image_ND, strict=True):
        cosine_C = (caption_MD[row] * image_D).sum(axis=-1)
        highest = cosine_C.max()
        # What differs from the highest by rounding only is as high.
        found.append(np.where(cosine_C >= highest - TIE, highest, cosine_C))
    return tuple(found)


def two_way(
    items: Sequence[Item],
    scores: Sequence[FloatArray],
    question: str,
    name: str,
    options: Options,
) -> Iterator[Quantity]:
    """The share of questions whose true caption, the first, beats its opposite; then by tag."""
    found = [(i, s) for i, s in zip(items, scores, strict=True) if i.tags["question"] == question]
    # A tie is no win; NaN if either score is missing.
    credit_N = np.array([float(s[0] > s[1]) if np.isfinite(s).all() else np.nan for _, s in found])
    asked = [item for item, _ in found]
    about = "true captions that beat their opposite"
    yield _mean(name, credit_N, asked, about, TWO_WAY, options)
    for tag in _TAGS:
        values = sorted({item.tags[tag] for item in asked} - {""}, key=_rank)
        for value in values:
            at = [i for i, item in enumerate(asked) if item.tags[tag] == value]
            some = [asked[i] for i in at]
            part = f"{tag} {value}" if name == ON_RELATIONS else f"{name}, {tag} {value}"
            yield _mean(part, credit_N[at], some, f"{about}: {tag} {value}", TWO_WAY, options)


def _rank(value: str) -> tuple[int, str]:
    first = value.split("/")[0]
    return (_FIRST.index(first) if first in _FIRST else len(_FIRST)), value


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


def confusion_grid(items: Sequence[Item], scores: Sequence[FloatArray]) -> Grid:
    """Shares of each true relation; a last column for ties, where there are any."""
    _, true_N, chosen_N = _choices(items, scores)
    columns = [*range(len(ORDER)), *([TIED] if (chosen_N == TIED).any() else [])]
    values = []
    for at in range(len(ORDER)):
        own_N = chosen_N[(true_N == at) & np.isfinite(chosen_N)]
        count = len(own_N) or np.nan
        values.append(tuple(float((own_N == one).sum() / count) for one in columns))
    return Grid(
        title="Which relation is taken for which",
        rows=ORDER,
        columns=tuple("tie" if one == TIED else ORDER[one] for one in columns),
        values=tuple(values),
        row_name="what the scene shows",
        column_name="the caption with the highest score",
        about='captions "a star left of a cup" in all eight relations, the same two things; a '
        "column that is high throughout is a preference for one word, not a confusion",
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


def chosen(score_R: FloatArray) -> int:
    """The relation with the highest score; TIED where several share it."""
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
    """All questions of `n` cases; made once, since every model is asked the same."""
    return tuple(
        item
        for i, case in enumerate(cases(n=n, seed=seed))
        for item in questions(case, f"profile/{seed}/{i}")
    )


def questions(case: SceneCase, name: str) -> Iterator[Item]:
    """Four about relations, two about binding, two with all eight relations to choose from.

    The opposite of "a star left of a cup" is "a cup left of a star": the same words, and for each
    the other scene in which it is true.
    """
    images = [SceneImage(s, f"{name}/{at}") for at, s in enumerate(case.scenes)]
    x, y = Obj(case.first.shape), Obj(case.second.shape)
    inverse = INVERSE[case.relation]
    for relation in (case.relation, inverse):
        both = (Rel(x, relation, y), Rel(y, relation, x))
        # The first scene makes the caption with x true of the case's own relation only.
        own, other = both if relation == case.relation else both[::-1]
        yield _item(case, name, "relation", images[0], (own, other), relation)
        yield _item(case, name, "relation", images[1], (other, own), relation)
    bound, exchanged = bindings(case)
    axis = "/".join(sorted((case.relation, inverse), key=ORDER.index))
    yield _item(case, name, "binding", images[0], (bound, exchanged), axis)
    yield _item(case, name, "binding", images[2], (exchanged, bound), axis)
    for image, relation in ((images[0], case.relation), (images[1], inverse)):
        yield _item(case, name, "choice", image, _eight(case), relation)


def _item(
    case: SceneCase,
    name: str,
    kind: Kind,
    image: SceneImage,
    said: Sequence[Ast],
    relation: str,
) -> Item:
    # Of two captions the first is true.
    true = ORDER.index(relation) if kind == "choice" else 0
    scenes = [replace(s, things=s.things[:2]) for s in case.scenes]
    shown = (scenes[0], scenes[2]) if kind == "binding" else scenes[:1]
    tags = {
        "question": kind,
        "relation": relation,
        "distance": case.distance,
        "size": case.first.size,
        "objects": str(len(case.scenes[0].things)),
        "combination": combination(shown),
    }
    return Item(
        id=f"{image.name}/{kind}/{relation}",
        images=(image,),
        captions=tuple(map(realise, said)),
        truth=np.arange(len(said))[None] == true,
        group=name,
        tags=tags,
    )


@dataclass(frozen=True)
class SceneCase:
    """Two things, and the scenes they are shown in."""

    first: Look
    second: Look
    relation: Relation
    """Of the first to the second in the first scene; the inverse holds in the second."""
    scenes: tuple[Scene, Scene, Scene]
    """As the relation says; with the two things exchanged; as the first with exchanged colours."""
    distance: Literal["near", "far", ""]
    """Empty where things touch or overlap."""


def cases(*, n: int, seed: int = 0) -> Iterator[SceneCase]:
    """`n` cases of the test split, number i the same whatever n is; take multiples of `BLOCK`."""
    for i in range(n):
        rng = np.random.default_rng((split_seed("test", seed), crc32(b"profile"), i))
        turn = i // len(ORDER)
        size, others = turn % 2, (turn // 2) % 4
        is_far = bool((size + others + turn // 8) % 2)
        yield _case(ORDER[i % len(ORDER)], _SIZES[size], others, is_far, rng)


def _case(
    relation: Relation, size: Size, others: int, is_far: bool, rng: np.random.Generator
) -> SceneCase:
    while True:
        a, b = (replace(sample_look(DEFAULT, rng), size=size) for _ in range(2))
        if a.shape == b.shape or a.colour == b.colour:
            continue
        kept, exchanged = place_exchanged(DEFAULT, a, b, relation, rng)
        x, y = kept.things
        lies_far = (x.x - y.x) ** 2 + (x.y - y.y) ** 2 >= FAR**2
        if relation in FLAT and lies_far != is_far:
            continue
        around = _around(others, (a, b), (kept, exchanged), rng)
        scenes = [
            replace(scene, things=(*scene.things, *around))
            for scene in (kept, exchanged, exchange_colours(kept))
        ]
        distance: Literal["near", "far", ""] = "far" if is_far else "near"
        case = SceneCase(
            a,
            b,
            relation,
            (scenes[0], scenes[1], scenes[2]),
            distance if relation in FLAT else "",
        )
        if len(around) == others and _is_right(case):
            return case


def _around(
    count: int, named: tuple[Look, Look], scenes: Sequence[Scene], rng: np.random.Generator
) -> tuple[Thing, ...]:
    """Small things of other shapes and colours, apart from all; fewer where there is no room."""
    withheld = withheld_combinations(DEFAULT)
    shapes = [look.shape for look in named]
    colours = [look.colour for look in named]
    radius = DEFAULT.radii["small"]
    found: list[Thing] = []
    for _ in range(_TRIES * count):
        if len(found) == count:
            break
        look = replace(sample_look(DEFAULT, rng), size="small")
        x, y = rng.integers(radius, DEFAULT.pixels - radius, size=2).tolist()
        if look.shape in shapes or look.colour in colours:
            continue
        if (look.shape, look.colour) in withheld:
            continue
        rgb = jittered(look.colour, rng)
        thing = Thing(look.shape, look.colour, "small", look.texture, x, y, rgb)
        lying = [*(other for scene in scenes for other in scene.things), *found]
        if all(_is_apart(other, thing) for other in lying):
            found.append(thing)
            shapes.append(look.shape)
    return tuple(found)


def _is_apart(other: Thing, thing: Thing) -> bool:
    return lie_apart(other, thing, DEFAULT) and pair_is_clear(other, thing, DEFAULT)


def _is_right(case: SceneCase) -> bool:
    """Nothing in doubt, and every caption true of its own scene only."""
    kept, exchanged, recoloured = case.scenes
    of_kept = [holds(ast, kept) for ast in _eight(case)]
    of_exchanged = [holds(ast, exchanged) for ast in _eight(case)]
    own, other = bindings(case)
    return (
        all(map(is_clear, case.scenes))
        and of_kept == [r == case.relation for r in ORDER]
        and of_exchanged == [r == INVERSE[case.relation] for r in ORDER]
        and [holds(ast, scene) for ast in (own, other) for scene in (kept, recoloured)]
        == [True, False, False, True]
    )


def _eight(case: SceneCase) -> list[Rel]:
    """The first thing in every relation to the second."""
    return [Rel(Obj(case.first.shape), r, Obj(case.second.shape)) for r in ORDER]


def bindings(case: SceneCase) -> tuple[And, And]:
    """Both things with their colours, and with each other's."""
    a, b = case.first, case.second
    return (
        And(Obj(a.shape, a.colour), Obj(b.shape, b.colour)),
        And(Obj(a.shape, b.colour), Obj(b.shape, a.colour)),
    )
