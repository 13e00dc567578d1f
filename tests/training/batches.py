"""Random batches with masks for contracts over losses, and what can be done to them.

Dimensions: B batch, D joint space, K edits of a caption.
"""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import normalize

from unbag.types import Embedded

KINDS = ("relation", "attribute", "object")


def random_batch(seed: int, *, batch_size: int = 4, share: float = 0.6) -> Embedded:
    """Every field filled; `share` of the edits are there, a fifth of what can be true is."""
    generator = torch.Generator().manual_seed(seed)

    def unit(*shape: int) -> Tensor:
        vector = torch.randn(*shape, 3, generator=generator, dtype=torch.float64)
        return normalize(vector, dim=-1)

    def chance(probability: float, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator) < probability

    own = torch.eye(batch_size, dtype=torch.bool)
    start = Embedded(unit(batch_size), unit(batch_size), torch.tensor(4.0), torch.tensor(0.0))
    return Embedded(
        image_BD=unit(batch_size),
        caption_BD=unit(batch_size),
        scale=torch.tensor(5.0, dtype=torch.float64),
        bias=torch.tensor(-2.0, dtype=torch.float64),
        negative_BKD=unit(batch_size, 3),
        negative_mask_BK=chance(share, batch_size, 3),
        negative_kinds=KINDS,
        positive_BKD=unit(batch_size, 2),
        positive_mask_BK=chance(share, batch_size, 2),
        positive_kinds=("synonym", "passive"),
        also_true_BB=chance(0.2, batch_size, batch_size) & ~own,
        negative_true_BBK=chance(0.2, batch_size, batch_size, 3) & ~own[:, :, None],
        threshold_K=torch.rand(3, generator=generator, dtype=torch.float64),
        start=start,
    )


def rows(embedded: Embedded, chosen: Tensor) -> Embedded:
    """The batch of these rows, in this order."""

    def pick(value: Tensor | None) -> Tensor | None:
        return None if value is None else value[chosen]

    def pick_both(value: Tensor | None) -> Tensor | None:
        return None if value is None else value[chosen][:, chosen]

    return replace(
        embedded,
        image_BD=embedded.image_BD[chosen],
        caption_BD=embedded.caption_BD[chosen],
        negative_BKD=pick(embedded.negative_BKD),
        negative_mask_BK=pick(embedded.negative_mask_BK),
        positive_BKD=pick(embedded.positive_BKD),
        positive_mask_BK=pick(embedded.positive_mask_BK),
        also_true_BB=pick_both(embedded.also_true_BB),
        negative_true_BBK=pick_both(embedded.negative_true_BBK),
        start=None if embedded.start is None else rows(embedded.start, chosen),
    )


def refill(embedded: Embedded, value: float) -> Embedded:
    """With another value in every vector that is masked."""
    assert embedded.negative_BKD is not None
    assert embedded.negative_mask_BK is not None
    assert embedded.positive_BKD is not None
    assert embedded.positive_mask_BK is not None
    no_negative, no_positive = ~embedded.negative_mask_BK, ~embedded.positive_mask_BK
    return replace(
        embedded,
        negative_BKD=embedded.negative_BKD.masked_fill(no_negative[:, :, None], value),
        positive_BKD=embedded.positive_BKD.masked_fill(no_positive[:, :, None], value),
    )


def without_edits(embedded: Embedded, *, masked: bool) -> Embedded:
    """All edits masked, or no such fields at all."""
    if not masked:
        return replace(
            embedded,
            negative_BKD=None,
            negative_mask_BK=None,
            negative_kinds=(),
            negative_true_BBK=None,
            positive_BKD=None,
            positive_mask_BK=None,
            positive_kinds=(),
        )
    assert embedded.negative_mask_BK is not None
    assert embedded.positive_mask_BK is not None
    return replace(
        embedded,
        negative_mask_BK=torch.zeros_like(embedded.negative_mask_BK),
        positive_mask_BK=torch.zeros_like(embedded.positive_mask_BK),
    )


Leaves = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def leaves(embedded: Embedded) -> Leaves:
    """Copies of image, caption, negative, positive, scale, bias that want a gradient."""
    assert embedded.negative_BKD is not None
    assert embedded.positive_BKD is not None
    image, caption, negative, positive, scale, bias = (
        value.clone().requires_grad_()
        for value in (
            embedded.image_BD,
            embedded.caption_BD,
            embedded.negative_BKD,
            embedded.positive_BKD,
            embedded.scale,
            embedded.bias,
        )
    )
    return image, caption, negative, positive, scale, bias


def planted(embedded: Embedded, values: tuple[Tensor, ...]) -> Embedded:
    """The batch with these leaves in it."""
    image, caption, negative, positive, scale, bias = values
    return replace(
        embedded,
        image_BD=image,
        caption_BD=caption,
        negative_BKD=negative,
        positive_BKD=positive,
        scale=scale,
        bias=bias,
    )
