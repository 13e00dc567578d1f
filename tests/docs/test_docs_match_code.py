"""README and documentation name everything that the code has, and nothing that it has not."""

import re
from importlib import import_module
from pathlib import Path

import make_cli
import pytest

import unbag as ub
from unbag.cli import main
from unbag.cli.main import make_parser
from unbag.metrics.definitions import DEFINITIONS, Definition, recall_definition
from unbag.registry import PLURALS, names, plugin_commands
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


def sections(page: str) -> dict[str, str]:
    """Text under every ### heading of metrics.md, by each metric the heading names."""
    found: dict[str, str] = {}
    for part in re.split(r"^### ", page, flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        text = re.split(r"^## ", text, flags=re.MULTILINE)[0]
        found |= dict.fromkeys(re.findall(r"`([^`]+)`", heading), text)
    return found


METRICS = sections((DOCS / "metrics.md").read_text(encoding="utf-8"))


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
    page = (DOCS / "metrics.md").read_text(encoding="utf-8")
    for rule in TieRule.__args__:  # type: ignore[attr-defined]
        assert f"| `{rule}` |" in page


def test_the_readme_lists_every_package_in_the_order_of_the_layers() -> None:
    block = (ROOT / "README.md").read_text(encoding="utf-8").split("```\nsrc/unbag/\n")[1]
    lines = block.split("```")[0].splitlines()
    assert all(len(line.split()) > 1 for line in lines)
    layers = (DOCS / "architecture.md").read_text(encoding="utf-8").split("enforces it:\n\n")[1]
    packages = [
        name
        for name in re.findall(r"`(\w+)`", layers.split("\n\n")[0])
        if (ROOT / "src" / "unbag" / name).is_dir()
    ]
    assert [line.split()[0].rstrip("/") for line in lines] == packages
    folders = {path.parent.name for path in (ROOT / "src" / "unbag").glob("*/__init__.py")}
    assert set(packages) == folders


def help_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit):
        main([*arguments, "--help"])
    return capsys.readouterr().out


def test_the_command_line_page_has_every_command_and_option_and_no_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert page == make_cli.updated(page), "run docs/make_cli.py"
    commands = re.findall(r"^    (\w+) {2,}\S", help_of(capsys), flags=re.MULTILINE)
    assert set(re.findall(r"^## `unbag (\w+)`", page, flags=re.MULTILINE)) == set(commands)
    blocks = set(re.findall(r"^<!-- options of (.*) -->$", page, flags=re.MULTILINE))
    every = make_cli.parsers(make_parser(plugin_commands()))
    assert blocks == {parser.prog for parser in every}
    for kinds in PLURALS:
        assert f"`{kinds}`" in page


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
        for parser in make_cli.parsers(make_parser(plugin_commands()))
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
    page = (DOCS / "world.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `(world-[a-z-]+)` \|", page, flags=re.MULTILINE))
    assert rows == {name for name in names("benchmark") if name.startswith("world-")}
    for oracle in re.findall(r"^\| `oracle:([a-z-]+)` \|", page, flags=re.MULTILINE):
        assert load_oracle(oracle, device="cpu").name == f"oracle:{oracle}"


def test_every_benchmark_from_files_is_on_its_page() -> None:
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
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
    page = (DOCS / "api.md").read_text(encoding="utf-8")
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
