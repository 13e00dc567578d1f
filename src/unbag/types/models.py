"""The interfaces of scorers, encoders and chat models, and the tensors that they exchange.

Protocols: there is nothing to inherit, matching attributes are enough.

Dimensions: N images or captions, D embedding, L tokens or patches, W width, B batch, K edits of a
caption.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from unbag.types.items import Caption, FloatArray, ImageSource, Item, Query
from unbag.types.scores import Scores

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image
    from torch import Tensor

    Numbers: TypeAlias = Sequence[float] | FloatArray | Tensor


class Named(Protocol):
    """What all scorers and models have."""

    @property
    def name(self) -> str:
        """What a table calls it."""

    @property
    def fingerprint(self) -> str:
        """Of all that decides a number: weights, architecture, tokenizer, image preparation ..."""


@runtime_checkable
class Scorer(Named, Protocol):
    """Gives one number for each query; larger means the caption fits better."""

    @property
    def scoring(self) -> str:
        """How the number is had, for the protocol: cosine, yes-probability, caption only ..."""

    @property
    def is_blind(self) -> bool:
        """True if the image is never looked at."""

    def score(self, queries: Sequence[Query]) -> Numbers:
        """As many numbers as queries, in their order."""


@runtime_checkable
class EmbeddingScorer(Scorer, Protocol):
    """A scorer that only needs one vector for each input: the evaluation embeds, it compares."""

    @property
    def encoder(self) -> DualEncoder:
        """Where the vectors come from."""

    def compare(self, image_ND: Tensor, caption_ND: Tensor) -> Tensor:
        """Score image i with caption i, [N]."""

    def compare_all(self, image_PD: Tensor, caption_CD: Tensor) -> Tensor:
        """Score every image with every caption, [P, C]."""


@runtime_checkable
class FittedScorer(EmbeddingScorer, Protocol):
    """An embedding scorer that knows its captions by itself: only images are embedded."""

    def caption_vectors(self, captions: Sequence[Caption]) -> Tensor:
        """What `compare` gets in place of the encoder's vectors, a row a caption."""


@runtime_checkable
class MatrixScorer(Scorer, Protocol):
    """A scorer that can fill a whole matrix cheaply; retrieval needs it."""

    def score_matrix(self, images: Sequence[ImageSource], captions: Sequence[Caption]) -> Tensor:
        """The scores of all pairs, [images, captions]."""


@runtime_checkable
class ItemScorer(Scorer, Protocol):
    """A scorer that must see a whole item: options shown together, answers that are parsed."""

    def score_items(self, items: Sequence[Item]) -> Sequence[Scores]:
        """Scores of each item, in their order, with answers and unread answers where it has any.

        An image that cannot be opened raises OSError or ValueError, as `open` does.
        """


