"""Training a decoder: it can fit, stages open what they should, and a stop changes no bit."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from unbag.errors import UnbagError
from unbag.readouts.decoder.lessons import NOTHING, DecoderFact, DecoderSettings
from unbag.readouts.decoder.training import (
    DecoderData,
    DecoderTask,
    fits,
    prepare_training,
    share_right,
)
from unbag.training.trainer import Trainer

from .decoder_made import COLOURS, SHAPES, SMALL, begun


def seen_things(count: int) -> DecoderData:
    """Two things side by side as one patch each, told by marks; negatives exchange colours."""
    rng = np.random.default_rng(0)
    seen_NLV, facts = torch.zeros(count, 2, 10), []
    for n in range(count):
        colours, shapes = rng.permutation(4)[:2], rng.permutation(4)[:2]
        for place in range(2):
            marks = (int(colours[place]), 4 + int(shapes[place]), 8 + place)
            seen_NLV[n, place, list(marks)] = 1
        (a, b), (c, d) = ([COLOURS[i] for i in colours], [SHAPES[i] for i in shapes])
        facts.append(DecoderFact(n, f"{a} {c} {b} {d}", (f"{b} {c} {a} {d}",)))
    return DecoderData(seen_NLV, tuple(facts), count, "marks", "marks-1")


def test_it_fits_questions_that_only_the_image_answers() -> None:
    settings = DecoderSettings(
        width=64, depth=2, heads=4, batch_size=24, steps=300, warmup_steps=20, learning_rate=3e-3,
        yes=1, describe=1, letters=0, answer=0, blind=0, context=32,
    )  # fmt: skip
    one = prepare_training(seen_things(44), settings)
    task, made = one.task, one.made
    found = fits(made.net, task.seen_NLV, task.lessons, settings)
    assert found.count == 40 * 3
    assert found.by_kind["yes"] > 0.95
    assert found.by_kind["describe"] > 0.95
    # Without the image nothing but the answers' frequency is left.
    blind = share_right(made.net, None, task.lessons)
    assert blind.by_kind["yes"] <= 0.6


def test_the_loss_is_the_mean_over_rows_of_the_mean_over_tokens() -> None:
    one = begun()
    batch = one.task.lessons.batch(np.array([0, 1, 5]))
    seen_NLV = one.task.seen_NLV
    assert seen_NLV is not None
    seen_BLV = seen_NLV[batch.image_B]
    with torch.no_grad():
        log_BAV = one.made.net.answered(seen_BLV, batch).log_softmax(dim=-1)
        rows = []
        for b in range(3):
            target = [int(t) for t in batch.target_BA[b] if int(t) != NOTHING]
            rows.append(-np.mean([float(log_BAV[b, a, t]) for a, t in enumerate(target)]))
        assert len({int((row != NOTHING).sum()) for row in batch.target_BA}) > 1
        assert float(one.made.net.loss(seen_BLV, batch)) == pytest.approx(np.mean(rows), abs=1e-5)


def weights(task: DecoderTask) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in task.net.state_dict().items()}


def changed(before: dict[str, torch.Tensor], task: DecoderTask) -> set[str]:
    """The parts whose weights are other than before."""
    now = task.net.state_dict()
    return {name.partition(".")[0] for name, value in before.items()
            if not torch.equal(value, now[name])}  # fmt: skip


def test_the_first_stage_opens_the_connector_alone() -> None:
    task = begun(replace(SMALL, steps=6, connector_steps=3, blind=0.0)).task
    before, trainer = weights(task), Trainer(task)
    trainer.run(on_step=lambda state, numbers: state.step == 3)
    assert changed(before, task) == {"connector"}
    trainer.run(on_step=lambda state, numbers: state.step == 4)
    assert changed(before, task) == {"connector", "language"}


def test_rates_begin_anew_with_the_second_stage() -> None:
    settings = replace(
        SMALL, steps=8, connector_steps=4, warmup_steps=2, connector_rate=0.1, learning_rate=0.01
    )
    trainer = Trainer(begun(settings).task)
    found = []
    for step in range(8):
        trainer.train_step(trainer.task.batch(step))
        found.append(float(trainer.optimizer.param_groups[0]["lr"]))
    # Two steps up, then half a cosine over the two that are left.
    assert found == pytest.approx([0.05, 0.1, 0.1, 0.05, 0.005, 0.01, 0.01, 0.005])


def test_blind_steps_see_no_image() -> None:
    task = begun(replace(SMALL, blind=1.0)).task
    before = weights(task)
    Trainer(task).run()
    assert changed(before, task) == {"language"}


def test_another_seed_gives_other_weights() -> None:
    first, second = begun(), begun(seed=1)
    name = "connector.0.weight"
    assert not torch.equal(first.made.net.state_dict()[name], second.made.net.state_dict()[name])


def test_images_at_the_end_are_kept_apart() -> None:
    one = begun(count=20)
    assert one.held is not None
    assert set(one.held.image_M.tolist()) == {18, 19}
    assert set(one.task.lessons.image_M.tolist()) == set(range(18))


def test_a_loss_that_is_no_number_is_told() -> None:
    task = begun(replace(SMALL, learning_rate=1e36)).task
    with pytest.raises(UnbagError, match="'loss' of decoder became nan at step") as error:
        Trainer(task).run()
    assert "a smaller learning rate" in error.value.hint
