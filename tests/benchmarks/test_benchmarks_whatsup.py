"""What'sUp: sets of four from self-made files, and the real captions of subset A."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from unbag.benchmarks.whatsup import WHATSUP_A, WHATSUP_B, A, B, Subset, load, load_corrected
from unbag.errors import UnbagError
from unbag.types import Benchmark, Estimate

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]
WORDS = {"left_of": "to the left of", "right_of": "to the right of", "in-front_of": "in front of"}


def rows(subset: Subset, sets: int = 1, first: str = "mug") -> list[dict[str, object]]:
    """Options in the official order: the correct one first, whatever it is."""
    found: list[dict[str, object]] = []
    for n in range(sets):
        thing = f"{first}{n}" if n else first
        captions = {r: f"A {thing} {WORDS.get(r, r)} a plate" for r in subset.relations}
        for relation in subset.relations:
            others = [captions[r] for r in subset.relations if r != relation]
            path = f"data/{subset.images}/{thing}_{relation}_plate.jpeg"
            found.append({"image_path": path, "caption_options": [captions[relation], *others]})
    return found


def write(folder: Path, subset: Subset, content: object) -> Path:
    (folder / subset.file).write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(("benchmark", "subset"), [(WHATSUP_A, A), (WHATSUP_B, B)])
def test_a_set_is_one_item(
    benchmark: Benchmark, subset: Subset, tmp_path: Path, photo: Callable[[Path], None]
) -> None:
    content = rows(subset)
    for row in content:
        photo(tmp_path / str(row["image_path"]).removeprefix("data/"))
    (item,) = benchmark.load(write(tmp_path, subset, content[::-1]))
    assert item.id == "mug_plate"
    assert item.kinds == subset.relations
    assert [Path(p.name).name for p in item.images] == [
        f"mug_{relation}_plate.jpeg" for relation in subset.relations
    ]
    assert item.captions[0] == "A mug to the left of a plate"
    assert np.array_equal(item.truth, np.eye(4))  # type: ignore[arg-type]
    assert item.images[0].open().mode == "RGB"


def test_the_official_tie_rule_makes_a_constant_right_everywhere(
    tmp_path: Path, numbers: Numbers
) -> None:
    items = WHATSUP_A.load(write(tmp_path, A, rows(A, sets=3)))
    ours = numbers(WHATSUP_A, items, "constant")["micro"]
    theirs = numbers(WHATSUP_A, items, "constant", ties=WHATSUP_A.official_ties)["micro"]
    for metric in ("individual", "pair", "individual4", "pair4", "set"):
        assert (ours[metric].value, theirs[metric].value) == (0, 1)


def test_perfect_and_random_scorers(tmp_path: Path, numbers: Numbers) -> None:
    items = WHATSUP_B.load(write(tmp_path, B, rows(B, sets=400)))
    found = numbers(WHATSUP_B, items, "perfect")["micro"]
    assert [found[m].value for m in ("individual", "pair", "individual4", "pair4", "set")] == [
        1
    ] * 5
    found = numbers(WHATSUP_B, items, "random")["micro"]
    assert (found["individual4"].n, found["pair4"].n, found["set"].n) == (1600, 800, 400)
    for estimate in found.values():
        assert estimate.chance is not None
        assert estimate.value == pytest.approx(estimate.chance, abs=0.05)


def test_errata_exchange_the_two_pillow_images(tmp_path: Path) -> None:
    content = json.loads(json.dumps(rows(A, first="pillow")).replace("plate", "chair"))
    (official,) = load(write(tmp_path, A, content), subset=A)
    (corrected,) = load_corrected(tmp_path)
    assert official.captions == corrected.captions
    assert [p.name for p in corrected.images] == [official.images[i].name for i in (1, 0, 2, 3)]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda r: r.pop(2), "the set 'mug_plate' has no image on"),
        (lambda r: r.append(r[0]), "record 4: a second image of 'mug_plate' with 'left_of'"),
        (lambda r: r[1].pop("caption_options"), r"record 1\.caption_options is missing"),
        (lambda r: r[1].update(caption_options=["a", "b"]), "record 1: caption_options is"),
        (lambda r: r[1]["caption_options"].__setitem__(2, " "), "record 1: caption_options is"),
        (lambda r: r[1].update(image_path="mug_near_plate.jpeg"), "record 1: image name"),
        (lambda r: r.__setitem__(1, 7), "record 1 is 7"),
    ],
)
def test_bad_records_are_named(
    spoil: Callable[[list[dict[str, object]]], object], message: str, tmp_path: Path
) -> None:
    content = rows(A)
    spoil(content)
    with pytest.raises(UnbagError, match=message):
        WHATSUP_A.load(write(tmp_path, A, content))


def test_truncated_and_absent_files(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="whatsup_a has no file"):
        WHATSUP_A.load(tmp_path)
    (tmp_path / A.file).write_text(json.dumps(rows(A))[:-20])
    with pytest.raises(UnbagError, match=r"controlled_images_dataset\.json of whatsup_a cannot be"):
        WHATSUP_A.load(tmp_path)


def test_the_real_captions_of_subset_a(official: Path, tmp_path: Path) -> None:
    fork = json.loads((official / "whatsup/whatsup_A_captions_extra_negatives.json").read_text())
    # The fork adds options after the four official ones.
    content = [row | {"caption_options": row["caption_options"][:4]} for row in fork]
    write(tmp_path, A, content)
    with pytest.warns(UserWarning, match=r"^1 option is not a caption of its set.*a tabl`e"):
        items = WHATSUP_A.load(tmp_path)
    assert len(items) == 103
    assert sum(len(item.images) for item in items) == 412
