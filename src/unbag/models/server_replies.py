"""Replies of a server come in with what was asked; they lie on disk for the next time."""

from __future__ import annotations

import json
import sqlite3
import threading
from pathlib import Path
from typing import Any

from unbag.errors import UserError

Reply = dict[str, Any]
"""The JSON body of a reply, as the protocol has it."""


class ReplyCache:
    """Replies on disk by what was asked; in memory only if path is None."""

    def __init__(self, path: Path | None) -> None:
        """Open or create the file."""
        self._path = path
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._base = sqlite3.connect(path or ":memory:", check_same_thread=False, timeout=60)
            self._base.execute("CREATE TABLE IF NOT EXISTS replies (asked TEXT PRIMARY KEY, reply)")
        except sqlite3.Error as error:
            raise self._damaged(error) from error
        self._lock = threading.Lock()

    def get(self, key: str) -> Reply | None:
        """The reply to what was asked, if it is known."""
        try:
            with self._lock:
                row = self._base.execute(
                    "SELECT reply FROM replies WHERE asked = ?", (key,)
                ).fetchone()
            found: Reply | None = json.loads(row[0]) if row else None
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise self._damaged(error) from error
        return found

    def put(self, key: str, reply: Reply) -> None:
        """Keep it, on disk before this returns."""
        try:
            with self._lock, self._base:
                self._base.execute(
                    "INSERT OR REPLACE INTO replies VALUES (?, ?)", (key, json.dumps(reply))
                )
        except sqlite3.Error as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> UserError:
        return UserError(
            f"the cache of replies {self._path} cannot be used: {error}",
            expected="a whole file, and room on the disk",
            way_out="move it away, or choose another folder with --cache",
        )
