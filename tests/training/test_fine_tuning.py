"""Fine-tuning: what is logged, changed and saved; signals; two processes."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib import import_module
from math import cos, pi
from pathlib import Path

import pytest
import torch
from tests.contracts.jobs import training
from torch import Tensor

from unbag.errors import UnbagError
from unbag.models.tiny import load
from unbag.runs import checkpoint
from unbag.runs.checkpoint import BEST, LAST
from unbag.runs.identity import RunIdentity
from unbag.training.data.batch import Batch
from unbag.training.data.world import WorldBatches
from unbag.training.fine_tuning import train
from unbag.training.losses import contrastive, distil
from unbag.training.objective import Objective, Term
from unbag.training.recipes import Recipe

from .cut_runs import arguments, make_folder, start
from .small_runs import column, fast, job_of, rows, same, weights
from .small_world import SWAP, small


def test_the_log_has_every_step_term_and_threshold(tmp_path: Path) -> None:
    recipe = fast("ce_clip_fixed")
    trained = train(job_of(tmp_path, recipe))
    assert trained.is_done
    assert trained.state.step == 6
    logged = rows(tmp_path)
    assert [row["step"] for row in logged] == [0, 1, 2, 3, 4, 5]
    assert [row["epoch"] for row in logged] == pytest.approx(
        [0, 1 / 3, 2 / 3, 1, 4 / 3, 5 / 3], rel=1e-5
    )
    assert list(logged[0]) == [
        *("step", "epoch", "learning_rate", "waited", "loss"),
        *("contrastive_negatives", "intra_modal", "rank"),
        *("threshold_relation", "threshold_attribute", "threshold_object", "threshold_action"),
        *("gradient", "scale"),
    ]
    for row in logged:
        total = row["contrastive_negatives"] + 0.2 * row["intra_modal"] + 0.4 * row["rank"]
        assert row["loss"] == pytest.approx(total, rel=1e-4)
    # The first step has margins of 0; the world has no actions, so that margin never moves.
    assert logged[0]["threshold_relation"] == logged[0]["threshold_attribute"] == 0
    assert {row["threshold_action"] for row in logged} == {0.0}
    assert max(row["threshold_attribute"] for row in logged) > 0


def test_the_rate_rises_in_a_line_and_falls_in_half_a_cosine(tmp_path: Path) -> None:
    train(job_of(tmp_path))
    falling = [0.005 * (1 + cos(pi * step / 4)) for step in range(4)]
    assert column(tmp_path, "learning_rate") == pytest.approx([0.005, 0.01, *falling], rel=1e-5)


def test_the_scale_stays_below_its_bound(tmp_path: Path) -> None:
    first = small(1).network.log_scale.exp().item()
    train(job_of(tmp_path / "free"))
    assert max(column(tmp_path / "free", "scale")) > 0.9 * first > 3
    train(job_of(tmp_path / "bound", fast("clip_ft", "max_logit_scale=3")))
    bound = column(tmp_path / "bound", "scale")
    assert bound[0] == max(bound) == pytest.approx(3.0, rel=1e-5)


def test_long_gradients_are_cut(tmp_path: Path) -> None:
    """Adam divides by the length, so only what is cut beside what is not can be seen."""
    recipe = replace(fast(), epsilon=1.0)
    for name, norm in (("cut", 1e-3), ("whole", None)):
        train(job_of(tmp_path / name, replace(recipe, clip_norm=norm)))
    first = job_of(tmp_path).trainable.module.state_dict()
    assert column(tmp_path / "cut", "gradient")[0] == column(tmp_path / "whole", "gradient")[0]
    distances = {
        name: sum(
            float((value - first[at]).square().sum())
            for at, value in weights(tmp_path / name).items()
        )
        for name in ("cut", "whole")
    }
    assert 0 < distances["cut"] < distances["whole"] / 10


def test_the_penalty_holds_weights_near_the_start(tmp_path: Path) -> None:
    recipe = fast("clip_ft", "weight_decay=0")
    for name, strength in (("loose", 1e-6), ("firm", 1.0), ("firmer", 100.0)):
        train(job_of(tmp_path / name, replace(recipe, l2_to_init=strength)))
    loose, firm, firmer = (column(tmp_path / n, "to_start") for n in ("loose", "firm", "firmer"))
    assert loose[0] == firm[0] == firmer[0] == 0
    assert loose[-1] > firm[-1] > firmer[-1] > 0


def test_a_run_with_lora_changes_only_what_was_added(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    job = job_of(tmp_path, fast("clip_ft", "lora.rank=2"))
    before = {name: value.clone() for name, value in job.trainable.module.state_dict().items()}
    train(job)
    after = weights(tmp_path)
    changed = {n for n in after if not (n in before and before[n].equal(after[n]))}
    plain = {name for name in changed if "lora_" not in name and "base_layer" not in name}
    assert plain == {"log_scale"}
    assert any("lora_B" in name and after[name].any() for name in changed)


def test_frozen_weights_stay(tmp_path: Path) -> None:
    job = job_of(tmp_path, fast("locked_image", "freeze.scale=true", "freeze.text=1"))
    before = {name: value.clone() for name, value in job.trainable.module.state_dict().items()}
    train(job)
    after = weights(tmp_path)
    changed = {name for name in after if not after[name].equal(before[name])}
    assert changed
    assert all(name.startswith("caption.") for name in changed)
    assert not any("embed" in name for name in changed)


def test_distillation_compares_with_the_start_also_when_it_goes_on(tmp_path: Path) -> None:
    terms = (Term("contrastive", 1.0, contrastive), Term("distil", 0.5, distil, needs_start=True))
    recipe = replace(fast(), objective=Objective(terms))
    stops = _stopping_at(recipe, 4, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        train(replace(job_of(tmp_path / "cut", stops)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunIdentity, "require_same", lambda *_, **__: None)
        train(job_of(tmp_path / "cut", recipe))
    train(job_of(tmp_path / "whole", recipe))
    distilled = column(tmp_path / "whole", "distil")
    assert distilled[0] == pytest.approx(0, abs=1e-6)
    assert min(distilled[1:]) > 1e-5
    assert column(tmp_path / "cut", "distil") == distilled
    assert same(weights(tmp_path / "cut"), weights(tmp_path / "whole"))


def _stopping_at(recipe: Recipe, call: int, error: BaseException) -> Recipe:
    """The last term raises at a step, counted from 0."""
    calls: list[int] = []
    *others, last = recipe.objective.terms

    def stop(embedded: object) -> Tensor:
        calls.append(0)
        if len(calls) == call + 1:
            raise error
        return last.loss(embedded)  # type: ignore[arg-type]

    return replace(recipe, objective=Objective((*others, replace(last, loss=stop))))


def test_evaluation_while_training_keeps_the_best(tmp_path: Path) -> None:
    job = replace(job_of(tmp_path), benchmarks=(SWAP,), evaluate_every=2)
    trained = train(job)
    with (tmp_path / "evaluations.csv").open(encoding="utf-8") as file:
        logged = list(csv.DictReader(file))
    assert [(row["step"], row["benchmark"], row["metric"]) for row in logged] == [
        (step, "small-swap", "original") for step in ("2", "4", "6")
    ]
    values = [float(row["value"]) for row in logged]
    assert trained.state.best == max(values)
    # The first of equal ones.
    assert trained.state.best_step == 2 * (values.index(max(values)) + 1)
    best = checkpoint.load_checkpoint(tmp_path / BEST)
    assert best.header["step"] == trained.state.best_step
    assert not best.group("optimizer")
    assert (tmp_path / "evaluations/step-4/results.json").exists()
    for name in ("log.jsonl", "evaluations.csv"):
        assert b"\r" not in (tmp_path / name).read_bytes(), "resuming compares lines"
    train(replace(job_of(tmp_path / "alone")))
    assert same(weights(tmp_path), weights(tmp_path / "alone")), "evaluating changes nothing"
    assert not (tmp_path / "alone" / BEST).exists()


def test_tensorboard_events_can_be_read(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    module = import_module("tensorboard.backend.event_processing.event_accumulator")
    train(replace(job_of(tmp_path), uses_tensorboard=True))
    events = module.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    losses = [(event.step, event.value) for event in events.Scalars("loss")]
    assert losses == [
        (step, pytest.approx(value, rel=1e-5))
        for step, value in enumerate(column(tmp_path, "loss"))
    ]
    assert {"contrastive", "gradient", "scale", "learning_rate"} <= set(events.Tags()["scalars"])


def test_logs_that_need_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, job in (
        ("torch.utils.tensorboard", replace(job_of(tmp_path / "a"), uses_tensorboard=True)),
        ("wandb", replace(job_of(tmp_path / "b"), wandb_project="mine")),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(UnbagError, match=r"log\.jsonl has it all"):
            train(job)


@pytest.mark.parametrize("recipe", ["clip_ft", "hard_positive", "ce_clip_fixed", "siglip_hn"])
def test_a_batch_of_one(tmp_path: Path, recipe: str) -> None:
    train(job_of(tmp_path, fast(recipe, "batch_size=1")))
    logged = rows(tmp_path)
    assert len(logged) == 6
    assert all(value == value and abs(value) < 1e6 for row in logged for value in row.values())
    if recipe == "clip_ft":
        assert column(tmp_path, "loss") == [0.0] * 6, "no other pair to compare with"


@dataclass(frozen=True)
class Bare(WorldBatches):
    """Batches of the world whose edits are all missing, or those of one column."""

    only: int | None = None

    def __getitem__(self, step: int) -> Batch:
        batch = super().__getitem__(step)
        negative_BK = batch.negative_BK.clone()
        negative_BK[:, slice(None) if self.only is None else self.only] = -1
        return replace(batch, negative_BK=negative_BK, positive_BP=batch.positive_BP * 0 - 1)


def test_captions_without_any_edit(tmp_path: Path) -> None:
    job = job_of(tmp_path, fast("ce_clip_fixed"))
    train(replace(job, batches=Bare(job.recipe, job.trainable.reads, per_epoch=3)))
    for name in ("relation", "attribute", "object"):
        assert column(tmp_path, f"threshold_{name}") == [0.0] * 6
    assert column(tmp_path, "rank") == [0.0] * 6
    assert column(tmp_path, "intra_modal") == pytest.approx([0.0] * 6, abs=1e-6)
    assert column(tmp_path, "loss") == column(tmp_path, "contrastive_negatives")
    assert min(column(tmp_path, "loss")) > 0.1


def test_hard_positives_without_any_edit(tmp_path: Path) -> None:
    job = job_of(tmp_path, fast("hard_positive"))
    train(replace(job, batches=Bare(job.recipe, job.trainable.reads, per_epoch=3)))
    assert column(tmp_path, "svlc_negative") == [0.0] * 6
    assert column(tmp_path, "svlc_positive") == [0.0] * 6


def test_a_type_that_is_missing_keeps_its_threshold(tmp_path: Path) -> None:
    """After the first step no caption has an edit of an attribute any more."""
    job = job_of(tmp_path, fast("ce_clip_fixed"))
    reads = job.trainable.reads

    class Half(Bare):
        def __getitem__(self, step: int) -> Batch:
            kind = Bare if step >= 1 else WorldBatches
            return kind.__getitem__(self, step)

    train(replace(job, batches=Half(job.recipe, reads, per_epoch=3, only=1)))
    thresholds = column(tmp_path, "threshold_attribute")
    assert thresholds[1] > 0
    assert thresholds == [0.0, *[thresholds[1]] * 5]
    train(job_of(tmp_path / "all", fast("ce_clip_fixed")))
    assert column(tmp_path / "all", "threshold_attribute")[:2] == thresholds[:2]
    assert column(tmp_path / "all", "threshold_attribute") != thresholds


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of eight steps that nothing cuts off."""
    folder = make_folder(tmp_path_factory.mktemp("whole"))
    assert start(folder, arguments()) == 0, (folder / "said.txt").read_text()
    return folder


