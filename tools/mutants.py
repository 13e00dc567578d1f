"""Show what the tests protect: apply mutants of meaning one by one, run the tests of their package.

python tools/mutants.py                 all packages of tools/mutants.toml
python tools/mutants.py metrics edits   some of them
python tools/mutants.py edits --only 3 7

A mutant is killed if a test fails. The sources are copied, so the working tree stays as it is.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Run the mutants; the exit status says whether all were killed."""
    packages = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("packages", nargs="*", choices=[*packages, []], metavar="package")
    parser.add_argument("--only", nargs="+", type=int, metavar="N", help="numbers of mutants")
    parser.add_argument("--root", type=Path, default=ROOT, help="tree with src/ and tests/")
    options = parser.parse_args()
    survivors = 0
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "src"
        shutil.copytree(options.root / "src", copy)
        for package in options.packages or packages:
            root = options.root.resolve()
            survivors += run_package(package, packages[package], root, copy, options.only)
    return 1 if survivors else 0


def run_package(
    package: str, settings: dict[str, Any], root: Path, copy: Path, only: list[int] | None
) -> int:
    """Run the mutants of one package; gives how many survived."""
    survivors = 0
    mutants = dict(enumerate(settings["mutants"], 1))
    for number in only or mutants:
        mutant = mutants[number]
        file = copy / "unbag" / package / mutant["file"]
        source = file.read_text(encoding="utf-8")
        if source.count(mutant["old"]) != 1:
            sys.exit(f"{file.name} has {mutant['old']!r} {source.count(mutant['old'])} times")
        start = time.monotonic()
        try:
            file.write_text(source.replace(mutant["old"], mutant["new"]), encoding="utf-8")
            failed = first_failure(settings["tests"], root, copy)
        finally:
            file.write_text(source, encoding="utf-8")
        survivors += not failed
        seconds = f"{time.monotonic() - start:.0f} s"
        result = f"killed by {failed}" if failed else "SURVIVED"
        print(f"{package} {number:2} {mutant['why']}: {result} ({seconds})", flush=True)
    count = len(only or mutants)
    print(f"{package}: {count - survivors} of {count} killed")
    return survivors


def first_failure(tests: list[str], root: Path, copy: Path) -> str:
    """The first test that fails on the mutated sources; empty if all pass."""
    paths = [str(copy), str(root / "lab" / "src")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    there = [path for path in tests if (root / path).exists()]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", *there]
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0].split()[1] if lines else f"exit status {done.returncode}"


if __name__ == "__main__":
    sys.exit(main())
