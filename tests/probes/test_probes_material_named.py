"""ProbeData from benchmarks by name, with small files in their own layout."""

import json
from pathlib import Path

import numpy as np
import pytest

from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.metrics.choice import Choice
from unbag.probes.data import benchmark_data, find_probe_data
from unbag.runs.progress import Silent
from unbag.types import Benchmark, Ensemble, Item


def test_a_part_of_the_world_is_the_world_too() -> None:
    found = find_probe_data("world-pairs")
    assert found.is_world
    assert found.about == "world-pairs-a, world-pairs-b"
    assert len(found.pairs) == 400


def write_winoground(root: Path, count: int, *, without: int = 0) -> Path:
    from PIL import Image

    folder = root / "winoground" / "images"
    folder.mkdir(parents=True)
    lines = []
    for n in range(count):
        images = [f"ex_{n}_img_{i}" for i in (0, 1)]
        for i, name in enumerate(images if n >= without else ()):
            Image.new("RGB", (4, 4), (n, i, 0)).save(folder / f"{name}.png")
        captions = {"caption_0": f"cup on plate {n}", "caption_1": f"plate on cup {n}"}
        shown = {"image_0": images[0], "image_1": images[1]}
        tags = {"tag": "Noun", "collapsed_tag": "Object"}
        lines.append(json.dumps({"id": n, **shown, **captions, **tags}))
    (root / "winoground" / "examples.jsonl").write_text("\n".join(lines))
    return root


def test_a_benchmark_is_read_from_its_folder(tmp_path: Path) -> None:
    root = write_winoground(tmp_path, 3)
    found = find_probe_data("winoground", root=root)
    assert found.about == "winoground"
    assert not found.is_world
    assert found.pairs[0].captions == ("cup on plate 0", "plate on cup 0")
    assert {pair.relation for pair in found.pairs} == {"Object"}
    assert len(found.rows) == 6
    assert found.gallery is not None
    assert len(found.gallery.images) == 6


def test_items_without_images_are_left_out_and_told(tmp_path: Path) -> None:
    root, progress = write_winoground(tmp_path, 3, without=1), Silent()
    found = benchmark_data(["winoground"], root, progress=progress)
    assert len(found.pairs) == 2
    assert found.notes == (
        "winoground: 1 of 3 items are left out, since 2 images are missing; the numbers are not "
        "those of the whole benchmark",
    )
    assert progress.said == list(found.notes)


def test_a_benchmark_without_any_image(tmp_path: Path) -> None:
    root = write_winoground(tmp_path, 2, without=2)
    with pytest.raises(UnbagError) as error:
        find_probe_data("winoground", root=root)
    assert error.value.message == "none of the 2 items of 'winoground' has its images there"
    assert error.value.hint == ("complete the folder; see `unbag data check winoground --data DIR`")


def test_a_benchmark_without_files(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match=r"there is no folder .*winoground") as error:
        find_probe_data("winoground", root=tmp_path)
    assert error.value.hint.startswith("check --data (data_dir=); it names the folder above")
    with pytest.raises(UnbagError, match="benchmark 'winoground' is read from files") as error:
        find_probe_data("winoground")
    assert error.value.hint == (
        "say with --data (data_dir= in Python) where the benchmark folders are"
    )


def test_a_folder_of_the_user_wins_over_a_family(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnbagError, match="is read from files"):
        find_probe_data("whatsup")
    (tmp_path / "whatsup").mkdir()
    with pytest.raises(UnbagError, match="the folder whatsup holds neither images nor captions"):
        find_probe_data("whatsup")


def test_captions_that_lie_beside_images_are_named(tmp_path: Path) -> None:
    from PIL import Image

    for n in range(2):
        Image.new("RGB", (4, 4), (n, 0, 0)).save(tmp_path / f"{n}.png")
    (tmp_path / "captions.jsonl").write_text('{"image": "0.png", "caption": "a star"}\n')
    assert find_probe_data(str(tmp_path)).notes == (
        "a folder is read without captions, so only the image encoder is asked: "
        f"name {tmp_path / 'captions.jsonl'} if it holds captions",
    )


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.jsonl", '{"file": "0.png", "words": "a star"}', "line 1 has neither caption nor"),
        ("a.jsonl", "a star", "line 1 is not JSON"),
        ("a.csv", "file,words\n0.png,a star", "has no column of captions"),
        ("a.jsonl", '{"file": "0.png", "caption": "a star"}', "names no image"),
    ],
)
def test_captions_of_which_no_line_can_be_read_say_why(
    tmp_path: Path, name: str, text: str, found: str
) -> None:
    (tmp_path / name).write_text(f"{text}\n")
    with pytest.raises(UnbagError, match=found) as error:
        find_probe_data(str(tmp_path / name))
    # No option that a diagnosis does not have.
    assert "--" not in f"{error.value.expected} {error.value.hint}"
    assert error.value.hint.startswith(("mend it; ", "rename it: "))


IMAGE = PixelImage(np.zeros((2, 2, 3), dtype=np.uint8))
CLASSES = Benchmark(
    "classes",
    "",
    lambda root: [Item("1", (IMAGE,), (Ensemble("cat", ("a cat",)),), np.array([[True]]))],
    (Choice(),),
    "accuracy",
)


def test_a_benchmark_that_probes_cannot_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unbag.world.benchmarks.SWAP", CLASSES)
    with pytest.raises(UnbagError) as error:
        find_probe_data("unbag.world.benchmarks:SWAP")
    assert error.value.message == (
        "classes: nothing that probes can use; classes: 1 of 1 items have ratings, classes or more "
        "than 16 captions"
    )
    assert error.value.hint == ("take sugarcrepe, whatsup, your own images or the built-in world")
