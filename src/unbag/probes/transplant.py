"""Two models of one architecture come in; every combination of their towers and read-outs goes out.

A model falls into three parts: picture tower, text tower, and read-out (the projections of both
into the joint space, and the scale). If a repair changed a score, the combinations say which part
did it. Ours; related: model stitching (Bansal et al. 2021), without layers in between.

Limits: parts of models that were trained apart share no space, so their combinations are at chance
and say nothing. A part that adapted to another brings little alone: read what it brings alone
beside what is lost without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Literal, NamedTuple

from unbag.errors import UserError
from unbag.types import DualEncoder

if TYPE_CHECKING:
    from torch import Tensor, nn

    from unbag.train.layers import Part
    from unbag.train.trainable import Trainable

Source = Literal["base", "other"]
SOURCES: tuple[Source, Source] = ("base", "other")
WAY_OUT = (
    "parts fit each other between a model and what it was fine-tuned from; name that one as "
    "--against"
)
_PROJECTIONS = frozenset({"proj", "project", "text_projection", "visual_projection"})
"""What libraries call a projection that stands by itself at the end of a tower."""


class Choice(NamedTuple):
    """Which model each part is taken from."""

    picture: Source
    text: Source
    read_out: Source | None
    """None where there is no projection to take."""


@dataclass(frozen=True)
class Parts:
    """Names of all weights of a model, each in exactly one part."""

    picture: frozenset[str]
    text: frozenset[str]
    """What is neither tower's, such as the decoder of CoCa, counts here."""
    read_out: frozenset[str]
    """Empty if neither tower has a projection; the scale then counts to the text tower."""
    notes: tuple[str, ...] = ()

    def of(self, choice: Choice) -> frozenset[str]:
        """Names of the weights that come from the other model."""
        every = (self.picture, self.text, self.read_out)
        taken = [names for names, source in zip(every, choice, strict=True) if source == "other"]
        return frozenset().union(*taken)


@dataclass(frozen=True, eq=False)
class Transplant:
    """One combination."""

    choice: Choice
    encoder: DualEncoder


@dataclass(frozen=True, eq=False)
class Donors:
    """Two models whose parts fit each other."""

    parts: Parts
    names: tuple[str, str]
    trainable: Trainable
    """Of the base's class; its weights are those of the last combination."""
    base: Mapping[str, Tensor]
    other: Mapping[str, Tensor]

    @property
    def choices(self) -> tuple[Choice, ...]:
        """All eight, or four where there is no read-out; the base first, the other model last."""
        read_outs: tuple[Source | None, ...] = SOURCES if self.parts.read_out else (None,)
        return tuple(Choice(p, t, r) for p, t, r in product(SOURCES, SOURCES, read_outs))

    def combine(self, choice: Choice) -> DualEncoder:
        """A model of these parts, independent of all others."""
        taken = self.parts.of(choice)
        state = {n: self.other[n] if n in taken else weight for n, weight in self.base.items()}
        self.trainable.module.load_state_dict(state)
        return self.trainable.encoder(self._name(choice))

    def _name(self, choice: Choice) -> str:
        who = dict(zip(SOURCES, self.names, strict=True))
        said = f"pictures of {who[choice.picture]}, captions of {who[choice.text]}"
        return f"{said}, read-out of {who[choice.read_out]}" if choice.read_out else said


def transplant(base: DualEncoder, other: DualEncoder) -> tuple[Transplant, ...]:
    """Every combination, all in memory at once; the two models themselves are first and last."""
    donors = open_donors(base, other)
    return tuple(Transplant(choice, donors.combine(choice)) for choice in donors.choices)


def open_donors(base: DualEncoder, other: DualEncoder) -> Donors:
    """Take both apart; models whose parts do not fit are refused.

    Architectures must agree by the name and shape of every weight. Preparation, tokenizer and
    activation are tried: the base with all weights of the other must give the other's vectors.
    """
    from unbag.train.merge import check_same_vectors, check_same_weights, state_of

    trainable = _taken_apart(base, device=base.device if isinstance(base, DualEncoder) else "cpu")
    state = state_of(trainable.module)
    given = state_of(_taken_apart(other, device="cpu").module)
    check_same_weights(state, given, names=(base.name, other.name), way_out=WAY_OUT)
    donors = Donors(parts_of(trainable), (base.name, other.name), trainable, state, given)
    check_same_vectors(base, other, donors.combine(donors.choices[-1]), way_out=WAY_OUT)
    return donors


