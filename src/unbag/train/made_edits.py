"""Captions of a batch come in; edits made on the spot go out, where none were made before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from unbag.captions import pipelines, wordnet
from unbag.captions.edit import CaptionEditor, make_editor
from unbag.captions.kinds import Parts
from unbag.train.draw import Columns
from unbag.train.pairs import Pair
from unbag.types import Edit, Given
from unbag.version import __version__


@dataclass(eq=False)
class MadeEdits:
    """Edits new captions in every epoch. Each data worker loads the editor for itself."""

    kinds: tuple[str, ...]
    seed: int
    per_kind: int = 1
    parts: Parts = field(default_factory=Parts)
    editor: CaptionEditor | None = field(default=None, repr=False)
    """Not there before it is needed."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever an edit could."""
        parts = self.parts
        found = pipelines.described(parts.pipeline), wordnet.described(parts.wordnet)
        said = (
            __version__,
            self.kinds,
            self.seed,
            self.per_kind,
            *found,
            parts.fill,
            parts.rewrite,
        )
        return repr(said)

    def load(self) -> CaptionEditor:
        """The editor; raises its own UserError where a pipeline or model is missing."""
        if self.editor is None:
            self.editor = make_editor(
                self.kinds, parts=self.parts, seed=self.seed, per_kind=self.per_kind
            )
        return self.editor

    def __call__(
        self, pairs: Sequence[Pair], chosen: Sequence[int], *, epoch: int
    ) -> list[tuple[Edit, ...]]:
        """Of the chosen caption of each pair, all at once."""
        given = [
            Given(
                f"{epoch}\0{pair.id}\0{at}",
                pair.captions[at],
                pair.captions[:at] + pair.captions[at + 1 :],
            )
            for pair, at in zip(pairs, chosen, strict=True)
        ]
        found, _ = self.load()(given)
        return [one.edits for one in found]

    def __getstate__(self) -> dict[str, Any]:
        """Without the editor: another process loads its own."""
        return self.__dict__ | {"editor": None}


def made_edits(columns: Columns, *, seed: int, parts: Parts | None = None) -> MadeEdits:
    """As many edits of a kind as columns take it."""
    times = Counter(kind for column in (*columns.negatives, *columns.positives) for kind in column)
    return MadeEdits(columns.kinds, seed, max(times.values()), parts or Parts())
