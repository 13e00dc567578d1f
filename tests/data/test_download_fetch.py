"""Fetching one file from a server that behaves in every way servers do."""

from __future__ import annotations

import random
import shutil
from collections import namedtuple
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from unbag.data.archives import readable
from unbag.data.download import UnreachableError, fetch, matches
from unbag.data.http import _Redirects
from unbag.errors import UnbagError
from unbag.types import Download

if TYPE_CHECKING:
    from tests.data.conftest import Site, Waits

CONTENT = random.Random(0).randbytes(700_000)
DIGEST = sha256(CONTENT).hexdigest()


def known(site: Site, path: str = "/f.bin") -> Download:
    return Download(site.at(path), "f.bin", DIGEST, len(CONTENT))


def unknown(site: Site) -> Download:
    return Download(site.at("/f.bin"), "f.bin")


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_fetched_checked_and_named(site: Site, tmp_path: Path, waits: Waits) -> None:
    site.put("/f.bin", CONTENT)
    got = fetch(known(site), tmp_path / "deep/f.bin", patience=waits.patience)
    assert got.path.read_bytes() == CONTENT
    assert (got.sha256, got.size, got.was_there) == (DIGEST, 700_000, False)
    assert leftovers(tmp_path / "deep") == ["f.bin"]
    again = fetch(known(site), tmp_path / "deep/f.bin")
    assert again.was_there
    assert len(site.asked) == 1


def test_an_empty_file_is_a_file(site: Site, tmp_path: Path) -> None:
    site.put("/f.bin", b"")
    assert fetch(unknown(site), tmp_path / "f.bin").size == 0
    assert leftovers(tmp_path) == ["f.bin"]


def test_wrong_bytes_are_removed_and_said(site: Site, tmp_path: Path, waits: Waits) -> None:
    wrong = bytes(700_000)
    site.put("/f.bin", wrong)
    with pytest.raises(UnbagError) as caught:
        fetch(known(site), tmp_path / "f.bin", patience=waits.patience)
    assert f"gave a wrong file of 700,000 bytes: sha256 {sha256(wrong).hexdigest()}" in str(
        caught.value
    )
    assert caught.value.expected == f"700,000 bytes, sha256 {DIGEST}"
    assert "it was removed" in caught.value.hint
    assert leftovers(tmp_path) == []


def test_another_size_is_said_before_anything_comes(site: Site, tmp_path: Path) -> None:
    site.put("/f.bin", CONTENT + b"more")
    with pytest.raises(UnbagError, match="has 700,004 bytes now"):
        fetch(known(site), tmp_path / "f.bin")
    assert leftovers(tmp_path) == []


def test_a_file_of_the_user_is_never_replaced(site: Site, tmp_path: Path) -> None:
    (tmp_path / "f.bin").write_bytes(b"an earlier release")
    with pytest.raises(UnbagError) as caught:
        fetch(known(site), tmp_path / "f.bin")
    assert "is there and is not the file at" in caught.value.message
    assert sha256(b"an earlier release").hexdigest() in caught.value.message
    assert "move it away" in caught.value.hint
    assert (tmp_path / "f.bin").read_bytes() == b"an earlier release"
    assert not site.asked
    assert fetch(unknown(site), tmp_path / "f.bin").was_there


@pytest.mark.parametrize("length", [-1, 800_000, 600_000])
def test_a_length_that_lies(site: Site, tmp_path: Path, waits: Waits, length: int) -> None:
    site.put("/f.bin", CONTENT).length = length
    bare = Download(site.at("/f.bin"), "f.bin", DIGEST)
    if length == -1:
        assert fetch(bare, tmp_path / "f.bin", patience=waits.patience).size == 700_000
    elif length == 800_000:
        # The rest that is promised does not exist: asked for, it is beyond the end.
        assert fetch(bare, tmp_path / "f.bin", patience=waits.patience).size == 700_000
    else:
        with pytest.raises(UnbagError, match="wrong file of 600,000 bytes"):
            fetch(bare, tmp_path / "f.bin", patience=waits.patience)


def test_a_body_without_end_is_cut_at_the_known_size(
    site: Site, tmp_path: Path, waits: Waits
) -> None:
    page = site.put("/f.bin", CONTENT * 2)
    page.length = -1
    with pytest.raises(UnbagError, match="gave a wrong file"):
        fetch(known(site), tmp_path / "f.bin", patience=waits.patience)


