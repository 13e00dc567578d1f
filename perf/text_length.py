"""Measure a text encoder at real caption lengths against the same encoder at 77 tokens.

python perf/text_length.py [--library transformers] [--device cuda] [--dtype bfloat16]

Once from text to vectors, as the evaluation does it against the library's own examples, tokenizer
included; and once the encoder alone, from token numbers on the device, on a GPU each length at
whichever of two batch sizes is faster for it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from random_clip import (
    CONTEXT,
    captions,
    clock,
    encoder,
    forget,
    make,
    options,
    plain_captions,
    tokens,
)

from unbag.evaluation.embedding import caption_batch
from unbag.types import DualEncoder

BATCH = 256
TARGET = 3.0
Clock = Callable[[], float]


def parts(texts: Sequence[str], size: int) -> list[Sequence[str]]:
    return [texts[at : at + size] for at in range(0, len(texts), size)]


def sorted_by_length(model: DualEncoder, texts: Sequence[str]) -> list[str]:
    counts = dict(zip(texts, model.count_tokens(texts), strict=True))
    return sorted(texts, key=lambda text: counts[text])


def at_77(model: DualEncoder, texts: Sequence[str]) -> None:
    for block in parts(texts, BATCH):
        plain_captions(model, block)


def at_real_length(model: DualEncoder, texts: Sequence[str]) -> None:
    """Counted, sorted and encoded as the evaluation does it, with nothing remembered."""
    forget(model)
    for block in parts(sorted_by_length(model, texts), caption_batch(model.device, BATCH)):
        model.encode_texts(block)


def alone(
    model: DualEncoder, texts: Sequence[str], *, is_cut: bool, now: Clock, rounds: int
) -> float:
    """Seconds of the encoder at the better of two batch sizes; on a processor there is one."""
    times = []
    for size in {BATCH, caption_batch(model.device, BATCH)}:
        length = None if is_cut else CONTEXT
        inputs = [tokens(model, block, length=length) for block in parts(texts, size)]

        def run(inputs: Sequence[dict[str, Any]] = inputs) -> None:
            torch.cat([encoder(model, tokens_, is_cut=is_cut) for tokens_ in inputs]).cpu()

        times += [seconds(run, now) for _ in range(rounds + 1)]
    return min(times)


def seconds(job: Callable[[], object], now: Clock) -> float:
    start = now()
    job()
    return now() - start


def show(title: str, count: int, whole: float, real: float) -> None:
    print(f"\n{title}")
    print(f"at 77 tokens      {count / whole:10,.0f} captions/s")
    print(f"at real length    {count / real:10,.0f} captions/s")
    print(f"faster            {whole / real:10.1f} times (target: {TARGET:.0f})")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--captions", type=int, default=1024)
    arguments = parser.parse_args()
    now = clock(arguments)
    with tempfile.TemporaryDirectory(prefix="unbag-perf-") as folder:
        model = make(arguments, Path(folder))
        texts = captions(arguments.captions)
        lengths = model.count_tokens(texts)
        texts = sorted_by_length(model, texts)
        # Libraries are loaded and memory is taken before anything is timed.
        sample = texts[-64:]
        apart = (model.encode_texts(sample) - plain_captions(model, sample)).abs().max().item()
        if arguments.device != "cpu":
            at_real_length(model, texts)
        rounds = [
            (seconds(lambda: at_77(model, texts), now),
             seconds(lambda: at_real_length(model, texts), now))
            for _ in range(arguments.rounds)
        ]  # fmt: skip
        network = [
            alone(model, texts, is_cut=is_cut, now=now, rounds=arguments.rounds)
            for is_cut in (False, True)
        ]
    print(
        f"{len(texts):,} captions of {sum(lengths) / len(texts):.1f} tokens on average, "
        f"{arguments.library}, {arguments.device}, {arguments.dtype}, {arguments.clock} time"
    )
    whole, real = (min(times) for times in zip(*rounds, strict=True))
    show("from text, tokenizer included", len(texts), whole, real)
    show("the encoder alone, tokens on the device", len(texts), *network)
    print(f"largest difference{apart:10.1e}")


if __name__ == "__main__":
    main()
