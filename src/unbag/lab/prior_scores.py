"""A decoder comes in; how probable it finds answers about relations, with M3ID or not, goes out.

Dimensions: N pictures, L patches, V width of features, M cells, B rows, A tokens of an answer, U
vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from unbag.lab.prior_lessons import item_lessons
from unbag.lab.questions import Score
from unbag.models.huggingface.chat_runner import M3ID
from unbag.readouts.decoder.lessons import NOTHING, LessonBatch, Words, make_lessons
from unbag.readouts.decoder.model import DecoderNet
from unbag.types import FloatArray, IntArray, Item

_ROWS = 2_048


def score_answers(
    net: DecoderNet, words: Words, seen_NLV: Tensor, *, context: int, m3id: M3ID | None, device: str
) -> Score:
    """Of each caption of an item: its answer to the question between it and its opposite."""
    net.eval()

    def score(picture_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        lessons = make_lessons(item_lessons(items), words, context=context).to(device)
        lesson_M = _lesson_of_cell(items)
        value_M = np.empty(len(lesson_M))
        for start in range(0, len(lesson_M), _ROWS):
            some = slice(start, start + _ROWS)
            batch = lessons.batch(lesson_M[some])
            seen_BLV = seen_NLV[torch.from_numpy(picture_M[some]).to(seen_NLV.device)]
            said_B = answer_log(net, seen_BLV, batch, end=words.end, m3id=m3id)
            value_M[some] = said_B.cpu().numpy()
        return value_M

    return score


def blind_share(
    net: DecoderNet, words: Words, items: Sequence[Item], *, context: int, device: str
) -> float:
    """What the language prior gives the frequent one of two answers, without any picture."""
    lessons = make_lessons(item_lessons(items), words, context=context).to(device)
    batch = lessons.batch(np.arange(len(lessons)))
    said_M = answer_log(net, None, batch, end=words.end, m3id=None)
    # The frequent caption of every two comes first in the sets of the world.
    return float(said_M.reshape(-1, 2).softmax(dim=1)[:, 0].mean())


@torch.inference_mode()
def answer_log(
    net: DecoderNet,
    seen_BLV: Tensor | None,
    batch: LessonBatch,
    *,
    end: int,
    m3id: M3ID | None,
) -> Tensor:
    """Sum over the words of an answer, as a search for the best one would add them up, [B]."""
    log_BAU = _log_probabilities(net, seen_BLV, batch)
    if m3id is not None:
        prior_BAU = _log_probabilities(net, None, batch)
        steps = range(log_BAU.shape[1])
        log_BAU = torch.stack([m3id(log_BAU[:, t], prior_BAU[:, t], t) for t in steps], dim=1)
    is_word_BA = (batch.target_BA != NOTHING) & (batch.target_BA != end)
    own_BA = log_BAU.gather(2, batch.target_BA.clamp(min=0)[..., None])[..., 0]
    return own_BA.masked_fill(~is_word_BA, 0.0).double().sum(dim=1)


def _log_probabilities(net: DecoderNet, seen_BLV: Tensor | None, batch: LessonBatch) -> Tensor:
    # In single precision, whatever trained it: bfloat16 makes ties, which count as misses.
    logit_BAU = net.answered(seen_BLV, batch)
    return logit_BAU.float().log_softmax(dim=-1)


def _lesson_of_cell(items: Sequence[Item]) -> IntArray:
    """Cells stand picture by picture, lessons caption by caption."""
    found, first = [], 0
    for item in items:
        own = np.arange(first, first + len(item.captions))
        found.append(np.tile(own, len(item.pictures)))
        first += len(item.captions)
    return np.concatenate(found)
