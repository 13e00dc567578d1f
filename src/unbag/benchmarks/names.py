"""Benchmarks by name: registered ones, families of them, and package.module:NAME."""

from __future__ import annotations

from collections.abc import Sequence

from unbag.errors import UnbagError
from unbag.registry import find, names
from unbag.types import Benchmark


def benchmark(name: str) -> Benchmark:
    """A registered benchmark, package.module:NAME, or order_free: or two_way: before it."""
    kind, _, rest = name.partition(":")
    if kind == "order_free" and rest:
        from unbag.benchmarks.retrieval import order_free

        return order_free(benchmark(rest))
    if kind == "two_way" and rest:
        from unbag.benchmarks.whatsup import two_way

        return two_way(benchmark(rest))
    found = find("benchmark", name)
    if not isinstance(found, Benchmark):
        raise UnbagError(
            f"the benchmark {name!r} is a {type(found).__name__}",
            expected="a value of unbag.types.Benchmark",
        )
    return found


def find_benchmarks(asked: Sequence[str]) -> list[Benchmark]:
    """Each name, each family (`world` is every world-*), each package.module:NAME, once."""
    known = names("benchmark")
    found: dict[str, Benchmark] = {}
    for name in asked:
        family = [k for k in known if k.startswith((f"{name}-", f"{name}_"))]
        for one in [name] if name in known or not family else family:
            thing = benchmark(one)
            found[thing.name] = thing
    return list(found.values())
