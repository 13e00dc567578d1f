"""`unbag diagnose`: why one or two models answer as they do, as sentences, a page and JSON."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.cli.options import add_cache, add_command, add_device, add_dtype, cache_of

if TYPE_CHECKING:
    from unbag.probes.diagnosis.diagnose import Diagnosis, DiagnosisConfig
    from unbag.registry import Commands
    from unbag.runs.progress import Progress

_ABOUT = """\
Ask why a model answers as it does: does its text encoder see order, does its image encoder merge
different images, is the information there but not read out, does it only notice edits? Each
question gets one sentence, with its number beside that of a bag of words, a perfect model,
chance and the same model with random weights. Writes diagnosis.html and diagnosis.json.
"""

_EXAMPLES = """\
examples:
  unbag diagnose --model tiny:base
  unbag diagnose --model tiny:hard_negative --against tiny:base --out repair
  unbag diagnose --model tiny:base --scorer pacl@runs/pacl --against tiny:base --probes profile
  unbag diagnose --model open_clip:ViT-B-32/openai --data whatsup --root data
  unbag diagnose --model open_clip:ViT-B-32/openai --data my/pictures --probes agreement stability
"""


def add(commands: Commands) -> None:
    """One or two models, what is looked at, and which questions are put."""
    text = "ask why a model answers as it does"
    diagnose = add_command(commands, "diagnose", text=text, about=_ABOUT, examples=_EXAMPLES)
    text = "a model by name, or the folder of a training run or export"
    diagnose.add_argument("--model", required=True, metavar="M", help=text)
    text = "a second model, such as the one a repair started from; differences are paired"
    diagnose.add_argument("--against", metavar="M", help=text)
    text = "a trained read-out, NAME@FOLDER: its scores, and its maps beside the model's own"
    diagnose.add_argument("--scorer", metavar="S", help=text)
    text = "for diagnosis.html and diagnosis.json (default: unbag-diagnosis/MODEL)"
    diagnose.add_argument("--out", type=Path, metavar="DIR", help=text)
    data = diagnose.add_argument_group("what is looked at")
    text = "world (default), a benchmark or family, a file of captions, or a folder of images"
    data.add_argument("--data", metavar="D", help=text)
    text = "holds one folder for each benchmark that is read from files"
    data.add_argument("--root", type=Path, metavar="DIR", help=text)
    text = "folder that names of images in a file of captions start from"
    data.add_argument("--pictures", type=Path, metavar="DIR", help=text)
    text = "questions to put, by name (default: all; `unbag list probes`)"
    diagnose.add_argument("--probes", nargs="+", metavar="P", help=text)
    text = "all readers, conditions and layers of each probe, not the quick part of them"
    diagnose.add_argument("--full", action="store_true", help=text)
    text = "layers to read from, besides the last; -2 is the one before it"
    diagnose.add_argument("--layers", type=int, nargs="+", default=[], metavar="N", help=text)
    text = "do not put the questions to the same model with random weights"
    diagnose.add_argument("--no-twin", action="store_true", help=text)
    text = "draw no maps of words over images, for which a chat model runs dozens of times"
    diagnose.add_argument("--no-maps", action="store_true", help=text)
    text = "of samples, readers, intervals and the random twin (default: 0)"
    diagnose.add_argument("--seed", type=int, default=0, metavar="N", help=text)
    add_device(diagnose)
    add_dtype(diagnose)
    diagnose.add_argument("--json", action="store_true", help="print JSON instead of a table")
    add_cache(diagnose)


def start(options: argparse.Namespace) -> int:
    """Put the questions, keep every answer, show them."""
    # NumPy and SciPy get one thread for their products, which are small here: between two of them a
    # second thread of OpenBLAS spins, which made readers seven times slower on two busy cores.
    # It must be said before NumPy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from rich.console import Console

    from unbag.cli.console import Shown, output
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

    console = Console(stderr=True)
    # Each diagnosis has a folder of its own.
    name = options.model
    name += f"+{options.scorer.partition('@')[0]}" if options.scorer else ""
    name += f"-against-{options.against}" if options.against else ""
    name += f"-on-{options.data}" if options.data else ""
    name = re.sub(r"[^\w.+-]+", "-", name).strip("-.") or "model"
    out = options.out or Path("unbag-diagnosis") / name
    check_run_folder(out, DIAGNOSIS)
    config = _inquiry(options, Shown(console))
    answered = 0
    with open_diagnosis(out) as run:

        def keep(found: Diagnosis) -> None:
            """Write the diagnosis after every question, and print how far it is."""
            nonlocal answered
            if not found.answers:
                check_same_diagnosis(found, run)
                return
            write_diagnosis(found, run)
            answered = len(found.answers)
            if not found.is_whole:
                answer = found.answers[-1]
                done = "answered" if answer.verdict is not None else "not asked"
                line = f"  {answer.probe}: {done} ({answer.seconds:.1f} s)"
                console.print(line, style="dim", highlight=False, markup=False)

        try:
            found = examine(config, progress=Shown(console), keep=keep)
        except KeyboardInterrupt:
            said = "stopped before the first question was answered; nothing was written"
            if answered:
                count = count_text(answered, "question")
                said = f"stopped; {count} of the diagnosis can be read in {out / PAGE}"
            print(f"\n{said}", file=sys.stderr)
            return 130
    if options.json:
        print(to_json(found), end="")
    else:
        print_diagnosis(found, output())
        print(f"page:    {out / PAGE}")
        print(f"numbers: {out / JSON}")
    return 0 if found.answered else 1


def _inquiry(options: argparse.Namespace, progress: Progress) -> DiagnosisConfig:
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

    # What is cheap to check comes before what is slow to load.
    probes = registered_probes(options.probes) if options.probes else None
    named = [model_name(one) for one in (options.model, options.against) if one]
    device = choose_device(options.device, is_needed=any(map(needs_device, named)))
    placement = Placement(device, options.dtype, cache=cache_of(options))
    material = find_probe_data(
        options.data,
        root=options.root,
        images=options.images,
        seed=options.seed,
        progress=progress,
    )
    models = [load_model(name, placement=placement) for name in named]
    return DiagnosisConfig(
        model=models[0],
        against=models[1] if len(models) > 1 else None,
        scorer=make_scorer(models[0], options.scorer) if options.scorer else None,
        material=material,
        probes=probes,
        options=Options(seed=options.seed, is_full=options.full, layers=tuple(options.layers)),
        has_random_init=not options.no_twin,
        has_maps=not options.no_maps,
        cache=cache_of(options),
        command=options.typed,
    )
