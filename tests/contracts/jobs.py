"""The resumable jobs of the command line, each small, run in processes that can be killed.

A process is killed while it writes a file: the file is whole under its temporary name, and not
renamed yet.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from PIL import Image
from tests.training.pair_files import lines, negative

from unbag.edits.jobs.chunks import EDITING
from unbag.evaluation.store import EVALUATION
from unbag.runs.checkpoint import LAST, load_checkpoint
from unbag.runs.files import TRAINING

PLUG_IN = """
from unbag.metrics.triples import Triples
from unbag.types import Benchmark
from unbag.world.benchmarks import triple_items

SMALL = Benchmark(
    "small", "Swaps.", lambda root: triple_items(["swap"], n=4), (Triples(),), "original"
)
"""
PRELOADED = [
    "unbag.cli.console",
    "unbag.evaluation.run",
    "unbag.training.repair",
    "unbag.training.recipes",
    "unbag.readouts.training",
    "unbag.edits.jobs.run",
    "torch._dynamo",
    "scipy.stats",
    "pyarrow.parquet",
    "jinja2",
]
COLOURS = {"red": (200, 20, 20), "blue": (20, 20, 200), "green": (20, 160, 20), "white": (250,) * 3}
WRITES = "writes.txt"
"""One line for every file that a process was about to rename."""


@dataclass(frozen=True)
class ResumableJob:
    """A command, what it leaves, and how it is disturbed."""

    name: str
    words: tuple[str, ...]
    kind: str
    """Of its run folder."""
    result: Callable[[Path], object]
    """What must be equal, read from the working folder."""
    damaged: str
    """A file of the run folder that the next start reads."""
    out: str = "run"
    folder: str = "run"
    """The run folder; where `out` is a file it stands beside it."""
    change: tuple[str, ...] = ("--seed", "1")
    named: str = "seed: 0 before, 1 now"
    needs: tuple[str, ...] = ()
    """Packages."""

    def command(self, *more: str, below: str = ".") -> list[str]:
        """The same for every start; its run folder lies in the folder `below`."""
        return [*self.words, "--out", str(Path(below) / self.out), *more]


def tensors(cwd: Path) -> object:
    """Weights, optimizer state and extra state of a finished training, as bytes."""
    found = load_checkpoint(cwd / "run" / LAST)
    return {
        (group, name): (value.dtype, tuple(value.shape), value.numpy().tobytes())
        for group, values in found.groups.items()
        for name, value in values.items()
    }


def scores(cwd: Path) -> object:
    """Scores and results of an evaluation, without the record of when it was run."""
    results = json.loads((cwd / "run/results.json").read_text(encoding="utf-8"))
    table = pq.read_table(cwd / "run/scores.parquet")
    return [{k: v for k, v in one.items() if k != "run"} for one in results], table.to_pylist()


def edits(cwd: Path) -> object:
    """The output of an edit job, and that nothing else is left of it."""
    assert not (cwd / "edits.jsonl.parts").exists()
    return (cwd / "edits.jsonl").read_bytes()


_MACHINE = ("--device", "cpu", "--cache", "cache")


def _training(name: str, *more: str, model: str = "tiny:base", **others: Any) -> ResumableJob:
    words = ("train", "--model", model, "--recipe", name, *_MACHINE, "--workers", "0")
    return ResumableJob(
        f"train {name}",
        (*words, "--save-minutes", "0", *more),
        TRAINING,
        tensors,
        LAST,
        **others,
    )


_PAIRS = ("--pairs", "pairs.jsonl")
_FEW = ("steps=5", "batch=4", "warm_up=1")
JOBS = (
    ResumableJob(
        "run",
        ("run", "--model", "tiny:base", "--bench", "plug_in:SMALL", *_MACHINE),
        EVALUATION,
        scores,
        "scores.parquet",
    ),
    ResumableJob(
        "edit",
        ("edit", "--captions", "captions.jsonl", "--kinds", "swap_words"),
        EDITING,
        edits,
        "000000.jsonl",
        out="edits.jsonl",
        folder="edits.jsonl.parts",
    ),
    _training(
        "ce_clip_fixed", *_PAIRS, "--bench", "plug_in:SMALL",
        "--set", "batch=4", "epochs=2", "learning_rate=1e-3", "warm_up=1",
    ),
    _training("pooled", *_PAIRS, "--set", *_FEW, "crowd=2"),
    _training("dcsm_fixed", *_PAIRS, "--set", *_FEW, "crowd=2", "length=12", "net=mlp"),
    _training("pacl", *_PAIRS, "--set", *_FEW, "crowd=2"),
    _training("sparc", *_PAIRS, "--set", *_FEW, "crowd=2"),
    _training("decoder", *_PAIRS, "--set", *_FEW, "width=16", "depth=1", "heads=2"),
    _training(
        "vlm2vec", *_PAIRS, "--set", *_FEW, "chunk=4", "negatives=1",
        model="hf:llava", needs=("transformers", "peft"),
    ),
)  # fmt: skip


def make_folder(folder: Path, job: ResumableJob) -> Path:
    """The inputs of a job: pairs with edits, captions, a benchmark, a chat model."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plug_in.py").write_text(PLUG_IN)
    names, pairs = list(COLOURS), []
    for at in range(10):
        colour, other = names[at % 4], names[(at + 1) % 4]
        Image.new("RGB", (32, 32), COLOURS[colour]).save(folder / f"{at}.png")
        edit = negative(f"a {other} square", "replace_attribute")
        captions = [f"a {colour} square {at}"]
        pairs.append({"image": f"{at}.png", "captions": captions, "edits": [[edit]]})
    lines(folder / "pairs.jsonl", *pairs)
    if job.name == "edit":
        given = [{"caption": f"a dog sees {n} cats"} for n in range(1200)]
        lines(folder / "captions.jsonl", *given)
    if "hf:llava" in job.words:
        import torch
        from tests.models.tiny_chat import llava, save, tf

        tf.utils.logging.disable_progress_bar()
        torch.manual_seed(0)
        save(llava(), folder / "llava")
    return folder


