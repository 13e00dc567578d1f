"""What a decoder is taught: its settings, questions with answers, their tokens, batches of them.

The questions are those that the protocols of chat models ask (`unbag.scorers.prompts`), so that a
decoder is asked what it was taught. Yes and No, A and B are equally often right: each negative
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
from unbag.scorers.questions import CLOSED, AskedQuestion, asked_of, lettered
from unbag.training.settings import bounded, check_bounds
from unbag.types import IntArray, Item

if TYPE_CHECKING:
    from PIL.Image import Image

SCRATCH = "scratch"
"""In place of a folder: a language model that is trained from nothing."""
KINDS = ("yes", "letters", "describe", "answer")
"""Kinds of questions, each with a share among the settings."""
SPECIAL = ("<pad>", "<unknown>", "<ask>", "<answer>", "<end>")
"""First ids of a word-level vocabulary, in this order."""
_PAD, _UNKNOWN, _ASK, _ANSWER, _END = range(len(SPECIAL))
_PIECE = re.compile(r"\w+|[^\w\s]")
ASKED, UNASKED = "USER: {prompt} ASSISTANT:", "ASSISTANT:"
"""As a real language model is asked, with and without the question."""
NOTHING = -100
"""Stands behind the end of an answer; losses of torch leave it out."""


@dataclass(frozen=True)
class DecoderSettings:
    """Everything that decides the weights, besides model, data and seed.

    A share of 0 leaves a kind of question out. Steps and rates are for a small language model from
    scratch; those of a real one are LLaVA's.
    """

    sees: Literal["patches", "cls", "nothing"] = "patches"
    """cls: one token, the vector that the image encoder reads out; nothing: captions only."""
    asks: bool = True
    """False leaves the question out: only captions as answers, to an empty prompt."""
    layer: Literal["second_last", "last"] = "second_last"
    """Block of the image encoder whose output is read; LLaVA reads the second to last."""
    language: str = SCRATCH
    """Or the folder of a causal language model of transformers, with its tokenizer."""
    width: int = bounded(192, low=1)
    depth: int = bounded(4, low=1)
    heads: int = bounded(4, low=1)
    """Of a language model from scratch."""
    context: int = bounded(128, low=1)
    """Tokens of prompt and answer; longer questions are left out of training."""
    yes: float = bounded(0.4, low=0)
    letters: float = bounded(0.2, low=0)
    describe: float = bounded(0.2, low=0)
    answer: float = bounded(0.2, low=0)
    """Shares of the kinds of questions in a batch."""
    prompts: Literal["published", "all"] = "published"
    """Wordings of the questions: those of the published protocols, or every one of a fixed set."""
    scenes: int = bounded(40_000, low=1)
    """Of the world, where that is trained on."""
    blind: float = bounded(0.1, low=0, high=1)
    """Share of steps without the image, so that the language prior is the model's own."""
    steps: int = bounded(20_000, low=1)
    """On the world relations: chance after 6,000, learned after these (docs/decoder.md)."""
    connector_steps: int | None = None
    """Of these, the first with the language model frozen; none: a tenth for a real one, and 0 from
    scratch, where there is nothing yet to connect to."""
    batch_size: int = bounded(256, low=1)
    """Questions of a step."""
    learning_rate: float | None = None
    """none: 2e-5 for a real language model, 3e-4 from scratch."""
    connector_rate: float = bounded(1e-3, above=0)
    weight_decay: float = bounded(0.05, low=0)
    warmup_steps: int = bounded(100, low=0)
    """Steps with a rising rate, at the start of each stage, before half a cosine to zero."""
    lora: int = bounded(0, low=0)
    """Rank of small matrices beside the frozen ones of a real language model (peft); 0: train all
    of it."""
    keeps: Literal["float32", "float16"] = "float32"
    """Precision of the frozen features while training."""

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be meant."""
        check_bounds(self, "a decoder")
        if self.is_scratch and self.width % (2 * self.heads):
            raise UnbagError(
                f"a decoder of width={self.width} with heads={self.heads}",
                expected="an even part of the width for each head",
                hint="--set width=192 heads=4",
            )
        if self.asks and not any(self.shares):
            raise UnbagError(
                "a decoder that is asked nothing: every share is 0",
                expected="a share above 0 for one kind of question",
                hint=f"--set {KINDS[0]}=1",
            )
        if self.lora and self.is_scratch:
            raise UnbagError(
                f"a decoder with lora={self.lora} and a language model from scratch",
                expected="a trained language model to put small matrices beside",
                hint="--set language=FOLDER, or leave lora out",
            )
        if not 0 <= self.frozen_steps <= self.steps:
            raise UnbagError(
                f"a decoder with connector_steps={self.connector_steps} of {self.steps} steps",
                expected="at most as many as there are steps",
            )

    @property
    def is_scratch(self) -> bool:
        """Whether the language model begins as noise."""
        return self.language == SCRATCH

    @property
    def shares(self) -> tuple[float, ...]:
        """Of `KINDS`; without questions only captions are left."""
        if not self.asks:
            return tuple(float(kind == "describe") for kind in KINDS)
        return self.yes, self.letters, self.describe, self.answer

    @property
    def frozen_steps(self) -> int:
        """Steps of the first stage, with the language model frozen."""
        if self.connector_steps is not None:
            return self.connector_steps
        return 0 if self.is_scratch else self.steps // 10

    @property
    def rate(self) -> float:
        """Learning rate of the second stage."""
        if self.learning_rate is not None:
            return self.learning_rate
        return 3e-4 if self.is_scratch else 2e-5


@dataclass(frozen=True)
class DecoderFact:
    """What is said of one image."""

    image: int
    """Row among the images."""
    caption: str
    negatives: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lesson:
    """One question about one image, with its answer."""

    image: int
    kind: str
    prompt: str
    answer: str


def lessons_of(
    facts: Sequence[DecoderFact], settings: DecoderSettings, *, seed: int
) -> list[Lesson]:
    """Of every kind with a share, in the order of the facts."""
    wanted = {k for k, share in zip(KINDS, settings.shares, strict=True) if share}
    return [
        lesson
        for fact in facts
        for lesson in _of_one(fact, settings.prompts, seed)
        if lesson.kind in wanted
    ]


def _of_one(fact: DecoderFact, wording: str, seed: int) -> Iterator[Lesson]:
    """All questions about one fact."""

    def worded(prompts: Sequence[Prompt], *what: object) -> Prompt:
        some = [p for p in prompts if wording == "all" or p.is_published]
        return some[_number(len(some), seed, fact.image, fact.caption, *what)]

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
        for turned in (False, True):
            beside = 1 + _number(2, seed, fact.image, negative, turned)
            asked, answer = _freely(fact.caption, negative, turned, beside)
            prompt = worded(ANSWER, "answer", negative, turned)
            yield lesson("answer", filled(prompt.caption, question=asked), answer)


def _freely(caption: str, negative: str, is_turned: bool, images: int) -> tuple[str, str]:
    """As `unbag run --scorer answer` asks: by the relation in which they differ, or a choice.

    A question about an item of two images ends otherwise than one about a single image.
    """
    captions = (negative, caption) if is_turned else (caption, negative)
    own = captions.index(caption)
    asked = asked_between(captions, images=images)
    return asked.text, asked.labels[own] if asked.labels else asked.keywords[own][0]


def asked_between(captions: Sequence[str], *, images: int) -> AskedQuestion:
    """The question about captions, as about an item of so many images."""
    truth = np.zeros((images, len(captions)), dtype=np.bool_)
    return asked_of(Item("", (_Nothing(),) * images, tuple(captions), truth))


def _number(below: int, *what: object) -> int:
    said = "\0".join(map(str, what))
    return int.from_bytes(blake2b(said.encode(), digest_size=8).digest(), "big") % below


@dataclass(frozen=True)
class _Nothing:
    """Stands for an image where only the words of a question are wanted."""

    key: str = ""
    name: str = ""

    def open(self) -> Image:
        raise NotImplementedError


def words_asked() -> list[str]:
    """Every fixed prompt and answer, so that a vocabulary knows their words."""
    every = [prompt for some in PROMPTS.values() for prompt in some]
    texts = [text for prompt in every for text in (prompt.caption, prompt.question)]
    plain = [filled(text, text="", options="", question="") for text in texts]
    return [*plain, *CLOSED, lettered(["", ""]), "Answer with the letter."]


@dataclass(frozen=True)
class WordLevel:
    """One token for each word and mark; a word nobody knows is looked for in lower case.

    `<ask> words of the prompt <answer>`, then words of the answer and `<end>`.
    """

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
        """Tokens of words and marks."""
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
        """Tokens of the answer; the prompt changes nothing."""
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
    """The tokenizer of a real language model.

    `USER: {prompt} ASSISTANT:`, then ` {answer}` and its end of text.
    """

    tokenizer: Any
    name: str
    size: int
    asks: bool = True

    def __post_init__(self) -> None:
        """Raises UnbagError if nothing could end an answer."""
        if self.tokenizer.eos_token_id is None:
            raise UnbagError(
                f"the tokenizer of {self.name} has no token that ends an answer",
                expected="an eos_token",
                hint="name one in its tokenizer_config.json, or take another language model",
            )

    @property
    def end(self) -> int:
        """The tokenizer's end of text."""
        return int(self.tokenizer.eos_token_id)

    @property
    def pad(self) -> int:
        """Masked wherever it stands, so that the end does where there is no pad token."""
        own = self.tokenizer.pad_token_id
        return self.end if own is None else int(own)

    def plain(self, text: str) -> list[int]:
        """Without special tokens: the image stands first."""
        return [int(i) for i in self.tokenizer(text, add_special_tokens=False)["input_ids"]]

    def ask(self, prompt: str) -> list[int]:
        """In LLaVA's form."""
        return self.plain(self._form(prompt))

    def answer(self, prompt: str, answer: str) -> list[int]:
        """What is added when the answer follows; raises UnbagError where that is not known."""
        before = self.plain(self._form(prompt))
        whole = self.plain(f"{self._form(prompt)} {answer}")
        if whole[: len(before)] != before:
            raise UnbagError(
                f"the tokenizer of {self.name} does not keep the answer {answer!r} apart from the "
                "prompt before it",
                expected="tokens of the prompt, then tokens of the answer",
                hint="take another language model",
            )
        return _some(whole[len(before) :], answer)

    def decode(self, tokens: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """As the tokenizer does."""
        return str(self.tokenizer.decode(tokens, skip_special_tokens=skip_special_tokens))

    def _form(self, prompt: str) -> str:
        return ASKED.replace("{prompt}", prompt) if self.asks else UNASKED


Words: TypeAlias = WordLevel | Pretrained
"""Tokens of prompts and answers, with the image before all of it."""


def _some(tokens: list[int], answer: str) -> list[int]:
    """The tokens; raises UnbagError where there is none."""
    if not tokens:
        raise UnbagError(f"the answer {answer!r} has no word", expected="words to be scored")
    return tokens


@dataclass(frozen=True, eq=False)
class Lessons:
    """All lessons of a training. Tensors may lie on a GPU; lengths and kinds stay with Python."""

    image_M: Tensor
    token_MT: Tensor
    at_MA: Tensor
    target_MA: Tensor
    length_M: IntArray
    """Tokens of prompt and answer."""
    answer_M: IntArray
    """Tokens of the answer and its end."""
    kind_M: IntArray
    """Places in `KINDS`."""
    left_out: int = 0
    """Lessons that were longer than the context."""

    def __len__(self) -> int:
        """Lessons."""
        return len(self.length_M)

    def to(self, device: str) -> Lessons:
        """With tensors on a device."""
        return replace(
            self,
            image_M=self.image_M.to(device),
            token_MT=self.token_MT.to(device),
            at_MA=self.at_MA.to(device),
            target_MA=self.target_MA.to(device),
        )

    def batch(self, row_B: IntArray) -> LessonBatch:
        """Lessons by number, on the device; nothing is asked of it."""
        longest, answer = int(self.length_M[row_B].max()), int(self.answer_M[row_B].max())
        at = torch.from_numpy(row_B).to(self.token_MT.device, non_blocking=True)
        return self._cut(at, longest, answer)

    def whole(self, row_B: Tensor) -> LessonBatch:
        """Lessons by number, as long as the longest of all: every batch has the same shape."""
        return self._cut(row_B, self.token_MT.shape[1], self.at_MA.shape[1])

    def _cut(self, row_B: Tensor, longest: int, answer: int) -> LessonBatch:
        return LessonBatch(
            self.image_M[row_B],
            self.token_MT[row_B, :longest].long(),
            self.at_MA[row_B, :answer].long(),
            self.target_MA[row_B, :answer].long(),
        )


@dataclass(frozen=True, eq=False)
class LessonBatch:
    """Some lessons, cut to the longest of them."""

    image_B: Tensor
    """Rows among the images."""
    token_BT: Tensor
    """Prompt and answer; its end is not read, only predicted."""
    at_BA: Tensor
    """Places among T after which each token of the answer comes."""
    target_BA: Tensor
    """Tokens of the answer and its end; NOTHING behind it."""


def make_lessons(lessons: Sequence[Lesson], words: Words, *, context: int) -> Lessons:
    """Tokens of every lesson that fits; raises UnbagError if none does."""
    kept: list[tuple[Lesson, list[int], list[int]]] = []
    for lesson in lessons:
        prompt = words.ask(lesson.prompt)
        answer = words.answer(lesson.prompt, lesson.answer)
        if len(prompt) + len(answer) <= context:
            kept.append((lesson, prompt, answer))
    if not kept:
        raise UnbagError(
            f"none of {len(lessons):,} questions has at most {context} tokens with its answer",
            expected="captions that leave room for the question",
            hint="--set context=256",
        )
    length_M = np.array([len(prompt) + len(answer) for _, prompt, answer in kept])
    answer_M = np.array([len(answer) + 1 for _, _, answer in kept])
    token_MT = np.full((len(kept), length_M.max()), words.pad, dtype=np.int32)
    at_MA = np.zeros((len(kept), answer_M.max()), dtype=np.int32)
    target_MA = np.full((len(kept), answer_M.max()), NOTHING, dtype=np.int32)
    for m, (_, prompt, answer) in enumerate(kept):
        token_MT[m, : length_M[m]] = prompt + answer
        at_MA[m, : answer_M[m]] = np.arange(len(prompt) - 1, length_M[m])
        target_MA[m, : answer_M[m]] = [*answer, words.end]
    return Lessons(
        torch.tensor([lesson.image for lesson, _, _ in kept]),
        torch.from_numpy(token_MT),
        torch.from_numpy(at_MA),
        torch.from_numpy(target_MA),
        length_M,
        answer_M,
        np.array([KINDS.index(lesson.kind) for lesson, _, _ in kept]),
        len(lessons) - len(kept),
    )


class Draws:
    """Which lessons a step is given: shares of the kinds, by (seed, step) alone."""

    def __init__(
        self, lessons: Lessons, shares: Sequence[float], *, batch_size: int, seed: int
    ) -> None:
        """Raises UnbagError if a kind with a share has no lesson."""
        self._seed = seed
        self._places = [np.flatnonzero(lessons.kind_M == k) for k in range(len(KINDS))]
        self._counts = _counts(shares, batch_size)
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
        """Numbers of lessons, and one drawn from 0 to 1 that decides whether they are blind."""
        rng = np.random.default_rng((self._seed, step))
        rows = [at[rng.integers(len(at), size=n)] for at, n in
                zip(self._places, self._counts, strict=True) if n]  # fmt: skip
        return np.concatenate(rows), float(rng.random())


def _counts(shares: Sequence[float], batch_size: int) -> list[int]:
    """Questions of each kind in a batch.

    Whole numbers that sum to the batch; what is left over goes to the largest remainders.
    """
    exact = np.array(shares) * batch_size / sum(shares)
    counts = np.floor(exact).astype(int)
    rest = np.argsort(counts - exact, kind="stable")[: batch_size - int(counts.sum())]
    counts[rest] += 1
    return [int(count) for count in counts]
