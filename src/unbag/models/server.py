"""`server:MODEL@URL`: a chat model behind an OpenAI-compatible server (vLLM, SGLang, llama.cpp).

Such a server tells the log-probabilities of the likeliest next tokens. That serves answers of one
token (Yes, A); longer ones are written by the server itself, and cannot be scored.
"""

from __future__ import annotations

import base64
import json
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from unbag.errors import UserError
from unbag.models.asks import Ask
from unbag.models.server_client import (
    GarbageError,
    Manners,
    Request,
    ServerClient,
    without_logprobs,
)
from unbag.models.server_replies import Reply, ReplyCache
from unbag.types import Picture

TOP = 20
"""Next tokens whose probability is asked for: the most that the protocol allows."""
KEY = "UNBAG_SERVER_KEY"
"""Environment variable with the key, if the server wants one."""
_SPACES = " \t\n▁Ġ"
"""How tokenizers write a space before a word."""
_NO_REPLY = (KeyError, IndexError, TypeError, ValueError, OverflowError)
_OTHERS = "use --scorer yes, yes-normalised, yes-contrast, letters or answer with this model"
_ANSWER = (
    "use --scorer answer, which reads answers in any spelling; a model on disk (hf:...) can be "
    "scored by any answer"
)
_SPOKEN = 0.01
"""Probability from which on another spelling is how the model answers, and no slip."""


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
        text = f"{self.client.url} {self.model} {TOP} 1"
        return f"server-{blake2b(text.encode(), digest_size=12).hexdigest()}"

    def logprobs(
        self, picture: Picture | None, prompt: str, continuations: Sequence[str]
    ) -> list[list[float]]:
        """Log-probability of each continuation, which must be one token."""
        return self.logprobs_of([Ask(picture, prompt, tuple(continuations))])[0]

    def logprobs_of(self, asks: Sequence[Ask]) -> list[list[list[float]]]:
        """The same for many asks, several requests at a time."""
        if any(ask.ends for ask in asks):
            raise self._one_token("the end of an answer", _OTHERS)
        long = next((c for ask in asks for c in ask.continuations if len(c.split()) > 1), None)
        if long is not None:
            raise self._one_token(f"{long!r}", _OTHERS)
        requests = [
            self._request(ask, tokens=1) | {"logprobs": True, "top_logprobs": TOP} for ask in asks
        ]
        replies = self.client.ask_all(requests, check=self._check)
        return [
            [[self._score(_listed(reply), wanted)] for wanted in ask.continuations]
            for ask, reply in zip(asks, replies, strict=True)
        ]

    def answer(self, picture: Picture | None, prompt: str, *, longest: int = 32) -> str:
        """A free answer of at most `longest` tokens."""
        return self.answers_of([Ask(picture, prompt)], longest=longest)[0]

    def answers_of(self, asks: Sequence[Ask], *, longest: int = 32) -> list[str]:
        """The same for many asks; a server without logprobs will do."""
        requests = [self._request(ask, tokens=longest) for ask in asks]
        return [_words(reply) for reply in self.client.ask_all(requests, check=_check_words)]

    def _request(self, ask: Ask, *, tokens: int) -> Request:
        content: list[dict[str, Any]] = []
        if ask.picture is not None:
            content.append({"type": "image_url", "image_url": {"url": _address(ask.picture)}})
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
            raise without_logprobs(self.client.url, f"its answer has logprobs: {json.dumps(told)}")
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
            raise self._one_token(split, _ANSWER)
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
                raise UserError(
                    f"{self.name} answers {_word(token)!r}, and {wanted!r} is not among the "
                    f"{len(listed)} tokens that the server {self.client.url} lists",
                    expected=f"an answer spelt {wanted!r}: its probability is the score",
                    way_out=_ANSWER,
                )

    def _one_token(self, what: str, way_out: str) -> UserError:
        return UserError(
            f"the server {self.client.url} cannot score {what}",
            expected="answers of one token: it tells the probabilities of the next token only",
            way_out=way_out,
        )


def load(
    rest: str,
    *,
    concurrency: int = 8,
    budget: int | None = None,
    cache: Path | None = None,
) -> ServerModel:
    """`MODEL@URL`, such as Qwen/Qwen2.5-VL-7B-Instruct@http://localhost:8000/v1."""
    model, _, url = rest.rpartition("@")
    if not model or not _is_address(url):
        raise UserError(
            f"the model 'server:{rest}' names no server",
            expected="server:MODEL@URL, such as server:llava@http://localhost:8000/v1",
        )
    try:
        import httpx  # noqa: F401
    except ImportError as error:
        raise UserError(
            "a server is asked with the package httpx, which is not installed",
            way_out="pip install 'unbag[server]'",
        ) from error
    kept = ReplyCache(cache / "replies.sqlite" if cache else None)
    client = ServerClient(
        url.rstrip("/"),
        _key(),
        Manners(concurrency=concurrency),
        budget,
        kept,
    )
    return ServerModel(model.rpartition("/")[2], model, client)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        host.encode("idna")
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(host)


def _key() -> str:
    key = os.environ.get(KEY, "")
    if not key.isascii() or not key.isprintable():
        raise UserError(
            f"the environment variable {KEY} holds a character that no key has",
            expected="plain letters and signs on one line",
        )
    return key


def _word(token: str) -> str:
    return token.strip(_SPACES)


def _address(picture: Picture) -> str:
    """The picture as a data: address, without loss."""
    buffer = BytesIO()
    picture.open().save(buffer, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


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
