"""`--config FILE`: options from a file, which the command line overrides; mistakes are named."""

import json
import sys
from pathlib import Path

import pytest

from unbag.cli import main
from unbag.cli.main import make_parser
from unbag.errors import UnbagError

RUN = """
model: [tiny:base, "tiny:random"]
bench: world-swap
out: runs/a
batch_size: 64
trained_on: [COCO train2014]
compile: true
allow_invalid: false
"""
TRAIN = """
model = "tiny:base"
recipe = "clip_ft"
pairs = "world"
out = "runs/b"
save_minutes = 5
caption_column = 2
[settings]
learning_rate = 1e-6
betas = [0.9, 0.95]
masks_equal = false
lora = { rank = 8, alpha = 2.0 }
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text(RUN)
    Path("train.toml").write_text(TRAIN)
    return tmp_path


def parse(*words: str) -> dict[str, object]:
    return vars(make_parser([]).parse_args(words))


def test_options_of_a_yaml_file() -> None:
    options = parse("run", "--config", "run.yaml")
    assert options["model"] == ["tiny:base", "tiny:random"]
    assert options["bench"] == ["world-swap"]
    assert options["out"] == Path("runs/a")
    assert options["batch_size"] == 64
    assert options["trained_on"] == ["COCO train2014"]
    assert options["compile"] is True
    assert options["allow_invalid"] is False
    assert options["blind"] == ["caption:short"]


def test_options_and_settings_of_a_toml_file() -> None:
    options = parse("train", "--config=train.toml")
    assert options["recipe"] == "clip_ft"
    assert options["save_minutes"] == 5.0
    assert options["caption_column"] == "2"
    assert options["set"] == [
        *("learning_rate=1e-06", "betas=(0.9,0.95,)", "masks_equal=false"),
        *("lora.rank=8", "lora.alpha=2.0"),
    ]


def test_settings_reach_the_recipe_and_the_command_line_overrides_them() -> None:
    from unbag.training.recipes import Lora, make_recipe

    options = parse("train", "--config", "train.toml", "--set", "lora.rank=2", "epochs=3")
    settings = options["set"]
    assert isinstance(settings, list)
    recipe = make_recipe("clip_ft", settings)
    assert recipe.learning_rate == 1e-6
    assert recipe.betas == (0.9, 0.95)
    assert recipe.masks_equal is False
    assert recipe.epochs == 3
    assert recipe.lora == Lora(rank=2, alpha=2.0)


def test_the_command_line_overrides_the_file() -> None:
    more = ("--model", "caption:short", "--batch-size=8", "--out", "c")
    options = parse("run", "--config", "run.yaml", *more)
    assert options["model"] == ["caption:short"]
    assert options["batch_size"] == 8
    assert options["out"] == Path("c")
    options = parse("train", "--config", "train.toml", "--readout", "dcsm")
    assert (options["recipe"], options["readout"]) == (None, "dcsm")


def test_yaml_numbers_without_a_point_are_settings_too() -> None:
    """YAML reads 1e-6 as text."""
    Path("train.yaml").write_text("recipe: clip_ft\nsettings: {learning_rate: 1e-6, clip_norm: }\n")
    more = ("--model", "tiny:base", "--pairs", "world", "--out", "x")
    assert parse("train", "--config", "train.yaml", *more)["set"] == [
        *("learning_rate=1e-6", "clip_norm=none")
    ]


def test_an_option_missing_in_both_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    Path("run.yaml").write_text("model: tiny:base\n")
    with pytest.raises(SystemExit):
        main(["run", "--config", "run.yaml", "--out", "x"])
    assert "the following arguments are required: --bench\n" in capsys.readouterr().err


def test_a_run_records_the_options_of_the_file(folder: Path) -> None:
    Path("run.yaml").write_text("model: caption:short\nbench: world-swap\nblind: none\n")
    assert main(["run", "--config", "run.yaml", "--out", "a", "--no-cache", "--seed", "1"]) == 0
    assert json.loads(Path("a/run.json").read_text())["record"]["command"] == (
        "unbag run --model caption:short --bench world-swap --blind none "
        "--out a --no-cache --seed 1"
    )


@pytest.mark.parametrize(
    ("text", "message", "expected"),
    [
        ("batchsize: 3", "run.yaml: unknown key 'batchsize'", "did you mean 'batch_size' or"),
        ("batch: 3", "run.yaml: the key 'batch'", "batch is now batch_size"),
        ("batch_size: big", "run.yaml: batch_size: 'big'", "a number"),
        ("batch_size: 0", "run.yaml: batch_size: 0", "a number"),
        ("batch_size: [1, 2]", "run.yaml: batch_size: [1, 2]", "a number"),
        ("batch_size: true", "run.yaml: batch_size: True", "a number"),
        ("seed: 1.5", "run.yaml: seed: 1.5", "a number"),
        ("out: 5", "run.yaml: out: 5", "the path of a file or folder"),
        ("compile: 1", "run.yaml: compile: 1", "true or false"),
        ("ties: best", "run.yaml: ties: 'best'", "one of wrong, half"),
        ("model: []", "run.yaml: model: []", "at least one value"),
        ("model: [[a]]", "run.yaml: model: [['a']]", "text, or a list of such"),
        ("settings: {a: 1}", "run.yaml: unknown key 'settings'", "did you mean"),
        ("- model", "the config file run.yaml contains no mapping of options", "batch_size: 64"),
        ("model: [", "the config file run.yaml is not YAML: ", ""),
        ("model: \xff", "the config file run.yaml cannot be read", ""),
    ],
)
def test_mistakes_in_a_file_are_named(
    text: str, message: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("run.yaml").write_bytes(text.encode("latin-1"))
    assert main(["run", "--config", "run.yaml"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"unbag: {message}")
    assert expected in printed
    if "key" in message:
        assert "known keys: model, bench, data, out, scorer, " in printed


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("nowhere.yaml", None, "there is no config file nowhere.yaml"),
        ("run.ini", "", "the config file run.ini has the extension '.ini'"),
        ("bad.toml", "model =", "the config file bad.toml is not TOML: "),
        ("both.toml", 'recipe = "a"\nreadout = "b"', "both.toml: recipe and readout"),
        ("s.toml", "settings = 3", "s.toml: settings: 3"),
    ],
)
def test_files_that_cannot_be_used(
    name: str, text: str | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        Path(name).write_text(text)
    assert main(["train", "--config", name]) == 1
    assert capsys.readouterr().err.startswith(f"unbag: {message}")


def test_without_pyyaml_the_hint_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(UnbagError, match="PyYAML is not installed") as caught:
        parse("run", "--config", "run.yaml")
    assert caught.value.hint == "pip install pyyaml, or write the file as TOML"


@pytest.mark.parametrize("command", ["edit", "run", "diagnose", "train"])
def test_commands_with_a_config_file(command: str) -> None:
    Path("empty.yaml").write_text("# nothing\n")
    with pytest.raises(SystemExit) as ended:
        main([command, "--config", "empty.yaml", "--help"])
    assert ended.value.code == 0
