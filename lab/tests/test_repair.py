"""The repair experiment: arms share their batches, can be continued, and are read in pairs."""

from dataclasses import fields, replace
from math import isnan
from pathlib import Path

import pytest
import torch

from unbag.api import evaluate
from unbag.errors import UnbagError
from unbag.models.tiny import read
from unbag.scorers.cosine import Cosine
from unbag.training.data.batch import Batch
from unbag.training.data.world import columns_of
from unbag.training.encoders.adapters import TinyTrainable
from unbag.types import EvalProtocol
from unbag.world.benchmarks import PAIRS_A, RETRIEVAL
from unbag.world.edits import PARTNER
from unbag_lab.experiments.repair import repair
from unbag_lab.experiments.repair_training import (
    ARMS,
    CONTROL,
    EXPERIMENTS,
    LOCKED,
    RepairArm,
    RepairSettings,
    make_recipe,
    seed_of,
    train_arms,
)
from unbag_lab.pages.tables import FEWEST, repair_tables
from unbag_lab.questions import _MAKERS, PAIR_COSINE, Questions
from unbag_lab.results import BEFORE, ArmResult, read_results
from unbag_lab.verdict import interval

SHORT = RepairSettings(steps=3, batch_size=12, times=1)
THREE = ("clip_ft", "ce_clip_fixed", "hard_positive-locked")


def weights(arm: RepairArm) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in arm.trainable.module.state_dict().items()}


def silent(line: str) -> None:
    pass


def test_arms_differ_in_loss_and_lock_alone() -> None:
    for experiment in EXPERIMENTS.values():
        recipes = [make_recipe(arm, experiment, batch_size=512) for arm in ARMS]
        assert len(recipes) == 10
        for field in fields(recipes[0]):
            if field.name not in ("name", "objective", "freeze"):
                assert len({getattr(recipe, field.name) for recipe in recipes}) == 1
        assert [r.freeze.image == "all" for r in recipes] == [False] * 5 + [True] * 5
        first, second = recipes[:5], recipes[5:]
        for opened, locked in zip(first, second, strict=True):
            assert opened.name + LOCKED == locked.name
            assert opened.objective is locked.objective
    with pytest.raises(UnbagError, match="arm 'neg'"):
        make_recipe("neg", EXPERIMENTS["default"], batch_size=8)


def test_positives_are_of_the_families_of_the_negatives_and_held_out_where_said() -> None:
    made = make_recipe("hard_positive", EXPERIMENTS["default"], batch_size=8)
    columns = columns_of(made.negatives, made.positives)
    trained = {kind for column in columns.negatives for kind in column}
    assert set(columns.positives[0]) == {PARTNER[kind] for kind in trained}
    assert trained.isdisjoint({"replace_count", "negate"})
    held = make_recipe("hard_positive", EXPERIMENTS["held_out"], batch_size=8)
    kinds = set(columns_of(held.negatives, held.positives).positives[0])
    assert kinds == set(columns.positives[0]) - {"conjunct_swap", "inverse"}


def test_all_arms_of_a_step_see_the_same_batch(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, str, Batch]] = []
    gradient = RepairArm.gradient

    def spy(arm: RepairArm, batch: Batch, step: int) -> dict[str, torch.Tensor]:
        seen.append((step, arm.recipe.name, batch))
        return gradient(arm, batch, step)

    monkeypatch.setattr(RepairArm, "gradient", spy)
    train_arms(base, THREE, SHORT, say=silent)
    assert [(step, name) for step, name, _ in seen] == [(s, n) for s in range(3) for n in THREE]
    for step in range(3):
        first, *others = [batch for at, _, batch in seen if at == step]
        assert all(batch is first for batch in others)
    assert not torch.equal(seen[0][2].pixels.to("cpu"), seen[-1][2].pixels.to("cpu"))


def test_a_locked_image_encoder_stays_and_everything_else_moves(base: Path) -> None:
    before = read(base, name="before").network.state_dict()
    arms = train_arms(base, THREE, SHORT, say=silent)
    for name, arm in arms.items():
        moved = {key for key, value in weights(arm).items() if not torch.equal(value, before[key])}
        assert any(key.startswith("caption.") for key in moved)
        assert any(key.startswith("picture.") for key in moved) == (not name.endswith(LOCKED))
        assert arm.last_loss > 0
    margins = arms["ce_clip_fixed"].threshold_K
    assert margins is not None
    assert margins.shape == (4,)
    assert arms["clip_ft"].threshold_K is None


