"""Linear probes: logistic regression over classes on frozen image vectors, used as a scorer.

A caption only names its class; its words and the text encoder are not used. The published CIFAR
and ImageNet numbers of the ARO paper are such probes, not zero-shot. The strength of the penalty is
chosen on a held-out fifth of the training split; the test split is never used.
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
"""Candidates, strongest first; then half a decade to both sides of the best."""
HELD_OUT = 0.2
_LOOSE = 1e-4
"""Gradient tolerance of fits that only serve to choose the strength."""
_TIGHT = 1e-6
_BLOCK = 8192
"""Vectors whose class probabilities are in memory at once."""


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
    """Fit a probe to the vectors of a training split; `training_classes` returns its classes.

    Args:
        encoder: Model that made the vectors and that scores images with the probe.
        classes: The caption of each class.
        class_N: Class of each image.
        image_ND: Vectors as the encoder returns them: pooled, projected and of unit length; NaN
            for images that cannot be opened.
        keys: Keys of the images; they decide which are held out.
        fingerprint: Fingerprint of the training split.
        seed: Seed of the held-out images.
        strengths: Candidates for the strength of the penalty.
        progress: Shows progress bars; None shows none.
    """
    progress = progress or Silent()
    is_whole_N: BoolArray = np.all(np.isfinite(image_ND), axis=1)
    class_N = class_N[is_whole_N]
    keys = [key for key, is_whole in zip(keys, is_whole_N, strict=True) if is_whole]
    held_out_N = held_out(keys, class_N, seed=seed)
    if not held_out_N.any() or len(set(class_N[~held_out_N].tolist())) < len(classes):
        raise UnbagError(
            f"the training split has {len(keys)} images that can be opened; some of the "
            f"{len(classes)} classes have none, or no image can be held out",
            expected="images of each class, and at least two of one class",
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
        chosen = _choose(fit, vector_ND, class_N, held_out_N, strengths, advance)
        fitted = fit(
            vector_ND, class_N, strength=chosen.strength, start=chosen.fitted, tolerance=_TIGHT
        )
        advance(1)
    if fitted.gradient > 10 * _TIGHT:
        raise UnbagError(
            f"the linear probe of {encoder.name!r} did not converge: after {fitted.steps} steps "
            f"the largest derivative is {fitted.gradient:.2g}",
            expected=f"at most {10 * _TIGHT:.0e}",
            hint="omit the smallest strengths",
        )
    weight_CD = fitted.weight_CD / scale
    bias_C = fitted.bias_C - weight_CD @ mean_D
    identity = [fingerprint, str(seed), *map(repr, strengths)]
    return LinearProbe(
        encoder=encoder,
        classes=classes,
        weight_CE=np.column_stack([weight_CD, bias_C]),
        strength=chosen.strength,
        held_out=chosen.accuracy,
        training=blake2b("\0".join(identity).encode(), digest_size=8).hexdigest(),
    )


def training_classes(items: Sequence[Item]) -> tuple[tuple[Caption, ...], IntArray]:
    """Return the captions that all items share, and the index of the true one for each image."""
    captions = items[0].captions if items else ()
    class_N = np.zeros(len(items), dtype=np.int64)
    for i, item in enumerate(items):
        true_C = np.flatnonzero(true_cells(item.truth, item.id))
        # Identity first: comparing a thousand classes for each of a million images is slow.
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
    """Mark a fifth of each class, drawn by hash of seed and key: at least one of two or more."""
    hash_of = [blake2b(f"{seed}\0{key}".encode(), digest_size=8).digest() for key in keys]
    is_held_out_N = np.zeros(len(keys), dtype=np.bool_)
    for class_index in np.unique(class_N):
        members = sorted(np.flatnonzero(class_N == class_index).tolist(), key=lambda i: hash_of[i])
        count = max(1, round(HELD_OUT * len(members))) if len(members) > 1 else 0
        is_held_out_N[members[:count]] = True
    return is_held_out_N


def _choose(
    fit: partial[Logistic],
    vector_ND: FloatArray,
    class_N: IntArray,
    held_out_N: BoolArray,
    strengths: Sequence[float],
    advance: Callable[[int], None],
) -> _Trial:
    """Choose the strength with the best held-out accuracy, then try half a decade to both sides."""
    fitted_ND, held_out_ND = vector_ND[~held_out_N], vector_ND[held_out_N]

    def attempt(strength: float, start: Logistic | None) -> _Trial:
        fitted = fit(
            fitted_ND, class_N[~held_out_N], strength=strength, start=start, tolerance=_LOOSE
        )
        is_right_N = fitted.scores(held_out_ND).argmax(axis=1) == class_N[held_out_N]
        advance(1)
        return _Trial(float(np.mean(is_right_N)), strength, fitted)

    trials: list[_Trial] = []
    for strength in sorted(strengths, reverse=True):
        trials.append(attempt(strength, trials[-1].fitted if trials else None))
    best = max(trials, key=lambda trial: (trial.accuracy, trial.strength))
    if len(strengths) > 1:
        trials += [attempt(best.strength * factor, best.fitted) for factor in (10**0.5, 10**-0.5)]
    return max(trials, key=lambda trial: (trial.accuracy, trial.strength))


class _Trial(NamedTuple):
    """A strength with its held-out accuracy and fit; ties go to the stronger one."""

    accuracy: float
    strength: float
    fitted: Logistic


@dataclass(frozen=True, eq=False)
class LinearProbe:
    """A scorer of images and classes, made by `fit_probe`."""

    encoder: DualEncoder
    classes: tuple[Caption, ...]
    weight_CE: FloatArray
    """Weights of each class, followed by its bias."""
    strength: float
    """Strength of the L2 penalty, chosen on a held-out part of the training split."""
    held_out: float
    """Accuracy on that part with the chosen strength."""
    training: str
    """Fingerprint of the training data and the settings of the fit."""
    scoring: str = SCORING
    is_blind: bool = False

    @property
    def name(self) -> str:
        """Return the name of the model."""
        return self.encoder.name

    @property
    def fingerprint(self) -> str:
        """Return a fingerprint of the model and of the data that the probe was fitted to."""
        return f"{self.encoder.fingerprint}-probe-{self.training}"

    def caption_vectors(self, captions: Sequence[Caption]) -> Tensor:
        """Return the weights of each class in place of a caption vector, [C, E]."""
        import torch

        index_of = {caption: i for i, caption in enumerate(self.classes)}
        unknown = [caption for caption in captions if caption not in index_of]
        if unknown:
            examples = ", ".join(text_of(caption) for caption in self.classes[:5])
            more = ", ..." if len(self.classes) > 5 else ""
            raise UnbagError(
                f"the linear probe has no class {text_of(unknown[0])!r}",
                expected=f"one of its {len(self.classes)}: {examples}{more}",
                hint="fit a probe to the training split of this benchmark and use it there only",
            )
        return torch.from_numpy(self.weight_CE[[index_of[caption] for caption in captions]])

    def compare(self, image_ND: Tensor, caption_ND: Tensor) -> Tensor:
        """Score pairs row by row."""
        product_N = (image_ND.double() * caption_ND[:, :-1].double()).sum(dim=-1)
        return product_N + caption_ND[:, -1].double()

    def compare_all(self, image_PD: Tensor, caption_CD: Tensor) -> Tensor:
        """Score every image with every class, [P, C]; rounded for the same reason as the cosine."""
        product_PC = image_PD.double() @ caption_CD[:, :-1].double().T
        return (product_PC + caption_CD[:, -1].double()).float()

    def score(self, queries: Sequence[Query]) -> Tensor:
        """Embed and score a few pairs, without a cache."""
        image_ND = self._embed([query.image for query in queries])
        return self.compare(image_ND, self.caption_vectors([q.caption for q in queries]))

    def score_matrix(self, images: Sequence[ImageSource], captions: Sequence[Caption]) -> Tensor:
        """Embed and score every image with every class, without a cache, [P, C]."""
        return self.compare_all(self._embed(images), self.caption_vectors(captions))

    def _embed(self, images: Sequence[ImageSource]) -> Tensor:
        import torch

        prepared = even([self.encoder.prepare(image.open()) for image in images])
        return self.encoder.encode_images(torch.stack(list(prepared)))


def untrained(model: object) -> LinearProbe:
    """Raise UnbagError: the name linear-probe alone has no training split to fit to."""
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
    max_steps: int = 2000,
    device: str = "cpu",
) -> Logistic:
    """Minimise mean cross-entropy + strength / 2 |weights|^2; biases are not penalised.

    Full batch, double precision, L-BFGS from a fixed start: the same input gives the same weights.
    Stops when no derivative exceeds `tolerance`; the caller must check `gradient`.
    """
    import torch
    from scipy.optimize import minimize

    vectors = torch.from_numpy(np.ascontiguousarray(vector_ND, dtype=np.float64)).to(device)
    truth = torch.from_numpy(np.asarray(class_N, dtype=np.int64)).to(device)
    shape = (classes, vector_ND.shape[1] + 1)
    initial = np.zeros(shape)
    if start is not None:
        initial = np.column_stack([start.weight_CD, start.bias_C])

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        weights = torch.from_numpy(flat.reshape(shape)).to(device)
        value, slope = _loss(vectors, truth, weights, strength)
        return value, slope.cpu().numpy().ravel()

    result = minimize(
        loss,
        initial.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_steps, "maxfun": 2 * max_steps, "gtol": tolerance, "ftol": 0.0},
    )
    weight_CE = np.asarray(result.x, dtype=np.float64).reshape(shape)
    return Logistic(
        weight_CD=weight_CE[:, :-1].copy(),
        bias_C=weight_CE[:, -1].copy(),
        loss=float(result.fun),
        gradient=float(np.abs(result.jac).max()),
        steps=int(result.nit),
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
        """Return class scores, [N, C]."""
        score_NC: FloatArray = vector_ND @ self.weight_CD.T + self.bias_C
        return score_NC


def _loss(
    vector_ND: Tensor, class_N: Tensor, weight_CE: Tensor, strength: float
) -> tuple[float, Tensor]:
    """Return the loss and its derivatives [C, D + 1], computed in blocks."""
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
