"""Record what a revision computes, and compare two such records.

    python tools/reference.py make REVISION FOLDER    # or a checkout that is set up already
    python tools/reference.py compare FOLDER FOLDER

`make` clones a revision beside FOLDER, sets it up and runs every long job of the command line with
fixed seeds inside FOLDER. `compare` reads all files of both folders and prints where they differ:
tensors and tables by value, JSON and text without versions, dates, durations and module paths.
It goes with the issue "Plain words", when the rebuilt package has nothing left to be equal to.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# Beside results: how long it took, when, with which versions, and by which class.
UNSTABLE = {
    *("seconds", "waited", "started", "python", "version", "versions", "class"),
    "transformers_version",
}
UNSTABLE_TEXT = [
    (re.compile(r"\d+(\.\d+)? ?(s|ms|min|seconds|minutes|h)\b"), "TIME"),
    (re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2})?(\.\d+)?(\+\d{2}:\d{2}|Z)?)?"), "DATE"),
    (re.compile(r"\d{1,3}(,\d{3})*(\.\d+)?( \w+)? (a second|/s|per second)"), "RATE"),
    (re.compile(r"\bunbag(_lab)?(\.\w+)*:"), "MODULE:"),
    (re.compile(r"\S*-checkout/"), "CHECKOUT/"),
    (re.compile(r"[\d.]+ % of the time waiting for data"), "WAITING"),
    (re.compile(r'<th scope="row">took</th><td>.*?</td>'), "TOOK"),
]
SKIPPED = {".lock", ".tmp"}
RECIPES = "clip_ft svlc hard_negative hard_positive ce_clip ce_clip_fixed locked_image".split()
READOUTS = "pooled dcsm dcsm_fixed pacl pacl_fixed pacl_rotary sparc sparc_fixed decoder".split()


def commands() -> Iterator[tuple[str, list[str]]]:
    """Name and arguments of each job; the first word is a command of unbag."""
    yield "demo", "demo --out demo --no-cache".split()
    models = "tiny:base tiny:hard_negative tiny:random"
    yield "run", f"run --model {models} --bench world --out run --no-cache".split()
    kinds = "default negatives positives neg_clip_fixed"
    captions = "--captions captions.jsonl --seed 3 --out edits.jsonl"
    yield "edit", f"edit {captions} --kinds {kinds}".split()
    fixed = "--seed 5 --device cpu --no-cache"
    short = "batch_size=16 epochs=1 warmup_steps=2 learning_rate=1e-4"
    yield (
        "train",
        "train --model tiny:base --recipe hard_positive --pairs pairs/edits.jsonl --workers 0 "
        f"--set {short} --bench world-swap world-retrieval --out train {fixed}".split(),
    )
    long = "batch_size=16 epochs=9 warmup_steps=5 learning_rate=1e-4"
    for name in RECIPES:
        # Nine epochs of 96 pairs are 54 steps.
        yield (
            f"recipe-{name}",
            f"train --model tiny:base --recipe {name} --pairs pairs/edits.jsonl --workers 0 "
            f"--set {long} --bench world-swap --evaluate-every 1000 "
            f"--out recipe-{name} {fixed}".split(),
        )
    small = "steps=50 batch_size=8 scenes=64"
    for name in READOUTS:
        yield (
            f"readout-{name}",
            f"train --model tiny:base --readout {name} --pairs world --set {small} "
            f"--out readout-{name} {fixed}".split(),
        )
    yield (
        "readout-vlm2vec",
        "train --model hf:llava --readout vlm2vec --pairs world --set steps=50 batch_size=4 chunk=3 "
        f"warmup_steps=1 learning_rate=0.01 --out readout-vlm2vec {fixed}".split(),
    )
    yield "diagnose", "diagnose --model tiny:base --out diagnosis --no-cache --device cpu".split()
    yield "lab", ["lab"]
    for kind in "benchmarks models scorers edits filters losses recipes readouts probes".split():
        yield f"list-{kind}", ["list", kind]


def write_captions(path: Path, count: int = 2_000) -> None:
    """Captions of photographs, made from lists: the same in every revision."""
    draw = random.Random(7)
    colours = "red blue green white black brown yellow small large old young wooden".split()
    things = "dog cat horse child woman man car bicycle table ball boat bird sheep chair".split()
    actions = "chases|sits beside|looks at|stands behind|is carrying|runs towards".split("|")
    places = "to the left of|above|under|next to|in front of|on top of|behind".split("|")
    endings = ["", " in a park", " on the beach", " near two trees", " while three men watch"]
    with path.open("w") as file:
        for n in range(count):
            first, second = draw.sample(things, 2)
            between = draw.choice(actions if n % 2 else places)
            caption = (
                f"A {draw.choice(colours)} {first} {between} a {draw.choice(colours)} {second}"
                f"{draw.choice(endings)}."
            )
            file.write(json.dumps({"id": str(n), "image": f"{n}.png", "caption": caption}) + "\n")


WRITE_INPUTS = """
import sys, warnings, json
from pathlib import Path
import numpy as np
from PIL import Image
import torch
checkout, out = Path(sys.argv[1]), Path(sys.argv[2])
pairs = out / "pairs"
pairs.mkdir()
draw = np.random.default_rng(0)
rows = [json.loads(line) for line in (out / "captions.jsonl").open()][:96]
for n, row in enumerate(rows):
    Image.fromarray(draw.integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(pairs / row["image"])
(pairs / "captions.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
folder = next(p for p in (checkout / "tests").rglob("tiny_chat.py")).parent
sys.path.insert(0, str(folder))
import tiny_chat
torch.manual_seed(0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    tiny_chat.save(tiny_chat.llava(), out / "llava")
"""


def make(revision: str, out: Path) -> int:
    """Run every job of a revision, or of a checkout that is set up, into `out`."""
    checkout = Path(revision)
    if not checkout.is_dir():
        checkout = out.with_name(out.name + "-checkout")
        here = Path(__file__).parent.parent
        subprocess.run(["git", "clone", "--quiet", here, checkout], check=True)
        subprocess.run(["git", "checkout", "--quiet", revision], cwd=checkout, check=True)
        subprocess.run(["make", ".venv/.ready"], cwd=checkout, check=True)
    programs = checkout.resolve() / ".venv" / "bin"
    out.mkdir(parents=True)
    write_captions(out / "captions.jsonl")
    inputs = [
        str(programs / "python"),
        "-c",
        WRITE_INPUTS,
        str(checkout.resolve()),
        str(out.resolve()),
    ]
    subprocess.run(inputs, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    known = subprocess.run([programs / "unbag", "train", "--help"], capture_output=True, text=True)
    readout = "--readout" if "--readout" in known.stdout else "--recipe"
    edits = "edit --captions pairs/captions.jsonl --kinds default --seed 1 --out pairs/edits.jsonl"
    failed = []
    for name, words in [("pairs", edits.split()), *commands()]:
        words = [readout if word == "--readout" else word for word in words]
        done = subprocess.run([programs / "unbag", *words], cwd=out, capture_output=True, text=True)
        (out / f"{name}.stdout.txt").write_text(done.stdout)
        print(f"{name}: exit {done.returncode}", flush=True)
        if done.returncode:
            failed.append(name)
            print(done.stderr, file=sys.stderr)
    return 1 if failed else 0


def compare(first: Path, second: Path) -> int:
    """Print every difference of two records; 0 if there is none."""
    names = [{str(p.relative_to(r)) for p in r.rglob("*") if p.is_file()} for r in (first, second)]
    only = sorted(names[0] ^ names[1])
    for name in only:
        print(f"only in {first if name in names[0] else second}: {name}")
    differ = 0
    for name in sorted(names[0] & names[1]):
        if Path(name).suffix in SKIPPED:
            continue
        one, other = read(first / name), read(second / name)
        if one != other:
            differ += 1
            print(f"differs: {name}{where(one, other)}")
    print(f"{len(names[0] & names[1])} files in both, {differ} differ, {len(only)} in one only")
    return 1 if differ or only else 0


def read(path: Path) -> object:
    """What a file says, without what changes from run to run."""
    if path.suffix == ".safetensors":
        return read_tensors(path)
    if path.suffix == ".parquet":
        import pyarrow.parquet

        return pyarrow.parquet.read_table(path).to_pylist()
    if path.name.endswith(".summary.json"):
        # It says of which file it is by name, size and time.
        found = json.loads(path.read_text())
        found["asked"].pop("captions", None)
        return stable(found)
    if path.suffix == ".json":
        return stable(json.loads(path.read_text()))
    if path.suffix == ".csv":
        rows = [line.split(",") for line in path.read_text().splitlines()]
        steady = [n for n, name in enumerate(rows[0]) if name not in UNSTABLE]
        return [[row[n] for n in steady] for row in rows]
    if path.suffix == ".jsonl":
        return [stable(json.loads(line)) for line in path.read_text().splitlines()]
    try:
        return plain(path.read_text())
    except UnicodeDecodeError:
        return path.read_bytes()


def read_tensors(path: Path) -> object:
    """Bytes of each tensor and the header's metadata."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    metadata = {}
    for key, value in header.pop("__metadata__", {}).items():
        try:
            metadata[key] = stable(json.loads(value))
        except json.JSONDecodeError:
            metadata[key] = value
    tensors = {}
    for name, about in header.items():
        start, end = (8 + size + offset for offset in about["data_offsets"])
        tensors[name] = (about["dtype"], about["shape"], data[start:end])
    return {"metadata": metadata, "tensors": tensors}


def stable(value: object) -> object:
    """JSON without the fields of UNSTABLE; text inside it is read as JSON where it is."""
    if isinstance(value, dict):
        return {key: stable(one) for key, one in value.items() if key not in UNSTABLE}
    if isinstance(value, list):
        return [stable(one) for one in value]
    if isinstance(value, str):
        if value.startswith("{"):
            try:
                return stable(json.loads(value))
            except json.JSONDecodeError:
                pass
        return plain(value)
    return value


def plain(text: str) -> str:
    """Text without durations, dates and module paths."""
    for pattern, instead in UNSTABLE_TEXT:
        text = pattern.sub(instead, text)
    return text


def where(one: object, other: object, at: str = "") -> str:
    """The first place where two values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            if one.get(key) != other.get(key):
                return where(one.get(key), other.get(key), f"{at}.{key}")
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for n, (a, b) in enumerate(zip(one, other, strict=True)):
            if a != b:
                return where(a, b, f"{at}[{n}]")
    if isinstance(one, str) and isinstance(other, str):
        for a, b in zip(one.splitlines(), other.splitlines(), strict=False):
            if a != b:
                return f" {at}: {a[:160]!r} against {b[:160]!r}"
    return f" {at}: {str(one)[:160]} against {str(other)[:160]}"


def main() -> int:
    """Make or compare."""
    parser = argparse.ArgumentParser(description="Record what a revision computes.")
    parser.add_argument("action", choices=["make", "compare"])
    parser.add_argument("first", help="a revision or checkout, or a folder that make wrote")
    parser.add_argument("second", type=Path, help="the folder to write, or to compare with")
    options = parser.parse_args()
    if options.action == "make":
        return make(options.first, options.second)
    return compare(Path(options.first), options.second)


if __name__ == "__main__":
    sys.exit(main())
