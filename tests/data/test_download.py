"""Downloads: one file from a server that misbehaves, resuming, and `unbag data get`."""

from __future__ import annotations

import io
import json
import random
import shutil
import sys
from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from http.client import HTTPMessage
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.request import Request

import numpy as np
import pytest
from PIL import Image

from unbag.cli import main
from unbag.cli.data import get_data
from unbag.data.archives import readable
from unbag.data.download import (
    PartialFile,
    UnreachableError,
    below,
    fetch,
    is_there,
    matches,
    obtain,
    required_downloads,
)
from unbag.data.http import _Redirects
from unbag.data.images import FileImage
from unbag.errors import UnbagError
from unbag.metrics.choice import Choice
from unbag.types import Benchmark, Download, Item

if TYPE_CHECKING:
    from tests.data.conftest import Site, Waits

CONTENT = random.Random(0).randbytes(700_000)
DIGEST = sha256(CONTENT).hexdigest()
Fetch = Callable[[Download], Any]


def known(site: Site, path: str = "/f.bin") -> Download:
    return Download(site.at(path), "f.bin", DIGEST, len(CONTENT))


def unknown(site: Site) -> Download:
    return Download(site.at("/f.bin"), "f.bin")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "f.bin"


@pytest.fixture
def fetched(target: Path, waits: Waits) -> Fetch:
    return lambda download: fetch(download, target, patience=waits.patience)


def test_a_file_is_fetched_verified_and_named(site: Site, tmp_path: Path, waits: Waits) -> None:
    site.put("/f.bin", CONTENT)
    got = fetch(known(site), tmp_path / "deep/f.bin", patience=waits.patience)
    assert got.path.read_bytes() == CONTENT
    assert (got.sha256, got.size, got.was_there) == (DIGEST, 700_000, False)
    assert names(tmp_path / "deep") == ["f.bin"]
    assert fetch(known(site), tmp_path / "deep/f.bin").was_there
    assert len(site.asked) == 1
    site.put("/f.bin", b"")
    assert fetch(unknown(site), tmp_path / "f.bin").size == 0
    assert names(tmp_path) == ["deep", "f.bin"]


def test_wrong_bytes_are_removed_and_reported(site: Site, tmp_path: Path, fetched: Fetch) -> None:
    wrong = bytes(700_000)
    site.put("/f.bin", wrong)
    with pytest.raises(UnbagError) as caught:
        fetched(known(site))
    digest = sha256(wrong).hexdigest()
    assert f"gave a wrong file of 700,000 bytes: sha256 {digest}" in caught.value.message
    assert caught.value.expected == f"700,000 bytes, sha256 {DIGEST}"
    assert "it was removed" in caught.value.hint
    assert names(tmp_path) == []


def test_a_file_of_the_user_is_never_replaced(site: Site, target: Path) -> None:
    target.write_bytes(b"an earlier release")
    with pytest.raises(UnbagError) as caught:
        fetch(known(site), target)
    assert "exists and differs from the file at" in caught.value.message
    assert sha256(b"an earlier release").hexdigest() in caught.value.message
    assert "move it away" in caught.value.hint
    assert target.read_bytes() == b"an earlier release"
    assert not site.asked
    assert fetch(unknown(site), target).was_there


@pytest.mark.parametrize("length", [-1, 800_000])
def test_a_wrong_length_does_no_harm(site: Site, fetched: Fetch, length: int) -> None:
    # The rest that 800,000 promises does not exist: requested, it is beyond the end.
    site.put("/f.bin", CONTENT).length = length
    assert fetched(Download(site.at("/f.bin"), "f.bin", DIGEST)).size == 700_000


def test_a_busy_server_is_waited_for(site: Site, fetched: Fetch, waits: Waits) -> None:
    page = site.put("/f.bin", CONTENT)
    page.refusals = [(503, {"Retry-After": "7"}), (429, {"Retry-After": "9999"})]
    fetched(known(site))
    assert waits.seconds == [7.0, 120.0]


def test_a_server_that_stays_busy(site: Site, tmp_path: Path, fetched: Fetch) -> None:
    site.put("/f.bin", CONTENT).refusals = [(503, {})] * 3
    with pytest.raises(
        UnreachableError, match="answered 503 Service Unavailable, 3 times"
    ) as caught:
        fetched(known(site))
    assert caught.value.hint == "run this again later"
    assert names(tmp_path) == []


