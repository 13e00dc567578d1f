"""`unbag diagnose`: explain the scores of one or two models, in sentences, a page and JSON."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.cli.options import (
    add_bench_data,
    add_cache,
    add_command,
    add_config,
    add_device,
    add_dtype,
    add_seed,
    cache_of,
)
from unbag.errors import UnbagError

if TYPE_CHECKING:
    from unbag.probes.diagnosis.diagnose import Diagnosis, DiagnosisConfig
    from unbag.registry import Commands
    from unbag.runs.progress import Progress

_ABOUT = """\
Diagnose a model: does the text encoder represent word order, does the image encoder map different
images to the same embedding, is information present but not read out, does the model merely detect
edited captions? Each probe answers in one sentence and compares its value with those of a bag of
words, a perfect model, chance, and the same model with random weights. The output is diagnosis.html
and diagnosis.json.
"""

_EXAMPLES = """\
examples:
  unbag diagnose --model tiny:base
  unbag diagnose --model tiny:hard_negative --against tiny:base --out repair
  unbag diagnose --model tiny:base --scorer pacl@runs/pacl --against tiny:base --probes profile
  unbag diagnose --model open_clip:ViT-B-32/openai --on whatsup --data data
  unbag diagnose --model open_clip:ViT-B-32/openai --on my/images --probes agreement stability
