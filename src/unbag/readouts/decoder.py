"""A dual encoder and pairs come in; a language model that answers from its patches goes out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.engine.progress import Progress
from unbag.errors import UserError
from unbag.readouts.choose import choose
from unbag.readouts.decoder_kept import on_encoder, read_decoder
from unbag.readouts.decoder_language import saved_language
from unbag.readouts.decoder_model import PatchDecoder
from unbag.readouts.decoder_settings import DecoderSettings
from unbag.readouts.decoder_training import train_decoder
from unbag.readouts.reader_readout import encoder_of, named
from unbag.readouts.readout import ReadoutJob, ReadoutTrained
from unbag.readouts.shipped import shipped_decoder
from unbag.readouts.small_language import small_language
from unbag.scorers.chat import PERPLEXITY, YES
from unbag.scorers.resolve import load_model
from unbag.types import Scorer

if TYPE_CHECKING:
    from unbag.scorers.resolve import Model

NAME = "decoder"


@dataclass(frozen=True)
class DecoderReadout:
    """Trained by `unbag train`; scores by the probability of Yes, or of the caption itself."""

    name: str = NAME

    def train(self, job: ReadoutJob, *, progress: Progress) -> ReadoutTrained:
        """On features that are computed once; the same job goes on where it stopped."""
        settings = choose(DecoderSettings(), job.settings, readout=self.name)
        return train_decoder(job, settings, encoder_of(job.model, self.name), progress=progress)

    def scorers(self, model: Model, folder: Path | None) -> list[Scorer]:
        """One: yes-probability; without questions, how probable the caption is as the answer.

        Without a folder the one that is shipped for the model, if any is.
        """
        encoder = encoder_of(model, self.name)
        place = folder or shipped_decoder(self.name, encoder)
        if place is None:
            raise UserError(
                f"the read-out {self.name!r} scores with a trained decoder, and none is named nor "
                f"shipped for {encoder.name}",
                expected=f"--scorer {self.name}@FOLDER",
                way_out=f"`unbag train --recipe {self.name} ...` makes one: docs/decoder.md",
            )
        # What ships is scored without transformers, which a core installation does not have.
        kept = read_decoder(place, read=small_language if folder is None else saved_language)
        if kept.made.embeds:
            raise UserError(
                f"{place} was taught to embed, not to answer",
                expected=f"a decoder that `unbag train --recipe {self.name}` made",
                way_out=f"score it with --scorer vlm2vec@{place}",
            )
        decoder = on_encoder(kept, encoder, place, name=named(encoder, self.name, folder))
        scorer = (YES if kept.made.settings.asks else PERPLEXITY)(decoder)
        if kept.made.settings.sees == "nothing":
            scorer = replace(scorer, is_blind=True)  # type: ignore[type-var]
        return [scorer]


DECODER = DecoderReadout()


def load(folder: str, *, device: str = "cpu") -> PatchDecoder:
    """`decoder:FOLDER`: with the encoder that it was trained on, loaded by its name."""
    path = Path(folder).expanduser()
    kept = read_decoder(path)
    encoder = load_model(kept.origin.spec, device=device)
    return on_encoder(kept, encoder_of(encoder, NAME), path, name=f"decoder:{path.name}")
