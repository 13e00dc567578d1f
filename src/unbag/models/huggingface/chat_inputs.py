"""Conversion of prompts and images to the tokens and tensors of a chat model.

Answers are scored as the chat template renders them: the separator between prompt and answer
(" Yes" or "Yes") is found by rendering the template with an answer.

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

_TEST_ANSWER = "Yes"
_HINT = "use the instruction-tuned version of this model, with its own chat_template"
_TEXT_INPUTS = frozenset({"input_ids", "attention_mask", "labels"})
_PROCESSOR_ERRORS = (ValueError, TypeError, RuntimeError, ZeroDivisionError)
"""Errors that processors raise."""
_USUAL_SIDE = 336
"""Side of an image that every model accepts."""


@dataclass(frozen=True, eq=False)
class Prompts:
    """Renders the prompts of a model and finds the tokens of its answers."""

    name: str
    family: str
    processor: Any
    image_token: str
    reads_apart: bool = False
    """Whether an encoder reads the prompt and a decoder answers, so that no text precedes it."""

    @property
    def tokenizer(self) -> Any:
        """Tokenizer of the language model."""
        return self.processor.tokenizer

    @property
    def template(self) -> str | None:
        """The chat template of the processor, or else of its tokenizer."""
        of_processor = getattr(self.processor, "chat_template", None)
        template = of_processor or getattr(self.tokenizer, "chat_template", None)
        return template.get("default") if isinstance(template, dict) else template

    def render(self, prompt: str, *, sees: bool) -> Rendered:
        """Render a prompt in the format of this model, up to the answer."""
        self.check_words(prompt)
        if self.template is None:
            form = self._format
            text = (form.seeing if sees else form.blind).replace("{prompt}", prompt)
            text = text.replace("<bos>", self.tokenizer.bos_token or "")
            return Rendered(text, form.context.replace("{prompt}", prompt), form.lead)
        text = self._render_template(prompt, sees=sees)
        if self.family == "idefics2":
            # As its processor does, which would otherwise change the text later.
            text = re.sub(rf"{re.escape(self.image_token)}(?=[^\s<])", f"{self.image_token} ", text)
        return Rendered(text, text, self._separators[0])

    def check_words(self, prompt: str) -> None:
        """Raise UnbagError if the prompt contains the image token."""
        if self.image_token and self.image_token in prompt:
            raise UnbagError(
                f"the prompt {prompt!r} contains {self.image_token!r}",
                expected="words only: this token stands for the image",
                hint="remove the token from the caption (for a benchmark, in a copy of its files "
                "given with --data), or use a model with another image token",
            )

    def answer_tokens(self, rendered: Rendered, answer: str, *, ends: bool = False) -> list[int]:
        """Return the tokens of an answer in its context, with the end token if `ends`."""
        before = "" if self.reads_apart else rendered.context
        lead = "" if self.reads_apart else rendered.lead
        prompt, whole = self.tokens(before), self.tokens(before + lead + answer)
        if whole[: len(prompt)] != prompt or len(whole) == len(prompt):
            raise UnbagError(
                f"the tokenizer of {self.name} does not keep the answer {answer!r} apart from the "
                f"prompt before it ({before[-20:]!r})",
                expected="tokens of the prompt, then tokens of the answer",
                hint="use a prompt with another ending, or another model",
            )
        return whole[len(prompt) :] + ([self.end] if ends else [])

    def tokens(self, text: str, *, is_start: bool = False) -> list[int]:
        """Tokenize a text; at the start of a sequence with the start token of the tokenizer."""
        bos = self.tokenizer.bos_token
        adds = is_start and not (bos is not None and text.startswith(bos))
        return [int(i) for i in self.tokenizer(text, add_special_tokens=adds)["input_ids"]]

    @cached_property
    def own_end(self) -> int | None:
        """The end token of an answer in the template, or else of the tokenizer."""
        tokens = self.tokens(self._separators[1].lstrip()) if self.template else []
        special = {*self.tokenizer.all_special_ids, *self.tokenizer.added_tokens_decoder}
        end = tokens[0] if tokens and tokens[0] in special else self.tokenizer.eos_token_id
        return None if end is None else int(end)

    @property
    def end(self) -> int:
        """The end token; UnbagError if there is none."""
        if self.own_end is None:
            raise UnbagError(
                f"the tokenizer of {self.name} has no end token",
                expected="an eos_token, or one that the chat template puts after an answer",
                hint="use a scorer without the end of the answer, such as yes",
            )
        return self.own_end

    @cached_property
    def _format(self) -> Plain:
        if self.family not in PLAIN:
            raise UnbagError(
                f"{self.name} has no chat template, and the prompt format of its kind is "
                f"unknown ({self.family})",
                expected=f"a chat_template, or one of the kinds {', '.join(PLAIN)}",
                hint=_HINT,
            )
        return PLAIN[self.family]

    @cached_property
    def _separators(self) -> tuple[str, str]:
        """The text that the template puts before and after an answer."""
        prompt = self._render_template("?", sees=False)
        dialogue = self._render_template("?", sees=False, answer=_TEST_ANSWER)
        rest = dialogue.removeprefix(prompt)
        lead, answer, tail = rest.partition(_TEST_ANSWER)
        if not dialogue.startswith(prompt) or not answer or lead.strip():
            raise UnbagError(
                f"the chat template of {self.name} does not place an answer after the prompt: "
                f"{prompt[-40:]!r} against {dialogue[-60:]!r}",
                expected="an answer right after the generation prompt",
                hint="use a version of this model that answers without reasoning first",
            )
        return lead, tail

    def _render_template(self, prompt: str, *, sees: bool, answer: str = "") -> str:
        """Render the chat template."""
        content = [{"type": "image"}] if sees else []
        messages = [{"role": "user", "content": [*content, {"type": "text", "text": prompt}]}]
        if answer:
            reply = [{"type": "text", "text": answer}]
            messages.append({"role": "assistant", "content": reply})
        try:
            with quietly():
                text = self.processor.apply_chat_template(
                    messages, chat_template=self.template, add_generation_prompt=not answer
                )
        except Exception as error:
            # Templates are programs and may raise any error.
            raise UnbagError(
                f"the chat template of {self.name} fails: {error}",
                expected="messages of a user and an assistant, each a list of contents",
                hint=_HINT,
            ) from error
        return str(text)


@dataclass(frozen=True)
class Rendered:
    """A rendered prompt."""

    text: str
    context: str
    lead: str


@dataclass(frozen=True)
class Plain:
    """The prompt format of a family without a chat template."""

    seeing: str
    """Text for the processor with an image."""
    blind: str
    """Text without an image."""
    context: str
    """The end of the text before an answer."""
    lead: str
    """Separator before the answer."""


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
"""Formats of families with one fixed format; all others need a chat template."""


@dataclass(frozen=True, eq=False)
class Preparer:
    """Runs the processor once per image, for all prompts about it."""

    prompts: Prompts
    image_token_id: int

    def see(self, source: ImageSource, rendered: Rendered) -> Seen:
        """Open and prepare an image, with any prompt about it."""
        import torch

        image = source.open()
        try:
            inputs = self._processed(image, rendered)
        except _PROCESSOR_ERRORS as error:
            # Check whether every image fails, or only this one.
            try:
                self._processed(image.resize((_USUAL_SIDE, _USUAL_SIDE)), rendered)
            except _PROCESSOR_ERRORS:
                raise UnbagError(
                    f"{self.prompts.name} cannot prepare any image: {error}",
                    expected="a processor and a chat template that put the image into the prompt",
                    hint="use the processor and chat_template that belong to this model",
                ) from error
            raise ImageError(
                source.key,
                f"{self.prompts.name} cannot prepare the image {source.name} "
                f"({image.size[0]} x {image.size[1]} pixels): {error}",
                expected="an image of a shape that this model accepts",
                hint="crop it to a usual shape",
            ) from error
        tokens = [int(i) for i in inputs["input_ids"][0]]
        head, before = self._head(tokens, rendered)
        token_inputs, arrays = {}, {}
        for name, value in inputs.items():
            if name in _TEXT_INPUTS or not isinstance(value, torch.Tensor):
                continue
            if value.shape == inputs["input_ids"].shape:
                token_inputs[name] = tuple(int(i) for i in value[0, : len(head)])
            else:
                arrays[name] = value
        return Seen(tuple(head), token_inputs, arrays, tuple(before))

    def _processed(self, image: Image, rendered: Rendered) -> Any:
        bos = self.prompts.tokenizer.bos_token
        adds = not (bos is not None and rendered.text.startswith(bos))
        return self.prompts.processor(
            text=[rendered.text], images=[image], return_tensors="pt", add_special_tokens=adds
        )

    def prompt_of(self, seen: Seen | None, rendered: Rendered) -> tuple[int, ...]:
        """Return the tokens of a prompt with the tokens of the image."""
        tokens = self.prompts.tokens(rendered.text, is_start=True)
        if seen is None:
            return tuple(tokens)
        if not seen.before:
            return (*seen.head, *tokens)
        if tuple(tokens[: len(seen.before)]) != seen.before:
            raise UnbagError(
                f"the chat template of {self.prompts.name} puts words of the prompt before the "
                "image",
                expected="the image first, so that all prompts about it share a prefix",
            )
        return (*seen.head, *self._tail(rendered, tokens[len(seen.before) :]))

    def _head(self, expanded: list[int], rendered: Rendered) -> tuple[list[int], list[int]]:
        """Return the tokens up to the end of the image, expanded and as tokenized."""
        if self.image_token_id not in expanded:
            raise UnbagError(
                f"the prompt of {self.prompts.name} has no place for the image "
                f"(token {self.image_token_id}): {rendered.text!r}",
                expected="a chat template that puts the image into the prompt",
                hint="use the processor and chat_template that belong to this model",
            )
        tokens = self.prompts.tokens(rendered.text, is_start=True)
        if self.image_token_id not in tokens:
            # The processor itself puts the image first.
            return expanded[: len(expanded) - len(tokens)], []
        last = len(tokens) - tokens[::-1].index(self.image_token_id)
        tail = self._tail(rendered, tokens[last:])
        if expanded[len(expanded) - len(tail) :] != tail:
            raise UnbagError(
                f"the processor of {self.prompts.name} rewrites the prompt after the image",
                expected="the tokens of the prompt as its tokenizer gives them",
                hint="this kind of model is not supported yet",
            )
        return expanded[: len(expanded) - len(tail)], tokens[:last]

    def _tail(self, rendered: Rendered, tokens: list[int]) -> list[int]:
        """Return the tokens after the image, with those that PaliGemma's processor adds."""
        if self.prompts.family != "paligemma" or self.prompts.template is not None:
            return tokens
        return [int(self.prompts.tokenizer.bos_token_id), *self.prompts.tokens(rendered.context)]