def test_no_server(fetched: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(UnreachableError, match="the server cannot be reached"):
        fetched(Download("http://127.0.0.1:9/f", "f"))


def test_proxies_are_those_of_the_environment(
    site: Site, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv("http_proxy", site.address)
    site.put("http://data.example/f.bin", CONTENT)
    download = Download("http://data.example/f.bin", "f.bin", DIGEST)
    assert fetch(download, target).sha256 == DIGEST


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/f", "f.bin"])
def test_only_http_and_https_are_fetched(site: Site, tmp_path: Path, url: str) -> None:
    with pytest.raises(UnbagError, match="cannot be downloaded"):
        fetch(Download(url, "f"), tmp_path / "f")
    site.put("/f.bin", b"").leads_to = url if ":" in url else "file:///f"
    with pytest.raises(UnbagError, match=r"cannot be downloaded|is not allowed"):
        fetch(unknown(site), tmp_path / "f")
    assert names(tmp_path) == []


def test_no_redirect_from_https_to_http() -> None:
    with pytest.raises(UnbagError, match=r"redirects to http://a\.example/f") as caught:
        _Redirects().redirect_request(
            Request("https://a.example/f"), io.BytesIO(), 302, "", HTTPMessage(),
            "http://a.example/f",
        )  # fmt: skip
    assert "https" in caught.value.expected


@pytest.mark.parametrize(
    ("path", "page", "words"),
    [
        ("/gone", {}, ("answered 404 Not Found", "it may have moved or need an account")),
        ("/f.bin", {"kind": "text/html; charset=utf-8"}, ("answered with a web page",)),
        ("/f.bin", {"kind": "text/plain", "encoding": "gzip"}, ("is sent as gzip",)),
        ("/f.bin", {"content": CONTENT + b"more"}, ("has 700,004 bytes now",)),
        # Without a length the body ends at the size that is known.
        ("/f.bin", {"content": CONTENT * 2, "length": -1}, ("gave a wrong file",)),
        ("/f.bin", {"length": 600_000}, ("gave a wrong file of 600,000 bytes",)),
    ],
)
def test_anything_but_the_file_is_refused(
    site: Site, tmp_path: Path, fetched: Fetch, path: str, page: dict[str, Any],
    words: tuple[str, ...],
) -> None:  # fmt: skip
    vars(site.put("/f.bin", CONTENT)).update(page)
    is_size_known = page != {"length": 600_000}
    download = known(site, path) if is_size_known else Download(site.at(path), "f.bin", DIGEST)
    with pytest.raises(UnbagError) as caught:
        fetched(download)
    assert all(word in str(caught.value) for word in words)
    assert names(tmp_path) == []
    if path == "/gone":
        assert len(site.asked) == 1


def test_a_full_disk_is_noticed_first(
    site: Site, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.put("/f.bin", CONTENT)
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(1000))
    with pytest.raises(UnbagError, match=r"needs 700\.0 kB more, and .* has 1\.0 kB free"):
        fetch(known(site), target)


def test_a_folder_that_cannot_be_made(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnbagError, match="cannot write"):
        fetch(known(site), tmp_path / "file" / "f.bin")


def test_matches_size_and_checksum(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    assert not matches(Download("http://a", "f", DIGEST, 4), tmp_path / "f")
    assert matches(Download("http://a", "f", "", 3), tmp_path / "f")
    assert not matches(Download("http://a", "f", DIGEST, 3), tmp_path / "f")


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (815_585_330, "815.6 MB"),
     (999_960, "1.0 MB"), (2 * 10**15, "2000.0 TB")],
)  # fmt: skip
def test_readable_sizes(size: int, text: str) -> None:
    assert readable(size) == text


def test_it_resumes_where_the_connection_broke(
    site: Site, target: Path, fetched: Fetch, waits: Waits
) -> None:
    site.put("/f.bin", CONTENT).breaks = [100_000, 250_000]
    fetched(known(site))
    assert target.read_bytes() == CONTENT
    assert site.ranges == ["", "bytes=100000-", "bytes=350000-"]
    assert site.asked[1][1]["If-Range"] == '"v1"'
    assert waits.seconds == [1.0, 1.0]


def test_a_later_call_resumes_too(site: Site, tmp_path: Path, fetched: Fetch, waits: Waits) -> None:
    site.put("/f.bin", CONTENT).breaks = [100_000, 0, 0, 0]
    with pytest.raises(UnreachableError) as caught:
        fetched(unknown(site))
    assert "the connection ended after 100,000 of 700,000 bytes, 3 times" in caught.value.message
    assert f"100.0 kB are saved in {tmp_path / 'f.bin.part'}" in caught.value.hint
    assert names(tmp_path) == ["f.bin.part", "f.bin.part.version"]
    assert waits.seconds == [1.0, 1.0, 2.0]
    assert fetched(unknown(site)).sha256 == DIGEST
    assert site.ranges[-1] == "bytes=100000-"
    assert names(tmp_path) == ["f.bin"]


@pytest.mark.parametrize(
    ("page", "is_known", "ranges"),
    [
        # A server without ranges sends everything again.
        ({"has_ranges": False}, True, ["", "bytes=100000-"]),
        # Without a checksum and a (strong) mark nothing is joined.
        ({"mark": ""}, False, ["", ""]),
        ({"mark": 'W/"v1"'}, False, ["", ""]),
        # A range that was not requested is fetched again.
        ({"range_shift": 7}, True, ["", "bytes=100000-", ""]),
    ],
)
def test_pieces_that_cannot_be_joined(
    site: Site, fetched: Fetch, page: dict[str, Any], is_known: bool, ranges: list[str]
) -> None:
    vars(site.put("/f.bin", CONTENT)).update(page, breaks=[100_000])
    assert fetched(known(site) if is_known else unknown(site)).sha256 == DIGEST
    assert site.ranges == ranges


@pytest.mark.parametrize("ignores_if_range", [False, True])
def test_versions_of_a_file_are_not_mixed(
    site: Site, fetched: Fetch, ignores_if_range: bool
) -> None:
    site.put("/f.bin", bytes(700_000)).breaks = [100_000, 0, 0, 0]
    with pytest.raises(UnreachableError):
        fetched(unknown(site))
    page = site.put("/f.bin", CONTENT)
    page.mark, page.ignores_if_range = '"v2"', ignores_if_range
    assert fetched(unknown(site)).sha256 == DIGEST


def test_a_partial_file_of_other_bytes_costs_one_more_request(
    site: Site, tmp_path: Path, target: Path, fetched: Fetch
) -> None:
    site.put("/f.bin", CONTENT)
    (tmp_path / "f.bin.part").write_bytes(bytes(1000))
    fetched(known(site))
    assert target.read_bytes() == CONTENT
    assert site.ranges == ["bytes=1000-", ""]


@pytest.mark.parametrize("extra", [0, 5])
def test_a_partial_file_that_is_complete_or_too_long(
    site: Site, tmp_path: Path, fetched: Fetch, extra: int
) -> None:
    site.put("/f.bin", CONTENT)
    (tmp_path / "f.bin.part").write_bytes(CONTENT + bytes(extra))
    part = PartialFile(tmp_path / "f.bin", site.at("/f.bin"))
    (tmp_path / "f.bin.part.version").write_text(f'{part.url}\n"v1"\n')
    assert fetched(unknown(site)).sha256 == DIGEST
    assert site.ranges == ([f"bytes={700_000 + extra}-"] + [""] * bool(extra))


def test_a_complete_partial_file_needs_no_request(site: Site, tmp_path: Path) -> None:
    (tmp_path / "f.bin.part").write_bytes(CONTENT)
    assert fetch(known(site), tmp_path / "f.bin").sha256 == DIGEST
    assert not site.asked


def test_a_silent_server_times_out(site: Site, target: Path, waits: Waits) -> None:
    page = site.put("/f.bin", CONTENT)
    page.breaks, page.stalls = [100_000], [0.6]
    fetch(known(site), target, patience=replace(waits.patience, timeout=0.2))
    assert site.ranges == ["", "bytes=100000-"]


def test_redirects_are_followed_with_the_range(site: Site, fetched: Fetch) -> None:
    site.put("/f.bin", CONTENT).breaks = [100_000]
    site.put("/old", b"").leads_to = site.at("/f.bin")
    fetched(known(site, "/old"))
    assert [path for path, _ in site.asked] == ["/old", "/f.bin"] * 2
    assert site.ranges[-1] == "bytes=100000-"


def test_two_processes_do_not_write_one_file(site: Site, target: Path) -> None:
    site.put("/f.bin", CONTENT)
    other = PartialFile(target, "")
    with other.locked(), pytest.raises(UnbagError, match="another process is fetching"):
        fetch(known(site), target)
    assert fetch(known(site), target).size == 700_000


def test_ctrl_c_saves_the_partial_file(
    site: Site, tmp_path: Path, target: Path, fetched: Fetch
) -> None:
    site.put("/f.bin", CONTENT)

    class Bar:
        steps = 0

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *error: object) -> None: ...

        def __call__(self, steps: int) -> None:
            self.steps += steps
            if self.steps > 200_000:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(known(site), target, task=lambda what, total: Bar())
    size = (tmp_path / "f.bin.part").stat().st_size
    assert size >= 200_000
    fetched(known(site))
    assert site.ranges == ["", f"bytes={size}-"]


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
    digest = sha256(ROWS.encode()).hexdigest()
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
            Download(site.at("/rows.json"), "mine/rows.json", digest, len(ROWS)),
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