@pytest.mark.parametrize(("name", "workers"), [("SIGINT", "1"), ("SIGTERM", "0")])
def test_a_signal_lets_the_step_end(tmp_path: Path, whole: Path, workers: str, name: str) -> None:
    """Workers get Ctrl-C too, since it goes to the whole group; they must ignore it."""
    folder = make_folder(tmp_path)
    command = arguments("run", "--workers", workers)
    assert start(folder, command, cut=f"4 {name}") == 130
    text = (folder / "said.txt").read_text()
    assert "stopped after step 4; the same command resumes from there" in text
    assert checkpoint.load_checkpoint(folder / "run" / LAST).header["step"] == 4
    assert column(folder / "run", "step") == [0, 1, 2, 3]
    assert start(folder, command) == 0
    assert training(folder) == training(whole)


def test_a_signal_in_the_last_step_stops_what_comes_after_it(tmp_path: Path, whole: Path) -> None:
    folder = make_folder(tmp_path)
    assert start(folder, arguments(), cut="8 SIGINT") == 130
    assert "unbag: stopped" in (folder / "said.txt").read_text()
    assert checkpoint.load_checkpoint(folder / "run" / LAST).header["step"] == 8
    assert not (folder / "run/export").exists()
    assert start(folder, arguments()) == 0
    assert training(folder) == training(whole)
    last = checkpoint.load_checkpoint(folder / "run" / LAST)
    assert last.group("extra")["threshold"].any(), "thresholds moved, or they are not compared"
    assert column(folder / "run", "step") == list(range(8))


