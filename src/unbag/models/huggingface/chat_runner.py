"""Runs chat models of transformers on prepared prompts and decodes their answers.

A runner computes logits or hidden states. `Decoder` decodes greedily, optionally against the
language prior (M3ID).

Dimensions: N rows or answers, B images, L tokens, P tokens of a shared prefix, K last
positions, V vocabulary, T axes of positions, W width of the language model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from unbag.errors import UnbagError
from unbag.models.huggingface.chat_inputs import ChatRow, Preparer, Rendered, Seen, joined, padded

if TYPE_CHECKING:
    from torch import Tensor

SHARES_BEGINNING = frozenset(
    {
        "idefics2", "idefics3", "internvl", "llava", "llava_next", "qwen2_5_vl", "qwen2_vl",
        "qwen3_vl", "smolvlm",
    }
)  # fmt: skip
"""Families with causal attention throughout, so that a prefix does not depend on the rest."""
SHARES_FEATURES = frozenset({"paligemma"})
"""Families in which prompt and image attend to each other."""
NOTHING = -1
"""Fills the positions after the end of an answer."""
_BETWEEN_IMAGE_AND_TEXT = "\n"
"""Separator of image and text, as in the training data of VLM2Vec."""


@dataclass(frozen=True, eq=False)
class CausalRunner:
    """Runs a chat model that reads image, prompt and answer as one sequence.

    It works in one of three ways, from the fastest to the most general. With causal attention, the
    prefix that all prompts about an image share (the image itself) runs once, and every prompt
    reuses its keys and values. If the prompt changes the hidden states of the image, only the
    features of the image encoder are computed once. All other families run the image with every
    prompt.
    """

    model: Any
    family: str
    device: str
    pad: int
    is_shared: bool = True
    """False runs every prompt with its image, for comparison."""

    def logits(self, rows: Sequence[ChatRow], keep: int) -> Tensor:
        """Return logits at the last `keep` tokens of each row, [N, K, V]."""
        import torch

        images = list({id(row.seen): row.seen for row in rows if row.seen is not None}.values())
        may_share = self.is_shared and 0 < len(images) < len(rows)
        if may_share and self.family in SHARES_BEGINNING:
            return self._run_shared_prefix(rows, images, keep)
        if may_share and self.family in SHARES_FEATURES:
            arrays = joined(images, device=self.device, dtype=self.model.dtype)
            with torch.inference_mode():
                features: Tensor = self.model.get_image_features(**arrays).pooler_output
            index_of = {id(image): b for b, image in enumerate(images)}
            return self._run_full(
                rows, keep, features=features[[index_of[id(r.seen)] for r in rows]]
            )[0]
        return self._run_full(rows, keep)[0]

    def start(self, rows: Sequence[ChatRow]) -> tuple[Tensor, CausalState]:
        """Read the prompts and return logits of the first token of the answer, [N, V]."""
        logit_NKV, state = self._run_full(rows, 1, caches=True)
        assert state is not None
        return logit_NKV[:, -1], state

    def hidden(self, rows: Sequence[ChatRow], *, left: bool = True) -> Tensor:
        """Return the last hidden state at the last token of each row, [N, W].

        Gradients flow if they are enabled. `left` is the side of the padding, which does not change
        results.
        """
        inputs = self._inputs(rows, left=left)
        return last_hidden(self.model, inputs, inputs["attention_mask"])

    def step(self, token_N: Tensor, state: CausalState) -> tuple[Tensor, CausalState]:
        """Read one more token and return logits of the next, [N, V]."""
        import torch

        mask_NL = torch.cat([state.mask_NL, torch.ones_like(token_N)[:, None]], dim=1)
        output = self._forward(
            input_ids=token_N[:, None],
            attention_mask=mask_NL,
            position_ids=self._text_positions(state.next_N[:, None]),
            past_key_values=state.cache,
            use_cache=True,
        )
        return output.logits[:, -1], CausalState(output.past_key_values, mask_NL, state.next_N + 1)

    def _run_full(
        self,
        rows: Sequence[ChatRow],
        keep: int,
        *,
        features: Tensor | None = None,
        caches: bool = False,
    ) -> tuple[Tensor, CausalState | None]:
        """Run every row from its first token, with its own image."""
        inputs = self._inputs(rows, features=features)
        output = self._forward(keep=keep, use_cache=caches, **inputs)
        state = None
        if caches:
            # The position after the last of each row; padding on the left has position 0.
            largest = inputs["position_ids"].amax(dim=-1)
            next_N = (largest.amax(dim=0) if largest.dim() == 2 else largest) + 1
            state = CausalState(output.past_key_values, inputs["attention_mask"], next_N)
        return output.logits[:, -keep:], state

    def _inputs(
        self, rows: Sequence[ChatRow], *, features: Tensor | None = None, left: bool = True
    ) -> dict[str, Any]:
        """Return the inputs of the model; `left` is the side of the padding."""
        token_NL, mask_NL = padded(
            [row.tokens for row in rows], fill=self.pad, device=self.device, left=left
        )
        images = [row.seen for row in rows if row.seen is not None]
        arrays: dict[str, Any] = joined(images, device=self.device, dtype=self.model.dtype)
        token_inputs = self._token_inputs(rows, left=left)
        position_TNL = self._positions(token_NL, mask_NL, token_inputs, arrays)
        if features is not None:
            # The form in which models of transformers read the output of an image encoder.
            arrays = {"mm_encoder_outputs": {"image": SimpleNamespace(pooler_output=features)}}
        if "token_type_ids" in self._accepts and "token_type_ids" in token_inputs:
            arrays["token_type_ids"] = token_inputs["token_type_ids"]
        return {
            "input_ids": token_NL,
            "attention_mask": mask_NL,
            "position_ids": position_TNL,
            **arrays,
        }

    def _run_shared_prefix(
        self, rows: Sequence[ChatRow], images: Sequence[Seen], keep: int
    ) -> Tensor:
        """Run each image once, then the rest of every prompt about it."""
        import torch

        index_of = {id(image): b for b, image in enumerate(images)}
        lengths = [_shared_length([row for row in rows if row.seen is image]) for image in images]
        first_rows = [next(row for row in rows if row.seen is image) for image in images]
        prefixes = [
            ChatRow(image, row.prompt[:length])
            for image, row, length in zip(images, first_rows, lengths, strict=True)
        ]
        _, state = self._run_full(prefixes, 1, caches=True)
        assert state is not None
        index_N = torch.tensor([index_of[id(row.seen)] for row in rows], device=self.device)
        state.cache.batch_select_indices(index_N)
        rests = [row.tokens[lengths[index_of[id(row.seen)]] :] for row in rows]
        token_NL, mask_NL = padded(rests, fill=self.pad, device=self.device)
        position_NL = state.next_N[index_N][:, None] + (mask_NL.cumsum(dim=1) - 1).clamp(min=0)
        output = self._forward(
            input_ids=token_NL,
            attention_mask=torch.cat([state.mask_NL[index_N], mask_NL], dim=1),
            position_ids=self._text_positions(position_NL),
            past_key_values=state.cache,
            use_cache=True,
            keep=keep,
        )
        logit_NKV: Tensor = output.logits[:, -keep:]
        return logit_NKV

    def _forward(self, *, keep: int = 1, **inputs: Any) -> Any:
        """Run the model, with logits of the last tokens only if it supports that."""
        import torch

        if "logits_to_keep" in self._accepts:
            inputs["logits_to_keep"] = keep
        with torch.inference_mode():
            return self.model(**inputs, return_dict=True)

    @cached_property
    def _accepts(self) -> frozenset[str]:
        return frozenset(signature(type(self.model).forward).parameters)

    @property
    def _has_axes(self) -> bool:
        """Whether positions have time, height and width, as in Qwen-VL."""
        return hasattr(getattr(self.model, "model", None), "get_rope_index")

    def _token_inputs(self, rows: Sequence[ChatRow], *, left: bool) -> dict[str, Tensor]:
        """Return inputs with one number per token: from the processor for images, 0 for words.

        For PaliGemma, tokens of an answer are 1, since their attention is causal.
        """
        answer_value = 1 if self.family == "paligemma" else 0
        names = {name for row in rows if row.seen for name in row.seen.kinds}
        names |= {"token_type_ids"} if self.family == "paligemma" else set()
        inputs = {}
        for name in names:
            values = []
            for row in rows:
                head = row.seen.kinds.get(name, ()) if row.seen else ()
                n_words = len(row.prompt) - len(head)
                if n_words < 0:
                    head, n_words = head[: len(row.prompt)], 0
                values.append([*head, *[0] * n_words, *[answer_value] * len(row.given)])
            inputs[name] = padded(values, device=self.device, left=left)[0]
        return inputs

    def _positions(
        self,
        token_NL: Tensor,
        mask_NL: Tensor,
        token_inputs: dict[str, Tensor],
        arrays: dict[str, Any],
    ) -> Tensor:
        """Return positions [N, L], or [3, N, L] for time, height and width."""
        if "image_grid_thw" in arrays and self._has_axes:
            position_TNL: Tensor = self.model.model.get_rope_index(
                token_NL,
                mm_token_type_ids=token_inputs["mm_token_type_ids"],
                image_grid_thw=arrays["image_grid_thw"],
                attention_mask=mask_NL,
            )[0]
            return position_TNL
        first = 1 if self.family == "paligemma" else 0
        return (mask_NL.cumsum(dim=1) - 1).clamp(min=0) + first

    def _text_positions(self, position_NL: Tensor) -> Tensor:
        if self._has_axes:
            return position_NL.expand(3, *position_NL.shape)
        return position_NL


@dataclass(frozen=True, eq=False)
class CausalState:
    """Cache of a language model for the rows it has read."""

    cache: Any
    mask_NL: Tensor
    next_N: Tensor
    """Position of the next token."""


def _shared_length(rows: Sequence[ChatRow]) -> int:
    """Return the length of the common prefix of prompts, at least one token short of each."""
    first, *others = (row.prompt for row in rows)
    limit = min(len(row.prompt) for row in rows) - 1
    length = 0
    while length < limit and all(other[length] == first[length] for other in others):
        length += 1
    return length


@dataclass(frozen=True, eq=False)
class BlipRunner:
    """Runs an InstructBLIP.

    Its Q-Former reads the prompt too, so that its output depends on image and prompt; only the
    output of the image encoder is computed once. Its language model is a decoder, or an
    encoder-decoder (Flan-T5).
    """

    model: Any
    tokenizer: Any
    """Tokenizer of the Q-Former."""
    device: str
    pad: int
    is_shared: bool = True

    @property
    def reads_apart(self) -> bool:
        """Whether an encoder reads the prompt and a decoder answers."""
        return not self.model.config.use_decoder_only_language_model

    def logits(self, rows: Sequence[ChatRow], keep: int) -> Tensor:
        """Return logits at the last `keep` positions of each answer, [N, K, V]."""
        import torch

        tokens = [row.prompt if self.reads_apart else row.tokens for row in rows]
        token_NL, mask_NL = padded(tokens, fill=self.pad, device=self.device)
        inputs: dict[str, Any] = {"input_ids": token_NL, "attention_mask": mask_NL}
        start = getattr(self.model.config.text_config, "decoder_start_token_id", None)
        first = int(self.pad if start is None else start)
        given = [(first, *row.given) for row in rows]
        if self.reads_apart:
            decoded = padded(given, fill=self.pad, device=self.device, left=False)
            inputs |= {"decoder_input_ids": decoded[0], "decoder_attention_mask": decoded[1]}
        else:
            inputs["position_ids"] = (mask_NL.cumsum(dim=1) - 1).clamp(min=0)
        with torch.inference_mode():
            logit_NLV: Tensor = self._run(rows, inputs)
        if not self.reads_apart:
            return logit_NLV[:, -keep:]
        # The last positions of each row, since rows are padded on the right.
        ends = torch.tensor([len(row) for row in given], device=logit_NLV.device)
        index_NK = ends[:, None] - keep + torch.arange(keep, device=logit_NLV.device)
        rows_N1 = torch.arange(len(given), device=logit_NLV.device)[:, None]
        return logit_NLV[rows_N1, index_NK.clamp(min=0)]

    def start(self, rows: Sequence[ChatRow]) -> tuple[Tensor, BlipState]:
        """Return logits of the first token of the answer, [N, V]."""
        return self.logits(rows, 1)[:, -1], BlipState(tuple(rows))

    def step(self, token_N: Tensor, state: BlipState) -> tuple[Tensor, BlipState]:
        """Read one more token and return logits of the next, [N, V]."""
        rows = [
            ChatRow(row.seen, row.prompt, (*row.given, int(token)), words=row.words)
            for row, token in zip(state.rows, token_N, strict=True)
        ]
        return self.start(rows)

    def _run(self, rows: Sequence[ChatRow], inputs: dict[str, Any]) -> Tensor:
        if any(row.seen is None for row in rows):
            # The language prior: the language model alone.
            text_logits: Tensor = self.model.language_model(**inputs).logits
            return text_logits
        images = list({id(row.seen): row.seen for row in rows if row.seen}.values())
        indices = [next(b for b, image in enumerate(images) if image is row.seen) for row in rows]
        words = self.tokenizer([row.words for row in rows], padding=True, return_tensors="pt")
        inputs |= {
            "qformer_input_ids": words["input_ids"].to(self.device),
            "qformer_attention_mask": words["attention_mask"].to(self.device),
        }
        pixels = joined(images, device=self.device, dtype=self.model.dtype)["pixel_values"]
        if not self.is_shared:
            logits: Tensor = self.model(pixel_values=pixels[indices], **inputs).logits
            return logits
        with self._cached_features(pixels, indices):
            shared: Tensor = self.model(pixel_values=pixels[:0], **inputs).logits
            return shared

    @contextmanager
    def _cached_features(self, pixels: Tensor, indices: Sequence[int]) -> Iterator[None]:
        """Make the image encoder return features that are computed once per image."""
        encoder = self.model.vision_model
        output = encoder(pixel_values=pixels, return_dict=True)
        cached = type(output)(**{name: value[list(indices)] for name, value in output.items()})
        # The attribute of the instance takes precedence over the class; it is deleted below.
        encoder.forward = lambda **_: cached
        try:
            yield
        finally:
            del encoder.forward


@dataclass(frozen=True, eq=False)
class BlipState:
    """Rows read so far, without a cache, since answers of these models are short."""

    rows: tuple[ChatRow, ...]


def plainly(preparer: Preparer, text: str, *, sees: bool) -> Rendered:
    """Render a text after the image token, or alone, without a chat template, as for VLM2Vec."""
    prompts = preparer.prompts
    if not text.strip():
        raise UnbagError(
            f"{prompts.name} was given an empty text to embed",
            expected="words: a caption, an answer or an instruction",
            hint="remove the items or pairs with an empty caption",
        )
    if prompts.family == "paligemma" and prompts.template is None:
        # Its processor always adds the start token and a line end.
        return prompts.render(text, sees=sees)
    prompts.check_words(text)
    whole = f"{_image_marker(preparer)}{_BETWEEN_IMAGE_AND_TEXT}{text}" if sees else text
    return Rendered(whole, whole, "")


def _image_marker(preparer: Preparer) -> str:
    """Return the image token with its start and end tokens if the model has them."""
    prompts = preparer.prompts
    tokenizer = prompts.tokenizer
    own = prompts.image_token or str(tokenizer.convert_ids_to_tokens(preparer.image_token_id))
    if prompts.template is None:
        return own
    before, _, after = prompts.render("?", sees=True).text.partition(own)
    special = [str(token) for token in tokenizer.added_tokens_decoder.values()]
    start = next((token for token in special if before.endswith(token)), "")
    end = next((token for token in special if after.startswith(token)), "")
    return f"{start}{own}{end}" if start and end else own


def last_hidden(model: Any, inputs: Mapping[str, Any], mask_NL: Tensor) -> Tensor:
    """Return the last hidden state at the last real token of each row, [N, W]."""
    base = model.base_model
    if base is model:
        output = model(**inputs, output_hidden_states=True, use_cache=False, return_dict=True)
        hidden = (getattr(output, "hidden_states", None) or [None])[-1]
    else:
        # Without the head, whose logits are not needed.
        output = base(**inputs, use_cache=False, return_dict=True)
        hidden = getattr(output, "last_hidden_state", None)
    shape = None if hidden is None else tuple(hidden.shape)
    if hidden is None or len(hidden.shape) != 3 or hidden.shape[:2] != mask_NL.shape:
        raise UnbagError(
            f"a {type(model).__name__} gives hidden states of shape {shape} for tokens of shape "
            f"{tuple(mask_NL.shape)}",
            expected="one vector per token, image tokens included",
            hint="this kind of model does not support embeddings yet",
        )
    return pooled(hidden, mask_NL)


def pooled(hidden_NLW: Tensor, mask_NL: Tensor) -> Tensor:
    """Return the vector at the last real token of each row, [N, W], for padding on any side."""
    import torch

    position_L = torch.arange(mask_NL.shape[1], device=mask_NL.device)
    # 1-based, so that a row without tokens differs from one with a single token.
    last_N = ((position_L + 1) * (mask_NL != 0)).amax(dim=1) - 1
    return hidden_NLW[torch.arange(len(hidden_NLW), device=mask_NL.device), last_N]


@dataclass(frozen=True, eq=False)
class Decoder:
    """Decodes greedily, optionally with M3ID."""

    runner: CausalRunner | BlipRunner
    tokenizer: Any
    ends: frozenset[int]
    m3id: M3ID | None
    longest: int

    def __call__(self, pairs: Sequence[tuple[ChatRow, ChatRow | None]]) -> Tensor:
        """Return the tokens of answers, [N, L], for rows with and, for M3ID, without image."""
        import torch

        runner: Any = self.runner
        logit_NV, state = runner.start([row for row, _ in pairs])
        blind = [row for _, row in pairs if row is not None]
        prior_NV, prior_state = runner.start(blind) if self.m3id else (None, None)
        end_E = torch.tensor(sorted(self.ends), dtype=torch.long, device=logit_NV.device)
        is_over_N = torch.zeros(len(pairs), dtype=torch.bool, device=logit_NV.device)
        tokens = []
        for step in range(self.longest):
            log_NV = logit_NV.float().log_softmax(dim=-1)
            if self.m3id is not None and prior_NV is not None:
                log_NV = self.m3id(log_NV, prior_NV.float().log_softmax(dim=-1), step)
            token_N = log_NV.argmax(dim=-1)
            is_over_N = is_over_N | torch.isin(token_N, end_E)
            tokens.append(token_N.masked_fill(is_over_N, NOTHING))
            if bool(is_over_N.all()) or step + 1 == self.longest:
                break
            logit_NV, state = runner.step(token_N, state)
            if self.m3id is not None:
                prior_NV, prior_state = runner.step(token_N, prior_state)
        tokens += [torch.full_like(tokens[0], NOTHING)] * (self.longest - len(tokens))
        return torch.stack(tokens, dim=1)

    def text(self, token_L: Tensor) -> str:
        """Return the text of an answer."""
        tokens = [int(token) for token in token_L if int(token) != NOTHING]
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True)).strip()


@dataclass(frozen=True)
class M3ID:
    """Settings of decoding against the language prior.

    Favero et al. 2024, as described in "On Erroneous Agreements", sec. 5.1. The language prior
    grows with the length of the answer, and so does the weight of the image.
    """

    alpha: float = 0.6
    """Tokens above this probability are not changed."""
    forgetting: float = 0.15
    """Lambda: rate per token at which the image is forgotten."""
    first: int = 1
    """Number of the first step, which the paper does not state. With 0 the first token, and so an
    answer of one letter, never changes."""
    cap: float = 50.0
    """Maximum weight of the difference."""

    def __post_init__(self) -> None:
        if self.alpha < 0 or self.forgetting < 0 or self.first < 0 or self.cap < 0:
            raise UnbagError(
                f"M3ID with alpha {self.alpha}, lambda {self.forgetting}, first step {self.first} "
                f"and cap {self.cap}",
                expected="numbers of 0 or more",
            )

    def weight(self, step: int) -> float:
        """Return (1 - e^-x) / e^-x = e^x - 1 with x = lambda t, for a step counted from 0."""
        exponent = self.forgetting * (step + self.first)
        return min(math.expm1(min(exponent, 700.0)), self.cap)

    def __call__(self, seen_NV: Tensor, prior_NV: Tensor, step: int) -> Tensor:
        """Combine normalized log-probabilities; the result is not normalized."""
        limit = math.log(self.alpha) if self.alpha > 0 else -math.inf
        is_uncertain_N1 = seen_NV.amax(dim=-1, keepdim=True) < limit
        changed_NV = seen_NV + self.weight(step) * (seen_NV - prior_NV)
        return changed_NV.where(is_uncertain_N1, seen_NV)
