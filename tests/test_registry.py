"""Names: built-in ones, a plug-in's from real entry points on disk, and package.module:NAME."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from unbag import registry
from unbag.errors import UnbagError
from unbag.registry import PLURALS, find, names
from unbag.types import Benchmark

PLUGIN = """\
from unbag.types import Benchmark
MINE = Benchmark(name="mine", about="mine", load=lambda root: [], metrics=(), headline="accuracy")
def model(rest, *, device): return (rest, device)
def scorer(model): return model
def edit(caption): return caption
def loss(embedded): return 0
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed distribution with entry points, made of real files."""
    (tmp_path / "unbag_plugin.py").write_text(PLUGIN)
    info = tmp_path / "unbag_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: unbag-plugin\nVersion: 1.0\n")
    points = {"benchmark": "MINE", "model": "model", "scorer": "scorer", "edit": "edit"}
    lines = [f"[unbag.{kind}s]\nmy-{kind} = unbag_plugin:{to}\n" for kind, to in points.items()]
    lines.append("[unbag.losses]\nmy-loss = unbag_plugin:loss\n")
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._plugins.cache_clear()
    yield info
    registry._plugins.cache_clear()
    sys.modules.pop("unbag_plugin", None)


@pytest.mark.parametrize("kind", ["benchmark", "model", "scorer", "edit", "loss"])
def test_a_plugin_adds_to_every_kind(plugin: Path, kind: registry.Kind) -> None:
    entry = names(kind)[f"my-{kind}"]
    assert (entry.origin, entry.target.partition(":")[0]) == ("unbag-plugin", "unbag_plugin")
    assert find(kind, f"my-{kind}") is not None


def test_a_plugin_may_not_take_a_built_in_name(plugin: Path) -> None:
    (plugin / "entry_points.txt").write_text("[unbag.scorers]\ncosine = a:b\n")
    registry._plugins.cache_clear()
    with pytest.raises(
        UnbagError,
        match="unbag-plugin registers the scorer 'cosine', which unbag already registers",
    ):
        names("scorer")


def test_a_reference_works_wherever_a_name_does(plugin: Path) -> None:
    assert isinstance(find("benchmark", "unbag_plugin:MINE"), Benchmark)
    with pytest.raises(UnbagError, match="module 'unbag_plugin' has no 'NONE'"):
        find("benchmark", "unbag_plugin:NONE")


def test_a_reference_to_nowhere_is_an_unknown_name() -> None:
    with pytest.raises(UnbagError, match="unknown benchmark 'no_such_module:THING'"):
        find("benchmark", "no_such_module:THING")


def test_a_missing_package_of_a_plugin_is_named(plugin: Path) -> None:
    (plugin.parent / "unbag_needy.py").write_text("import package_that_is_not_there\n")
    with pytest.raises(UnbagError, match="needs the package 'package_that_is_not_there'"):
        find("loss", "unbag_needy:LOSS")


def test_unknown_names_offer_the_nearest() -> None:
    with pytest.raises(UnbagError, match="did you mean 'world-swap'"):
        find("benchmark", "world_swap")


def test_every_built_in_name_leads_somewhere_and_says_what_it_is() -> None:
    tables = registry._builtin_names()
    assert set(tables) <= set(PLURALS.values())
    for kind in PLURALS.values():
        ours = [entry for entry in names(kind).values() if entry.origin == "unbag"]
        assert [entry.name for entry in ours] == list(tables.get(kind, {}))
        assert len({entry.target for entry in ours}) == len(ours)
        for entry in ours:
            thing = find(kind, entry.name)
            says_itself = kind in ("benchmark", "edit")
            assert bool(entry.about) != says_itself
            assert entry.about or getattr(thing, "about", "")
