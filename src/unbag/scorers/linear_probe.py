"""Classes by logistic regression on frozen picture vectors: a scorer fitted to a training split.

The caption only says which class is meant; its words and the text encoder play no part. The
published CIFAR and ImageNet numbers of the ARO paper are such probes, not zero-shot.
Dimensions: N pairs, P pictures, C captions or classes, D embedding, E embedding and bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unbag.errors import UserError
from unbag.models.ragged import even
from unbag.types import Caption, DualEncoder, Ensemble, FloatArray, Picture, Query

if TYPE_CHECKING:
    from torch import Tensor

SCORING = "linear probe"


@dataclass(frozen=True, eq=False)
class LinearProbe:
    """Scores a picture and a class; made by `unbag.engine.probe.fit_linear_probe`."""

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
            raise UserError(
                f"the linear probe has no class {_name(unknown[0])!r}",
                expected=f"one of its {len(self.classes)}: {_some(self.classes)}",
                way_out="fit one to the training split of this benchmark, and run it on that alone",
            )
        return torch.from_numpy(self.weight_CE[[place[caption] for caption in captions]])

    def compare(self, picture_ND: Tensor, caption_ND: Tensor) -> Tensor:
        """Row with row."""
        product_N = (picture_ND.double() * caption_ND[:, :-1].double()).sum(dim=-1)
        return product_N + caption_ND[:, -1].double()

    def compare_all(self, picture_PD: Tensor, caption_CD: Tensor) -> Tensor:
        """Every picture with every class, [P, C]; rounded as the cosine is, and for its reason."""
        product_PC = picture_PD.double() @ caption_CD[:, :-1].double().T
        return (product_PC + caption_CD[:, -1].double()).float()

    def score(self, queries: Sequence[Query]) -> Tensor:
        """Without cache or plan, for a handful of pairs."""
        picture_ND = self._embed([query.picture for query in queries])
        return self.compare(picture_ND, self.caption_vectors([q.caption for q in queries]))

    def score_matrix(self, pictures: Sequence[Picture], captions: Sequence[Caption]) -> Tensor:
        """Without cache or plan, [P, C]."""
        return self.compare_all(self._embed(pictures), self.caption_vectors(captions))

    def _embed(self, pictures: Sequence[Picture]) -> Tensor:
        import torch

        prepared = even([self.encoder.prepare(picture.open()) for picture in pictures])
        return self.encoder.encode_pictures(torch.stack(list(prepared)))


def untrained(model: object) -> LinearProbe:
    """What the name linear-probe alone leads to: an error, since there is nothing to fit it to."""
    raise UserError(
        "the scorer 'linear-probe' must first be fitted to a training split",
        expected="one benchmark that has one, such as cifar10",
        way_out="`unbag run --scorer linear-probe --bench cifar10`, or "
        "unbag.engine.probe.fit_linear_probe in Python",
    )


def _name(caption: Caption) -> str:
    return caption.name if isinstance(caption, Ensemble) else caption


def _some(captions: Sequence[Caption]) -> str:
    more = ", ..." if len(captions) > 5 else ""
    return ", ".join(_name(caption) for caption in captions[:5]) + more
