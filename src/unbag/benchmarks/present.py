"""A folder and the files a benchmark may have come in; those that are there go out, never silently.

For benchmarks whose release is incomplete: what is missing is named in a warning, because the
number then no longer stands for the whole benchmark.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from unbag.benchmarks.files import Folder
from unbag.errors import IncompleteWarning, UserError

SHOWN = 10


def absent(folder: Folder, files: Sequence[str]) -> tuple[str, ...]:
    """The files that are not there, in their order."""
    return tuple(name for name in files if not folder.has(name))


def present(folder: Folder, files: Sequence[str]) -> tuple[str, ...]:
    """The files that are there; a warning names the others, and none at all is an error."""
    missing = absent(folder, files)
    if len(missing) == len(files):
        raise UserError(
            f"{folder.benchmark}: none of its {len(files)} files is in {folder.root}",
            expected=f"files such as {files[0]}",
            way_out=f"`unbag data check {folder.benchmark} --data ...` says how to lay them out",
        )
    if missing:
        more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        are = "is" if len(missing) == 1 else "are"
        warnings.warn(
            IncompleteWarning(
                f"{len(missing)} of {len(files)} files {are} absent, so averages are over the "
                f"rest: {', '.join(missing[:SHOWN])}{more}"
            ),
            stacklevel=3,
        )
    return tuple(name for name in files if name not in missing)
