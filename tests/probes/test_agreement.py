"""The probe agreement: rates, verdicts and mined pairs of merged images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.models.tiny import load
from unbag.probes.agreement import (
    AGREEMENT,
    VERDICTS,
    MinedPair,
    agree,
    drawn,
    mine,
    mine_pairs,
    pixel_differences,
)
from unbag.probes.base import ImagePair, Options, ProbeData, ProbedModel, ProbeResult, Scatter
from unbag.probes.data import world_probe_data
from unbag.probes.reference_spaces import (
    ConstructedSpace,
    bag_of_words_space,
    collapsed_space,
    constructed_subject,
    perfect_space,
)
from unbag.probes.space import EncoderSpace, cosines, unit
from unbag.registry import find
from unbag.runs.progress import Silent
from unbag.scorers.resolve import make_scorer
from unbag.types import FloatArray, ImageSource
from unbag.world.benchmarks import PAIRS_A

from .asking import case_of, run_probe

if TYPE_CHECKING:
    from PIL.Image import Image


FEW = Options(resamples=200)


@dataclass(frozen=True)
class Plain:
    """An image of one grey level, which knows its vector."""

    name: str
    vector: tuple[float, ...]
    level: int = 0

    @property
    def key(self) -> str:
        return self.name

    def open(self) -> Image:
        if self.level < 0:
            raise OSError("damaged")
        return PixelImage(np.full((10, 10, 3), self.level, dtype=np.uint8)).open()


class NamedVectors:
    """The vectors that images carry."""

    name = "given"
    fingerprint = "given"
    layers = None
    tokens = None

    def __init__(self) -> None:
        self.damaged: dict[str, str] = {}

    def images(self, images: Sequence[ImageSource]) -> FloatArray:
        return np.array([image.vector for image in images if isinstance(image, Plain)])

    def captions(self, captions: Sequence[str]) -> FloatArray:
        return np.ones((len(captions), 2))


def pairs_of(*pairs: tuple[Plain, Plain], relation: str = "left/right") -> ProbeData:
    made = [ImagePair(f"pair {i}", a, b, relation) for i, (a, b) in enumerate(pairs)]
    return ProbeData("two images of mine", pairs=tuple(made))


def measure(data: ProbeData, space: ConstructedSpace | None = None) -> ProbeResult:
    subject = constructed_subject(space or collapsed_space())
    subject = subject if space else replace(subject, space=NamedVectors())
    return run_probe(AGREEMENT, subject, data, FEW)


@pytest.fixture(scope="module")
def world() -> ProbeData:
    """Twenty pairs of each relation."""
    every = world_probe_data()
    by: dict[str, list[ImagePair]] = {}
    for pair in every.pairs:
        by.setdefault(pair.relation, []).append(pair)
    pairs = tuple(pair for some in by.values() for pair in some[:20])
    return ProbeData(every.about, pairs=pairs, is_world=True)


RELATIONS = ("left/right", "on/under", "front/behind", "swap_attributes", "replace_count")


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (bag_of_words_space(), "merged"),
        (perfect_space(), "distinguished"),
        (collapsed_space(), "merged"),
    ],
    ids=lambda value: value.name if isinstance(value, ConstructedSpace) else "",
)
def test_known_spaces_get_the_right_verdict(
    world: ProbeData, space: ConstructedSpace, expected: str, snapshot: SnapshotAssertion
) -> None:
    # 100 pairs in 80 clusters, since sets of four give two pairs each: Wilson's end for 0 of 80 is
    # 1.96^2 / (80 + 1.96^2) = 4.6 %.
    result = measure(world, space)
    verdict = AGREEMENT.say(result)
    assert case_of(verdict, VERDICTS) == expected
    assert verdict.sentence == snapshot
    assert result.headline == "merged, same things"


def test_a_bag_of_words_merges_what_differs_in_no_word(world: ProbeData) -> None:
    result = measure(world, bag_of_words_space())
    for relation in RELATIONS:
        rate = result[f"merged, {relation}"]
        assert (rate.estimate.value, rate.known.bag, rate.known.perfect) == (1.0, 1.0, 0.0)
        assert result[f"cosine, {relation}"].estimate.value == pytest.approx(1.0)
        assert result[f"rank correlation, {relation}"].estimate.value == pytest.approx(1.0)
    for relation in ("replace_texture", "negate"):
        rate = result[f"merged, {relation}"]
        assert (rate.estimate.value, rate.known.bag, rate.known.perfect) == (0.0, 0.0, 0.0)
    assert result["merged, all pairs"].known.bag == pytest.approx(5 / 7)


def test_centring_removes_a_cone_and_leaves_nothing_of_equal_vectors(world: ProbeData) -> None:
    result = measure(world, collapsed_space())
    assert result["cosine, all pairs"].estimate.value > 0.99
    assert abs(result["centred cosine, all pairs"].estimate.value) < 0.1
    assert any("after subtracting the mean of all" in note for note in result.notes)
    constant = measure(world, collapsed_space(noise=0))
    assert AGREEMENT.say(constant).tone == "fails"
    centred = constant["centred cosine, all pairs"].estimate
    assert (centred.n, centred.invalid) == (0, 140)
    assert np.isnan(constant["cosine against pixels"].estimate.value)
    assert constant.notes == (
        "All images have the same vector: nothing is left after subtracting the mean.",
    )


def test_constant_vectors_have_no_rank_correlation() -> None:
    flat = pairs_of((Plain("a", (0.5, 0.5)), Plain("b", (0.5, 0.5), 9)))
    result = measure(flat)
    assert result["merged, all pairs"].estimate.value == 1.0
    rank = result["rank correlation, left/right"].estimate
    assert (rank.n, rank.invalid) == (0, 1)


def test_cosines_ranks_and_pixels_by_hand() -> None:
    first = Plain("a", (10.0, 11.0, 12.0), 10), Plain("b", (12.0, 11.0, 10.0), 30)
    second = Plain("c", (1.0, 2.0, 2.0), 0), Plain("d", (-1.0, -2.0, -2.0), 60)
    result = measure(pairs_of(first, second))
    assert result.headline == "merged, all pairs"
    assert result["merged, all pairs"].estimate.value == 0.5
    assert result["merged, all pairs"].known.bag is None
    outcomes = result["cosine, all pairs"].outcomes
    ranks = result["rank correlation, all pairs"].outcomes
    assert outcomes is not None
    assert ranks is not None
    assert outcomes.value_U == pytest.approx([0.989041, -1.0], abs=1e-6)
    assert ranks.value_U == pytest.approx([-1.0, -1.0])
    # The pair that differs in more pixels lies further apart.
    assert result["cosine against pixels"].estimate.value == pytest.approx(-1.0)
    (plot,) = result.plots
    assert isinstance(plot, Scatter)
    assert [(p.x, p.group, p.name) for p in plot.points] == [
        (20.0, "left/right", "pair 0"),
        (60.0, "left/right", "pair 1"),
    ]
    assert plot.lines == (("merged above 0.95", 0.95),)


def test_too_few_pairs_do_not_decide(snapshot: SnapshotAssertion) -> None:
    pairs = [(Plain(f"a{i}", (1.0, 0.0)), Plain(f"b{i}", (float(i < 2), 1.0))) for i in range(3)]
    verdict = AGREEMENT.say(measure(pairs_of(*pairs)))
    assert case_of(verdict, VERDICTS) == "too few"
    assert verdict.sentence == snapshot


def test_relations_with_different_rates_are_named(snapshot: SnapshotAssertion) -> None:
    near = [(Plain(f"a{i}", (1.0, 0.0)), Plain(f"b{i}", (1.0, 0.1))) for i in range(30)]
    far = [(Plain(f"c{i}", (1.0, 0.0)), Plain(f"d{i}", (0.0, 1.0))) for i in range(30)]
    pairs = pairs_of(*near, relation="size").pairs
    pairs += tuple(replace(pair, id=f"far {pair.id}") for pair in pairs_of(*far).pairs)
    verdict = AGREEMENT.say(measure(ProbeData("mine", pairs=pairs)))
    assert case_of(verdict, VERDICTS) == "some"
    assert verdict.sentence == snapshot


def test_nearest_pairs_are_counted_without_intervals(snapshot: SnapshotAssertion) -> None:
    images = Plain("a", (1.0, 0.0)), Plain("b", (1.0, 0.1), 8), Plain("c", (0.0, 1.0))
    result = measure(ProbeData("a folder", images=images))
    rate = result["merged, nearest images"]
    assert (rate.estimate.n, rate.known.perfect) == (3, None)
    verdict = AGREEMENT.say(result)
    assert case_of(verdict, VERDICTS) == "nearest"
    assert verdict.sentence == snapshot
    # Another model has other nearest pairs, so nothing can be paired.
    assert {(quantity.outcomes, quantity.draw_R) for quantity in result.quantities} == {
        (None, None)
    }
    # They are not a sample either.
    assert all(np.isnan((q.estimate.low, q.estimate.high)).all() for q in result.quantities)
    (plot,) = result.plots
    assert isinstance(plot, Scatter)
    assert {point.name for point in plot.points} == {"a and b", "b and c", "a and c"}


def test_merged_relations_that_a_bag_of_words_distinguishes_are_named(
    world: ProbeData, snapshot: SnapshotAssertion
) -> None:
    result = measure(world, bag_of_words_space())
    merged = result["merged, left/right"].estimate
    changed = [
        replace(q, estimate=merged) if q.name == "merged, replace_texture" else q
        for q in result.quantities
    ]
    assert AGREEMENT.say(replace(result, quantities=tuple(changed))).sentence == snapshot


def test_vectors_that_are_not_finite_are_counted_not_compared() -> None:
    fine = Plain("a", (1.0, 0.0)), Plain("b", (1.0, 0.01))
    lost = Plain("c", (float("nan"), 0.0)), Plain("d", (1.0, 0.0))
    infinite = Plain("e", (1.0, 0.0)), Plain("f", (float("inf"), 0.0))
    result = measure(pairs_of(fine, lost, infinite))
    rate = result["merged, all pairs"].estimate
    assert (rate.value, rate.n, rate.invalid) == (1.0, 1, 2)
    assert result["centred cosine, all pairs"].estimate.n == 1
    assert any(note.startswith("2 of 3 pairs") for note in result.notes)
    assert case_of(AGREEMENT.say(measure(pairs_of(lost))), VERDICTS) == "unknown"


def test_copies_of_an_image_are_not_a_pair() -> None:
    first, second = Plain("a", (1.0, 0.0)), Plain("b", (0.0, 1.0))
    result = measure(pairs_of((first, first), (first, second)))
    assert result["merged, all pairs"].estimate.n == 1
    assert any(note.startswith("1 pairs of an image with itself") for note in result.notes)


def test_it_is_skipped_without_pairs_or_vectors(snapshot: SnapshotAssertion) -> None:
    image = Plain("a", (1.0, 0.0))
    results = [
        measure(pairs_of((image, image))),
        measure(ProbeData("my one image")),
        measure(ProbeData("a folder", images=(image,))),
    ]
    chat = replace(constructed_subject(collapsed_space()), name="a chat model", space=None)
    results.append(run_probe(AGREEMENT, chat, pairs_of((image, Plain("b", (1.0,))))))
    assert [result.skipped for result in results] == snapshot


def test_damaged_images_have_no_pixels() -> None:
    pairs = pairs_of(
        (Plain("a", (1.0, 0.0), 5), Plain("b", (1.0, 0.1), -1)),
        (Plain("c", (1.0, 0.0), 5), Plain("d", (1.0, 0.1), 9)),
    )
    result = pixel_differences(pairs.pairs, Silent())
    assert np.isnan(result[0])
    assert result[1] == 4.0
    (plot,) = measure(pairs).plots
    assert isinstance(plot, Scatter)
    assert [point.name for point in plot.points] == ["pair 1"]


def test_points_are_drawn_by_name_not_by_order() -> None:
    plain = Plain("a", (1.0,))
    pairs = [ImagePair(f"pair {i}", plain, plain, "") for i in range(50)]
    some = {pairs[i].id for i in drawn(pairs, 10)}
    turned = pairs[::-1]
    assert len(some) == 10
    assert {turned[i].id for i in drawn(turned, 10)} == some
    assert drawn(pairs, 100).tolist() == list(range(50))


def test_the_tiny_model_merges_pairs_of_the_same_things(world: ProbeData) -> None:
    assert find("probe", "agreement") is AGREEMENT
    model = load("base", device="cpu")
    subject = ProbedModel("tiny:base", model, EncoderSpace(model), make_scorer(model))
    result = run_probe(AGREEMENT, subject, world, FEW)
    assert [result[f"merged, {relation}"].estimate.n for relation in RELATIONS] == [20] * 5
    same, other = (result[f"cosine, {group} things"].estimate for group in ("same", "other"))
    assert same.value > other.value


def test_pairs_are_mined_with_any_two_encoders() -> None:
    images = [image for item in PAIRS_A.load(None)[:20] for image in item.images[:2]]
    result = mine(bag_of_words_space(), perfect_space(), [*images, images[0]])
    places = {(pair.first, pair.second) for pair in result}
    assert {(2 * i, 2 * i + 1) for i in range(20)} <= places
    assert (0, 40) not in places
    assert (1, 40) in places
    assert all(pair.merged > 0.95 and pair.apart < 0.6 for pair in result)
    with pytest.raises(UnbagError, match="1 images to find pairs in"):
        mine(bag_of_words_space(), perfect_space(), images[:1])


def test_images_without_a_direction_are_in_no_mined_pair() -> None:
    nan, inf = float("nan"), float("inf")
    merging = np.array([[1.0, 0.0], [1.0, 0.1], [nan, 0.0], [1.0, 0.2], [0.0, 0.0]])
    parting = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [inf, 0.0], [0.0, 1.0]])
    result = mine_pairs(merging, parting, above=-2.0)
    assert [(pair.first, pair.second) for pair in result] == [(0, 1)]
    assert mine_pairs(merging, parting, max_pairs=0) == []
    assert mine_pairs(np.empty((0, 2)), np.empty((0, 2))) == []


def test_mining_where_everything_is_merged() -> None:
    rng = np.random.default_rng(0)
    merging = 1 + 0.1 * rng.normal(size=(1_300, 8))
    parting = rng.normal(size=(1_300, 6))
    first, second = (unit(rows) @ unit(rows).T for rows in (merging, parting))
    i, j = np.nonzero(np.triu(first > 0.95, 1) & (second < 0.6))
    best = np.argsort(-first[i, j])[:50]
    assert len(i) > 500_000
    result = mine_pairs(merging, parting, max_pairs=50, block=700)
    assert isinstance(result[0], MinedPair)
    assert [pair.merged for pair in result] == pytest.approx(first[i[best], j[best]], abs=1e-6)
    wanted = set(zip(i[best].tolist(), j[best].tolist(), strict=True))
    # Single precision may turn the last few round.
    assert len(wanted & {(pair.first, pair.second) for pair in result}) >= 45


def rows(*vectors: list[float]) -> FloatArray:
    return np.array(vectors, dtype=float)


def test_agreement_is_strict_and_unknown_without_a_direction() -> None:
    first = rows([1, 0], [1, 0], [0, 0])
    second = rows([0.95, np.sqrt(1 - 0.95**2)], [1, 0.01], [1, 0])
    result = agree(first, second, above=cosines(first[:1], second[:1])[0])
    assert result[:2].tolist() == [0.0, 1.0]
    assert np.isnan(result[2])


def plain_mining(
    merging: FloatArray, parting: FloatArray, keys: list[str]
) -> list[tuple[int, int]]:
    first, second = unit(merging) @ unit(merging).T, unit(parting) @ unit(parting).T
    result = [
        (-first[i, j], i, j)
        for i in range(len(first))
        for j in range(i + 1, len(first))
        if first[i, j] > 0.95 and second[i, j] < 0.6 and keys[i] != keys[j]
    ]
    return [(i, j) for _, i, j in sorted(result)]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000), st.sampled_from([3, 7, 64]))
def test_mining_in_blocks_finds_what_a_loop_finds(seed: int, block: int) -> None:
    rng = np.random.default_rng(seed)
    merging = rng.normal(size=(20, 1, 3)) + 0.2 * rng.normal(size=(20, 2, 3))
    merging = merging.reshape(40, 3)
    parting = rng.normal(size=(40, 5))
    keys = [str(k) for k in rng.integers(0, 30, 40)]
    result = mine_pairs(merging, parting, block=block, keys=keys)
    wanted = plain_mining(merging, parting, keys)
    assert sorted((p.first, p.second) for p in result) == sorted(wanted)
    few = mine_pairs(merging, parting, block=block, keys=keys, max_pairs=2)
    assert [p.merged for p in few] == [p.merged for p in result[:2]]


def test_mining_needs_both_encoders_on_the_same_images() -> None:
    with pytest.raises(UnbagError, match="3 vectors of one encoder and 2 of the other"):
        mine_pairs(np.eye(3), np.eye(2))
