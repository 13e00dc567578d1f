"""The read-outs `vlm2vec` and `vlm2vec_plain`: training, folders, scorers and `vlm2vec:` models.

Dimensions: N queries, P images, C captions of an item, M new vectors, D their width.
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
    LessonSettings,
    PairLessons,
    WorldLessons,
    instruction,
    question_of,
)
from unbag.readouts.vlm2vec.model import (
    Adapted,
    AdapterSettings,
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
    """The embedding of an image and an instruction, with or without a question."""

    name: str
    asks: bool

    def scorers(self, model: Model, folder: Path | None) -> list[Scorer]:
        """Return the scorer of a chat model, or of a dual encoder with a decoder."""
        scale = 1.0
        if isinstance(model, DualEncoder):
            if folder is not None and (folder / WEIGHTS).exists():
                base = read_metadata(folder).base
                raise UnbagError(
                    f"{folder} holds an adapter of {base}, and {model.name} is a dual encoder",
                    expected="the chat model that it was trained for, or the folder of a decoder "
                    "that embeds",
                    hint=f"--model {base} --scorer vlm2vec@{folder}",
                )
            model, scale = on_patches(model, folder, readout=self.name), 1 / TEMPERATURE
        elif folder is not None:
            model, scale = load(_chat_model(model), folder)
        generator = hidden_generator(model)
        return [AskedCosine(generator) if self.asks else Cosine(Vlm2Vec(generator, scale))]

    def train(self, job: ReadoutJob, *, progress: Progress) -> ReadoutTrained:
        """Train with a contrastive loss on pairs or the world; an interrupted run resumes."""
        settings = choose(Vlm2VecSettings(), job.settings, readout=self.name)
        model, arguments = _chat_model(job.model), job.where or TrainingArguments()
        with open_run_folder(job.out, TRAINING) as folder:
            lessons = open_lessons(
                job.pairs, settings.lesson_settings(asks=self.asks, seed=job.seed)
            )
            progress.say(f"data: {lessons.about}")
            adapted = adapt(model, settings.adapting, seed=job.seed)
            task = EmbeddingTask(
                adapted,
                lessons,
                settings,
                name=self.name,
                seed=job.seed,
                precision=arguments.precision,
            )
            trainer = Trainer(task, progress=progress, save_minutes=arguments.save_minutes)
            state = trainer.run(
                folder,
                facts={"data": lessons.about, "base": job.spec, "command": arguments.command},
            )
            if not trainer.is_done:
                return ReadoutTrained(job.out, is_done=False)
            steps = lessons.evaluation_steps()
            metadata = AdapterMetadata(
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
                before=measure(Adapted(model, {}), steps, chunk=settings.chunk),
                after=measure(adapted, steps, chunk=settings.chunk),
            )
            save(job.out, adapted.state(), metadata)
        score = f"score with: unbag run --model {job.spec} --scorer {self.name}@{job.out}"
        accuracy_line = f"own target nearest of all targets of its step: {metadata.numbers()}"
        return ReadoutTrained(job.out, is_done=True, lines=(accuracy_line, score))


VLM2VEC = Vlm2VecReadout("vlm2vec", asks=True)
VLM2VEC_PLAIN = Vlm2VecReadout("vlm2vec_plain", asks=False)


def open_lessons(data_config: DataConfig, settings: LessonSettings) -> WorldLessons | PairLessons:
    """Return the training steps of the world or of pairs in files."""
    if data_config.path == WORLD:
        return WorldLessons(settings)
    # Neighbours are for recipes with hard images, which VLM2Vec does not use.
    pairs = replace(data_config, neighbours=None).open()
    return PairLessons(pairs, settings)


def load_encoder(rest: str, *, device: str = "cpu", dtype: Dtype = "auto") -> Vlm2Vec:
    """Load `vlm2vec:hf:FOLDER`, any chat model, or the fine-tuned `vlm2vec:FOLDER`."""
    placement = Placement(device=device, dtype=dtype)
    if ":" in rest:
        return Vlm2Vec(hidden_generator(load_model(rest, placement=placement)))
    folder = Path(rest).expanduser()
    about = read_metadata(folder)
    model, scale = load(_chat_model(load_model(about.base, placement=placement)), folder)
    return Vlm2Vec(model, scale)


def _chat_model(model: object) -> ChatModel:
    if isinstance(model, ChatModel):
        return model
    raise UnbagError(
        f"{getattr(model, 'name', type(model).__name__)} has no language model whose weights can "
        "be trained or replaced",
        expected="a chat model of transformers on this machine (hf:FOLDER), or a decoder:",
        hint="for a dual encoder, use `unbag train --readout decoder`, then "
        "--model decoder:FOLDER: docs/background/vlm2vec.md",
    )


@dataclass(eq=False)
class AskedCosine:
    """VLM2Vec with the question in the prompt: the vector of an image depends on the question."""

    model: HiddenGenerator
    scoring: str = "vlm2vec, with the question"
    is_blind: bool = False
    _vectors: TensorCache = field(
        default_factory=lambda: TensorCache(None, progress=Silent()), repr=False
    )
    _cache: Path | None = None
    _has_warned: bool = False

    @property
    def name(self) -> str:
        """Return the model's name, marked as VLM2Vec with a question."""
        return f"{self.model.name} (vlm2vec, asked)"

    @property
    def fingerprint(self) -> str:
        """Return a fingerprint of the model and the prompts."""
        return f"{self.model.fingerprint}-vlm2vec-asked{VERSION}"

    def precompute(
        self,
        images: Sequence[ImageSource],
        captions: Sequence[str],
        *,
        cache: Path | None,
        progress: Progress,
    ) -> None:
        """Set the cache; vectors are computed later, since the question depends on the item."""
        if cache is not None and cache != self._cache:
            device = str(getattr(self.model, "device", "cpu")).partition(":")[0]
            folder = cache / f"{self.fingerprint}-{device}" / "asked"
            self._vectors = TensorCache(folder, progress=progress)
            self._cache = cache

    def score_items(self, items: Sequence[Item]) -> list[Scores]:
        """Return cosines of all images and captions of each item, with its question if any."""
        questions = [question_of(item) for item in items]
        self._warn_without_question(items, questions)
        prompts = [instruction(question) for question in questions]
        image_prompts = [
            (image, prompt)
            for item, prompt in zip(items, prompts, strict=True)
            for image in item.images
        ]
        texts = [
            (None, text)
            for item in items
            for caption in item.captions
            for text in prompts_of(caption)
        ]
        vectors = self._embed([*image_prompts, *texts])
        scores = []
        for item, prompt in zip(items, prompts, strict=True):
            image_PD = torch.stack([vectors[_key(image, prompt)] for image in item.images]).double()
            caption_CD = torch.stack(
                [_caption_vector(vectors, caption) for caption in item.captions]
            ).double()
            # Summed pair by pair, so that equal vectors tie exactly.
            score_PC = (image_PD[:, None] * caption_CD).sum(dim=-1)
            scores.append(Scores(item.id, score_PC.numpy()))
        return scores

    def score(self, queries: Sequence[Query]) -> Tensor:
        """Return cosines of queries, with their questions if they have one."""
        prompts = [
            instruction(query.question.text if query.question else None) for query in queries
        ]
        image_prompts = [
            (query.image, prompt) for query, prompt in zip(queries, prompts, strict=True)
        ]
        vectors = self._embed(
            [
                *image_prompts,
                *((None, text) for query in queries for text in prompts_of(query.caption)),
            ]
        )
        image_ND = torch.stack([vectors[_key(image, prompt)] for image, prompt in image_prompts])
        caption_ND = torch.stack([_caption_vector(vectors, query.caption) for query in queries])
        return (image_ND.double() * caption_ND.double()).sum(dim=-1)

    def score_matrix(self, images: Sequence[ImageSource], captions: Sequence[Caption]) -> Tensor:
        """Return cosines of a gallery, without questions, [P, C]."""
        vectors = self._embed(
            [(image, WITHOUT) for image in images]
            + [(None, text) for caption in captions for text in prompts_of(caption)]
        )
        image_PD = torch.stack([vectors[_key(image, WITHOUT)] for image in images])
        caption_CD = torch.stack([_caption_vector(vectors, caption) for caption in captions])
        return (image_PD.double() @ caption_CD.double().T).float()

    def _embed(self, inputs: Sequence[tuple[ImageSource | None, str]]) -> dict[str, Tensor]:
        """Return unit vectors by key; missing ones are computed, each once."""
        input_of = {_key(image, text): (image, text) for image, text in inputs}
        missing = self._vectors.missing(input_of)
        if missing:
            vector_MD = unit(self.model.last_hidden([input_of[key] for key in missing]))
            self._vectors.put(missing, {VECTOR: vector_MD.float()})
        if not input_of:
            return {}
        return dict(zip(input_of, self._vectors.get(list(input_of))[VECTOR], strict=True))

    def _warn_without_question(
        self, items: Sequence[Item], questions: Sequence[str | None]
    ) -> None:
        """Warn once if some items have no question."""
        without = [
            item for item, question in zip(items, questions, strict=True) if question is None
        ]
        if without and not self._has_warned:
            self._has_warned = True
            warn(
                f"{self.name}: some items have no question, such as {without[0].id!r}, and their "
                f"captions state no relation to ask about; there the prompt is {WITHOUT!r}",
                stacklevel=3,
            )


