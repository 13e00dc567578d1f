"""An order comes in; the arms whose results a base still lacks go out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from unbag.lab.arm_result import check_same, read_results, result_path
from unbag.lab.experiment import Experiment, Order


def arms_left(order: Order, experiment: Experiment, base: Path, *, seed: int) -> list[str]:
    """In the order asked for; raises UserError if a result is there but of other settings."""
    from unbag.models.tiny import read

    paths = {arm: result_path(order.out, experiment.name, base.stem, arm) for arm in order.arms}
    there = {arm: path for arm, path in paths.items() if path.exists()}
    if there:
        # On a processor: nothing may touch a GPU before processes fork.
        fingerprint = read(base, name=base.stem, device="cpu").fingerprint
    for arm, path in there.items():
        (found,) = read_results(path)
        extent = experiment.extent(arm, size=order.size)
        wanted = replace(
            found,
            fingerprint=fingerprint,
            seed=seed,
            size=order.size,
            steps=extent.steps,
            batch=extent.batch,
            times=extent.times,
        )
        check_same(found, wanted, path=path)
    return [arm for arm in order.arms if arm not in there]
