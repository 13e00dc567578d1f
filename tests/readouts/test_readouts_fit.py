"""Steps of a reader: it learns what it is shown, resumes bit by bit, and says when it cannot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from unbag.errors import UnbagError
from unbag.readouts.data import Pool
from unbag.readouts.pacl import PaclSettings
from unbag.readouts.pooled import Pooled, PooledSettings
from unbag.readouts.reader import Reader, Sizes
from unbag.readouts.training import ReaderEffort, ReaderTask, accuracy
from unbag.training.trainer import Trainer
from unbag.types import TokenFeatures

from .reader_batches import run_losses

SIZES = Sizes(patches=0, picture_width=16, caption_width=12)
EFFORT = PooledSettings(steps=100, batch_size=100, learning_rate=1e-2, warmup_steps=5, width=64)


def parts(count: int, width: int, seed: int) -> TokenFeatures:
    rng = torch.Generator().manual_seed(seed)
    vector_NW = torch.randn((count, width), generator=rng)
    return TokenFeatures(vector_NW[:, None][:, :0], torch.ones((count, 0)).bool(), vector_NW)


def pool(count: int = 200, *, negatives: int = 2) -> Pool:
    """Vectors without any rule: all that can be done is to learn them by heart."""
    negative_NK = torch.arange(count, count * (1 + negatives)).view(count, -1)
    return Pool(
        image=parts(count, SIZES.picture_width, 0),
        caption=parts(count * (1 + negatives), SIZES.caption_width, 1),
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
    return Trainer(ReaderTask(reader, given or pool(), effort, device="cpu", seed=seed))


def weights(given: Trainer[Tensor]) -> list[Tensor]:
    return [value.clone() for value in given.task.state_dict().values()]


def share(given: Trainer[Tensor]) -> float:
    assert isinstance(given.task, ReaderTask)
    return accuracy(given.task.reader, given.task.pool, device="cpu")


def test_two_hundred_fixed_examples_are_learned_and_the_loss_falls() -> None:
    one = trainer()
    before = share(one)
    losses = run_losses(one)
    assert len(losses) == 100
    assert losses[-1] < losses[49] < losses[0]
    assert before < 0.6
    assert share(one) > 0.95
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
        trainer(replace(EFFORT, contrast_size=1), pool(negatives=0))
    assert caught.value.message.startswith("contrast_size=1 and no hard negatives")
    with pytest.raises(UnbagError, match="contrast_size=1"):
        trainer(replace(EFFORT, contrast_size=1, negatives=False))
    trainer(replace(EFFORT, contrast_size=1))
    with pytest.raises(UnbagError, match="no caption of the pool has a negative"):
        share(trainer(given=pool(negatives=0)))
    with pytest.raises(UnbagError, match="1 images to train on"):
        trainer(EFFORT, pool(1))


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
        Reader().compare(parts(1, 2, 0), parts(1, 2, 0))