def _caption_vector(vectors: Mapping[str, Tensor], caption: Caption) -> Tensor:
    return average(torch.stack([vectors[_key(None, text)] for text in prompts_of(caption)]))


def _key(image: ImageSource | None, text: str) -> str:
    identity = f"{'' if image is None else image.key}\0{text}"
    return blake2b(identity.encode(), digest_size=16).hexdigest()


def save(folder: Path, state: Mapping[str, Tensor], about: AdapterMetadata) -> None:
    """Write the folder; the weights come last, so that a folder with them is complete."""
    write_text(folder / CONFIG, json.dumps({"kind": _KIND, **asdict(about)}, indent=2) + "\n")
    write_text(folder / CARD, render_readout_card(_card(about)))
    write_atomically(folder / WEIGHTS, lambda temporary: save_file(dict(state), temporary))


@dataclass(frozen=True)
class AdapterMetadata:
    """Metadata of trained weights."""

    readout: str
    base: str
    """The name that loads the model, as the user typed it."""
    base_fingerprint: str
    temperature: float
    adapting: AdapterSettings
    settings: Mapping[str, object]
    data: str
    seed: int
    steps: int
    seconds: float
    before: ShareNearest
    after: ShareNearest
    version: str = __version__

    def numbers(self) -> str:
        """Format accuracy before and after training, with n and interval."""
        before, after = (
            f"{share_text(side.right / side.asked, side.asked)} of n = {side.asked:,}"
            for side in (self.before, self.after)
        )
        return f"before {before}, after {after}"


