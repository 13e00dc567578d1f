"""Linear probes: a scorer of classes by logistic regression on frozen image vectors.

The caption only says which class is meant; its words and the text encoder play no part. The
published CIFAR and ImageNet numbers of the ARO paper are such probes, not zero-shot. The strength
of the penalty is chosen on a held-out fifth of the training split; the test split is never seen.
Dimensions: N pairs or training images, P images, C captions or classes, D embedding, E
embedding and bias, B vectors of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unbag.errors import UnbagError
from unbag.metrics.cases import true_cells
from unbag.models.batching import even
from unbag.runs.cache import Vectors
from unbag.runs.progress import Progress, Silent
from unbag.types import (
    BoolArray,
    Caption,
    DualEncoder,
    FloatArray,
    ImageSource,
    IntArray,
    Item,
    Query,
)
from unbag.types.items import text_of

if TYPE_CHECKING:
    from torch import Tensor

SCORING = "linear probe"
STRENGTHS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
"""Tried in this order, strongest first; then half a decade to both sides of the best."""
HELD_OUT = 0.2
_LOOSE = 1e-4
"""Largest derivative that ends a fit that only serves to choose."""
_TIGHT = 1e-6
_BLOCK = 8192
"""Vectors whose class probabilities are held at once."""


def fit_probe(
    encoder: DualEncoder,
    classes: tuple[Caption, ...],
    *,
    class_N: IntArray,
    image_ND: Vectors,
    keys: Sequence[str],
    fingerprint: str,
    seed: int = 0,
    strengths: Sequence[float] = STRENGTHS,
    progress: Progress | None = None,
) -> LinearProbe:
    """Fit to the vectors of a training split, whose classes `training_classes` finds.

    Args:
        encoder: Made the vectors, and scores images with the probe.
        classes: The caption of each class.
        class_N: Class of each image.
        image_ND: Vectors as the encoder gives them: pooled, projected and of unit length; NaN
            for images that cannot be opened.
        keys: Of the images; they decide which are held out.
        fingerprint: Of the training split.
        seed: Of what is held out.
        strengths: Of the penalty, to choose from.
        progress: Shows progress bars; None shows none.
    """
    progress = progress or Silent()
    is_whole_N: BoolArray = np.all(np.isfinite(image_ND), axis=1)
    class_N = class_N[is_whole_N]
    keys = [key for key, is_whole in zip(keys, is_whole_N, strict=True) if is_whole]
    held_N = held_out(keys, class_N, seed=seed)
    if not held_N.any() or len(set(class_N[~held_N].tolist())) < len(classes):
        raise UnbagError(
            f"the training split has {len(keys)} images that can be opened, which leaves some "
            f"of {len(classes)} classes without any, or nothing to choose the strength on",
            expected="images of each class, and two or more of some class",
            hint="check the folder of the training split",
        )
    vector_ND = image_ND[is_whole_N].astype(np.float64)
    mean_D = vector_ND.mean(axis=0)
    vector_ND -= mean_D
    scale = float(np.sqrt(np.mean(vector_ND**2))) or 1.0
    vector_ND /= scale
    # Apple's devices have no double precision.
    device = "cpu" if encoder.device.startswith("mps") else encoder.device
    fit = partial(fit_logistic, classes=len(classes), device=device)
    with progress.task(f"{encoder.name}: linear probe", len(strengths) + 3) as advance:
        chosen = _choose(fit, vector_ND, class_N, held_N, strengths, advance)
        found = fit(
            vector_ND, class_N, strength=chosen.strength, start=chosen.found, tolerance=_TIGHT
        )
        advance(1)
    if found.gradient > 10 * _TIGHT:
        raise UnbagError(
            f"the linear probe of {encoder.name!r} did not converge: after {found.steps} steps a "
            f"derivative is still {found.gradient:.2g}",
            expected=f"at most {10 * _TIGHT:.0e}",
            hint="leave the smallest strengths out",
        )
    weight_CD = found.weight_CD / scale
    bias_C = found.bias_C - weight_CD @ mean_D
    made = [fingerprint, str(seed), *map(repr, strengths)]
    return LinearProbe(
        encoder=encoder,
        classes=classes,
        weight_CE=np.column_stack([weight_CD, bias_C]),
        strength=chosen.strength,
        held_out=chosen.accuracy,
        training=blake2b("\0".join(made).encode(), digest_size=8).hexdigest(),
    )


def training_classes(items: Sequence[Item]) -> tuple[tuple[Caption, ...], IntArray]:
    """The captions that all items share, and which of them is true of each image."""
    captions = items[0].captions if items else ()
    class_N = np.zeros(len(items), dtype=np.int64)
    for i, item in enumerate(items):
        true_C = np.flatnonzero(true_cells(item.truth, item.id))
        # By identity first: hashing a thousand classes for each of a million images is slow.
        is_same = item.captions is captions or item.captions == captions
        if len(item.images) != 1 or len(true_C) != 1 or not is_same:
            raise UnbagError(
                f"training item {item.id!r} has {len(item.images)} images and {len(true_C)} "
                f"true captions{'' if is_same else ', and other captions than the first item'}",
                expected="one image of one class, among classes that all items share",
                hint="a linear probe needs a benchmark of classes, such as cifar10",
            )
        class_N[i] = true_C[0]
    empty = sorted(set(range(len(captions))) - set(class_N.tolist()))
    if len(captions) < 2 or empty:
        raise UnbagError(
            f"the training split has {len(items)} images, and none of {len(empty)} of its "
            f"{len(captions)} classes",
            expected="two classes or more, with images of each",
        )
    return captions, class_N


def held_out(keys: Sequence[str], class_N: IntArray, *, seed: int) -> BoolArray:
    """A fifth of each class, drawn by hash of seed and image; one of two at least, one never."""
    place = [blake2b(f"{seed}\0{key}".encode(), digest_size=8).digest() for key in keys]
    found_N = np.zeros(len(keys), dtype=np.bool_)
    for number in np.unique(class_N):
        members = sorted(np.flatnonzero(class_N == number).tolist(), key=lambda i: place[i])
        many = max(1, round(HELD_OUT * len(members))) if len(members) > 1 else 0
        found_N[members[:many]] = True
    return found_N


def _choose(
    fit: partial[Logistic],
    vector_ND: FloatArray,
    class_N: IntArray,
    held_N: BoolArray,
    strengths: Sequence[float],
    advance: Callable[[int], None],
) -> _Tried:
    """The strength with the best held-out accuracy, from strong to weak, then half a decade off."""
    fitted_ND, held_ND = vector_ND[~held_N], vector_ND[held_N]

    def attempt(strength: float, start: Logistic | None) -> _Tried:
        found = fit(fitted_ND, class_N[~held_N], strength=strength, start=start, tolerance=_LOOSE)
        is_right_N = found.scores(held_ND).argmax(axis=1) == class_N[held_N]
        advance(1)
        return _Tried(float(np.mean(is_right_N)), strength, found)

    tried: list[_Tried] = []
    for strength in sorted(strengths, reverse=True):
        tried.append(attempt(strength, tried[-1].found if tried else None))
    best = max(tried, key=lambda one: (one.accuracy, one.strength))
    if len(strengths) > 1:
        tried += [attempt(best.strength * factor, best.found) for factor in (10**0.5, 10**-0.5)]
    return max(tried, key=lambda one: (one.accuracy, one.strength))


class _Tried(NamedTuple):
    """A strength and what came of it; the stronger of two equally good ones is taken."""

    accuracy: float
    strength: float
    found: Logistic


@dataclass(frozen=True, eq=False)
class LinearProbe:
    """Scores an image and a class; made by `fit_probe`."""

    encoder: DualEncoder
    classes: tuple[Caption, ...]
    weight_CE: FloatArray
    """For each class its weights, then its bias."""
    strength: float
    """Of the L2 penalty, chosen on a held-out part of the training split."""
    held_out: float
    """Accuracy on that part under the chosen strength."""
    training: str
    """Fingerprint of what it was fitted to, and how."""
    scoring: str = SCORING
    is_blind: bool = False

    @property
    def name(self) -> str:
        """The model's name."""
        return self.encoder.name

    @property
    def fingerprint(self) -> str:
        """Of the model and of what the probe was fitted to."""
        return f"{self.encoder.fingerprint}-probe-{self.training}"

    def caption_vectors(self, captions: Sequence[Caption]) -> Tensor:
        """The weights of each class, in place of the vectors of its caption: [C, E]."""
        import torch

        place = {caption: i for i, caption in enumerate(self.classes)}
        unknown = [caption for caption in captions if caption not in place]
        if unknown:
            some = ", ".join(text_of(caption) for caption in self.classes[:5])
            more = ", ..." if len(self.classes) > 5 else ""
            raise UnbagError(
                f"the linear probe has no class {text_of(unknown[0])!r}",
                expected=f"one of its {len(self.classes)}: {some}{more}",
                hint="fit one to the training split of this benchmark, and run it on that alone",
            )
        return torch.from_numpy(self.weight_CE[[place[caption] for caption in captions]])

    def compare(self, image_ND: Tensor, caption_ND: Tensor) -> Tensor:
        """Row with row."""
        product_N = (image_ND.double() * caption_ND[:, :-1].double()).sum(dim=-1)
        return product_N + caption_ND[:, -1].double()

    def compare_all(self, image_PD: Tensor, caption_CD: Tensor) -> Tensor:
        """Every image with every class, [P, C]; rounded as the cosine is, and for its reason."""
        product_PC = image_PD.double() @ caption_CD[:, :-1].double().T
        return (product_PC + caption_CD[:, -1].double()).float()

    def score(self, queries: Sequence[Query]) -> Tensor:
        """Without cache or plan, for a handful of pairs."""
        image_ND = self._embed([query.image for query in queries])
        return self.compare(image_ND, self.caption_vectors([q.caption for q in queries]))

    def score_matrix(self, images: Sequence[ImageSource], captions: Sequence[Caption]) -> Tensor:
        """Without cache or plan, [P, C]."""
        return self.compare_all(self._embed(images), self.caption_vectors(captions))

    def _embed(self, images: Sequence[ImageSource]) -> Tensor:
        import torch

        prepared = even([self.encoder.prepare(image.open()) for image in images])
        return self.encoder.encode_images(torch.stack(list(prepared)))


