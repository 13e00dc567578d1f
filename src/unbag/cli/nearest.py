"""`unbag nearest`: the pictures of a caption file in; for each the nearest others out."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from unbag.cli.console import Shown
from unbag.data.captions import Source
from unbag.data.neighbours import (
    check_place,
    check_search,
    find_pictures,
    nearest_pictures,
    write_neighbours,
)
from unbag.data.readers import entries, form_of
from unbag.errors import UserError
from unbag.evaluation.embedding import embed
from unbag.evaluation.plan import Plan
from unbag.models.loading import Placement, choose_device, load_model
from unbag.runs.cache import Vectors, default_cache
from unbag.runs.files import make_folder
from unbag.types import DualEncoder, Picture


def nearest_command(options: argparse.Namespace) -> int:
    """Write the neighbours and say where they are."""
    source = Source(
        options.captions,
        options.captions_format or form_of(options.captions, "--captions-format"),
        picture_column=options.picture_column,
    )
    check_place(options.out, source)
    pictures = find_pictures((entry.picture for entry in entries(source)), options.pictures)
    check_search(options.each, len(pictures))
    make_folder(options.out.parent, what="folder", way_out="choose another place with --out")
    model = load_model(options.model, placement=Placement(choose_device(options.device)))
    if not isinstance(model, DualEncoder):
        raise UserError(
            f"{options.model} gives no vector for a picture",
            expected="a dual encoder, such as open_clip:ViT-B-32/openai",
            way_out="name another with --model",
        )
    cache = None if options.no_cache else options.cache or default_cache()
    progress = Shown(Console(stderr=True))

    def vectors(picture_of: Mapping[str, Picture]) -> tuple[Vectors, Mapping[str, str]]:
        plan = Plan(tuple(picture_of.values()), tuple(picture_of))
        found = embed(model, plan, cache=cache, batch=options.batch, progress=progress)
        return found.picture_ND, found.damaged

    near, damaged = nearest_pictures(pictures, vectors, each=options.each, progress=progress)
    write_neighbours(options.out, near)
    print(f"{len(near):,} pictures with {options.each} neighbours each, by {model.name}")
    for name, why in list(damaged.items())[:5]:
        print(f"  left out: {name}: {why}")
    if len(damaged) > 5:
        print(f"  left out: {len(damaged):,} pictures in all")
    print(f"neighbours: {Path(options.out)}")
    return 0
