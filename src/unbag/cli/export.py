"""`unbag export`: write a model as folders that open_clip and transformers load."""

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
Write a dual encoder so that plain open_clip and plain transformers load it, with a model card.
Each form is read again by its library and compared with the model before it gets its name; a form
that a library cannot have is left out, and the reason is said.
"""

_EXAMPLES = """\
examples:
  unbag export --model open_clip:ViT-B-32-quickgelu/openai --out exports/vit-b-32
  unbag export --run runs/ce --weights best --out exports/ce-best
"""


def add(commands: Commands) -> None:
    """A model and a new folder."""
    text = "folders that open_clip and transformers load, with a model card"
    export = add_command(commands, "export", text=text, about=_ABOUT, examples=_EXAMPLES)
    text = "a dual encoder: open_clip:, hf:, photo:, joined: or tiny:"
    what = export.add_mutually_exclusive_group(required=True)
    what.add_argument("--model", metavar="M", help=text)
    text = "folder of a training run, finished or not"
    what.add_argument("--run", type=Path, metavar="DIR", help=text)
    text = "of the run: the last checkpoint, or the best one by its benchmarks; default: last"
    export.add_argument("--weights", choices=("last", "best"), help=text)
    export.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder")


def start(options: argparse.Namespace) -> int:
    """Write the forms and say how each is loaded."""
    from unbag.models.loading import load_model
    from unbag.reports.cards import card_of_copy
    from unbag.training.export.export import export
    from unbag.training.repair import read_trained

    if options.run is not None:
        encoder, card = read_trained(options.run, weights=options.weights or "last")
    else:
        if options.weights:
            raise UnbagError(
                f"--weights {options.weights} was given with --model {options.model}",
                expected="--weights only with --run: other models have one set of weights",
                hint="leave it out, or name the folder of the training run with --run",
            )
        message = f"{options.model} gives no vector for an image and a caption"
        encoder = check_dual_encoder(load_model(options.model), message)
        card = card_of_copy(options.model, name=encoder.name, command=options.typed)
    for line in export_lines(export(encoder, options.out, card=card)):
        print(line)
    return 0


def export_lines(found: Exported) -> list[str]:
    """What a user reads after an export."""
    lines = [f"{found.name}, written to {found.path}"]
    for one in found.folders:
        agrees = one.agreement
        lines.append(f"  {one.place:<16} {one.load_line(found.path)}")
        said = f"read again: vectors differ by at most {agrees.vectors:.1e}"
        if agrees.levels:
            said += f", pixels by {agrees.levels:.1f} of 255 (cosine {agrees.cosine:.6f})"
        lines.append(f"  {'':<16} {said}")
    lines += [f"  {one.library:<16} not written: {one.why}" for one in found.left_out]
    lines += [f"note: {note}" for note in found.notes]
    lines.append("score it:")
    lines += [f"  unbag run --model {one.model_name(found.path)}" for one in found.folders]
    lines.append(f"card: {found.path / 'README.md'}")
    return lines
