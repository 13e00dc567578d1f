"""The probes extract and extract_text: sheets, places, known spaces and verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch

from unbag.errors import UnbagError
from unbag.probes.base import (
    Known,
    Lines,
    Options,
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


def test_verdict_of_a_bag_of_words() -> None:
    result = run_probe(EXTRACT, constructed_subject(bag_of_words_space()), WORLD, QUICK)
    assert result["left/right, projected, linear"].estimate.value == 0.5
    assert result["binding, projected, linear"].estimate.value == 0.5
    # All captions of a set are one vector: a tie counts half.
    assert result["binding, own score"].estimate.value == 0.5
    assert result.notes == (NO_LAYERS,)
    verdict = EXTRACT.say(result)
    assert verdict.tone == "fails"
    assert verdict.sentence.startswith(
        "Left or right cannot be read from the vector that is compared (50.0 % "
    )


def test_verdict_of_a_perfect_space() -> None:
    result = run_probe(EXTRACT, constructed_subject(perfect_space()), WORLD, QUICK)
    assert result["left/right, own score"].estimate.value == 1.0
    assert result["binding, own score"].estimate.value == 1.0
    verdict = EXTRACT.say(result)
    assert "its score uses it (100.0 % [" in verdict.sentence
    assert verdict.tone == "holds"


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


def test_what_is_in_the_patches_only_is_lost_in_the_read_out() -> None:
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
    sentence = EXTRACT.say(result).sentence
    assert sentence.startswith("Left or right can be read from the patches (")
    assert "but not from the vector that is compared (50.0 %" in sentence
    assert "it is there, and the read-out loses it" in sentence


def test_an_encoder_that_cannot_be_taken_apart_is_said_so() -> None:
    places = caption_places(_layered(), ["a star", "a cup"], QUICK)
    assert places.whole is None
    assert places.notes == (f"{NO_LAYERS} (this encoder cannot be taken apart)",)


def test_layers_asked_for_are_read_and_those_that_are_not_there_are_named() -> None:
    assert curve_layers(7, Options()) == ([0, 3, 6], ())
    assert curve_layers(7, Options(is_full=True), has_curve=False)[0] == list(range(7))
    assert curve_layers(7, Options(layers=(2,)), has_curve=False)[0] == [2, 6]
    layers, notes = curve_layers(7, Options(layers=(-2, 1, 9, -7, -8)))
    assert layers == [0, 1, 3, 5, 6]
    # By the number that was typed.
    assert notes == (
        "there is no layer -8: there are 7, from 0 on",
        "there is no layer 9: there are 7, from 0 on",
    )


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


def test_who_cannot_be_asked_is_skipped_with_the_reason() -> None:
    subject = constructed_subject(bag_of_words_space())
    for probe in (EXTRACT, EXTRACT_TEXT):
        assert "my images: " in run_probe(probe, subject, ProbeData("my images")).skipped
        blind = ProbedModel("chat", subject.model, None, subject.scorer)
        assert run_probe(probe, blind, WORLD).skipped == "chat has no vectors to read from"


def test_both_probes_are_registered() -> None:
    assert find("probe", "extract") is EXTRACT
    assert find("probe", "extract_text") is EXTRACT_TEXT


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
    ("projected", "unprojected", "patches", "own", "words", "tone"),
    [
        (0.95, 0.95, 0.95, 0.97, "and its score uses it (97.0 %", "holds"),
        (0.95, 0.95, 0.95, 0.52, "but its score does not use it (52.0 %", "mixed"),
        (0.65, 0.95, 0.95, 0.65, "can in part be read from the vector that is compared", "mixed"),
        (0.65, 0.65, 0.95, 0.98, "is in the vector that is compared, for its score uses", "holds"),
        (0.51, 0.51, 0.95, 0.98, "though readers find it in 51.0 % [", "holds"),
        (0.54, 0.50, 0.95, 0.50, "but not from the vector that is compared (54.0 %", "fails"),
        (0.51, 0.95, 0.95, 0.50, "the projection loses it", "fails"),
        (0.51, 0.50, 0.95, 0.50, "it is there, and the read-out loses it", "fails"),
        (0.51, 0.50, 0.52, 0.50, "can be read neither from the vector that is", "fails"),
    ],
)
def test_sentences(
    projected: float, unprojected: float, patches: float, own: float, words: str, tone: str
) -> None:
    made = [
        *_rates("left/right, projected, linear", projected),
        *_rates("left/right, unprojected, linear", unprojected),
        *_rates("left/right, all patches, attentive", patches),
        _rates("left/right, own score", own)[0],
    ]
    verdict = say_of(ProbeResult("extract", tuple(made)), ["left/right"], IMAGE_SIDE)
    assert words in verdict.sentence
    assert verdict.tone == tone


def test_what_a_control_reads_as_well_is_not_read() -> None:
    made = _rates("left/right, projected, linear", 0.9, beyond=0.0)
    verdict = say_of(ProbeResult("extract", tuple(made)), ["left/right"], IMAGE_SIDE)
    assert verdict.tone == "fails"


@pytest.mark.parametrize(
    ("trained", "random", "words", "tone"),
    [
        (0.65, 1.0, "can in part be read from the vector that is compared (65.0 % [", "mixed"),
        (0.65, 1.0, "less than with random weights (100.0 % [", "mixed"),
        (0.95, 0.95, "no more than with random weights (95.0 % [", "told"),
        (0.95, 0.6, "more than with random weights (60.0 % [", "holds"),
    ],
)
def test_what_random_weights_give_too_is_no_merit(
    trained: float, random: float, words: str, tone: str
) -> None:
    made = _rates("order, projected, linear", trained)
    made.append(_rates("order, projected, linear, random encoder", random)[0])
    verdict = say_of(ProbeResult("extract_text", tuple(made)), ["order"], CAPTION_SIDE)
    assert words in verdict.sentence
    assert verdict.tone == tone
