"""Questions about pictures come in; what a chat model of transformers answers goes out.

Dimensions: N rows of a batch, K last positions, V vocabulary, W columns of wanted tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unbag.errors import UserError
from unbag.models.asks import Ask
from unbag.models.fitting import Fitting, is_out_of_memory
from unbag.models.hf_chat_blip import BlipRunner
from unbag.models.hf_chat_decode import Decoder
from unbag.models.hf_chat_hidden import plainly
from unbag.models.hf_chat_inputs import Preparer, Row, Seen
from unbag.models.hf_chat_prompt import Rendered
from unbag.models.hf_chat_run import CausalRunner
from unbag.models.hf_source import quietly
from unbag.models.m3id import M3ID
from unbag.types import Picture

if TYPE_CHECKING:
    from torch import Tensor

_READERS = 4


@dataclass(frozen=True)
class _Place:
    """Where the tokens of one continuation are found among the results."""

    row: int
    given: int
    last: int


@dataclass(frozen=True, eq=False)
class ChatModel:
    """Scores continuations and answers freely. Pictures are prepared once for all prompts."""

    name: str
    fingerprint: str
    device: str
    preparer: Preparer
    runner: CausalRunner | BlipRunner
    fitting: Fitting
    ends: frozenset[int]
    """Tokens after which an answer is over."""
    context: int | None = None
    """Tokens a sequence can have, those of the picture included."""
    m3id: M3ID = field(default_factory=M3ID)
    scores_ends: bool = True
    """The end of an answer is a token like any other here, if there is one."""

    def logprobs(
        self, picture: Picture | None, prompt: str, continuations: Sequence[str]
    ) -> list[list[float]]:
        """Log-probability of every token of every continuation; None asks the language prior."""
        return self.logprobs_of([Ask(picture, prompt, tuple(continuations))])[0]

    def logprobs_of(self, asks: Sequence[Ask]) -> list[list[list[float]]]:
        """The same for many asks at once, in batches; asks about one picture share its tokens."""
        rows, places = self._rows(asks)
        # Pictures with pictures: a batch either has them or not, and those of one stand together.
        order: dict[int, int] = {}
        for row in rows:
            order.setdefault(id(row.seen), len(order))
        at = sorted(range(len(rows)), key=lambda n: (rows[n].seen is None, order[id(rows[n].seen)]))
        given = max((len(row.given) for row in rows), default=0)
        last = max((len(row.last) for row in rows), default=0)
        found: dict[int, list[float]] = {}
        for some in _split([(n, rows[n]) for n in at]):
            value_NW = self.fitting(
                lambda part: self._read([row for _, row in part], given, last), some
            )
            values = value_NW.double().tolist()
            found.update(zip((n for n, _ in some), values, strict=True))
        return [
            [[*found[p.row][: p.given], found[p.row][given + p.last]] for p in one]
            for one in places
        ]

    def answer(self, picture: Picture | None, prompt: str, *, longest: int = 32) -> str:
        """A free answer of at most `longest` tokens, decoded greedily."""
        return self.answers_of([Ask(picture, prompt)], longest=longest)[0]

    def answers_of(self, asks: Sequence[Ask], *, longest: int = 32) -> list[str]:
        """The same for many asks at once."""
        return self._answers(asks, None, longest)

    def answers_of_m3id(self, asks: Sequence[Ask], *, longest: int = 32) -> list[str]:
        """The same with M3ID: what the picture adds to the language prior counts more and more."""
        return self._answers(asks, self.m3id, longest)

    def last_hidden(self, asks: Sequence[tuple[Picture | None, str]]) -> Tensor:
        """The last layer's hidden state at the last token of picture and text, [N, W], float32."""
        import torch

        if not asks:
            return torch.zeros((0, 0))
        rows, runner = self.hidden_rows(asks), self._causal()

        def read(part: Sequence[tuple[int, Row]]) -> Tensor:
            with _belonging(self.name), torch.inference_mode():
                return runner.hidden([row for _, row in part]).float()

        # Of like length together, so that little is padded; a batch has pictures or has none.
        at = sorted(range(len(rows)), key=lambda n: len(rows[n].tokens))
        parts = _split([(n, rows[n]) for n in at])
        found_NW = torch.cat([self.fitting(read, part) for part in parts])
        back_N = torch.argsort(torch.tensor([n for part in parts for n, _ in part]))
        return found_NW[back_N]

    def hidden_rows(self, asks: Sequence[tuple[Picture | None, str]]) -> list[Row]:
        """The same as tokens and prepared pictures, for a runner's `hidden`."""
        self._causal()
        texts = [plainly(self.preparer, text, sees=p is not None) for p, text in asks]
        seen = self._see(
            {p.key: (p, text) for (p, _), text in zip(asks, texts, strict=True) if p is not None}
        )
        rows = []
        for (picture, words), text in zip(asks, texts, strict=True):
            own = seen[picture.key] if picture is not None else None
            rows.append(Row(own, self.preparer.prompt_of(own, text), words=words))
            self._check_length(len(rows[-1].prompt), words)
        return rows

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text alone, with what the tokenizer puts first."""
        return [len(self.preparer.prompts.tokens(text, is_start=True)) for text in texts]

    def _causal(self) -> CausalRunner:
        if isinstance(self.runner, CausalRunner):
            return self.runner
        raise UserError(
            f"{self.name} is an InstructBLIP, whose Q-Former reads the prompt a second time and "
            "whose language model may be an encoder and a decoder",
            expected="a chat model that reads picture and text as one sequence, such as a LLaVA, "
            "to have a hidden state of",
            way_out="another chat model; `--scorer yes` works with this one",
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
        pairs = [(row, priors[n] if m3id else None) for n, row in enumerate(rows)]
        numbered = list(enumerate(pairs))

        def decoded(part: Sequence[tuple[int, tuple[Row, Row | None]]]) -> Tensor:
            with _belonging(self.name):
                return decoder([pair for _, pair in part])

        found: dict[int, str] = {}
        for is_blind in (False, True):
            some = [(n, pair) for n, pair in numbered if (pair[0].seen is None) == is_blind]
            if some:
                token_NL = self.fitting(decoded, some)
                found.update(zip((n for n, _ in some), map(decoder.text, token_NL), strict=True))
        return [found[n] for n in range(len(asks))]

    def _rows(
        self, asks: Sequence[Ask], *, answers: bool = True
    ) -> tuple[list[Row], list[list[_Place]]]:
        """One row for each beginning of an answer; asks that share one share the row."""
        prompts = self.preparer.prompts
        first = {ask.picture.key: (ask.picture, ask.prompt) for ask in asks if ask.picture}
        seen = self._see(
            {key: (p, prompts.render(text, sees=True)) for key, (p, text) in first.items()}
        )
        rows: dict[tuple[int, tuple[int, ...], tuple[int, ...]], tuple[int, Row, list[int]]] = {}
        places: list[list[_Place]] = []
        for number, ask in enumerate(asks):
            rendered = prompts.render(ask.prompt, sees=ask.picture is not None)
            picture = seen[ask.picture.key] if ask.picture is not None else None
            prompt = self.preparer.prompt_of(picture, rendered)
            if not answers:
                row = Row(picture, prompt, words=ask.prompt)
                rows[number, (), ()] = (number, row, [])
                continue
            one: list[_Place] = []
            for continuation in ask.continuations:
                tokens = prompts.answer_tokens(rendered, continuation, ends=ask.ends)
                given = tuple(tokens[:-1])
                self._check_length(len(prompt) + len(given), ask.prompt)
                key = (id(picture), prompt, given)
                if key not in rows:
                    row = Row(picture, prompt, given, words=ask.prompt)
                    rows[key] = (len(rows), row, [])
                at, _, wanted = rows[key]
                if tokens[-1] not in wanted:
                    wanted.append(tokens[-1])
                one.append(_Place(at, len(given), wanted.index(tokens[-1])))
            places.append(one)
        made = [
            Row(row.seen, row.prompt, row.given, tuple(wanted), row.words)
            for _, row, wanted in rows.values()
        ]
        return made, places

    def _see(self, first: Mapping[str, tuple[Picture, Rendered]]) -> dict[str, Seen]:
        """Every picture once, prepared in threads, with any prompt about it."""
        # Filters of warnings belong to the whole process: set here, not by each reader.
        with quietly(), ThreadPoolExecutor(_READERS) as pool:
            made: dict[str, Future[Seen]] = {
                key: pool.submit(self.preparer.see, picture, rendered)
                for key, (picture, rendered) in first.items()
            }
        return {key: one.result() for key, one in made.items()}

    def _read(self, rows: Sequence[Row], given: int, last: int) -> Tensor:
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
            raise UserError(
                f"{self.name}: the prompt {prompt[:60]!r} has {tokens} tokens with its picture "
                "and answer",
                expected=f"at most {self.context}",
                way_out="take a shorter prompt (--prompts), or a model with a longer context",
            )


@contextmanager
def _belonging(name: str) -> Iterator[None]:
    """Shapes that do not fit come from a processor of another model."""
    try:
        yield
    except (ValueError, IndexError, RuntimeError) as error:
        of_shape = any(word in str(error).lower() for word in ("shape", "size"))
        if isinstance(error, RuntimeError) and (is_out_of_memory(error) or not of_shape):
            raise
        raise UserError(
            f"{name} cannot read what its processor prepared: {error}",
            expected="a processor that belongs to this model",
            way_out="take the config, the processor and the weights of one and the same model",
        ) from error


def _split(rows: list[tuple[int, Row]]) -> list[list[tuple[int, Row]]]:
    """Those with a picture and those without cannot stand in one batch."""
    seeing = [pair for pair in rows if pair[1].seen is not None]
    blind = [pair for pair in rows if pair[1].seen is None]
    return [some for some in (seeing, blind) if some]
