"""`server:MODEL@URL`: a chat model behind an OpenAI-compatible server (vLLM, SGLang, llama.cpp).

Such a server returns the log-probabilities of the most likely next tokens, which scores answers of
one token (Yes, A). Longer answers can be generated but not scored.
"""

from __future__ import annotations

import base64
import json
import math
import os
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from unbag.errors import UnbagError
from unbag.models.huggingface.chat import Ask
from unbag.types import ImageSource

if TYPE_CHECKING:
    import httpx

_TOP = 20
"""Number of next tokens with log-probabilities: the maximum of the protocol."""
KEY = "UNBAG_SERVER_KEY"
"""Environment variable of the API key, if the server needs one."""
CHECK_AFTER = 16
"""Number of failures after which a probe checks whether the server still works."""
_RETRYABLE_STATUS = frozenset((408, 409, 425, 429, 500, 502, 503, 504))
"""HTTP statuses after which a later attempt may succeed."""
_UNAVAILABLE_STATUS = frozenset((429, 502, 503, 504))
"""Statuses of them that concern the server, not the request."""
_MAX_MESSAGE = 300
"""Maximum characters of the server's message in ours."""
_SPACES = " \t\n▁Ġ"
"""How tokenizers write a space before a word."""
_MALFORMED = (KeyError, IndexError, TypeError, ValueError, OverflowError)
_USE_OTHER_SCORERS = (
    "use --scorer yes, yes-normalised, yes-contrast, letters or answer with this model"
)
_USE_ANSWER = (
    "use --scorer answer, which reads answers in any spelling; a model on disk (hf:...) can be "
    "scored by any answer"
)
_SPELLING_PROBABILITY = 0.01
"""Probability above which another spelling of an answer raises an error."""
Reply = dict[str, Any]
"""The JSON body of a reply."""
Request = dict[str, Any]
"""The JSON body of a request."""
CheckReply = Callable[[Reply], None]
"""Raises GarbageError for a reply to retry, UnbagError for a permanent failure."""


def load(
    rest: str,
    *,
    concurrency: int = 8,
    budget: int | None = None,
    cache: Path | None = None,
) -> ServerModel:
    """Connect to `MODEL@URL`, such as Qwen/Qwen2.5-VL-7B-Instruct@http://localhost:8000/v1."""
    model, _, url = rest.rpartition("@")
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        host.encode("idna")
        _ = parts.port
        is_address = parts.scheme in ("http", "https") and bool(host)
    except ValueError:
        is_address = False
    if not model or not is_address:
        raise UnbagError(
            f"the model 'server:{rest}' names no server",
            expected="server:MODEL@URL, such as server:llava@http://localhost:8000/v1",
        )
    try:
        import httpx  # noqa: F401
    except ImportError as error:
        raise UnbagError(
            "servers need the package httpx, which is not installed",
            hint="pip install 'unbag[server]'",
        ) from error
    key = os.environ.get(KEY, "")
    if not key.isascii() or not key.isprintable():
        raise UnbagError(
            f"the environment variable {KEY} holds a character that is not allowed in a key",
            expected="plain letters and signs on one line",
        )
    replies = ReplyCache(cache / "replies.sqlite" if cache else None)
    manners = Manners(concurrency=concurrency)
    client = ServerClient(url.rstrip("/"), key, manners, budget, replies)
    return ServerModel(model.rpartition("/")[2], model, client)


