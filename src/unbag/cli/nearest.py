"""`unbag nearest`: find the nearest neighbours of each image of a caption file."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.cli.options import (
    CAPTION_FILES,
    add_batch_size,
    add_cache,
    add_command,
    add_device,
    cache_of,
    check_dual_encoder,
)

if TYPE_CHECKING:
    from unbag.registry import Commands
    from unbag.runs.cache import Vectors
    from unbag.types import ImageSource

_ABOUT = """\
Find the nearest other images of each image of a caption file, by the embeddings of a model: the
hard images of NegCLIP. The output is an input of `unbag edit --format negclip --neighbours FILE`
and `unbag train --neighbours FILE`.
"""

_EXAMPLES = """\
example:
  unbag nearest --captions captions.jsonl --images photos --model open_clip:ViT-B-32/openai \\
    --out neighbours.jsonl
"""


def add(commands: Commands) -> None:
    """Add the options: a caption file, an image folder, a model."""
    text = "find the nearest neighbours of each image"
    nearest = add_command(commands, "nearest", text=text, about=_ABOUT, examples=_EXAMPLES)
    text = "caption file with image paths"
    nearest.add_argument("--captions", required=True, metavar="FILE", help=text)
    text = "format of --captions (default: by its file extension)"
    # Images inside shards have no path.
    nearest.add_argument("--captions-format", choices=CAPTION_FILES, help=text)
    text = "column or field with the image path (default: filepath, image or url)"
    nearest.add_argument("--image-column", default="", metavar="C", help=text)
    text = "folder that image paths are relative to"
    nearest.add_argument("--images", type=Path, required=True, metavar="DIR", help=text)
    nearest.add_argument("--model", required=True, metavar="M", help="a dual encoder")
    text = "output file, JSON lines"
    nearest.add_argument("--out", type=Path, required=True, metavar="FILE", help=text)
    text = "number of neighbours per image"
    nearest.add_argument("--k", type=int, default=3, metavar="N", help=text)
    machine = nearest.add_argument_group("machine")
    add_device(machine)
    add_batch_size(machine, "images")
    add_cache(machine)


def start(options: argparse.Namespace) -> int:
    """Find and write the neighbours."""
    from unbag.cli.console import terminal_progress
    from unbag.data.captions import Source
    from unbag.data.neighbours import (
        check_place,
        check_search,
        find_images,
        nearest_images,
        write_neighbours,
    )
    from unbag.data.readers import entries, form_of
    from unbag.evaluation.embedding import embed
    from unbag.evaluation.plan import Plan
    from unbag.models.loading import Placement, choose_device, load_model
    from unbag.runs.files import make_folder

    source = Source(
        options.captions,
        options.captions_format or form_of(options.captions, "--captions-format"),
        image_column=options.image_column,
    )
    check_place(options.out, source)
    images = find_images((entry.image for entry in entries(source)), options.images)
    check_search(options.k, len(images))
    make_folder(options.out.parent, what="folder", hint="choose another place with --out")
    model = check_dual_encoder(
        load_model(options.model, placement=Placement(choose_device(options.device))),
        f"{options.model} has no image embeddings",
    )
    progress = terminal_progress()

    def vectors(image_of: Mapping[str, ImageSource]) -> tuple[Vectors, Mapping[str, str]]:
        plan = Plan(tuple(image_of.values()), tuple(image_of))
        cache, batch = cache_of(options), options.batch_size
        embedded = embed(model, plan, cache=cache, batch_size=batch, progress=progress)
        return embedded.image_ND, embedded.damaged

    near, damaged = nearest_images(images, vectors, each=options.k, progress=progress)
    write_neighbours(options.out, near)
    print(f"{len(near):,} images with {options.k} neighbours each, by {model.name}")
    for name, why in list(damaged.items())[:5]:
        print(f"  skipped: {name}: {why}")
    if len(damaged) > 5:
        print(f"  skipped: {len(damaged):,} images in total")
    print(f"neighbours: {Path(options.out)}")
    return 0
