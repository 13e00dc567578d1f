"""Blind baselines: scorers that read the captions and ignore the image.

They score by a fixed rule, by a random number, by the probability of a caption under a language
model, or by its similarity to the item's other captions.

Dimensions: P images, C captions of an item, Q queries, N texts of a batch, L tokens, V
vocabulary, H hidden, D vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unbag.errors import UnbagError, unknown_name
from unbag.models.huggingface.inputs import Captions, make_captions
from unbag.models.huggingface.loading import (
    POOL_OF,
    Pooling,
    checkpoint_file,
    need_transformers,
    parse_source,
    plain_config,
    read_config,
    read_language_model,
    read_tokenizer,
    read_weights,
    sentence_pooling,
    tokenizer_rules,
)
from unbag.models.weights import fingerprint
from unbag.types import Caption, FloatArray, ImageSource, Item, Query, Scores, Sparse
from unbag.types.items import prompts_of, text_of

if TYPE_CHECKING:
    from torch import Tensor

Blind: TypeAlias = "CaptionOnly | Coin | Likelihood | Sentence"
ALL = ("caption:constant", "caption:random", "caption:short", "caption:long")
"""The baselines of `--blind all`, which need no model."""

# Many published negatives are longer than the true caption: always preferring the shorter caption
# scores about 71 % on SugarCrepe.
_RULES: dict[str, Callable[[str], float]] = {
    "constant": lambda caption: 0.0,
    "short": lambda caption: _tie_breaker(caption) - len(caption),
    "long": lambda caption: _tie_breaker(caption) + len(caption),
}
BATCH = 64
"""Batch size of texts, which are sorted by length."""
_MAX_CACHED_LIKELIHOODS = 1 << 17
"""Texts whose likelihoods are cached, so that memory is bounded over millions of captions."""
_MAX_CACHED_VECTORS = 1 << 16
"""Captions whose vectors are cached, so that memory is bounded over millions of captions."""
_MAX_SIMILARITIES = 16
"""Largest number of captions of an item whose similarities are saved with its scores."""
_SENTENCE_VERSION = "caption-sentence-1"
"""Part of the fingerprint: increase it whenever a change here alters a result."""
Text: TypeAlias = tuple[str, str]
"""The text before a caption (the question of an item, or ""), and the caption."""


def load(name: str, *, device: str = "cpu") -> Blind:
    """Load short, long, constant, random[:SEED], [mean-]likelihood:PATH or sentence:PATH."""
    kind, _, rest = name.partition(":")
    if kind in ("likelihood", "mean-likelihood"):
        return load_likelihood(rest, is_mean=kind == "mean-likelihood", device=device)
    if kind == "sentence":
        return load_sentence(rest, device=device)
    if kind == "random":
        if rest and not (rest.isascii() and rest.isdigit()):
            raise UnbagError(
                f"caption:{name}: {rest!r} is not a seed",
                expected="a whole number, as in caption:random:7",
            )
        return Coin(f"caption:{name}", int(rest)) if rest else Coin("caption:random")
    if name not in _RULES:
        models = ("likelihood", "mean-likelihood", "sentence")
        known = [*ALL, *(f"caption:{model}:PATH" for model in models)]
        raise unknown_name("model", f"caption:{name}", known)
    return CaptionOnly(f"caption:{name}", _RULES[name])


@dataclass(frozen=True)
class CaptionOnly:
    """Scores a caption by a fixed rule on its text."""

    name: str
    rule: Callable[[str], float]
    scoring: str = "caption only"
    is_blind: bool = True

    @property
    def fingerprint(self) -> str:
        """The name and a version, since the rules are fixed."""
        return f"{self.name}-2"

    def score(self, queries: Sequence[Query]) -> list[float]:
        """Apply the rule to each caption."""
        return [self.rule(text_of(query.caption)) for query in queries]

    def score_matrix(self, images: Sequence[ImageSource], captions: Sequence[Caption]) -> Tensor:
        """Return scores [P, C] with equal rows."""
        import torch

        score_C = torch.tensor([self.rule(text_of(c)) for c in captions], dtype=torch.float64)
        return score_C.expand(len(images), len(captions))


def _tie_breaker(caption: str) -> float:
    """Number in [0, 1) that breaks ties of captions of one length, for scores at chance level."""
    return int.from_bytes(blake2b(caption.encode(), digest_size=6).digest(), "big") / 2**48


@dataclass(frozen=True)
class Coin:
    """Scores each pair of image and caption by a random number, the same in every run.

    The number depends on the seed, the file name of the image, the caption and the question. It
    does not depend on the folder of the data or on pixels, so that no image is opened. A pair has
    the same score in all items that share it, as with every scorer. Scores of the captions of an
    item are independent, so each item is a fair draw.
    """

    name: str
    seed: int = 0
    scoring: str = "caption only"
    is_blind: bool = True

    @property
    def fingerprint(self) -> str:
        """The seed and a version of the generator."""
        return f"caption:random-{self.seed}-1"

    def score(self, queries: Sequence[Query]) -> FloatArray:
        """Return numbers in [0, 1)."""
        image_Q = _hashes([PurePath(query.image.name).name for query in queries])
        caption_Q = _hashes([_question_and_caption(query) for query in queries])
        return self._uniform(image_Q, caption_Q)

    def score_matrix(self, images: Sequence[ImageSource], captions: Sequence[Caption]) -> Tensor:
        """Return the same numbers as `score`, [P, C]."""
        import torch

        image_P = _hashes([PurePath(image.name).name for image in images])
        caption_C = _hashes(
            [_question_and_caption(Query(images[0], caption)) for caption in captions]
        )
        return torch.from_numpy(self._uniform(image_P[:, None], caption_C[None, :]))

    def _uniform(self, image: NDArray[np.uint64], caption: NDArray[np.uint64]) -> FloatArray:
        seed = _hashes([str(self.seed)])
        mixed = _mix(_mix(image + seed) ^ caption)
        return (mixed >> np.uint64(11)).astype(np.float64) / 2**53


def _question_and_caption(query: Query) -> str:
    question = query.question.text if query.question else ""
    return f"{question}\0{text_of(query.caption)}"


def _hashes(texts: Sequence[str]) -> NDArray[np.uint64]:
    joined = b"".join(blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(joined, dtype="<u8").astype(np.uint64)


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix all bits, by the finalizer of SplitMix64 (Steele, Lea and Flood 2014)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def load_likelihood(path: str, *, is_mean: bool = False, device: str = "cpu") -> Likelihood:
    """Load from a folder of transformers, a GGUF file, or a name on the hub."""
    model, tokenizer = read_language_model(path, device=device)
    start = next((i for i in (tokenizer.bos_token_id, tokenizer.eos_token_id) if i is not None), -1)
    if start < 0:
        raise UnbagError(
            f"the tokenizer of {path} has no first token",
            expected="a bos or an eos token, so that the first word of a caption has a probability",
            hint="use another language model",
        )
    kind = "mean-likelihood" if is_mean else "likelihood"
    return Likelihood(
        name=f"caption:{kind}:{Path(path).stem if path.endswith('.gguf') else Path(path).name}",
        model=model,
        tokenizer=tokenizer,
        start=start,
        fingerprint=fingerprint(
            f"caption:{kind}", model.state_dict(), tokenizer_rules(tokenizer), "1"
        ),
        is_mean=is_mean,
    )


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The log-probability of a caption under a causal language model, after the question if any.

    By default it is the sum over tokens, which measures plausibility and favours short captions;
    with `is_mean` it is the average over tokens, which does not depend on length.
    """

    name: str
    model: Any
    tokenizer: Any
    start: int
    """Token before the caption, so that its first token has a probability too."""
    fingerprint: str
    is_mean: bool = False
    scoring: str = "caption only"
    is_blind: bool = True
    _known: dict[Text, float] = field(default_factory=dict, repr=False)

    def score(self, queries: Sequence[Query]) -> list[float]:
        """Return one number per query; results are cached by caption."""
        texts = [(q.question.text if q.question else "", text_of(q.caption)) for q in queries]
        self._compute(texts)
        return [self._known[text] for text in texts]

    def of(self, captions: Sequence[str]) -> list[float]:
        """Score captions alone; NaN for one that is empty or longer than the context."""
        texts = [("", caption) for caption in captions]
        self._compute([text for text in dict.fromkeys(texts) if self._fits(text)])
        return [self._known.get(text, math.nan) for text in texts]

    def score_matrix(self, images: Sequence[ImageSource], captions: Sequence[Caption]) -> Tensor:
        """Return scores [P, C] with equal rows."""
        import torch

        texts = [("", text_of(caption)) for caption in captions]
        self._compute(texts)
        score_C = torch.tensor([self._known[text] for text in texts], dtype=torch.float64)
        return score_C.expand(len(images), len(captions))

    def _compute(self, texts: Sequence[Text]) -> None:
        if len(self._known) > _MAX_CACHED_LIKELIHOODS:
            self._known.clear()
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        tokens = {text: self._tokens(text) for text in new}
        new.sort(key=lambda text: len(tokens[text][0]))
        for start in range(0, len(new), BATCH):
            batch = new[start : start + BATCH]
            self._known.update(zip(batch, self._run([tokens[t] for t in batch]), strict=True))

    def _fits(self, text: Text) -> bool:
        limit = getattr(self.model.config, "max_position_embeddings", None) or math.inf
        return text in self._known or 0 < len(self._encode(text[1])) < limit

    def _tokens(self, text: Text) -> tuple[list[int], int]:
        """Return the tokens of start, question and caption, and the index of the caption."""
        before, caption = text
        prompt = self._encode(before) if before else []
        whole = self._encode(f"{before} {caption}" if before else caption)
        shared = 0
        while shared < min(len(prompt), len(whole) - 1) and prompt[shared] == whole[shared]:
            shared += 1
        limit = getattr(self.model.config, "max_position_embeddings", None) or len(whole) + 1
        if not whole or len(whole) + 1 > limit:
            raise UnbagError(
                f"{self.name}: {caption!r} has {len(whole)} tokens",
                expected=f"between 1 and {limit - 1}",
                hint="use a language model with a longer context, or leave this baseline out",
            )
        return [self.start, *whole], shared + 1

    def _encode(self, text: str) -> list[int]:
        return [int(i) for i in self.tokenizer.encode(text, add_special_tokens=False)]

    def _run(self, batch: Sequence[tuple[list[int], int]]) -> list[float]:
        import torch

        longest = max(len(tokens) for tokens, _ in batch)
        # Attention is causal, so padding on the right cannot change a probability.
        token_NL = torch.tensor([t + [self.start] * (longest - len(t)) for t, _ in batch])
        mask_NL = torch.tensor([[1] * len(t) + [0] * (longest - len(t)) for t, _ in batch])
        device = self.model.device
        with torch.inference_mode():
            logit_NLV = self.model(
                input_ids=token_NL.to(device), attention_mask=mask_NL.to(device)
            ).logits
            log_NLV = logit_NLV[:, :-1].float().log_softmax(-1)
            next_NL = token_NL[:, 1:].to(device)
            log_NL = log_NLV.gather(-1, next_NL[..., None])[..., 0].double().cpu()
        sums = [
            float(log_NL[n, first - 1 : len(tokens) - 1].sum())
            for n, (tokens, first) in enumerate(batch)
        ]
        if not self.is_mean:
            return sums
        return [s / (len(t) - first) for s, (t, first) in zip(sums, batch, strict=True)]


