"""A training step comes in; the same step, replayed by a GPU without Python, goes out.

A reader's step is a thousand small kernels: to launch them one by one takes ten times as long as to
run them. A CUDA graph launches all at once. Nothing is recorded on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from warnings import warn

import torch
from torch import Tensor

_WARM_UP = 3
"""Steps before recording, as PyTorch asks for: libraries set themselves up in them."""


Memory = tuple[int, int]
"""Names a part of a GPU's memory in which several steps are recorded."""


def shared_memory() -> Memory:
    """For many models in turn: what one step needs while it runs, the next can use again."""
    found: Memory = torch.cuda.graph_pool_handle()
    return found


class Recorded:
    """A step that reads its inputs from tensors which stay where they are."""

    def __init__(
        self,
        step: Callable[[], Tensor],
        optimiser: torch.optim.Optimizer,
        *,
        device: str,
        beside: Sequence[Tensor] = (),
        memory: Memory | None = None,
    ) -> None:
        """Record it; weights and moments are afterwards as they were before.

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
        before = Kept([*weights, *beside], optimiser)
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


class Kept:
    """Weights and moments of a moment ago."""

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
