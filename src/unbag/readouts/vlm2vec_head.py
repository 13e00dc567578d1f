"""A frozen dual encoder comes in; a language model that embeds what its patches show goes out.

Such a head is a decoder (`unbag.readouts.decoder_kept`) that was trained further to embed.
"""

from __future__ import annotations

from pathlib import Path

from unbag.errors import UserError
from unbag.readouts.decoder_kept import on_encoder, read_decoder
from unbag.readouts.decoder_model import PatchDecoder
from unbag.readouts.shipped import shipped_decoder
from unbag.readouts.small_language import small_language
from unbag.types import DualEncoder

_TRAIN = (
    "`unbag train --recipe decoder`, then `unbag train --recipe vlm2vec --model decoder:FOLDER`: "
    "docs/vlm2vec.md"
)


def on_patches(encoder: DualEncoder, folder: Path | None, *, readout: str) -> PatchDecoder:
    """The head of a folder, or the one that is shipped for this encoder."""
    place = folder or shipped_decoder(readout, encoder)
    if place is None:
        raise UserError(
            f"the read-out {readout!r} needs a language model: {encoder.name} "
            f"({encoder.fingerprint}) has none, and none is shipped for its patches",
            expected=f"a chat model on this machine (hf:FOLDER, decoder:FOLDER), tiny:base with "
            f"--scorer vlm2vec, or --scorer {readout}@FOLDER with a head for this model",
            way_out=f"train one with {_TRAIN}",
        )
    kept = read_decoder(
        place, read=small_language, way_out=f"check the path; train one with {_TRAIN}"
    )
    if not kept.made.embeds:
        raise UserError(
            f"{place} was taught to answer, not to embed",
            expected="a head that `python -m unbag.lab.readout_decoders` trained to embed",
            way_out=f"score it with --scorer decoder@{place}, or train it to embed: "
            f"unbag train --recipe {readout} --model decoder:{place}",
        )
    return on_encoder(kept, encoder, place, name=encoder.name)
