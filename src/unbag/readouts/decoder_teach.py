"""Frozen features, lessons and a decoder come in; the decoder is taught in place, and can go on.

Two stages, as for LLaVA: first the connector alone, then connector and language model. Nothing of a
step asks the device for a number, and the features never leave it.

Dimensions: N pictures, L patches, V width of features, M lessons, B rows, A tokens of an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unbag.errors import UserError
from unbag.readouts.compiled import compile_layers
from unbag.readouts.decoder_lessons import NOTHING, Draws, LessonBatch, Lessons
from unbag.readouts.decoder_net import DecoderNet
from unbag.readouts.decoder_settings import KINDS, DecoderSettings
from unbag.readouts.recorded import Recorded
from unbag.readouts.small_language import lean
from unbag.train.config import Precision
from unbag.train.moments import moments_of, put_moments
from unbag.train.optimise import decay_groups, put_rate, share_of_rate
from unbag.types import IntArray

_LOOK = 50
"""Steps after which the loss is read: asking a GPU for a number makes it wait."""
_CLIP = 1.0
"""Longest gradient."""


@dataclass(frozen=True)
class Taught:
    """A step that was taken."""

    step: int
    loss: float | None
    """None where it was not read."""


class Teaching:
    """A decoder in training. A step depends on (features, lessons, settings, seed, step) alone."""

    def __init__(
        self,
        net: DecoderNet,
        seen_NLV: Tensor | None,
        lessons: Lessons,
        settings: DecoderSettings,
        *,
        device: str = "cpu",
        precision: Precision = "float32",
        seed: int = 0,
    ) -> None:
        """Moves all to the device, once."""
        self.net = net.to(device)
        self.seen_NLV = None if seen_NLV is None else seen_NLV.to(device)
        self.lessons, self.settings = lessons.to(device), settings
        self.device, self.precision = device, precision
        self.draws = Draws(lessons, settings.shares, batch=settings.batch, seed=seed)
        connector = {n: w for n, w in net.named_parameters() if n.startswith("connector.")}
        self._language = {
            n: w
            for n, w in net.named_parameters()
            if not n.startswith("connector.") and w.requires_grad
        }
        self.weights = connector | self._language
        """All that training may change, by name."""
        is_cuda = device.startswith("cuda")
        rate = settings.rate
        self.optimiser = torch.optim.AdamW(
            decay_groups(self.weights, settings.weight_decay),
            lr=torch.tensor(rate, device=device) if is_cuda else rate,
            betas=(0.9, 0.98),
            fused=is_cuda,
            capturable=is_cuda,
        )
        # Of a real language model steps are long, and rows of one length would be mostly padding.
        self._is_recorded = is_cuda and settings.is_scratch and not settings.locked_steps
        self._recorded: dict[bool, Recorded] = {}
        self._ran: list[Any] = []
        """Language models that steps were recorded of: a recording knows by where they lie."""
        self._row_B = torch.zeros(settings.batch, dtype=torch.int64, device=device)
        self.step = 0
        """Steps that were taken."""

    def take_step(self) -> Tensor:
        """One more; gives the loss, on the device."""
        rate, is_first = self._rate()
        for weight in self._language.values():
            weight.requires_grad_(not is_first)
        put_rate(self.optimiser, rate)
        row_B, drawn = self.draws(self.step)
        is_blind = drawn < self.settings.blind and not is_first
        self.net.train()
        if self._is_recorded and len(row_B) == len(self._row_B):
            loss = self._replayed(row_B, is_blind=is_blind)
        else:
            loss = self._learn(self.lessons.batch(row_B), is_blind=is_blind)
        self.step += 1
        return loss

    def _replayed(self, row_B: IntArray, *, is_blind: bool) -> Tensor:
        self._row_B.copy_(torch.from_numpy(row_B))
        if is_blind not in self._recorded:
            self._recorded[is_blind] = Recorded(
                lambda: self._learn(self.lessons.whole(self._row_B), is_blind=is_blind),
                self.optimiser,
                device=self.device,
            )
        return self._recorded[is_blind]()

    def _learn(self, batch: LessonBatch, *, is_blind: bool) -> Tensor:
        seen_NLV = None if is_blind else self.seen_NLV
        with autocast(self.device, self.precision):
            loss = self.net.loss(None if seen_NLV is None else seen_NLV[batch.picture_B], batch)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.weights.values(), _CLIP)
        self.optimiser.step()
        return loss.detach()

    def run(self, on_step: Callable[[Taught], bool] | None = None) -> None:
        """To the last step, or until `on_step` says True: somebody stopped it."""
        if not self._is_recorded:
            self._run(on_step)
            return
        with lean(self.net):
            self._ran.append(self.net.language)
            compile_layers(self.net.language.base_model.layers, device=self.device)
            self._run(on_step)

    def _run(self, on_step: Callable[[Taught], bool] | None) -> None:
        steps = self.settings.steps
        while self.step < steps:
            loss = self.take_step()
            is_read = self.step % _LOOK == 0 or self.step == steps
            value = float(loss) if is_read else None
            if value is not None and not np.isfinite(value):
                raise UserError(
                    f"the loss of the decoder became {value} at step {self.step}",
                    expected="a finite number",
                    way_out=f"a smaller rate: --set learning_rate={self.settings.rate / 10:g}",
                )
            if on_step is not None and on_step(Taught(self.step, value)):
                break
        self.net.eval()

    def moments(self) -> dict[str, Tensor]:
        """What the optimiser keeps, by weight and name."""
        return moments_of(self.weights, self.optimiser)

    def restore(
        self, state: Mapping[str, Tensor], moments: Mapping[str, Tensor], step: int
    ) -> None:
        """Put weights and moments back where they were after a step."""
        self.net.load_state_dict(dict(state))
        # It knows moments by where they lay.
        self._recorded.clear()
        put_moments(self.weights, self.optimiser, moments)
        self.step = step

    def _rate(self) -> tuple[float, bool]:
        """The rate of this step, and whether the language model is locked."""
        settings, first = self.settings, self.settings.locked_steps
        is_first = self.step < first
        step, steps = (
            (self.step, first) if is_first else (self.step - first, settings.steps - first)
        )
        share = share_of_rate(step, steps=steps, warm_up=min(settings.warm_up, steps))
        return share * (settings.connector_rate if is_first else settings.rate), is_first


@dataclass(frozen=True)
class Fitted:
    """Lessons that a decoder answers right: the most probable token is the right one throughout."""

    share: float
    """Of all lessons."""
    by_kind: Mapping[str, float]
    count: int


@torch.inference_mode()
def share_right(
    net: DecoderNet,
    seen_NLV: Tensor | None,
    lessons: Lessons,
    *,
    rows: IntArray | None = None,
    batch: int = 256,
    device: str = "cpu",
    precision: Precision = "float32",
) -> Fitted:
    """On lessons of your choice, all by default."""
    net.eval()
    every = np.arange(len(lessons)) if rows is None else rows
    # Of like length together, so that little is padded.
    every = every[np.argsort(lessons.length_M[every], kind="stable")]
    found = []
    for start in range(0, len(every), batch):
        some = lessons.batch(every[start : start + batch])
        seen_BLV = None if seen_NLV is None else seen_NLV[some.picture_B]
        with autocast(device, precision):
            token_BA = net.answered(seen_BLV, some).argmax(dim=-1)
        found.append(((token_BA == some.target_BA) | (some.target_BA == NOTHING)).all(dim=1))
    right_M = torch.cat(found).cpu().numpy()
    kind_M = lessons.kind_M[every]
    by_kind = {name: float(right_M[kind_M == k].mean()) for k, name in enumerate(KINDS)
               if (kind_M == k).any()}  # fmt: skip
    return Fitted(float(right_M.mean()), MappingProxyType(by_kind), len(every))


def fits(
    net: DecoderNet,
    seen_NLV: Tensor | None,
    lessons: Lessons,
    settings: DecoderSettings,
    *,
    device: str = "cpu",
    precision: Precision = "float32",
    seed: int = 0,
) -> Fitted:
    """Teach on a fixed set and ask the same again: whether the decoder can learn at all.

    A decoder that cannot fit a few thousand fixed questions says nothing about the features.
    """
    teaching = Teaching(
        net, seen_NLV, lessons, settings, device=device, precision=precision, seed=seed
    )
    teaching.run()
    return share_right(net, teaching.seen_NLV, teaching.lessons, device=device, precision=precision)


def autocast(device: str, precision: Precision) -> AbstractContextManager[Any]:
    """Products in bfloat16, where asked for."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.partition(":")[0], dtype=torch.bfloat16)
