"""A decoder or VLM2Vec of the lab comes in; the folder that ships for its encoder goes out.

    python -m unbag.lab.ship_head runs/lab/readouts/tiny-0/vlm2vec --model tiny:base --out OUT

Weights are rounded to half precision, and the origin is the name that loads the encoder anywhere.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from unbag.lab.readout_arms import VECTOR_ARMS
from unbag.readouts.decoder_kept import Origin, on_encoder, read_decoder, save_decoder
from unbag.readouts.reader_readout import encoder_of
from unbag.scorers.resolve import load_model


def ship_head(folder: Path, spec: str, out: Path) -> None:
    """Write it; a folder of another encoder is refused."""
    kept, encoder = read_decoder(folder), encoder_of(load_model(spec), "decoder")
    on_encoder(kept, encoder, folder, name=spec)
    made = kept.made
    shipped = replace(
        made,
        net=made.net.half(),
        context=made.places + made.settings.context,
        # Folders of before `embeds` was written have the name of their arm.
        embeds=made.embeds or folder.name in VECTOR_ARMS,
    )
    out.mkdir(parents=True, exist_ok=True)
    save_decoder(out, shipped, Origin(spec, encoder.name, encoder.fingerprint))


def main() -> None:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folder", type=Path, help="of a decoder or VLM2Vec")
    parser.add_argument("--model", required=True, help="the name that loads its encoder")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    ship_head(options.folder, options.model, options.out)


if __name__ == "__main__":
    main()
