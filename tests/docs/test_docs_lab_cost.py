"""What docs/lab.md says of time on a device follows from prices and from the runs that it lists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unbag.cli.main import main
from unbag.lab.base_names import number
from unbag.lab.bases import missing_bases
from unbag.lab.claim import FEWEST_BASES
from unbag.lab.claims import all_claims
from unbag.lab.experiment import find_experiment
from unbag.lab.shipped import shipped_results
from unbag.lab.where import WORLD

DOCS = Path(__file__).parents[2] / "docs"
LAST = {"decoder-long": 6, "decoder-cls-long": 8, "vlm2vec-long": 1, "pooled-long": 5, "base": 3,
        "dcsm_fixed-long": 3, "dcsm_fixed-shuffled-long": 3}  # fmt: skip
"""Arms of the last run on a GPU, with on how many bases."""
LAST_SECONDS = 1_321
"""That it took, with three bases."""
ROW = re.compile(r"^\| (.*) \| (\d+) \| ([\d.]+) \| ([\d.]+) \| (\d+) % \|$", re.M)


@pytest.fixture(scope="module")
def page() -> str:
    return (DOCS / "lab.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def words(page: str) -> str:
    return " ".join(page.split())


@pytest.fixture(scope="module")
def shares(page: str) -> tuple[float, ...]:
    """Of its price that each run took, and all together."""
    found = ROW.findall(page)
    assert len(found) == 4
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
    assert f"It prices itself at {price} in one process, for five bases" in words
    low, high, both = (
        minutes(price) * one for one in (min(shares[:3]), max(shares[:3]), shares[3])
    )
    said = f"would take {low:.0f} to {high:.0f} minutes of device time, and {both:.0f} by all three"
    assert said in words


def test_the_price_without_the_late_claims(
    words: str, shares: tuple[float, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    early = [one.name for one in all_claims() if not one.seen and one.where == WORLD]
    assert len(all_claims()) - len(early) == 2 + 4
    few, many = sorted(one.seeds for one in all_claims() if one.seen)
    assert f"(claims that were asked again with 20,000 steps need {few} and {many} for" in words
    whole = minutes(price_of(capsys, *early, out=tmp_path / "lab"))
    low, high, both = (whole * one for one in (min(shares[:3]), max(shares[:3]), shares[3]))
    assert f"it would be {low:.0f} to {high:.0f}, and {both:.0f}; with the one base more" in words


def test_the_price_with_the_base_more_that_each_late_claim_needs(
    words: str, shares: tuple[float, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = minutes(price_of(capsys, "all", out=tmp_path / "lab"))
    experiment = find_experiment("readouts")
    for claim in (one for one in all_claims() if one.seen):
        # Of the five bases of a run, tiny-0 was seen.
        five = {base for base in claim.seen if int(number(base)) < FEWEST_BASES}
        assert five == {"tiny-0"}
        arms = [arm for _, arm in (*claim.arms, *claim.arms_beside)]
        base = sum(missing_bases(Path("none"), [f"tiny-{claim.seeds - 1}"], size="full").values())
        whole += (sum(map(experiment.seconds, arms)) + base) / 60
    low, high, both = (whole * one for one in (min(shares[:3]), max(shares[:3]), shares[3]))
    assert f"needs for a verdict, {low:.0f} to {high:.0f}, and {both:.0f}. 90" in words


def test_the_last_run_prices_itself_as_it_is_said(page: str) -> None:
    experiment = find_experiment("readouts")
    seconds = sum(count * experiment.seconds(arm) for arm, count in LAST.items())
    bases = sum(missing_bases(Path("none"), ["tiny-9", "tiny-10", "tiny-11"], size="full").values())
    row = f"| {sum(LAST.values())} | {(seconds + bases) / 60:.1f} | {LAST_SECONDS / 60:.1f} |"
    assert row in page
    priced = {
        name: sum(find_experiment(name).seconds(one.arm) for one in shipped_results()
                  if one.experiment == name)
        for name in {one.experiment for one in shipped_results()}
        if not find_experiment(name).on_processor
    }  # fmt: skip
    timed = sum(float(row[2]) for row in ROW.findall(page)[:3]) - bases / 60
    said = (
        f"{timed:.0f} of the {sum(priced.values()) / 60:.0f} minutes that experiments on a GPU are"
    )
    assert said in " ".join(page.split())
