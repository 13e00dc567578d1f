"""Prompts and images as the tokens and tensors that a chat model reads.

An answer is scored as the chat template yields it: what stands between the prompt and an answer
(" Yes" or "Yes") is found by rendering the template with an answer in it.

Dimensions: N rows of a batch, L tokens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from unbag.errors import ImageError, UnbagError
from unbag.models.huggingface.loading import quietly
from unbag.types import ImageSource

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

_PROBE = "Yes"
_WAY_OUT = "take the instruction-tuned version of this model, with its own chat_template"
_TEXT = frozenset({"input_ids", "attention_mask", "labels"})
_FAILURES = (ValueError, TypeError, RuntimeError, ZeroDivisionError)
"""What processors raise."""
_USUAL = 336
"""Side of an image that any model takes."""


@dataclass(frozen=True, eq=False)
class Prompts:
    """Renders prompts of one model and finds the tokens of its answers."""

    name: str
    family: str
    processor: Any
    image_token: str
    reads_apart: bool = False
    """An encoder reads the prompt and a decoder answers, so that no text precedes the answer."""

    @property
    def tokenizer(self) -> Any:
        """Of the language model."""
        return self.processor.tokenizer

    @property
    def template(self) -> str | None:
        """The chat template, from the processor or else from its tokenizer."""
        own = getattr(self.processor, "chat_template", None)
        found = own or getattr(self.tokenizer, "chat_template", None)
        return found.get("default") if isinstance(found, dict) else found

    def render(self, prompt: str, *, sees: bool) -> Rendered:
        """The prompt in the form of this model, ready for an answer."""
        self.check_words(prompt)
        if self.template is None:
            plain = self._plain
            text = (plain.seeing if sees else plain.blind).replace("{prompt}", prompt)
            text = text.replace("<bos>", self.tokenizer.bos_token or "")
            return Rendered(text, plain.context.replace("{prompt}", prompt), plain.lead)
        text = self._chat(prompt, sees=sees)
        if self.family == "idefics2":
            # As its processor does, which would otherwise rewrite the text behind our back.
            text = re.sub(rf"{re.escape(self.image_token)}(?=[^\s<])", f"{self.image_token} ", text)
        return Rendered(text, text, self._around[0])

    def check_words(self, prompt: str) -> None:
        """Refuse a prompt that holds the mark of an image."""
        if self.image_token and self.image_token in prompt:
            raise UnbagError(
                f"the prompt {prompt!r} holds {self.image_token!r}",
                expected="words: this is where the model puts its image",
                hint="take the mark out of the caption (for a benchmark, in a copy of its files "
                "given with --data), or take a model with another mark",
            )

    def answer_tokens(self, rendered: Rendered, answer: str, *, ends: bool = False) -> list[int]:
        """Tokens of an answer where it stands, with the end of the answer if asked for."""
        before = "" if self.reads_apart else rendered.context
        lead = "" if self.reads_apart else rendered.lead
        first, whole = self.tokens(before), self.tokens(before + lead + answer)
        if whole[: len(first)] != first or len(whole) == len(first):
            raise UnbagError(
                f"the tokenizer of {self.name} does not keep the answer {answer!r} apart from the "
                f"prompt before it ({before[-20:]!r})",
                expected="tokens of the prompt, then tokens of the answer",
                hint="take a prompt that ends otherwise, or another model",
            )
        return whole[len(first) :] + ([self.end] if ends else [])

    def tokens(self, text: str, *, is_start: bool = False) -> list[int]:
        """Of a text; at the start of a sequence with what the tokenizer puts first."""
        bos = self.tokenizer.bos_token
        adds = is_start and not (bos is not None and text.startswith(bos))
        return [int(i) for i in self.tokenizer(text, add_special_tokens=adds)["input_ids"]]

    @cached_property
    def own_end(self) -> int | None:
        """The token that ends an answer: what the template puts there, else the end of text."""
        tail = self.tokens(self._around[1].lstrip()) if self.template else []
        known = {*self.tokenizer.all_special_ids, *self.tokenizer.added_tokens_decoder}
        found = tail[0] if tail and tail[0] in known else self.tokenizer.eos_token_id
        return None if found is None else int(found)

    @property
    def end(self) -> int:
        """The same, for all that cannot do without."""
        if self.own_end is None:
            raise UnbagError(
                f"the tokenizer of {self.name} has no token that ends an answer",
                expected="an eos_token, or one that the chat template puts after an answer",
                hint="use a scorer without the end of the answer, such as yes",
            )
        return self.own_end

    @cached_property
    def _plain(self) -> Plain:
        if self.family not in PLAIN:
            raise UnbagError(
                f"{self.name} has no chat template, and no fixed form of prompt is known for its "
                f"kind ({self.family})",
                expected=f"a chat_template, or one of the kinds {', '.join(PLAIN)}",
                hint=_WAY_OUT,
            )
        return PLAIN[self.family]

    @cached_property
    def _around(self) -> tuple[str, str]:
        """What the template puts before and after an answer."""
        asked = self._chat("?", sees=False)
        whole = self._chat("?", sees=False, answer=_PROBE)
        rest = whole.removeprefix(asked)
        lead, found, tail = rest.partition(_PROBE)
        if not whole.startswith(asked) or not found or lead.strip():
            raise UnbagError(
                f"the chat template of {self.name} does not ask for an answer where it puts one: "
                f"{asked[-40:]!r} against {whole[-60:]!r}",
                expected="an answer right after the generation prompt",
                hint="take a version of this model that answers without thinking aloud first",
            )
        return lead, tail

    def _chat(self, prompt: str, *, sees: bool, answer: str = "") -> str:
        """As the template renders it."""
        content = [{"type": "image"}] if sees else []
        messages = [{"role": "user", "content": [*content, {"type": "text", "text": prompt}]}]
        if answer:
            said = [{"type": "text", "text": answer}]
            messages.append({"role": "assistant", "content": said})
        try:
            with quietly():
                found = self.processor.apply_chat_template(
                    messages, chat_template=self.template, add_generation_prompt=not answer
                )
        except Exception as error:
            # Templates are programs of their own and raise anything.
            raise UnbagError(
                f"the chat template of {self.name} fails: {error}",
                expected="messages of a user and an assistant, each a list of contents",
                hint=_WAY_OUT,
            ) from error
        return str(found)


@dataclass(frozen=True)
class Rendered:
    """A prompt as the model reads it."""

    text: str
    context: str
    lead: str


@dataclass(frozen=True)
class Plain:
    """How a family without a chat template is asked; {prompt} is put in as it is."""

    seeing: str
    """What the processor reads together with the image."""
    blind: str
    """The same without the image."""
    context: str
    """The end of what the language model sees before it answers."""
    lead: str
    """What stands between that and the answer."""


_VICUNA = Plain(
    "USER: <image>\n{prompt} ASSISTANT:", "USER: {prompt} ASSISTANT:", "{prompt} ASSISTANT:", " "
)
PLAIN: Mapping[str, Plain] = MappingProxyType(
    {
        "llava": _VICUNA,
        "llava_next": _VICUNA,
        "vipllava": _VICUNA,
        "paligemma": Plain("<image>{prompt}", "<bos>{prompt}\n", "{prompt}\n", ""),
        "instructblip": Plain("{prompt}", "{prompt}", "{prompt}", " "),
    }
)
"""Families that were trained on one fixed form; for all others a chat template is needed."""


@dataclass(frozen=True, eq=False)
class Preparer:
    """Runs a processor once an image, whatever the number of prompts about it."""

    prompts: Prompts
    image_token_id: int

    def see(self, source: ImageSource, rendered: Rendered) -> Seen:
        """Open and prepare an image; any prompt about it will do."""
        import torch

        image = source.open()
        try:
            found = self._processed(image, rendered)
        except _FAILURES as error:
            # Is it this image, or would every image fail?
            try:
                self._processed(image.resize((_USUAL, _USUAL)), rendered)
            except _FAILURES:
                raise UnbagError(
                    f"{self.prompts.name} cannot prepare any image: {error}",
                    expected="a processor and a chat template that put the image into the prompt",
                    hint="take the processor and chat_template that belong to this model",
                ) from error
            raise ImageError(
                source.key,
                f"{self.prompts.name} cannot prepare the image {source.name} "
                f"({image.size[0]} x {image.size[1]} pixels): {error}",
                expected="an image of a shape that this model takes",
                hint="cut it to a usual shape",
            ) from error
        whole = [int(i) for i in found["input_ids"][0]]
        head, before = self._head(whole, rendered)
        kinds, arrays = {}, {}
        for name, value in found.items():
            if name in _TEXT or not isinstance(value, torch.Tensor):
                continue
            if value.shape == found["input_ids"].shape:
                kinds[name] = tuple(int(i) for i in value[0, : len(head)])
            else:
                arrays[name] = value
        return Seen(tuple(head), kinds, arrays, tuple(before))

    def _processed(self, image: Image, rendered: Rendered) -> Any:
        bos = self.prompts.tokenizer.bos_token
        adds = not (bos is not None and rendered.text.startswith(bos))
        return self.prompts.processor(
            text=[rendered.text], images=[image], return_tensors="pt", add_special_tokens=adds
        )

    def prompt_of(self, seen: Seen | None, rendered: Rendered) -> tuple[int, ...]:
        """Tokens of a prompt, with those of the image in their place."""
        tokens = self.prompts.tokens(rendered.text, is_start=True)
        if seen is None:
            return tuple(tokens)
        if not seen.before:
            return (*seen.head, *tokens)
        if tuple(tokens[: len(seen.before)]) != seen.before:
            raise UnbagError(
                f"the chat template of {self.prompts.name} puts words of the prompt before the "
                "picture",
                expected="the image first, so that all prompts about it share their beginning",
            )
        return (*seen.head, *self._tail(rendered, tokens[len(seen.before) :]))

    def _head(self, whole: list[int], rendered: Rendered) -> tuple[list[int], list[int]]:
        """The expanded tokens up to the end of the image, and the same as tokenized."""
        if self.image_token_id not in whole:
            raise UnbagError(
                f"the prompt of {self.prompts.name} has no place for the image "
                f"(token {self.image_token_id}): {rendered.text!r}",
                expected="a chat template that puts the image into the prompt",
                hint="take the processor and chat_template that belong to this model",
            )
        tokens = self.prompts.tokens(rendered.text, is_start=True)
        if self.image_token_id not in tokens:
            # The processor itself puts the image in front of everything.
            return whole[: len(whole) - len(tokens)], []
        last = len(tokens) - tokens[::-1].index(self.image_token_id)
        tail = self._tail(rendered, tokens[last:])
        if whole[len(whole) - len(tail) :] != tail:
            raise UnbagError(
                f"the processor of {self.prompts.name} rewrites the prompt after the image",
                expected="the tokens of the prompt as its tokenizer gives them",
                hint="this kind of model is not supported yet",
            )
        return whole[: len(whole) - len(tail)], tokens[:last]

    def _tail(self, rendered: Rendered, tokens: list[int]) -> list[int]:
        """PaliGemma's processor adds a start token and a line end around the words."""
        if self.prompts.family != "paligemma" or self.prompts.template is not None:
            return tokens
        return [int(self.prompts.tokenizer.bos_token_id), *self.prompts.tokens(rendered.context)]


