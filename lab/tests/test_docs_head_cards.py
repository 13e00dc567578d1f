"""Model cards of shipped heads have the numbers of the study."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest

from unbag.models.shipped import WEIGHTS, find_shipped
from unbag_lab.results import ArmResult, shipped_results

ARMS = {"decoder": "decoder-long", "vlm2vec": "vlm2vec-long"}
_CHANCE = " ="


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def card_of(head: str) -> str:
    return text_of(cast(Path, find_shipped(f"tiny-base.{head}")) / "README.md")


def rows(text: str) -> dict[tuple[str, str], list[str]]:
    """Cells behind benchmark and metric, of every row with at least three numbers."""
    found = {}
    for line in text.splitlines():
        first, *rest = (cell.strip() for cell in line.strip("| ").split("|"))
        if first.startswith("world-") and len(rest) > 3:
            found[first, rest[0].removesuffix(" ↓").replace("\\", "")] = rest[1:]
    return found


@pytest.fixture(params=ARMS)
def head(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def lab(head: str) -> ArmResult:
    (found,) = (one for one in shipped_results()
                if (one.base, one.arm, one.experiment) == ("tiny-0", ARMS[head], "readouts")
                )  # fmt: skip
    return found


def test_the_last_column_is_what_the_lab_measured(head: str, lab: ArmResult) -> None:
    table = {key: cells for key, cells in rows(card_of(head)).items() if len(cells) == 5}
    assert len(table) >= 15
    assert {benchmark for benchmark, _ in table} == {
        name for name in lab.numbers if re.fullmatch(r"world-[a-z-]+", name)
    }
    for (benchmark, metric), cells in table.items():
        assert cells[-1] == f"{100 * lab.numbers[benchmark][metric]:.1f}", (benchmark, metric)


def test_marks_of_chance_are_where_chance_is(head: str) -> None:
    for key, (*cells, chance, _n, _lab) in rows(card_of(head)).items():
        if chance == "–":
            continue
        bounds = [float(one) for one in chance.split("/")]
        for cell in cells:
            low, high = map(float, re.findall(r"[\d.]+", cell)[1:])
            contains = low <= max(bounds) and min(bounds) <= high
            assert cell.endswith(_CHANCE) is contains, (key, cell)


def test_how_it_fits_is_what_the_lab_measured(head: str, lab: ArmResult) -> None:
    parts = ("learned", "held") if head == "vlm2vec" else (
        "few", "held", "held yes", "held letters", "held answer", "held describe"
    )  # fmt: skip
    shown = set(re.findall(r"\b\d+\.\d\b", card_of(head)))
    assert {f"{100 * lab.numbers['fit'][part]:.1f}" for part in parts} <= shown


def test_the_short_table_is_that_of_both_cards() -> None:
    card = text_of(WEIGHTS / "README.md").partition("# tiny-base.decoder and tiny-base.vlm2vec")[2]
    short = rows(card.partition("\n# ")[0])
    decoder, vlm2vec = (rows(card_of(head)) for head in ARMS)
    assert len(short) == 5
    for key, (cosine, first, second) in short.items():
        assert (cosine, first) == tuple(decoder[key][:2]), key
        assert (cosine, second) == tuple(vlm2vec[key][:2]), key
