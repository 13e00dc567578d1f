"""Measure a training step against the same step as it is usually written, as ratios of one run.

python perf/train_step.py [--library transformers] [--device cuda] [--precision bfloat16]
                          [--batch-size 256] [--accumulated 4096] [--images 2048 --workers 8]

A ViT-B/32 with random weights; every image has one caption, four hard negatives and one hard
positive, with the lengths of real captions. Three questions:

1. Ours against six passes of the text encoder, type by type, at 77 tokens; and against the forward
   and backward passes of both encoders alone, at our lengths. The optimizer is left out of all.
   Then a whole step of the trainer, with log and AdamW, against both encoders alone and AdamW.
2. A large batch in parts: its memory, its time for each image, its gradients.
3. With images on disk (--images): the share of a run's time that the device waits for data.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from random_clip import CONTEXT, captions, make, options, save_images
from timed import seconds, wait
from torch import Tensor

from unbag.data.readers import open_pairs
from unbag.runs.distributed import ALONE
from unbag.training.data.batch import Batch, CaptionGroup, CaptionTexts, Inputs, make_batch
from unbag.training.data.pairs import PairBatches
from unbag.training.encoders.adapters import make_trainable
from unbag.training.encoders.base import Trainable
from unbag.training.fine_tuning import FineTuning, TrainJob
from unbag.training.optim import make_optimizer
from unbag.training.recipes import Precision, Recipe, Slot, clip_ft, hard_positive
from unbag.training.step import StepPlan, add_gradient
from unbag.training.trainer import Trainer, TrainState

NEGATIVES, POSITIVES = 4, 1
SIDE = 224


def recipe() -> Recipe:
    """All of hard_positive's losses over four columns of negatives."""
    slots = tuple(Slot(f"n{n}", ("negate",)) for n in range(NEGATIVES))
    return replace(hard_positive(), negatives=slots)


def batch_of(trainable: Trainable, count: int, *, largest: int | None = None) -> Batch:
    each = 1 + NEGATIVES + POSITIVES
    texts = captions(count * each)
    caption_texts = [
        CaptionTexts(
            texts[n * each],
            tuple(texts[n * each + 1 : n * each + 1 + NEGATIVES]),
            tuple(texts[n * each + 1 + NEGATIVES : (n + 1) * each]),
        )
        for n in range(count)
    ]
    pixels = torch.randint(0, 256, (count, 3, SIDE, SIDE), dtype=torch.uint8)
    pixel_input: Any = pixels if _takes_bytes(trainable) else pixels / 127.5 - 1
    reads = trainable.reads
    return make_batch(
        pixel_input,
        caption_texts,
        tokenize=reads.tokenize,
        count_tokens=reads.count_tokens,
        max_group_size=largest,
    )


def _takes_bytes(trainable: Trainable) -> bool:
    from PIL import Image

    return trainable.reads.prepare(Image.new("RGB", (SIDE, SIDE))).dtype == torch.uint8


def on_device(batch: Batch, device: str) -> Batch:
    """Already there, so that copying is not what is compared."""
    groups = tuple(
        CaptionGroup(g.row_G, {k: v.to(device) for k, v in g.inputs.items()}) for g in batch.groups
    )
    pixels: Any = batch.pixels.to(device)
    rows = {
        name: getattr(batch, name).to(device)
        for name in ("caption_B", "negative_BK", "positive_BP", "place_U")
    }
    return replace(batch, pixels=pixels, groups=groups, **rows)


def clear(trainable: Trainable) -> None:
    for weight in trainable.module.parameters():
        weight.grad = None


def ours(trainable: Trainable, batch: Batch, plan: StepPlan) -> None:
    add_gradient(trainable, batch, plan, step=0)
    clear(trainable)


def encoders_alone(
    trainable: Trainable,
    batch: Batch,
    plan: StepPlan,
    optimizer: torch.optim.Optimizer | None = None,
) -> None:
    """Forward and backward of both encoders with a gradient that costs nothing to find."""
    with torch.autocast(kind(plan.device), torch.bfloat16, enabled=plan.precision != "float32"):
        pixels: Any = batch.pixels
        found = [trainable.embed_images(pixels)]
        found += [trainable.embed_texts(group.inputs) for group in batch.groups]
    torch.autograd.backward(found, [torch.ones_like(one) for one in found])
    if optimizer is not None:
        optimizer.step()
    clear(trainable)