@runtime_checkable
class DualEncoder(Named, Protocol):
    """One vector for an image, one for a caption. Vectors come with unit norm, float32, on CPU."""

    @property
    def device(self) -> str:
        """Where it computes, such as cpu or cuda:0."""

    @property
    def scale(self) -> float:
        """Inverse temperature of the training loss; 1 if there was none."""

    @property
    def bias(self) -> float:
        """Added to scaled similarities by sigmoid models; 0 for the others."""

    @property
    def context(self) -> int:
        """Tokens a caption can have, special ones included; longer captions are cut."""

    def prepare(self, image: Image) -> Tensor:
        """Pixels as the image encoder wants them. Runs in reader threads, so it must be pure."""

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Tokens of each caption before cutting, special ones included."""

    def encode_images(self, pixels: Tensor) -> Tensor:
        """[N, ...] prepared images to [N, D]."""

    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        """N captions to [N, D]."""


@runtime_checkable
class TokenEncoder(DualEncoder, Protocol):
    """A dual encoder that also shows what stands before pooling."""

    def encode_patches(self, pixels: Tensor) -> TokenFeatures:
        """Patch vectors in the joint space, without the pooled one."""

    def encode_tokens(self, captions: Sequence[str]) -> TokenFeatures:
        """Word vectors in the joint space."""


@dataclass(frozen=True, eq=False)
class TokenFeatures:
    """Vectors of the patches of N images or of the words of N captions."""

    vector_NLW: Tensor
    """Patches, rows from the top left, or words, special ones included where the model has them."""
    mask_NL: Tensor
    """True where there is one."""
    pooled_NW: Tensor | None = None
    """What the model itself reads out (CLS, end token, mean), in the same space. None where it was
    not at hand in the same pass, or there is no such place before the last layer."""
    mark_NL: Tensor | None = None
    """Numbers that a reader's own view puts on tokens, such as which word stands there."""

    def __len__(self) -> int:
        """Images or captions."""
        return len(self.vector_NLW)

    @property
    def pooled(self) -> Tensor:
        """`pooled_NW`, where it is known that there is one."""
        assert self.pooled_NW is not None
        return self.pooled_NW

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.vector_NLW.device

    @property
    def nbytes(self) -> int:
        """Memory that they take."""
        return sum(value.nbytes for value in self.tensors().values())

    def tensors(self) -> dict[str, Tensor]:
        """Those that are there, by the names of the fields."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def rows(self, at: Tensor | slice) -> TokenFeatures:
        """Some of them, in the order asked for."""
        return TokenFeatures(**{name: value[at] for name, value in self.tensors().items()})

    def to(self, device: str, dtype: torch.dtype | None = None) -> TokenFeatures:
        """On a device; vectors in `dtype` if one is named."""
        return TokenFeatures(
            **{
                name: value.to(device=device, dtype=dtype if name in _VECTORS else None)
                for name, value in self.tensors().items()
            }
        )


_VECTORS = frozenset({"vector_NLW", "pooled_NW"})


@runtime_checkable
class PaddedEncoder(TokenEncoder, Protocol):
    """A token encoder that also shows what its text encoder makes of padding."""

    def encode_padded(self, captions: Sequence[str], *, length: int) -> TokenFeatures:
        """Word vectors [N, length, D], of padding too; the mask is True at the caption's own.

        A caption beyond `length` tokens is cut as the model's own tokenizer cuts. There are fewer
        columns where the encoder takes fewer tokens or leaves padding out.
        """


@runtime_checkable
class LayerEncoder(DualEncoder, Protocol):
    """A dual encoder that shows what stands after each layer."""

    def image_layers(self, pixels: Tensor) -> Layers:
        """[N, ...] prepared images, layer by layer."""

    def text_layers(self, captions: Sequence[str]) -> Layers:
        """N captions, layer by layer."""


@dataclass(frozen=True, eq=False)
class Layers:
    """What stands after each layer of an encoder, not at unit norm.

    The first is what enters the first block (positions included), the last what the projection
    into the joint space is given, after the last norm: an encoder of K blocks has K + 2. Layers
    have the same places; widths may differ.
    """

    vector_NLW: tuple[Tensor, ...]
    """Patches or words, without what only pools (CLS); one for each layer, [N, L, W]."""
    pooled_NW: tuple[Tensor | None, ...]
    """The vector that is read out: CLS or end token at that layer, or the mean where an encoder
    reads out by one (`photo:`). None where it has no such place before its last layer (attention
    pooling, maps of ALIGN)."""
    mask_NL: Tensor
    """True where there is a patch or word."""

    def __len__(self) -> int:
        """Layers."""
        return len(self.vector_NLW)

    def __getitem__(self, layer: int) -> TokenFeatures:
        """One layer; -1 is the last."""
        return TokenFeatures(self.vector_NLW[layer], self.mask_NL, self.pooled_NW[layer])


@runtime_checkable
class Generator(Named, Protocol):
    """A chat model: scores continuations of a prompt about an image, and answers freely."""

    def logprobs(
        self, image: ImageSource | None, prompt: str, continuations: Sequence[str]
    ) -> list[list[float]]:
        """Log-probability of every token of every continuation; None asks the language prior."""

    def answer(self, image: ImageSource | None, prompt: str, *, longest: int = 32) -> str:
        """A free answer of at most `longest` tokens, decoded greedily."""


@dataclass(frozen=True, eq=False)
class Embedded:
    """The embedded batch that a loss is given. A missing edit is masked, never a placeholder."""

    image_BD: Tensor
    caption_BD: Tensor
    scale: Tensor
    bias: Tensor
    negative_BKD: Tensor | None = None
    negative_mask_BK: Tensor | None = None
    negative_kinds: tuple[str, ...] = ()
    """Kind of each of the K columns."""
    positive_BKD: Tensor | None = None
    positive_mask_BK: Tensor | None = None
    positive_kinds: tuple[str, ...] = ()
    also_true_BB: Tensor | None = None
    """True where caption j also fits image i although i != j; such pairs are no negatives."""
    negative_true_BBK: Tensor | None = None
    """True where negative k of caption j fits image i; never at i = j."""
    threshold_K: Tensor | None = None
    """Margins of the rank loss by column, carried from step to step by the trainer."""
    start: Embedded | None = None
    """The same batch by the weights before training, for losses that keep what was known."""
