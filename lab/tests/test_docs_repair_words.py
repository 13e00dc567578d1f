"""Numbers in the words of the repair page are those of the data files."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import pytest

from unbag_lab.experiments.repair import EXCHANGED, REPLACED
from unbag_lab.pages.tables import repair_tables
from unbag_lab.results import RESULTS, ArmResult, read_results
from unbag_lab.verdict import interval

PAGE = Path(__file__).parents[1] / "docs" / "repair-on-the-world.md"
EXPERIMENTS = ("default", "ordered", "held_out")
FIRST, OTHER, ALL = (0, 1, 2, 3, 4), (0, 5, 6, 7, 8), tuple(range(9))
"""Bases that arms have, by their numbers."""
HARD = ("hard_negative", "ce_clip_fixed")
FAMILIES = ("swap_only", "replace_only")
SHORT = (
    ("base", "world-relation", "original", 9),
    ("hard_negative", "world-relation", "original", 9),
    ("hard_negative", "world-relation", "augmented", 9),
    ("hard_negative", "world-relation", "brittleness", 9),
    ("clip_ft", "world-relation", "original", 9),
    ("positives_only", "world-relation", "original", 9),
    ("hard_negative", "world-negation", "group", 9),
    ("clip_ft", "world-negation", "group", 9),
    ("hard_negative", "world-count", "group", 9),
    ("clip_ft", "world-count", "group", 9),
    ("ce_clip_fixed", "world-count", "group", 9),
    ("swap_only", "world-relation", "original", 9),
    ("replace_only", "world-relation", "original", 9),
    ("ordered/hard_negative", "world-swap", "brittleness", 9),
    ("ordered/clip_ft", "world-swap", "brittleness", 9),
    ("ordered/hard_positive", "world-swap", "brittleness", 9),
    ("ordered/rephrased", "world-swap", "brittleness", 9),
    ("held_out/hard_positive", "world-swap", "brittleness", 5),
    ("clip_ft-locked", "world-relation", "original", 5),
    ("ce_clip_fixed-locked", "world-relation", "original", 5),
    ("ce_clip_fixed-margin2", "world-relation", "original", 5),
    ("ce_clip_fixed-margin10", "world-relation", "original", 5),
    ("ce_clip_fixed-unbounded", "world-relation", "original", 5),
    ("ce_clip_fixed", "world-relation", "original", 9),
    ("ce_clip_fixed-unbounded", "world-count", "group", 5),
)
"""Means that the page begins with, in its order, and on how many bases."""
SAID = (
    ("hard_negative", "clip_ft", "world-relation", "original", 9),
    ("hard_negative", "clip_ft", "world-relation", "brittleness", 9),
    ("hard_negative", "clip_ft", "world-count", "group", 9),
    ("hard_negative", "clip_ft", "world-negation", "group", 9),
    ("ce_clip_fixed", "clip_ft", "world-count", "group", 9),
    ("ce_clip_fixed", "clip_ft", "world-negation", "group", 9),
    ("hard_positive", "hard_negative", "world-relation", "original", 9),
    ("hard_positive", "hard_negative", "world-relation", "augmented", 9),
    ("hard_positive", "hard_negative", "world-relation", "brittleness", 9),
    ("clip_ft", "base", "world-count", "group", 9),
    ("clip_ft", "base", "world-texture", "image", 9),
    ("hard_negative", "clip_ft", "world-relation", "mean_original", 9),
    ("hard_positive", "clip_ft", "world-relation", "mean_original", 9),
    ("positives_only", "clip_ft", "world-relation", "original", 9),
    ("positives_only", "clip_ft", "world-relation", "brittleness", 9),
    ("positives_only", "clip_ft", "world-replace", "brittleness", 9),
    ("hard_positive", "hard_positive-n25", "world-relation", "original", 5),
    ("hard_positive", "hard_positive-n25", "world-relation", "brittleness", 5),
    ("hard_positive", "hard_positive-n50", "world-relation", "original", 5),
    ("hard_positive", "hard_positive-n50", "world-relation", "brittleness", 5),
    ("ce_clip_fixed", "ce_clip_fixed-margin2", "world-relation", "original", 5),
    ("ce_clip_fixed", "ce_clip_fixed-margin2", "world-count", "group", 5),
    ("ce_clip_fixed", "ce_clip_fixed-margin10", "world-relation", "original", 5),
    ("ce_clip_fixed", "ce_clip_fixed-margin10", "world-count", "group", 5),
    ("ce_clip_fixed", "ce_clip_fixed-unbounded", "world-relation", "original", 5),
    ("ce_clip_fixed", "ce_clip_fixed-unbounded", "world-count", "group", 5),
    ("ordered/positives_only", "ordered/clip_ft", "world-relation", "brittleness", 5),
    ("ordered/hard_negative", "ordered/clip_ft", "world-swap", "original", 9),
    ("ordered/hard_negative", "ordered/clip_ft", "world-swap", "brittleness", 9),
    ("ordered/hard_negative", "ordered/clip_ft", "world-relation", "brittleness", 9),
    ("ordered/hard_negative", "ordered/clip_ft", "world-relation", "mean_original", 9),
    ("ordered/hard_positive", "ordered/clip_ft", "world-swap", "brittleness", 9),
    ("ordered/hard_positive", "ordered/hard_negative", "world-relation", "augmented", 9),
    ("ordered/hard_positive", "ordered/hard_negative", "world-relation", "brittleness", 9),
    ("ordered/rephrased", "ordered/clip_ft", "world-swap", "brittleness", 9),
    ("ordered/rephrased", "ordered/hard_negative", "world-swap", "brittleness", 9),
    ("ordered/rephrased", "ordered/hard_negative", "world-relation", "brittleness", 9),
    ("ordered/rephrased", "ordered/hard_negative", "world-relation", "augmented", 9),
    ("ordered/rephrased", "ordered/hard_negative", "world-relation", "original", 9),
    ("ordered/rephrased", "ordered/hard_positive", "world-relation", "brittleness", 9),
    ("replace_only", "swap_only", REPLACED, "augmented", 9),
    ("replace_only", "swap_only", "world-replace", "augmented", 9),
    ("replace_only", "clip_ft", "world-replace", "augmented", 9),
    ("swap_only", "clip_ft", "world-replace", "augmented", 9),
    ("ce_clip_fixed", "ce_clip_fixed-intra", "world-relation", "original", 9),
    ("ce_clip", "neg_clip", "world-relation", "original", 9),
    ("held_out/hard_positive", "ordered/hard_negative", "world-swap", "brittleness", 5),
    ("held_out/hard_positive", "ordered/hard_positive", "world-swap", "brittleness", 5),
    ("held_out/hard_positive", "ordered/hard_negative", EXCHANGED, "brittleness", 5),
    ("held_out/hard_positive", "ordered/hard_positive", EXCHANGED, "brittleness", 5),
    ("hard_negative-locked", "clip_ft-locked", "world-relation", "original", 5),
    ("hard_negative-locked", "clip_ft-locked", "world-relation", "mean_original", 5),
    ("hard_positive-locked", "clip_ft-locked", "world-relation", "mean_original", 5),
    ("hard_negative-locked", "clip_ft-locked", "world-count", "group", 5),
    ("hard_negative-locked", "clip_ft-locked", "world-negation", "group", 5),
    ("ce_clip_fixed-locked", "clip_ft-locked", "world-count", "group", 5),
    ("ce_clip_fixed-locked", "clip_ft-locked", "world-negation", "group", 5),
)
"""Differences in the words of the page: arm, what it is compared with, number, bases of both."""
MEANS = (
    ("50.0 to {} (`hard_negative`) and {} (`ce_clip_fixed`)", "original", ALL, HARD),
    ("(`hard_positive-n25`), where all of it has {} on the", "original", FIRST, ("hard_positive",)),
    ("A quarter of it gives {} (`hard_p", "original", FIRST, ("hard_positive-n25",)),
    (
        "A half gives {} (`hard_positive-n50`), where all of it has {} on its five",
        "original",
        OTHER,
        ("hard_positive-n50", "hard_positive"),
    ),
    ("exchange words alone give relations {};", "original", ALL, ("swap_only",)),
    (
        "give relations {}, where plain fine-tuning has {}.",
        "original",
        ALL,
        ("replace_only", "clip_ft"),
    ),
    (
        "contrast within captions {}, ranks {}, both {}, where `neg_clip` has {}.",
        "original",
        ALL,
        ("ce_clip_fixed-intra", "ce_clip_fixed-rank", "ce_clip_fixed", "neg_clip"),
    ),
    (
        "relation {}, and with thresholds of 2 {}, of 10 {}.",
        "original",
        OTHER,
        ("ce_clip_fixed", "ce_clip_fixed-margin2", "ce_clip_fixed-margin10"),
    ),
    ("As printed it has {}, bases", "original", ALL, ("ce_clip",)),
    ("counting almost wholly** ({}; before {})", "count", ALL, ("ce_clip", "base")),
    ("`tiny-5` with {},", "original", (5,), ("ce_clip_fixed-margin2",)),
    ("`tiny-8` with {})", "original", (8,), ("ce_clip_fixed-margin10",)),
    ("relation {}, which the bound raises by", "original", OTHER, ("ce_clip_fixed-unbounded",)),
    (
        "learned the relation less ({}, against {} and {})",
        "original",
        OTHER,
        ("held_out/hard_positive", "ordered/hard_positive", "ordered/hard_negative"),
    ),
    (
        "{} with 2, {} following, {} with 10, {} without the bound",
        "count",
        OTHER,
        (
            "ce_clip_fixed-margin2",
            "ce_clip_fixed",
            "ce_clip_fixed-margin10",
            "ce_clip_fixed-unbounded",
        ),
    ),
    (
        "denial, too: {} to {}, with hard positives {}.",
        "negation",
        ALL,
        ("ordered/clip_ft", "ordered/hard_negative", "ordered/hard_positive"),
    ),
)
"""Words with means: of relations, or of the groups of another benchmark; on which bases."""
SYNONYMS = (
    ("no", "none", "ordered/clip_ft"),
    ("yes", "none", "ordered/hard_negative"),
    ("yes", "synonyms", "held_out/hard_positive"),
    ("yes", "the other order, synonyms", "ordered/hard_positive"),
)
"""Rows of the table about synonyms."""


@pytest.fixture(scope="module")
def everything() -> list[ArmResult]:
    return [one for name in EXPERIMENTS for one in read_results(RESULTS / f"{name}.json")]


@pytest.fixture(scope="module")
def words(everything: list[ArmResult]) -> str:
    """The page without its tables of numbers, as one line."""
    said = PAGE.read_text(encoding="utf-8")
    for name in EXPERIMENTS:
        said = said.replace(
            repair_tables([one for one in everything if one.experiment == name]), ""
        )
    return " ".join(said.split())


def test_what_the_page_begins_with_is_in_the_file(everything: list[ArmResult]) -> None:
    said = PAGE.read_text(encoding="utf-8")
    short = said[said.index("**In short.**") : said.index("## Question and arms")]
    at = 0
    for arm, benchmark, metric, bases in SHORT:
        found = _numbers(everything, arm, benchmark, metric)
        assert len(found) == bases
        at = short.index(f"{100 * fmean(found.values()):.1f}", at) + 1


@pytest.mark.parametrize(("arm", "other", "benchmark", "metric", "bases"), SAID)
def test_differences_in_words_are_those_of_bases_that_both_have(
    arm: str,
    other: str,
    benchmark: str,
    metric: str,
    bases: int,
    everything: list[ArmResult],
    words: str,
) -> None:
    one, two = (_numbers(everything, name, benchmark, metric) for name in (arm, other))
    apart = [one[base] - two[base] for base in one if base in two]
    assert len(apart) == bases
    middle, half = interval(apart)
    low, high = middle - half, middle + half
    if metric.startswith("mean_"):
        shown = [f"{value:+.3f}".replace("0.", ".") for value in (middle, low, high)]
    else:
        shown = [f"{100 * value:+.1f}" for value in (middle, low, high)]
    assert f"{shown[0]} [{shown[1]}, {shown[2]}]" in words


@pytest.mark.parametrize(("sentence", "number", "bases", "arms"), MEANS)
def test_means_in_words_are_those_of_the_bases_that_they_are_about(
    sentence: str,
    number: str,
    bases: Sequence[int],
    arms: Sequence[str],
    everything: list[ArmResult],
    words: str,
) -> None:
    asked = ("world-relation", number) if number == "original" else (f"world-{number}", "group")
    assert sentence.format(*(_mean(everything, arm, *asked, bases) for arm in arms)) in words


def test_the_table_about_synonyms_is_that_of_the_files(everything: list[ArmResult]) -> None:
    said = PAGE.read_text(encoding="utf-8")
    for negatives, positives, name in SYNONYMS:
        experiment, _, arm = name.partition("/")
        cells = [negatives, positives, f"`{arm}` of `{experiment}`"]
        for benchmark in ("world-swap", "world-relation", EXCHANGED):
            triple = ("original", "augmented", "brittleness")
            found = (_mean(everything, name, benchmark, metric, OTHER) for metric in triple)
            cells.append(" / ".join(found))
        cells.append(_mean(everything, name, "world-negation", "group", OTHER))
        assert f"| {' | '.join(cells)} |" in said


def test_thresholds_reach_what_the_page_says(everything: list[ArmResult], words: str) -> None:
    free = _numbers(everything, "ce_clip_fixed-unbounded", "threshold-swap", "largest").values()
    assert f"that of swaps reaches {min(free):.1f} to {max(free):.1f} times the bound" in words
    kept = [one.numbers for one in everything if one.arm == "ce_clip_fixed"]
    curves = [found for found in kept if "threshold-swap" in found]
    assert len(curves) == 6
    assert "reach their bound of 10, and end there, on all six bases where they were" in words
    for found in curves:
        ends = {found[name]["100%"] for name in found if name.startswith("threshold-")}
        assert ends == {1.0}


def test_families_teach_what_the_page_says(everything: list[ArmResult], words: str) -> None:
    one, two = (_mean(everything, arm, REPLACED, "augmented", ALL) for arm in FAMILIES)
    assert f"augmented {one} against {two}, the second less the first" in words
    assert f"replaced relations, augmented, {one} and {two} |" in words


def test_bases_on_which_terms_differ_are_those_of_the_page(
    everything: list[ArmResult], words: str
) -> None:
    both, contrast, printed, plain = (
        _numbers(everything, arm, "world-relation", "original")
        for arm in ("ce_clip_fixed", "ce_clip_fixed-intra", "ce_clip", "neg_clip")
    )
    apart = sorted(100 * (both[base] - contrast[base]) for base in both)
    least = 100 * sorted(contrast.values())[-3]
    few, many = (f"{some[0]:.1f} to {some[-1]:.1f}" for some in (apart[:3], apart[3:]))
    assert f"add {few} on three bases, where contrast alone has {least:.1f} or more" in words
    assert f"and {many} on six;" in words
    low, high = (100 * value for value in (min(printed.values()), max(printed.values())))
    assert f"bases from {low:.1f} to {high:.1f}," in words
    assert [base for base in plain if printed[base] < plain[base]] == ["tiny-1"]


def _numbers(results: list[ArmResult], name: str, benchmark: str, metric: str) -> dict[str, float]:
    """By base; an arm of another experiment than the default one has its name before a stroke."""
    experiment, _, arm = name.rpartition("/")
    return {
        one.base: one.numbers[benchmark][metric]
        for one in results
        if (one.experiment, one.arm) == (experiment or "default", arm)
        and metric in one.numbers.get(benchmark, {})
    }


def _mean(
    results: list[ArmResult], name: str, benchmark: str, metric: str, bases: Sequence[int]
) -> str:
    found = _numbers(results, name, benchmark, metric)
    return f"{100 * fmean(found[f'tiny-{base}'] for base in bases):.1f}"
