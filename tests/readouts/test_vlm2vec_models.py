"""VLM2Vec without training: a chat model as a dual encoder, and asked with questions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from unbag.api import make_scorers
from unbag.data import PixelImage
from unbag.errors import ImageError, UnbagError
from unbag.evaluation.scoring import PrecomputingScorer
from unbag.models.batching import even
from unbag.models.huggingface.chat import HiddenGenerator
from unbag.readouts.vlm2vec.model import Vlm2Vec, unit
from unbag.readouts.vlm2vec.readout import VLM2VEC, VLM2VEC_PLAIN, AskedCosine, load_encoder
from unbag.runs.progress import Silent
from unbag.scorers.cosine import Cosine
from unbag.types import (
    DualEncoder,
    Ensemble,
    ImageSource,
    Item,
    ItemScorer,
    MatrixScorer,
    Query,
    Question,
)

PLAIN = "Represent the given image"
IMAGES = [
    PixelImage(np.random.default_rng(n).integers(0, 255, shape, dtype=np.uint8))
    for n, shape in enumerate(((40, 60, 3), (60, 30, 3), (33, 33, 3)))
]


@dataclass
class Fake:
    """A chat model whose hidden state follows from what it reads; it counts what it is asked."""

    name: str = "fake"
    fingerprint: str = "fake-1"
    unfit: str = ""
    asked: list[tuple[str | None, str]] = field(default_factory=list)

    def logprobs(
        self, image: ImageSource | None, prompt: str, continuations: Sequence[str]
    ) -> list[list[float]]:
        raise NotImplementedError

    def answer(self, image: ImageSource | None, prompt: str, *, longest: int = 32) -> str:
        raise NotImplementedError

    def last_hidden(self, asks: Sequence[tuple[ImageSource | None, str]]) -> Tensor:
        rows = []
        for image, text in asks:
            key = None if image is None else image.key
            if key is not None and key == self.unfit:
                raise ImageError(key, "too thin")
            self.asked.append((key, text))
            seed = int.from_bytes(f"{key}{text}".encode()[-7:], "big")
            rows.append(torch.randn(5, generator=torch.Generator().manual_seed(seed)) * 90)
        return torch.stack(rows)

    def vector(self, image: ImageSource | None, text: str) -> Tensor:
        return unit(self.last_hidden([(image, text)]))[0]


def item(name: str, captions: tuple[str, ...], *, question: str = "") -> Item:
    truth = np.eye(2, len(captions), dtype=np.bool_)
    asked = Question(question) if question else None
    return Item(name, tuple(IMAGES[:2]), captions, truth, asked)


def test_a_chat_model_is_a_dual_encoder_whatever_the_size_of_images() -> None:
    model = Fake()
    encoder = Vlm2Vec(model)
    assert isinstance(model, HiddenGenerator)
    assert isinstance(encoder, DualEncoder)
    prepared = even([encoder.prepare(image.open()) for image in IMAGES])
    assert len({len(one) for one in prepared}) == 1
    found_ND = encoder.encode_images(torch.stack(list(prepared)))
    assert torch.equal(found_ND, torch.stack([model.vector(p, PLAIN) for p in IMAGES]))
    assert torch.allclose(found_ND.norm(dim=1), torch.ones(3))
    assert {text for _, text in model.asked} == {PLAIN}
    caption_ND = encoder.encode_texts(["a cup", "a box"])
    assert torch.equal(caption_ND[1], model.vector(None, "a box"))
    assert encoder.count_tokens(["a red cup"]) == [3]
    queries = [Query(image, "a cup") for image in IMAGES]
    scores = Cosine(encoder).score(queries)
    assert scores[2] == pytest.approx(float(found_ND[2] @ caption_ND[0]), abs=1e-6)


def test_a_question_without_an_image_has_its_own_instruction() -> None:
    model = Fake()
    found_ND = Vlm2Vec(model).encode_questions(["Is it red?", "Is it {blue}?"])
    asked = "Find the text that can answer the given query: Is it {blue}?"
    assert model.asked[1] == (None, asked)
    assert torch.equal(found_ND[1], model.vector(None, asked))


def test_only_flat_images_are_filled_up() -> None:
    flat = [torch.ones(2), torch.ones(4)]
    assert [one.tolist() for one in even(flat)] == [[1, 1, 0, 0], [1, 1, 1, 1]]
    square = [torch.ones(3, 2, 2), torch.ones(3, 4, 4)]
    assert even(square) is square
    assert even(flat[:1])[0] is flat[0]


def test_an_image_that_the_model_cannot_take_has_no_vector_and_spoils_no_other() -> None:
    model = Fake(unfit=IMAGES[1].key)
    encoder = Vlm2Vec(model)
    prepared = even([encoder.prepare(image.open()) for image in IMAGES])
    with pytest.warns(UserWarning, match="without a vector: too thin"):
        found_ND = encoder.encode_images(torch.stack(list(prepared)))
    assert found_ND.isnan().all(dim=1).tolist() == [False, True, False]
    assert torch.equal(found_ND[2], model.vector(IMAGES[2], PLAIN))


def test_items_are_asked_their_question_and_every_vector_is_made_once() -> None:
    model = Fake()
    (scorer,) = VLM2VEC.scorers(model, None)
    assert isinstance(scorer, AskedCosine)
    assert isinstance(scorer, ItemScorer)
    items = [
        item("a", ("a cup on a box", "a cup under a box")),
        item("b", ("Yes", "No"), question="Is it red?"),
    ]
    first = scorer.score_items(items)
    asked = list(model.asked)
    assert len(asked) == len(set(asked)) == 8
    begin = "Represent the given image with the following question: "
    assert (IMAGES[0].key, f"{begin}Is the cup on or under the box?") in asked
    assert (IMAGES[1].key, f"{begin}Is it red?") in asked
    assert (None, "a cup under a box") in asked
    again = scorer.score_items(items)
    assert model.asked == asked
    assert np.array_equal(first[1].values, again[1].values)  # type: ignore[arg-type]
    image_D = model.vector(IMAGES[1], f"{begin}Is it red?").double()
    assert first[1].values is not None
    assert first[1].values[1, 0] == pytest.approx(
        float(image_D @ model.vector(None, "Yes").double())
    )
    question = Question("Is it red?")
    (one,) = scorer.score([Query(IMAGES[1], "Yes", question)])
    assert one == pytest.approx(first[1].values[1, 0])


def test_without_a_question_the_plain_instruction_is_used_and_that_is_said_once() -> None:
    model = Fake()
    scorer = AskedCosine(model)
    both = [item("first", ("a cup", "a box")), item("second", ("a jar", "a hat"))]
    with pytest.warns(UserWarning, match="no question, such as 'first'") as said:
        plain = scorer.score_items(both)
    assert len(said) == 1
    scorer.score_items([item("third", ("a cup", "a jar"))])
    assert {text for key, text in model.asked if key} == {PLAIN}
    vectors = torch.stack([model.vector(p, PLAIN) for p in IMAGES[:2]]).double()
    captions = torch.stack([model.vector(None, c) for c in ("a cup", "a box")]).double()
    assert np.allclose(plain[0].values, (vectors @ captions.T).numpy())  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:.*no question")
def test_galleries_are_not_asked_and_ensembles_are_averaged() -> None:
    model = Fake()
    scorer = AskedCosine(model)
    captions = ("a cup", Ensemble("box", ("a box", "the box")), "a hat")
    assert isinstance(scorer, MatrixScorer)
    score_PC = scorer.score_matrix(IMAGES, captions)
    (dense,) = scorer.score_items([Item("s", tuple(IMAGES), captions, np.eye(3, dtype=bool))])
    assert np.allclose(score_PC, dense.values, atol=1e-6)  # type: ignore[arg-type]
    both = unit((model.vector(None, "a box") + model.vector(None, "the box"))[None])[0]
    cosine = float(model.vector(IMAGES[0], PLAIN) @ both)
    assert float(score_PC[0, 1]) == pytest.approx(cosine, abs=1e-6)


def test_vectors_are_kept_on_disk_by_image_and_question(tmp_path: Path) -> None:
    one = item("b", ("Yes", "No"), question="Is it red?")
    model, again = Fake(), Fake()
    for fake, asked in ((model, 4), (again, 0)):
        scorer = AskedCosine(fake)
        assert isinstance(scorer, PrecomputingScorer)
        scorer.precompute([], [], cache=tmp_path, progress=Silent())
        scorer.score_items([one])
        assert len(fake.asked) == asked
    scorer.score_items([item("b", ("Yes", "No"), question="Is it blue?")])
    assert len(again.asked) == 2
    (other,) = tmp_path.iterdir()
    assert other.name == "fake-1-vlm2vec-asked1-cpu"


def test_scorers_are_found_by_name_and_kept_apart() -> None:
    model = Fake()
    (asked,) = make_scorers(model, "vlm2vec")
    (plain,) = make_scorers(model, "vlm2vec_plain")
    assert isinstance(plain, Cosine)
    assert (asked.name, plain.name) == ("fake (vlm2vec, asked)", "fake (vlm2vec)")
    assert len({asked.fingerprint, plain.fingerprint, model.fingerprint}) == 3
    assert asked.scoring == "vlm2vec, with the question"


class Mute:
    """A chat model behind a server: it answers and shows nothing."""

    name = "mute"
    fingerprint = "mute-1"


def test_what_has_no_hidden_state_is_refused(tmp_path: Path) -> None:
    model: object = Mute()
    for readout in (VLM2VEC, VLM2VEC_PLAIN):
        with pytest.raises(UnbagError, match="mute returns no hidden state of a prompt"):
            readout.scorers(model, None)  # type: ignore[arg-type]
        with pytest.raises(UnbagError, match="mute has no language model whose weights") as refused:
            readout.scorers(model, tmp_path)  # type: ignore[arg-type]
        assert "`unbag train --readout decoder`" in refused.value.hint
    with pytest.raises(UnbagError, match="base returns no hidden state") as error:
        load_encoder("tiny:base")
    assert "name one with --model or vlm2vec:" in error.value.hint
    with pytest.raises(UnbagError, match="holds no trained VLM2Vec"):
        load_encoder(str(tmp_path))
