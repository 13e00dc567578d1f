"""Training data of decoders: settings, questions with answers, their tokens, and batches.

The questions are those of the chat protocols (`unbag.scorers.prompts`), so that a decoder is
evaluated on what it was trained for. Yes and No, A and B are equally often right: each negative
makes two questions of a kind, one for each answer.

Dimensions: M lessons, T tokens of prompt and answer, A tokens of an answer with its end, B rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from unbag.errors import UnbagError
from unbag.scorers.prompts import ANSWER, LETTERS, OPTIONS, PROMPTS, YES, Prompt, filled
from unbag.scorers.questions import CLOSED, AskedQuestion, lettered, question_for
from unbag.training.settings import bounded, check_bounds
from unbag.types import IntArray, Item

if TYPE_CHECKING:
    from PIL.Image import Image

SCRATCH = "scratch"
"""In place of a folder: a randomly initialized language model."""
KINDS = ("yes", "letters", "describe", "answer")
"""Kinds of questions; the settings have the share of each."""
SPECIAL = ("<pad>", "<unknown>", "<ask>", "<answer>", "<end>")
"""First tokens of a word-level vocabulary, in this order."""
_PAD, _UNKNOWN, _ASK, _ANSWER, _END = range(len(SPECIAL))
_PIECE = re.compile(r"\w+|[^\w\s]")
_WITH_QUESTION, _WITHOUT_QUESTION = "USER: {prompt} ASSISTANT:", "ASSISTANT:"
"""Prompt templates of a pretrained language model, with and without the question."""
NOTHING = -100
"""Target after the end of an answer, which torch's losses ignore."""


@dataclass(frozen=True)
class DecoderSettings:
    """Settings of a decoder and its training.

    A share of 0 leaves a kind of question out. Steps and rates are for a small language model from
    scratch; those of a pretrained one are LLaVA's.
    """

    sees: Literal["patches", "cls", "nothing"] = "patches"
    """cls: one token, the pooled vector of the image encoder; nothing: captions only."""
    asks: bool = True
    """False omits the question: the answers are captions, after an empty prompt."""
    layer: Literal["second_last", "last"] = "second_last"
    """Block of the image encoder whose output is read; LLaVA reads the second to last."""
    language: str = SCRATCH
    """Or the folder of a causal language model of transformers, with its tokenizer."""
    width: int = bounded(192, low=1)
    depth: int = bounded(4, low=1)
    heads: int = bounded(4, low=1)
    """Width, layers and attention heads of a language model from scratch."""
    context: int = bounded(128, low=1)
    """Maximum tokens of prompt and answer; longer questions are left out of training."""
    yes: float = bounded(0.4, low=0)
    letters: float = bounded(0.2, low=0)
    describe: float = bounded(0.2, low=0)
    answer: float = bounded(0.2, low=0)
    """Shares of the kinds of questions in a batch."""
    prompts: Literal["published", "all"] = "published"
    """Wordings of the questions: those of the published protocols, or all of a fixed set."""
    scenes: int = bounded(40_000, low=1)
    """Number of scenes, for training on the world."""
    blind: float = bounded(0.1, low=0, high=1)
    """Share of steps without the image, so that the language prior is trained too."""
    steps: int = bounded(20_000, low=1)
    """Relations of the world are learned between 6,000 and 20,000 steps."""
    connector_steps: int | None = None
    """First steps, with a frozen language model. None is a tenth of the steps for a pretrained one,
    and 0 from scratch."""
    batch_size: int = bounded(256, low=1)
    """Questions per step."""
    learning_rate: float | None = None
    """None is 2e-5 for a pretrained language model and 3e-4 from scratch."""
    connector_rate: float = bounded(1e-3, above=0)
    weight_decay: float = bounded(0.05, low=0)
    warmup_steps: int = bounded(100, low=0)
    """Warmup steps at the start of each stage, before a cosine schedule to zero."""
    lora: int = bounded(0, low=0)
    """LoRA rank for a pretrained language model (peft); 0 trains all of its weights."""
    keeps: Literal["float32", "float16"] = "float32"
    """Precision of the stored features during training."""

    def __post_init__(self) -> None:
        """Raise UnbagError for settings out of bounds or in conflict."""
        check_bounds(self, "a decoder")
        if self.is_scratch and self.width % (2 * self.heads):
            raise UnbagError(
                f"a decoder of width={self.width} with heads={self.heads}",
                expected="an even width for each head",
                hint="--set width=192 heads=4",
            )
        if self.asks and not any(self.shares):
            raise UnbagError(
                "a decoder without questions: every share is 0",
                expected="a share above 0 for one kind of question",
                hint=f"--set {KINDS[0]}=1",
            )
        if self.lora and self.is_scratch:
            raise UnbagError(
                f"a decoder with lora={self.lora} and a language model from scratch",
                expected="a pretrained language model for LoRA",
                hint="--set language=FOLDER, or omit lora",
            )
        if not 0 <= self.frozen_steps <= self.steps:
            raise UnbagError(
                f"a decoder with connector_steps={self.connector_steps} of {self.steps} steps",
                expected="at most the number of steps",
            )

    @property
    def is_scratch(self) -> bool:
        """Return whether the language model is randomly initialized."""
        return self.language == SCRATCH

    @property
    def shares(self) -> tuple[float, ...]:
        """Return the shares of `KINDS`; without questions only captions are left."""
        if not self.asks:
            return tuple(float(kind == "describe") for kind in KINDS)
        return self.yes, self.letters, self.describe, self.answer

    @property
    def frozen_steps(self) -> int:
        """Return the steps of the first stage, with a frozen language model."""
        if self.connector_steps is not None:
            return self.connector_steps
        return 0 if self.is_scratch else self.steps // 10

    @property
    def rate(self) -> float:
        """Return the learning rate of the second stage."""
        if self.learning_rate is not None:
            return self.learning_rate
        return 3e-4 if self.is_scratch else 2e-5


