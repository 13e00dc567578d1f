"""Which known errors are mended, and where that is written down."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from unbag.errors import UnbagError
from unbag.evaluation.loading import ErrataChoice, Job, errata_name, loader_of
from unbag.evaluation.references import declared, overlap_warnings, overlaps
from unbag.evaluation.run import run
from unbag.evaluation.store import read_contents
from unbag.models.baselines import load as caption_only
from unbag.scorers import Cosine
from unbag.types import Benchmark, Errata, Item
from unbag.world.benchmarks import SWAP


def first_three(root: Path | None) -> Sequence[Item]:
    return SWAP.load(root)[:3]


def first_two(root: Path | None) -> Sequence[Item]:
    return SWAP.load(root)[:2]


def small(*, is_published: bool) -> Benchmark:
    errata = Errata("third item", "The third is wrong.", first_two, is_published=is_published)
    return replace(SWAP, name="small", load=first_three, errata=errata, sources=("COCO val2017",))


@pytest.mark.parametrize(
    ("is_published", "choice", "name"),
    [
        (False, "published", ""),
        (False, "all", "third item"),
        (True, "published", "third item"),
        (True, "none", ""),
    ],
)
def test_the_choice_decides_what_is_loaded_and_the_key_says_it(
    tmp_path: Path, is_published: bool, choice: ErrataChoice, name: str
) -> None:
    benchmark = small(is_published=is_published)
    assert errata_name(benchmark, choice) == name
    job = Job([caption_only("short")], [benchmark], tmp_path / "run", errata=choice)
    (result, *_) = run(job).contents.results
    assert result.protocol.errata == name
    assert result.overall["original"].n == (2 if name else 3)
    assert ("errata=third item" in result.protocol.key) == bool(name)


def test_a_run_with_another_choice_is_another_run(tmp_path: Path) -> None:
    benchmark = replace(small(is_published=False), errata=Errata("nothing", "", first_three))
    job = Job([caption_only("short")], [benchmark], tmp_path / "run")
    run(job)
    with pytest.raises(UnbagError, match=r"another evaluation: errata\."):
        run(replace(job, errata="all"))


def test_a_benchmark_without_errata_is_loaded_as_it_is() -> None:
    assert loader_of(SWAP, "all") is SWAP.load
    assert errata_name(SWAP, "all") == ""


@pytest.mark.parametrize(
    ("seen", "asked", "shares"),
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
def test_collections_that_share_images(seen: str, asked: str, shares: bool) -> None:
    assert bool(overlaps([seen], [asked])) == shares


def test_a_model_trained_on_the_test_gets_a_warning_that_is_kept(tmp_path: Path) -> None:
    scorer = caption_only("short")
    job = Job(
        [scorer],
        [small(is_published=False)],
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
