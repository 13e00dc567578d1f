"""Items come in; cosines of picture-with-question and caption go out, each vector computed once.

Dimensions: P pictures, C captions of an item, M queries, D width of the language model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from warnings import warn

import numpy as np
import torch
from torch import Tensor

from unbag.engine.scoring import is_large, ranked
from unbag.models.asks import HiddenGenerator
from unbag.models.caption_only import text_of
from unbag.readouts.vlm2vec_core import unit
from unbag.readouts.vlm2vec_prompts import VERSION, WITHOUT, instruction, question_of
from unbag.scorers.cosine import average
from unbag.types import Caption, FloatArray, Item, Picture, Query, Scores

_BYTES = 2**30
"""Of vectors that are kept; then all are forgotten."""


@dataclass(frozen=True, eq=False)
class AskedCosine:
    """VLM2Vec with the question in the prompt: a picture has another vector for every question."""

    model: HiddenGenerator
    scoring: str = "vlm2vec, with the question"
    is_blind: bool = False
    _kept: dict[tuple[str | None, str], Tensor] = field(default_factory=dict, repr=False)
    _said: set[str] = field(default_factory=set, repr=False)

    @property
    def name(self) -> str:
        """The model's, and that it is asked."""
        return f"{self.model.name} (vlm2vec, asked)"

    @property
    def fingerprint(self) -> str:
        """Of the model and the prompts."""
        return f"{self.model.fingerprint}-vlm2vec-asked{VERSION}"

    def score_items(self, items: Sequence[Item]) -> list[Scores]:
        """Cosines of every picture with every caption; an item without a question is not asked."""
        questions = [question_of(item) for item in items]
        self._say(items, questions)
        prompts = [instruction(question) for question in questions]
        asks = [(p, prompt) for i, prompt in zip(items, prompts, strict=True) for p in i.pictures]
        texts = [(None, t) for item in items for c in item.captions for t in _texts(c)]
        self._embed([*asks, *texts])
        return [self._scores(item, prompt) for item, prompt in zip(items, prompts, strict=True)]

    def score(self, queries: Sequence[Query]) -> list[float]:
        """Where there is no item: asked with a question that comes along, else without."""
        prompts = [instruction(q.question.text if q.question else None) for q in queries]
        asks = [(q.picture, prompt) for q, prompt in zip(queries, prompts, strict=True)]
        self._embed([*asks, *((None, t) for q in queries for t in _texts(q.caption))])
        found = []
        for query, (picture, prompt) in zip(queries, asks, strict=True):
            picture_D, caption_D = self._picture(picture, prompt), self._caption(query.caption)
            found.append(float(picture_D.double() @ caption_D.double()))
        return found

    def _scores(self, item: Item, prompt: str) -> Scores:
        picture_PD = torch.stack([self._picture(p, prompt) for p in item.pictures]).double()
        caption_CD = torch.stack([self._caption(c) for c in item.captions]).double()
        if is_large(item):
            return ranked(item, lambda a, b: _product(picture_PD[a:b], caption_CD), 0.0)
        # Summed pair by pair, so that equal vectors tie exactly.
        return Scores(item.id, (picture_PD[:, None] * caption_CD).sum(dim=-1).numpy())

    def _picture(self, picture: Picture, prompt: str) -> Tensor:
        return self._kept[picture.key, prompt]

    def _caption(self, caption: Caption) -> Tensor:
        return average(torch.stack([self._kept[None, text] for text in _texts(caption)]))

    def _embed(self, asks: Sequence[tuple[Picture | None, str]]) -> None:
        """Those that are not known yet, each once."""
        wanted = {(p.key if p is not None else None, text): (p, text) for p, text in asks}
        size = sum(vector.nbytes for vector in self._kept.values())
        if size > _BYTES:
            self._kept.clear()
        missing = {key: ask for key, ask in wanted.items() if key not in self._kept}
        if missing:
            vector_MD = unit(self.model.last_hidden(list(missing.values())))
            self._kept.update(zip(missing, vector_MD, strict=True))

    def _say(self, items: Sequence[Item], questions: Sequence[str | None]) -> None:
        """Once: that some items are not asked about."""
        without = [i for i, q in zip(items, questions, strict=True) if q is None]
        if without and not self._said:
            self._said.add(WITHOUT)
            warn(
                f"{self.name}: some items have no question, such as {without[0].id!r}, and their "
                f"captions state no relation to ask about; there the prompt is {WITHOUT!r}",
                stacklevel=3,
            )


def _texts(caption: Caption) -> tuple[str, ...]:
    return (text_of(caption),) if isinstance(caption, str) else caption.prompts


def _product(picture_PD: Tensor, caption_CD: Tensor) -> FloatArray:
    found: FloatArray = (picture_PD @ caption_CD.T).float().double().numpy()
    return np.ascontiguousarray(found)
