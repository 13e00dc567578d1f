"""Maps of words on real chat models with random weights: shapes, numbers by hand, the page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.models.huggingface.chat import ChatModel, load_chat
from unbag.models.loading import Model
from unbag.models.server import load
from unbag.probes.base import Options, ProbeData
from unbag.probes.data import world_probe_data
from unbag.probes.diagnosis.diagnose import Diagnosis, DiagnosisConfig, examine
from unbag.probes.diagnosis.page import render_diagnosis
from unbag.probes.maps import GRID, WHOLE, covered, covered_maps
from unbag.readouts.decoder.occlusion import PROMPT
from unbag.readouts.vlm2vec.readout import AskedCosine, load_encoder
from unbag.scorers.chat import YES
from unbag.types import ImageSource, Query, Question, Scorer

from .local_chat import Chat, served

ChatFolder = Callable[[str], Path]
CAPTION = "a cup left of a table"
CELLS = (0, 8, 35)
"""Those that are run again alone."""
SHARING = ("llava", "qwen2_vl", "qwen2_5_vl", "smolvlm", "internvl")
OTHERS = ("llava_next", "qwen3_vl", "idefics2", "idefics3", "paligemma", "instructblip")


@pytest.fixture(scope="module")
def llava(chat_folder: ChatFolder) -> ChatModel:
    return load_chat(str(chat_folder("llava")))


def asked(model: Model, scorer: Scorer | None = None) -> Diagnosis:
    every = world_probe_data()
    few = ProbeData("few", every.rows[:2], every.pairs[:2])
    options = Options(resamples=100)
    return examine(
        DiagnosisConfig(
            model, scorer=scorer, material=few, probes=(), options=options, has_random_init=False
        )
    )


@pytest.mark.parametrize("family", [*SHARING, *OTHERS])
def test_map_of_a_word_is_the_drop_of_its_logprob(
    family: str, chat_folder: ChatFolder, images: list[PixelImage]
) -> None:
    model = load_chat(str(chat_folder(family)))
    image = images[0]
    found = covered_maps(YES(model), image, CAPTION)
    assert [one.word for one in found.maps] == CAPTION.split()
    map_NL = np.array([np.ravel(one.values) for one in found.maps])
    assert map_NL.shape == (len(CAPTION.split()), GRID**2)
    assert np.abs(map_NL).max() > 0.001

    def log(shown: ImageSource) -> float:
        return sum(model.logprobs(shown, PROMPT, [CAPTION])[0])

    # Logarithms of all words add up to that of the caption, so their maps do too.
    painted = list(covered(image))[1:]
    by_hand = [log(image) - log(painted[at]) for at in CELLS]
    assert map_NL.sum(axis=0)[list(CELLS)] == pytest.approx(by_hand, abs=2e-3)


@dataclass
class Wrapped:
    """The same chat model, of which nothing is known but its answers."""

    model: ChatModel
    name: str = "wrapped"
    fingerprint: str = "wrapped-1"

    def logprobs(
        self, image: ImageSource | None, prompt: str, continuations: Sequence[str]
    ) -> list[list[float]]:
        return self.model.logprobs(image, prompt, continuations)

    def answer(self, image: ImageSource | None, prompt: str, *, longest: int = 32) -> str:
        return self.model.answer(image, prompt, longest=longest)


def test_words_from_prefixes_equal_words_from_tokens(
    llava: ChatModel, images: list[PixelImage]
) -> None:
    own = covered_maps(YES(llava), images[0], CAPTION)
    other = covered_maps(YES(Wrapped(llava)), images[0], CAPTION)
    assert [one.word for one in own.maps] == [one.word for one in other.maps]
    assert [one.whole for one in own.maps] == [one.whole for one in other.maps]
    for mine, theirs in zip(own.maps, other.maps, strict=True):
        assert np.allclose(mine.values, theirs.values, atol=1e-3)


@pytest.mark.parametrize("family", ["llava", "qwen2_vl", "smolvlm"])
def test_map_of_a_caption_is_the_drop_of_the_score(
    family: str, chat_folder: ChatFolder, images: list[PixelImage]
) -> None:
    scorer = AskedCosine(load_chat(str(chat_folder(family))))
    image = images[1]
    found = covered_maps(scorer, image, CAPTION)
    assert [one.word for one in found.maps] == [WHOLE, *CAPTION.split()]
    question = Question("Is the cup to the left of or to the right of the table?")
    shown = [image, *(list(covered(image))[1 + at] for at in CELLS)]
    whole, *less = scorer.score([Query(one, CAPTION, question) for one in shown]).tolist()
    values = np.ravel(found.maps[0].values)
    assert values[list(CELLS)] == pytest.approx([whole - one for one in less], abs=2e-4)
    assert found.maps[0].whole == f"cosine {whole:.3f}"


def test_diagnosis_of_a_chat_model_has_maps(llava: ChatModel) -> None:
    found = asked(llava)
    assert [one.title for one in found.maps] == [llava.name] * len(found.maps)
    assert found.maps
    assert found.notes == ()
    page = render_diagnosis(found)
    assert "painted with the mean colour of the image" in page
    assert "asked: “Describe the picture in one sentence.”" in page


def test_diagnosis_of_vlm2vec_has_maps(llava: ChatModel, chat_folder: ChatFolder) -> None:
    as_scorer = asked(llava, AskedCosine(llava))
    as_model = asked(load_encoder(f"hf:{chat_folder('llava')}"))
    for found in (as_scorer, as_model):
        assert found.maps
        assert all(one.maps[0].word == WHOLE for one in found.maps)
        assert found.notes == ()


def test_no_map_of_vlm2vec_without_hidden_states(
    chat_folder: ChatFolder,
) -> None:
    model = load_chat(str(chat_folder("instructblip")))
    found = asked(model, AskedCosine(model))
    assert found.maps == ()
    assert found.notes[0].startswith("no map of words over patches: ")
    assert "is an InstructBLIP" in found.notes[0]


def test_no_maps_of_servers() -> None:
    pytest.importorskip("httpx")
    with served(Chat()) as chat:
        model = load(f"some/thing@{chat.url}")
        found = asked(model)
        with pytest.raises(UnbagError, match="is behind a server") as error:
            covered_maps(YES(model), world_probe_data().rows[0].image, CAPTION)
    assert error.value.expected == "a chat model on this machine, such as hf:FOLDER"
    assert chat.bodies == []
    assert found.maps == ()
    assert found.notes == (
        f"no map of words over patches: {model.name} is behind a server, which gives the "
        "probability of one token only, not of a caption",
    )