@dataclass(frozen=True, eq=False)
class ChatRow:
    """A sequence to run: a prompt, the first tokens of an answer, and candidates for the next."""

    seen: Seen | None
    prompt: tuple[int, ...]
    given: tuple[int, ...] = ()
    """Tokens of the answer before the last."""
    last: tuple[int, ...] = ()
    """Tokens to score after `given`."""
    words: str = ""
    """The text of the prompt, for models that also read it separately."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """All tokens that are read."""
        return self.prompt + self.given


@dataclass(frozen=True, eq=False)
class Seen:
    """A prepared image: its tensors, and the tokens of a prompt up to the end of the image."""

    head: tuple[int, ...]
    kinds: Mapping[str, tuple[int, ...]]
    """Other inputs with one number per token, such as mm_token_type_ids, for the head."""
    arrays: Mapping[str, Tensor]
    """Pixels and their metadata, as a batch of one."""
    before: tuple[int, ...]
    """The head as tokenized, with one token for the image."""


def padded(
    rows: Sequence[Sequence[int]], *, fill: int = 0, device: str = "cpu", left: bool = True
) -> tuple[Tensor, Tensor]:
    """Pad rows of tokens to one tensor with its mask."""
    import torch

    longest = max((len(row) for row in rows), default=0)
    token_NL = torch.full((len(rows), longest), fill, dtype=torch.long)
    mask_NL = torch.zeros((len(rows), longest), dtype=torch.long)
    for n, row in enumerate(rows):
        columns = slice(longest - len(row), longest) if left else slice(0, len(row))
        token_NL[n, columns] = torch.tensor(list(row), dtype=torch.long)
        mask_NL[n, columns] = 1
    return token_NL.to(device), mask_NL.to(device)


def joined(seen: Sequence[Seen], *, device: str, dtype: Any) -> dict[str, Tensor]:
    """Batch the tensors of several images, padded with zeros.

    Processors pad with zeros too, and models ignore them.
    """
    import torch
    from torch.nn.functional import pad

    batch: dict[str, Tensor] = {}
    for name in seen[0].arrays if seen else ():
        parts = [image.arrays[name] for image in seen]
        size = [max(part.shape[d] for part in parts) for d in range(1, parts[0].dim())]
        for n, part in enumerate(parts):
            missing = [target - length for target, length in zip(size, part.shape[1:], strict=True)]
            if any(missing):
                # Pad the end of every dimension but the first; `pad` starts with the last one.
                parts[n] = pad(part, [m for gap in reversed(missing) for m in (0, gap)])
        stacked = torch.cat(parts).to(device)
        batch[name] = stacked.to(dtype) if stacked.is_floating_point() else stacked
    return batch
