"""Spaces with a known nature: each is what it claims to be, on everything the world shows."""

from __future__ import annotations

import numpy as np
import pytest

from unbag.data import PixelImage
from unbag.data.images import ShuffledImage
from unbag.errors import UnbagError
from unbag.probes.base import ProbeData, Row
from unbag.probes.data import world_probe_data
from unbag.probes.reference_spaces import (
    TRUE,
    ConstructedSpace,
    SpaceScorer,
    bag_of_words_space,
    claims,
    collapsed_space,
    constructed_subject,
    detector_space,
    perfect_space,
    signs,
    unmixed,
)
from unbag.probes.space import Space
from unbag.types import BoolArray, Ensemble, FloatArray, ImageSource, Query
from unbag.world.grammar import parse
from unbag.world.placement import Look, place_apart
from unbag.world.rendering import SceneImage
from unbag.world.scenes import Scene
from unbag.world.stream import Knobs, Mixture, batch
from unbag.world.truth import holds_matrix
from unbag.world.vocabulary import DEFAULT


@pytest.fixture(scope="module")
def world() -> ProbeData:
    return world_probe_data()


@pytest.fixture(scope="module")
def perfect() -> ConstructedSpace:
    return perfect_space()


def image(*looks: Look, seed: int = 0) -> SceneImage:
    scene = place_apart(DEFAULT, looks, np.random.default_rng(seed))
    return SceneImage(scene, f"test {seed}")


STAR, CUP = Look("star", "red", "large", "plain"), Look("cup", "blue", "small", "striped")


def gaps(space: Space, rows: list[Row]) -> FloatArray:
    """By how much each caption is nearer than its negative."""
    image_ND = space.images([row.image for row in rows])
    true_ND = space.captions([row.caption for row in rows])
    false_ND = space.captions([row.negative or "" for row in rows])
    result: FloatArray = (image_ND * (true_ND - false_ND)).sum(axis=1)
    return result


def test_directions_follow_from_names_bit_by_bit() -> None:
    # The first byte of blake2b("red|0") is 0xa0.
    assert (signs("red", 8) * np.sqrt(8)).tolist() == [1, -1, 1, -1, -1, -1, -1, -1]
    long = signs("red", 1_000)
    assert long @ long == pytest.approx(1)
    assert long[:512].tolist() != long[512:].tolist()
    assert abs(long @ signs("blue", 1_000)) < 0.1


def test_the_perfect_space_prefers_truth_in_every_row(
    world: ProbeData, perfect: ConstructedSpace
) -> None:
    rows = [row for row in world.rows if row.negative is not None]
    assert len(rows) == 6_920
    assert gaps(perfect, rows).min() > 0.1 * TRUE


def test_in_the_perfect_space_other_words_for_the_same_are_the_same_vector(
    world: ProbeData, perfect: ConstructedSpace
) -> None:
    rows = [row for row in world.rows if row.positive is not None]
    assert len(rows) > 2_000
    first = perfect.captions([row.caption for row in rows])
    assert np.array_equal(first, perfect.captions([row.positive or "" for row in rows]))


def judged(space: Space, scenes: list[Scene], captions: list[str]) -> tuple[FloatArray, BoolArray]:
    images = [SceneImage(scene, str(i)) for i, scene in enumerate(scenes)]
    return space.images(images) @ space.captions(captions).T, holds_matrix(
        [parse(caption) for caption in captions], scenes
    )


def test_in_the_perfect_space_one_threshold_tells_truth(
    world: ProbeData, perfect: ConstructedSpace
) -> None:
    gallery = world.gallery
    assert gallery is not None
    scenes = [p.scene for p in gallery.images if isinstance(p, SceneImage)]
    score, is_true = judged(perfect, scenes, list(gallery.captions))
    assert is_true.sum() >= 400
    assert score[is_true] == pytest.approx(TRUE, abs=1e-9)
    assert score[~is_true].max() < 0.51 * TRUE


def test_the_perfect_space_knows_every_form_of_caption(perfect: ConstructedSpace) -> None:
    knobs = Knobs(
        mixture=Mixture(0.1, 0.1, 0.1, 0.1, 0.2, 0.4), counted=0.2, negated=0.3, one_thing=0.2
    )
    samples = batch(DEFAULT, knobs, seed=7, step=0, size=150)
    score, is_true = judged(perfect, [s.scene for s in samples], [s.caption for s in samples])
    assert {type(s.ast).__name__ for s in samples} == {"Obj", "And", "Rel", "Count", "Not", "Has"}
    assert is_true.diagonal().all()
    form = np.array([type(s.ast).__name__ for s in samples])
    # Each image by itself, since the cosines of crowded ones are smaller.
    for row, true in zip(score, is_true, strict=True):
        for name in set(form[true]) & set(form[~true]):
            assert row[true & (form == name)].min() > row[~true & (form == name)].max()


def test_claims_of_captions_sum_to_what_they_say() -> None:
    both = claims(parse("a red star and a cup"))
    assert both == {"is shape star and colour red": 0.5, "is shape cup": 0.5}
    denied = claims(parse("a star but no cup"))
    assert denied == {"is shape star": 0.5, "something is there": 0.5, "is shape cup": -1.0}
    assert claims(parse("a cup right of a star")) == claims(parse("a star left of a cup"))
    assert sum(claims(parse("three large red dotted stars")).values()) == pytest.approx(1)


def test_denials_point_away_in_the_perfect_space(perfect: ConstructedSpace) -> None:
    star, no_star, cup = perfect.captions(["a star", "no star", "a cup"])
    assert cup @ no_star == pytest.approx(0, abs=1e-12)
    assert star @ no_star == pytest.approx(-0.135)
    seen = perfect.images([image(STAR)])[0]
    assert seen @ no_star < -0.4 * TRUE < 0 == pytest.approx(seen @ cup, abs=1e-9)
    assert seen @ star == pytest.approx(TRUE)


