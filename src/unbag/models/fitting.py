"""A call on many inputs comes in; its outputs go out, in parts that the memory can hold.

The first part that does not fit halves the size of all that follow, and that is said. Batch sizes
change results by less than 1e-5, so a smaller batch is no other measurement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from unbag.errors import UserError
from unbag.models.returned import as_tensor

if TYPE_CHECKING:
    from torch import Tensor


class _Many(Protocol):
    """A batch: a tensor or a list."""

    def __len__(self) -> int:
        """How many inputs."""

    def __getitem__(self, key: slice, /) -> Self:
        """Some of them."""


Inputs = TypeVar("Inputs", bound=_Many)


@dataclass
class Fitting:
    """Runs a model on as many inputs at once as fit, and remembers how many that is."""

    name: str
    say: Callable[[str], None]
    most: int | None = None
    """Inputs at once, once a larger number did not fit."""

    def __call__(self, encode: Callable[[Inputs], Tensor], inputs: Inputs) -> Tensor:
        """`encode` of all inputs, part by part; parts are joined on the CPU."""
        import torch

        found: list[Tensor] = []
        at = 0
        while at < len(inputs):
            size = min(self.most or len(inputs), len(inputs) - at)
            try:
                returned = encode(inputs[at : at + size])
                found.append(as_tensor(returned, model=self.name).detach().cpu())
            except RuntimeError as error:
                if is_from_compiler(error):
                    raise self._not_compiled(error) from error
                if not is_out_of_memory(error):
                    raise
                self._halve(size, error)
            else:
                at += size
        return torch.cat(found) if len(found) != 1 else found[0]

    def _not_compiled(self, error: RuntimeError) -> UserError:
        # The reason; advice on finding errors of torch follows after an empty line.
        why = " ".join(str(error).partition("\n\n")[0].split())
        return UserError(
            f"{self.name} could not be compiled: {why[:300]}",
            expected="a model that torch.compile can follow, and a working C++ compiler",
            way_out="leave --compile out: scores are the same; or install a compiler such as g++",
        )

    def _halve(self, size: int, error: RuntimeError) -> None:
        import torch

        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if size == 1:
            raise UserError(
                f"{self.name} does not fit into memory with one input at a time: "
                f"{str(error).splitlines()[0]}",
                expected="room for the model and one input",
                way_out="use --dtype bfloat16, another --device, or a smaller model",
            ) from error
        self.most = size // 2
        self.say(
            f"{self.name}: out of memory with {size} inputs at once, going on with {self.most}"
        )


def is_from_compiler(error: RuntimeError) -> bool:
    """By the name of its class: to import the compiler only to ask takes seconds."""
    return any(
        kind.__module__.startswith(("torch._dynamo", "torch._inductor"))
        for kind in type(error).__mro__
    )


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether a device, or the machine, had no room; each says it in its own words."""
    import torch

    text = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError) or any(
        said in text for said in ("out of memory", "can't allocate memory", "not enough memory")
    )
