"""Blind baselines: scorers that read the captions and never look at the image.

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
"""What `--blind all` means: every baseline that needs no model."""

# Many published negatives are longer than the truth: preferring the shorter caption alone scores
# about 71 % on SugarCrepe.
_RULES: dict[str, Callable[[str], float]] = {
    "constant": lambda caption: 0.0,
    "short": lambda caption: _between_0_and_1(caption) - len(caption),
    "long": lambda caption: _between_0_and_1(caption) + len(caption),
}
BATCH = 64
"""Texts run together, of nearly the same length."""
_LIKELIHOODS_KEPT = 1 << 17
"""Texts whose number is kept, so that memory stays flat over millions of captions."""
_VECTORS_KEPT = 1 << 16
"""Vectors that `vectors` keeps, so that memory stays flat over millions of captions."""
_SIMILARITIES_KEPT = 16
"""Captions up to which their similarities are kept with the scores."""
_SENTENCE_VERSION = "caption-sentence-1"
"""Raise it whenever the code here changes a number."""
Text: TypeAlias = tuple[str, str]
"""What comes before (the question of an item, or nothing), and the caption."""


def load(name: str, *, device: str = "cpu") -> Blind:
    """`short`, `long`, `constant`, `random[:SEED]`, `[mean-]likelihood:PATH`, `sentence:PATH`."""
    kind, _, rest = name.partition(":")
    if kind in ("likelihood", "mean-likelihood"):
        return load_likelihood(rest, is_mean=kind == "mean-likelihood", device=device)
    if kind == "sentence":
        return load_sentence(rest, device=device)
    if kind == "random":
        if rest and not (rest.isascii() and rest.isdigit()):
            raise UnbagError(
                f"caption:{name}: {rest!r} is no seed",
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
    """Scores a caption by a rule on its text alone."""

    name: str
    rule: Callable[[str], float]
    scoring: str = "caption only"
    is_blind: bool = True

    @property
    def fingerprint(self) -> str:
        """The name says it all: the rules are fixed."""
        return f"{self.name}-2"

    def score(self, queries: Sequence[Query]) -> list[float]:
        """The rule, caption by caption."""
        return [self.rule(text_of(query.caption)) for query in queries]

    def score_matrix(self, images: Sequence[ImageSource], captions: Sequence[Caption]) -> Tensor:
        """[P, C]; all rows are equal."""
        import torch

        score_C = torch.tensor([self.rule(text_of(c)) for c in captions], dtype=torch.float64)
        return score_C.expand(len(images), len(captions))


def _between_0_and_1(caption: str) -> float:
    """Tells captions of one length apart, so that a blind guess reads as chance, not as a tie."""
    return int.from_bytes(blake2b(caption.encode(), digest_size=6).digest(), "big") / 2**48


@dataclass(frozen=True)
class Coin:
    """A random number for each pair of image and caption, the same in every run.

    It depends on the seed, the file name of the image, the caption and the question; not on the
    folder that the data lie in, and not on any pixel, which would mean to open the image. A pair
    that several items share has one number in all of them, as with every scorer; the captions of
    one item have independent ones, so each item is a fair draw.
    """

    name: str
    seed: int = 0
    scoring: str = "caption only"
    is_blind: bool = True

    @property
    def fingerprint(self) -> str:
        """Of the seed and the way numbers are made."""
        return f"caption:random-{self.seed}-1"

    def score(self, queries: Sequence[Query]) -> FloatArray:
        """Numbers in [0, 1)."""
        image_Q = _hashes([PurePath(query.image.name).name for query in queries])
        caption_Q = _hashes([_question_and_caption(query) for query in queries])
        return self._uniform(image_Q, caption_Q)

    def score_matrix(self, images: Sequence[ImageSource], captions: Sequence[Caption]) -> Tensor:
        """[P, C]: the same numbers as pair by pair."""
        import torch

        image_P = _hashes([PurePath(image.name).name for image in images])
        caption_C = _hashes(
            [_question_and_caption(Query(images[0], caption)) for caption in captions]
        )
        return torch.from_numpy(self._uniform(image_P[:, None], caption_C[None, :]))

    def _uniform(self, one: NDArray[np.uint64], other: NDArray[np.uint64]) -> FloatArray:
        seed = _hashes([str(self.seed)])
        mixed = _mix(_mix(one + seed) ^ other)
        return (mixed >> np.uint64(11)).astype(np.float64) / 2**53


def _question_and_caption(query: Query) -> str:
    question = query.question.text if query.question else ""
    return f"{question}\0{text_of(query.caption)}"


def _hashes(texts: Sequence[str]) -> NDArray[np.uint64]:
    joined = b"".join(blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(joined, dtype="<u8").astype(np.uint64)


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014): every bit depends on every bit."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def load_likelihood(path: str, *, is_mean: bool = False, device: str = "cpu") -> Likelihood:
    """From a folder of transformers, a GGUF file, or a name on the hub."""
    model, tokenizer = read_language_model(path, device=device)
    start = next((i for i in (tokenizer.bos_token_id, tokenizer.eos_token_id) if i is not None), -1)
    if start < 0:
        raise UnbagError(
            f"the tokenizer of {path} has no first token",
            expected="a bos or an eos token, so that the first word of a caption has a probability",
            hint="take another language model",
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

    The whole caption's by default, which is what makes a sentence plausible and is larger for
    shorter ones; with `is_mean` its average over tokens, which length does not move.
    """

    name: str
    model: Any
    tokenizer: Any
    start: int
    """The token before the first, so that the first has a probability too."""
    fingerprint: str
    is_mean: bool = False
    scoring: str = "caption only"
    is_blind: bool = True
    _known: dict[Text, float] = field(default_factory=dict, repr=False)

    def score(self, queries: Sequence[Query]) -> list[float]:
        """One number a query; a caption that was asked before is not computed again."""
        texts = [(q.question.text if q.question else "", text_of(q.caption)) for q in queries]
        self._learn(texts)
        return [self._known[text] for text in texts]

    def of(self, captions: Sequence[str]) -> list[float]:
        """The same for captions alone; NaN for one that is empty or longer than the context."""
        texts = [("", caption) for caption in captions]
        self._learn([text for text in dict.fromkeys(texts) if self._fits(text)])
        return [self._known.get(text, math.nan) for text in texts]

    def score_matrix(self, images: Sequence[ImageSource], captions: Sequence[Caption]) -> Tensor:
        """[images, captions]; all rows are equal."""
        import torch

        texts = [("", text_of(caption)) for caption in captions]
        self._learn(texts)
        score_C = torch.tensor([self._known[text] for text in texts], dtype=torch.float64)
        return score_C.expand(len(images), len(captions))

    def _learn(self, texts: Sequence[Text]) -> None:
        if len(self._known) > _LIKELIHOODS_KEPT:
            self._known.clear()
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        tokens = {text: self._tokens(text) for text in new}
        new.sort(key=lambda text: len(tokens[text][0]))
        for at in range(0, len(new), BATCH):
            some = new[at : at + BATCH]
            self._known.update(zip(some, self._run([tokens[t] for t in some]), strict=True))

    def _fits(self, text: Text) -> bool:
        most = getattr(self.model.config, "max_position_embeddings", None) or math.inf
        return text in self._known or 0 < len(self._encode(text[1])) < most

    def _tokens(self, text: Text) -> tuple[list[int], int]:
        """Start token, question and caption; and where the caption begins."""
        before, caption = text
        prompt = self._encode(before) if before else []
        whole = self._encode(f"{before} {caption}" if before else caption)
        shared = 0
        while shared < min(len(prompt), len(whole) - 1) and prompt[shared] == whole[shared]:
            shared += 1
        most = getattr(self.model.config, "max_position_embeddings", None) or len(whole) + 1
        if not whole or len(whole) + 1 > most:
            raise UnbagError(
                f"{self.name}: {caption!r} has {len(whole)} tokens",
                expected=f"between 1 and {most - 1}",
                hint="take a language model with a longer context, or leave this baseline out",
            )
        return [self.start, *whole], shared + 1

    def _encode(self, text: str) -> list[int]:
        return [int(i) for i in self.tokenizer.encode(text, add_special_tokens=False)]

    def _run(self, batch: Sequence[tuple[list[int], int]]) -> list[float]:
        import torch

        longest = max(len(tokens) for tokens, _ in batch)
        # A causal model never looks to the right, so what pads a text on that side is no matter.
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
    """From a folder of sentence-transformers or transformers, or a name on the hub."""
    need_transformers("caption:sentence")
    from transformers import AutoModel

    source = parse_source(path)
    config = read_config(source)
    if hasattr(config, "vision_config") or config.is_encoder_decoder:
        raise UnbagError(
            f"{source.path} is a {config.model_type!r}",
            expected="an encoder of sentences, such as all-MiniLM-L6-v2",
            hint="take one of sentence-transformers",
        )
    pooling = sentence_pooling(source)
    longest = checkpoint_file(source, "sentence_bert_config.json").get("max_seq_length")
    captions = make_captions(
        config, read_tokenizer(source), is_padded=False, has_mask=True, most=longest
    )
    # The pooler of BERT is left out of many such checkpoints and never asked here.
    model = read_weights(source, AutoModel, unused=("pooler.",)).float().to(device)
    state = {k: v for k, v in model.state_dict().items() if not k.startswith("pooler.")}
    said = (plain_config(config), captions.said, pooling, _SENTENCE_VERSION)
    return Sentence(
        name=f"caption:sentence:{source.name}",
        model=model,
        captions=captions,
        pooling=pooling,
        fingerprint=fingerprint("caption:sentence", state, *said),
        device=device,
    )


