"""VLM2Vec trained on a real tiny LLaVA: what learns, what stays, and what is kept on disk."""

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.models.huggingface.chat import ChatModel, load_chat
from unbag.models.tiny import load as load_tiny
from unbag.readouts.base import train_readout
from unbag.readouts.vlm2vec.data import EmbeddingLesson, WorldLessons, lesson
from unbag.readouts.vlm2vec.model import Adapted, AdapterSettings, adapt
from unbag.readouts.vlm2vec.readout import VLM2VEC, load, load_encoder, read_metadata
from unbag.readouts.vlm2vec.training import EmbeddingTask, Vlm2VecSettings, measure

pytest.importorskip("transformers")
pytest.importorskip("peft")
SMALL = (
    "steps=3", "batch_size=4", "chunk=3", "warmup_steps=1", "learning_rate=0.01", "negatives=1",
)  # fmt: skip
IMAGES = [
    PixelImage(np.random.default_rng(n).integers(0, 255, (24, 24, 3), dtype=np.uint8))
    for n in range(4)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from ..models.tiny_chat import llava, save, tf  # noqa: TID252

    tf.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return save(llava(), tmp_path_factory.mktemp("vlm2vec") / "llava")


@pytest.fixture(scope="module")
def model(folder: Path) -> ChatModel:
    return load_chat(str(folder))


def fixed() -> EmbeddingLesson:
    queries = [(image, "Represent the given image") for image in IMAGES]
    negatives: list[list[str | None]] = [["Yes"], [None], ["No"], [None]]
    return lesson(queries, ["a red cube", "a cat", "a horse", "the table"], negatives)


class Fixed:
    """The same in every step."""

    about, fingerprint = "four images", "four-1"

    def step(self, number: int) -> EmbeddingLesson:
        return fixed()

    def evaluation_steps(self) -> list[EmbeddingLesson]:
        return [fixed()]


FIXED = cast("WorldLessons", Fixed())


def bits(model: ChatModel) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.runner.model.state_dict().items()}


def is_same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


def steps(
    adapted: Adapted, settings: Vlm2VecSettings, count: int, shown: EmbeddingLesson | None = None
) -> list[float]:
    task = EmbeddingTask(adapted, FIXED, settings, name="vlm2vec")
    optimiser = torch.optim.AdamW(adapted.weights.values(), lr=1e-3, weight_decay=0.0)
    found = []
    for step in range(count):
        found.append(float(task.gradient(shown or fixed(), step)["loss"]))
        optimiser.step()
        optimiser.zero_grad()
    return found


@pytest.mark.parametrize("lora", [8, 0])
def test_it_fits_what_it_is_shown_and_the_image_encoder_stays(lora: int, model: ChatModel) -> None:
    before = bits(model)
    adapted = adapt(model, AdapterSettings(lora=lora, dropout=0.0))
    asks = [(image, text) for image, text in fixed().queries]
    assert torch.allclose(adapted.model.last_hidden(asks), model.last_hidden(asks), atol=1e-5)
    losses = steps(adapted, Vlm2VecSettings(chunk=8), 10)
    assert losses[-1] < 0.2 < 1 < losses[0]
    assert measure(adapted, [fixed()], chunk=8).right == 4
    # The model that was given has not moved by a bit, nor has anything but the language model.
    assert is_same(bits(model), before)
    after = adapted.runner.model.state_dict()
    frozen = [name for name in before if "language_model" not in name]
    assert any("vision_tower" in name for name in frozen)
    assert all(torch.equal(after[name], before[name]) for name in frozen)
    assert all(".language_model." in name for name in adapted.weights)
    changed = adapted.model.last_hidden(asks) - model.last_hidden(asks)
    assert changed.abs().max() > 0.1


def test_weights_that_stay_are_in_memory_once(model: ChatModel) -> None:
    own = {id(weight) for weight in model.runner.model.parameters()}
    lora = adapt(model, AdapterSettings())
    new = [w for w in lora.runner.model.parameters() if id(w) not in own]
    assert {id(w) for w in new} == {id(w) for w in lora.weights.values()}
    whole = adapt(model, AdapterSettings(lora=0))
    assert not {id(w) for w in whole.weights.values()} & own
    half = load_chat_like(model, torch.bfloat16)
    wide = adapt(half, AdapterSettings(lora=0))
    assert {w.dtype for w in wide.weights.values()} == {torch.float32}
    assert {w.dtype for w in half.runner.model.parameters()} == {torch.bfloat16}