def read_metadata(folder: Path) -> AdapterMetadata:
    """Read the metadata of a folder; raise UnbagError if it has no trained VLM2Vec."""
    refused = partial(_refused, folder)
    config = read_config(folder, kind=_KIND, refused=refused)
    if not (folder / WEIGHTS).is_file():
        raise refused(f"it has no {WEIGHTS}")
    try:
        del config["kind"]
        for key, field_class in (
            ("adapting", AdapterSettings),
            ("before", ShareNearest),
            ("after", ShareNearest),
        ):
            config[key] = field_class(**config[key])
        return AdapterMetadata(**config)
    except (KeyError, TypeError, ValueError) as error:
        raise refused(wrong_config(error)) from error


def _refused(folder: Path, why: str) -> UnbagError:
    return UnbagError(
        f"{folder} holds no trained VLM2Vec: {why}",
        expected=f"a folder with {WEIGHTS} and {CONFIG}, as `unbag train` writes it",
        hint="check the path, or train one: `unbag train --readout vlm2vec --model hf:FOLDER "
        "--pairs world --out FOLDER`; see docs/background/vlm2vec.md",
    )


def load(model: ChatModel, folder: Path) -> tuple[ChatModel, float]:
    """Load fine-tuned weights into the model; return it and the inverse temperature.

    Raises UnbagError if the weights were trained for another model.
    """
    metadata = read_metadata(folder)
    if metadata.base_fingerprint != model.fingerprint:
        raise UnbagError(
            f"{folder} was trained for {metadata.base} ({metadata.base_fingerprint}), and this is "
            f"{model.name} ({model.fingerprint})",
            expected="the same weights, processor and precision as in training",
            hint=f"--model {metadata.base}, with the --dtype of the training",
        )
    try:
        state = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise UnbagError(
            f"{folder / WEIGHTS} cannot be read: {said_by(error)}",
            expected="a safetensors file of `unbag train`",
        ) from error
    adapted = adapt(model, metadata.adapting)
    adapted.load(state, source=str(folder / WEIGHTS))
    fingerprint = trained_fingerprint(model, state)
    name = f"{model.name}, trained"
    return replace(adapted.model, name=name, fingerprint=fingerprint), 1 / metadata.temperature


def _card(metadata: AdapterMetadata) -> ReadoutCard:
    lora = metadata.adapting.lora
    trained = f"LoRA of rank {lora} for its language model" if lora else "Its language model"
    return ReadoutCard(
        f"{metadata.readout} of {metadata.base}",
        f"{trained}, trained to embed: the hidden state at the last token of an\nimage with an "
        "instruction is near that of its caption. The image encoder was frozen. The weights\n"
        f"fit this base model only (fingerprint {metadata.base_fingerprint}).\n\nThe image is "
        f'followed by\n\n    {WITH_QUESTION}\n\nor, without a question, "{WITHOUT}".',
        [
            f"unbag run --model {metadata.base} --scorer {metadata.readout}@FOLDER --bench world",
            "unbag run --model vlm2vec:FOLDER --bench world",
        ],
        f"Data: {metadata.data}. {metadata.steps:,} steps in {metadata.seconds:,.0f} s; "
        f"seed {metadata.seed}.",
        metadata.settings,
        f"Own target nearest of all targets of its step: {metadata.numbers()}\n(95 %, Wilson); on "
        "fresh scenes where the data is the world, else on pairs that were trained on.",
        "That of the base model; this card grants no further rights.",
    )
