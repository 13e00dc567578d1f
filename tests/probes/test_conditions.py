"""The probe conditions: scenes of rings, spaces with known verdicts, worked numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from unbag.errors import UnbagError
from unbag.models.tiny import load
from unbag.probes.base import Bars, Options, ProbeData, ProbeResult
from unbag.probes.concepts import THINGS, Ring, concept_vectors, rings
from unbag.probes.conditions import (
    BEYOND,
    CONDITIONS,
    CONDITIONS_PROBE,
    NEGATION,
    VERDICTS,
    below_one,
    condition_samples,
    conditions,
    for_all,
    larger,
)
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
from unbag.registry import find
from unbag.types import FloatArray, ImageSource
from unbag.world.grammar import And, Obj, Rel, holds
from unbag.world.placement import exchange_colours
from unbag.world.scenes import Scene, is_clear
from unbag.world.vocabulary import DEFAULT, INVERSE, UNIT

from .asking import case_of, run_probe

WORLD = ProbeData("the world", is_world=True)


QUICK = Options(resamples=500)


def measure(space: ConstructedSpace) -> ProbeResult:
    return run_probe(CONDITIONS_PROBE, constructed_subject(space), WORLD, QUICK)


def scenes(shown: Callable[[Ring], object], ring: Ring) -> dict[tuple[int, ...], Scene]:
    """By thing or pair, colouring, place and rendering."""
    result = [image.scene for image in shown(ring)]  # type: ignore[attr-defined]
    return dict(zip(np.ndindex(THINGS, 2, 2, len(ring.renderings)), result, strict=True))


@pytest.mark.parametrize("ring", rings(12), ids=lambda ring: ring.name)
def test_single_things_are_what_their_cell_says(ring: Ring) -> None:
    result = scenes(Ring.alone, ring)
    for (s, k, g, r), scene in result.items():
        (thing,) = scene.things
        assert (thing.shape, thing.colour) == (ring.shapes[s], ring.colours[k])
        along = thing.x if ring.relation == "left of" else thing.y
        reach = ring.world.radii[thing.size]
        half = ring.world.pixels // 2
        assert along + reach < half if g == 0 else along - reach >= half
        # Another colour, place or shape changes that and nothing else.
        other = result[s, 1 - k, g, r].things[0]
        assert replace(other, colour=thing.colour, rgb=thing.rgb) == thing
        assert replace(result[s, k, 1 - g, r].things[0], x=thing.x, y=thing.y) == thing
        assert replace(result[(s + 1) % THINGS, k, g, r].things[0], shape=thing.shape) == thing
        assert len({result[key].noise_seed for key in result if key[3] == r}) == 1


@pytest.mark.parametrize("ring", rings(12), ids=lambda ring: ring.name)
def test_pairs_are_what_their_cell_says(ring: Ring) -> None:
    result = scenes(Ring.pairs, ring)
    for (s, k, g, r), scene in result.items():
        x, y = ring.neighbours(s)
        a, b = ring.colours[k], ring.colours[1 - k]
        relation = ring.relation if g == 0 else INVERSE[ring.relation]
        assert is_clear(scene)
        assert holds(And(Obj(x, a), Obj(y, b)), scene)
        assert holds(Rel(Obj(x), relation, Obj(y)), scene)
        assert not holds(Rel(Obj(x), INVERSE[relation], Obj(y)), scene)
        assert result[s, 1 - k, g, r] == exchange_colours(scene)
        first, second = scene.things
        moved = (
            replace(first, x=second.x, y=second.y),
            replace(second, x=first.x, y=first.y),
        )
        assert result[s, k, 1 - g, r].things == moved


def test_rings_share_no_thing_and_do_not_depend_on_their_number() -> None:
    every = rings(12)
    shapes = [shape for ring in every for shape in ring.shapes]
    assert sorted(shapes) == sorted(DEFAULT.shapes)
    assert rings(3) == every[:3]
    assert rings(3, seed=1) != every[:3]
    assert {ring.relation for ring in every} == {"left of", "above"}
    assert all(len(set(ring.colours)) == 2 for ring in every)
    assert len(rings(2, world=UNIT)) == 2


@pytest.mark.parametrize("n", [0, 13])
def test_an_impossible_number_of_rings(n: int) -> None:
    with pytest.raises(UnbagError, match=rf"{n} rings of 4 things[\s\S]*1 to 12"):
        rings(n)


@pytest.mark.parametrize("space", [bag_of_words_space(), perfect_space()], ids=lambda s: s.name)
def test_known_numbers_are_those_of_constructed_spaces(space: ConstructedSpace) -> None:
    result = measure(space)
    kind = "bag" if space.name == "bag of words" else "perfect"
    known = {one.name: getattr(one.known, kind) for one in result.quantities}
    assert known.keys() >= set(CONDITIONS)
    for name, value in known.items():
        if value is not None:
            assert result[name].estimate.value == pytest.approx(value), name
            assert result[name].estimate.invalid == 0


def test_a_bag_of_words_fails_conditions_on_the_same_words(snapshot: SnapshotAssertion) -> None:
    result = measure(bag_of_words_space())
    met = {name for name in CONDITIONS if result[name].estimate.value == 1}
    assert met == set(CONDITIONS) - {*BEYOND, *NEGATION}
    verdict = CONDITIONS_PROBE.say(result)
    assert case_of(verdict, VERDICTS) == "as a bag"
    assert verdict.sentence == snapshot
    # A star in another colour shares shape, size and texture of four words.
    assert result["2.1 cosine"].estimate.value == pytest.approx(0.7, abs=0.05)
    assert result["2.3 cosine"].estimate.value == pytest.approx(1.0)
    assert result["3.3 margin"].estimate.value == pytest.approx(0.0, abs=1e-12)
    (plot,) = result.plots
    assert isinstance(plot, Bars)
    assert [bar.name for bar in plot.bars] == list(CONDITIONS)
    assert [bar.chance for bar in plot.bars] == [c.chance for c in CONDITIONS.values()]
    assert all(bar.note for bar in plot.bars)


def test_a_perfect_space_meets_all_conditions(snapshot: SnapshotAssertion) -> None:
    verdict = CONDITIONS_PROBE.say(measure(perfect_space()))
    assert case_of(verdict, VERDICTS) == "all"
    assert verdict.sentence == snapshot


def test_a_collapsed_space_meets_no_condition(snapshot: SnapshotAssertion) -> None:
    result = measure(collapsed_space())
    verdict = CONDITIONS_PROBE.say(result)
    assert verdict.tone == "fails"
    assert verdict.sentence == snapshot
    assert result["2.1"].estimate.value == 0
    constant = measure(collapsed_space(noise=0))
    # Equal up to rounding is a tie, and a tie does not count.
    assert all(constant[name].estimate.value == 0 for name in CONDITIONS)


def test_cosines_that_differ_by_rounding_are_equal() -> None:
    assert 0.1 + 0.2 > 0.3
    assert larger(np.array([0.1 + 0.2, 0.31]), np.array([0.3, 0.3])).holds_N.tolist() == [0, 1]


def test_a_random_space_is_at_chance() -> None:
    space = ConstructedSpace(
        "random", "random/1", lambda p: signs(p.key, 256), lambda text: signs(text, 256)
    )
    result = measure(space)
    for name in (*CONDITIONS, "4.1 for all", "4.2 for all", "beyond a bag"):
        estimate = result[name].estimate
        assert estimate.chance is not None
        assert estimate.low - 0.02 <= estimate.chance <= estimate.high + 0.02, name


def layout_space() -> ConstructedSpace:
    """Which shape lies nearer to the left and the top, and which does not; no colours."""

    def of_image(image: ImageSource) -> FloatArray:
        scene = scene_behind(image)
        assert scene is not None
        rows = sorted((thing.x + thing.y, thing.shape) for thing in scene.things)
        if len(rows) == 1:
            return signs(f"{rows[0][0] >= 63} {rows[0][1]}", 512) + signs(rows[0][1], 512)
        first, second = (signs(f"{at} {shape}", 512) for at, (_, shape) in enumerate(rows))
        return first + second

    return ConstructedSpace("layout", "layout/1", of_image, lambda text: signs(text, 512))


def test_a_space_of_layouts_knows_sides_and_no_colours() -> None:
    """Independent of the perfect space: tells that the neighbours of a thing are matched right."""
    result = measure(layout_space())
    assert result["3.2"].estimate.value == 1
    assert result["3.3"].estimate.value == 1
    # One of two parts is the same, against none.
    assert result["3.3 margin"].estimate.value == pytest.approx(0.5, abs=0.1)
    assert result["2.3"].estimate.value == 0
    assert result["2.3 cosine"].estimate.value == pytest.approx(1.0)
    assert CONDITIONS_PROBE.say(result).tone == "mixed"


def test_images_without_a_vector_are_left_out_and_counted() -> None:
    drawn = rings(2)
    bad = next(drawn[0].alone()).key
    space = bag_of_words_space()
    holed = replace(space, of_image=lambda p: space.of_image(p) * (np.nan if p.key == bad else 1))
    result = conditions(concept_vectors(holed, drawn), QUICK)
    assert result["2.1"].estimate.invalid == 1
    assert result["2.1"].estimate.n == 7
    # Its thing against the seven others.
    assert result["1.1a"].estimate.invalid == 7
    assert result["3.2"].estimate.invalid == 0
    assert result["4.2 for all"].estimate.n == 7


def test_without_valid_vectors_nothing_is_measured() -> None:
    nan = np.full(4, np.nan)
    space = ConstructedSpace("nan", "nan/1", lambda image: nan, lambda text: nan)
    verdict = CONDITIONS_PROBE.say(conditions(concept_vectors(space, rings(1)), QUICK))
    assert case_of(verdict, VERDICTS) == "unknown"


def test_antipodal_renderings_have_no_mean() -> None:
    """Vectors that cancel out over the two places leave i(x) unknown, not i(x,g)."""

    def of_image(image: ImageSource) -> FloatArray:
        scene = scene_behind(image)
        assert scene is not None
        (thing, *_) = scene.things
        along = thing.x if drawn[0].relation == "left of" else thing.y
        sign = 1.0 if along < 32 else -1.0
        return sign * signs(thing.shape, 64)

    drawn = rings(1)
    space = ConstructedSpace("two poles", "poles/1", of_image, lambda text: signs(text, 64))
    result = conditions(concept_vectors(space, drawn), QUICK)
    assert result["1.1a"].estimate.n == 0
    assert result["3.1 cosine"].estimate.value == pytest.approx(-1.0)
    assert result["1.2a"].estimate.n == 0


def test_units_are_named_once_and_clustered_by_ring() -> None:
    concepts = concept_vectors(bag_of_words_space(), rings(2))
    counts = {}
    for name, result in condition_samples(concepts).items():
        assert len(set(result.units)) == len(result.units), name
        assert set(result.clusters) == {"ring 0", "ring 1"}
        counts[name] = len(result.units)
    assert counts == {
        "1.1a": 8 * 7, "1.1b": 8 * 2 * 6, "1.2a": 8 * 3 * 2, "1.2b": 8 * 3 * 2, "2.1": 8,
        "2.2": 16, "2.3": 8, "3.1": 8, "3.2": 8, "3.3": 32, "4.1": 56, "4.2": 56,
    }  # fmt: skip


def test_it_is_skipped_without_scenes_or_vectors(snapshot: SnapshotAssertion) -> None:
    assert find("probe", "conditions") is CONDITIONS_PROBE
    subject = constructed_subject(bag_of_words_space())
    results = [
        run_probe(CONDITIONS_PROBE, subject, ProbeData("my images")),
        run_probe(CONDITIONS_PROBE, replace(subject, space=None), WORLD),
    ]
    assert [result.skipped for result in results] == snapshot


def test_a_tiny_model_knows_names_and_not_places() -> None:
    tiny = concept_vectors(EncoderSpace(load("base", device="cpu")), rings(2))
    result = conditions(tiny, QUICK)
    for name in ("1.1a", "2.2"):
        assert result[name].estimate.value > 0.9
    assert result["3.1"].estimate.value < 0.5
    assert result["3.1 cosine"].estimate.value > 0.95
    assert CONDITIONS_PROBE.say(result).sentence


def test_conditions_hold_by_more_than_a_tie() -> None:
    result = larger(np.array([0.3, 0.2, 0.2, np.nan]), np.array([0.2, 0.3, 0.2, 0.1]))
    assert result.holds_N[:3].tolist() == [1.0, 0.0, 0.0]
    assert np.isnan(result.holds_N[3])
    assert result.margin_N[:2] == pytest.approx([0.1, -0.1])
    assert below_one(np.array([0.94, 0.96, 1.0])).holds_N.tolist() == [1.0, 0.0, 0.0]
    assert for_all(
        larger(np.array([1.0, 1.0, 0.0]), np.full(3, 0.5)), ["x", "y", "x"]
    ).tolist() == [
        0.0,
        1.0,
    ]
    with pytest.raises(UnbagError, match="1 cosines against 2"):
        larger(np.zeros(1), np.zeros(2))
    assert list(CONDITIONS) == sorted(CONDITIONS)
    assert len(CONDITIONS) == 12


def test_a_random_space_is_at_the_chance_of_the_table() -> None:
    rng = np.random.default_rng(0)
    vectors = unit(rng.normal(size=(4000, 64)))
    first, second, third = vectors[:1000], vectors[1000:2000], vectors[2000:3000]
    rate = larger(cosines(first, second), cosines(first, third)).holds_N.mean()
    assert rate == pytest.approx(CONDITIONS["1.1a"].chance, abs=0.05)
    assert below_one(cosines(first, second)).holds_N.mean() == CONDITIONS["2.3"].chance
