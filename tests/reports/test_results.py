"""`Results`: a sequence, a table in a terminal and in a notebook, lookup and export."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import unbag as ub
from unbag.reports.exports import to_csv, to_latex, to_markdown
from unbag.reports.results import Results
from unbag.types import EvalProtocol

QUICK = EvalProtocol(resamples=100)


@pytest.fixture(scope="module")
def results() -> Results:
    names = ["caption:short", "oracle:semantic", "oracle:bag-of-words"]
    return ub.evaluate(names, ["world-order", "world-swap"], protocol=QUICK)


def test_results_are_a_sequence(results: Results) -> None:
    assert len(results) == len(list(results)) == 6
    assert results[0] is results.contents.results[0]
    assert results[-1].benchmark == "world-swap"
    assert isinstance(results[1:], Results)
    assert list(results[1:]) == list(results)[1:]
    assert results[0] in results
    assert (results.models, results.benchmarks) == (
        ["caption:short", "oracle:semantic", "oracle:bag-of-words"],
        ["world-order", "world-swap"],
    )


def test_lookup_by_model_and_benchmark(results: Results) -> None:
    found = results["oracle:semantic", "world-swap"]
    assert (found.scorer, found.benchmark) == ("oracle:semantic", "world-swap")
    assert results[ub.load_model("oracle:semantic"), ub.load_benchmark("world-swap")] is found
    some = results.select(model="oracle:semantic")
    assert (some.models, some.benchmarks) == (["oracle:semantic"], results.benchmarks)
    one = results.select(model="caption:short", benchmark="world-order")
    assert [r.overall["accuracy"].value for r in one] == [0.25]
    assert not one.contents.comparisons
    assert len(results.contents.comparisons) == 2
    assert results.select(benchmark="world-order").contents.comparisons == tuple(
        comparison
        for comparison in results.contents.comparisons
        if comparison.benchmark == "world-order"
    )


def test_unknown_keys_name_the_nearest(results: Results) -> None:
    with pytest.raises(ub.UnbagError, match="unknown model 'caption:shart'") as caught:
        _ = results["caption:shart", "world-swap"]
    assert "did you mean 'caption:short'" in caught.value.expected
    with pytest.raises(ub.UnbagError, match="unknown benchmark 'swap'"):
        results.select(benchmark="swap")
    three: Any = ("a", "b", "c")
    with pytest.raises(ub.UnbagError, match="looked up by 3 keys"):
        _ = results[three]
    part = Results(replace(results.contents, results=(results[0], results[4])))
    with pytest.raises(ub.UnbagError, match="caption:short has no result on world-swap"):
        _ = part["caption:short", "world-swap"]


def test_other_prompts_are_found_by_model_name(results: Results) -> None:
    first = results[0]
    asked = replace(
        first, scorer="caption:short (plain)", protocol=replace(first.protocol, prompt="plain")
    )
    both = Results(replace(results.contents, results=(asked,)))
    assert both["caption:short", "world-order"] is asked
    assert both["caption:short (plain)", "world-order"] is asked


def test_the_printed_table(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    text = repr(results)
    assert str(results) == text
    lines = text.splitlines()
    [accuracy] = (line.split() for line in lines if line.split()[:1] == ["accuracy"])
    assert accuracy.count("25.0=") == 1
    assert accuracy[-1] == "25.0"
    assert all(line == line.rstrip() for line in lines)
    assert "\x1b" not in text
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, repr(results).splitlines())) <= 60
    assert repr(Results(replace(results.contents, results=()))) == "Results: empty"


def test_warnings_and_problems_are_printed(results: Results) -> None:
    with_notes = Results(
        replace(results.contents, warnings=("mind <this>",), problems=("x on y: z",))
    )
    lines = repr(with_notes).splitlines()
    assert (lines[0], lines[-1]) == ("warning: mind <this>", "not measured: x on y: z")
    html = with_notes._repr_html_()
    assert "<p>warning: mind &lt;this&gt;</p>" in html
    assert "<p>not measured: x on y: z</p>" in html


def test_a_notebook_gets_a_table_with_escaped_names(results: Results) -> None:
    odd = replace(results[0], scorer="<script>&", is_blind=False)
    html = Results(replace(results.contents, results=(odd,)))._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;&amp;" in html
    assert html.count("<tr>") == html.count("</tr>") == 2
    assert ">world-order</td>" in html
    assert ">25.0" in html
    assert "empty" in Results(replace(results.contents, results=()))._repr_html_()


def test_exports_are_those_of_a_report(results: Results, tmp_path: Path) -> None:
    contents = results.contents
    assert results.to_markdown() == to_markdown(contents)
    assert results.to_latex() == to_latex(contents)
    assert results.to_csv() == to_csv(contents)
    for ending, text in ((".md", results.to_markdown()), (".tex", results.to_latex())):
        path = results.save(tmp_path / f"a{ending}")
        assert path.read_text(encoding="utf-8") == text
    assert "world-order" in results.save(str(tmp_path / "a.html")).read_text(encoding="utf-8")
    with pytest.raises(ub.UnbagError, match=r"file extension '\.doc'"):
        results.save(tmp_path / "a.doc")


def test_a_report_joins_several_results(results: Results, tmp_path: Path) -> None:
    more = ub.evaluate("caption:constant", "world-order", protocol=QUICK)
    text = ub.report([results, more], tmp_path / "both.md").read_text(encoding="utf-8")
    assert "caption:constant" in text
    assert "oracle:semantic" in text
    with pytest.raises(ub.UnbagError, match="a report of Result, Results"):
        ub.report([results, more[0]], tmp_path / "x.md")  # type: ignore[arg-type]
