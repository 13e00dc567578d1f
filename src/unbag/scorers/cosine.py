"""Cosine between an image vector and a caption vector: the score of every CLIP-like model.

Dimensions: N pairs, P images, C captions, D joint space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unbag.errors import UnbagError
from unbag.models.batching import as_tensor, even, of_one_size
from unbag.types import Caption, DualEncoder, ImageSource, Query
from unbag.types.items import prompts_of

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Cosine:
    """Cosine score of a dual encoder. A run embeds unique inputs itself and calls `compare`."""

    encoder: DualEncoder
    scoring: str = "cosine"
    is_blind: bool = False

    @property
    def name(self) -> str:
        """Return the name of the model."""
        return self.encoder.name

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the model."""
        return self.encoder.fingerprint

    def compare(self, image_ND: Tensor, caption_ND: Tensor) -> Tensor:
        """Score pairs row by row. Vectors have unit norm, so the cosine is the dot product.

        Computed in double precision, so that the order of summation cannot break or make a tie.
        """
        self._check_widths(image_ND, caption_ND)
        return (image_ND.double() * caption_ND.double()).sum(dim=-1)

    def compare_all(self, image_PD: Tensor, caption_CD: Tensor) -> Tensor:
        """Score every image with every caption, [P, C].

        Computed in double precision and then rounded: a matrix product sums in an order that
        depends on its shape, and equal vectors must get equal scores in every block.
        """
        self._check_widths(image_PD, caption_CD)
        return (image_PD.double() @ caption_CD.double().T).float()

    def score(self, queries: Sequence[Query]) -> Tensor:
        """Embed and score a few pairs, without a cache."""
        image_ND = self._embed_images([query.image for query in queries])
        caption_ND = self._embed_captions([query.caption for query in queries])
        return self.compare(image_ND, caption_ND)

    def score_matrix(self, images: Sequence[ImageSource], captions: Sequence[Caption]) -> Tensor:
        """Embed and score every image with every caption, without a cache, [P, C]."""
        return self.compare_all(self._embed_images(images), self._embed_captions(captions))

    def _embed_images(self, images: Sequence[ImageSource]) -> Tensor:
        import torch

        prepared = [self.encoder.prepare(image.open()) for image in images]
        pixels = torch.stack(list(even(of_one_size(prepared, model=self.name))))
        return as_tensor(self.encoder.encode_images(pixels), model=self.name)

    def _embed_captions(self, captions: Sequence[Caption]) -> Tensor:
        import torch

        rows = [self.encoder.encode_texts(list(prompts_of(c))) for c in captions]
        return torch.stack([average(as_tensor(row, model=self.name)) for row in rows])

    def _check_widths(self, image_ND: Tensor, caption_ND: Tensor) -> None:
        image_width, caption_width = image_ND.shape[-1], caption_ND.shape[-1]
        if image_width != caption_width:
            raise UnbagError(
                f"model {self.name!r} gives {image_width} numbers for an image and {caption_width} "
                "for a caption",
                expected="image and caption vectors of the same width",
                hint="correct encode_images or encode_texts of this model, and change its "
                "fingerprint, by which vectors are cached",
            )


def average(vector_ND: Tensor) -> Tensor:
    """Return the vector of a prompt ensemble: the mean of unit vectors, at unit norm."""
    from torch.nn.functional import normalize

    return vector_ND[0] if len(vector_ND) == 1 else normalize(vector_ND.mean(dim=0), dim=-1)