@dataclass(frozen=True)
class DecoderFact:
    """An image with a true caption and hard negatives."""

    image: int
    """Index of the image."""
    caption: str
    negatives: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lesson:
    """A question about an image, with its answer."""

    image: int
    kind: str
    prompt: str
    answer: str


def lessons_of(
    facts: Sequence[DecoderFact], settings: DecoderSettings, *, seed: int
) -> list[Lesson]:
    """Return the lessons of every kind with a share, in the order of the facts."""
    kinds = {k for k, share in zip(KINDS, settings.shares, strict=True) if share}
    return [
        lesson
        for fact in facts
        for lesson in _lessons_of_fact(fact, settings.prompts, seed)
        if lesson.kind in kinds
    ]


def _lessons_of_fact(fact: DecoderFact, wording: str, seed: int) -> Iterator[Lesson]:
    """Yield all questions about a fact."""

    def worded(prompts: Sequence[Prompt], *key: object) -> Prompt:
        candidates = [p for p in prompts if wording == "all" or p.is_published]
        return candidates[_hash_below(len(candidates), seed, fact.image, fact.caption, *key)]

    def lesson(kind: str, prompt: str, answer: str) -> Lesson:
        return Lesson(fact.image, kind, prompt, answer)

    describe = worded(OPTIONS, "describe").caption
    yield lesson("describe", describe, fact.caption)
    for negative in fact.negatives:
        for text, answer in ((fact.caption, "Yes"), (negative, "No")):
            prompt = worded(YES, "yes", negative, answer)
            yield lesson("yes", filled(prompt.caption, text=text), answer)
        for letter, pair in (("A", (fact.caption, negative)), ("B", (negative, fact.caption))):
            prompt = worded(LETTERS, "letters", negative, letter)
            yield lesson("letters", filled(prompt.caption, options=lettered(pair)), letter)
        for is_turned in (False, True):
            images = 1 + _hash_below(2, seed, fact.image, negative, is_turned)
            question, answer = _free_question(fact.caption, negative, is_turned, images)
            prompt = worded(ANSWER, "answer", negative, is_turned)
            yield lesson("answer", filled(prompt.caption, question=question), answer)


