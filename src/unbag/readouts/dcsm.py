"""DCSM: a small network that scores a pair by the cosine map of all patches with all tokens.

`dcsm` follows the released code. `dcsm_fixed` marks functional words at their own tokens and
standardises each map by itself, so that a score does not depend on other candidates (methods.md
7.1). Functional words ("left", "not") have a fixed column each, the same for all images.

Dimensions: N pairs, maps or captions, K calls, of which each compares P images with C captions, R
rows of a map (CLS and patches), L columns (tokens), W width, D width of the joint space, T
functional words, B rows of a batch, X negatives of a caption. Of the network: O
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
from unbag.readouts.reader import Reader, ReaderBatch, Sizes, fill_matrix
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
"""Words whose columns are replaced. Mark k is the k-th word, counted from 1; 0 is none."""
END = 16
"""Added to the mark of the column in which a caption ends."""
_MARK_OF = {word: at for at, word in enumerate(FUNCTIONAL, start=1)}
CHANNELS, HIDDEN = 4, 128
MLP_HIDDEN = (64, 32)
LEAST_DEVIATION = 1e-6
Align: TypeAlias = Literal["token", "word_index"]
Only: TypeAlias = Literal["all", "cls", "eos", "cls_eos"]


@dataclass(frozen=True)
class DcsmSettings(ReaderEffort):
    """Settings of the reader; the defaults are those of `dcsm_fixed`."""

    align: Align = "token"
    """Columns of a functional word: those of its tokens, or the one of its index among the words
    (as released: off by one after a start token)."""
    norm: Literal["map", "batch"] = "map"
    """Standardise over a single map, or over all maps of the call (as released), so that a score
    depends on the other candidates."""
    net: Literal["cnn", "mlp"] = "cnn"
    length: int = bounded(30, low=2)
    """Columns of a map; longer captions are truncated."""
    padding: Literal["kept", "zero"] = "kept"
    """Columns after the end of a caption: the encoder's vectors of padding (as released), or 0."""
    functional_words: bool = True
    """Whether columns of functional words are replaced."""
    learn_functional_rows: bool = False
    """Whether the replacing columns are trained; in the released code they stay random."""
    dropout: float = bounded(0.0, low=0, below=1)
    shuffle_patches: Literal["no", "each", "same"] = "no"
    """A control. `each`: order the patches of each image by their vectors, which removes their
    positions. `same`: one random order for all images, which removes only neighbourhood."""
    only: Only = "all"
    """A control: only the row of CLS, the column of the end token, or both; zeros elsewhere."""
    draws: int = 0
    """Seed of functional columns and patch orders."""


