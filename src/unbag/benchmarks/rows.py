"""A record that is a plain list comes in; the same with a name for each cell goes out."""

from __future__ import annotations

from collections.abc import Sequence

from unbag.benchmarks.files import Record
from unbag.errors import UserError


def named(record: Record, names: Sequence[str]) -> Record:
    """The record as if its file had named the cells."""
    value = record.value
    if not isinstance(value, list) or len(value) != len(names):
        found = f"a list of {len(value)}" if isinstance(value, list) else type(value).__name__
        raise UserError(
            f"{record.where} is {found}",
            expected=f"a list [{', '.join(names)}]",
            way_out="check that it is the official file",
        )
    return Record(dict(zip(names, value, strict=True)), record.key, record.where)
