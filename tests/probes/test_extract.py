"""The probes extract and extract_text: sheets, places, known spaces and verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from syrupy.assertion import SnapshotAssertion

from unbag.errors import UnbagError
from unbag.probes.base import (
    Known,
    Lines,
    Options,
    Probe,
    ProbeData,
    ProbedModel,
    ProbeResult,
    Quantity,
    mean,
)
from unbag.probes.classifiers import read
from unbag.probes.extract import (
    CAPTION_SIDE,
    EXTRACT,
    EXTRACT_TEXT,
    IMAGE_SIDE,
    NO_LAYERS,
    caption_places,
    credits,
    curve_layers,
    image_places,
    mean_place,
    quarters,
    say_of,
)
from unbag.probes.extract_data import Label, ProbeSheet, caption_sheets, image_sheets
from unbag.probes.reference_spaces import (
    ConstructedSpace,
    bag_of_words_space,
    collapsed_space,
    constructed_subject,
    perfect_space,
)
from unbag.registry import find
from unbag.types import ImageSource, TokenFeatures
from unbag.world.grammar import holds, parse
from unbag.world.rendering import SceneImage
from unbag.world.vocabulary import DEFAULT

from .asking import run_probe

WORLD = ProbeData("the world", is_world=True)


QUICK = Options(resamples=500)


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unbag.probes.extract.IMAGES", 256)
    monkeypatch.setattr("unbag.probes.extract.CAPTIONS", 96)


def _full() -> tuple[ProbeSheet[ImageSource], ...]:
    return image_sheets(seed=0, images=96, is_full=True)


def test_each_image_has_the_class_whose_caption_is_true() -> None:
    for sheet in _full():
        for label in sheet.labels:
            assert len(sheet.inputs) == len(sheet.groups) == len(label.captions) == 96
            for image, own, captions in zip(
                sheet.inputs, label.class_N, label.captions, strict=True
            ):
                assert isinstance(image, SceneImage)
                truth = [holds(parse(caption), image.scene) for caption in captions]
                assert truth == [at == own for at in range(len(captions))], label.name


def test_classes_are_balanced_within_every_group() -> None:
    sheets: list[ProbeSheet[ImageSource] | ProbeSheet[str]] = [*_full()]
    sheets += caption_sheets(seed=0, captions=96, is_full=True)
    for sheet in sheets:
        for label in sheet.labels:
            count = Counter(zip(sheet.groups, label.class_N.tolist(), strict=True))
            by_group = {
                group: {count[group, own] for own in set(label.class_N.tolist())}
                for group in sheet.groups
            }
            assert all(len(counts) == 1 for counts in by_group.values()), label.name


def test_captions_of_one_set_have_the_same_words() -> None:
    for sheet in caption_sheets(seed=1, captions=64, is_full=False):
        (label,) = sheet.labels
        words = [tuple(sorted(caption.split())) for caption in sheet.inputs]
        by_class = [
            Counter(w for w, own in zip(words, label.class_N, strict=True) if own == k)
            for k in (0, 1)
        ]
        assert by_class[0] == by_class[1], label.name


def test_a_bag_of_words_is_at_chance_for_relation_and_binding() -> None:
    space = bag_of_words_space()
    (sheet,) = image_sheets(seed=0, images=192, is_full=False)
    for label in sheet.labels:
        result = read(space.images(sheet.inputs), label.class_N, sheet.groups)
        assert result.accuracy == 0.5, label.name
    for said in caption_sheets(seed=0, captions=96, is_full=True):
        (label,) = said.labels
        assert read(space.captions(said.inputs), label.class_N, said.groups).accuracy == 0.5


def test_presence_and_number_are_another_matter() -> None:
    *_, count, presence = image_sheets(seed=0, images=192, is_full=True)
    space = bag_of_words_space()
    (label,) = presence.labels
    vector_ND = space.images(presence.inputs)
    assert read(vector_ND, label.class_N, presence.groups).accuracy > 0.95
    (label,) = count.labels
    assert abs(read(space.images(count.inputs), label.class_N, count.groups).accuracy - 0.25) < 0.1


def test_a_bag_of_words_fails(snapshot: SnapshotAssertion) -> None:
    result = run_probe(EXTRACT, constructed_subject(bag_of_words_space()), WORLD, QUICK)
    # All captions of a set have the same vector: a tie counts half.
    for name in ("left/right, projected, linear", "binding, projected, linear"):
        assert result[name].estimate.value == 0.5
    assert result["binding, own score"].estimate.value == 0.5
    assert result.notes == (NO_LAYERS,)
    verdict = EXTRACT.say(result)
    assert verdict.tone == "fails"
    assert verdict.sentence == snapshot


def test_a_perfect_space_holds(snapshot: SnapshotAssertion) -> None:
    result = run_probe(EXTRACT, constructed_subject(perfect_space()), WORLD, QUICK)
    for name in ("left/right, own score", "binding, own score"):
        assert result[name].estimate.value == 1.0
    verdict = EXTRACT.say(result)
    assert verdict.tone == "holds"
    assert verdict.sentence == snapshot


def test_constant_vectors_are_at_chance_on_both_sides() -> None:
    subject = constructed_subject(collapsed_space(noise=0.0))
    result = run_probe(EXTRACT, subject, WORLD, QUICK)
    assert result["left/right, projected, mlp"].estimate.value == 0.5
    assert EXTRACT.say(result).tone == "fails"
    said = run_probe(EXTRACT_TEXT, replace(subject, random_init=subject), WORLD, QUICK)
    assert said["order, projected, linear"].estimate.value == 0.5
    assert said["order, projected, linear, random encoder"].estimate.value == 0.5
    assert EXTRACT_TEXT.say(said).tone == "fails"


@dataclass(frozen=True)
class FakeLayers:
    """Patches know what lies in them, the vector that is read out knows nothing."""

    picture_depth: int = 4
    caption_depth: int = 3
    asked: list[int] = field(default_factory=list)

    def images(
        self, images: Sequence[ImageSource], layers: Sequence[int]
    ) -> tuple[TokenFeatures, ...]:
        self.asked.append(len(images))
        rows = [self._patches(image) for image in images]
        empty_NW = torch.zeros(len(rows), 3)
        seen_NL = torch.ones(len(rows), 4) > 0
        one = TokenFeatures(torch.from_numpy(np.stack(rows)), seen_NL, empty_NW)
        blank = replace(one, vector_NLW=torch.zeros_like(one.vector_NLW))
        return tuple(one if layer >= 2 else blank for layer in layers)

    def captions(self, captions: Sequence[str], layers: Sequence[int]) -> tuple[TokenFeatures, ...]:
        raise UnbagError("this encoder cannot be taken apart")

    def _patches(self, image: ImageSource) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        """2 x 2 patches of width 60: shapes and colours that lie in each."""
        assert isinstance(image, SceneImage)
        vector_LW = np.zeros((4, 60), dtype=np.float32)
        for thing in image.scene.things:
            at = 2 * (thing.y >= 32) + (thing.x >= 32)
            vector_LW[at, DEFAULT.shapes.index(thing.shape)] += 1
            vector_LW[at, 48 + DEFAULT.colours.index(thing.colour)] += 1
        return vector_LW


@dataclass(frozen=True, eq=False)
class LayeredSpace(ConstructedSpace):
    """A bag of words with layers before it."""

    layers: FakeLayers = field(default_factory=FakeLayers)  # type: ignore[assignment]


def _layered() -> LayeredSpace:
    bag = bag_of_words_space()
    return LayeredSpace(bag.name, bag.fingerprint, bag.of_image, bag.of_caption)


def test_information_in_the_patches_only_is_lost_by_the_read_out(
    snapshot: SnapshotAssertion,
) -> None:
    result = run_probe(EXTRACT, constructed_subject(_layered()), WORLD, QUICK)
    # Not all: both things can lie in one half.
    assert result["left/right, patches by quarter, linear"].estimate.value > 0.95
    assert result["left/right, unprojected, linear"].estimate.value == 0.5
    assert result["left/right, projected, linear"].estimate.value == 0.5
    assert result["left/right, mean patch, linear"].estimate.value == 0.5
    # The curve: nothing before layer 2, all of it after.
    assert result["left/right, patches by quarter at layer 1, linear"].estimate.value == 0.5
    curve = next(plot for plot in result.plots if plot.title.startswith("left/right"))
    assert isinstance(curve, Lines)
    assert curve.chance == 0.5
    by_name = {series.name: series for series in curve.series}
    assert by_name["patches by quarter"].x == (0.0, 1.0, 3.0)
    assert by_name["patches by quarter"].y[-1] > 0.95
    assert set(by_name["vector that is read out"].y) == {0.5}
    assert EXTRACT.say(result).sentence == snapshot


def test_an_encoder_that_cannot_be_taken_apart_is_said_so() -> None:
    places = caption_places(_layered(), ["a star", "a cup"], QUICK)
    assert places.whole is None
    assert places.notes == (f"{NO_LAYERS} (this encoder cannot be taken apart)",)


def test_requested_layers_are_read_and_missing_ones_are_named() -> None:
    assert curve_layers(7, Options()) == ([0, 3, 6], ())
    assert curve_layers(7, Options(is_full=True), has_curve=False)[0] == list(range(7))
    assert curve_layers(7, Options(layers=(2,)), has_curve=False)[0] == [2, 6]
    layers, notes = curve_layers(7, Options(layers=(-2, 1, 9, -7, -8)))
    assert layers == [0, 1, 3, 5, 6]
    # With the number as it was typed.
    assert [note.partition(": ")[0] for note in notes] == [
        "there is no layer -8",
        "there is no layer 9",
    ]


def test_layers_are_asked_for_in_chunks() -> None:
    space = _layered()
    (sheet,) = image_sheets(seed=0, images=160, is_full=False)
    places = image_places(space, sheet.inputs, Options(layers=(2,)))
    assert space.layers.asked == [64, 64, 32]
    assert sorted(places.layers) == [0, 1, 2, 3]
    assert places.whole is not None
    assert places.whole.vector_NLW.shape == (160, 4, 60)


def test_means_over_a_mask_and_over_quarters() -> None:
    vector_NLW = torch.arange(16.0).reshape(1, 16, 1)
    mask_NL = torch.ones(1, 16) > 0
    whole = TokenFeatures(vector_NLW, mask_NL)
    assert mean_place(whole).tolist() == [[7.5]]
    result = quarters(whole)
    assert result is not None
    assert result.tolist() == [[2.5, 4.5, 10.5, 12.5]]
    assert quarters(TokenFeatures(vector_NLW[:, :15], mask_NL[:, :15])) is None
    mask_NL[0, 2:] = False
    assert mean_place(whole).tolist() == [[0.5]]
    assert quarters(whole) is None
    mask_NL[:] = False
    assert np.isnan(mean_place(whole)).all()


def test_ties_of_the_own_score_count_their_share() -> None:
    label = Label("x", np.array([0, 1, 1, 0]), 0.5)
    score_NK = np.array([[0.2, 0.1], [0.2, 0.1], [0.1, 0.1], [np.nan, 0.1]])
    assert credits(score_NK, label)[:3].tolist() == [1.0, 0.0, 0.5]
    assert np.isnan(credits(score_NK, label)[3])


@pytest.mark.parametrize("probe", [EXTRACT, EXTRACT_TEXT], ids=["extract", "extract_text"])
def test_it_is_skipped_without_the_world_or_vectors(
    probe: Probe, snapshot: SnapshotAssertion
) -> None:
    assert find("probe", probe.name) is probe
    subject = constructed_subject(bag_of_words_space())
    chat = ProbedModel("chat", subject.model, None, subject.scorer)
    results = run_probe(probe, subject, ProbeData("my images")), run_probe(probe, chat, WORLD)
    assert [result.skipped for result in results] == snapshot


def _rates(name: str, share: float, *, beyond: float = 0.3) -> list[Quantity]:
    """A reading of 400 units, and its selectivity."""
    value_N = (np.arange(400) < round(400 * share)).astype(float)
    known = Known(chance=0.5)
    selectivity_N = np.random.default_rng(0).normal(beyond, 0.1, 400)
    return [
        mean(name, value_N, about="", options=QUICK, known=known, is_rate=True),
        mean(f"{name}, selectivity", selectivity_N, about="", options=QUICK),
    ]


@pytest.mark.parametrize(
    ("projected", "unprojected", "patches", "own", "tone"),
    [
        (0.95, 0.95, 0.95, 0.97, "holds"),
        (0.95, 0.95, 0.95, 0.52, "mixed"),
        (0.65, 0.95, 0.95, 0.65, "mixed"),
        (0.65, 0.65, 0.95, 0.98, "holds"),
        (0.51, 0.51, 0.95, 0.98, "holds"),
        (0.54, 0.50, 0.95, 0.50, "fails"),
        (0.51, 0.95, 0.95, 0.50, "fails"),
        (0.51, 0.50, 0.95, 0.50, "fails"),
        (0.51, 0.50, 0.52, 0.50, "fails"),
        (0.51, 0.50, None, 0.50, "fails"),
    ],
)
def test_verdicts_on_images(
    projected: float,
    unprojected: float,
    patches: float | None,
    own: float,
    tone: str,
    snapshot: SnapshotAssertion,
) -> None:
    quantities = [
        *_rates("left/right, projected, linear", projected),
        *_rates("left/right, unprojected, linear", unprojected),
        *(_rates("left/right, all patches, attentive", patches) if patches else ()),
        _rates("left/right, own score", own)[0],
    ]
    verdict = say_of(ProbeResult("extract", tuple(quantities)), ["left/right"], IMAGE_SIDE)
    assert verdict.tone == tone
    assert verdict.sentence == snapshot


def test_a_label_that_a_control_reads_as_well_does_not_count() -> None:
    rates = _rates("left/right, projected, linear", 0.9, beyond=0.0)
    verdict = say_of(ProbeResult("extract", tuple(rates)), ["left/right"], IMAGE_SIDE)
    assert verdict.tone == "fails"


@pytest.mark.parametrize(
    ("trained", "random", "tone"),
    [
        (0.65, 1.0, "mixed"),
        (0.95, 0.95, "told"),
        (0.95, 0.6, "holds"),
        (0.65, 0.55, "mixed"),
        (0.95, None, "holds"),
        (0.65, None, "mixed"),
    ],
)
def test_verdicts_on_captions_compare_with_a_randomly_initialized_model(
    trained: float, random: float | None, tone: str, snapshot: SnapshotAssertion
) -> None:
    rates = _rates("order, projected, linear", trained)
    if random is not None:
        rates.append(_rates("order, projected, linear, random encoder", random)[0])
    verdict = say_of(ProbeResult("extract_text", tuple(rates)), ["order"], CAPTION_SIDE)
    assert verdict.tone == tone
    assert verdict.sentence == snapshot