@dataclass
class ServerModel:
    """A chat model on a server. Replies are cached."""

    name: str
    model: str
    """Name of the model on the server."""
    client: ServerClient
    device: str = "server"
    bounded: int = field(default=0, init=False)
    """Number of answers that the server did not list: their score is an upper bound."""

    @property
    def fingerprint(self) -> str:
        """Hash of address and name, since the weights are unknown."""
        text = f"{self.client.url} {self.model} {_TOP} 1"
        return f"server-{blake2b(text.encode(), digest_size=12).hexdigest()}"

    def logprobs(
        self, image: ImageSource | None, prompt: str, continuations: Sequence[str]
    ) -> list[list[float]]:
        """Return the log-probability of each continuation, which must be one token."""
        return self.logprobs_of([Ask(image, prompt, tuple(continuations))])[0]

    def logprobs_of(self, asks: Sequence[Ask]) -> list[list[list[float]]]:
        """Score many asks with parallel requests."""
        if any(ask.ends for ask in asks):
            raise self._one_token_error("the end of an answer", _USE_OTHER_SCORERS)
        phrase = next((c for ask in asks for c in ask.continuations if len(c.split()) > 1), None)
        if phrase is not None:
            raise self._one_token_error(f"{phrase!r}", _USE_OTHER_SCORERS)
        requests = [
            self._request(ask, tokens=1) | {"logprobs": True, "top_logprobs": _TOP} for ask in asks
        ]
        replies = self.client.ask_all(requests, check=self._check)
        return [
            [[self._score(_top_logprobs(reply), answer)] for answer in ask.continuations]
            for ask, reply in zip(asks, replies, strict=True)
        ]

    def answer(self, image: ImageSource | None, prompt: str, *, longest: int = 32) -> str:
        """Generate an answer of at most `longest` tokens."""
        return self.answers_of([Ask(image, prompt)], longest=longest)[0]

    def answers_of(self, asks: Sequence[Ask], *, longest: int = 32) -> list[str]:
        """Generate answers to many asks; the server needs no logprobs."""
        requests = [self._request(ask, tokens=longest) for ask in asks]
        return [_answer_text(reply) for reply in self.client.ask_all(requests, check=_check_answer)]

    def _request(self, ask: Ask, *, tokens: int) -> Request:
        content: list[dict[str, Any]] = []
        if ask.image is not None:
            buffer = BytesIO()
            # PNG is lossless.
            ask.image.open().save(buffer, format="PNG")
            url = f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
            content.append({"type": "image_url", "image_url": {"url": url}})
        content.append({"type": "text", "text": ask.prompt})
        return {
            "model": self.model,
            "messages": [{"role": "user", "content": content}],
            "temperature": 0,
            "seed": 0,
            "max_tokens": tokens,
        }

    def _check(self, reply: Reply) -> None:
        """Raise an error unless a reply has an answer and log-probabilities of its first token."""
        _check_answer(reply)
        logprobs = _choice(reply).get("logprobs")
        if not logprobs or (isinstance(logprobs, dict) and logprobs.get("content") is None):
            raise _no_logprobs_error(
                self.client.url, f"its answer has logprobs: {json.dumps(logprobs)}"
            )
        try:
            values = _top_logprobs(reply).values()
        except _MALFORMED as error:
            raise _garbage_error(error) from error
        # Slightly above 0 is rounding.
        if not all(value <= 1e-3 for value in values):
            raise GarbageError("log-probabilities above 0")

    def _score(self, logprob_of: Mapping[str, float], answer: str) -> float:
        values = [value for token, value in logprob_of.items() if _word(token) == _word(answer)]
        if values:
            return max(values)
        self._check_spelling(logprob_of, answer)
        likeliest = _word(max(logprob_of, key=lambda token: logprob_of[token]))
        if likeliest and likeliest != _word(answer) and _word(answer).startswith(likeliest):
            split = f"{answer!r}, which it begins with {likeliest!r}"
            raise self._one_token_error(split, _USE_ANSWER)
        if not self.bounded:
            warnings.warn(
                f"{self.name}: {answer!r} is not among the {len(logprob_of)} most likely tokens; "
                "such answers get an upper bound of their probability",
                stacklevel=2,
            )
        self.bounded += 1
        # Bounded by the least likely listed token and by the remaining probability.
        rest = 1.0 - sum(math.exp(value) for value in logprob_of.values())
        return min(min(logprob_of.values()), math.log(max(rest, 1e-12)))

    def _check_spelling(self, logprob_of: Mapping[str, float], answer: str) -> None:
        """Raise UnbagError for a model that answers in another spelling, such as yes for Yes."""
        for token, value in logprob_of.items():
            is_other = _word(token).casefold() == _word(answer).casefold()
            if is_other and math.exp(value) >= _SPELLING_PROBABILITY:
                raise UnbagError(
                    f"{self.name} answers {_word(token)!r}, and {answer!r} is not among the "
                    f"{len(logprob_of)} tokens that the server {self.client.url} lists",
                    expected=f"an answer spelt {answer!r}: its probability is the score",
                    hint=_USE_ANSWER,
                )

    def _one_token_error(self, what: str, hint: str) -> UnbagError:
        return UnbagError(
            f"the server {self.client.url} cannot score {what}",
            expected="answers of one token: it returns probabilities of the next token only",
            hint=hint,
        )


def _word(token: str) -> str:
    return token.strip(_SPACES)


def _choice(reply: Reply) -> dict[str, Any]:
    choice: dict[str, Any] = reply["choices"][0]
    return choice


def _top_logprobs(reply: Reply) -> dict[str, float]:
    """Return the log-probabilities of the most likely first tokens."""
    first = _choice(reply)["logprobs"]["content"][0]
    logprob_of: dict[str, float] = {}
    for entry in first["top_logprobs"] or [first]:
        token, value = str(entry["token"]), float(entry["logprob"])
        # Different tokens may have the same text; the more likely one counts.
        logprob_of[token] = max(value, logprob_of.get(token, -math.inf))
    return logprob_of


def _answer_text(reply: Reply) -> str:
    return str(_choice(reply)["message"]["content"] or "")


