"""A reader and a pool come in; the reader is trained in place, step by step, and can go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from unbag.errors import UserError
from unbag.readouts.pool import Order, Pool
from unbag.readouts.reader import Reader, told_apart
from unbag.readouts.recorded import Recorded
from unbag.train.optimise import decay_groups, put_rate, share_of_rate

_LOOK = 50
"""Steps after which the loss is read: asking a GPU for a number makes it wait."""


@dataclass(frozen=True)
class Effort:
    """How long and how fast a reader learns; read-outs add settings of their own."""

    steps: int = 2_000
    batch: int = 256
    """Pictures of a step."""
    crowd: int = 32
    """Pictures and captions that are told apart at a time; each picture has its negatives beside
    them."""
    learning_rate: float = 1e-3
    warm_up: int = 100
    weight_decay: float = 0.01
    negatives: bool = True
    """Whether hard negatives of the pairs are used."""
    scenes: int = 20_000
    """Of the world, where it is trained on that."""
    opposites: bool = False
    """Of the world: pairs of scenes that are each other's opposite, side by side in a batch."""


@dataclass(frozen=True)
class Taken:
    """A step that was taken."""

    step: int
    loss: float | None
    """None where it was not read."""


class Fit:
    """A reader in training. Everything of a step depends on (pool, effort, seed, step) alone."""

    def __init__(
        self, reader: Reader, pool: Pool, effort: Effort, *, device: str, seed: int = 0
    ) -> None:
        """Raises UserError where nothing can be learned."""
        check_effort(effort)
        _check(pool, effort)
        self.reader = reader.to(device)
        self.pool, self.effort, self.device, self.seed = pool, effort, device, seed
        self.order = Order(pool, batch=effort.batch, seed=seed)
        weights = {n: w for n, w in reader.named_parameters() if w.requires_grad}
        is_recorded = device.startswith("cuda")
        rate = effort.learning_rate
        self.optimiser = torch.optim.AdamW(
            decay_groups(weights, effort.weight_decay),
            lr=torch.tensor(rate, device=device) if is_recorded else rate,
            capturable=is_recorded,
            fused=is_recorded,
        )
        self._recorded: Recorded | None = None
        self._row_B = torch.zeros(0, dtype=torch.int64)
        self.step = 0
        """Steps that were taken."""

    def take_step(self) -> Tensor:
        """One more; gives the loss, on the device."""
        effort = self.effort
        self.reader.train()
        share = share_of_rate(self.step, steps=effort.steps, warm_up=effort.warm_up)
        put_rate(self.optimiser, effort.learning_rate * share)
        row_B = self.order(self.step)
        # Dropout of a step is the same whether the run was stopped before it or not.
        seed = self.seed * 1_000_003 + self.step
        if self._recorded is None and self._can_record(row_B):
            self._row_B = row_B.clone()
            with _drawing(self.device, seed):
                self._recorded = Recorded(
                    lambda: self._learn(self._row_B), self.optimiser, device=self.device
                )
        with _drawing(self.device, seed):
            if self._recorded is None:
                loss = self._learn(row_B)
            else:
                self._row_B.copy_(row_B)
                loss = self._recorded()
        self.step += 1
        return loss

    def go_on_after(self, step: int) -> None:
        """Weights and moments are those after a step; a recording knew where the old ones lay."""
        self.step, self._recorded = step, None

    def _learn(self, row_B: Tensor) -> Tensor:
        batch = self.pool.batch(row_B, device=self.device, with_negatives=self.effort.negatives)
        loss = self.reader.loss(batch, crowd=self.effort.crowd)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return loss.detach()

    def _can_record(self, row_B: Tensor) -> bool:
        """On a GPU that holds the pool: batches that are copied to it cannot be recorded."""
        return self.device.startswith("cuda") and self.pool.caption_N.is_cuda and row_B.is_cuda

    def run(self, on_step: Callable[[Taken], bool] | None = None) -> None:
        """To the last step, or until `on_step` says True: somebody stopped it."""
        while self.step < self.effort.steps:
            loss = self.take_step()
            is_read = self.step % _LOOK == 0 or self.step == self.effort.steps
            value = float(loss) if is_read else None
            if value is not None and not torch.isfinite(loss):
                raise UserError(
                    f"the loss of {self.reader.name} became {value} at step {self.step}",
                    expected="a finite number",
                    way_out="a smaller rate: --set learning_rate=1e-4",
                )
            if on_step is not None and on_step(Taken(self.step, value)):
                break
        self.reader.eval()


def share_told_apart(reader: Reader, pool: Pool, *, device: str, batch: int = 256) -> float:
    """Share of pictures whose caption is above all of its negatives; a tie is a miss.

    On the pool it was trained on this says whether the reader can learn at all: a reader that
    cannot fit a few thousand fixed examples says nothing about the features.
    """
    reader.eval()
    has_any = (pool.negative_NK >= 0).any(dim=1).nonzero().flatten()
    if not len(has_any):
        raise UserError("no caption of the pool has a negative", expected="at least one")
    found = [
        told_apart(reader, pool.batch(rows, device=device)) for rows in torch.split(has_any, batch)
    ]
    return float(torch.cat(found).float().mean())


@contextmanager
def _drawing(device: str, seed: int) -> Iterator[None]:
    """Draws of a seed inside, and generators as they were behind it.

    What `torch.random.fork_rng` and `torch.manual_seed` do for every device and library, in a
    hundredth of a step: states of generators lie in the memory of the processor.
    """
    every = [torch.default_generator]
    if device.startswith("cuda"):
        at = torch.device(device).index
        every.append(
            torch.cuda.default_generators[torch.cuda.current_device() if at is None else at]
        )
    before = [one.get_state() for one in every]
    for one in every:
        one.manual_seed(seed)
    try:
        yield
    finally:
        for one, state in zip(every, before, strict=True):
            one.set_state(state)


def check_effort(effort: Effort) -> None:
    """Raise UserError for numbers that no data could make sense of."""
    least = {"steps": 1, "batch": 1, "crowd": 1, "scenes": 2, "warm_up": 0}
    for name, bound in least.items():
        if getattr(effort, name) < bound:
            raise UserError(f"{name}={getattr(effort, name)}", expected=f"at least {bound}")
    if not effort.learning_rate > 0 or effort.weight_decay < 0:
        raise UserError(
            f"learning_rate={effort.learning_rate} weight_decay={effort.weight_decay}",
            expected="a rate above 0 and a decay of at least 0",
        )


def _check(pool: Pool, effort: Effort) -> None:
    if len(pool) < 2:
        raise UserError(f"{len(pool)} pictures to train on", expected="at least two, to tell apart")
    if effort.crowd == 1 and not (effort.negatives and pool.negative_NK.shape[1]):
        raise UserError(
            "a crowd of one and no hard negatives: there is nothing to tell a caption from",
            expected="a larger crowd, or pairs with edits",
            way_out="--set crowd=32, or `unbag edit` on the captions first",
        )
