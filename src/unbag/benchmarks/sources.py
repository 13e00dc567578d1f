"""What benchmarks are, where their public files lie and what is fetched by hand: sources.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from unbag.published.lookup import published_for
from unbag.types import Download


def described(name: str) -> dict[str, Any]:
    """The fields of a `Benchmark` that sources.toml has, and its published numbers."""
    block = _sources()["benchmarks"][name]
    return {
        **block,
        "name": name,
        "sources": tuple(block["sources"]),
        "downloads": downloads(*block.get("downloads", ())),
        "gated": by_hand(block["gated"]) if "gated" in block else "",
        "published": published_for(name),
    }


def downloads(*names: str) -> tuple[Download, ...]:
    """The files of these benchmarks or shared collections, in this order."""
    return tuple(one for name in names for block in _sources()[name] for one in _files(block))


def by_hand(name: str) -> str:
    """What the user has to fetch for a benchmark, in words."""
    return str(_sources()["by_hand"][name])


@cache
def _sources() -> Mapping[str, Any]:
    path = Path(__file__).with_suffix(".toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _files(block: Mapping[str, Any]) -> Iterator[Download]:
    """One file, or one for each name that takes the place of {}."""
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
