"""Names of pictures come in; which of them are files goes out, by listing each folder once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from unbag.errors import UserError

_NAMED = 5


@dataclass(eq=False)
class Present:
    """Asks folders for what they hold: a question a file would take minutes on a shared disk."""

    root: Path
    listed: dict[str, frozenset[str]] = field(default_factory=dict)

    def __call__(self, name: str) -> bool:
        """Whether there is such a file below the root, or at this absolute path."""
        folder, last = os.path.split(os.path.join(self.root, name))  # noqa: PTH118
        if folder not in self.listed:
            self.listed[folder] = _files(folder)
        # A disk may not care about case, so a name that is not listed is asked for.
        return last in self.listed[folder] or _is_file(folder, last)


def missing_pictures(missing: Sequence[str], *, of: int, where: str, root: Path) -> UserError:
    """The error for pictures that are not there."""
    more = ", ..." if len(missing) > _NAMED else ""
    return UserError(
        f"{len(missing):,} of {of:,} pictures of {where} are not there: "
        f"{', '.join(missing[:_NAMED])}{more}",
        expected=f"files below {root}",
        way_out="name their folder with --pictures"
        + (", or train without them: --missing skip" if len(missing) < of else ""),
    )


def _files(folder: str) -> frozenset[str]:
    try:
        with os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries if entry.is_file())
    except (OSError, ValueError):
        return frozenset()


def _is_file(folder: str, name: str) -> bool:
    try:
        return Path(folder, name).is_file()
    except (OSError, ValueError):
        return False
