"""Steps of a reader: it learns what it is shown, goes on bit by bit, and says when it cannot."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from unbag.errors import UserError
from unbag.readouts.data import Pool
from unbag.readouts.pooled import Pooled, PooledSettings
from unbag.readouts.reader import Reader, Sizes
from unbag.readouts.training import Fit, ReaderEffort, ReaderStep, restore, save, share_told_apart
from unbag.types import TokenFeatures

SIZES = Sizes(patches=0, picture_width=16, caption_width=12)
EFFORT = PooledSettings(steps=100, batch=100, learning_rate=1e-2, warm_up=5, width=64)


def parts(count: int, width: int, seed: int) -> TokenFeatures:
    rng = torch.Generator().manual_seed(seed)
    vector_NW = torch.randn((count, width), generator=rng)
    return TokenFeatures(vector_NW[:, None][:, :0], torch.ones((count, 0)).bool(), vector_NW)


def pool(count: int = 200, *, negatives: int = 2) -> Pool:
    """Vectors without any rule: all that can be done is to learn them by heart."""
    negative_NK = torch.arange(count, count * (1 + negatives)).view(count, -1)
    return Pool(
        picture=parts(count, SIZES.picture_width, 0),
        caption=parts(count * (1 + negatives), SIZES.caption_width, 1),
        picture_N=torch.arange(count),
        caption_N=torch.arange(count),
        negative_NK=negative_NK if negatives else torch.zeros((count, 0), dtype=torch.int64),
    )


class Dropping(Pooled):
    """The control with dropout, so that a step draws numbers."""

    def __init__(self, settings: PooledSettings, sizes: Sizes) -> None:
        super().__init__(settings, sizes)
        self.picture = nn.Sequential(nn.Dropout(0.2), self.picture)


def fit(
    effort: PooledSettings = EFFORT, given: Pool | None = None, kind: type[Pooled] = Pooled
) -> Fit:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        reader = kind(effort, SIZES)
    return Fit(reader, given or pool(), effort, device="cpu", seed=1)


def weights(given: Fit) -> list[Tensor]:
    return [value.clone() for value in given.reader.state_dict().values()]


def test_two_hundred_fixed_examples_are_learned_and_the_loss_falls() -> None:
    one = fit()
    before = share_told_apart(one.reader, one.pool, device="cpu")
    read: list[ReaderStep] = []

    def on_step(taken: ReaderStep) -> bool:
        read.append(taken)
        return False

    one.run(on_step)
    losses = [taken.loss for taken in read if taken.loss is not None]
    assert len(read) == 100
    assert len(losses) == 2
    assert losses[-1] < losses[0]
    assert before < 0.6
    assert share_told_apart(one.reader, one.pool, device="cpu") > 0.95
    assert not one.reader.training


def test_stopping_and_going_on_gives_the_same_bits(tmp_path: Path) -> None:
    effort = replace(EFFORT, steps=12)
    whole = fit(effort, kind=Dropping)
    whole.run()
    stopped = fit(effort, kind=Dropping)
    stopped.run(lambda taken: taken.step == 5)
    assert stopped.step == 5
    save(tmp_path / "last", stopped, "asked", seconds=2.5)
    # Whatever was drawn in between.
    torch.rand(3)
    again = fit(effort, kind=Dropping)
    assert restore(tmp_path / "last", again, "asked") == 2.5
    again.run()
    assert all(map(torch.equal, weights(whole), weights(again)))
    other = fit(effort, kind=Dropping)
    other.seed = 2
    other.run()
    assert not all(map(torch.equal, weights(whole), weights(other)))


def test_training_leaves_the_generator_of_others_alone() -> None:
    torch.manual_seed(5)
    wanted = torch.rand(2)
    torch.manual_seed(5)
    fit(replace(EFFORT, steps=2), kind=Dropping).run()
    assert torch.equal(torch.rand(2), wanted)


class Exploding(Pooled):
    def compare(self, picture: TokenFeatures, caption: TokenFeatures) -> Tensor:
        return super().compare(picture, caption) * torch.inf

    def compare_all(self, picture: TokenFeatures, caption: TokenFeatures) -> Tensor:
        return super().compare_all(picture, caption) * torch.inf


def test_a_loss_that_is_no_number_is_told() -> None:
    with pytest.raises(UserError) as caught:
        fit(replace(EFFORT, steps=3), kind=Exploding).run()
    assert caught.value.found == "the loss of pooled became nan at step 3"
    assert caught.value.way_out == "a smaller rate: --set learning_rate=1e-4"


def test_without_negatives_a_crowd_is_needed() -> None:
    with pytest.raises(UserError) as caught:
        fit(replace(EFFORT, crowd=1), pool(negatives=0))
    assert caught.value.found.startswith("a crowd of one and no hard negatives")
    with pytest.raises(UserError, match="a crowd of one"):
        fit(replace(EFFORT, crowd=1, negatives=False))
    fit(replace(EFFORT, crowd=1))
    with pytest.raises(UserError, match="no caption of the pool has a negative"):
        share_told_apart(fit().reader, pool(negatives=0), device="cpu")
    with pytest.raises(UserError, match="1 pictures to train on"):
        fit(EFFORT, pool(1))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (ReaderEffort(steps=0), "steps=0"),
        (ReaderEffort(batch=0), "batch=0"),
        (ReaderEffort(crowd=0), "crowd=0"),
        (ReaderEffort(scenes=1), "scenes=1"),
        (ReaderEffort(warm_up=-1), "warm_up=-1"),
        (ReaderEffort(learning_rate=0.0), "learning_rate=0.0 weight_decay=0.01"),
        (ReaderEffort(weight_decay=-1.0), "learning_rate=0.001 weight_decay=-1.0"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(changed: ReaderEffort, said: str) -> None:
    with pytest.raises(UserError) as caught:
        Fit(Pooled(EFFORT, SIZES), pool(4), changed, device="cpu")
    assert caught.value.found == said


def test_only_open_weights_are_trained() -> None:
    class Half(Pooled):
        def __init__(self, settings: PooledSettings, sizes: Sizes) -> None:
            super().__init__(settings, sizes)
            self.caption.requires_grad_(False)

    one = fit(replace(EFFORT, steps=3), kind=Half)
    before = {name: value.clone() for name, value in one.reader.state_dict().items()}
    one.run()
    after = one.reader.state_dict()
    changed = {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"picture"}


def test_a_checkpoint_of_something_else_is_refused_saying_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "last"
    asked = {"model": "tiny", "settings": {"steps": 12, "width": 4}, "seed": 0}
    save(path, fit(), json.dumps(asked))
    for changed, found, expected in (
        ({"seed": 1}, "another seed: 0", "1"),
        ({"settings": {"steps": 13, "width": 4}}, "another steps: 12", "13"),
        ({"model": "big", "seed": 2}, "another model (and seed): tiny", "big"),
        ({"settings": {"steps": 12, "width": 4, "new": 1}}, "another new: none", "1"),
    ):  # fmt: skip
        with pytest.raises(UserError) as caught:
            restore(path, fit(), json.dumps({**asked, **changed}))
        assert caught.value.found == f"{tmp_path} holds a run with {found}"
        assert caught.value.expected == expected
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UserError, match="is not a checkpoint of a reader"):
        restore(path, fit(), "")


def test_a_reader_must_say_how_it_compares() -> None:
    with pytest.raises(NotImplementedError):
        Reader().compare(parts(1, 2, 0), parts(1, 2, 0))