def type_by_type(
    trainable: Trainable, batch: Batch, types: Sequence[Inputs], plan: StepPlan
) -> None:
    """As public trainers do it: every type of caption in a pass of its own, at 77 tokens."""
    with torch.autocast(kind(plan.device), torch.bfloat16, enabled=plan.precision != "float32"):
        pixels: Any = batch.pixels
        image = trainable.embed_images(pixels)
        found = [trainable.embed_texts(inputs) for inputs in types]
    scale = trainable.temperature[0].exp()
    loss = (scale * image @ torch.cat(found).T).logsumexp(dim=1).mean()
    loss.backward()  # type: ignore[no-untyped-call]
    clear(trainable)


def padded(trainable: Trainable, batch: Batch, count: int, device: str) -> list[Inputs]:
    """The strings of the batch in six equal parts, each padded to 77 tokens."""
    rows: dict[int, Tensor] = {}
    name = (
        "input_ids" if "input_ids" in batch.groups[0].inputs else next(iter(batch.groups[0].inputs))
    )
    for group in batch.groups:
        rows |= dict(zip(group.row_G.tolist(), group.inputs[name], strict=True))
    end = int(max(row.max() for row in rows.values()))
    pad = end if name == "input_ids" else 0
    every = torch.full((len(rows), CONTEXT), pad, dtype=torch.int64)
    for at, row in rows.items():
        every[at, : len(row)] = row
    mask = "attention_mask" in batch.groups[0].inputs
    return [
        {name: part.to(device)}
        | ({"attention_mask": torch.ones_like(part).to(device)} if mask else {})
        for part in torch.split(every, count)
    ]


def kind(device: str) -> str:
    return device.partition(":")[0]


def compare_steps(trainable: Trainable, arguments: argparse.Namespace, plan: StepPlan) -> float:
    batch = on_device(batch_of(trainable, arguments.batch_size), plan.device)
    types = padded(trainable, batch, arguments.batch_size, plan.device)
    rounds = arguments.rounds
    print(f"parts of captions: {[len(group.row_G) for group in batch.groups]}")
    if arguments.syncs:
        ours(trainable, batch, plan)
        torch.cuda.set_sync_debug_mode("warn")
        ours(trainable, batch, plan)
        torch.cuda.set_sync_debug_mode("default")
    step = seconds(lambda: ours(trainable, batch, plan), plan.device, rounds)
    alone = seconds(lambda: encoders_alone(trainable, batch, plan), plan.device, rounds)
    usual = seconds(lambda: type_by_type(trainable, batch, types, plan), plan.device, rounds)
    strings = len(batch.place_U)
    print(
        f"\n1. a step of {arguments.batch_size} images with {strings:,} captions, {plan.precision}"
    )
    print(f"type by type, 77 tokens   {arguments.batch_size / usual:10,.1f} images/s")
    print(f"ours                      {arguments.batch_size / step:10,.1f} images/s")
    print(f"faster                    {usual / step:10.2f} times (target: 2)")
    print(f"over the encoders alone     {100 * (step / alone - 1):10.1f} % (target: at most 5)")
    each: float = step / arguments.batch_size
    return each


@dataclass(frozen=True)
class Same:
    """The same batch at every step."""

    batch: Batch
    steps: int
    about: str = "random"
    fingerprint: str = "random"
    find_truth: None = None

    @property
    def per_epoch(self) -> int:
        return self.steps

    def __len__(self) -> int:
        return self.steps

    def __getitem__(self, step: int) -> Batch:
        return self.batch


def compare_trainer(trainable: Trainable, arguments: argparse.Namespace, plan: StepPlan) -> None:
    """Whole steps in turn, so that a busy machine slows both; those of the trainer copy a batch."""
    whole_batch = batch_of(trainable, arguments.batch_size)
    batch = on_device(whole_batch, plan.device)
    steps = 2 * arguments.rounds + 2
    job = TrainJob(
        trainable,
        Same(whole_batch, steps),
        recipe(),
        Path(),
        device=plan.device,
        precision=plan.precision,
    )
    task = FineTuning(job)
    optimizer = make_optimizer(task.parameters(), task.optimizer)
    took: dict[str, list[float]] = {"trainer": [], "alone": []}
    start = perf_counter()

    def bare(state: TrainState, numbers: object) -> bool:
        nonlocal start
        wait(plan.device)
        took["trainer"].append(perf_counter() - start)
        start = perf_counter()
        encoders_alone(trainable, batch, plan, optimizer)
        wait(plan.device)
        took["alone"].append(perf_counter() - start)
        start = perf_counter()
        return False

    Trainer(task).run(on_step=bare)
    # The first steps are not counted.
    whole, alone = (sorted(took[name][2:])[arguments.rounds] for name in ("trainer", "alone"))
    print(
        f"a step of the trainer     {100 * (whole / alone - 1):10.1f} % over the encoders and AdamW"
    )


