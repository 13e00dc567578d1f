"""Caption-only scorers, the blind baselines: what can be had without looking at the picture.

Dimensions: P pictures, C captions, Q queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unbag.errors import UserError, unknown_name
from unbag.types import Caption, FloatArray, Picture, Query

if TYPE_CHECKING:
    from torch import Tensor

    from unbag.models.caption_likelihood import Likelihood
    from unbag.models.caption_sentence import Sentence

Blind: TypeAlias = "CaptionOnly | Coin | Likelihood | Sentence"


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

    def score_matrix(self, pictures: Sequence[Picture], captions: Sequence[Caption]) -> Tensor:
        """[P, C]; all rows are equal."""
        import torch

        score_C = torch.tensor([self.rule(text_of(c)) for c in captions], dtype=torch.float64)
        return score_C.expand(len(pictures), len(captions))


@dataclass(frozen=True)
class Coin:
    """A random number for each pair of picture and caption, the same in every run.

    It depends on the seed, the file name of the picture, the caption and the question; not on the
    folder that the data lie in, and not on any pixel, which would mean to open the picture. A pair
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
        picture_Q = _hashes([_file_name(query.picture) for query in queries])
        caption_Q = _hashes([_asked(query) for query in queries])
        return self._uniform(picture_Q, caption_Q)

    def score_matrix(self, pictures: Sequence[Picture], captions: Sequence[Caption]) -> Tensor:
        """[P, C]: the same numbers as pair by pair."""
        import torch

        picture_P = _hashes([_file_name(picture) for picture in pictures])
        caption_C = _hashes([_asked(Query(pictures[0], caption)) for caption in captions])
        return torch.from_numpy(self._uniform(picture_P[:, None], caption_C[None, :]))

    def _uniform(self, one: NDArray[np.uint64], other: NDArray[np.uint64]) -> FloatArray:
        seed = _hashes([str(self.seed)])
        mixed = _mix(_mix(one + seed) ^ other)
        return (mixed >> np.uint64(11)).astype(np.float64) / 2**53


def text_of(caption: Caption) -> str:
    """A caption as one string; an ensemble is known by its name."""
    return caption if isinstance(caption, str) else caption.name


def _file_name(picture: Picture) -> str:
    return PurePath(picture.name).name


def _asked(query: Query) -> str:
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


def _between_0_and_1(caption: str) -> float:
    """Tells captions of one length apart, so that a blind guess reads as chance, not as a tie."""
    return int.from_bytes(blake2b(caption.encode(), digest_size=6).digest(), "big") / 2**48


# Many published negatives are longer than the truth: preferring the shorter caption alone scores
# about 71 % on SugarCrepe.
_RULES: dict[str, Callable[[str], float]] = {
    "constant": lambda caption: 0.0,
    "short": lambda caption: _between_0_and_1(caption) - len(caption),
    "long": lambda caption: _between_0_and_1(caption) + len(caption),
}
ALL = ("caption:constant", "caption:random", "caption:short", "caption:long")
"""What `--blind all` means: every baseline that needs no model."""


def load(name: str, *, device: str = "cpu") -> Blind:
    """`short`, `long`, `constant`, `random[:SEED]`, `[mean-]likelihood:PATH`, `sentence:PATH`."""
    kind, _, rest = name.partition(":")
    if kind in ("likelihood", "mean-likelihood"):
        from unbag.models.caption_likelihood import load_likelihood

        return load_likelihood(rest, is_mean=kind == "mean-likelihood", device=device)
    if kind == "sentence":
        from unbag.models.caption_sentence import load_sentence

        return load_sentence(rest, device=device)
    if kind == "random":
        return Coin(f"caption:{name}", _seed(rest)) if rest else Coin("caption:random")
    if name not in _RULES:
        models = ("likelihood", "mean-likelihood", "sentence")
        known = [*ALL, *(f"caption:{model}:PATH" for model in models)]
        raise unknown_name("model", f"caption:{name}", known)
    return CaptionOnly(f"caption:{name}", _RULES[name])


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise UserError(
            f"caption:random:{text}: {text!r} is no seed",
            expected="a whole number, as in caption:random:7",
        )
    return int(text)
