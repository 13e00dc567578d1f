"""`unbag merge`: a model before and after fine-tuning in; a curve and a mixed model out."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from unbag.benchmarks.names import find_benchmarks
from unbag.cli.console import Shown, output
from unbag.cli.run import cache_of, tagged
from unbag.errors import UserError
from unbag.models.loading import RECORD, Placement, choose_device, load_model, model_name
from unbag.reports.cards import Card
from unbag.runs.files import make_folder, write_text
from unbag.training.before_after import DEFAULT, DRAWINGS, Side, are_drawings, side_of
from unbag.training.export.export import export
from unbag.training.merge import (
    Curve,
    Mix,
    check_sides,
    check_weights,
    curve_csv,
    curve_json,
    curve_markdown,
    curve_page,
    curve_table,
    measure_curve,
    mix,
)
from unbag.types import Benchmark, DualEncoder


def merge_command(options: argparse.Namespace) -> int:
    """Mix, measure, write the curve, keep one mix."""
    weights = check_weights(_numbers(options.weights), options.pick)
    asked = [*options.bench, *options.composition, *options.recognition]
    benchmarks = tagged(find_benchmarks(asked), "auto") if asked else list(DEFAULT)
    sides = _sides(benchmarks, options)
    check_sides(sides, options.pick)
    device = choose_device(options.device)
    base, tuned = (_encoder(name, device) for name in (options.base, options.tuned))
    mixes = mix(base, tuned, weights)
    out = make_folder(options.out, what="results", way_out="name another folder with --out")
    curve = measure_curve(
        mixes,
        names=(options.base, options.tuned),
        benchmarks=benchmarks,
        sides=sides,
        out=out / "run",
        pick=options.pick,
        budget=options.budget,
        data=options.data,
        cache=cache_of(options),
        seed=options.seed,
        batch=options.batch,
        command=options.typed,
        progress=Shown(Console(stderr=True)),
    )
    for name, write in (("json", curve_json), ("csv", curve_csv), ("html", curve_page)):
        write_text(out / f"curve.{name}", write(curve))
    _say(curve, benchmarks)
    kept = next(one for one in mixes if one.weight == curve.choice.weight)
    print(f"curve:   {out / 'curve.html'}")
    print(f"report:  {curve.folder / 'report.html'}")
    print(f"model:   {_export(kept, curve, out, options.typed)}")
    return 1 if curve.notes else 0


def _say(curve: Curve, benchmarks: Sequence[Benchmark]) -> None:
    console = output()
    console.print(curve_table(curve))
    said = [f"weight {curve.choice.weight:g} is kept: {curve.choice.why}", *curve.notes]
    said += [DRAWINGS] if are_drawings(benchmarks) else []
    for line in said:
        console.print(line, highlight=False, markup=False)


def _export(kept: Mix, curve: Curve, out: Path, command: str) -> Path:
    """Under a name with its weight; one that is there already and the same is left alone."""
    folder = out / f"weight-{kept.weight:g}"
    if not _is_there(folder, kept.encoder.fingerprint):
        share = f"{kept.weight:g} of {curve.tuned}"
        card = Card(
            title=f"{curve.base} mixed with {share}",
            base=curve.base,
            recipe=f"merge with {share}",
            settings=f"Every weight is {1 - kept.weight:g} of `{curve.base}` and {share}, "
            "temperature included (WiSE-FT).",
            table=curve_markdown(curve),
            command=command,
        )
        export(kept.encoder, folder, card=card)
    return folder


def _is_there(folder: Path, fingerprint: str) -> bool:
    try:
        said = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(said, dict) and said.get("fingerprint") == fingerprint


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise UserError(
            f"--weights {text}", expected="numbers with commas, such as 0,0.25,0.5,0.75,1"
        ) from error


def _sides(benchmarks: Sequence[Benchmark], options: argparse.Namespace) -> dict[str, Side]:
    found = {benchmark.name: side_of(benchmark) for benchmark in benchmarks}
    forced: dict[str, Side] = {}
    for one in find_benchmarks(options.composition):
        forced[one.name] = "composition"
    for one in find_benchmarks(options.recognition):
        if one.name in forced:
            raise UserError(
                f"{one.name} is named with --composition and with --recognition",
                expected="one side for a benchmark",
            )
        forced[one.name] = "recognition"
    return found | forced


def _encoder(name: str, device: str) -> DualEncoder:
    model = load_model(model_name(name), placement=Placement(device))
    if isinstance(model, DualEncoder):
        return model
    raise UserError(
        f"{name} has no two towers whose weights could be mixed",
        expected="a dual encoder, such as open_clip:ViT-B-32-quickgelu/openai",
    )
