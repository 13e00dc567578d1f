"""The name of a read-out and an encoder come in; what is shipped for them goes out."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

from unbag.readouts.head import read_head
from unbag.types import DualEncoder

WEIGHTS = Path(str(files("unbag.models") / "weights"))


def shipped_reader(readout: str, encoder: DualEncoder, *, weights: Path = WEIGHTS) -> Path | None:
    """`MODEL.READOUT.reader.safetensors` whose header has this encoder's fingerprint.

    None where there is none. What such a file is called says what to look at; only its header
    says whom it was trained for.
    """
    for path in sorted(weights.glob(f"*.{readout}.reader.safetensors")):
        head, _ = read_head(path)
        if (head.readout, head.fingerprint) == (readout, encoder.fingerprint):
            return path
    return None


def shipped_decoder(readout: str, encoder: DualEncoder, *, weights: Path = WEIGHTS) -> Path | None:
    """The folder `MODEL.READOUT` of a decoder that was trained on this encoder; None if none is."""
    for config in sorted(weights.glob(f"*.{readout}/config.json")):
        origin = json.loads(config.read_text(encoding="utf-8"))["origin"]
        if origin["fingerprint"] == encoder.fingerprint:
            return config.parent
    return None
