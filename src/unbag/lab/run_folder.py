"""The folder of a run of the lab: what it was begun with comes in, its results go out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from unbag.errors import UserError
from unbag.lab.arm_result import ArmResult, Size, read_results, result_path
from unbag.runs.files import locked_folder, make_folder, remove_leftovers, write_text
from unbag.version import __version__

LAB_VERSION = 3
"""Raised when an arm, a base or a question changes its meaning: results of two versions must not
stand in one folder. 2: readers learn by heart in more steps and without dropout. 3: at a
higher rate."""
_RECORD = "lab.json"
_OWN = (_RECORD, ".lock")
"""What stands in a folder before any work."""
_RESULTS = "*/*/*.json"
"""EXPERIMENT/BASE/ARM.json."""


@dataclass(frozen=True)
class Begun:
    """What a folder was begun with."""

    lab: int
    size: Size
    version: str
    """Of the package; for people."""


@contextmanager
def opened(out: Path, *, size: Size) -> Iterator[None]:
    """The folder, made if need be, for one process at a time; refused if it is of another lab."""
    check_folder(out, size=size)
    make_folder(out, what="run folder", way_out="name another folder with --out")
    taken = UserError(
        f"another `unbag lab run` is at work in {out}",
        expected="one at a time in a folder",
        way_out="wait for it, or name another folder with --out",
    )
    with locked_folder(out, taken):
        for folder in {path.parent for path in out.rglob(".*.part")}:
            remove_leftovers(folder)
        if _begun(out) is None:
            write_text(out / _RECORD, json.dumps(asdict(Begun(LAB_VERSION, size, __version__))))
        yield


def check_folder(out: Path, *, size: Size) -> None:
    """Refuse what is no folder, or one that was begun with another version or size, or unknown."""
    if out.exists() and not out.is_dir():
        raise UserError(
            f"{out} is a file",
            expected="a folder for bases, results and weights",
            way_out="name another with --out",
        )
    found = _check_version(
        out, way_out="name another folder with --out, or go on with the unbag that began it"
    )
    if found is None:
        _check_new(out)
    elif found.size != size:
        raise UserError(
            f"{out} holds a {found.size} run",
            expected=f"a {size} run, or a new folder: the two do not mix",
            way_out=f"name another folder with --out, or give --size {found.size}",
        )


def _check_new(out: Path) -> None:
    """Refuse files that would be taken for results of a run, and are of nobody knows what."""
    files = sorted(out.glob(_RESULTS))
    if not files:
        return
    names = [str(path.relative_to(out)) for path in files]
    expected = "a new or empty folder, or one that `unbag lab run` began"
    strange = next(
        (name for name, path in zip(names, files, strict=True) if not _is_result(path)), None
    )
    if strange is not None:
        raise UserError(
            f"{out} holds {strange}, which is no result of the lab",
            expected=expected,
            way_out="name another folder with --out",
        )
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    folders = dict.fromkeys(str(out / Path(name).parts[0]) for name in names)
    raise UserError(
        f"{out} holds results ({names[0]}{more}), and no {_RECORD}, which would say of which "
        "version and size of the lab they are",
        expected=expected,
        way_out=f"name another folder with --out, or remove {', '.join(folders)}",
    )


def _is_result(path: Path) -> bool:
    """Whether a file is a result of an arm."""
    try:
        return bool(read_results(path))
    except UserError:
        return False


def _check_version(out: Path, *, way_out: str) -> Begun | None:
    """What a folder was begun with; refused if arms mean something else now."""
    found = _begun(out)
    if found is not None and found.lab != LAB_VERSION:
        raise UserError(
            f"{out} was begun with version {found.lab} of the lab (unbag {found.version})",
            expected=f"version {LAB_VERSION} (unbag {__version__}): arms mean something else now",
            way_out=way_out,
        )
    return found


def _begun(out: Path) -> Begun | None:
    """What its record says; None where nothing was begun, though somebody may have asked for it."""
    path = out / _RECORD
    if not path.exists() or not any(one.name not in _OWN for one in out.iterdir()):
        return None
    try:
        return Begun(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"{path} cannot be read: {error}",
            expected="the record that `unbag lab run` writes",
            way_out="name another folder with --out",
        ) from error


def results_in(path: Path) -> list[ArmResult]:
    """Of a run folder, or of a file or folder of joined results; an empty run has none."""
    if not path.exists():
        raise UserError(
            f"no results in {path}: it does not exist",
            expected="a folder of `unbag lab run`, or a file that `python -m unbag.lab.join` wrote",
            way_out="unbag lab run CLAIM --out FOLDER, or leave --results out for those that ship",
        )
    if not (path / _RECORD).exists():
        _check_joined(path)
        return read_results(path)
    _check_version(path, way_out="judge it with the unbag that began it, or name another")
    files = sorted(path.glob(_RESULTS))
    return [one for file in files for one in read_results(file)]


def _check_joined(path: Path) -> None:
    """Refuse a folder around run folders, or a run folder without its record."""
    runs = sorted(record.parent.name for record in path.glob(f"*/{_RECORD}"))
    if runs:
        raise UserError(
            f"{path} holds run folders ({', '.join(runs[:3])}{' ...' if len(runs) > 3 else ''})",
            expected="one run folder, or files that `python -m unbag.lab.join` wrote",
            way_out=f"name one of them: {path / runs[0]}",
        )
    if any((path / "bases").glob("*.json")):
        raise UserError(
            f"{path} holds bases, and no {_RECORD}, which would say of which version and size of "
            "the lab its results are",
            expected="a folder that `unbag lab run` began, or files that `python -m unbag.lab.join`"
            " wrote",
            way_out=f"put {_RECORD} back, or run the claims again into another folder",
        )


def has_result(out: Path, experiment: str, base: str, arm: str) -> bool:
    """Whether an arm was run on a base."""
    return result_path(out, experiment, base, arm).exists()


def base_path(out: Path, name: str) -> Path:
    """Where the weights of a base stand in a run folder."""
    return out / "bases" / f"{name}.safetensors"