def start(
    folder: Path, words: Sequence[str], *, killed_at: int = 0, without_rights: bool = False
) -> int:
    """The exit code of the command in a fresh process; that of a signal is negative.

    Args:
        folder: Where it runs; `said.txt` there holds what this start printed.
        words: Of the command.
        killed_at: The file, counted from 1, before whose renaming it is killed.
        without_rights: Root may write everywhere; this start may not.
    """
    # Imports once and forks: a fraction of the time of a new interpreter.
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    arguments = (str(folder), list(words), killed_at, without_rights)
    process = context.Process(target=_run, args=arguments)
    # The process finds this module by the path that it is given.
    sys.path.append(str(Path(__file__).parents[2]))
    try:
        process.start()
    finally:
        sys.path.pop()
    process.join(timeout=300)
    assert process.exitcode is not None
    return process.exitcode


def _run(folder: str, words: Sequence[str], killed_at: int, without_rights: bool) -> None:
    import torch

    from unbag.cli.main import main
    from unbag.runs import files

    os.chdir(folder)
    # Its workers are no forks; they look for the plug-in by this path.
    sys.path.insert(0, folder)
    torch.set_num_threads(1)
    with Path("said.txt").open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    real, count = files.settle, 0

    def settle(path: Path, mode: int) -> None:
        nonlocal count
        real(path, mode)
        count += 1
        with Path(WRITES).open("a") as log:
            log.write(f"{path.name}\n")
        if count == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    files.settle = settle
    if without_rights:
        _drop_rights()
    sys.exit(main(list(words)))


def _drop_rights() -> None:
    """Give up every capability, so that root too may write only what it may by a file's mode."""
    version_3 = (ctypes.c_uint32 * 2)(0x20080522, 0)
    nothing = (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None, use_errno=True).capset(version_3, nothing) == 0


def said(folder: Path) -> str:
    """What the last start printed, in one line."""
    return " ".join((folder / "said.txt").read_text(encoding="utf-8").split())


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file that is not hidden."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Callable[[str], None]]:
    """A file system of that size; gives a function that makes it larger."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root can mount a file system")

    def enlarge(size: str) -> None:
        subprocess.run([*mount[:4], f"remount,size={size}", *mount[5:]], check=True)

    try:
        yield enlarge
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
