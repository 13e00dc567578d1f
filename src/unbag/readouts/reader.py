"""Readers: small networks that score token features of images against those of captions.

This module has their base class, contrastive loss and file format.

Dimensions: N pairs, P images, C captions, T parts of a caption, L patches, B rows of a batch, K
negatives of a caption, M = B x K, G rows that are contrasted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from unbag.errors import UnbagError, said_by
from unbag.models.features import View
from unbag.models.shipped import shipped_like
from unbag.models.weights import check_finite, fingerprint
from unbag.runs.checkpoint import LAST
from unbag.runs.files import write_atomically
from unbag.training.losses import block_info_nce
from unbag.training.settings import with_current_names, with_first_names
from unbag.types import DualEncoder, TokenFeatures
from unbag.version import __version__

FILE = "reader.safetensors"
_HEADER = "unbag_reader"
PAIRS_AT_ONCE = 2_048
"""Pairs per block where a reader has no faster way to fill a matrix."""
MOST_NUMBERS = 1 << 25
"""Maximum size of one array while a matrix is filled; 128 MB in float32."""


class Reader(nn.Module):
    """A network that scores pairs. Its settings are a frozen dataclass that JSON can store."""

    name: str
    settings: object
    view: View
    scale: float = 1.0
    """Factor from scores to the logits of the loss."""
    max_tokens: int | None = None
    """Maximum number of caption tokens that it reads, special ones included; None is all."""

    @property
    def depends_on_call(self) -> bool:
        """Return whether a score depends on the other pairs of the same call."""
        return False

    def compare(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Score pairs row by row, [N]; rows are independent unless `depends_on_call`."""
        raise NotImplementedError

    def compare_all(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Score every image with every caption, [P, C]."""
        images, captions = len(image), len(caption)
        device = image.vector_NLW.device
        blocks = []
        for start in range(0, images * captions, PAIRS_AT_ONCE):
            pair_N = torch.arange(
                start, min(start + PAIRS_AT_ONCE, images * captions), device=device
            )
            blocks.append(
                self.compare(
                    image.rows(pair_N.div(captions, rounding_mode="floor")),
                    caption.rows(pair_N % captions),
                )
            )
        return torch.cat(blocks).view(images, captions)

    def loss(self, batch: ReaderBatch, *, contrast_size: int) -> Tensor:
        """Return the loss; `contrast_size` rows are contrasted at a time."""
        return contrast(self, batch, contrast_size=contrast_size)


@runtime_checkable
class MappedReader(Protocol):
    """A reader with a map over the patches for each part of a caption, for `unbag diagnose`."""

    maps_show: str
    """Explanation of the values of a map, one or two sentences."""
    maps_are_signed: bool
    """Whether maps have negative values, which count against a caption; two colours are drawn."""

    def word_maps(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Return maps row by row, [N, T, L], larger where a patch counts more.

        If a caption is one part (T = 1), it is also called with each word alone.
        """


@dataclass(frozen=True, eq=False)
class ReaderBatch:
    """A training batch of frozen features, on the reader's device."""

    image: TokenFeatures
    caption: TokenFeatures
    negative: TokenFeatures | None
    """B x K negatives, row by row; masked rows are padding."""
    negative_mask_BK: Tensor
    also_true_BB: Tensor
    """True where caption j fits image i although i != j, so that it is no negative."""


@dataclass(frozen=True)
class Sizes:
    """Shapes of the features that a reader is built for."""

    patches: int
    picture_width: int
    caption_width: int


def contrast(reader: Reader, batch: ReaderBatch, *, contrast_size: int) -> Tensor:
    """Return the InfoNCE loss in both directions, averaged, over blocks of `contrast_size` rows.

    Images are also contrasted with their own hard negatives. Other captions that fit an image are
    left out.
    """

    def blocks() -> Iterator[tuple[slice, Tensor]]:
        for part in contrast_blocks(len(batch.image), contrast_size):
            score_GG = reader.compare_all(batch.image.rows(part), batch.caption.rows(part))
            yield part, (reader.scale * score_GG)[None]

    negative_BK = None
    if batch.negative is not None:
        negative_BK = reader.scale * negative_scores(reader, batch)
    return block_info_nce(blocks(), batch.also_true_BB, negative_BK=negative_BK)


def negative_scores(reader: Reader, batch: ReaderBatch) -> Tensor:
    """Score each image with its own negatives, [B, K]; minus infinity for missing ones."""
    if batch.negative is None:
        raise ValueError("the batch has no negatives")
    size, negatives = batch.negative_mask_BK.shape
    row_M = torch.arange(size, device=batch.negative_mask_BK.device).repeat_interleave(negatives)
    score_BK = reader.compare(batch.image.rows(row_M), batch.negative).view(size, negatives)
    return score_BK.masked_fill(~batch.negative_mask_BK, -torch.inf)


@torch.inference_mode()
def accuracies(reader: Reader, batch: ReaderBatch) -> Tensor:
    """Return whether each caption scores above all its negatives, [B]; a tie is a miss."""
    negative_BK = negative_scores(reader, batch)
    return reader.compare(batch.image, batch.caption) > negative_BK.amax(dim=1)


def contrast_blocks(size: int, contrast_size: int) -> Iterator[slice]:
    """Yield slices of rows that are contrasted together; the last may be smaller."""
    for start in range(0, size, contrast_size):
        yield slice(start, min(start + contrast_size, size))


def fill_matrix(
    images: int, captions: int, numbers: int, block: Callable[[slice, slice], Tensor]
) -> Tensor:
    """Fill a matrix [P, C] in blocks, none of which needs more than `MOST_NUMBERS` numbers.

    `numbers` is how many one cell needs while it is computed.
    """
    columns = max(1, min(captions, MOST_NUMBERS // numbers))
    rows_at_once = max(1, MOST_NUMBERS // (numbers * columns))
    rows = []
    for image_rows in contrast_blocks(images, rows_at_once):
        rows.append(
            torch.cat(
                [
                    block(image_rows, caption_rows)
                    for caption_rows in contrast_blocks(captions, columns)
                ],
                dim=1,
            )
        )
    return torch.cat(rows)


@dataclass(frozen=True)
class ReaderHeader:
    """The header of a reader file."""

    readout: str
    settings: Mapping[str, Any]
    sizes: Sizes
    encoder: str
    """Name of the model that it was trained on."""
    fingerprint: str
    """Fingerprint of that model."""
    version: str = __version__


def save_head(
    reader: Reader, path: Path, head: ReaderHeader, *, dtype: torch.dtype = torch.float16
) -> None:
    """Write a reader's weights in half precision, with the header needed to load them."""
    state = {name: value.detach().cpu() for name, value in reader.state_dict().items()}
    state = {
        name: (value.to(dtype) if value.is_floating_point() else value).contiguous()
        for name, value in state.items()
    }
    check_finite(state, source=f"the reader {head.readout}")
    write_head(state, path, head)


def write_head(state: Mapping[str, Tensor], path: Path, head: ReaderHeader) -> None:
    """Write weights unchanged, with a header."""
    header = {_HEADER: json.dumps(asdict(head))}
    write_atomically(path, lambda temporary: save_file(dict(state), temporary, metadata=header))


def load_reader(
    folder: Path,
    encoder: DualEncoder,
    *,
    readout: str,
    settings: type[Any],
    build: Callable[[Any, Sizes], Reader],
) -> tuple[Reader, ReaderHeader]:
    """Load the reader of a folder; raise UnbagError if it was trained on another encoder."""
    path = folder if folder.is_file() else folder / FILE
    check_finished(folder, path)
    head, state = read_head(path)
    if head.readout != readout:
        raise UnbagError(
            f"{path} holds the read-out {head.readout!r}",
            expected=f"{readout!r}",
            hint=f"--scorer {head.readout}@{folder}",
        )
    check_encoder(path, encoder, spec=head.encoder, fingerprint=head.fingerprint)
    known = {field.name for field in fields(settings)}
    values = {
        key: value for key, value in with_current_names(head.settings).items() if key in known
    }
    try:
        reader = build(settings(**values), head.sizes)
        reader.load_state_dict(
            {k: v.float() if v.is_floating_point() else v for k, v in state.items()}
        )
    except (RuntimeError, TypeError) as error:
        raise UnbagError(
            f"{path} does not fit the read-out {readout!r}: {said_by(error)}",
            expected=f"weights as unbag {__version__} writes them; this is by {head.version}",
            hint="train it again with this version",
        ) from error
    return reader.eval(), head


def check_finished(folder: Path, file: Path) -> None:
    """Raise UnbagError if training was interrupted before it wrote the file."""
    if not file.exists() and (folder / LAST).exists():
        raise UnbagError(
            f"{folder} holds an unfinished training run",
            expected=f"a folder with {file.name}, which training writes at its end",
            hint="run the same `unbag train` command again to resume it",
        )


def read_head(path: Path) -> tuple[ReaderHeader, dict[str, Tensor]]:
    """Read a file of `save_head`; it holds data only, and nothing in it is executed."""
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {})[_HEADER])
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header["sizes"] = Sizes(**header["sizes"])
        head = ReaderHeader(**header)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UnbagError(
            f"{path} is not a reader: {said_by(error)}",
            expected=f"a folder that `unbag train --readout ...` wrote, with {FILE}",
            hint="docs/how-to/readouts.md explains how to train one",
        ) from error
    check_finite(state, source=f"{path}")
    return head, state


def check_encoder(
    path: Path, encoder: DualEncoder, *, spec: str, fingerprint: str, kind: str = "reader"
) -> None:
    """Raise UnbagError, with both fingerprints, if `path` was trained on another encoder."""
    if fingerprint != encoder.fingerprint:
        raise UnbagError(
            f"{path} was trained for {spec} (fingerprint {fingerprint}), and the model is "
            f"{encoder.name} ({encoder.fingerprint})",
            expected="the model it was trained on, since its weights fit no other",
            hint=f"--model {spec}, or train a {kind} for this model",
        )


def reader_fingerprint(reader: Reader, encoder: DualEncoder) -> str:
    """Return a fingerprint of encoder, weights and settings."""
    settings = json.dumps(with_first_names(asdict(reader.settings)), sort_keys=True)  # type: ignore[call-overload]
    return fingerprint("reader", reader.state_dict(), encoder.fingerprint, reader.name, settings)


def shipped_reader(readout: str, encoder: DualEncoder) -> Path | None:
    """Return the shipped reader file that was trained on an encoder; None if there is none.

    The name `MODEL.READOUT.reader.safetensors` selects the read-out; the header has the encoder's
    fingerprint.
    """
    for path in shipped_like(f"*.{readout}.reader.safetensors"):
        head, _ = read_head(path)
        if (head.readout, head.fingerprint) == (readout, encoder.fingerprint):
            return path
    return None


def shipped_decoder(readout: str, encoder: DualEncoder) -> Path | None:
    """Return the shipped folder of a decoder trained on an encoder; None if there is none."""
    for folder in shipped_like(f"*.{readout}"):
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if config["origin"]["fingerprint"] == encoder.fingerprint:
            return folder
    return None
