"""Pictures and captions come in; how well each pair matches, read together, goes out.

Dimensions: Q queries, P pictures of a window, N pairs of a batch, L patches, H hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol
from warnings import warn

import torch

from unbag.models.fitting import Fitting

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    from unbag.models.hf_source import Source
    from unbag.types import DualEncoder, Query

WINDOW = 64
"""Pictures kept in memory as patches at a time."""
BATCH = 64
"""Pairs read together, of nearly the same length."""


class Reader(Protocol):
    """A model that reads a caption while it looks at the patches of a picture."""

    @property
    def name(self) -> str:
        """What a table calls it."""

    @property
    def fingerprint(self) -> str:
        """Of weights, configuration, picture preparation and tokenizer."""

    def prepare(self, image: Image) -> Tensor:
        """One picture by the model's own image processor."""

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Before cutting, special ones included."""

    @property
    def context(self) -> int:
        """Tokens a caption can have, special ones included."""

    def look(self, pixels: Tensor) -> Tensor:
        """Prepared pictures to their patches, [P, L, H]."""

    def match(self, patch_NLH: Tensor, captions: Sequence[str]) -> Tensor:
        """Logits of "no match" and "match", [N, 2]."""


class _Pair(NamedTuple):
    """A prompt of a query, and the place of its picture in the window."""

    length: int
    query: int
    picture: int
    prompt: str


class Match:
    """The matching head of a BLIP model as a scorer.

    The score is the logit of "match" minus that of "no match"; the probability is its sigmoid.
    Probabilities near 1 are equal in floating point where these are not, and would count as ties.
    A caption that is an ensemble gets the mean over its prompts.
    """

    scoring = "match"
    is_blind = False

    def __init__(self, reader: Reader) -> None:
        """Wrap a model that reads pairs."""
        self.reader = reader
        self.name = reader.name
        self.fingerprint = f"{reader.fingerprint}-match-1"
        self._fitting = Fitting(reader.name, lambda text: warn(text, stacklevel=2))

    @property
    def context(self) -> int:
        """Tokens a caption can have, special ones included; longer ones are cut."""
        return self.reader.context

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Before cutting, special ones included."""
        return self.reader.count_tokens(captions)

    @torch.inference_mode()
    def score(self, queries: Sequence[Query]) -> Tensor:
        """One number a query. A picture goes through its tower once for all of its captions."""
        places: dict[int, list[int]] = {}
        for i, query in enumerate(queries):
            places.setdefault(id(query.picture), []).append(i)
        score_Q = torch.zeros(len(queries), dtype=torch.float64)
        several = list(places.values())
        for at in range(0, len(several), WINDOW):
            window = several[at : at + WINDOW]
            pixels = [self.reader.prepare(queries[rows[0]].picture.open()) for rows in window]
            patch_PLH = self._fitting(self.reader.look, torch.stack(pixels))
            self._read(self._pairs(queries, window), patch_PLH, score_Q)
        prompts_Q = torch.tensor([len(_prompts(query)) for query in queries])
        return score_Q / prompts_Q

    def _pairs(self, queries: Sequence[Query], window: Sequence[Sequence[int]]) -> list[_Pair]:
        """Every prompt with its picture, shortest first."""
        places = [
            (query, picture, prompt)
            for picture, rows in enumerate(window)
            for query in rows
            for prompt in _prompts(queries[query])
        ]
        lengths = self.reader.count_tokens([prompt for *_, prompt in places])
        return sorted(_Pair(n, *place) for n, place in zip(lengths, places, strict=True))

    def _read(self, pairs: Sequence[_Pair], patch_PLH: Tensor, score_Q: Tensor) -> None:
        def read(some: Sequence[_Pair]) -> Tensor:
            patch_NLH = patch_PLH[[pair.picture for pair in some]]
            logit_N2 = self.reader.match(patch_NLH, [pair.prompt for pair in some]).double()
            return logit_N2[:, 1] - logit_N2[:, 0]

        for at in range(0, len(pairs), BATCH):
            some = list(pairs[at : at + BATCH])
            at_N = torch.tensor([pair.query for pair in some])
            score_Q.index_add_(0, at_N, self._fitting(read, some))


class TowerMatch(Match):
    """The same of a model that has two towers too; `--scorer cosine` takes these.

    A class of its own: `isinstance` asks a model for `encoder`, and one without must not have it.
    """

    def __init__(self, reader: Reader, encoder: DualEncoder) -> None:
        """Wrap a model that reads pairs, and its towers."""
        super().__init__(reader)
        self.encoder = encoder


def load_match(
    source: Source, architecture: str, *, device: str, dtype: str, compiles: bool
) -> Match:
    """The matching head of BLIP or BLIP-2."""
    import transformers

    from unbag.models.hf_blip import Blip, Blip2
    from unbag.models.hf_source import read_image_processor, read_tokenizer, read_weights

    kind = Blip if architecture == "BlipForImageTextRetrieval" else Blip2
    reader: Blip | Blip2 = kind(
        read_weights(source, getattr(transformers, architecture)),
        read_tokenizer(source),
        read_image_processor(source),
        name=source.name,
        device=device,
        dtype=dtype,
        compiles=compiles,
    )
    return TowerMatch(reader, reader) if isinstance(reader, Blip) else Match(reader)


def _prompts(query: Query) -> tuple[str, ...]:
    return (query.caption,) if isinstance(query.caption, str) else query.caption.prompts
