"""Cards of heads that ship have the lab's numbers, and pages have the numbers of the cards."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest

from unbag.models.shipped import WEIGHTS, find_shipped
from unbag_lab.results import ArmResult, shipped_results

ROOT = Path(__file__).parents[2]
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
    fit = {name: f"{100 * value:.1f}" for name, value in lab.numbers["fit"].items()}
    if head == "vlm2vec":
        said = f"{fit['learned']} % of rows trained on, {fit['held']} % of others"
    else:
        said = (
            f"{fit['few']} % of a few thousand fixed questions learned by heart; of questions "
            f"about other images {fit['held']} % are answered right (yes or no "
            f"{fit['held yes']}, which of two {fit['held letters']}, short answers "
            f"{fit['held answer']}; captions to the last word {fit['held describe']},"
        )
        steps = [f"{100 * value:.1f}" for value in lab.numbers["world-relation by step"].values()]
        assert f"{', '.join(steps[:-1])} and {steps[-1]} % after 2,000, 4,000" in card_of(head)
    assert said in card_of(head)


def test_the_short_table_is_that_of_both_cards() -> None:
    card = text_of(WEIGHTS / "README.md").partition("# tiny-base.decoder and tiny-base.vlm2vec")[2]
    short = rows(card.partition("\n# ")[0])
    decoder, vlm2vec = (rows(card_of(head)) for head in ARMS)
    assert len(short) == 5
    for key, (cosine, first, second) in short.items():
        assert (cosine, first) == tuple(decoder[key][:2]), key
        assert (cosine, second) == tuple(vlm2vec[key][:2]), key


def printed(text: str) -> dict[tuple[str, str], str]:
    """What a table of the terminal has in its last column of numbers, written as in a card."""
    found, benchmark = {}, ""
    for line in text.splitlines():
        if match := re.fullmatch(r" (world-[a-z-]+)", line):
            benchmark = match[1]
        if match := re.match(
            r"   (\w+)[ ↓]+.*?([\d.]+)(=?) +\[([\d.]+)–([\d.]+)\] +[\d./]+$", line
        ):
            metric, value, mark, low, high = match.groups()
            found[benchmark, metric] = f"{value} [{low}, {high}]{_CHANCE if mark else ''}"
    return found


@pytest.mark.parametrize(
    ("page", "begin", "head", "least"),
    [
        ("docs/decoder.md", "## A decoder that ships", "decoder", 7),
        ("docs/vlm2vec.md", "## A head that ships", "vlm2vec", 6),
        ("README.md", "the same frozen tiny:base, by cosine and", "decoder", 6),
    ],
)
def test_pages_have_the_numbers_of_the_card(page: str, begin: str, head: str, least: int) -> None:
    shown = printed(text_of(ROOT / page).partition(begin)[2].partition("\n```\n\n")[0])
    card = rows(card_of(head))
    both = shown.keys() & card.keys()
    assert len(both) >= least
    assert {key: shown[key] for key in both} == {key: card[key][1] for key in both}


def test_what_is_above_is_told_better_than_what_is_left() -> None:
    card = card_of("decoder")
    (line,) = (one for one in card.splitlines() if "above/below" in one)
    sideways = line.split("|")[3].strip()
    for page in (ROOT / "docs/decoder.md", ROOT / "README.md"):
        assert sideways.split()[0] in text_of(page), page
    assert f"left and right in {sideways.split()[0]} % {sideways.partition(' ')[2]}" in text_of(
        ROOT / "docs/decoder.md"
    )
