"""Pixels or token ids come in; what stands after each layer of a photo tower goes out.

Both towers are read out by a mean, so the pooled vector of a layer is the mean over its places.

Dimensions: N inputs, L places or tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unbag.models.hf_layers import states
from unbag.models.layers import laid_out, of_maps, recorded
from unbag.models.photo_towers import PhotoCaption, PhotoPicture, mean_words
from unbag.types import Layers

if TYPE_CHECKING:
    from torch import Tensor


def picture_layers(tower: PhotoPicture, pixels: Tensor) -> Layers:
    """Stem, sixteen blocks and what the head is given, all as 7 x 7 places."""
    last, maps = recorded(list(tower.part._blocks), lambda: tower.part.extract_features(pixels))
    vectors = of_maps([*maps, last])
    return laid_out(vectors, [one.mean(dim=1) for one in vectors])


def caption_layers(tower: PhotoCaption, token_NL: Tensor, mask_NL: Tensor) -> Layers:
    """Embedding and six blocks; the last stands twice, since no norm follows it."""
    _, hidden = states(tower.part, {"input_ids": token_NL, "attention_mask": mask_NL})
    return laid_out(hidden, [mean_words(one, mask_NL) for one in hidden], mask_NL)
