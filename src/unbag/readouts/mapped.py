"""What a reader must offer to be drawn: a map over the patches for each part of a caption.

Dimensions: N pairs, T parts of a caption, L patches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from torch import Tensor

    from unbag.readouts.parts import Parts


@runtime_checkable
class MappedReader(Protocol):
    """A reader that `unbag diagnose` draws over pictures."""

    maps_show: str
    """What a number of a map is, for people: a sentence or two."""
    maps_are_signed: bool
    """Whether zero is nothing, and numbers below it speak against; drawn in two colours."""

    def word_maps(self, picture: Parts, caption: Parts) -> Tensor:
        """Row with row, [N, T, L], larger where a patch counts more.

        A reader to which a caption is one part (T = 1) is also asked with each word alone.
        """
