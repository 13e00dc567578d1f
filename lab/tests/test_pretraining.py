"""Pre-training as an experiment: shared batches, equal shares of captions, resumed, judged."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from unbag.errors import UnbagError
from unbag.models.tiny import untrained
from unbag.training.trainer import Trainer
from unbag.world.grammar import And, Ast
from unbag.world.rendering import draw, sprite_table
from unbag.world.stream import batch, split_seed
from unbag.world.truth import holds_matrix
from unbag.world.vocabulary import DEFAULT
from unbag_lab.bases import OnDevice, Pretraining, PretrainSettings, Steps, put_on
from unbag_lab.claims import find_claim
from unbag_lab.experiments import pretraining
from unbag_lab.experiments.pretraining import (
    ARMS,
    PRETRAINING,
    measure,
    smaller,
    train_side_by_side,
)
from unbag_lab.plan import Order
from unbag_lab.results import ArmResult, read_results, result_path, write_result
from unbag_lab.verdict import REPRODUCED, compute_verdicts

QUICK = PretrainSettings(3, steps=2, batch_size=48)


def kind(ast: Ast) -> str:
    if isinstance(ast, And):
        both = all(o.shape and o.colour for o in (ast.first, ast.second))
        return "bound" if both else "two"
    return type(ast).__name__


def test_the_sizes_are_those_of_the_specification() -> None:
    sizes = {name: ARMS[name].config for name in ("small", "base", "large")}
    assert [(c.picture_width, c.picture_depth) for c in sizes.values()] == [
        (128, 4),
        (192, 5),
        (256, 6),
    ]
    assert [(c.caption_width, c.caption_depth) for c in sizes.values()] == [
        (128, 3),
        (128, 3),
        (256, 4),
    ]
    assert len({arm.knobs for name, arm in ARMS.items() if name in sizes}) == 1


def test_only_nvidia_gpus_replay_steps() -> None:
    # "meta" stands for a device that is neither a processor nor one of theirs, such as mps.
    arm = smaller(ARMS["base"])
    trainer = Trainer(Pretraining(QUICK, arm.config, device="meta"))
    assert not trainer.task.is_recorded
    for group in trainer.optimizer.param_groups:
        assert not group["capturable"]
        assert not group["fused"]


@pytest.mark.parametrize(
    ("collides", "alone"), [("collide", "mixed"), ("relations_collide", "relations")]
)
def test_controls_say_as_much_of_each_kind_without_collisions(collides: str, alone: str) -> None:
    samples = {
        name: [
            one
            for step in range(6)
            for one in batch(DEFAULT, ARMS[name].knobs, seed=1, step=step, size=500)
        ]
        for name in (collides, alone)
    }
    counts = {name: Counter(kind(one.ast) for one in some) for name, some in samples.items()}
    for name in counts[collides] | counts[alone]:
        # Three standard errors of a difference of shares of 3,000 at most; partners come in twos.
        assert abs(counts[collides][name] - counts[alone][name]) / 3000 < 0.05, name
    settings = PretrainSettings(1, batch_size=128)
    assert measure(replace(settings, knobs=ARMS[collides].knobs))["collision"] > 0.5
    assert measure(replace(settings, knobs=ARMS[alone].knobs))["collision"] < 0.02


def test_a_batch_on_the_device_is_what_the_stream_drew() -> None:
    knobs = ARMS["relations_collide"].knobs
    (shown,) = Steps([replace(QUICK, knobs=knobs)], ARMS["base"].config)[1]
    samples = batch(DEFAULT, knobs, seed=split_seed("train", 3), step=1, size=48)
    there = put_on(shown, torch.from_numpy(sprite_table(DEFAULT)), torch.Generator().manual_seed(0))
    truth = holds_matrix([one.ast for one in samples], [one.scene for one in samples])
    assert np.array_equal(there.also_true_BB.numpy(), truth)
    plain = np.stack([draw(one.scene, with_noise=False) for one in samples]).transpose(0, 3, 1, 2)
    apart = (there.pixels.numpy() + 1) * 127.5 - plain
    # Noise has a deviation of 6 levels; a flip or a crop would be off by a hundred.
    assert np.abs(apart).mean() < 6


def test_batches_of_any_length_are_read_in_one_place() -> None:
    """As a recorded step reads them: from the same tensors, whatever lay there before."""
    arm = smaller(ARMS["base"])
    streams = Steps([PretrainSettings(3, batch_size=6, knobs=arm.knobs)], arm.config)
    table = torch.from_numpy(sprite_table(DEFAULT))
    network = untrained(arm.config, seed=0)
    place: OnDevice | None = None
    lengths = set()
    for step in range(12):
        made = put_on(streams[step][0], table, torch.Generator().manual_seed(step))
        before, place = place, made.copied_to(place, context=arm.config.context)
        assert before is None or place is before
        lengths.add(made.token_BL.shape[1])
        assert torch.equal(place.pixels, made.pixels)
        assert torch.equal(place.also_true_BB, made.also_true_BB)
        torch.testing.assert_close(
            network.embed_texts(place.token_BL, place.end_B),
            network.embed_texts(made.token_BL, made.end_B),
        )
    assert len(lengths) > 1


def test_arms_share_their_batches_and_nothing_else() -> None:
    """An arm comes to the same weights whoever is trained beside it."""
    arms = {name: smaller(ARMS[name]) for name in ("small", "base", "collide", "unmasked")}
    found = train_side_by_side(arms, QUICK, device="cpu", workers=0, say=print)
    last = {name: arms[name] for name in ("collide", "base")}
    alone = train_side_by_side(last, QUICK, device="cpu", workers=0, say=print)
    for name in alone:
        one, two = found[name].network.state_dict(), alone[name].network.state_dict()
        assert all(torch.equal(one[key], two[key]) for key in one), name
    weights = [found[n].network.caption.project.weight for n in ("base", "collide", "unmasked")]
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Order:
    out = tmp_path_factory.mktemp("pretraining")
    order = Order((Path("tiny-2"),), ("base", "collide"), out, size="small")
    PRETRAINING.run(order, say=lambda line: None)
    return order


def test_numbers_of_a_small_run(run: Order) -> None:
    by_arm = {one.arm: one for one in read_results(run.out)}
    assert {one.fingerprint for one in by_arm.values()} == {"pretraining-2"}
    assert by_arm["collide"].numbers["batch"]["collision"] > 0.4


def test_a_run_goes_on_where_it_stopped(run: Order) -> None:
    """A result is left alone; weights whose result is missing are asked again, not trained."""
    path = result_path(run.out, "pretraining", "tiny-2", "base")
    before, weights = read_results(path)[0], path.with_suffix(".safetensors").read_bytes()
    write_result(path.with_suffix(".state"), replace(before, numbers={}))
    path.unlink()
    said: list[str] = []
    PRETRAINING.run(run, say=said.append)
    assert said == ["tiny-2: base measured"]
    assert path.with_suffix(".safetensors").read_bytes() == weights
    again = read_results(path)[0].numbers
    assert again == {name: numbers for name, numbers in before.numbers.items() if name != "batch"}
    PRETRAINING.run(run, say=said.append)
    assert said[1:] == [f"tiny-2: every arm is in {path.parent}"]


@pytest.mark.parametrize(
    ("workers", "processes", "each"),
    [(15, 1, 15), (15, 2, 7), (15, 8, 5), (2, 3, 1), (0, 3, 0)],
)
def test_seeds_side_by_side_share_those_who_make_scenes(
    workers: int, processes: int, each: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone: list[Order] = []
    monkeypatch.setattr(pretraining, "_run_seed", lambda sized, one, say: alone.append(one))
    monkeypatch.setattr(pretraining, "run_shares", lambda some, **_: [one.work() for one in some])
    bases = tuple(Path(f"tiny-{seed}") for seed in range(3))
    order = Order(bases, ("base",), tmp_path, workers=workers, processes=processes)
    PRETRAINING.run(order)
    assert [one.bases for one in alone] == [(base,) for base in bases]
    assert {(one.workers, one.processes) for one in alone} == {(each, 1)}


def test_bad_orders_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="'mine' names no seed"):
        PRETRAINING.run(Order((Path("mine.safetensors"),), ("base",), tmp_path))
    with pytest.raises(UnbagError, match="colide"):
        PRETRAINING.run(Order((Path("tiny-0"),), ("colide",), tmp_path))
    with pytest.raises(UnbagError, match="huge"):
        PRETRAINING.seconds("huge")
    assert list(tmp_path.iterdir()) == []


def test_bases_of_the_same_name_and_other_weights_do_not_mix() -> None:
    """`tiny-0` is a base of repairs too; its results are of another model."""

    def results(experiment: str, arms: dict[str, float], fingerprint: str) -> list[ArmResult]:
        return [
            ArmResult(
                experiment,
                f"tiny-{seed}",
                f"{fingerprint}-{seed}",
                arm,
                steps=1,
                batch_size=1,
                seed=seed,
                times=1,
                precision="float32",
                loss=None,
                numbers={
                    "world-relation": {"original": value + 0.001 * seed},
                    "world-pairs-a": {"pair": value},
                    "world-retrieval": {"text_to_image@1": 0.01 * seed * value + value},
                },
            )
            for seed in range(5)
            for arm, value in arms.items()
        ]

    repairs = results("default", {"base": 0.1, "clip_ft": 0.9}, "tiny")
    ours = results("pretraining", {"small": 0.50, "large": 0.51}, "pretraining")
    for every in (repairs + ours, ours + repairs):
        verdict = compute_verdicts([find_claim("scale_alone")], every)[0]
        assert verdict.word == REPRODUCED
        assert all(len(one.effects) == 5 for one in verdict.tested)


def test_the_full_size_is_what_the_claims_say() -> None:
    assert (PRETRAINING.steps, PRETRAINING.batch_size) == (2_000, 512)
    assert "2,000 steps of 512" in find_claim("collision_low_high").knobs
