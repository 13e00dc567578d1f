"""What cost.md says of time on a device follows from prices and from runs it lists."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from unbag.cli.main import main
from unbag_lab.bases import missing_bases
from unbag_lab.claims import ArmKey, all_claims
from unbag_lab.experiments.photos import without_photographs
from unbag_lab.experiments.readers import READERS
from unbag_lab.plan import find_experiment, find_wish

DOCS = Path(__file__).parents[1] / "docs"
LONG = {"decoder-long": 6, "decoder-cls-long": 8, "vlm2vec-long": 1, "pooled-long": 5, "base": 3,
        "dcsm_fixed-long": 3, "dcsm_fixed-shuffled-long": 3}  # fmt: skip
"""Arms of a run on a GPU, with on how many bases."""
LONG_SECONDS = 1_321
"""That it took, with three bases."""
ONE_BASE_SECONDS = 1_207
"""That all arms on one base took, with the base."""
REST_SECONDS = 591
"""That all but the read-outs took on another, likewise with the base."""
MAPS_SECONDS = 674
"""That two arms of DCSM, the cosine and their bases took, on four."""
ROW = re.compile(r"^\| (.*) \| (\d+) \| ([\d.]+) \| ([\d.]+) \| (\d+) % \|$", re.M)


@pytest.fixture(scope="module")
def page() -> str:
    return (DOCS / "cost.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def words(page: str) -> str:
    return " ".join(page.split())


@pytest.fixture(scope="module")
def shares(page: str) -> tuple[float, ...]:
    """Of its price that each run took, and all together."""
    found = ROW.findall(page)
    assert len(found) == 7
    *runs, last = [tuple(map(float, row[1:])) for row in found]
    for column in range(3):
        assert sum(run[column] for run in runs) == pytest.approx(last[column])
    for _, price, took, share in (*runs, last):
        assert f"{100 * took / price:.0f}" == f"{share:.0f}"
    return tuple(took / price for _, price, took, _ in (*runs, last))


def price_of(capsys: pytest.CaptureFixture[str], *names: str, out: Path) -> str:
    main(["lab", "run", *names, "--device", "cpu", "--out", str(out)])
    price = re.search(r"about (.*) of one H200, in one process", capsys.readouterr().out)
    assert price
    return price[1]


def minutes(text: str) -> float:
    hours, rest = re.findall(r"\d+", text)
    return 60 * int(hours) + int(rest)


def test_the_price_of_the_whole_lab_is_the_one_it_asks(
    words: str, shares: tuple[float, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    price = price_of(capsys, "all", out=tmp_path / "lab")
    assert f"In one process it prices itself at {price} for five bases" in words
    low, high, both = (
        minutes(price) * one for one in (min(shares[:6]), max(shares[:6]), shares[6])
    )
    said = f"would take {low:.0f} to {high:.0f} minutes of device time, and {both:.0f} by all six"
    assert said in words
    assert f"by all timed runs together it is {both:.0f} " in " ".join(
        (DOCS / "index.md").read_text(encoding="utf-8").split()
    )


def test_two_claims_need_more_bases(words: str) -> None:
    few, many = sorted(one.seeds for one in all_claims() if one.seen)
    assert f"(claims that were asked again with 20,000 steps need {few} and {many} for" in words


def test_runs_price_themselves_as_it_is_said(page: str) -> None:
    experiment = find_experiment("readouts")
    seconds = sum(count * experiment.seconds(arm) for arm, count in LONG.items())
    bases = priced_bases("tiny-9", "tiny-10", "tiny-11")
    row = f"| {sum(LONG.values())} | {(seconds + bases) / 60:.1f} | {LONG_SECONDS / 60:.1f} |"
    assert row in page


def test_one_base_was_timed_and_five_are_five_of_it(page: str, words: str) -> None:
    arms = arms_of_a_base()
    timed = [(name, arm) for name, arm in arms if name != "readouts" or not has_text(arm)]
    assert len(arms) - len(timed) == 2
    took = ONE_BASE_SECONDS / 60
    assert f"| {len(timed)} | {priced(timed, 'tiny-12'):.1f} | {took:.1f} |" in page
    assert f"gave {len(timed)} results of all claims about the world in {took:.1f} minutes" in words
    assert f"Five such runs are {5 * took:.0f} minutes, and 90 were wanted" in words
    assert f"For the first two of the {took:.1f} minutes" in words
    overview = " ".join((DOCS / "index.md").read_text(encoding="utf-8").split())
    assert f"took {took:.1f} minutes of one H200 when it was timed" in overview
    assert f"take about {5 * took:.0f}; by all timed" in overview


def test_later_runs_of_some_arms_are_listed_too(page: str, words: str) -> None:
    arms = arms_of_a_base()
    rest = [(name, arm) for name, arm in arms if name != "readouts"]
    row = f"| {len(rest)} | {priced(rest, 'tiny-14'):.1f} | {REST_SECONDS / 60:.1f} |"
    assert row in page
    assert f"lost all {len(arms) - len(rest)} read-outs" in words
    bases = ("tiny-15", "tiny-16", "tiny-17", "tiny-18")
    maps = 4 * [
        ("readouts", arm) for arm in ("base", "dcsm_fixed-long", "dcsm_fixed-shuffled-long")
    ]
    assert f"| {len(maps)} | {priced(maps, *bases):.1f} | {MAPS_SECONDS / 60:.1f} |" in page


def arms_of_a_base() -> tuple[ArmKey, ...]:
    """All that claims about the world ask for."""
    wish = find_wish(["all"], find=find_experiment)
    return tuple(without_photographs(wish, ["all"])[0].arms)


def priced(arms: Iterable[ArmKey], *bases: str) -> float:
    """Minutes of one H200, with the bases."""
    seconds = sum(
        find_experiment(name).seconds(arm)
        for name, arm in arms
        if not find_experiment(name).on_processor
    )
    return (seconds + priced_bases(*bases)) / 60


def has_text(arm: str) -> bool:
    return arm in READERS and READERS[arm].text


def priced_bases(*names: str) -> float:
    return sum(missing_bases(Path("none"), names, size="full").values())
