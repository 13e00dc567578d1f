"""`server:MODEL@URL`: a chat model behind an OpenAI-compatible server (vLLM, SGLang, llama.cpp).

Such a server tells the log-probabilities of the likeliest next tokens. That serves answers of one
token (Yes, A); longer ones are written by the server itself, and cannot be scored.
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
"""Next tokens whose probability is asked for: the most that the protocol allows."""
KEY = "UNBAG_SERVER_KEY"
"""Environment variable with the key, if the server wants one."""
CHECK_AFTER = 16
"""After so many failures it is seen whether the server still works."""
_WORTH_RETRYING = frozenset((408, 409, 425, 429, 500, 502, 503, 504))
"""Answers that a later attempt may better."""
_SERVER_DOWN = frozenset((429, 502, 503, 504))
"""Those among them that say nothing of the request."""
_MOST_CHARACTERS = 300
"""Characters of a server's own words in a message."""
_SPACES = " \t\n▁Ġ"
"""How tokenizers write a space before a word."""
_NO_REPLY = (KeyError, IndexError, TypeError, ValueError, OverflowError)
_OTHER_SCORERS = "use --scorer yes, yes-normalised, yes-contrast, letters or answer with this model"
_USE_ANSWER = (
    "use --scorer answer, which reads answers in any spelling; a model on disk (hf:...) can be "
    "scored by any answer"
)
_SPOKEN = 0.01
"""Probability from which on another spelling is how the model answers, and no slip."""
Reply = dict[str, Any]
"""The JSON body of a reply, as the protocol has it."""
Request = dict[str, Any]
"""The JSON body of a request, as the protocol has it."""
CheckReply = Callable[[Reply], None]
"""Raises GarbageError for a reply to be asked for again, UnbagError for one that stays as it is."""


def load(
    rest: str,
    *,
    concurrency: int = 8,
    budget: int | None = None,
    cache: Path | None = None,
) -> ServerModel:
    """`MODEL@URL`, such as Qwen/Qwen2.5-VL-7B-Instruct@http://localhost:8000/v1."""
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
            "a server is asked with the package httpx, which is not installed",
            hint="pip install 'unbag[server]'",
        ) from error
    key = os.environ.get(KEY, "")
    if not key.isascii() or not key.isprintable():
        raise UnbagError(
            f"the environment variable {KEY} holds a character that no key has",
            expected="plain letters and signs on one line",
        )
    kept = ReplyCache(cache / "replies.sqlite" if cache else None)
    manners = Manners(concurrency=concurrency)
    client = ServerClient(url.rstrip("/"), key, manners, budget, kept)
    return ServerModel(model.rpartition("/")[2], model, client)


