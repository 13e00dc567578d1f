"""Chat models whose answers follow from a rule, so that what probes find is known beforehand."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import log

import numpy as np

from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.models.huggingface.chat import Ask
from unbag.probes.base import ImagePair, ProbeData, Row
from unbag.types import ImageSource
from unbag.world.oracles import semantic

Believes = Callable[[ImageSource | None, str], float]
"""How probable a caption is of an image, from 0 to 1; without one, the prior."""
_OPTION = re.compile(r"^([AB])\. (.*)$", flags=re.MULTILINE)
_TRUTH = semantic()


def reads(image: ImageSource | None, caption: str) -> float:
    """A perfect reader of scenes that has no prior."""
    return 0.5 if image is None else 0.1 + 0.8 * _TRUTH.judge(image, caption)


def prefers(image: ImageSource | None, caption: str) -> float:
    """A pure prior: it believes what it likes, whatever the image."""
    number = int.from_bytes(blake2b(caption.encode(), digest_size=4).digest(), "big")
    return (1 + number) / 2**33


def drawn(shade: int) -> PixelImage:
    return PixelImage(np.full((8, 8, 3), shade, dtype=np.uint8), name=f"shade {shade}")


def few(pairs: int = 4, *, rows: int = 0) -> ProbeData:
    """Images with even shades are dark cats, those with odd ones dark dogs."""
    return ProbeData(
        "shades",
        tuple(
            Row(f"row {n}", drawn(2 * n), f"a cat, {n}", f"a dog, {n}", kind="noun")
            for n in range(rows)
        ),
        tuple(
            ImagePair(
                f"pair {n}", drawn(2 * n), drawn(2 * n + 1), "noun", (f"a cat, {n}", f"a dog, {n}")
            )
            for n in range(pairs)
        ),
    )


def is_cat(image: ImageSource) -> bool:
    return int(np.asarray(image.open())[0, 0, 0]) % 2 == 0


def sees_cats(image: ImageSource | None, caption: str) -> float:
    """A perfect reader of shades without a prior."""
    if image is None:
        return 0.5
    return 0.9 if is_cat(image) == ("cat" in caption) else 0.1


@dataclass(frozen=True)
class Ruled:
    """Says yes to what it believes, and the letter of what it believes more."""

    believes: Believes
    yes: Callable[[float], float] = lambda belief: belief
    """From belief to P(yes)."""
    first: float = 1.0
    """How much likelier an option is for being the first."""
    tells: bool = True
    """Log-probabilities; else it only answers."""
    sure: Callable[[str], str] = lambda answer: answer
    """From what it means to what it says."""
    name: str = "ruled"
    fingerprint: str = "ruled-1"
    asked: list[Ask] = field(default_factory=list)

    def logprobs(
        self, image: ImageSource | None, prompt: str, continuations: Sequence[str]
    ) -> list[list[float]]:
        if not self.tells:
            raise UnbagError("the server gives no logprobs", expected="some")
        self.asked.append(Ask(image, prompt, tuple(continuations)))
        chance = self._chances(image, prompt)
        return [[log(chance[word])] for word in continuations]

    def answer(self, image: ImageSource | None, prompt: str, *, longest: int = 32) -> str:
        self.asked.append(Ask(image, prompt))
        chance = self._chances(image, prompt)
        return self.sure(max(chance, key=lambda word: chance[word]))

    def _chances(self, image: ImageSource | None, prompt: str) -> dict[str, float]:
        if image is not None:
            image.open()
        options = dict(_OPTION.findall(prompt))
        if options:
            belief = {letter: self.believes(image, text) for letter, text in options.items()}
            belief["A"] *= self.first
            return {letter: one / sum(belief.values()) for letter, one in belief.items()}
        (caption,) = re.findall('show "(.*)"', prompt)
        yes = self.yes(self.believes(image, caption))
        return {"Yes": yes, "No": 1 - yes}
