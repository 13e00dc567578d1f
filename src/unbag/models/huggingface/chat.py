"""Chat models: how any of them is asked, and those of transformers.

`Ask` and the protocols need no library of models, so that a model on disk and a server are asked in
the same way. `ChatModel` runs one of transformers.

Dimensions: N rows of a batch, K last positions, V vocabulary, W columns of wanted tokens.
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
"""Of this code: part of the fingerprint."""
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
    """From a folder or the hub; `auto` is bfloat16 on CUDA, else float32.

    `rows` are the sequences run at once, halved where they do not fit into memory.
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
            f"{source.name} has no tokenizer beside its image preparation",
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
    ends = _ends(model, prompts)
    said = _fingerprinted(model, prompts, ends, image_token_id)
    print_ = fingerprint("hf-chat", model.state_dict(), *said, dtype)
    model = model.to(device)
    if compiles:
        model.compile(dynamic=True)
    return ChatModel(
        name=source.name,
        fingerprint=print_,
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
            hint="docs/models.md lists the kinds that are supported",
        )
    return CausalRunner(model, model.config.model_type, device, pad)


def _image_token_id(name: str, model: Any, processor: Any) -> int:
    places = ((model.config, "image_token_id"), (model.config, "image_token_index"),
              (processor, "image_token_id"))  # fmt: skip
    for thing, attribute in places:
        found = getattr(thing, attribute, None)
        if isinstance(found, int):
            return found
    raise UnbagError(
        f"{name} names no token that stands for an image",
        expected="image_token_id in its config or processor",
        hint="take the config and processor that belong to this model",
    )


def _ends(model: Any, prompts: Prompts) -> frozenset[int]:
    found = getattr(model.generation_config, "eos_token_id", None)
    several = found if isinstance(found, list) else [found]
    own = [prompts.tokenizer.eos_token_id]
    own += [prompts.own_end] if prompts.template is not None else []
    return frozenset(int(i) for i in (*several, *own) if i is not None)


def _fingerprinted(
    model: Any, prompts: Prompts, ends: frozenset[int], image_token_id: int
) -> tuple[str, ...]:
    """All besides the weights and their precision that decides a number."""
    processor, tokenizer = prompts.processor, prompts.tokenizer
    ids = (tokenizer.bos_token_id, tokenizer.pad_token_id, image_token_id, prompts.own_end)
    parts: tuple[Any, ...] = (processor, getattr(processor, "image_processor", None))
    return (
        plain_config(model.config),
        *(one.to_json_string() if hasattr(one, "to_json_string") else "" for one in parts),
        prompts.template or prompts.family,
        tokenizer_rules(tokenizer),
        tokenizer_rules(getattr(processor, "qformer_tokenizer", None)),
        repr((sorted(ends), ids)),
        _VERSION,
    )


class Ask(NamedTuple):
    """One prompt about one image, and the continuations whose probability is wanted."""

    image: ImageSource | None
    """None asks the language prior: the same prompt without the image."""
    prompt: str
    continuations: tuple[str, ...] = ()
    ends: bool = False
    """Whether the token that ends an answer belongs to the continuation."""


@runtime_checkable
class BatchGenerator(Generator, Protocol):
    """A chat model that can be asked many things at once."""

    def logprobs_of(self, asks: Sequence[Ask]) -> list[list[list[float]]]:
        """For every ask and continuation, the log-probability of each of its tokens."""

    def answers_of(self, asks: Sequence[Ask], *, longest: int = 32) -> list[str]:
        """A free answer to every ask, decoded greedily."""


@runtime_checkable
class ContrastiveGenerator(Generator, Protocol):
    """A chat model that can also decode against its own language prior (M3ID)."""

    def answers_of_m3id(self, asks: Sequence[Ask], *, longest: int = 32) -> list[str]:
        """A free answer to every ask, decoded with M3ID."""


@runtime_checkable
class HiddenGenerator(Generator, Protocol):
    """A chat model that shows what it has made of all that it read: VLM2Vec embeds with that."""

    def last_hidden(self, asks: Sequence[tuple[ImageSource | None, str]]) -> Tensor:
        """The last layer's hidden state at the last token of image and text, [N, W].

        The image stands first, then the text as it is, without a chat template. float32, on the
        CPU, not normalised; the same whatever stands in the same batch.
        """


def logprobs_of(model: Generator, asks: Sequence[Ask]) -> list[list[list[float]]]:
    """For every ask and continuation, the log-probability of each of its tokens."""
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
    """A free answer to every ask."""
    if isinstance(model, BatchGenerator):
        return model.answers_of(asks, longest=longest)
    return [model.answer(ask.image, ask.prompt, longest=longest) for ask in asks]


def scores_ends(model: Generator) -> bool:
    """Whether it can score the token that ends an answer; it says so in an attribute."""
    return bool(getattr(model, "scores_ends", False))