def test_an_arm_does_not_depend_on_the_arms_beside_it_nor_on_workers(base: Path) -> None:
    beside = train_arms(base, THREE, SHORT, say=silent)
    alone = train_arms(base, THREE[1:2], replace(SHORT, workers=2), say=silent)
    one, two = weights(beside["ce_clip_fixed"]), weights(alone["ce_clip_fixed"])
    assert all(torch.equal(one[key], two[key]) for key in one)
    other = train_arms(base, THREE[1:2], replace(SHORT, seed=1), say=silent)
    three = weights(other["ce_clip_fixed"])
    assert not torch.equal(one["caption.project.weight"], three["caption.project.weight"])


def test_each_base_has_scenes_of_its_own(base: Path) -> None:
    assert seed_of(base, SHORT) == seed_of(Path("elsewhere") / base.name, SHORT)
    assert seed_of(base, SHORT) != seed_of(base.with_name("other.safetensors"), SHORT)


def test_the_same_command_goes_on_arm_by_arm(
    base: Path, questions: Questions, tmp_path: Path
) -> None:
    said: list[str] = []
    some = replace(SHORT, arms=THREE[:1])
    repair(base, tmp_path, questions, some, say=said.append)
    folder = tmp_path / "default" / "small"
    kept = (folder / "clip_ft.json").read_bytes()
    more = replace(SHORT, arms=THREE)
    repair(base, tmp_path, questions, more, say=said.append)
    assert "small: clip_ft; the built-in world" in said[0]
    assert said[2] == "small: clip_ft measured"
    assert "small: ce_clip_fixed, hard_positive-locked; the built-in world" in said[3]
    repair(base, tmp_path, questions, more, say=said.append)
    assert said[-1] == f"small: every arm is in {folder}"
    assert (folder / "clip_ft.json").read_bytes() == kept
    together = tmp_path / "together"
    repair(base, together, questions, more, say=silent)
    ours, theirs = read_results(tmp_path / "default"), read_results(together)
    assert {r.arm for r in ours} == {"random", "base", *THREE}
    assert [replace(r, seconds=None) for r in ours] == [replace(r, seconds=None) for r in theirs]
    assert all(r.seconds is not None and r.seconds > 0 for r in ours)
    for arm in THREE:
        paths = [root / "default" / "small" / f"{arm}.safetensors" for root in (tmp_path, together)]
        assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_folder_of_other_settings_is_refused(
    base: Path, questions: Questions, tmp_path: Path
) -> None:
    some = replace(SHORT, arms=THREE[:1])
    repair(base, tmp_path, questions, some, say=silent)
    with pytest.raises(UnbagError, match=r"another clip_ft.json: steps: 3 before, 4 now"):
        repair(base, tmp_path, questions, replace(some, steps=4), say=silent)
    with pytest.raises(UnbagError, match=r"another base.json: seed"):
        repair(base, tmp_path, questions, replace(some, seed=4), say=silent)


def test_numbers_are_those_of_the_evaluation(base: Path) -> None:
    chosen = [PAIRS_A, RETRIEVAL]
    encoder = read(base, name="small")
    trainable = TinyTrainable(encoder, device="cpu")
    trainable.module.eval()
    answers = Questions([b.name for b in chosen]).answers(trainable, device="cpu")
    for benchmark in chosen:
        quick = EvalProtocol(resamples=100)
        overall = evaluate(Cosine(encoder), benchmark, protocol=quick)[0].overall
        found = dict(answers[benchmark.name])
        if benchmark is PAIRS_A:
            assert 0 < found.pop(PAIR_COSINE) <= 1
        assert set(found) == set(overall)
        for metric, estimate in overall.items():
            assert found[metric] == pytest.approx(estimate.value, nan_ok=True)


def test_items_begin_with_those_of_the_registered_benchmarks() -> None:
    for benchmark, make in _MAKERS.values():
        registered = benchmark.load(None)
        assert [item.id for item in make(1)] == [item.id for item in registered]
        assert make(1)[-1].captions == registered[-1].captions
    benchmark, make = _MAKERS["world-binding"]
    assert len(make(2)) == 200
    assert [i.captions for i in make(2)[:100]] == [i.captions for i in benchmark.load(None)]
    with pytest.raises(UnbagError, match="benchmark of the world 'world-none'"):
        Questions(["world-none"])