def load_chat_like(model: ChatModel, dtype: torch.dtype) -> ChatModel:
    from copy import deepcopy

    runner: Any = replace(model.runner, model=deepcopy(model.runner.model).to(dtype))
    return replace(model, runner=runner)


@pytest.fixture(scope="module")
def trained(model: ChatModel, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "trained"
    found = train_readout("vlm2vec", model, "world", out, spec=f"hf:{folder}", settings=SMALL)
    assert found.is_done
    assert found.lines[0].startswith("own target nearest of all targets of its step: before ")
    assert found.lines[1] == f"score with: unbag run --model hf:{folder} --scorer vlm2vec@{out}"
    return out


def test_a_trained_folder_says_what_it_is_and_scores(
    trained: Path, model: ChatModel, folder: Path
) -> None:
    about = read_metadata(trained)
    assert about.base_fingerprint == model.fingerprint
    assert (about.steps, about.after.asked) == (3, 16)
    card = (trained / "README.md").read_text()
    assert "Represent the given image with the following question: {question}" in card
    assert "n = 16" in card
    (scorer,) = VLM2VEC.scorers(model, trained)
    assert scorer.name == "llava, trained (vlm2vec, asked)"
    assert model.fingerprint in scorer.fingerprint
    encoder = load_encoder(str(trained))
    assert encoder.scale == pytest.approx(50)
    tuned, _ = load(model, trained)
    asks = [(IMAGES[0], "Represent the given image")]
    assert torch.equal(encoder.model.last_hidden(asks), tuned.last_hidden(asks))
    assert not torch.allclose(tuned.last_hidden(asks), model.last_hidden(asks), atol=1e-3)
    assert not scorer.fingerprint.startswith(load_encoder(f"hf:{folder}").fingerprint)


def test_a_folder_for_another_model_is_refused_with_both_fingerprints(
    trained: Path, model: ChatModel
) -> None:
    other = replace(model, name="other", fingerprint="hf-chat-other")
    with pytest.raises(UnbagError, match="and this is other \\(hf-chat-other\\)") as raised:
        VLM2VEC.scorers(other, trained)
    assert model.fingerprint in str(raised.value)


def test_a_folder_for_a_chat_model_is_no_head_of_a_dual_encoder(trained: Path) -> None:
    encoder = load_tiny("base")
    with pytest.raises(UnbagError) as caught:
        VLM2VEC.scorers(encoder, trained)
    assert "and tiny:base is a dual encoder" in str(caught.value)
    assert f"--model {read_metadata(trained).base} --scorer vlm2vec@{trained}" in str(caught.value)


def test_damaged_folders_are_refused(trained: Path, model: ChatModel, tmp_path: Path) -> None:
    for name in ("config.json", "adapter.safetensors"):
        (tmp_path / name).write_bytes((trained / name).read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config["adapting"]["lora"] = 4
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnbagError, match="has weights that do not fit llava"):
        load(model, tmp_path)
    (tmp_path / "adapter.safetensors").write_bytes(b"short")
    with pytest.raises(UnbagError, match=r"adapter.safetensors cannot be read"):
        load(model, tmp_path)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("steps=0", "steps=0"),
        ("negatives=-1", "negatives=-1"),
        ("dropout=1.0", "VLM2Vec with dropout=1.0"),
        ("rank=4", "unknown setting 'rank'"),
    ],
)
def test_wrong_settings_are_told_before_anything_is_computed(
    setting: str, said: str, model: ChatModel, tmp_path: Path
) -> None:
    with pytest.raises(UnbagError, match=said):
        train_readout("vlm2vec", model, "world", tmp_path / "out", settings=[setting])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("lora", [8, 0])
def test_a_decoder_on_patches_learns_to_embed_too(lora: int) -> None:
    from .decoder_made import decoder, images

    own = decoder()
    before = bits(own)
    queries = [(image, "Represent the given image") for image in images(4)]
    captions = ["a red star", "a blue moon", "a green ring", "a gray cube"]
    shown = lesson(queries, captions, [[None]] * 4)
    adapted = adapt(own, AdapterSettings(lora=lora, dropout=0.0))
    losses = steps(adapted, Vlm2VecSettings(chunk=3), 20, shown)
    assert losses[-1] < losses[0] / 4
    assert is_same(bits(own), before)
    frozen = [name for name in before if not name.startswith("language.")]
    after = adapted.runner.model.state_dict()
    assert frozen
    assert all(torch.equal(after[name], before[name]) for name in frozen)
