"""`unbag merge`: interpolate weights before and after fine-tuning, and export the best mix."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
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
    from unbag.training.merge import Curve, Mix
    from unbag.types import Benchmark


MERGE = "merge"
"""The kind of the folder."""
_ABOUT = """\
Interpolate the weights of a model before and after fine-tuning (WiSE-FT), evaluate every mix, and
export the best one. Fine-tuning often improves composition at the cost of recognition; a mix can
keep most of both.
"""

_EXAMPLES = """\
examples:
  unbag merge --base tiny:base --tuned tiny:tuned.safetensors --out merged
  unbag merge --base open_clip:ViT-B-32-quickgelu/openai --tuned open_clip:local-dir:trained \\
    --bench sugarcrepe_pp coco_retrieval cifar100 --data data --out merged
"""


def add(commands: Commands) -> None:
    """Two models, weights, benchmarks, and how one weight is chosen."""
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
    text = "largest accepted drop in recognition, in points, when a weight is selected"
    group.add_argument("--max-drop", type=float, default=1.0, metavar="P", help=text)


def _add_benchmarks(group: argparse._ArgumentGroup) -> None:
    text = "benchmarks or families (default: four world benchmarks, which are drawings)"
    group.add_argument("--bench", nargs="+", default=[], metavar="B", help=text)
    add_bench_data(group)
    for side in ("composition", "recognition"):
        text = f"benchmarks that count as {side}, whatever their metrics"
        group.add_argument(f"--{side}", nargs="+", default=[], metavar="B", help=text)
    add_seed(group, "of the confidence intervals")


def start(options: argparse.Namespace) -> int:
    """Mix, measure, write the curve, keep one mix."""
    from unbag.benchmarks.names import find_benchmarks
    from unbag.cli.console import output, print_lines, shown
    from unbag.models.loading import Placement, choose_device, load_model, model_name
    from unbag.runs.files import check_run_folder, open_run_folder, write_text
    from unbag.runs.identity import RunIdentity
    from unbag.training import merge
    from unbag.training.before_after import DEFAULT, DRAWINGS, are_drawings

    weights = merge.check_weights(_numbers(options.weights), options.pick)
    asked = [*options.bench, *options.composition, *options.recognition]
    benchmarks = tagged(find_benchmarks(asked), "auto") if asked else list(DEFAULT)
    sides = _sides(benchmarks, options)
    merge.check_sides(sides, options.pick)
    out = options.out
    check_run_folder(out, MERGE)
    placement = Placement(choose_device(options.device))
    base, tuned = (
        check_dual_encoder(
            load_model(model_name(name), placement=placement),
            f"{name} has no image and text encoder whose weights can be interpolated",
        )
        for name in (options.base, options.tuned)
    )
    mixes = merge.mix(base, tuned, weights)
    # Another budget or pick chooses from the same curve, so the folder takes it.
    identity = RunIdentity(
        base=base.fingerprint, tuned=tuned.fingerprint, weights=weights, sides=sides,
        seed=options.seed,
    )  # fmt: skip
    with open_run_folder(out, MERGE, resumes="existing scores are kept") as folder:
        folder.begin(identity, {"command": options.typed})
        curve = merge.measure_curve(
            mixes,
            names=(options.base, options.tuned),
            benchmarks=benchmarks,
            sides=sides,
            out=out / "run",
            pick=options.pick,
            budget=options.max_drop,
            data=options.data,
            cache=cache_of(options),
            seed=options.seed,
            batch_size=options.batch_size,
            command=options.typed,
            progress=shown(),
        )
        write_text(out / "curve.json", merge.curve_json(curve))
        write_text(out / "curve.csv", merge.curve_csv(curve))
        write_text(out / "curve.html", merge.curve_page(curve))
        kept = next(one for one in mixes if one.weight == curve.choice.weight)
        model = _export(kept, curve, out, options.typed)
        folder.set_state("done")
    output().print(merge.curve_table(curve))
    said = [f"selected weight {curve.choice.weight:g}: {curve.choice.why}", *curve.notes]
    print_lines([*said, DRAWINGS] if are_drawings(benchmarks) else said)
    print(f"curve:   {out / 'curve.html'}")
    print(f"report:  {curve.folder / 'report.html'}")
    print(f"model:   {model}")
    return 1 if curve.notes else 0


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise UnbagError(
            f"--weights {text}", expected="numbers separated by commas, such as 0,0.25,0.5,0.75,1"
        ) from error


def _sides(benchmarks: Sequence[Benchmark], options: argparse.Namespace) -> dict[str, Side]:
    from unbag.benchmarks.names import find_benchmarks
    from unbag.training.before_after import side_of

    found = {benchmark.name: side_of(benchmark) for benchmark in benchmarks}
    forced: dict[str, Side] = {}
    for one in find_benchmarks(options.composition):
        forced[one.name] = "composition"
    for one in find_benchmarks(options.recognition):
        if one.name in forced:
            raise UnbagError(
                f"{one.name} is given with both --composition and --recognition",
                expected="one of the two for a benchmark",
            )
        forced[one.name] = "recognition"
    return found | forced


def _export(kept: Mix, curve: Curve, out: Path, command: str) -> Path:
    """Under a name with its weight; one that is there already and the same is left alone."""
    from unbag.models.loading import RECORD
    from unbag.reports.cards import Card
    from unbag.training.export.export import export
    from unbag.training.merge import curve_markdown

    folder = out / f"weight-{kept.weight:g}"
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        record = None
    if isinstance(record, dict) and record.get("fingerprint") == kept.encoder.fingerprint:
        return folder
    share = f"{kept.weight:g} of {curve.tuned}"
    card = Card(
        title=f"{curve.base} mixed with {share}",
        base=curve.base,
        recipe=f"merge with {share}",
        settings=f"Every weight, temperature included, is {1 - kept.weight:g} of `{curve.base}` "
        f"plus {share} (WiSE-FT).",
        table=curve_markdown(curve),
        command=command,
    )
    export(kept.encoder, folder, card=card)
    return folder
