"""What stands under the table on the terminal."""

from __future__ import annotations

from dataclasses import replace

from unbag.probes.base import Options
from unbag.probes.diagnosis.text import lines_below

from .made_diagnosis import made


def test_a_layer_that_was_asked_for_in_vain_is_told_where_it_was_typed() -> None:
    found = made()
    note = "there is no layer 99: there are 7, from 0 on"
    first = found.answers[0]
    first = replace(first, finding=replace(first.finding, notes=("another remark", note)))
    asked = replace(found, answers=(first,), options=Options(layers=(99,)), notes=("a note",))
    notes = [line for line in lines_below(asked) if line.startswith("note: ")]
    assert notes == [f"note: {first.probe}: {note}", "note: a note"]
