"""One training step: the gradient of the loss of the whole batch, in the memory of one part of it.

`cached_step` takes any parts that embed something and a loss of all their vectors. `add_gradient`
is the step of a dual encoder, whose parts are slices of the images and groups of captions of
similar length. Vectors of other processes are constants here, so one process and many run the same
code.

Dimensions: B batch of all processes, U unique strings of this one, N vectors of a side, K and P
edits, D joint space.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unbag.runs.distributed import Distributed, gathered, sum_gradients
from unbag.training.data.batch import Batch, CaptionGroup, FindTruth
from unbag.training.encoders.base import Trainable, weights_of
from unbag.training.objective import Losses
from unbag.training.recipes import Precision, Recipe
from unbag.training.trainer import autocast
from unbag.types import Embedded


@dataclass(frozen=True, eq=False)
class Part:
    """A part of one side of a batch, such as some of its images, that is embedded in one pass."""

    embed: Callable[[], Tensor]
    """Returns its vectors, [N, D]; called twice where gradients are cached."""
    seed: int | None = None
    """Seed of dropout in both passes; None sets no seed, as in a recorded step."""
    is_trained: bool = True
    """Whether gradients flow through it."""

    def __call__(self) -> Tensor:
        """Embed it with dropout by its seed."""
        if self.seed is not None:
            torch.manual_seed(self.seed & 0x7FFF_FFFF_FFFF_FFFF)
        return self.embed()


def cached_step(
    sides: Sequence[Sequence[Part]],
    loss: Callable[..., Tensor],
    *,
    keeps_graphs: bool,
    device: str = "cpu",
    precision: Precision = "float32",
) -> Tensor:
    """Add the gradient of the loss of a whole batch to the weights, part by part (GradCache).

    Every part runs without a graph, and the loss gives the gradient at each vector. Then every part
    runs again with a graph, through which its gradient flows back. The result is the gradient of
    the plain step, in the memory of one part and half as much time again.

    Args:
        sides: Parts of each input of the loss, such as images and captions.
        loss: Computes the loss from the vectors [N, D] of each side, in the order of its parts.
        keeps_graphs: Run every part only once, where the graphs of all fit into memory.
        device: Device of the parts.
        precision: Precision of matrix products inside the parts.
    """
    parts = [part for side in sides for part in side]
    # One context for all parts: each context casts every weight again.
    with torch.set_grad_enabled(keeps_graphs), autocast(device, precision):
        vectors = [[part() for part in side] for side in sides]
    leaves = [[vector.detach().requires_grad_() for vector in side] for side in vectors]
    value = loss(*(torch.cat(side) for side in leaves))
    torch.autograd.backward(value)
    grads = [leaf.grad for side in leaves for leaf in side]
    if keeps_graphs:
        _backward([vector for side in vectors for vector in side], grads)
    else:
        for part, grad in zip(parts, grads, strict=True):
            if part.is_trained:
                with autocast(device, precision):
                    vector = part()
                _backward([vector], [grad])
    return value.detach()


def _backward(vectors: Sequence[Tensor], grads: Sequence[Tensor | None]) -> None:
    trained = [
        (vector, grad)
        for vector, grad in zip(vectors, grads, strict=True)
        if vector.requires_grad and grad is not None
    ]
    if trained:
        torch.autograd.backward([vector for vector, _ in trained], [grad for _, grad in trained])


def add_gradient(
    trainable: Trainable,
    batch: Batch,
    plan: StepPlan,
    *,
    step: int,
    threshold_K: Tensor | None = None,
    start: Trainable | None = None,
) -> StepResult:
    """Compute the loss and add its gradient to `.grad` of every trainable weight."""
    images = _image_parts(trainable, batch, plan, step)
    results: list[tuple[Embedded, Losses]] = []

    def loss(image_ND: Tensor, caption_UD: Tensor) -> Tensor:
        embedded = _embedded(image_ND, caption_UD, batch, trainable, plan, threshold_K)
        if start is not None:
            # The same batch, embedded by the weights before training.
            with torch.no_grad():
                with autocast(plan.device, plan.precision):
                    image_ND, caption_UD = (
                        torch.cat([part() for part in parts(start, batch, plan, step)])
                        for parts in (_image_parts, _caption_parts)
                    )
                start_embedded = _embedded(image_ND, caption_UD, batch, start, plan, None)
            embedded = replace(embedded, start=start_embedded)
        losses = plan.recipe.objective(embedded)
        results.append((embedded, losses))
        return losses.total

    cached_step(
        [images, _caption_parts(trainable, batch, plan, step)],
        loss,
        keeps_graphs=len(images) == 1,
        device=plan.device,
        precision=plan.precision,
    )
    # Every process has the whole gradient of the temperature, so their sum must be divided.
    for weight in trainable.temperature:
        if weight.grad is not None:
            weight.grad /= plan.team.size
    sum_gradients(trainable.module.parameters(), plan.team)
    ((embedded, losses),) = results
    rule = plan.recipe.objective.threshold
    return StepResult(losses, None if rule is None else rule.next(embedded))


@dataclass(frozen=True, eq=False)
class StepPlan:
    """Settings that stay the same from step to step."""

    recipe: Recipe
    team: Distributed
    device: str
    precision: Precision = "float32"
    micro_batch_size: int | None = None
    """Images of a part; None: all at once."""
    seed: int = 0
    find_truth: FindTruth | None = None
    is_seeded: bool = True
    """Whether each part sets a seed for dropout; a recorded step cannot."""


@dataclass(frozen=True, eq=False)
class StepResult:
    """The losses of a step and the thresholds of the next one."""

    losses: Losses
    threshold_K: Tensor | None
    """Thresholds of the next step."""


def _image_parts(trainable: Trainable, batch: Batch, plan: StepPlan, step: int) -> list[Part]:
    size = plan.micro_batch_size or len(batch)
    is_trained = any(weight.requires_grad for weight in weights_of(trainable.image_layers))
    parts = []
    for number, at in enumerate(range(0, len(batch), size)):
        pixels = batch.pixels[at : at + size]

        def embed(pixels=pixels) -> Tensor:  # type: ignore[no-untyped-def]
            return trainable.embed_images(pixels.to(plan.device, non_blocking=True))

        parts.append(Part(embed, _seed(plan, step, 2 * number), is_trained))
    return parts


def _caption_parts(trainable: Trainable, batch: Batch, plan: StepPlan, step: int) -> list[Part]:
    is_trained = any(weight.requires_grad for weight in weights_of(trainable.text_layers))
    parts = []
    for number, group in enumerate(batch.groups):

        def embed(group: CaptionGroup = group) -> Tensor:
            inputs = {k: v.to(plan.device, non_blocking=True) for k, v in group.inputs.items()}
            return trainable.embed_texts(inputs)

        parts.append(Part(embed, _seed(plan, step, 2 * number + 1), is_trained))
    return parts


def _seed(plan: StepPlan, step: int, part: int) -> int | None:
    """Seed of dropout: the same in both passes, different in every part, step and process."""
    return hash((plan.seed, step, plan.team.rank, part)) if plan.is_seeded else None


def _embedded(
    image_ND: Tensor,
    caption_UD: Tensor,
    batch: Batch,
    trainable: Trainable,
    plan: StepPlan,
    threshold_K: Tensor | None,
) -> Embedded:
    index_U = batch.place_U.to(caption_UD.device, non_blocking=True)
    string_UD = caption_UD.index_select(0, index_U)
    caption_B = batch.caption_B.to(string_UD.device, non_blocking=True)
    temperature = trainable.temperature
    scale = temperature[0].exp()
    truth = None
    if plan.find_truth is not None:
        codes = {
            name: gathered(value.to(plan.device, non_blocking=True), plan.team)
            for name, value in batch.code.items()
        }
        truth = plan.find_truth(codes)
    negative_BKD, negative_mask_BK = _edits(string_UD, batch.negative_BK, plan)
    positive_BPD, positive_mask_BP = _edits(string_UD, batch.positive_BP, plan)
    return Embedded(
        image_BD=gathered(image_ND, plan.team),
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
    # A masked row repeats the first string; losses ignore it.
    vector_MD = string_UD.index_select(0, row_BK.clamp(min=0).flatten())
    vector_BKD = vector_MD.view(*row_BK.shape, -1)
    return gathered(vector_BKD, plan.team), gathered(mask_BK, plan.team)
