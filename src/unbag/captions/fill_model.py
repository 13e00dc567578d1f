"""Captions with a word left blank come in; words for the blank, and how well each fits, go out.

A masked language model names the words itself; a causal one judges those it is offered.

Dimensions: N blanks of a batch, L tokens, V vocabulary, W whole words of it, K likeliest words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from unbag.errors import UserError
from unbag.models.caption_likelihood import Likelihood, load_likelihood
from unbag.models.hf_source import (
    Source,
    need_transformers,
    parse_source,
    read_config,
    read_tokenizer,
    read_weights,
)

if TYPE_CHECKING:
    from torch import Tensor

BATCH = 32
"""Captions run together, of nearly the same length."""
TOP = 200
"""Words that a masked model names for a blank; few of them pass what is asked of a fill."""
_CAUSAL = ("ForCausalLM", "LMHeadModel")

Gains: TypeAlias = Mapping[str, float]
"""Words with how much likelier (in nats) they make the caption; below 0 for less likely ones."""


class Blank(NamedTuple):
    """A caption, the characters of one of its words, and captions with another word there."""

    text: str
    start: int
    end: int
    offered: tuple[tuple[str, str], ...]
    """Words, each with the caption that it makes, articles mended."""


class Filler(Protocol):
    """Finds words for blanks, many at once."""

    def __call__(self, blanks: Sequence[Blank]) -> list[Gains]:
        """For each blank, words with their gain; none where the model cannot read it."""


@dataclass(frozen=True, eq=False)
class CausalFiller:
    """Judges the words that are offered by the log-probability of the whole caption.

    The gain is that against the caption as it was.
    """

    model: Likelihood

    def __call__(self, blanks: Sequence[Blank]) -> list[Gains]:
        """All captions of all blanks together, each computed once."""
        texts = [blank.text for blank in blanks]
        texts += [text for blank in blanks for _, text in blank.offered]
        likely = dict(zip(texts, self.model.of(texts), strict=True))
        return [
            {
                word: likely[text] - likely[blank.text]
                for word, text in blank.offered
                if not math.isnan(likely[text] - likely[blank.text])
            }
            for blank in blanks
        ]


@dataclass(frozen=True, eq=False)
class MaskedFiller:
    """Names the likeliest whole words for a blank, whatever is offered.

    Words of several tokens are never named: with one mask a model cannot say them. The gain is that
    against the likeliest word of all, since the word that stood there may be of several tokens.
    """

    model: Any
    tokenizer: Any
    context: int

    def __call__(self, blanks: Sequence[Blank]) -> list[Gains]:
        """Batches of nearly the same length; equal blanks are computed once."""
        tokens = {blank[:3]: self._tokens(blank) for blank in blanks}
        order = sorted(
            (key for key in tokens if tokens[key]), key=lambda key: (len(tokens[key]), key)
        )
        found: dict[tuple[str, int, int], Gains] = {}
        for at in range(0, len(order), BATCH):
            some = order[at : at + BATCH]
            found.update(zip(some, self._run([tokens[key] for key in some]), strict=True))
        return [found.get(blank[:3], {}) for blank in blanks]

    @cached_property
    def words(self) -> dict[int, str]:
        """Tokens that are whole words in lower case, as they stand after a space."""
        ids = sorted(set(self.tokenizer.get_vocab().values()))
        texts = [str(self.tokenizer.decode([i])).strip() for i in ids]
        plain = [
            (i, text)
            for i, text in zip(ids, texts, strict=True)
            if len(text) > 1 and text.isascii() and text.isalpha() and text.islower()
        ]
        if not plain:
            return {}
        again = self.tokenizer([f" {text}" for _, text in plain], add_special_tokens=False)
        return {
            i: text
            for (i, text), tokens in zip(plain, again["input_ids"], strict=True)
            if tokens == [i]
        }

    def _tokens(self, blank: Blank) -> list[int]:
        """Empty where there is not exactly one mask, or the caption is too long."""
        text = blank.text[: blank.start] + self.tokenizer.mask_token + blank.text[blank.end :]
        found: list[int] = self.tokenizer(text, truncation=False, verbose=False)["input_ids"]
        is_good = found.count(self.tokenizer.mask_token_id) == 1 and len(found) <= self.context
        return found if is_good else []

    def _run(self, batch: Sequence[list[int]]) -> list[Gains]:
        import torch

        longest = max(map(len, batch))
        pad = self.tokenizer.pad_token_id
        token_NL = torch.tensor([t + [pad] * (longest - len(t)) for t in batch])
        mask_NL = torch.tensor([[1] * len(t) + [0] * (longest - len(t)) for t in batch])
        device = self.model.device
        with torch.inference_mode():
            logit_NLV = self.model(
                input_ids=token_NL.to(device), attention_mask=mask_NL.to(device)
            ).logits
        at_N = torch.tensor([t.index(self.tokenizer.mask_token_id) for t in batch])
        return self._named(logit_NLV[torch.arange(len(batch)), at_N.to(device)])

    def _named(self, logit_NV: Tensor) -> list[Gains]:
        ids = list(self.words)
        log_NV = logit_NV.float().log_softmax(dim=-1).cpu()
        value_NK, at_NK = log_NV[:, ids].topk(min(TOP, len(ids)), dim=-1)
        best_N = log_NV.amax(dim=-1)
        return [
            {self.words[ids[i]]: value - best for i, value in zip(at_K, value_K, strict=True)}
            for at_K, value_K, best in zip(
                at_NK.tolist(), value_NK.double().tolist(), best_N.double().tolist(), strict=True
            )
        ]


def load_filler(path: str, *, device: str = "cpu") -> Filler:
    """By its kind: a masked model, or a causal one (a .gguf file too)."""
    if path.endswith(".gguf"):
        return CausalFiller(load_likelihood(path, device=device))
    need_transformers("a language model for fills")
    source = parse_source(path)
    kinds = tuple(read_config(source).architectures or ())
    if any(kind.endswith("ForMaskedLM") for kind in kinds):
        return _masked(source, device)
    if any(kind.endswith(_CAUSAL) for kind in kinds):
        return CausalFiller(load_likelihood(path, device=device))
    raise UserError(
        f"{path} is a {' or '.join(kinds) or 'model of unknown kind'}, which fills no blanks",
        expected="a masked language model (such as distilroberta-base) or a causal one",
        way_out="a sentence encoder such as all-MiniLM has lost that part: take the model that it "
        "was made from",
    )


def _masked(source: Source, device: str) -> MaskedFiller:
    from transformers import AutoModelForMaskedLM

    tokenizer = read_tokenizer(source)
    if tokenizer.mask_token_id is None or tokenizer.pad_token_id is None:
        raise UserError(
            f"the tokenizer of {source.path} has no mask or no padding",
            expected="the tokenizer that the masked model was trained with",
            way_out="save that tokenizer into the model's folder",
        )
    model = read_weights(source, AutoModelForMaskedLM, unused=("bert.pooler.",))
    most = getattr(model.config, "max_position_embeddings", None) or math.inf
    # RoBERTa counts positions from the padding token on.
    offset = tokenizer.pad_token_id + 1 if "roberta" in model.config.model_type else 0
    context = min(most - offset, tokenizer.model_max_length)
    return MaskedFiller(model.float().to(device), tokenizer, int(min(context, 1_000_000)))
