"""Batches: as many inputs at once as fit into memory, and prepared images that can be stacked.

Dimensions: N images, C channels, H height, W width, V the 256 levels of a byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

import numpy as np

from unbag.errors import UnbagError

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    Step = Callable[[Image], Tensor]
    """An image to [C, H, W]."""

_SIDE, _LEVELS = 16, 256
_TRIED = ((300, 200), (31, 65), (40, 30))
"""Width and height of images that a preparation is tried on: larger, odd and smaller ones."""


class _Sliceable(Protocol):
    """A batch: a tensor or a list."""

    def __len__(self) -> int:
        """How many inputs."""

    def __getitem__(self, key: slice, /) -> Self:
        """Some of them."""


Batch = TypeVar("Batch", bound=_Sliceable)
Out = TypeVar("Out")


@dataclass
class Fitting:
    """Runs a model on as many inputs at once as fit, and remembers how many that is.

    The first part that does not fit halves the size of all that follow, with a warning. Batch
    sizes change results by less than 1e-5, so a smaller batch is no other measurement.
    """

    name: str
    say: Callable[[str], None]
    most: int | None = None
    """Inputs at once, once a larger number did not fit."""

    def __call__(self, encode: Callable[[Batch], Tensor], inputs: Batch) -> Tensor:
        """`encode` of all inputs, part by part; parts are joined on the CPU."""
        import torch

        def on_cpu(some: Batch) -> Tensor:
            return as_tensor(encode(some), model=self.name).detach().cpu()

        found = self.parts(on_cpu, inputs)
        return torch.cat(found) if len(found) != 1 else found[0]

    def parts(self, encode: Callable[[Batch], Out], inputs: Batch) -> list[Out]:
        """`encode` of as many inputs at a time as fit, one after the other."""
        found: list[Out] = []
        at = 0
        while at < len(inputs):
            size = min(self.most or len(inputs), len(inputs) - at)
            try:
                found.append(encode(inputs[at : at + size]))
            except RuntimeError as error:
                if _is_from_compiler(error):
                    raise self._not_compiled(error) from error
                if not is_out_of_memory(error):
                    raise
                self._halve(size, error)
            else:
                at += size
        return found

    def _not_compiled(self, error: RuntimeError) -> UnbagError:
        # The reason; advice on finding errors of torch follows after an empty line.
        why = " ".join(str(error).partition("\n\n")[0].split())
        return UnbagError(
            f"{self.name} could not be compiled: {why[:300]}",
            expected="a model that torch.compile can follow, and a working C++ compiler",
            hint="leave --compile out: scores are the same; or install a compiler such as g++",
        )

    def _halve(self, size: int, error: RuntimeError) -> None:
        import torch

        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if size == 1:
            raise UnbagError(
                f"{self.name} does not fit into memory with one input at a time: "
                f"{str(error).splitlines()[0]}",
                expected="room for the model and one input",
                hint="use --dtype bfloat16, another --device, or a smaller model",
            ) from error
        self.most = size // 2
        self.say(
            f"{self.name}: out of memory with {size} inputs at once, going on with {self.most}"
        )


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether a device, or the machine, had no room; each says it in its own words."""
    import torch

    text = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError) or any(
        said in text for said in ("out of memory", "can't allocate memory", "not enough memory")
    )


def _is_from_compiler(error: RuntimeError) -> bool:
    """By the name of its class: to import the compiler only to ask takes seconds."""
    return any(
        kind.__module__.startswith(("torch._dynamo", "torch._inductor"))
        for kind in type(error).__mro__
    )


def as_tensor(returned: object, *, model: str) -> Tensor:
    """A tensor as it is, an array as a tensor; anything else is refused."""
    import torch

    if isinstance(returned, torch.Tensor):
        return returned
    if isinstance(returned, np.ndarray) and returned.dtype.kind in "fiub":
        # A copy: torch takes neither turned arrays nor, without a warning, those of other owners.
        return torch.from_numpy(np.array(returned))
    kind = f"an array of {returned.dtype}" if isinstance(returned, np.ndarray) else ""
    raise UnbagError(
        f"model {model!r} returned {kind or f'a {type(returned).__name__}'}",
        expected="a tensor, or an array of numbers",
        hint="mend prepare, encode_pictures or encode_captions of this model",
    )


def of_one_size(prepared: Sequence[object], *, model: str) -> list[Tensor]:
    """Prepared images as tensors, if they make a batch; flat ones may differ in length."""
    found = [as_tensor(one, model=model) for one in prepared]
    other = next((one for one in found if one.shape != found[0].shape), None)
    if other is not None and any(one.ndim != 1 for one in found):
        raise UnbagError(
            f"model {model!r} prepared images of different sizes: {tuple(found[0].shape)} and "
            f"{tuple(other.shape)}",
            expected="one size for all images, so that they make a batch",
            hint="resize and crop to one size in prepare of this model; flat tensors may "
            "differ in length and are filled up with zeros",
        )
    return found


def even(prepared: Sequence[Tensor]) -> Sequence[Tensor]:
    """Flat tensors of several lengths, filled with zeros to the longest; others as they are.

    A model whose images differ in size prepares them flat and says in front how much is its own.
    """
    from torch.nn.functional import pad

    if any(one.ndim != 1 for one in prepared) or len({len(one) for one in prepared}) <= 1:
        return prepared
    longest = max(len(one) for one in prepared)
    return [pad(one, (0, longest - len(one))) for one in prepared]


def levels(whole: Step, in_bytes: Step, last: Step) -> Levels | None:
    """The levels of a preparation that is these two steps, to the bit; tried, not believed.

    `whole` gives numbers, `in_bytes` all but the last step, `last` that step alone.
    """
    import torch
    from PIL import Image

    noise = np.random.default_rng(0)
    try:
        found = Levels(last)
        for width, height in _TRIED:
            noise_HWC = noise.integers(0, _LEVELS, (height, width, 3), dtype=np.uint8)
            image = Image.fromarray(noise_HWC)
            byte_CHW = in_bytes(image)
            if byte_CHW.dtype != torch.uint8:
                return None
            if not torch.equal(found(byte_CHW[None])[0], whole(image)):
                return None
    except Exception:
        # Preparations of others refuse a step left out in their own ways; these run whole.
        return None
    return found


class Levels:
    """What a preparation makes of each level of each channel.

    The usual preparations end with a step that sees one byte at a time: a level of 0 to 255 in a
    channel becomes a number. For a GPU that step is left out on the processor, so that a quarter of
    the memory is stacked and copied, and done on the device by looking the numbers up. They are the
    preparation's own, so every bit stays the same.
    """

    def __init__(self, last: Step) -> None:
        """`last` is the preparation without the steps that see more than one byte."""
        from PIL import Image

        ramp_V = np.arange(_LEVELS, dtype=np.uint8).reshape(_SIDE, _SIDE)
        number_CHW = last(Image.fromarray(np.stack([ramp_V] * 3, axis=-1)))
        self._number_CV = number_CHW.reshape(len(number_CHW), _LEVELS)

    def __call__(self, byte_NCHW: Tensor) -> Tensor:
        """Looked up where the bytes are."""
        import torch

        self._number_CV = self._number_CV.to(byte_NCHW.device)
        first_C = _LEVELS * torch.arange(len(self._number_CV), device=byte_NCHW.device)
        return self._number_CV.take(byte_NCHW.long() + first_C[:, None, None])