"""


def add(commands: Commands) -> None:
    """Add the options: one or two models, data and probes."""
    text = "diagnose a model: one sentence per probe"
    diagnose = add_command(commands, "diagnose", text=text, about=_ABOUT, examples=_EXAMPLES)
    text = "the model by name, or the folder of a training run or export"
    diagnose.add_argument("--model", required=True, metavar="M", help=text)
    text = "a second model to compare with, such as the one before fine-tuning"
    diagnose.add_argument("--against", metavar="M", help=text)
    text = "a trained read-out, NAME@FOLDER: probes use its scores and its word-to-patch maps"
    diagnose.add_argument("--scorer", metavar="S", help=text)
    text = "folder for diagnosis.html and diagnosis.json (default: unbag-diagnosis/MODEL)"
    diagnose.add_argument("--out", type=Path, metavar="DIR", help=text)
    add_config(diagnose)
    _add_data(diagnose.add_argument_group("data"))
    _add_probes(diagnose.add_argument_group("probes"))
    machine = diagnose.add_argument_group("machine")
    add_device(machine)
    add_dtype(machine)
    add_cache(machine)


def _add_data(data: argparse._ArgumentGroup) -> None:
    text = (
        "data for the probes: world, a benchmark or family, a caption file, or a folder of images "
        "(default: world)"
    )
    data.add_argument("--on", metavar="WHAT", help=text)
    add_bench_data(data)
    text = "folder that image paths in a caption file are relative to (default: that of the file)"
    data.add_argument("--images", type=Path, metavar="DIR", help=text)


def _add_probes(probes: argparse._ArgumentGroup) -> None:
    text = "probes by name (default: all; see `unbag list probes`)"
    probes.add_argument("--probes", nargs="+", metavar="P", help=text)
    text = "run all classifiers, conditions and layers of each probe, not only a fast subset"
    probes.add_argument("--full", action="store_true", help=text)
    text = "layers to probe in addition to the last; -2 is the second to last"
    probes.add_argument("--layers", type=int, nargs="+", default=[], metavar="N", help=text)
    text = "skip the control with random weights, which takes about half of the time"
    probes.add_argument("--no-random-init", action="store_true", help=text)
    text = "skip the word-to-patch maps, which take dozens of forward passes with a chat model"
    probes.add_argument("--no-maps", action="store_true", help=text)
    add_seed(probes, "of samples, classifiers, intervals and random weights")
    probes.add_argument("--json", action="store_true", help="print JSON instead of a table")


def start(options: argparse.Namespace) -> int:
    """Run the probes, write the answers as they come, and print them."""
    # One OpenBLAS thread for the small matrix products here: a second thread spins between two of
    # them, which made readers seven times slower on two busy cores. Must be set before NumPy is
    # imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from rich.console import Console

    from unbag.cli.console import TerminalProgress, output
    from unbag.probes.diagnosis.diagnose import examine
    from unbag.probes.diagnosis.page import (
        DIAGNOSIS,
        JSON,
        PAGE,
        check_same_diagnosis,
        open_diagnosis,
        write_diagnosis,
    )
    from unbag.probes.diagnosis.text import print_diagnosis, to_json
    from unbag.reports.formatting import count_text
    from unbag.runs.files import check_run_folder

    if options.data and not options.on:
        raise UnbagError(
            f"--data {options.data} was given without --on",
            expected="--data, the folder of benchmarks, only with --on, the data for the probes",
            hint=f"to probe on {options.data} itself: --on {options.data}",
        )
    console = Console(stderr=True)
    # Each diagnosis has its own folder.
    name = options.model
    name += f"+{options.scorer.partition('@')[0]}" if options.scorer else ""
    name += f"-against-{options.against}" if options.against else ""
    name += f"-on-{options.on}" if options.on else ""
    name = re.sub(r"[^\w.+-]+", "-", name).strip("-.") or "model"
    out = options.out or Path("unbag-diagnosis") / name
    check_run_folder(out, DIAGNOSIS)
    config = _make_config(options, TerminalProgress(console))
    answered = 0
    with open_diagnosis(out) as run:

        def keep(diagnosis: Diagnosis) -> None:
            """Write the diagnosis after every probe, and print its progress."""
            nonlocal answered
            if not diagnosis.answers:
                check_same_diagnosis(diagnosis, run)
                return
            write_diagnosis(diagnosis, run)
            answered = len(diagnosis.answers)
            if not diagnosis.is_whole:
                answer = diagnosis.answers[-1]
                done = "done" if answer.verdict is not None else "skipped"
                line = f"  {answer.probe}: {done} ({answer.seconds:.1f} s)"
                console.print(line, style="dim", highlight=False, markup=False)

        try:
            diagnosis = examine(config, progress=TerminalProgress(console), save=keep)
        except KeyboardInterrupt:
            message = "stopped before the first probe was done; nothing was written"
            if answered:
                count = count_text(answered, "probe")
                message = f"stopped; the results of {count} are in {out / PAGE}"
            print(f"\n{message}", file=sys.stderr)
            return 130
    if options.json:
        print(to_json(diagnosis), end="")
    else:
        print_diagnosis(diagnosis, output())
        print(f"page:    {out / PAGE}")
        print(f"numbers: {out / JSON}")
    return 0 if diagnosis.answered else 1


def _make_config(options: argparse.Namespace, progress: Progress) -> DiagnosisConfig:
    from unbag.api import make_scorer
    from unbag.models.loading import (
        Placement,
        choose_device,
        load_model,
        model_name,
        needs_device,
    )
    from unbag.probes.base import Options
    from unbag.probes.data import find_probe_data
    from unbag.probes.diagnosis.diagnose import DiagnosisConfig, registered_probes

    # Check cheap options before models are loaded.
    probes = registered_probes(options.probes) if options.probes else None
    model_names = [model_name(name) for name in (options.model, options.against) if name]
    device = choose_device(options.device, is_needed=any(map(needs_device, model_names)))
    placement = Placement(device, options.dtype, cache=cache_of(options))
    data = find_probe_data(
        options.on,
        root=options.data,
        images=options.images,
        seed=options.seed,
        progress=progress,
    )
    models = [load_model(name, placement=placement) for name in model_names]
    return DiagnosisConfig(
        model=models[0],
        against=models[1] if len(models) > 1 else None,
        scorer=make_scorer(models[0], options.scorer) if options.scorer else None,
        material=data,
        probes=probes,
        options=Options(seed=options.seed, is_full=options.full, layers=tuple(options.layers)),
        has_random_init=not options.no_random_init,
        has_maps=not options.no_maps,
        cache=cache_of(options),
        command=options.typed,
    )
