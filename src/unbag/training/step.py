"""One training step: add the gradient of the loss of the whole batch to every trainable weight.

Towers run over parts of the batch: slices of the pictures, groups of captions of like length. If
the pictures fit into one part, each part runs once, with its graph kept. If not, every part runs
without a graph, the loss gives the gradient at each vector, and every part runs again, is given
that gradient and forgets its graph: the memory of one part, the gradient of the whole batch
(GradCache). The vectors of other processes are constants here, so the same path serves one process
and many.

Dimensions: B batch of all processes, U unique strings of this one, K and P edits, D joint space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unbag.runs.distributed import Team, gathered, sum_gradients
from unbag.training.data.batch import Batch, CaptionGroup, FindTruth, Truth
from unbag.training.objective import Losses
from unbag.training.recipes import Precision, Recipe
from unbag.training.towers.base import Trainable, weights_of
from unbag.types import Embedded

_TowerPass = Callable[[], Tensor]
"""Runs a tower over some pictures or captions."""


def add_gradient(
    trainable: Trainable,
    batch: Batch,
    plan: StepPlan,
    *,
    step: int,
    threshold_K: Tensor | None = None,
    start: Trainable | None = None,
) -> StepResult:
    """Compute the loss and add its gradient to `.grad` of every open weight."""
    pictures = list(_picture_parts(trainable, batch, plan, step))
    captions = list(_caption_parts(trainable, batch, plan, step))
    runs_once = len(pictures) == 1
    # One context for all parts, since each casts every weight anew.
    with torch.set_grad_enabled(runs_once), _autocast(plan):
        picture_out, caption_out = [p() for p in pictures], [c() for c in captions]
    leaves = _leaves(picture_out, caption_out, batch)
    embedded = _embedded(leaves, batch, trainable, plan, threshold_K)
    if start is not None:
        embedded = replace(embedded, start=_of_start(start, batch, plan, step))
    losses = plan.recipe.objective(embedded)
    losses.total.backward()  # type: ignore[no-untyped-call]
    if runs_once:
        _backward([*picture_out, *caption_out], [*leaves.pictures, *leaves.captions])
    else:
        for parts, found, layers in (
            (pictures, leaves.pictures, trainable.picture_layers),
            (captions, leaves.captions, trainable.caption_layers),
        ):
            if any(weight.requires_grad for weight in weights_of(layers)):
                _run_again(parts, found, plan)
    # Every process has the whole gradient at the temperature; the sum would count it once each.
    for weight in trainable.temperature:
        if weight.grad is not None:
            weight.grad /= plan.team.size
    sum_gradients(trainable.module.parameters(), plan.team)
    rule = plan.recipe.objective.threshold
    return StepResult(losses, None if rule is None else rule.next(embedded))


@dataclass(frozen=True, eq=False)
class StepPlan:
    """Settings that stay the same from step to step."""

    recipe: Recipe
    team: Team
    device: str
    precision: Precision = "float32"
    micro: int | None = None
    """Pictures of a part, the captions that belong to them in another; None for all at once."""
    seed: int = 0
    find_truth: FindTruth | None = None
    is_seeded: bool = True
    """Whether each part has a seed of its own, for dropout; a recorded step cannot set any."""


@dataclass(frozen=True, eq=False)
class StepResult:
    """Losses of a step, and thresholds for the next one."""

    losses: Losses
    threshold_K: Tensor | None
    """For the next step."""


def _picture_parts(
    trainable: Trainable, batch: Batch, plan: StepPlan, step: int
) -> Iterator[_TowerPass]:
    size = plan.micro or len(batch)
    for number, at in enumerate(range(0, len(batch), size)):
        piece = batch.pixels[at : at + size]
        seed = _seed(plan, step, 2 * number)

        def run(piece=piece, seed=seed) -> Tensor:  # type: ignore[no-untyped-def]
            if plan.is_seeded:
                torch.manual_seed(seed)
            return trainable.embed_pictures(piece.to(plan.device, non_blocking=True))

        yield run


def _caption_parts(
    trainable: Trainable, batch: Batch, plan: StepPlan, step: int
) -> Iterator[_TowerPass]:
    for number, group in enumerate(batch.groups):
        seed = _seed(plan, step, 2 * number + 1)

        def run(group: CaptionGroup = group, seed: int = seed) -> Tensor:
            if plan.is_seeded:
                torch.manual_seed(seed)
            inputs = {k: v.to(plan.device, non_blocking=True) for k, v in group.inputs.items()}
            return trainable.embed_captions(inputs)

        yield run


def _seed(plan: StepPlan, step: int, part: int) -> int:
    """Seed of dropout: the same in both passes, another in every part, step and process."""
    mixed = hash((plan.seed, step, plan.team.rank, part))
    return mixed & 0x7FFF_FFFF_FFFF_FFFF


def _autocast(plan: StepPlan) -> torch.autocast:
    kind = plan.device.partition(":")[0]
    return torch.autocast(kind, torch.bfloat16, enabled=plan.precision == "bfloat16")


@dataclass(frozen=True, eq=False)
class _Vectors:
    """Leaves of the loss, part by part, and how their rows are put in order."""

    pictures: list[Tensor]
    captions: list[Tensor]
    place_U: Tensor


def _leaves(pictures: Sequence[Tensor], captions: Sequence[Tensor], batch: Batch) -> _Vectors:
    return _Vectors(
        [vector.detach().requires_grad_() for vector in pictures],
        [vector.detach().requires_grad_() for vector in captions],
        batch.place_U.to(pictures[0].device, non_blocking=True),
    )


def _embedded(
    leaves: _Vectors,
    batch: Batch,
    trainable: Trainable,
    plan: StepPlan,
    threshold_K: Tensor | None,
) -> Embedded:
    string_UD = torch.cat(leaves.captions).index_select(0, leaves.place_U)
    caption_B = batch.caption_B.to(string_UD.device, non_blocking=True)
    temperature = trainable.temperature
    scale = temperature[0].exp()
    truth = _truth(batch, plan)
    negative_BKD, negative_mask_BK = _edits(string_UD, batch.negative_BK, plan)
    positive_BPD, positive_mask_BP = _edits(string_UD, batch.positive_BP, plan)
    return Embedded(
        picture_BD=gathered(torch.cat(leaves.pictures), plan.team),
        caption_BD=gathered(string_UD.index_select(0, caption_B), plan.team),
        scale=scale,
        bias=temperature[1] if len(temperature) > 1 else torch.zeros_like(scale),
        negative_BKD=negative_BKD,
        negative_mask_BK=negative_mask_BK,
        negative_kinds=tuple(slot.name for slot in plan.recipe.negatives),
        positive_BKD=positive_BPD,
        positive_mask_BK=positive_mask_BP,
        positive_kinds=tuple(slot.name for slot in plan.recipe.positives),
        also_true_BB=None if truth is None else truth.also_true_BB,
        negative_true_BBK=None if truth is None else truth.negative_true_BBK,
        threshold_K=threshold_K,
    )


def _edits(
    string_UD: Tensor, row_BK: Tensor, plan: StepPlan
) -> tuple[Tensor | None, Tensor | None]:
    if row_BK.shape[1] == 0:
        return None, None
    row_BK = row_BK.to(string_UD.device, non_blocking=True)
    mask_BK = row_BK >= 0
    # A masked row repeats the first string; losses never look at it.
    vector_MD = string_UD.index_select(0, row_BK.clamp(min=0).flatten())
    vector_BKD = vector_MD.view(*row_BK.shape, -1)
    return gathered(vector_BKD, plan.team), gathered(mask_BK, plan.team)


def _truth(batch: Batch, plan: StepPlan) -> Truth | None:
    if plan.find_truth is None:
        return None
    found = {
        name: gathered(value.to(plan.device, non_blocking=True), plan.team)
        for name, value in batch.code.items()
    }
    return plan.find_truth(found)


@torch.no_grad()
def _of_start(start: Trainable, batch: Batch, plan: StepPlan, step: int) -> Embedded:
    """The same batch by the weights before training."""
    with _autocast(plan):
        pictures = [part() for part in _picture_parts(start, batch, plan, step)]
        captions = [part() for part in _caption_parts(start, batch, plan, step)]
    return _embedded(_leaves(pictures, captions, batch), batch, start, plan, None)


def _run_again(parts: Sequence[_TowerPass], leaves: Sequence[Tensor], plan: StepPlan) -> None:
    for part, leaf in zip(parts, leaves, strict=True):
        with _autocast(plan):
            out = part()
        _backward([out], [leaf])


def _backward(outputs: Sequence[Tensor], leaves: Sequence[Tensor]) -> None:
    both = [
        (out, leaf.grad)
        for out, leaf in zip(outputs, leaves, strict=True)
        if out.requires_grad and leaf.grad is not None
    ]
    if both:
        torch.autograd.backward([out for out, _ in both], [grad for _, grad in both])
