"""An order comes in; the arms whose results a base still lacks go out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from unbag.lab.arm_result import check_same, read_results, result_path
from unbag.lab.experiment import Order


def arms_left(order: Order, experiment: str, base: Path, *, seed: int, times: int) -> list[str]:
    """In the order asked for; raises UserError if a result is there but of other settings."""
    from unbag.models.tiny import read

    left: list[str] = []
    there: list[str] = []
    for arm in order.arms:
        path = result_path(order.out, experiment, base.stem, arm)
        (there if path.exists() else left).append(arm)
    if there:
        # On a processor: nothing may touch a GPU before processes fork.
        fingerprint = read(base, name=base.stem, device="cpu").fingerprint
    for arm in there:
        path = result_path(order.out, experiment, base.stem, arm)
        (found,) = read_results(path)
        wanted = replace(found, fingerprint=fingerprint, seed=seed, times=times, size=order.size)
        check_same(found, wanted, path=path)
    return left
