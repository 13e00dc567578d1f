"""A prompt or an answer comes in; tokens of a language model go out, in the one form it is asked.

Word by word for a language model from scratch: `<ask> words of the prompt <answer>`, then words of
the answer and `<end>`. With the tokenizer of a real one: `USER: {prompt} ASSISTANT:`, then
` {answer}` and its end of text. The picture stands before all of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from unbag.errors import UserError

SPECIAL = ("<pad>", "<unknown>", "<ask>", "<answer>", "<end>")
"""First ids of a word-level vocabulary, in this order."""
_PAD, _UNKNOWN, _ASK, _ANSWER, _END = range(len(SPECIAL))
_PIECE = re.compile(r"\w+|[^\w\s]")
ASKED, UNASKED = "USER: {prompt} ASSISTANT:", "ASSISTANT:"
"""As a real language model is asked, with and without the question."""


class Words(Protocol):
    """Tokens of prompts and answers."""

    @property
    def size(self) -> int:
        """Of the vocabulary."""

    @property
    def pad(self) -> int:
        """Fills what is too short."""

    @property
    def end(self) -> int:
        """Ends an answer."""

    def plain(self, text: str) -> list[int]:
        """A text as it is."""

    def ask(self, prompt: str) -> list[int]:
        """A prompt in the form that an answer follows."""

    def answer(self, prompt: str, answer: str) -> list[int]:
        """Tokens of an answer behind that prompt, without the end."""

    def decode(self, tokens: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Tokens of an answer as text."""


@dataclass(frozen=True)
class WordLevel:
    """One token for each word and mark; a word nobody knows is looked for in lower case."""

    words: tuple[str, ...]
    asks: bool = True
    pad: int = _PAD
    end: int = _END

    @property
    def size(self) -> int:
        """Special tokens and words."""
        return len(SPECIAL) + len(self.words)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: at + len(SPECIAL) for at, word in enumerate(self.words)}

    def plain(self, text: str) -> list[int]:
        """Words and marks."""
        ids = self._ids
        return [ids.get(one, ids.get(one.lower(), _UNKNOWN)) for one in _PIECE.findall(text)]

    def unknown_words(self, texts: Sequence[str]) -> list[str]:
        """Words that share the one token of all unknown ones: each once, in their order."""
        found = dict.fromkeys(p for text in texts for p in _PIECE.findall(text) if p.isalnum())
        return [one for one in found if not {one, one.lower()} & self._ids.keys()]

    def ask(self, prompt: str) -> list[int]:
        """Between two marks; without the question only the second is left."""
        return [_ASK, *self.plain(prompt), _ANSWER] if self.asks else [_ANSWER]

    def answer(self, prompt: str, answer: str) -> list[int]:
        """As it is."""
        return _some(self.plain(answer), answer)

    def decode(self, tokens: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Words with a space between, marks without one before them."""
        every = (*SPECIAL, *self.words)
        kept = [t for t in tokens if not skip_special_tokens or t >= len(SPECIAL)]
        return re.sub(r" (?=[.,?!:;])", "", " ".join(every[t] for t in kept))


def words_of(texts: Iterable[str], *, asks: bool = True) -> WordLevel:
    """A vocabulary of all words and marks of these texts, sorted."""
    return WordLevel(tuple(sorted({p for text in texts for p in _PIECE.findall(text)})), asks)


@dataclass(frozen=True, eq=False)
class Pretrained:
    """The tokenizer of a real language model."""

    tokenizer: Any
    name: str
    size: int
    asks: bool = True

    def __post_init__(self) -> None:
        """Raises UserError if nothing could end an answer."""
        if self.tokenizer.eos_token_id is None:
            raise UserError(
                f"the tokenizer of {self.name} has no token that ends an answer",
                expected="an eos_token",
                way_out="name one in its tokenizer_config.json, or take another language model",
            )

    @property
    def end(self) -> int:
        """The end of text."""
        return int(self.tokenizer.eos_token_id)

    @property
    def pad(self) -> int:
        """Masked wherever it stands, so that the end does where there is no pad token."""
        own = self.tokenizer.pad_token_id
        return self.end if own is None else int(own)

    def plain(self, text: str) -> list[int]:
        """Without special tokens: the picture stands first."""
        return [int(i) for i in self.tokenizer(text, add_special_tokens=False)["input_ids"]]

    def ask(self, prompt: str) -> list[int]:
        """In LLaVA's form."""
        return self.plain(self._form(prompt))

    def answer(self, prompt: str, answer: str) -> list[int]:
        """What is added when the answer follows; raises UserError where that cannot be told."""
        before = self.plain(self._form(prompt))
        whole = self.plain(f"{self._form(prompt)} {answer}")
        if whole[: len(before)] != before:
            raise UserError(
                f"the tokenizer of {self.name} does not keep the answer {answer!r} apart from the "
                "prompt before it",
                expected="tokens of the prompt, then tokens of the answer",
                way_out="take another language model",
            )
        return _some(whole[len(before) :], answer)

    def decode(self, tokens: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """As the tokenizer does."""
        return str(self.tokenizer.decode(tokens, skip_special_tokens=skip_special_tokens))

    def _form(self, prompt: str) -> str:
        return ASKED.replace("{prompt}", prompt) if self.asks else UNASKED


def _some(tokens: list[int], answer: str) -> list[int]:
    if not tokens:
        raise UserError(f"the answer {answer!r} has no word", expected="words to be scored")
    return tokens
