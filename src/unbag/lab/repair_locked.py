"""A tiny dual encoder comes in; towers go out of which that of pictures stays as it is."""

from __future__ import annotations

from torch import Tensor

from unbag.models.tiny import Tiny
from unbag.training.data.batch import Batch
from unbag.training.towers.adapters import TinyTrainable


class SharedPictures:
    """Vectors of the pictures of a batch, the same for all arms whose picture tower is locked."""

    def __init__(self) -> None:
        self._batch: Batch | None = None
        self.vector_BD: Tensor | None = None
        self.is_shared = True
        """Recorded steps each compute their own: they cannot wait for one another."""

    def look_at(self, batch: Batch) -> None:
        """Forget the vectors of any other batch."""
        if batch is not self._batch:
            self._batch, self.vector_BD = batch, None


class LockedTiny(TinyTrainable):
    """Towers of which the picture tower stays as the base has it."""

    def __init__(self, encoder: Tiny, shared: SharedPictures, *, device: str) -> None:
        super().__init__(encoder, device=device)
        self._shared = shared

    def embed_pictures(self, pixels: Tensor) -> Tensor:
        """Of the batch that the shared vectors look at; the first arm that asks computes them."""
        if not self._shared.is_shared:
            return super().embed_pictures(pixels).detach()
        if self._shared.vector_BD is None:
            self._shared.vector_BD = super().embed_pictures(pixels).detach()
        return self._shared.vector_BD
