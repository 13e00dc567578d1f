"""Make training pairs of opposite images from folders of cut-outs and backgrounds.

    python examples/make_composites.py CUTOUTS BACKGROUNDS OUT [--count 1000] [--vary]

CUTOUTS holds images of single things, transparent or plain around them, each named as a caption
should call it: cup.png, coffee_pot_2.png. BACKGROUNDS holds any images; - takes plain colours.
Then:

    unbag train --model MODEL --readout dcsm_fixed --pairs OUT/pairs.jsonl --out reader
    unbag run --model MODEL --scorer dcsm_fixed@reader --bench ...
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from PIL import Image

from unbag.data.composites import KINDS, images_in, paste, read_cutouts, write_composites
from unbag.errors import UnbagError


def main() -> None:
    """As the command line says."""
    parser = argparse.ArgumentParser(description="Opposite pairs of images from cut-outs.")
    parser.add_argument("cutouts", type=Path, help="folder of single things")
    parser.add_argument("backgrounds", help="folder of any images, or - for plain colours")
    parser.add_argument("out", type=Path, help="new folder")
    parser.add_argument("--count", type=int, default=1_000, help="pairs of images")
    parser.add_argument("--side", type=int, default=224, help="pixels of a side")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), help=", ".join(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--vary", action="store_true", help="turn, bend and speckle a little")
    options = parser.parse_args()
    try:
        print(write(options))
    except UnbagError as error:
        sys.exit(str(error))


def write(options: argparse.Namespace) -> str:
    """Write all and say what was written."""
    cutouts = read_cutouts(options.cutouts)
    backgrounds = []
    if options.backgrounds != "-":
        for path in images_in(Path(options.backgrounds), what="backgrounds"):
            with Image.open(path) as file:
                backgrounds.append(file.convert("RGB"))
    composites = paste(
        cutouts,
        backgrounds,
        options.count,
        seed=options.seed,
        kinds=options.kinds,
        side=options.side,
    )
    path = write_composites(composites, options.out, varied=options.seed if options.vary else None)
    return f"{2 * options.count:,} images of {len(cutouts):,} objects; train with --pairs {path}"


if __name__ == "__main__":
    main()
