"""A seed comes in; whatever is built inside draws its first weights from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draws of a seed inside, and the generator as it was behind it.

    That of the CPU alone: networks are built there, so no other is drawn from.
    """
    # Not above: `unbag.diagnosis` is read without PyTorch.
    import torch

    with torch.random.fork_rng(devices=[]):
        # `torch.manual_seed` would also seed generators of GPUs, which the fork does not restore.
        torch.default_generator.manual_seed(seed)
        yield
