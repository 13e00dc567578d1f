"""Going on with a file after a stop: what is joined, what is fetched anew, what is kept."""

from __future__ import annotations

import random
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from unbag.data.download import PartialFile, UnreachableError, fetch
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


def test_it_goes_on_where_the_connection_broke(site: Site, tmp_path: Path, waits: Waits) -> None:
    site.put("/f.bin", CONTENT).breaks = [100_000, 250_000]
    fetch(known(site), tmp_path / "f.bin", patience=waits.patience)
    assert (tmp_path / "f.bin").read_bytes() == CONTENT
    assert site.ranges == ["", "bytes=100000-", "bytes=350000-"]
    assert site.asked[1][1]["If-Range"] == '"v1"'
    assert waits.seconds == [1.0, 1.0]


def test_a_later_call_goes_on_too(site: Site, tmp_path: Path, waits: Waits) -> None:
    page = site.put("/f.bin", CONTENT)
    page.breaks = [100_000, 0, 0, 0]
    with pytest.raises(UnreachableError) as caught:
        fetch(unknown(site), tmp_path / "f.bin", patience=waits.patience)
    assert "the connection ended after 100,000 of 700,000 bytes, 3 times" in caught.value.message
    assert f"100.0 kB are kept in {tmp_path / 'f.bin.part'}" in caught.value.hint
    assert leftovers(tmp_path) == ["f.bin.part", "f.bin.part.version"]
    assert waits.seconds == [1.0, 1.0, 2.0]
    got = fetch(unknown(site), tmp_path / "f.bin", patience=waits.patience)
    assert got.sha256 == DIGEST
    assert site.ranges[-1] == "bytes=100000-"
    assert leftovers(tmp_path) == ["f.bin"]


def test_a_server_without_ranges_sends_all_again(site: Site, tmp_path: Path, waits: Waits) -> None:
    page = site.put("/f.bin", CONTENT)
    page.has_ranges, page.breaks = False, [100_000]
    fetch(known(site), tmp_path / "f.bin", patience=waits.patience)
    assert (tmp_path / "f.bin").read_bytes() == CONTENT
    assert site.ranges == ["", "bytes=100000-"]


def test_without_a_mark_or_checksum_nothing_is_joined(
    site: Site, tmp_path: Path, waits: Waits
) -> None:
    page = site.put("/f.bin", CONTENT)
    page.mark, page.breaks = "", [100_000]
    assert fetch(unknown(site), tmp_path / "f.bin", patience=waits.patience).sha256 == DIGEST
    assert site.ranges == ["", ""]


def test_a_weak_mark_is_none(site: Site, tmp_path: Path, waits: Waits) -> None:
    page = site.put("/f.bin", CONTENT)
    page.mark, page.breaks = 'W/"v1"', [100_000]
    assert fetch(unknown(site), tmp_path / "f.bin", patience=waits.patience).sha256 == DIGEST
    assert site.ranges == ["", ""]


@pytest.mark.parametrize("ignores_if_range", [False, True])
def test_a_file_that_changed_in_between_is_not_mixed(
    site: Site, tmp_path: Path, waits: Waits, ignores_if_range: bool
) -> None:
    site.put("/f.bin", bytes(700_000)).breaks = [100_000, 0, 0, 0]
    with pytest.raises(UnreachableError):
        fetch(unknown(site), tmp_path / "f.bin", patience=waits.patience)
    page = site.put("/f.bin", CONTENT)
    page.mark, page.ignores_if_range = '"v2"', ignores_if_range
    assert fetch(unknown(site), tmp_path / "f.bin", patience=waits.patience).sha256 == DIGEST


def test_a_wrong_range_is_not_believed(site: Site, tmp_path: Path, waits: Waits) -> None:
    page = site.put("/f.bin", CONTENT)
    page.breaks, page.range_shift = [100_000], 7
    assert fetch(known(site), tmp_path / "f.bin", patience=waits.patience).sha256 == DIGEST
    assert site.ranges == ["", "bytes=100000-", ""]


def test_an_old_part_of_other_bytes_costs_one_more_try(
    site: Site, tmp_path: Path, waits: Waits
) -> None:
    site.put("/f.bin", CONTENT)
    (tmp_path / "f.bin.part").write_bytes(bytes(1000))
    fetch(known(site), tmp_path / "f.bin", patience=waits.patience)
    assert (tmp_path / "f.bin").read_bytes() == CONTENT
    assert site.ranges == ["bytes=1000-", ""]


@pytest.mark.parametrize("extra", [0, 5])
def test_a_part_that_is_whole_or_too_long(
    site: Site, tmp_path: Path, waits: Waits, extra: int
) -> None:
    site.put("/f.bin", CONTENT)
    (tmp_path / "f.bin.part").write_bytes(CONTENT + bytes(extra))
    part = PartialFile(tmp_path / "f.bin", site.at("/f.bin"))
    (tmp_path / "f.bin.part.version").write_text(f'{part.url}\n"v1"\n')
    assert fetch(unknown(site), tmp_path / "f.bin", patience=waits.patience).sha256 == DIGEST
    assert site.ranges == ([f"bytes={700_000 + extra}-"] + [""] * bool(extra))


def test_a_whole_part_of_a_known_file_is_not_asked_for(site: Site, tmp_path: Path) -> None:
    (tmp_path / "f.bin.part").write_bytes(CONTENT)
    assert fetch(known(site), tmp_path / "f.bin").sha256 == DIGEST
    assert not site.asked


def test_a_silent_server_is_left(site: Site, tmp_path: Path, waits: Waits) -> None:
    page = site.put("/f.bin", CONTENT)
    page.breaks, page.stalls = [100_000], [0.6]
    fetch(known(site), tmp_path / "f.bin", patience=replace(waits.patience, timeout=0.2))
    assert site.ranges == ["", "bytes=100000-"]


def test_redirects_are_followed_with_the_range(site: Site, tmp_path: Path, waits: Waits) -> None:
    site.put("/f.bin", CONTENT).breaks = [100_000]
    site.put("/old", b"").leads_to = site.at("/f.bin")
    fetch(known(site, "/old"), tmp_path / "f.bin", patience=waits.patience)
    assert [path for path, _ in site.asked] == ["/old", "/f.bin"] * 2
    assert site.ranges[-1] == "bytes=100000-"


def test_two_processes_do_not_write_one_part(site: Site, tmp_path: Path) -> None:
    site.put("/f.bin", CONTENT)
    other = PartialFile(tmp_path / "f.bin", "")
    with other.locked(), pytest.raises(UnbagError, match="another process is fetching"):
        fetch(known(site), tmp_path / "f.bin")
    assert fetch(known(site), tmp_path / "f.bin").size == 700_000


def test_ctrl_c_keeps_the_part(site: Site, tmp_path: Path, waits: Waits) -> None:
    site.put("/f.bin", CONTENT)
    seen = 0

    class Bar:
        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *error: object) -> None: ...

        def __call__(self, steps: int) -> None:
            nonlocal seen
            seen += steps
            if seen > 200_000:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(known(site), tmp_path / "f.bin", task=lambda what, total: Bar())
    kept = (tmp_path / "f.bin.part").stat().st_size
    assert kept >= 200_000
    fetch(known(site), tmp_path / "f.bin", patience=waits.patience)
    assert site.ranges == ["", f"bytes={kept}-"]
