"""Items come in; how close each caption is to the item's others, picture unseen, goes out.

Dimensions: N texts of a batch, C captions of an item, L tokens, H hidden, D vector.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from unbag.errors import UserError
from unbag.models.fingerprint import fingerprint
from unbag.models.hf_captions import Captions, make_captions
from unbag.models.hf_source import (
    Source,
    need_transformers,
    parse_source,
    plain_config,
    quietly,
    read_config,
    read_tokenizer,
    read_weights,
)
from unbag.types import Caption, FloatArray, Item, Query, Scores, Sparse

if TYPE_CHECKING:
    from torch import Tensor

    from unbag.models.word_pooling import Pool

Pooling = Literal["mean", "cls", "lasttoken"]
POOL_OF: Mapping[Pooling, Pool] = {"mean": "mean", "cls": "cls", "lasttoken": "last"}
"""By the names of sentence-transformers."""
BATCH = 64
"""Texts run together, of nearly the same length."""
_REMEMBERED = 1 << 16
"""Vectors that `vectors` keeps, so that memory stays flat over millions of captions."""
_KEPT = 16
"""Captions up to which their similarities are kept with the scores."""
_VERSION = "caption-sentence-1"
"""Raise it whenever the code here changes a number."""


@dataclass(frozen=True, eq=False)
class Sentence:
    """Prefers the caption that is most like the item's other captions: the odd one out is false.

    The score is the mean cosine of its sentence vector with those of the others. It needs three
    captions or more: of two, each is as close to the other, which is a tie; one alone has no score.
    A benchmark that can be had this way shows which caption was made from the others.
    """

    name: str
    model: Any
    captions: Captions
    pooling: Pooling
    fingerprint: str
    device: str = "cpu"
    scoring: str = "caption only"
    is_blind: bool = True
    _known: dict[str, FloatArray] = field(default_factory=dict, repr=False)

    @property
    def context(self) -> int:
        """Tokens a caption can have, special ones included; longer ones are cut."""
        return self.captions.context

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Before cutting, special ones included."""
        return self.captions.count(captions)

    def score(self, queries: Sequence[Query]) -> list[float]:
        """Refused: a caption alone has nothing to be compared with."""
        raise UserError(
            f"{self.name} compares the captions of an item with each other",
            expected="whole items, by score_items",
            way_out="use `unbag run` or `unbag score`, which show it all captions together",
        )

    def score_items(self, items: Sequence[Item]) -> list[Scores]:
        """The same row for every picture of an item."""
        for item in items:
            if isinstance(item.truth, Sparse):
                raise UserError(
                    f"{self.name} cannot rank the gallery {item.id!r}",
                    expected="items whose captions belong together",
                    way_out="leave the retrieval benchmarks out for this baseline",
                )
        self._learn([text for item in items for c in item.captions for text in _prompts(c)])
        return [self._scores(item) for item in items]

    def vectors(self, captions: Sequence[str]) -> FloatArray:
        """[N, D]: a vector of length 1 for each caption alone."""
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        self._learn(captions)
        return np.stack([self._vector(caption) for caption in captions])

    def _scores(self, item: Item) -> Scores:
        vector_CD = np.stack([self._vector(caption) for caption in item.captions])
        cosine_CC = vector_CD @ vector_CD.T
        # A product of matrices need not be symmetric to the last bit, and ties must be ties.
        cosine_CC = (cosine_CC + cosine_CC.T) / 2
        others = len(vector_CD) - 1
        # A score of its own, 1 but for rounding, would not always cancel out.
        other_CC = np.where(np.eye(others + 1, dtype=np.bool_), 0.0, cosine_CC)
        score_C = other_CC.sum(axis=1) / others if others else np.full(1, np.nan)
        return Scores(
            item.id,
            np.tile(score_C, (len(item.pictures), 1)),
            caption_CC=cosine_CC if len(vector_CD) <= _KEPT else None,
        )

    def _vector(self, caption: Caption) -> FloatArray:
        mean: FloatArray = np.mean([self._known[text] for text in _prompts(caption)], axis=0)
        return mean / np.linalg.norm(mean)

    def _learn(self, texts: Sequence[str]) -> None:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        counts = dict(zip(new, self.captions.count(new), strict=True)) if new else {}
        new.sort(key=lambda text: (counts[text], text))
        for at in range(0, len(new), BATCH):
            some = new[at : at + BATCH]
            vectors = self._encode(some).double().cpu().numpy()
            self._known.update(zip(some, vectors, strict=True))

    def _encode(self, texts: Sequence[str]) -> Tensor:
        import torch
        from torch.nn.functional import normalize

        from unbag.models.word_pooling import pool_words

        inputs = {name: value.to(self.device) for name, value in self.captions(texts).items()}
        mask_NL = inputs["attention_mask"]
        with torch.inference_mode():
            hidden_NLH = self.model(**inputs).last_hidden_state
            found: Tensor = normalize(
                pool_words(hidden_NLH, mask_NL, POOL_OF[self.pooling]), dim=-1
            )
        return found


