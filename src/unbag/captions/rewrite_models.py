"""Prompts come in; what a chat model answers goes out: one on disk, or one behind a server."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from unbag.captions.kinds import Parts
from unbag.errors import UserError
from unbag.models.caption_likelihood import read_causal
from unbag.models.device import choose_device
from unbag.models.server import load as load_server
from unbag.models.server_client import (
    MANY,
    GarbageError,
    RefusedError,
    Request,
    ServerClient,
    UnansweredError,
)
from unbag.models.server_replies import Reply

if TYPE_CHECKING:
    from torch import Tensor

BATCH = 32
"""Prompts answered together, of nearly the same length."""
CUT = " …"
"""Ends an answer that had reached its longest length and was not over."""
REFUSED, UNANSWERED, TOO_LONG = "\ue000", "\ue001", "\ue002"
"""In place of an answer: the server takes the prompt not, gives no reply to it, or the model has no
room for it. Characters that no text has."""
PROBE = "Answer with one word: yes."
"""Asked after prompts without an answer: whether the server answers at all."""


class Writer(Protocol):
    """A chat model that is asked in words."""

    def __call__(self, prompts: Sequence[str], *, longest: int) -> list[str]:
        """An answer of at most `longest` tokens to each, the likeliest token each time.

        Or REFUSED, UNANSWERED, TOO_LONG for a prompt without one.
        """


@dataclass(frozen=True, eq=False)
class LocalWriter:
    """A causal language model of transformers with a chat template."""

    model: Any
    tokenizer: Any
    ends: tuple[int, ...]
    """Tokens after which an answer is over."""

    def __call__(self, prompts: Sequence[str], *, longest: int) -> list[str]:
        """Equal prompts are answered once."""
        tokens = {prompt: self._tokens(prompt) for prompt in dict.fromkeys(prompts)}
        needed = {prompt: len(some) + longest for prompt, some in tokens.items()}
        most = getattr(self.model.config, "max_position_embeddings", None) or math.inf
        fitting = [prompt for prompt in tokens if needed[prompt] <= most]
        if not fitting and len(tokens) >= MANY:
            raise UserError(
                f"a prompt with its answer has {min(needed.values())} tokens or more, and the chat "
                f"model reads {most}",
                expected="a chat model with a context of about a thousand tokens",
                way_out="take another one",
            )
        order = sorted(fitting, key=lambda prompt: (needed[prompt], prompt))
        found = dict.fromkeys(tokens, TOO_LONG)
        for at in range(0, len(order), BATCH):
            some = order[at : at + BATCH]
            answers = self._answer([tokens[prompt] for prompt in some], longest)
            found.update(zip(some, answers, strict=True))
        return [found[prompt] for prompt in prompts]

    def _tokens(self, prompt: str) -> list[int]:
        asked = [{"role": "user", "content": prompt}]
        text = self.tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
        # The template has written the first token already.
        found: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return found

    def _answer(self, batch: Sequence[list[int]], longest: int) -> list[str]:
        import torch
        import transformers

        width = max(map(len, batch))
        # Answers begin at the right end, so what pads a prompt stands on its left.
        token_NL = torch.tensor([[self.ends[0]] * (width - len(t)) + t for t in batch])
        mask_NL = torch.tensor([[0] * (width - len(t)) + [1] * len(t) for t in batch])
        config: Any = transformers.GenerationConfig
        # Made anew: that of the checkpoint may draw tokens or punish repetition.
        greedy = config(
            max_new_tokens=longest,
            do_sample=False,
            eos_token_id=list(self.ends),
            pad_token_id=self.ends[0],
        )
        with torch.inference_mode():
            answer_NL = self.model.generate(
                token_NL.to(self.model.device),
                attention_mask=mask_NL.to(self.model.device),
                generation_config=greedy,
            )
        return [self._text(answer_L) for answer_L in answer_NL[:, width:].cpu()]

    def _text(self, answer_L: Tensor) -> str:
        tokens: list[int] = answer_L.tolist()
        end = next((at for at, token in enumerate(tokens) if token in self.ends), None)
        text = str(self.tokenizer.decode(tokens[:end], skip_special_tokens=True)).strip()
        return text if end is not None else text + CUT


@dataclass(frozen=True, eq=False)
class ServerWriter:
    """A chat model behind an OpenAI-compatible server; what it replied once is kept."""

    model: str
    """As the server calls it."""
    client: ServerClient

    def __call__(self, prompts: Sequence[str], *, longest: int) -> list[str]:
        """Several requests at a time; equal prompts are asked once."""
        asked = [self._request(prompt, longest) for prompt in prompts]
        probe = self._request(PROBE, longest)
        found = self.client.ask_each(asked, check=_check, probe=probe)
        failed = [reply for reply in found if isinstance(reply, UnansweredError)]
        if len(failed) == len(found) >= MANY:
            raise failed[0]
        return [_answer(reply) for reply in found]

    def _request(self, prompt: str, longest: int) -> Request:
        return {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            "seed": 0,
            "max_tokens": longest,
        }


@lru_cache(maxsize=1)
def load_writer(parts: Parts) -> Writer:
    """The chat model of these parts, once for all kinds."""
    kind, _, rest = parts.rewrite.partition(":")
    if kind == "server":
        cache = Path(parts.cache) if parts.cache else None
        found = load_server(rest, concurrency=parts.concurrency, budget=parts.budget, cache=cache)
        return ServerWriter(found.model, found.client)
    if kind == "hf" and rest:
        return _local(rest, choose_device(parts.device))
    raise UserError(
        f"rewriting needs a chat model, and {parts.rewrite!r} names none",
        expected="hf:FOLDER (or a .gguf file) for one on disk, or server:MODEL@URL",
        way_out="name it with --rewrite, or leave the kinds rewrite_replace and rewrite_swap out",
    )


def _local(path: str, device: str) -> LocalWriter:
    model, tokenizer = read_causal(path, device=device)
    if not getattr(tokenizer, "chat_template", None):
        raise UserError(
            f"{path} has no chat template",
            expected="a language model that was trained to follow instructions",
            way_out="take the instruction-tuned version of this model",
        )
    named = getattr(model.generation_config, "eos_token_id", None)
    ends = [named] if isinstance(named, int) else list(named or ())
    ends += [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    if not ends:
        raise UserError(
            f"the tokenizer of {path} has no token that ends an answer",
            expected="an eos token",
            way_out="take another chat model",
        )
    return LocalWriter(model, tokenizer, tuple(dict.fromkeys(ends)))


def _answer(reply: Reply | UnansweredError) -> str:
    if isinstance(reply, UnansweredError):
        return REFUSED if isinstance(reply, RefusedError) else UNANSWERED
    choice = reply["choices"][0]
    text = str(choice["message"]["content"] or "").strip()
    return text + CUT if choice.get("finish_reason") == "length" else text


def _check(reply: Reply) -> None:
    """A reply must have an answer, be it an empty one."""
    try:
        _answer(reply)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise GarbageError(f"{type(error).__name__} {error}"[:200]) from error