def untrained(model: object) -> LinearProbe:
    """What the name linear-probe alone leads to: an error, since there is nothing to fit it to."""
    raise UnbagError(
        "the scorer 'linear-probe' must first be fitted to a training split",
        expected="one benchmark that has one, such as cifar10",
        hint="`unbag run --scorer linear-probe --bench cifar10`, or "
        'ub.evaluate(model, "cifar10", data_dir=..., scorer="linear-probe")',
    )


def fit_logistic(
    vector_ND: FloatArray,
    class_N: IntArray,
    *,
    classes: int,
    strength: float,
    start: Logistic | None = None,
    tolerance: float = 1e-6,
    most_steps: int = 2000,
    device: str = "cpu",
) -> Logistic:
    """Least mean cross-entropy + strength / 2 |weights|^2; biases are free.

    Full batch, double precision, L-BFGS from a fixed start: the same input gives the same weights.
    Stops when no derivative exceeds `tolerance`; a caller must look at `gradient`.
    """
    import torch
    from scipy.optimize import minimize

    vectors = torch.from_numpy(np.ascontiguousarray(vector_ND, dtype=np.float64)).to(device)
    truth = torch.from_numpy(np.asarray(class_N, dtype=np.int64)).to(device)
    shape = (classes, vector_ND.shape[1] + 1)
    first = np.zeros(shape)
    if start is not None:
        first = np.column_stack([start.weight_CD, start.bias_C])

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        weights = torch.from_numpy(flat.reshape(shape)).to(device)
        value, slope = _loss(vectors, truth, weights, strength)
        return value, slope.cpu().numpy().ravel()

    found = minimize(
        loss,
        first.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": most_steps, "maxfun": 2 * most_steps, "gtol": tolerance, "ftol": 0.0},
    )
    weight_CE = np.asarray(found.x, dtype=np.float64).reshape(shape)
    return Logistic(
        weight_CD=weight_CE[:, :-1].copy(),
        bias_C=weight_CE[:, -1].copy(),
        loss=float(found.fun),
        gradient=float(np.abs(found.jac).max()),
        steps=int(found.nit),
    )


