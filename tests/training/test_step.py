"""The gradient of a step, in parts, with frozen encoders and over two processes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.multiprocessing.spawn import spawn
from torch.nn import functional

from unbag.runs.distributed import ALONE, Distributed
from unbag.training.data.batch import Batch, CaptionTexts, Inputs, Truth, make_batch
from unbag.training.losses import contrastive, distil
from unbag.training.objective import Objective, Term
from unbag.training.recipes import Recipe, Slot, ce_clip_fixed, hard_positive
from unbag.training.step import StepPlan, StepResult, add_gradient
from unbag.types import DualEncoder, Embedded

WIDTH = 5


class PlainReads:
    """Images are vectors; a caption is its words, each a number."""

    def prepare(self, image: object) -> Tensor:
        raise NotImplementedError

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        words = [[1 + crc32(word.encode()) % 49 for word in text.split()] for text in captions]
        longest = max(map(len, words))
        return {"word_NL": torch.tensor([w + [0] * (longest - len(w)) for w in words])}

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in captions]


class _Module(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.picture = nn.Sequential(
            nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Dropout(dropout), nn.Linear(WIDTH, WIDTH)
        )
        self.words = nn.Embedding(50, WIDTH, padding_idx=0)
        self.caption = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Dropout(dropout))
        self.log_scale = nn.Parameter(torch.tensor(1.5))
        self.bias = nn.Parameter(torch.tensor(-1.0))


class PlainEncoders:
    """A Trainable; `encoder` is not needed here."""

    name = "plain"
    fingerprint = "plain"
    reads = PlainReads()

    def __init__(self, *, seed: int = 0, dropout: float = 0.0) -> None:
        torch.manual_seed(seed)
        self.module = _Module(dropout).double().train()
        self.image_layers: Sequence[Sequence[nn.Module | nn.Parameter]] = [[self.module.picture]]
        self.text_layers: Sequence[Sequence[nn.Module | nn.Parameter]] = [
            [self.module.words],
            [self.module.caption],
        ]
        self.temperature = (self.module.log_scale, self.module.bias)

    def embed_images(self, pixels: Tensor) -> Tensor:
        return functional.normalize(self.module.picture(pixels), dim=-1)

    def embed_texts(self, inputs: Inputs) -> Tensor:
        summed = self.module.words(inputs["word_NL"]).sum(dim=1)
        return functional.normalize(self.module.caption(summed), dim=-1)

    def encoder(self, name: str) -> DualEncoder:
        raise NotImplementedError


def batch_of(texts: Sequence[CaptionTexts], *, first: int = 0, largest: int | None = None) -> Batch:
    """Images are made of their place in the whole batch, so that parts are the same images."""
    pixels = torch.stack(
        [
            torch.randn(
                WIDTH, generator=torch.Generator().manual_seed(first + i), dtype=torch.float64
            )
            for i in range(len(texts))
        ]
    )
    reads = PlainReads()
    return make_batch(
        pixels,
        texts,
        tokenize=reads.tokenize,
        count_tokens=reads.count_tokens,
        max_group_size=largest,
    )


SAID = (
    CaptionTexts("a red cup", ("a blue cup", "a cup"), ("a crimson cup",)),
    CaptionTexts("two dogs run", (None, "three dogs run"), (None,)),
    CaptionTexts("a cat on a mat", ("a mat on a cat", None), ("a mat under a cat",)),
    CaptionTexts("rain", (None, None), (None,)),
    CaptionTexts(
        "a man eats an apple now", ("an apple eats a man now", None), ("a man now eats an apple",)
    ),
    CaptionTexts("a red cup", ("a green cup", "no red cup"), ("a scarlet cup",)),
    CaptionTexts("snow on a hill", (None, "snow under a hill"), ("snow upon a hill",)),
    CaptionTexts("a bird", ("a fish", None), (None,)),
)
"""Eight images; the second half has other missing edits than the first."""


SLOTS = (Slot("first", ("a",)), Slot("second", ("b",)))


def recipe() -> Recipe:
    """Every kind of loss at once: pairs, negatives, positives, thresholds."""
    terms = {
        term.name: term
        for first in (ce_clip_fixed(), hard_positive())
        for term in first.objective.terms
    }
    objective = Objective(tuple(terms.values()), ce_clip_fixed().objective.threshold)
    return replace(ce_clip_fixed(), objective=objective, negatives=SLOTS, positives=SLOTS[:1])


def plan(team: Distributed = ALONE, micro_batch_size: int | None = None) -> StepPlan:
    return StepPlan(recipe(), team, "cpu", micro_batch_size=micro_batch_size)


def gradients(network: PlainEncoders) -> dict[str, Tensor]:
    return {
        name: torch.zeros_like(w) if w.grad is None else w.grad.clone()
        for name, w in network.module.named_parameters()
    }


def close(first: Mapping[str, Tensor], second: Mapping[str, Tensor], to: float = 1e-12) -> None:
    assert first.keys() == second.keys()
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=to, atol=to, msg=name)


THRESHOLD = torch.tensor([0.3, 0.0], dtype=torch.float64)


def whole(
    micro_batch_size: int | None = None, dropout: float = 0.0
) -> tuple[PlainEncoders, StepResult]:
    network = PlainEncoders(dropout=dropout)
    batch = batch_of(SAID, largest=micro_batch_size)
    return network, add_gradient(
        network, batch, plan(micro_batch_size=micro_batch_size), step=3, threshold_K=THRESHOLD
    )


def test_the_gradient_is_that_of_the_plain_loss() -> None:
    network = PlainEncoders()
    batch = batch_of(SAID)
    result, first = whole()[1], gradients(whole()[0])
    string = torch.cat([network.embed_texts(group.inputs) for group in batch.groups])
    string = string[torch.argsort(torch.cat([group.row_G for group in batch.groups]))]
    assert isinstance(batch.pixels, Tensor)
    embedded = _assembled(network, batch, network.embed_images(batch.pixels), string)
    losses = recipe().objective(embedded)
    losses.total.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(result.losses.total, losses.total)
    close(first, gradients(network))
    assert all(value.abs().sum() > 0 for name, value in first.items() if name != "bias")


@pytest.mark.parametrize("micro_batch_size", [1, 3, 4])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_parts_give_the_gradient_of_the_whole(micro_batch_size: int, dropout: float) -> None:
    """With dropout the masks of the two passes must agree; across cuts they differ."""
    network, result = whole(micro_batch_size, dropout)
    second = PlainEncoders(dropout=dropout)
    batch = batch_of(SAID, largest=micro_batch_size)
    both = plan(micro_batch_size=micro_batch_size)
    # The same parts, all with their graphs kept: what the second pass stands for.
    images, captions = _parts_with_graph(second, batch, both)
    embedded = _assembled(second, batch, images, captions)
    recipe().objective(embedded).total.backward()  # type: ignore[no-untyped-call]
    close(gradients(network), gradients(second))
    if not dropout:
        first, config = whole()
        close(gradients(network), gradients(first))
        torch.testing.assert_close(result.losses.total, config.losses.total)
        assert result.threshold_K is not None
        assert config.threshold_K is not None
        torch.testing.assert_close(result.threshold_K, config.threshold_K)


def _parts_with_graph(
    network: PlainEncoders, batch: Batch, both: StepPlan
) -> tuple[Tensor, Tensor]:
    from unbag.training.step import _caption_parts, _image_parts

    images = torch.cat([part() for part in _image_parts(network, batch, both, 3)])
    captions = torch.cat([part() for part in _caption_parts(network, batch, both, 3)])
    return images, captions[torch.argsort(torch.cat([g.row_G for g in batch.groups]))]


def _assembled(network: PlainEncoders, batch: Batch, images: Tensor, string: Tensor) -> Embedded:
    return Embedded(
        image_BD=images,
        caption_BD=string[batch.caption_B],
        scale=network.module.log_scale.exp(),
        bias=network.module.bias,
        negative_BKD=string[batch.negative_BK],
        negative_mask_BK=batch.negative_BK >= 0,
        positive_BKD=string[batch.positive_BP],
        positive_mask_BK=batch.positive_BP >= 0,
        threshold_K=THRESHOLD,
    )


def test_a_locked_encoder_gets_no_gradient_and_the_other_the_same() -> None:
    for micro_batch_size in (None, 3):
        network = PlainEncoders()
        network.module.picture.requires_grad_(False)
        batch = batch_of(SAID, largest=micro_batch_size)
        add_gradient(
            network, batch, plan(micro_batch_size=micro_batch_size), step=3, threshold_K=THRESHOLD
        )
        expected = gradients(whole()[0])
        grads = gradients(network)
        assert all(not grad.any() for name, grad in grads.items() if name.startswith("picture"))
        rest = [name for name in grads if not name.startswith("picture")]
        close({n: grads[n] for n in rest}, {n: expected[n] for n in rest})


def test_the_truth_of_the_batch_reaches_the_loss() -> None:
    seen: list[Embedded] = []

    def look(embedded: Embedded) -> Tensor:
        seen.append(embedded)
        return contrastive(embedded)

    config = replace(recipe(), objective=Objective((Term("look", 1.0, look),)))
    batch = replace(batch_of(SAID), code={"word": torch.arange(8)[:, None]})

    def find(code: Mapping[str, Tensor]) -> Truth:
        assert code["word"].flatten().tolist() == list(range(8))
        return Truth(torch.ones(8, 8, dtype=torch.bool), torch.zeros(8, 8, 2, dtype=torch.bool))

    result = add_gradient(
        PlainEncoders(), batch, StepPlan(config, ALONE, "cpu", find_truth=find), step=0
    )
    # Every other caption fits, so nothing is left to tell apart.
    assert result.losses.total.item() == 0.0
    assert seen[0].negative_true_BBK is not None
    assert result.threshold_K is None


def test_losses_that_keep_what_was_known_see_the_start() -> None:
    term = Term("distil", 1.0, distil, needs_start=True)
    config = replace(recipe(), objective=Objective((term,)))
    start = PlainEncoders(seed=1)
    start.module.requires_grad_(False)
    for micro_batch_size in (None, 3):
        network = PlainEncoders()
        batch = batch_of(SAID, largest=micro_batch_size)
        keeping = StepPlan(config, ALONE, "cpu", micro_batch_size=micro_batch_size)
        apart = add_gradient(network, batch, keeping, step=0, start=start)
        same = add_gradient(PlainEncoders(seed=1), batch, keeping, step=0, start=start)
        assert apart.losses.total > 1e-4
        assert same.losses.total.abs() < 1e-12
        assert all(weight.grad is None for weight in start.module.parameters())


def _one_of_two(rank: int, folder: str) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2
    )
    network = PlainEncoders()
    batch = batch_of(SAID[4 * rank : 4 * rank + 4], first=4 * rank, largest=2 if rank else None)
    micro_batch_size = 2 if rank else None
    result = add_gradient(
        network, batch, plan(Distributed(rank, 2), micro_batch_size), step=3, threshold_K=THRESHOLD
    )
    grads = gradients(network) | {"loss": result.losses.total.detach()}
    assert result.threshold_K is not None
    grads["threshold"] = result.threshold_K
    grads |= {f"term {name}": value.detach() for name, value in result.losses.terms.items()}
    torch.save(grads, f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


def test_two_processes_take_the_step_of_one(tmp_path: Path) -> None:
    """Other missing edits in each half; one of the two also cuts its half into parts."""
    spawn(_one_of_two, args=(str(tmp_path),), nprocs=2)  # type: ignore[no-untyped-call]
    network, result = whole()
    expected = gradients(network) | {"loss": result.losses.total.detach()}
    assert result.threshold_K is not None
    expected["threshold"] = result.threshold_K
    expected |= {f"term {name}": value.detach() for name, value in result.losses.terms.items()}
    for rank in (0, 1):
        close(torch.load(tmp_path / f"{rank}.pt"), expected, to=1e-9)
