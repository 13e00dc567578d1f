"""The read-outs `vlm2vec` and `vlm2vec_plain`: training, folder, scoring; `vlm2vec:` models.

Dimensions: N queries, P images, C captions of an item, M vectors that are made, D their width.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from warnings import warn

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from unbag.errors import UnbagError, said_by
from unbag.models.huggingface.chat import ChatModel, HiddenGenerator
from unbag.models.loading import Dtype, Model, Placement, load_model
from unbag.readouts.base import ReadoutJob, ReadoutTrained
from unbag.readouts.decoder.saving import CONFIG, read_config, wrong_config
from unbag.readouts.training import CARD
from unbag.readouts.vlm2vec.data import (
    VERSION,
    WITH_QUESTION,
    WITHOUT,
    PairLessons,
    Showing,
    WorldLessons,
    instruction,
    question_of,
)
from unbag.readouts.vlm2vec.model import (
    Adapted,
    Adapting,
    Vlm2Vec,
    adapt,
    hidden_generator,
    on_patches,
    trained_fingerprint,
    unit,
)
from unbag.readouts.vlm2vec.training import (
    TEMPERATURE,
    EmbeddingTask,
    ShareNearest,
    Vlm2VecSettings,
    measure,
)
from unbag.reports.cards import ReadoutCard, render_readout_card
from unbag.reports.formatting import share_text
from unbag.runs.cache import VECTOR, TensorCache
from unbag.runs.files import TRAINING, open_run_folder, write_atomically, write_text
from unbag.runs.progress import Progress, Silent
from unbag.scorers.cosine import Cosine, average
from unbag.training.repair import WORLD, DataConfig, TrainingArguments
from unbag.training.settings import choose
from unbag.training.trainer import Trainer
from unbag.types import Caption, DualEncoder, ImageSource, Item, Query, Scorer, Scores
from unbag.types.items import prompts_of
from unbag.version import __version__

WEIGHTS = "adapter.safetensors"
_KIND = "vlm2vec"


@dataclass(frozen=True)
class Vlm2VecReadout:
    """The vector behind image and instruction, with the question in it or without."""

    name: str
    asks: bool

    def scorers(self, model: Model, folder: Path | None) -> list[Scorer]:
        """As it is, or as it was trained; a dual encoder with a head that reads its patches."""
        scale = 1.0
        if isinstance(model, DualEncoder):
            if folder is not None and (folder / WEIGHTS).exists():
                base = read_about(folder).base
                raise UnbagError(
                    f"{folder} holds an adapter of {base}, and {model.name} is a dual encoder",
                    expected="the chat model that it was trained for, or a decoder's folder that "
                    "embeds",
                    hint=f"--model {base} --scorer vlm2vec@{folder}",
                )
            model, scale = on_patches(model, folder, readout=self.name), 1 / TEMPERATURE
        elif folder is not None:
            model, scale = load(_chat_model(model), folder)
        shown = hidden_generator(model)
        return [AskedCosine(shown) if self.asks else Cosine(Vlm2Vec(shown, scale))]

    def train(self, job: ReadoutJob, *, progress: Progress) -> ReadoutTrained:
        """Contrastively, on pairs or the world; an interrupted run resumes."""
        settings = choose(Vlm2VecSettings(), job.settings, readout=self.name)
        model, where = _chat_model(job.model), job.where or TrainingArguments()
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


def open_lessons(wanted: DataConfig, showing: Showing) -> WorldLessons | PairLessons:
    """Steps of the world, or of pairs in files."""
    if wanted.path == WORLD:
        return WorldLessons(showing)
    # Neighbours are for recipes with hard images, of which there are none here.
    pairs = replace(wanted, neighbours=None).open()
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
    raise UnbagError(
        f"{getattr(model, 'name', type(model).__name__)} has no language model whose weights can "
        "be trained or exchanged here",
        expected="a chat model of transformers on this machine (hf:FOLDER), or a decoder:",
        hint="give a dual encoder one with `unbag train --readout decoder`, then take "
        "--model decoder:FOLDER: docs/vlm2vec.md",
    )


@dataclass(eq=False)
class AskedCosine:
    """VLM2Vec with the question in the prompt: an image has another vector for every question."""

    model: HiddenGenerator
    scoring: str = "vlm2vec, with the question"
    is_blind: bool = False
    _vectors: TensorCache = field(
        default_factory=lambda: TensorCache(None, progress=Silent()), repr=False
    )
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

    def precompute(
        self,
        images: Sequence[ImageSource],
        captions: Sequence[str],
        *,
        cache: Path | None,
        progress: Progress,
    ) -> None:
        """Only notes where vectors are cached: what is asked about an image, its item says."""
        if cache is not None and cache != self._cache:
            device = str(getattr(self.model, "device", "cpu")).partition(":")[0]
            folder = cache / f"{self.fingerprint}-{device}" / "asked"
            self._vectors = TensorCache(folder, progress=progress)
            self._cache = cache

    def score_items(self, items: Sequence[Item]) -> list[Scores]:
        """Cosines of every image with every caption; an item without a question is not asked."""
        questions = [question_of(item) for item in items]
        self._say(items, questions)
        prompts = [instruction(question) for question in questions]
        asks = [(p, prompt) for i, prompt in zip(items, prompts, strict=True) for p in i.images]
        texts = [(None, t) for item in items for c in item.captions for t in prompts_of(c)]
        found = self._embed([*asks, *texts])
        scores = []
        for item, prompt in zip(items, prompts, strict=True):
            image_PD = torch.stack([found[_key(p, prompt)] for p in item.images]).double()
            caption_CD = torch.stack([_caption(found, c) for c in item.captions]).double()
            # Summed pair by pair, so that equal vectors tie exactly.
            score_PC = (image_PD[:, None] * caption_CD).sum(dim=-1)
            scores.append(Scores(item.id, score_PC.numpy()))
        return scores

    def score(self, queries: Sequence[Query]) -> Tensor:
        """Where there is no item: asked with a question that comes along, else without."""
        prompts = [instruction(q.question.text if q.question else None) for q in queries]
        asks = [(q.image, prompt) for q, prompt in zip(queries, prompts, strict=True)]
        found = self._embed([*asks, *((None, t) for q in queries for t in prompts_of(q.caption))])
        image_ND = torch.stack([found[_key(image, prompt)] for image, prompt in asks])
        caption_ND = torch.stack([_caption(found, query.caption) for query in queries])
        return (image_ND.double() * caption_ND.double()).sum(dim=-1)

    def score_matrix(self, images: Sequence[ImageSource], captions: Sequence[Caption]) -> Tensor:
        """Galleries have no question, [P, C]."""
        found = self._embed(
            [(p, WITHOUT) for p in images] + [(None, t) for c in captions for t in prompts_of(c)]
        )
        image_PD = torch.stack([found[_key(image, WITHOUT)] for image in images])
        caption_CD = torch.stack([_caption(found, caption) for caption in captions])
        return (image_PD.double() @ caption_CD.double().T).float()

    def _embed(self, asks: Sequence[tuple[ImageSource | None, str]]) -> dict[str, Tensor]:
        """Unit vectors by key; those that are not known yet are made, each once."""
        wanted = {_key(image, text): (image, text) for image, text in asks}
        missing = self._vectors.missing(wanted)
        if missing:
            vector_MD = unit(self.model.last_hidden([wanted[key] for key in missing]))
            self._vectors.put(missing, {VECTOR: vector_MD.float()})
        if not wanted:
            return {}
        return dict(zip(wanted, self._vectors.get(list(wanted))[VECTOR], strict=True))

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


def _key(image: ImageSource | None, text: str) -> str:
    said = f"{'' if image is None else image.key}\0{text}"
    return blake2b(said.encode(), digest_size=16).hexdigest()


def save(folder: Path, state: Mapping[str, Tensor], about: About) -> None:
    """Write the folder; the weights last, so that where they are, all is."""
    write_text(folder / CONFIG, json.dumps({"kind": _KIND, **asdict(about)}, indent=2) + "\n")
    write_text(folder / CARD, render_readout_card(_card(about)))
    write_atomically(folder / WEIGHTS, lambda temporary: save_file(dict(state), temporary))


@dataclass(frozen=True)
class About:
    """What belongs to trained weights."""

    readout: str
    base: str
    """The name that loads the model, as it was typed."""
    base_fingerprint: str
    temperature: float
    adapting: Adapting
    settings: Mapping[str, object]
    data: str
    seed: int
    steps: int
    seconds: float
    before: ShareNearest
    after: ShareNearest
    version: str = __version__

    def numbers(self) -> str:
        """Before and after, with n and interval."""
        before, after = (
            f"{share_text(one.right / one.asked, one.asked)} of n = {one.asked:,}"
            for one in (self.before, self.after)
        )
        return f"before {before}, after {after}"


def read_about(folder: Path) -> About:
    """What a folder was made of; raises UnbagError if it is none of these."""
    refused = partial(_refused, folder)
    found = read_config(folder, kind=_KIND, refused=refused)
    if not (folder / WEIGHTS).is_file():
        raise refused(f"it has no {WEIGHTS}")
    try:
        del found["kind"]
        for key, kind in (
            ("adapting", Adapting),
            ("before", ShareNearest),
            ("after", ShareNearest),
        ):
            found[key] = kind(**found[key])
        return About(**found)
    except (KeyError, TypeError, ValueError) as error:
        raise refused(wrong_config(error)) from error


def _refused(folder: Path, why: str) -> UnbagError:
    return UnbagError(
        f"{folder} holds no trained VLM2Vec: {why}",
        expected=f"a folder with {WEIGHTS} and {CONFIG}, as `unbag train` writes it",
        hint="check the path; `unbag train --readout vlm2vec --model hf:FOLDER --pairs world "
        "--out FOLDER` makes one: docs/vlm2vec.md",
    )


def load(model: ChatModel, folder: Path) -> tuple[ChatModel, float]:
    """The model as it was trained, and the inverse temperature; another base is refused."""
    about = read_about(folder)
    if about.base_fingerprint != model.fingerprint:
        raise UnbagError(
            f"{folder} was trained for {about.base} ({about.base_fingerprint}), and this is "
            f"{model.name} ({model.fingerprint})",
            expected="the same weights, processor and precision as in training",
            hint=f"--model {about.base}, with the --dtype of the training",
        )
    try:
        state = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise UnbagError(
            f"{folder / WEIGHTS} cannot be read: {said_by(error)}",
            expected="a safetensors file as training wrote it",
        ) from error
    adapted = adapt(model, about.adapting)
    adapted.load(state, source=str(folder / WEIGHTS))
    print_ = trained_fingerprint(model, state)
    name = f"{model.name}, trained"
    return replace(adapted.model, name=name, fingerprint=print_), 1 / about.temperature


def _card(about: About) -> ReadoutCard:
    lora = about.adapting.lora
    what = f"Matrices of rank {lora} beside its language model" if lora else "Its language model"
    return ReadoutCard(
        f"{about.readout} of {about.base}",
        f"{what}, trained to embed: the hidden state at the last token of a\npicture with an "
        "instruction lies near that of its caption. The image encoder is as it was. It means\n"
        f"nothing for another base (fingerprint {about.base_fingerprint}).\n\nBehind the image "
        f'stands\n\n    {WITH_QUESTION}\n\nor, without a question, "{WITHOUT}".',
        [
            f"unbag run --model {about.base} --scorer {about.readout}@FOLDER --bench world",
            "unbag run --model vlm2vec:FOLDER --bench world",
        ],
        f"Data: {about.data}. {about.steps:,} steps in {about.seconds:,.0f} s; seed {about.seed}.",
        about.settings,
        f"Own target nearest of all targets of its step: {about.numbers()}\n(95 %, Wilson); on "
        "fresh scenes where the data is the world, else on pairs that were trained on.",
        "That of the weights it was made from; nothing is granted here beside it.",
    )
