"""A prompt comes in; the text a chat model was trained to read, and tokens of answers, go out.

An answer is scored as the chat template yields it: what stands between the prompt and an answer
(" Yes" or "Yes") is found by rendering the template with an answer in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from unbag.errors import UserError
from unbag.models.hf_source import quietly

_PROBE = "Yes"
_WAY_OUT = "take the instruction-tuned version of this model, with its own chat_template"


@dataclass(frozen=True)
class Plain:
    """How a family without a chat template is asked; {prompt} is put in as it is."""

    seeing: str
    """What the processor reads together with the picture."""
    blind: str
    """The same without the picture."""
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


@dataclass(frozen=True)
class Rendered:
    """A prompt as the model reads it."""

    text: str
    context: str
    lead: str


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
        """Refuse a prompt that holds the mark of a picture."""
        if self.image_token and self.image_token in prompt:
            raise UserError(
                f"the prompt {prompt!r} holds {self.image_token!r}",
                expected="words: this is where the model puts its picture",
                way_out="take the mark out of the caption (for a benchmark, in a copy of its files "
                "given with --data), or take a model with another mark",
            )

    def answer_tokens(self, rendered: Rendered, answer: str, *, ends: bool = False) -> list[int]:
        """Tokens of an answer where it stands, with the end of the answer if asked for."""
        before = "" if self.reads_apart else rendered.context
        lead = "" if self.reads_apart else rendered.lead
        first, whole = self.tokens(before), self.tokens(before + lead + answer)
        if whole[: len(first)] != first or len(whole) == len(first):
            raise UserError(
                f"the tokenizer of {self.name} does not keep the answer {answer!r} apart from the "
                f"prompt before it ({before[-20:]!r})",
                expected="tokens of the prompt, then tokens of the answer",
                way_out="take a prompt that ends otherwise, or another model",
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
            raise UserError(
                f"the tokenizer of {self.name} has no token that ends an answer",
                expected="an eos_token, or one that the chat template puts after an answer",
                way_out="use a scorer without the end of the answer, such as yes",
            )
        return self.own_end

    @cached_property
    def _plain(self) -> Plain:
        if self.family not in PLAIN:
            raise UserError(
                f"{self.name} has no chat template, and no fixed form of prompt is known for its "
                f"kind ({self.family})",
                expected=f"a chat_template, or one of the kinds {', '.join(PLAIN)}",
                way_out=_WAY_OUT,
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
            raise UserError(
                f"the chat template of {self.name} does not ask for an answer where it puts one: "
                f"{asked[-40:]!r} against {whole[-60:]!r}",
                expected="an answer right after the generation prompt",
                way_out="take a version of this model that answers without thinking aloud first",
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
            raise UserError(
                f"the chat template of {self.name} fails: {error}",
                expected="messages of a user and an assistant, each a list of contents",
                way_out=_WAY_OUT,
            ) from error
        return str(found)
