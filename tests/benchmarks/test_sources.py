"""Where benchmarks come from: every address, size and place is one that the loaders can use."""

import hashlib
import os
import re
import tarfile
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import unbag.benchmarks.sources
from unbag.benchmarks.vl_checklist import FILES as VL_CHECKLIST
from unbag.cli import main
from unbag.data.download import below, required_downloads
from unbag.registry import find, names
from unbag.types import Benchmark, Download

SHARED = Path(os.environ.get("UNBAG_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))


def from_files() -> list[Benchmark]:
    benchmarks = [find("benchmark", name) for name in names("benchmark")]
    return [
        benchmark
        for benchmark in benchmarks
        if isinstance(benchmark, Benchmark) and benchmark.files
    ]


BENCHMARKS = from_files()
DOWNLOADS = required_downloads(BENCHMARKS, images=True)


@pytest.mark.parametrize("download", DOWNLOADS, ids=lambda d: d.to)
def test_a_download_is_well_formed(download: Download, tmp_path: Path) -> None:
    parts = urlsplit(download.url)
    assert parts.scheme in ("http", "https")
    # Without encryption only what a checksum or the archive itself can tell from a forgery.
    assert parts.scheme == "https" or download.unpack
    assert " " not in download.url
    assert re.fullmatch(r"([0-9a-f]{64})?", download.sha256)
    assert download.size >= 0
    assert below(tmp_path, download.to).is_relative_to(tmp_path)
    if download.unpack:
        assert download.has_images
        assert download.to.endswith((".zip", ".tar", ".tar.gz"))
        assert below(tmp_path, download.unpack).is_relative_to(tmp_path)
    if "raw.githubusercontent.com" in download.url:
        commit = parts.path.split("/")[3]
        assert commit == "main" or re.fullmatch(r"[0-9a-f]{40}", commit)


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda b: b.name)
def test_files_that_are_fetched_are_files_that_are_read(benchmark: Benchmark) -> None:
    folder = benchmark.place
    fetched = {d.to for d in benchmark.downloads if not d.has_images}
    read = {f"{folder}/{file}" for file in benchmark.files}
    unread = {to for to in fetched if not any(fnmatch(to, file) for file in read)}
    assert unread <= {"winoground/new_tag_assignments.json"}
    read = {file for file in read if not any(fnmatch(to, file) for to in fetched)}
    # What is neither fetched nor explained would leave the user alone; an archive may hold it all.
    is_whole = any(download.unpack == folder for download in benchmark.downloads)
    if benchmark.downloads and read and not is_whole:
        assert benchmark.gated


def test_the_list_says_what_can_be_had(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "list"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "download files + images " in lines["sugarcrepe"]
    assert "download files, rest by hand" in lines["winoground"]
    assert "by hand" in lines["imagenet1k"]
    assert "download " not in lines["imagenet1k"]


def test_every_source_is_used_once_and_every_block_is_whole() -> None:
    path = Path(unbag.benchmarks.sources.__file__).with_suffix(".toml")
    sources = tomllib.loads(path.read_text(encoding="utf-8"))
    explained, described = sources.pop("by_hand"), sources.pop("benchmarks")
    order_free = {
        benchmark.name for benchmark in BENCHMARKS if benchmark.name.endswith("_order_free")
    }
    assert set(described) == {benchmark.name for benchmark in BENCHMARKS} - order_free
    known = {"url", "to", "size", "sha256", "unpack", "has_images", "files", "numbers"}
    blocks = [block for blocks_of_source in sources.values() for block in blocks_of_source]
    assert all({"url", "to"} <= set(block) <= known for block in blocks)
    for block in blocks:
        assert len({"files", "numbers", "size"} & set(block)) <= 1
        has_many = "files" in block or "numbers" in block
        assert block["url"].count("{}") == block["to"].count("{}") == has_many
        assert all(len(row) in (1, 3) for row in block.get("files", ()))
    fetched = {d.to for name in sources for d in unbag.benchmarks.sources.downloads(name)}
    assert fetched == {d.to for d in DOWNLOADS}
    gated = {benchmark.gated for benchmark in BENCHMARKS if benchmark.gated}
    assert set(explained.values()) == gated


def test_files_of_vl_checklist_are_fetched_or_named_as_missing() -> None:
    fetched = [d.to.removeprefix("vl_checklist/") for d in DOWNLOADS if "vl_checklist/" in d.to]
    missing = [file for file in VL_CHECKLIST if file not in fetched]
    assert [file for file in VL_CHECKLIST if file not in missing] == fetched
    gated = next(benchmark.gated for benchmark in BENCHMARKS if benchmark.name == "vl_checklist")
    assert gated.startswith(f"{len(missing)} of the {len(VL_CHECKLIST)} files (")
    assert all(file in gated for file in missing)


def test_checksums_are_those_of_the_official_files() -> None:
    archive = SHARED / "annotations.tar.gz"
    if not archive.exists():
        pytest.skip(f"no official annotation files at {archive}")
    known = {d.to: d for d in DOWNLOADS if d.sha256 and not d.unpack}
    moved = {f"{at}/coco_karpathy_test.json": "karpathy/coco_karpathy_test.json"
             for at in ("coco_retrieval", "aro_order_coco")}  # fmt: skip
    with tarfile.open(archive) as official:
        members = {name.removeprefix("./"): name for name in official.getnames()}
        for to, download in known.items():
            file = official.extractfile(members[moved.get(to, to)])
            assert file is not None
            content = file.read()
            assert len(content) == download.size, to
            assert hashlib.sha256(content).hexdigest() == download.sha256, to
    assert len(known) > 35