def load_sentence(path: str, *, device: str = "cpu") -> Sentence:
    """Load from a folder of sentence-transformers or transformers, or a name on the hub."""
    need_transformers("caption:sentence")
    from transformers import AutoModel

    source = parse_source(path)
    config = read_config(source)
    if hasattr(config, "vision_config") or config.is_encoder_decoder:
        raise UnbagError(
            f"{source.path} is a {config.model_type!r}",
            expected="an encoder of sentences, such as all-MiniLM-L6-v2",
            hint="use a model of sentence-transformers",
        )
    pooling = sentence_pooling(source)
    longest = checkpoint_file(source, "sentence_bert_config.json").get("max_seq_length")
    captions = make_captions(
        config, read_tokenizer(source), is_padded=False, has_mask=True, most=longest
    )
    # The pooler of BERT is not used here and missing in many checkpoints.
    model = read_weights(source, AutoModel, unused=("pooler.",)).float().to(device)
    state = {k: v for k, v in model.state_dict().items() if not k.startswith("pooler.")}
    settings = (plain_config(config), captions.settings, pooling, _SENTENCE_VERSION)
    return Sentence(
        name=f"caption:sentence:{source.name}",
        model=model,
        captions=captions,
        pooling=pooling,
        fingerprint=fingerprint("caption:sentence", state, *settings),
        device=device,
    )


