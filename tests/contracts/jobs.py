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
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
from PIL import Image
from tests.training.pair_files import lines, negative
from tests.training.small_world import CONFIG

from unbag.edits.jobs.chunks import EDITING
from unbag.evaluation.store import EVALUATION
from unbag.models.tiny import untrained, write
from unbag.probes.diagnosis.page import DIAGNOSIS
from unbag.registry import names as registered
from unbag.runs.checkpoint import BEST, LAST, load_checkpoint
from unbag.runs.files import TRAINING
from unbag.training.merge import MERGE

PLUG_IN = """
from unbag.metrics.triples import Triples
from unbag.types import Benchmark
from unbag.world.benchmarks import triple_items

SMALL = Benchmark(
    "small", "Swaps.", lambda root: triple_items(["swap"], n=4), (Triples(),), "original"
)
"""
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
    damaged: str = ""
    """A file of the run folder that the next start reads, if there is one."""
    out: str = "run"
    folder: str = "run"
    """The run folder; where `out` is a file it stands beside it."""
    change: tuple[str, ...] = ("--seed", "1")
    named: str = "seed: 0 before, 1 now"
    needs: tuple[str, ...] = ()
    """Packages."""
    interrupted: str = "stopped"
    """What is said after Ctrl-C."""
    written_again: tuple[str, ...] = ()
    """Results that the same command writes again after the end."""

    def command(self, *more: str, below: str = ".") -> list[str]:
        """The same for every start; its run folder lies in the folder `below`."""
        return [*self.words, "--out", str(Path(below) / self.out), *more]


def training(cwd: Path) -> object:
    """Weights, optimizer state and extra state; what is made of them, the log, evaluations."""
    run = cwd / "run"
    found = {
        name: {
            (group, key): (value.dtype, tuple(value.shape), value.numpy().tobytes())
            for group, values in load_checkpoint(run / name).groups.items()
            for key, value in values.items()
        }
        for name in (LAST, BEST)
        if (run / name).exists()
    }
    made = {
        path.name: path.read_bytes()
        for path in run.rglob("*.safetensors")
        if path.name not in (LAST, BEST)
    }
    assert made
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    table = run / "evaluations.csv"
    evaluations = table.read_text() if table.exists() else ""
    return found, made, [row | {"waited": 0} for row in rows], evaluations


def scores(cwd: Path) -> object:
    """Scores and results of an evaluation, without the record of when it was run."""
    results = json.loads((cwd / "run/results.json").read_text(encoding="utf-8"))
    table = pq.read_table(cwd / "run/scores.parquet")
    return [{k: v for k, v in one.items() if k != "run"} for one in results], table.to_pylist()


def mixed(cwd: Path) -> object:
    """The curve, and the weights that are kept."""
    run = cwd / "run"
    names = ("curve.json", "curve.csv", "curve.html", "weight-1/tiny.safetensors")
    return scores(run), [(run / name).read_bytes() for name in names]


def edits(cwd: Path) -> object:
    """The output of an edit job, and that nothing else is left of it."""
    assert not (cwd / "edits.jsonl.parts").exists()
    content = (cwd / "edits.jsonl").read_bytes()
    assert b"swap_attributes" in content
    return content


def diagnosis(cwd: Path) -> object:
    """What was found, without when and how long."""
    found = json.loads((cwd / "run/diagnosis.json").read_text(encoding="utf-8"))
    assert (cwd / "run/diagnosis.html").exists()
    answers = [one | {"seconds": 0} for one in found["answers"]]
    assert answers
    return found | {"answers": answers, "record": None}


def arms(cwd: Path) -> object:
    """Results of the study, without the time they took."""
    from unbag_lab.results import results_in

    found = results_in(cwd / "run")
    assert found
    return [replace(one, seconds=None) for one in found]


_MACHINE = ("--device", "cpu", "--cache", "cache")


def _training(name: str, *more: str, model: str = "tiny:base", **others: Any) -> ResumableJob:
    what = "--readout" if name in registered("readout") else "--recipe"
    words = ("train", "--model", model, what, name, *_MACHINE, "--workers", "0")
    return ResumableJob(
        f"train {name}",
        (*words, "--pairs", "pairs.jsonl", "--save-minutes", "0", *more),
        TRAINING,
        training,
        LAST,
        **others,
    )


