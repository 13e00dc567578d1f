"""A decoder on patches comes in; VLM2Vec trained from it on the world, and asked, goes out.

Dimensions: N pictures, L patches, V width of features, M pairs, B queries, T targets, K negatives,
W width of the language model.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from unbag.lab.arm_result import FEW_STEPS, ArmResult
from unbag.lab.readout_arms import VECTOR_ARMS
from unbag.readouts.decoder.language import lean
from unbag.readouts.decoder.lessons import DecoderSettings
from unbag.readouts.decoder.training import autocast
from unbag.readouts.vlm2vec.data import about_caption, instruction, question_of
from unbag.readouts.vlm2vec.model import unit
from unbag.readouts.vlm2vec.training import contrast, share_of_rate
from unbag.training.data.world import FindWorldTruth
from unbag.training.optim import put_rate
from unbag.training.recipes import Precision
from unbag.types import FloatArray, IntArray, Item

if TYPE_CHECKING:
    from unbag.lab.questions import Score
    from unbag.lab.readout_base import Base
    from unbag.readouts.decoder.lessons import Words
    from unbag.readouts.decoder.model import DecoderNet

_SETTINGS = DecoderSettings(keeps="float16")
VECTOR_BATCH, _RATE, _WARM_UP = 256, 3e-4, 100
_AT_ONCE = 1_024


def run_vectors(
    name: str, base: Base, decoder: DecoderNet, words: Words
) -> tuple[ArmResult, DecoderNet]:
    """Contrastive, from query to target, over captions and hard negatives of the batch."""
    from unbag.lab.readout_decoders import question_features

    asks, settings = VECTOR_ARMS[name].asks, base.settings
    texts, material = _Texts(words, settings.device), base.material(_SETTINGS)
    assert material.seen_NLV is not None
    lesson = _lessons_of(base, asks=asks)
    count = material.count - material.held
    few = min(settings.fit_rows, count)
    train = partial(_Trained, decoder, material.seen_NLV, lesson, texts, seed=base.seed)
    fit_steps = min(settings.fit_steps, max(1, settings.vector_steps // 3))
    by_heart = train(rows=few, steps=fit_steps)
    share = by_heart.share_right(np.arange(few), among_own=True)
    fit = {"few": share, FEW_STEPS: float(fit_steps)}
    trained = train(rows=count, steps=settings.vector_steps)
    held = np.arange(count, material.count)
    for what, rows in (("learned", np.arange(min(count, len(held)))), ("held", held)):
        if len(rows):
            fit[what] = trained.share_right(rows)
    seen_NLV = question_features(base, _SETTINGS)
    assert seen_NLV is not None
    numbers = base.questions.measured(_score(trained.net, seen_NLV, texts, base, asks=asks))
    result = base.result(
        name,
        {**numbers, "fit": fit},
        steps=settings.vector_steps,
        batch=VECTOR_BATCH,
        loss=trained.loss,
        precision=precision_of(settings.device),
    )
    return result, trained.net


class _Trained:
    """A copy of a decoder that has learned to embed the first rows."""

    def __init__(
        self,
        decoder: DecoderNet,
        seen_NLV: Tensor,
        lesson: _Lessons,
        texts: _Texts,
        *,
        rows: int,
        steps: int,
        seed: int,
    ) -> None:
        self._seen_NLV, self._lesson, self._texts = seen_NLV, lesson, texts
        # One that was read from a folder has a frozen language model.
        self.net = copy.deepcopy(decoder).to(texts.device).requires_grad_(True)
        self.net.look = None
        optimiser = torch.optim.AdamW(self.net.parameters(), lr=_RATE, weight_decay=0.0)
        self.net.train()
        loss: Tensor | None = None
        with nullcontext() if texts.device == "cpu" else lean(self.net):
            for step in range(steps):
                share = share_of_rate(step, steps=steps, warm_up=min(_WARM_UP, steps))
                put_rate(optimiser, _RATE * share)
                rng = np.random.default_rng((seed, step))
                row_B = rng.choice(rows, min(VECTOR_BATCH, rows), replace=False)
                loss = _loss(self.net, seen_NLV, lesson, texts, row_B)
                optimiser.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
                optimiser.step()
        self.net.eval()
        self.loss = None if loss is None else float(loss.detach())

    def share_right(self, row_N: IntArray, *, among_own: bool = False) -> float:
        """Own captions nearest of a batch's captions and negatives, or of their own negatives."""
        found = [
            _told_apart(
                self.net, self._seen_NLV, self._lesson, self._texts, row_B, among_own=among_own
            )
            for row_B in np.split(row_N, range(VECTOR_BATCH, len(row_N), VECTOR_BATCH))
        ]
        return float(torch.cat(found).float().mean())


