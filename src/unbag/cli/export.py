"""`unbag export`: write a model in the formats of open_clip and transformers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.cli.options import add_command, check_dual_encoder
from unbag.errors import UnbagError

if TYPE_CHECKING:
    from unbag.registry import Commands
    from unbag.reports.cards import Exported

_ABOUT = """\
Export a dual encoder to open_clip and transformers, with a model card. Each export is loaded with
its library and verified against the model. Formats that cannot represent the model are skipped,
with the reason.
"""

_EXAMPLES = """\
examples:
  unbag export --model open_clip:ViT-B-32-quickgelu/openai --out exports/vit-b-32
  unbag export --run runs/ce --checkpoint best --out exports/ce-best
"""


def add(commands: Commands) -> None:
    """Add the options: a model or a training run, and the output folder."""
    text = "export a model to open_clip and transformers"
    export = add_command(commands, "export", text=text, about=_ABOUT, examples=_EXAMPLES)
    text = "a dual encoder: open_clip:, hf:, photo:, joined: or tiny:"
    what = export.add_mutually_exclusive_group(required=True)
    what.add_argument("--model", metavar="M", help=text)
    text = "or the folder of a training run, finished or not"
    what.add_argument("--run", type=Path, metavar="DIR", help=text)
    text = "checkpoint of --run: the last, or the best on the benchmarks (default: last)"
    export.add_argument("--checkpoint", choices=("last", "best"), help=text)
    text = "new or empty output folder"
    export.add_argument("--out", type=Path, required=True, metavar="DIR", help=text)


def start(options: argparse.Namespace) -> int:
    """Export the model and print how each format is loaded."""
    from unbag.models.loading import load_model
    from unbag.reports.cards import card_of_copy
    from unbag.training.export.export import export
    from unbag.training.repair import read_trained

    if options.run is not None:
        encoder, card = read_trained(options.run, weights=options.checkpoint or "last")
    else:
        if options.checkpoint:
            raise UnbagError(
                f"--checkpoint {options.checkpoint} was given with --model {options.model}",
                expected="--checkpoint only with --run: other models have one set of weights",
                hint="remove it, or give the folder of the training run with --run",
            )
        message = f"{options.model} has no image and text embeddings"
        encoder = check_dual_encoder(load_model(options.model), message)
        card = card_of_copy(options.model, name=encoder.name, command=options.typed)
    for line in export_lines(export(encoder, options.out, card=card)):
        print(line)
    return 0


def export_lines(exported: Exported) -> list[str]:
    """Return the lines printed after an export."""
    lines = [f"{exported.name}, written to {exported.path}"]
    for form in exported.folders:
        agreement = form.agreement
        lines.append(f"  {form.place:<16} {form.load_line(exported.path)}")
        check = f"checked: embeddings differ by at most {agreement.vectors:.1e}"
        if agreement.levels:
            check += f", pixels by {agreement.levels:.1f} of 255 (cosine {agreement.cosine:.6f})"
        lines.append(f"  {'':<16} {check}")
    lines += [f"  {form.library:<16} skipped: {form.why}" for form in exported.left_out]
    lines += [f"note: {note}" for note in exported.notes]
    lines.append("evaluate it:")
    lines += [f"  unbag run --model {form.model_name(exported.path)}" for form in exported.folders]
    lines.append(f"model card: {exported.path / 'README.md'}")
    return lines
