"""Runs chat models of transformers on prepared prompts and decodes their answers.

A runner gives logits, or hidden states for those who embed with them; `Decoder` takes the most
probable token each time, optionally against the language prior (M3ID).

Dimensions: N rows or answers, B images, L tokens, P tokens of a shared beginning, K last
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
"""Kinds with causal attention throughout, so that a beginning does not depend on its end."""
SHARES_FEATURES = frozenset({"paligemma"})
"""Kinds whose prompt and image look at each other."""
NOTHING = -1
"""Stands after the end of an answer."""
_BETWEEN_IMAGE_AND_TEXT = "\n"
"""Stands between the image and the text, as in the data that VLM2Vec was trained on."""


@dataclass(frozen=True, eq=False)
class CausalRunner:
    """Runs a chat model that reads image, prompt and answer as one sequence.

    In one of three ways, from the fastest to the safest. Where attention is causal, the beginning
    that all prompts about an image share (the image itself) is run once and its keys and values
    serve every prompt. Where words change what the image's tokens become, only the image
    encoder's features are computed once. For all other kinds an image is run with every prompt.
    """

    model: Any
    family: str
    device: str
    pad: int
    is_shared: bool = True
    """False runs every prompt with its image, to compare."""

    def logits(self, rows: Sequence[ChatRow], keep: int) -> Tensor:
        """Logits at the last `keep` tokens of every row, [N, K, V]."""
        import torch

        seen = list({id(row.seen): row.seen for row in rows if row.seen is not None}.values())
        may_share = self.is_shared and 0 < len(seen) < len(rows)
        if may_share and self.family in SHARES_BEGINNING:
            return self._by_beginning(rows, seen, keep)
        if may_share and self.family in SHARES_FEATURES:
            arrays = joined(seen, device=self.device, dtype=self.model.dtype)
            with torch.inference_mode():
                features: Tensor = self.model.get_image_features(**arrays).pooler_output
            places = {id(one): b for b, one in enumerate(seen)}
            return self._whole(rows, keep, features=features[[places[id(r.seen)] for r in rows]])[0]
        return self._whole(rows, keep)[0]

    def start(self, rows: Sequence[ChatRow]) -> tuple[Tensor, CausalState]:
        """Read the prompts; logits of the first token of the answer, [N, V]."""
        logit_NKV, state = self._whole(rows, 1, caches=True)
        assert state is not None
        return logit_NKV[:, -1], state

    def hidden(self, rows: Sequence[ChatRow], *, left: bool = True) -> Tensor:
        """What the last layer makes of the last token of every row, [N, W].

        With gradients where they are on. `left` is the side of the padding: no number turns on it.
        """
        inputs = self._inputs(rows, left=left)
        return last_hidden(self.model, inputs, inputs["attention_mask"])

    def step(self, token_N: Tensor, state: CausalState) -> tuple[Tensor, CausalState]:
        """Read one token more; logits of the one after it, [N, V]."""
        import torch

        mask_NL = torch.cat([state.mask_NL, torch.ones_like(token_N)[:, None]], dim=1)
        found = self._forward(
            input_ids=token_N[:, None],
            attention_mask=mask_NL,
            position_ids=self._text_positions(state.next_N[:, None]),
            past_key_values=state.cache,
            use_cache=True,
        )
        return found.logits[:, -1], CausalState(found.past_key_values, mask_NL, state.next_N + 1)

    def _whole(
        self,
        rows: Sequence[ChatRow],
        keep: int,
        *,
        features: Tensor | None = None,
        caches: bool = False,
    ) -> tuple[Tensor, CausalState | None]:
        """Every row from its first token on, with its own image."""
        inputs = self._inputs(rows, features=features)
        found = self._forward(keep=keep, use_cache=caches, **inputs)
        state = None
        if caches:
            # The position after the last one of every row; padding on the left has position 0.
            largest = inputs["position_ids"].amax(dim=-1)
            next_N = (largest.amax(dim=0) if largest.dim() == 2 else largest) + 1
            state = CausalState(found.past_key_values, inputs["attention_mask"], next_N)
        return found.logits[:, -keep:], state

    def _inputs(
        self, rows: Sequence[ChatRow], *, features: Tensor | None = None, left: bool = True
    ) -> dict[str, Any]:
        """What the model takes; `left` is the side of the padding."""
        token_NL, mask_NL = padded(
            [row.tokens for row in rows], fill=self.pad, device=self.device, left=left
        )
        seen = [row.seen for row in rows if row.seen is not None]
        arrays: dict[str, Any] = joined(seen, device=self.device, dtype=self.model.dtype)
        kinds = self._kinds(rows, left=left)
        position_TNL = self._positions(token_NL, mask_NL, kinds, arrays)
        if features is not None:
            # As the models of transformers look into the output of an image encoder.
            arrays = {"mm_encoder_outputs": {"image": SimpleNamespace(pooler_output=features)}}
        if "token_type_ids" in self._accepts and "token_type_ids" in kinds:
            arrays["token_type_ids"] = kinds["token_type_ids"]
        return {
            "input_ids": token_NL,
            "attention_mask": mask_NL,
            "position_ids": position_TNL,
            **arrays,
        }

    def _by_beginning(self, rows: Sequence[ChatRow], seen: Sequence[Seen], keep: int) -> Tensor:
        """Read each image once, then the rest of every prompt about it."""
        import torch

        places = {id(one): b for b, one in enumerate(seen)}
        shared = [_shared([row for row in rows if row.seen is one]) for one in seen]
        firsts = [next(row for row in rows if row.seen is one) for one in seen]
        begun = [
            ChatRow(one, row.prompt[:length])
            for one, row, length in zip(seen, firsts, shared, strict=True)
        ]
        _, state = self._whole(begun, 1, caches=True)
        assert state is not None
        place_N = torch.tensor([places[id(row.seen)] for row in rows], device=self.device)
        state.cache.batch_select_indices(place_N)
        rest = [row.tokens[shared[places[id(row.seen)]] :] for row in rows]
        token_NL, mask_NL = padded(rest, fill=self.pad, device=self.device)
        position_NL = state.next_N[place_N][:, None] + (mask_NL.cumsum(dim=1) - 1).clamp(min=0)
        found = self._forward(
            input_ids=token_NL,
            attention_mask=torch.cat([state.mask_NL[place_N], mask_NL], dim=1),
            position_ids=self._text_positions(position_NL),
            past_key_values=state.cache,
            use_cache=True,
            keep=keep,
        )
        logit_NKV: Tensor = found.logits[:, -keep:]
        return logit_NKV

    def _forward(self, *, keep: int = 1, **inputs: Any) -> Any:
        """Logits of the last tokens only, where the model can leave out the others."""
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
        """Positions in time, height and width, as Qwen-VL has them."""
        return hasattr(getattr(self.model, "model", None), "get_rope_index")

    def _kinds(self, rows: Sequence[ChatRow], *, left: bool) -> dict[str, Tensor]:
        """Inputs with a number a token: as the processor gave them, 0 for words.

        For PaliGemma the tokens of an answer are 1: they look back only.
        """
        answer = 1 if self.family == "paligemma" else 0
        names = {name for row in rows if row.seen for name in row.seen.kinds}
        names |= {"token_type_ids"} if self.family == "paligemma" else set()
        found = {}
        for name in names:
            lists = []
            for row in rows:
                head = row.seen.kinds.get(name, ()) if row.seen else ()
                words = len(row.prompt) - len(head)
                if words < 0:
                    head, words = head[: len(row.prompt)], 0
                lists.append([*head, *[0] * words, *[answer] * len(row.given)])
            found[name] = padded(lists, device=self.device, left=left)[0]
        return found

    def _positions(
        self, token_NL: Tensor, mask_NL: Tensor, kinds: dict[str, Tensor], arrays: dict[str, Any]
    ) -> Tensor:
        """[N, L], or [3, N, L] where an image's tokens have a place in time, height and width."""
        if "image_grid_thw" in arrays and self._has_axes:
            found: Tensor = self.model.model.get_rope_index(
                token_NL,
                mm_token_type_ids=kinds["mm_token_type_ids"],
                image_grid_thw=arrays["image_grid_thw"],
                attention_mask=mask_NL,
            )[0]
            return found
        first = 1 if self.family == "paligemma" else 0
        return (mask_NL.cumsum(dim=1) - 1).clamp(min=0) + first

    def _text_positions(self, position_NL: Tensor) -> Tensor:
        if self._has_axes:
            return position_NL.expand(3, *position_NL.shape)
        return position_NL


