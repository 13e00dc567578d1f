"""The experiment `readouts`: trains and measures readers, decoders and VLM2Vec on frozen bases.

Readers and the frozen base are in `readers`, decoders and VLM2Vec in `decoders`. `ship_head` writes
a trained head for release:

    python -m unbag_lab ship runs/arms/readouts/tiny-0/decoder-long --model tiny:base --out OUT

With `--change-of DECODER --rank R` it is written as a low-rank change of a shipped decoder. A
reader is one file, and OUT ends in `.READOUT.reader.safetensors`. Weights are rounded to half
precision, and the origin is a name that loads the encoder anywhere.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from unbag.errors import UnbagError, unknown_name
from unbag.models.huggingface.loading import quietly
from unbag.models.loading import load_model
from unbag.models.text_encoders import load_part
from unbag.models.weights import seeded
from unbag.readouts.decoder.saving import (
    DecoderOrigin,
    on_encoder,
    read_decoder,
    save_change,
    save_decoder,
)
from unbag.readouts.reader import check_encoder, read_head, write_head
from unbag.readouts.training import encoder_of
from unbag.world.grammar import words as words_of_world
from unbag_lab.claims import ArmKey
from unbag_lab.experiments.decoders import (
    DECODERS,
    VECTOR_ARMS,
    VECTOR_BATCH,
    decoder_groups,
    run_decoders,
    taught_with,
)
from unbag_lab.experiments.readers import (
    BATCH,
    EXPERIMENT,
    FOR_DECODERS,
    READERS,
    Base,
    ReadoutSettings,
    reader_groups,
    run_base,
)
from unbag_lab.plan import Order, Say, arms_left
from unbag_lab.questions import Questions
from unbag_lab.results import BEFORE, Extent, Size, result_path
from unbag_lab.scheduler import Share, run_isolated, run_shares, shares

SMALL = ReadoutSettings(
    scenes=192,
    steps=2,
    map_steps=2,
    long_steps=2,
    fit_rows=32,
    fit_steps=2,
    vector_steps=2,
    times=1,
    size="small",
)
"""For trial runs. With fewer scenes the held-out tenth may state no relation."""
SMALL_BENCH = ("world-swap", "world-relation", "world-pairs-a", "world-pairs-b")
"""Benchmarks of the claims about read-outs."""
SMALL_EVERY = 20
_READER, _MAPS, _DECODER = 0.0013, 0.0032, 0.0035
"""Seconds of one step, alone on one H200."""
_VECTORS, _AROUND, _ASKED = 60.0, 4.0, 4.0
"""Seconds of an arm of VLM2Vec; of a reader without its steps; and of measuring alone."""
_COMPILED = 19.0
"""Seconds of a decoder without its steps: compiling its layers, and measuring."""


@dataclass(frozen=True)
class ReadoutExperiment:
    """Read-outs trained on a frozen base; see `unbag_lab.plan.Experiment`."""

    name: str = EXPERIMENT
    reads_bases: bool = True
    on_processor: bool = False
    most_processes: int = 6
    about: str = "readers, decoders and VLM2Vec on frozen parts of a base"
    arms: tuple[str, ...] = (BEFORE, *READERS, *DECODERS, *VECTOR_ARMS)

    def needs(self, arm: str) -> tuple[ArmKey, ...]:
        """Return the arm whose weights an arm takes or continues from."""
        if arm not in self.arms:
            raise unknown_name("arm", arm, self.arms)
        if arm in VECTOR_ARMS:
            return ((self.name, VECTOR_ARMS[arm].decoder),)
        teacher = READERS[arm].taught_as if arm in READERS else ""
        return ((self.name, teacher),) if teacher else ()

    def seconds(self, arm: str) -> float:
        """Estimate the seconds of both fits and measuring; features are shared between arms."""
        if arm in VECTOR_ARMS:
            return _VECTORS
        if arm == BEFORE or self.needs(arm):
            return _ASKED
        if arm in DECODERS:
            steps = taught_with(arm, FOR_DECODERS).steps + FOR_DECODERS.fit_steps
            return _COMPILED + _DECODER * steps
        reader, settings = READERS[arm], ReadoutSettings()
        steps = settings.steps_of(reader) + settings.fit_steps_of(reader)
        return _AROUND + (_MAPS if reader.reads_maps else _READER) * steps

    def extent(self, arm: str, *, size: Size) -> Extent:
        """Return the extent, by kind of arm."""
        self.needs(arm)
        readers, decoders = _of_size(size)
        times = readers.times
        if arm == BEFORE:
            return Extent(0, BATCH, times)
        if arm in VECTOR_ARMS:
            return Extent(decoders.vector_steps, VECTOR_BATCH, times)
        if arm in DECODERS:
            taught = taught_with(arm, decoders)
            return Extent(taught.steps, taught.batch_size, times)
        return Extent(readers.steps_of(READERS[arm]), BATCH, times)

    def run(self, order: Order, *, say: Say = print) -> None:
        """Run what is missing; the same order resumes an interrupted run.

        If the text model of some arms cannot be read, raises UnbagError after all other arms.
        """
        for arm in order.arms:
            self.needs(arm)
        with _settings(order) as (settings, decoders):
            questions = (
                Questions(SMALL_BENCH, every=SMALL_EVERY)
                if order.size == "small"
                else Questions(times=settings.times)
            )
            missing = {
                path: arms_left(order, self, path, seed=settings.seed_of(path))
                for path in order.bases
            }
            # Once for all bases.
            without = _unreadable(dict.fromkeys(chain.from_iterable(missing.values())), settings)
            for path, arms in missing.items():
                if without is not None:
                    arms = [arm for arm in arms if not _has_text(arm)]
                folder = result_path(order.out, self.name, path.stem, BEFORE).parent
                readers = [arm for arm in arms if arm == BEFORE or arm in READERS]
                others = [arm for arm in arms if arm not in readers]
                work: list[Share] = []
                for kind, group_arms, group_settings, run, groups in (
                    ("readers", readers, settings, run_base, reader_groups),
                    ("decoders", others, decoders, run_decoders, decoder_groups),
                ):
                    if group_arms:
                        base = Base(path, questions, group_settings)
                        if group_arms != [BEFORE]:
                            base.make_rows(kind, say)
                        parts = groups(group_arms, processes=order.processes)
                        taught = partial(run, base, folder, say=say)
                        work += shares(taught, parts, seconds=self.seconds)
                run_shares(work, processes=order.processes, say=say)
        if without is not None:
            raise without


READOUTS = ReadoutExperiment()


def _has_text(arm: str) -> bool:
    return arm in READERS and READERS[arm].text


@contextmanager
def _settings(order: Order) -> Iterator[tuple[ReadoutSettings, ReadoutSettings]]:
    """Yield the settings; small runs get a temporary text model."""
    readers, decoders = (
        replace(settings, device=order.device, workers=order.workers)
        for settings in _of_size(order.size)
    )
    if order.size == "full" or not any(map(_has_text, order.arms)):
        yield readers, decoders
        return
    with TemporaryDirectory() as folder:
        text = str(write_small_text(Path(folder) / "text"))
        yield replace(readers, text=text), decoders


def _of_size(size: Size) -> tuple[ReadoutSettings, ReadoutSettings]:
    """Return the settings of readers, and of decoders and VLM2Vec."""
    return (SMALL, SMALL) if size == "small" else (ReadoutSettings(), FOR_DECODERS)


def _unreadable(arms: Iterable[str], settings: ReadoutSettings) -> UnbagError | None:
    """Return why arms with another text model cannot run; None if they can or there are none."""
    text_arms = [arm for arm in arms if _has_text(arm)]
    if not text_arms:
        return None

    def try_text_model() -> None:
        # Return nothing: the model cannot be sent between processes.
        load_part(settings.text, device="cpu")

    try:
        # transformers initializes the GPU even for a model on the CPU; processes forked after that
        # could not use it.
        run_isolated(try_text_model, device=settings.device)
    except UnbagError as error:
        return UnbagError(
            f"{', '.join(text_arms)} could not be run: {error.message}",
            expected=error.expected,
            hint=f"{error.hint}; then give the same command again".removeprefix("; "),
        )
    return None


_UNKNOWN = "[UNK]"
_CONTEXT = 32


def write_small_text(folder: Path) -> Path:
    """Save a random text model of one layer with the world's words.

    Small runs use it instead of MiniLM, so that they download nothing.
    """
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    library: Any = transformers
    vocabulary = {word: at for at, word in enumerate((_UNKNOWN, *words_of_world()))}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token=_UNKNOWN))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    config = library.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=_CONTEXT,
    )
    with quietly(), seeded(0):
        library.PreTrainedTokenizerFast(
            tokenizer_object=words, model_max_length=_CONTEXT, pad_token=_UNKNOWN
        ).save_pretrained(folder)
        library.BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


def ship_head_script() -> None:
    """Write the file that ships from a decoder, VLM2Vec head or reader of the lab."""
    parser = argparse.ArgumentParser(description=ship_head_script.__doc__)
    parser.add_argument("place", type=Path, help="folder of a decoder or VLM2Vec, or a reader")
    parser.add_argument("--model", required=True, help="the name that loads its encoder")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--change-of", type=Path, help="a decoder that ships and was its start")
    parser.add_argument("--rank", type=int, default=48, help="of the change of each matrix")
    options = parser.parse_args()
    change = ChangeOf(options.change_of, options.rank) if options.change_of else None
    ship_head(options.place, options.model, options.out, beside=change)


@dataclass(frozen=True)
class ChangeOf:
    """The decoder that a head is saved as a change of."""

    decoder: Path
    rank: int


def ship_head(place: Path, spec: str, out: Path, *, beside: ChangeOf | None = None) -> None:
    """Write a head for release; raises UnbagError if it was trained for another encoder."""
    if place.is_file():
        # Readers are saved in half precision already.
        head, state = read_head(place)
        encoder = encoder_of(load_model(spec), head.readout)
        check_encoder(place, encoder, spec=head.encoder, fingerprint=head.fingerprint)
        out.parent.mkdir(parents=True, exist_ok=True)
        write_head(state, out, replace(head, encoder=spec))
        return
    decoder, encoder = read_decoder(place), encoder_of(load_model(spec), "decoder")
    on_encoder(decoder, encoder, place, name=spec)
    saved = decoder.made
    shipped = replace(
        saved,
        context=saved.places + saved.settings.context,
        # Folders from before `embeds` was saved have the name of their arm.
        embeds=saved.embeds or place.name in VECTOR_ARMS,
    )
    origin = DecoderOrigin(spec, encoder.name, encoder.fingerprint)
    if beside:
        save_change(out, shipped, origin, base=beside.decoder, rank=beside.rank)
    else:
        save_decoder(out, replace(shipped, net=saved.net.half()), origin)
