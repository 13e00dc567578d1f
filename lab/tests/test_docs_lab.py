"""Every page, table and image of the lab is what claims and shipped results give."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from unbag_lab.claims import (
    FEWEST_BASES,
    LEAST_FIT,
    PHOTOGRAPHS,
    WORLD,
    Claim,
    Number,
    all_claims,
    find_claim,
)
from unbag_lab.results import RESULTS, ArmResult, shipped_results
from unbag_lab.verdict import FAILED, REPRODUCED, UNDECIDED, compute_verdicts

DOCS = Path(__file__).parents[1] / "docs"
AGAIN = "run: python lab/docs/make_lab.py"
WORDS = (FAILED, REPRODUCED, UNDECIDED)
_UNSEEN = 30
"""Number of a base that no claim knew when it was written."""

Made = Callable[[tuple[Claim, ...], list[ArmResult]], dict[str, str]]


@pytest.fixture(scope="module")
def script() -> Mapping[str, Any]:
    return runpy.run_path(str(DOCS / "make_lab.py"))


@pytest.fixture(scope="module")
def made(script: Mapping[str, Any]) -> Made:
    found: Made = script["made"]
    return found


def test_every_file_is_what_the_results_give(made: Made) -> None:
    files = made(all_claims(), shipped_results())
    for name, text in files.items():
        assert (DOCS / name).is_file(), f"{name} is not there; {AGAIN}"
        assert (DOCS / name).read_text(encoding="utf-8") == text, f"{name}; {AGAIN}"
    kept = [*(DOCS / "claims").glob("*.md"), *(DOCS / "images/claims").glob("*")]
    assert {path.relative_to(DOCS).as_posix() for path in kept} <= set(files), AGAIN


def test_every_claim_has_a_page_and_a_row() -> None:
    page = (DOCS / "index.md").read_text(encoding="utf-8")
    for claim in all_claims():
        assert (DOCS / "claims" / f"{claim.name}.md").is_file()
        assert page.count(f"(claims/{claim.name}.md)") == 1


def test_the_page_has_the_constants_of_the_rule() -> None:
    page = (DOCS / "index.md").read_text(encoding="utf-8")
    assert f"fewer than {FEWEST_BASES} bases" in page
    assert f"at least {100 * LEAST_FIT:.0f} %" in page


def test_a_mean_on_the_page_is_that_of_the_file() -> None:
    """Worked from the JSON alone, without the code that made the page."""
    files = sorted(RESULTS.glob("*.json"))
    said = [one for file in files for one in json.loads(file.read_text(encoding="utf-8"))]
    value = {
        (one["base"], one["arm"]): 100 * one["numbers"]["world-relation"]["original"]
        for one in said
        if one["experiment"] == "default" and "world-relation" in one["numbers"]
    }
    bases = sorted(base for base, arm in value if arm == "hard_negative")
    apart = {base: value[base, "hard_negative"] - value[base, "clip_ft"] for base in bases}
    page = (DOCS / "claims" / "negatives_open.md").read_text(encoding="utf-8")
    for base, points in apart.items():
        assert re.search(rf"^\| {base} \| .* \| {re.escape(f'{points:+.1f}')} \|$", page, re.M)
    assert f"**{fmean(apart.values()):+.1f} [" in page


def test_claims_without_results_say_so(made: Made) -> None:
    files = made(all_claims(), [])
    assert not [name for name in files if name.endswith(".svg") and "overview" not in name]
    for claim in all_claims():
        page = files[f"claims/{claim.name}.md"]
        assert "**undecided: not run yet**" in page
        assert page.count("| undecided | Not run yet. |") == len(claim.predictions)
    for where in (WORLD, PHOTOGRAPHS):
        count = sum(one.where == where for one in all_claims())
        said = f"Of {count} claims about {where.name}, 0 are reproduced there, 0 are not, and "
        assert f"{said}{count} are undecided ({count} not run yet)." in files["index.md"]


@pytest.mark.parametrize("count", [1, 2, 4, 5, 7])
@pytest.mark.parametrize("shift", [-0.3, 0.0, 0.3])
def test_pages_cope_with_any_results(made: Made, count: int, shift: float) -> None:
    claims = all_claims()
    results = [
        _result(key, numbers, base, shift)
        for key, numbers in _asked(claims).items()
        for base in range(_UNSEEN, _UNSEEN + count)
    ]
    files = made(claims, results)
    for verdict in compute_verdicts(claims, results):
        page = files[f"claims/{verdict.claim.name}.md"]
        assert f"Verdict: **{verdict.text}**" in page
        assert f"images/claims/{verdict.claim.name}.svg" in files
        for one in verdict.tested:
            assert f"| {one.prediction.says} | {verdict.about(one.word)} |" in page
    drawn = [text for name, text in files.items() if name.endswith(".svg")]
    assert not [text for text in drawn if "nan" in text or "inf" in text.lower()]


def _asked(claims: tuple[Claim, ...]) -> dict[tuple[str, str], list[Number]]:
    """Every arm with the numbers that claims ask of it."""
    found: dict[tuple[str, str], list[Number]] = {}
    for claim in claims:
        for key in claim.arms:
            found.setdefault(key, [])
        for number in (number for one in claim.predictions for number in one.numbers):
            found[number.key(claim.experiment)].append(number)
    return found


def _result(key: tuple[str, str], numbers: list[Number], base: int, shift: float) -> ArmResult:
    """Numbers that lie apart by arm and base; the arms that are compared lie `shift` higher."""
    told: dict[str, dict[str, float]] = {"fit": {"few": 0.9}}
    for number in numbers:
        lift = shift if key[1] not in ("base", "clip_ft") else 0.0
        told.setdefault(number.benchmark, {})[number.metric] = 0.5 + lift + 0.003 * (base % 3)
    return ArmResult(key[0], f"tiny-{base}", f"{base}", key[1], 10, 8, base, 1, "float32", 0.1,
                     told, seconds=2.0)  # fmt: skip


def test_a_reader_that_could_not_learn_is_shown_with_its_share(made: Made) -> None:
    claim = find_claim("one_token")
    results = [
        ArmResult("readouts", "tiny-0", "f", arm, 1, 1, 0, 1, "float32", None,
                  {"fit": {"few": 0.61}, "world-relation": {"original": 0.5}})
        for arm in ("decoder", "decoder-cls")
    ]  # fmt: skip
    files = made((claim,), results)
    assert "**undecided: no base counts**" in files["claims/one_token.md"]
    assert "| tiny-0 | 61.0 | 61.0 | no |" in files["claims/one_token.md"]
    assert "1 with no base on which the readers could learn" in files["index.md"]


def test_pages_of_claims_that_count_other_bases_are_marked(made: Made) -> None:
    files = made(all_claims(), shipped_results())
    marked = {name for name, text in files.items() if "was changed after results were seen" in text}
    claims = ["many_words", "places_in_two_dimensions", "pooling_by_text", "rotary_patches"]
    assert marked == {f"claims/{name}.md" for name in [*claims, "stronger_text"]} | {"index.md"}
    assert "tiny-1, tiny-2, tiny-3, tiny-4.\n" in files["claims/many_words.md"]


NOTES = sorted((DOCS / "claims" / "notes").glob("*.md"))


@pytest.mark.parametrize("path", NOTES, ids=lambda path: path.stem)
def test_a_note_holds_no_result_and_contradicts_no_verdict(path: Path) -> None:
    verdicts = compute_verdicts(all_claims(), shipped_results())
    [word] = [one.word for one in verdicts if one.claim.name == path.stem]
    first, _, text = path.read_text(encoding="utf-8").partition("\n")
    assert first in {"for: any", *(f"for: {one}" for one in WORDS)}
    assert not re.search(r"\d+\.\d|\d ?%|\d points?\b", text), "numbers come from the results"
    lower = text.lower()
    if first == "for: any":
        assert not [one for one in ("reproduc", "undecided", "verdict") if one in lower]
    page = (DOCS / "claims" / f"{path.stem}.md").read_text(encoding="utf-8")
    plain = re.sub(r"\[(`\w+`)\]\(\w+\.md\)", r"\1", page)
    # The note stands a folder below the page.
    assert (text.replace("](../../", "](../").strip() in plain) == (
        first in ("for: any", f"for: {word}")
    )


def test_a_note_for_another_verdict_is_left_out(script: Mapping[str, Any], tmp_path: Path) -> None:
    [verdict] = compute_verdicts([find_claim("one_token")], [])
    path = tmp_path / "one_token.md"
    for first, text in (("any", "so\n"), (UNDECIDED, "so\n"), (FAILED, ""), (REPRODUCED, "")):
        path.write_text(f"for: {first}\n\nso\n", encoding="utf-8")
        assert script["note_of"](verdict, tmp_path) == text