@dataclass(frozen=True, eq=False)
class ChatRow:
    """One sequence to run: a prompt, some tokens of an answer, and what may come after them."""

    seen: Seen | None
    prompt: tuple[int, ...]
    given: tuple[int, ...] = ()
    """Tokens of the answer that are read, not predicted: all but the last."""
    last: tuple[int, ...] = ()
    """Tokens whose log-probability after `given` is wanted."""
    words: str = ""
    """The prompt in words, for models that read it a second time."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """All that is read."""
        return self.prompt + self.given


@dataclass(frozen=True, eq=False)
class Seen:
    """A prepared image: its tensors, and the tokens of a prompt up to its end."""

    head: tuple[int, ...]
    kinds: Mapping[str, tuple[int, ...]]
    """Other inputs with a number a token, such as mm_token_type_ids, for the tokens of the head."""
    arrays: Mapping[str, Tensor]
    """Pixels and what describes them, as a batch of one."""
    before: tuple[int, ...]
    """The head as tokenized, where one token stands for the image."""


def padded(
    rows: Sequence[Sequence[int]], *, fill: int = 0, device: str = "cpu", left: bool = True
) -> tuple[Tensor, Tensor]:
    """Rows of tokens as one tensor with its mask."""
    import torch

    longest = max((len(row) for row in rows), default=0)
    token_NL = torch.full((len(rows), longest), fill, dtype=torch.long)
    mask_NL = torch.zeros((len(rows), longest), dtype=torch.long)
    for n, row in enumerate(rows):
        at = slice(longest - len(row), longest) if left else slice(0, len(row))
        token_NL[n, at] = torch.tensor(list(row), dtype=torch.long)
        mask_NL[n, at] = 1
    return token_NL.to(device), mask_NL.to(device)


def joined(seen: Sequence[Seen], *, device: str, dtype: Any) -> dict[str, Tensor]:
    """Tensors of several images as one batch; what differs in size is filled with zeros.

    Zeros are what the processors themselves fill with, and what the models then leave out.
    """
    import torch
    from torch.nn.functional import pad

    found: dict[str, Tensor] = {}
    for name in seen[0].arrays if seen else ():
        parts = [one.arrays[name] for one in seen]
        size = [max(part.shape[d] for part in parts) for d in range(1, parts[0].dim())]
        for n, part in enumerate(parts):
            missing = [want - have for want, have in zip(size, part.shape[1:], strict=True)]
            if any(missing):
                # At the end of every dimension but the first; `pad` begins with the last.
                parts[n] = pad(part, [m for gap in reversed(missing) for m in (0, gap)])
        whole = torch.cat(parts).to(device)
        found[name] = whole.to(dtype) if whole.is_floating_point() else whole
    return found
