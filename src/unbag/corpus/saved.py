"""An edited chunk as the text of a file, and back: a line about the chunk, then one a caption."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from unbag.captions.tally import Tally
from unbag.types import Change, Edit, Edited
from unbag.types.as_json import edit_as_json


@dataclass(frozen=True, eq=False)
class Head:
    """The first line: what is known of the whole chunk."""

    captions: int
    tally: Tally
    failures: tuple[str, ...]
    """Captions that the editor failed on, with the error."""


def as_text(edited: Sequence[Edited], tally: Tally, failures: Sequence[str]) -> str:
    """What a file of one chunk holds."""
    head = {"captions": len(edited), "tally": tally.as_json(), "failures": list(failures)}
    lines = [json.dumps(head, ensure_ascii=False)]
    lines += (json.dumps(_line(one), ensure_ascii=False) for one in edited)
    return "\n".join(lines) + "\n"


def read_head(file: IO[str]) -> Head:
    """The first line of an open file."""
    said = json.loads(file.readline())
    return Head(said["captions"], Tally.from_json(said["tally"]), tuple(said["failures"]))


def read_edited(file: IO[str]) -> Iterator[Edited]:
    """The other lines."""
    for line in file:
        said = json.loads(line)
        edits = tuple(_edit(one) for one in said["edits"])
        yield Edited(said["id"], said["caption"], edits, said.get("skipped", ""))


def _edit(said: Mapping[str, Any]) -> Edit:
    changes = tuple(Change(*one) for one in said["changes"])
    span = (changes[0].start, changes[-1].end) if changes else (0, 0)
    return Edit(said["text"], said["kind"], said["keeps_meaning"], span, changes)


def _line(one: Edited) -> dict[str, object]:
    said: dict[str, object] = {"id": one.id, "caption": one.text}
    said["edits"] = [edit_as_json(edit) for edit in one.edits]
    return said | ({"skipped": one.skipped} if one.skipped else {})
