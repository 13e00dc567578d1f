"""Requests to an OpenAI-compatible server come in; its replies go out, each paid for once.

Replies are kept on disk as they come, so that a run that was stopped, ran out of its budget or met
a server that went away asks only for the rest.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbag.errors import UserError

if TYPE_CHECKING:
    import httpx

Request = dict[str, Any]
"""The JSON body of a request, as the protocol has it."""
Reply = dict[str, Any]

_AGAIN = frozenset((408, 409, 425, 429, 500, 502, 503, 504))
"""Answers that a later attempt may better."""


class GarbageError(Exception):
    """An answer that is no reply of the protocol."""


@dataclass(frozen=True)
class Manners:
    """How a server is asked."""

    concurrency: int = 8
    attempts: int = 6
    timeout: float = 120.0
    """Seconds."""
    pause: float = 1.0
    """Seconds before the second attempt; doubles with each, unless the server names a time."""
    longest_pause: float = 60.0
    sleep: Callable[[float], None] = time.sleep


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


@dataclass
class ServerClient:
    """Asks one server, politely and never twice the same."""

    url: str
    """Such as http://localhost:8000/v1."""
    key: str = ""
    manners: Manners = field(default_factory=Manners)
    budget: int | None = None
    """Most requests of this process; cached replies cost none."""
    cache: ReplyCache = field(default_factory=lambda: ReplyCache(None))
    check: Callable[[Reply], None] = lambda reply: None
    """Raises GarbageError for a reply that lacks what is needed; then it is asked for again."""
    spent: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None

    def ask_all(self, requests: Sequence[Request]) -> list[Reply]:
        """One reply a request, in their order; equal requests are sent once.

        If one fails, those already sent are waited for and kept before the error goes on.
        """
        keys = [self._key(request) for request in requests]
        todo = {
            key: request
            for key, request in zip(keys, requests, strict=True)
            if self.cache.get(key) is None
        }
        with ThreadPoolExecutor(self.manners.concurrency) as pool:
            futures = [pool.submit(self._send, key, request) for key, request in todo.items()]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                for future in futures:
                    future.cancel()
                raise
        found = [self.cache.get(key) for key in keys]
        return [reply for reply in found if reply is not None]

    def _key(self, request: Request) -> str:
        text = json.dumps([self.url, request], sort_keys=True)
        return blake2b(text.encode(), digest_size=16).hexdigest()

    def _send(self, key: str, request: Request) -> None:
        reason = "nothing"
        for attempt in range(self.manners.attempts):
            self._pay()
            try:
                self.cache.put(key, self._once(request))
            except _LaterError as error:
                reason = str(error)
                pause = error.wait or self.manners.pause * 2**attempt
                if attempt + 1 < self.manners.attempts:
                    self.manners.sleep(min(pause, self.manners.longest_pause))
            else:
                return
        raise UserError(
            f"the server {self.url} gave no usable answer in {self.manners.attempts} attempts: "
            f"{reason}",
            expected="an OpenAI-compatible server that answers",
            way_out="look at the server, then give the same command again: answers that came are "
            "kept and not asked for again",
        )

    def _once(self, request: Request) -> Reply:
        import httpx

        try:
            answer = self._http().post("chat/completions", json=request)
        except httpx.TimeoutException as error:
            raise _LaterError(f"no answer within {self.manners.timeout:g} s") from error
        except (httpx.RequestError, UnicodeError) as error:
            raise _LaterError(f"{type(error).__name__}: {error}") from error
        if answer.status_code in _AGAIN:
            raise _LaterError(f"status {answer.status_code}", wait=_wait(answer))
        if answer.status_code != 200:
            raise self._refused(answer)
        try:
            reply = answer.json()
            if not isinstance(reply, dict):
                raise GarbageError(f"a {type(reply).__name__}")
            self.check(reply)
        except (ValueError, RecursionError, OverflowError, GarbageError) as error:
            said = f"{type(error).__name__} {error}"[:200]
            raise _LaterError(f"an answer that is no reply ({said})") from error
        return reply

    def _pay(self) -> None:
        with self._lock:
            if self.budget is not None and self.spent >= self.budget:
                raise UserError(
                    f"the budget of {self.budget:,} requests is spent",
                    expected="enough requests for what was asked",
                    way_out="give the same command again with a larger --budget; answers that came "
                    "are kept and cost nothing",
                )
            self.spent += 1

    def _http(self) -> httpx.Client:
        import httpx

        with self._lock:
            if self._client is None:
                headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
                self._client = httpx.Client(
                    base_url=self.url, headers=headers, timeout=self.manners.timeout
                )
            return self._client

    def _refused(self, answer: httpx.Response) -> UserError:
        said = " ".join(answer.text.split())[:300]
        if answer.status_code in (401, 403):
            return UserError(
                f"the server {self.url} refuses the key: status {answer.status_code}, {said}",
                way_out="set the environment variable UNBAG_SERVER_KEY",
            )
        return UserError(
            f"the server {self.url} refuses the request: status {answer.status_code}, {said}",
            expected="a vision-language model behind /chat/completions that gives logprobs",
            way_out="check the name of the model and the address, which usually ends in /v1",
        )


class _LaterError(Exception):
    """Worth another attempt."""

    def __init__(self, reason: str, *, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


def _wait(answer: httpx.Response) -> float:
    """Seconds the server asks for; 0 if it names none that can be read."""
    try:
        return max(0.0, float(answer.headers.get("retry-after", "0")))
    except ValueError:
        return 0.0
