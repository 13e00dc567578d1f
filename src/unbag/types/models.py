"""The interfaces of scorers, encoders and chat models, and the tensors that they exchange.

The interfaces are protocols: a class needs the methods and attributes, and inherits nothing.

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
    """The name and fingerprint that all scorers and models have."""

    @property
    def name(self) -> str:
        """Name in tables."""

    @property
    def fingerprint(self) -> str:
        """Hash of all that decides a score: weights, config, tokenizer, image preparation ..."""


@runtime_checkable
class Scorer(Named, Protocol):
    """Gives one score per query; larger means a better match."""

    @property
    def scoring(self) -> str:
        """How scores are computed, for the protocol: cosine, yes-probability, caption only ..."""

    @property
    def is_blind(self) -> bool:
        """True if scores ignore the image."""

    def score(self, queries: Sequence[Query]) -> Numbers:
        """Return one score per query, in order."""


@runtime_checkable
class EmbeddingScorer(Scorer, Protocol):
    """A scorer that compares vectors; the evaluation computes one vector per input."""

    @property
    def encoder(self) -> DualEncoder:
        """The model that computes the vectors."""

    def compare(self, image_ND: Tensor, caption_ND: Tensor) -> Tensor:
        """Score image i with caption i, [N]."""

    def compare_all(self, image_PD: Tensor, caption_CD: Tensor) -> Tensor:
        """Score every image with every caption, [P, C]."""


@runtime_checkable
class FittedScorer(EmbeddingScorer, Protocol):
    """An embedding scorer with its own caption vectors: the encoder embeds only images."""

    def caption_vectors(self, captions: Sequence[Caption]) -> Tensor:
        """Return the caption vectors for `compare`, one row per caption."""


@runtime_checkable
class MatrixScorer(Scorer, Protocol):
    """A scorer that computes whole matrices efficiently, as retrieval needs."""

    def score_matrix(self, images: Sequence[ImageSource], captions: Sequence[Caption]) -> Tensor:
        """Return the scores of all pairs, [images, captions]."""


@runtime_checkable
class ItemScorer(Scorer, Protocol):
    """A scorer of whole items, for options shown together and answers that are parsed."""

    def score_items(self, items: Sequence[Item]) -> Sequence[Scores]:
        """Return the scores of each item in order, with raw and unparsed answers if there are any.

        An image that cannot be opened raises OSError or ValueError, as `open` does.
        """


@runtime_checkable
class DualEncoder(Named, Protocol):
    """Encodes images and captions to unit vectors in one space, float32 on the CPU."""

    @property
    def device(self) -> str:
        """Device it computes on, such as cpu or cuda:0."""

    @property
    def scale(self) -> float:
        """Inverse temperature of the training loss; 1 if there is none."""

    @property
    def bias(self) -> float:
        """Bias that sigmoid models add to scaled similarities; 0 for other models."""

    @property
    def context(self) -> int:
        """Maximum tokens of a caption, special tokens included; longer captions are truncated."""

    def prepare(self, image: Image) -> Tensor:
        """Return the pixels for the image encoder. Runs in reader threads, so it must be pure."""

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Return the tokens of each caption before truncation, special tokens included."""

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Encode prepared images [N, ...] to [N, D]."""

    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        """Encode N captions to [N, D]."""


@runtime_checkable
class TokenEncoder(DualEncoder, Protocol):
    """A dual encoder that also gives the vectors before pooling."""

    def encode_patches(self, pixels: Tensor) -> TokenFeatures:
        """Encode patches in the joint space, without the pooled vector."""

    def encode_tokens(self, captions: Sequence[str]) -> TokenFeatures:
        """Encode tokens in the joint space."""


@dataclass(frozen=True, eq=False)
class TokenFeatures:
    """Vectors of the patches of N images or of the tokens of N captions."""

    vector_NLW: Tensor
    """Patches row by row from the top left, or tokens including special ones."""
    mask_NL: Tensor
    """True at patches and tokens, False at padding."""
    pooled_NW: Tensor | None = None
    """The vector that the model itself pools (CLS, end token, mean), in the same space. None if the
    same pass does not give it, or if a layer before the last has no such vector."""
    mark_NL: Tensor | None = None
    """Numbers that a view assigns to tokens, such as which word each one belongs to."""

    def __len__(self) -> int:
        """Number of images or captions."""
        return len(self.vector_NLW)

    @property
    def pooled(self) -> Tensor:
        """`pooled_NW`, asserted to be present."""
        assert self.pooled_NW is not None
        return self.pooled_NW

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return self.vector_NLW.device

    @property
    def nbytes(self) -> int:
        """Memory of the tensors in bytes."""
        return sum(value.nbytes for value in self.tensors().values())

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors that are present, by field name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def rows(self, index: Tensor | slice) -> TokenFeatures:
        """Return the rows at `index`."""
        return TokenFeatures(**{name: value[index] for name, value in self.tensors().items()})

    def to(self, device: str, dtype: torch.dtype | None = None) -> TokenFeatures:
        """Move to a device, and convert vectors to `dtype` if given."""
        return TokenFeatures(
            **{
                name: value.to(device=device, dtype=dtype if name in _VECTORS else None)
                for name, value in self.tensors().items()
            }
        )


_VECTORS = frozenset({"vector_NLW", "pooled_NW"})


@runtime_checkable
class PaddedEncoder(TokenEncoder, Protocol):
    """A token encoder that also gives the vectors at padding tokens."""

    def encode_padded(self, captions: Sequence[str], *, length: int) -> TokenFeatures:
        """Encode tokens and padding to [N, length, D]; the mask is True at tokens of the caption.

        A caption of more than `length` tokens is truncated as by the model's tokenizer. There are
        fewer columns if the encoder takes fewer tokens or leaves padding out.
        """


@runtime_checkable
class LayerEncoder(DualEncoder, Protocol):
    """A dual encoder that gives the hidden states after each layer."""

    def image_layers(self, pixels: Tensor) -> Layers:
        """Return the hidden states of prepared images [N, ...] by layer."""

    def text_layers(self, captions: Sequence[str]) -> Layers:
        """Return the hidden states of N captions by layer."""


@dataclass(frozen=True, eq=False)
class Layers:
    """Hidden states after each layer of an encoder, not normalized.

    The first is the input of the first block, with positions. The last is the input of the
    projection into the joint space, after the last norm. So an encoder of K blocks has K + 2
    layers. All layers have the same number of patches or tokens; widths may differ.
    """

    vector_NLW: tuple[Tensor, ...]
    """Patches or tokens without a pooling token (CLS), one tensor [N, L, W] per layer."""
    pooled_NW: tuple[Tensor | None, ...]
    """The pooled vector: CLS or end token at that layer, or the mean if the encoder pools by the
    mean (`photo:`). None before the last layer of an encoder that has no such vector there
    (attention pooling, maps of ALIGN)."""
    mask_NL: Tensor
    """True at patches and tokens, False at padding."""

    def __len__(self) -> int:
        """Number of layers."""
        return len(self.vector_NLW)

    def __getitem__(self, layer: int) -> TokenFeatures:
        """Return one layer; -1 is the last."""
        return TokenFeatures(self.vector_NLW[layer], self.mask_NL, self.pooled_NW[layer])


@runtime_checkable
class Generator(Named, Protocol):
    """A chat model: scores continuations of a prompt about an image, and generates answers."""

    def logprobs(
        self, image: ImageSource | None, prompt: str, continuations: Sequence[str]
    ) -> list[list[float]]:
        """Log-probabilities by continuation and token; image None gives the language prior."""

    def answer(self, image: ImageSource | None, prompt: str, *, longest: int = 32) -> str:
        """Generate an answer of at most `longest` tokens by greedy decoding."""


@dataclass(frozen=True, eq=False)
class Embedded:
    """The embedded batch that a loss takes. Missing edits are masked."""

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
    """True where caption j also matches image i although i != j; such pairs are no negatives."""
    negative_true_BBK: Tensor | None = None
    """True where negative k of caption j matches image i; never at i = j."""
    threshold_K: Tensor | None = None
    """Margins of the rank loss by column; the trainer keeps them between steps."""
    start: Embedded | None = None
    """The same batch encoded by the initial weights, for losses that preserve them."""
