"""Arms in processes of their own: which stay together, and that no kind waits for another."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

from unbag.errors import UnbagError
from unbag_lab.experiments import decoders, pretraining, priors, probes, readouts, repair
from unbag_lab.experiments.pretraining import PRETRAINING
from unbag_lab.experiments.priors import PRIORS
from unbag_lab.experiments.probes import PROBES
from unbag_lab.experiments.readers import READERS, Base, find_arm, reader_groups, run_base
from unbag_lab.experiments.readouts import READOUTS, SMALL
from unbag_lab.experiments.repair import DEFAULT
from unbag_lab.plan import Experiment, Order, Say
from unbag_lab.questions import Questions
from unbag_lab.results import read_results
from unbag_lab.scheduler import Share, shares


def test_an_arm_follows_the_one_whose_weights_it_takes() -> None:
    arms = ("pacl_uniform", "pooled", "pacl", "base", "pacl_fixed")
    assert sorted(reader_groups(arms, processes=3)) == [
        ["base"],
        ["pacl", "pacl_uniform"],
        ["pacl_fixed"],
        ["pooled"],
    ]
    (every,) = reader_groups(READOUTS.arms[: 1 + len(READERS)], processes=1)
    assert every[0] == "base"
    assert set(every) == {"base", *READERS}
    assert every.index("pacl_uniform") > every.index("pacl")
    assert reader_groups(["pacl_uniform"], processes=2) == [["pacl_uniform"]]


def test_arms_that_look_at_the_same_features_stand_together() -> None:
    (every,) = reader_groups(tuple(READERS), processes=1)
    looked = [
        (arm.is_random, arm.text, arm.read_out().view(arm.effort(1)).name)
        for arm in map(find_arm, every)
    ]
    changes = sum(one != other for one, other in pairwise(looked))
    assert changes == len(set(looked)) - 1


def test_groups_of_arms_take_the_time_of_all() -> None:
    found: list[str] = []
    first, second = shares(found.extend, [["a", "bb"], ["ccc"]], seconds=len)
    assert (first.seconds, second.seconds) == (3, 3)
    second.work()
    first.work()
    assert found == ["ccc", "a", "bb"]


def test_vectors_come_after_their_decoder_in_one_process() -> None:
    arms = ("decoder", "decoder-cls", "decoder-long", "vlm2vec", "vlm2vec-long", "decoder-nothing")
    assert decoders.decoder_groups(arms, processes=2) == [
        ["decoder", "vlm2vec"],
        ["decoder-cls"],
        ["decoder-long", "vlm2vec-long"],
        ["decoder-nothing"],
    ]
    assert decoders.decoder_groups(arms, processes=1) == [list(arms)]


def test_decoders_do_not_wait_for_readers(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for the other to have begun, in a process that shares scenes made before."""

    def run(here: str, there: str, base: Base, *_: object, say: Say) -> None:
        assert "rows" in vars(base)
        (tmp_path / here).touch()
        ends = time.monotonic() + 20
        while not (tmp_path / there).exists():
            assert time.monotonic() < ends, f"{there} has not begun"
            time.sleep(0.01)

    monkeypatch.setattr(readouts, "run_base", partial(run, "reader", "decoder"))
    monkeypatch.setattr(readouts, "run_decoders", partial(run, "decoder", "reader"))
    order = Order((base,), ("pooled", "decoder"), tmp_path, "small", processes=2)
    READOUTS.run(order, say=lambda said: None)


def test_a_base_that_is_not_there_is_told_before_scenes_are_made(tmp_path: Path) -> None:
    gone = Base(tmp_path / "tiny-0.safetensors", Questions(["world-binding"], every=50), SMALL)
    with pytest.raises(UnbagError, match="no checkpoint at"):
        gone.make_rows("readers", lambda said: None)
    assert "rows" not in vars(gone)


def test_readers_keep_no_features_when_they_are_done(base: Path, tmp_path: Path) -> None:
    frozen = Base(base, Questions(["world-binding"], every=50), SMALL)
    run_base(frozen, tmp_path, ["pooled"], say=lambda said: None)
    assert frozen._kept is None
    decoders.run_decoders(frozen, tmp_path, ["decoder"], say=lambda said: None)
    assert frozen._looked is None


