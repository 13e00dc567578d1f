"""`verify` runs every protocol that published numbers need and compares the numbers."""

from dataclasses import replace
from pathlib import Path

import pytest

from unbag.errors import UnbagError
from unbag.evaluation.loading import Job
from unbag.evaluation.verify import known_models, verify
from unbag.scorers import Cosine
from unbag.types import Benchmark, Download, DualEncoder, Errata, Item, Published

PAPER = "a paper, table 1"


def number(value: float, *, rule: str = "micro", is_corrected: bool = False) -> Published:
    return Published("Colours-B", "accuracy", value, PAPER, rule, has_errata=is_corrected)


@pytest.fixture
def half_right(toy: Benchmark, items: list[Item]) -> Benchmark:
    """30 items, 15 with the truth the wrong way round; corrected, 10 more are right."""
    wrong = [replace(item, truth=~item.truth) for item in items[:15]]  # type: ignore[operator,misc]
    errata = Errata("ten", "", lambda root: [*items[:10], *wrong[10:], *items[15:]])
    return replace(toy, load=lambda root: [*wrong, *items[15:]], errata=errata)


def job(benchmarks: list[Benchmark], encoder: DualEncoder, out: Path, **more: object) -> Job:
    names = {"colours": "Colours-B"}
    return replace(Job([Cosine(encoder)], benchmarks, out, published_as=names), **more)  # type: ignore[arg-type]


def test_a_model_whose_numbers_are_known_is_exactly_inside_or_outside(
    tmp_path: Path, encoder: DualEncoder, half_right: Benchmark
) -> None:
    """Half of 30, over six images, and 25 of 30 after mending."""
    plain, corrected = (0.5, 0.501, 0.05), (5 / 6, 0.5)
    numbers = (
        *(number(value) for value in plain),
        *(number(value, is_corrected=True) for value in corrected),
        number(0.5, rule=""),
    )
    benchmark = replace(half_right, published=numbers)
    verified = verify(job([benchmark], encoder, tmp_path / "out"))
    assert verified.model == "Colours-B"
    rows = [
        (r.published.value, r.published.has_errata, round(r.ours.value, 3), r.is_inside)
        for r in verified.references
    ]
    assert rows == [
        (0.5, False, 0.5, True),
        (0.501, False, 0.5, True),
        (0.05, False, 0.5, False),
        (0.5, False, 0.5, True),
        (5 / 6, True, 0.833, True),
        (0.5, True, 0.833, False),
    ]
    assert [r.is_comparable for r in verified.references] == [True, True, True, False, True, True]
    assert not verified.is_reproduced
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["as-is", "mended"]
    assert all(r.doubts == () for r in verified.references if r.is_comparable)


def test_all_inside_is_reproduced_and_what_cannot_be_compared_does_not_decide(
    tmp_path: Path, encoder: DualEncoder, toy: Benchmark
) -> None:
    benchmark = replace(toy, published=(number(1.0), number(0.1, rule="")))
    verified = verify(job([benchmark], encoder, tmp_path / "out"))
    assert verified.is_reproduced
    assert [r.is_inside for r in verified.references] == [True, False]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["as-is"]


def test_the_official_ties_are_those_that_are_compared(
    tmp_path: Path, encoder: DualEncoder, toy: Benchmark, items: list[Item]
) -> None:
    tied = [replace(item, captions=(item.captions[0],) * 2) for item in items]
    benchmark = replace(
        toy, load=lambda root: tied, official_ties="argmax_first", published=(number(1.0),)
    )
    verified = verify(job([benchmark], encoder, tmp_path / "out"))
    assert [r.ours.value for r in verified.references] == [1.0]


def test_what_is_not_on_disk_is_named_with_the_command_that_gets_it(
    tmp_path: Path, encoder: DualEncoder, toy: Benchmark, items: list[Item]
) -> None:
    absent = replace(toy, name="absent", files=("a.json",), published=(number(0.5),))
    fetched = replace(absent, name="fetched", downloads=(Download("https://x.org/a", "a"),))
    here = replace(toy, published=(number(1.0),))
    full_job = job([absent, fetched, here], encoder, tmp_path / "out", data=tmp_path)
    (tmp_path / "pictures" / "0.png").unlink(missing_ok=True)
    verified = verify(full_job)
    assert [(one.benchmark, one.hint) for one in verified.skipped] == [
        ("absent", f"unbag data check absent --data {tmp_path}"),
        ("fetched", f"unbag data get fetched --data {tmp_path}"),
        ("toy", f"unbag data check toy --data {tmp_path}"),
    ]
    assert verified.skipped[0].why == f"there is no folder {tmp_path / 'absent'}"
    assert verified.skipped[2].why.startswith("1 images of 'toy' are missing")
    assert verified.references == ()
    left = verify(replace(full_job, missing="skip", out=tmp_path / "less"))
    (only,) = left.references
    assert only.doubts == ("incomplete here: 5 items or images are left out: images are missing",)


def test_a_model_nobody_published_is_told_all_names(
    tmp_path: Path, encoder: DualEncoder, toy: Benchmark
) -> None:
    benchmark = replace(toy, published=(number(0.5), replace(number(0.5), model="alpha")))
    assert known_models([benchmark]) == ["alpha", "Colours-B"]
    with pytest.raises(UnbagError) as caught:
        verify(replace(job([benchmark], encoder, tmp_path / "out"), published_as={}))
    names = str(caught.value)
    assert "no published number of 'colours' is known" in names
    assert "    alpha\n    Colours-B" in names
    assert '--as "CLIP ViT-B/32 (openai)"' in names


def test_verify_says_how_to_get_images(
    tmp_path: Path, encoder: DualEncoder, toy: Benchmark
) -> None:
    number = Published("Colours-B", "accuracy", 1.0, "a paper", "micro")
    fetched = replace(toy, published=(number,), downloads=(Download("https://x.org/a", "a"),))
    (tmp_path / "pictures" / "0.png").unlink()
    job = Job([Cosine(encoder)], [fetched], tmp_path / "out", data=tmp_path)
    verified = verify(replace(job, published_as={"colours": "Colours-B"}))
    (skipped,) = verified.skipped
    assert skipped.hint == f"unbag data get toy --images --data {tmp_path}"
