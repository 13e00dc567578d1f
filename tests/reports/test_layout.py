"""Results sorted into columns and sheets, and several runs merged into one."""

from __future__ import annotations

from dataclasses import replace

from unbag.reports.join import merge_runs
from unbag.reports.layout import lay_out, records
from unbag.types import Comparison, Estimate, EvalProtocol, Result, RunContents, RunRecord

RECORD = RunRecord("unbag run", "2026-01-02T03:04:05Z", 0, "cpu", {}, {})
HALF = Estimate(0.5, 0.4, 0.6, 100, chance=0.5)
RESULT = Result("swap", "m", EvalProtocol(), "micro", "original", {"original": HALF})


def test_columns_are_in_order_with_the_blind_ones_last() -> None:
    blind = replace(RESULT, scorer="length", is_blind=True)
    layout = lay_out(RunContents(RECORD, (blind, RESULT, replace(RESULT, scorer="n"))))
    assert [(c.label, c.is_blind, c.place) for c in layout.columns] == [
        ("m", False, 0), ("n", False, 1), ("length", True, 2),
    ]  # fmt: skip
    assert [r.scorer if r else None for r in layout.sheets[0].results] == ["m", "n", "length"]


def test_two_scorings_are_two_columns_and_two_rules_two_sheets() -> None:
    other = replace(RESULT, protocol=EvalProtocol(scoring="letters", ties="half"))
    macro = replace(RESULT, aggregate="macro(kind)")
    layout = lay_out(RunContents(RECORD, (RESULT, other, macro)))
    assert [c.label for c in layout.columns] == ["m (cosine)", "m (letters)"]
    assert layout.scorers == 1
    assert [s.title for s in layout.sheets] == ["swap, micro", "swap, micro, ties=half",
                                                "swap, macro(kind)"]  # fmt: skip
    assert layout.sheets[2].results == (macro, None)


def test_tie_rules_and_errata_are_rows_of_one_scorer() -> None:
    better = {"original": replace(HALF, value=0.6)}
    half = replace(RESULT, protocol=EvalProtocol(ties="half"), overall=better)
    mended = replace(RESULT, protocol=EvalProtocol(errata="removed row"), overall=better)
    layout = lay_out(RunContents(RECORD, (RESULT, half, mended)))
    assert [c.label for c in layout.columns] == ["m"]
    assert [(s.title, s.variant) for s in layout.overview] == [
        ("swap", "ties=wrong, no errata"),
        ("swap, ties=half", "ties=half, no errata"),
        ("swap, errata=removed row", "ties=wrong, errata=removed row"),
    ]


def test_a_tie_rule_that_changes_no_main_number_is_not_in_the_overview() -> None:
    other = replace(HALF, value=0.55)
    first = replace(RESULT, overall={"original": HALF, "mean_original": HALF})
    same = replace(
        RESULT,
        protocol=EvalProtocol(ties="half"),
        overall={"original": replace(HALF, ties=3), "mean_original": other},
    )
    layout = lay_out(RunContents(RECORD, (first, same)))
    assert [s.title for s in layout.overview] == ["swap"]
    assert [s.title for s in layout.sheets] == ["swap", "swap, ties=half"]


def test_metrics_that_papers_print_together_are_shown_together() -> None:
    named = {"threshold_accuracy": HALF, "auc": HALF}
    vsr = replace(RESULT, headline="threshold_accuracy", overall=named)
    four = dict.fromkeys(["question_pair", "image_pair", "all_four", "accuracy"], HALF)
    natural = replace(RESULT, benchmark="n", headline="all_four", overall=four)
    first, second = lay_out(RunContents(RECORD, (vsr, natural))).sheets
    assert first.main_metrics == ("threshold_accuracy", "auc")
    assert second.main_metrics == ("all_four", "question_pair", "image_pair", "accuracy")


def test_a_repeated_result_is_kept_under_a_number() -> None:
    layout = lay_out(RunContents(RECORD, (RESULT, RESULT)))
    assert [c.label for c in layout.columns] == ["m", "m #2"]


def test_main_metrics_are_the_headline_and_its_measured_family() -> None:
    found = dict.fromkeys(["mean_original", "original", "brittleness", "augmented"], HALF)
    (sheet,) = lay_out(RunContents(RECORD, (replace(RESULT, overall=found),))).sheets
    assert sheet.main_metrics == ("original", "augmented", "brittleness")
    assert sheet.metrics == ("original", "mean_original", "brittleness", "augmented")
    assert sheet.row("nothing").first is None
    assert not sheet.row("nothing").is_rate


def test_tags_are_grouped_and_values_may_hold_an_equals_sign() -> None:
    tags = {key: {"original": HALF} for key in ("kind=a", "rule=x=y", "kind=b")}
    (sheet,) = lay_out(RunContents(RECORD, (replace(RESULT, by_tag=tags),))).sheets
    assert sheet.tags == {"kind": ("kind=a", "kind=b"), "rule": ("rule=x=y",)}
    assert sheet.tag_row("kind=b", "original").first == HALF


def test_merged_runs_keep_every_result_and_every_record() -> None:
    first = RunContents(RECORD, (RESULT,))
    other_record = replace(RECORD, seed=1)
    second = RunContents(other_record, (replace(RESULT, scorer="n"),))
    merged = merge_runs([first, second])
    assert [(r.scorer, r.run.seed if r.run else None) for r in merged.results] == [
        ("m", 0),
        ("n", 1),
    ]
    assert records(merged) == (RECORD, other_record)


def test_merged_runs_are_corrected_together() -> None:
    made = Comparison("b", "accuracy", "m", "n", 0.1, 0.0, 0.2, 9, 0.02, 0.02, "mcnemar")
    untested = replace(made, p_value=None, p_holm=None, test="")
    runs = [RunContents(RECORD, (RESULT,), (made, untested)), RunContents(RECORD, (), (made,))]
    assert [one.p_holm for one in merge_runs(runs).comparisons] == [0.04, None, 0.04]