def result(base: str, arm: str, value: float, **changes: object) -> ArmResult:
    numbers = {"world-relation": {"original": value, "mean_original": value}}
    made = ArmResult("default", base, f"tiny-{base}", arm, 9, 8, 7, 5, "float32", 0.5, numbers)
    return replace(made, **changes)  # type: ignore[arg-type]


def test_the_table_reads_arms_against_their_control_within_each_base() -> None:
    results = []
    for number, name in enumerate("abc"):
        # The bases differ by far more than the arms do, which pairing takes out.
        level = 0.2 * number
        results += [
            result(name, "base", level),
            result(name, CONTROL, level + 0.1),
            result(name, "neg_clip", level + 0.2 + 0.1 * number),
            result(name, CONTROL + LOCKED, level + 0.3),
            result(name, "neg_clip" + LOCKED, level + 0.3),
        ]
    lines = repair_tables(results).splitlines()
    assert "On the world: 9 steps of 8, 3 bases (a, b, c), 5 x the registered items." in lines[2]
    means = next(line for line in lines if line.startswith("| clip_ft |")).split(" | ")
    assert means[1] == "a, b, c"
    assert means[4:6] == ["30.0 / – / –", "0.300 / – / –"]
    differences = next(i for i, line in enumerate(lines) if line.startswith("Difference to"))
    neg_clip, locked = (line.split(" | ") for line in lines[differences + 4 : differences + 6])
    # Differences .1, .2, .3: mean .2, deviation .1, t = 4.303 with two degrees of freedom.
    assert neg_clip[1] == "a, b, c"
    assert neg_clip[6] == "+20.0 [-4.8, +44.8]"
    assert locked[0] == "| neg_clip-locked"
    assert locked[6] == "+0.0 [+0.0, +0.0]"
    every = next(line for line in reversed(lines) if line.startswith("| neg_clip |"))
    assert every.split(" | ")[6] == "20.0, 50.0, 80.0"


def test_one_base_has_no_interval() -> None:
    middle, half = interval([0.25])
    assert middle == 0.25
    assert isnan(half)
    assert interval([0.0, 0.2]) == pytest.approx((0.1, 12.7062047 * 0.1))
    shown = repair_tables([result("a", CONTROL, 0.5), result("a", "neg_clip", 0.75)])
    assert "| neg_clip | a | – | – | – | – | +25.0 |" in shown
    assert "| neg_clip | – | – | – | – | – | – |" in repair_tables([result("a", "neg_clip", 0.75)])


def test_arms_are_compared_on_the_bases_that_both_have() -> None:
    results = [result(f"tiny-{i}", CONTROL, 0.1 * i) for i in range(5)]
    results += [result(f"tiny-{i}", "neg_clip", 0.1 * i + 0.05) for i in (1, 2, 3, 9)]
    lines = repair_tables(results).splitlines()
    difference = next(i for i, line in enumerate(lines) if line.startswith("Difference to"))
    means, every = (
        [line.split(" | ") for line in part if line.startswith("| neg_clip |")]
        for part in (lines[:difference], lines[difference:])
    )
    assert means[0][1] == "1, 2, 3, 9"
    assert every[0][1] == "1, 2, 3"
    assert every[0][6] == "+5.0 [+5.0, +5.0]"
    assert every[1][6] == "15.0, 25.0, 35.0, 95.0"


def test_an_arm_that_has_only_begun_is_named_and_stands_in_no_table() -> None:
    many = [result(f"tiny-{i}", CONTROL, 0.5) for i in range(FEWEST)]
    begun = [result(f"tiny-{i}", "neg_clip", 0.75) for i in range(FEWEST - 1)]
    shown = repair_tables([*many, *begun])
    assert "| neg_clip |" not in shown
    assert shown.endswith(
        "On fewer than 3 bases so far, and so in no table (how many, in brackets): `neg_clip` (2)."
    )
    enough = repair_tables([*many, *begun, result("tiny-9", "neg_clip", 0.75)])
    assert "| neg_clip | 0, 1, 9 |" in enough
    assert "in no table" not in enough
    # Where no arm has as many bases, every arm with the most of them is shown.
    assert "| neg_clip | 0, 1 |" in repair_tables([*many[:2], *begun])
    # Bases are asked first, so they must not hide the first arms of a run that has just begun.
    asked = [result(f"tiny-{i}", BEFORE, 0.5) for i in range(5)]
    assert "| neg_clip | 0, 1 |" in repair_tables([*asked, *begun])
    assert "| base | 0, 1, 2, 3, 4 |" in repair_tables(asked)
