"""Build the wheel, install it into an empty environment without extras, run the demo there.

    python tools/try_wheel.py

What an editable install cannot show: a file that the wheel lacks, or an import that the core
dependencies do not bring. `make wheel` runs it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]
UV = Path(sys.executable).with_name("uv")
# Whatever would let the installed package find another one, or vectors of an earlier demo.
HIDDEN = {"PYTHONPATH", "PYTHONPYCACHEPREFIX", "VIRTUAL_ENV"}


def main() -> None:
    """Leave with a message if anything fails."""
    # Inside .venv: on the disk of uv's links, so that gigabytes of PyTorch are not copied.
    with tempfile.TemporaryDirectory(prefix="try-wheel-", dir=sys.prefix) as name:
        folder = Path(name)
        run(UV, "build", "--quiet", "--wheel", "--out-dir", folder / "dist", ROOT, at=folder)
        (wheel,) = (folder / "dist").glob("*.whl")
        if missing := package_files() - set(ZipFile(wheel).namelist()):
            sys.exit(f"{wheel.name} has no {', '.join(sorted(missing))}")
        fresh = folder / "fresh"
        run(UV, "venv", "--quiet", "--no-project", "--python", sys.executable, fresh, at=folder)
        install: list[str | Path] = [UV, "pip", "install", "--quiet", "--python", fresh]
        run(*install, "--constraint", ROOT / "constraints.txt", wheel, at=folder)
        run(fresh / "bin" / "unbag", "demo", "--out", folder / "demo", at=folder)
        if not (folder / "demo" / "report.html").is_file():
            sys.exit("unbag demo ended well and wrote no report.html")
        print(f"{wheel.name}: installed without extras, the demo wrote its report")


def package_files() -> set[str]:
    """Return the files of the package, by their names in a wheel."""
    source = ROOT / "src"
    return {
        path.relative_to(source).as_posix()
        for path in (source / "unbag").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def run(*words: str | Path, at: Path) -> None:
    """Run a command, and print its output only if it fails."""
    environment = {key: value for key, value in os.environ.items() if key not in HIDDEN}
    done = subprocess.run(
        words,
        cwd=at,
        env=environment | {"XDG_CACHE_HOME": str(at / "cache")} if "demo" in words else environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nfailed: {' '.join(map(str, words))}")


if __name__ == "__main__":
    main()
