"""A diagnosis as JSON, as text and as files in a folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from unbag.errors import UnbagError
from unbag.models.tiny import load as load_tiny
from unbag.probes.base import Options
from unbag.probes.diagnosis.diagnose import Diagnosis, DiagnosisConfig, examine
from unbag.probes.diagnosis.text import KIND, lines_below, to_json

from .made_diagnosis import made
from .small_probes import BROKEN, OPTIONS, SHARE, Counted, small_material


@pytest.fixture(scope="module")
def found() -> Diagnosis:
    return examine(
        DiagnosisConfig(
            load_tiny("base"),
            against=Counted(),
            material=small_material(),
            probes=(SHARE, BROKEN),
            options=OPTIONS,
            command="unbag diagnose --model tiny:base",
        )
    )


def no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def test_everything_is_in_it(found: Diagnosis) -> None:
    said: dict[str, Any] = json.loads(to_json(found), parse_constant=no_constant)
    assert said["kind"] == KIND
    assert said["is_whole"] is True
    assert (said["model"]["name"], said["against"]["name"]) == ("tiny:base", "counted")
    assert said["random_init"]["name"] == "tiny:base, random weights"
    assert (said["seed"], said["material"], said["notes"]) == (0, "a few drawings", ["a note"])
    assert said["record"]["command"] == "unbag diagnose --model tiny:base"
    assert said["record"]["versions"]["numpy"]
    share, broken = said["answers"]
    assert broken["skipped"].startswith("no such scene\n  expected: another one")
    assert broken["verdict"] is None
    assert share["verdict"] == {"sentence": share["verdict"]["sentence"], "tone": "mixed"}
    assert share["headline"] == "right"
    assert share["notes"] == ["six rows"]
    assert [one["kind"] for one in share["plots"]] == ["scatter", "bars", "lines", "grid"]
    assert share["plots"][3]["values"] == [[0.75, 0.25], [None, 1]]
    assert [one["kind"] for one in said["maps"]] == ["maps"] * 6
    assert said["maps"][0]["image"].startswith("data:image/jpeg;base64,")


def test_a_quantity_has_its_interval_its_references_and_the_other_models(found: Diagnosis) -> None:
    answer = found.answers[0]
    right = json.loads(to_json(found))["answers"][0]["quantities"][0]
    estimate = answer.finding["right"].estimate
    assert right["value"] == estimate.value
    assert (right["low"], right["high"]) == (estimate.low, estimate.high)
    assert (right["n"], right["invalid"], right["is_rate"]) == (6, 0, True)
    assert right["interval"] == estimate.interval
    assert (right["bag"], right["perfect"], right["chance"]) == (0.5, 1.0, 0.5)
    assert answer.random_init is not None
    assert answer.other is not None
    assert right["random_init"]["value"] == answer.random_init["right"].estimate.value
    assert right["against"]["value"] == answer.other["right"].estimate.value
    assert right["difference"]["value"] == pytest.approx(right["value"] - right["against"]["value"])
    assert right["difference"]["low"] <= right["difference"]["value"]
    assert right["better"] == "higher"


def test_numbers_that_are_none_are_null(found: Diagnosis) -> None:
    first = found.answers[0]
    odd = replace(first.finding.quantities[0].estimate, value=float("nan"), high=float("inf"))
    quantity = replace(first.finding.quantities[0], estimate=odd)
    answer = replace(first, finding=replace(first.finding, quantities=(quantity,)))
    said = json.loads(to_json(replace(found, answers=(answer,))), parse_constant=no_constant)
    assert said["answers"][0]["quantities"][0]["value"] is None
    assert said["answers"][0]["quantities"][0]["high"] is None
    assert [one["name"] for one in said["answers"][0]["only_against"]] == ["gap"]


def test_the_same_may_be_written_again_and_no_other(found: Diagnosis, tmp_path: Path) -> None:
    page = found.write(tmp_path / "new" / "one")
    assert page == tmp_path / "new" / "one" / "diagnosis.html"
    assert sorted(path.name for path in page.parent.glob("[!.]*")) == [
        "diagnosis.html",
        "diagnosis.json",
        "run.json",
    ]
    replace(found, notes=("once more",)).write(page.parent)
    numbers = page.with_name("diagnosis.json").read_text(encoding="utf-8")
    assert '"once more"' in numbers
    with pytest.raises(UnbagError, match=r"another diagnosis: material: .* before, others now"):
        replace(found, material="others").write(page.parent)
    assert page.with_name("diagnosis.json").read_text(encoding="utf-8") == numbers


def test_a_folder_with_something_else_is_refused(tmp_path: Path, found: Diagnosis) -> None:
    (tmp_path / "thesis.txt").write_text("dear reader")
    with pytest.raises(UnbagError, match="is not empty and holds no diagnosis"):
        found.write(tmp_path)
    (tmp_path / "run.json").write_text('{"kind": "evaluation"}')
    with pytest.raises(UnbagError, match="'evaluation'"):
        found.write(tmp_path)
    with pytest.raises(UnbagError, match=r"thesis\.txt is a file"):
        found.write(tmp_path / "thesis.txt")
    assert {path.name for path in tmp_path.iterdir()} == {"thesis.txt", "run.json"}


def test_a_layer_that_was_asked_for_in_vain_is_told_where_it_was_typed() -> None:
    found = made()
    note = "there is no layer 99: there are 7, from 0 on"
    first = found.answers[0]
    first = replace(first, finding=replace(first.finding, notes=("another remark", note)))
    asked = replace(found, answers=(first,), options=Options(layers=(99,)), notes=("a note",))
    notes = [line for line in lines_below(asked) if line.startswith("note: ")]
    assert notes == [f"note: {first.probe}: {note}", "note: a note"]