def test_images_of_the_perfect_space_are_near_by_what_they_share(
    perfect: ConstructedSpace,
) -> None:
    blue = Look("star", "blue", "large", "plain")
    red, other_place, other_colour, cup = perfect.images(
        [image(STAR), image(STAR, seed=1), image(blue), image(CUP)]
    )
    assert 0.95 > red @ other_place > red @ cup
    assert 0.95 > red @ other_colour > red @ cup


def test_what_says_nothing_is_far_from_all_in_the_perfect_space(perfect: ConstructedSpace) -> None:
    said, mixed, other = perfect.captions(["a red star", "star a red", "red star a"])
    seen = perfect.images([image(STAR)])[0]
    assert seen @ mixed == pytest.approx(0, abs=1e-12)
    assert abs(said @ mixed) < 0.3
    assert abs(mixed @ other) < 0.3
    shuffled = perfect.images([ShuffledImage(image(STAR), "patches_9")])[0]
    assert shuffled @ said == pytest.approx(0, abs=1e-12)
    assert shuffled @ seen < 0.3


def test_a_bag_of_words_knows_words_and_nothing_else(world: ProbeData) -> None:
    space = bag_of_words_space()
    rows = [row for row in world.rows if row.negative is not None]
    gap = gaps(space, rows)
    words = np.array([row.kind.startswith("replace_") for row in rows])
    words &= np.array(["relation" not in row.kind and "count" not in row.kind for row in rows])
    assert words.sum() == 1_440
    assert gap[words].min() > 0.1
    assert np.array_equal(gap[~words], np.zeros(int((~words).sum())))


def test_a_bag_of_words_sees_neither_place_nor_order() -> None:
    space = bag_of_words_space()
    both = image(STAR, CUP)
    seen, elsewhere, mixed = space.images(
        [both, image(STAR, CUP, seed=1), ShuffledImage(both, "rows_4")]
    )
    assert np.array_equal(seen, elsewhere)
    assert np.array_equal(seen, mixed)
    one, other = space.captions(["a red star left of a cup", "no cup but three crimson stars"])
    assert np.array_equal(one, other)
    nothing, thing = space.captions(["", "a thing"])
    assert abs(nothing @ thing) < 0.2


def test_a_bag_of_words_needs_images_of_the_world() -> None:
    plain = PixelImage(np.zeros((4, 4, 3), dtype=np.uint8), name="my photo")
    with pytest.raises(UnbagError, match="image 'my photo' has no scene"):
        bag_of_words_space().images([plain])


def test_a_collapsed_space_tells_nothing_apart() -> None:
    images: list[ImageSource] = [image(STAR), image(CUP), image(STAR, CUP)]
    space = collapsed_space()
    cosine = space.images(images) @ space.images(images).T
    assert 0.99 < cosine.min() < 1 - 1e-6
    captions = space.captions(["a star", "a cup"])
    assert captions[0] @ captions[1] > 0.99
    assert abs(space.images(images) @ captions.T).max() < 0.3
    flat = collapsed_space(noise=0).images(images)
    assert np.array_equal(flat[0], flat[1])


def test_a_detector_treats_all_edits_alike(world: ProbeData) -> None:
    rows = [row for row in unmixed(world.rows) if row.negative and row.positive][:200]
    assert len(rows) == 200
    space = detector_space(rows)
    seen = space.images([row.image for row in rows])
    true = space.captions([row.caption for row in rows])
    for edits in ([row.negative or "" for row in rows], [row.positive or "" for row in rows]):
        edit = space.captions(edits)
        assert (seen * edit).sum(axis=1) == pytest.approx(0.2)
        assert (true * edit).sum(axis=1) == pytest.approx(0.2)
    assert (seen * true).sum(axis=1).min() > 0.5


def test_a_text_keeps_its_first_role() -> None:
    seen = image(STAR)
    first = Row("1", seen, "a star", negative="a cup", positive="the star")
    again = Row("2", seen, "the star", negative="a cup", positive="a star")
    itself = Row("3", seen, "a moon", negative="a moon")
    fine = Row("4", image(CUP), "a key", negative="a cup")
    assert unmixed([first, again, itself, fine]) == (first, fine)
    space = detector_space([first, again])
    star, other = space.captions(["a star", "the star"])
    at = space.images([seen])[0]
    assert at @ star == pytest.approx(1)
    assert at @ other == pytest.approx(0.2)


def test_constructed_spaces_are_told_apart_and_can_be_examined() -> None:
    rows = [Row("1", image(STAR), "a star")]
    spaces = [bag_of_words_space(), perfect_space(), detector_space(rows), detector_space([])]
    spaces += [collapsed_space(), collapsed_space(noise=0)]
    assert len({space.fingerprint for space in spaces}) == 6
    subject = constructed_subject(spaces[0])
    assert subject.space is spaces[0]
    assert (subject.space.layers, subject.space.tokens, subject.space.damaged) == (None, None, {})
    names = Ensemble("star", ("a star", "a cup"))
    queries = [Query(image(STAR), "a star"), Query(image(STAR), names)]
    one, both = SpaceScorer(spaces[0]).score(queries)
    star, cup = spaces[0].captions(["a star", "a cup"])
    mean = (star + cup) / np.linalg.norm(star + cup)
    assert one == pytest.approx(spaces[0].images([image(STAR)])[0] @ star)
    assert both == pytest.approx(spaces[0].images([image(STAR)])[0] @ mean)