def _free_question(caption: str, negative: str, is_turned: bool, images: int) -> tuple[str, str]:
    """Return the question of `unbag run --scorer answer` about two captions, and its answer.

    It is about the relation in which they differ, or a choice. Its ending depends on the number of
    images of the item.
    """
    captions = (negative, caption) if is_turned else (caption, negative)
    true_index = captions.index(caption)
    question = question_between(captions, images=images)
    return question.text, question.labels[true_index] if question.labels else question.keywords[
        true_index
    ][0]


def question_between(captions: Sequence[str], *, images: int) -> AskedQuestion:
    """Return the question about captions for an item with a number of images."""
    truth = np.zeros((images, len(captions)), dtype=np.bool_)
    return question_for(Item("", (_NoImage(),) * images, tuple(captions), truth))


def _hash_below(below: int, *key: object) -> int:
    text = "\0".join(map(str, key))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") % below


@dataclass(frozen=True)
class _NoImage:
    """Stub of an image for items of which only the question is needed."""

    key: str = ""
    name: str = ""

    def open(self) -> Image:
        raise NotImplementedError


def prompt_texts() -> list[str]:
    """Return all fixed prompts and answers, whose words belong into a vocabulary."""
    all_prompts = [prompt for protocol in PROMPTS.values() for prompt in protocol]
    texts = [text for prompt in all_prompts for text in (prompt.caption, prompt.question)]
    filled_texts = [filled(text, text="", options="", question="") for text in texts]
    return [*filled_texts, *CLOSED, lettered(["", ""]), "Answer with the letter."]