@dataclass(frozen=True, eq=False)
class CausalState:
    """What a language model remembers of the rows it has read."""

    cache: Any
    mask_NL: Tensor
    next_N: Tensor
    """Position of the next token."""


def _shared(rows: Sequence[ChatRow]) -> int:
    """Tokens that all rows begin with, up to one before the first answer."""
    first, *others = (row.prompt for row in rows)
    most = min(len(row.prompt) for row in rows) - 1
    length = 0
    while length < most and all(other[length] == first[length] for other in others):
        length += 1
    return length


@dataclass(frozen=True, eq=False)
class BlipRunner:
    """Runs an InstructBLIP.

    Its Q-Former reads the prompt too, so that what it says of an image differs from prompt to
    prompt: only the image encoder's output is computed once. Its language model is a decoder, or an
    encoder that reads the prompt and a decoder that answers (Flan-T5).
    """

    model: Any
    tokenizer: Any
    """Of the Q-Former."""
    device: str
    pad: int
    is_shared: bool = True

    @property
    def reads_apart(self) -> bool:
        """Whether an encoder reads the prompt and a decoder answers."""
        return not self.model.config.use_decoder_only_language_model

    def logits(self, rows: Sequence[ChatRow], keep: int) -> Tensor:
        """Logits at the last `keep` places of every answer, [N, K, V]."""
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
        # The last places of each row, where rows are padded on the right.
        ends = torch.tensor([len(row) for row in given], device=logit_NLV.device)
        place_NK = ends[:, None] - keep + torch.arange(keep, device=logit_NLV.device)
        rows_N1 = torch.arange(len(given), device=logit_NLV.device)[:, None]
        return logit_NLV[rows_N1, place_NK.clamp(min=0)]

    def start(self, rows: Sequence[ChatRow]) -> tuple[Tensor, BlipState]:
        """Logits of the first token of the answer, [N, V]."""
        return self.logits(rows, 1)[:, -1], BlipState(tuple(rows))

    def step(self, token_N: Tensor, state: BlipState) -> tuple[Tensor, BlipState]:
        """Logits of the token after one more, [N, V]."""
        rows = [
            ChatRow(row.seen, row.prompt, (*row.given, int(token)), words=row.words)
            for row, token in zip(state.rows, token_N, strict=True)
        ]
        return self.start(rows)

    def _run(self, rows: Sequence[ChatRow], inputs: dict[str, Any]) -> Tensor:
        if any(row.seen is None for row in rows):
            # The language prior: the language model alone.
            found: Tensor = self.model.language_model(**inputs).logits
            return found
        seen = list({id(row.seen): row.seen for row in rows if row.seen}.values())
        places = [next(b for b, one in enumerate(seen) if one is row.seen) for row in rows]
        words = self.tokenizer([row.words for row in rows], padding=True, return_tensors="pt")
        inputs |= {
            "qformer_input_ids": words["input_ids"].to(self.device),
            "qformer_attention_mask": words["attention_mask"].to(self.device),
        }
        pixels = joined(seen, device=self.device, dtype=self.model.dtype)["pixel_values"]
        if not self.is_shared:
            logits: Tensor = self.model(pixel_values=pixels[places], **inputs).logits
            return logits
        with self._recalled(pixels, places):
            shared: Tensor = self.model(pixel_values=pixels[:0], **inputs).logits
            return shared

    @contextmanager
    def _recalled(self, pixels: Tensor, places: Sequence[int]) -> Iterator[None]:
        """The image encoder answers with what it said of each image once."""
        encoder = self.model.vision_model
        once = encoder(pixel_values=pixels, return_dict=True)
        again = type(once)(**{name: value[list(places)] for name, value in once.items()})
        # Looked up on the module before the class, and taken away again below.
        encoder.forward = lambda **_: again
        try:
            yield
        finally:
            del encoder.forward


