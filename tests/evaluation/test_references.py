"""Published numbers next to ours, and models trained on test images."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from unbag.evaluation.loading import Job
from unbag.evaluation.references import (
    declared,
    model_of,
    overlap_warnings,
    overlaps,
    references,
    scale_rule,
)
from unbag.evaluation.run import run
from unbag.evaluation.store import read_contents
from unbag.models.baselines import load as caption_only
from unbag.scorers import Cosine
from unbag.types import (
    MICRO,
    Aggregate,
    Benchmark,
    DualEncoder,
    Errata,
    Estimate,
    EvalProtocol,
    Published,
    Result,
)
from unbag.world.benchmarks import SWAP

PAPER = "a paper, table 1"
SAME = Published("M", "accuracy", 0.70, PAPER, "macro(kind)")
TOY = Benchmark(
    name="toy",
    about="",
    load=lambda root: [],
    metrics=(),
    headline="accuracy",
    aggregates=(Aggregate(by=("kind",)), MICRO),
    published=(
        SAME,
        replace(SAME, source="a paper, table 2"),
        Published("M", "accuracy", 0.60, PAPER, "micro[kind=swap]"),
        Published("M", "top5", 0.90, PAPER, "micro"),
        Published("M", "accuracy", 0.65, PAPER, "", scoring="yes-probability", note="a sample"),
        Published("M", "unheard_of", 0.65, PAPER, "micro"),
        Published("Other", "accuracy", 0.80, PAPER, "macro(kind)"),
        Published("Other", "accuracy", 0.10, PAPER, "micro[kind=swap]"),
        Published("Third", "accuracy", 0.50, "another paper"),
    ),
)


def result(value: float, *, aggregate: str = "macro(kind)", ties: str = "wrong", errata: str = "",
           is_blind: bool = False) -> Result:  # fmt: skip
    def number(shift: float) -> Estimate:
        return Estimate(value + shift, value + shift - 0.05, value + shift + 0.05, 100)

    return Result(
        "toy",
        "mine",
        EvalProtocol(ties=ties, errata=errata),  # type: ignore[arg-type]
        aggregate,
        "accuracy",
        {"accuracy": number(0.0), "top5": number(0.2)},
        {"kind=swap": {"accuracy": number(-0.1)}},
        is_blind=is_blind,
    )


BOTH = (result(0.71), result(0.72, aggregate="micro"))


def test_every_number_of_this_model_stands_beside_ours_of_the_same_meaning() -> None:
    matches = references(TOY, BOTH, model="m")
    same = {
        (r.published.metric, r.published.aggregate): r for r in matches if r.is_same_model
    }  # the number of table 2 is that of table 1 again
    assert {key: round(r.ours.value, 3) for key, r in same.items()} == {
        ("accuracy", "macro(kind)"): 0.71,
        ("accuracy", "micro[kind=swap]"): 0.61,
        ("top5", "micro"): 0.92,
        ("accuracy", ""): 0.71,
    }
    assert len([r for r in matches if r.is_same_model]) == 4
    assert same["accuracy", "macro(kind)"].published.source == PAPER
    assert same["accuracy", "macro(kind)"].doubts == ()
    odd = same["accuracy", ""]
    assert not odd.is_comparable
    assert odd.doubts == (
        "scored by yes-probability there, by cosine here",
        "the source does not say how it averages; ours is macro(kind)",
        "a sample",
    )


def test_other_models_give_the_scale_of_the_headline() -> None:
    matches = references(TOY, BOTH, model="Nobody")
    assert not any(r.is_same_model for r in matches)
    assert {(r.published.model, r.published.aggregate) for r in matches} == {
        ("M", "macro(kind)"),
        ("M", ""),
        ("Other", "macro(kind)"),
        ("Third", ""),
    }
    assert all(r.ours.value == 0.71 for r in matches)


def test_the_scale_follows_the_first_published_rule_where_ours_is_not_published() -> None:
    other = replace(TOY, published=(Published("A", "accuracy", 0.4, PAPER, "micro[kind=swap]"),))
    assert scale_rule(other) == "micro[kind=swap]"
    (matches,) = references(other, BOTH, model="mine")
    assert matches.ours.value == pytest.approx(0.61)


def test_the_official_tie_rule_and_the_errata_of_the_source_are_preferred() -> None:
    errata = Errata("slip", "", lambda root: [])
    benchmark = replace(TOY, official_ties="right", errata=errata,
                        published=(replace(SAME, has_errata=True),))  # fmt: skip
    many = [
        result(0.1),
        result(0.2, errata="slip"),
        result(0.3, ties="right"),
        result(0.4, ties="right", errata="slip"),
    ]
    (matches,) = references(benchmark, many, model="M")
    assert (matches.ours.value, matches.doubts) == (0.4, ())
    (matches,) = references(benchmark, many[:3], model="M")
    assert matches.ours.value == 0.3
    assert matches.doubts == ("known errors (slip) are corrected there, not here",)
    (matches,) = references(benchmark, many[1:2], model="M")
    assert matches.doubts == ("ties are right there, wrong here",)
    plain = replace(benchmark, published=(SAME,))
    (matches,) = references(plain, many[3:], model="M", incomplete=["2 of 3 files are absent"])
    assert matches.doubts == (
        "known errors (slip) are corrected here, not there",
        "incomplete here: 2 of 3 files are absent",
    )
    assert not matches.is_comparable


def test_a_blind_scorer_gets_nothing() -> None:
    assert references(TOY, [result(0.7, is_blind=True)], model="M") == ()


@dataclass(frozen=True)
class Named:
    """A scorer that says which model it is."""

    name: str = "runs/7/best"
    published_as: str = "NegCLIP"
    fingerprint: str = ""
    scoring: str = "cosine"
    is_blind: bool = False

    def score(self, queries: object) -> list[float]:
        return []


def test_the_model_is_what_the_user_says_then_what_it_says_then_what_is_known() -> None:
    assert model_of(Named(), {}) == "NegCLIP"
    assert model_of(Named(), {"runs/7/best": "CE-CLIP"}) == "CE-CLIP"
    assert model_of(Named(published_as=""), {}) == "runs/7/best"
    known = Named("open_clip:ViT-B-32/openai", "")
    assert model_of(known, {}) == "CLIP ViT-B/32 (openai)"


def test_a_run_has_references_and_keeps_them(
    tmp_path: Path, encoder: DualEncoder, toy: Benchmark
) -> None:
    numbers = (
        Published("colours", "accuracy", 0.5, PAPER, "micro"),
        Published("Other", "accuracy", 0.3, PAPER, "micro"),
    )
    benchmark = replace(toy, published=numbers)
    scorers = [Cosine(encoder), caption_only("short")]
    contents = run(Job(scorers, [benchmark], tmp_path / "run")).contents
    assert [(r.scorer, r.is_same_model) for r in contents.references] == [
        ("colours", True),
        ("colours", False),
    ]
    assert contents.references[0].ours.value == 1.0
    assert read_contents(tmp_path / "run").references == contents.references


@pytest.mark.parametrize(
    ("seen", "tested", "shares"),
    [
        ("COCO val2017", "COCO val2017", True),
        ("coco VAL2014", "COCO val2017", True),
        ("COCO train2017", "COCO val2017", False),
        ("COCO train2014", "COCO val2017", False),
        ("Visual Genome", "COCO val2017", True),
        ("COCO val2014", "Visual Genome", True),
        ("CC3M", "COCO val2017", False),
        ("VG", "COCO val2017", True),
        ("MS-COCO", "COCO val2017", True),
        ("Visual7W", "COCO val2014", True),
    ],
)
def test_collections_that_share_images(seen: str, tested: str, shares: bool) -> None:
    assert bool(overlaps([seen], [tested])) == shares


def test_a_model_trained_on_the_test_gets_a_warning_that_is_kept(tmp_path: Path) -> None:
    scorer = caption_only("short")
    job = Job(
        [scorer],
        [
            replace(
                SWAP, name="small", load=lambda root: SWAP.load(root)[:3], sources=("COCO val2017",)
            )
        ],
        tmp_path / "run",
        trained_on={"caption:short": ["COCO val2014", "CC3M"]},
    )
    unknown, warning = run(job).contents.warnings
    assert unknown.startswith("the images of 'CC3M', which")
    assert warning == (
        "caption:short was trained on COCO val2014 (shares with COCO val2017), and small is made "
        "from it: the model may have seen these images"
    )
    assert read_contents(tmp_path / "run").warnings == (unknown, warning)
    assert read_contents(tmp_path / "run").record.trained_on == {
        "caption:short": ("COCO val2014", "CC3M")
    }


def test_a_model_may_declare_it_itself(encoder: Any) -> None:
    assert declared(Cosine(encoder)) == ()
    encoder.trained_on = ("Flickr8k",)
    assert declared(Cosine(encoder)) == ("Flickr8k",)
    encoder.trained_on = "Flickr8k"
    assert declared(Cosine(encoder)) == ("Flickr8k",)
    assert overlap_warnings({"m": ("Flickr8k",)}, [replace(SWAP, sources=("Flickr30k",))])
    assert not overlap_warnings({"m": ("Flickr8k",)}, [SWAP])
    assert not overlap_warnings({"m": ()}, [SWAP])
