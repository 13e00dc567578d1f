"""`unbag diagnose`: one or two models in; sentences with numbers, a page and its JSON out."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from rich.console import Console

from unbag.api import make_scorer
from unbag.cli.console import Shown, output
from unbag.cli.run import cache_of
from unbag.models.loading import (
    Model,
    Placement,
    choose_device,
    load_model,
    model_name,
    needs_device,
)
from unbag.probes.base import Options
from unbag.probes.data import find_material
from unbag.probes.diagnosis.diagnose import Diagnosis, Inquiry, examine, registered_probes
from unbag.probes.diagnosis.page import JSON, PAGE, check_folder, write_diagnosis
from unbag.probes.diagnosis.text import print_diagnosis, to_json
from unbag.reports.formatting import count_text
from unbag.runs.progress import Progress

FOLDER = Path("unbag-diagnosis")


class _Kept:
    """Writes what there is after every question, and tells how far it is."""

    def __init__(self, folder: Path, console: Console) -> None:
        self.folder, self.console = folder, console
        self.found: Diagnosis | None = None

    def __call__(self, found: Diagnosis) -> None:
        write_diagnosis(found, self.folder)
        self.found = found
        if not found.is_whole:
            answer = found.answers[-1]
            done = "answered" if answer.verdict is not None else "not asked"
            line = f"  {answer.probe}: {done} ({answer.seconds:.1f} s)"
            self.console.print(line, style="dim", highlight=False, markup=False)


def diagnose_command(options: argparse.Namespace) -> int:
    """Put the questions, keep every answer, show them."""
    console = Console(stderr=True)
    readout = f"+{options.scorer.partition('@')[0]}" if options.scorer else ""
    out = check_folder(options.out or FOLDER / _plain(options.model + readout))
    inquiry = _inquiry(options, Shown(console))
    kept = _Kept(out, console)
    try:
        found = examine(inquiry, progress=Shown(console), keep=kept)
    except KeyboardInterrupt:
        console.print(_stopped(kept), highlight=False, markup=False, soft_wrap=True)
        return 130
    if options.json:
        print(to_json(found), end="")
    else:
        print_diagnosis(found, output())
        print(f"page:    {out / PAGE}")
        print(f"numbers: {out / JSON}")
    return 0 if found.answered else 1


def _inquiry(options: argparse.Namespace, progress: Progress) -> Inquiry:
    # What is cheap to check comes before what is slow to load.
    probes = registered_probes(options.probes) if options.probes else None
    named = [model_name(one) for one in (options.model, options.against) if one]
    device = choose_device(options.device, is_needed=any(map(needs_device, named)))
    placement = Placement(device, options.dtype, cache=cache_of(options))
    material = find_material(
        options.data,
        root=options.root,
        pictures=options.pictures,
        seed=options.seed,
        progress=progress,
    )
    models: list[Model] = [load_model(name, placement=placement) for name in named]
    return Inquiry(
        model=models[0],
        against=models[1] if len(models) > 1 else None,
        scorer=make_scorer(models[0], options.scorer) if options.scorer else None,
        material=material,
        probes=probes,
        options=Options(seed=options.seed, is_full=options.full, layers=tuple(options.layers)),
        has_twin=not options.no_twin,
        has_maps=not options.no_maps,
        cache=cache_of(options),
        command=options.typed,
    )


def _plain(name: str) -> str:
    """A name as that of a folder."""
    return re.sub(r"[^\w.+-]+", "-", name).strip("-.") or "model"


def _stopped(kept: _Kept) -> str:
    if kept.found is None:
        return "\nstopped before the first question was answered; nothing was written"
    count = count_text(len(kept.found.answers), "question")
    return f"\nstopped; {count} of the diagnosis can be read in {kept.folder / PAGE}"
