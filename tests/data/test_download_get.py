"""`unbag data get`, end to end: a benchmark of the user's own whose files lie on a local server."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from unbag.cli import main
from unbag.cli.data import get_data
from unbag.data.download import below, is_there, obtain, required_downloads
from unbag.data.images import FileImage
from unbag.errors import UnbagError
from unbag.metrics.choice import Choice
from unbag.types import Benchmark, Download, Item

if TYPE_CHECKING:
    from tests.data.conftest import Site, Waits

Zipped = Callable[[dict[str, bytes]], bytes]
ROWS = json.dumps([{"picture": f"{i}.png", "captions": ["a cat", "a dog"]} for i in range(3)])


def load(root: Path | None) -> Sequence[Item]:
    assert root is not None
    truth = np.array([[True, False]])
    return [
        Item(str(i), (FileImage(root / "../pets/val" / row["picture"]),), row["captions"], truth)
        for i, row in enumerate(json.loads((root / "rows.json").read_text()))
    ]


@pytest.fixture
def pets(zipped: Zipped) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4)).save(buffer, format="PNG")
    return zipped({f"val/{i}.png": buffer.getvalue() for i in range(3)})


@pytest.fixture
def mine(site: Site, pets: bytes, monkeypatch: pytest.MonkeyPatch) -> Benchmark:
    """The benchmark that package.module:NAME finds as mine:BENCH."""
    site.put("/rows.json", ROWS.encode())
    site.put("/val.zip", pets)
    bench = Benchmark(
        name="mine",
        about="Cats and dogs.",
        load=load,
        metrics=(Choice(),),
        headline="accuracy",
        licence="CC0",
        files=("rows.json",),
        sources=("pets",),
        downloads=(
            Download(
                site.at("/rows.json"),
                "mine/rows.json",
                sha256(ROWS.encode()).hexdigest(),
                len(ROWS),
            ),
            Download(site.at("/val.zip"), "pets/val.zip", unpack="pets", has_images=True),
        ),
    )
    register(monkeypatch, bench)
    return bench


def register(monkeypatch: pytest.MonkeyPatch, bench: Benchmark) -> None:
    module = ModuleType("mine")
    module.BENCH = bench  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mine", module)


def get(tmp_path: Path, *more: str) -> int:
    return main(["data", "get", "mine:BENCH", "--data", str(tmp_path), *more])


def test_files_only(
    mine: Benchmark, site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert get(tmp_path) == 0
    said = capsys.readouterr().out
    assert "licence:  CC0" in said
    assert f"download  mine/rows.json ({len(ROWS)} B)" in said
    assert "pets/val.zip (unknown size): only with --images" in said
    assert f"1 file to download into {tmp_path} ({len(ROWS)} B)" in said
    assert said.index("1 file to download") < said.index("downloaded mine/rows.json; sha256")
    assert "as published" in said
    assert "3 items are readable" in said
    assert said.endswith("3 images are missing; --images downloads them\n")
    assert [path for path, _ in site.asked] == ["/rows.json"]


def test_images_too_and_nothing_twice(
    mine: Benchmark,
    site: Site,
    pets: bytes,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert get(tmp_path, "--images") == 0
    said = capsys.readouterr().out
    assert "downloaded pets/val.zip, 3 files extracted to pets; sha256" in said
    assert f"{sha256(pets).hexdigest()}, no published checksum to compare with" in said
    assert said.endswith("complete\n")
    assert sorted(p.name for p in (tmp_path / "pets").iterdir()) == ["val", "val.zip.contents"]
    asked = len(site.asked)
    assert get(tmp_path, "--images") == 0
    said = capsys.readouterr().out
    assert f"0 files to download into {tmp_path} (0 B)" in said
    assert "present   all images of mine" in said
    assert len(site.asked) == asked
    assert main(["data", "check", "mine:BENCH", "--data", str(tmp_path)]) == 0


def test_a_lost_image_is_fetched_again(mine: Benchmark, site: Site, tmp_path: Path) -> None:
    assert get(tmp_path, "--images") == 0
    (tmp_path / "pets/val/1.png").unlink()
    assert not is_there(mine.downloads[1], tmp_path)
    assert get(tmp_path, "--images") == 0
    assert (tmp_path / "pets/val/1.png").exists()


def test_images_unpacked_by_hand_are_enough(mine: Benchmark, site: Site, tmp_path: Path) -> None:
    (tmp_path / "pets/val").mkdir(parents=True)
    for i in range(3):
        (tmp_path / f"pets/val/{i}.png").write_bytes(b"mine")
    assert get(tmp_path, "--images") == 0
    assert [path for path, _ in site.asked] == ["/rows.json"]


def test_what_needs_an_account_is_explained(
    mine: Benchmark,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    register(monkeypatch, replace(mine, downloads=mine.downloads[:1], gated="ask the author"))
    assert get(tmp_path, "--images") == 1
    said = capsys.readouterr().out
    assert said.count("by hand:  ask the author") == 2
    assert said.endswith("3 images are missing\n")
    register(monkeypatch, replace(mine, downloads=()))
    assert get(tmp_path / "other") == 1
    said = capsys.readouterr().out
    assert "no public download is known" in said
    assert said.endswith("1 of 1 files are missing\n")


def test_one_that_fails_stops_no_other(
    mine: Benchmark,
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    gone = Download(site.at("/gone"), "mine/extra.json")
    register(monkeypatch, replace(mine, downloads=(gone, *mine.downloads)))
    assert get(tmp_path, "--images") == 1
    said = capsys.readouterr()
    assert "answered 404" in said.err
    assert said.out.endswith("complete\n")


def test_a_silent_host_is_waited_for_once(
    mine: Benchmark,
    tmp_path: Path,
    waits: Waits,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dead = tuple(Download(f"http://127.0.0.1:9/{i}", f"mine/{i}") for i in range(50))
    register(monkeypatch, replace(mine, downloads=(*dead, *mine.downloads)))
    assert get_data(["mine:BENCH"], tmp_path, images=False, patience=waits.patience) == 1
    said = capsys.readouterr()
    assert len(waits.seconds) == 2
    assert said.err.count("was skipped: 127.0.0.1:9 does not answer") == 49
    assert "and 39 more" in said.out
    assert (tmp_path / "mine/rows.json").exists()


def test_ctrl_c_says_what_is_kept(
    mine: Benchmark,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stopped(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("unbag.data.download.obtain", stopped)
    assert get(tmp_path) == 130
    assert "Partial downloads are kept; the same command resumes them" in (capsys.readouterr().err)


def test_a_damaged_archive_without_a_checksum(mine: Benchmark, site: Site, tmp_path: Path) -> None:
    good = site.pages["/val.zip"].content
    site.put("/val.zip", good[:-30])
    with pytest.raises(UnbagError, match="is damaged") as caught:
        obtain(mine.downloads[1], tmp_path)
    assert "it was removed; run this again" in caught.value.hint
    assert not list((tmp_path / "pets").glob("*.zip"))
    site.put("/val.zip", good)
    assert obtain(mine.downloads[1], tmp_path).members == 3


def test_a_list_that_is_no_list_is_not_believed(
    mine: Benchmark, site: Site, tmp_path: Path
) -> None:
    obtain(mine.downloads[1], tmp_path)
    for text in ("", "x", "sum\nurl\n", "sum\nurl\nmany\tval/0.png"):
        (tmp_path / "pets/val.zip.contents").write_text(text)
        assert not is_there(mine.downloads[1], tmp_path)
    assert not obtain(mine.downloads[1], tmp_path).was_there


def test_shared_images_are_wanted_once(mine: Benchmark) -> None:
    other = replace(mine, name="other", downloads=mine.downloads[1:])
    assert required_downloads([mine, other], images=True) == mine.downloads
    assert required_downloads([mine, other], images=False) == mine.downloads[:1]
    moved = replace(other, downloads=(replace(mine.downloads[1], url="http://a/b"),))
    with pytest.raises(UnbagError, match="one source for a file"):
        required_downloads([mine, moved], images=True)


@pytest.mark.parametrize("name", ["", "/etc/x", "../x", "a/../../x", "C:x"])
def test_a_download_stays_below_the_data_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnbagError, match="a place below the data folder"):
        below(tmp_path, name)


def test_a_benchmark_that_makes_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "get", "world-swap", "--data", str(tmp_path)]) == 0
    assert "world-swap generates its own data" in capsys.readouterr().out
