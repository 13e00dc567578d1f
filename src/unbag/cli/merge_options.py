"""The options of `unbag merge`; apart from the command, which takes long to import."""

from __future__ import annotations

import argparse
from pathlib import Path

from unbag.cli.positive import positive

_ABOUT = """\
Mix the weights of a model before and after fine-tuning (WiSE-FT), score every mix, and keep one:
fine-tuning gains composition and costs recognition, and a mix often keeps most of both.
"""

_EXAMPLES = """\
examples:
  unbag merge --base tiny:base --tuned tiny:tuned.safetensors --out merged
  unbag merge --base open_clip:ViT-B-32-quickgelu/openai --tuned open_clip:local-dir:trained \\
    --bench sugarcrepe_pp coco_retrieval cifar100 --data data --out merged
"""


def add_merge(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """Two models, weights, benchmarks, and how one weight is chosen."""
    merge = commands.add_parser(
        "merge",
        help="mix weights before and after fine-tuning",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    merge.add_argument("--base", required=True, metavar="M", help="the model before fine-tuning")
    merge.add_argument("--tuned", required=True, metavar="M", help="the same after it")
    text = "for the curve, the run folder and the mixed model"
    merge.add_argument("--out", type=Path, required=True, metavar="DIR", help=text)
    text = "shares of the tuned weights, with commas (default: 0,0.25,0.5,0.75,1)"
    merge.add_argument("--weights", default="0,0.25,0.5,0.75,1", metavar="W", help=text)
    text = "benchmarks or families (default: four of the world, which are drawings)"
    merge.add_argument("--bench", nargs="+", default=[], metavar="B", help=text)
    text = "holds one folder for each benchmark"
    merge.add_argument("--data", type=Path, metavar="DIR", help=text)
    merge.add_argument("--pick", type=float, metavar="W", help="keep this weight")
    text = "without --pick: points of recognition that may be lost (default: 1)"
    merge.add_argument("--budget", type=float, default=1.0, metavar="P", help=text)
    for side in ("composition", "recognition"):
        text = f"benchmarks that count as {side} whatever their metrics"
        merge.add_argument(f"--{side}", nargs="+", default=[], metavar="B", help=text)
    merge.add_argument("--seed", type=int, default=0, help="for the intervals (default: 0)")
    merge.add_argument("--device", default="auto", help="cpu, cuda, cuda:1, mps (default: auto)")
    text = "inputs at once (default: 256)"
    merge.add_argument("--batch", type=positive, default=256, metavar="N", help=text)
    return merge
