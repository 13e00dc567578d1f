"""A benchmark of sets comes in; the same with one item for each opposite pair goes out.

Free answers depend on what is asked. A set of What'sUp is asked about all four of its relations;
its published two-way numbers come from a question about two ("left or right?").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from unbag.errors import UserError
from unbag.metrics.pairs import TWO_WAY, Pairs
from unbag.published.every import published_for
from unbag.types import MICRO, Benchmark, Item, Loader, Published


@dataclass(frozen=True)
class TwoWay:
    """Loads sets and cuts them into pairs; those of one set stay one group."""

    load: Loader
    pairs: Mapping[str, tuple[int, int]]

    def __call__(self, root: Path | None) -> Sequence[Item]:
        """Two items a set of four."""
        return [
            _cut(item, name, at)
            for item in self.load(root)
            for name, at in self.pairs.items()
            if max(at) < len(item.pictures)
        ]


def two_way(benchmark: Benchmark) -> Benchmark:
    """Any benchmark whose pairs have names, one item a pair."""
    found = next((m for m in benchmark.metrics if isinstance(m, Pairs) and m.pairs), None)
    if found is None or not found.pairs:
        raise UserError(
            f"the benchmark {benchmark.name!r} has no sets with named pairs",
            expected="one such as whatsup_a or whatsup_b",
        )
    load = TwoWay(benchmark.load, found.pairs)
    errata = benchmark.errata
    return replace(
        benchmark,
        name=f"two_way:{benchmark.name}",
        load=load,
        metrics=(replace(found, pairs=None),),
        headline="pair",
        aggregates=(MICRO,),
        folder=benchmark.place if benchmark.files else "",
        published=_published(benchmark),
        size=len(found.pairs) * benchmark.size,
        errata=errata and replace(errata, load=replace(load, load=errata.load)),
    )


def _published(benchmark: Benchmark) -> tuple[Published, ...]:
    """Two-way numbers, with those that were asked about two and do not suit the sets."""
    both = dict.fromkeys((*benchmark.published, *published_for(benchmark.name)))
    return tuple(number for number in both if number.metric in TWO_WAY)


def _cut(item: Item, name: str, at: tuple[int, int]) -> Item:
    true_PC = np.asarray(item.truth, dtype=np.bool_)
    own = [int(np.argmax(true_PC[p])) for p in at]
    return replace(
        item,
        id=f"{item.id}/{name}",
        pictures=tuple(item.pictures[p] for p in at),
        captions=tuple(item.captions[c] for c in own),
        truth=np.eye(2, dtype=np.bool_),
        kinds=tuple(item.kinds[c] for c in own) if item.kinds else (),
        group=item.group or item.id,
        tags={**item.tags, "relation": name},
    )