@dataclass
class ServerModel:
    """Asks the server; what it replied once is not asked for again."""

    name: str
    model: str
    """As the server calls it."""
    client: ServerClient
    device: str = "server"
    bounded: int = field(default=0, init=False)
    """Answers that were not among the tokens the server listed: their score is an upper bound."""

    @property
    def fingerprint(self) -> str:
        """Of address and name: what stands behind them, only the server knows."""
        text = f"{self.client.url} {self.model} {_TOP} 1"
        return f"server-{blake2b(text.encode(), digest_size=12).hexdigest()}"

    def logprobs(
        self, image: ImageSource | None, prompt: str, continuations: Sequence[str]
    ) -> list[list[float]]:
        """Log-probability of each continuation, which must be one token."""
        return self.logprobs_of([Ask(image, prompt, tuple(continuations))])[0]

    def logprobs_of(self, asks: Sequence[Ask]) -> list[list[list[float]]]:
        """The same for many asks, several requests at a time."""
        if any(ask.ends for ask in asks):
            raise self._one_token("the end of an answer", _OTHER_SCORERS)
        long = next((c for ask in asks for c in ask.continuations if len(c.split()) > 1), None)
        if long is not None:
            raise self._one_token(f"{long!r}", _OTHER_SCORERS)
        requests = [
            self._request(ask, tokens=1) | {"logprobs": True, "top_logprobs": _TOP} for ask in asks
        ]
        replies = self.client.ask_all(requests, check=self._check)
        return [
            [[self._score(_listed(reply), wanted)] for wanted in ask.continuations]
            for ask, reply in zip(asks, replies, strict=True)
        ]

    def answer(self, image: ImageSource | None, prompt: str, *, longest: int = 32) -> str:
        """A free answer of at most `longest` tokens."""
        return self.answers_of([Ask(image, prompt)], longest=longest)[0]

    def answers_of(self, asks: Sequence[Ask], *, longest: int = 32) -> list[str]:
        """The same for many asks; a server without logprobs will do."""
        requests = [self._request(ask, tokens=longest) for ask in asks]
        return [_words(reply) for reply in self.client.ask_all(requests, check=_check_words)]

    def _request(self, ask: Ask, *, tokens: int) -> Request:
        content: list[dict[str, Any]] = []
        if ask.image is not None:
            buffer = BytesIO()
            # Without loss.
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
        """A reply must have an answer and the probabilities of its first token."""
        _check_words(reply)
        told = _choice(reply).get("logprobs")
        if not told or (isinstance(told, dict) and told.get("content") is None):
            raise _without_logprobs(self.client.url, f"its answer has logprobs: {json.dumps(told)}")
        try:
            values = _listed(reply).values()
        except _NO_REPLY as error:
            raise _garbage(error) from error
        # A hair above 0 is rounding.
        if not all(value <= 1e-3 for value in values):
            raise GarbageError("log-probabilities that are none")

    def _score(self, listed: Mapping[str, float], wanted: str) -> float:
        same = [value for token, value in listed.items() if _word(token) == _word(wanted)]
        if same:
            return max(same)
        self._check_spelling(listed, wanted)
        likeliest = _word(max(listed, key=lambda token: listed[token]))
        if likeliest and likeliest != _word(wanted) and _word(wanted).startswith(likeliest):
            split = f"{wanted!r}, which it begins with {likeliest!r}"
            raise self._one_token(split, _USE_ANSWER)
        if not self.bounded:
            warnings.warn(
                f"{self.name}: {wanted!r} is not among the {len(listed)} likeliest tokens of an "
                "answer; such answers get the largest probability they can have",
                stacklevel=2,
            )
        self.bounded += 1
        # What is not listed is no likelier than the last listed, nor than all that is left.
        rest = 1.0 - sum(math.exp(value) for value in listed.values())
        return min(min(listed.values()), math.log(max(rest, 1e-12)))

    def _check_spelling(self, listed: Mapping[str, float], wanted: str) -> None:
        """A bound on Yes says nothing of a model that answers yes."""
        for token, value in listed.items():
            is_other = _word(token).casefold() == _word(wanted).casefold()
            if is_other and math.exp(value) >= _SPOKEN:
                raise UnbagError(
                    f"{self.name} answers {_word(token)!r}, and {wanted!r} is not among the "
                    f"{len(listed)} tokens that the server {self.client.url} lists",
                    expected=f"an answer spelt {wanted!r}: its probability is the score",
                    hint=_USE_ANSWER,
                )

    def _one_token(self, what: str, hint: str) -> UnbagError:
        return UnbagError(
            f"the server {self.client.url} cannot score {what}",
            expected="answers of one token: it tells the probabilities of the next token only",
            hint=hint,
        )


def _word(token: str) -> str:
    return token.strip(_SPACES)


def _choice(reply: Reply) -> dict[str, Any]:
    found: dict[str, Any] = reply["choices"][0]
    return found


def _listed(reply: Reply) -> dict[str, float]:
    """Likeliest first tokens with their log-probabilities."""
    first = _choice(reply)["logprobs"]["content"][0]
    found: dict[str, float] = {}
    for one in first["top_logprobs"] or [first]:
        token, value = str(one["token"]), float(one["logprob"])
        # Two tokens may read alike: the likelier one counts.
        found[token] = max(value, found.get(token, -math.inf))
    return found


def _words(reply: Reply) -> str:
    return str(_choice(reply)["message"]["content"] or "")


def _check_words(reply: Reply) -> None:
    """A reply must have an answer, be it an empty one."""
    try:
        _words(reply)
    except _NO_REPLY as error:
        raise _garbage(error) from error