def _taken_apart(encoder: DualEncoder, *, device: str) -> Trainable:
    from unbag.train.make_trainable import make_trainable

    try:
        return make_trainable(encoder, device=device)
    except UserError as error:
        raise UserError(
            f"{encoder.name} cannot be taken apart into two towers and a read-out",
            expected="tiny:..., open_clip:..., or a dual encoder of hf:... (CLIP, SigLIP, ALIGN "
            "...); chat models and matching heads have no two towers",
        ) from error


def parts_of(trainable: Trainable) -> Parts:
    """Every weight and buffer in one part, by its place in the layers."""
    _check_apart(trainable)
    places = _places(trainable.module)
    names = tuple(trainable.module.state_dict())
    picture, text = (
        _below((place for layer in layers for part in layer for place in places[id(part)]), names)
        for layers in (trainable.picture_layers, trainable.caption_layers)
    )
    ends = [
        _below(_projections(layers[-1], places), names)
        for layers in (trainable.picture_layers, trainable.caption_layers)
    ]
    scale = _below((place for one in trainable.temperature for place in places[id(one)]), names)
    read_out = ends[0] | ends[1] | scale if ends[0] | ends[1] else frozenset()
    rest = [name for name in names if name not in picture | text | scale]
    picture = (picture | {name for name in rest if _is_within(name, picture, text)}) - read_out
    return Parts(picture, frozenset(names) - picture - read_out, read_out, _notes(ends))


def _notes(ends: Sequence[frozenset[str]]) -> tuple[str, ...]:
    lack = [side for side, names in zip(("picture", "text"), ends, strict=True) if not names]
    if len(lack) == 2:
        return ("neither tower has a separate projection: only towers were exchanged",)
    said = (
        "the {} tower has no separate projection: the read-out is that of the other, and the scale"
    )
    return tuple(said.format(side) for side in lack)


def _check_apart(trainable: Trainable) -> None:
    from unbag.train.layers import weights_of

    layers = trainable.picture_layers, trainable.caption_layers
    first, second = ({id(weight) for weight in weights_of(one)} for one in layers)
    if shared := len(first & second):
        raise UserError(
            f"{trainable.name} cannot be taken apart: its towers share {shared} weights",
            expected="two towers without common weights",
        )


def _places(module: nn.Module) -> dict[int, list[str]]:
    """Dotted names of every module and weight; shared ones have several."""
    found: dict[int, list[str]] = {}
    for name, part in module.named_modules(remove_duplicate=False):
        found.setdefault(id(part), []).append(name)
    for name, weight in module.named_parameters(remove_duplicate=False):
        found.setdefault(id(weight), []).append(name)
    return found


def _below(places: Iterable[str], names: Sequence[str]) -> frozenset[str]:
    """Weights at some places or inside the modules there."""
    starts = tuple(places)
    inside = tuple(f"{place}." for place in starts)
    return frozenset(name for name in names if name in starts or name.startswith(inside))


def _is_within(name: str, picture: frozenset[str], text: frozenset[str]) -> bool:
    """Whether a buffer lies right in the module of the picture tower."""
    owner = name.rpartition(".")[0] + "."
    near = [any(one.startswith(owner) for one in side) for side in (picture, text)]
    return owner != "." and near == [True, False]


def _projections(layer: Sequence[Part], places: Mapping[int, Sequence[str]]) -> Iterator[str]:
    """Where the last map into the joint space lies.

    Not what only sounds like one: the head of SigLIP's picture tower pools, and so does that of
    timm's, which has a projection of its own inside.
    """
    from torch import nn

    for part in layer:
        for place in places[id(part)]:
            leaf = place.rpartition(".")[2]
            if leaf in _PROJECTIONS or (leaf == "head" and isinstance(part, nn.Linear)):
                yield place
            elif leaf == "head" and isinstance(part, nn.Sequential):
                yield from (f"{place}.{child}" for child in ("proj", "mlp"))
            elif leaf == "attnpool":
                yield f"{place}.c_proj"
