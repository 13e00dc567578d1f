"""Run the whole lab on one base and compare its time with the estimate.

python perf/lab.py [--seed 14] [--device cuda] [--processes 14] [--workers 15] [--size small],
with `unbag-lab` installed

Trains the base of that seed and runs on it every arm that claims about the world want, by the plan
and the runner of `unbag lab run all`. A verdict needs five bases, so five times the minutes are the
whole lab. The folder must be empty: what lies there already would not be timed. Results stay there,
and the last lines in `timed.txt`, for machines where nobody waits for the end (`setsid`, `nohup`).
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from time import perf_counter

from unbag.errors import UnbagError
from unbag.models.loading import choose_device
from unbag_lab.__main__ import run_script
from unbag_lab.bases import missing_bases
from unbag_lab.claims import FEWEST_BASES
from unbag_lab.experiments.photos import split_photo_claims
from unbag_lab.plan import ALL, Plan, find_experiment, find_request, make_plan
from unbag_lab.results import named, opened, shipped_results
from unbag_lab.running import Machine, carry_out
from unbag_lab.scheduler import one_thread, print_now, run_isolated

TARGET = 90.0
"""Minutes of one H200 that five bases may take."""


def plan_of(options: argparse.Namespace) -> Plan:
    request, _ = split_photo_claims(find_request([ALL], find=find_experiment), [ALL])
    bases = (named(options.seed),)
    return make_plan(
        request.arms,
        options.out,
        bases,
        find=find_experiment,
        size=options.size,
        untrained=missing_bases(options.out, bases, size=options.size),
        measured=shipped_results(),
    )


def priced(plan: Plan) -> float:
    """Minutes of the device, probes left out, which take a processor."""
    parts = [part for part in plan.parts if not find_experiment(part.experiment).on_processor]
    return (sum(plan.untrained.values()) + sum(part.seconds for part in parts)) / 60


def run(options: argparse.Namespace) -> None:
    if options.out.exists() and any(options.out.iterdir()):
        raise UnbagError(
            f"{options.out} holds something",
            expected="an empty folder: what lies there already would not be timed",
            hint="name another with --out, or remove it",
        )
    with one_thread(options.device != "cpu" or options.processes > 1) as threads:
        device = run_isolated(partial(choose_device, options.device), device=options.device)
        machine = Machine(device, options.workers, options.processes, threads)
        with opened(options.out, size=options.size):
            plan = plan_of(options)
            start = perf_counter()
            failures = carry_out(
                plan,
                options.out,
                size=options.size,
                machine=machine,
                find=find_experiment,
                say=print_now,
            )
            minutes = (perf_counter() - start) / 60
    lines = [
        f"{plan.count} results and {len(plan.untrained)} base on {device}, "
        f"{options.processes} processes: {minutes:.1f} min",
        *(f"FAILED {failure.what}: {failure.why}" for failure in failures),
    ]
    if options.size == "full" and not failures:
        price = priced(plan)
        lines += [
            f"priced at {price:.1f} min in one process: {100 * minutes / price:.0f} % of that",
            f"{FEWEST_BASES} bases one after the other: {FEWEST_BASES * minutes:.0f} min "
            f"(target: {TARGET:.0f})",
        ]
    (options.out / "timed.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print_now("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=14, help="of the base")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=14)
    parser.add_argument("--workers", type=int, default=15)
    parser.add_argument("--size", choices=("full", "small"), default="full")
    parser.add_argument("--out", type=Path, default=Path("runs/timed"))
    run(parser.parse_args())


if __name__ == "__main__":
    run_script(main)
