"""`import unbag as ub`: every public name is what it says, whatever was imported before."""

import subprocess
import sys
from pathlib import Path

import pytest

import unbag as ub
from unbag.scorers import Cosine


@pytest.mark.parametrize("name", ub.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(ub, name) is not None
    assert name in dir(ub)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'unbag' has no attribute 'nonsense'"):
        _ = ub.nonsense


def test_no_subpackage_hides_a_public_function() -> None:
    script = (
        "import pkgutil, unbag as ub\n"
        "names = {m.name for m in pkgutil.iter_modules(ub.__path__)}\n"
        "assert not names & set(ub.__all__), names & set(ub.__all__)\n"
        "import unbag.reports.exports, unbag.evaluation.run, unbag.cli\n"
        "assert callable(ub.report) and callable(ub.report) and callable(ub.run)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_shortest_way_from_names_to_a_page(tmp_path: Path) -> None:
    result = ub.evaluate(ub.scorer("caption:short"), ub.benchmark("world-order"))
    assert result.overall["accuracy"].value == 0.25
    page = ub.report([result], tmp_path / "order.html")
    assert "world-order" in page.read_text()
    assert isinstance(ub.scorer("tiny:random"), Cosine)


def test_report_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ub.UnbagError, match=r"the ending '\.doc'"):
        ub.report([], tmp_path / "x.doc")
    with pytest.raises(ub.UnbagError, match="there is no folder"):
        ub.report([], tmp_path / "none" / "x.html")
    with pytest.raises(ub.UnbagError, match="a report of no results") as caught:
        ub.report([], tmp_path / "x.html")
    assert caught.value.expected.startswith("results of ub.evaluate, or run folders")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ub.UnbagError, match="the benchmark 'math:pi' is a float"):
        ub.benchmark("math:pi")
