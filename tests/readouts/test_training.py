"""Training of readers: steps, settings, folders, cards, and what is refused on the way."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from unbag.readouts.data import Pool
from unbag.readouts.pacl import PaclSettings
from unbag.readouts.pooled import Pooled, PooledSettings
from unbag.readouts.reader import FILE, Reader, Sizes, read_head
from unbag.readouts.training import CARD, ReaderEffort, ReaderTask, accuracy, encoder_of
from unbag.runs.checkpoint import LAST
from unbag.runs.progress import Silent
from unbag.training.trainer import Trainer
from unbag.types import TokenFeatures

from .core_encoder import rows, small
from .reader_batches import run_losses

SIZES = Sizes(patches=0, picture_width=16, caption_width=12)
EFFORT = PooledSettings(steps=100, batch_size=100, learning_rate=1e-2, warmup_steps=5, width=64)


def pooled_features(count: int, width: int, seed: int) -> TokenFeatures:
    rng = torch.Generator().manual_seed(seed)
    vector_NW = torch.randn((count, width), generator=rng)
    return TokenFeatures(vector_NW[:, None][:, :0], torch.ones((count, 0)).bool(), vector_NW)


def random_pool(count: int = 200, *, negatives: int = 2) -> Pool:
    """Vectors without any rule: all that can be done is to learn them by heart."""
    negative_NK = torch.arange(count, count * (1 + negatives)).view(count, -1)
    return Pool(
        image=pooled_features(count, SIZES.picture_width, 0),
        caption=pooled_features(count * (1 + negatives), SIZES.caption_width, 1),
        image_N=torch.arange(count),
        caption_N=torch.arange(count),
        negative_NK=negative_NK if negatives else torch.zeros((count, 0), dtype=torch.int64),
    )


def trainer(
    effort: PooledSettings = EFFORT,
    given: Pool | None = None,
    kind: type[Pooled] = Pooled,
    *,
    seed: int = 1,
) -> Trainer[Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        reader = kind(effort, SIZES)
    return Trainer(ReaderTask(reader, given or random_pool(), effort, device="cpu", seed=seed))


def weights(given: Trainer[Tensor]) -> list[Tensor]:
    return [value.clone() for value in given.task.state_dict().values()]


def train_accuracy(given: Trainer[Tensor]) -> float:
    assert isinstance(given.task, ReaderTask)
    return accuracy(given.task.reader, given.task.pool, device="cpu")


def test_two_hundred_fixed_examples_are_learned_and_the_loss_falls() -> None:
    one = trainer()
    before = train_accuracy(one)
    losses = run_losses(one)
    assert len(losses) == 100
    assert losses[-1] < losses[49] < losses[0]
    assert before < 0.6
    assert train_accuracy(one) > 0.95
    assert not one.task.module.training


class Exploding(Pooled):
    def compare(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        return super().compare(image, caption) * torch.inf

    def compare_all(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        return super().compare_all(image, caption) * torch.inf


def test_a_loss_that_is_no_number_is_told() -> None:
    with pytest.raises(UnbagError) as caught:
        trainer(replace(EFFORT, steps=3), kind=Exploding).run()
    assert caught.value.message.startswith("'loss' of pooled became nan at step 0")
    assert "a smaller learning rate (--set learning_rate=0.001)" in caught.value.hint


def test_without_negatives_a_crowd_is_needed() -> None:
    with pytest.raises(UnbagError) as caught:
        trainer(replace(EFFORT, contrast_size=1), random_pool(negatives=0))
    assert caught.value.message.startswith("contrast_size=1 and no hard negatives")
    with pytest.raises(UnbagError, match="contrast_size=1"):
        trainer(replace(EFFORT, contrast_size=1, negatives=False))
    trainer(replace(EFFORT, contrast_size=1))
    with pytest.raises(UnbagError, match="no caption of the pool has a negative"):
        train_accuracy(trainer(given=random_pool(negatives=0)))
    with pytest.raises(UnbagError, match="1 images to train on"):
        trainer(EFFORT, random_pool(1))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"steps": 0}, "steps=0"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"contrast_size": 0}, "contrast_size=0"),
        ({"scenes": 1}, "scenes=1"),
        ({"warmup_steps": -1}, "warmup_steps=-1"),
        ({"learning_rate": 0.0}, "learning_rate=0.0"),
        ({"weight_decay": -1.0}, "weight_decay=-1.0"),
    ],
)
@pytest.mark.parametrize("settings", [ReaderEffort(), PooledSettings(), PaclSettings()])
def test_numbers_that_make_no_sense_are_refused(
    settings: ReaderEffort, changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(UnbagError) as caught:
        replace(settings, **changed)
    assert caught.value.message == f"a reader with {said}"


def test_only_open_weights_are_trained() -> None:
    class Half(Pooled):
        def __init__(self, settings: PooledSettings, sizes: Sizes) -> None:
            super().__init__(settings, sizes)
            self.caption.requires_grad_(False)

    one = trainer(replace(EFFORT, steps=3), kind=Half)
    before = {name: value.clone() for name, value in one.task.state_dict().items()}
    one.run()
    after = one.task.state_dict()
    changed = {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"picture"}


def test_a_reader_must_say_how_it_compares() -> None:
    with pytest.raises(NotImplementedError):
        Reader().compare(pooled_features(1, 2, 0), pooled_features(1, 2, 0))


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


def test_another_model_in_the_same_folder_is_refused_before_anything_is_computed(
    tmp_path: Path,
) -> None:
    trained(tmp_path, load("base"))
    counting = small()
    with pytest.raises(UnbagError, match=r"model_fingerprint: .* before"):
        trained(tmp_path, counting)
    assert counting.images_seen == 0


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

    words = "train --model tiny:base --pairs world --readout pooled --set scenes=20 steps=1"
    train = [*words.split(), "--no-cache", "--out", str(tmp_path / "out")]
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
