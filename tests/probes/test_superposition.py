"""The probe superposition: sums, optima and fits with known numbers."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from unbag.errors import UnbagError
from unbag.models.tiny import load
from unbag.probes.base import Bars, Options, ProbeData, ProbeResult
from unbag.probes.concepts import concept_vectors, rings
from unbag.probes.reference_spaces import (
    ConstructedSpace,
    bag_of_words_space,
    collapsed_space,
    constructed_subject,
    perfect_space,
    scene_behind,
    signs,
)
from unbag.probes.space import EncoderSpace, cosines, unit
from unbag.probes.superposition import (
    SUPERPOSITION,
    VERDICTS,
    cone,
    fit_additive,
    optimum,
    superposed,
    superposed_pairs,
    superposition,
)
from unbag.registry import find
from unbag.types import FloatArray, ImageSource
from unbag.world.grammar import Obj, parse
from unbag.world.scenes import Thing
from unbag.world.vocabulary import DEFAULT

from .asking import case_of, run_probe

WORLD = ProbeData("the world", is_world=True)


QUICK = Options(resamples=300)


ALPHA = 0.3


NAMES = (*DEFAULT.shapes, *DEFAULT.colours)


def measure(space: ConstructedSpace) -> ProbeResult:
    return run_probe(SUPERPOSITION, constructed_subject(space), WORLD, QUICK)


def e(name: str) -> FloatArray:
    result: FloatArray = np.eye(len(NAMES))[NAMES.index(name)]
    return result


def things(image: ImageSource) -> tuple[Thing, ...]:
    scene = scene_behind(image)
    assert scene is not None
    return scene.things


def sums() -> ConstructedSpace:
    """Example (c) of the specification: shapes and colours at right angles, all added up."""

    def of_image(image: ImageSource) -> FloatArray:
        rows = [e(t.shape) + ALPHA * e(t.colour) for t in things(image)]
        result: FloatArray = np.sum(rows, axis=0)
        return result

    def of_caption(text: str) -> FloatArray:
        said = parse(text)
        return e(said.colour) if isinstance(said, Obj) and said.colour else np.ones(len(NAMES))

    return ConstructedSpace("sums", "sums/1", of_image, of_caption)


def test_exact_sums_give_the_numbers_worked_by_hand() -> None:
    result = superposed_pairs(concept_vectors(sums(), rings(2)), QUICK)
    value = {one.name: one.estimate.value for one in result.quantities}
    single = 1 + ALPHA**2 / 2  # squared length of x + alpha (a + b) / 2
    assert value["sum"] == pytest.approx(1.0)
    assert value["sum, centred"] == pytest.approx(1.0, abs=0.02)
    part = (1 + ALPHA**2) / sqrt(single * (2 + 2 * ALPHA**2))
    assert value["first part"] == pytest.approx(part)
    assert value["second part"] == pytest.approx(part)
    # Other things share the two colours; a pair of another ring shares nothing.
    assert value["other pair"] == pytest.approx(ALPHA**2 / (1 + ALPHA**2))
    assert value["sum above other pair"] == pytest.approx(1 / (1 + ALPHA**2))
    assert value["pair elsewhere"] == pytest.approx(0.0)
    assert value["colours exchanged"] == pytest.approx(1.0)
    assert value["colours exchanged, centred"] == pytest.approx(1.0)
    # Eight things; each of four colours is on half of them, by half of alpha.
    cone = sqrt((1 / 8 + 4 * (ALPHA / 2 / 2) ** 2) / single)
    assert value["cone"] == pytest.approx(cone)
    assert value["cone times M"] == pytest.approx(8 * cone)
    assert value["length of the sum"] == pytest.approx(sqrt((2 + 2 * ALPHA**2) / single))
    # i(x) + i(y) has both colours already.
    assert value["fit: shrink"] == pytest.approx(1 - 2 * sqrt(single / (2 + 2 * ALPHA**2)))
    assert value["fit: p"] == pytest.approx(0.0, abs=1e-9)
    assert value["fit: q"] == pytest.approx(0.0, abs=1e-9)
    assert value["fit: explained"] == pytest.approx(1.0)


def test_the_reduced_fit_is_that_of_all_rows() -> None:
    concepts = concept_vectors(bag_of_words_space(), rings(3))
    result = superposed_pairs(concepts, QUICK)
    rows: list[list[FloatArray]] = [[], [], [], [], []]
    for b in range(3):
        for s in range(4):
            for k in (0, 1):
                row = (
                    concepts.bound_BSKD[b, s, k],
                    concepts.thing_BSD[b, s],
                    concepts.thing_BSD[b, (s + 1) % 4],
                    concepts.colour_BKD[b, k],
                    concepts.colour_BKD[b, 1 - k],
                )
                for column, vector in zip(rows, row, strict=True):
                    column.append(vector)
    pair, x, y, a, b_ = map(np.array, rows)
    fit = fit_additive(pair, (x, y), (a, b_))
    names = ("fit: shrink", "fit: p", "fit: q", "fit: explained")
    assert [result[name].estimate.value for name in names] == pytest.approx(
        [fit.shrink, fit.first, fit.second, fit.explained]
    )


def test_a_bag_of_words_is_a_sum_without_binding(snapshot: SnapshotAssertion) -> None:
    result = measure(bag_of_words_space())
    verdict = SUPERPOSITION.say(result)
    assert case_of(verdict, VERDICTS) == "merged"
    assert verdict.sentence == snapshot
    for quantity in result.quantities:
        if quantity.known.bag is not None:
            assert quantity.estimate.value == pytest.approx(quantity.known.bag)
    (plot,) = result.plots
    assert isinstance(plot, Bars)
    assert not plot.is_rate
    assert [bar.name for bar in plot.bars][:2] == ["sum, centred", "other pair, centred"]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.96, 0.98, "merged"), (0.94, 0.98, "undecided"), (0.9, 0.95, "encoded")],
)
def test_the_interval_decides_whether_exchanged_colours_are_merged(
    low: float, high: float, expected: str
) -> None:
    result = measure(bag_of_words_space())
    quantities = tuple(
        replace(q, estimate=replace(q.estimate, low=low, high=high))
        if q.name == "colours exchanged"
        else q
        for q in result.quantities
    )
    verdict = SUPERPOSITION.say(replace(result, quantities=quantities))
    assert case_of(verdict, VERDICTS) == expected


def test_a_perfect_space_is_a_sum_with_binding(snapshot: SnapshotAssertion) -> None:
    verdict = SUPERPOSITION.say(measure(perfect_space()))
    assert case_of(verdict, VERDICTS) == "encoded"
    assert verdict.sentence == snapshot


def test_vectors_of_colours_only_are_no_sums_of_things() -> None:
    """The pair of another ring would be far, and the claim would seem supported."""

    def of_image(image: ImageSource) -> FloatArray:
        vector_D: FloatArray = np.sum([e(thing.colour) for thing in things(image)], axis=0)
        return vector_D

    result = measure(replace(sums(), of_image=of_image, _image={}))
    assert result["sum, centred"].estimate.value > 0.9
    assert result["pair elsewhere, centred"].estimate.value < 0.1
    assert result["sum above other pair, centred"].estimate.value == pytest.approx(0.0)
    assert case_of(SUPERPOSITION.say(result), VERDICTS) == "no sum"


def test_pairs_with_unrelated_vectors_are_no_sums(snapshot: SnapshotAssertion) -> None:
    def of_image(image: ImageSource) -> FloatArray:
        return signs("+".join(sorted(thing.shape for thing in things(image))), 256)

    space = ConstructedSpace("own", "own/1", of_image, lambda text: signs(text, 256))
    result = measure(space)
    assert abs(result["sum, centred"].estimate.value) < 0.1
    assert result["cone"].estimate.value == pytest.approx(1 / sqrt(32), abs=0.03)
    verdict = SUPERPOSITION.say(result)
    assert case_of(verdict, VERDICTS) == "no sum"
    assert verdict.sentence == snapshot


def test_a_cone_makes_everything_a_sum_until_it_is_centred() -> None:
    result = measure(collapsed_space())
    assert result["sum"].estimate.value > 0.99
    assert result["other pair"].estimate.value > 0.99
    assert result["optimum"].estimate.value == pytest.approx(-1.0, abs=0.01)
    assert result["cone times M"].estimate.value == pytest.approx(32, abs=0.01)
    assert abs(result["sum, centred"].estimate.value) < 0.1
    assert case_of(SUPERPOSITION.say(result), VERDICTS) == "no sum"


@pytest.mark.filterwarnings("error")
def test_constant_or_missing_vectors_are_not_measured() -> None:
    result = measure(collapsed_space(noise=0))
    assert result["sum, centred"].estimate.n == 0
    assert result["sum"].estimate.value == pytest.approx(1.0)
    assert case_of(SUPERPOSITION.say(result), VERDICTS) == "unknown"
    nan = np.full(4, np.nan)
    space = ConstructedSpace("nan", "nan/1", lambda image: nan, lambda text: nan)
    missing = superposed_pairs(concept_vectors(space, rings(1)), QUICK)
    assert np.isnan(missing["fit: p"].estimate.value)
    assert missing.get("pair elsewhere") is None
    assert case_of(SUPERPOSITION.say(missing), VERDICTS) == "unknown"


def test_images_without_a_vector_are_left_out_and_counted() -> None:
    drawn = rings(2)
    bad = next(drawn[0].alone()).key
    space = sums()
    holed = replace(space, of_image=lambda p: space.of_image(p) * (np.nan if p.key == bad else 1))
    result = superposed_pairs(concept_vectors(holed, drawn), QUICK)
    # Its thing is in two of eight pairs, and in the baseline of two more.
    assert result["sum"].estimate.invalid == 2
    assert result["other pair"].estimate.invalid == 2
    assert result["sum above other pair"].estimate.invalid == 4
    assert result["cone"].estimate.n == 7
    assert result["sum, centred"].estimate.n == 6
    assert result["fit: explained"].estimate.value == pytest.approx(1.0)


def test_antipodal_things_have_no_sum() -> None:
    """x = -y for neighbours: the sum has no direction, the parts have."""
    drawn = rings(1)
    sign = {shape: (-1.0) ** at for at, shape in enumerate(drawn[0].shapes)}

    def of_image(image: ImageSource) -> FloatArray:
        shown = things(image)
        return sign[shown[0].shape] * signs("axis", 64) if len(shown) == 1 else signs("pair", 64)

    space = ConstructedSpace("poles", "poles/1", of_image, lambda text: signs(text, 64))
    result = superposed_pairs(concept_vectors(space, drawn), QUICK)
    assert result["sum"].estimate.n == 0
    assert result["first part"].estimate.n == 4
    assert result["length of the sum"].estimate.value == pytest.approx(0.0)
    # The four cancel out: a symmetric cloud.
    assert result["cone"].estimate.value == pytest.approx(0.0)


def test_it_is_skipped_without_scenes_or_vectors(snapshot: SnapshotAssertion) -> None:
    assert find("probe", "superposition") is SUPERPOSITION
    subject = constructed_subject(bag_of_words_space())
    results = [
        run_probe(SUPERPOSITION, subject, ProbeData("my images")),
        run_probe(SUPERPOSITION, replace(subject, space=None), WORLD),
    ]
    assert [result.skipped for result in results] == snapshot


def test_pairs_of_a_tiny_model_are_close_to_sums() -> None:
    tiny = concept_vectors(EncoderSpace(load("base", device="cpu")), rings(2))
    result = superposed_pairs(tiny, QUICK)
    own, other = (result[name].estimate.value for name in ("sum, centred", "other pair, centred"))
    assert own > 0.6 > other
    assert 0 < result["fit: explained"].estimate.value < 1
    assert result["cone"].estimate.value > 0.5


E = np.eye(4)


def test_superposition_and_optimum_of_orthogonal_things() -> None:
    sum_, best = superposed(E[:1, :3], E[1:2, :3]), optimum(E[:1, :3], E[1:2, :3], E[:3, :3])
    assert sum_[0] == pytest.approx([0.707107, 0.707107, 0], abs=1e-6)
    assert best[0] == pytest.approx([0.577350, 0.577350, -0.577350], abs=1e-6)
    assert cosines(sum_, best)[0] == pytest.approx(0.816497, abs=1e-6)


def test_superposition_and_optimum_in_a_cone() -> None:
    things = unit(np.eye(3) + 1.5 / np.sqrt(3))
    assert things[0] == pytest.approx([0.836014, 0.387995, 0.387995], abs=1e-6)
    assert things[0] @ things[1] == pytest.approx(0.799279, abs=1e-6)
    assert cone(things) == pytest.approx(0.930691, abs=1e-6)
    best, sum_ = optimum(things[:1], things[1:2], things), superposed(things[:1], things[1:2])
    assert best[0] == pytest.approx([0.706197, 0.706197, -0.050703], abs=1e-6)
    assert sum_[0] == pytest.approx([0.645239, 0.645239, 0.409065], abs=1e-6)
    assert cosines(best, sum_)[0] == pytest.approx(0.890591, abs=1e-6)


def test_superposed_attributes_lose_what_belongs_to_what() -> None:
    x, y, a, b = E[:1], E[1:2], E[2:3], E[3:]
    one = superposed(unit(x + 0.3 * a), unit(y + 0.3 * b))
    other = superposed(unit(x + 0.3 * b), unit(y + 0.3 * a))
    assert one[0] == pytest.approx([0.677285, 0.677285, 0.203186, 0.203186], abs=1e-6)
    assert cosines(one, other)[0] == pytest.approx(1.0)


def test_antipodal_things_have_no_superposition() -> None:
    assert np.isnan(superposed(E[:1], -E[:1])).all()


def test_pairs_that_are_sums_are_told_from_pairs_that_are_not() -> None:
    rng = np.random.default_rng(0)
    gallery = rng.normal(size=(30, 40))
    first, second = gallery[:14], gallery[14:28]
    other_N = (np.arange(14) + rng.integers(1, 14, size=14)) % 14
    summed = superposition(first + second, first, second, gallery, other_N=other_N)
    assert summed.sum_N == pytest.approx(0.98, abs=0.06)
    assert summed.other_N.mean() < 0.5
    apart = superposition(rng.normal(size=(14, 40)), first, second, gallery, other_N=other_N)
    assert abs(apart.sum_N.mean()) < 0.15
    # A cone makes everything alike; around its mean the difference is there again.
    cloud = [one + 5 for one in (rng.normal(size=(14, 40)), first, second, gallery)]
    assert superposition(*cloud, other_N=other_N).sum_N.min() > 0.9
    assert abs(superposition(*cloud, other_N=other_N, is_centred=True).sum_N.mean()) < 0.15
    with pytest.raises(UnbagError, match="1 pairs"):
        superposition(first[:1], first[:1], second[:1], gallery, other_N=other_N)


def test_the_additive_fit_finds_its_own_numbers() -> None:
    rng = np.random.default_rng(1)
    x, y, a, b = (rng.normal(size=(9, 16)) for _ in range(4))
    result = fit_additive((0.8 * (x + y) + 0.3 * a + 0.1 * b) / 2, (x, y), (a, b))
    assert [result.shrink, result.first, result.second] == pytest.approx([0.2, 0.3, 0.1])
    assert result.explained == pytest.approx(1.0)
