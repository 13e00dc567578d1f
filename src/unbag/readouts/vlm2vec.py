"""VLM2Vec as a read-out: a chat model comes in; scorers, or a trained adapter, go out."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.engine.atomic import locked_folder, make_folder
from unbag.errors import UserError
from unbag.models.hf_chat_model import ChatModel
from unbag.readouts.choose import choose
from unbag.readouts.readout import ReadoutJob, ReadoutTrained
from unbag.readouts.vlm2vec_adapter import Adapted, adapt
from unbag.readouts.vlm2vec_core import TEMPERATURE
from unbag.readouts.vlm2vec_data import Lessons, PairLessons, Showing, WorldLessons
from unbag.readouts.vlm2vec_encoder import Vlm2Vec, hidden_generator
from unbag.readouts.vlm2vec_head import on_patches
from unbag.readouts.vlm2vec_saved import About, is_adapter, load, read_about, save
from unbag.readouts.vlm2vec_score import AskedCosine
from unbag.readouts.vlm2vec_settings import Vlm2VecSettings
from unbag.readouts.vlm2vec_train import LAST, fit, measure
from unbag.scorers.cosine import Cosine
from unbag.scorers.resolve import Placement, load_model
from unbag.train.begun import check_empty
from unbag.train.repair import WORLD, Wanted, Where
from unbag.types import DualEncoder, Scorer

if TYPE_CHECKING:
    from unbag.engine.progress import Progress
    from unbag.scorers.resolve import Dtype, Model


@dataclass(frozen=True)
class Vlm2VecReadout:
    """The vector behind picture and instruction, with the question in it or without."""

    name: str
    asks: bool

    def scorers(self, model: Model, folder: Path | None) -> list[Scorer]:
        """As it is, or as it was trained; a dual encoder with a head that reads its patches."""
        scale = 1.0
        if isinstance(model, DualEncoder):
            if folder is not None and is_adapter(folder):
                raise _of_chat_model(folder, model)
            model, scale = on_patches(model, folder, readout=self.name), 1 / TEMPERATURE
        elif folder is not None:
            model, scale = load(_chat_model(model), folder)
        shown = hidden_generator(model)
        return [AskedCosine(shown) if self.asks else Cosine(Vlm2Vec(shown, scale))]

    def train(self, job: ReadoutJob, *, progress: Progress) -> ReadoutTrained:
        """Contrastively, on pairs or the world; goes on where it stopped."""
        settings = choose(Vlm2VecSettings(), job.settings, readout=self.name)
        model, where = _chat_model(job.model), job.where or Where()
        if not (job.out / LAST).exists():
            check_empty(job.out, what=f"training of {self.name}")
        lessons = open_lessons(job.pairs, settings.showing(asks=self.asks, seed=job.seed))
        progress.say(f"data: {lessons.about}")
        out = make_folder(job.out, what="folder of the run", way_out="name another with --out")
        taken = UserError(
            f"another process trains in {out}", way_out="wait for it, or name another with --out"
        )
        with locked_folder(out, taken):
            adapted = adapt(model, settings.adapting, seed=job.seed)
            run = {
                "read-out": self.name,
                "model": f"{model.name} {model.fingerprint}",
                "data": lessons.fingerprint,
                "settings": asdict(settings),
            }
            stand = fit(
                adapted,
                lessons,
                settings,
                run=json.dumps(run),
                out=out,
                where=where,
                seed=job.seed,
                progress=progress,
            )
            if stand.step < settings.steps:
                return ReadoutTrained(out, is_done=False)
            shown = lessons.measured()
            about = About(
                readout=self.name,
                base=job.spec,
                base_fingerprint=model.fingerprint,
                temperature=settings.temperature,
                adapting=settings.adapting,
                settings=asdict(settings),
                data=lessons.about,
                seed=job.seed,
                steps=stand.step,
                seconds=stand.seconds,
                before=measure(Adapted(model, {}), shown, chunk=settings.chunk),
                after=measure(adapted, shown, chunk=settings.chunk),
            )
            save(out, adapted.state(), about)
        score = f"score with: unbag run --model {job.spec} --scorer {self.name}@{out}"
        told = f"own target nearest of all targets of its step: {about.numbers()}"
        return ReadoutTrained(out, is_done=True, lines=(told, score))


VLM2VEC = Vlm2VecReadout("vlm2vec", asks=True)
VLM2VEC_PLAIN = Vlm2VecReadout("vlm2vec_plain", asks=False)


def open_lessons(wanted: Wanted, showing: Showing) -> Lessons:
    """Steps of the world, or of pairs in files."""
    if wanted.path == WORLD:
        return WorldLessons(showing)
    # Neighbours are for recipes with hard pictures, of which there are none here.
    pairs = replace(wanted, neighbours=None).opened()
    return PairLessons(pairs, showing)


def load_encoder(rest: str, *, device: str = "cpu", dtype: Dtype = "auto") -> Vlm2Vec:
    """`vlm2vec:hf:FOLDER`: any chat model, not asked; `vlm2vec:FOLDER`: as it was trained."""
    placement = Placement(device=device, dtype=dtype)
    if ":" in rest:
        return Vlm2Vec(hidden_generator(load_model(rest, placement=placement)))
    folder = Path(rest).expanduser()
    about = read_about(folder)
    model, scale = load(_chat_model(load_model(about.base, placement=placement)), folder)
    return Vlm2Vec(model, scale)


def _of_chat_model(folder: Path, model: DualEncoder) -> UserError:
    base = read_about(folder).base
    return UserError(
        f"{folder} holds an adapter of {base}, and {model.name} is a dual encoder",
        expected="the chat model that it was trained for, or a decoder's folder that embeds",
        way_out=f"--model {base} --scorer vlm2vec@{folder}",
    )


def _chat_model(model: object) -> ChatModel:
    if isinstance(model, ChatModel):
        return model
    raise UserError(
        f"{getattr(model, 'name', type(model).__name__)} has no language model whose weights can "
        "be trained or exchanged here",
        expected="a chat model of transformers on this machine (hf:FOLDER), or a decoder:",
        way_out="give a dual encoder one with `unbag train --recipe decoder`, then take "
        "--model decoder:FOLDER: docs/vlm2vec.md",
    )
