"""A read-out trained on frozen parts: folder, card, resuming, and what is refused on the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor

from unbag.api import make_scorers
from unbag.cli import main
from unbag.errors import UnbagError
from unbag.models.tiny import Tiny, load
from unbag.readouts import training as reader_training
from unbag.readouts.base import ReadoutTrained, find_readout, train_readout
from unbag.readouts.reader import FILE, read_head
from unbag.readouts.training import CARD, encoder_of
from unbag.runs.checkpoint import LAST
from unbag.runs.progress import Silent

from .core_encoder import rows, small

FEW = ("steps=6", "scenes=40", "batch_size=8", "width=8", "warmup_steps=1")


def trained(
    out: Path, encoder: Tiny, *, settings: tuple[str, ...] = FEW, name: str = "pooled",
    pairs: str = "world", progress: Silent | None = None, seed: int = 0,
) -> ReadoutTrained:  # fmt: skip
    return train_readout(
        name, encoder, pairs, out, spec="tiny:base", settings=settings, progress=progress, seed=seed
    )


def state(folder: Path) -> dict[str, Tensor]:
    return read_head(folder / FILE)[1]


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def test_a_reader_is_trained_while_the_encoder_keeps_every_bit(tmp_path: Path) -> None:
    encoder = load("base")
    before = {name: value.clone() for name, value in encoder.network.state_dict().items()}
    fingerprint = encoder.fingerprint
    found = trained(tmp_path, encoder)
    assert found.is_done
    after = encoder.network.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert load("base").fingerprint == fingerprint
    assert {path.name for path in tmp_path.iterdir()} >= {FILE, LAST, CARD}
    head, _ = read_head(tmp_path / FILE)
    assert (head.readout, head.encoder, head.fingerprint) == ("pooled", "tiny:base", fingerprint)
    assert head.settings["steps"] == 6
    card = (tmp_path / CARD).read_text()
    assert "Trained on 36 rows, 4 held out; seed 0" in card
    assert "| scenes | 40 |" in card
    assert f"fingerprint {fingerprint}" in card
    assert found.lines[-1] == f"score with: unbag run --model tiny:base --scorer pooled@{tmp_path}"
    assert found.lines[0].startswith("captions above all their hard negatives: ")
    (scorer,) = make_scorers(encoder, f"pooled@{tmp_path}")
    assert (scorer.name, scorer.scoring) == ("tiny:base+pooled", "pooled")


def test_another_run_in_the_same_folder_is_refused_saying_what_differs(tmp_path: Path) -> None:
    encoder = load("base")
    trained(tmp_path, encoder)
    with pytest.raises(UnbagError, match=r"settings\.steps: 6 before, 7 now"):
        trained(tmp_path, encoder, settings=(*FEW[1:], "steps=7"))
    with pytest.raises(UnbagError, match=r"seed: 0 before, 1"):
        trained(tmp_path, encoder, seed=1)
    counting = small()
    with pytest.raises(UnbagError, match=r"model_fingerprint: .* before"):
        trained(tmp_path, counting)
    assert counting.images_seen == 0


def test_files_of_somebody_else_are_refused_before_anything_is_computed(tmp_path: Path) -> None:
    encoder = small()
    (tmp_path / CARD).write_text("mine")
    # A checkpoint without a record of its run is no sign of ours.
    for name in (CARD, LAST):
        (tmp_path / name).write_text("mine")
        with pytest.raises(UnbagError) as caught:
            trained(tmp_path, encoder)
        assert (
            caught.value.message == f"the folder {tmp_path} is not empty and holds no training run"
        )
        assert caught.value.hint == "name another folder with --out"
    assert {path.name for path in tmp_path.iterdir()} == {CARD, LAST}
    assert encoder.images_seen == 0
    assert (tmp_path / CARD).read_text() == "mine"


def test_settings_are_told_before_anything_is_computed(tmp_path: Path) -> None:
    encoder = small()
    with pytest.raises(UnbagError) as caught:
        trained(tmp_path / "a", encoder, settings=("stepz=3",))
    assert caught.value.message == "unknown setting 'stepz'"
    assert "steps" in caught.value.expected
    assert caught.value.hint.startswith("settings of pooled: steps, batch_size, contrast_size")
    with pytest.raises(UnbagError, match="steps=0"):
        trained(tmp_path / "a", encoder, settings=("steps=0",))
    with pytest.raises(UnbagError, match="steps"):
        trained(tmp_path / "a", encoder, settings=("steps=many",))
    assert encoder.images_seen == 0
    assert not (tmp_path / "a").exists()


def pairs_file(folder: Path) -> str:
    lines = []
    for at, row in enumerate(rows()):
        Image.fromarray(row.image.pixels).save(folder / f"{at}.png")  # type: ignore[attr-defined]
        lines.append({"image": f"{at}.png", "caption": row.caption})
    path = folder / "pairs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def test_pairs_of_a_user_without_edits_teach_no_order_and_say_so(tmp_path: Path) -> None:
    progress = Silent()
    path = pairs_file(tmp_path)
    settings = ("steps=3", "batch_size=6", "width=8", "warmup_steps=1")
    found = trained(tmp_path / "a", small(), settings=settings, pairs=path, progress=progress)
    assert found.is_done
    assert any(line.startswith("the pairs have no edits") for line in progress.said)
    assert "no accuracy was measured" in (tmp_path / "a" / CARD).read_text()
    assert len(found.lines) == 2


def test_a_read_out_that_is_no_read_out_is_refused() -> None:
    with pytest.raises(UnbagError) as caught:
        find_readout("unbag.readouts.pooled:Pooled")
    assert caught.value.expected == "name, train(job, progress=...) and scorers(model, folder)"
    with pytest.raises(UnbagError, match="unknown readout 'pooledd'"):
        find_readout("pooledd")


def cli(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 1
    return capsys.readouterr().err


def test_what_the_command_line_says_of_wrong_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ("run", "--model", "tiny:base", "--bench", "world-swap", "--out", str(tmp_path / "run"))
    said = cli(capsys, *run, "--scorer", "pooled")
    assert "needs a trained reader, and no folder is named" in said
    assert "--scorer pooled@FOLDER" in said
    said = cli(capsys, *run, "--scorer", f"pooled@{tmp_path / 'missing'}")
    assert "is not a reader" in said
    assert "unknown readout 'poold'" in cli(capsys, *run, "--scorer", f"poold@{tmp_path}")
    assert "did you mean 'pooled'" in cli(capsys, *run, "--scorer", "poold")
    train = ("train", "--model", "tiny:base", "--pairs", "world", "--out", str(tmp_path / "out"))
    said = cli(capsys, *train, "--readout", "poold")
    assert "unknown readout 'poold'" in said
    assert "did you mean 'pooled'" in said
    said = cli(capsys, *train, "--readout", "pooled", "--set", "stepz=3")
    assert "unknown setting 'stepz'" in said
    said = cli(capsys, *train, "--readout", "pooled", "--bench", "world-swap", "--tensorboard")
    assert "--bench, --tensorboard with the read-out 'pooled'" in said
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "2 processes for the read-out 'pooled'" in cli(capsys, *train, "--readout", "pooled")


def test_a_model_that_shows_no_parts_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = ("train", "--pairs", "world", "--out", str(tmp_path / "out"), "--readout", "pooled")
    said = cli(capsys, *train, "--model", "caption:short")
    assert "the read-out 'pooled' reads patches and words, and 'caption:short' returns none" in said
    assert not (tmp_path / "out").exists()

    class Chat:
        name = "chat"

    with pytest.raises(UnbagError, match="and 'chat' returns none"):
        encoder_of(Chat(), "pooled")  # type: ignore[arg-type]


def test_a_stop_before_the_first_step_is_told_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object, **named: object) -> None:
        raise KeyboardInterrupt

    train = [
        "train",
        "--model",
        "tiny:base",
        "--pairs",
        "world",
        "--readout",
        "pooled",
        "--set",
        "scenes=20",
        "steps=1",
    ]
    train += ["--no-cache", "--out", str(tmp_path / "out")]
    with monkeypatch.context() as patch:
        patch.setattr(reader_training, "world_rows", interrupted)
        assert main(train) == 130
    told = "stopped before the first step; nothing is saved, and the same command starts again"
    assert told in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "out").exists()
    assert main(train) == 0
    capsys.readouterr()
    monkeypatch.setattr(reader_training, "world_rows", interrupted)
    assert main(train) == 130
    shown = capsys.readouterr()
    assert "nothing is saved" not in shown.out
    assert "unbag: stopped" in shown.err