def test_annotation_files_only(
    mine: Benchmark, site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert get(tmp_path) == 0
    printed = capsys.readouterr().out
    assert "licence:  CC0" in printed
    assert f"download  mine/rows.json ({len(ROWS)} B)" in printed
    assert "pets/val.zip (unknown size): only with --images" in printed
    assert f"1 file to download into {tmp_path} ({len(ROWS)} B)" in printed
    assert printed.index("1 file to download") < printed.index("downloaded mine/rows.json; sha256")
    assert "as published" in printed
    assert "3 items are readable" in printed
    assert printed.endswith("3 images are missing; --images downloads them\n")
    assert [path for path, _ in site.asked] == ["/rows.json"]


def test_images_are_downloaded_once(
    mine: Benchmark,
    site: Site,
    pets: bytes,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert get(tmp_path, "--images") == 0
    printed = capsys.readouterr().out
    assert "downloaded pets/val.zip, 3 files extracted to pets; sha256" in printed
    assert f"{sha256(pets).hexdigest()}, no published checksum to compare with" in printed
    assert printed.endswith("complete\n")
    assert sorted(p.name for p in (tmp_path / "pets").iterdir()) == ["val", "val.zip.contents"]
    asked = len(site.asked)
    assert get(tmp_path, "--images") == 0
    printed = capsys.readouterr().out
    assert f"0 files to download into {tmp_path} (0 B)" in printed
    assert "present   all images of mine" in printed
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
    printed = capsys.readouterr().out
    assert printed.count("by hand:  ask the author") == 2
    assert printed.endswith("3 images are missing\n")
    register(monkeypatch, replace(mine, downloads=()))
    assert get(tmp_path / "other") == 1
    printed = capsys.readouterr().out
    assert "no public download is known" in printed
    assert printed.endswith("1 of 1 files are missing\n")


def test_a_failed_download_does_not_stop_the_others(
    mine: Benchmark,
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    gone = Download(site.at("/gone"), "mine/extra.json")
    register(monkeypatch, replace(mine, downloads=(gone, *mine.downloads)))
    assert get(tmp_path, "--images") == 1
    printed = capsys.readouterr()
    assert "answered 404" in printed.err
    assert printed.out.endswith("complete\n")


def test_a_silent_host_is_tried_once(
    mine: Benchmark,
    tmp_path: Path,
    waits: Waits,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dead = tuple(Download(f"http://127.0.0.1:9/{i}", f"mine/{i}") for i in range(50))
    register(monkeypatch, replace(mine, downloads=(*dead, *mine.downloads)))
    assert get_data(["mine:BENCH"], tmp_path, images=False, patience=waits.patience) == 1
    printed = capsys.readouterr()
    assert len(waits.seconds) == 2
    assert printed.err.count("was skipped: 127.0.0.1:9 does not answer") == 49
    assert "and 39 more" in printed.out
    assert (tmp_path / "mine/rows.json").exists()


def test_ctrl_c_reports_partial_downloads(
    mine: Benchmark,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stopped(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("unbag.data.download.obtain", stopped)
    assert get(tmp_path) == 130
    assert "Partial downloads are saved" in capsys.readouterr().err


def test_a_damaged_archive_without_a_checksum(mine: Benchmark, site: Site, tmp_path: Path) -> None:
    good = site.pages["/val.zip"].content
    site.put("/val.zip", good[:-30])
    with pytest.raises(UnbagError, match="is damaged") as caught:
        obtain(mine.downloads[1], tmp_path)
    assert "it was removed" in caught.value.hint
    assert not list((tmp_path / "pets").glob("*.zip"))
    site.put("/val.zip", good)
    assert obtain(mine.downloads[1], tmp_path).members == 3


def test_a_damaged_list_of_members_is_ignored(mine: Benchmark, site: Site, tmp_path: Path) -> None:
    obtain(mine.downloads[1], tmp_path)
    for text in ("", "x", "sum\nurl\n", "sum\nurl\nmany\tval/0.png"):
        (tmp_path / "pets/val.zip.contents").write_text(text)
        assert not is_there(mine.downloads[1], tmp_path)
    assert not obtain(mine.downloads[1], tmp_path).was_there


def test_shared_images_are_downloaded_once(mine: Benchmark) -> None:
    other = replace(mine, name="other", downloads=mine.downloads[1:])
    assert required_downloads([mine, other], images=True) == mine.downloads
    assert required_downloads([mine, other], images=False) == mine.downloads[:1]
    moved = replace(other, downloads=(replace(mine.downloads[1], url="http://a/b"),))
    with pytest.raises(UnbagError, match="one source for each file"):
        required_downloads([mine, moved], images=True)


@pytest.mark.parametrize("name", ["", "/etc/x", "../x", "a/../../x", "C:x"])
def test_a_download_stays_inside_the_data_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnbagError, match="a path inside the data folder"):
        below(tmp_path, name)


def test_a_benchmark_that_generates_its_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "get", "world-swap", "--data", str(tmp_path)]) == 0
    assert "world-swap generates its own data" in capsys.readouterr().out
