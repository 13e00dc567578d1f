"""How little turns a preference: worked angles, noise by formula and by drawing, known spaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from unbag.probes.base import ImagePair, Options, ProbeData, ProbeResult, Row, Scatter
from unbag.probes.data import world_probe_data
from unbag.probes.reference_spaces import (
    ConstructedSpace,
    bag_of_words_space,
    collapsed_space,
    constructed_subject,
    detector_space,
    perfect_space,
    unmixed,
)
from unbag.probes.sampling import choose_rows
from unbag.probes.space import unit
from unbag.probes.stability import (
    STABILITY,
    VERDICTS,
    changed_by,
    decide,
    flip_chance,
    rank_correlation,
    rounded,
    stability,
)
from unbag.registry import find
from unbag.types import FloatArray, ImageSource

from .asking import case_of, run_probe
from .named_images import Named

QUICK = Options(resamples=300)


@dataclass(frozen=True, eq=False)
class Given:
    """Vectors of images and texts at these angles, in degrees."""

    degrees: Mapping[str, float]
    name: str = "given"
    fingerprint: str = "given"
    damaged: Mapping[str, str] = field(default_factory=dict)
    layers: None = None
    tokens: None = None

    def images(self, images: Sequence[ImageSource]) -> FloatArray:
        return self.captions([image.key for image in images])

    def captions(self, captions: Sequence[str]) -> FloatArray:
        turned = np.radians([self.degrees[caption] for caption in captions])
        return np.stack([np.cos(turned), np.sin(turned)], axis=-1).reshape(-1, 2)


@pytest.fixture(scope="module")
def world() -> ProbeData:
    result = world_probe_data()
    rows = choose_rows([row for row in result.rows if row.negative is not None], Options())
    return replace(result, rows=tuple(rows), pairs=result.pairs[:40], gallery=None)


def measure(space: ConstructedSpace, data: ProbeData) -> ProbeResult:
    return run_probe(STABILITY, constructed_subject(space), data, QUICK)


def rows(*vectors: list[float]) -> FloatArray:
    return np.array(vectors, dtype=float)


def test_worked_angles() -> None:
    """v at right angles to the middle of c and n is 45 degrees from the boundary, and so on."""
    vector = rows([1, 0], [1, 1], [0, 1], [3, 4], [0, 0])
    result = decide(vector, np.eye(2)[[0] * 5], np.eye(2)[[1] * 5])
    assert result.angle_N[:3] == pytest.approx([45, 0, -45])
    assert result.angle_N[3] == pytest.approx(np.degrees(np.arctan2(3, 4)) - 45)
    assert result.margin_N[:4] == pytest.approx([1, 0, -1, -0.2])
    assert result.cosine_N == pytest.approx(np.zeros(5))
    assert result.right[:4].tolist() == [1, 0, 0, 0]
    assert result.is_not_wrong[:4].tolist() == [1, 1, 0, 0]
    assert np.isnan([result.angle_N[4], result.right[4], result.is_not_wrong[4]]).all()


def test_equal_captions_are_a_tie_at_no_angle() -> None:
    result = decide(rows([1, 2]), rows([2, 1]), rows([2, 1 + 1e-9]))
    assert (result.margin_N[0], result.angle_N[0], result.right[0]) == (0, 0, 0)


def test_the_angle_is_the_smallest_rotation_that_ties() -> None:
    rng = np.random.default_rng(0)
    v, c, n = (unit(rng.normal(size=(50, 16))) for _ in range(3))
    result = decide(v, c, n)
    way = unit(c - n)
    # Turned by that angle, straight against c - n, the vector lies on the boundary.
    across = unit(v - (v * way).sum(axis=1, keepdims=True) * way)
    turned = np.cos(np.radians(result.angle_N)) * (v * across).sum(axis=1)
    turned += np.sin(np.radians(result.angle_N)) * (v * way).sum(axis=1)
    assert turned == pytest.approx(np.ones(50))
    assert decide(across, c, n).angle_N == pytest.approx(np.zeros(50), abs=1e-4)


@pytest.mark.parametrize("is_unit_again", [False, True])
def test_the_chance_of_a_flip_is_that_of_drawn_noise(is_unit_again: bool) -> None:
    rng = np.random.default_rng(1)
    width, size, draws = 24, 0.3, 20_000
    v, c, n = (unit(rng.normal(size=(1, width))) for _ in range(3))
    v = unit(v + 0.2 * (c - n))
    result = decide(v, c, n)
    noisy = v + size / np.sqrt(width) * rng.normal(size=(draws, width))
    assert np.sqrt((np.square(noisy - v).sum(axis=1)).mean()) == pytest.approx(size, rel=0.01)
    noisy = unit(noisy) if is_unit_again else noisy
    flipped = np.mean(np.sign(noisy @ (c - n)[0]) != np.sign(result.margin_N[0]))
    chance = flip_chance(result.angle_N, width=width, size=size)[0]
    assert 0.05 < chance < 0.45
    assert flipped == pytest.approx(chance, abs=4 * np.sqrt(chance * (1 - chance) / draws))


def test_flips_worked() -> None:
    result = flip_chance(np.array([0.0, 30.0, -30.0]), width=4, size=1.0)
    assert result == pytest.approx([0.5, 0.158655, 0.158655], abs=1e-6)


@settings(deadline=None)
@given(st.floats(2**-60, 2, width=32), st.sampled_from([-1.0, 1.0]))
def test_bfloat16_is_the_nearest_of_8_binary_digits(size: float, sign: float) -> None:
    result = float(rounded(np.array([sign * size]), "bfloat16")[0])
    step = 2.0 ** (np.floor(np.log2(size)) - 7)
    assert result / step == round(result / step)
    assert abs(result - sign * size) <= step / 2
    assert rounded(np.array([result]), "bfloat16")[0] == result


def test_half_way_goes_to_the_even_number() -> None:
    halves = np.array([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 1 + 2**-8 + 2**-20])
    wanted = [1, 1 + 2**-6, -1, 1 + 2**-7]
    assert rounded(halves, "bfloat16").tolist() == wanted


def test_rounding_keeps_what_is_missing_and_changes_what_is_close() -> None:
    assert rounded(rows([1 + 2**-9, np.nan]), "bfloat16")[0, 0] == 1
    assert np.isnan(rounded(rows([1 + 2**-9, np.nan]), "bfloat16")[0, 1])
    vector = rows([1, 0], [1, 0], [np.nan, 0])
    right = rows([0.6, 0.8], [0.6, 0.8], [1, 0])
    wrong = rows([0.601, np.sqrt(1 - 0.601**2)], [0, 1], [0, 1])
    result = changed_by("bfloat16", vector, right, wrong)
    assert result[:2].tolist() == [1, 0]
    assert np.isnan(result[2])
    assert changed_by("float16", vector, right, wrong)[:2].tolist() == [0, 0]


def plain_ranks(values: FloatArray) -> FloatArray:
    return np.array([(values < v).sum() + ((values == v).sum() + 1) / 2 for v in values])


def test_rank_correlation_is_that_of_mean_ranks() -> None:
    of = rank_correlation(np.array([1.0, 2, 2, 3]), np.array([4.0, 3, 3, 1]))
    assert of(np.arange(4)) == pytest.approx(-1)
    rng = np.random.default_rng(2)
    first = rng.integers(5, size=40).astype(float)
    second = first + rng.integers(4, size=40).astype(float)
    of = rank_correlation(first, second)
    for place in (np.arange(40), rng.integers(40, size=40)):
        wanted = np.corrcoef(plain_ranks(first[place]), plain_ranks(second[place]))[0, 1]
        assert of(place) == pytest.approx(wanted)
    assert np.isnan(of(np.array([0, 1])))
    assert np.isnan(rank_correlation(np.ones(4), np.arange(4.0))(np.arange(4)))


def test_a_bag_of_words_ties_where_only_the_order_differs(
    world: ProbeData, snapshot: SnapshotAssertion
) -> None:
    result = measure(bag_of_words_space(), world)
    verdict = STABILITY.say(result)
    assert case_of(verdict, VERDICTS) == "none"
    assert verdict.sentence == snapshot
    assert result["angle, same words"].estimate.value == result["angle, same words"].known.bag == 0
    assert result["right, same words"].estimate.value == 0
    assert result["mean angle"].estimate.value > 1


def test_a_perfect_space_is_right_and_firm(world: ProbeData, snapshot: SnapshotAssertion) -> None:
    result = measure(perfect_space(), world)
    verdict = STABILITY.say(result)
    assert case_of(verdict, VERDICTS) == "firm"
    assert verdict.sentence == snapshot
    assert result["right"].estimate.value == 1
    assert result["right, images"].estimate.value == 1
    assert result["changed by float16"].estimate.value == 0


def test_a_detector_is_right_and_a_collapsed_space_is_at_chance(
    world: ProbeData, snapshot: SnapshotAssertion
) -> None:
    few = unmixed(world.rows)
    edits = measure(detector_space(few), replace(world, rows=few, pairs=()))
    assert edits["right"].estimate.value == 1
    verdict = STABILITY.say(measure(collapsed_space(), world))
    assert case_of(verdict, VERDICTS) == "chance"
    assert verdict.sentence == snapshot
    constant = STABILITY.say(measure(collapsed_space(noise=0), world))
    assert case_of(constant, VERDICTS) == "none"


CUP = Row("1", Named("p"), "a cup", "a star", kind="k", cluster="1")
STAR = Row("2", Named("q"), "a star", "a cup", kind="k", cluster="2")
ANGLES = {"a cup": 0.0, "a star": 90.0, "p": 35.0, "q": 20.0}


def test_one_wrong_preference_decides_nothing(snapshot: SnapshotAssertion) -> None:
    verdict = STABILITY.say(stability(Given(ANGLES), ProbeData("one", rows=(STAR,)), QUICK))
    assert case_of(verdict, VERDICTS) == "none of few"
    assert verdict.sentence == snapshot


def test_only_right_preferences_count() -> None:
    """p is 10 degrees on the side of the cup; q is there too, and wrong."""
    result = stability(Given(ANGLES), ProbeData("two", rows=(CUP, STAR)), QUICK)
    assert result["right"].estimate.value == 0.5
    assert result["angle"].estimate.value == pytest.approx(10)
    assert result["mean angle"].estimate.value == pytest.approx(10)
    wanted = flip_chance(np.array([10.0]), width=2, size=0.1)[0]
    assert result["flipped at 10 %"].estimate.value == pytest.approx(wanted)
    assert result["flipped at 5 %"].estimate.value < wanted
    plot = result.plots[0]
    assert isinstance(plot, Scatter)
    assert sorted(round(point.y) for point in plot.points) == [-25, 10]
    assert result.headline == "angle"
    assert case_of(STABILITY.say(result), VERDICTS) == "undecided"


def test_a_caption_between_two_images(snapshot: SnapshotAssertion) -> None:
    pair = ImagePair("x", Named("p"), Named("q"), "left/right", ("a cup", "a star"))
    space = Given({"p": 0.0, "q": 40.0, "a cup": 5.0, "a star": 30.0})
    result = stability(space, ProbeData("one", pairs=(pair,)), QUICK)
    assert result["right, images"].estimate.value == 1
    assert result["mean angle, images"].estimate.value == pytest.approx((15 + 10) / 2)
    assert result.headline == "angle, images"
    assert STABILITY.say(result).sentence == snapshot


def test_similar_captions_need_less_rotation(snapshot: SnapshotAssertion) -> None:
    spread = np.linspace(2, 80, 60)
    made = tuple(Row(f"{i}", Named("p"), f"c{i}", f"n{i}") for i in range(60))
    # The image lies in the plane of both captions, a little towards c: the wider, the farther.
    space = Given(
        {"p": 0.0}
        | {f"c{i}": -s / 4 for i, s in enumerate(spread)}
        | {f"n{i}": 3 * s / 4 for i, s in enumerate(spread)}
    )
    result = stability(space, ProbeData("m", rows=made), replace(QUICK, is_full=True))
    assert result["angle against cosine"].estimate.value == pytest.approx(-1)
    assert STABILITY.say(result).sentence == snapshot


def test_missing_vectors_are_left_out() -> None:
    space = Given(ANGLES | {"q": float("nan")})
    result = stability(space, ProbeData("two", rows=(CUP, STAR)), QUICK)
    assert (result["right"].estimate.n, result["right"].estimate.invalid) == (1, 1)
    assert result["angle"].estimate.value == pytest.approx(10)
    plot = result.plots[0]
    assert isinstance(plot, Scatter)
    assert len(plot.points) == 1
    nothing = Given(dict.fromkeys(ANGLES, float("nan")))
    verdict = STABILITY.say(stability(nothing, ProbeData("two", rows=(CUP, STAR)), QUICK))
    assert case_of(verdict, VERDICTS) == "unknown"


def test_it_is_skipped_without_preferences_or_vectors(
    world: ProbeData, snapshot: SnapshotAssertion
) -> None:
    assert find("probe", "stability") is STABILITY
    subject = constructed_subject(bag_of_words_space())
    results = [
        run_probe(STABILITY, subject, ProbeData("a folder")),
        run_probe(STABILITY, replace(subject, name="chat", space=None), world),
    ]
    assert [result.skipped for result in results] == snapshot
