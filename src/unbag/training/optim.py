"""AdamW with warm-up, cosine decay and clipping; compiled layers and steps recorded on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import cos, log, pi
from warnings import warn

import torch
from torch import Tensor, nn
from torch.utils import _triton

from unbag.errors import UserError
from unbag.training.recipes import Recipe
from unbag.training.towers.base import Trainable

_SHAPES = 64
"""Layers of several widths and batches of several sizes are compiled once each, not given up on."""
_WARM_UP = 3
"""Steps before recording, as PyTorch asks for: libraries set themselves up in them."""


def make_optimiser(trainable: Trainable, recipe: Recipe) -> torch.optim.AdamW:
    """Matrices decay; norms, biases, positions and the temperature stay free."""
    groups = decay_groups(open_weights(trainable), recipe.weight_decay)
    if not groups:
        raise UserError(
            f"both towers of {trainable.name} and the temperature are locked",
            expected="something that is left to train",
            way_out="lock less, as with --set locks.caption=0",
        )
    return torch.optim.AdamW(
        groups,
        lr=recipe.learning_rate,
        betas=recipe.betas,
        eps=recipe.epsilon,
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


def open_weights(trainable: Trainable) -> dict[str, nn.Parameter]:
    """Weights that training changes, by name."""
    return {n: w for n, w in trainable.module.named_parameters() if w.requires_grad}


def change_weights(
    trainable: Trainable,
    optimiser: torch.optim.AdamW,
    recipe: Recipe,
    *,
    step: int,
    steps: int,
    first: Mapping[str, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Take the optimiser's step; gives the length of the gradient and the distance to the start.

    Args:
        trainable: With gradients, which are cleared.
        optimiser: Of `make_optimiser`.
        recipe: Its rate, clipping and bounds.
        step: Counted from 0.
        steps: Of the whole run.
        first: The weights at the start, where the recipe holds on to them.
    """
    set_rate(optimiser, recipe, step=step, steps=steps)
    return apply_gradient(trainable, optimiser, recipe, first=first)


def apply_gradient(
    trainable: Trainable,
    optimiser: torch.optim.AdamW,
    recipe: Recipe,
    *,
    first: Mapping[str, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Take the optimiser's step at the rate that is set; see `change_weights`."""
    weights = open_weights(trainable)
    away = _pull_to_start(weights, first, recipe.to_start) if first else torch.zeros(())
    length = torch.nn.utils.get_total_norm([w.grad for w in weights.values() if w.grad is not None])
    if recipe.clip_norm is not None:
        torch.nn.utils.clip_grads_with_norm_(weights.values(), recipe.clip_norm, length)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    with torch.no_grad():
        # As CLIP does: a scale above 100 or below 1 makes training unstable.
        scale = trainable.temperature[0]
        if scale.requires_grad:
            scale.clamp_(0.0, log(recipe.largest_scale))
    return length, away


def _pull_to_start(
    weights: Mapping[str, nn.Parameter], first: Mapping[str, Tensor], strength: float
) -> Tensor:
    """Add the gradient of strength x squared distance to the start; gives the distance squared."""
    away = torch.zeros((), device=next(iter(weights.values())).device)
    for name, weight in weights.items():
        apart = weight.detach() - first[name]
        away += apart.square().sum()
        held = 2 * strength * apart
        weight.grad = held if weight.grad is None else weight.grad + held
    return away


def set_rate(optimiser: torch.optim.AdamW, recipe: Recipe, *, step: int, steps: int) -> None:
    """Set the learning rate of a step."""
    share = share_of_rate(step, steps=steps, warm_up=recipe.warm_up)
    put_rate(optimiser, recipe.learning_rate * share)


def put_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of the next step.

    A rate that the optimiser was made with as a tensor is changed in place on its device, where a
    recorded step reads it.
    """
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def share_of_rate(step: int, *, steps: int, warm_up: int) -> float:
    """Factor of the learning rate: linear warm-up, then half a cosine to zero."""
    if step < warm_up:
        return (step + 1) / warm_up
    return (1 + cos(pi * (step - warm_up) / max(1, steps - warm_up))) / 2


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
        step: Callable[[], Tensor],
        optimiser: torch.optim.Optimizer,
        *,
        device: str,
        beside: Sequence[Tensor] = (),
        memory: Memory | None = None,
    ) -> None:
        """Record it; weights and optimizer state are afterwards as they were before.

        Where that fails, on a GPU or with a loss that nobody tried, each step is launched anew.

        Args:
            step: Computes the loss, its gradient, and takes the optimiser's step. It must not ask
                the device for anything.
            optimiser: Made with `capturable`.
            device: A GPU.
            beside: What else a step changes.
            memory: Of `shared_memory`, for steps that are replayed one after the other.
        """
        weights = [w for group in optimiser.param_groups for w in group["params"]]
        before = Snapshot([*weights, *beside], optimiser)
        self._step = step
        self._graph: torch.cuda.CUDAGraph | None = None
        self._loss = torch.zeros(())
        try:
            self._graph = self._record(optimiser, device, memory)
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
        self, optimiser: torch.optim.Optimizer, device: str, memory: Memory | None
    ) -> torch.cuda.CUDAGraph:
        with torch.cuda.device(device):
            side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(_WARM_UP):
                    self._step()
            torch.cuda.current_stream().wait_stream(side)
            optimiser.zero_grad(set_to_none=True)
            graph = torch.cuda.CUDAGraph()
            # Threads that pin batches meanwhile touch no stream, and must not end the recording.
            mode = "thread_local"
            with torch.cuda.graph(graph, pool=memory, capture_error_mode=mode):  # type: ignore[arg-type]
                self._loss = self._step()
        return graph

    def __call__(self) -> Tensor:
        """One more step; gives the loss, on the device."""
        if self._graph is None:
            return self._step()
        self._graph.replay()
        return self._loss.clone()


class Snapshot:
    """A copy of weights and optimizer state, to restore them after recording."""

    def __init__(self, weights: Iterable[Tensor], optimiser: torch.optim.Optimizer) -> None:
        self._optimiser = optimiser
        self._weights = [(weight, weight.detach().clone()) for weight in weights]
        self._moments = {
            (weight, key): value.clone()
            for weight, some in optimiser.state.items()
            for key, value in some.items()
        }

    @torch.no_grad()
    def put_back(self) -> None:
        """In place, since a graph knows tensors by where they lie."""
        for weight, value in self._weights:
            weight.copy_(value)
        for weight, some in self._optimiser.state.items():
            for key, value in some.items():
                kept = self._moments.get((weight, key))
                # What was not there before the first step begins at zero.
                value.zero_() if kept is None else value.copy_(kept)
