"""AdamW with warmup and a learning rate schedule, compiled layers, and steps as CUDA graphs."""

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
"""How the learning rate falls after the warmup."""
_MAX_SHAPES = 64
"""Widths of layers and sizes of batches for which PyTorch compiles a layer before it gives up."""
_STEPS_BEFORE_RECORDING = 3
"""PyTorch requires some steps before recording, in which libraries initialize themselves."""


@dataclass(frozen=True)
class OptimizerSettings:
    """AdamW, its schedule and gradient clipping."""

    steps: int
    learning_rate: float
    warmup_steps: int = 0
    schedule: Schedule = "cosine"
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    clip_norm: float | None = None
    """Largest norm of the gradient; longer gradients are scaled down."""


def make_optimizer(
    parameters: Mapping[str, nn.Parameter],
    settings: OptimizerSettings,
    *,
    capturable: str = "",
) -> torch.optim.AdamW:
    """Make AdamW; weight decay applies to matrices, not to norms, biases, positions or temperature.

    Args:
        parameters: By name.
        settings: Learning rate, betas, weight decay.
        capturable: The GPU on which steps are recorded, or empty. The learning rate is then a
            tensor on that GPU.
    """
    learning_rate = settings.learning_rate
    return torch.optim.AdamW(
        decay_groups(parameters, settings.weight_decay),
        lr=torch.tensor(learning_rate, device=capturable) if capturable else learning_rate,
        betas=settings.betas,
        eps=settings.epsilon,
        # Not False, which would also turn off the default `foreach` implementation.
        fused=True if capturable else None,
        capturable=bool(capturable),
    )


def decay_groups(
    parameters: Mapping[str, nn.Parameter], weight_decay: float
) -> list[dict[str, object]]:
    """Return the parameter groups: matrices with weight decay, the rest without; none is empty."""
    decayed: list[nn.Parameter] = []
    not_decayed: list[nn.Parameter] = []
    for name, parameter in parameters.items():
        is_matrix = parameter.ndim >= 2 and "position" not in name
        (decayed if is_matrix else not_decayed).append(parameter)
    groups: list[dict[str, object]] = [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": not_decayed, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def set_lr(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Set the learning rate of the next step.

    If it is a tensor, it is changed in place, because a recorded step reads that memory.
    """
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(learning_rate)
        else:
            group["lr"] = learning_rate


def lr_factor(step: int, *, steps: int, warmup_steps: int, schedule: Schedule = "cosine") -> float:
    """Return the factor of the learning rate: linear warmup, then half a cosine or a line to 0."""
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if schedule == "linear":
        return max(0.0, (steps - step) / max(1, steps - warmup_steps))
    return (1 + cos(pi * (step - warmup_steps) / max(1, steps - warmup_steps))) / 2


def compile_layers(layers: Iterable[nn.Module], *, device: str, varies: bool = False) -> None:
    """Compile layers in place; `varies` if the shape of their inputs changes from call to call.

    In the narrow layers of tiny models, most of a step goes into norms, casts and sums over rows,
    each of which reads and writes all of memory; the compiler fuses them. Nothing changes on a CPU,
    or where PyTorch has no compiler for the GPU. Copies of a compiled layer are not compiled.
    """
    if not device.startswith("cuda") or not _triton.has_triton():
        return
    config = torch._dynamo.config
    option = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"
    setattr(config, option, max(getattr(config, option), _MAX_SHAPES))
    # A layer that cannot be compiled on some machine runs uncompiled.
    config.suppress_errors = True
    for layer in layers:
        layer.compile(dynamic=varies)


Memory = tuple[int, int]
"""Handle of a memory pool of a GPU that several recorded steps share."""


def shared_memory() -> Memory:
    """Make a memory pool for recorded steps of several models that are replayed in turn."""
    pool: Memory = torch.cuda.graph_pool_handle()
    return pool


class Recorded:
    """A training step recorded as a CUDA graph; it reads its inputs from fixed memory.

    A step of a small model is a thousand small kernels, and launching them one by one takes ten
    times as long as running them. A graph launches all at once. Nothing is recorded on a CPU.
    """

    def __init__(
        self,
        step: Callable[[], Mapping[str, Tensor]],
        optimizer: torch.optim.Optimizer,
        *,
        device: str,
        other_tensors: Sequence[Tensor] = (),
        memory: Memory | None = None,
    ) -> None:
        """Record the step, then restore weights and optimizer state.

        If recording fails, as it may on an untried GPU or with an untried loss, every step is
        launched kernel by kernel.

        Args:
            step: Computes the loss and its gradient, takes the optimizer's step and returns numbers
                such as the loss. It must not copy anything from the device to the CPU.
            optimizer: Made with `capturable`.
            device: A GPU.
            other_tensors: Other tensors that the step changes; they are restored too.
            memory: What `shared_memory` returned, for steps that are replayed in turn.
        """
        weights = [w for group in optimizer.param_groups for w in group["params"]]
        snapshot = Snapshot([*weights, *other_tensors], optimizer)
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
            snapshot.restore()

    def _record(
        self, optimizer: torch.optim.Optimizer, device: str, memory: Memory | None
    ) -> torch.cuda.CUDAGraph:
        with torch.cuda.device(device):
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(_STEPS_BEFORE_RECORDING):
                    self._step()
            torch.cuda.current_stream().wait_stream(stream)
            optimizer.zero_grad(set_to_none=True)
            graph = torch.cuda.CUDAGraph()
            # Other threads pin batches at the same time; they must not end the recording.
            mode = "thread_local"
            with torch.cuda.graph(graph, pool=memory, capture_error_mode=mode):  # type: ignore[arg-type]
                self._numbers = self._step()
        return graph

    def __call__(self) -> dict[str, Tensor]:
        """Take one step and return its numbers, which stay on the device."""
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
            for weight, state in optimizer.state.items()
            for key, value in state.items()
        }

    @torch.no_grad()
    def restore(self) -> None:
        """Restore them in place: a graph refers to memory addresses."""
        for weight, value in self._weights:
            weight.copy_(value)
        for weight, state in self._optimizer.state.items():
            for key, value in state.items():
                saved = self._state.get((weight, key))
                # State that the first step creates starts at zero.
                value.zero_() if saved is None else value.copy_(saved)