@dataclass(frozen=True)
class WordLevel:
    """A word-level vocabulary: one token per word or punctuation mark, unknown words in lower case.

    The format is `<ask> words of the prompt <answer>`, then words of the answer and `<end>`.
    """

    words: tuple[str, ...]
    asks: bool = True
    pad: int = _PAD
    end: int = _END

    @property
    def size(self) -> int:
        """Return the number of tokens: special ones and words."""
        return len(SPECIAL) + len(self.words)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: at + len(SPECIAL) for at, word in enumerate(self.words)}

    def plain(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        ids = self._ids
        return [ids.get(piece, ids.get(piece.lower(), _UNKNOWN)) for piece in _PIECE.findall(text)]

    def unknown_words(self, texts: Sequence[str]) -> list[str]:
        """Return words that are not in the vocabulary, each once, in order."""
        words = dict.fromkeys(p for text in texts for p in _PIECE.findall(text) if p.isalnum())
        return [word for word in words if not {word, word.lower()} & self._ids.keys()]

    def ask(self, prompt: str) -> list[int]:
        """Return the tokens of a prompt between its marks; only the second without questions."""
        return [_ASK, *self.plain(prompt), _ANSWER] if self.asks else [_ANSWER]

    def answer(self, prompt: str, answer: str) -> list[int]:
        """Return the tokens of an answer, which do not depend on the prompt."""
        return _not_empty(self.plain(answer), answer)

    def decode(self, tokens: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Join words by spaces, without a space before punctuation."""
        vocabulary = (*SPECIAL, *self.words)
        shown = [t for t in tokens if not skip_special_tokens or t >= len(SPECIAL)]
        return re.sub(r" (?=[.,?!:;])", "", " ".join(vocabulary[t] for t in shown))


def words_of(texts: Iterable[str], *, asks: bool = True) -> WordLevel:
    """Return the sorted vocabulary of texts."""
    return WordLevel(tuple(sorted({p for text in texts for p in _PIECE.findall(text)})), asks)


@dataclass(frozen=True, eq=False)
class Pretrained:
    """The tokenizer of a pretrained language model.

    The format is `USER: {prompt} ASSISTANT:`, then ` {answer}` and its end of text.
    """

    tokenizer: Any
    name: str
    size: int
    asks: bool = True

    def __post_init__(self) -> None:
        """Raise UnbagError if no token ends an answer."""
        if self.tokenizer.eos_token_id is None:
            raise UnbagError(
                f"the tokenizer of {self.name} has no token that ends an answer",
                expected="an eos_token",
                hint="set one in its tokenizer_config.json, or use another language model",
            )

    @property
    def end(self) -> int:
        """Return the tokenizer's end of text."""
        return int(self.tokenizer.eos_token_id)

    @property
    def pad(self) -> int:
        """Return the pad token, or the end token if there is none: padding is always masked."""
        own = self.tokenizer.pad_token_id
        return self.end if own is None else int(own)

    def plain(self, text: str) -> list[int]:
        """Return tokens without special ones, since the image comes first."""
        return [int(i) for i in self.tokenizer(text, add_special_tokens=False)["input_ids"]]

    def ask(self, prompt: str) -> list[int]:
        """Return the tokens of a prompt in LLaVA's format."""
        return self.plain(self._format(prompt))

    def answer(self, prompt: str, answer: str) -> list[int]:
        """Return the tokens that an answer adds; raise UnbagError if the prompt's change."""
        before = self.plain(self._format(prompt))
        whole = self.plain(f"{self._format(prompt)} {answer}")
        if whole[: len(before)] != before:
            raise UnbagError(
                f"the tokenizer of {self.name} merges the answer {answer!r} with the "
                "prompt before it",
                expected="tokens of the prompt, then tokens of the answer",
                hint="use another language model",
            )
        return _not_empty(whole[len(before) :], answer)

    def decode(self, tokens: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Decode tokens with the tokenizer."""
        return str(self.tokenizer.decode(tokens, skip_special_tokens=skip_special_tokens))

    def _format(self, prompt: str) -> str:
        return _WITH_QUESTION.replace("{prompt}", prompt) if self.asks else _WITHOUT_QUESTION


Words: TypeAlias = WordLevel | Pretrained
"""A vocabulary for prompts and answers after an image."""


def _not_empty(tokens: list[int], answer: str) -> list[int]:
    """Return the tokens; raise UnbagError if there is none."""
    if not tokens:
        raise UnbagError(f"the answer {answer!r} has no word", expected="words to score")
    return tokens


@dataclass(frozen=True, eq=False)
class Lessons:
    """All lessons of a training, tokenised. Tensors may be on a GPU; lengths and kinds are not."""

    image_M: Tensor
    token_MT: Tensor
    at_MA: Tensor
    target_MA: Tensor
    length_M: IntArray
    """Number of tokens of prompt and answer."""
    answer_M: IntArray
    """Number of tokens of the answer and its end."""
    kind_M: IntArray
    """Indices into `KINDS`."""
    left_out: int = 0
    """Number of lessons that were longer than the context."""

    def __len__(self) -> int:
        """Return the number of lessons."""
        return len(self.length_M)

    def to(self, device: str) -> Lessons:
        """Return the lessons with tensors on a device."""
        return replace(
            self,
            image_M=self.image_M.to(device),
            token_MT=self.token_MT.to(device),
            at_MA=self.at_MA.to(device),
            target_MA=self.target_MA.to(device),
        )

    def batch(self, row_B: IntArray) -> LessonBatch:
        """Return lessons by index, without waiting for the device."""
        longest, answer = int(self.length_M[row_B].max()), int(self.answer_M[row_B].max())
        at = torch.from_numpy(row_B).to(self.token_MT.device, non_blocking=True)
        return self._select(at, longest, answer)

    def whole(self, row_B: Tensor) -> LessonBatch:
        """Return lessons by index, padded to the longest of all: every batch has the same shape."""
        return self._select(row_B, self.token_MT.shape[1], self.at_MA.shape[1])

    def _select(self, row_B: Tensor, longest: int, answer: int) -> LessonBatch:
        return LessonBatch(
            self.image_M[row_B],
            self.token_MT[row_B, :longest].long(),
            self.at_MA[row_B, :answer].long(),
            self.target_MA[row_B, :answer].long(),
        )


@dataclass(frozen=True, eq=False)
class LessonBatch:
    """A batch of lessons, padded to the longest of them."""

    image_B: Tensor
    """Indices of images."""
    token_BT: Tensor
    """Tokens of prompt and answer; the end is only predicted."""
    at_BA: Tensor
    """Positions in T before each token of the answer."""
    target_BA: Tensor
    """Tokens of the answer and its end; NOTHING after it."""


def make_lessons(lessons: Sequence[Lesson], words: Words, *, context: int) -> Lessons:
    """Tokenise all lessons that fit into the context; raise UnbagError if none does."""
    fitting: list[tuple[Lesson, list[int], list[int]]] = []
    for lesson in lessons:
        prompt = words.ask(lesson.prompt)
        answer = words.answer(lesson.prompt, lesson.answer)
        if len(prompt) + len(answer) <= context:
            fitting.append((lesson, prompt, answer))
    if not fitting:
        raise UnbagError(
            f"none of {len(lessons):,} questions has at most {context} tokens with its answer",
            expected="captions that leave room for the question",
            hint="--set context=256",
        )
    length_M = np.array([len(prompt) + len(answer) for _, prompt, answer in fitting])
    answer_M = np.array([len(answer) + 1 for _, _, answer in fitting])
    token_MT = np.full((len(fitting), length_M.max()), words.pad, dtype=np.int32)
    at_MA = np.zeros((len(fitting), answer_M.max()), dtype=np.int32)
    target_MA = np.full((len(fitting), answer_M.max()), NOTHING, dtype=np.int32)
    for m, (_, prompt, answer) in enumerate(fitting):
        token_MT[m, : length_M[m]] = prompt + answer
        at_MA[m, : answer_M[m]] = np.arange(len(prompt) - 1, length_M[m])
        target_MA[m, : answer_M[m]] = [*answer, words.end]
    return Lessons(
        torch.tensor([lesson.image for lesson, _, _ in fitting]),
        torch.from_numpy(token_MT),
        torch.from_numpy(at_MA),
        torch.from_numpy(target_MA),
        length_M,
        answer_M,
        np.array([KINDS.index(lesson.kind) for lesson, _, _ in fitting]),
        len(lessons) - len(fitting),
    )


class LessonSampler:
    """Draws the lessons of each step by the shares of kinds; depends on (seed, step) alone."""

    def __init__(
        self, lessons: Lessons, shares: Sequence[float], *, batch_size: int, seed: int
    ) -> None:
        """Prepare drawing; raise UnbagError if a kind with a share has no lesson."""
        self._seed = seed
        self._places = [np.flatnonzero(lessons.kind_M == k) for k in range(len(KINDS))]
        self._counts = _count_kinds(shares, batch_size)
        empty = [k for k, n, at in zip(KINDS, self._counts, self._places, strict=True)
                 if n and not len(at)]  # fmt: skip
        if empty:
            raise UnbagError(
                f"there is no question of the kind {', '.join(empty)}: no caption has a hard "
                "negative, or all such questions are longer than the context",
                expected="captions with edits that change their meaning",
                hint="make some with `unbag edit`, --set context=256, or --set asks=false to "
                "train on captions alone",
            )

    def __call__(self, step: int) -> tuple[IntArray, float]:
        """Return indices of lessons, and a random number in 0..1 that decides if they are blind."""
        rng = np.random.default_rng((self._seed, step))
        rows = [at[rng.integers(len(at), size=n)] for at, n in
                zip(self._places, self._counts, strict=True) if n]  # fmt: skip
        return np.concatenate(rows), float(rng.random())


def _count_kinds(shares: Sequence[float], batch_size: int) -> list[int]:
    """Return the number of questions of each kind in a batch.

    Integers that sum to the batch size; the rest goes to the largest remainders.
    """
    exact = np.array(shares) * batch_size / sum(shares)
    counts = np.floor(exact).astype(int)
    rest = np.argsort(counts - exact, kind="stable")[: batch_size - int(counts.sum())]
    counts[rest] += 1
    return [int(count) for count in counts]