def _lessons_of(base: Base, *, asks: bool) -> _Lessons:
    code = {
        key: torch.cat([some.code[key] for some in base.rows]).to(base.settings.device)
        for key in base.rows[0].code
    }
    return _Lessons(
        [c for some in base.rows for c in some.captions],
        [n for some in base.rows for n in some.negatives],
        code,
        asks=asks,
        seed=base.seed,
    )


def precision_of(device: str) -> Precision:
    """As in pre-training."""
    return "float32" if device == "cpu" else "bfloat16"


class _Texts:
    """Tokens of texts, each made once."""

    def __init__(self, words: Words, device: str) -> None:
        self._words, self.device = words, device
        self._known: dict[str, list[int]] = {}

    def __call__(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """[N, T] padded on the right, and the place of the last token of each."""
        rows = []
        for text in texts:
            if text not in self._known:
                self._known[text] = self._words.ask(text)
            rows.append(self._known[text])
        token = np.full((len(rows), max(map(len, rows))), self._words.pad, dtype=np.int64)
        for n, row in enumerate(rows):
            token[n, : len(row)] = row
        last = np.array([len(row) - 1 for row in rows])
        return torch.from_numpy(token).to(self.device), torch.from_numpy(last).to(self.device)


class _Lessons:
    """Queries, targets and what also fits, by rows."""

    def __init__(
        self,
        captions: Sequence[str],
        negatives: Sequence[Sequence[str | None]],
        code: dict[str, Tensor],
        *,
        asks: bool,
        seed: int,
    ) -> None:
        self.captions, self.negatives, self.code, self.asks = captions, negatives, code, asks
        self._seed, self._truth = seed, FindWorldTruth()
        self._prompts: dict[int, str] = {}

    def prompt(self, row: int) -> str:
        """Made once: a row is drawn several times."""
        if row not in self._prompts:
            self._prompts[row] = self._prompt(row)
        return self._prompts[row]

    def _prompt(self, row: int) -> str:
        if not self.asks:
            return instruction(None)
        # Which thing is named first must not tell the answer.
        is_turned = bool(np.random.default_rng((self._seed, 7, row)).integers(2))
        return instruction(about_caption(self.captions[row], is_turned=is_turned))

    def targets(self, row_B: IntArray) -> tuple[list[str], Tensor]:
        """Captions, then negatives; and which of them also fit each picture, [B, T]."""
        at = torch.from_numpy(row_B).to(next(iter(self.code.values())).device)
        truth = self._truth({key: value[at] for key, value in self.code.items()})
        texts = [self.captions[row] for row in row_B]
        masked = [truth.also_true_BB]
        flat = [text for row in row_B for text in self.negatives[row]]
        keep = [place for place, text in enumerate(flat) if text is not None]
        if keep and truth.negative_true_BBK is not None:
            texts += [flat[place] or "" for place in keep]
            kept = torch.tensor(keep, device=at.device)
            masked.append(truth.negative_true_BBK.flatten(1)[:, kept])
        return texts, torch.cat(masked, dim=1)

    def owners(self, row_B: IntArray) -> Tensor:
        """Of each target, the place in the batch whose caption or negative it is, [T]."""
        every = [at for at, row in enumerate(row_B) for one in self.negatives[row] if one]
        return torch.tensor([*range(len(row_B)), *every])


def _embed(net: DecoderNet, seen_BLV: Tensor | None, token: Tensor, last: Tensor) -> Tensor:
    hidden_BTW = net.hidden(seen_BLV, token)
    return hidden_BTW[torch.arange(len(last), device=last.device), last]


def _vectors(
    net: DecoderNet, seen_NLV: Tensor, lesson: _Lessons, texts: _Texts, row_B: IntArray
) -> tuple[Tensor, Tensor, Tensor]:
    precision = precision_of(texts.device)
    said, masked_BT = lesson.targets(row_B)
    at = torch.from_numpy(row_B).to(texts.device)
    with autocast(texts.device, precision):
        query_BW = _embed(net, seen_NLV[at], *texts([lesson.prompt(int(row)) for row in row_B]))
        target_TW = _embed(net, None, *texts(said))
    return query_BW, target_TW, masked_BT


def _loss(
    net: DecoderNet, seen_NLV: Tensor, lesson: _Lessons, texts: _Texts, row_B: IntArray
) -> Tensor:
    query_BW, target_TW, masked_BT = _vectors(net, seen_NLV, lesson, texts, row_B)
    return contrast(query_BW, target_TW, masked_BT=masked_BT)


@torch.inference_mode()
def _told_apart(
    net: DecoderNet,
    seen_NLV: Tensor,
    lesson: _Lessons,
    texts: _Texts,
    row_B: IntArray,
    *,
    among_own: bool,
) -> Tensor:
    """Whether the own caption is nearest among all of the batch and their negatives, [B].

    Among its own negatives only, where asked for; rows without anything beside are left out.
    """
    query_BW, target_TW, masked_BT = _vectors(net, seen_NLV, lesson, texts, row_B)
    if among_own:
        owner_T = lesson.owners(row_B).to(texts.device)
        masked_BT = masked_BT | (owner_T != torch.arange(len(row_B), device=texts.device)[:, None])
    cosine_BT = (unit(query_BW) @ unit(target_TW).T).masked_fill(masked_BT, -torch.inf)
    own_B = cosine_BT.diagonal().clone()
    cosine_BT.fill_diagonal_(-torch.inf)
    best_B = cosine_BT.amax(dim=1)
    return (own_B > best_B)[best_B.isfinite()]


def _repeated(item: Item, said: str) -> list[str]:
    return [said] * (len(item.pictures) * len(item.captions))


def _score(net: DecoderNet, seen_NLV: Tensor, texts: _Texts, base: Base, *, asks: bool) -> Score:
    precision = precision_of(texts.device)

    @torch.inference_mode()
    def embedded(rows: IntArray | None, said: Sequence[str]) -> Tensor:
        found = []
        for start in range(0, len(said), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            seen = None if rows is None else seen_NLV[torch.from_numpy(rows[some]).to(texts.device)]
            with autocast(texts.device, precision):
                found.append(unit(_embed(net, seen, *texts(said[some]))).cpu())
        return torch.cat(found).double()

    caption_CW = embedded(None, base.questions.captions)

    def score(picture_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        asked = [
            said
            for item in items
            for said in _repeated(item, instruction(question_of(item) if asks else None))
        ]
        place: dict[tuple[int, str], int] = {}
        keys = zip(picture_M.tolist(), asked, strict=True)
        at_M = np.array([place.setdefault(key, len(place)) for key in keys])
        query = embedded(np.array([row for row, _ in place]), [text for _, text in place])
        value_M: FloatArray = (query[at_M] * caption_CW[caption_M]).sum(dim=-1).numpy()
        return value_M

    return score