def compare_parts(
    trainable: Trainable, arguments: argparse.Namespace, plan: StepPlan, each: float
) -> None:
    strings = arguments.batch_size * (1 + NEGATIVES + POSITIVES)
    parts = replace(plan, micro_batch_size=arguments.batch_size)
    large = batch_of(trainable, arguments.accumulated, largest=strings)
    small = batch_of(trainable, arguments.batch_size)
    alone = _peak(lambda: ours(trainable, small, plan), plan.device)
    whole = _peak(lambda: ours(trainable, large, parts), plan.device)
    time = seconds(lambda: ours(trainable, large, parts), plan.device, 1) / arguments.accumulated
    print(f"\n2. a batch of {arguments.accumulated:,} in parts of {arguments.batch_size}")
    print(f"memory                    {whole:10.2f} GB, of {arguments.batch_size}: {alone:.2f} GB")
    print(f"time for each image     {100 * (time / each - 1):10.1f} % more (target: at most 45)")
    apart = _apart(trainable, arguments, plan)
    print(f"gradients differ by       {apart:10.1e} of the largest, float32 (target: 1e-5)")


def _apart(trainable: Trainable, arguments: argparse.Namespace, plan: StepPlan) -> float:
    """Gradients of twice the batch in parts against those in one go."""
    exact = replace(plan, precision="float32")
    count = 2 * arguments.batch_size
    gradients = []
    for micro_batch_size in (None, arguments.batch_size // 2):
        largest = (
            None if micro_batch_size is None else micro_batch_size * (1 + NEGATIVES + POSITIVES)
        )
        torch.manual_seed(0)
        batch = batch_of(trainable, count, largest=largest)
        add_gradient(trainable, batch, replace(exact, micro_batch_size=micro_batch_size), step=0)
        gradients.append(
            [w.grad.clone() for w in trainable.module.parameters() if w.grad is not None]
        )
        clear(trainable)
    top = max(float(grad.abs().max()) for grad in gradients[0])
    apart = [float((a - b).abs().max()) for a, b in zip(*gradients, strict=True)]
    return max(apart) / top


def _peak(job: Callable[[], None], device: str) -> float:
    """Gigabytes while it runs; nothing is known on a CPU."""
    if device == "cpu":
        return float("nan")
    job()
    torch.cuda.reset_peak_memory_stats()
    job()
    memory: int = torch.cuda.max_memory_allocated()
    return memory / 2**30


def compare_reading(
    trainable: Trainable, arguments: argparse.Namespace, plan: StepPlan, folder: Path
) -> None:
    paths = save_images(folder / "images", arguments.images)
    texts = captions(len(paths))
    lines = [
        json.dumps({"image": path.name, "caption": text})
        for path, text in zip(paths, texts, strict=True)
    ]
    (folder / "pairs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    pairs = open_pairs(str(folder / "pairs.jsonl"), images=folder / "images")
    plain = replace(clip_ft(), batch_size=arguments.batch_size, epochs=4)
    batches = PairBatches(pairs, plain, trainable.reads, 0)
    task = FineTuning(
        TrainJob(
            trainable,
            batches,
            plain,
            Path(),
            device=plan.device,
            precision=plan.precision,
            workers=arguments.workers,
        )
    )
    start, first = perf_counter(), 0.0

    def begin(state: TrainState, numbers: object) -> bool:
        nonlocal start, first
        if state.step == 2:
            wait(plan.device)
            start, first = perf_counter(), state.waited
        return False

    state = Trainer(task).run(on_step=begin)
    wait(plan.device)
    seconds = perf_counter() - start
    count = (len(batches) - 2) * arguments.batch_size
    print(f"\n3. {len(paths):,} JPEG files of 640 x 480, {arguments.workers} workers, one caption")
    print(f"images                  {count / seconds:10,.1f} a second, optimizer included")
    print(f"waiting for data          {100 * (state.waited - first) / seconds:10.1f} % of the time")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--accumulated", type=int, default=64)
    parser.add_argument("--images", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--syncs", action="store_true", help="say where the device is waited for")
    arguments = parser.parse_args()
    precision: Precision = arguments.precision
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory(prefix="unbag-perf-") as name:
        encoder = make(arguments, Path(name))
        trainable = make_trainable(encoder, device=arguments.device)
        plan = StepPlan(recipe(), ALONE, arguments.device, precision=precision)
        each = compare_steps(trainable, arguments, plan)
        compare_trainer(trainable, arguments, plan)
        compare_parts(trainable, arguments, plan, each)
        if arguments.images:
            compare_reading(trainable, arguments, plan, Path(name))


if __name__ == "__main__":
    main()
