"""Documentation names everything that the code has, and nothing that it has not."""

import json
import re
from importlib import import_module
from pathlib import Path

import make
import make_diagnosis
import pytest
import tables_repair

import unbag as ub
from unbag.cli.main import make_parser
from unbag.edits.kinds import find_kinds
from unbag.metrics.definitions import DEFINITIONS, Definition, recall_definition
from unbag.probes.base import Probe
from unbag.published.lookup import tables
from unbag.registry import PLURALS, find, names, plugin_commands
from unbag.types import TieRule
from unbag.world.oracles import load as load_oracle

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *DOCS.rglob("*.md"),
        *(ROOT / "src").rglob("*.md"),
        *(ROOT / "lab").rglob("*.md"),
    ]
)


SOURCES = {
    "Li et al. 2024 (erroneous agreements)": "erroneous agreements",
    "Li et al. (chat models against CLIP), slides": "Li et al. (chat models against CLIP)",
    "mertyg/vision-language-models-are-bows": "Yuksekgonul et al. 2023 (ARO)",
    "tsb0601/MMVP": "repositories of MMVP",
    "nightingal3/winoground-project": "Winoground's score matrix",
    "IMirandaM/BiVLC": "BiVLC",
    "Hessel et al. 2021 (CLIPScore)": "CLIPScore",
}
"""Sources that the page names otherwise than the tables do."""


def sections(page: str) -> dict[str, str]:
    """Text under every ### heading of metrics.md, by each metric the heading names."""
    found: dict[str, str] = {}
    for part in re.split(r"^### ", page, flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        text = re.split(r"^## ", text, flags=re.MULTILINE)[0]
        found |= dict.fromkeys(re.findall(r"`([^`]+)`", heading), text)
    return found


METRICS = sections((DOCS / "reference" / "metrics.md").read_text(encoding="utf-8"))


def test_the_metrics_page_has_exactly_the_metrics_of_the_code() -> None:
    assert set(METRICS) == set(DEFINITIONS)


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=lambda d: d.name)
def test_the_metrics_page_says_what_the_code_says(definition: Definition) -> None:
    if "@" in definition.name:
        definition = recall_definition(definition.name.partition("@")[0] + "@k")
        text = METRICS[definition.name.replace("@k", "@1")]
    else:
        text = METRICS[definition.name]
    said = " ".join(text.replace("`", "").split())
    # The legend of triples stands once at the top of their part of the page.
    assert f"Formula: {definition.formula.partition(';')[0]}" in said
    assert (f"Chance: {definition.chance}" in said) if definition.chance else "Chance:" not in said
    assert "Example: " in said


def test_the_metrics_page_explains_every_tie_rule() -> None:
    page = (DOCS / "background" / "metrics.md").read_text(encoding="utf-8")
    for rule in TieRule.__args__:  # type: ignore[attr-defined]
        assert f"| `{rule}` |" in page


@pytest.mark.parametrize("page", make.PAGES, ids=lambda page: page.name)
def test_generated_blocks_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert make.updated(text) == text, "run: python docs/make.py"


def test_the_command_line_page_has_every_command_and_no_other() -> None:
    page = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    programs = {parser.prog for parser in make.parsers(make_parser(plugin_commands()))}
    headings = set(re.findall(r"^## `(unbag \w+)`", page, flags=re.MULTILINE))
    assert {" ".join(program.split()[:2]) for program in programs} <= headings
    blocks = re.findall(r"^<!-- generated: options of (.*) -->$", page, flags=re.MULTILINE)
    assert sorted(blocks) == sorted(programs)
    for kinds in PLURALS:
        assert f"`{kinds}`" in page


def test_every_number_of_the_table_of_diagnoses_is_there() -> None:
    numbers = json.loads(make_diagnosis.FILE.read_text(encoding="utf-8"))
    assert tuple(numbers["models"]) == make_diagnosis.MODELS
    for name, values in numbers["models"].items():
        rows = {f"{probe}: {quantity}" for probe, quantity, _ in make_diagnosis.ROWS}
        # What a positive costs means nothing where a negative costs nothing.
        assert rows - set(values) <= {"sensitivity: rho, same words"}, name
    assert tuple(numbers["parts"]) == make_diagnosis.MODELS[1:3]
    for values in numbers["parts"].values():
        assert len(values) == len(make_diagnosis.PARTS)


