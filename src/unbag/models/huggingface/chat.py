"""Chat models: the interface of all, and the models of transformers.

`Ask` and the protocols are independent of any library, so that local models and servers have the
same interface. `ChatModel` runs a model of transformers.

Dimensions: N rows of a batch, K last positions, V vocabulary, W columns of scored tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable
from warnings import warn

from unbag.errors import UnbagError
from unbag.models.batching import Fitting, is_out_of_memory
from unbag.models.huggingface.chat_inputs import ChatRow, Preparer, Prompts, Rendered, Seen
from unbag.models.huggingface.chat_runner import M3ID, BlipRunner, CausalRunner, Decoder, plainly
from unbag.models.huggingface.loading import (
    HfSource,
    parse_source,
    plain_config,
    quietly,
    read_processor,
    read_weights,
    tokenizer_rules,
)
from unbag.models.weights import fingerprint
from unbag.types import Generator, ImageSource

if TYPE_CHECKING:
    from torch import Tensor

_VERSION = "2"
"""Part of the fingerprint: increase it whenever a change here alters a result."""
_READERS = 4
"""Threads that open and prepare images."""


def load_chat(
    path: str,
    *,
    revision: str | None = None,
    device: str = "cpu",
    dtype: str = "auto",
    compiles: bool = False,
    rows: int | None = None,
) -> ChatModel:
    """Load from a folder or the hub; `auto` is bfloat16 on CUDA, else float32.

    `rows` is the batch size, halved when it does not fit into memory.
    """
    import torch
    from transformers import AutoModelForImageTextToText

    source = HfSource(path, revision) if revision else parse_source(path)
    processor = read_processor(source)
    model = read_weights(source, AutoModelForImageTextToText)
    if dtype == "auto":
        dtype = "bfloat16" if device.startswith("cuda") else "float32"
    model = model.to(dtype=getattr(torch, dtype))
    if not hasattr(processor, "tokenizer"):
        raise UnbagError(
            f"{source.name} has no tokenizer with its image processor",
            expected="the processor of a chat model",
            hint="save its processor into the same folder (processor.save_pretrained)",
        )
    prompts = Prompts(
        source.name,
        model.config.model_type,
        processor,
        str(getattr(processor, "image_token", "")),
        reads_apart=not getattr(model.config, "use_decoder_only_language_model", True),
    )
    image_token_id = _image_token_id(source.name, model, processor)
    ends = _end_tokens(model, prompts)
    settings = _settings_of(model, prompts, ends, image_token_id)
    weights_hash = fingerprint("hf-chat", model.state_dict(), *settings, dtype)
    model = model.to(device)
    if compiles:
        model.compile(dynamic=True)
    return ChatModel(
        name=source.name,
        fingerprint=weights_hash,
        device=device,
        preparer=Preparer(prompts, image_token_id),
        runner=_runner(model, processor, device),
        fitting=Fitting(
            source.name,
            lambda text: warn(text, stacklevel=2),
            most=rows or (64 if device.startswith("cuda") else 16),
        ),
        ends=ends,
        context=getattr(model.config.get_text_config(), "max_position_embeddings", None),
        scores_ends=prompts.own_end is not None,
    )


def _runner(model: Any, processor: Any, device: str) -> CausalRunner | BlipRunner:
    pad = processor.tokenizer.pad_token_id
    pad = int(pad if pad is not None else processor.tokenizer.eos_token_id or 0)
    if model.config.model_type == "instructblip":
        return BlipRunner(model, processor.qformer_tokenizer, device, pad)
    if model.config.is_encoder_decoder:
        raise UnbagError(
            f"{model.config.model_type!r} reads with an encoder and answers with a decoder",
            expected="a model that reads image and prompt as one sequence, or an InstructBLIP",
            hint="docs/reference/models.md lists the supported kinds",
        )
    return CausalRunner(model, model.config.model_type, device, pad)


def _image_token_id(name: str, model: Any, processor: Any) -> int:
    places = ((model.config, "image_token_id"), (model.config, "image_token_index"),
              (processor, "image_token_id"))  # fmt: skip
    for owner, attribute in places:
        token_id = getattr(owner, attribute, None)
        if isinstance(token_id, int):
            return token_id
    raise UnbagError(
        f"{name} has no image token",
        expected="image_token_id in its config or processor",
        hint="use the config and processor that belong to this model",
    )


def _end_tokens(model: Any, prompts: Prompts) -> frozenset[int]:
    eos = getattr(model.generation_config, "eos_token_id", None)
    of_config = eos if isinstance(eos, list) else [eos]
    of_prompts = [prompts.tokenizer.eos_token_id]
    of_prompts += [prompts.own_end] if prompts.template is not None else []
    return frozenset(int(i) for i in (*of_config, *of_prompts) if i is not None)


def _settings_of(
    model: Any, prompts: Prompts, ends: frozenset[int], image_token_id: int
) -> tuple[str, ...]:
    """Return all settings besides weights and precision that decide a result."""
    processor, tokenizer = prompts.processor, prompts.tokenizer
    ids = (tokenizer.bos_token_id, tokenizer.pad_token_id, image_token_id, prompts.own_end)
    parts: tuple[Any, ...] = (processor, getattr(processor, "image_processor", None))
    return (
        plain_config(model.config),
        *(part.to_json_string() if hasattr(part, "to_json_string") else "" for part in parts),
        prompts.template or prompts.family,
        tokenizer_rules(tokenizer),
        tokenizer_rules(getattr(processor, "qformer_tokenizer", None)),
        repr((sorted(ends), ids)),
        _VERSION,
    )


class Ask(NamedTuple):
    """A prompt about an image, and the continuations to score."""

    image: ImageSource | None
    """None for the language prior: the same prompt without the image."""
    prompt: str
    continuations: tuple[str, ...] = ()
    ends: bool = False
    """Whether the end token of the answer is part of the continuation."""


@runtime_checkable
class BatchGenerator(Generator, Protocol):
    """A chat model that processes many asks in batches."""

    def logprobs_of(self, asks: Sequence[Ask]) -> list[list[list[float]]]:
        """Return the log-probability of each token, by ask and continuation."""

    def answers_of(self, asks: Sequence[Ask], *, longest: int = 32) -> list[str]:
        """Generate an answer to every ask by greedy decoding."""


@runtime_checkable
class ContrastiveGenerator(Generator, Protocol):
    """A chat model that also decodes with M3ID, against its own language prior."""

    def answers_of_m3id(self, asks: Sequence[Ask], *, longest: int = 32) -> list[str]:
        """Generate an answer to every ask with M3ID."""


@runtime_checkable
class HiddenGenerator(Generator, Protocol):
    """A chat model that gives its last hidden state, as VLM2Vec needs for embeddings."""

    def last_hidden(self, asks: Sequence[tuple[ImageSource | None, str]]) -> Tensor:
        """Return the last layer's hidden state at the last token of image and text, [N, W].

        The image comes first, then the text without a chat template. The result is float32, on the
        CPU, not normalized, and does not depend on the other inputs of the batch.
        """


def logprobs_of(model: Generator, asks: Sequence[Ask]) -> list[list[list[float]]]:
    """Return the log-probability of each token, by ask and continuation."""
    if isinstance(model, BatchGenerator):
        return model.logprobs_of(asks)
    if any(ask.ends for ask in asks):
        raise UnbagError(
            f"{model.name} cannot score the end of an answer",
            expected="a chat model with `logprobs_of`, as those of transformers have",
            hint="use a scorer without the end token, such as yes",
        )
    return [model.logprobs(ask.image, ask.prompt, ask.continuations) for ask in asks]


def answers_of(model: Generator, asks: Sequence[Ask], *, longest: int = 32) -> list[str]:
    """Generate an answer to every ask."""
    if isinstance(model, BatchGenerator):
        return model.answers_of(asks, longest=longest)
    return [model.answer(ask.image, ask.prompt, longest=longest) for ask in asks]


def scores_ends(model: Generator) -> bool:
    """Return whether the model can score end tokens, by its attribute `scores_ends`."""
    return bool(getattr(model, "scores_ends", False))


@dataclass(frozen=True, eq=False)
class ChatModel:
    """Scores continuations and generates answers. Images are prepared once for all prompts."""

    name: str
    fingerprint: str
    device: str
    preparer: Preparer
    runner: CausalRunner | BlipRunner
    fitting: Fitting
    ends: frozenset[int]
    """Tokens that end an answer."""
    context: int | None = None
    """Maximum tokens of a sequence, image tokens included."""
    m3id: M3ID = field(default_factory=M3ID)
    scores_ends: bool = True
    """Whether the end token of an answer can be scored."""

    def logprobs(
        self, image: ImageSource | None, prompt: str, continuations: Sequence[str]
    ) -> list[list[float]]:
        """Return log-probabilities by continuation and token; None gives the language prior."""
        return self.logprobs_of([Ask(image, prompt, tuple(continuations))])[0]

    def logprobs_of(self, asks: Sequence[Ask]) -> list[list[list[float]]]:
        """Score many asks in batches; asks about one image share its tokens."""
        rows, places = self._rows(asks)
        # A batch has either only rows with images or none; rows of one image are adjacent.
        order: dict[int, int] = {}
        for row in rows:
            order.setdefault(id(row.seen), len(order))
        sorted_rows = sorted(
            range(len(rows)), key=lambda n: (rows[n].seen is None, order[id(rows[n].seen)])
        )
        max_given = max((len(row.given) for row in rows), default=0)
        max_last = max((len(row.last) for row in rows), default=0)
        logprobs: dict[int, list[float]] = {}
        for group in _split_by_image([(n, rows[n]) for n in sorted_rows]):
            value_NW = self.fitting(
                lambda part: self._read([row for _, row in part], max_given, max_last), group
            )
            values = value_NW.double().tolist()
            logprobs.update(zip((n for n, _ in group), values, strict=True))
        return [
            [[*logprobs[p.row][: p.given], logprobs[p.row][max_given + p.last]] for p in parts]
            for parts in places
        ]

    def answer(self, image: ImageSource | None, prompt: str, *, longest: int = 32) -> str:
        """Generate an answer of at most `longest` tokens by greedy decoding."""
        return self.answers_of([Ask(image, prompt)], longest=longest)[0]

    def answers_of(self, asks: Sequence[Ask], *, longest: int = 32) -> list[str]:
        """Generate answers to many asks in batches."""
        return self._answers(asks, None, longest)

    def answers_of_m3id(self, asks: Sequence[Ask], *, longest: int = 32) -> list[str]:
        """Generate answers with M3ID, which weights the contribution of the image more and more."""
        return self._answers(asks, self.m3id, longest)

    def last_hidden(self, asks: Sequence[tuple[ImageSource | None, str]]) -> Tensor:
        """Return the last layer's hidden state at the last token, [N, W], float32."""
        import torch

        if not asks:
            return torch.zeros((0, 0))
        rows, runner = self.hidden_rows(asks), self._causal()

        def read(part: Sequence[tuple[int, ChatRow]]) -> Tensor:
            with _explain_shape_errors(self.name), torch.inference_mode():
                return runner.hidden([row for _, row in part]).float()

        # Sorted by length to reduce padding; a batch has either only rows with images or none.
        by_length = sorted(range(len(rows)), key=lambda n: len(rows[n].tokens))
        parts = _split_by_image([(n, rows[n]) for n in by_length])
        hidden_NW = torch.cat([self.fitting(read, part) for part in parts])
        back_N = torch.argsort(torch.tensor([n for part in parts for n, _ in part]))
        return hidden_NW[back_N]

    def hidden_rows(self, asks: Sequence[tuple[ImageSource | None, str]]) -> list[ChatRow]:
        """Return asks as tokens and prepared images, for the method `hidden` of a runner."""
        self._causal()
        texts = [plainly(self.preparer, text, sees=p is not None) for p, text in asks]
        images = self._prepare_images(
            {p.key: (p, text) for (p, _), text in zip(asks, texts, strict=True) if p is not None}
        )
        rows = []
        for (image, words), text in zip(asks, texts, strict=True):
            seen = images[image.key] if image is not None else None
            rows.append(ChatRow(seen, self.preparer.prompt_of(seen, text), words=words))
            self._check_length(len(rows[-1].prompt), words)
        return rows

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text alone, with the start token of the tokenizer."""
        return [len(self.preparer.prompts.tokens(text, is_start=True)) for text in texts]

    def _causal(self) -> CausalRunner:
        if isinstance(self.runner, CausalRunner):
            return self.runner
        raise UnbagError(
            f"{self.name} is an InstructBLIP, which has no hidden state of image and text: its "
            "Q-Former reads the prompt separately",
            expected="a chat model that reads image and text as one sequence, such as a LLaVA",
            hint="use another chat model; `--scorer yes` works with this one",
        )

    def _answers(self, asks: Sequence[Ask], m3id: M3ID | None, longest: int) -> list[str]:
        blind = [Ask(None, ask.prompt) for ask in asks] if m3id else []
        (rows, _), (priors, _) = self._rows(asks, answers=False), self._rows(blind, answers=False)
        for row in (*rows, *priors):
            self._check_length(len(row.prompt) + longest, row.words)
        if not self.ends:
            # Raises UnbagError, since without an end token only the length would end answers.
            _ = self.preparer.prompts.end
        decoder = Decoder(self.runner, self.preparer.prompts.tokenizer, self.ends, m3id, longest)

        def decode(part: Sequence[tuple[int, ChatRow]]) -> Tensor:
            with _explain_shape_errors(self.name):
                return decoder([(row, priors[n] if m3id else None) for n, row in part])

        answers: dict[int, str] = {}
        for group in _split_by_image(list(enumerate(rows))):
            token_NL = self.fitting(decode, group)
            answers.update(zip((n for n, _ in group), map(decoder.text, token_NL), strict=True))
        return [answers[n] for n in range(len(asks))]

    def _rows(
        self, asks: Sequence[Ask], *, answers: bool = True
    ) -> tuple[list[ChatRow], list[list[_Continuation]]]:
        """Make one row per prefix of an answer, and the place of each continuation."""
        prompts = self.preparer.prompts
        prompt_of = {ask.image.key: (ask.image, ask.prompt) for ask in asks if ask.image}
        images = self._prepare_images(
            {key: (p, prompts.render(text, sees=True)) for key, (p, text) in prompt_of.items()}
        )
        rows: list[ChatRow] = []
        # Rows by image, prompt and prefix of the answer, and the tokens to score after each row.
        row_of: dict[tuple[int, tuple[int, ...], tuple[int, ...]], int] = {}
        last_tokens: list[list[int]] = []
        places: list[list[_Continuation]] = []
        for ask in asks:
            rendered = prompts.render(ask.prompt, sees=ask.image is not None)
            image = images[ask.image.key] if ask.image is not None else None
            prompt = self.preparer.prompt_of(image, rendered)
            if not answers:
                rows.append(ChatRow(image, prompt, words=ask.prompt))
                continue
            parts: list[_Continuation] = []
            for continuation in ask.continuations:
                *prefix, last = prompts.answer_tokens(rendered, continuation, ends=ask.ends)
                self._check_length(len(prompt) + len(prefix), ask.prompt)
                row = row_of.setdefault((id(image), prompt, tuple(prefix)), len(rows))
                if row == len(rows):
                    rows.append(ChatRow(image, prompt, tuple(prefix), words=ask.prompt))
                    last_tokens.append([])
                if last not in last_tokens[row]:
                    last_tokens[row].append(last)
                parts.append(_Continuation(row, len(prefix), last_tokens[row].index(last)))
            places.append(parts)
        if answers:
            rows = [replace(r, last=tuple(w)) for r, w in zip(rows, last_tokens, strict=True)]
        return rows, places

    def _prepare_images(
        self, prompt_of: Mapping[str, tuple[ImageSource, Rendered]]
    ) -> dict[str, Seen]:
        """Prepare each image once, in threads, with any prompt about it."""
        # Warning filters are global to the process, so they are set here and not in the threads.
        with quietly(), ThreadPoolExecutor(_READERS) as pool:
            futures: dict[str, Future[Seen]] = {
                key: pool.submit(self.preparer.see, image, rendered)
                for key, (image, rendered) in prompt_of.items()
            }
        return {key: future.result() for key, future in futures.items()}

    def _read(self, rows: Sequence[ChatRow], given: int, last: int) -> Tensor:
        """Return log-probabilities of the given and the last tokens, [N, given + last]."""
        import torch

        keep = max(len(row.given) for row in rows) + 1
        with _explain_shape_errors(self.name):
            log_NKV = self.runner.logits(rows, keep).float().log_softmax(dim=-1)
        value_NW = torch.zeros((len(rows), given + last), device=log_NKV.device)
        for n, row in enumerate(rows):
            log_KV = log_NKV[n, keep - 1 - len(row.given) :]
            for k, token in enumerate(row.given):
                value_NW[n, k] = log_KV[k, token]
            if row.last:
                token_K = torch.tensor(row.last, device=log_KV.device)
                value_NW[n, given : given + len(row.last)] = log_KV[-1, token_K]
        return value_NW

    def _check_length(self, tokens: int, prompt: str) -> None:
        if self.context is not None and tokens > self.context:
            raise UnbagError(
                f"{self.name}: the prompt {prompt[:60]!r} has {tokens} tokens with its image "
                "and answer",
                expected=f"at most {self.context}",
                hint="use a shorter prompt (--prompts), or a model with a longer context",
            )


class _Continuation(NamedTuple):
    """Place of the tokens of a continuation among the results."""

    row: int
    given: int
    last: int


def _split_by_image(rows: list[tuple[int, ChatRow]]) -> list[list[tuple[int, ChatRow]]]:
    """Split into rows with and without an image, which cannot share a batch."""
    with_image = [pair for pair in rows if pair[1].seen is not None]
    without_image = [pair for pair in rows if pair[1].seen is None]
    return [group for group in (with_image, without_image) if group]


@contextmanager
def _explain_shape_errors(name: str) -> Iterator[None]:
    """Convert shape errors, which come from a processor of another model, to UnbagError."""
    try:
        yield
    except (ValueError, IndexError, RuntimeError) as error:
        is_of_shape = any(word in str(error).lower() for word in ("shape", "size"))
        if isinstance(error, RuntimeError) and (is_out_of_memory(error) or not is_of_shape):
            raise
        raise UnbagError(
            f"{name} cannot read what its processor prepared: {error}",
            expected="a processor that belongs to this model",
            hint="use the config, the processor and the weights of the same model",
        ) from error
