"""The read-outs `vlm2vec` and `vlm2vec_plain`: training, scoring, and `vlm2vec:` models.

Dimensions: N queries, P pictures, C captions of an item, M vectors that are made, D their width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from warnings import warn

import torch
from torch import Tensor

from unbag.errors import UserError
from unbag.models.huggingface.chat import ChatModel, HiddenGenerator
from unbag.models.loading import Dtype, Model, Placement, load_model
from unbag.readouts.base import ReadoutJob, ReadoutTrained
from unbag.readouts.vlm2vec.data import (
    VERSION,
    WITHOUT,
    EmbeddingLessons,
    PairLessons,
    Showing,
    WorldLessons,
    instruction,
    question_of,
)
from unbag.readouts.vlm2vec.model import Adapted, Vlm2Vec, adapt, hidden_generator, on_patches, unit
from unbag.readouts.vlm2vec.saving import About, is_adapter, load, read_about, save
from unbag.readouts.vlm2vec.training import TEMPERATURE, EmbeddingTask, Vlm2VecSettings, measure
from unbag.runs.cache import Shelf, open_shelf
from unbag.runs.files import TRAINING, open_run_folder
from unbag.runs.progress import Progress, Silent
from unbag.scorers.cosine import Cosine, average
from unbag.training.repair import WORLD, Wanted, Where
from unbag.training.settings import choose
from unbag.training.trainer import Trainer
from unbag.types import Caption, DualEncoder, Item, Picture, Query, Scorer, Scores
from unbag.types.items import prompts_of


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
        """Contrastively, on pairs or the world; an interrupted run resumes."""
        settings = choose(Vlm2VecSettings(), job.settings, readout=self.name)
        model, where = _chat_model(job.model), job.where or Where()
        with open_run_folder(job.out, TRAINING) as folder:
            lessons = open_lessons(job.pairs, settings.showing(asks=self.asks, seed=job.seed))
            progress.say(f"data: {lessons.about}")
            adapted = adapt(model, settings.adapting, seed=job.seed)
            task = EmbeddingTask(
                adapted,
                lessons,
                settings,
                name=self.name,
                seed=job.seed,
                precision=where.precision,
            )
            trainer = Trainer(task, progress=progress, save_minutes=where.save_minutes)
            state = trainer.run(
                folder, facts={"data": lessons.about, "base": job.spec, "command": where.command}
            )
            if not trainer.is_done:
                return ReadoutTrained(job.out, is_done=False)
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
                steps=state.step,
                seconds=state.seconds,
                before=measure(Adapted(model, {}), shown, chunk=settings.chunk),
                after=measure(adapted, shown, chunk=settings.chunk),
            )
            save(job.out, adapted.state(), about)
        score = f"score with: unbag run --model {job.spec} --scorer {self.name}@{job.out}"
        told = f"own target nearest of all targets of its step: {about.numbers()}"
        return ReadoutTrained(job.out, is_done=True, lines=(told, score))


VLM2VEC = Vlm2VecReadout("vlm2vec", asks=True)
VLM2VEC_PLAIN = Vlm2VecReadout("vlm2vec_plain", asks=False)


def open_lessons(wanted: Wanted, showing: Showing) -> EmbeddingLessons:
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


def _of_chat_model(folder: Path, model: DualEncoder) -> UserError:
    base = read_about(folder).base
    return UserError(
        f"{folder} holds an adapter of {base}, and {model.name} is a dual encoder",
        expected="the chat model that it was trained for, or a decoder's folder that embeds",
        way_out=f"--model {base} --scorer vlm2vec@{folder}",
    )


@dataclass(eq=False)
class AskedCosine:
    """VLM2Vec with the question in the prompt: a picture has another vector for every question."""

    model: HiddenGenerator
    scoring: str = "vlm2vec, with the question"
    is_blind: bool = False
    _shelf: Shelf = field(default_factory=lambda: Shelf(None, progress=Silent()), repr=False)
    _cache: Path | None = None
    _has_said: bool = False

    @property
    def name(self) -> str:
        """The model's, and that it is asked."""
        return f"{self.model.name} (vlm2vec, asked)"

    @property
    def fingerprint(self) -> str:
        """Of the model and the prompts."""
        return f"{self.model.fingerprint}-vlm2vec-asked{VERSION}"

    def meet(
        self,
        pictures: Sequence[Picture],
        captions: Sequence[str],
        *,
        cache: Path | None,
        progress: Progress,
    ) -> None:
        """Only told where vectors are kept: what is asked about a picture, its item says."""
        if cache is not None and cache != self._cache:
            device = str(getattr(self.model, "device", "cpu")).partition(":")[0]
            name = f"{self.fingerprint}-{device}"
            self._shelf = open_shelf(cache, name, "asked", progress=progress)
            self._cache = cache

    def score_items(self, items: Sequence[Item]) -> list[Scores]:
        """Cosines of every picture with every caption; an item without a question is not asked."""
        questions = [question_of(item) for item in items]
        self._say(items, questions)
        prompts = [instruction(question) for question in questions]
        asks = [(p, prompt) for i, prompt in zip(items, prompts, strict=True) for p in i.pictures]
        texts = [(None, t) for item in items for c in item.captions for t in prompts_of(c)]
        found = self._embed([*asks, *texts])
        scores = []
        for item, prompt in zip(items, prompts, strict=True):
            picture_PD = torch.stack([found[_key(p, prompt)] for p in item.pictures]).double()
            caption_CD = torch.stack([_caption(found, c) for c in item.captions]).double()
            # Summed pair by pair, so that equal vectors tie exactly.
            score_PC = (picture_PD[:, None] * caption_CD).sum(dim=-1)
            scores.append(Scores(item.id, score_PC.numpy()))
        return scores

    def score(self, queries: Sequence[Query]) -> Tensor:
        """Where there is no item: asked with a question that comes along, else without."""
        prompts = [instruction(q.question.text if q.question else None) for q in queries]
        asks = [(q.picture, prompt) for q, prompt in zip(queries, prompts, strict=True)]
        found = self._embed([*asks, *((None, t) for q in queries for t in prompts_of(q.caption))])
        picture_ND = torch.stack([found[_key(picture, prompt)] for picture, prompt in asks])
        caption_ND = torch.stack([_caption(found, query.caption) for query in queries])
        return (picture_ND.double() * caption_ND.double()).sum(dim=-1)

    def score_matrix(self, pictures: Sequence[Picture], captions: Sequence[Caption]) -> Tensor:
        """Galleries have no question, [P, C]."""
        found = self._embed(
            [(p, WITHOUT) for p in pictures] + [(None, t) for c in captions for t in prompts_of(c)]
        )
        picture_PD = torch.stack([found[_key(picture, WITHOUT)] for picture in pictures])
        caption_CD = torch.stack([_caption(found, caption) for caption in captions])
        return (picture_PD.double() @ caption_CD.double().T).float()

    def _embed(self, asks: Sequence[tuple[Picture | None, str]]) -> dict[str, Tensor]:
        """Unit vectors by key; those that are not known yet are made, each once."""
        wanted = {_key(picture, text): (picture, text) for picture, text in asks}
        known = self._shelf.get(wanted)
        missing = {key: ask for key, ask in wanted.items() if key not in known}
        if missing:
            vector_MD = unit(self.model.last_hidden(list(missing.values())))
            self._shelf.put(list(missing), vector_MD.numpy())
            known |= self._shelf.get(missing)
        return {key: torch.from_numpy(vector) for key, vector in known.items()}

    def _say(self, items: Sequence[Item], questions: Sequence[str | None]) -> None:
        """Once: that some items are not asked about."""
        without = [i for i, q in zip(items, questions, strict=True) if q is None]
        if without and not self._has_said:
            self._has_said = True
            warn(
                f"{self.name}: some items have no question, such as {without[0].id!r}, and their "
                f"captions state no relation to ask about; there the prompt is {WITHOUT!r}",
                stacklevel=3,
            )


def _caption(found: Mapping[str, Tensor], caption: Caption) -> Tensor:
    return average(torch.stack([found[_key(None, text)] for text in prompts_of(caption)]))


def _key(picture: Picture | None, text: str) -> str:
    said = f"{'' if picture is None else picture.key}\0{text}"
    return blake2b(said.encode(), digest_size=16).hexdigest()
