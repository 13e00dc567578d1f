"""A text tower at real caption lengths against the same tower at 77 tokens, in one run.

python perf/text_length.py [--library transformers] [--device cuda] [--dtype bfloat16]
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from random_clip import captions, clock, make, options, plain_captions

BATCH = 256
WANTED = 3.0


def timed(
    encode: Callable[[Sequence[str]], torch.Tensor],
    texts: Sequence[str],
    now: Callable[[], float],
) -> float:
    start = now()
    for at in range(0, len(texts), BATCH):
        encode(texts[at : at + BATCH])
    return now() - start


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--captions", type=int, default=1024)
    said = parser.parse_args()
    now = clock(said)
    with tempfile.TemporaryDirectory(prefix="unbag-perf-") as folder:
        model = make(said, Path(folder))
        texts = captions(said.captions)
        counts = dict(zip(texts, model.count_tokens(texts), strict=True))
        texts.sort(key=lambda text: counts[text])

        def at_77(some: Sequence[str]) -> torch.Tensor:
            return plain_captions(model, some)

        # Libraries are loaded and memory is taken before anything is timed.
        apart = (model.encode_captions(texts[-64:]) - at_77(texts[-64:])).abs().max().item()
        rounds = [
            (timed(at_77, texts, now), timed(model.encode_captions, texts, now))
            for _ in range(said.rounds)
        ]
    whole, real = (min(times) for times in zip(*rounds, strict=True))
    print(
        f"{len(texts):,} captions of {sum(counts.values()) / len(texts):.1f} tokens on average, "
        f"{said.library}, {said.device}, {said.dtype}, {said.clock} time, batches of {BATCH}"
    )
    print(f"at 77 tokens      {len(texts) / whole:10,.0f} captions/s")
    print(f"at real length    {len(texts) / real:10,.0f} captions/s")
    print(f"faster            {whole / real:10.1f} times (wanted: {WANTED:.0f})")
    print(f"largest difference{apart:10.1e}")


if __name__ == "__main__":
    main()
