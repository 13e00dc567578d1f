"""Layers of a network come in; on a GPU that can, they compute the same in fewer, larger kernels.

In layers as narrow as those of the tiny models most of a step goes into norms, casts and sums over
rows, each of which reads and writes all of memory anew. Compiled, they are done in passing.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn
from torch.utils import _triton

_SHAPES = 64
"""Layers of several widths and batches of several sizes are compiled once each, not given up on."""


def compile_layers(layers: Iterable[nn.Module], *, device: str, varies: bool = False) -> None:
    """In place; `varies` where rows or their lengths differ from call to call.

    On a processor, or where PyTorch has no compiler for the GPU, nothing is changed. A copy of a
    compiled layer is a plain one.
    """
    if not device.startswith("cuda") or not _triton.has_triton():
        return
    config = torch._dynamo.config
    limit = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"
    setattr(config, limit, max(getattr(config, limit), _SHAPES))
    # What cannot be compiled on some machine is run as it is.
    config.suppress_errors = True
    for layer in layers:
        layer.compile(dynamic=varies)