def test_every_probe_has_a_section_with_its_question() -> None:
    page = (DOCS / "reference" / "probes.md").read_text(encoding="utf-8")
    sections = {part.partition("`")[0]: part for part in re.split(r"^## `", page, flags=re.M)[1:]}
    assert set(sections) == set(names("probe"))
    for name, section in sections.items():
        probe = find("probe", name)
        assert isinstance(probe, Probe)
        assert f"**{probe.question}**" in section


@pytest.mark.parametrize("paper", sorted({table.paper for table in tables()}))
def test_every_source_of_published_numbers_is_named(paper: str) -> None:
    page = (DOCS / "reference" / "published.md").read_text(encoding="utf-8")
    assert SOURCES.get(paper, paper) in page


def test_kinds_of_edits_that_are_too_often_wrong_are_off() -> None:
    precisions = tables_repair.precisions()
    kinds = {kind.name: kind for kind in find_kinds(["all"])}
    # Too rare to be judged, or dependent on a model of the user's.
    assert set(kinds) - set(precisions) == {"swap_adverbs", "rewrite_replace", "rewrite_swap"}
    for name, kind in kinds.items():
        if name not in precisions or precisions[name].right < 0.85:
            assert not kind.is_default, name


def shell_commands(page: Path) -> list[list[str]]:
    """Commands of unbag in the blocks of a page and in the head of a script."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = re.findall(r"^(?:\$ |    |\S*/bin/)?unbag (\w+ .*)$", text, flags=re.MULTILINE)
    lines += re.findall(r"`unbag (\w+ [^`]*)`", text)
    return [line.split() for line in lines]


@pytest.mark.parametrize(
    "page",
    [
        *PAGES,
        *DOCS.glob("*.py"),
        *(ROOT / "examples").glob("*.py"),
        *(ROOT / "lab/docs").glob("*.py"),
    ],
    ids=lambda p: p.name,
)
def test_commands_on_a_page_have_options_that_exist(page: Path) -> None:
    known = {
        parser.prog.removeprefix("unbag "): set(parser._option_string_actions)
        for parser in make.parsers(make_parser(plugin_commands()))
    }
    # Records of what was called once.
    if page.name == "CHANGELOG.md":
        return
    for words in shell_commands(page):
        command = " ".join(words[:2]) if " ".join(words[:2]) in known else words[0]
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        options = {re.sub(r"[^a-z-].*", "", option) for option in options} - {"--help"}
        assert options <= known.get(command, set()), " ".join(words)


def test_every_benchmark_and_oracle_is_on_the_page_of_the_world() -> None:
    page = (DOCS / "background" / "world.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `(world-[a-z-]+)` \|", page, flags=re.MULTILINE))
    assert rows == {name for name in names("benchmark") if name.startswith("world-")}
    for oracle in re.findall(r"^\| `oracle:([a-z-]+)` \|", page, flags=re.MULTILINE):
        assert load_oracle(oracle, device="cpu").name == f"oracle:{oracle}"


def test_every_benchmark_from_files_is_on_its_page() -> None:
    page = (DOCS / "reference" / "benchmarks.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `([a-z0-9_]+)` \|", page, flags=re.MULTILINE))
    assert rows == {name for name in names("benchmark") if not name.startswith("world-")}


def test_the_glossary_is_sorted_and_has_each_word_once() -> None:
    page = (DOCS / "glossary.md").read_text(encoding="utf-8")
    found = re.findall(r"^(\w[^\n]*)\n:   ", page, flags=re.MULTILINE)
    assert len(found) > 40
    assert found == sorted(set(found), key=str.lower)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_and_images_of_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if not target.startswith("https://"):
            assert (page.parent / target).exists(), target


def test_images_are_small() -> None:
    images = sorted(path for path in (DOCS / "images").rglob("*") if path.is_file())
    assert images
    for image in images:
        assert image.suffix in (".png", ".svg")
        assert image.stat().st_size < 250_000, image.name


def test_the_api_page_has_every_public_name_and_no_other() -> None:
    page = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    public = [name for name in ub.__all__ if not name.startswith("_")]
    homes = {name: getattr(ub, name) for name in public}
    shown = re.findall(r"^::: ([\w.]+)$", page, flags=re.MULTILINE)
    assert len(shown) == len(set(shown))
    for name, thing in homes.items():
        assert f"{thing.__module__}.{name}" in shown, name
    for path in shown:
        module, _, name = path.rpartition(".")
        assert hasattr(import_module(module), name), path
    head = page.split("\n## ")[0]
    functions = set(re.findall(r"\bub\.(\w+)", head)) | set(re.findall(r"`(list_\w+)`", head))
    assert functions == set(public) - {"Results"}