@dataclass(frozen=True, eq=False)
class Sentence:
    """Prefers the caption that is most like the item's other captions: the odd one out is false.

    The score is the mean cosine of its sentence vector with those of the others. It needs three
    captions or more: of two, each is as close to the other, which is a tie; one alone has no score.
    A benchmark that can be had this way shows which caption was made from the others.
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
        """Tokens a caption can have, special ones included; longer ones are cut."""
        return self.captions.context

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Before cutting, special ones included."""
        return self.captions.count(captions)

    def score(self, queries: Sequence[Query]) -> list[float]:
        """Refused: a caption alone has nothing to be compared with."""
        raise UnbagError(
            f"{self.name} compares the captions of an item with each other",
            expected="whole items, by score_items",
            hint="use `unbag run` or `unbag score`, which show it all captions together",
        )

    def score_items(self, items: Sequence[Item]) -> list[Scores]:
        """The same row for every image of an item."""
        for item in items:
            if isinstance(item.truth, Sparse):
                raise UnbagError(
                    f"{self.name} cannot rank the gallery {item.id!r}",
                    expected="items whose captions belong together",
                    hint="leave the retrieval benchmarks out for this baseline",
                )
        self._learn([text for item in items for c in item.captions for text in prompts_of(c)])
        return [self._scores(item) for item in items]

    def vectors(self, captions: Sequence[str]) -> FloatArray:
        """[N, D]: a vector of length 1 for each caption alone."""
        if len(self._known) > _VECTORS_KEPT:
            self._known.clear()
        self._learn(captions)
        return np.stack([self._vector(caption) for caption in captions])

    def _scores(self, item: Item) -> Scores:
        vector_CD = np.stack([self._vector(caption) for caption in item.captions])
        cosine_CC = vector_CD @ vector_CD.T
        # A product of matrices need not be symmetric to the last bit, and ties must be ties.
        cosine_CC = (cosine_CC + cosine_CC.T) / 2
        others = len(vector_CD) - 1
        # A score of its own, 1 but for rounding, would not always cancel out.
        other_CC = np.where(np.eye(others + 1, dtype=np.bool_), 0.0, cosine_CC)
        score_C = other_CC.sum(axis=1) / others if others else np.full(1, np.nan)
        return Scores(
            item.id,
            np.tile(score_C, (len(item.images), 1)),
            caption_CC=cosine_CC if len(vector_CD) <= _SIMILARITIES_KEPT else None,
        )

    def _vector(self, caption: Caption) -> FloatArray:
        mean: FloatArray = np.mean([self._known[text] for text in prompts_of(caption)], axis=0)
        return mean / np.linalg.norm(mean)

    def _learn(self, texts: Sequence[str]) -> None:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        counts = dict(zip(new, self.captions.count(new), strict=True)) if new else {}
        new.sort(key=lambda text: (counts[text], text))
        for at in range(0, len(new), BATCH):
            some = new[at : at + BATCH]
            vectors = self._encode(some).double().cpu().numpy()
            self._known.update(zip(some, vectors, strict=True))

    def _encode(self, texts: Sequence[str]) -> Tensor:
        import torch
        from torch.nn.functional import normalize

        from unbag.models.layers import pool_words

        inputs = {name: value.to(self.device) for name, value in self.captions(texts).items()}
        mask_NL = inputs["attention_mask"]
        with torch.inference_mode():
            hidden_NLH = self.model(**inputs).last_hidden_state
            found: Tensor = normalize(
                pool_words(hidden_NLH, mask_NL, POOL_OF[self.pooling]), dim=-1
            )
        return found
