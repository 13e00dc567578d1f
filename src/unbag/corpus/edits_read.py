"""The field `edits` of a collection that was edited before comes in; edits of each caption go out.

What each edit changed in its caption is left unread: whoever trains on edits needs their texts.
"""

from __future__ import annotations

from unbag.corpus.source import Source, edited_before, json_value
from unbag.errors import UserError
from unbag.types import Edit
from unbag.types.json_fields import Fields

Edits = tuple[tuple[Edit, ...], ...]
"""For each caption."""


def edits_in(value: object, captions: int | None, where: str) -> Edits:
    """A list of edits, or where a record has a list of so many captions, a list of such lists."""
    if captions is None:
        return (_edits(value, where),)
    lists = value if isinstance(value, list) else []
    if len(lists) != captions:
        raise UserError(
            f"{where}: edits is not one list for each of {captions} captions",
            expected="as many lists of edits as captions",
        )
    return tuple(_edits(one, where) for one in lists)


def edits_in_cell(cell: object, captions: int | None, where: str) -> Edits:
    """The same, written as JSON in the cell of a table; an empty cell holds no edits."""
    if not cell:
        return ((),) * (1 if captions is None else captions)
    if isinstance(cell, str):
        cell = json_value(cell.encode(), f"{where}, edits")
    return edits_in(cell, captions, where)


def check_wanted(source: Source, where: str) -> None:
    """Edits were met: an error unless they are wanted."""
    if not source.keeps_edits:
        raise edited_before(where)


def _edits(value: object, where: str) -> tuple[Edit, ...]:
    if not isinstance(value, list):
        raise UserError(
            f"{where}: edits is {value!r:.60}",
            expected='a list of {"text", "kind", "keeps_meaning"}',
        )
    return tuple(_edit(one, where) for one in value)


def _edit(value: object, where: str) -> Edit:
    if not isinstance(value, dict):
        raise UserError(
            f"{where}: an edit is {value!r:.60}",
            expected='an object {"text", "kind", "keeps_meaning"}',
        )
    fields = Fields(value, f"{where}, edits")
    return Edit(fields.text("text"), fields.text("kind"), fields.truth("keeps_meaning"), (0, 0))
