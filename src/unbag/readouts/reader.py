"""A reader: a small network that scores parts of images against parts of captions.

What a reader must offer, its contrastive loss, and the file that a trained reader is saved in.

Dimensions: N pairs, P images, C captions, T parts of a caption, L patches, B rows of a batch, K
negatives of a caption, M = B x K, G rows that are contrasted (a crowd).
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
"""Pairs that are compared together where a reader has no quicker way to fill a matrix."""
MOST_NUMBERS = 1 << 25
"""Of one array at a time while a matrix is filled; 128 MB in float32."""


class Reader(nn.Module):
    """Scores pairs. Settings are a frozen dataclass that can be written as JSON."""

    name: str
    settings: object
    view: View
    scale: float = 1.0
    """Scores times this are the logits of the loss."""
    most_tokens: int | None = None
    """Tokens of a caption that it looks at, special ones included; None is all."""

    @property
    def depends_on_call(self) -> bool:
        """Whether a score depends on what else is compared in the same call."""
        return False

    def compare(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Row with row, [N]; must not depend on the other rows unless the reader says so."""
        raise NotImplementedError

    def compare_all(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Every image with every caption, [P, C]."""
        images, captions = len(image), len(caption)
        device = image.vector_NLW.device
        found = []
        for start in range(0, images * captions, PAIRS_AT_ONCE):
            at = torch.arange(start, min(start + PAIRS_AT_ONCE, images * captions), device=device)
            found.append(
                self.compare(
                    image.rows(at.div(captions, rounding_mode="floor")),
                    caption.rows(at % captions),
                )
            )
        return torch.cat(found).view(images, captions)

    def loss(self, batch: ReaderBatch, *, contrast_size: int) -> Tensor:
        """The loss to minimise; `contrast_size` rows are contrasted at a time."""
        return contrast(self, batch, contrast_size=contrast_size)


@runtime_checkable
class MappedReader(Protocol):
    """A reader that `unbag diagnose` draws: it has a map over the patches for each part."""

    maps_show: str
    """What a number of a map is, for people: a sentence or two."""
    maps_are_signed: bool
    """Whether zero is nothing, and numbers below it speak against; drawn in two colours."""

    def word_maps(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Row with row, [N, T, L], larger where a patch counts more.

        A reader to which a caption is one part (T = 1) is also asked with each word alone.
        """


@dataclass(frozen=True, eq=False)
class ReaderBatch:
    """What a reader is taught with: frozen parts, on the reader's device."""

    image: TokenFeatures
    caption: TokenFeatures
    negative: TokenFeatures | None
    """B x K, row by row; rows that are masked mean nothing."""
    negative_mask_BK: Tensor
    also_true_BB: Tensor
    """Caption j fits image i although i != j: no negative."""


@dataclass(frozen=True)
class Sizes:
    """What a reader must know of the features it is given."""

    patches: int
    picture_width: int
    caption_width: int


def contrast(reader: Reader, batch: ReaderBatch, *, contrast_size: int) -> Tensor:
    """Image finds caption among those of its crowd and its own negatives, caption finds image.

    The mean of both cross-entropies. Captions that fit an image too are left out.
    """

    def blocks() -> Iterator[tuple[slice, Tensor]]:
        for part in crowds(len(batch.image), contrast_size):
            score_GG = reader.compare_all(batch.image.rows(part), batch.caption.rows(part))
            yield part, (reader.scale * score_GG)[None]

    negative_BK = None
    if batch.negative is not None:
        negative_BK = reader.scale * negative_scores(reader, batch)
    return block_info_nce(blocks(), batch.also_true_BB, negative_BK=negative_BK)


def negative_scores(reader: Reader, batch: ReaderBatch) -> Tensor:
    """Each image with its own negatives, [B, K]; minus infinity where there is none."""
    if batch.negative is None:
        raise ValueError("a batch without negatives has no scores of them")
    size, each = batch.negative_mask_BK.shape
    row_M = torch.arange(size, device=batch.negative_mask_BK.device).repeat_interleave(each)
    score_BK = reader.compare(batch.image.rows(row_M), batch.negative).view(size, each)
    return score_BK.masked_fill(~batch.negative_mask_BK, -torch.inf)


@torch.inference_mode()
def accuracies(reader: Reader, batch: ReaderBatch) -> Tensor:
    """Whether the caption is above each of its own negatives, [B]; a tie is a miss."""
    other_BK = negative_scores(reader, batch)
    return reader.compare(batch.image, batch.caption) > other_BK.amax(dim=1)


def crowds(size: int, contrast_size: int) -> Iterator[slice]:
    """Rows that are contrasted together; the last block may be smaller."""
    for start in range(0, size, contrast_size):
        yield slice(start, min(start + contrast_size, size))


def filled(
    images: int, captions: int, numbers: int, block: Callable[[slice, slice], Tensor]
) -> Tensor:
    """[P, C] from blocks of it, none of which needs more than `MOST_NUMBERS`.

    `numbers` is what one cell needs while it is computed.
    """
    across = max(1, min(captions, MOST_NUMBERS // numbers))
    down = max(1, MOST_NUMBERS // (numbers * across))
    rows = []
    for some in crowds(images, down):
        rows.append(torch.cat([block(some, others) for others in crowds(captions, across)], dim=1))
    return torch.cat(rows)


@dataclass(frozen=True)
class ReaderHeader:
    """What a file says of itself."""

    readout: str
    settings: Mapping[str, Any]
    sizes: Sizes
    encoder: str
    """Name of the model it was trained on."""
    fingerprint: str
    """Of that model."""
    version: str = __version__


def save_head(
    reader: Reader, path: Path, head: ReaderHeader, *, dtype: torch.dtype = torch.float16
) -> None:
    """Weights in half precision, as they are shipped, and all that is needed to read them."""
    state = {name: value.detach().cpu() for name, value in reader.state_dict().items()}
    state = {
        name: (value.to(dtype) if value.is_floating_point() else value).contiguous()
        for name, value in state.items()
    }
    check_finite(state, source=f"the reader {head.readout}")
    write_head(state, path, head)


def write_head(state: Mapping[str, Tensor], path: Path, head: ReaderHeader) -> None:
    """Weights as they are, under a header."""
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
    """The reader of a folder, for the encoder it was trained on and no other."""
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
    said = {key: value for key, value in with_current_names(head.settings).items() if key in known}
    try:
        reader = build(settings(**said), head.sizes)
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
    """Raise UnbagError if training was stopped before its end, which writes the file."""
    if not file.exists() and (folder / LAST).exists():
        raise UnbagError(
            f"{folder} holds a training that was stopped before its end",
            expected=f"a folder with {file.name}, which the last step writes",
            hint="give the same `unbag train` command again: it resumes",
        )


def read_head(path: Path) -> tuple[ReaderHeader, dict[str, Tensor]]:
    """What `save_head` wrote; the file is data only, nothing in it is executed."""
    try:
        with safe_open(path, framework="pt") as file:
            said = json.loads((file.metadata() or {})[_HEADER])
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        said["sizes"] = Sizes(**said["sizes"])
        head = ReaderHeader(**said)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UnbagError(
            f"{path} is not a reader: {said_by(error)}",
            expected=f"a folder that `unbag train --readout ...` wrote, with {FILE}",
            hint="train one; docs/readouts.md shows how",
        ) from error
    check_finite(state, source=f"{path}")
    return head, state


def check_encoder(
    path: Path, encoder: DualEncoder, *, spec: str, fingerprint: str, kind: str = "reader"
) -> None:
    """Raise UnbagError, with both fingerprints, if what lies there was trained on another."""
    if fingerprint != encoder.fingerprint:
        raise UnbagError(
            f"{path} was trained for {spec} (fingerprint {fingerprint}), and the model is "
            f"{encoder.name} ({encoder.fingerprint})",
            expected="the model it was trained on: to another, its numbers mean nothing",
            hint=f"--model {spec}, or train a {kind} for this model",
        )


def reader_fingerprint(reader: Reader, encoder: DualEncoder) -> str:
    """Of encoder, weights and settings."""
    said = json.dumps(with_first_names(asdict(reader.settings)), sort_keys=True)  # type: ignore[call-overload]
    return fingerprint("reader", reader.state_dict(), encoder.fingerprint, reader.name, said)


def shipped_reader(readout: str, encoder: DualEncoder) -> Path | None:
    """`MODEL.READOUT.reader.safetensors` whose header has this encoder's fingerprint.

    None where there is none. What such a file is called says what to look at; only its header
    says whom it was trained for.
    """
    for path in shipped_like(f"*.{readout}.reader.safetensors"):
        head, _ = read_head(path)
        if (head.readout, head.fingerprint) == (readout, encoder.fingerprint):
            return path
    return None


def shipped_decoder(readout: str, encoder: DualEncoder) -> Path | None:
    """The folder `MODEL.READOUT` of a decoder that was trained on this encoder; None if none is."""
    for folder in shipped_like(f"*.{readout}"):
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if config["origin"]["fingerprint"] == encoder.fingerprint:
            return folder
    return None
