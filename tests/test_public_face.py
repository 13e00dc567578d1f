"""`import unbag as ub`: every public name is there, does what its example shows, and is lazy."""

from __future__ import annotations

import doctest
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import unbag as ub
from unbag.registry import PLURALS, names

ALIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
DOCUMENTED = [name for name in ub.__all__ if name != "__version__"]
OLD = ("Cosine", "Job", "UserError", "benchmark", "make_recipe", "model", "repair", "run", "scorer")


@pytest.mark.parametrize("name", ub.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(ub, name) is not None
    assert name in dir(ub)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'unbag' has no attribute 'nonsense'"):
        _ = ub.nonsense


@pytest.mark.parametrize("name", OLD)
def test_an_old_name_says_what_to_write(name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(ub, name)
    said = str(caught.value)
    assert said.startswith(f"unbag has no {name!r} any more: write ")
    new = [word.partition("(")[0] for word in said.split() if word.startswith("ub.")]
    assert new
    assert all(one.removeprefix("ub.") in ub.__all__ for one in new)


def test_no_subpackage_hides_a_public_function() -> None:
    script = (
        "import pkgutil, unbag as ub\n"
        "names = {m.name for m in pkgutil.iter_modules(ub.__path__)}\n"
        "assert not names & set(ub.__all__), names & set(ub.__all__)\n"
        "import unbag.reports.exports, unbag.evaluation.run, unbag.cli, unbag.training.merge\n"
        "assert callable(ub.report) and callable(ub.evaluate) and callable(ub.merge)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_import_loads_no_library() -> None:
    script = (
        "import sys, unbag\n"
        "heavy = {'numpy', 'torch', 'PIL', 'rich', 'pyarrow', 'scipy', 'unbag.api'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_example_of_a_name_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "edit":
        pytest.importorskip("spacy")
    monkeypatch.chdir(tmp_path)
    for image, colour in (("horse.png", (120, 60, 20)), ("grass.png", (20, 160, 40))):
        Image.new("RGB", (32, 32), colour).save(image)
    thing: Any = getattr(ub, name)
    found = doctest.DocTestParser().get_doctest(thing.__doc__, {}, name, None, None)
    assert len(found.examples) > 1
    said: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=ALIKE).run(found, out=said.append)
    assert not failed, "".join(said)


@pytest.mark.parametrize("kinds", [kinds for kinds in PLURALS if kinds != "taggers"])
def test_the_names_of_a_kind_are_listed_with_a_line_about_each(kinds: str) -> None:
    found = getattr(ub, f"list_{kinds}")()
    assert list(found) == list(names(PLURALS[kinds]))
    assert all(found.values())
    first = next(iter(found))
    assert repr(found).splitlines()[0].split("  ")[0] == first
    assert first in found
    assert "nonsense" not in found


def test_the_shortest_way_from_names_to_a_page(tmp_path: Path) -> None:
    results = ub.evaluate("caption:short", "world-order")
    assert results[0].overall["accuracy"].value == 0.25
    page = ub.report(results, tmp_path / "order.html")
    assert "world-order" in page.read_text()
    assert ub.report([results[0]], tmp_path / "one.html").exists()


def test_report_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ub.UnbagError, match=r"the file extension '\.doc'"):
        ub.report([], tmp_path / "x.doc")
    with pytest.raises(ub.UnbagError, match="there is no folder"):
        ub.report([], tmp_path / "none" / "x.html")
    with pytest.raises(ub.UnbagError, match="a report of no results") as caught:
        ub.report([], tmp_path / "x.html")
    assert caught.value.expected.startswith("results of ub.evaluate, or run folders")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ub.UnbagError, match="the benchmark 'math:pi' is a float"):
        ub.load_benchmark("math:pi")
