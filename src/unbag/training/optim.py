"""AdamW with warmup and a schedule; compiled layers and steps recorded on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi
from typing import Literal
from warnings import warn

import torch
from torch import Tensor, nn
from torch.utils import _triton

Schedule = Literal["cosine", "linear"]
"""What the learning rate does after the warmup."""
_SHAPES = 64
"""Layers of several widths and batches of several sizes are compiled once each, not given up on."""
_WARM_UP = 3
"""Steps before recording, as PyTorch asks for: libraries set themselves up in them."""


@dataclass(frozen=True)
class OptimizerSettings:
    """AdamW and its schedule; everything of a step but the gradient."""

    steps: int
    learning_rate: float
    warmup_steps: int = 0
    schedule: Schedule = "cosine"
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    clip_norm: float | None = None
    """Gradients longer than this are shortened to it."""


def make_optimizer(
    parameters: Mapping[str, nn.Parameter],
    settings: OptimizerSettings,
    *,
    capturable: str = "",
) -> torch.optim.AdamW:
    """Matrices decay; norms, biases, positions and the temperature do not.

    Args:
        parameters: By name.
        settings: Learning rate, betas, weight decay.
        capturable: The GPU on which steps are recorded, if they are: the optimizer then reads its
            learning rate there.
    """
    rate = settings.learning_rate
    return torch.optim.AdamW(
        decay_groups(parameters, settings.weight_decay),
        lr=torch.tensor(rate, device=capturable) if capturable else rate,
        betas=settings.betas,
        eps=settings.epsilon,
        # Not False, which would also turn off PyTorch's default of many weights at a time.
        fused=True if capturable else None,
        capturable=bool(capturable),
    )


def decay_groups(
    weights: Mapping[str, nn.Parameter], weight_decay: float
) -> list[dict[str, object]]:
    """Parameter groups: matrices that decay, and the rest; a group without weights is left out."""
    decayed: list[nn.Parameter] = []
    free: list[nn.Parameter] = []
    for name, weight in weights.items():
        is_matrix = weight.ndim >= 2 and "position" not in name
        (decayed if is_matrix else free).append(weight)
    groups: list[dict[str, object]] = [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": free, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def set_lr(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of the next step.

    A rate that the optimizer was made with as a tensor is changed in place on its device, where a
    recorded step reads it.
    """
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def lr_factor(step: int, *, steps: int, warmup_steps: int, schedule: Schedule = "cosine") -> float:
    """Factor of the learning rate: linear warmup, then half a cosine or a line to zero."""
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if schedule == "linear":
        return max(0.0, (steps - step) / max(1, steps - warmup_steps))
    return (1 + cos(pi * (step - warmup_steps) / max(1, steps - warmup_steps))) / 2


def compile_layers(layers: Iterable[nn.Module], *, device: str, varies: bool = False) -> None:
    """Compile layers in place; `varies` where rows or their lengths differ from call to call.

    In layers as narrow as those of the tiny models most of a step goes into norms, casts and sums
    over rows, each of which reads and writes all of memory. Compiled, they are done in passing.
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


Memory = tuple[int, int]
"""Names a part of a GPU's memory in which several steps are recorded."""


def shared_memory() -> Memory:
    """Memory for recording many models in turn: each step can use that of the one before."""
    found: Memory = torch.cuda.graph_pool_handle()
    return found


class Recorded:
    """A step that reads its inputs from tensors which stay where they are, as a CUDA graph.

    A step of a small model is a thousand small kernels: to launch them one by one takes ten times
    as long as to run them. A graph launches all at once. Nothing is recorded on a CPU.
    """

    def __init__(
        self,
        step: Callable[[], Mapping[str, Tensor]],
        optimizer: torch.optim.Optimizer,
        *,
        device: str,
        beside: Sequence[Tensor] = (),
        memory: Memory | None = None,
    ) -> None:
        """Record it; weights and optimizer state are afterwards as they were before.

        Where that fails, on a GPU or with a loss that nobody tried, each step is launched anew.

        Args:
            step: Computes the loss, its gradient, and takes the optimizer's step; gives numbers
                such as the loss. It must not ask the device for anything.
            optimizer: Made with `capturable`.
            device: A GPU.
            beside: What else a step changes.
            memory: Of `shared_memory`, for steps that are replayed one after the other.
        """
        weights = [w for group in optimizer.param_groups for w in group["params"]]
        before = Snapshot([*weights, *beside], optimizer)
        self._step = step
        self._graph: torch.cuda.CUDAGraph | None = None
        self._numbers: Mapping[str, Tensor] = {}
        try:
            self._graph = self._record(optimizer, device, memory)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            warn(
                f"steps cannot be recorded on {device} ({reason}); they are launched one by one, "
                "which is slower and gives the same",
                stacklevel=2,
            )
        finally:
            before.put_back()

    def _record(
        self, optimizer: torch.optim.Optimizer, device: str, memory: Memory | None
    ) -> torch.cuda.CUDAGraph:
        with torch.cuda.device(device):
            side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(_WARM_UP):
                    self._step()
            torch.cuda.current_stream().wait_stream(side)
            optimizer.zero_grad(set_to_none=True)
            graph = torch.cuda.CUDAGraph()
            # Threads that pin batches meanwhile touch no stream, and must not end the recording.
            mode = "thread_local"
            with torch.cuda.graph(graph, pool=memory, capture_error_mode=mode):  # type: ignore[arg-type]
                self._numbers = self._step()
        return graph

    def __call__(self) -> dict[str, Tensor]:
        """Take one more step; gives its numbers, on the device."""
        if self._graph is None:
            return dict(self._step())
        self._graph.replay()
        return {name: value.clone() for name, value in self._numbers.items()}


class Snapshot:
    """A copy of weights and optimizer state, to restore them after recording."""

    def __init__(self, weights: Iterable[Tensor], optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        self._weights = [(weight, weight.detach().clone()) for weight in weights]
        self._state = {
            (weight, key): value.clone()
            for weight, some in optimizer.state.items()
            for key, value in some.items()
        }

    @torch.no_grad()
    def put_back(self) -> None:
        """In place, since a graph knows tensors by where they lie."""
        for weight, value in self._weights:
            weight.copy_(value)
        for weight, some in self._optimizer.state.items():
            for key, value in some.items():
                kept = self._state.get((weight, key))
                # What was not there before the first step begins at zero.
                value.zero_() if kept is None else value.copy_(kept)
