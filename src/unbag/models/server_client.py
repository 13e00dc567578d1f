"""Requests to an OpenAI-compatible server come in; its replies go out, each paid for once.

Replies are kept on disk as they come, so that a run that was stopped, ran out of its budget or met
a server that went away asks only for the rest.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from unbag.errors import UserError
from unbag.models.server_replies import Reply, ReplyCache

if TYPE_CHECKING:
    import httpx

Request = dict[str, Any]
"""The JSON body of a request, as the protocol has it."""
Check = Callable[[Reply], None]
"""Raises GarbageError for a reply to be asked for again, UserError for one that stays as it is."""

_AGAIN = frozenset((408, 409, 425, 429, 500, 502, 503, 504))
"""Answers that a later attempt may better."""
_DOWN = frozenset((429, 502, 503, 504))
"""Those among them that say nothing of the request."""
MANY = 16
"""After so many failures it is seen whether the server still works."""
_LONGEST = 300
"""Characters of a server's own words in a message."""


class GarbageError(Exception):
    """An answer that is no reply of the protocol."""


class UnansweredError(UserError):
    """One request without a reply, from a server that was there."""


class RefusedError(UnansweredError):
    """A request that the server does not take; asking again is no use."""


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
    spent: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None

    def ask_all(
        self, requests: Sequence[Request], *, check: Check = lambda reply: None
    ) -> list[Reply]:
        """One reply a request, in their order; equal requests are sent once.

        If one fails, those already sent are waited for and kept before the error goes on.
        """
        found = self.ask_each(requests, check=check)
        return [reply for reply in found if not isinstance(reply, UnansweredError)]

    def ask_each(
        self, requests: Sequence[Request], *, check: Check, probe: Request | None = None
    ) -> list[Reply | UnansweredError]:
        """The same; with a probe, a request without a reply gives its error instead of raising it.

        The probe is then sent as well: if it has no reply either, its error is raised.
        """
        keys = [self._key(request) for request in requests]
        todo = {
            key: request
            for key, request in zip(keys, requests, strict=True)
            if self.cache.get(key) is None
        }
        failed: dict[str, UnansweredError] = {}
        with ThreadPoolExecutor(self.manners.concurrency) as pool:
            futures = {key: pool.submit(self._send, key, todo[key], check) for key in todo}
            try:
                for at, (key, future) in enumerate(futures.items(), start=1):
                    error = future.exception()
                    if isinstance(error, UnansweredError) and probe is not None:
                        failed[key] = error
                    elif error is not None:
                        raise error
                    is_due = len(failed) % MANY == 0 and key in failed
                    if probe is not None and failed and (is_due or at == len(todo)):
                        self._send(self._key(probe), probe, check)
            except BaseException:
                for future in futures.values():
                    future.cancel()
                raise
        return [failed.get(key) or self.cache.get(key) or {} for key in keys]

    def _key(self, request: Request) -> str:
        text = json.dumps([self.url, request], sort_keys=True)
        return blake2b(text.encode(), digest_size=16).hexdigest()

    def _send(self, key: str, request: Request, check: Check) -> None:
        reason, kind = "nothing", UserError
        for attempt in range(self.manners.attempts):
            self._pay()
            try:
                self.cache.put(key, self._once(request, check))
            except _LaterError as error:
                reason, kind = str(error), UserError if error.is_down else UnansweredError
                pause = error.wait or self.manners.pause * 2**attempt
                if attempt + 1 < self.manners.attempts:
                    self.manners.sleep(min(pause, self.manners.longest_pause))
            else:
                return
        raise kind(
            f"the server {self.url} gave no usable answer in {self.manners.attempts} attempts: "
            f"{reason}",
            expected="an OpenAI-compatible server that answers",
            way_out="look at the server, then give the same command again: answers that came are "
            "kept and not asked for again",
        )

    def _once(self, request: Request, check: Check) -> Reply:
        import httpx

        try:
            answer = self._http().post("chat/completions", json=request)
        except httpx.TimeoutException as error:
            is_down = isinstance(error, httpx.ConnectTimeout)
            said = f"no answer within {self.manners.timeout:g} s"
            raise _LaterError(said, is_down=is_down) from error
        except (httpx.RequestError, UnicodeError) as error:
            is_down = isinstance(error, httpx.ConnectError)
            raise _LaterError(f"{type(error).__name__}: {error}", is_down=is_down) from error
        status, said = _failure(answer)
        if status in _AGAIN:
            raise _LaterError(said, wait=_wait(answer), is_down=status in _DOWN)
        if said:
            raise self._refused(status, said)
        try:
            reply = answer.json()
            if not isinstance(reply, dict):
                raise GarbageError(f"a {type(reply).__name__}")
            check(reply)
        except GarbageError as error:
            raise _LaterError(f"an answer that is no reply ({error})") from error
        except (ValueError, RecursionError, OverflowError) as error:
            why = f"{type(error).__name__} {error}"[:_LONGEST]
            raise _LaterError(f"an answer that is no reply ({why})") from error
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

    def _refused(self, status: int, said: str) -> UserError:
        if status in (401, 403):
            return UserError(
                f"the server {self.url} refuses the key: {said}",
                way_out="set the environment variable UNBAG_SERVER_KEY",
            )
        if "logprob" in said:
            return without_logprobs(self.url, said)
        kind = UserError if status == 404 else RefusedError
        return kind(
            f"the server {self.url} refuses the request: {said}",
            expected="a model behind /chat/completions that takes such requests",
            way_out="check the name of the model and the address, which usually ends in /v1",
        )


def without_logprobs(url: str, said: str) -> UserError:
    """The error for a server that does not tell probabilities; asking again is no use."""
    return UserError(
        f"the server {url} gives no logprobs: {said}",
        expected="a server that tells the probabilities of the 20 likeliest next tokens: vLLM with "
        "--max-logprobs 20 or more, SGLang, llama.cpp's llama-server since December 2024",
        way_out="take such a server, or --scorer answer, which needs no probabilities",
    )


class _LaterError(Exception):
    """Worth another attempt."""

    def __init__(self, reason: str, *, wait: float = 0.0, is_down: bool = False) -> None:
        super().__init__(reason)
        self.wait = wait
        self.is_down = is_down


def _failure(answer: httpx.Response) -> tuple[int, str]:
    """Status and words of an error; no words if it is none.

    Some servers send status 200 with an error, and its code inside.
    """
    try:
        content = answer.json()
    except (ValueError, RecursionError):
        content = None
    told = content.get("error") if isinstance(content, dict) else None
    status = answer.status_code
    if status == 200 and not told:
        return status, ""
    fields = told if isinstance(told, dict) else content if isinstance(content, dict) else {}
    words = " ".join(str(fields.get("message") or told or answer.text).split())[:_LONGEST]
    if status != 200:
        return status, f"status {status}, {words}" if words else f"status {status}"
    code = str(fields.get("code"))
    return int(code) if code.isdecimal() else status, words


def _wait(answer: httpx.Response) -> float:
    """Seconds the server asks for; 0 if it names none that can be read."""
    try:
        return max(0.0, float(answer.headers.get("retry-after", "0")))
    except ValueError:
        return 0.0