_LATER = "stopped; the same command resumes from there"
_FEW = ("steps=4", "batch_size=4", "warmup_steps=1")
JOBS = (
    ResumableJob(
        "run",
        ("run", "--model", "tiny:base", "--bench", "plug_in:SMALL", *_MACHINE),
        EVALUATION,
        scores,
        "scores.parquet",
        interrupted="stopped; results so far are saved in run resume with: unbag run --model",
        written_again=("results.json", "report.html"),
    ),
    ResumableJob(
        "edit",
        ("edit", "--captions", "captions.jsonl", "--kinds", "swap_attributes"),
        EDITING,
        edits,
        "000000.jsonl",
        out="edits.jsonl",
        folder="edits.jsonl.parts",
        interrupted="stopped; the same command resumes from edits.jsonl.parts",
    ),
    ResumableJob(
        "diagnose",
        (
            *("diagnose", "--model", "tiny:base", "--on", "pairs.jsonl", "--no-random-init"),
            *("--no-maps", "--probes", "agreement", "stability", *_MACHINE),
        ),
        DIAGNOSIS,
        diagnosis,
    ),
    ResumableJob(
        "merge",
        (
            *("merge", "--base", "tiny:old.safetensors", "--tuned", "tiny:new.safetensors"),
            *("--bench", "plug_in:SMALL", "--weights", "1", "--pick", "1", *_MACHINE),
        ),
        MERGE,
        mixed,
        "run/scores.parquet",
        written_again=("curve.json", "curve.csv", "curve.html"),
    ),
    _training(
        "ce_clip_fixed", "--bench", "plug_in:SMALL",
        "--set", "batch_size=4", "epochs=2", "learning_rate=1e-3", "warmup_steps=1",
        interrupted="stopped after step 2; the same command resumes from there",
    ),
    _training(
        "pooled", "--set", *_FEW, "contrast_size=2",
        interrupted=_LATER, written_again=("reader.safetensors", "README.md"),
    ),
    _training(
        "decoder", "--set", *_FEW, "width=16", "depth=1", "heads=2",
        interrupted=_LATER, written_again=("config.json", "connector.safetensors", "README.md"),
    ),
    _training(
        "vlm2vec", "--set", *_FEW, "chunk=4", "negatives=1",
        model="hf:llava", needs=("transformers", "peft"),
        interrupted=_LATER, written_again=("config.json", "adapter.safetensors", "README.md"),
    ),
    ResumableJob(
        "lab run",
        ("lab", "run", "negatives_open", "--size", "small", "--seeds", "1", "--device", "cpu"),
        "lab run",
        arms,
        "bases/tiny-0.safetensors",
        change=("--size", "full", "--yes"),
        named="size: small before, full now",
        interrupted=_LATER,
        needs=("unbag_lab",),
    ),
)  # fmt: skip
"""One for each way in which a run folder is used; what differs between kinds of training is
in `test_trainer_tasks.py`."""


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
    if job.name == "merge":
        for seed, name in enumerate(("old", "new")):
            write(untrained(CONFIG, seed=seed), folder / f"{name}.safetensors")
    if job.name == "edit":
        given = [{"caption": f"a red dog {n} and a black cat"} for n in range(12)]
        lines(folder / "captions.jsonl", *given)
    if "hf:llava" in job.words:
        import torch
        from tests.models.tiny_chat import llava, save, tf

        tf.utils.logging.disable_progress_bar()
        torch.manual_seed(0)
        save(llava(), folder / "llava")
    return folder


def start(
    folder: Path,
    words: Sequence[str],
    *,
    stopped_at: int = 0,
    by: signal.Signals = signal.SIGKILL,
    without_rights: bool = False,
) -> int:
    """The exit code of the command in a fresh process; that of a signal is negative.

    Args:
        folder: Where it runs; `said.txt` there holds what this start printed.
        words: Of the command.
        stopped_at: The file, counted from 1, before whose renaming it gets a signal.
        by: The signal.
        without_rights: Root may write everywhere; this start may not.
    """
    return ended(forked(_run, str(folder), list(words), stopped_at, by, without_rights))


def forked(function: Callable[..., object], *arguments: object) -> BaseProcess:
    """Start a process that has everything imported: a fraction of the time of a new interpreter."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["tests.contracts.preloaded"])
    process = context.Process(target=function, args=arguments)
    # The process finds modules of tests by the path that it is given.
    sys.path.append(str(Path(__file__).parents[2]))
    try:
        process.start()
    finally:
        sys.path.pop()
    return process


def ended(process: BaseProcess) -> int:
    """Its exit code; that of a signal is negative."""
    process.join(timeout=300)
    assert process.exitcode is not None
    return process.exitcode


def _run(
    folder: str, words: Sequence[str], stopped_at: int, by: signal.Signals, without_rights: bool
) -> None:
    import torch

    from unbag.cli.main import main
    from unbag.edits.jobs import run as jobs
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
        if count == stopped_at:
            os.kill(os.getpid(), by)

    files.settle = settle
    # Of few captions, for which there is no option.
    patch.object(jobs, "EditJob", partial(jobs.EditJob, chunk=4)).start()
    if without_rights and os.geteuid() == 0:
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
