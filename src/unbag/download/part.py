"""A file that is on its way: what has come so far, and of which version it is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from unbag.errors import UserError


@dataclass(frozen=True)
class Part:
    """NAME.part beside the file to be, and NAME.part.version with the server's mark of it."""

    target: Path
    url: str

    @property
    def path(self) -> Path:
        """The bytes."""
        return self.target.with_name(f"{self.target.name}.part")

    @property
    def _version(self) -> Path:
        return self.target.with_name(f"{self.target.name}.part.version")

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def mark(self) -> str:
        """The mark the server gave with these bytes; empty if it gave none."""
        try:
            url, _, mark = self._version.read_text(encoding="utf-8").partition("\n")
        except (OSError, UnicodeDecodeError):
            return ""
        return mark.strip() if url == self.url else ""

    def begin(self, mark: str) -> None:
        """Forget what there is; the next bytes are those of version `mark`."""
        self.discard()
        self._version.write_text(f"{self.url}\n{mark}\n", encoding="utf-8")

    def discard(self) -> None:
        """Throw the bytes away. The emptied file stays, since the lock hangs on it."""
        if self.path.exists():
            os.truncate(self.path, 0)
        self._version.unlink(missing_ok=True)

    def finish(self) -> None:
        """Give the whole file its name, in one step."""
        with self.path.open("rb+") as file:
            os.fsync(file.fileno())
        self.path.replace(self.target)
        self._version.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process may fetch a file; the system drops the lock if that process dies."""
        with self.path.open("ab") as file:
            try:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except ImportError:
                pass  # Not on this system; the checksum still tells a mixed file.
            except OSError as error:
                raise UserError(
                    f"another process is fetching {self.target}",
                    expected="one process for a file",
                    way_out="wait for it, or stop it",
                ) from error
            try:
                yield
            finally:
                if not self.size:
                    self.path.unlink(missing_ok=True)