@dataclass(frozen=True, eq=False)
class Sentence:
    """Prefers the caption that is most like the item's other captions: the odd one out is false.

    The score is the mean cosine of its sentence vector with those of the others. It needs at least
    three captions: two are always tied, and a single one has no score. If this scorer is above
    chance, the texts of a benchmark reveal which captions were derived from another.
    """

    name: str
    model: Any
    captions: Captions
    pooling: Pooling
    fingerprint: str
    device: str = "cpu"
    scoring: str = "caption only"
    is_blind: bool = True
    _known: dict[str, FloatArray] = field(default_factory=dict, repr=False)

    @property
    def context(self) -> int:
        """Maximum tokens of a caption, special tokens included; longer captions are truncated."""
        return self.captions.context

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Return the tokens of each caption before truncation, special tokens included."""
        return self.captions.count(captions)

    def score(self, queries: Sequence[Query]) -> list[float]:
        """Raise an error: a single caption cannot be compared with others."""
        raise UnbagError(
            f"{self.name} compares the captions of an item with each other",
            expected="whole items, by score_items",
            hint="use `unbag run` or `unbag score`, which pass it all captions of an item",
        )

    def score_items(self, items: Sequence[Item]) -> list[Scores]:
        """Score each item; all its images get the same row."""
        for item in items:
            if isinstance(item.truth, Sparse):
                raise UnbagError(
                    f"{self.name} cannot rank the gallery {item.id!r}",
                    expected="items whose captions belong together",
                    hint="leave the retrieval benchmarks out for this baseline",
                )
        self._compute([text for item in items for c in item.captions for text in prompts_of(c)])
        return [self._scores(item) for item in items]

    def vectors(self, captions: Sequence[str]) -> FloatArray:
        """Return unit vectors of captions, [N, D]."""
        if len(self._known) > _MAX_CACHED_VECTORS:
            self._known.clear()
        self._compute(captions)
        return np.stack([self._vector(caption) for caption in captions])

    def _scores(self, item: Item) -> Scores:
        vector_CD = np.stack([self._vector(caption) for caption in item.captions])
        cosine_CC = vector_CD @ vector_CD.T
        # A matrix product need not be exactly symmetric, and ties must be exact.
        cosine_CC = (cosine_CC + cosine_CC.T) / 2
        others = len(vector_CD) - 1
        # The cosine with itself is 1 up to rounding, so it would not always cancel out.
        other_CC = np.where(np.eye(others + 1, dtype=np.bool_), 0.0, cosine_CC)
        score_C = other_CC.sum(axis=1) / others if others else np.full(1, np.nan)
        return Scores(
            item.id,
            np.tile(score_C, (len(item.images), 1)),
            caption_CC=cosine_CC if len(vector_CD) <= _MAX_SIMILARITIES else None,
        )

    def _vector(self, caption: Caption) -> FloatArray:
        mean: FloatArray = np.mean([self._known[text] for text in prompts_of(caption)], axis=0)
        return mean / np.linalg.norm(mean)

    def _compute(self, texts: Sequence[str]) -> None:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        counts = dict(zip(new, self.captions.count(new), strict=True)) if new else {}
        new.sort(key=lambda text: (counts[text], text))
        for start in range(0, len(new), BATCH):
            batch = new[start : start + BATCH]
            vectors = self._encode(batch).double().cpu().numpy()
            self._known.update(zip(batch, vectors, strict=True))

    def _encode(self, texts: Sequence[str]) -> Tensor:
        import torch
        from torch.nn.functional import normalize

        from unbag.models.layers import pool_words

        inputs = {name: value.to(self.device) for name, value in self.captions(texts).items()}
        mask_NL = inputs["attention_mask"]
        with torch.inference_mode():
            hidden_NLH = self.model(**inputs).last_hidden_state
            vector_ND: Tensor = normalize(
                pool_words(hidden_NLH, mask_NL, POOL_OF[self.pooling]), dim=-1
            )
        return vector_ND