class Dcsm(Reader):
    """A reader of cosine maps of [CLS and patches] x [tokens]."""

    settings: DcsmSettings
    maps_show = (
        "By how much the score falls when the cosine of a word with a patch is replaced by the "
        "mean of the map: orange cells count for the caption, blue ones against it. Columns of "
        "functional words are the same for all images; their effect still depends on the "
        "neighbouring columns."
    )
    maps_are_signed = True

    def __init__(self, settings: DcsmSettings, sizes: Sizes, *, name: str = "dcsm_fixed") -> None:
        """Build the reader for images of `sizes.patches` patches."""
        super().__init__()
        self.name, self.settings, self.patches = name, settings, sizes.patches
        self.captions = MapCaptions(settings.align, settings.length, settings.padding)
        self.view = self.captions.view
        self.max_tokens = settings.length
        rows = sizes.patches + 1
        self.functional_TR = nn.Parameter(
            functional_rows(rows, seed=settings.draws),
            requires_grad=settings.learn_functional_rows,
        )
        generator = torch.Generator().manual_seed(settings.draws)
        self.register_buffer("order_L", torch.randperm(sizes.patches, generator=generator))
        # Rounded to half precision now, since a saved reader has it and the order must not change.
        direction_W = torch.randn(sizes.picture_width, generator=generator).half().float()
        self.register_buffer("towards_W", direction_W)
        self.order_L: Tensor
        self.towards_W: Tensor
        net = MapCnn if settings.net == "cnn" else MapMlp
        self.net = net(rows, settings.length, dropout=settings.dropout)

    @property
    def depends_on_call(self) -> bool:
        """Return whether a score depends on the other pairs of the same call."""
        return self.settings.norm == "batch"

    def compare(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Score pairs row by row, [N]; with norm="batch" all rows share mean and deviation."""
        return self._own_scores(image, caption).flatten()

    def compare_all(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Score every image with every caption, [P, C], in bounded memory."""
        statistics = self._call_statistics(image, caption) if self.depends_on_call else None

        def block(image_rows: slice, caption_rows: slice) -> Tensor:
            return self._all_scores(
                image.rows(image_rows), caption.rows(caption_rows), statistics=statistics
            )[0]

        return fill_matrix(len(image), len(caption), self._numbers_per_pair, block)

    def maps(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Return the standardised maps that the network reads, row by row, [N, R, L]."""
        map_KPCRL, keep = self._own_maps(image, caption)
        return standardise(
            map_KPCRL, map_statistics(map_KPCRL, keep, by=self._statistics_by), keep
        )[0, :, 0]

    def word_maps(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Return how much the score falls without each cell, [N, columns, patches].

        A cell is replaced by 0, the mean of the standardised map, without standardising again.
        """
        if self.settings.shuffle_patches != "no":
            raise UnbagError(
                f"the read-out {self.name!r} was trained with shuffle_patches="
                f"{self.settings.shuffle_patches}, so its rows are no positions in an image",
                expected="shuffle_patches=no",
            )
        map_NRL = self.maps(image, caption)
        score_N1: Tensor = self.net(map_NRL)[:, None]
        patch_L = torch.arange(self.patches, device=map_NRL.device)
        columns = []
        for column in range(self.settings.length):
            hidden = map_NRL[:, None].repeat(1, self.patches, 1, 1)
            hidden[:, patch_L, 1 + patch_L, column] = 0
            columns.append(score_N1 - self.net(hidden.flatten(0, 1)).view(-1, self.patches))
        return torch.stack(columns, dim=1)

    def loss(self, batch: ReaderBatch, *, contrast_size: int) -> Tensor:
        """Return the paper's loss without negatives: cross-entropy of rows plus that of columns.

        There the opposite of a row follows it, so 2B contrasted rows are the paper's batch of B
        images, B captions and their opposites. With negatives the loss is that of `contrast`.
        """
        size = len(batch.image)

        def blocks() -> Iterator[tuple[slice, Tensor]]:
            # All complete blocks in one call, then the rest.
            block_size = min(contrast_size, size)
            whole = size // block_size * block_size
            parts = [(slice(0, whole), whole // block_size)]
            parts += [(slice(whole, size), 1)] if whole < size else []
            for rows, calls in parts:
                images, captions = batch.image.rows(rows), batch.caption.rows(rows)
                yield rows, self._all_scores(images, captions, calls=calls)

        if batch.negative is None:
            return 2 * block_info_nce(blocks(), batch.also_true_BB)
        score_BX = self._own_scores(batch.image, batch.negative)
        negative_BX = score_BX.float().masked_fill(~batch.negative_mask_BK, -torch.inf)
        return block_info_nce(blocks(), batch.also_true_BB, negative_BK=negative_BX)

    def _own_scores(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Score each image with its own captions, which follow one another, in one call, [N, X]."""
        map_KPCRL, keep = self._own_maps(image, caption)
        return self._read(map_KPCRL, keep, map_statistics(map_KPCRL, keep, by=self._statistics_by))[
            0
        ]

    def _own_maps(
        self, image: TokenFeatures, caption: TokenFeatures
    ) -> tuple[Tensor, Tensor | None]:
        """Return the maps of each image with its own captions, as one call for all images."""
        map_KPCRL, keep = self._maps(image, caption, calls=len(image))
        return map_KPCRL.transpose(0, 1), None if keep is None else keep.transpose(0, 1)

    def _all_scores(
        self,
        image: TokenFeatures,
        caption: TokenFeatures,
        *,
        calls: int = 1,
        statistics: MapStatistics | None = None,
    ) -> Tensor:
        """Score every image with every caption of its call, [K, P, C]."""
        map_KPCRL, keep = self._maps(image, caption, calls=calls)
        statistics = statistics or map_statistics(map_KPCRL, keep, by=self._statistics_by)
        return self._read(map_KPCRL, keep, statistics)

    def _read(self, map_KPCRL: Tensor, keep: Tensor | None, statistics: MapStatistics) -> Tensor:
        """Standardise maps and return their scores, [K, P, C]."""
        map_KPCRL = standardise(map_KPCRL, statistics, keep)
        score_N: Tensor = self.net(map_KPCRL.reshape(-1, *map_KPCRL.shape[3:]))
        return score_N.view(map_KPCRL.shape[:3])

    def _maps(
        self, image: TokenFeatures, caption: TokenFeatures, *, calls: int
    ) -> tuple[Tensor, Tensor | None]:
        """Return maps before standardisation, and which cells count."""
        mark_NL = self._check_parts(image, caption)
        image_NRW = torch.cat([image.pooled[:, None], self._ordered_patches(image)], dim=1)
        map_KPCRL = cosine_maps(image_NRW.float(), caption.vector_NLW.float(), calls=calls)
        if self.settings.functional_words:
            map_KPCRL = replace_functional_columns(map_KPCRL, mark_NL, self.functional_TR)
        keep = counted_cells(self.settings.only, mark_NL, rows=self.patches + 1, calls=calls)
        return map_KPCRL, keep

    def _ordered_patches(self, image: TokenFeatures) -> Tensor:
        """Return patches in their order in the image, or in that of a control."""
        vector_NLW = image.vector_NLW
        if self.settings.shuffle_patches == "same":
            return vector_NLW[:, self.order_L]
        if self.settings.shuffle_patches == "each":
            order_NL = (vector_NLW.float() @ self.towards_W).argsort(dim=1, stable=True)
            return vector_NLW.gather(1, order_NL[..., None].expand_as(vector_NLW))
        return vector_NLW

    def _call_statistics(self, image: TokenFeatures, caption: TokenFeatures) -> MapStatistics:
        """Return mean and deviation over all pairs, summed in blocks to bound memory."""

        def block(image_rows: slice, caption_rows: slice) -> Tensor:
            map_KPCRL, keep = self._maps(
                image.rows(image_rows), caption.rows(caption_rows), calls=1
            )
            if keep is not None:
                map_KPCRL = map_KPCRL.masked_fill(~keep, 0)
            cell = map_KPCRL[0].double()
            return torch.stack([cell.sum((2, 3)), cell.square().sum((2, 3))], dim=-1)

        sums = fill_matrix(len(image), len(caption), self._numbers_per_pair, block)
        rows, length = self.patches + 1, self.settings.length
        cells: dict[Only, int] = {
            "all": rows * length,
            "cls": length,
            "eos": rows,
            "cls_eos": rows + length - 1,
        }
        count = cells[self.settings.only] * len(image) * len(caption)
        total, squares = sums.sum((0, 1))
        mean = total / count
        variance = (squares - count * mean**2).clamp(min=0) / (count - 1)
        return MapStatistics(mean.float(), variance.sqrt().clamp(min=LEAST_DEVIATION).float())

    @property
    def _statistics_by(self) -> Literal["map", "call"]:
        return "call" if self.depends_on_call else "map"

    @property
    def _numbers_per_pair(self) -> int:
        """Return the numbers in memory per pair; a GPU copies rows for its windows."""
        copies = 4 if self.functional_TR.is_cuda else 2
        return copies * (1 + CHANNELS) * (self.patches + 1) * self.settings.length

    def _check_parts(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Return the marks of captions; raise an error for features of other sizes."""
        if image.vector_NLW.shape[1] != self.patches:
            raise UnbagError(
                f"images of {image.vector_NLW.shape[1]} patches",
                expected=f"{self.patches}, as this {self.name} was trained",
                hint="images as the model prepares them, or a reader trained for these",
            )
        if caption.mark_NL is None or caption.vector_NLW.shape[1] != self.settings.length:
            raise ValueError(f"captions that were not encoded by the view {self.view.name}")
        return caption.mark_NL


def _view(settings: DcsmSettings) -> View:
    return MapCaptions(settings.align, settings.length, settings.padding).view


DCSM = ReaderReadout(
    "dcsm", DcsmSettings(align="word_index", norm="batch"), _view, partial(Dcsm, name="dcsm")
)
"""As released: words mark the column of their index; maps of a call share a mean."""
DCSM_FIXED = ReaderReadout("dcsm_fixed", DcsmSettings(), _view, partial(Dcsm, name="dcsm_fixed"))
"""Words mark their own tokens; each map is standardised by itself."""


@dataclass(eq=False)
class MapCaptions:
    """Encodes captions into a fixed number of columns; `mark_NL` marks functional words."""

    align: Align
    length: int
    padding: Literal["kept", "zero"]
    _warned: set[str] = field(default_factory=set, repr=False)

    @property
    def view(self) -> View:
        """Return the view of patches in the joint space and of captions as columns."""
        how = self.align.replace("_", "-")
        return View(f"dcsm-{how}-{self.length}-{self.padding}", joint_images, self)

    def __call__(self, encoder: DualEncoder, captions: Sequence[str]) -> TokenFeatures:
        """Return features [N, length, D]; the mask is True at all vectors, those of padding too."""
        vector_NKD, mask_NK, pooled_ND = self._vectors(encoder, captions)
        caption_marks = marks(encoder, captions, align=self.align, length=self.length)
        if caption_marks.cut:
            self._warn_once(
                f"captions of {encoder.name} with more than {self.length} tokens are truncated: a "
                f"map has {self.length} columns"
            )
        if caption_marks.unplaced:
            self._warn_once(
                f"{encoder.name}: tokens of some captions cannot be assigned to words, so their "
                "functional words are not marked"
            )
        part_NLD = _to_length(vector_NKD, self.length)
        mask_NL = _to_length(mask_NK[..., None], self.length)[..., 0]
        return TokenFeatures(part_NLD, mask_NL, pooled_ND, torch.from_numpy(caption_marks.mark_NL))

    def _vectors(
        self, encoder: DualEncoder, captions: Sequence[str]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return vectors of columns, their mask, and pooled vectors."""
        if self.padding == "zero" or not isinstance(encoder, PaddedEncoder):
            features = joint_texts(encoder, captions)
            if self.padding == "kept":
                self._warn_once(
                    f"{encoder.name} returns no vectors of padding: columns after the end of a "
                    "caption are zero"
                )
            return features.vector_NLW, features.mask_NL, features.pooled
        tokens = encoder.encode_padded(captions, length=self.length)
        vector_NKD = tokens.vector_NLW.float()
        pooled_ND = encoder.encode_texts(captions).float()
        return vector_NKD, (vector_NKD != 0).any(dim=-1), pooled_ND

    def _warn_once(self, message: str) -> None:
        """Warn once per message."""
        if message not in self._warned:
            self._warned.add(message)
            warn(message, stacklevel=4)


def _to_length(tensor_NKD: Tensor, length: int) -> Tensor:
    missing = length - tensor_NKD.shape[1]
    return (
        tensor_NKD[:, :length] if missing <= 0 else functional.pad(tensor_NKD, (0, 0, 0, missing))
    )


@dataclass(frozen=True, eq=False)
class Marks:
    """Marks of functional words and ends, with counts of special captions."""

    mark_NL: IntArray
    cut: int
    """Captions that were truncated."""
    plain: int
    """Captions without functional words; their map has only cosines."""
    unplaced: int
    """Captions whose functional words could not be located, so that none is marked."""


def marks(encoder: DualEncoder, captions: Sequence[str], *, align: Align, length: int) -> Marks:
    """Mark the first occurrence of each functional word and the end of each caption."""
    mark_NL = np.zeros((len(captions), length), dtype=np.int64)
    count_N = np.array(encoder.count_tokens(captions), dtype=np.int64)
    columns = by_token(encoder, captions) if align == "token" else by_word_index(captions)
    # The last column of a truncated caption is its end, not a functional word.
    end_N = length - ((count_N > length) & (align == "token"))
    unplaced = 0
    for row, found in enumerate(columns):
        unplaced += found is None
        for mark, column in found or ():
            if column < end_N[row]:
                mark_NL[row, column] = mark
    plain = int((mark_NL == 0).all(axis=1).sum()) - unplaced
    mark_NL[np.arange(len(captions)), np.minimum(count_N, length) - 1] += END
    return Marks(mark_NL, int((count_N > length).sum()), plain, unplaced)


def by_token(encoder: DualEncoder, captions: Sequence[str]) -> list[list[tuple[int, int]] | None]:
    """Return marks and columns of functional words by their tokens, ignoring case and punctuation.

    None for a caption with functional words whose tokens cannot be located.
    """
    indices = [
        i
        for i, caption in enumerate(captions)
        if any(_bare(word) in _MARK_OF for word in caption.replace("-", " ").split())
    ]
    columns: list[list[tuple[int, int]] | None] = [[] for _ in captions]
    for i, words in zip(
        indices, placed_words(encoder, [captions[i] for i in indices]), strict=True
    ):
        if words is None:
            columns[i] = None
            continue
        first_occurrences = dict(
            _first_occurrences((n, _bare(word.word)) for n, word in enumerate(words))
        )
        columns[i] = [
            (mark, column)
            for mark, n in first_occurrences.items()
            for column in range(words[n].start, words[n].stop)
        ]
    return columns


def by_word_index(captions: Sequence[str]) -> list[list[tuple[int, int]]]:
    """Return marks and columns by word index, as released: word k marks column k.

    Words are separated by single spaces and compared literally. Column 0 is the start token if a
    model has one, so this is off by one, and by more after a word of several tokens.
    """
    return [list(_first_occurrences(enumerate(caption.split(" ")))) for caption in captions]


def _first_occurrences(words: Iterable[tuple[int, str]]) -> Iterable[tuple[int, int]]:
    """Yield mark and position of the first occurrence of each functional word."""
    seen: set[str] = set()
    for position, word in words:
        if word in _MARK_OF and word not in seen:
            seen.add(word)
            yield _MARK_OF[word], position


def _bare(word: str) -> str:
    return word.lower().strip(".,;:!?\"'()[]")


def cosine_maps(image_NRW: Tensor, caption_NLW: Tensor, *, calls: int) -> Tensor:
    """Return maps of all images with all captions of each call, [K, P, C, R, L]."""
    rows, width = image_NRW.shape[1:]
    length = caption_NLW.shape[1]
    flat = torch.bmm(
        image_NRW.reshape(calls, -1, width), caption_NLW.reshape(calls, -1, width).transpose(1, 2)
    )
    images, captions = len(image_NRW) // calls, len(caption_NLW) // calls
    return flat.view(calls, images, rows, captions, length).transpose(2, 3)


def functional_rows(rows: int, *, seed: int) -> Tensor:
    """Draw the fixed column of each functional word, [T, R], with values of about 1/3."""
    generator = torch.Generator().manual_seed(seed)
    drawn_TR = torch.randn((len(FUNCTIONAL), rows), generator=generator)
    return (functional.normalize(drawn_TR, dim=1) + 1) / 3


def replace_functional_columns(map_KPCRL: Tensor, mark_NL: Tensor, row_TR: Tensor) -> Tensor:
    """Replace the columns of functional words by the fixed column of the word."""
    calls, _, captions, rows, length = map_KPCRL.shape
    mark_NL = mark_NL % END
    word_NRL = row_TR[(mark_NL - 1).clamp(min=0)].transpose(1, 2).to(map_KPCRL.dtype)
    return torch.where(
        (mark_NL > 0).view(calls, 1, captions, 1, length),
        word_NRL.reshape(calls, 1, captions, rows, length),
        map_KPCRL,
    )


def counted_cells(only: Only, mark_NL: Tensor, *, rows: int, calls: int) -> Tensor | None:
    """Return which cells count, [K, 1, C, R, L]; None if all do.

    These are the row of CLS, the column in which each caption ends, or both.
    """
    if only == "all":
        return None
    is_end_NRL = (mark_NL >= END)[:, None].expand(-1, rows, -1)
    is_cls_NRL = torch.zeros_like(is_end_NRL)
    is_cls_NRL[:, 0] = True
    is_kept_NRL = {"cls": is_cls_NRL, "eos": is_end_NRL, "cls_eos": is_cls_NRL | is_end_NRL}[only]
    return is_kept_NRL.view(calls, 1, -1, *is_kept_NRL.shape[1:])


class MapStatistics(NamedTuple):
    """Mean and sample standard deviation, in shapes that broadcast over maps."""

    mean: Tensor
    deviation: Tensor


def map_statistics(
    map_KPCRL: Tensor, keep: Tensor | None, *, by: Literal["map", "call"]
) -> MapStatistics:
    """Compute mean and deviation of counted cells, per map or over all maps of a call."""
    dims = (3, 4) if by == "map" else (1, 2, 3, 4)
    if keep is None:
        variance, mean = torch.var_mean(map_KPCRL, dims, correction=1, keepdim=True)
        return MapStatistics(mean, variance.sqrt().clamp(min=LEAST_DEVIATION))
    weight = keep.expand_as(map_KPCRL).to(map_KPCRL.dtype)
    count = weight.sum(dims, keepdim=True)
    mean = (map_KPCRL * weight).sum(dims, keepdim=True) / count
    squared = ((map_KPCRL - mean).square() * weight).sum(dims, keepdim=True)
    return MapStatistics(mean, (squared / (count - 1)).sqrt().clamp(min=LEAST_DEVIATION))


def standardise(map_KPCRL: Tensor, statistics: MapStatistics, keep: Tensor | None) -> Tensor:
    """Scale maps to zero mean and unit deviation; cells that do not count are 0."""
    map_KPCRL = (map_KPCRL - statistics.mean) / statistics.deviation
    return map_KPCRL if keep is None else map_KPCRL.masked_fill(~keep, 0)


class MapCnn(nn.Module):
    """Two 3 x 3 convolutions over the map, then two fully connected layers.

    For maps of 197 x 30 it has 3,026,365 weights. Patches are listed line by line, so a window
    covers a patch with its left and right neighbours, not those above and below.
    """

    def __init__(self, rows: int, columns: int, *, dropout: float = 0.0) -> None:
        """Build the network; dropout follows every stage."""
        super().__init__()
        self.first = nn.Conv2d(1, CHANNELS, 3, padding=1)
        self.second = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
        self.hidden = nn.Linear(CHANNELS * rows * columns, HIDDEN)
        self.out = nn.Linear(HIDDEN, 1)
        self.stage = nn.Sequential(nn.ReLU(), nn.Dropout(dropout))

    def forward(self, map_NRL: Tensor) -> Tensor:
        """Score maps, [N, R, L] to [N]."""
        return self.by_products(map_NRL) if map_NRL.is_cuda else self.convolved(map_NRL)

    def convolved(self, map_NRL: Tensor) -> Tensor:
        """Score maps with convolutions, as in the paper, [N, R, L] to [N]."""
        hidden = self.stage(self.first(map_NRL[:, None]))
        hidden = self.stage(self.second(hidden))
        score_N1: Tensor = self.out(self.stage(self.hidden(hidden.flatten(1))))
        return score_N1[:, 0]

    def by_products(self, map_NRL: Tensor) -> Tensor:
        """Score maps with matrix products, for a GPU, [N, R, L] to [N].

        GPU convolutions are slow with four channels. Here the columns of all channels are
        concatenated, a window is three such rows, and its weights are a banded matrix. That takes
        ten times the products, but in a shape that suits a GPU.
        """
        rows, columns = map_NRL.shape[1:]
        channels = map_NRL
        for layer in (self.first, self.second):
            assert layer.bias is not None
            bias = layer.bias.repeat_interleave(columns)
            channels = functional.linear(_Windows.apply(channels), _band(layer, columns), bias)
            channels = self.stage(channels)
        weight_HORL = self.hidden.weight.view(len(self.hidden.weight), -1, rows, columns)
        weight = weight_HORL.transpose(1, 2).flatten(1)
        hidden = functional.linear(channels.flatten(1), weight, self.hidden.bias)
        score_N1: Tensor = self.out(self.stage(hidden))
        return score_N1[:, 0]


class _Windows(torch.autograd.Function):
    """Concatenate each row with those above and below, zeros at the edge: [N, R, C] to [N, R, 3C].

    Windows are the largest arrays of a step. Padding, slicing and concatenating in autograd would
    read and write twice as much.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, row_NRC: Tensor) -> Tensor:
        """Return the windows, written once."""
        maps, rows, size = row_NRC.shape
        window = row_NRC.new_empty((maps, rows, 3 * size))
        above, own, below = torch.chunk(window, 3, dim=2)
        above[:, 0] = 0
        above[:, 1:] = row_NRC[:, :-1]
        own.copy_(row_NRC)
        below[:, :-1] = row_NRC[:, 1:]
        below[:, -1] = 0
        return window

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> Tensor:
        """Sum the gradients of a row from its own window and those of its neighbours."""
        above, own, below = torch.chunk(gradient, 3, dim=2)
        total = own.clone(memory_format=torch.contiguous_format)
        total[:, :-1] += above[:, 1:]
        total[:, 1:] += below[:, :-1]
        return total


def _band(layer: nn.Conv2d, columns: int) -> Tensor:
    """Return convolution weights [O, I, D, A] as a banded matrix [O x L, D x I x L]."""
    weight = layer.weight
    shifts = torch.stack([weight.new_ones(columns - abs(at)).diag(at) for at in (-1, 0, 1)])
    matrix = torch.einsum("oida,amn->omdin", weight, shifts)
    return matrix.flatten(2).flatten(0, 1)


class MapMlp(nn.Module):
    """Three fully connected layers over the map."""

    def __init__(self, rows: int, columns: int, *, dropout: float = 0.0) -> None:
        """Build the network; dropout follows every stage."""
        super().__init__()
        first, second = MLP_HIDDEN
        self.layers = nn.Sequential(
            nn.Linear(rows * columns, first),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(first, second),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(second, 1),
        )

    def forward(self, map_NRL: Tensor) -> Tensor:
        """Score maps, [N, R, L] to [N]."""
        score_N1: Tensor = self.layers(map_NRL.flatten(1))
        return score_N1[:, 0]
