"""Read sources.toml: descriptions of benchmarks, download URLs and manual download steps."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from unbag.published.lookup import published_for
from unbag.types import Download


def benchmark_fields(name: str) -> dict[str, Any]:
    """The `Benchmark` fields that sources.toml defines, and the published numbers."""
    block = _sources()["benchmarks"][name]
    return {
        **block,
        "name": name,
        "sources": tuple(block["sources"]),
        "downloads": downloads(*block.get("downloads", ())),
        "gated": manual_download(block["gated"]) if "gated" in block else "",
        "published": published_for(name),
    }


def downloads(*names: str) -> tuple[Download, ...]:
    """The files of benchmarks or shared collections, in this order."""
    return tuple(file for name in names for block in _sources()[name] for file in _files(block))


def manual_download(name: str) -> str:
    """Instructions for the files of a benchmark that users must download themselves."""
    return str(_sources()["by_hand"][name])


@cache
def _sources() -> Mapping[str, Any]:
    path = Path(__file__).with_suffix(".toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _files(block: Mapping[str, Any]) -> Iterator[Download]:
    """One file, or one for each name that replaces {}."""
    common = {key: block[key] for key in ("unpack", "has_images") if key in block}
    url, to = block["url"], block["to"]
    rows: list[Any]
    if "numbers" in block:
        first, last = block["numbers"]
        rows = [[str(number)] for number in range(first, last + 1)]
    else:
        rows = block.get("files") or [["", block.get("size", 0), block.get("sha256", "")]]
    for row in rows:
        name, size, sha256 = row if len(row) == 3 else (*row, 0, "")
        yield Download(url.replace("{}", name), to.replace("{}", name), sha256, size, **common)
