"""Batches of the repair experiment come in; what each arm is shown of them goes out.

All arms of a step see the same scenes, captions and edits. Some are shown less, the edits of one
family alone, and some other positives: the words of the caption in another form.

Dimensions: B batch, K negatives, P positives of a caption.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from unbag.lab.repair_arms import View
from unbag.readouts.data import WORLD_NEGATIVES as NEGATIVES
from unbag.runs.files import paused_collector
from unbag.training.data.batch import Batch, Group, Pixels, Said, Truth, make_batch
from unbag.training.data.loader import Waiting, load
from unbag.training.data.world import FindWorldTruth, Told, WorldBatches, encode
from unbag.world.grammar import Statement, Style

SWAPS = "swap"
"""The slot of negatives that exchange words; all others put another word."""
_FORMS = 2
"""Sets the randomness of other forms apart from that of scenes and edits."""


@dataclass(frozen=True, eq=False)
class RepairBatch(Batch):
    """A batch, and the same pictures and captions with other positives."""

    rephrased: Batch | None = None

    def pin_memory(self) -> RepairBatch:
        """Both."""
        pinned = super().pin_memory()
        assert isinstance(pinned, RepairBatch)
        return replace(pinned, rephrased=self.rephrased and self.rephrased.pin_memory())


@dataclass(frozen=True)
class RepairBatches(WorldBatches):
    """Those of `unbag train`, bit by bit, with what the views need beside them."""

    views: frozenset[View] = frozenset({"all"})

    @paused_collector()
    def __getitem__(self, step: int) -> Batch:
        """The batch of a step."""
        if self.views == {"all"}:
            return super().__getitem__(step)
        samples, told = self.told(step)
        scenes = [sample.scene for sample in samples]
        pixels, code = self._pixels(scenes), encode(scenes, told)
        made = self._made(pixels, told, [_texts(one.positives) for one in told], code)
        turned_BP = torch.tensor([[_is_turned(one, p) for p in one.positives] for one in told])
        rephrased = None
        if "rephrased" in self.views:
            forms = [(rephrase(one.caption, self._draws(step, n)),) for n, one in enumerate(told)]
            rephrased = self._made(pixels, told, forms, {})
        kept = {**vars(made), "code": {**code, "turned_BP": turned_BP}}
        return RepairBatch(**kept, rephrased=rephrased)

    def _made(
        self,
        pixels: Pixels,
        told: Sequence[Told],
        positives: Sequence[tuple[str | None, ...]],
        code: Mapping[str, Tensor],
    ) -> Batch:
        return make_batch(
            pixels,
            [
                Said(one.caption.text, _texts(one.negatives), some)
                for one, some in zip(told, positives, strict=True)
            ],
            tokenize=self.reads.tokenize,
            count_tokens=self.reads.count_tokens,
            code=code,
            largest=self.largest,
        )

    def _draws(self, step: int, place: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, step, place, _FORMS))


def rephrase(said: Statement, rng: np.random.Generator) -> str | None:
    """The same words in another form, one of those that change the text; None if there is none.

    No edit of any test: articles, "with" or "and", long or short relations, "there is", digits.
    """
    style = said.style
    others: tuple[Style, ...] = (
        replace(style, article="a" if style.article == "the" else "the"),
        replace(style, joint="and" if style.joint == "with" else "with"),
        replace(style, long=not style.long),
        replace(style, double=not style.double),
        replace(style, digit=not style.digit),
    )
    texts = [Statement(said.ast, other).text for other in others]
    changed = [text for text in texts if text != said.text]
    return changed[rng.integers(len(changed))] if changed else None


def _is_turned(told: Told, positive: Statement | None) -> bool:
    """Whether a positive names things in the other order; synonyms leave the meaning's form."""
    return positive is not None and positive.ast != told.caption.ast


def _texts(statements: Sequence[Statement | None]) -> tuple[str | None, ...]:
    return tuple(None if one is None else one.text for one in statements)


@dataclass(frozen=True)
class Known:
    """The truth of a batch that stands in it: it was found once, for all arms."""

    def __call__(self, code: Mapping[str, Tensor], /) -> Truth:
        """Of the whole batch."""
        return Truth(code["also_true_BB"], code["negative_true_BBK"])


def views_on_device(
    batches: RepairBatches, *, first: int, workers: int, device: str, waiting: Waiting
) -> Generator[dict[View, Batch]]:
    """Step by step, what each kind of arm is shown; placed, drawn and looked up once for all."""
    flow = load(batches, first=first, workers=workers, device=device, waiting=waiting)
    is_swap_K = torch.tensor([slot.name == SWAPS for slot in NEGATIVES]).to(device)
    for batch in flow:
        code = {k: v.to(device, non_blocking=True) for k, v in batch.code.items()}
        turned_BP = code.pop("turned_BP", None)
        truth = FindWorldTruth()(code)
        assert truth.negative_true_BBK is not None
        found = {
            "also_true_BB": truth.also_true_BB,
            "negative_true_BBK": truth.negative_true_BBK,
        }
        pixels = batch.pixels.to(device, non_blocking=True)
        whole = _placed(batch, pixels, found, device)
        other = batch.rephrased if isinstance(batch, RepairBatch) else None
        views: dict[View, Batch] = {"all": whole}
        if other is not None:
            views["rephrased"] = _placed(other, pixels, found, device)
        if turned_BP is not None:
            views |= _families(whole, is_swap_K, turned_BP, batches.views)
        yield views


def _families(
    whole: Batch, is_swap_K: Tensor, turned_BP: Tensor, views: Collection[View]
) -> dict[View, Batch]:
    """The batch with the edits of one family alone."""
    kept: dict[View, tuple[Tensor, Tensor]] = {
        "swap": (is_swap_K, turned_BP),
        "replace": (~is_swap_K, ~turned_BP),
    }
    return {
        view: replace(
            whole,
            negative_BK=whole.negative_BK.masked_fill(~keep_K, -1),
            positive_BP=whole.positive_BP.masked_fill(~keep_BP, -1),
        )
        for view, (keep_K, keep_BP) in kept.items()
        if view in views
    }


def _placed(batch: Batch, pixels: Tensor, code: Mapping[str, Tensor], device: str) -> Batch:
    """Once for all arms."""
    return Batch(
        pixels=pixels,
        caption_B=batch.caption_B.to(device, non_blocking=True),
        negative_BK=batch.negative_BK.to(device, non_blocking=True),
        positive_BP=batch.positive_BP.to(device, non_blocking=True),
        groups=tuple(_placed_group(group, device) for group in batch.groups),
        place_U=batch.place_U.to(device, non_blocking=True),
        code=code,
    )


def _placed_group(group: Group, device: str) -> Group:
    inputs = {name: one.to(device, non_blocking=True) for name, one in group.inputs.items()}
    return Group(group.row_G, inputs)
