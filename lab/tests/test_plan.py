"""A plan runs what is missing and all that it needs, in an order in which it can be run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from unbag.errors import UnbagError
from unbag.reports.formatting import duration_text
from unbag_lab.claims import NAMES, ArmKey, find_claim
from unbag_lab.plan import (
    EXPERIMENTS,
    Clock,
    Experiment,
    Order,
    Plan,
    Say,
    find_request,
    make_plan,
)
from unbag_lab.results import ArmResult, base_path, result_path, write_result

from .made_up import Made


class Planned(Made):
    """An experiment that cannot be run."""

    def seconds(self, arm: str) -> float:
        return 10.0 * (1 + self.arms.index(arm))

    def run(self, order: Order, *, say: Say = print) -> None:
        raise AssertionError


# mixed needs trained, which needs nothing; read needs mixed, of another experiment.
MADE = {
    "default": Planned(
        "default", ("mixed", "trained", "plain"), need_of={"mixed": (("default", "trained"),)}
    ),
    "readouts": Planned(
        "readouts",
        ("looked", "read"),
        need_of={"read": (("default", "mixed"), ("default", "plain"))},
    ),
}


def find(name: str) -> Experiment:
    return MADE[name]


def plan_of(out: Path, *arms: ArmKey, bases: tuple[str, ...] = ("tiny-0", "tiny-1")) -> Plan:
    return make_plan(arms, out, bases, find=find)


def put(out: Path, experiment: str, base: str, arm: str) -> None:
    path = result_path(out, experiment, base, arm)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_result(path, result(experiment, base, arm))


def result(experiment: str, base: str, arm: str, seconds: float | None = None) -> ArmResult:
    return ArmResult(experiment, base, "f", arm, 1, 1, 0, 1, "float32", None, {}, seconds=seconds)


def shown(plan: Plan) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    return [(part.experiment, part.arms, part.bases) for part in plan.parts]


BOTH = ("tiny-0", "tiny-1")


def test_what_an_arm_needs_is_run_before_it(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, ("readouts", "read"), ("readouts", "looked"))
    assert shown(plan) == [
        ("default", ("trained", "plain", "mixed"), BOTH),
        ("readouts", ("looked",), BOTH),
        ("readouts", ("read",), BOTH),
    ]
    assert plan.count == 10
    assert plan.seconds == 2 * (20 + 30 + 10 + 10 + 20)


def test_what_is_there_is_not_run_again_and_needs_nothing(tmp_path: Path) -> None:
    put(tmp_path, "default", "tiny-0", "mixed")
    plan = plan_of(tmp_path, ("default", "mixed"))
    assert shown(plan) == [
        ("default", ("trained", "mixed"), ("tiny-1",)),
    ]
    assert plan.there == 1
    put(tmp_path, "default", "tiny-1", "mixed")
    assert not plan_of(tmp_path, ("default", "mixed")).parts


@pytest.mark.parametrize("field", ["steps", "batch_size", "times"])
@pytest.mark.parametrize(
    ("arm", "base", "wanted"), [("plain", "tiny-1", "plain"), ("trained", "tiny-0", "mixed")]
)
def test_existing_results_of_other_settings_are_refused(
    tmp_path: Path, field: str, arm: str, base: str, wanted: str
) -> None:
    """Also those of an arm from which another, finished one was made."""
    put(tmp_path, "default", "tiny-0", wanted)
    path = result_path(tmp_path, "default", base, arm)
    path.parent.mkdir(parents=True, exist_ok=True)
    other = replace(result("default", base, arm), **{field: 9})  # type: ignore[arg-type]
    write_result(path, other)
    message = f"default/{base} holds another {arm}.json: {field}: 9 before, 1 now\n"
    with pytest.raises(UnbagError, match=message) as refused:
        plan_of(tmp_path, ("default", wanted))
    assert "name another folder with --out, or delete this one" in refused.value.hint
    path.unlink()
    assert plan_of(tmp_path, ("default", wanted)).count > 0


def test_times_are_measured_ones_where_there_are_any(tmp_path: Path) -> None:
    measured = [result("default", f"tiny-{n}", "plain", seconds) for n, seconds in
                enumerate([3.0, 5.0, 100.0, None])]  # fmt: skip
    plan = make_plan(
        [("default", "plain"), ("default", "trained")],
        tmp_path,
        ["tiny-0"],
        find=find,
        untrained={"tiny-0": 240.0, "tiny-1": 240.0},
        measured=measured,
    )
    assert plan.parts[0].each == {"trained": 20.0, "plain": 5.0}
    # Nobody runs anything on tiny-1.
    assert plan.untrained == {"tiny-0": 240.0}
    assert plan.seconds == 265.0


NEEDS = {"a": (("default", "b"),), "b": (("default", "a"),)}
CIRCLE = Planned("default", ("a", "b"), need_of=NEEDS)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (lambda out: plan_of(out, ("default", "traned")),
         "unknown arm of the experiment 'default' 'traned'(?s:.*)did you mean 'trained'"),
        (lambda out: make_plan([("default", "a")], out, ["tiny-0"], find=lambda name: CIRCLE),
         "the arm 'a' of 'default' needs itself"),
        (lambda out: find_request(["readout"], find=find),
         "unknown claim 'readout'(?s:.*)did you mean 'readouts'(?s:.*)`unbag lab` lists every"),
    ],
)  # fmt: skip
def test_bad_names(tmp_path: Path, plan: Callable[[Path], object], words: str) -> None:
    with pytest.raises(UnbagError, match=words):
        plan(tmp_path)


def test_a_request_takes_claims_experiments_and_all() -> None:
    one = find_request(["plain_fine_tuning"], find=find)
    assert [claim.name for claim in one.claims] == ["plain_fine_tuning"]
    assert one.arms == find_claim("plain_fine_tuning").arms
    whole = find_request(["readouts", "readouts"], find=find)
    assert whole.arms == (("readouts", "looked"), ("readouts", "read"))
    assert {claim.experiment for claim in whole.claims} == {"readouts"}
    every = find_request(["all"], find=find)
    assert [claim.name for claim in every.claims] == list(NAMES)
    assert set(one.arms) <= set(every.arms)
    assert not set(NAMES) & {*EXPERIMENTS, "all"}


def test_arms_are_not_run_where_every_claim_that_wants_them_had_seen_the_base() -> None:
    late, early = ["decoder_taught_longer"], ["decoder_against_cosine"]
    own, shared = ("readouts", "decoder-long"), ("readouts", "base")
    found = find_request(late, find=find)
    assert set(found.idle) == set(found.arms)
    assert found.idle[own] == found.idle[shared] == {"tiny-0", "tiny-5", "tiny-6"}
    both = find_request([*late, *early], find=find)
    assert (both.idle[own], both.idle[shared]) == (found.idle[own], frozenset())
    # Whoever names an experiment wants every arm on every base.
    whole = find_request([*late, "readouts"], find=find)
    assert own not in whole.idle


def test_idle_bases_are_left_out_of_a_plan_unless_others_need_them(tmp_path: Path) -> None:
    arms = [("default", "mixed"), ("default", "trained")]
    idle = {("default", "trained"): frozenset({"tiny-0", "tiny-1"}),
            ("default", "mixed"): frozenset({"tiny-1"})}  # fmt: skip
    (part,) = make_plan(arms, tmp_path, ["tiny-0", "tiny-1", "tiny-2"], find=find, idle=idle).parts
    assert set(part.missing) == {
        ("tiny-0", "mixed"), ("tiny-0", "trained"), ("tiny-2", "mixed"), ("tiny-2", "trained")
    }  # fmt: skip


def test_the_clock_goes_by_what_stands_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("unbag_lab.plan.time.monotonic", lambda: now[0])
    arms = ("default", "plain"), ("default", "trained")
    plan = plan_of(tmp_path, *arms, bases=("tiny-0", "tiny-1"))
    said: list[str] = []
    clock = Clock(plan, tmp_path, say=said.append)
    assert clock.left() == ""
    now[0] = 1_000.0  # Features are made, once.
    clock.report("features")
    put(tmp_path, "default", "tiny-0", "trained")
    now[0] = 1_020.0
    clock.report("a step")
    assert clock.left() == ""
    put(tmp_path, "default", "tiny-1", "trained")
    now[0] = 1_140.0
    clock.report("another")
    # 20 of the planned seconds took 120 s since the first result, and 60 are left.
    assert said == [
        "  features",
        "  0 of 4 results",
        "  a step",
        "  another",
        "  2 of 4 results; about 6 min left in all",
    ]


def test_a_short_result_is_no_pace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what runs at once the short ends first, and says nothing about the rest."""
    now = [0.0]
    monkeypatch.setattr("unbag_lab.plan.time.monotonic", lambda: now[0])
    plan = plan_of(tmp_path, ("default", "plain"), ("default", "mixed"), bases=("tiny-0",))
    each = {"plain": 4.0, "trained": 76.0, "mixed": 20.0}
    parts = tuple(replace(one, each=each) for one in plan.parts)
    plan = replace(plan, parts=parts, untrained={"tiny-0": 100.0})
    clock = Clock(plan, tmp_path, say=print)
    path = base_path(tmp_path, "tiny-0")
    path.parent.mkdir(parents=True)
    path.touch()
    assert clock.left() == ""
    put(tmp_path, "default", "tiny-0", "plain")
    now[0] = 180.0
    assert clock.left() == ""
    put(tmp_path, "default", "tiny-0", "trained")
    assert clock.left() == "; about 45 s left in all"
    put(tmp_path, "default", "tiny-0", "mixed")
    assert clock.left() == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (89, "89 s"), (95, "2 min"), (3_600, "60 min"), (7_260, "2 h 1 min")],
)
def test_times_for_people(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_bases_are_made_for_those_who_read_them(tmp_path: Path) -> None:
    def find(name: str) -> Experiment:
        return Planned(name, ("one",), reads_bases=name != "pretraining")

    untrained = {"tiny-0": 1.0, "tiny-1": 2.0}
    for name, to_make in (("pretraining", {}), ("default", untrained)):
        plan = make_plan([(name, "one")], tmp_path, list(untrained), find=find, untrained=untrained)
        assert dict(plan.untrained) == to_make