@dataclass(frozen=True, eq=False)
class BlipState:
    """Rows read so far; nothing is cached, since answers of these models are short."""

    rows: tuple[ChatRow, ...]


def plainly(preparer: Preparer, text: str, *, sees: bool) -> Rendered:
    """A text behind the mark of an image, or alone; VLM2Vec reads it without a chat template."""
    prompts = preparer.prompts
    if not text.strip():
        raise UnbagError(
            f"{prompts.name} was given an empty text to embed",
            expected="words: a caption, an answer or an instruction",
            hint="leave out the items or pairs with an empty caption",
        )
    if prompts.family == "paligemma" and prompts.template is None:
        # Its processor writes the start token and a line end by itself, whatever it is given.
        return prompts.render(text, sees=sees)
    prompts.check_words(text)
    whole = f"{_mark(preparer)}{_BETWEEN_IMAGE_AND_TEXT}{text}" if sees else text
    return Rendered(whole, whole, "")


def _mark(preparer: Preparer) -> str:
    """What stands for an image, with the tokens that the model knows around one."""
    prompts = preparer.prompts
    tokenizer = prompts.tokenizer
    own = prompts.image_token or str(tokenizer.convert_ids_to_tokens(preparer.image_token_id))
    if prompts.template is None:
        return own
    before, _, after = prompts.render("?", sees=True).text.partition(own)
    known = [str(token) for token in tokenizer.added_tokens_decoder.values()]
    start = next((token for token in known if before.endswith(token)), "")
    end = next((token for token in known if after.startswith(token)), "")
    return f"{start}{own}{end}" if start and end else own