def test_after_the_end_nothing_is_trained_again(whole: Path) -> None:
    names = (LAST, BEST, "log.jsonl", "evaluations.csv", "export")
    files = [whole / "run" / name for name in names]
    before = [path.stat().st_mtime_ns for path in files]
    (whole / "said.txt").unlink()
    assert start(whole, arguments()) == 0
    assert "already exported: run/export" in (whole / "said.txt").read_text()
    assert [path.stat().st_mtime_ns for path in files] == before


def test_two_processes_end_where_one_does(tmp_path: Path) -> None:
    alone, folder = make_folder(tmp_path / "one"), make_folder(tmp_path / "two")
    words = arguments("run", "--set", "epochs=2")
    assert start(alone, words) == 0, (alone / "said.txt").read_text()
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*torchrun, "--nproc-per-node=2", "-m", "unbag", *words],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    first = load("base").network.state_dict()
    one, two = weights(alone / "run"), weights(folder / "run")
    largest_change = max(float((one[name] - first[name]).abs().max()) for name in one)
    assert largest_change > 1e-3, "else every run is like every other"
    torch.testing.assert_close(two, one, rtol=0, atol=1e-5)
    # The second process writes nothing: no row twice, no table twice.
    assert column(folder / "run", "step") == [0, 1, 2, 3]
    assert (folder / "run/evaluations.csv").read_text().count("\n") == 2
    assert done.stdout.count("written to run/export") == 1
    assert done.stdout.count("paired over the same units") == 1
