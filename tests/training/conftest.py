"""The toy batch of the specification."""

import pytest
import torch

from unbag.types import Embedded


@pytest.fixture
def toy() -> Embedded:
    """B=2, D=3, scale 10, four negatives (one missing) and one positive for each caption."""

    def double(rows: object) -> torch.Tensor:
        return torch.tensor(rows, dtype=torch.float64)

    return Embedded(
        image_BD=double([[1, 0, 0], [0, 1, 0]]),
        caption_BD=double([[0.8, 0.6, 0], [0, 0.8, 0.6]]),
        scale=double(10.0),
        bias=double(-10.0),
        negative_BKD=double(
            [
                [[0.6, 0.8, 0], [0.28, 0.96, 0], [0, 0.6, 0.8], [0.96, 0, 0.28]],
                [[0.6, 0, 0.8], [0.8, 0.6, 0], [0, 0.28, 0.96], [0, 0.96, 0.28]],
            ]
        ),
        negative_mask_BK=torch.tensor([[True, True, True, True], [False, True, True, True]]),
        negative_kinds=("relation", "attribute", "object", "action"),
        positive_BKD=double([[[0.96, 0.28, 0]], [[0, 0.6, 0.8]]]),
        positive_mask_BK=torch.tensor([[True], [True]]),
        positive_kinds=("synonym",),
    )