def _check_answer(reply: Reply) -> None:
    """Raise GarbageError unless a reply has an answer, possibly empty."""
    try:
        _answer_text(reply)
    except _MALFORMED as error:
        raise _garbage_error(error) from error


def _garbage_error(error: Exception) -> GarbageError:
    if isinstance(error, KeyError):
        return GarbageError(f"it has no {error}")
    return GarbageError(f"{type(error).__name__} {error}"[:200])


@dataclass(frozen=True)
class Manners:
    """Concurrency, retries and timeouts of requests."""

    concurrency: int = 8
    attempts: int = 6
    timeout: float = 120.0
    """Seconds."""
    pause: float = 1.0
    """Seconds before the second attempt, doubled each time, unless the server sets a delay."""
    longest_pause: float = 60.0
    sleep: Callable[[float], None] = time.sleep


@dataclass
class ServerClient:
    """Sends requests to a server, with retries and a cache.

    Replies are cached on disk immediately, so that a run that was stopped, ran out of budget or
    lost the server sends only the remaining requests when it is resumed.
    """

    url: str
    """Such as http://localhost:8000/v1."""
    key: str = ""
    manners: Manners = field(default_factory=Manners)
    budget: int | None = None
    """Maximum number of requests of this process; cached replies are free."""
    cache: ReplyCache = field(default_factory=lambda: ReplyCache(None))
    spent: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None

    def ask_all(
        self, requests: Sequence[Request], *, check: CheckReply = lambda reply: None
    ) -> list[Reply]:
        """Return one reply per request, in order; equal requests are sent once.

        If a request fails, those in flight are completed and cached before the error is raised.
        """
        replies = self.ask_each(requests, check=check)
        return [reply for reply in replies if not isinstance(reply, UnansweredError)]

    def ask_each(
        self, requests: Sequence[Request], *, check: CheckReply, probe: Request | None = None
    ) -> list[Reply | UnansweredError]:
        """Return one reply per request; with a probe, a failed request gives its error instead.

        The probe checks the server after failures: if it fails too, its error is raised.
        """
        keys = [self._key(request) for request in requests]
        pending = {
            key: request
            for key, request in zip(keys, requests, strict=True)
            if self.cache.get(key) is None
        }
        failed: dict[str, UnansweredError] = {}
        with ThreadPoolExecutor(self.manners.concurrency) as pool:
            futures = {key: pool.submit(self._send, key, pending[key], check) for key in pending}
            try:
                for count, (key, future) in enumerate(futures.items(), start=1):
                    error = future.exception()
                    if isinstance(error, UnansweredError) and probe is not None:
                        failed[key] = error
                    elif error is not None:
                        raise error
                    is_due = len(failed) % CHECK_AFTER == 0 and key in failed
                    if probe is not None and failed and (is_due or count == len(pending)):
                        self._send(self._key(probe), probe, check)
            except BaseException:
                for future in futures.values():
                    future.cancel()
                raise
        return [failed.get(key) or self.cache.get(key) or {} for key in keys]

    def _key(self, request: Request) -> str:
        text = json.dumps([self.url, request], sort_keys=True)
        return blake2b(text.encode(), digest_size=16).hexdigest()

    def _send(self, key: str, request: Request, check: CheckReply) -> None:
        reason, error_class = "nothing", UnbagError
        for attempt in range(self.manners.attempts):
            self._charge()
            try:
                self.cache.put(key, self._post(request, check))
            except _RetryError as error:
                reason, error_class = str(error), UnbagError if error.is_down else UnansweredError
                pause = error.wait or self.manners.pause * 2**attempt
                if attempt + 1 < self.manners.attempts:
                    self.manners.sleep(min(pause, self.manners.longest_pause))
            else:
                return
        raise error_class(
            f"the server {self.url} gave no usable answer in {self.manners.attempts} attempts: "
            f"{reason}",
            expected="an OpenAI-compatible server that answers",
            hint="check the server, then give the same command again: answers so far are cached "
            "and not requested again",
        )

    def _post(self, request: Request, check: CheckReply) -> Reply:
        import httpx

        try:
            response = self._http().post("chat/completions", json=request)
        except httpx.TimeoutException as error:
            is_down = isinstance(error, httpx.ConnectTimeout)
            message = f"no answer within {self.manners.timeout:g} s"
            raise _RetryError(message, is_down=is_down) from error
        except (httpx.RequestError, UnicodeError) as error:
            is_down = isinstance(error, httpx.ConnectError)
            raise _RetryError(f"{type(error).__name__}: {error}", is_down=is_down) from error
        status, message = _error_of(response)
        if status in _RETRYABLE_STATUS:
            try:
                wait = max(0.0, float(response.headers.get("retry-after", "0")))
            except ValueError:
                wait = 0.0
            raise _RetryError(message, wait=wait, is_down=status in _UNAVAILABLE_STATUS)
        if message:
            raise self._refused_error(status, message)
        try:
            reply = response.json()
            if not isinstance(reply, dict):
                raise GarbageError(f"a {type(reply).__name__}")
            check(reply)
        except GarbageError as error:
            raise _RetryError(f"a malformed reply ({error})") from error
        except (ValueError, RecursionError, OverflowError) as error:
            reason = f"{type(error).__name__} {error}"[:_MAX_MESSAGE]
            raise _RetryError(f"a malformed reply ({reason})") from error
        return reply

    def _charge(self) -> None:
        with self._lock:
            if self.budget is not None and self.spent >= self.budget:
                raise UnbagError(
                    f"the budget of {self.budget:,} requests is spent",
                    expected="a budget of enough requests",
                    hint="give the same command again with a larger --max-requests; answers "
                    "so far are cached and free",
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

    def _refused_error(self, status: int, message: str) -> UnbagError:
        if status in (401, 403):
            return UnbagError(
                f"the server {self.url} refuses the key: {message}",
                hint="set the environment variable UNBAG_SERVER_KEY",
            )
        if "logprob" in message:
            return _no_logprobs_error(self.url, message)
        error_class = UnbagError if status == 404 else RefusedError
        return error_class(
            f"the server {self.url} refuses the request: {message}",
            expected="a model behind /chat/completions that takes such requests",
            hint="check the name of the model and the address, which usually ends in /v1",
        )


def _error_of(response: httpx.Response) -> tuple[int, str]:
    """Return status and message of a response; an empty message if it is no error.

    Some servers send errors with status 200 and the code in the body.
    """
    try:
        content = response.json()
    except (ValueError, RecursionError):
        content = None
    error = content.get("error") if isinstance(content, dict) else None
    status = response.status_code
    if status == 200 and not error:
        return status, ""
    fields = error if isinstance(error, dict) else content if isinstance(content, dict) else {}
    message = " ".join(str(fields.get("message") or error or response.text).split())[:_MAX_MESSAGE]
    if status != 200:
        return status, f"status {status}, {message}" if message else f"status {status}"
    code = str(fields.get("code"))
    return int(code) if code.isdecimal() else status, message


def _no_logprobs_error(url: str, message: str) -> UnbagError:
    """Return the error for a server without log-probabilities."""
    return UnbagError(
        f"the server {url} gives no logprobs: {message}",
        expected="a server that returns the probabilities of the 20 most likely tokens: vLLM with "
        "--max-logprobs 20 or more, SGLang, llama.cpp's llama-server since December 2024",
        hint="use such a server, or --scorer answer, which needs no probabilities",
    )


class GarbageError(Exception):
    """A reply that does not follow the protocol."""


class UnansweredError(UnbagError):
    """A request without a usable reply from a reachable server."""


class RefusedError(UnansweredError):
    """A request that the server rejects; retries are no use."""


class _RetryError(Exception):
    """A failure that is worth another attempt."""

    def __init__(self, reason: str, *, wait: float = 0.0, is_down: bool = False) -> None:
        super().__init__(reason)
        # Seconds that the server requests; 0 if unknown.
        self.wait = wait
        self.is_down = is_down


class ReplyCache:
    """Cache of replies by request, on disk or, if path is None, in memory."""

    def __init__(self, path: Path | None) -> None:
        """Open or create the file."""
        self._path = path
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._base = sqlite3.connect(path or ":memory:", check_same_thread=False, timeout=60)
            self._base.execute("CREATE TABLE IF NOT EXISTS replies (asked TEXT PRIMARY KEY, reply)")
        except sqlite3.Error as error:
            raise self._damaged_error(error) from error
        self._lock = threading.Lock()

    def get(self, key: str) -> Reply | None:
        """Return the cached reply, or None."""
        try:
            with self._lock:
                row = self._base.execute(
                    "SELECT reply FROM replies WHERE asked = ?", (key,)
                ).fetchone()
            reply: Reply | None = json.loads(row[0]) if row else None
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise self._damaged_error(error) from error
        return reply

    def put(self, key: str, reply: Reply) -> None:
        """Store a reply; it is on disk on return."""
        try:
            with self._lock, self._base:
                self._base.execute(
                    "INSERT OR REPLACE INTO replies VALUES (?, ?)", (key, json.dumps(reply))
                )
        except sqlite3.Error as error:
            raise self._damaged_error(error) from error

    def _damaged_error(self, error: Exception) -> UnbagError:
        return UnbagError(
            f"the cache of replies {self._path} cannot be used: {error}",
            expected="an intact file, and room on the disk",
            hint="move it away, or choose another folder with --cache",
        )
