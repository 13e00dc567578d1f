"""Find benchmarks by name: registered ones, families of them, and package.module:NAME."""

from __future__ import annotations

from collections.abc import Sequence

from unbag.errors import UnbagError
from unbag.registry import find, names
from unbag.types import Benchmark


def benchmark(name: str) -> Benchmark:
    """A registered benchmark or package.module:NAME, with an optional order_free: or two_way:."""
    kind, _, rest = name.partition(":")
    if kind == "order_free" and rest:
        from unbag.benchmarks.retrieval import order_free

        return order_free(benchmark(rest))
    if kind == "two_way" and rest:
        from unbag.benchmarks.whatsup import two_way

        return two_way(benchmark(rest))
    value = find("benchmark", name)
    if not isinstance(value, Benchmark):
        raise UnbagError(
            f"the benchmark {name!r} is a {type(value).__name__}",
            expected="a value of unbag.types.Benchmark",
        )
    return value


def find_benchmarks(requested: Sequence[str]) -> list[Benchmark]:
    """The benchmarks of all names; a family (`world`) stands for all its members (world-*)."""
    known = names("benchmark")
    benchmarks: dict[str, Benchmark] = {}
    for name in requested:
        family = [
            known_name for known_name in known if known_name.startswith((f"{name}-", f"{name}_"))
        ]
        for member in [name] if name in known or not family else family:
            value = benchmark(member)
            benchmarks[value.name] = value
    return list(benchmarks.values())
