"""`unbag export`: a model in; folders for open_clip and transformers, and how to load them, out."""

from __future__ import annotations

import argparse

from unbag.errors import UserError
from unbag.models.loading import load_model
from unbag.reports.cards import Card, Exported, card_of_copy
from unbag.training.export.export import export
from unbag.training.repair import read_trained
from unbag.types import DualEncoder


def export_command(options: argparse.Namespace) -> int:
    """Write the forms and say how each is loaded."""
    if options.run is not None:
        encoder, card = read_trained(options.run, weights=options.weights or "last")
    else:
        if options.weights:
            raise UserError(
                f"--weights {options.weights} was given with --model {options.model}",
                expected="--weights only with --run: other models have one set of weights",
                way_out="leave it out, or name the folder of the training run with --run",
            )
        encoder, card = _untrained(options.model, command=options.typed)
    for line in shown(export(encoder, options.out, card=card)):
        print(line)
    return 0


def _untrained(model: str, *, command: str) -> tuple[DualEncoder, Card]:
    """A model by name, with a card that says that nothing was trained.

    A training run has an encoder and a card of its own; both go into the same `export`.
    """
    encoder = load_model(model)
    if not isinstance(encoder, DualEncoder):
        raise UserError(
            f"{model} gives no vector for a picture and a caption",
            expected="a dual encoder, such as open_clip:ViT-B-32/openai",
            way_out="name another with --model",
        )
    return encoder, card_of_copy(model, name=encoder.name, command=command)


def shown(found: Exported) -> list[str]:
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
