"""The probe agreement: rates, verdicts and mined pairs of merged images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.models.tiny import load
from unbag.probes.agreement import (
    AGREEMENT,
    MinedPair,
    agree,
    drawn,
    mine,
    mine_pairs,
    pixel_differences,
)
from unbag.probes.base import ImagePair, Options, ProbeData, ProbedModel, ProbeResult, Scatter, Tone
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

from .asking import put

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


class Given:
    """The vectors that images say they have."""

    name = "given"
    fingerprint = "given"
    layers = None
    tokens = None

    def __init__(self) -> None:
        self.damaged: dict[str, str] = {}

    def images(self, images: Sequence[ImageSource]) -> FloatArray:
        return np.array([p.vector for p in images if isinstance(p, Plain)])

    def captions(self, captions: Sequence[str]) -> FloatArray:
        return np.ones((len(captions), 2))


def pairs_of(*pairs: tuple[Plain, Plain], relation: str = "left/right") -> ProbeData:
    made = [ImagePair(f"pair {i}", a, b, relation) for i, (a, b) in enumerate(pairs)]
    return ProbeData("two images of mine", pairs=tuple(made))


def asked(material: ProbeData, space: ConstructedSpace | None = None) -> ProbeResult:
    subject = constructed_subject(space or collapsed_space())
    return put(AGREEMENT, subject if space else replace(subject, space=Given()), material, FEW)


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


# 100 pairs in 80 clusters, since sets of four give two pairs each: Wilson's end for 0 of 80 is
# 1.96^2 / (80 + 1.96^2) = 4.6 %.
@pytest.mark.parametrize(
    ("space", "tone", "sentence"),
    [
        (
            bag_of_words_space(),
            "fails",
            "It takes images whose things have only changed places, colours or number for the "
            "same: 100.0 % [95.4, 100.0] of 100 such pairs have a cosine above 0.95 (a bag of "
            "words 100.0 %, a perfect model 0.0 %).",
        ),
        (
            perfect_space(),
            "holds",
            "It keeps images whose things have only changed places, colours or number apart: "
            "0.0 % [0.0, 4.6] of 100 such pairs have a cosine above 0.95 (a bag of words 100.0 %, "
            "a perfect model 0.0 %).",
        ),
        (
            collapsed_space(),
            "fails",
            "It takes images whose things have only changed places, colours or number for the "
            "same: 100.0 % [95.4, 100.0] of 100 such pairs have a cosine above 0.95 (a bag of "
            "words 100.0 %, a perfect model 0.0 %). It does so with images of other things too "
            "(100.0 % [91.2, 100.0]): it merges whatever it sees.",
        ),
    ],
    ids=lambda value: value.name if isinstance(value, ConstructedSpace) else "",
)
def test_known_spaces_get_the_right_sentence(
    world: ProbeData, space: ConstructedSpace, tone: Tone, sentence: str
) -> None:
    finding = asked(world, space)
    said = AGREEMENT.say(finding)
    assert (said.sentence, said.tone) == (sentence, tone)
    assert finding.headline == "merged, same things"


def test_a_bag_of_words_merges_what_differs_in_no_word(world: ProbeData) -> None:
    finding = asked(world, bag_of_words_space())
    for relation in RELATIONS:
        rate = finding[f"merged, {relation}"]
        assert (rate.estimate.value, rate.known.bag, rate.known.perfect) == (1.0, 1.0, 0.0)
        assert finding[f"cosine, {relation}"].estimate.value == pytest.approx(1.0)
        assert finding[f"rank correlation, {relation}"].estimate.value == pytest.approx(1.0)
    for relation in ("replace_texture", "negate"):
        rate = finding[f"merged, {relation}"]
        assert (rate.estimate.value, rate.known.bag, rate.known.perfect) == (0.0, 0.0, 0.0)
    assert finding["merged, all pairs"].known.bag == pytest.approx(5 / 7)


def test_a_cone_is_seen_around_its_mean(world: ProbeData) -> None:
    finding = asked(world, collapsed_space())
    assert finding["cosine, all pairs"].estimate.value > 0.99
    assert abs(finding["centred cosine, all pairs"].estimate.value) < 0.1
    assert any("around the mean of all" in note for note in finding.notes)


def test_where_every_vector_is_the_same_nothing_is_left_around_the_mean(world: ProbeData) -> None:
    finding = asked(world, collapsed_space(noise=0))
    assert AGREEMENT.say(finding).tone == "fails"
    around = finding["centred cosine, all pairs"].estimate
    assert (around.n, around.invalid) == (0, 140)
    assert np.isnan(finding["cosine against pixels"].estimate.value)
    assert finding.notes == (
        "Every image has the same vector: around the mean nothing is left of them.",
    )


def test_constant_vectors_have_no_rank_correlation() -> None:
    flat = pairs_of((Plain("a", (0.5, 0.5)), Plain("b", (0.5, 0.5), 9)))
    finding = asked(flat)
    assert finding["merged, all pairs"].estimate.value == 1.0
    rank = finding["rank correlation, left/right"].estimate
    assert (rank.n, rank.invalid) == (0, 1)


def test_cosines_ranks_and_pixels_by_hand() -> None:
    first = Plain("a", (10.0, 11.0, 12.0), 10), Plain("b", (12.0, 11.0, 10.0), 30)
    second = Plain("c", (1.0, 2.0, 2.0), 0), Plain("d", (-1.0, -2.0, -2.0), 60)
    finding = asked(pairs_of(first, second))
    assert finding.headline == "merged, all pairs"
    assert finding["merged, all pairs"].estimate.value == 0.5
    assert finding["merged, all pairs"].known.bag is None
    outcomes = finding["cosine, all pairs"].outcomes
    ranks = finding["rank correlation, all pairs"].outcomes
    assert outcomes is not None
    assert ranks is not None
    assert outcomes.value_U == pytest.approx([0.989041, -1.0], abs=1e-6)
    assert ranks.value_U == pytest.approx([-1.0, -1.0])
    # The pair that differs in more pixels lies further apart.
    assert finding["cosine against pixels"].estimate.value == pytest.approx(-1.0)
    (plot,) = finding.plots
    assert isinstance(plot, Scatter)
    assert [(p.x, p.group, p.name) for p in plot.points] == [
        (20.0, "left/right", "pair 0"),
        (60.0, "left/right", "pair 1"),
    ]
    assert plot.lines == (("taken for the same above 0.95", 0.95),)


def test_pairs_in_doubt_are_not_decided() -> None:
    pairs = [(Plain(f"a{i}", (1.0, 0.0)), Plain(f"b{i}", (float(i < 2), 1.0))) for i in range(3)]
    said = AGREEMENT.say(asked(pairs_of(*pairs)))
    assert said.tone == "told"
    assert said.sentence.startswith(
        "There are too few pairs to say whether it takes different images for the same: 0.0 % [0"
    )


def test_relations_that_fare_differently_are_named() -> None:
    near = [(Plain(f"a{i}", (1.0, 0.0)), Plain(f"b{i}", (1.0, 0.1))) for i in range(30)]
    far = [(Plain(f"c{i}", (1.0, 0.0)), Plain(f"d{i}", (0.0, 1.0))) for i in range(30)]
    both = pairs_of(*near, relation="size").pairs, pairs_of(*far).pairs
    pairs = both[0] + tuple(replace(pair, id=f"far {pair.id}") for pair in both[1])
    said = AGREEMENT.say(asked(ProbeData("mine", pairs=pairs)))
    assert said.tone == "mixed"
    assert said.sentence.startswith("It takes some different images for the same: 50.0 % [")
    assert said.sentence.endswith(
        "Most often those that differ in size (100.0 % [88.6, 100.0]), least often in who is left "
        "and who is right (0.0 % [0.0, 11.4])."
    )


def test_the_nearest_of_a_users_images_are_counted_not_judged() -> None:
    images = Plain("a", (1.0, 0.0)), Plain("b", (1.0, 0.1), 8), Plain("c", (0.0, 1.0))
    finding = asked(ProbeData("a folder", images=images))
    rate = finding["merged, nearest images"]
    assert (rate.estimate.n, rate.known.perfect) == (3, None)
    said = AGREEMENT.say(finding)
    assert said.tone == "told"
    assert said.sentence.startswith(
        "Of the 3 pairs of these images that lie nearest to each other, 1 has a cosine above"
    )
    # Another model has other nearest pairs, so nothing can be paired.
    assert {(one.outcomes, one.draw_R) for one in finding.quantities} == {(None, None)}
    # They are no sample either.
    ends = [end for one in finding.quantities for end in (one.estimate.low, one.estimate.high)]
    assert np.isnan(ends).all()
    (plot,) = finding.plots
    assert isinstance(plot, Scatter)
    assert {point.name for point in plot.points} == {"a and b", "b and c", "a and c"}


def test_what_a_bag_of_words_tells_apart_is_said_to_be_merged_too(world: ProbeData) -> None:
    finding = asked(world, bag_of_words_space())
    merged = finding["merged, left/right"].estimate
    changed = [
        replace(one, estimate=merged) if one.name == "merged, replace_texture" else one
        for one in finding.quantities
    ]
    said = AGREEMENT.say(replace(finding, quantities=tuple(changed)))
    assert said.sentence.endswith(
        "It also merges what a bag of words tells apart: the texture of a thing (100.0 % [83.9, "
        "100.0])."
    )


def test_vectors_that_are_not_numbers_are_counted_not_compared() -> None:
    fine = Plain("a", (1.0, 0.0)), Plain("b", (1.0, 0.01))
    lost = Plain("c", (float("nan"), 0.0)), Plain("d", (1.0, 0.0))
    endless = Plain("e", (1.0, 0.0)), Plain("f", (float("inf"), 0.0))
    finding = asked(pairs_of(fine, lost, endless))
    rate = finding["merged, all pairs"].estimate
    assert (rate.value, rate.n, rate.invalid) == (1.0, 1, 2)
    assert finding["centred cosine, all pairs"].estimate.n == 1
    assert "2 of 3 pairs have an image without a direction; not counted." in finding.notes
    nothing = AGREEMENT.say(asked(pairs_of(lost)))
    assert nothing.sentence == ("Nothing could be measured: no pair of images has two directions.")
    assert nothing.tone == "told"


def test_copies_of_an_image_are_no_pair() -> None:
    one, other = Plain("a", (1.0, 0.0)), Plain("b", (0.0, 1.0))
    finding = asked(pairs_of((one, one), (one, other)))
    assert finding["merged, all pairs"].estimate.n == 1
    assert "1 pairs of an image with itself were left out." in finding.notes
    only = asked(pairs_of((one, one)))
    assert only.skipped.startswith(
        "two images of mine has no pairs of images but 1 of an image with itself; the world's"
    )


def test_without_pairs_or_vectors_nothing_is_asked() -> None:
    none = asked(ProbeData("my one image"))
    assert none.skipped == (
        "my one image has no pairs of images; the world's benchmarks would serve, one whose "
        "items have two images, such as whatsup_a or winoground, or a folder of two or more "
        "images"
    )
    assert asked(ProbeData("a folder", images=(Plain("a", (1.0, 0.0)),))).skipped
    chat = replace(constructed_subject(collapsed_space()), name="a chat model", space=None)
    skipped = put(AGREEMENT, chat, pairs_of((Plain("a", (1.0,)), Plain("b", (1.0,)))))
    assert skipped.skipped == "a chat model has no vectors of images to compare"


def test_damaged_images_have_no_pixels() -> None:
    pairs = pairs_of(
        (Plain("a", (1.0, 0.0), 5), Plain("b", (1.0, 0.1), -1)),
        (Plain("c", (1.0, 0.0), 5), Plain("d", (1.0, 0.1), 9)),
    )
    found = pixel_differences(pairs.pairs, Silent())
    assert np.isnan(found[0])
    assert found[1] == 4.0
    (plot,) = asked(pairs).plots
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


def test_the_tiny_model_is_told_by_relation(world: ProbeData) -> None:
    model = load("base", device="cpu")
    space = EncoderSpace(model)
    subject = ProbedModel("tiny:base", model, space, make_scorer(model))
    finding = put(AGREEMENT, subject, world, FEW)
    rates = [finding[f"merged, {relation}"].estimate for relation in RELATIONS]
    assert [rate.n for rate in rates] == [20] * 5
    cosines = finding["cosine, same things"].estimate, finding["cosine, other things"].estimate
    assert cosines[0].value > cosines[1].value
    assert "of 100 such pairs have a cosine above 0.95" in AGREEMENT.say(finding).sentence


def test_the_probe_is_registered() -> None:
    assert find("probe", "agreement") is AGREEMENT


def test_pairs_are_mined_with_any_two_encoders() -> None:
    images = [image for item in PAIRS_A.load(None)[:20] for image in item.images[:2]]
    found = mine(bag_of_words_space(), perfect_space(), [*images, images[0]])
    places = {(pair.first, pair.second) for pair in found}
    assert {(2 * i, 2 * i + 1) for i in range(20)} <= places
    assert (0, 40) not in places
    assert (1, 40) in places
    assert all(pair.merged > 0.95 and pair.apart < 0.6 for pair in found)
    with pytest.raises(UnbagError, match="1 images to find pairs among"):
        mine(bag_of_words_space(), perfect_space(), images[:1])


def test_images_without_a_direction_are_in_no_mined_pair() -> None:
    nan, inf = float("nan"), float("inf")
    merging = np.array([[1.0, 0.0], [1.0, 0.1], [nan, 0.0], [1.0, 0.2], [0.0, 0.0]])
    parting = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [inf, 0.0], [0.0, 1.0]])
    found = mine_pairs(merging, parting, above=-2.0)
    assert [(pair.first, pair.second) for pair in found] == [(0, 1)]
    assert mine_pairs(merging, parting, max_pairs=0) == []
    assert mine_pairs(np.empty((0, 2)), np.empty((0, 2))) == []


def test_mining_where_everything_is_merged() -> None:
    rng = np.random.default_rng(0)
    merging = 1 + 0.1 * rng.normal(size=(1_300, 8))
    parting = rng.normal(size=(1_300, 6))
    first, second = (unit(one) @ unit(one).T for one in (merging, parting))
    i, j = np.nonzero(np.triu(first > 0.95, 1) & (second < 0.6))
    best = np.argsort(-first[i, j])[:50]
    assert len(i) > 500_000
    found = mine_pairs(merging, parting, max_pairs=50, block=700)
    assert isinstance(found[0], MinedPair)
    assert [pair.merged for pair in found] == pytest.approx(first[i[best], j[best]], abs=1e-6)
    wanted = set(zip(i[best].tolist(), j[best].tolist(), strict=True))
    # Single precision may turn the last few round.
    assert len(wanted & {(pair.first, pair.second) for pair in found}) >= 45


def rows(*vectors: list[float]) -> FloatArray:
    return np.array(vectors, dtype=float)


def test_agreement_is_strict_and_unknown_without_a_direction() -> None:
    first = rows([1, 0], [1, 0], [0, 0])
    second = rows([0.95, np.sqrt(1 - 0.95**2)], [1, 0.01], [1, 0])
    found = agree(first, second, above=cosines(first[:1], second[:1])[0])
    assert found[:2].tolist() == [0.0, 1.0]
    assert np.isnan(found[2])


def plain_mining(
    merging: FloatArray, parting: FloatArray, keys: list[str]
) -> list[tuple[int, int]]:
    first, second = unit(merging) @ unit(merging).T, unit(parting) @ unit(parting).T
    found = [
        (-first[i, j], i, j)
        for i in range(len(first))
        for j in range(i + 1, len(first))
        if first[i, j] > 0.95 and second[i, j] < 0.6 and keys[i] != keys[j]
    ]
    return [(i, j) for _, i, j in sorted(found)]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000), st.sampled_from([3, 7, 64]))
def test_mining_in_blocks_finds_what_a_loop_finds(seed: int, block: int) -> None:
    rng = np.random.default_rng(seed)
    merging = rng.normal(size=(20, 1, 3)) + 0.2 * rng.normal(size=(20, 2, 3))
    merging = merging.reshape(40, 3)
    parting = rng.normal(size=(40, 5))
    keys = [str(k) for k in rng.integers(0, 30, 40)]
    found = mine_pairs(merging, parting, block=block, keys=keys)
    wanted = plain_mining(merging, parting, keys)
    assert sorted((p.first, p.second) for p in found) == sorted(wanted)
    few = mine_pairs(merging, parting, block=block, keys=keys, max_pairs=2)
    assert [p.merged for p in few] == [p.merged for p in found[:2]]


def test_mining_needs_both_encoders_on_the_same_images() -> None:
    with pytest.raises(UnbagError, match="3 vectors of one encoder and 2 of the other"):
        mine_pairs(np.eye(3), np.eye(2))
