"""Whether a text encoder sees order: known spaces, worked numbers, and material that lacks much."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from unbag.edits.shuffles import BY_TAG
from unbag.probes.base import (
    Gallery,
    ImagePair,
    Options,
    Probe,
    ProbeData,
    ProbeResult,
    Row,
)
from unbag.probes.data import world_probe_data
from unbag.probes.order import (
    ORDER,
    VERDICTS,
    WorldTagger,
    hits_at_1,
    order,
    preferred,
    shuffle_captions,
)
from unbag.probes.reference_spaces import (
    bag_of_words_space,
    collapsed_space,
    constructed_subject,
    perfect_space,
)
from unbag.probes.sampling import choose_gallery, choose_rows, is_swap
from unbag.probes.sensitivity import SENSITIVITY, edit_sensitivity
from unbag.probes.space import Space
from unbag.probes.stability import STABILITY, stability
from unbag.registry import find
from unbag.types import FloatArray, ImageSource, Sparse

from .asking import case_of, run_probe
from .named_images import Named

QUICK = Options(resamples=200)


@dataclass(frozen=True, eq=False)
class Given:
    """A space of vectors written down; texts that are not are all alike."""

    image: Mapping[str, Sequence[float]]
    caption: Mapping[str, Sequence[float]]
    name: str = "given"
    fingerprint: str = "given"
    damaged: Mapping[str, str] = field(default_factory=dict)
    layers: None = None
    tokens: None = None

    def images(self, images: Sequence[ImageSource]) -> FloatArray:
        result = [self.image.get(p.key.rpartition(":")[2], (0.0, 1.0)) for p in images]
        return np.array(result, dtype=float).reshape(-1, 2)

    def captions(self, captions: Sequence[str]) -> FloatArray:
        result = [self.caption.get(caption, (0.0, 1.0)) for caption in captions]
        return np.array(result, dtype=float).reshape(-1, 2)


@pytest.fixture(scope="module")
def world() -> ProbeData:
    result = world_probe_data()
    assert result.gallery is not None
    rows = choose_rows([row for row in result.rows if is_swap(row)], Options())
    return replace(result, rows=tuple(rows), gallery=choose_gallery(result.gallery, 60))


def test_a_bag_of_words_is_blind_and_loses_nothing(
    world: ProbeData, snapshot: SnapshotAssertion
) -> None:
    result = run_probe(ORDER, constructed_subject(bag_of_words_space()), world, QUICK)
    verdict = ORDER.say(result)
    assert case_of(verdict, VERDICTS) == "blind"
    assert verdict.sentence == snapshot
    for name in ("swaps", "all_words", "trigrams", "within_trigrams", *BY_TAG):
        assert result[f"order precision, {name}"].estimate.value == 0
        assert result[f"similarity, {name}"].estimate.value == pytest.approx(1)
        assert result[f"order precision, {name}"].known.bag == 0
    for name in ("all_words", "nouns_and_adjectives", "rows_4", "columns_4", "patches_9"):
        for direction in ("text to image", "image to text"):
            assert result[f"retention, {name}, {direction}"].estimate.value == pytest.approx(1)
    assert result["similarity, another caption"].estimate.value < 0.5
    assert result.headline == "order precision, swaps"
    assert result.notes == ("Parts of speech: the words of the world.",)


def test_a_perfect_space_sees_order_and_loses_all_without_it(
    world: ProbeData, snapshot: SnapshotAssertion
) -> None:
    result = run_probe(ORDER, constructed_subject(perfect_space()), world, QUICK)
    verdict = ORDER.say(result)
    assert case_of(verdict, VERDICTS) == "yes"
    assert verdict.sentence == snapshot
    for name in ("swaps", "all_words", "trigrams", "within_trigrams", *BY_TAG):
        assert result[f"order precision, {name}"].estimate.value == 1
    assert result["R@1, original, text to image"].estimate.value == 1
    assert result["retention, all_words, text to image"].estimate.value < 0.1


def test_a_collapsed_space_fails(world: ProbeData, snapshot: SnapshotAssertion) -> None:
    result = run_probe(ORDER, constructed_subject(collapsed_space()), world, QUICK)
    verdict = ORDER.say(result)
    assert case_of(verdict, VERDICTS) == "no"
    # Almost nothing is retrieved in order, so the sentence does not mention retention.
    assert verdict.sentence == snapshot
    constant = run_probe(ORDER, constructed_subject(collapsed_space(noise=0)), world, QUICK)
    assert ORDER.say(constant).tone == "fails"
    assert constant["order precision, swaps"].estimate.value == 0
    assert constant["R@1, original, text to image"].estimate.value == 0
    assert np.isnan(constant["retention, all_words, text to image"].estimate.value)


def test_all_seeds_are_asked_in_full_and_images_resampled_together(world: ProbeData) -> None:
    assert world.gallery is not None
    few = replace(world, gallery=choose_gallery(world.gallery, 8), rows=())
    subject = constructed_subject(bag_of_words_space())
    quick, full = (run_probe(ORDER, subject, few, replace(QUICK, is_full=f)) for f in (False, True))
    name = "R@1, all_words, text to image"
    assert (quick[name].estimate.n, full[name].estimate.n) == (8, 24)
    outcomes = full[name].outcomes
    assert outcomes is not None
    assert len(set(outcomes.clusters)) == 8
    assert len(set(outcomes.units)) == 24


def test_worked_recall() -> None:
    score_PC = np.array([[0.9, 0.1, 0.8, 0.2], [0.3, 0.7, 0.6, 0.1]])
    truth = Sparse((2, 4), np.array([0, 1, 0, 1]), np.array([0, 1, 2, 3]))
    hit = hits_at_1(np.eye(2), score_PC.T, truth)
    assert hit["text_to_image"].tolist() == [1, 1, 1, 0]
    assert hit["image_to_text"].tolist() == [1, 1]


def test_a_tie_is_no_preference_and_rounding_no_difference() -> None:
    image = np.array([[1.0, 0.0]] * 4)
    caption = np.array([[0.8, 0.6], [0.8, 0.6], [0.8, 0.6], [np.nan, 1.0]])
    other = np.array([[0.6, 0.8], [0.8, 0.6], [0.8 - 1e-8, 0.6], [1.0, 0.0]])
    result = preferred(image, caption, other)
    assert result[:3].tolist() == [1, 0, 0]
    assert np.isnan(result[3])


def test_worked_retention() -> None:
    """Both captions find their image; shuffled, neither text is known, and all is a tie."""
    space = Given({"p": (1, 0), "q": (0.6, 0.8)}, {"a b": (1, 0), "c d": (0.6, 0.8)})
    gallery = Gallery((Named("p"), Named("q")), ("a b", "c d"), np.arange(2), np.arange(2))
    result = order(space, ProbeData("two", gallery=gallery), QUICK)
    assert result["R@1, original, text to image"].estimate.value == 1
    assert result["R@1, original, text to image"].estimate.chance == 0.5
    # "b a" and "d c" are both (0, 1), so both find the second image, and images find a tie.
    assert result["R@1, all_words, text to image"].estimate.value == 0.5
    assert result["retention, all_words, text to image"].estimate.value == 0.5
    assert result["retention, all_words, image to text"].estimate.value == 0
    assert result["similarity, all_words"].estimate.value == pytest.approx((0 + 0.8) / 2)
    assert result.headline == "order precision, all_words"
    assert any(note.startswith("Without a tagger") for note in result.notes)
    assert any("language alone" in note for note in result.notes)


def test_only_swaps_prove_that_order_is_seen(snapshot: SnapshotAssertion) -> None:
    """Each image likes its own caption, and no unknown text."""
    names = [f"p{i}" for i in range(100)]
    captions = [f"one{i} two{i}" for i in range(100)]
    space = Given(dict.fromkeys(names, (1.0, 0.0)), dict.fromkeys(captions, (1.0, 0.0)))
    images = tuple(map(Named, names))
    gallery = Gallery(images, tuple(captions), np.arange(100), np.arange(100))
    verdict = ORDER.say(order(space, ProbeData("many", gallery=gallery), QUICK))
    assert case_of(verdict, VERDICTS) == "nonsense"
    assert verdict.sentence == snapshot


def test_a_kind_of_swap_at_chance_makes_it_a_part(snapshot: SnapshotAssertion) -> None:
    """Attributes are always right, arguments a tie for every second image."""

    def row(i: int, kind: str) -> Row:
        said, other = f"{kind} {i}", f"{i} {kind}"
        return Row(f"{kind}{i}", Named(f"{kind}{i}"), said, other, kind=kind, cluster=f"{kind}{i}")

    rows = [row(i, kind) for i in range(60) for kind in ("things", "colours", "both")]
    right = {r.caption: (1.0, 0.0) for r in rows if r.kind != "things" or int(r.id[6:]) % 2}
    space = Given({r.image.key: (1.0, 0.0) for r in rows}, right)
    result = order(space, ProbeData("swaps", rows=tuple(rows)), QUICK)
    assert result["order precision, swaps"].estimate.value == pytest.approx(150 / 180)
    assert result["order precision, swaps: things"].estimate.value == 0.5
    verdict = ORDER.say(result)
    assert case_of(verdict, VERDICTS) == "not this kind"
    assert verdict.sentence == snapshot
    few = tuple(row for row in rows if row.kind != "things" or int(row.id[6:]) < 19)
    verdict = ORDER.say(order(space, ProbeData("few", rows=few), QUICK))
    assert case_of(verdict, VERDICTS) == "in part", "19 rows of a kind are too few"


def test_captions_without_another_order_are_left_out_and_counted() -> None:
    space = Given({"p": (1, 0), "q": (0, 1)}, {"star": (1, 0), "red cup": (0, 1)})
    gallery = Gallery((Named("p"), Named("q")), ("star", "red cup"), np.arange(2), np.arange(2))
    result = order(space, ProbeData("two", gallery=gallery), QUICK)
    assert result["order precision, all_words"].estimate.n == 1
    assert result["R@1, all_words, text to image"].estimate.n == 1
    assert any("without another order are left out: " in note for note in result.notes)
    assert any("all_words 1" in note for note in result.notes)


def test_a_single_image_has_no_retrieval() -> None:
    row = Row("r", Named("p"), "a red star", negative="a red cup")
    space = Given({"p": (1, 0)}, {"a red star": (1, 0)})
    result = order(space, ProbeData("one", rows=(row,)), QUICK)
    assert any(note.startswith("Retrieval is left out") for note in result.notes)
    assert result["order precision, all_words"].estimate.value == 1
    assert result.get("R@1, original, text to image") is None
    assert case_of(ORDER.say(result), VERDICTS) == "undecided"


def test_missing_vectors_are_left_out(world: ProbeData) -> None:
    assert world.gallery is not None
    bag = bag_of_words_space()
    lost = world.gallery.images[0].key

    def of_image(image: ImageSource) -> FloatArray:
        result = bag.of_image(image)
        return result * np.nan if image.key == lost else result

    space = replace(bag, of_image=of_image, _image={}, _caption={})
    result = run_probe(ORDER, constructed_subject(space), world, QUICK)
    assert result["R@1, original, image to text"].estimate.invalid == 1
    assert result["order precision, all_words"].estimate.invalid == 1
    assert result["retention, all_words, image to text"].estimate.value == pytest.approx(1)


def test_without_finite_vectors_nothing_is_measured() -> None:
    nan = (float("nan"), float("nan"))
    space = Given({"p": nan, "q": nan}, {})
    gallery = Gallery((Named("p"), Named("q")), ("a b", "c d"), np.arange(2), np.arange(2))
    verdict = ORDER.say(order(space, ProbeData("two", gallery=gallery), QUICK))
    assert case_of(verdict, VERDICTS) == "unknown"


class Unopened(Given):
    """No image can be opened, so that nobody knows how wide their vectors are."""

    def images(self, images: Sequence[ImageSource]) -> FloatArray:
        return np.full((len(images), 1), np.nan)


@pytest.mark.parametrize(
    ("probe", "ask"),
    [(ORDER, order), (SENSITIVITY, edit_sensitivity), (STABILITY, stability)],
    ids=["order", "sensitivity", "stability"],
)
def test_images_that_cannot_be_opened_leave_the_questions_open(
    probe: Probe, ask: Callable[[Space, ProbeData, Options], ProbeResult]
) -> None:
    images = Named("p"), Named("q")
    gallery = Gallery(images, ("a b", "c d"), np.arange(2), np.arange(2))
    rows = tuple(Row(f"{i}", one, "a b", "b a", "a b e") for i, one in enumerate(images))
    pair = ImagePair("x", *images, "left/right", ("a b", "b a"))
    data = ProbeData("lost", rows, (pair,), gallery)
    assert probe.say(ask(Unopened({}, {"a b": (1, 0)}), data, QUICK)).tone == "told"


def test_it_is_skipped_without_captions_or_vectors(
    world: ProbeData, snapshot: SnapshotAssertion
) -> None:
    assert find("probe", "order") is ORDER
    subject = constructed_subject(bag_of_words_space())
    results = [
        run_probe(ORDER, subject, ProbeData("a folder without captions", is_world=True)),
        run_probe(ORDER, replace(subject, name="chat", space=None), world),
    ]
    assert [result.skipped for result in results] == snapshot


def test_shuffles_by_part_of_speech_need_a_tagger() -> None:
    texts = ["a red star and a blue cup", "two stars"]
    tagged = list(WorldTagger()(texts))
    assert [tag for _, tag in tagged[0]] == ["XX", "JJ", "NN", "XX", "XX", "JJ", "NN"]
    assert tagged[1][1] == ("stars", "NNS")
    with_tags = {one.name for one in shuffle_captions(texts, seeds=(0,), tagger=WorldTagger())}
    without = {one.name for one in shuffle_captions(texts, seeds=(0,), tagger=None)}
    assert with_tags - without == set(BY_TAG)