def test_a_busy_server_is_waited_for(site: Site, tmp_path: Path, waits: Waits) -> None:
    page = site.put("/f.bin", CONTENT)
    page.refusals = [(503, {"Retry-After": "7"}), (429, {"Retry-After": "9999"})]
    fetch(known(site), tmp_path / "f.bin", patience=waits.patience)
    assert waits.seconds == [7.0, 120.0]


def test_a_server_that_stays_busy(site: Site, tmp_path: Path, waits: Waits) -> None:
    site.put("/f.bin", CONTENT).refusals = [(503, {})] * 3
    with pytest.raises(
        UnreachableError, match="answered 503 Service Unavailable, 3 times"
    ) as caught:
        fetch(known(site), tmp_path / "f.bin", patience=waits.patience)
    assert caught.value.hint == "run this again later"
    assert leftovers(tmp_path) == []


def test_a_missing_page_is_not_asked_for_twice(site: Site, tmp_path: Path) -> None:
    with pytest.raises(UnbagError) as caught:
        fetch(known(site, "/gone"), tmp_path / "f.bin")
    assert "answered 404 Not Found" in caught.value.message
    assert "it may have moved or want an account" in caught.value.hint
    assert len(site.asked) == 1


def test_nobody_listens(tmp_path: Path, waits: Waits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(UnreachableError, match="the server cannot be reached"):
        fetch(Download("http://127.0.0.1:9/f", "f"), tmp_path / "f", patience=waits.patience)


def test_proxies_are_those_of_the_environment(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv("http_proxy", site.address)
    site.put("http://data.example/f.bin", CONTENT)
    download = Download("http://data.example/f.bin", "f.bin", DIGEST)
    assert fetch(download, tmp_path / "f.bin").sha256 == DIGEST


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/f", "f.bin"])
def test_only_the_web_is_asked(site: Site, tmp_path: Path, url: str) -> None:
    with pytest.raises(UnbagError, match="cannot be fetched"):
        fetch(Download(url, "f"), tmp_path / "f")
    site.put("/f.bin", b"").leads_to = url if ":" in url else "file:///f"
    with pytest.raises(UnbagError, match=r"cannot be fetched|is not allowed"):
        fetch(unknown(site), tmp_path / "f")
    assert leftovers(tmp_path) == []


def test_no_way_back_from_https_to_http() -> None:
    from http.client import HTTPMessage
    from io import BytesIO
    from urllib.request import Request

    with pytest.raises(UnbagError, match="an address that stays encrypted") as caught:
        _Redirects().redirect_request(
            Request("https://a.example/f"),
            BytesIO(),
            302,
            "",
            HTTPMessage(),
            "http://a.example/f",
        )
    assert "leads to http://a.example/f" in caught.value.message


@pytest.mark.parametrize(
    ("kind", "encoding", "says"),
    [
        ("text/html; charset=utf-8", "", "answered with a web page"),
        ("text/plain", "gzip", "is sent as gzip, which was not asked for"),
    ],
)
def test_something_else_than_the_file(
    site: Site, tmp_path: Path, kind: str, encoding: str, says: str
) -> None:
    page = site.put("/f.bin", CONTENT)
    page.kind, page.encoding = kind, encoding
    with pytest.raises(UnbagError, match=says):
        fetch(unknown(site), tmp_path / "f.bin")
    assert leftovers(tmp_path) == []


def test_a_full_disk_is_seen_first(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.put("/f.bin", CONTENT)
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(1000))
    with pytest.raises(UnbagError, match=r"needs 700\.0 kB more, and .* has 1\.0 kB free"):
        fetch(known(site), tmp_path / "f.bin")


def test_a_folder_that_cannot_be_made(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnbagError, match="cannot write"):
        fetch(known(site), tmp_path / "file" / "f.bin")


def test_matches_reads_no_bytes_of_another_size(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    assert not matches(Download("http://a", "f", DIGEST, 4), tmp_path / "f")
    assert matches(Download("http://a", "f", "", 3), tmp_path / "f")
    assert not matches(Download("http://a", "f", DIGEST, 3), tmp_path / "f")


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (815_585_330, "815.6 MB"),
     (999_960, "1.0 MB"), (2 * 10**15, "2000.0 TB")],
)  # fmt: skip
def test_sizes_as_people_read_them(size: int, text: str) -> None:
    assert readable(size) == text
