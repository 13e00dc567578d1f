"""`unbag train` in a process of its own, on a few coloured images, that can be cut off."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.contracts.jobs import ended, forked

from .pair_files import image, lines, negative

PLUG_IN = """
import os, signal
from dataclasses import replace
from pathlib import Path

from unbag.training.objective import Objective, Term
from unbag.training.losses import contrastive
from unbag.metrics.triples import Triples
from unbag.training.recipes import ce_clip_fixed
from unbag.types import Benchmark
from unbag.world.benchmarks import triple_items

# In which step the run gets a signal, as "5 SIGINT".
AT, SIGNAL = (Path("cut").read_text() if Path("cut").exists() else "0 SIGINT").split()
calls = []


def cutting(embedded):
    calls.append(0)
    if len(calls) == int(AT):
        Path("cut").unlink()
        os.killpg(0, getattr(signal, SIGNAL))
    return contrastive(embedded)


def recipe():
    recipe = ce_clip_fixed()
    terms = (*recipe.objective.terms, Term("cutting", 0.1, cutting))
    return replace(
        recipe, name="cut", objective=Objective(terms, recipe.objective.threshold),
        batch_size=4, epochs=4, warmup_steps=2, learning_rate=1e-3,
    )


SMALL = Benchmark(
    "small", "Colours.", lambda root: triple_items(["swap"], n=2), (Triples(),), "original"
)
"""
COLOURS = {"red": (200, 20, 20), "blue": (20, 20, 200), "green": (20, 160, 20), "white": (250,) * 3}


def make_folder(folder: Path, *, count: int = 8) -> Path:
    """Pairs with edits of two types, and the plug-in; two steps an epoch."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plug_in.py").write_text(PLUG_IN)
    names = list(COLOURS)
    records = []
    for at in range(count):
        colour, other = names[at % 4], names[(at + 1) % 4]
        image(folder / f"{at}.png", at)
        Image.new("RGB", (32, 32), COLOURS[colour]).save(folder / f"{at}.png")
        edits = [negative(f"a {other} square", "replace_attribute")]
        if at % 2:
            edits.append(negative(f"a {colour} star", "replace_noun"))
        records.append({"image": f"{at}.png", "captions": [f"a {colour} square"], "edits": [edits]})
    lines(folder / "pairs.jsonl", *records)
    return folder


def arguments(out: str = "run", *more: str) -> list[str]:
    """Of the command; the same for every start."""
    return [
        *["train", "--model", "tiny:base", "--recipe", "plug_in:recipe", "--pairs", "pairs.jsonl"],
        *[
            "--bench",
            "plug_in:SMALL",
            "--evaluate-every",
            "4",
            "--device",
            "cpu",
            "--workers",
            "0",
            "--out",
            out,
            *more,
        ],
    ]


def _run(folder: str, words: Sequence[str]) -> None:
    import torch

    from unbag.cli.main import main

    # A group of its own, so that a signal to the group reaches the run and its workers only.
    os.setsid()
    os.chdir(folder)
    # Its workers are no forks either, as on a Mac; they look for the plug-in by this path.
    sys.path.insert(0, folder)
    torch.set_num_threads(1)
    with Path("said.txt").open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.exit(main(list(words)))


def start(folder: Path, words: Sequence[str], *, cut: str = "") -> int:
    """The exit code of the command in a fresh process; that of a signal is negative."""
    if cut:
        (folder / "cut").write_text(cut)
    return ended(forked(_run, str(folder), list(words)))
