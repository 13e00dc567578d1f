"""Weights of models: fingerprints, a check for NaN, and random initialization.

A randomly initialized model has the same architecture without training: whatever a probe reads from
it comes from the architecture.
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

_MAX_LISTED = 3
"""Number of tensor names in a message."""


def fingerprint(kind: str, state: Mapping[str, Tensor], *texts: str) -> str:
    """Hash all tensors by name, and texts such as a config, a dtype and a code version."""
    import torch

    digest = blake2b(digest_size=12)
    for text in texts:
        digest.update(text.encode() + b"\0")
    for name, tensor in sorted(state.items()):
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {plain.dtype} {tuple(plain.shape)}\0".encode())
        # As bytes, since numpy has no bfloat16.
        digest.update(plain.flatten().view(torch.uint8).numpy().data if plain.numel() else b"")
    return f"{kind}-{digest.hexdigest()}"


def check_finite(state: Mapping[str, Tensor], *, source: str) -> None:
    """Raise UnbagError if a tensor holds NaN or infinity, which would corrupt scores."""
    bad = [name for name, tensor in state.items() if not _is_finite(tensor)]
    if not bad:
        return
    more = f" and {len(bad) - _MAX_LISTED} more" if len(bad) > _MAX_LISTED else ""
    raise UnbagError(
        f"{len(bad)} of the {len(state)} tensors of {source} hold NaN or infinity: "
        f"{', '.join(bad[:_MAX_LISTED])}{more}",
        expected="finite weights",
        hint="use an earlier checkpoint: this training diverged, or the file is damaged",
    )


def _is_finite(tensor: Tensor) -> bool:
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    if tensor.dtype.itemsize == 1:
        tensor = tensor.float()
    # One pass without a copy: NaN becomes both minimum and maximum, infinity one of them.
    return all(bool(value.isfinite()) for value in tensor.detach().aminmax())


def read_safetensors(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Return header and tensors of a file."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        names = file.keys()
        return file.metadata() or {}, {name: file.get_tensor(name) for name in names}


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's CPU generator inside the context and restore it afterwards.

    Other generators are not needed, since networks are built on the CPU.
    """
    # Imported here, since `unbag.probes` must import without PyTorch.
    import torch

    with torch.random.fork_rng(devices=[]):
        # `torch.manual_seed` would also seed GPU generators, which the fork does not restore.
        torch.default_generator.manual_seed(seed)
        yield


def random_init(encoder: DualEncoder, *, seed: int = 0) -> DualEncoder | None:
    """Return a randomly initialized model of the same architecture, tokenizer, dtype and device.

    The weights are initialized by its library and depend only on the seed; no random generator
    changes its state. None for an encoder without a method `random_init`, and for one of open_clip
    that was made without `config` and `preparation`.
    """
    make = getattr(encoder, "random_init", None)
    name = f"{encoder.name}, random weights"
    initialized: DualEncoder | None = None if make is None else make(name=name, seed=seed)
    return initialized
