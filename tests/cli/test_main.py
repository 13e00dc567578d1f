"""The command line: processes, runs, reports, mistakes, and commands of plug-ins."""

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from unbag import registry
from unbag.benchmarks.names import find_benchmarks
from unbag.cli import main
from unbag.version import __version__

MODEL = """
class Quick:
    name, fingerprint, scoring, is_blind = "slow", "slow-1", "odd", False
    def score(self, queries):
        return [float(len(q.caption)) for q in queries]
QUICK = Quick()
NOT_A_MODEL = 3
"""
RUN = ["run", "--model", "caption:short", "--bench", "world", "--out", "x"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A researcher's own folder with a model in it."""
    (tmp_path / "cli_test_models.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def unbag(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "unbag", *arguments], capture_output=True, text=True, cwd=cwd
    )


def test_help_imports_nothing_slow() -> None:
    script = (
        "import sys, unbag\n"
        "from unbag.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "slow = {'torch', 'numpy', 'scipy', 'pyarrow', 'PIL', 'rich', 'jinja2', 'transformers',"
        " 'shtab', 'unbag_lab'}\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "first steps:" in done.stdout


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.strip() == f"unbag {__version__}"


@pytest.mark.parametrize("kind", ["benchmarks", "models", "scorers", "losses", "probes"])
def test_lists(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", kind]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all("  " in line for line in lines)


def test_an_empty_list_says_how_to_fill_it(capsys: pytest.CaptureFixture[str]) -> None:
    main(["list", "taggers"])
    assert "entry point group unbag.taggers" in capsys.readouterr().out


def test_a_family_is_all_its_members_once() -> None:
    found = [b.name for b in find_benchmarks(["world-swap", "world"])]
    assert found[0] == "world-swap"
    assert len(found) == len(set(found)) == 11


def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    done = unbag("demo", "--out", str(tmp_path / "demo"))
    assert done.returncode == 0, done.stderr
    assert "world-relation" in done.stdout
    heads = [line.split() for line in done.stdout.splitlines() if " benchmark " in line]
    names = [name for head in heads for name in head[1:-1]]
    assert names[:4] == ["tiny:base", "tiny:hard_negative", "tiny:random", "blind"]
    # In a narrow terminal the last name takes two lines.
    assert (names[4], names[-1]) == ("tiny:base", "(shipped)")
    assert "tiny:base+decoder" in done.stdout
    assert "tiny:base is above chance on 7 of 11" in done.stdout
    assert "tiny:hard_negative is above chance on 10 of 11" in done.stdout
    assert "caption:short never sees an image, and is above chance on no benchmark" in done.stdout
    changed = " ".join(done.stdout.split())
    assert "gained: world-relation 50.0 to 86.7, world-pairs-a 4.0 to 80.5;" in changed
    assert "lost: world-count 79.0 to 2.0;" in changed
    assert "no difference shown: world-swap 99.5 to 100.0" in changed
    assert (tmp_path / "demo/another-readout/report.html").is_file()
    assert done.stdout.splitlines()[-1] == f"report:  {tmp_path / 'demo' / 'report.html'}"
    page = (tmp_path / "demo/report.html").read_text()
    assert "<title>" in page
    for entry in json.loads((tmp_path / "demo/results.json").read_text()):
        assert {"benchmark", "scorer", "protocol", "aggregate", "overall", "by_tag"} <= set(entry)
        for estimate in entry["overall"].values():
            assert {"value", "low", "high", "n", "ties", "invalid", "unparsed", "chance"} <= set(
                estimate
            )
    assert "tiny:base: images: " in done.stderr


def test_run_and_reports_in_every_format(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["run", "--model", "cli_test_models:QUICK", "--bench", "world-swap", "--no-cache"]
    assert main([*run, "--out", "a"]) == 0
    assert main([*run, "--out", "b", "--ties", "half"]) == 0
    for form in ("html", "md", "csv", "json"):
        assert main(["report", "a", "b", "--out", f"both.{form}"]) == 0
        assert (here / f"both.{form}").stat().st_size > 200
    both = json.loads((here / "both.json").read_text())
    assert set(both) >= {"results", "references", "warnings", "problems", "comparisons"}
    assert {entry["run"] for entry in both["results"]} == {"a", "b"}
    capsys.readouterr()
    assert main(["report", "a"]) == 0
    assert "world-swap" in capsys.readouterr().out
    assert json.loads((here / "a/run.json").read_text())["record"]["command"] == (
        "unbag run --model cli_test_models:QUICK --bench world-swap --no-cache --out a"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*RUN, "--model", "tiny:bse"], "did you mean 'tiny:base'"),
        ([*RUN, "--bench", "wrld"], "unknown benchmark 'wrld'"),
        ([*RUN, "--model", "cli_test_models:NOT_A_MODEL"], "NOT_A_MODEL' is a int"),
        ([*RUN, "--out", "cli_test_models.py/x"], "cannot write to the folder of the evaluation"),
        ([*RUN, "--device", "no"], "the device 'no' cannot be used"),
        (["report", "nowhere"], "there is no folder nowhere"),
        (["report", ".", "--out", "x.pdf"], "the file extension '.pdf' of 'x.pdf' is not known"),
        (["report", "."], "has no run.json"),
    ],
)
def test_mistakes_are_reported_without_a_traceback(
    here: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(words) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("unbag: ")
    assert message in printed
    assert "Traceback" not in printed


def test_invalid_values_are_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_code:
        main(["run", "--model", "a", "--bench", "b", "--out", "c", "--batch-size", "0"])
    assert exit_code.value.code == 2
    assert "'0' is not a whole number above 0" in capsys.readouterr().err


def test_a_benchmark_that_cannot_be_measured_does_not_stop_the_others(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "cli_test_moody.py").write_text(
        "class M:\n"
        "    name, fingerprint, scoring, is_blind = 'moody', '1', 'odd', False\n"
        "    def score(self, queries):\n"
        "        return [float('nan') if ' and ' in q.caption else 1.0 for q in queries]\n"
        "M = M()\n"
    )
    words = ["run", "--model", "cli_test_moody:M", "--bench", "world-swap", "world-order"]
    assert main([*words, "--out", "x", "--no-cache"]) == 1
    printed = capsys.readouterr()
    assert "moody on world-swap: " in printed.err
    assert "--allow-invalid" in printed.err
    found = {
        (r["benchmark"], r["scorer"]) for r in json.loads((here / "x/results.json").read_text())
    }
    assert ("world-order", "moody") in found
    assert ("world-swap", "moody") not in found
    assert "results: x" in printed.out
    assert "moody on world-swap: " in json.loads((here / "x/problems.json").read_text())[0]
    assert "Not measured:" in (here / "x/report.html").read_text()
    assert main(["report", "x", "--out", "x.md"]) == 0
    assert "Not measured:" in (here / "x.md").read_text()


PLUGIN = """
def add(commands):
    commands.add_parser("count", help="x").add_argument("numbers", nargs="+", type=int)

def start(options):
    print(sum(options.numbers))
    return 3
"""


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """The only entry points there are."""
    registered: list[EntryPoint] = []

    def find(*, group: str, name: str | None = None) -> list[EntryPoint]:
        return [p for p in registered if p.group == group and name in (None, p.name)]

    monkeypatch.setattr(registry, "entry_points", find)
    registry.plugin_commands.cache_clear()
    yield registered
    registry.plugin_commands.cache_clear()


def test_the_study_is_listed_and_its_error_says_what_to_install(
    points: list[EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "show", "cone"]) == 1
    assert "pip install ./lab" in capsys.readouterr().err
    assert main([]) == 0
    assert "\n    lab " in capsys.readouterr().out


def test_a_plug_in_adds_a_command(
    points: list[EntryPoint],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "counting_plugin.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    points.append(EntryPoint("count", "counting_plugin", "unbag.commands"))
    assert main([]) == 0
    assert "counting_plugin" not in sys.modules
    assert "\n    count " in capsys.readouterr().out
    assert main(["count", "2", "5"]) == 3
    assert capsys.readouterr().out == "7\n"


@pytest.mark.parametrize(("name", "places"), [("run", ["nowhere"]), ("count", ["one", "two"])])
def test_a_command_is_registered_once(
    points: list[EntryPoint], capsys: pytest.CaptureFixture[str], name: str, places: list[str]
) -> None:
    points += [EntryPoint(name, place, "unbag.commands") for place in places]
    assert main(["list", "models"]) == 1
    assert f"registers the command {name!r}" in capsys.readouterr().err


def test_a_plug_in_that_cannot_run_is_named(
    points: list[EntryPoint],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "half_plugin.py").write_text("def add(commands): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    points += [
        EntryPoint("gone", "no_such_plugin.cli", "unbag.commands"),
        EntryPoint("half", "half_plugin", "unbag.commands"),
    ]
    assert main(["gone"]) == 1
    assert "the command 'gone' of a plug-in cannot be imported" in capsys.readouterr().err
    assert main(["half"]) == 1
    assert "half_plugin has no start()" in capsys.readouterr().err
