"""Items come in; cosines of picture-with-question and caption go out, each vector computed once.

Dimensions: N queries, P pictures, C captions of an item, M vectors that are made, D their width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from warnings import warn

import torch
from torch import Tensor

from unbag.engine.cache import Shelf, open_shelf
from unbag.engine.progress import Progress, Silent
from unbag.models.asks import HiddenGenerator
from unbag.models.caption_only import text_of
from unbag.readouts.vlm2vec_core import unit
from unbag.readouts.vlm2vec_prompts import VERSION, WITHOUT, instruction, question_of
from unbag.scorers.cosine import average
from unbag.types import Caption, Item, Picture, Query, Scores


@dataclass(eq=False)
class AskedCosine:
    """VLM2Vec with the question in the prompt: a picture has another vector for every question."""

    model: HiddenGenerator
    scoring: str = "vlm2vec, with the question"
    is_blind: bool = False
    _shelf: Shelf = field(default_factory=lambda: Shelf(None, progress=Silent()), repr=False)
    _cache: Path | None = None
    _has_said: bool = False

    @property
    def name(self) -> str:
        """The model's, and that it is asked."""
        return f"{self.model.name} (vlm2vec, asked)"

    @property
    def fingerprint(self) -> str:
        """Of the model and the prompts."""
        return f"{self.model.fingerprint}-vlm2vec-asked{VERSION}"

    def meet(
        self,
        pictures: Sequence[Picture],
        captions: Sequence[str],
        *,
        cache: Path | None,
        progress: Progress,
    ) -> None:
        """Only told where vectors are kept: what is asked about a picture, its item says."""
        if cache is not None and cache != self._cache:
            device = str(getattr(self.model, "device", "cpu")).partition(":")[0]
            name = f"{self.fingerprint}-{device}"
            self._shelf = open_shelf(cache, name, "asked", progress=progress)
            self._cache = cache

    def score_items(self, items: Sequence[Item]) -> list[Scores]:
        """Cosines of every picture with every caption; an item without a question is not asked."""
        questions = [question_of(item) for item in items]
        self._say(items, questions)
        prompts = [instruction(question) for question in questions]
        asks = [(p, prompt) for i, prompt in zip(items, prompts, strict=True) for p in i.pictures]
        texts = [(None, t) for item in items for c in item.captions for t in _texts(c)]
        found = self._embed([*asks, *texts])
        scores = []
        for item, prompt in zip(items, prompts, strict=True):
            picture_PD = torch.stack([found[_key(p, prompt)] for p in item.pictures]).double()
            caption_CD = torch.stack([_caption(found, c) for c in item.captions]).double()
            # Summed pair by pair, so that equal vectors tie exactly.
            score_PC = (picture_PD[:, None] * caption_CD).sum(dim=-1)
            scores.append(Scores(item.id, score_PC.numpy()))
        return scores

    def score(self, queries: Sequence[Query]) -> Tensor:
        """Where there is no item: asked with a question that comes along, else without."""
        prompts = [instruction(q.question.text if q.question else None) for q in queries]
        asks = [(q.picture, prompt) for q, prompt in zip(queries, prompts, strict=True)]
        found = self._embed([*asks, *((None, t) for q in queries for t in _texts(q.caption))])
        picture_ND = torch.stack([found[_key(picture, prompt)] for picture, prompt in asks])
        caption_ND = torch.stack([_caption(found, query.caption) for query in queries])
        return (picture_ND.double() * caption_ND.double()).sum(dim=-1)

    def score_matrix(self, pictures: Sequence[Picture], captions: Sequence[Caption]) -> Tensor:
        """Galleries have no question, [P, C]."""
        found = self._embed(
            [(p, WITHOUT) for p in pictures] + [(None, t) for c in captions for t in _texts(c)]
        )
        picture_PD = torch.stack([found[_key(picture, WITHOUT)] for picture in pictures])
        caption_CD = torch.stack([_caption(found, caption) for caption in captions])
        return (picture_PD.double() @ caption_CD.double().T).float()

    def _embed(self, asks: Sequence[tuple[Picture | None, str]]) -> dict[str, Tensor]:
        """Unit vectors by key; those that are not known yet are made, each once."""
        wanted = {_key(picture, text): (picture, text) for picture, text in asks}
        known = self._shelf.get(wanted)
        missing = {key: ask for key, ask in wanted.items() if key not in known}
        if missing:
            vector_MD = unit(self.model.last_hidden(list(missing.values())))
            self._shelf.put(list(missing), vector_MD.numpy())
            known |= self._shelf.get(missing)
        return {key: torch.from_numpy(vector) for key, vector in known.items()}

    def _say(self, items: Sequence[Item], questions: Sequence[str | None]) -> None:
        """Once: that some items are not asked about."""
        without = [i for i, q in zip(items, questions, strict=True) if q is None]
        if without and not self._has_said:
            self._has_said = True
            warn(
                f"{self.name}: some items have no question, such as {without[0].id!r}, and their "
                f"captions state no relation to ask about; there the prompt is {WITHOUT!r}",
                stacklevel=3,
            )


def _texts(caption: Caption) -> tuple[str, ...]:
    return (text_of(caption),) if isinstance(caption, str) else caption.prompts


def _caption(found: Mapping[str, Tensor], caption: Caption) -> Tensor:
    return average(torch.stack([found[_key(None, text)] for text in _texts(caption)]))


def _key(picture: Picture | None, text: str) -> str:
    said = f"{'' if picture is None else picture.key}\0{text}"
    return blake2b(said.encode(), digest_size=16).hexdigest()
