"""An experiment that takes no time, and runs of several of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unbag_lab.claims import ArmKey
from unbag_lab.plan import Experiment, Order, Say, make_plan
from unbag_lab.results import ArmResult, Extent, Size, result_path, write_result
from unbag_lab.running import Failure, Machine, carry_out


@dataclass(frozen=True)
class Made:
    """Writes results in no time, and does what it is told before each."""

    name: str
    arms: tuple[str, ...]
    need: tuple[ArmKey, ...] = ()
    """Of every arm."""
    need_of: Mapping[str, tuple[ArmKey, ...]] = field(default_factory=dict)
    before: Callable[[str, str], None] = lambda base, arm: None
    runs: list[tuple[str, str]] = field(default_factory=list)
    about: str = "made up"
    reads_bases: bool = True
    on_processor: bool = False
    most_processes: int = 1

    def needs(self, arm: str) -> tuple[ArmKey, ...]:
        return self.need_of.get(arm, self.need)

    def seconds(self, arm: str) -> float:
        return 1.0

    def extent(self, arm: str, *, size: Size) -> Extent:
        return Extent(steps=1, batch_size=1, times=1)

    def run(self, order: Order, *, say: Say = print) -> None:
        for base in order.bases:
            assert base.exists() == self.reads_bases
            for arm in order.arms:
                path = result_path(order.out, self.name, base.stem, arm)
                if not path.exists():
                    self.before(base.stem, arm)
                    self.runs.append((base.stem, arm))
                    path.parent.mkdir(parents=True, exist_ok=True)
                    write_result(path, result(self.name, base.stem, arm))
                    say(f"{base.stem}: {arm}")


def result(experiment: str, base: str, arm: str) -> ArmResult:
    return ArmResult(experiment, base, "f", arm, 1, 1, 0, 1, "float32", None, {}, "small")


def fails_on(where: str, error: BaseException) -> Callable[[str, str], None]:
    def before(base: str, arm: str) -> None:
        if f"{base} {arm}" == where:
            raise error

    return before


def run(
    out: Path,
    *made: Made,
    bases: tuple[str, ...] = ("tiny-0", "tiny-1"),
    machine: Machine = Machine(),  # noqa: B008
    say: Say = lambda line: None,
) -> list[Failure]:
    """All arms of all, with bases that are empty files."""
    known = {one.name: one for one in made}

    def find(name: str) -> Experiment:
        return known[name]

    for base in bases if made[0].reads_bases else ():
        (out / "bases").mkdir(parents=True, exist_ok=True)
        (out / "bases" / f"{base}.safetensors").touch()
    arms = [(one.name, arm) for one in made for arm in one.arms]
    plan = make_plan(arms, out, bases, find=find)
    return carry_out(plan, out, size="small", machine=machine, find=find, say=say)
