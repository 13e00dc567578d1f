"""DCSM: a small network scores a pair by the map of cosines of all patches with all tokens.

`dcsm` is what the released code does; `dcsm_fixed` marks words at their own tokens and standardises
each map by itself, so that a score does not depend on the other candidates (methods.md 7.1).

The columns of functional words ("left", "not") hold what stands for the word, whatever the image.

Dimensions: N pairs, maps or captions, K calls, of which each compares P images with C captions, R
rows of a map (CLS and patches), L columns (tokens), W width, D width of the joint space, T
functional words, B rows of a batch, X negatives of a caption, G rows of a crowd. Of the network: O
and I channels, D down and A across a window, H hidden units.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple, TypeAlias
from warnings import warn

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional

from unbag.errors import UnbagError
from unbag.models.features import View, joint_images, joint_texts, placed_words
from unbag.readouts.reader import Reader, ReaderBatch, Sizes, filled
from unbag.readouts.training import ReaderEffort, ReaderReadout
from unbag.training.losses import block_info_nce
from unbag.training.settings import bounded
from unbag.types import DualEncoder, IntArray, PaddedEncoder, TokenFeatures

FUNCTIONAL = (
    "above",
    "below",
    "left",
    "right",
    "small",
    "big",
    "not",
    "no",
    "without",
    "but",
    "absent",
)
"""The words whose columns are replaced. Mark k is the k-th of them, from 1 on; 0 is none."""
END = 16
"""Added to the mark of the column where a caption ends."""
_MARK_OF = {word: at for at, word in enumerate(FUNCTIONAL, start=1)}
CHANNELS, HIDDEN = 4, 128
MLP_HIDDEN = (64, 32)
LEAST_DEVIATION = 1e-6
Align: TypeAlias = Literal["token", "word_index"]
Only: TypeAlias = Literal["all", "cls", "eos", "cls_eos"]


@dataclass(frozen=True)
class DcsmSettings(ReaderEffort):
    """What decides the reader, besides its weights; the defaults are those of `dcsm_fixed`."""

    align: Align = "token"
    """Which column a functional word marks: its own tokens', or that of its number among the words
    (as released: off by one behind a start token)."""
    norm: Literal["map", "batch"] = "map"
    """What a map is standardised over: itself, or all maps of the call (as released), by which a
    score depends on the other candidates."""
    net: Literal["cnn", "mlp"] = "cnn"
    length: int = bounded(30, low=2)
    """Columns of a map; longer captions are cut."""
    padding: Literal["kept", "zero"] = "kept"
    """What stands behind the end of a caption: what the encoder makes of padding (as released)."""
    functional_words: bool = True
    """Whether columns of functional words are replaced."""
    learn_functional_rows: bool = False
    """Whether what replaces them is trained; in the released code it stays as drawn."""
    dropout: float = bounded(0.0, low=0, below=1)
    shuffle_patches: Literal["no", "each", "same"] = "no"
    """A control. `each`: patches of each image in an order that only their vectors decide, so
    that where they lay is lost. `same`: one drawn order for all images, which loses only who is
    whose neighbour."""
    only: Only = "all"
    """A control: the row of CLS, the column of the end token, or both, and zeros elsewhere."""
    draws: int = 0
    """Seed of functional rows and shuffled orders."""


class Dcsm(Reader):
    """Reads the map of [CLS and patches] x [tokens]."""

    settings: DcsmSettings
    maps_show = (
        "By how much the score falls when the cosine of a word with a patch is replaced by the "
        "mean of the map: orange cells speak for the caption, blue ones against it. Columns of "
        "functional words are the same for all images; what they count for still depends on what "
        "is beside them."
    )
    maps_are_signed = True

    def __init__(self, settings: DcsmSettings, sizes: Sizes, *, name: str = "dcsm_fixed") -> None:
        """For images of `sizes.patches` patches each."""
        super().__init__()
        self.name, self.settings, self.patches = name, settings, sizes.patches
        self.captions = MapCaptions(settings.align, settings.length, settings.padding)
        self.view = self.captions.view
        self.most_tokens = settings.length
        rows = sizes.patches + 1
        self.functional_TR = nn.Parameter(
            functional_rows(rows, seed=settings.draws),
            requires_grad=settings.learn_functional_rows,
        )
        drawn = torch.Generator().manual_seed(settings.draws)
        self.register_buffer("order_L", torch.randperm(sizes.patches, generator=drawn))
        # A reader is saved in half precision, and what decides an order must not be rounded then.
        towards_W = torch.randn(sizes.picture_width, generator=drawn).half().float()
        self.register_buffer("towards_W", towards_W)
        self.order_L: Tensor
        self.towards_W: Tensor
        net = MapCnn if settings.net == "cnn" else MapMlp
        self.net = net(rows, settings.length, dropout=settings.dropout)

    @property
    def depends_on_call(self) -> bool:
        """Whether a score depends on what else is compared in the same call."""
        return self.settings.norm == "batch"

    def compare(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Row with row, [N]; with norm="batch" the rows of a call share mean and deviation."""
        return self._rows(image, caption).flatten()

    def compare_all(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """[P, C] in bounded memory, one product of matrices for many maps."""
        found = self._state(image, caption) if self.depends_on_call else None

        def block(some: slice, others: slice) -> Tensor:
            return self._cells(image.rows(some), caption.rows(others), found=found)[0]

        return filled(len(image), len(caption), self._numbers, block)

    def maps(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """What the network is given, row with row, [N, R, L]; for people who want to look."""
        map_KPCRL, keep = self._paired(image, caption)
        return standardise(map_KPCRL, moments(map_KPCRL, keep, by=self._by), keep)[0, :, 0]

    def word_maps(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """What the score loses when one cell is hidden, exactly, [N, columns, patches].

        A hidden cell is zero in the standardised map, its mean; nothing is standardised again.
        """
        if self.settings.shuffle_patches != "no":
            raise UnbagError(
                f"the read-out {self.name!r} was trained with shuffle_patches="
                f"{self.settings.shuffle_patches}, so that its rows are no places of an image",
                expected="shuffle_patches=no",
            )
        map_NRL = self.maps(image, caption)
        score_N1: Tensor = self.net(map_NRL)[:, None]
        patch_L = torch.arange(self.patches, device=map_NRL.device)
        found = []
        for column in range(self.settings.length):
            hidden = map_NRL[:, None].repeat(1, self.patches, 1, 1)
            hidden[:, patch_L, 1 + patch_L, column] = 0
            found.append(score_N1 - self.net(hidden.flatten(0, 1)).view(-1, self.patches))
        return torch.stack(found, dim=1)

    def loss(self, batch: ReaderBatch, *, contrast_size: int) -> Tensor:
        """Without negatives the paper's: cross-entropy of rows plus that of columns.

        There each row's opposite is the row after it, so a crowd of 2B rows is the paper's batch
        of B images, B captions and their opposites. With negatives it is `contrast`.
        """
        size = len(batch.image)

        def blocks() -> Iterator[tuple[slice, Tensor]]:
            # All whole crowds in one call, then what is left.
            each = min(contrast_size, size)
            whole = size // each * each
            parts = [(slice(0, whole), whole // each)]
            parts += [(slice(whole, size), 1)] if whole < size else []
            for rows, calls in parts:
                images, captions = batch.image.rows(rows), batch.caption.rows(rows)
                yield rows, self._cells(images, captions, calls=calls)

        if batch.negative is None:
            return 2 * block_info_nce(blocks(), batch.also_true_BB)
        score_BX = self._rows(batch.image, batch.negative)
        negative_BX = score_BX.float().masked_fill(~batch.negative_mask_BK, -torch.inf)
        return block_info_nce(blocks(), batch.also_true_BB, negative_BK=negative_BX)

    def _rows(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Each image with the captions that follow one another for it, as one call, [N, X]."""
        map_KPCRL, keep = self._paired(image, caption)
        return self._read(map_KPCRL, keep, moments(map_KPCRL, keep, by=self._by))[0]

    def _paired(self, image: TokenFeatures, caption: TokenFeatures) -> tuple[Tensor, Tensor | None]:
        """Calls of one image each become one call of many images."""
        map_KPCRL, keep = self._maps(image, caption, calls=len(image))
        return map_KPCRL.transpose(0, 1), None if keep is None else keep.transpose(0, 1)

    def _cells(
        self,
        image: TokenFeatures,
        caption: TokenFeatures,
        *,
        calls: int = 1,
        found: Moments | None = None,
    ) -> Tensor:
        """Every image with every caption of its call, [K, P, C]."""
        map_KPCRL, keep = self._maps(image, caption, calls=calls)
        found = found or moments(map_KPCRL, keep, by=self._by)
        return self._read(map_KPCRL, keep, found)

    def _read(self, map_KPCRL: Tensor, keep: Tensor | None, found: Moments) -> Tensor:
        """Scores of maps that are not standardised yet, [K, P, C]."""
        map_KPCRL = standardise(map_KPCRL, found, keep)
        score_N: Tensor = self.net(map_KPCRL.reshape(-1, *map_KPCRL.shape[3:]))
        return score_N.view(map_KPCRL.shape[:3])

    def _maps(
        self, image: TokenFeatures, caption: TokenFeatures, *, calls: int
    ) -> tuple[Tensor, Tensor | None]:
        """Before standardising, and which cells count."""
        mark_NL = self._check_parts(image, caption)
        image_NRW = torch.cat([image.pooled[:, None], self._placed(image)], dim=1)
        map_KPCRL = cosine_maps(image_NRW.float(), caption.vector_NLW.float(), calls=calls)
        if self.settings.functional_words:
            map_KPCRL = with_words(map_KPCRL, mark_NL, self.functional_TR)
        keep = kept_cells(self.settings.only, mark_NL, rows=self.patches + 1, calls=calls)
        return map_KPCRL, keep

    def _placed(self, image: TokenFeatures) -> Tensor:
        """Patches in the order of the image, unless a control wants another."""
        vector_NLW = image.vector_NLW
        if self.settings.shuffle_patches == "same":
            return vector_NLW[:, self.order_L]
        if self.settings.shuffle_patches == "each":
            order_NL = (vector_NLW.float() @ self.towards_W).argsort(dim=1, stable=True)
            return vector_NLW.gather(1, order_NL[..., None].expand_as(vector_NLW))
        return vector_NLW

    def _state(self, image: TokenFeatures, caption: TokenFeatures) -> Moments:
        """Over all pairs, from sums of each map: a matrix may be too large for one block."""

        def block(some: slice, others: slice) -> Tensor:
            map_KPCRL, keep = self._maps(image.rows(some), caption.rows(others), calls=1)
            if keep is not None:
                map_KPCRL = map_KPCRL.masked_fill(~keep, 0)
            cell = map_KPCRL[0].double()
            return torch.stack([cell.sum((2, 3)), cell.square().sum((2, 3))], dim=-1)

        sums = filled(len(image), len(caption), self._numbers, block)
        rows, length = self.patches + 1, self.settings.length
        every: dict[Only, int] = {
            "all": rows * length,
            "cls": length,
            "eos": rows,
            "cls_eos": rows + length - 1,
        }
        count = every[self.settings.only] * len(image) * len(caption)
        total, squares = sums.sum((0, 1))
        mean = total / count
        variance = (squares - count * mean**2).clamp(min=0) / (count - 1)
        return Moments(mean.float(), variance.sqrt().clamp(min=LEAST_DEVIATION).float())

    @property
    def _by(self) -> Literal["map", "call"]:
        return "call" if self.depends_on_call else "map"

    @property
    def _numbers(self) -> int:
        """That one pair needs while it is computed; a GPU copies rows for its windows."""
        copies = 4 if self.functional_TR.is_cuda else 2
        return copies * (1 + CHANNELS) * (self.patches + 1) * self.settings.length

    def _check_parts(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """The marks of the captions; raises for parts that this reader was not built for."""
        if image.vector_NLW.shape[1] != self.patches:
            raise UnbagError(
                f"images of {image.vector_NLW.shape[1]} patches",
                expected=f"{self.patches}, for which this {self.name} was built",
                hint="images as the model prepares them, or a reader trained for these",
            )
        if caption.mark_NL is None or caption.vector_NLW.shape[1] != self.settings.length:
            raise ValueError(f"captions that were not read by the view {self.view.name}")
        return caption.mark_NL


def _view(settings: DcsmSettings) -> View:
    return MapCaptions(settings.align, settings.length, settings.padding).view


DCSM = ReaderReadout(
    "dcsm", DcsmSettings(align="word_index", norm="batch"), _view, partial(Dcsm, name="dcsm")
)
"""As released: a word marks the column of its number, maps of a call are standardised together."""
DCSM_FIXED = ReaderReadout("dcsm_fixed", DcsmSettings(), _view, partial(Dcsm, name="dcsm_fixed"))
"""A word marks its own tokens, each map is standardised by itself."""


@dataclass(eq=False)
class MapCaptions:
    """Reads captions into so many columns each; `mark_NL` says where functional words stand."""

    align: Align
    length: int
    padding: Literal["kept", "zero"]
    _said: set[str] = field(default_factory=set, repr=False)

    @property
    def view(self) -> View:
        """Patches as every reader of the joint space sees them, and captions by columns."""
        how = self.align.replace("_", "-")
        return View(f"dcsm-{how}-{self.length}-{self.padding}", joint_images, self)

    def __call__(self, encoder: DualEncoder, captions: Sequence[str]) -> TokenFeatures:
        """Always [N, length, D]; the mask is True wherever there is a vector, of padding too."""
        vector_NKD, mask_NK, pooled_ND = self._vectors(encoder, captions)
        found = marks(encoder, captions, align=self.align, length=self.length)
        if found.cut:
            self._say(
                f"captions of {encoder.name} with more than {self.length} tokens are cut: a map "
                f"has {self.length} columns"
            )
        if found.unplaced:
            self._say(
                f"{encoder.name}: words and pieces of some captions do not add up, so their "
                "functional words are not marked"
            )
        part_NLD = _to_length(vector_NKD, self.length)
        mask_NL = _to_length(mask_NK[..., None], self.length)[..., 0]
        return TokenFeatures(part_NLD, mask_NL, pooled_ND, torch.from_numpy(found.mark_NL))

    def _vectors(
        self, encoder: DualEncoder, captions: Sequence[str]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Vectors of the columns, which of them are there, and pooled vectors."""
        if self.padding == "zero" or not isinstance(encoder, PaddedEncoder):
            found = joint_texts(encoder, captions)
            if self.padding == "kept":
                self._say(
                    f"{encoder.name} shows no vectors at padding: columns behind the end of a "
                    "caption are zero"
                )
            return found.vector_NLW, found.mask_NL, found.pooled
        tokens = encoder.encode_padded(captions, length=self.length)
        vector_NKD = tokens.vector_NLW.float()
        pooled_ND = encoder.encode_texts(captions).float()
        return vector_NKD, (vector_NKD != 0).any(dim=-1), pooled_ND

    def _say(self, said: str) -> None:
        """Warn, once."""
        if said not in self._said:
            self._said.add(said)
            warn(said, stacklevel=4)


def _to_length(tensor_NKD: Tensor, length: int) -> Tensor:
    rest = length - tensor_NKD.shape[1]
    return tensor_NKD[:, :length] if rest <= 0 else functional.pad(tensor_NKD, (0, 0, 0, rest))


@dataclass(frozen=True, eq=False)
class Marks:
    """Where functional words stand, and how many captions there was something to say about."""

    mark_NL: IntArray
    cut: int
    """Captions beyond the last column."""
    plain: int
    """Captions with no functional word in sight; fine, their map is of cosines alone."""
    unplaced: int
    """Captions with such words whose pieces do not add up, so that none was marked."""


def marks(encoder: DualEncoder, captions: Sequence[str], *, align: Align, length: int) -> Marks:
    """The first occurrence of each functional word, and the end of each caption."""
    mark_NL = np.zeros((len(captions), length), dtype=np.int64)
    count_N = np.array(encoder.count_tokens(captions), dtype=np.int64)
    columns = by_token(encoder, captions) if align == "token" else by_word_index(captions)
    # A caption that is cut ends in the last column, whatever word would have stood there.
    room_N = length - ((count_N > length) & (align == "token"))
    unplaced = 0
    for row, found in enumerate(columns):
        unplaced += found is None
        for mark, column in found or ():
            if column < room_N[row]:
                mark_NL[row, column] = mark
    plain = int((mark_NL == 0).all(axis=1).sum()) - unplaced
    mark_NL[np.arange(len(captions)), np.minimum(count_N, length) - 1] += END
    return Marks(mark_NL, int((count_N > length).sum()), plain, unplaced)


def by_token(encoder: DualEncoder, captions: Sequence[str]) -> list[list[tuple[int, int]] | None]:
    """The columns of a word's own pieces, capitals and signs beside it aside.

    None where such a word is there and its pieces cannot be found.
    """
    asked = [
        at
        for at, caption in enumerate(captions)
        if any(_bare(word) in _MARK_OF for word in caption.replace("-", " ").split())
    ]
    found: list[list[tuple[int, int]] | None] = [[] for _ in captions]
    for at, placed in zip(asked, placed_words(encoder, [captions[i] for i in asked]), strict=True):
        if placed is None:
            found[at] = None
            continue
        first = dict(_first((n, _bare(one.word)) for n, one in enumerate(placed)))
        found[at] = [
            (mark, column)
            for mark, n in first.items()
            for column in range(placed[n].start, placed[n].stop)
        ]
    return found


def by_word_index(captions: Sequence[str]) -> list[list[tuple[int, int]]]:
    """As released: number k of the words between single spaces marks column k.

    Column 0 is the start token where a model has one, so this is off by one, and more behind a
    word of several pieces. Words are compared as they are written.
    """
    return [list(_first(enumerate(caption.split(" ")))) for caption in captions]


def _first(words: Iterable[tuple[int, str]]) -> Iterable[tuple[int, int]]:
    """Mark and place of each functional word that is met for the first time."""
    met: set[str] = set()
    for place, word in words:
        if word in _MARK_OF and word not in met:
            met.add(word)
            yield _MARK_OF[word], place


def _bare(word: str) -> str:
    return word.lower().strip(".,;:!?\"'()[]")


def cosine_maps(image_NRW: Tensor, caption_NLW: Tensor, *, calls: int) -> Tensor:
    """All images with all captions of each call, [K, P, C, R, L], in one product."""
    rows, width = image_NRW.shape[1:]
    length = caption_NLW.shape[1]
    flat = torch.bmm(
        image_NRW.reshape(calls, -1, width), caption_NLW.reshape(calls, -1, width).transpose(1, 2)
    )
    images, captions = len(image_NRW) // calls, len(caption_NLW) // calls
    return flat.view(calls, images, rows, captions, length).transpose(2, 3)


def functional_rows(rows: int, *, seed: int) -> Tensor:
    """What stands in a map for each functional word, [T, R]: about a third everywhere."""
    generator = torch.Generator().manual_seed(seed)
    drawn_TR = torch.randn((len(FUNCTIONAL), rows), generator=generator)
    return (functional.normalize(drawn_TR, dim=1) + 1) / 3


def with_words(map_KPCRL: Tensor, mark_NL: Tensor, row_TR: Tensor) -> Tensor:
    """Columns of functional words replaced by the row of the word, whatever the image."""
    calls, _, captions, rows, length = map_KPCRL.shape
    mark_NL = mark_NL % END
    word_NRL = row_TR[(mark_NL - 1).clamp(min=0)].transpose(1, 2).to(map_KPCRL.dtype)
    return torch.where(
        (mark_NL > 0).view(calls, 1, captions, 1, length),
        word_NRL.reshape(calls, 1, captions, rows, length),
        map_KPCRL,
    )


def kept_cells(only: Only, mark_NL: Tensor, *, rows: int, calls: int) -> Tensor | None:
    """True in the row of CLS, or in the column where each caption ends, or in both.

    None where all cells count, else [K, 1, C, R, L].
    """
    if only == "all":
        return None
    is_end_NRL = (mark_NL >= END)[:, None].expand(-1, rows, -1)
    is_cls_NRL = torch.zeros_like(is_end_NRL)
    is_cls_NRL[:, 0] = True
    is_kept_NRL = {"cls": is_cls_NRL, "eos": is_end_NRL, "cls_eos": is_cls_NRL | is_end_NRL}[only]
    return is_kept_NRL.view(calls, 1, -1, *is_kept_NRL.shape[1:])


class Moments(NamedTuple):
    """Mean and sample standard deviation, in shapes that broadcast over maps."""

    mean: Tensor
    deviation: Tensor


def moments(map_KPCRL: Tensor, keep: Tensor | None, *, by: Literal["map", "call"]) -> Moments:
    """Over the cells of each map, or over all maps of a call; those that are kept count."""
    dims = (3, 4) if by == "map" else (1, 2, 3, 4)
    if keep is None:
        variance, mean = torch.var_mean(map_KPCRL, dims, correction=1, keepdim=True)
        return Moments(mean, variance.sqrt().clamp(min=LEAST_DEVIATION))
    weight = keep.expand_as(map_KPCRL).to(map_KPCRL.dtype)
    count = weight.sum(dims, keepdim=True)
    mean = (map_KPCRL * weight).sum(dims, keepdim=True) / count
    squared = ((map_KPCRL - mean).square() * weight).sum(dims, keepdim=True)
    return Moments(mean, (squared / (count - 1)).sqrt().clamp(min=LEAST_DEVIATION))


def standardise(map_KPCRL: Tensor, found: Moments, keep: Tensor | None) -> Tensor:
    """Zero mean and unit deviation; cells that are not kept are 0."""
    map_KPCRL = (map_KPCRL - found.mean) / found.deviation
    return map_KPCRL if keep is None else map_KPCRL.masked_fill(~keep, 0)


class MapCnn(nn.Module):
    """Two 3 x 3 convolutions over the map, then two layers over all of it.

    At 197 x 30 it has 3,026,365 weights. Rows follow one another as patches do, line by line, so a
    window sees a patch and its neighbours to the left and right, not those above and below.
    """

    def __init__(self, rows: int, columns: int, *, dropout: float = 0.0) -> None:
        """Dropout follows every stage."""
        super().__init__()
        self.first = nn.Conv2d(1, CHANNELS, 3, padding=1)
        self.second = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
        self.hidden = nn.Linear(CHANNELS * rows * columns, HIDDEN)
        self.out = nn.Linear(HIDDEN, 1)
        self.stage = nn.Sequential(nn.ReLU(), nn.Dropout(dropout))

    def forward(self, map_NRL: Tensor) -> Tensor:
        """[N, R, L] to [N]."""
        return self.by_products(map_NRL) if map_NRL.is_cuda else self.convolved(map_NRL)

    def convolved(self, map_NRL: Tensor) -> Tensor:
        """As the paper writes it, [N, R, L] to [N]."""
        found = self.stage(self.first(map_NRL[:, None]))
        found = self.stage(self.second(found))
        score_N1: Tensor = self.out(self.stage(self.hidden(found.flatten(1))))
        return score_N1[:, 0]

    def by_products(self, map_NRL: Tensor) -> Tensor:
        """The same sums as products of matrices, for a GPU, [N, R, L] to [N].

        Four channels are few for its convolutions. Here the columns of all channels stand side by
        side, a window is three rows of them, and its weights are a matrix with zeros off a band:
        ten times the products, in a shape that a GPU is made for.
        """
        rows, columns = map_NRL.shape[1:]
        found = map_NRL
        for layer in (self.first, self.second):
            assert layer.bias is not None
            bias = layer.bias.repeat_interleave(columns)
            found = functional.linear(_Windows.apply(found), _band(layer, columns), bias)
            found = self.stage(found)
        weight_HORL = self.hidden.weight.view(len(self.hidden.weight), -1, rows, columns)
        weight = weight_HORL.transpose(1, 2).flatten(1)
        hidden = functional.linear(found.flatten(1), weight, self.hidden.bias)
        score_N1: Tensor = self.out(self.stage(hidden))
        return score_N1[:, 0]


class _Windows(torch.autograd.Function):
    """Each row between the ones above and below it, zeros beyond the map: [N, R, C] to [N, R, 3C].

    Windows are the most that a step reads and writes. By padding, cutting and joining, with the
    gradients that torch makes of them, it would be twice as much.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, found_NRC: Tensor) -> Tensor:
        """Write each window once."""
        maps, rows, size = found_NRC.shape
        window = found_NRC.new_empty((maps, rows, 3 * size))
        above, own, below = torch.chunk(window, 3, dim=2)
        above[:, 0] = 0
        above[:, 1:] = found_NRC[:, :-1]
        own.copy_(found_NRC)
        below[:, :-1] = found_NRC[:, 1:]
        below[:, -1] = 0
        return window

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> Tensor:
        """Of a row: from its own window and from those of its neighbours."""
        above, own, below = torch.chunk(gradient, 3, dim=2)
        total = own.clone(memory_format=torch.contiguous_format)
        total[:, :-1] += above[:, 1:]
        total[:, 1:] += below[:, :-1]
        return total


def _band(layer: nn.Conv2d, columns: int) -> Tensor:
    """[O, I, D, A] to [O x L, D x I x L]: a column sees itself and those beside it."""
    like = layer.weight
    beside = torch.stack([like.new_ones(columns - abs(at)).diag(at) for at in (-1, 0, 1)])
    found = torch.einsum("oida,amn->omdin", like, beside)
    return found.flatten(2).flatten(0, 1)


class MapMlp(nn.Module):
    """Three layers over all of the map."""

    def __init__(self, rows: int, columns: int, *, dropout: float = 0.0) -> None:
        """Dropout follows every stage."""
        super().__init__()
        wide, narrow = MLP_HIDDEN
        self.layers = nn.Sequential(
            nn.Linear(rows * columns, wide),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(wide, narrow),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(narrow, 1),
        )

    def forward(self, map_NRL: Tensor) -> Tensor:
        """[N, R, L] to [N]."""
        score_N1: Tensor = self.layers(map_NRL.flatten(1))
        return score_N1[:, 0]
