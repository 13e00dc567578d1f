"""A model before and after fine-tuning comes in; models whose weights lie between them go out.

Wortsman et al. 2022, "Robust fine-tuning of zero-shot models" (WiSE-FT): every weight is
(1 - a) of the first plus a of the second, temperature included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from unbag.errors import UserError
from unbag.models.joined import Joined
from unbag.train.make_trainable import make_trainable
from unbag.types import DualEncoder

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

SHOWN = 3
"""Differences of two architectures that are named; the others are counted."""
NEAR = 1e-4
"""Largest difference of two unit vectors that the same weights may give."""
PROBES = (
    "a red star to the left of a small striped cup",
    "two crimson discs above a large dotted square, but no tree",
    "A man's dog -- 17 of them! -- isn't behind the fence (photo, café).",
)
"""Captions on which two tokenizers are compared."""
NOT_MIXED = (
    "weights that were trained apart cannot be mixed; name the model that the fine-tuning started "
    "from as --base"
)
NOT_ALIKE = "name the model that the fine-tuning started from as --base, with its activation"


@dataclass(frozen=True, eq=False)
class Mix:
    """A model between two others."""

    weight: float
    """Share of the fine-tuned one."""
    encoder: DualEncoder


def interpolate(
    base: Mapping[str, Tensor], tuned: Mapping[str, Tensor], weight: float
) -> dict[str, Tensor]:
    """(1 - weight) base + weight tuned in float32; at 0 and 1 exactly the one and the other.

    Whole numbers, such as positions, must be equal in both.
    """
    check_same_weights(base, tuned, names=("the base", "the tuned model"))
    return {name: _between(start, tuned[name], weight) for name, start in base.items()}


def _between(start: Tensor, end: Tensor, weight: float) -> Tensor:
    if weight == 0 or not start.is_floating_point():
        return start.detach().clone()
    end = end.detach().to(start.device)
    # Not by the sum: it would turn a negative zero into a positive one.
    if weight == 1:
        return end.clone()
    return (1 - weight) * start.detach().float() + weight * end.float()


def mix(base: DualEncoder, tuned: DualEncoder, weights: Sequence[float]) -> tuple[Mix, ...]:
    """One model for each weight, of the base's class, named `mix 0.25` and so on.

    All are in memory at once, so that one run can compare them.
    """
    for one in (base, tuned):
        if isinstance(one, Joined):
            raise UserError(
                f"{one.name} is a joined model, whose connector began with nothing learned",
                expected="a model that was whole before it was fine-tuned",
                way_out="hold a joined model near its start while training, with --set distil=1",
            )
    trainable = make_trainable(base, device=base.device)
    other = make_trainable(tuned, device="cpu")
    start, end = state_of(trainable.module), state_of(other.module)
    check_same_weights(start, end, names=(base.name, tuned.name))
    trainable.module.load_state_dict(end)
    check_same_vectors(base, tuned, trainable.encoder(tuned.name))
    found = []
    for weight in weights:
        trainable.module.load_state_dict(interpolate(start, end, weight))
        found.append(Mix(weight, trainable.encoder(f"mix {weight:g}")))
    return tuple(found)


def state_of(module: torch.nn.Module) -> dict[str, Tensor]:
    """A copy of every weight by name."""
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def check_same_weights(
    base: Mapping[str, Tensor],
    tuned: Mapping[str, Tensor],
    *,
    names: tuple[str, str],
    way_out: str = NOT_MIXED,
) -> None:
    """Names and shapes of all weights, and every whole number."""
    apart = [f"{name} is only in {names[0]}" for name in base if name not in tuned]
    apart += [f"{name} is only in {names[1]}" for name in tuned if name not in base]
    for name in (name for name in base if name in tuned):
        start, end = base[name], tuned[name]
        if start.shape != end.shape:
            apart.append(f"{name} is {_shape(start)} in {names[0]}, {_shape(end)} in {names[1]}")
        elif not start.is_floating_point() and not torch.equal(start, end.to(start.device)):
            apart.append(f"{name} holds other whole numbers")
    if apart:
        more = f"; and {len(apart) - SHOWN} more" if len(apart) > SHOWN else ""
        raise UserError(
            f"{names[0]} and {names[1]} differ in architecture: {'; '.join(apart[:SHOWN])}{more}",
            expected="two models of one architecture, the second fine-tuned from the first",
            way_out=way_out,
        )


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "one number"


def check_same_vectors(
    base: DualEncoder, tuned: DualEncoder, filled: DualEncoder, *, way_out: str = NOT_ALIKE
) -> None:
    """Shapes tell nothing of activation, preparation and tokenizer: they are tried on probes.

    `filled` is the base with all weights of the tuned one, so it must give the vectors of that.
    """
    images = [_probe(96, 64), _probe(50, 75)]
    shown = [[encoder.prepare(image) for image in images] for encoder in (base, tuned)]
    both = zip(*shown, strict=True)
    if not all(one.shape == two.shape and bool((one == two).all()) for one, two in both):
        raise _unlike(base, tuned, "prepare a picture in two ways", way_out)
    if base.context != tuned.context or base.count_tokens(PROBES) != tuned.count_tokens(PROBES):
        raise _unlike(base, tuned, "have two tokenizers", way_out)
    pixels = torch.stack(shown[0])
    vectors = [
        torch.cat([encoder.encode_pictures(pixels), encoder.encode_captions(PROBES)])
        for encoder in (filled, tuned)
    ]
    if not float((vectors[0] - vectors[1]).abs().max()) < NEAR:
        raise _unlike(base, tuned, "compute other vectors from the same weights", way_out)


def _unlike(base: DualEncoder, tuned: DualEncoder, what: str, way_out: str) -> UserError:
    return UserError(
        f"{base.name} and {tuned.name} {what}",
        expected="the same preparation, tokenizer, vocabulary and activation in both",
        way_out=way_out,
    )


def _probe(wide: int, high: int) -> Image:
    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 256, (high, wide, 3), dtype=np.uint8)
    return Image.fromarray(noise)