@dataclass(frozen=True, eq=False)
class Logistic:
    """Class scores are vector_ND @ weight_CD.T + bias_C."""

    weight_CD: FloatArray
    bias_C: FloatArray
    loss: float
    """Mean cross-entropy plus strength / 2 times the squared length of the weights."""
    gradient: float
    """Largest derivative of that loss where the solver stopped; 0 at the optimum."""
    steps: int

    def scores(self, vector_ND: FloatArray) -> FloatArray:
        """[N, C]."""
        score_NC: FloatArray = vector_ND @ self.weight_CD.T + self.bias_C
        return score_NC


def _loss(
    vector_ND: Tensor, class_N: Tensor, weight_CE: Tensor, strength: float
) -> tuple[float, Tensor]:
    """The loss and its derivatives [C, D + 1], a block at a time."""
    import torch

    weight_CD, bias_C = weight_CE[:, :-1], weight_CE[:, -1]
    slope_CE = torch.zeros_like(weight_CE)
    total = torch.zeros((), dtype=weight_CE.dtype, device=weight_CE.device)
    for start in range(0, len(vector_ND), _BLOCK):
        vector_BD, class_B = vector_ND[start : start + _BLOCK], class_N[start : start + _BLOCK]
        log_BC = torch.log_softmax(torch.addmm(bias_C, vector_BD, weight_CD.T), dim=1)
        own_B1 = class_B[:, None]
        total -= log_BC.gather(1, own_B1).sum()
        error_BC = log_BC.exp_().scatter_add_(1, own_B1, -torch.ones_like(log_BC[:, :1]))
        slope_CE[:, :-1] += error_BC.T @ vector_BD
        slope_CE[:, -1] += error_BC.sum(dim=0)
    slope_CE /= len(vector_ND)
    slope_CE[:, :-1] += strength * weight_CD
    penalty = strength / 2 * weight_CD.square().sum()
    return float(total / len(vector_ND) + penalty), slope_CE
