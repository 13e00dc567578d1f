"""A chat model comes in; a scorer for each prompt of a protocol goes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from unbag.errors import UserError
from unbag.models.asks import ContrastiveGenerator
from unbag.scorers import prompts as sets
from unbag.scorers.chat_answer import FreeAnswer
from unbag.scorers.chat_letters import Letters
from unbag.scorers.chat_options import OptionLikelihood
from unbag.scorers.chat_yes import Yes
from unbag.scorers.prompts import Prompt, chosen
from unbag.scorers.questions import VERSION
from unbag.types import Generator, Scorer


@dataclass(frozen=True)
class Identity:
    """What a result is known by."""

    name: str
    fingerprint: str
    prompt: str
    is_variant: bool


@dataclass(frozen=True)
class Protocol:
    """A way to have a score from answers, with the prompts it is run with."""

    name: str
    prompts: tuple[Prompt, ...]
    make: Callable[..., Scorer]
    needs: type[Any] = Generator
    """What the model must be able to do."""
    version: str = VERSION
    """Of its code: part of the fingerprint."""

    def __call__(self, model: object) -> Scorer:
        """With the published prompt."""
        return self.scorers(model, sets.PUBLISHED)[0]

    def scorers(self, model: object, asked: str = "all") -> list[Scorer]:
        """One for each prompt, the published one first."""
        if not isinstance(model, Generator) or not isinstance(model, self.needs):
            what = getattr(model, "name", type(model).__name__)
            raise UserError(
                f"the scorer {self.name!r} asks questions, and {what!r} cannot answer them"
                if not isinstance(model, Generator)
                else f"the scorer {self.name!r} needs what {what!r} cannot do",
                expected="a chat model"
                if not isinstance(model, Generator)
                else "a chat model that decodes against its own language prior (hf:...)",
                way_out="leave --scorer out to use the model's own",
            )
        return [self.make(model, prompt, self._identity(model, prompt))
                for prompt in chosen(self.prompts, asked)]  # fmt: skip

    def _identity(self, model: Generator, prompt: Prompt) -> Identity:
        said = "\0".join((self.name, prompt.caption, prompt.question, self.version))
        digest = blake2b(said.encode(), digest_size=6).hexdigest()
        name = model.name if prompt.is_published else f"{model.name} ({prompt.name})"
        return Identity(name, f"{model.fingerprint}-{digest}", prompt.name, not prompt.is_published)


def _made(kind: Callable[..., Scorer], **settings: Any) -> Callable[..., Scorer]:
    def make(model: Generator, prompt: Prompt, known: Identity) -> Scorer:
        return kind(model, prompt, name=known.name, fingerprint=known.fingerprint,
                    is_variant=known.is_variant, **settings)  # fmt: skip

    return make


YES = Protocol("yes", sets.YES, _made(Yes))
YES_NORMALISED = Protocol("yes-normalised", sets.YES, _made(Yes, is_normalised=True))
YES_CONTRAST = Protocol("yes-contrast", sets.YES, _made(Yes, is_contrast=True))
LETTERS = Protocol("letters", sets.LETTERS, _made(Letters), version=f"{VERSION}.1")
PERPLEXITY = Protocol("perplexity", sets.OPTIONS, _made(OptionLikelihood))
LIKELIHOOD = Protocol("likelihood", sets.OPTIONS, _made(OptionLikelihood, is_mean=False))
ANSWER = Protocol("answer", sets.ANSWER, _made(FreeAnswer))
M3ID_ANSWER = Protocol(
    "m3id", sets.ANSWER, _made(FreeAnswer, is_contrastive=True), needs=ContrastiveGenerator
)