def load_sentence(path: str, *, device: str = "cpu") -> Sentence:
    """From a folder of sentence-transformers or transformers, or a name on the hub."""
    need_transformers("caption:sentence")
    from transformers import AutoModel

    source = parse_source(path)
    config = read_config(source)
    if hasattr(config, "vision_config") or config.is_encoder_decoder:
        raise UserError(
            f"{source.path} is a {config.model_type!r}",
            expected="an encoder of sentences, such as all-MiniLM-L6-v2",
            way_out="take one of sentence-transformers",
        )
    pooling = sentence_pooling(source)
    longest = checkpoint_file(source, "sentence_bert_config.json").get("max_seq_length")
    captions = make_captions(
        config, read_tokenizer(source), is_padded=False, has_mask=True, most=longest
    )
    # The pooler of BERT is left out of many such checkpoints and never asked here.
    model = read_weights(source, AutoModel, unused=("pooler.",)).float().to(device)
    state = {k: v for k, v in model.state_dict().items() if not k.startswith("pooler.")}
    said = (plain_config(config), captions.said, pooling, _VERSION)
    return Sentence(
        name=f"caption:sentence:{source.name}",
        model=model,
        captions=captions,
        pooling=pooling,
        fingerprint=fingerprint("caption:sentence", state, *said),
        device=device,
    )


def sentence_pooling(source: Source) -> Pooling:
    """As modules.json says; the mean of all tokens where there is none."""
    modules = [
        str(one["type"]).rpartition(".")[2] for one in checkpoint_file(source, "modules.json") or []
    ]
    settings = checkpoint_file(source, "1_Pooling/config.json")
    modes = [key.removeprefix("pooling_mode_") for key, value in settings.items() if value is True]
    modes = [mode.removesuffix("_token").removesuffix("_tokens") for mode in modes]
    modes = [m for m in modes if m != "include_prompt"] or [settings.get("pooling_mode", "mean")]
    odd = sorted({*modules} - {"Transformer", "Pooling", "Normalize"})
    if odd or len(modes) > 1 or modes[0] not in ("mean", "cls", "lasttoken"):
        raise UserError(
            f"{source.path} pools tokens by {' and '.join([*modes, *odd])}",
            expected="mean, cls or lasttoken, and no layers after it",
            way_out="take another sentence encoder",
        )
    return cast(Pooling, modes[0])


def checkpoint_file(source: Source, name: str) -> Any:
    """A JSON file of the checkpoint; empty if it has none."""
    from transformers.utils.hub import cached_file

    place: str | None = str(Path(source.path) / name)
    if not source.is_folder:
        with quietly():
            place = cached_file(
                source.path,
                name,
                revision=source.revision,
                _raise_exceptions_for_missing_entries=False,
            )
    if place is None or not Path(place).is_file():
        return {}
    return json.loads(Path(place).read_text(encoding="utf-8"))


def _prompts(caption: Caption) -> tuple[str, ...]:
    return (caption,) if isinstance(caption, str) else caption.prompts
