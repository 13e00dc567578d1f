"""The read-out experiment as the lab runs it: all arms small, going on, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from unbag.errors import UnbagError
from unbag.models.text_encoders import load_part
from unbag.readouts.decoder.readout import DECODER
from unbag.readouts.decoder.saving import read_decoder
from unbag.readouts.vlm2vec.readout import VLM2VEC, AskedCosine
from unbag.types import Query
from unbag.world.benchmarks import pair_items, set_items
from unbag_lab.experiments import decoders, readouts
from unbag_lab.experiments.decoders import CURVE, _Lessons
from unbag_lab.experiments.readers import FOR_DECODERS, READERS, Base, ReadoutSettings
from unbag_lab.experiments.readouts import READOUTS, write_small_text
from unbag_lab.plan import Order, Say
from unbag_lab.questions import Questions
from unbag_lab.results import BEFORE, ArmResult, read_results, result_path

Ran = tuple[Order, dict[str, ArmResult]]


def results_of(order: Order) -> dict[str, ArmResult]:
    return {one.arm: one for one in read_results(order.out)}


def silent(said: str) -> None:
    pass


@pytest.fixture(scope="module")
def ran(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    order = Order((base,), READOUTS.arms, tmp_path_factory.mktemp("readouts"), "small")
    READOUTS.run(order, say=silent)
    return order, results_of(order)


def test_arms_and_what_they_need() -> None:
    assert READOUTS.arms[0] == BEFORE
    assert set(READOUTS.arms) > {*READERS, "decoder", "decoder-cls", "vlm2vec", "vlm2vec-plain"}
    assert len(READOUTS.arms) == len(set(READOUTS.arms))
    assert READOUTS.needs("pacl_uniform") == (("readouts", "pacl"),)
    assert READOUTS.needs("vlm2vec-plain") == (("readouts", "decoder"),)
    assert READOUTS.needs("vlm2vec-plain-long") == (("readouts", "decoder-long"),)
    assert READOUTS.needs("pooled") == READOUTS.needs(BEFORE) == ()
    assert all(READOUTS.seconds(arm) > 0 for arm in READOUTS.arms)
    with pytest.raises(UnbagError, match="did you mean 'pooled'"):
        READOUTS.needs("poold")


def test_a_small_run_of_every_arm(ran: Ran, base: Path) -> None:
    order, found = ran
    assert set(found) == set(READOUTS.arms)
    assert {one.size for one in found.values()} == {"small"}
    assert {one.base for one in found.values()} == {base.stem}
    assert len({one.fingerprint for one in found.values()}) == 1
    for arm, one in found.items():
        assert one.extent == READOUTS.extent(arm, size="small"), arm
    assert all(one.seconds is not None and one.seconds > 0 for one in found.values())
    for arm, one in found.items():
        if arm not in (BEFORE, "pacl_uniform"):
            assert 0 <= one.numbers["fit"]["few"] <= 1
    folder = result_path(order.out, "readouts", base.stem, BEFORE).parent
    assert read_decoder(folder / "vlm2vec").made.settings.width == 16


def test_a_decoder_that_is_taught_for_long_is_asked_on_the_way(ran: Ran) -> None:
    """Of two steps after each; the last answer is that of the whole measurement."""
    _, found = ran
    assert {arm for arm, one in found.items() if CURVE in one.numbers} == {
        "decoder-long", "decoder-cls-long"
    }  # fmt: skip
    curve = found["decoder-long"].numbers[CURVE]
    assert list(curve) == ["1", "2"]
    assert curve["2"] == found["decoder-long"].numbers["world-relation"]["original"]


def test_a_decoder_is_not_asked_on_the_way_what_nobody_asks(base: Path, tmp_path: Path) -> None:
    frozen = Base(base, Questions(["world-binding"], every=50), readouts.SMALL)
    decoders.run_decoders(frozen, tmp_path, ["decoder-long"], say=silent)
    (found,) = read_results(tmp_path)
    assert set(found.numbers) == {"world-binding", "fit"}


def test_looking_at_a_decoder_does_not_change_what_it_learns(ran: Ran) -> None:
    """The same recipe, size and seed but for looks: two steps each."""
    _, found = ran
    asked, alone = found["decoder-long"], found["decoder"]
    assert asked.loss == alone.loss
    assert asked.numbers["world-pairs-a"] == alone.numbers["world-pairs-a"]


def test_a_decoder_scores_as_the_registered_read_out_does(ran: Ran, base: Path) -> None:
    order, _ = ran
    folder = result_path(order.out, "readouts", base.stem, "decoder").with_suffix("")
    items = pair_items("swap", n=100)[::50]
    frozen = Base(base, Questions(["world-binding"], every=50), readouts.SMALL)
    made = read_decoder(folder).made
    score = decoders._score_decoder(made.net, made.words, frozen, made.settings)
    captions = frozen.questions.captions
    cells = [(p, c) for item in items for p in item.images for c in item.captions]
    image_M = np.repeat(np.arange(4), 2)
    found_M = score(image_M, np.array([captions.index(str(c)) for _, c in cells]), items)
    (scorer,) = DECODER.scorers(frozen.encoder, folder)
    wanted_M = np.asarray(scorer.score([Query(p, str(c)) for p, c in cells]))
    assert np.exp(found_M) == pytest.approx(wanted_M, rel=1e-4)
    assert len(set(wanted_M.round(9))) > 4


def test_vectors_score_as_the_registered_read_out_does(ran: Ran, base: Path) -> None:
    order, _ = ran
    folder = result_path(order.out, "readouts", base.stem, "vlm2vec").with_suffix("")
    items = set_items("a", n=100)[::50]
    frozen = Base(base, Questions(["world-pairs-a"], every=50), readouts.SMALL)
    made = read_decoder(folder).made
    seen_NLV = decoders.question_features(frozen, made.settings)
    assert seen_NLV is not None
    texts = decoders._Texts(made.words, "cpu")
    score = decoders._score_vectors(made.net, seen_NLV, texts, frozen, asks=True)
    captions = frozen.questions.captions
    said = [captions.index(str(c)) for item in items for _ in item.images for c in item.captions]
    found_M = score(np.repeat(np.arange(8), 4), np.array(said), items)
    (scorer,) = VLM2VEC.scorers(frozen.encoder, folder)
    assert isinstance(scorer, AskedCosine)
    wanted = [np.asarray(one.values).ravel() for one in scorer.score_items(items)]
    assert found_M == pytest.approx(np.concatenate(wanted), abs=1e-5)
    assert len(set(found_M.round(5))) > 4


def test_arms_are_made_again_from_weights_beside_them(ran: Ran, base: Path) -> None:
    order, found = ran
    arms = ("pacl_uniform", "vlm2vec")
    paths = [result_path(order.out, "readouts", base.stem, arm) for arm in arms]
    for path in paths:
        path.unlink()
    READOUTS.run(replace(order, arms=arms, processes=2), say=silent)
    again = results_of(order)
    assert [again[arm].numbers for arm in arms] == [found[arm].numbers for arm in arms]


def test_weights_that_are_gone_are_told(ran: Ran, base: Path, tmp_path: Path) -> None:
    order, _ = ran
    elsewhere = replace(order, out=tmp_path, arms=("pacl_uniform",))
    with pytest.raises(
        UnbagError, match=r"weights .*pacl\.weights of another arm are missing"
    ) as error:
        READOUTS.run(elsewhere, say=silent)
    assert error.value.hint == "remove pacl.json next to it and run that arm again"
    with pytest.raises(UnbagError, match=r"decoder is not a decoder: there is no such folder"):
        READOUTS.run(replace(elsewhere, arms=("vlm2vec",)), say=silent)


def test_without_a_text_model_the_other_arms_go_on(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unread(text: str, *, device: str) -> None:
        raise UnbagError(f"no {text}", expected="a text model", hint="install it")

    monkeypatch.setattr(readouts, "load_part", unread)
    order = Order((base,), ("pooled-text", "pooled"), tmp_path, "small")
    with pytest.raises(UnbagError, match="pooled-text could not be run: no ") as error:
        READOUTS.run(order, say=silent)
    assert error.value.hint == "install it; then give the same command again"
    assert set(results_of(order)) == {"pooled"}


def test_a_small_text_model_knows_the_words_of_the_world(tmp_path: Path) -> None:
    part = load_part(str(write_small_text(tmp_path / "text")))
    captions = ["a red star left of a blue cup", "a blue cup left of a red star"]
    assert part.reads.count(captions) == [8, 8]
    with torch.inference_mode():
        first, second = part.pooled(part.reads(captions))
    assert not torch.allclose(first, second)
    again = load_part(str(write_small_text(tmp_path / "again")))
    assert again.fingerprint == part.fingerprint


def test_targets_of_vlm2vec_belong_to_rows() -> None:
    negatives = [("a", None), (None, None), ("b", "c")]
    lesson = _Lessons(["x", "y", "z"], negatives, {}, asks=False, seed=0)
    assert lesson.owners(np.array([2, 1, 0])).tolist() == [0, 1, 2, 0, 0, 2]


def test_a_full_run_teaches_as_the_settings_say() -> None:
    for full in (ReadoutSettings(), FOR_DECODERS):
        assert (full.size, full.text) == ("full", "minilm")
        assert readouts.SMALL.steps < full.steps
    assert readouts.SMALL.size == "small"


def test_readers_and_decoders_are_given_their_own_settings(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, ReadoutSettings] = {}

    def run(base: Base, folder: Path, arms: list[str], *, say: Say) -> None:
        asked.update(dict.fromkeys(arms, base.settings))

    monkeypatch.setattr(readouts, "run_base", run)
    monkeypatch.setattr(readouts, "run_decoders", run)
    monkeypatch.setattr(Base, "make_rows", lambda *_: None)
    monkeypatch.setattr(readouts, "Questions", lambda *_, **__: None)
    READOUTS.run(Order((base,), ("dcsm", "pooled", "decoder", "vlm2vec"), tmp_path, workers=3))
    assert asked["pooled"] == asked["dcsm"] == ReadoutSettings(workers=3)
    assert asked["decoder"] == asked["vlm2vec"] == replace(FOR_DECODERS, workers=3)
