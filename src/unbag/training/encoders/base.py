"""What a model offers to be trained: its encoders with gradients, their layers, and freezing them.

The first layer of an encoder is what embeds patches or words, then each block is one, and the last
is all that follows the blocks.

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
"""open_clip defines it after the blocks."""
_AT_OUTPUT = frozenset({"proj", "text_projection"})
"""Weights that stand beside the blocks and follow them; all other such weights embed."""
CAPTIONS = ("a red cube", "a")


class Trainable(Protocol):
    """The encoders of a dual encoder. All weights are float32; autocast decides what computes."""

    @property
    def name(self) -> str:
        """Of the model it came from."""

    @property
    def fingerprint(self) -> str:
        """Of the model it came from, before training."""

    @property
    def module(self) -> nn.Module:
        """Every weight, temperature and bias included, under its name in the library it is from."""

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
        """What data workers need; it can be sent to another process."""

    def embed_images(self, pixels: Tensor) -> Tensor:
        """[N, ...] on the device to unit vectors [N, D] in float32, with gradient."""

    def embed_texts(self, inputs: Inputs) -> Tensor:
        """Tokens on the device to unit vectors [N, D] in float32, with gradient."""

    def encoder(self, name: str) -> DualEncoder:
        """The weights as they are now, as an encoder of their own with a new fingerprint."""


class Reads(Protocol):
    """Preparation of images and captions, without weights."""

    def prepare(self, image: Image) -> Tensor:
        """As for evaluation; never flipped or cropped at random, since captions speak of sides."""

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        """Padded to the longest of them, where the encoder allows."""

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Of each caption, special ones included."""


@runtime_checkable
class KeptReads(Protocol):
    """Preparation that has met the images before, and opens none of them again."""

    def kept(self, image: ImageSource) -> Tensor:
        """What the image encoder, or what is trained of it, is given."""


def read_image(reads: Reads, image: ImageSource) -> Tensor:
    """Features of an image where they are kept, else the image opened and prepared."""
    return reads.kept(image) if isinstance(reads, KeptReads) else reads.prepare(image.open())


def apply_freeze(trainable: Trainable, freeze: Freeze) -> str:
    """Freeze weights and set the modes; gives what is left to train, in words."""
    for weight in weights_of(_all_frozen(trainable, freeze)):
        weight.requires_grad_(False)
    for weight in trainable.temperature if freeze.scale else ():
        weight.requires_grad_(False)
    set_training(trainable, freeze)
    return open_share(trainable)


def set_training(trainable: Trainable, freeze: Freeze) -> None:
    """Set train mode, but for what is frozen; called again whenever `module.train()` was.

    Batch norms keep the averages they were trained with: those of a batch would depend on how it
    is cut into parts and over processes, and evaluation uses the kept ones.
    """
    trainable.module.train()
    for module in modules_of(_all_frozen(trainable, freeze)):
        module.eval()
    for module in trainable.module.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()


def open_share(trainable: Trainable) -> str:
    """How many weights are trained, by encoder, in words."""
    network = {
        "image encoder": trainable.image_layers,
        "text encoder": trainable.text_layers,
        "temperature": [list(trainable.temperature)],
    }
    shown = []
    for name, layers in network.items():
        weights = list(weights_of(layers))
        opened = sum(weight.numel() for weight in weights if weight.requires_grad)
        shown.append(f"{name} {opened:,} of {sum(weight.numel() for weight in weights):,}")
    return f"trainable parameters: {', '.join(shown)}"


def is_part_frozen(trainable: Trainable, encoder: EncoderName, freeze: Freeze) -> bool:
    """Whether all but the last layer of an encoder stays as it is."""
    return len(_frozen_layers(trainable, encoder, freeze)) >= len(_layers(trainable, encoder)) - 1


def is_encoder_frozen(trainable: Trainable, encoder: EncoderName, freeze: Freeze) -> bool:
    """Whether an encoder stays as it is to its last layer."""
    return len(_frozen_layers(trainable, encoder, freeze)) == len(_layers(trainable, encoder))


def _all_frozen(trainable: Trainable, freeze: Freeze) -> Layers:
    return (
        *_frozen_layers(trainable, "image", freeze),
        *_frozen_layers(trainable, "text", freeze),
    )


