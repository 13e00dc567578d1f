"""Several runs as one: names that say the run where they must, and nothing twice."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

from unbag.metrics.definitions import DEFINITIONS
from unbag.reports.exports import CSV_HEAD, to_csv, to_json, to_markdown
from unbag.reports.join import JoinedRun, merge_runs, notes_of, parts_of
from unbag.reports.layout import lay_out, over_prompts
from unbag.reports.page import render_page
from unbag.reports.summary import summarise
from unbag.reports.terminal import summary_lines
from unbag.types import (
    Comparison,
    Estimate,
    EvalProtocol,
    Failure,
    Published,
    Reference,
    Result,
    RunContents,
    RunRecord,
)

NAN = float("nan")
CUT = "sugar is not whole"
BLIND = "caption:short"


def record(name: str, items: str, **models: str) -> RunRecord:
    prints = {"benchmark sugar": items, f"model {BLIND}": "short-2"}
    prints |= {f"model {model}": found for model, found in models.items()}
    return RunRecord(f"unbag run --out {name}", "2026-01-02T03:04:05Z", 0, "cpu", {}, prints)


def result(scorer: str, value: float, *, n: int = 100) -> Result:
    blind = scorer == BLIND
    protocol = EvalProtocol(scoring="caption only" if blind else "cosine")
    found = {
        "accuracy": Estimate(value, value - 0.01, value + 0.01, n, chance=0.5),
        "mean_score": Estimate(NAN, NAN, NAN, 0, is_rate=False),
    }
    return Result("sugar", scorer, protocol, "micro", "accuracy", found, is_blind=blind)


def whole(name: str = "b", value: float = 0.8, model: str = "m-1") -> RunContents:
    """A model at `value` and a blind baseline at 0.7, on 7,511 items."""
    results = (result("m", value, n=7511), result(BLIND, 0.7, n=7511))
    return RunContents(record(name, "whole", m=model), results)


def cut(name: str = "c") -> RunContents:
    """The same two on 210 items: 0.6 and 0.5."""
    results = (result("m", 0.6, n=210), result(BLIND, 0.5, n=210))
    return RunContents(record(name, "cut", m="m-1"), results, warnings=(CUT,))


def joined(*runs: RunContents, folders: tuple[str, ...] = ("runs/b", "runs/c")) -> JoinedRun:
    return merge_runs(runs, folders=folders)


def csv_rows(run: RunContents) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(to_csv(run), newline="")))


def test_other_items_are_other_rows_of_the_same_columns() -> None:
    layout = lay_out(joined(whole(), cut()))
    assert [column.label for column in layout.columns] == ["m", BLIND]
    assert [sheet.title for sheet in layout.sheets] == ["sugar (b, n=7,511)", "sugar (c, n=210)"]
    assert [[e.n for e in s.row("accuracy").estimates if e] for s in layout.sheets] == [
        [7511, 7511],
        [210, 210],
    ]


def test_a_model_is_judged_against_the_blind_baseline_of_its_own_items() -> None:
    # 0.6 is below the 0.7 that the baseline has on the whole, and above its 0.5 on the cut.
    said = summarise(lay_out(joined(whole(), cut())))[0].text
    assert "falls below" not in said
    below = joined(whole(value=0.6), cut())
    assert (
        "below the blind baseline on sugar (b, n=7,511) (60.0; caption:short 70.0)."
        in (summary_lines(below)[0])
    )


def test_a_baseline_of_another_run_on_the_same_items_counts() -> None:
    alone = whole("c", 0.6)
    alone = replace(alone, results=alone.results[:1])
    said = summary_lines(joined(whole(), replace(alone, record=record("c", "whole", m="m-2"))))
    assert said[1] == (
        "m (c) is above chance on 1 of 1 benchmark (sugar 60.0). "
        "It falls below the blind baseline on sugar (60.0; caption:short 70.0)."
    )


def test_other_items_stand_beside_their_benchmark() -> None:
    other = replace(result("m", 0.6), benchmark="other")
    run = whole()
    layout = lay_out(joined(replace(run, results=(*run.results, other)), cut()))
    assert [s.benchmark for s in layout.sheets] == [
        "sugar (b, n=7,511)",
        "sugar (c, n=210)",
        "other",
    ]


def test_items_that_differ_by_errata_keep_the_name() -> None:
    run = cut()
    mended = [replace(r, protocol=replace(r.protocol, errata="fix")) for r in run.results]
    layout = lay_out(joined(whole(), replace(run, results=tuple(mended))))
    assert [s.title for s in layout.sheets] == ["sugar", "sugar, errata=fix"]


def test_runs_without_fingerprints_share_no_row() -> None:
    bare = [replace(run, record=replace(run.record, fingerprints={})) for run in (whole(), cut())]
    layout = lay_out(merge_runs(bare))
    assert [s.title for s in layout.sheets] == ["sugar (run 1, n=7,511)", "sugar (run 2, n=210)"]
    assert [c.label for c in layout.columns] == [
        f"{name} (run {at})" for name in ("m", BLIND) for at in (1, 2)
    ]


def test_a_warning_says_which_run_it_is_about() -> None:
    assert joined(whole(), cut()).warnings == (f"c: {CUT}",)
    two = joined(whole(), cut(), cut("d"), folders=("x/b", "x/c", "x/d"))
    assert two.warnings == (f"c and d: {CUT}",)
    assert joined(cut(), cut("d")).warnings == (CUT,)


def test_two_models_of_one_name_are_named_with_their_run() -> None:
    both = joined(whole(), whole("c", 0.9, "m-2"))
    assert [column.label for column in lay_out(both).columns] == ["m (b)", "m (c)", BLIND]
    again = joined(whole(), whole("c", 0.9, "m-2"), folders=("x/run", "y/run"))
    assert lay_out(again).columns[0].label == "m (x/run)"


def test_other_numbers_under_one_fingerprint_are_named_with_their_run_too() -> None:
    both = joined(whole(), whole("c", 0.81))
    assert [column.label for column in lay_out(both).columns] == ["m (b)", "m (c)", BLIND]


def test_a_prompt_stays_behind_the_run() -> None:
    def chat(name: str, value: float) -> RunContents:
        plain = replace(result("chat", value), protocol=EvalProtocol(prompt="published"))
        asked = replace(plain, scorer="chat (short)", protocol=EvalProtocol(prompt="short"))
        return RunContents(record(name, "whole"), (plain, asked))

    both = joined(chat("b", 0.6), chat("c", 0.7))
    assert [r.scorer for r in both.results] == [
        "chat (b)", "chat (b) (short)", "chat (c)", "chat (c) (short)",
    ]  # fmt: skip
    assert [one.scorer for one in over_prompts(both.results)] == ["chat (b)", "chat (c)"]


def full(run: RunContents) -> RunContents:
    """With a comparison, a failure and a published number of the baseline."""
    made = Comparison("sugar", "accuracy", BLIND, "m", 0.1, 0.05, 0.15, 210, 0.02, 0.02, "mcnemar")
    failed = Failure("sugar", BLIND, "1", "accuracy", (), (), (), (), ())
    beside = Reference(
        "sugar", BLIND, Published("other", "accuracy", 0.4, "a paper"),
        run.results[1].overall["accuracy"], False,
    )  # fmt: skip
    return replace(run, comparisons=(made,), failures=(failed,), references=(beside,))


def test_what_two_runs_have_in_common_stands_once() -> None:
    both = joined(full(whole()), full(whole("c", 0.9, "m-2")))
    assert notes_of(both) == (
        f"{BLIND}: the same numbers on the same items of sugar in b and c, shown once",
    )
    assert [r.scorer for r in both.results] == ["m (b)", BLIND, "m (c)"]
    assert (len(both.failures), len(both.references)) == (1, 1)
    # The two comparisons are of two models, so both count.
    assert [(c.first, c.second, c.p_holm) for c in both.comparisons] == [
        (BLIND, "m (b)", 0.04),
        (BLIND, "m (c)", 0.04),
    ]


def test_a_copy_of_a_run_adds_nothing() -> None:
    both = joined(full(whole()), full(whole("c")))
    assert [r.scorer for r in both.results] == ["m", BLIND]
    assert [c.p_holm for c in both.comparisons] == [0.02]
    assert notes_of(both) == (
        f"m and {BLIND}: the same numbers on the same items of sugar in b and c, shown once",
    )


def test_of_three_runs_two_may_agree() -> None:
    runs = (whole(), whole("c", 0.9, "m-2"), whole("d"))
    layout = lay_out(joined(*runs, folders=("b", "c", "d")))
    assert [column.label for column in layout.columns] == ["m (b and d)", "m (c)", BLIND]


def test_a_folder_given_twice_is_one_run() -> None:
    once, twice = merge_runs([whole()]), joined(whole(), whole(), folders=("runs/b", "runs/b"))
    assert notes_of(twice) == ("runs/b was given more than once and is shown once",)
    assert (twice.results, twice.comparisons) == (once.results, once.comparisons)
    assert to_csv(twice) == to_csv(once)
    assert len(parts_of(twice)) == 1
    assert notes_of(once) == ()


def test_files_for_programs_have_plain_names_and_the_folder() -> None:
    both = joined(full(whole()), full(cut()))
    rows = csv_rows(both)
    assert tuple(rows[0]) == (*CSV_HEAD, "run")
    found = {(r["benchmark"], r["scorer"], r["value"], r["run"]) for r in rows if r["value"]}
    assert found == {
        ("sugar", "m", "0.8", "runs/b"), ("sugar", BLIND, "0.7", "runs/b"),
        ("sugar", "m", "0.6", "runs/c"), ("sugar", BLIND, "0.5", "runs/c"),
        ("sugar", "other", "0.4", ""),
    }  # fmt: skip
    read = json.loads(to_json(both))
    for key in ("results", "comparisons", "references"):
        assert {(one["run"], one["benchmark"]) for one in read[key]} == {
            ("runs/b", "sugar"),
            ("runs/c", "sugar"),
        }
    assert "run" not in json.loads(to_json(merge_runs([whole()])))["results"][0]
    assert "notes" not in read
    again = json.loads(to_json(joined(whole(), whole("c"))))
    assert again["notes"][0].endswith("shown once")


def test_page_and_markdown_name_folders_and_say_what_stands_once() -> None:
    other = full(whole("c", 0.9, "m-2"))
    both = joined(full(whole()), other)
    html, text = render_page(both, DEFINITIONS), to_markdown(both)
    for said in (html, text):
        assert "items of sugar in b and c, shown once." in said
        assert "m (b) is 10.0 points above caption:short" in said
        assert "m (c) is 10.0 points above caption:short" in said
    assert '<tr><th scope="row">run</th><td>runs/c</td></tr>' in html
    assert "Joined runs: runs/b, runs/c." in text
    alone = render_page(merge_runs([whole()]), DEFINITIONS)
    assert '<th scope="row">run</th>' not in alone
    assert "Joined runs" not in to_markdown(merge_runs([whole()]))


def test_only_runs_that_share_numbers_are_said_to() -> None:
    three = joined(whole("a"), whole("b"), cut("c"), folders=("a", "b", "c"))
    (note,) = notes_of(three)
    assert note.endswith("the same numbers on the same items of sugar in a and b, shown once")


def test_intervals_of_another_seed_make_no_other_model() -> None:
    def drawn(name: str, shift: float, p: float) -> RunContents:
        run = whole(name)
        results = tuple(
            replace(
                one,
                overall={
                    metric: replace(found, low=found.low - shift)
                    for metric, found in one.overall.items()
                },
            )
            for one in run.results
        )
        made = Comparison("sugar", "accuracy", "m", BLIND, -0.1, -0.2 - shift, 0.0, 7511, p, None)
        return replace(run, results=results, comparisons=(made,))

    both = joined(drawn("b", 0.0, 0.01), drawn("c", 0.001, 0.02))
    assert [column.label for column in lay_out(both).columns] == ["m", BLIND]
    (made,) = both.comparisons
    assert made.p_holm == made.p_value == 0.01


def test_a_run_that_fits_two_models_is_neither() -> None:
    other = replace(result("m", 0.6), benchmark="other")
    alone = RunContents(record("d", "whole", m="m-1"), (other,))
    runs = (whole("a"), whole("b", 0.9), alone)
    labels = [c.label for c in lay_out(joined(*runs, folders=("a", "b", "d"))).columns]
    assert {"m (a)", "m (b)", "m (d)"} <= set(labels)
