"""Arms of the read-out experiment: what they are built of, and small runs on a CPU."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unbag.errors import UnbagError
from unbag.models.tiny import load, write
from unbag.readouts.data import RELATION, Pool, world_rows
from unbag.readouts.decoder.lessons import NOTHING, LessonBatch, words_of
from unbag.readouts.reader import Reader
from unbag.readouts.training import ReaderEffort, ReaderTask
from unbag_lab.experiments.decoders import _Lessons, _said, _Texts, taught_with
from unbag_lab.experiments.readers import (
    READERS,
    Base,
    ReaderArm,
    ReadoutSettings,
    find_arm,
    run_base,
)
from unbag_lab.experiments.readouts import READOUTS
from unbag_lab.pages.tables import readout_tables
from unbag_lab.questions import Questions
from unbag_lab.results import ArmResult, read_results


@pytest.mark.parametrize("name", READERS)
def test_efforts(name: str) -> None:
    """Arms share steps, batch size and rate; fixed examples are fitted fast, without dropout."""
    arm, reads_patches = find_arm(name), name.startswith(("pacl", "sparc"))
    effort, fit = arm.effort(123), arm.effort(123, by_heart=True)
    is_fast = reads_patches and name.endswith(("-fast", "-long", "-relations"))
    assert (effort.steps, effort.batch_size) == (123, 256)
    assert effort.learning_rate == (1e-2 if is_fast else 1e-3)
    assert arm.reads_patches == reads_patches
    assert fit.learning_rate == (1e-2 if reads_patches else 1e-3)
    assert asdict(fit).get("dropout", 0.0) == 0.0
    assert (asdict(effort).get("dropout", 0.0) == 0.1) == (reads_patches and not is_fast)
    same = {"dropout": 0.0, "learning_rate": 0.0}
    assert {**asdict(effort), **same} == {**asdict(fit), **same}
    if name.endswith("-fast"):
        assert effort == fit == find_arm(name.removesuffix("-fast")).effort(123, by_heart=True)


def test_arms_that_are_taught_for_long() -> None:
    settings = ReadoutSettings(steps=5, map_steps=3, long_steps=20)
    assert settings.steps_of(READERS["dcsm_fixed"]) == 3
    assert settings.steps_of(READERS["pooled"]) == 5
    for name, arm in READERS.items():
        assert arm.is_long == name.endswith(("-long", "-relations"))
        assert arm.only_relations == name.endswith("-relations")
        if arm.is_long:
            assert settings.steps_of(arm) == 20
    assert taught_with("decoder-long", settings).steps == 20
    assert taught_with("decoder", settings).steps == 5
    assert taught_with("decoder-cls-long", settings).sees == "cls"


def test_an_arm_costs_by_its_steps() -> None:
    """Single steps, timed alone on one H200: 1.3, 3.2 and 3.5 ms."""
    more = {
        ("pooled-long", "pooled"): 15_000 * 0.0013,
        ("dcsm_fixed-long", "dcsm_fixed"): 17_000 * 0.0032,
        ("decoder-long", "decoder"): 14_000 * 0.0035,
    }
    for (long, usual), seconds in more.items():
        assert READOUTS.seconds(long) - READOUTS.seconds(usual) == pytest.approx(seconds)
    assert READOUTS.seconds("vlm2vec-long") == READOUTS.seconds("vlm2vec")


def test_arms_have_the_settings_of_their_names() -> None:
    wanted = {
        "dcsm_fixed-shuffled": ("shuffle_patches", "each"),
        "dcsm_fixed-cls_eos": ("only", "cls_eos"),
        "pacl_fixed-rotary-2d": ("rope", "2d"),
    }
    for name, (key, value) in wanted.items():
        assert asdict(find_arm(name).effort(1))[key] == value
    assert find_arm("dcsm_fixed-random").is_random
    assert find_arm("pacl_uniform").taught_as == "pacl"


def test_unknown_arms_and_other_readouts_are_refused() -> None:
    with pytest.raises(UnbagError, match="dcsm_fix"):
        find_arm("dcsm_fix")
    with pytest.raises(UnbagError, match="no reader of parts"):
        ReaderArm("decoder").read_out()


def test_readers_are_taught_asked_and_left_alone_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "tiny-0.safetensors"
    write(load("base").network, path)
    settings = ReadoutSettings(scenes=64, steps=2, fit_rows=32, fit_steps=1, times=1)
    questions = Questions(["world-relation", "world-pairs-a"], times=1)
    base, folder = Base(path, questions, settings), tmp_path / "out" / "tiny-0"
    run_base(base, folder, ["base", "pooled"], say=lambda said: None)
    found = {result.arm: result for result in read_results(tmp_path / "out")}
    assert set(found) == {"base", "pooled"}
    shares = {"few", "few relation", "learned", "learned relation", "held", "held relation"}
    assert set(found["pooled"].numbers["fit"]) == {*shares, "few_steps", "few_rate"}
    assert found["pooled"].numbers["fit"]["few_steps"] == 1
    assert 0.4 < found["pooled"].numbers["world-relation"]["original"] < 0.6
    assert found["base"].numbers["world-relation"].keys() >= {"original", "augmented"}
    assert "| `pooled` |" in readout_tables(list(found.values()))


def test_an_arm_may_be_taught_relations_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tiny-0.safetensors"
    write(load("base").network, path)
    settings = ReadoutSettings(scenes=96, long_steps=1, fit_rows=64, fit_steps=1, times=1)
    base = Base(path, Questions(["world-relation"], times=1, every=10), settings)
    taught: list[Pool] = []

    class Watched(ReaderTask):
        def __init__(self, reader: Reader, pool: Pool, effort: ReaderEffort, **more: Any) -> None:
            taught.append(pool)
            super().__init__(reader, pool, effort, **more)

    monkeypatch.setattr("unbag_lab.experiments.readers.ReaderTask", Watched)
    run_base(base, tmp_path / "out" / "tiny-0", ["pooled-relations"], say=lambda said: None)
    captions = [text for rows in base.rows for text in rows.captions]
    opposites = [row[RELATION] for rows in base.rows for row in rows.negatives]
    stating = sum(one is not None for one in opposites)
    assert 0 < stating < len(captions)
    few, most = taught
    assert len(few) == min(stating, 64)
    assert few.negative_NK.shape == (len(few), 1)
    assert len(most) < stating  # The last are held out.
    (found,) = read_results(tmp_path / "out")
    assert found.steps == 1
    assert set(found.numbers["fit"]) == {"few", "few_steps", "few_rate", "learned", "held"}


def test_the_mean_of_what_was_learned_by_heart_is_of_one_way_to_learn() -> None:
    def learned(base: str, few: float, **how: float) -> ArmResult:
        numbers = {"fit": {"few": few, "held": few, **how}}
        return ArmResult("readouts", base, "print", "pacl", 1, 1, 0, 1, "float32", None, numbers)

    old, new = learned("tiny-1", 0.5, few_dropout=0.1), learned("tiny-2", 0.9, few_dropout=0.0)
    assert "| `pacl` | 1, 2 | 90.0 | 70.0 |" in readout_tables([old, new])
    assert "| `pacl` | 1 | 50.0 | 50.0 |" in readout_tables([old])
    assert "| `pacl` | 1, 2 | 80.0 | 80.0 |" in readout_tables([learned("tiny-1", 0.7), new])


def test_results_say_how_a_reader_learned_by_heart(tmp_path: Path) -> None:
    path = tmp_path / "tiny-0.safetensors"
    write(load("base").network, path)
    settings = ReadoutSettings(scenes=64, steps=1, fit_rows=32, fit_steps=1, times=1)
    base = Base(path, Questions(["world-relation"], times=1, every=10), settings)
    run_base(base, tmp_path / "out" / "tiny-0", ["pacl"], say=lambda said: None)
    (found,) = read_results(tmp_path / "out")
    assert found.numbers["fit"]["few_dropout"] == 0.0
    assert found.numbers["fit"]["few_rate"] == 1e-2


def test_an_answer_is_scored_without_its_end_and_without_padding() -> None:
    logit_BAV = torch.zeros(2, 3, 4)
    logit_BAV[0, 0, 1] = 2.0
    target_BA = torch.tensor([[1, 3, NOTHING], [1, 2, 3]])
    batch = LessonBatch(torch.zeros(2), torch.zeros(2, 3), torch.zeros(2, 3), target_BA)
    found = _said(logit_BAV, batch, end=3)
    first = 2 - np.log(3 + np.exp(2))
    assert found.tolist() == pytest.approx([first, -np.log(4)], abs=1e-6)


def test_targets_of_vlm2vec_mask_what_also_fits() -> None:
    rows = world_rows(24, seed=3)
    captions = [caption for some in rows for caption in some.captions]
    negatives = [one for some in rows for one in some.negatives]
    code = {key: torch.cat([some.code[key] for some in rows]) for key in rows[0].code}
    lesson = _Lessons(captions, negatives, code, asks=True, seed=0)
    row_B = np.arange(24)
    texts, masked_BT = lesson.targets(row_B)
    count = sum(text is not None for one in negatives for text in one)
    assert masked_BT.shape == (24, 24 + count)
    assert texts[:24] == captions
    assert not masked_BT[:, :24].diagonal().any()
    # A row's own negatives are false of its image, so none of them is masked for it.
    place = 24
    for row, own in enumerate(negatives):
        width = sum(text is not None for text in own)
        assert not masked_BT[row, place : place + width].any()
        place += width
    equal = [(i, j) for i in range(24) for j in range(24) if i != j and captions[i] == captions[j]]
    assert all(masked_BT[i, j] for i, j in equal)


def test_prompts_ask_only_of_relations_and_only_where_wanted() -> None:
    captions = ["a red star left of a blue cup", "a red star"]
    asked = _Lessons(captions, [(), ()], {}, asks=True, seed=0)
    plain = _Lessons(captions, [(), ()], {}, asks=False, seed=0)
    assert "left of" in asked.prompt(0)
    assert "right of" in asked.prompt(0)
    assert asked.prompt(1) == plain.prompt(0) == plain.prompt(1)


def test_texts_end_at_their_own_last_token() -> None:
    texts = _Texts(words_of(["a red star", "a cup"]), "cpu")
    token, last = texts(["a red star", "a cup"])
    assert last.tolist() == [4, 3]
    assert token[1, 4] == 0
    assert token[0, 4] == token[1, 3]