@dataclass(frozen=True, eq=False)
class ChatModel:
    """Scores continuations and answers freely. Images are prepared once for all prompts."""

    name: str
    fingerprint: str
    device: str
    preparer: Preparer
    runner: CausalRunner | BlipRunner
    fitting: Fitting
    ends: frozenset[int]
    """Tokens after which an answer is over."""
    context: int | None = None
    """Tokens a sequence can have, those of the image included."""
    m3id: M3ID = field(default_factory=M3ID)
    scores_ends: bool = True
    """The end of an answer is a token like any other here, if there is one."""

    def logprobs(
        self, image: ImageSource | None, prompt: str, continuations: Sequence[str]
    ) -> list[list[float]]:
        """Log-probability of every token of every continuation; None asks the language prior."""
        return self.logprobs_of([Ask(image, prompt, tuple(continuations))])[0]

    def logprobs_of(self, asks: Sequence[Ask]) -> list[list[list[float]]]:
        """The same for many asks at once, in batches; asks about one image share its tokens."""
        rows, places = self._rows(asks)
        # Images with images: a batch either has them or not, and those of one stand together.
        order: dict[int, int] = {}
        for row in rows:
            order.setdefault(id(row.seen), len(order))
        at = sorted(range(len(rows)), key=lambda n: (rows[n].seen is None, order[id(rows[n].seen)]))
        given = max((len(row.given) for row in rows), default=0)
        last = max((len(row.last) for row in rows), default=0)
        found: dict[int, list[float]] = {}
        for some in _by_sight([(n, rows[n]) for n in at]):
            value_NW = self.fitting(
                lambda part: self._read([row for _, row in part], given, last), some
            )
            values = value_NW.double().tolist()
            found.update(zip((n for n, _ in some), values, strict=True))
        return [
            [[*found[p.row][: p.given], found[p.row][given + p.last]] for p in one]
            for one in places
        ]

    def answer(self, image: ImageSource | None, prompt: str, *, longest: int = 32) -> str:
        """A free answer of at most `longest` tokens, decoded greedily."""
        return self.answers_of([Ask(image, prompt)], longest=longest)[0]

    def answers_of(self, asks: Sequence[Ask], *, longest: int = 32) -> list[str]:
        """The same for many asks at once."""
        return self._answers(asks, None, longest)

    def answers_of_m3id(self, asks: Sequence[Ask], *, longest: int = 32) -> list[str]:
        """The same with M3ID: what the image adds to the language prior counts more and more."""
        return self._answers(asks, self.m3id, longest)

    def last_hidden(self, asks: Sequence[tuple[ImageSource | None, str]]) -> Tensor:
        """The last layer's hidden state at the last token of image and text, [N, W], float32."""
        import torch

        if not asks:
            return torch.zeros((0, 0))
        rows, runner = self.hidden_rows(asks), self._causal()

        def read(part: Sequence[tuple[int, ChatRow]]) -> Tensor:
            with _belonging(self.name), torch.inference_mode():
                return runner.hidden([row for _, row in part]).float()

        # Of like length together, so that little is padded; a batch has images or has none.
        at = sorted(range(len(rows)), key=lambda n: len(rows[n].tokens))
        parts = _by_sight([(n, rows[n]) for n in at])
        found_NW = torch.cat([self.fitting(read, part) for part in parts])
        back_N = torch.argsort(torch.tensor([n for part in parts for n, _ in part]))
        return found_NW[back_N]

    def hidden_rows(self, asks: Sequence[tuple[ImageSource | None, str]]) -> list[ChatRow]:
        """The same as tokens and prepared images, for a runner's `hidden`."""
        self._causal()
        texts = [plainly(self.preparer, text, sees=p is not None) for p, text in asks]
        seen = self._see(
            {p.key: (p, text) for (p, _), text in zip(asks, texts, strict=True) if p is not None}
        )
        rows = []
        for (image, words), text in zip(asks, texts, strict=True):
            own = seen[image.key] if image is not None else None
            rows.append(ChatRow(own, self.preparer.prompt_of(own, text), words=words))
            self._check_length(len(rows[-1].prompt), words)
        return rows

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text alone, with what the tokenizer puts first."""
        return [len(self.preparer.prompts.tokens(text, is_start=True)) for text in texts]

    def _causal(self) -> CausalRunner:
        if isinstance(self.runner, CausalRunner):
            return self.runner
        raise UnbagError(
            f"{self.name} is an InstructBLIP, whose Q-Former reads the prompt a second time and "
            "whose language model may be an encoder and a decoder",
            expected="a chat model that reads image and text as one sequence, such as a LLaVA, "
            "to have a hidden state of",
            hint="another chat model; `--scorer yes` works with this one",
        )

    def _answers(self, asks: Sequence[Ask], m3id: M3ID | None, longest: int) -> list[str]:
        blind = [Ask(None, ask.prompt) for ask in asks] if m3id else []
        (rows, _), (priors, _) = self._rows(asks, answers=False), self._rows(blind, answers=False)
        for row in (*rows, *priors):
            self._check_length(len(row.prompt) + longest, row.words)
        if not self.ends:
            # Refuses: nothing would end these answers but their length.
            _ = self.preparer.prompts.end
        decoder = Decoder(self.runner, self.preparer.prompts.tokenizer, self.ends, m3id, longest)

        def decoded(part: Sequence[tuple[int, ChatRow]]) -> Tensor:
            with _belonging(self.name):
                return decoder([(row, priors[n] if m3id else None) for n, row in part])

        found: dict[int, str] = {}
        for some in _by_sight(list(enumerate(rows))):
            token_NL = self.fitting(decoded, some)
            found.update(zip((n for n, _ in some), map(decoder.text, token_NL), strict=True))
        return [found[n] for n in range(len(asks))]

    def _rows(
        self, asks: Sequence[Ask], *, answers: bool = True
    ) -> tuple[list[ChatRow], list[list[_Position]]]:
        """One row for each beginning of an answer; asks that share one share the row."""
        prompts = self.preparer.prompts
        first = {ask.image.key: (ask.image, ask.prompt) for ask in asks if ask.image}
        seen = self._see(
            {key: (p, prompts.render(text, sees=True)) for key, (p, text) in first.items()}
        )
        rows: list[ChatRow] = []
        # By image, prompt and what is given of the answer; tokens wanted after it, row by row.
        row_of: dict[tuple[int, tuple[int, ...], tuple[int, ...]], int] = {}
        wanted: list[list[int]] = []
        places: list[list[_Position]] = []
        for ask in asks:
            rendered = prompts.render(ask.prompt, sees=ask.image is not None)
            image = seen[ask.image.key] if ask.image is not None else None
            prompt = self.preparer.prompt_of(image, rendered)
            if not answers:
                rows.append(ChatRow(image, prompt, words=ask.prompt))
                continue
            one: list[_Position] = []
            for continuation in ask.continuations:
                *given, last = prompts.answer_tokens(rendered, continuation, ends=ask.ends)
                self._check_length(len(prompt) + len(given), ask.prompt)
                at = row_of.setdefault((id(image), prompt, tuple(given)), len(rows))
                if at == len(rows):
                    rows.append(ChatRow(image, prompt, tuple(given), words=ask.prompt))
                    wanted.append([])
                if last not in wanted[at]:
                    wanted[at].append(last)
                one.append(_Position(at, len(given), wanted[at].index(last)))
            places.append(one)
        if answers:
            rows = [replace(r, last=tuple(w)) for r, w in zip(rows, wanted, strict=True)]
        return rows, places

    def _see(self, first: Mapping[str, tuple[ImageSource, Rendered]]) -> dict[str, Seen]:
        """Every image once, prepared in threads, with any prompt about it."""
        # Filters of warnings belong to the whole process: set here, not by each reader.
        with quietly(), ThreadPoolExecutor(_READERS) as pool:
            made: dict[str, Future[Seen]] = {
                key: pool.submit(self.preparer.see, image, rendered)
                for key, (image, rendered) in first.items()
            }
        return {key: one.result() for key, one in made.items()}

    def _read(self, rows: Sequence[ChatRow], given: int, last: int) -> Tensor:
        """Log-probabilities of what is given and of what may come last, [N, given + last]."""
        import torch

        keep = max(len(row.given) for row in rows) + 1
        with _belonging(self.name):
            log_NKV = self.runner.logits(rows, keep).float().log_softmax(dim=-1)
        value_NW = torch.zeros((len(rows), given + last), device=log_NKV.device)
        for n, row in enumerate(rows):
            log_KV = log_NKV[n, keep - 1 - len(row.given) :]
            for k, token in enumerate(row.given):
                value_NW[n, k] = log_KV[k, token]
            if row.last:
                wanted = torch.tensor(row.last, device=log_KV.device)
                value_NW[n, given : given + len(row.last)] = log_KV[-1, wanted]
        return value_NW

    def _check_length(self, tokens: int, prompt: str) -> None:
        if self.context is not None and tokens > self.context:
            raise UnbagError(
                f"{self.name}: the prompt {prompt[:60]!r} has {tokens} tokens with its image "
                "and answer",
                expected=f"at most {self.context}",
                hint="take a shorter prompt (--prompts), or a model with a longer context",
            )


class _Position(NamedTuple):
    """Where the tokens of one continuation are found among the results."""

    row: int
    given: int
    last: int


def _by_sight(rows: list[tuple[int, ChatRow]]) -> list[list[tuple[int, ChatRow]]]:
    """Those with an image and those without cannot stand in one batch."""
    seeing = [pair for pair in rows if pair[1].seen is not None]
    blind = [pair for pair in rows if pair[1].seen is None]
    return [some for some in (seeing, blind) if some]


@contextmanager
def _belonging(name: str) -> Iterator[None]:
    """Shapes that do not fit come from a processor of another model."""
    try:
        yield
    except (ValueError, IndexError, RuntimeError) as error:
        of_shape = any(word in str(error).lower() for word in ("shape", "size"))
        if isinstance(error, RuntimeError) and (is_out_of_memory(error) or not of_shape):
            raise
        raise UnbagError(
            f"{name} cannot read what its processor prepared: {error}",
            expected="a processor that belongs to this model",
            hint="take the config, the processor and the weights of one and the same model",
        ) from error
