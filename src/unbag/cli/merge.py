"""`unbag merge`: interpolate weights before and after fine-tuning, and export the best."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.cli.options import (
    add_batch_size,
    add_bench_data,
    add_cache,
    add_command,
    add_device,
    add_seed,
    cache_of,
    check_dual_encoder,
)
from unbag.cli.run import tagged
from unbag.errors import UnbagError

if TYPE_CHECKING:
    from unbag.registry import Commands
    from unbag.training.before_after import Side

_ABOUT = """\
Interpolate between the weights of a model before and after fine-tuning (WiSE-FT), evaluate each
interpolation, and export the best one. Fine-tuning often improves composition at the cost of
recognition; an interpolation can retain most of both.
"""

_EXAMPLES = """\
examples:
  unbag merge --base tiny:base --tuned tiny:tuned.safetensors --out merged
  unbag merge --base open_clip:ViT-B-32-quickgelu/openai --tuned open_clip:local-dir:trained \\
    --bench sugarcrepe_pp coco_retrieval cifar100 --data data --out merged
"""


def add(commands: Commands) -> None:
    """Add the options: two models, interpolation weights, and benchmarks."""
    text = "interpolate weights before and after fine-tuning"
    merge = add_command(commands, "merge", text=text, about=_ABOUT, examples=_EXAMPLES)
    text = "the model before fine-tuning"
    merge.add_argument("--base", required=True, metavar="M", help=text)
    text = "the model after fine-tuning"
    merge.add_argument("--tuned", required=True, metavar="M", help=text)
    text = "folder for the curve, the run and the selected model"
    merge.add_argument("--out", type=Path, required=True, metavar="DIR", help=text)
    _add_choice(merge.add_argument_group("interpolation"))
    _add_benchmarks(merge.add_argument_group("benchmarks"))
    machine = merge.add_argument_group("machine")
    add_device(machine)
    add_batch_size(machine)
    add_cache(machine)


def _add_choice(group: argparse._ArgumentGroup) -> None:
    text = "interpolation weights of the fine-tuned model, separated by commas"
    group.add_argument("--weights", default="0,0.25,0.5,0.75,1", metavar="W", help=text)
    text = "export this weight instead of selecting one"
    group.add_argument("--pick", type=float, metavar="W", help=text)
    text = "largest accepted drop in recognition when selecting a weight, in percentage points"
    group.add_argument("--max-drop", type=float, default=1.0, metavar="P", help=text)


def _add_benchmarks(group: argparse._ArgumentGroup) -> None:
    text = "benchmarks or families (default: four world benchmarks, which are synthetic)"
    group.add_argument("--bench", nargs="+", default=[], metavar="B", help=text)
    add_bench_data(group)
    for side in ("composition", "recognition"):
        text = f"benchmarks that count as {side}, whatever their metrics"
        group.add_argument(f"--{side}", nargs="+", default=[], metavar="B", help=text)
    add_seed(group, "of the confidence intervals")


def start(options: argparse.Namespace) -> int:
    """Interpolate, evaluate, write the curve, and export the selected model."""
    from unbag.benchmarks.names import find_benchmarks
    from unbag.cli.console import output, print_lines, terminal_progress
    from unbag.models.loading import Placement, choose_device, load_model, model_name
    from unbag.runs.files import check_run_folder
    from unbag.training import merge

    weights = merge.check_weights(_numbers(options.weights), options.pick)
    names = [*options.bench, *options.composition, *options.recognition]
    benchmarks = tagged(find_benchmarks(names), "auto") if names else []
    sides = _sides(options)
    # Here too: models take a while to load.
    merge.check_all_sides(benchmarks, sides, options.pick)
    check_run_folder(options.out, merge.MERGE)
    placement = Placement(choose_device(options.device))
    base, tuned = (
        check_dual_encoder(
            load_model(model_name(name), placement=placement),
            f"{name} has no image and text encoder whose weights can be interpolated",
        )
        for name in (options.base, options.tuned)
    )
    merged = merge.merge_models(
        base,
        tuned,
        names=(options.base, options.tuned),
        out=options.out,
        weights=weights,
        benchmarks=benchmarks,
        sides=sides,
        data=options.data,
        pick=options.pick,
        budget=options.max_drop,
        seed=options.seed,
        batch_size=options.batch_size,
        cache=cache_of(options),
        command=options.typed,
        progress=terminal_progress(),
    )
    curve = merged.curve
    output().print(merge.curve_table(curve))
    chosen = f"selected weight {curve.choice.weight:g}: {curve.choice.why}"
    print_lines([chosen, *curve.notes, *merged.notes])
    print(f"curve:   {options.out / 'curve.html'}")
    print(f"report:  {curve.folder / 'report.html'}")
    print(f"model:   {merged.model}")
    return 1 if curve.notes else 0


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise UnbagError(
            f"--weights {text}", expected="numbers separated by commas, such as 0,0.25,0.5,0.75,1"
        ) from error


def _sides(options: argparse.Namespace) -> dict[str, Side]:
    """Return the sides given with --composition and --recognition."""
    from unbag.benchmarks.names import find_benchmarks

    sides: dict[str, Side] = {}
    for benchmark in find_benchmarks(options.composition):
        sides[benchmark.name] = "composition"
    for benchmark in find_benchmarks(options.recognition):
        if benchmark.name in sides:
            raise UnbagError(
                f"{benchmark.name} is given with both --composition and --recognition",
                expected="one of the two for a benchmark",
            )
        sides[benchmark.name] = "recognition"
    return sides
