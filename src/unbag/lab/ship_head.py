"""A decoder, VLM2Vec or reader of the lab comes in; what ships for its encoder goes out.

    python -m unbag.lab.ship_head runs/arms/readouts/tiny-0/decoder-long --model tiny:base --out OUT

With `--change-of DECODER --rank R` it is written as a change of a decoder that ships beside it.
A reader is a file, and so is what ships of it: OUT ends in `.READOUT.reader.safetensors`.
Weights are rounded to half precision, and the origin is the name that loads the encoder anywhere.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

from unbag.lab.readout_arms import VECTOR_ARMS
from unbag.lab.script import run_script
from unbag.models.loading import load_model
from unbag.readouts.decoder.saving import (
    Origin,
    on_encoder,
    read_decoder,
    save_change,
    save_decoder,
)
from unbag.readouts.reader import check_encoder, read_head, write_head
from unbag.readouts.training import encoder_of


@dataclass(frozen=True)
class Beside:
    """What a head is a change of."""

    decoder: Path
    rank: int


def ship_head(place: Path, spec: str, out: Path, *, beside: Beside | None = None) -> None:
    """Write it; what was trained for another encoder is refused."""
    if place.is_file():
        _ship_reader(place, spec, out)
    else:
        _ship_decoder(place, spec, out, beside)


def _ship_reader(path: Path, spec: str, out: Path) -> None:
    """Readers are kept in half precision already."""
    head, state = read_head(path)
    encoder = encoder_of(load_model(spec), head.readout)
    check_encoder(path, encoder, spec=head.encoder, fingerprint=head.fingerprint)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_head(state, out, replace(head, encoder=spec))


def _ship_decoder(folder: Path, spec: str, out: Path, beside: Beside | None) -> None:
    kept, encoder = read_decoder(folder), encoder_of(load_model(spec), "decoder")
    on_encoder(kept, encoder, folder, name=spec)
    made = kept.made
    shipped = replace(
        made,
        context=made.places + made.settings.context,
        # Folders of before `embeds` was written have the name of their arm.
        embeds=made.embeds or folder.name in VECTOR_ARMS,
    )
    origin = Origin(spec, encoder.name, encoder.fingerprint)
    if beside:
        save_change(out, shipped, origin, base=beside.decoder, rank=beside.rank)
    else:
        save_decoder(out, replace(shipped, net=made.net.half()), origin)


def main() -> None:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("place", type=Path, help="folder of a decoder or VLM2Vec, or a reader")
    parser.add_argument("--model", required=True, help="the name that loads its encoder")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--change-of", type=Path, help="a decoder that ships and was its start")
    parser.add_argument("--rank", type=int, default=48, help="of the change of each matrix")
    options = parser.parse_args()
    beside = Beside(options.change_of, options.rank) if options.change_of else None
    ship_head(options.place, options.model, options.out, beside=beside)


if __name__ == "__main__":
    run_script(main)