def last_hidden(model: Any, inputs: Mapping[str, Any], mask_NL: Tensor) -> Tensor:
    """At the last token of every row that is not padding, [N, W], in the model's own precision."""
    base = model.base_model
    if base is model:
        found = model(**inputs, output_hidden_states=True, use_cache=False, return_dict=True)
        hidden = (getattr(found, "hidden_states", None) or [None])[-1]
    else:
        # Without the head, whose logits nobody asks for here.
        found = base(**inputs, use_cache=False, return_dict=True)
        hidden = getattr(found, "last_hidden_state", None)
    shape = None if hidden is None else tuple(hidden.shape)
    if hidden is None or len(hidden.shape) != 3 or hidden.shape[:2] != mask_NL.shape:
        raise UnbagError(
            f"a {type(model).__name__} gives hidden states of shape {shape} for tokens of shape "
            f"{tuple(mask_NL.shape)}",
            expected="one vector a token, those of the image included",
            hint="this kind of model cannot be embedded with yet",
        )
    return pooled(hidden, mask_NL)


def pooled(hidden_NLW: Tensor, mask_NL: Tensor) -> Tensor:
    """Each row's vector at its last token, whichever side the padding is on, [N, W]."""
    import torch

    place_L = torch.arange(mask_NL.shape[1], device=mask_NL.device)
    # 1-based, so that a row without any token differs from one that ends at once.
    last_N = ((place_L + 1) * (mask_NL != 0)).amax(dim=1) - 1
    return hidden_NLW[torch.arange(len(hidden_NLW), device=mask_NL.device), last_N]


@dataclass(frozen=True, eq=False)
class Decoder:
    """Takes the most probable token each time: as it is, or as M3ID sees it."""

    runner: CausalRunner | BlipRunner
    tokenizer: Any
    ends: frozenset[int]
    m3id: M3ID | None
    longest: int

    def __call__(self, pairs: Sequence[tuple[ChatRow, ChatRow | None]]) -> Tensor:
        """Rows with their image and, for M3ID, without it; tokens of the answers, [N, L]."""
        import torch

        runner: Any = self.runner
        seen_NV, seen = runner.start([row for row, _ in pairs])
        blind = [row for _, row in pairs if row is not None]
        prior_NV, prior = runner.start(blind) if self.m3id else (None, None)
        end_E = torch.tensor(sorted(self.ends), dtype=torch.long, device=seen_NV.device)
        is_over_N = torch.zeros(len(pairs), dtype=torch.bool, device=seen_NV.device)
        found = []
        for step in range(self.longest):
            log_NV = seen_NV.float().log_softmax(dim=-1)
            if self.m3id is not None and prior_NV is not None:
                log_NV = self.m3id(log_NV, prior_NV.float().log_softmax(dim=-1), step)
            token_N = log_NV.argmax(dim=-1)
            is_over_N = is_over_N | torch.isin(token_N, end_E)
            found.append(token_N.masked_fill(is_over_N, NOTHING))
            if bool(is_over_N.all()) or step + 1 == self.longest:
                break
            seen_NV, seen = runner.step(token_N, seen)
            if self.m3id is not None:
                prior_NV, prior = runner.step(token_N, prior)
        found += [torch.full_like(found[0], NOTHING)] * (self.longest - len(found))
        return torch.stack(found, dim=1)

    def text(self, token_L: Tensor) -> str:
        """The words of an answer."""
        tokens = [int(token) for token in token_L if int(token) != NOTHING]
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True)).strip()


@dataclass(frozen=True)
class M3ID:
    """Decoding against the language prior: how strongly, and when.

    Favero et al. 2024, as described in "On Erroneous Agreements", sec. 5.1. The longer the answer,
    the more the language prior would take over, so the more what the image adds is weighted.
    """

    alpha: float = 0.6
    """A token more probable than this is left alone."""
    forgetting: float = 0.15
    """Lambda: how fast the image is forgotten, per token."""
    first: int = 1
    """Number of the first step. With 0 the first token is never changed, nor then an answer of one
    letter; the paper does not say."""
    cap: float = 50.0
    """Largest weight of the difference."""

    def __post_init__(self) -> None:
        if self.alpha < 0 or self.forgetting < 0 or self.first < 0 or self.cap < 0:
            raise UnbagError(
                f"M3ID with alpha {self.alpha}, lambda {self.forgetting}, first step {self.first} "
                f"and cap {self.cap}",
                expected="numbers of 0 or more",
            )

    def weight(self, step: int) -> float:
        """(1 - e^-x) / e^-x = e^x - 1, x = lambda t, for the step counted from 0."""
        exponent = self.forgetting * (step + self.first)
        return min(math.expm1(min(exponent, 700.0)), self.cap)

    def __call__(self, seen_NV: Tensor, prior_NV: Tensor, step: int) -> Tensor:
        """Both log-probabilities, normalised; what comes out is not normalised again."""
        limit = math.log(self.alpha) if self.alpha > 0 else -math.inf
        doubts_N1 = seen_NV.amax(dim=-1, keepdim=True) < limit
        changed_NV = seen_NV + self.weight(step) * (seen_NV - prior_NV)
        return changed_NV.where(doubts_N1, seen_NV)
