"""Triple margin: a caption and each of its hard positives above each of its hard negatives.

Our own option; no loss of the papers holds a positive against the negative of the same caption, and
that comparison is what augmented accuracy asks for. Needs: negatives, and positives to be more than
a margin for the caption alone. Missing: a missing edit makes no comparison; without negatives the
loss is 0.

Dimensions: B batch, K negatives of a caption, T its true captions: itself and its positives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from unbag.errors import unknown_name
from unbag.losses.logits import edit_logits, mean_where, negatives, own_logits, positives
from unbag.types import Embedded

if TYPE_CHECKING:
    from torch import Tensor

Form: TypeAlias = Literal["softplus", "hinge"]


def triple_margin(embedded: Embedded, *, form: Form = "softplus", margin: float = 0.0) -> Tensor:
    """Mean over all comparisons of a true caption and a negative, in scaled similarity."""
    import torch
    from torch.nn.functional import relu, softplus

    wrong, right = negatives(embedded), positives(embedded)
    wrong_BK = edit_logits(embedded, embedded.picture_BD, wrong)
    right_BP = edit_logits(embedded, embedded.picture_BD, right)
    true_BT = torch.cat([own_logits(embedded)[:, None], right_BP], dim=1)
    is_there_B1 = right.mask_BK.new_ones(len(true_BT), 1)
    is_true_BT = torch.cat([is_there_B1, right.mask_BK], dim=1)
    lack_BTK = wrong_BK[:, None, :] - true_BT[:, :, None] + margin
    is_asked_BTK = is_true_BT[:, :, None] & wrong.mask_BK[:, None, :]
    if form not in get_args(Form):
        raise unknown_name("form", form, get_args(Form))
    return mean_where(softplus(lack_BTK) if form == "softplus" else relu(lack_BTK), is_asked_BTK)
