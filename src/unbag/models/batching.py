"""Batch sizes that fit into memory, and preparation of images on the device.

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
    """Converts an image to [C, H, W]."""

_SIDE, _LEVELS = 16, 256
_TEST_SIZES = ((300, 200), (31, 65), (40, 30))
"""Width and height of images that a preparation is tested on: large, odd and small."""


class _Sliceable(Protocol):
    """A batch: a tensor or a list."""

    def __len__(self) -> int:
        """Return the number of inputs."""

    def __getitem__(self, key: slice, /) -> Self:
        """Return a slice."""


Batch = TypeVar("Batch", bound=_Sliceable)
Out = TypeVar("Out")


@dataclass
class Fitting:
    """Runs a model with the largest batch size that fits into memory, and remembers that size.

    A batch that does not fit halves the size of all that follow, with a warning. The batch size
    changes results by less than 1e-5, so results remain comparable.
    """

    name: str
    say: Callable[[str], None]
    most: int | None = None
    """Batch size, once a larger one did not fit."""

    def __call__(self, encode: Callable[[Batch], Tensor], inputs: Batch) -> Tensor:
        """Encode all inputs in batches and concatenate the results on the CPU."""
        import torch

        def on_cpu(batch: Batch) -> Tensor:
            return as_tensor(encode(batch), model=self.name).detach().cpu()

        tensors = self.parts(on_cpu, inputs)
        return torch.cat(tensors) if len(tensors) != 1 else tensors[0]

    def parts(self, encode: Callable[[Batch], Out], inputs: Batch) -> list[Out]:
        """Encode in batches that fit, and return the result of each."""
        results: list[Out] = []
        start = 0
        while start < len(inputs):
            size = min(self.most or len(inputs), len(inputs) - start)
            try:
                results.append(encode(inputs[start : start + size]))
            except RuntimeError as error:
                if _is_from_compiler(error):
                    raise self._not_compiled(error) from error
                if not is_out_of_memory(error):
                    raise
                self._halve(size, error)
            else:
                start += size
        return results

    def _not_compiled(self, error: RuntimeError) -> UnbagError:
        # The reason ends at an empty line; general advice of torch follows.
        reason = " ".join(str(error).partition("\n\n")[0].split())
        return UnbagError(
            f"{self.name} could not be compiled: {reason[:300]}",
            expected="a model that torch.compile supports, and a working C++ compiler",
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
    """Return whether a device or the machine ran out of memory; their messages differ."""
    import torch

    text = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError) or any(
        phrase in text for phrase in ("out of memory", "can't allocate memory", "not enough memory")
    )


def _is_from_compiler(error: RuntimeError) -> bool:
    """Return whether it is of torch.compile, by module name since the import takes seconds."""
    return any(
        kind.__module__.startswith(("torch._dynamo", "torch._inductor"))
        for kind in type(error).__mro__
    )


def as_tensor(returned: object, *, model: str) -> Tensor:
    """Return a tensor unchanged and an array as a tensor; UnbagError for anything else."""
    import torch

    if isinstance(returned, torch.Tensor):
        return returned
    if isinstance(returned, np.ndarray) and returned.dtype.kind in "fiub":
        # Copied: torch rejects arrays with negative strides, and warns of read-only ones.
        return torch.from_numpy(np.array(returned))
    kind = f"an array of {returned.dtype}" if isinstance(returned, np.ndarray) else ""
    raise UnbagError(
        f"model {model!r} returned {kind or f'a {type(returned).__name__}'}",
        expected="a tensor, or an array of numbers",
        hint="correct prepare, encode_images or encode_texts of this model",
    )


def of_one_size(prepared: Sequence[object], *, model: str) -> list[Tensor]:
    """Return prepared images as tensors, checked for one shape; flat ones may differ in length."""
    tensors = [as_tensor(image, model=model) for image in prepared]
    other = next((image for image in tensors if image.shape != tensors[0].shape), None)
    if other is not None and any(image.ndim != 1 for image in tensors):
        raise UnbagError(
            f"model {model!r} prepared images of different sizes: {tuple(tensors[0].shape)} and "
            f"{tuple(other.shape)}",
            expected="one size for all images, so that they make a batch",
            hint="resize and crop to one size in prepare of this model; flat tensors may "
            "differ in length and are padded with zeros",
        )
    return tensors


def even(prepared: Sequence[Tensor]) -> Sequence[Tensor]:
    """Pad flat tensors of different lengths with zeros to the longest; return others unchanged.

    A model with images of different sizes prepares flat tensors that begin with their own size.
    """
    from torch.nn.functional import pad

    if any(image.ndim != 1 for image in prepared) or len({len(image) for image in prepared}) <= 1:
        return prepared
    longest = max(len(image) for image in prepared)
    return [pad(image, (0, longest - len(image))) for image in prepared]


def levels(whole: Step, in_bytes: Step, last: Step) -> Levels | None:
    """Return the `Levels` of a preparation if test images confirm it bit by bit, else None.

    Args:
        whole: The full preparation.
        in_bytes: All steps but the last, giving bytes.
        last: The last step alone.
    """
    import torch
    from PIL import Image

    noise = np.random.default_rng(0)
    try:
        table = Levels(last)
        for width, height in _TEST_SIZES:
            noise_HWC = noise.integers(0, _LEVELS, (height, width, 3), dtype=np.uint8)
            image = Image.fromarray(noise_HWC)
            byte_CHW = in_bytes(image)
            if byte_CHW.dtype != torch.uint8:
                return None
            if not torch.equal(table(byte_CHW[None])[0], whole(image)):
                return None
    except Exception:
        # A preparation may raise any error if a step is left out; then it runs as a whole.
        return None
    return table


class Levels:
    """A lookup table from the bytes of each channel to the numbers of a preparation.

    The usual preparations end with a step that maps each byte on its own: a level of 0 to 255 in a
    channel becomes a number. On a GPU this step is a table lookup, so that the CPU stacks and
    copies bytes, a quarter of the memory. The table is made by the preparation itself, so results
    are identical bit by bit.
    """

    def __init__(self, last: Step) -> None:
        """Fill the table with `last`, the step that maps single bytes."""
        from PIL import Image

        ramp_V = np.arange(_LEVELS, dtype=np.uint8).reshape(_SIDE, _SIDE)
        number_CHW = last(Image.fromarray(np.stack([ramp_V] * 3, axis=-1)))
        self._number_CV = number_CHW.reshape(len(number_CHW), _LEVELS)

    def __call__(self, byte_NCHW: Tensor) -> Tensor:
        """Look up the numbers of bytes on their device."""
        import torch

        self._number_CV = self._number_CV.to(byte_NCHW.device)
        first_C = _LEVELS * torch.arange(len(self._number_CV), device=byte_NCHW.device)
        return self._number_CV.take(byte_NCHW.long() + first_C[:, None, None])