def _garbage(error: Exception) -> GarbageError:
    if isinstance(error, KeyError):
        return GarbageError(f"it has no {error}")
    return GarbageError(f"{type(error).__name__} {error}"[:200])


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
    """Asks one server, politely and never twice the same.

    Replies are kept on disk as they come, so that a run that was stopped, ran out of its budget or
    met a server that went away asks only for the rest.
    """

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
        self, requests: Sequence[Request], *, check: CheckReply = lambda reply: None
    ) -> list[Reply]:
        """One reply a request, in their order; equal requests are sent once.

        If one fails, those already sent are waited for and kept before the error is raised.
        """
        found = self.ask_each(requests, check=check)
        return [reply for reply in found if not isinstance(reply, UnansweredError)]

    def ask_each(
        self, requests: Sequence[Request], *, check: CheckReply, probe: Request | None = None
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
                    is_due = len(failed) % CHECK_AFTER == 0 and key in failed
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

    def _send(self, key: str, request: Request, check: CheckReply) -> None:
        reason, kind = "nothing", UnbagError
        for attempt in range(self.manners.attempts):
            self._pay()
            try:
                self.cache.put(key, self._once(request, check))
            except _LaterError as error:
                reason, kind = str(error), UnbagError if error.is_down else UnansweredError
                pause = error.wait or self.manners.pause * 2**attempt
                if attempt + 1 < self.manners.attempts:
                    self.manners.sleep(min(pause, self.manners.longest_pause))
            else:
                return
        raise kind(
            f"the server {self.url} gave no usable answer in {self.manners.attempts} attempts: "
            f"{reason}",
            expected="an OpenAI-compatible server that answers",
            hint="look at the server, then give the same command again: answers that came are "
            "kept and not asked for again",
        )

    def _once(self, request: Request, check: CheckReply) -> Reply:
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
        if status in _WORTH_RETRYING:
            try:
                wait = max(0.0, float(answer.headers.get("retry-after", "0")))
            except ValueError:
                wait = 0.0
            raise _LaterError(said, wait=wait, is_down=status in _SERVER_DOWN)
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
            why = f"{type(error).__name__} {error}"[:_MOST_CHARACTERS]
            raise _LaterError(f"an answer that is no reply ({why})") from error
        return reply

    def _pay(self) -> None:
        with self._lock:
            if self.budget is not None and self.spent >= self.budget:
                raise UnbagError(
                    f"the budget of {self.budget:,} requests is spent",
                    expected="enough requests for what was asked",
                    hint="give the same command again with a larger --max-requests; answers "
                    "so far are kept and cost nothing",
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

    def _refused(self, status: int, said: str) -> UnbagError:
        if status in (401, 403):
            return UnbagError(
                f"the server {self.url} refuses the key: {said}",
                hint="set the environment variable UNBAG_SERVER_KEY",
            )
        if "logprob" in said:
            return _without_logprobs(self.url, said)
        kind = UnbagError if status == 404 else RefusedError
        return kind(
            f"the server {self.url} refuses the request: {said}",
            expected="a model behind /chat/completions that takes such requests",
            hint="check the name of the model and the address, which usually ends in /v1",
        )


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
    words = " ".join(str(fields.get("message") or told or answer.text).split())[:_MOST_CHARACTERS]
    if status != 200:
        return status, f"status {status}, {words}" if words else f"status {status}"
    code = str(fields.get("code"))
    return int(code) if code.isdecimal() else status, words


def _without_logprobs(url: str, said: str) -> UnbagError:
    """The error for a server that does not tell probabilities; asking again is no use."""
    return UnbagError(
        f"the server {url} gives no logprobs: {said}",
        expected="a server that tells the probabilities of the 20 likeliest next tokens: vLLM with "
        "--max-logprobs 20 or more, SGLang, llama.cpp's llama-server since December 2024",
        hint="take such a server, or --scorer answer, which needs no probabilities",
    )


class GarbageError(Exception):
    """An answer that is no reply of the protocol."""


class UnansweredError(UnbagError):
    """One request without a reply, from a server that was there."""


class RefusedError(UnansweredError):
    """A request that the server does not take; asking again is no use."""


class _LaterError(Exception):
    """Worth another attempt."""

    def __init__(self, reason: str, *, wait: float = 0.0, is_down: bool = False) -> None:
        super().__init__(reason)
        # Seconds that the server asks for; 0 if it names none that can be read.
        self.wait = wait
        self.is_down = is_down


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

    def _damaged(self, error: Exception) -> UnbagError:
        return UnbagError(
            f"the cache of replies {self._path} cannot be used: {error}",
            expected="a whole file, and room on the disk",
            hint="move it away, or choose another folder with --cache",
        )
