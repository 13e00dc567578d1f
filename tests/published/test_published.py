"""Printed numbers: their digits, their averages as intervals, and the rules found for them."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbag.benchmarks.whatsup import two_way
from unbag.published import lookup
from unbag.published.averaging import PrintedNumber, averages, nested
from unbag.published.lookup import (
    LOADED_AS,
    TABLE_FILES,
    Table,
    TableColumn,
    all_cells,
    doubts,
    entries,
    flags,
    is_same,
    likely_cutoffs,
    published_for,
    published_name,
    tables,
)
from unbag.registry import find, names
from unbag.types import Benchmark, Published

CLIP_B32, NEGCLIP, CE_CLIP_PLUS = "CLIP ViT-B/32 (openai)", "NegCLIP", "CE-CLIP+"
PERCENT = Table(
    "paper", "table 1", (TableColumn("a"), TableColumn("b")), {"m": "80 -", "n": "79.8 72.08"}
)


def test_digits_of_a_table_and_of_a_number() -> None:
    whole, tenth, hundredth = (cell.number for cell in PERCENT.cells())
    assert (whole.value, whole.digits, whole.shown_digits) == (Fraction(80), 1, 0)
    assert (whole.low, whole.high) == (Fraction("79.95"), Fraction("80.05"))
    assert (whole.alone.low, whole.alone.high) == (Fraction("79.5"), Fraction("80.5"))
    assert (tenth.digits, hundredth.digits, hundredth.low) == (1, 2, Fraction("72.075"))
    assert (str(whole), str(whole.alone), str(hundredth)) == ("80.0", "80", "72.08")
    assert PERCENT.source == "paper, table 1"


def test_fractions_become_percent_and_scores_stay() -> None:
    fraction = Table("p", "t", (TableColumn("a"),), {"m": "0.59"}, digits=0, unit="fraction")
    score = Table("p", "t", (TableColumn("a"),), {"m": ".234"}, unit="score")
    (rate,), (mean,) = ([c.number for c in table.cells()] for table in (fraction, score))
    assert (rate.value, rate.digits, str(rate)) == (Fraction(59), 0, "59")
    assert (mean.value, mean.digits, str(mean)) == (Fraction("23.4"), 1, "0.234")


def test_row_with_too_few_numbers() -> None:
    table = Table("p", "t", (TableColumn("a"), TableColumn("b")), {"m": "1.0"})
    with pytest.raises(ValueError, match="shorter"):
        list(table.cells())


@given(st.lists(st.integers(0, 1000), min_size=7, max_size=7))
def test_average_of_rounded_cells_is_in_its_interval(tenths: list[int]) -> None:
    kinds = averages_of_sugarcrepe()
    cells = {k: PrintedNumber(Fraction(t, 10), 1, 1) for k, t in zip(kinds, tenths, strict=True)}
    low, high = averages("sugarcrepe", cells)["macro7"]
    assert low <= Fraction(sum(tenths), 70) <= high
    assert high - low == Fraction(1, 10)


def averages_of_sugarcrepe() -> list[str]:
    found = {p.aggregate for p in published_for("sugarcrepe")}
    return sorted(name for name in found if name.startswith("micro[kind="))


def test_nested_weights() -> None:
    assert nested([["a"], ["b", "c"]]) == {"a": 1, "b": Fraction(1, 2), "c": Fraction(1, 2)}


@pytest.mark.parametrize(
    ("benchmark", "model", "rule", "source", "value"),
    [
        ("valse", CLIP_B32, "macro11", "CE-CLIP), table 1", 0.653),
        ("valse", CLIP_B32, "macro7", "CE-CLIP), table 4", 0.67),
        ("valse", CE_CLIP_PLUS, "macro9", "CE-CLIP), table 1", 0.767),
        ("valse", NEGCLIP, "macro7", "results.csv", 0.7372),
        ("vl_checklist", NEGCLIP, "macro3", "results.csv", 0.7495),
        ("sugarcrepe", NEGCLIP, "macro(family)", "results.csv", 0.8369),
        ("vl_checklist", "ALBEF", "macro3", "CE-CLIP), table 2", 0.756),
        # Its cells are missing, so the averages of groups replace them.
        ("vl_checklist", "CLIP-SVLC", "macro9", "CE-CLIP), table 2", 0.742),
        ("valse", "CE-XVLM", "", "CE-CLIP), table 1", 0.708),
        ("coco_retrieval", CLIP_B32, "micro", "CE-CLIP), table 5", 0.56),
    ],
)
def test_rules_of_averages_are_found_from_the_cells(
    benchmark: str, model: str, rule: str, source: str, value: float
) -> None:
    values = [
        p.value
        for p in published_for(benchmark)
        if (p.model, p.aggregate) == (model, rule) and source in p.source
    ]
    assert values[0] == value


@pytest.mark.parametrize("direction", ["text_to_image", "image_to_text"])
def test_rank_of_a_recall_is_found_in_another_source(direction: str) -> None:
    assert likely_cutoffs("coco_retrieval", f"{direction}@?") == (f"{direction}@5",)


@pytest.mark.parametrize("name", sorted({c.column.benchmark for c in all_cells()} - {""}))
def test_rules_and_numbers_of_each_benchmark(name: str) -> None:
    benchmark = find("benchmark", name)
    assert isinstance(benchmark, Benchmark)
    pairs = two_way(benchmark).published if name.startswith("whatsup") else ()
    apart = [number for number in pairs if number not in benchmark.published]
    # Five models were freely asked about two relations: 2 pairs, each alone and together.
    assert len(apart) == (20 if pairs else 0)
    found = tuple(number for number in published_for(name) if number not in apart)
    assert benchmark.published == found != ()
    rules = {rule.name for rule in benchmark.aggregates} | {""}
    named = {p.aggregate for p in benchmark.published}
    assert {rule for rule in named if not rule.startswith("micro[")} <= rules
    assert all(0 <= p.value <= 1 for p in benchmark.published)
    keys = [(p.model, p.metric, p.aggregate, p.source, p.scoring) for p in benchmark.published]
    assert len(keys) == len(set(keys))


def test_columns_name_known_benchmarks() -> None:
    known = {*names("benchmark"), ""}
    assert {column.benchmark for table in tables() for column in table.columns} <= known
    assert len(entries()) > 1300


def test_errata_and_scoring_of_sources() -> None:
    by_source: dict[tuple[str, str], set[bool]] = {}
    for p in published_for("whatsup_a"):
        by_source.setdefault((p.source.partition(", ")[0], p.scoring), set()).add(p.has_errata)
    assert by_source["Li et al. 2024 (erroneous agreements)", "free answers"] == {True}
    assert by_source["Oh et al. 2024 (ytaek-oh/vl_compo)", "cosine"] == {False}
    assert not any(p.has_errata for p in published_for("whatsup_b"))
    probes = [p for p in published_for("imagenet1k") if p.scoring == "linear probe"]
    assert [p.value for p in probes] == [0.75, 0.74, 0.72]


@pytest.mark.parametrize(
    ("name", "published_as", "expected"),
    [
        ("open_clip:ViT-B-32/openai", "", CLIP_B32),
        ("open_clip:ViT-B-32-quickgelu/openai", "", CLIP_B32),
        ("ViT-B-32/openai", "", CLIP_B32),
        # A folder of that name may hold anything.
        ("clip-vit-base-patch32", "", "clip-vit-base-patch32"),
        ("hf:openai/clip-vit-base-patch32", "", CLIP_B32),
        ("open_clip:ViT-B-32/laion2b_s34b_b79k", "", "open_clip:ViT-B-32/laion2b_s34b_b79k"),
        ("my_model", "NegCLIP", "NegCLIP"),
        ("negclip", "", "negclip"),
    ],
)
def test_published_name(name: str, published_as: str, expected: str) -> None:
    assert published_name(name, published_as) == expected
    assert is_same("NegCLIP", "negclip")


def test_loadable_names_are_unique() -> None:
    loaded = [name for some in LOADED_AS.values() for name in some]
    assert len(loaded) == len(set(loaded))
    assert set(LOADED_AS) <= {entry.published.model for entry in entries()}


def test_half_a_unit_of_the_last_digit() -> None:
    assert Published("m", "accuracy", 0.612, "p", digits=1).half == pytest.approx(0.0005)
    assert Published("m", "accuracy", 0.59, "p", digits=0).half == pytest.approx(0.005)


def test_table_files_are_complete() -> None:
    folder = Path(lookup.__file__).parent / "tables"
    assert sorted(path.stem for path in folder.iterdir()) == sorted(TABLE_FILES)
    for table in tables():
        names = [column.name for column in table.columns]
        assert len(names) == len(set(names))
        assert all(len(row.split()) == len(names) for row in table.rows.values())
        assert table.unit in ("percent", "fraction", "score")
        measured = {column.benchmark for column in table.columns if column.benchmark}
        assert set(table.notes) <= measured
        for column in table.columns:
            assert {*column.mean_of, *(column.minus or ())} <= set(names)


def test_doubts_are_about_numbers_of_the_tables() -> None:
    known = {entry.published for entry in entries()}
    assert {number for flag in flags() for number in flag.concerns} <= known
    assert {number for number in known if doubts(number)} >= {
        number for flag in flags() for number in flag.concerns
    }


def test_doubts_of_a_number() -> None:
    sugarcrepe = {
        (p.model, p.aggregate): doubts(p)
        for p in published_for("sugarcrepe")
        if p.source.endswith("(CE-CLIP), table 3")
    }
    assert sugarcrepe[CLIP_B32, "micro[kind=replace_obj]"] == ()
    first, second = sugarcrepe[CLIP_B32, "micro[kind=swap_obj]"]
    assert first.startswith("accuracy (micro[kind=swap_obj]) of sugarcrepe has two values: 61.4")
    assert second == "61.4 is 151 of 246 (with the row of an earlier release), no share of 245"
    valse = {
        p.model: doubts(p)
        for p in published_for("valse")
        if p.source.endswith("(CE-CLIP), table 1") and "coreference-hard" in p.aggregate
    }
    rejected = "48.2 is 68 of 141 (with the rows that annotators rejected), no share of 104"
    assert valse["BLIP"] == (rejected,)
    assert doubts(Published("m", "accuracy", 0.5, "nobody")) == ()
