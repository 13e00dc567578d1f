"""The protocol of trainable encoders, their layers, and how layers are frozen.

The first layer of an encoder embeds patches or words, then each block is a layer, and the last
layer is everything that follows the blocks.

Dimensions: N images or captions, D joint space.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

import torch
from PIL import Image as PilImage
from torch import nn

from unbag.errors import UnbagError
from unbag.training.recipes import Freeze
from unbag.types import DualEncoder, ImageSource

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    from unbag.training.data.batch import Inputs


Part: TypeAlias = nn.Module | nn.Parameter
Layers: TypeAlias = tuple[tuple[Part, ...], ...]
EncoderName: TypeAlias = Literal["image", "text"]
_AT_INPUT = frozenset({"token_embedding"})
"""Modules that belong to the first layer although open_clip defines them after the blocks."""
_AT_OUTPUT = frozenset({"proj", "text_projection"})
"""Bare weights that belong to the last layer; all other bare weights belong to the first."""
CAPTIONS = ("a red cube", "a")
"""Captions to run a text encoder on."""


class Trainable(Protocol):
    """The encoders of a dual encoder with gradients. Weights are float32; autocast may be used."""

    @property
    def name(self) -> str:
        """Name of the original model."""

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the original model, before training."""

    @property
    def module(self) -> nn.Module:
        """Holds every weight, with temperature and bias, under its name in the model's library."""

    @property
    def image_layers(self) -> Sequence[Sequence[nn.Module | nn.Parameter]]:
        """The image encoder from input to output: embedding, blocks, what follows them."""

    @property
    def text_layers(self) -> Sequence[Sequence[nn.Module | nn.Parameter]]:
        """The text encoder likewise."""

    @property
    def temperature(self) -> Sequence[nn.Parameter]:
        """The logarithm of the scale, then the bias if there is one."""

    @property
    def reads(self) -> Reads:
        """Preparation of images and captions; it can be sent to another process."""

    def embed_images(self, pixels: Tensor) -> Tensor:
        """Embed images [N, ...] on the device as unit vectors [N, D] in float32, with gradient."""

    def embed_texts(self, inputs: Inputs) -> Tensor:
        """Embed tokens on the device as unit vectors [N, D] in float32, with gradient."""

    def encoder(self, name: str) -> DualEncoder:
        """Return a copy of the current weights as an encoder with a new fingerprint."""


