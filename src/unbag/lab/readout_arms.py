"""The arms of the read-out experiment: names come in; how each is built, and on what, goes out.

All arms of a base are taught with the same rows: pictures, captions and hard negatives that the
repair experiment draws (`unbag.lab.repair_arms`). Batch and rate are the same for all but those
named `-fast` and those that are taught for long, steps for all but these and readers of maps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType

from unbag.errors import UserError, unknown_name
from unbag.readouts.base import find_readout
from unbag.readouts.training import Effort, ReaderReadout
from unbag.training.settings import choose

_FEW = ("crowd=8",)
"""A map costs a hundred times what a cosine does: fewer of them in a step."""
_SMALL_NET = (*_FEW, "net=mlp", "length=16")
"""DCSM's other network, with no more columns than the longest caption of the world needs: a small
enough file to ship."""
_BY_HEART = ("dropout=0", "learning_rate=1e-2")
"""How readers of patches learn by heart. Dropout is there so that nothing is learned so: where a
text tower gives a caption and its edit almost the same vector, a tenth of it is louder than what
tells them apart. At the rate that all share, 8,000 steps are too few."""
_PLACES = ("rope=2d", *_BY_HEART)
SHARED = ("learning_rate=1e-3", "warm_up=200", "weight_decay=0.01", "batch=256")


@dataclass(frozen=True)
class ReaderArm:
    """A reader of the parts of a frozen base."""

    readout: str
    settings: tuple[str, ...] = ()
    is_random: bool = False
    """Reads an untrained twin of the base: what the reader can do by itself."""
    text: bool = False
    """Reads captions with another text tower (MiniLM), locked as the picture tower is."""
    taught_as: str = ""
    """Another arm whose weights it takes, to be scored in another way."""
    is_long: bool = False
    """Taught in many more steps: a null of the usual ones may be one of steps."""
    only_relations: bool = False
    """Taught with captions that state a relation alone, each against its opposite: what it can read
    if nothing else is asked of it."""

    @property
    def reads_maps(self) -> bool:
        """Whether it is a network over cosines of all patches with all words."""
        return self.readout.startswith("dcsm")

    @property
    def reads_patches(self) -> bool:
        """Whether its read-out has dropout unless told otherwise, as those of patches have."""
        return bool(asdict(self.found().settings).get("dropout"))

    def found(self) -> ReaderReadout:
        """The registered read-out."""
        found = find_readout(self.readout)
        if not isinstance(found, ReaderReadout):
            raise UserError(f"{self.readout!r} is no reader of parts")
        return found

    def effort(self, steps: int) -> Effort:
        """Its settings, with those that all share."""
        return self._chosen(steps)

    def by_heart(self, steps: int) -> Effort:
        """Likewise, of a few fixed examples: readers of patches as `_BY_HEART` says."""
        return self._chosen(steps, *(_BY_HEART if self.reads_patches else ()))

    def _chosen(self, steps: int, *also: str) -> Effort:
        asked = (*SHARED, f"steps={steps}", *self.settings, *also)
        return choose(self.found().settings, asked, readout=self.readout)


def _relations(readout: str, settings: tuple[str, ...] = ()) -> ReaderArm:
    """For long, with nothing but relations."""
    return ReaderArm(readout, settings, is_long=True, only_relations=True)


READERS: Mapping[str, ReaderArm] = MappingProxyType(
    {
        "pooled": ReaderArm("pooled"),
        "dcsm": ReaderArm("dcsm", _FEW),
        "dcsm_fixed": ReaderArm("dcsm_fixed", _FEW),
        "dcsm_fixed-shuffled": ReaderArm("dcsm_fixed", (*_FEW, "shuffle_patches=each")),
        "dcsm_fixed-cls_eos": ReaderArm("dcsm_fixed", (*_FEW, "only=cls_eos")),
        "dcsm_fixed-random": ReaderArm("dcsm_fixed", _FEW, is_random=True),
        "pacl": ReaderArm("pacl"),
        "pacl_uniform": ReaderArm("pacl_uniform", taught_as="pacl"),
        "pacl_fixed": ReaderArm("pacl_fixed"),
        "pacl_rotary": ReaderArm("pacl_rotary"),
        "pacl_fixed-rotary": ReaderArm("pacl_fixed", ("rope=1d",)),
        "pacl_fixed-rotary-2d": ReaderArm("pacl_fixed", ("rope=2d",)),
        "pacl_fixed-rotary-2d-fast": ReaderArm("pacl_fixed", _PLACES),
        "pooled-text": ReaderArm("pooled", text=True),
        "pacl_fixed-text": ReaderArm("pacl_fixed", text=True),
        "pacl_fixed-rotary-2d-text": ReaderArm("pacl_fixed", ("rope=2d",), text=True),
        "sparc": ReaderArm("sparc"),
        "sparc_fixed": ReaderArm("sparc_fixed"),
        "sparc_fixed-fast": ReaderArm("sparc_fixed", _BY_HEART),
        "pooled-long": ReaderArm("pooled", is_long=True),
        "dcsm_fixed-long": ReaderArm("dcsm_fixed", _FEW, is_long=True),
        "dcsm_fixed-shuffled-long": ReaderArm(
            "dcsm_fixed", (*_FEW, "shuffle_patches=each"), is_long=True
        ),
        "dcsm_fixed-cls_eos-long": ReaderArm("dcsm_fixed", (*_FEW, "only=cls_eos"), is_long=True),
        "dcsm_fixed-mlp-long": ReaderArm("dcsm_fixed", _SMALL_NET, is_long=True),
        "dcsm_fixed-mlp-shuffled-long": ReaderArm(
            "dcsm_fixed", (*_SMALL_NET, "shuffle_patches=each"), is_long=True
        ),
        "pacl_fixed-rotary-2d-long": ReaderArm("pacl_fixed", _PLACES, is_long=True),
        "pacl_fixed-rotary-2d-text-long": ReaderArm("pacl_fixed", _PLACES, text=True, is_long=True),
        "sparc_fixed-long": ReaderArm("sparc_fixed", _BY_HEART, is_long=True),
        "pooled-relations": _relations("pooled"),
        "dcsm_fixed-relations": _relations("dcsm_fixed", _FEW),
        "pacl_fixed-rotary-2d-relations": _relations("pacl_fixed", _PLACES),
        "sparc_fixed-relations": _relations("sparc_fixed", _BY_HEART),
    }
)


@dataclass(frozen=True)
class VectorArm:
    """Which decoder on patches it goes on from, and whether the question stands in the prompt."""

    decoder: str = "decoder"
    asks: bool = True


VECTOR_ARMS: Mapping[str, VectorArm] = MappingProxyType(
    {
        "vlm2vec": VectorArm(),
        "vlm2vec-plain": VectorArm(asks=False),
        "vlm2vec-long": VectorArm("decoder-long"),
        "vlm2vec-plain-long": VectorArm("decoder-long", asks=False),
    }
)


def find_arm(name: str) -> ReaderArm:
    """By name."""
    if name not in READERS:
        raise unknown_name("arm", name, READERS)
    return READERS[name]
