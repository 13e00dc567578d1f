"""A file of text vectors from elsewhere comes in; a text part that looks captions up goes out.

Dimensions: N captions, T captions of the table, E width of a vector.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from unbag.errors import UserError, said_by
from unbag.models.fingerprint import fingerprint
from unbag.models.finite import check_finite
from unbag.types import Layers

if TYPE_CHECKING:
    from unbag.models.text_part import Inputs

VECTORS, CAPTIONS = "vectors", "captions"
_SHOWN = 80


@dataclass(frozen=True, eq=False)
class TableReads:
    """A caption is its row."""

    name: str
    row_of: Mapping[str, int]
    context: int = 1

    def count(self, captions: Sequence[str]) -> list[int]:
        """One for each; a caption that is not there is an error."""
        self._rows(captions)
        return [1] * len(captions)

    def __call__(self, captions: Sequence[str]) -> dict[str, Tensor]:
        """Rows [N]."""
        return {"row_N": torch.tensor(self._rows(captions), dtype=torch.int64)}

    def fresh(self) -> TableReads:
        """It remembers nothing."""
        return self

    def _rows(self, captions: Sequence[str]) -> list[int]:
        try:
            return [self.row_of[caption] for caption in captions]
        except KeyError as error:
            caption = str(error.args[0])
            shown = caption if len(caption) <= _SHOWN else f"{caption[:_SHOWN]} ..."
            raise UserError(
                f"{self.name} has no vector of the caption {shown!r}",
                expected=f"one of its {len(self.row_of):,} captions, letter by letter",
                way_out="compute the vectors of every caption and edit that is asked for, and "
                "write the file anew",
            ) from error


class _Table(nn.Module):
    """Rows that move with a model and are no weights."""

    vector_TE: Tensor

    def __init__(self, vector_TE: Tensor) -> None:
        super().__init__()
        # Not saved: an export is made of weights, and the file is read again.
        self.register_buffer("vector_TE", vector_TE, persistent=False)


@dataclass(frozen=True, eq=False)
class TextTable:
    """Text vectors by caption."""

    name: str
    module: _Table
    reads: TableReads
    fingerprint: str
    width: int

    def pooled(self, inputs: Inputs) -> Tensor:
        """Rows to [N, E]."""
        return self.module.vector_TE[inputs["row_N"]].float()

    def words(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Refused."""
        raise self._only_whole("tokens")

    def layers(self, inputs: Inputs) -> Layers:
        """Refused."""
        raise self._only_whole("layers")

    def holding(self, module: nn.Module) -> TextTable:
        """The same rows elsewhere."""
        assert isinstance(module, _Table)
        return replace(self, module=module)

    def _only_whole(self, what: str) -> UserError:
        return UserError(
            f"{self.name} has one vector a caption, and no {what}",
            expected="a text model that is run here",
            way_out="name the text model itself after the +, as a folder or a hub name",
        )


def read_table(path: Path, *, name: str) -> TextTable:
    """What `write_table` wrote, or any such file: `vectors` [T, E], captions in the header."""
    try:
        with safe_open(path, framework="pt") as file:
            captions = json.loads((file.metadata() or {}).get(CAPTIONS, "null"))
            vector_TE = file.get_tensor(VECTORS)
        if not isinstance(captions, list) or not all(isinstance(one, str) for one in captions):
            raise ValueError("its header has no captions, or they are no list of texts")
        if vector_TE.ndim != 2 or len(vector_TE) != len(captions):
            raise ValueError(f"{len(captions)} captions and vectors {tuple(vector_TE.shape)}")
        row_of = {caption: row for row, caption in enumerate(captions)}
        if len(row_of) != len(captions):
            raise ValueError(f"{len(captions) - len(row_of)} captions stand there twice")
        if not captions:
            raise ValueError("it is empty")
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read as a table of text features: {said_by(error)}",
            expected=f"a .safetensors file with {VECTORS} [captions, width] and, in its header, "
            f"{CAPTIONS}: a list of as many texts in JSON",
            way_out="write it with unbag.models.text_table.write_table(path, captions, vectors)",
        ) from error
    check_finite({VECTORS: vector_TE}, source=str(path))
    said = json.dumps(captions, ensure_ascii=False)
    return TextTable(
        name=name,
        module=_Table(vector_TE),
        reads=TableReads(name, row_of),
        fingerprint=fingerprint("text-table", {VECTORS: vector_TE}, said),
        width=int(vector_TE.shape[1]),
    )


def write_table(path: str | Path, captions: Sequence[str], vectors: Tensor) -> None:
    """Captions, each once, with their vectors [T, E], in the precision that they have."""
    if vectors.ndim != 2 or len(vectors) != len(captions) or len({*captions}) != len(captions):
        raise UserError(
            f"{len({*captions}):,} different captions and vectors {tuple(vectors.shape)}",
            expected="each caption once, and one row of numbers for each",
        )
    header = {CAPTIONS: json.dumps(list(captions), ensure_ascii=False)}
    # Not `save_file`, which makes files that nobody else can read, whatever the umask.
    Path(path).write_bytes(save({VECTORS: vectors.detach().cpu().contiguous()}, metadata=header))