class Reads(Protocol):
    """Preparation of images and captions, without weights."""

    def prepare(self, image: Image) -> Tensor:
        """Prepare an image as for evaluation; never flip or crop at random: captions name sides."""

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        """Tokenize captions, padded to the longest if the encoder allows it."""

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Return the number of tokens of each caption, special ones included."""


@runtime_checkable
class CachedImageReads(Protocol):
    """Preparation with cached features of images, which does not open them again."""

    def read_cached(self, image: ImageSource) -> Tensor:
        """Return the input of the image encoder, or of its trainable part."""


def read_image(reads: Reads, image: ImageSource) -> Tensor:
    """Return the cached input of an image if there is one, else open and prepare the image."""
    return (
        reads.read_cached(image)
        if isinstance(reads, CachedImageReads)
        else reads.prepare(image.open())
    )


def apply_freeze(trainable: Trainable, freeze: Freeze) -> str:
    """Freeze weights and set the modes; returns a summary of the trainable parameters."""
    for weight in weights_of(_all_frozen(trainable, freeze)):
        weight.requires_grad_(False)
    for weight in trainable.temperature if freeze.scale else ():
        weight.requires_grad_(False)
    set_training(trainable, freeze)
    return trainable_summary(trainable)


def set_training(trainable: Trainable, freeze: Freeze) -> None:
    """Set train mode except for frozen layers; to be called again after `module.train()`.

    Batch norms use their running averages, as in evaluation: those of a batch would depend on how
    it is split into parts and over processes.
    """
    trainable.module.train()
    for module in modules_of(_all_frozen(trainable, freeze)):
        module.eval()
    for module in trainable.module.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()


def trainable_summary(trainable: Trainable) -> str:
    """Describe how many parameters of each encoder are trainable."""
    layers_by_name = {
        "image encoder": trainable.image_layers,
        "text encoder": trainable.text_layers,
        "temperature": [list(trainable.temperature)],
    }
    parts = []
    for name, layers in layers_by_name.items():
        weights = list(weights_of(layers))
        trainable_count = sum(weight.numel() for weight in weights if weight.requires_grad)
        parts.append(f"{name} {trainable_count:,} of {sum(weight.numel() for weight in weights):,}")
    return f"trainable parameters: {', '.join(parts)}"


def is_part_frozen(trainable: Trainable, encoder: EncoderName, freeze: Freeze) -> bool:
    """Return whether all but the last layer of an encoder are frozen."""
    return len(_frozen_layers(trainable, encoder, freeze)) >= len(_layers(trainable, encoder)) - 1


def is_encoder_frozen(trainable: Trainable, encoder: EncoderName, freeze: Freeze) -> bool:
    """Return whether all layers of an encoder are frozen."""
    return len(_frozen_layers(trainable, encoder, freeze)) == len(_layers(trainable, encoder))


def _all_frozen(trainable: Trainable, freeze: Freeze) -> Layers:
    return (
        *_frozen_layers(trainable, "image", freeze),
        *_frozen_layers(trainable, "text", freeze),
    )


def _frozen_layers(trainable: Trainable, encoder: EncoderName, freeze: Freeze) -> Layers:
    """Return the first layers of an encoder, as many as `freeze` says."""
    count = freeze.image if encoder == "image" else freeze.text
    layers = _layers(trainable, encoder)
    if count == "all":
        return layers
    if count == "part":
        return layers[:-1]
    # A value from the command line may have any type.
    if type(count) is not int or not 0 <= count <= len(layers):
        raise UnbagError(
            f"{count} layers of the {encoder} encoder of {trainable.name} are to be frozen",
            expected=f"0 to {len(layers)}: embedding, {len(layers) - 2} blocks, and what follows",
            hint=f"--set freeze.{encoder}=all freezes all of it, =part all but its last layer",
        )
    return layers[:count]


def _layers(trainable: Trainable, encoder: EncoderName) -> Layers:
    layers = trainable.image_layers if encoder == "image" else trainable.text_layers
    return tuple(tuple(layer) for layer in layers)


def weights_of(layers: Iterable[Sequence[Part]]) -> Iterator[nn.Parameter]:
    """Yield every weight of some layers."""
    for layer in layers:
        for part in layer:
            yield from [part] if isinstance(part, nn.Parameter) else part.parameters()


def modules_of(layers: Iterable[Sequence[Part]]) -> Iterator[nn.Module]:
    """Yield the modules of some layers, without their submodules."""
    return (part for layer in layers for part in layer if isinstance(part, nn.Module))


def encoder_layers(
    encoder: nn.Module, *, without: Collection[str] = (), then: Sequence[Part] = ()
) -> Layers:
    """Return the layers of an encoder: embedding, blocks, rest; the first and last may be empty.

    Libraries define the parts of an encoder in the order in which they run, except for a few that
    are known by name.

    Args:
        encoder: The module that holds its weights.
        without: Names of its weights and direct submodules that are not part of the encoder.
        then: Parts elsewhere that follow it, such as a projection.
    """
    first: list[Part] = []
    last: list[Part] = []
    path, names = _blocks(encoder, without)
    for step in path:
        _sort_parts(encoder, (step,), without, first, last)
        encoder, without = getattr(encoder, step), ()
    _sort_parts(encoder, names, without, first, last)
    blocks = [(block,) for name in names for block in getattr(encoder, name).children()]
    return tuple(first), *blocks, (*last, *then)


def _sort_parts(
    owner: nn.Module,
    inside: Sequence[str],
    without: Collection[str],
    first: list[Part],
    last: list[Part],
) -> None:
    """Sort the direct parts of a module into those before and after the blocks."""
    for name, weight in owner.named_parameters(recurse=False):
        if name not in without:
            (last if name in _AT_OUTPUT else first).append(weight)
    is_before = True
    for name, child in owner.named_children():
        if name in inside:
            is_before = False
        elif name not in without:
            (first if is_before or name in _AT_INPUT else last).append(child)


def _blocks(
    encoder: nn.Module, without: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the path to the module that owns the blocks, and its names for them.

    The blocks are the list with most weights; the stages of a residual network are several lists.
    """
    lists = {
        name: sum(weight.numel() for weight in module.parameters())
        for name, module in encoder.named_modules()
        if isinstance(module, nn.ModuleList | nn.Sequential)
        and name
        and name.split(".")[0] not in without
    }
    outer = {n: size for n, size in lists.items() if not any(n.startswith(f"{o}.") for o in lists)}
    if not outer:
        return (), ()
    *path, name = max(outer, key=lambda n: outer[n]).split(".")
    owner = encoder.get_submodule(".".join(path))
    stages = [f"layer{n}" for n in range(1, 5)]
    is_staged = name in stages and all(hasattr(owner, stage) for stage in stages)
    return tuple(path), tuple(stages) if is_staged else (name,)


def freeze_unused(trainable: Trainable, *, device: str, captions: Sequence[str] = CAPTIONS) -> None:
    """Freeze weights without influence on the vectors of one image and some captions.

    Some checkpoints hold such weights: the decoder of CoCa, an unused pooler of BERT. Training
    would only decay them. The model runs in eval mode; its mode is restored.
    """
    was_training = trainable.module.training
    trainable.module.eval()
    image = trainable.reads.prepare(PilImage.new("RGB", (40, 30), (90, 120, 150)))
    inputs = {name: value.to(device) for name, value in trainable.reads.tokenize(captions).items()}
    with torch.enable_grad():
        total = trainable.embed_images(image[None].to(device)).sum()
        total = total + trainable.embed_texts(inputs).sum()
        total.backward()  # type: ignore[no-untyped-call]
    temperature = {id(weight) for weight in trainable.temperature}
    for weight in trainable.module.parameters():
        weight.requires_grad_(weight.grad is not None or id(weight) in temperature)
        weight.grad = None
    trainable.module.train(was_training)
