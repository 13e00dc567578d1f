"""`unbag nearest`: for each image of a caption file, the nearest other images."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.cli.options import (
    CAPTION_FILES,
    add_batch,
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
For every image that a caption file names, find the nearest other images by a model's vectors:
NegCLIP's hard images. The output goes into `unbag edit --format negclip --neighbours FILE`.
"""

_EXAMPLES = """\
example:
  unbag nearest --captions captions.jsonl --pictures photos --model open_clip:ViT-B-32/openai \\
    --out neighbours.jsonl
"""


def add(commands: Commands) -> None:
    """A caption file, a folder of images, a model."""
    text = "the nearest other images of each image"
    nearest = add_command(commands, "nearest", text=text, about=_ABOUT, examples=_EXAMPLES)
    text = "a file that names images"
    nearest.add_argument("--captions", required=True, metavar="FILE", help=text)
    # Images inside shards have no path.
    text = "of --captions: {} (default: by its ending)".format(", ".join(CAPTION_FILES))
    nearest.add_argument("--captions-format", choices=CAPTION_FILES, metavar="F", help=text)
    text = "column or field that names the image (default: filepath, image or url)"
    nearest.add_argument("--picture-column", default="", metavar="C", help=text)
    text = "the folder that their names start from"
    nearest.add_argument("--pictures", type=Path, required=True, metavar="DIR", help=text)
    nearest.add_argument("--model", required=True, metavar="M", help="a dual encoder")
    nearest.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSON lines")
    text = "neighbours of each image (default: 3)"
    nearest.add_argument("--each", type=int, default=3, metavar="N", help=text)
    add_device(nearest)
    add_batch(nearest, "images encoded")
    add_cache(nearest)


def start(options: argparse.Namespace) -> int:
    """Write the neighbours and say where they are."""
    from unbag.cli.console import shown
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
    check_search(options.each, len(images))
    make_folder(options.out.parent, what="folder", hint="choose another place with --out")
    model = check_dual_encoder(
        load_model(options.model, placement=Placement(choose_device(options.device))),
        f"{options.model} gives no vector for an image",
    )
    progress = shown()

    def vectors(image_of: Mapping[str, ImageSource]) -> tuple[Vectors, Mapping[str, str]]:
        plan = Plan(tuple(image_of.values()), tuple(image_of))
        cache, batch = cache_of(options), options.batch
        found = embed(model, plan, cache=cache, batch_size=batch, progress=progress)
        return found.image_ND, found.damaged

    near, damaged = nearest_images(images, vectors, each=options.each, progress=progress)
    write_neighbours(options.out, near)
    print(f"{len(near):,} images with {options.each} neighbours each, by {model.name}")
    for name, why in list(damaged.items())[:5]:
        print(f"  left out: {name}: {why}")
    if len(damaged) > 5:
        print(f"  left out: {len(damaged):,} images in all")
    print(f"neighbours: {Path(options.out)}")
    return 0
