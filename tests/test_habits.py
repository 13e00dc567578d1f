"""Files for those who help: `make help` lists all, templates and hooks name what there is."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
(_PHONY,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, flags=re.MULTILINE)
TARGETS = set(_PHONY.split())
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def commands() -> list[str]:
    steps = [step for job in read(WORKFLOW)["jobs"].values() for step in job["steps"]]
    return [step["run"] for step in steps if "run" in step]


def test_help_has_one_line_for_each_target() -> None:
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [line for line in said.stdout.splitlines() if line.startswith("make ")]
    assert sorted(line.split()[1] for line in lines) == sorted(TARGETS)
    assert all(len(line.split()) > 3 for line in lines)


def test_every_make_target_that_is_named_exists() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in (
        ROOT / "CONTRIBUTING.md", ROOT / ".ci" / "run", WORKFLOW, ROOT / ".pre-commit-config.yaml",
        ROOT / ".github" / "pull_request_template.md")}  # fmt: skip
    # At the start of a line or of code, or after `run:`: elsewhere "make" is an English verb.
    named = {
        (path.name, target)
        for path, text in texts.items()
        for target in re.findall(r"(?:^\s*|`|run: |&& )make ([a-z]+)", text, flags=re.MULTILINE)
    }
    assert {target for _, target in named} >= {"check", "test", "wheel"}
    assert not {(file, target) for file, target in named if target not in TARGETS}


def test_the_workflow_tries_newest_and_lowest_versions() -> None:
    jobs = read(WORKFLOW)["jobs"]
    assert jobs["newest"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert any(command == "make test VERSIONS=" for command in commands())
    assert any("--resolution lowest-direct" in command for command in commands())
    used = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", action) for action in used)


def test_versions_reach_the_installation() -> None:
    asked = ["make", "--dry-run", "--always-make", "check", "VERSIONS=--resolution lowest-direct"]
    said = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
    assert (
        "uv pip install --quiet --resolution lowest-direct --editable '.[all,dev]'" in said.stdout
    )


def test_hooks_run_installed_tools_and_fetch_nothing() -> None:
    (repository,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        assert hook["language"] == "system"
        tool = hook["entry"].split()[0].removeprefix(".venv/bin/")
        assert re.search(rf"\$\(BIN\)/{re.escape(tool)}\b", MAKEFILE), tool


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_forms_are_whole(path: Path) -> None:
    form = read(path)
    assert {"name", "description", "body"} <= set(form)
    assert any(part.get("validations", {}).get("required") for part in form["body"])
    for part in form["body"]:
        assert part["type"] in {"input", "textarea", "checkboxes", "dropdown", "markdown"}
        assert part["attributes"]["label"]


def test_there_is_a_form_for_each_kind_of_issue() -> None:
    assert [path.stem for path in FORMS] == ["addition", "bug", "number"]
