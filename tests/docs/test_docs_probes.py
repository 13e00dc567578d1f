"""The pages on probes: every probe has its section, examples run, tables are those of the file."""

import json
import re
import runpy
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from unbag.probes.base import Probe
from unbag.registry import find, names

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "probes.md").read_text(encoding="utf-8")
SECTIONS = {
    part.partition("`")[0]: part for part in re.split(r"^## `", PAGE, flags=re.MULTILINE)[1:]
}
PARTS = ("Formula", "Source", "Known", "Limits", "Sentence", "In Python")
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
PRINTED = re.compile(r"^print\(.*\)  # (.*)$", re.M)


def test_every_registered_probe_has_a_section_and_nothing_else_has() -> None:
    assert set(SECTIONS) == set(names("probe"))


@pytest.mark.parametrize("name", sorted(SECTIONS))
def test_a_section_has_the_question_of_the_code_and_all_its_parts(name: str) -> None:
    probe = find("probe", name)
    assert isinstance(probe, Probe)
    assert f"**{probe.question}**" in SECTIONS[name]
    for part in PARTS:
        assert f"- **{part}.**" in SECTIONS[name]


@pytest.mark.parametrize("name", sorted(SECTIONS))
def test_an_example_prints_what_the_page_says(name: str) -> None:
    (code,) = EXAMPLE.findall(SECTIONS[name])
    said = StringIO()
    with redirect_stdout(said):
        exec(compile(code, f"docs/probes.md {name}", "exec"), {})
    assert said.getvalue().splitlines() == PRINTED.findall(code)


def test_the_tables_of_the_diagnosis_are_those_of_its_file() -> None:
    made = runpy.run_path(str(DOCS / "make_diagnosis.py"))
    numbers = json.loads((DOCS / "diagnosis_numbers.json").read_text(encoding="utf-8"))
    page = (DOCS / "diagnosis.md").read_text(encoding="utf-8")
    assert made["models_table"](numbers) in page
    assert made["parts_table"](numbers) in page
    assert made["renewed"](page, numbers) == page, "run: python docs/make_diagnosis.py FOLDERS"


def test_every_number_of_the_tables_is_there() -> None:
    made = runpy.run_path(str(DOCS / "make_diagnosis.py"))
    numbers = json.loads((DOCS / "diagnosis_numbers.json").read_text(encoding="utf-8"))
    assert tuple(numbers["models"]) == made["MODELS"]
    for name, found in numbers["models"].items():
        missing = {f"{probe}: {quantity}" for probe, quantity, _ in made["ROWS"]} - set(found)
        # What a positive costs means nothing where a negative costs nothing.
        assert missing <= {"sensitivity: rho, same words"}, name
    assert tuple(numbers["parts"]) == made["MODELS"][1:3]
    for found in numbers["parts"].values():
        assert len(found) == len(made["PARTS"])