def told(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> list[set[str]]:
    """Names of what is given to `run_shares`, call by call; nothing is done."""
    found: list[set[str]] = []

    def run_shares(shares: Sequence[Share], *, processes: int, say: Say) -> None:
        assert processes == 3
        found.append({share.name for share in shares})

    monkeypatch.setattr(module, "run_shares", run_shares)
    return found


@pytest.mark.parametrize(
    ("module", "experiment", "arms", "names"),
    [
        (priors, PRIORS, PRIORS.arms, {"even, even-m3id", "prior, prior-m3id"}),
        (
            probes,
            PROBES,
            ("base", "random", "blind", "blind-ordered"),
            {"base, blind-ordered", "random", "blind"},
        ),
        (
            repair,
            DEFAULT,
            ("clip_ft", "neg_clip", "hard_negative", "hard_positive"),
            {"small: clip_ft, hard_positive", "small: neg_clip", "small: hard_negative"},
        ),
    ],
)
def test_arms_of_a_base_are_shared_among_processes(
    module: ModuleType,
    experiment: Experiment,
    arms: tuple[str, ...],
    names: set[str],
    base: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = told(monkeypatch, module)
    experiment.run(Order((base,), arms, tmp_path, "small", processes=3), say=lambda said: None)
    assert found == [names]


@pytest.mark.parametrize(
    ("module", "experiment", "arms"),
    [
        (readouts, READOUTS, ("base", "pooled", "pooled-text", "decoder")),
        (priors, PRIORS, PRIORS.arms),
        (repair, DEFAULT, ("clip_ft", "clip_ft-locked")),
    ],
)
def test_nothing_wakes_a_gpu_before_processes_fork(
    module: ModuleType,
    experiment: Experiment,
    arms: tuple[str, ...],
    base: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Here is none, so that what asks for one fails; models of transformers do it unasked."""
    log, here = tmp_path / "log", os.getpid()

    def load_part(*_: object, **__: object) -> None:
        log.write_text(f"{os.getpid()}")

    monkeypatch.setattr(readouts, "load_part", load_part)
    found = told(monkeypatch, module)
    order = Order((base,), arms, tmp_path, "small", device="cuda", processes=3)
    experiment.run(order, say=lambda said: None)
    assert len(found) == 1
    assert log.exists() == ("pooled-text" in arms)
    assert not log.exists() or int(log.read_text()) != here


def test_a_text_model_is_looked_at_once_for_all_bases(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[object] = []
    monkeypatch.setattr(readouts, "load_part", lambda text, device: looked.append(text))
    found = told(monkeypatch, readouts)
    other = Path(shutil.copy(base, tmp_path / "tiny-1.safetensors"))
    READOUTS.run(
        Order((base, other), ("pooled-text",), tmp_path, "small", processes=3),
        say=lambda said: None,
    )
    assert found == 2 * [{"pooled-text"}]
    assert len(looked) == 1


def test_repairs_in_two_processes_are_those_of_one(base: Path, tmp_path: Path) -> None:
    arms = ("clip_ft", "hard_negative")
    for count in (1, 2):
        order = Order((base,), arms, tmp_path / f"{count}", "small", processes=count)
        DEFAULT.run(order, say=lambda said: None)
    one, two = (
        {(found.arm, found.loss): found.numbers for found in read_results(tmp_path / f"{count}")}
        for count in (1, 2)
    )
    assert {arm for arm, _ in one} > set(arms)
    assert one == two


def test_seeds_of_pre_training_go_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = told(monkeypatch, pretraining)
    bases = tuple(Path(f"tiny-{seed}") for seed in range(3))
    PRETRAINING.run(Order(bases, ("base",), tmp_path, "small", processes=3))
    assert found == [{"tiny-0", "tiny-1", "tiny-2"}]
    # One alone too: where it trained in this process, no other could be forked for a GPU after it.
    PRETRAINING.run(Order(bases[:1], ("base",), tmp_path, "small", processes=3))
    assert found[1:] == [{"tiny-0"}]
