"""Rules about the repository itself: names of files, no paths of this machine.

The order of imports between packages is checked by `make check` (lint-imports), not here.
"""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "unbag"
MODULES = sorted(PACKAGE.rglob("*.py"))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_the_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()


def test_names_say_what_a_module_does() -> None:
    empty = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers"}
    assert not [name(path) for path in MODULES if {*path.parts, path.stem} & empty]


def test_tests_are_no_packages() -> None:
    """Files named after modules may share a name, which works only without `__init__.py`."""
    assert not list((ROOT / "tests").rglob("__init__.py"))


def kept_files() -> list[Path]:
    """What is or could be committed: tracked files, and new ones that are not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    paths = [ROOT / path for path in listed.stdout.split("\0") if path]
    return [path for path in paths if path.is_file()]


# Put together here, so that this file does not find itself.
_MACHINE = [str(ROOT) + "/", str(Path.home()) + "/", "/".join(["", "work", ""])]
_REGISTRIES = [".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"),
               ("npmjs", "org"), ("anaconda", "org"))]  # fmt: skip
_STRAY = re.compile(
    "|".join(
        [rf"(?<![\w./~-]){re.escape(start)}\w" for start in _MACHINE if start != "//"]
        + [rf"https?://[\w.-]*{re.escape(host)}" for host in _REGISTRIES]
    )
)


def test_no_file_holds_a_path_of_this_machine_or_a_host_of_a_registry() -> None:
    found = []
    for path in kept_files():
        text = path.read_bytes().decode("utf-8", errors="replace")
        found += [f"{name(path)}: {hit.group()}" for hit in _STRAY.finditer(text)]
    assert not found


def test_a_stray_path_would_be_found() -> None:
    assert _STRAY.search(f"see {ROOT}/src for more")
    assert _STRAY.search("https://files." + _REGISTRIES[1] + "/packages")
    assert not _STRAY.search("see docs/index.md and src/unbag for more")
