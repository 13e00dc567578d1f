"""A frozen encoder comes in; pictures and captions as maps of cosines need them go out (7.1).

Dimensions: N captions, L columns of a map, K columns that the encoder shows, D joint space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal
from warnings import warn

from unbag.readouts.dcsm_words import Align, marks
from unbag.readouts.parts import Parts, View, joint_captions, joint_pictures
from unbag.types import DualEncoder, PaddedEncoder

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class Tally:
    """What was met on the way, for people."""

    captions: int = 0
    cut: int = 0
    """Beyond the columns of the map."""
    plain: int = 0
    """Without a functional word."""
    unplaced: int = 0
    """With functional words whose columns could not be found."""


@dataclass(eq=False)
class MapCaptions:
    """Reads captions into so many columns each; `mark_NL` says where functional words stand."""

    align: Align
    length: int
    padding: Literal["kept", "zero"]
    tally: Tally = field(default_factory=Tally)
    _said: set[str] = field(default_factory=set, repr=False)

    @property
    def view(self) -> View:
        """Patches as every reader of the joint space sees them, and captions by columns."""
        how = self.align.replace("_", "-")
        return View(f"dcsm-{how}-{self.length}-{self.padding}", joint_pictures, self)

    def __call__(self, encoder: DualEncoder, captions: Sequence[str]) -> Parts:
        """Always [N, length, D]; the mask is True wherever there is a vector, of padding too."""
        import torch

        vector_NKD, mask_NK, pooled_ND = self._vectors(encoder, captions)
        found = marks(encoder, captions, align=self.align, length=self.length)
        self._count(encoder, len(captions), found.cut, found.plain, found.unplaced)
        part_NLD = _to_length(vector_NKD, self.length)
        mask_NL = _to_length(mask_NK[..., None], self.length)[..., 0]
        return Parts(part_NLD, mask_NL, pooled_ND, torch.from_numpy(found.mark_NL))

    def _vectors(
        self, encoder: DualEncoder, captions: Sequence[str]
    ) -> tuple[Tensor, Tensor, Tensor]:
        if self.padding == "zero" or not isinstance(encoder, PaddedEncoder):
            found = joint_captions(encoder, captions)
            if self.padding == "kept":
                self._say(
                    f"{encoder.name} shows no vectors at padding: columns behind the end of a "
                    "caption are zero"
                )
            return found.part_NLW, found.mask_NL, found.pooled_NW
        tokens = encoder.encode_padded(captions, length=self.length)
        vector_NKD = tokens.vector_NLD.float()
        pooled_ND = encoder.encode_captions(captions).float()
        return vector_NKD, (vector_NKD != 0).any(dim=-1), pooled_ND

    def _count(
        self, encoder: DualEncoder, captions: int, cut: int, plain: int, unplaced: int
    ) -> None:
        tally = self.tally
        tally.captions += captions
        tally.cut += cut
        tally.plain += plain
        tally.unplaced += unplaced
        if cut:
            self._say(
                f"captions of {encoder.name} with more than {self.length} tokens are cut: a map "
                f"has {self.length} columns"
            )
        if unplaced:
            self._say(
                f"{encoder.name}: words and pieces of some captions do not add up, so their "
                "functional words are not marked"
            )

    def _say(self, said: str) -> None:
        if said not in self._said:
            self._said.add(said)
            warn(said, stacklevel=4)


def _to_length(tensor_NKD: Tensor, length: int) -> Tensor:
    from torch.nn import functional

    rest = length - tensor_NKD.shape[1]
    return tensor_NKD[:, :length] if rest <= 0 else functional.pad(tensor_NKD, (0, 0, 0, rest))
