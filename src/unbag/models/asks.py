"""Many questions to a chat model come in; log-probabilities or answers go out, batched if it can.

Free of any library of models, so that a model on disk and a server are asked in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from unbag.errors import UserError
from unbag.types import Generator, Picture

if TYPE_CHECKING:
    from torch import Tensor


class Ask(NamedTuple):
    """One prompt about one picture, and the continuations whose probability is wanted."""

    picture: Picture | None
    """None asks the language prior: the same prompt without the picture."""
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

    def last_hidden(self, asks: Sequence[tuple[Picture | None, str]]) -> Tensor:
        """The last layer's hidden state at the last token of picture and text, [N, W].

        The picture stands first, then the text as it is, without a chat template. float32, on the
        CPU, not normalised; the same whatever stands in the same batch.
        """


def logprobs_of(model: Generator, asks: Sequence[Ask]) -> list[list[list[float]]]:
    """For every ask and continuation, the log-probability of each of its tokens."""
    if isinstance(model, BatchGenerator):
        return model.logprobs_of(asks)
    if any(ask.ends for ask in asks):
        raise UserError(
            f"{model.name} cannot score the end of an answer",
            expected="a chat model with `logprobs_of`, as those of transformers have",
            way_out="use a scorer without the end token, such as yes",
        )
    return [model.logprobs(ask.picture, ask.prompt, ask.continuations) for ask in asks]


def answers_of(model: Generator, asks: Sequence[Ask], *, longest: int = 32) -> list[str]:
    """A free answer to every ask."""
    if isinstance(model, BatchGenerator):
        return model.answers_of(asks, longest=longest)
    return [model.answer(ask.picture, ask.prompt, longest=longest) for ask in asks]


def scores_ends(model: Generator) -> bool:
    """Whether it can score the token that ends an answer; it says so in an attribute."""
    return bool(getattr(model, "scores_ends", False))
