"""What all models share about their weights: fingerprint, a check for NaN, and a random twin.

The random twin of a dual encoder is the same architecture with random weights: what can be read
from it was put there by the architecture, not by training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.errors import UnbagError

if TYPE_CHECKING:
    from torch import Tensor

    from unbag.types import DualEncoder

_SHOWN = 3
"""Names of tensors in a message."""


def fingerprint(kind: str, state: Mapping[str, Tensor], *said: str) -> str:
    """Hash of all tensors, by name, and of texts such as a config, a dtype and a code version."""
    import torch

    digest = blake2b(digest_size=12)
    for text in said:
        digest.update(text.encode() + b"\0")
    for name, tensor in sorted(state.items()):
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {plain.dtype} {tuple(plain.shape)}\0".encode())
        # As bytes: numpy knows no bfloat16.
        digest.update(plain.flatten().view(torch.uint8).numpy().data if plain.numel() else b"")
    return f"{kind}-{digest.hexdigest()}"


def check_finite(state: Mapping[str, Tensor], *, source: str) -> None:
    """Raise if a tensor holds NaN or infinity: every score would be NaN, or wrong in silence."""
    bad = [name for name, tensor in state.items() if not _is_finite(tensor)]
    if not bad:
        return
    more = f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
    raise UnbagError(
        f"{len(bad)} of the {len(state)} tensors of {source} hold NaN or infinity: "
        f"{', '.join(bad[:_SHOWN])}{more}",
        expected="finite weights",
        hint="take an earlier checkpoint: this training diverged, or the file is damaged",
    )


def _is_finite(tensor: Tensor) -> bool:
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    if tensor.dtype.itemsize == 1:
        tensor = tensor.float()
    # One pass without a copy: NaN is both the least and the largest, infinity one of them.
    return all(bool(value.isfinite()) for value in tensor.detach().aminmax())


def read_safetensors(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Header and tensors of a file."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        names = file.keys()
        return file.metadata() or {}, {name: file.get_tensor(name) for name in names}


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draws of a seed inside, and the generator as it was behind it.

    That of the CPU alone: networks are built there, so no other is drawn from.
    """
    # Not above: `unbag.probes` is read without PyTorch.
    import torch

    with torch.random.fork_rng(devices=[]):
        # `torch.manual_seed` would also seed generators of GPUs, which the fork does not restore.
        torch.default_generator.manual_seed(seed)
        yield


def random_init(encoder: DualEncoder, *, seed: int = 0) -> DualEncoder | None:
    """Same sizes, preparation, tokenizer, precision and device; weights as its library begins.

    The same for the same seed, whatever the weights of `encoder` are; the state of no random
    generator is changed. None for an encoder without a method `random_init`, such as your own, and
    for one of open_clip that was made without its `config` and `preparation`.
    """
    make = getattr(encoder, "random_init", None)
    name = f"{encoder.name}, random weights"
    found: DualEncoder | None = None if make is None else make(name=name, seed=seed)
    return found