def _frozen_layers(trainable: Trainable, encoder: EncoderName, freeze: Freeze) -> Layers:
    """The first layers of an encoder, as many as `freeze` says."""
    count = freeze.image if encoder == "image" else freeze.text
    every = _layers(trainable, encoder)
    if count == "all":
        return every
    if count == "part":
        return every[:-1]
    # A setting of the command line may be of any type.
    if type(count) is not int or not 0 <= count <= len(every):
        raise UnbagError(
            f"{count} layers of the {encoder} encoder of {trainable.name} are to be frozen",
            expected=f"0 to {len(every)}: embedding, {len(every) - 2} blocks, and what follows",
            hint=f"--set freeze.{encoder}=all freezes all of it, =part all but its last layer",
        )
    return every[:count]


def _layers(trainable: Trainable, encoder: EncoderName) -> Layers:
    layers = trainable.image_layers if encoder == "image" else trainable.text_layers
    return tuple(tuple(layer) for layer in layers)


def weights_of(layers: Iterable[Sequence[Part]]) -> Iterator[nn.Parameter]:
    """Every weight of some layers."""
    for layer in layers:
        for part in layer:
            yield from [part] if isinstance(part, nn.Parameter) else part.parameters()


def modules_of(layers: Iterable[Sequence[Part]]) -> Iterator[nn.Module]:
    """Every module of some layers, without those inside."""
    return (part for layer in layers for part in layer if isinstance(part, nn.Module))


def encoder_layers(
    encoder: nn.Module, *, without: Collection[str] = (), then: Sequence[Part] = ()
) -> Layers:
    """Embedding, blocks, rest; the first and the last are there even if nothing is in them.

    Libraries define the parts of an encoder in the order in which they run, but for a few that are
    known by name.

    Args:
        encoder: Where its weights are.
        without: Weights and modules right in it that are not part of the encoder.
        then: What follows and lies elsewhere, such as a projection.
    """
    first: list[Part] = []
    last: list[Part] = []
    way, names = _blocks(encoder, without)
    for step in way:
        _sort(encoder, (step,), without, first, last)
        encoder, without = getattr(encoder, step), ()
    _sort(encoder, names, without, first, last)
    blocks = [(block,) for name in names for block in getattr(encoder, name).children()]
    return tuple(first), *blocks, (*last, *then)


def _sort(
    owner: nn.Module,
    inside: Sequence[str],
    without: Collection[str],
    first: list[Part],
    last: list[Part],
) -> None:
    """Parts right in a module: before or after the one that holds the blocks."""
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
    """The way to the module that owns the blocks, and what it calls them.

    Blocks are the list that holds most weights; stages of a residual network are several lists.
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
    *way, name = max(outer, key=lambda n: outer[n]).split(".")
    owner = encoder.get_submodule(".".join(way))
    stages = [f"layer{n}" for n in range(1, 5)]
    is_staged = name in stages and all(hasattr(owner, stage) for stage in stages)
    return tuple(way), tuple(stages) if is_staged else (name,)


def close_unused(trainable: Trainable, *, device: str, captions: Sequence[str] = CAPTIONS) -> None:
    """Freeze weights that no vector depends on, tried on one image and some captions.

    Checkpoints carry such weights along: the decoder of CoCa, poolers of BERT that a caption's
    vector passes by. They would only be decayed. Tried in eval mode; the mode is left as it was.
    """
    was_training = trainable.module.training
    trainable.module.eval()
    image = trainable.reads.prepare(PilImage.new("RGB", (40, 30), (90, 120, 150)))
    inputs = {name: one.to(device) for name, one in trainable.reads.tokenize(captions).items()}
    with torch.enable_grad():
        found = trainable.embed_images(image[None].to(device)).sum()
        found = found + trainable.embed_texts(inputs).sum()
        found.backward()  # type: ignore[no-untyped-call]
    temperature = {id(weight) for weight in trainable.temperature}
    for weight in trainable.module.parameters():
        weight.requires_grad_(weight.grad is not None or id(weight) in temperature)
        weight.grad = None
    trainable.module.train(was_training)
